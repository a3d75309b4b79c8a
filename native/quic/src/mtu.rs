//! Finds out how large packets a path carries (RFC 8899, RFC 9000, section 14.3).

use std::time::{Duration, Instant};

/// What every path carries (RFC 9000, section 14).
pub const MIN: u16 = 1200;
/// Probes of a size that are lost before it is taken to be too large.
const ATTEMPTS: u8 = 3;
/// Bytes that are not worth another probe.
const CLOSE_ENOUGH: u16 = 32;
/// Until larger sizes are tried again.
const AGAIN: Duration = Duration::from_secs(600);
/// The same, after packets of a size that had arrived no longer did.
const AFTER_BLACK_HOLE: Duration = Duration::from_secs(60);
/// Groups of large packets lost, with none that arrived between them, until the path is taken not to
/// carry that size any more.
const BLACK_HOLE: u8 = 4;

/// The search on a path.
#[derive(Clone, Debug)]
pub struct Mtu {
    current: u16,
    /// The largest size that is of use.
    wanted: u16,
    /// Sizes from here on did not arrive.
    too_large: u16,
    /// The packet that tries a size.
    probe: Option<(u64, u16)>,
    failed: u8,
    resting_until: Option<Instant>,
    large_lost: u8,
}

impl Mtu {
    /// A new path's; sizes up to `wanted` are tried.
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

    /// Bytes of the largest packet that is known to arrive.
    pub fn current(&self) -> u16 {
        self.current
    }

    /// The size that a packet should be sent with to try it, the interface's first.
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

    /// Whether [`Mtu::due`] may have one.
    #[inline]
    pub fn may_be_due(&self, now: Instant) -> bool {
        let is_resting = self.resting_until.is_some_and(|until| until > now);
        self.probe.is_none() && self.current < self.wanted && !is_resting
    }

    /// Packet `number` was sent with a size that was due.
    pub fn sent(&mut self, number: u64, size: u16) {
        self.probe = Some((number, size));
    }

    /// A packet arrived. True when packets may be larger now.
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

    /// Whether packet `number` tries a size.
    pub fn is_probe(&self, number: u64) -> bool {
        self.probe.is_some_and(|(probe, _)| probe == number)
    }

    /// The packet that tried a size was lost.
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

    /// Packets were lost of which the largest had this size. True when the path seems not to carry
    /// it any more.
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

    /// Runs the search on a path that carries `carried`; the size found, and packets sent for it.
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
