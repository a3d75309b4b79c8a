//! Spreads what a congestion window allows over the round trip (RFC 9002, section 7.7).

use std::time::{Duration, Instant};

/// Packets that may always go out at once.
const MIN_BURST: u64 = 10;
/// Packets that may go out at once at most.
const MAX_BURST: u64 = 256;
/// Bursts are made as large as this time allows: timers are no finer than a millisecond.
const INTERVAL: Duration = Duration::from_millis(4);

/// Windows beyond this are as good as endless, and round trips longer than this are not waited for.
const MAX_WINDOW: u64 = 1 << 29;
const MAX_NANOS: u64 = 1 << 33;

/// A bucket that fills a quarter faster than one window each round trip.
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
    /// A packet of this many bytes went out.
    pub fn sent(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(bytes);
    }

    /// When `bytes` may be sent; `None`: now.
    pub fn delay(
        &mut self,
        now: Instant,
        bytes: u64,
        mtu: u64,
        window: u64,
        rtt: Duration,
    ) -> Option<Instant> {
        let wanted = bytes.min(mtu);
        // Windows and times stay below 2^30 bytes and 2^34 nanoseconds: products fit in 64 bits.
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
        // Half a bucket at once: to wake up for every packet costs more than it gives.
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
