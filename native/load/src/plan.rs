//! Which requests are due, and what came of them.

use crate::histogram::Histogram;
use crate::options::Options;
use std::time::{Duration, Instant};

/// The run's requests and results, over all connections.
pub struct Plan {
    began: Instant,
    deadline: Option<Instant>,
    wanted: u64,
    rate: Option<f64>,
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub statuses: [u64; 6],
    pub bytes: u64,
    pub connects: u64,
    pub latency: Histogram,
    pub handshake: Histogram,
    last: Instant,
}

impl Plan {
    pub fn new(options: &Options, now: Instant) -> Self {
        Self {
            began: now,
            deadline: options.duration.map(|d| now + d),
            wanted: if options.duration.is_some() {
                u64::MAX
            } else {
                options.requests
            },
            rate: options.rate,
            started: 0,
            succeeded: 0,
            failed: 0,
            statuses: [0; 6],
            bytes: 0,
            connects: 0,
            latency: Histogram::default(),
            handshake: Histogram::default(),
            last: now,
        }
    }

    /// Starts the next request: the moment its latency counts from, if one is due.
    pub fn start(&mut self, now: Instant) -> Option<Instant> {
        if self.over(now) || self.started >= self.wanted {
            return None;
        }
        let due = match self.rate {
            None => now,
            Some(rate) => self.due(rate),
        };
        if due > now {
            return None;
        }
        self.started += 1;
        Some(due)
    }

    fn due(&self, rate: f64) -> Instant {
        self.began + Duration::from_secs_f64(self.started as f64 / rate)
    }

    /// When to look again for a request to start (open loop).
    pub fn next_due(&self) -> Option<Instant> {
        let rate = self.rate.filter(|_| self.started < self.wanted)?;
        Some(self.due(rate))
    }

    fn over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|end| now >= end)
    }

    pub fn answered(&mut self, status: u16, since: Instant, now: Instant) {
        self.statuses[usize::from(status / 100).min(5)] += 1;
        if (200..400).contains(&status) {
            self.succeeded += 1;
        } else {
            self.failed += 1;
        }
        self.latency.record((now - since).as_micros() as u64);
        self.last = now;
    }

    /// A request got no whole answer.
    pub fn lost(&mut self) {
        self.failed += 1;
    }

    /// Whether nothing is left to be started or answered.
    pub fn is_done(&self, now: Instant) -> bool {
        let none_left = self.started >= self.wanted || self.over(now);
        none_left && self.succeeded + self.failed >= self.started
    }

    /// From the start to the last answer.
    pub fn seconds(&self) -> f64 {
        (self.last - self.began).as_secs_f64()
    }

    pub fn text(&self) -> String {
        let seconds = self.seconds().max(1e-9);
        let rate = self.succeeded as f64 / seconds;
        let megabytes = self.bytes as f64 / seconds / 1e6;
        let [_, s1, s2, s3, s4, s5] = self.statuses;
        let ms = |us: u64| us as f64 / 1000.0;
        let quantiles: Vec<String> = [0.5, 0.9, 0.95, 0.99, 0.999]
            .iter()
            .map(|&share| {
                format!(
                    "p{} {:.3}ms",
                    share * 100.0,
                    ms(self.latency.quantile(share))
                )
            })
            .collect();
        format!(
            "finished in {seconds:.3}s, {rate:.2} req/s, {megabytes:.2}MB/s\n\
             requests: {} started, {} succeeded, {} failed; {} connections\n\
             status codes: {s1} 1xx, {s2} 2xx, {s3} 3xx, {s4} 4xx, {s5} 5xx\n\
             latency: mean {:.3}ms, {}, max {:.3}ms\n\
             handshake: p50 {:.3}ms, max {:.3}ms\n",
            self.started,
            self.succeeded,
            self.failed,
            self.connects,
            self.latency.mean() / 1000.0,
            quantiles.join(", "),
            ms(self.latency.max()),
            ms(self.handshake.quantile(0.5)),
            ms(self.handshake.max()),
        )
    }

    /// One object; times in microseconds.
    pub fn json(&self) -> String {
        let quantiles: Vec<String> = [0.5, 0.9, 0.95, 0.99, 0.999]
            .iter()
            .map(|&share| format!("\"p{}\":{}", share * 100.0, self.latency.quantile(share)))
            .collect();
        let [_, s1, s2, s3, s4, s5] = self.statuses;
        format!(
            "{{\"seconds\":{:.6},\"started\":{},\"succeeded\":{},\"failed\":{},\"bytes\":{},\
             \"connections\":{},\"statuses\":{{\"1xx\":{s1},\"2xx\":{s2},\"3xx\":{s3},\"4xx\":{s4},\
             \"5xx\":{s5}}},\"latency_us\":{{\"mean\":{:.1},{},\"max\":{}}},\
             \"handshake_us\":{{\"p50\":{},\"max\":{}}}}}\n",
            self.seconds(),
            self.started,
            self.succeeded,
            self.failed,
            self.bytes,
            self.connects,
            self.latency.mean(),
            quantiles.join(","),
            self.latency.max(),
            self.handshake.quantile(0.5),
            self.handshake.max(),
        )
    }
}
