//! Tracks packets in flight, acknowledgments, and losses (RFC 9002).

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The distance to a later acknowledged packet at which a packet counts as lost (RFC 9002, section
/// 6.1.1).
const PACKET_THRESHOLD: u64 = 3;

/// Content of a packet that may have to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Crypto {
        offset: u64,
        len: u32,
    },
    Stream {
        id: u64,
        offset: u64,
        len: u32,
        fin: bool,
    },
    ResetStream(u64),
    StopSending(u64),
    MaxStreamData(u64),
    MaxData,
    MaxStreams {
        uni: bool,
    },
    NewId(u64),
    RetireId(u64),
    HandshakeDone,
    NewToken,
    /// An acknowledgment of packets up to this one.
    Ack(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The packet waits for its acknowledgment.
    InFlight,
    /// The packet requires no acknowledgment.
    Quiet,
    /// The number was skipped: a peer that acknowledges it did not receive it (RFC 9000, section
    /// 21.4).
    Skipped,
    Acked,
    Lost,
}

/// A sent packet.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: Instant,
    pub size: u16,
    /// Whether it was marked as ECN-capable.
    marked: bool,
    state: State,
    count: u16,
    contents: u64,
}

/// The packets of a space, from the first in flight on.
#[derive(Debug, Default)]
pub struct SentPackets {
    base: u64,
    packets: VecDeque<Sent>,
    contents: VecDeque<Content>,
    contents_base: u64,
    /// The number of contents in the packet being written.
    open: u16,
    /// The number of packets in flight.
    in_flight: usize,
}

/// Acknowledged or lost packets; the memory is reused.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Their numbers, times, and sizes.
    pub packets: Vec<(u64, Instant, u16)>,
    /// Their contents.
    pub contents: Vec<Content>,
    /// The number of marked ones.
    pub marked: u64,
    /// Whether the losses indicate persistent congestion.
    pub persistent: bool,
}

impl Outcome {
    /// Empty the lists.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.contents.clear();
        self.marked = 0;
        self.persistent = false;
    }
}

/// The most packets kept from the first in flight on. A full send window needs a quarter of this;
/// only a client that acknowledges nothing but elicits acknowledgments reaches it.
const MAX_PACKETS: usize = 8192;

/// An acknowledgment of a packet that was never sent.
#[derive(Debug, PartialEq, Eq)]
pub struct NeverSent;

