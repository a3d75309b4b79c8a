//! Packet protection (RFC 9001, section 5) and key updates (section 6).

use crate::error::{Error, Reason};
use crate::packet::{KEY_PHASE, LONG, SAMPLE_END, TAG};
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Secrets};
use std::time::{Duration, Instant};

/// The packets after which keys are updated, far below the limit of AES-GCM (RFC 9001, section
/// 6.6).
const PACKETS_PER_KEY: u64 = 1 << 22;

/// A header without its protection.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    pub first: u8,
    /// The truncated packet number, and its length in bytes.
    pub number: u64,
    pub number_len: usize,
}

/// Remove the header protection of a packet whose number begins at `number_at`; `None` if it is too
/// short.
#[inline]
pub fn unprotect(
    key: &dyn HeaderProtectionKey,
    packet: &mut [u8],
    number_at: usize,
) -> Option<Opened> {
    if packet.len() < number_at + SAMPLE_END {
        return None;
    }
    let (head, sample) = packet.split_at_mut(number_at + 4);
    let (first, rest) = head.split_first_mut()?;
    let number = &mut rest[number_at - 1..];
    key.decrypt_in_place(&sample[..key.sample_len()], first, number)
        .ok()?;
    let first = packet[0];
    let number_len = usize::from(first & 3) + 1;
    let number = packet[number_at..number_at + number_len].iter();
    let number = number.fold(0, |n, b| n << 8 | u64::from(*b));
    Some(Opened {
        first,
        number,
        number_len,
    })
}

/// The bits of the unprotected first byte that must be 0.
pub fn reserved(first: u8) -> u8 {
    match first & LONG {
        0 => first & 0x18,
        _ => first & 0x0c,
    }
}

/// Encrypt the packet at the end of `out` from `start` on, with its payload from `payload_at` on.
#[inline]
pub fn seal(
    packet_key: &dyn PacketKey,
    header_key: &dyn HeaderProtectionKey,
    out: &mut Vec<u8>,
    at: Positions,
    number: u64,
) -> Result<(), Error> {
    let (head, payload) = out[at.start..].split_at_mut(at.payload - at.start);
    let failed = |_| Error::new(Reason::Internal, "a packet could not be sealed");
    let tag = packet_key
        .encrypt_in_place(number, head, payload)
        .map_err(failed)?;
    out.extend_from_slice(tag.as_ref());
    let (head, sample) = out[at.start..].split_at_mut(at.number - at.start + 4);
    let (first, rest) = head.split_at_mut(1);
    let number_field = &mut rest[at.number - at.start - 1..];
    let number_len = at.payload - at.number;
    let sample = &sample[..header_key.sample_len()];
    header_key
        .encrypt_in_place(sample, &mut first[0], &mut number_field[..number_len])
        .map_err(failed)
}

/// The positions of a packet's parts in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Positions {
    pub start: usize,
    pub number: usize,
    pub payload: usize,
}

/// The keys of 1-RTT packets.
pub struct OneRtt {
    local_header: Box<dyn HeaderProtectionKey>,
    remote_header: Box<dyn HeaderProtectionKey>,
    now: PacketKeySet,
    next: PacketKeySet,
    secrets: Secrets,
    /// The previous keys, for packets sent before the client's key update, and the time until they
    /// are kept.
    previous: Option<(Box<dyn PacketKey>, Option<Instant>)>,
    phase: bool,
    /// The first packet received in this key phase, and the first sent in it.
    phase_received: u64,
    phase_sent: Option<u64>,
    /// Whether a packet of ours in this key phase was acknowledged.
    confirmed: bool,
    sealed: u64,
    /// The most packets to encrypt with one key.
    limit: u64,
}

