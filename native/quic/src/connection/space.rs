//! A packet number space (RFC 9000, section 12.3): received packets, and packets in flight.

use crate::ecn::{Counts, Ecn, Marked};
use crate::ranges::Ranges;
use crate::recovery::SentPackets;
use crate::streams::{Assembler, SendBuffer};
use rustls::quic::Keys;
use std::time::{Duration, Instant};

/// The most ranges in an acknowledgment; the lowest are dropped (RFC 9000, section 13.2.3).
const MAX_RANGES: usize = 32;
/// The number of packets below the largest acknowledged acknowledgment that are still reported.
/// Later packets are a round trip late and were sent again; dropping them keeps acknowledgments
/// short.
const REORDERING: u64 = 8;
/// The number of ack-eliciting packets after which an acknowledgment is sent (RFC 9000, section
/// 13.2.2).
const ACK_EVERY: u32 = 2;
/// The longest delay of an acknowledgment: the default max_ack_delay.
pub const ACK_DELAY: Duration = Duration::from_millis(25);

/// Encryption levels, by index of their packet number space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Initial,
    Handshake,
    Data,
}

#[derive(Default)]
pub struct Space {
    /// The keys of Initial and Handshake packets while they are in use.
    pub keys: Option<Keys>,
    pub received: Ranges,
    /// The ECN marks of received packets.
    pub marks: Counts,
    /// Packets below were received, or are too late.
    floor: u64,
    /// The arrival time of the largest packet.
    largest_at: Option<Instant>,
    /// The number of ack-eliciting packets without acknowledgment.
    waiting: u32,
    pub ack_now: bool,
    pub ack_at: Option<Instant>,
    pub sent: SentPackets,
    pub marked: Marked,
    pub largest_acked: Option<u64>,
    pub loss_at: Option<Instant>,
    /// The time of the last sent ack-eliciting packet.
    pub eliciting_at: Option<Instant>,
    /// The number of packets to send regardless of the congestion window.
    pub probes: u8,
    pub crypto_in: Assembler,
    pub crypto_out: SendBuffer,
}

impl Space {
    /// The expected next packet number.
    pub fn expected(&self) -> u64 {
        self.received.last().map_or(self.floor, |last| last.end)
    }

    /// Whether a packet was, or may have been, received before.
    #[inline]
    pub fn was_seen(&self, number: u64) -> bool {
        number < self.floor || self.received.contains(number)
    }

    /// Record a received packet. `eliciting`: it requires an acknowledgment; `at_once`: without
    /// delay. `true` if it has the highest number so far.
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
            // Report gaps and congestion at once, so that retransmissions come soon (section
            // 13.2.1).
            self.ack_now |=
                at_once || ecn == Ecn::Ce || number != expected || self.waiting >= ACK_EVERY;
            self.ack_at.get_or_insert(now + ACK_DELAY);
        }
        number >= expected
    }

    /// Whether the next packet should contain an acknowledgment.
    #[inline]
    pub fn wants_ack(&self) -> bool {
        self.waiting > 0
    }

    /// The delay of an acknowledgment that is written now.
    pub fn ack_delay(&self, now: Instant) -> Duration {
        let at = self.largest_at.unwrap_or(now);
        now.saturating_duration_since(at)
    }

    /// The acknowledgment was sent. Returns its largest packet number.
    pub fn ack_sent(&mut self) -> u64 {
        self.waiting = 0;
        self.ack_now = false;
        self.ack_at = None;
        self.expected().saturating_sub(1)
    }

    /// An acknowledgment up to this packet was acknowledged: far lower packets need no further
    /// reports.
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