impl SentPackets {
    /// The next packet number.
    pub fn next(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// Whether the client leaves too many packets unacknowledged.
    pub fn is_full(&self) -> bool {
        self.packets.len() >= MAX_PACKETS
    }

    /// Whether packets wait for their acknowledgment.
    pub fn any_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// Record content of the packet being written.
    #[inline]
    pub fn carry(&mut self, content: Content) {
        self.contents.push_back(content);
        self.open += 1;
    }

    /// Record the packet as sent; `in_flight`: it is ack-eliciting or padded; `marked`: it has
    /// ECT(0).
    #[inline]
    pub fn push(&mut self, at: Instant, size: u16, in_flight: bool, marked: bool) {
        let state = if in_flight {
            State::InFlight
        } else {
            State::Quiet
        };
        self.in_flight += usize::from(in_flight);
        let count = std::mem::take(&mut self.open);
        let contents = self.contents_base + (self.contents.len() - usize::from(count)) as u64;
        self.packets.push_back(Sent {
            at,
            size,
            marked,
            state,
            count,
            contents,
        });
        if !in_flight && self.in_flight == 0 {
            // Packets that require no acknowledgment can be dropped.
            self.trim();
        }
    }

    /// Skip a packet number.
    pub fn skip(&mut self, at: Instant) {
        let contents = self.contents_base + self.contents.len() as u64;
        let state = State::Skipped;
        self.packets.push_back(Sent {
            at,
            size: 0,
            marked: false,
            state,
            count: 0,
            contents,
        });
    }

    fn contents_of(&self, sent: &Sent) -> impl Iterator<Item = &Content> {
        let start = (sent.contents - self.contents_base) as usize;
        self.contents.range(start..start + usize::from(sent.count))
    }

    fn settle(&mut self, index: usize, state: State, out: &mut Outcome) {
        let sent = self.packets[index];
        self.packets[index].state = state;
        out.marked += u64::from(sent.marked);
        if sent.state == State::InFlight {
            self.in_flight -= 1;
            out.packets
                .push((self.base + index as u64, sent.at, sent.size));
        }
        let start = (sent.contents - self.contents_base) as usize;
        let contents = self.contents.range(start..start + usize::from(sent.count));
        out.contents.extend(contents.copied());
    }

    /// Handle acknowledged packets: those acknowledged for the first time are added to `out`.
    pub fn acked(&mut self, range: Range<u64>, out: &mut Outcome) -> Result<(), NeverSent> {
        if range.end > self.next() {
            return Err(NeverSent);
        }
        for number in range.start.max(self.base)..range.end.max(self.base) {
            let index = (number - self.base) as usize;
            match self.packets[index].state {
                State::Skipped => return Err(NeverSent),
                State::InFlight | State::Quiet => self.settle(index, State::Acked, out),
                State::Acked | State::Lost => {}
            }
        }
        Ok(())
    }

    /// Detect lost packets after the acknowledgment of `acked`. Returns the time of the next loss
    /// without further acknowledgments. `long`: losses over a longer time are persistent
    /// congestion.
    pub fn detect(
        &mut self,
        now: Instant,
        acked: u64,
        delay: Duration,
        long: impl Fn() -> Option<Duration>,
        out: &mut Outcome,
    ) -> Option<Instant> {
        let mut run: Option<Instant> = None;
        let end = (acked + 1).saturating_sub(self.base) as usize;
        let mut next = None;
        for index in 0..end.min(self.packets.len()) {
            let sent = self.packets[index];
            match sent.state {
                State::Acked => run = None,
                State::InFlight => {
                    let number = self.base + index as u64;
                    let due = sent.at + delay;
                    if number + PACKET_THRESHOLD > acked && due > now {
                        next = Some(due);
                        break;
                    }
                    self.settle(index, State::Lost, out);
                    let start = *run.get_or_insert(sent.at);
                    out.persistent |= long().is_some_and(|long| sent.at - start > long);
                }
                _ => {}
            }
        }
        self.trim();
        next
    }

    /// Drop the oldest packets that are no longer needed.
    fn trim(&mut self) {
        while let Some(sent) = self.packets.front() {
            // Keep the last one: a skipped number must be known until others follow it.
            if sent.state == State::InFlight || self.packets.len() <= 1 {
                break;
            }
            let count = u64::from(sent.count);
            self.contents.drain(..count as usize);
            self.contents_base += count;
            self.base += 1;
            self.packets.pop_front();
        }
    }

    /// The contents of the oldest packet in flight with content that is `wanted`.
    pub fn oldest(&self, wanted: impl Fn(&Content) -> bool) -> Vec<Content> {
        let in_flight = self
            .packets
            .iter()
            .filter(|sent| sent.state == State::InFlight);
        let carried = in_flight.map(|sent| self.contents_of(sent));
        for contents in carried {
            let found: Vec<_> = contents.copied().filter(&wanted).collect();
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// Drop all packets. Returns the bytes in flight.
    pub fn abandon(&mut self) -> u64 {
        let in_flight = self.packets.iter().filter(|s| s.state == State::InFlight);
        let bytes = in_flight.map(|sent| u64::from(sent.size)).sum();
        let next = self.next();
        *self = Self {
            base: next,
            ..Self::default()
        };
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(100);

    fn sent(count: u64, at: Instant) -> SentPackets {
        let mut packets = SentPackets::default();
        for n in 0..count {
            packets.carry(Content::NewId(n));
            packets.push(at, 1000, true, false);
        }
        packets
    }

    fn numbers(out: &Outcome) -> Vec<u64> {
        out.packets.iter().map(|(number, ..)| *number).collect()
    }

    #[test]
    fn packets_are_acknowledged_once() {
        let now = Instant::now();
        let (mut packets, mut out) = (sent(5, now), Outcome::default());
        packets.acked(1..3, &mut out).unwrap();
        assert_eq!(out.contents, [Content::NewId(1), Content::NewId(2)]);
        packets.acked(0..4, &mut out).unwrap();
        assert_eq!(numbers(&out), [1, 2, 0, 3]);
        assert_eq!(packets.acked(4..6, &mut out), Err(NeverSent));
        packets.detect(now, 3, DELAY, || None, &mut Outcome::default());
        assert_eq!(
            (packets.base, packets.next(), packets.contents.len()),
            (4, 5, 1)
        );
        assert!(packets.any_in_flight());
    }

    #[test]
    fn three_later_packets_or_time_make_one_lost() {
        let now = Instant::now();
        let (mut packets, mut out) = (sent(5, now), Outcome::default());
        packets.acked(3..4, &mut Outcome::default()).unwrap();
        let next = packets.detect(now, 3, DELAY, || None, &mut out);
        assert_eq!((numbers(&out), next), (vec![0], Some(now + DELAY)));
        let next = packets.detect(now + DELAY, 3, DELAY, || None, &mut out);
        assert_eq!((numbers(&out), next), (vec![0, 1, 2], None));
        assert!(!out.persistent);
    }

    #[test]
    fn losses_over_a_long_time_are_told_apart() {
        let now = Instant::now();
        let (mut packets, mut out) = (sent(1, now), Outcome::default());
        packets.push(now + 20 * DELAY, 1000, true, false);
        packets.push(now + 21 * DELAY, 1000, true, false);
        packets.acked(2..3, &mut Outcome::default()).unwrap();
        packets.detect(now + 23 * DELAY, 2, DELAY, || Some(10 * DELAY), &mut out);
        assert!(out.persistent && out.packets.len() == 2);
    }

    #[test]
    fn what_asks_for_no_acknowledgement_is_not_kept() {
        let now = Instant::now();
        let mut packets = SentPackets::default();
        for n in 0..2 * MAX_PACKETS as u64 {
            packets.carry(Content::Ack(n));
            packets.push(now, 30, false, false);
        }
        assert_eq!((packets.packets.len(), packets.contents.len()), (1, 1));
        packets.push(now, 30, true, false);
        (0..MAX_PACKETS).for_each(|_| packets.push(now, 30, false, false));
        assert!(packets.is_full());
    }

    #[test]
    fn a_number_that_was_left_out_is_not_acknowledged() {
        let now = Instant::now();
        let mut packets = sent(1, now);
        packets.skip(now);
        packets.push(now, 1000, true, false);
        let mut out = Outcome::default();
        assert_eq!(packets.acked(2..3, &mut out), Ok(()));
        assert_eq!(packets.acked(0..3, &mut out), Err(NeverSent));
    }

    #[test]
    fn the_oldest_with_something_wanted_is_found() {
        let packets = sent(5, Instant::now());
        let found = packets.oldest(|content| matches!(content, Content::NewId(n) if *n > 2));
        assert_eq!(found, [Content::NewId(3)]);
    }
}
