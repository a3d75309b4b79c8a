//! Path MTU discovery (RFC 8899, RFC 9000, section 14.3).

use std::time::{Duration, Instant};

/// The size that every path carries (RFC 9000, section 14).
pub const MIN: u16 = 1200;
/// Lost probes of a size after which it counts as too large.
const ATTEMPTS: u8 = 3;
/// A smaller difference is not worth a probe.
const CLOSE_ENOUGH: u16 = 32;
/// The time until larger sizes are tried again.
const AGAIN: Duration = Duration::from_secs(600);
/// The same after a size that had worked stopped working.
const AFTER_BLACK_HOLE: Duration = Duration::from_secs(60);
/// Lost groups of large packets in succession after which the path counts as no longer carrying the
/// size.
const BLACK_HOLE: u8 = 4;

/// The search on a path.
#[derive(Clone, Debug)]
pub struct Mtu {
    current: u16,
    /// The largest useful size.
    wanted: u16,
    /// The smallest size that did not arrive.
    too_large: u16,
    /// The packet that probes a size.
    probe: Option<(u64, u16)>,
    failed: u8,
    resting_until: Option<Instant>,
    large_lost: u8,
}

impl Mtu {
    /// The search on a new path; sizes up to `wanted` are tried.
    pub fn new(wanted: u16) -> Self {
        let wanted = wanted.max(MIN);
        Self {
            current: MIN,
            wanted,
            too_large: wanted.saturating_add(1),
            probe: None,
            failed: 0,
            resting_until: None,
            large_lost: 0,
        }
    }

    /// The size of the largest packet that is known to arrive.
    pub fn current(&self) -> u16 {
        self.current
    }

    /// The size for the next probe, if one is due; the interface's size comes first.
    pub fn due(&mut self, now: Instant) -> Option<u16> {
        if self.probe.is_some() {
            return None;
        }
        if self.resting_until.is_some_and(|until| until <= now) {
            self.resting_until = None;
            self.too_large = self.wanted.saturating_add(1);
        }
        if self.resting_until.is_some() || self.current >= self.wanted {
            return None;
        }
        let room = self.too_large - 1 - self.current;
        if self.too_large > self.wanted {
            return Some(self.wanted);
        }
        if room < CLOSE_ENOUGH {
            self.resting_until = Some(now + AGAIN);
            return None;
        }
        Some(self.current + room / 2 + 1)
    }

    /// Whether [`Mtu::due`] may return a size.
    #[inline]
    pub fn may_be_due(&self, now: Instant) -> bool {
        let is_resting = self.resting_until.is_some_and(|until| until > now);
        self.probe.is_none() && self.current < self.wanted && !is_resting
    }

    /// Record that packet `number` probes a size.
    pub fn sent(&mut self, number: u64, size: u16) {
        self.probe = Some((number, size));
    }

    /// Record the acknowledgment of a packet; `true` if packets may be larger now.
    pub fn acked(&mut self, number: u64, size: u16) -> bool {
        if size > MIN {
            self.large_lost = 0;
        }
        let Some((probe, size)) = self.probe.filter(|(probe, _)| *probe == number) else {
            return false;
        };
        debug_assert_eq!(probe, number);
        self.probe = None;
        self.failed = 0;
        self.current = self.current.max(size);
        true
    }

    /// Whether packet `number` is the probe.
    pub fn is_probe(&self, number: u64) -> bool {
        self.probe.is_some_and(|(probe, _)| probe == number)
    }

    /// Record the loss of the probe.
    pub fn probe_lost(&mut self) {
        let Some((_, size)) = self.probe.take() else {
            return;
        };
        self.failed += 1;
        if self.failed >= ATTEMPTS {
            self.failed = 0;
            self.too_large = size;
        }
    }

    /// Record lost packets, of which the largest had this size; `true` if the path seems to have
    /// stopped carrying it.
    pub fn lost(&mut self, now: Instant, size: u16) -> bool {
        if size <= MIN || self.current == MIN {
            return false;
        }
        self.large_lost += 1;
        if self.large_lost < BLACK_HOLE {
            return false;
        }
        self.large_lost = 0;
        self.current = MIN;
        self.probe = None;
        self.resting_until = Some(now + AFTER_BLACK_HOLE);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Run the search on a path with the MTU `carried`. Returns the size found and the number of
    /// packets.
    fn search(mtu: &mut Mtu, carried: u16) -> (u16, u64) {
        let now = Instant::now();
        let mut number = 0;
        while let Some(size) = mtu.due(now) {
            mtu.sent(number, size);
            assert_eq!(mtu.due(now), None);
            if size <= carried {
                assert!(mtu.acked(number, size));
            } else {
                mtu.probe_lost();
            }
            number += 1;
        }
        (mtu.current(), number)
    }

    #[test]
    fn the_interfaces_size_is_tried_first_and_others_between() {
        assert_eq!(search(&mut Mtu::new(16_000), 65_000), (16_000, 1));
        assert_eq!(search(&mut Mtu::new(900), 65_000), (MIN, 0));
        for carried in [1200, 1300, 1400, 1452, 5000] {
            let (found, probes) = search(&mut Mtu::new(16_000), carried);
            assert!(
                found <= carried && found + CLOSE_ENOUGH >= carried,
                "{found}"
            );
            assert!(probes < 50, "{probes}");
        }
    }

    #[test]
    fn a_path_that_carries_less_than_before_is_noticed() {
        let mut mtu = Mtu::new(1452);
        search(&mut mtu, 1452);
        let now = Instant::now();
        for _ in 0..3 {
            assert!(!mtu.lost(now, 1452));
            mtu.acked(900, 1452);
        }
        for _ in 0..3 {
            assert!(!mtu.lost(now, 1452));
        }
        assert!(mtu.lost(now, 1452));
        assert_eq!((mtu.current(), mtu.due(now)), (MIN, None));
        assert_eq!(mtu.due(now + AFTER_BLACK_HOLE), Some(1452));
    }
}
