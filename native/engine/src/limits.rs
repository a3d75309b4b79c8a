//! limit_req and limit_conn.

use crate::exchange::{Exchange, Guard, Limited};
use crate::metrics::Section;
use crate::panics::lock_shared;
use crate::phases::flow::Flow;
use crate::scope::Scope;
use crate::template;
use gallop_conf::model::{items, Level, LimitReq, LimitZone, LogLevel};
use gallop_runtime::{now_ms, sleep};
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The state of a key of a request limit.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// Requests above the rate, in thousandths.
    excess: u64,
    /// The time of the last request in milliseconds (monotonic clock).
    last: u64,
}

/// A request zone; when it is full, the oldest keys are dropped.
#[derive(Debug, Default)]
struct ReqZone {
    rates: HashMap<Vec<u8>, Rate>,
    order: VecDeque<Vec<u8>>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct ConnZone {
    counts: HashMap<Vec<u8>, u64>,
    capacity: usize,
}

/// All zones, shared by the threads.
#[derive(Default)]
pub struct Zones {
    req: Vec<Mutex<ReqZone>>,
    conn: Vec<Arc<Mutex<ConnZone>>>,
}

/// Bytes per state: nginx fits about 8000 states of request limits, and twice as many of connection
/// limits (64 bytes), into a megabyte.
const REQ_STATE: u64 = 128;
const CONN_STATE: u64 = 64;

impl Zones {
    /// The states of declared zones, of `limit_req` and of `limit_conn`.
    pub fn new(requests: &[LimitZone], connections: &[LimitZone]) -> Zones {
        let req = requests.iter().map(|z| {
            Mutex::new(ReqZone {
                capacity: (z.size / REQ_STATE) as usize,
                ..ReqZone::default()
            })
        });
        let conn = connections.iter().map(|z| {
            Arc::new(Mutex::new(ConnZone {
                capacity: (z.size / CONN_STATE) as usize,
                ..ConnZone::default()
            }))
        });
        Zones {
            req: req.collect(),
            conn: conn.collect(),
        }
    }
}

impl ReqZone {
    /// The excess that the request would have; `None` if this exceeds the burst. `rate` and `burst`
    /// are in thousandths.
    fn look(&self, key: &[u8], rate: u64, burst: u64, now: u64) -> Option<u64> {
        let Some(state) = self.rates.get(key) else {
            return Some(0);
        };
        let passed = now.saturating_sub(state.last);
        let excess = (state.excess + 1000).saturating_sub(rate.saturating_mul(passed) / 1000);
        (excess <= burst).then_some(excess)
    }

    fn account(&mut self, key: &[u8], excess: u64, now: u64) {
        if let Some(state) = self.rates.get_mut(key) {
            *state = Rate { excess, last: now };
            return;
        }
        while self.rates.len() >= self.capacity.max(1) {
            match self.order.pop_front() {
                Some(old) => drop(self.rates.remove(&old)),
                None => break,
            }
        }
        self.rates.insert(key.to_vec(), Rate { excess, last: now });
        self.order.push_back(key.to_vec());
    }
}

/// Releases a place in a connection limit when dropped.
struct ConnPlace {
    zone: Arc<Mutex<ConnZone>>,
    key: Vec<u8>,
}

impl Drop for ConnPlace {
    fn drop(&mut self) {
        let mut zone = lock_shared(&self.zone);
        if let Some(count) = zone.counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                zone.counts.remove(&self.key);
            }
        }
    }
}

fn level(level: LogLevel) -> Level {
    match level {
        LogLevel::Info => Level::Info,
        LogLevel::Notice => Level::Notice,
        LogLevel::Warn => Level::Warn,
        LogLevel::Error => Level::Error,
    }
}

/// Delays are logged one level below rejections.
fn delay_level(refused: Level) -> Level {
    match refused {
        Level::Error => Level::Warn,
        Level::Warn => Level::Notice,
        _ => Level::Info,
    }
}

