//! Periodic resolution of upstream servers' names (`resolve`).

use super::balancers::Balancers;
use super::found::key;
use crate::resolver::{once, service, Answered, Located};
use crate::worker::{Shared, Worker};
use gallop_conf::model::{Level, Peer, PeerAddr, PeerName, ResolverConf, Upstream};
use gallop_runtime::{sleep, spawn};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// The default of `resolver_timeout` in milliseconds.
const DEFAULT_TIMEOUT: u64 = 30_000;
/// The least milliseconds between two lookups of a name.
const SHORTEST: u64 = 1000;

/// The balancers of a block.
type Balancing = fn(&Shared) -> &Balancers;

/// A group and the current addresses of its names.
struct Names {
    worker: Rc<Worker>,
    balancers: Balancing,
    index: usize,
    conf: Arc<Upstream>,
    /// By index in `conf.resolving`.
    found: RefCell<Vec<Vec<Located>>>,
    /// The next name server to ask.
    turn: Cell<usize>,
}

/// Resolve the names while this thread runs, unless another thread does.
pub fn start(worker: &Rc<Worker>) {
    let config = &worker.shared.config;
    if let Some(http) = &config.http {
        start_block(worker, &http.upstreams, |shared| &shared.balancers);
    }
    if let Some(stream) = &config.stream {
        start_block(worker, &stream.upstreams, |shared| &shared.stream_balancers);
    }
}

fn start_block(worker: &Rc<Worker>, groups: &[Arc<Upstream>], balancers: Balancing) {
    let groups = groups.iter().enumerate();
    let mut groups = groups.filter(|(_, u)| !u.resolving.is_empty()).peekable();
    let own = balancers(&worker.shared);
    if groups.peek().is_none() || !own.claim_lookups() {
        return;
    }
    for (index, conf) in groups {
        let found = last(conf, &|name| worker.shared.history.found(name));
        // The group may have been created from slightly older addresses.
        own.replace(index, with_found(conf, &found));
        let names = Rc::new(Names {
            worker: worker.clone(),
            balancers,
            index,
            conf: conf.clone(),
            found: RefCell::new(found),
            turn: Cell::new(0),
        });
        for place in 0..conf.resolving.len() {
            spawn(names.clone().follow(place));
        }
    }
}

/// The last known addresses of each name of a group.
fn last(conf: &Upstream, known: &impl Fn(&str) -> Option<Vec<Located>>) -> Vec<Vec<Located>> {
    let of = |peer: &Peer| known(&key(conf, peer.resolve.as_ref()?));
    let names = conf.resolving.iter();
    names.map(|peer| of(peer).unwrap_or_default()).collect()
}

/// A group with the last known addresses of its names.
pub fn recall(
    conf: &Arc<Upstream>,
    known: &impl Fn(&str) -> Option<Vec<Located>>,
) -> Arc<Upstream> {
    if conf.resolving.is_empty() {
        return conf.clone();
    }
    Arc::new(with_found(conf, &last(conf, known)))
}

fn with_found(conf: &Upstream, found: &[Vec<Located>]) -> Upstream {
    let mut all = conf.clone();
    for (peer, places) in conf.resolving.iter().zip(found) {
        all.peers.extend(places.iter().map(|at| located(peer, at)));
    }
    all
}

/// A server at one of the addresses of its name. As in nginx, SRV records set the weight unless the
/// configuration does.
fn located(peer: &Peer, at: &Located) -> Peer {
    let port = peer.resolve.as_ref().map_or(0, |name| name.port);
    let port = at.service.map_or(port, |service| service.port);
    let weight = match at.service {
        Some(service) if peer.weight == 1 => service.weight.into(),
        _ => peer.weight,
    };
    Peer {
        addr: PeerAddr::Inet(SocketAddr::new(at.ip, port)),
        weight,
        backup: peer.backup || at.service.is_some_and(|service| service.backup),
        ..peer.clone()
    }
}

impl Names {
    async fn follow(self: Rc<Self>, place: usize) {
        let Some(name) = self.conf.resolving[place].resolve.clone() else {
            return;
        };
        let Some(resolver) = self.conf.resolver.clone() else {
            return;
        };
        let key = key(&self.conf, &name);
        if let Some(known) = self.worker.shared.history.found(&key) {
            // Store the addresses for the next worker, in case its first lookup is late.
            self.remember(&key, &known);
        }
        let patience = self.conf.resolver_timeout.unwrap_or(DEFAULT_TIMEOUT);
        loop {
            let wait = match self.look_up(&resolver, &name, patience).await {
                Answered::Addresses(mut found, ms) => {
                    found.sort_unstable();
                    self.remember(&key, &found);
                    self.set(place, found);
                    ms
                }
                Answered::NoName(reason) => {
                    self.log(&reason);
                    self.remember(&key, &[]);
                    self.set(place, Vec::new());
                    resolver.valid.unwrap_or(patience)
                }
                Answered::Failed(reason) => {
                    // The known addresses may still be correct.
                    self.log(&reason);
                    patience
                }
            };
            sleep(wait.max(SHORTEST)).await;
        }
    }

    async fn look_up(&self, resolver: &ResolverConf, name: &PeerName, patience: u64) -> Answered {
        let Some(records) = name.service.as_ref().map(|service| name.records(service)) else {
            return once(resolver, &self.turn, &name.host, patience).await;
        };
        let complain = |reason: &str| self.log(reason);
        service(resolver, &self.turn, &records, patience, complain).await
    }

    fn remember(&self, name: &str, found: &[Located]) {
        self.worker.shared.history.current.found.put(name, found);
    }

    fn log(&self, reason: &str) {
        let message = format!("{reason}, in upstream \"{}\"", self.conf.name);
        self.worker.log(Level::Error, &message);
    }

    fn set(&self, place: usize, addresses: Vec<Located>) {
        let mut found = self.found.borrow_mut();
        if found[place] == addresses {
            return;
        }
        found[place] = addresses;
        let conf = with_found(&self.conf, &found);
        (self.balancers)(&self.worker.shared).replace(self.index, conf);
    }
}
