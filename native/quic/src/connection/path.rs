//! The way to the client and back: address, round trips, congestion (RFC 9000, sections 8 and 9).

use crate::cubic::Cubic;
use crate::ecn::Marking;
use crate::mtu::Mtu;
use crate::pacer::Pacer;
use crate::rtt::Rtt;
use crate::token::random;
use std::net::{IpAddr, SocketAddr};

/// What an address that is not validated gets for each byte that comes from it (section 8.1).
pub const AMPLIFICATION: u64 = 3;

#[derive(Clone)]
pub struct Path {
    pub remote: SocketAddr,
    /// Which of our addresses the client writes to.
    pub local: Option<IpAddr>,
    pub validated: bool,
    received: u64,
    sent: u64,
    /// What a PATH_RESPONSE must repeat, and whether it is to be sent.
    pub challenge: Option<([u8; 8], bool)>,
    /// The first packet that was sent on it.
    pub first: u64,
    pub rtt: Rtt,
    pub cubic: Cubic,
    pub pacer: Pacer,
    pub mtu: Mtu,
    pub marking: Marking,
}

impl Path {
    /// A new one; packets of up to `mtu` bytes are of use. `ecn`: what goes out can be marked.
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

    /// A datagram came.
    #[inline]
    pub fn on_received(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
    }

    /// A datagram went out.
    #[inline]
    pub fn on_sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes as u64);
    }

    /// Bytes that may be sent to an address that may be somebody else's.
    #[inline]
    pub fn allowance(&self) -> usize {
        if self.validated {
            return usize::MAX;
        }
        let allowed = self.received.saturating_mul(AMPLIFICATION);
        usize::try_from(allowed.saturating_sub(self.sent)).unwrap_or(usize::MAX)
    }

    /// Has the client show that it is there.
    pub fn ask(&mut self) {
        self.challenge = Some((random(), true));
    }
}
