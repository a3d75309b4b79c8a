//! The schedule and results of one thread's requests.

use crate::histogram::Histogram;
use crate::options::Options;
use std::time::{Duration, Instant};

/// A request to send now.
#[derive(Clone, Copy)]
pub struct Due {
    /// The start of its latency: now, or the scheduled time in an open loop.
    pub since: Instant,
    /// The number of requests that this thread started before it.
    pub number: u64,
}

/// The requests and results of one thread, over all its connections.
pub struct Plan {
    deadline: Option<Instant>,
    wanted: u64,
    /// Requests per second of this thread, and the time of its first.
    pace: Option<(f64, Instant)>,
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// The failed requests without a complete response.
    pub lost: u64,
    pub statuses: [u64; 6],
    pub bytes: u64,
    pub connects: u64,
    pub latency: Histogram,
    pub handshake: Histogram,
    pub last: Instant,
}

/// The part of `total` for `part` of `parts`, as even as possible.
pub fn share(total: u64, part: usize, parts: usize) -> u64 {
    let (part, parts) = (part as u64, parts as u64);
    total / parts + u64::from(part < total % parts)
}

impl Plan {
    /// The plan of thread number `thread`.
    pub fn new(options: &Options, thread: usize, began: Instant) -> Self {
        let pace = options.rate.map(|rate| {
            let offset = Duration::from_secs_f64(thread as f64 / rate);
            (rate / options.threads as f64, began + offset)
        });
        Self {
            deadline: options.duration.map(|d| began + d),
            wanted: match options.duration {
                Some(_) => u64::MAX,
                None => share(options.requests, thread, options.threads),
            },
            pace,
            started: 0,
            succeeded: 0,
            failed: 0,
            lost: 0,
            statuses: [0; 6],
            bytes: 0,
            connects: 0,
            latency: Histogram::default(),
            handshake: Histogram::default(),
            last: began,
        }
    }

    /// Start the next request, if one is due.
    pub fn start(&mut self, now: Instant) -> Option<Due> {
        let since = self.due(now)?;
        self.started += 1;
        Some(Due {
            since,
            number: self.started - 1,
        })
    }

    /// Take back a request from [`Plan::start`] that was not sent, or must be sent again.
    pub fn put_back(&mut self) {
        self.started -= 1;
    }

    fn due(&self, now: Instant) -> Option<Instant> {
        if !self.has_more(now) {
            return None;
        }
        let due = self.paced().unwrap_or(now);
        (due <= now).then_some(due)
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.due(now).is_some()
    }

    fn paced(&self) -> Option<Instant> {
        let (rate, first) = self.pace?;
        Some(first + Duration::from_secs_f64(self.started as f64 / rate))
    }

    /// The next time to start a request (open loop). A request that is already due waits until a
    /// response frees a connection.
    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = self.paced().filter(|_| self.has_more(now))?;
        (due > now).then_some(due)
    }

    /// Whether there are requests to start.
    pub fn has_more(&self, now: Instant) -> bool {
        self.started < self.wanted && self.deadline.is_none_or(|end| now < end)
    }

    pub fn connected(&mut self, began: Instant, now: Instant) {
        self.connects += 1;
        self.handshake.record(now - began);
    }

    pub fn answered(&mut self, status: u16, since: Instant, now: Instant) {
        self.statuses[usize::from(status / 100).min(5)] += 1;
        if (200..400).contains(&status) {
            self.succeeded += 1;
        } else {
            self.failed += 1;
        }
        self.latency.record(now - since);
        self.last = now;
    }

    /// Count a request without a complete response.
    pub fn lost(&mut self) {
        self.failed += 1;
        self.lost += 1;
    }

    /// Give up all requests under way.
    pub fn give_up(&mut self) {
        let waiting = self.started - self.succeeded - self.failed;
        self.failed += waiting;
        self.lost += waiting;
    }

    /// The number of complete responses with any status.
    pub fn answers(&self) -> u64 {
        self.succeeded + self.failed - self.lost
    }

    /// Whether all requests were started and have ended.
    pub fn is_done(&self, now: Instant) -> bool {
        !self.has_more(now) && self.succeeded + self.failed >= self.started
    }

    /// A value that changes with every received part of a response.
    pub fn progress(&self) -> u64 {
        self.answers() + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str, thread: usize, began: Instant) -> Plan {
        let words = text.split(' ').chain(["https://127.0.0.1/"]);
        let options = crate::options::parse(words.map(str::to_string)).unwrap();
        Plan::new(&options, thread, began)
    }

    #[test]
    fn threads_share_what_is_asked_for() {
        let parts: Vec<u64> = (0..3).map(|part| share(10, part, 3)).collect();
        assert_eq!(parts, [4, 3, 3]);
        let now = Instant::now();
        let mut second = plan("-n 3 -c 2 -t 2", 1, now);
        assert!(second.start(now).is_some() && second.start(now).is_none());
        assert!(!second.is_done(now));
        second.lost();
        assert!(second.is_done(now));
    }

    #[test]
    fn a_late_request_of_an_open_loop_counts_from_when_it_was_due() {
        let began = Instant::now();
        let ms = |n| began + Duration::from_millis(n);
        // With 100 per second over two threads, those of the second are due after 10, 30, and 50
        // ms.
        let mut plan = plan("-n 10 -c 2 -t 2 --rate 100", 1, began);
        assert!(plan.start(began).is_none());
        assert_eq!(plan.next_due(began), Some(ms(10)));
        let due = plan.start(ms(45)).unwrap();
        assert_eq!((due.since, due.number), (ms(10), 0));
        assert!(plan.is_due(ms(45)));
        assert_eq!(
            plan.next_due(ms(45)),
            None,
            "what is due already is no timer"
        );
        assert_eq!(plan.start(ms(45)).unwrap().since, ms(30));
        plan.answered(200, due.since, ms(46));
        assert_eq!(plan.latency.max(), 36_000);
    }

    #[test]
    fn time_ends_a_run_when_what_was_started_is_answered() {
        let began = Instant::now();
        let end = began + Duration::from_secs(2);
        let mut plan = plan("-D 2", 0, began);
        let due = plan.start(began).unwrap();
        assert!(plan.start(end).is_none() && !plan.is_done(end));
        plan.answered(404, due.since, end);
        assert!(plan.is_done(end));
        assert_eq!((plan.failed, plan.lost), (1, 0));
    }
}
