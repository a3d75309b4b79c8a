//! Names looked up while requests wait (`resolver`), and kept as long as their answers say.

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

/// Names kept by one thread; the oldest answers go when there are more.
const MAX_NAMES: usize = 4096;
/// Milliseconds a lookup goes on for, whatever those who wait for it want.
const MAX_PATIENCE: u64 = 60_000;

/// Addresses of a name.
#[derive(Clone, Debug)]
pub struct Found {
    addresses: Vec<IpAddr>,
    /// Seconds.
    ttl: u32,
}

/// A lookup under way, or its outcome.
#[derive(Default)]
struct Lookup {
    done: Notify,
    outcome: RefCell<Option<Result<Found, Refusal>>>,
    /// Milliseconds (monotonic) until which the outcome holds.
    until: Cell<u64>,
    /// Each request begins with another address.
    turn: Cell<usize>,
}

/// How a single lookup went.
pub enum Answered {
    /// Addresses, and milliseconds they may be kept for.
    Addresses(Vec<IpAddr>, u64),
    /// There is no such name, or it has no address; and why this is known.
    NoName(String),
    /// Nobody could say; and why.
    Failed(String),
}

/// Asks for a name that nobody else waits for; `turn`: the server to be asked next, `patience` in
/// milliseconds.
pub async fn once(conf: &ResolverConf, turn: &Cell<usize>, name: &str, patience: u64) -> Answered {
    match query::run(conf, turn, name, patience).await {
        Some(Ok(found)) => {
            let ms = conf.valid.unwrap_or(u64::from(found.ttl) * 1000);
            Answered::Addresses(found.addresses, ms)
        }
        Some(Err(code)) => {
            let reason = format!("{name} could not be resolved ({code}: {})", words(code));
            match code {
                query::NO_NAME => Answered::NoName(reason),
                _ => Answered::Failed(reason),
            }
        }
        None => Answered::Failed(format!(
            "{name} could not be resolved (110: Operation timed out)"
        )),
    }
}

/// The names one thread has looked up.
#[derive(Default)]
pub struct Resolver {
    /// By the `resolver` directive (its address) and name.
    lookups: RefCell<HashMap<(usize, String), Rc<Lookup>>>,
    /// By directive: the server to be asked next.
    turns: RefCell<HashMap<usize, Rc<Cell<usize>>>>,
}

impl Resolver {
    /// The addresses of a name; an error says why there are none.
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

    /// The lookup of that name whose outcome still holds, or a new one.
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
            // Only addresses are kept; after an error the next request asks anew.
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
