//! The status in the Prometheus text format 0.0.4.

use super::histogram::doublings;
use super::live::{split, PeerState};
use super::{
    peer, zone, Live, Section, Snapshot, CACHE, CLASSES, LIMIT_CONN, LIMIT_REQ, PROTOCOLS, QUIC,
};
use crate::upstream::marks::CheckCounts;
use std::fmt::{Display, Write};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes metric families.
#[derive(Default)]
struct Writer {
    out: String,
    family: String,
}

impl Writer {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.family = format!("gallop_{name}");
        self.put(format_args!(
            "# HELP {} {help}\n# TYPE {} {kind}\n",
            self.family.clone(),
            self.family.clone()
        ));
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(text);
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(&self.family.clone());
        self.out.push_str(suffix);
        for (i, (name, text)) in labels.iter().enumerate() {
            self.out.push(if i == 0 { '{' } else { ',' });
            self.out.push_str(name);
            self.out.push_str("=\"");
            escape(text, &mut self.out);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        self.put(format_args!(" {value}\n"));
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample("", &[], value);
    }
}

/// Escape the backslash, the quote, and the line feed in a label value.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

/// Microseconds as seconds.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The status as a page of Prometheus metrics.
pub fn prometheus(live: &Live) -> Vec<u8> {
    let mut w = Writer::default();
    process(&mut w, live);
    connections(&mut w, &live.counts);
    zones(&mut w, &live.counts);
    caches(&mut w, live);
    upstreams(&mut w, live);
    limits(&mut w, &live.counts);
    w.out.into_bytes()
}

fn process(w: &mut Writer, live: &Live) {
    w.family("info", "gauge", "The server and its version.");
    let version = env!("CARGO_PKG_VERSION");
    w.sample("", &[("version", version)], 1);
    let help = "When the master process started, in seconds since 1970.";
    w.single("start_time_seconds", "gauge", help, live.started);
    let help = "When the configuration was loaded, in seconds since 1970.";
    w.single("config_load_time_seconds", "gauge", help, live.loaded);
    let help = "Configurations loaded since the start.";
    w.single("config_loads_total", "counter", help, live.generation);
    w.single(
        "threads",
        "gauge",
        "Threads that serve requests.",
        live.threads,
    );
}

fn connections(w: &mut Writer, counts: &Snapshot) {
    let c = &counts.counters;
    w.single(
        "connections_accepted_total",
        "counter",
        "Connections accepted.",
        c[0],
    );
    let help = "Connections accepted and not dropped for want of worker_connections.";
    w.single("connections_handled_total", "counter", help, c[1]);
    w.single("requests_total", "counter", "Requests received.", c[2]);
    w.family("connections", "gauge", "Open connections by what they do.");
    for (state, n) in [("reading", c[4]), ("writing", c[5]), ("idle", c[6])] {
        w.sample("", &[("state", state)], n);
    }
    w.single("connections_active", "gauge", "Open connections.", c[3]);
    if let Some(row) = counts.row(Section::Protocol) {
        w.family(
            "protocol_requests_total",
            "counter",
            "Requests answered by version of HTTP.",
        );
        for (name, n) in PROTOCOLS.iter().zip(row) {
            w.sample("", &[("protocol", name)], n);
        }
    }
    if let Some(row) = counts.row(Section::Quic) {
        for ((name, help), n) in QUIC.iter().zip(row) {
            w.single(&format!("quic_{name}_total"), "counter", help, n);
        }
    }
}

fn zones(w: &mut Writer, counts: &Snapshot) {
    let zones = counts.rows(Section::Zone);
    if zones.is_empty() {
        return;
    }
    w.family(
        "zone_requests_total",
        "counter",
        "Requests answered by status zone and status class.",
    );
    for (name, row) in zones {
        for (class, n) in CLASSES.iter().zip(row) {
            w.sample("", &[("zone", name), ("class", class)], n);
        }
    }
    let bytes = [
        ("received", "Bytes of requests' heads", zone::RECEIVED),
        ("sent", "Bytes of answers", zone::SENT),
    ];
    for (what, help, field) in bytes {
        let help = format!("{help} by status zone.");
        w.family(&format!("zone_{what}_bytes_total"), "counter", &help);
        zones
            .iter()
            .for_each(|(name, row)| w.sample("", &[("zone", name)], row[field]));
    }
    let help = "Seconds from a request's arrival to its answer's end.";
    w.family("zone_request_duration_seconds", "histogram", help);
    for (name, row) in zones {
        let (total, buckets) = (
            row[..CLASSES.len()].iter().sum::<u64>(),
            &row[zone::LATENCIES..],
        );
        // Cells are read separately, so the total of a changing histogram may lag behind its
        // buckets.
        let total = total.max(buckets.iter().sum());
        for (bound, below) in doublings(buckets) {
            w.sample("_bucket", &[("zone", name), ("le", &seconds(bound))], below);
        }
        w.sample("_bucket", &[("zone", name), ("le", "+Inf")], total);
        w.sample("_sum", &[("zone", name)], seconds(row[zone::TIME]));
        w.sample("_count", &[("zone", name)], total);
    }
}

