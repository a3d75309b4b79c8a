//! Estimation of the round-trip time (RFC 9002, section 5).

use std::time::Duration;

/// The initial estimate (RFC 9002, section 6.2.2).
const INITIAL: Duration = Duration::from_millis(333);
/// The resolution of timers (RFC 9002, section 6.1.2).
pub const GRANULARITY: Duration = Duration::from_millis(1);

/// The round-trip times of a path.
#[derive(Clone, Debug)]
pub struct Rtt {
    latest: Duration,
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
    /// A value derived from these, cached since each packet needs it several times.
    probe_timeout: Duration,
}

impl Default for Rtt {
    fn default() -> Self {
        Self {
            latest: INITIAL,
            smoothed: None,
            variation: INITIAL / 2,
            min: Duration::MAX,
            probe_timeout: INITIAL + INITIAL / 2 * 4,
        }
    }
}

impl Rtt {
    /// Record a measured round trip; `ack_delay` is the delay that the peer reports.
    pub fn update(&mut self, ack_delay: Duration, measured: Duration) {
        self.latest = measured;
        self.min = self.min.min(measured);
        self.smooth(ack_delay, measured);
        self.probe_timeout = self.get() + (4 * self.variation).max(GRANULARITY);
    }

    fn smooth(&mut self, ack_delay: Duration, measured: Duration) {
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(measured);
            self.variation = measured / 2;
            return;
        };
        let adjusted = if self.min + ack_delay <= measured {
            measured - ack_delay
        } else {
            measured
        };
        self.variation = (3 * self.variation + smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = Some((7 * smoothed + adjusted) / 8);
    }

    /// The smoothed round-trip time.
    pub fn get(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL)
    }

    /// Whether a round trip was measured.
    pub fn is_known(&self) -> bool {
        self.smoothed.is_some()
    }

    /// The probe timeout without the peer's delay (RFC 9002, section 6.2.1).
    pub fn probe_timeout(&self) -> Duration {
        self.probe_timeout
    }

    /// The time threshold for losses (section 6.1.2).
    pub fn loss_delay(&self) -> Duration {
        let longest = self.latest.max(self.get());
        (longest + longest / 8).max(GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_what_is_measured() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::default();
        assert_eq!(rtt.probe_timeout(), ms(333) + 4 * (ms(333) / 2));
        rtt.update(ms(0), ms(100));
        assert_eq!((rtt.get(), rtt.probe_timeout()), (ms(100), ms(300)));
        // 20 of the 140 ms are the peer's delay.
        rtt.update(ms(20), ms(140));
        assert_eq!(rtt.get(), (7 * ms(100) + ms(120)) / 8);
        assert_eq!(rtt.loss_delay(), ms(140) + ms(140) / 8);
        let variation = (3 * ms(50) + ms(20)) / 4;
        assert_eq!(rtt.probe_timeout(), rtt.get() + 4 * variation);
        // A delay that would make it shorter than the minimum is ignored.
        rtt.update(ms(90), ms(110));
        assert!(rtt.get() > ms(102));
        // A timer has its granularity even if all round trips are equal.
        (0..100).for_each(|_| rtt.update(ms(0), ms(100)));
        assert_eq!(rtt.probe_timeout(), rtt.get() + GRANULARITY);
    }
}
