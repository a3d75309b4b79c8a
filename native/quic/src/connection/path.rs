//! The network path to the client: address, round-trip time, and congestion (RFC 9000, sections 8
//! and 9).

use crate::cubic::Cubic;
use crate::ecn::Marking;
use crate::mtu::Mtu;
use crate::pacer::Pacer;
use crate::rtt::Rtt;
use crate::token::random;
use std::net::{IpAddr, SocketAddr};

/// The most bytes sent to an address without validation, per byte received from it (section 8.1).
pub const AMPLIFICATION: u64 = 3;

#[derive(Clone)]
pub struct Path {
    pub remote: SocketAddr,
    /// The local address that the client uses.
    pub local: Option<IpAddr>,
    pub validated: bool,
    received: u64,
    sent: u64,
    /// The data of a PATH_CHALLENGE, and whether it must be sent.
    pub challenge: Option<([u8; 8], bool)>,
    /// The first packet that was sent on the path.
    pub first: u64,
    pub rtt: Rtt,
    pub cubic: Cubic,
    pub pacer: Pacer,
    pub mtu: Mtu,
    pub marking: Marking,
}

impl Path {
    /// A new path; packets of up to `mtu` bytes are useful. `ecn`: outgoing packets can be marked.
    pub fn new(remote: SocketAddr, local: Option<IpAddr>, mtu: u16, ecn: bool) -> Self {
        let mtu = Mtu::new(mtu);
        Self {
            remote,
            local,
            validated: false,
            received: 0,
            sent: 0,
            challenge: None,
            first: 0,
            rtt: Rtt::default(),
            cubic: Cubic::new(mtu.current().into()),
            pacer: Pacer::default(),
            mtu,
            marking: Marking::new(ecn),
        }
    }

    /// Count a received datagram.
    #[inline]
    pub fn on_received(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
    }

    /// Count a sent datagram.
    #[inline]
    pub fn on_sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes as u64);
    }

    /// The bytes that may be sent to an address without validation.
    #[inline]
    pub fn allowance(&self) -> usize {
        if self.validated {
            return usize::MAX;
        }
        let allowed = self.received.saturating_mul(AMPLIFICATION);
        usize::try_from(allowed.saturating_sub(self.sent)).unwrap_or(usize::MAX)
    }

    /// Start path validation.
    pub fn ask(&mut self) {
        self.challenge = Some((random(), true));
    }
}