fn caches(w: &mut Writer, live: &Live) {
    if live.caches.is_empty() {
        return;
    }
    w.family(
        "cache_responses_total",
        "counter",
        "Answers by cache and what it did for them.",
    );
    for (name, row) in live.counts.rows(Section::Cache) {
        for (status, n) in CACHE.iter().zip(row) {
            let status = status.to_ascii_lowercase();
            w.sample("", &[("cache", name), ("status", &status)], n);
        }
    }
    w.family(
        "cache_size_bytes",
        "gauge",
        "Bytes of the answers a cache keeps.",
    );
    live.caches
        .iter()
        .for_each(|c| w.sample("", &[("cache", &c.name)], c.size));
    w.family(
        "cache_entries",
        "gauge",
        "Answers that a cache keeps or has seen asked for.",
    );
    live.caches
        .iter()
        .for_each(|c| w.sample("", &[("cache", &c.name)], c.entries));
}

fn upstreams(w: &mut Writer, live: &Live) {
    if live.peers.is_empty() {
        return;
    }
    let counts = live.counts.rows(Section::Peer);
    w.family(
        "upstream_responses_total",
        "counter",
        "Tries at an upstream's server by status class.",
    );
    for (key, row) in counts {
        let (group, server) = split(key);
        for (class, n) in CLASSES.iter().zip(row) {
            w.sample(
                "",
                &[("upstream", group), ("server", server), ("class", class)],
                n,
            );
        }
    }
    w.family(
        "upstream_fails_total",
        "counter",
        "Tries that got no answer.",
    );
    for (key, row) in counts {
        let (group, server) = split(key);
        w.sample(
            "",
            &[("upstream", group), ("server", server)],
            row[peer::FAILS],
        );
    }
    w.family(
        "upstream_response_seconds_total",
        "counter",
        "Seconds of all tries together.",
    );
    for (key, row) in counts {
        let (group, server) = split(key);
        let time = seconds(row[peer::TIME] * 1000);
        w.sample("", &[("upstream", group), ("server", server)], time);
    }
    let gauge = |w: &mut Writer, name: &str, help: &str, value: fn(&PeerState) -> u32| {
        w.family(name, "gauge", help);
        for p in &live.peers {
            let (group, server) = split(&p.key);
            w.sample("", &[("upstream", group), ("server", server)], value(p));
        }
    };
    gauge(
        w,
        "upstream_active",
        "Connections in use to an upstream's server.",
        |p| p.active,
    );
    let help = "Whether an upstream's server is given requests.";
    gauge(w, "upstream_up", help, |p| u32::from(p.state == "up"));
    health_checks(w, live);
}

fn health_checks(w: &mut Writer, live: &Live) {
    let checked = live.peers.iter().filter_map(|p| Some((p, p.checks?)));
    if checked.clone().next().is_none() {
        return;
    }
    let mut counter = |name: &str, help: &str, value: fn(&CheckCounts) -> u64| {
        w.family(name, "counter", help);
        for (p, counts) in checked.clone() {
            let (group, server) = split(&p.key);
            w.sample(
                "",
                &[("upstream", group), ("server", server)],
                value(&counts),
            );
        }
    };
    let help = "Health checks of an upstream's server.";
    counter("upstream_health_checks_total", help, |c| c.checks);
    let help = "Health checks that failed.";
    counter("upstream_health_check_fails_total", help, |c| c.fails);
}

fn limits(w: &mut Writer, counts: &Snapshot) {
    let kinds: [(&str, Section, &[&str]); 2] = [
        ("limit_req", Section::LimitReq, &LIMIT_REQ),
        ("limit_conn", Section::LimitConn, &LIMIT_CONN),
    ];
    for (name, section, outcomes) in kinds {
        if counts.rows(section).is_empty() {
            continue;
        }
        let help = format!("Requests by zone of {name} and what it did with them.");
        w.family(&format!("{name}_total"), "counter", &help);
        for (zone, row) in counts.rows(section) {
            for (outcome, n) in outcomes.iter().zip(row) {
                let outcome = outcome.to_ascii_lowercase();
                w.sample("", &[("zone", zone), ("outcome", &outcome)], n);
            }
        }
    }
}