/// Apply the limits of the location. Each kind counts a request once, even after internal
/// redirects.
pub async fn apply(ex: &mut Exchange) -> Flow {
    let conf = &ex.loc.conf;
    let (by_requests, by_connections) = (conf.limit_req.is_some(), conf.limit_conn.is_some());
    if by_requests && ex.limited.get().requests.is_none() {
        match requests(ex).await {
            Flow::Next => {}
            flow => return flow,
        }
    }
    // limit_conn counts only requests that limit_req let pass.
    if by_connections && ex.limited.get().connections.is_none() {
        return connections(ex);
    }
    Flow::Next
}

/// Count the result for a request in a limit's zone.
fn note(ex: &Exchange, section: Section, zone: usize, outcome: &str) {
    if let Some(meter) = &ex.worker.meter {
        meter.limited(section, zone, outcome);
    }
}

fn connections(ex: &mut Exchange) -> Flow {
    let worker = ex.worker.clone();
    let declared = &worker.http().limit_conn_zones;
    let told = |zone, outcome| {
        note(ex, Section::LimitConn, zone, outcome);
        note_conn(ex, outcome);
    };
    match count(ex, declared, &worker.shared.zones, told) {
        Some(places) => {
            ex.guards.extend(places);
            Flow::Next
        }
        None => {
            ex.guards.clear();
            Flow::Status(ex.loc.conf.limit_conn_status.unwrap_or(503) as u16)
        }
    }
}

