//! A measure of frames that make work and bring nothing.
//!
//! PING, SETTINGS, PRIORITY and unknown frames, empty DATA, CONTINUATION without content, window
//! updates by which nothing can be sent, and above all streams that are opened and reset
//! (CVE-2023-44487, CVE-2019-9511 to 9518, CVE-2024-27316). Each costs points; points drain with
//! time and with requests served. A client that does its work never comes near the limit.

use std::time::{Duration, Instant};

/// Points a connection may be in debt: a page with 100 images left in a hurry costs 500.
const LIMIT: u32 = 2000;
/// Points forgiven per second.
const DRAIN: u32 = 200;

/// A frame without use.
pub const IDLE_FRAME: u32 = 1;
/// A DATA frame of ours that a tiny window forced.
pub const TINY_WINDOW: u32 = 1;
/// A CONTINUATION frame: never needed for what our limits let through in a few frames.
pub const CONTINUATION: u32 = 10;
/// A stream reset by the peer before its answer was whole, or by us for the peer's error.
pub const RESET: u32 = 5;
/// What a finished request gives back.
pub const REQUEST_DONE: u32 = 5;

/// See the module.
#[derive(Debug, Default)]
pub struct Meter {
    points: u32,
    since: Option<Instant>,
}

impl Meter {
    /// Adds points; false when there are too many.
    #[must_use]
    pub fn charge(&mut self, points: u32, now: Instant) -> bool {
        self.points += points;
        if self.points <= LIMIT / 2 {
            return true;
        }
        self.drain(now);
        self.points <= LIMIT
    }

    /// Adds points without looking at the limit, which the next charge does.
    pub fn debit(&mut self, points: u32) {
        self.points = self.points.saturating_add(points);
    }

    /// Forgives points.
    pub fn credit(&mut self, points: u32) {
        self.points = self.points.saturating_sub(points);
    }

    /// Time is only looked at once there is something to forgive.
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
