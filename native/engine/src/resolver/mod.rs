//! Asynchronous name lookups (`resolver`), cached for the TTL of the responses.

mod message;
mod query;

use gallop_conf::model::ResolverConf;
use gallop_runtime::{now_ms, timeout, Notify};
use query::Refusal;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// The most names cached per thread; the oldest results are dropped first.
const MAX_NAMES: usize = 4096;
/// The most milliseconds of a lookup, independent of the requests that wait.
const MAX_PATIENCE: u64 = 60_000;

/// The addresses of a name.
#[derive(Clone, Debug)]
pub struct Found {
    addresses: Vec<IpAddr>,
    /// The TTL in seconds.
    ttl: u32,
}

/// An address that a name of an upstream server stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Located {
    pub ip: IpAddr,
    pub service: Option<Service>,
}

/// The values of an SRV record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    pub port: u16,
    pub weight: u16,
    /// Whether records of a lower priority value exist.
    pub backup: bool,
}

impl From<IpAddr> for Located {
    fn from(ip: IpAddr) -> Located {
        Located { ip, service: None }
    }
}

/// A lookup under way, or its result.
#[derive(Default)]
struct Lookup {
    done: Notify,
    outcome: RefCell<Option<Result<Found, Refusal>>>,
    /// The end of the result's validity in milliseconds (monotonic clock).
    until: Cell<u64>,
    /// Rotates the addresses: each request starts with another one.
    turn: Cell<usize>,
}

/// The result of a single lookup.
pub enum Answered {
    /// The addresses, and the milliseconds that they may be cached.
    Addresses(Vec<Located>, u64),
    /// The name does not exist or has no address, with the reason.
    NoName(String),
    /// No server responded, with the reason.
    Failed(String),
}

/// Look up a name without sharing the result; `turn`: the next server to ask, `patience` in
/// milliseconds.
pub async fn once(conf: &ResolverConf, turn: &Cell<usize>, name: &str, patience: u64) -> Answered {
    match query::run(conf, turn, name, patience).await {
        Some(Ok(found)) => {
            let ms = conf.valid.unwrap_or(u64::from(found.ttl) * 1000);
            let addresses = found.addresses.into_iter().map(Located::from);
            Answered::Addresses(addresses.collect(), ms)
        }
        Some(Err(code)) => refused(name, code),
        None => Answered::Failed(lost_text(name, None)),
    }
}

fn refused(what: &str, code: Refusal) -> Answered {
    let reason = lost_text(what, Some(code));
    match code {
        query::NO_NAME => Answered::NoName(reason),
        _ => Answered::Failed(reason),
    }
}

