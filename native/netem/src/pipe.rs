//! One direction of a link, without clock and sockets: packets enter with their time and leave when
//! due.
//!
//! A drop-tail queue precedes a bottleneck of a fixed rate; a delay follows. The queue limit counts
//! packets that wait for the bottleneck, not those in transmission or in the delay. Times are
//! nanoseconds of a monotonic clock.

use std::collections::VecDeque;

/// The properties of a direction. `rate_bps` counts bytes of IP packets; 0 means no limit.
#[derive(Clone, Debug)]
pub struct Shape {
    pub rate_bps: u64,
    pub delay_ns: u64,
    pub jitter_ns: u64,
    pub loss_ppm: u32,
    pub queue_packets: usize,
}

/// Packet counts by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub dropped_full: u64,
    pub dropped_loss: u64,
}

pub struct Pipe {
    shape: Shape,
    /// The time when the bottleneck is free again.
    free_at: u64,
    /// The transmission start of each waiting packet, in order.
    starts: VecDeque<u64>,
    flying: VecDeque<(u64, Vec<u8>)>,
    last_arrival: u64,
    random: u64,
    pub counts: Counts,
}

impl Pipe {
    pub fn new(shape: Shape, seed: u64) -> Pipe {
        Pipe {
            shape,
            free_at: 0,
            starts: VecDeque::new(),
            flying: VecDeque::new(),
            last_arrival: 0,
            random: seed | 1,
            counts: Counts::default(),
        }
    }

    /// Add a packet that arrives at `now`. A dropped packet is returned, so that its memory can be
    /// reused.
    pub fn offer(&mut self, now: u64, packet: Vec<u8>) -> Option<Vec<u8>> {
        if self.shape.loss_ppm > 0 && self.below(1_000_000) < u64::from(self.shape.loss_ppm) {
            self.counts.dropped_loss += 1;
            return Some(packet);
        }
        while self.starts.front().is_some_and(|start| *start <= now) {
            self.starts.pop_front();
        }
        if self.starts.len() >= self.shape.queue_packets && self.free_at > now {
            self.counts.dropped_full += 1;
            return Some(packet);
        }
        let start = self.free_at.max(now);
        if start > now {
            self.starts.push_back(start);
        }
        self.free_at = start + self.sending_ns(packet.len());
        let arrival = (self.free_at + self.delay()).max(self.last_arrival);
        self.last_arrival = arrival;
        self.flying.push_back((arrival, packet));
        None
    }

    /// The time when the next packet leaves, if there is one.
    pub fn next_due(&self) -> Option<u64> {
        self.flying.front().map(|(due, _)| *due)
    }

    /// The next packet that is due by `now`.
    pub fn take_due(&mut self, now: u64) -> Option<Vec<u8>> {
        if self.next_due()? > now {
            return None;
        }
        self.counts.passed += 1;
        self.flying.pop_front().map(|(_, packet)| packet)
    }

    fn sending_ns(&self, bytes: usize) -> u64 {
        match self.shape.rate_bps {
            0 => 0,
            rate => (bytes as u128 * 8 * 1_000_000_000 / u128::from(rate)) as u64,
        }
    }

    /// The delay with uniformly distributed jitter; packets never overtake each other.
    fn delay(&mut self) -> u64 {
        if self.shape.jitter_ns == 0 {
            return self.shape.delay_ns;
        }
        let spread = self.below(2 * self.shape.jitter_ns + 1);
        (self.shape.delay_ns + spread).saturating_sub(self.shape.jitter_ns)
    }

