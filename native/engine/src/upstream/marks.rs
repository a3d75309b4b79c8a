//! The state of a server by its health checks, and its slow start afterwards.

use gallop_conf::model::Upstream;

/// The units of a weight in groups whose servers may start slowly.
pub const SCALE: i64 = 1000;

/// The health checks of a server so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckCounts {
    pub checks: u64,
    pub fails: u64,
    /// How often the server became unhealthy.
    pub unhealthy: u64,
}

impl CheckCounts {
    /// Add the counts of another server.
    pub fn add(&mut self, other: CheckCounts) {
        self.checks += other.checks;
        self.fails += other.fails;
        self.unhealthy += other.unhealthy;
    }
}

/// Each check of the group has a bit in these numbers.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Checks that must pass before the server gets its first request.
    unchecked: u64,
    /// Checks by which the server is unhealthy.
    unhealthy: u64,
    /// The time of the last recovery in milliseconds (monotonic clock); 0 if there was none.
    recovered: u64,
    pub counts: CheckCounts,
}

impl Marks {
    /// The marks of a server that no check has seen yet.
    pub fn new(group: &Upstream) -> Marks {
        let checks = group.checks.iter().enumerate();
        let mandatory = checks.filter(|(_, check)| check.conf.mandatory);
        Marks {
            unchecked: mandatory.fold(0, |bits, (i, _)| bits | 1 << i),
            ..Marks::default()
        }
    }

    /// Whether the server may get requests.
    pub fn is_usable(&self) -> bool {
        self.unchecked | self.unhealthy == 0
    }

    /// Whether checks have decided about the server; `None` before.
    pub fn verdict(&self) -> Option<bool> {
        match self.unhealthy {
            0 => (self.unchecked == 0).then_some(true),
            _ => Some(false),
        }
    }

    /// The state for status pages; `None` for a server that may get requests.
    pub fn word(&self) -> Option<&'static str> {
        match (self.unhealthy, self.unchecked) {
            (0, 0) => None,
            (0, _) => Some("checking"),
            _ => Some("unhealthy"),
        }
    }

    /// Count a check that passed. `ends_row`: enough have passed in a row. Returns whether the
    /// server became healthy by this check.
    pub fn passed(&mut self, index: usize, ends_row: bool, now: u64) -> bool {
        let (bit, was_usable) = (1 << index, self.is_usable());
        self.counts.checks += 1;
        let is_new = self.unchecked & bit != 0 || self.unhealthy & bit != 0 && ends_row;
        self.unchecked &= !bit;
        if ends_row {
            self.unhealthy &= !bit;
        }
        if !was_usable && self.is_usable() {
            self.recovered(now);
        }
        is_new
    }

    /// Count a check that failed. `ends_row`: enough have failed in a row. Returns whether the
    /// server became unhealthy by this check.
    pub fn failed(&mut self, index: usize, ends_row: bool) -> bool {
        let bit = 1 << index;
        self.counts.checks += 1;
        self.counts.fails += 1;
        let is_new = ends_row && self.unhealthy & bit == 0;
        if is_new {
            self.unhealthy |= bit;
            self.unchecked &= !bit;
            self.counts.unhealthy += 1;
        }
        is_new
    }

    /// Restore what an earlier worker found.
    pub fn restore(&mut self, is_healthy: bool, checks: usize) {
        self.unchecked = 0;
        if !is_healthy {
            self.unhealthy = u64::MAX >> (64 - checks.clamp(1, 64));
        }
    }

    /// Take the server as healthy for the checks that say so after a reload.
    pub fn keep(&mut self, group: &Upstream) {
        let checks = group.checks.iter().enumerate();
        let kept = checks.filter(|(_, check)| check.conf.persistent);
        self.unchecked = kept.fold(self.unchecked, |bits, (i, _)| bits & !(1 << i));
    }

    /// Begin a slow start.
    pub fn recovered(&mut self, now: u64) {
        self.recovered = now;
    }

    /// The part of its weight that the server has, of [`SCALE`].
    pub fn share(&self, slow_start: u64, now: u64) -> i64 {
        let age = now.saturating_sub(self.recovered);
        if self.recovered == 0 || age >= slow_start {
            return SCALE;
        }
        (age as i64).saturating_mul(SCALE) / slow_start as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_usable_only_if_every_check_says_so() {
        let mut marks = Marks {
            unchecked: 0b10,
            ..Marks::default()
        };
        assert_eq!((marks.word(), marks.verdict()), (Some("checking"), None));
        assert!(marks.passed(1, false, 5));
        assert!(marks.is_usable());
        assert!(!marks.failed(0, false));
        assert!(marks.is_usable());
        assert!(marks.failed(0, true));
        assert!(!marks.failed(0, true));
        assert_eq!(marks.word(), Some("unhealthy"));
        assert!(!marks.passed(1, true, 6));
        assert!(!marks.is_usable());
        assert!(!marks.passed(0, false, 7));
        assert!(marks.passed(0, true, 8));
        assert_eq!(marks.verdict(), Some(true));
        assert_eq!((marks.counts.checks, marks.counts.fails), (7, 3));
    }

    #[test]
    fn weight_grows_in_the_time_of_slow_start() {
        let mut marks = Marks::default();
        assert_eq!(marks.share(1000, 50), SCALE);
        marks.recovered(100);
        assert_eq!(marks.share(1000, 100), 0);
        assert_eq!(marks.share(1000, 600), SCALE / 2);
        assert_eq!(marks.share(1000, 1100), SCALE);
        assert_eq!(marks.share(0, 100), SCALE);
    }

    #[test]
    fn restored_server_is_unhealthy_for_each_check() {
        let mut marks = Marks::default();
        marks.restore(false, 2);
        assert!(marks.passed(0, true, 1));
        assert!(!marks.is_usable());
        assert!(marks.passed(1, true, 1));
        assert!(marks.is_usable());
    }
}
