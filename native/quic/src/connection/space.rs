//! A packet number space (RFC 9000, section 12.3): what came in it, what is under way.

use crate::ecn::{Counts, Ecn, Marked};
use crate::ranges::Ranges;
use crate::recovery::SentPackets;
use crate::streams::{Assembler, SendBuffer};
use rustls::quic::Keys;
use std::time::{Duration, Instant};

/// Ranges of packets that are acknowledged; the lowest are forgotten (RFC 9000, section 13.2.3).
const MAX_RANGES: usize = 32;
/// Packets below the largest whose acknowledgement arrived that are still told apart. What comes later than that is
/// a round trip behind, and was sent again: not to tell of it keeps acknowledgements short.
const REORDERING: u64 = 8;
/// Packets that ask for acknowledgement until it is sent (RFC 9000, section 13.2.2).
const ACK_EVERY: u32 = 2;
/// How long an acknowledgement waits for something to ride on: what we announce by default.
pub const ACK_DELAY: Duration = Duration::from_millis(25);

/// Packets protected alike, by their index in a connection's spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Initial,
    Handshake,
    Data,
}

#[derive(Default)]
pub struct Space {
    /// Of Initial and Handshake packets, while they are in use.
    pub keys: Option<Keys>,
    pub received: Ranges,
    /// The marks they had.
    pub marks: Counts,
    /// Packets below were seen, or came too late.
    floor: u64,
    /// When the largest came.
    largest_at: Option<Instant>,
    /// Packets that ask for an acknowledgement that was not sent.
    waiting: u32,
    pub ack_now: bool,
    pub ack_at: Option<Instant>,
    pub sent: SentPackets,
    pub marked: Marked,
    pub largest_acked: Option<u64>,
    pub loss_at: Option<Instant>,
    /// When the last packet was sent that asks for an acknowledgement.
    pub eliciting_at: Option<Instant>,
    /// Packets to send whatever the congestion window says.
    pub probes: u8,
    pub crypto_in: Assembler,
    pub crypto_out: SendBuffer,
}

impl Space {
    /// The number that the next packet should have.
    pub fn expected(&self) -> u64 {
        self.received.last().map_or(self.floor, |last| last.end)
    }

    /// Whether a packet came before, or may have.
    #[inline]
    pub fn was_seen(&self, number: u64) -> bool {
        number < self.floor || self.received.contains(number)
    }

    /// A packet came. `eliciting`: it asks for an acknowledgement; `at_once`: without delay. True
    /// when it is the highest so far.
    #[inline]
    pub fn on_received(
        &mut self,
        now: Instant,
        number: u64,
        ecn: Ecn,
        eliciting: bool,
        at_once: bool,
    ) -> bool {
        self.marks.add(ecn);
        let expected = self.expected();
        self.received.insert(number..number + 1);
        if self.received.len() > MAX_RANGES {
            if let Some(lowest) = self.received.pop_first() {
                self.floor = lowest.end;
            }
        }
        if number >= expected {
            self.largest_at = Some(now);
        }
        if eliciting {
            self.waiting += 1;
            // Gaps are told at once, so that what fills them comes soon, and congestion (section 13.2.1).
            self.ack_now |=
                at_once || ecn == Ecn::Ce || number != expected || self.waiting >= ACK_EVERY;
            self.ack_at.get_or_insert(now + ACK_DELAY);
        }
        number >= expected
    }

    /// Whether an acknowledgement is to go out with whatever does.
    #[inline]
    pub fn wants_ack(&self) -> bool {
        self.waiting > 0
    }

    /// An acknowledgement was written: the largest packet in it, and how long it waited.
    pub fn ack_delay(&self, now: Instant) -> Duration {
        let at = self.largest_at.unwrap_or(now);
        now.saturating_duration_since(at)
    }

    /// The acknowledgement is sent; the largest packet in it.
    pub fn ack_sent(&mut self) -> u64 {
        self.waiting = 0;
        self.ack_now = false;
        self.ack_at = None;
        self.expected().saturating_sub(1)
    }

    /// An acknowledgement up to this packet arrived: what is far below need not be told again.
    #[inline]
    pub fn ack_arrived(&mut self, largest: u64) {
        self.floor = self.floor.max(largest.saturating_sub(REORDERING));
        self.received.remove_below(self.floor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_below_an_acknowledgement_that_arrived_is_not_told_again() {
        let (mut space, now) = (Space::default(), Instant::now());
        for number in (0..20).chain(21..50) {
            space.on_received(now, number, Ecn::None, true, false);
        }
        assert_eq!(space.received.len(), 2);
        space.ack_arrived(25);
        let told = |space: &Space| {
            space
                .received
                .iter()
                .map(|r| (r.start, r.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&space), [(17, 20), (21, 50)]);
        assert!(!space.was_seen(20), "it may come yet");
        space.ack_arrived(40);
        space.ack_arrived(30);
        assert_eq!(told(&space), [(32, 50)]);
        assert!(space.was_seen(20) && space.was_seen(31) && space.was_seen(49));
        assert!(!space.was_seen(50));
    }
}