/// Count a request or a session in the zones of its `limit_conn`. Returns its places, which are
/// released when they are dropped; `None` if a limit is reached. `told` gets each outcome with its
/// zone.
pub(crate) fn count<S: Scope + ?Sized>(
    scope: &S,
    declared: &[LimitZone],
    zones: &Zones,
    told: impl Fn(usize, &'static str),
) -> Option<Vec<Guard>> {
    let conf = scope.settings();
    let mut places: Vec<Guard> = Vec::new();
    for limit in items(&conf.limit_conn) {
        let zone_conf = &declared[limit.zone];
        let key = template::eval(scope, &zone_conf.key);
        if key.is_empty() || key.len() > 255 {
            continue;
        }
        let zone = &zones.conn[limit.zone];
        let mut state = lock_shared(zone);
        let full = state.counts.len() >= state.capacity.max(1) && !state.counts.contains_key(&key);
        let count = state.counts.get(&key).copied().unwrap_or(0);
        if full || count >= limit.limit {
            drop(state);
            let dry = conf.limit_conn_dry_run.unwrap_or(false);
            let level = level(conf.limit_conn_log_level.unwrap_or(LogLevel::Error));
            let mark = if dry { ", dry run," } else { "" };
            let name = &zone_conf.name;
            scope.log(
                level,
                &format!("limiting connections{mark} by zone \"{name}\""),
            );
            told(
                limit.zone,
                if dry { "REJECTED_DRY_RUN" } else { "REJECTED" },
            );
            return dry.then_some(places);
        }
        *state.counts.entry(key.clone()).or_insert(0) += 1;
        drop(state);
        places.push(Box::new(ConnPlace {
            zone: zone.clone(),
            key,
        }));
        told(limit.zone, "PASSED");
    }
    Some(places)
}

async fn requests(ex: &mut Exchange) -> Flow {
    let loc = ex.loc.clone();
    let limits = items(&loc.conf.limit_req);
    if limits.is_empty() {
        return Flow::Next;
    }
    let dry = loc.conf.limit_req_dry_run.unwrap_or(false);
    let refused = level(loc.conf.limit_req_log_level.unwrap_or(LogLevel::Error));
    let mark = if dry { ", dry run" } else { "" };
    let name = |zone: usize| ex.worker.http().limit_req_zones[zone].name.clone();
    match take_places(ex, limits, dry) {
        Verdict::Unlimited => Flow::Next,
        Verdict::Refuse { zone, excess } => {
            let zone = name(zone);
            let shown = format!("{}.{:03}", excess / 1000, excess % 1000);
            ex.log(
                refused,
                &format!("limiting requests{mark}, excess: {shown} by zone \"{zone}\""),
            );
            note_req(ex, if dry { "REJECTED_DRY_RUN" } else { "REJECTED" });
            if dry {
                return Flow::Next;
            }
            Flow::Status(loc.conf.limit_req_status.unwrap_or(503) as u16)
        }
        Verdict::Pass { delay: 0, .. } => {
            note_req(ex, "PASSED");
            Flow::Next
        }
        Verdict::Pass {
            delay,
            zone,
            excess,
        } => {
            let zone = name(zone);
            let shown = format!("{}.{:03}", excess / 1000, excess % 1000);
            ex.log(
                delay_level(refused),
                &format!("delaying request{mark}, excess: {shown}, by zone \"{zone}\""),
            );
            note_req(ex, if dry { "DELAYED_DRY_RUN" } else { "DELAYED" });
            if !dry {
                sleep(delay).await;
            }
            Flow::Next
        }
    }
}

enum Verdict {
    Unlimited,
    Refuse {
        zone: usize,
        excess: u64,
    },
    /// The delay in milliseconds, and the zone that requires it.
    Pass {
        delay: u64,
        zone: usize,
        excess: u64,
    },
}

/// Check all zones first, and count the request in them only if every zone lets it pass.
fn take_places(ex: &Exchange, limits: &[LimitReq], dry: bool) -> Verdict {
    let worker = ex.worker.clone();
    let now = now_ms();
    let mut passed = Vec::new();
    let mut worst = (0, 0, 0);
    let words = if dry {
        ["DELAYED_DRY_RUN", "REJECTED_DRY_RUN"]
    } else {
        ["DELAYED", "REJECTED"]
    };
    for limit in limits {
        let conf = &worker.http().limit_req_zones[limit.zone];
        let key = template::eval(ex, &conf.key);
        if key.is_empty() || key.len() > 65535 {
            continue;
        }
        let zone = lock_shared(&worker.shared.zones.req[limit.zone]);
        let Some(excess) = zone.look(&key, conf.rate, limit.burst, now) else {
            let all = zone.look(&key, conf.rate, u64::MAX, now).unwrap_or(0);
            drop(zone);
            note(ex, Section::LimitReq, limit.zone, words[1]);
            return Verdict::Refuse {
                zone: limit.zone,
                excess: all,
            };
        };
        drop(zone);
        let delay = excess.saturating_sub(limit.delay) * 1000 / conf.rate.max(1);
        if delay > worst.0 {
            worst = (delay, limit.zone, excess);
        }
        passed.push((limit.zone, key, excess));
    }
    if passed.is_empty() {
        return Verdict::Unlimited;
    }
    for (zone, key, excess) in passed {
        lock_shared(&worker.shared.zones.req[zone]).account(&key, excess, now);
        let delayed = worst.0 > 0 && zone == worst.1;
        let outcome = if delayed { words[0] } else { "PASSED" };
        note(ex, Section::LimitReq, zone, outcome);
    }
    Verdict::Pass {
        delay: worst.0,
        zone: worst.1,
        excess: worst.2,
    }
}

fn note_req(ex: &Exchange, requests: &'static str) {
    let requests = Some(requests);
    ex.limited.set(Limited {
        requests,
        ..ex.limited.get()
    });
}

fn note_conn(ex: &Exchange, connections: &'static str) {
    let connections = Some(connections);
    ex.limited.set(Limited {
        connections,
        ..ex.limited.get()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_leaks_at_its_rate() {
        let mut zone = ReqZone {
            capacity: 10,
            ..ReqZone::default()
        };
        let (rate, burst) = (1000, 1000);
        assert_eq!(zone.look(b"k", rate, burst, 0), Some(0));
        zone.account(b"k", 0, 0);
        assert_eq!(zone.look(b"k", rate, burst, 0), Some(1000));
        zone.account(b"k", 1000, 0);
        assert_eq!(zone.look(b"k", rate, burst, 0), None);
        assert_eq!(zone.look(b"k", rate, burst, 1000), Some(1000));
        assert_eq!(zone.look(b"k", rate, burst, 5000), Some(0));
    }

    #[test]
    fn a_full_zone_forgets_its_oldest_key() {
        let mut zone = ReqZone {
            capacity: 2,
            ..ReqZone::default()
        };
        for key in [b"a", b"b", b"c"] {
            zone.account(key, 0, 0);
        }
        assert_eq!(zone.rates.len(), 2);
        assert!(!zone.rates.contains_key(&b"a"[..]));
    }
}
