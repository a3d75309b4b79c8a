//! Limits frames that cause work without benefit.
//!
//! These are PING, SETTINGS, PRIORITY, and unknown frames, empty DATA, CONTINUATION without
//! content, useless window updates, and above all streams that are opened and reset
//! (CVE-2023-44487, CVE-2019-9511 to 9518, CVE-2024-27316). Each costs points; points decrease with
//! time and with served requests. A normal client stays far below the limit.

use std::time::{Duration, Instant};

/// The most points of a connection. Leaving a page with 100 unfinished images costs 500.
const LIMIT: u32 = 2000;
/// Points forgiven per second.
const DRAIN: u32 = 200;

/// A useless frame.
pub const IDLE_FRAME: u32 = 1;
/// A small DATA frame of ours, forced by a tiny window.
pub const TINY_WINDOW: u32 = 1;
/// A CONTINUATION frame. Heads within our limits need only a few.
pub const CONTINUATION: u32 = 10;
/// A stream that the peer reset before its response was complete, or that we reset for a peer's
/// error.
pub const RESET: u32 = 5;
/// The points that a completed request gives back.
pub const REQUEST_DONE: u32 = 5;

/// Counts the points of a connection.
#[derive(Debug, Default)]
pub struct Meter {
    points: u32,
    since: Option<Instant>,
}

impl Meter {
    /// Add points; `false` if the limit is exceeded.
    #[must_use]
    pub fn charge(&mut self, points: u32, now: Instant) -> bool {
        self.points += points;
        if self.points <= LIMIT / 2 {
            return true;
        }
        self.drain(now);
        self.points <= LIMIT
    }

    /// Add points without checking the limit; the next charge does so.
    pub fn debit(&mut self, points: u32) {
        self.points = self.points.saturating_add(points);
    }

    /// Forgive points.
    pub fn credit(&mut self, points: u32) {
        self.points = self.points.saturating_sub(points);
    }

    /// Check the time only if there are points to forgive.
    fn drain(&mut self, now: Instant) {
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        let elapsed = now
            .saturating_duration_since(since)
            .min(Duration::from_secs(3600));
        let forgiven = elapsed.as_millis() as u32 * DRAIN / 1000;
        if forgiven > 0 {
            self.credit(forgiven);
            self.since = Some(now);
        }
    }
}