impl OneRtt {
    /// Start with the keys from TLS.
    pub fn new(keys: Keys, mut next: Secrets) -> Self {
        Self {
            limit: keys.local.packet.confidentiality_limit(),
            local_header: keys.local.header,
            remote_header: keys.remote.header,
            now: PacketKeySet {
                local: keys.local.packet,
                remote: keys.remote.packet,
            },
            next: next.next_packet_keys(),
            secrets: next,
            previous: None,
            phase: false,
            phase_received: 0,
            phase_sent: None,
            confirmed: false,
            sealed: 0,
        }
    }

    /// The key phase bit of outgoing packets.
    pub fn phase_bit(&self) -> u8 {
        if self.phase {
            KEY_PHASE
        } else {
            0
        }
    }

    /// Remove the header protection.
    #[inline]
    pub fn unprotect(&self, packet: &mut [u8], number_at: usize) -> Option<Opened> {
        unprotect(&*self.remote_header, packet, number_at)
    }

    /// Decrypt packet `number`. Returns the length of its payload.
    ///
    /// # Errors
    /// `None` for a packet that is not the client's and must be ignored.
    pub fn open(&mut self, number: u64, header: &[u8], payload: &mut [u8]) -> Option<usize> {
        let len = payload.len().checked_sub(TAG)?;
        let same = (header[0] & KEY_PHASE != 0) == self.phase;
        let key = if same {
            &self.now.remote
        } else {
            match &self.previous {
                Some((key, _)) if number < self.phase_received => key,
                _ => &self.next.remote,
            }
        };
        let by_next = !same && (self.previous.is_none() || number >= self.phase_received);
        key.decrypt_in_place(number, header, payload).ok()?;
        if by_next {
            self.change();
        }
        if same || by_next {
            let first = if by_next {
                number
            } else {
                self.phase_received.min(number)
            };
            self.phase_received = first;
        }
        Some(len)
    }

    /// Switch to the next keys (RFC 9001, section 6.1).
    fn change(&mut self) {
        let next = std::mem::replace(&mut self.next, self.secrets.next_packet_keys());
        let old = std::mem::replace(&mut self.now, next);
        self.previous = Some((old.remote, None));
        self.phase = !self.phase;
        self.phase_sent = None;
        self.phase_received = u64::MAX;
        self.confirmed = false;
        self.sealed = 0;
    }

    /// Encrypt packet `number`.
    ///
    /// # Errors
    /// The key has encrypted too many packets.
    #[inline]
    pub fn seal(&mut self, out: &mut Vec<u8>, at: Positions, number: u64) -> Result<(), Error> {
        self.phase_sent.get_or_insert(number);
        self.sealed += 1;
        if self.sealed > self.limit {
            return Err(Error::new(Reason::AeadLimitReached, "the key is used up"));
        }
        seal(&*self.now.local, &*self.local_header, out, at, number)
    }

    /// Update the keys if they have encrypted many packets. Call this before a packet is begun.
    pub fn renew(&mut self) {
        if self.sealed >= PACKETS_PER_KEY && self.confirmed && self.previous.is_none() {
            self.change();
        }
    }

    /// Record the acknowledgment of packet `number`.
    #[inline]
    pub fn acked(&mut self, number: u64) {
        self.confirmed |= self.phase_sent.is_some_and(|first| number >= first);
    }

    /// Drop old keys in time (RFC 9001, section 6.5).
    #[inline]
    pub fn forget_old(&mut self, now: Instant, keep: impl FnOnce() -> Duration) {
        if let Some((_, until)) = &mut self.previous {
            if *until.get_or_insert_with(|| now + keep()) <= now {
                self.previous = None;
            }
        }
    }

    /// The number of undecryptable packets at which the connection must end (RFC 9001, section
    /// 6.6).
    pub fn integrity_limit(&self) -> u64 {
        self.now.remote.integrity_limit()
    }
}

/// Decrypt packet `number` with keys that never change.
pub fn open(
    keys: &DirectionalKeys,
    number: u64,
    header: &[u8],
    payload: &mut [u8],
) -> Option<usize> {
    let opened = keys.packet.decrypt_in_place(number, header, payload);
    opened.ok().map(<[u8]>::len)
}