/// Look up the hosts and ports of a service; `records`: the name of its SRV records. The names of
/// hosts without an address are reported to `complain`.
pub async fn service(
    conf: &ResolverConf,
    turn: &Cell<usize>,
    records: &str,
    patience: u64,
    complain: impl Fn(&str),
) -> Answered {
    let what = format!("service {records}");
    let (records, mut ttl) = match query::records(conf, turn, records, patience).await {
        Some(Ok(found)) => found,
        Some(Err(code)) => return refused(&what, code),
        None => return Answered::Failed(lost_text(&what, None)),
    };
    let mut hosts: Vec<&str> = records.iter().map(|r| r.target.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let lookups = hosts
        .iter()
        .map(|host| query::run(conf, turn, host, patience));
    let outcomes = query::all(lookups).await;
    let (mut found, mut failure) = (Vec::new(), None);
    for (host, outcome) in hosts.iter().zip(outcomes) {
        match outcome {
            Some(Ok(at)) => {
                ttl = ttl.min(at.ttl);
                found.extend(located(host, &at, &records));
            }
            lost => {
                let code = lost.and_then(Result::err);
                complain(&format!("{} while resolving {what}", lost_text(host, code)));
                // That a name does not exist counts more than that a server failed.
                failure = failure.filter(|f| *f == query::NO_NAME).or(code);
            }
        }
    }
    match failure {
        Some(code) if found.is_empty() => refused(&what, code),
        None if found.is_empty() => Answered::Failed(lost_text(&what, None)),
        _ => Answered::Addresses(ranked(&found), conf.valid.unwrap_or(u64::from(ttl) * 1000)),
    }
}

/// The places of a host with their priorities: its addresses with the values of each record that
/// names it.
fn located(host: &str, at: &Found, records: &[query::Record]) -> Vec<(u16, Located)> {
    let own = records.iter().filter(|r| r.target == host);
    let places = own.flat_map(|record| {
        let service = Service {
            port: record.port,
            weight: record.weight.max(1),
            backup: false,
        };
        at.addresses.iter().map(move |ip| {
            let place = Located {
                ip: *ip,
                service: Some(service),
            };
            (record.priority, place)
        })
    });
    places.collect()
}

/// The places; all but those of the lowest priority value are backups.
fn ranked(places: &[(u16, Located)]) -> Vec<Located> {
    let best = places.iter().map(|(priority, _)| priority).min();
    let rank = |(priority, place): &(u16, Located)| {
        let backup = Some(priority) != best;
        let service = place.service.map(|service| Service { backup, ..service });
        Located { service, ..*place }
    };
    places.iter().map(rank).collect()
}

/// The reason for having no address; `None` is a timeout.
fn lost_text(what: &str, code: Option<Refusal>) -> String {
    let (number, words) = match code {
        Some(code) => (code, words(code)),
        None => (110, "Operation timed out"),
    };
    format!("{what} could not be resolved ({number}: {words})")
}

/// The names that a thread has looked up.
#[derive(Default)]
pub struct Resolver {
    /// Lookups by the `resolver` directive (its address) and the name.
    lookups: RefCell<HashMap<(usize, String), Rc<Lookup>>>,
    /// The next server to ask, by directive.
    turns: RefCell<HashMap<usize, Rc<Cell<usize>>>>,
}

impl Resolver {
    /// The addresses of a name; the error is the reason for having none.
    pub async fn resolve(
        &self,
        conf: &Arc<ResolverConf>,
        name: &str,
        patience: u64,
    ) -> Result<Vec<IpAddr>, String> {
        let name = name.to_ascii_lowercase();
        let lookup = self.lookup(conf, &name);
        if timeout(patience, lookup.done.wait()).await.is_err() {
            return Err(format!(
                "{name} could not be resolved (110: Operation timed out)"
            ));
        }
        let outcome = lookup.outcome.borrow();
        match &*outcome {
            Some(Ok(found)) => {
                let mut addresses = found.addresses.clone();
                let turn = lookup.turn.get();
                lookup.turn.set(turn.wrapping_add(1));
                let by = turn % addresses.len().max(1);
                addresses.rotate_left(by);
                Ok(addresses)
            }
            Some(Err(code)) => Err(format!(
                "{name} could not be resolved ({code}: {})",
                words(*code)
            )),
            None => Err(format!(
                "{name} could not be resolved (110: Operation timed out)"
            )),
        }
    }

    /// The cached or running lookup of a name, or a new one.
    fn lookup(&self, conf: &Arc<ResolverConf>, name: &str) -> Rc<Lookup> {
        let mut lookups = self.lookups.borrow_mut();
        let key = (Arc::as_ptr(conf) as usize, name.to_string());
        let holds = |l: &Rc<Lookup>| !l.done.is_set() || l.until.get() > now_ms();
        if let Some(lookup) = lookups.get(&key).filter(|l| holds(l)) {
            return lookup.clone();
        }
        if lookups.len() >= MAX_NAMES {
            lookups.retain(|_, l| holds(l));
        }
        if lookups.len() >= MAX_NAMES {
            lookups.clear();
        }
        let lookup = Rc::new(Lookup::default());
        lookups.insert(key, lookup.clone());
        drop(lookups);
        let (conf, name) = (conf.clone(), name.to_string());
        let place = Arc::as_ptr(&conf) as usize;
        let next = self.turns.borrow_mut().entry(place).or_default().clone();
        let task = lookup.clone();
        gallop_runtime::spawn(async move {
            let outcome = query::run(&conf, &next, &name, MAX_PATIENCE).await;
            // Only addresses are cached; after an error the next request starts a new lookup.
            if let Some(Ok(found)) = &outcome {
                let ms = conf.valid.unwrap_or(u64::from(found.ttl) * 1000);
                task.until.set(now_ms().saturating_add(ms));
            }
            *task.outcome.borrow_mut() = outcome;
            task.done.set();
        });
        lookup
    }
}

fn words(code: Refusal) -> &'static str {
    match code {
        1 => "Format error",
        2 => "Server failure",
        3 => "Host not found",
        4 => "Unimplemented",
        5 => "Operation refused",
        _ => "Unknown error",
    }
}