    /// xorshift64*: uniform enough for loss and jitter, and reproducible.
    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let word = self.random.wrapping_mul(0x2545_F491_4F6C_DD1D);
        ((u128::from(word) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn shape(rate_bps: u64, delay_ms: u64, queue_packets: usize) -> Shape {
        Shape {
            rate_bps,
            delay_ns: delay_ms * MS,
            jitter_ns: 0,
            loss_ppm: 0,
            queue_packets,
        }
    }

    fn arrivals(pipe: &mut Pipe) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(due) = pipe.next_due() {
            assert!(
                pipe.take_due(due - 1).is_none(),
                "nothing comes before it is due"
            );
            assert!(pipe.take_due(due).is_some());
            times.push(due);
        }
        times
    }

    #[test]
    fn a_packet_takes_its_sending_time_and_the_delay() {
        let mut pipe = Pipe::new(shape(8_000_000, 10, 100), 1);
        assert!(pipe.offer(0, vec![0; 1000]).is_none());
        assert_eq!(arrivals(&mut pipe), vec![11 * MS]);
    }

    #[test]
    fn packets_leave_at_the_rate_whatever_they_came_at() {
        let mut pipe = Pipe::new(shape(8_000_000, 5, 100), 1);
        for _ in 0..10 {
            assert!(pipe.offer(3 * MS, vec![0; 1000]).is_none());
        }
        let expected: Vec<u64> = (1..=10).map(|n| (3 + n + 5) * MS).collect();
        assert_eq!(arrivals(&mut pipe), expected);
    }

    #[test]
    fn only_a_full_queue_drops_and_one_more_is_being_sent() {
        let mut pipe = Pipe::new(shape(8_000_000, 0, 7), 1);
        let dropped = (0..20)
            .filter(|_| pipe.offer(0, vec![0; 1000]).is_some())
            .count();
        assert_eq!(dropped, 12, "seven wait, one is on the wire");
        assert_eq!(
            pipe.counts,
            Counts {
                passed: 0,
                dropped_full: 12,
                dropped_loss: 0
            }
        );
        // After two transmission times, two places are free.
        assert!(pipe.offer(2 * MS, vec![0; 1000]).is_none());
        assert!(pipe.offer(2 * MS, vec![0; 1000]).is_none());
        assert!(pipe.offer(2 * MS, vec![0; 1000]).is_some());
    }

    #[test]
    fn a_packet_on_its_way_does_not_fill_the_queue() {
        let mut pipe = Pipe::new(shape(8_000_000, 1000, 1), 1);
        for n in 0..50 {
            assert!(pipe.offer(n * MS, vec![0; 1000]).is_none());
        }
        assert_eq!(arrivals(&mut pipe).len(), 50);
    }

    #[test]
    fn jitter_stays_within_its_bounds_and_keeps_the_order() {
        let jitter = Shape {
            jitter_ns: 2 * MS,
            ..shape(0, 10, 10)
        };
        let mut pipe = Pipe::new(jitter, 7);
        let mut waits = Vec::new();
        for n in 0..2000u64 {
            let now = n * 5 * MS;
            assert!(pipe.offer(now, vec![0; 100]).is_none());
            waits.push(arrivals(&mut pipe)[0] - now);
        }
        assert!(waits.iter().all(|wait| (8 * MS..=12 * MS).contains(wait)));
        let mean = waits.iter().sum::<u64>() / waits.len() as u64;
        assert!(mean.abs_diff(10 * MS) < MS / 10, "{mean}");
    }

    #[test]
    fn as_many_are_lost_as_asked_for() {
        let lossy = Shape {
            loss_ppm: 10_000,
            ..shape(0, 0, 10)
        };
        let mut pipe = Pipe::new(lossy, 3);
        let lost = (0..100_000u64)
            .filter(|n| pipe.offer(*n, vec![0; 100]).is_some())
            .count();
        assert!((850..1150).contains(&lost), "{lost}");
        assert_eq!(pipe.counts.dropped_loss as usize, lost);
    }

    #[test]
    fn a_queue_of_nothing_still_sends_when_the_wire_is_free() {
        let mut pipe = Pipe::new(shape(8_000_000, 0, 0), 1);
        assert!(pipe.offer(0, vec![0; 1000]).is_none());
        assert!(pipe.offer(0, vec![0; 1000]).is_some());
        assert!(pipe.offer(MS, vec![0; 1000]).is_none());
    }
}
