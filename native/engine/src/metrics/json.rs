//! The status as JSON.

use super::histogram::{self, quantile};
use super::{
    peer, zone, Live, Section, Snapshot, CACHE, CLASSES, LIMIT_CONN, LIMIT_REQ, PROTOCOLS, QUIC,
};
use crate::escape;

/// Writes JSON objects and places the commas.
#[derive(Default)]
struct Writer {
    out: Vec<u8>,
}

impl Writer {
    fn key(&mut self, name: &str) {
        if !matches!(self.out.last(), None | Some(b'{' | b'[')) {
            self.out.push(b',');
        }
        self.text(name);
        self.out.push(b':');
    }

    fn text(&mut self, text: &str) {
        self.out.push(b'"');
        escape::json(text.as_bytes(), &mut self.out);
        self.out.push(b'"');
    }

    fn number(&mut self, name: &str, n: u64) {
        self.raw(name, &n.to_string());
    }

    fn string(&mut self, name: &str, text: &str) {
        self.key(name);
        self.text(text);
    }

    fn raw(&mut self, name: &str, value: &str) {
        self.key(name);
        self.out.extend_from_slice(value.as_bytes());
    }

    fn object(&mut self, name: &str, fill: impl FnOnce(&mut Writer)) {
        self.key(name);
        self.braced(fill);
    }

    fn braced(&mut self, fill: impl FnOnce(&mut Writer)) {
        self.out.push(b'{');
        fill(self);
        self.out.push(b'}');
    }

    fn numbers(&mut self, name: &str, names: &[&str], counts: &[u64]) {
        self.object(name, |w| {
            names.iter().zip(counts).for_each(|(n, c)| w.number(n, *c));
        });
    }
}

/// The status as a JSON object. Names of times end in `_ms`, or the times are seconds since 1970.
pub fn json(live: &Live) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.braced(|w| {
        w.string("server", crate::PRODUCT_VERSION);
        w.number("pid", live.pid.into());
        w.number("threads", live.threads as u64);
        w.number("generation", live.generation);
        w.number("started", live.started);
        w.number("loaded", live.loaded);
        w.raw("now", &now());
        let c = &live.counts.counters;
        let names = [
            "accepted", "handled", "active", "reading", "writing", "idle",
        ];
        let connections = [c[0], c[1], c[3], c[4], c[5], c[6]];
        w.numbers("connections", &names, &connections);
        w.number("requests", c[2]);
        let row = |section| live.counts.row(section).unwrap_or_default();
        w.numbers("protocols", &PROTOCOLS, row(Section::Protocol));
        w.numbers("quic", &QUIC.map(|(name, _)| name), row(Section::Quic));
        zones(w, &live.counts);
        caches(w, live);
        upstreams(w, live);
        limits(w, &live.counts, "limit_req", Section::LimitReq, &LIMIT_REQ);
        limits(
            w,
            &live.counts,
            "limit_conn",
            Section::LimitConn,
            &LIMIT_CONN,
        );
    });
    writer.out.push(b'\n');
    writer.out
}

/// Seconds since 1970 with milliseconds, so that two readings give rates.
fn now() -> String {
    let ms = gallop_runtime::unix_time();
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

fn zones(w: &mut Writer, counts: &Snapshot) {
    w.object("zones", |w| {
        for (name, row) in counts.rows(Section::Zone) {
            w.object(name, |w| {
                w.number("requests", row[..CLASSES.len()].iter().sum());
                w.numbers("responses", &CLASSES, row);
                w.number("received", row[zone::RECEIVED]);
                w.number("sent", row[zone::SENT]);
                latencies(w, row[zone::TIME], &row[zone::LATENCIES..]);
            });
        }
    });
}

fn latencies(w: &mut Writer, time: u64, buckets: &[u64]) {
    w.raw("time_ms", &milliseconds(time));
    w.object("latency_ms", |w| {
        for (name, per_mille) in [("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999)] {
            if let Some(us) = quantile(buckets, per_mille) {
                w.raw(name, &milliseconds(us));
            }
        }
    });
    // Pairs of an upper bound (microseconds; null for none) and the number of values in the bucket.
    w.key("buckets_us");
    let used = buckets.iter().enumerate().filter(|(_, n)| **n > 0);
    let pairs = used.map(|(i, n)| {
        let bound = histogram::bound(i).map_or("null".into(), |b| b.to_string());
        format!("[{bound},{n}]")
    });
    let text = pairs.collect::<Vec<_>>().join(",");
    w.out.extend_from_slice(format!("[{text}]").as_bytes());
}

fn milliseconds(us: u64) -> String {
    format!("{}.{:03}", us / 1000, us % 1000)
}

fn caches(w: &mut Writer, live: &Live) {
    w.object("caches", |w| {
        for cache in &live.caches {
            w.object(&cache.name, |w| {
                w.number("size", cache.size);
                match cache.max_size {
                    Some(most) => w.number("max_size", most),
                    None => w.raw("max_size", "null"),
                }
                w.number("entries", cache.entries);
                w.raw("cold", if cache.cold { "true" } else { "false" });
                let row = live.counts.rows(Section::Cache).get(&cache.name);
                let names = CACHE.map(str::to_ascii_lowercase);
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                w.numbers("responses", &names, row.map_or(&[], Vec::as_slice));
            });
        }
    });
}

fn upstreams(w: &mut Writer, live: &Live) {
    w.object("upstreams", |w| {
        let mut peers = live.peers.as_slice();
        while let Some(first) = peers.first() {
            let (group, _) = super::live::split(&first.key);
            let same = |p: &super::live::PeerState| super::live::split(&p.key).0 == group;
            let n = peers.iter().take_while(|p| same(p)).count();
            w.object(group, |w| peers[..n].iter().for_each(|p| one(w, live, p)));
            peers = &peers[n..];
        }
    });
}

fn one(w: &mut Writer, live: &Live, p: &super::live::PeerState) {
    w.object(super::live::split(&p.key).1, |w| {
        w.string("state", p.state);
        w.raw("backup", if p.backup { "true" } else { "false" });
        w.number("weight", p.weight.into());
        w.number("active", p.active.into());
        let none = vec![0; Section::Peer.width()];
        let row = live.counts.rows(Section::Peer).get(&p.key).unwrap_or(&none);
        w.number("requests", row[..CLASSES.len()].iter().sum());
        w.numbers("responses", &CLASSES, row);
        w.number("fails", row[peer::FAILS]);
        w.number("time_ms", row[peer::TIME]);
        if let Some(checks) = p.checks {
            let names = ["checks", "fails", "unhealthy"];
            let counts = [checks.checks, checks.fails, checks.unhealthy];
            w.numbers("health_checks", &names, &counts);
        }
    });
}

fn limits(w: &mut Writer, counts: &Snapshot, name: &str, section: Section, outcomes: &[&str]) {
    let names: Vec<String> = outcomes.iter().map(|o| o.to_ascii_lowercase()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    w.object(name, |w| {
        for (zone, row) in counts.rows(section) {
            w.numbers(zone, &names, row);
        }
    });
}
