//! Congestion control: CUBIC (RFC 9438) within RFC 9002, section 7.

use std::time::{Duration, Instant};

/// The factor by which a loss reduces the window (RFC 9438, section 4.6).
const BETA: f64 = 0.7;
/// The growth rate of the window (RFC 9438, section 5).
const C: f64 = 0.4;
/// The initial window in bytes, for packets of 1200 bytes (RFC 9002, section 7.2).
const INITIAL_WINDOW: u64 = 12_000;
/// Far more than a connection's send window and headers can fill.
const MAX_WINDOW: u64 = 1 << 30;

/// The congestion window of a path.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: u64,
    threshold: u64,
    mtu: u64,
    /// Losses of packets sent before this time were already handled.
    recovery: Option<Instant>,
    /// The window before the last loss in bytes.
    max: f64,
    /// The start of growth, and the seconds from then until the window reaches `max` again.
    epoch: Option<(Instant, f64)>,
    /// Acknowledged bytes that have not increased the window yet.
    fraction: f64,
    /// The window that Reno would have, in bytes.
    reno: f64,
}

impl Cubic {
    /// The window of a new path with packets of `mtu` bytes.
    pub fn new(mtu: u64) -> Self {
        Self {
            window: INITIAL_WINDOW,
            threshold: u64::MAX,
            mtu,
            recovery: None,
            max: 0.0,
            epoch: None,
            fraction: 0.0,
            reno: 0.0,
        }
    }

    /// The most bytes in flight.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Adapt to packets of this size.
    pub fn set_mtu(&mut self, mtu: u64) {
        self.mtu = mtu;
        self.window = self.window.max(2 * mtu);
    }

    /// Handle the acknowledgment of a packet of `bytes` sent at `sent`; `limited`: the window was
    /// not fully used.
    pub fn acked(&mut self, now: Instant, sent: Instant, bytes: u64, limited: bool, rtt: Duration) {
        if limited || self.recovery.is_some_and(|start| sent <= start) {
            return;
        }
        if self.window < self.threshold {
            self.window = (self.window + bytes).min(MAX_WINDOW);
            return;
        }
        let window = self.window as f64;
        let mtu = self.mtu as f64;
        let (max, reno) = (&mut self.max, &mut self.reno);
        let (start, k) = *self.epoch.get_or_insert_with(|| {
            *max = max.max(window);
            *reno = window;
            (now, ((*max - window) / mtu / C).cbrt())
        });
        let time = now.saturating_duration_since(start) + rtt;
        let cubic = C * (time.as_secs_f64() - k).powi(3) * mtu + self.max;
        // Section 4.3: never slower than Reno with the same reduction.
        self.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) * bytes as f64 / window * mtu;
        let target = cubic.clamp(window, 1.5 * window).max(self.reno);
        self.fraction += (target - window) / window * bytes as f64;
        let whole = self.fraction.min(bytes as f64).floor().max(0.0);
        self.fraction = (self.fraction - whole).clamp(0.0, mtu);
        self.window = (self.window + whole as u64).min(MAX_WINDOW);
    }

    /// Handle the loss of a packet sent at `sent`; `true` if this begins a recovery period.
    pub fn lost(&mut self, now: Instant, sent: Instant) -> bool {
        if self.recovery.is_some_and(|start| sent <= start) {
            return false;
        }
        self.recovery = Some(now);
        let window = self.window as f64;
        // Section 4.7: a sender that reduces before it reaches the old size makes room for others.
        self.max = if window < self.max {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        };
        self.threshold = ((window * BETA) as u64).max(2 * self.mtu);
        self.window = self.threshold;
        self.epoch = None;
        self.fraction = 0.0;
        true
    }

    /// Handle persistent congestion (RFC 9002, section 7.6).
    pub fn collapse(&mut self) {
        self.window = 2 * self.mtu;
        self.recovery = None;
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    #[test]
    fn it_doubles_until_something_is_lost_and_then_grows_back() {
        let mut cubic = Cubic::new(1200);
        let mut now = Instant::now();
        for _ in 0..5 {
            let window = cubic.window();
            for _ in 0..window / 1200 {
                cubic.acked(now + RTT, now, 1200, false, RTT);
            }
            now += RTT;
            assert_eq!(cubic.window(), 2 * window);
        }
        let before = cubic.window();
        assert!(cubic.lost(now, now - RTT) && !cubic.lost(now, now - RTT));
        let after = cubic.window();
        assert!(after < before * 71 / 100 && after > before * 69 / 100);
        let mut rounds = 0;
        while cubic.window() < before {
            let (window, sent) = (cubic.window(), now + Duration::from_millis(1));
            now += RTT;
            for _ in 0..window / 1200 {
                cubic.acked(now, sent, 1200, false, RTT);
            }
            assert!(cubic.window() <= window * 3 / 2 + 1200);
            rounds += 1;
            assert!(rounds < 1000);
        }
        assert!(rounds > 5, "{rounds} round trips");
    }

    #[test]
    fn who_does_not_use_the_window_does_not_get_more() {
        let mut cubic = Cubic::new(1200);
        let now = Instant::now();
        cubic.acked(now + RTT, now, 1200, true, RTT);
        assert_eq!(cubic.window(), INITIAL_WINDOW);
        cubic.collapse();
        assert_eq!(cubic.window(), 2400);
        cubic.set_mtu(9000);
        assert_eq!(cubic.window(), 18_000);
    }
}
