//! Pacing: spreads the congestion window over the round-trip time (RFC 9002, section 7.7).

use std::time::{Duration, Instant};

/// The least packets that may be sent at once.
const MIN_BURST: u64 = 10;
/// The most packets that may be sent at once.
const MAX_BURST: u64 = 256;
/// The time that determines the size of bursts, since timers have a resolution of a millisecond.
const INTERVAL: Duration = Duration::from_millis(4);

/// Larger windows count as unlimited, and longer round-trip times are not waited for.
const MAX_WINDOW: u64 = 1 << 29;
const MAX_NANOS: u64 = 1 << 33;

/// A token bucket that fills a quarter faster than one window per round trip.
#[derive(Clone, Debug)]
pub struct Pacer {
    tokens: u64,
    filled: Option<Instant>,
}

impl Default for Pacer {
    fn default() -> Self {
        Self {
            tokens: u64::MAX,
            filled: None,
        }
    }
}

impl Pacer {
    /// Record a sent packet with this number of bytes.
    pub fn sent(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(bytes);
    }

    /// The time when `bytes` may be sent; `None` means now.
    pub fn delay(
        &mut self,
        now: Instant,
        bytes: u64,
        mtu: u64,
        window: u64,
        rtt: Duration,
    ) -> Option<Instant> {
        let wanted = bytes.min(mtu);
        // Windows and times stay below 2^30 bytes and 2^34 nanoseconds, so products fit in 64 bits.
        let window = window.min(MAX_WINDOW);
        let nanos = (rtt.as_nanos() as u64).clamp(1, MAX_NANOS);
        let portion = window * INTERVAL.as_nanos() as u64 / nanos;
        let capacity = portion.clamp(MIN_BURST * mtu, MAX_BURST * mtu);
        self.tokens = self.tokens.min(capacity);
        if self.tokens >= wanted {
            self.filled.get_or_insert(now);
            return None;
        }
        let since = now.saturating_duration_since(self.filled.unwrap_or(now));
        let rate = window * 5 / 4;
        let new = (since.as_nanos() as u64).min(nanos) * rate / nanos;
        if new > 0 {
            self.filled = Some(now);
            self.tokens = (self.tokens + new).min(capacity);
        }
        if self.tokens >= wanted {
            return None;
        }
        // Wait for half a bucket: waking up for every packet costs too much.
        let missing = (capacity / 2).max(wanted) - self.tokens;
        let wait = missing * nanos / rate.max(1);
        Some(now + Duration::from_nanos(wait.clamp(1, MAX_NANOS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_spread_over_a_round_trip() {
        let (mtu, window, rtt) = (1200, 120_000, Duration::from_millis(100));
        let mut pacer = Pacer::default();
        let mut now = Instant::now();
        let start = now;
        let mut sent = 0u64;
        while sent < 10 * window {
            match pacer.delay(now, mtu, mtu, window, rtt) {
                None => {
                    pacer.sent(mtu);
                    sent += mtu;
                }
                Some(later) => {
                    assert!(later > now);
                    now = later;
                }
            }
        }
        let taken = now - start;
        assert!(taken > 7 * rtt && taken < 9 * rtt, "{taken:?}");
    }

    #[test]
    fn a_burst_goes_out_at_once() {
        let mut pacer = Pacer::default();
        let now = Instant::now();
        for _ in 0..MIN_BURST {
            assert_eq!(
                pacer.delay(now, 1200, 1200, 12_000, Duration::from_secs(1)),
                None
            );
            pacer.sent(1200);
        }
        assert!(pacer
            .delay(now, 1200, 1200, 12_000, Duration::from_secs(1))
            .is_some());
    }
}
