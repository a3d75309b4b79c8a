//! The results of all threads, as text and as JSON.

use crate::histogram::Histogram;
use crate::options::Options;
use crate::plan::Plan;
use crate::usage::Usage;
use std::time::Instant;

/// The points of the latency curve in percent.
const CURVE: [f64; 18] = [
    0.0, 10.0, 25.0, 50.0, 75.0, 80.0, 85.0, 90.0, 92.5, 95.0, 97.0, 98.0, 99.0, 99.5, 99.9, 99.95,
    99.99, 99.999,
];
const NAMED: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

pub struct Report {
    protocol: &'static str,
    open_loop: bool,
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    lost: u64,
    statuses: [u64; 6],
    bytes: u64,
    connects: u64,
    latency: Histogram,
    handshake: Histogram,
    seconds: f64,
    threads: Vec<Usage>,
}

impl Report {
    pub fn new(options: &Options, began: Instant, threads: &[(Plan, Usage)]) -> Self {
        let sum = |of: fn(&Plan) -> u64| threads.iter().map(|(plan, _)| of(plan)).sum();
        let last = threads.iter().map(|(plan, _)| plan.last).max();
        let mut report = Self {
            protocol: options.protocol.alpn(),
            open_loop: options.rate.is_some(),
            started: sum(|plan| plan.started),
            succeeded: sum(|plan| plan.succeeded),
            failed: sum(|plan| plan.failed),
            lost: sum(|plan| plan.lost),
            statuses: [0; 6],
            bytes: sum(|plan| plan.bytes),
            connects: sum(|plan| plan.connects),
            latency: Histogram::default(),
            handshake: Histogram::default(),
            // The time from the start to the last response.
            seconds: last.map_or(0.0, |last| (last - began).as_secs_f64()),
            threads: threads.iter().map(|(_, usage)| *usage).collect(),
        };
        for (plan, _) in threads {
            report.latency.merge(&plan.latency);
            report.handshake.merge(&plan.handshake);
            for (own, more) in report.statuses.iter_mut().zip(plan.statuses) {
                *own += more;
            }
        }
        report
    }

    fn busiest(&self) -> Usage {
        let busy = |usage: &Usage| usage.cpu_share() + usage.waited_share();
        let all = self.threads.iter().copied();
        all.max_by(|a, b| busy(a).total_cmp(&busy(b)))
            .unwrap_or_default()
    }

    /// The reason if the load generator rather than the server limited the results.
    fn bottleneck(&self) -> Option<String> {
        let busiest = self.busiest();
        let cpu = 100.0 * busiest.cpu_share();
        let waited = 100.0 * busiest.waited_share();
        busiest.is_bound().then(|| {
            format!(
                "gallop-load was itself the bottleneck: its busiest thread used {cpu:.0} % of a CPU and waited for \
                 one {waited:.0} % of the time"
            )
        })
    }

    pub fn text(&self) -> String {
        let seconds = self.seconds.max(1e-9);
        let rate = self.succeeded as f64 / seconds;
        let megabytes = self.bytes as f64 / seconds / 1e6;
        let [_, s1, s2, s3, s4, s5] = self.statuses;
        let ms = |us: u64| us as f64 / 1000.0;
        let named = NAMED.iter().map(|&percent| {
            let time = ms(self.latency.quantile(percent / 100.0));
            format!("p{percent} {time:.3}ms")
        });
        let busiest = self.busiest();
        let mut text = format!(
            "finished in {seconds:.3}s, {rate:.2} req/s, {megabytes:.2}MB/s\n\
             requests: {} started, {} succeeded, {} failed, {} lost; {} connections, {}\n\
             status codes: {s1} 1xx, {s2} 2xx, {s3} 3xx, {s4} 4xx, {s5} 5xx\n\
             latency{}: mean {:.3}ms, {}, max {:.3}ms\n\
             handshake: p50 {:.3}ms, max {:.3}ms\n\
             gallop-load: busiest of {} threads used {:.0} % of a CPU\n",
            self.started,
            self.succeeded,
            self.failed,
            self.lost,
            self.connects,
            self.protocol,
            if self.open_loop { " from when due" } else { "" },
            self.latency.mean() / 1000.0,
            named.collect::<Vec<_>>().join(", "),
            ms(self.latency.max()),
            ms(self.handshake.quantile(0.5)),
            ms(self.handshake.max()),
            self.threads.len(),
            100.0 * busiest.cpu_share(),
        );
        if let Some(words) = self.bottleneck() {
            text += &format!("warning: {words}; choose more threads (-t) or fewer connections\n");
        }
        text
    }

    /// A JSON object with times in microseconds. `curve_us` extends as far as the number of
    /// requests allows.
    pub fn json(&self) -> String {
        let named: Vec<String> = NAMED
            .iter()
            .map(|&p| format!("\"p{p}\":{}", self.latency.quantile(p / 100.0)))
            .collect();
        let curve: Vec<String> = CURVE
            .iter()
            .filter(|&&p| self.latency.count() as f64 * (100.0 - p) >= 100.0)
            .map(|&p| format!("[{p},{}]", self.latency.quantile(p / 100.0)))
            .collect();
        let threads: Vec<String> = self
            .threads
            .iter()
            .map(|usage| {
                format!(
                    "{{\"cpu\":{:.4},\"waited\":{:.4}}}",
                    usage.cpu_share(),
                    usage.waited_share()
                )
            })
            .collect();
        let [_, s1, s2, s3, s4, s5] = self.statuses;
        format!(
            "{{\"seconds\":{:.6},\"started\":{},\"succeeded\":{},\"failed\":{},\"lost\":{},\"bytes\":{},\
             \"protocol\":\"{}\",\"open_loop\":{},\
             \"connections\":{},\"statuses\":{{\"1xx\":{s1},\"2xx\":{s2},\"3xx\":{s3},\"4xx\":{s4},\
             \"5xx\":{s5}}},\"latency_us\":{{\"mean\":{:.1},{},\"max\":{}}},\"curve_us\":[{}],\
             \"handshake_us\":{{\"p50\":{},\"max\":{}}},\"threads\":[{}],\"bottleneck\":{}}}\n",
            self.seconds,
            self.started,
            self.succeeded,
            self.failed,
            self.lost,
            self.bytes,
            self.protocol,
            self.open_loop,
            self.connects,
            self.latency.mean(),
            named.join(","),
            self.latency.max(),
            curve.join(","),
            self.handshake.quantile(0.5),
            self.handshake.max(),
            threads.join(","),
            self.bottleneck().is_some(),
        )
    }
}
