//! Periodic resolution of upstream servers' names (`resolve`).

use super::found::key;
use super::state::Balancers;
use crate::resolver::{once, Answered};
use crate::worker::Worker;
use gallop_conf::model::{Level, Peer, PeerAddr, Upstream};
use gallop_runtime::{sleep, spawn};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// The default of `resolver_timeout` in milliseconds.
const DEFAULT_TIMEOUT: u64 = 30_000;
/// The least milliseconds between two lookups of a name.
const SHORTEST: u64 = 1000;

/// A group and the current addresses of its names.
struct Names {
    worker: Rc<Worker>,
    index: usize,
    conf: Arc<Upstream>,
    /// By index in `conf.resolving`.
    found: RefCell<Vec<Vec<SocketAddr>>>,
    /// The next name server to ask.
    turn: Cell<usize>,
}

/// Resolve the names while this thread runs, unless another thread does.
pub fn start(worker: &Rc<Worker>) {
    let Some(http) = &worker.shared.config.http else {
        return;
    };
    let groups = http.upstreams.iter().enumerate();
    let mut groups = groups.filter(|(_, u)| !u.resolving.is_empty()).peekable();
    if groups.peek().is_none() || !worker.shared.balancers.claim_lookups() {
        return;
    }
    for (index, conf) in groups {
        let found = last(conf, &|name| worker.shared.history.found(name));
        // The group may have been created from slightly older addresses.
        let balancers = &worker.shared.balancers;
        balancers.replace(index, with_found(conf, &found));
        let names = Rc::new(Names {
            worker: worker.clone(),
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
fn last(conf: &Upstream, known: &impl Fn(&str) -> Option<Vec<IpAddr>>) -> Vec<Vec<SocketAddr>> {
    let of = |peer: &Peer| {
        let (host, port) = peer.resolve.as_ref()?;
        Some(with_port(&known(&key(conf, host))?, *port))
    };
    let names = conf.resolving.iter();
    names.map(|peer| of(peer).unwrap_or_default()).collect()
}

fn with_port(found: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    let found = found.iter().map(|ip| SocketAddr::new(*ip, port));
    found.collect()
}

/// A group with the last known addresses of its names.
pub fn recall(conf: &Arc<Upstream>, known: &impl Fn(&str) -> Option<Vec<IpAddr>>) -> Arc<Upstream> {
    if conf.resolving.is_empty() {
        return conf.clone();
    }
    Arc::new(with_found(conf, &last(conf, known)))
}

fn with_found(conf: &Upstream, found: &[Vec<SocketAddr>]) -> Upstream {
    let mut all = conf.clone();
    for (peer, addresses) in conf.resolving.iter().zip(found) {
        all.peers.extend(addresses.iter().map(|addr| Peer {
            addr: PeerAddr::Inet(*addr),
            ..peer.clone()
        }));
    }
    all
}

impl Names {
    async fn follow(self: Rc<Self>, place: usize) {
        let Some((host, port)) = self.conf.resolving[place].resolve.clone() else {
            return;
        };
        let Some(resolver) = self.conf.resolver.clone() else {
            return;
        };
        let name = key(&self.conf, &host);
        if let Some(known) = self.worker.shared.history.found(&name) {
            // Store the addresses for the next worker, in case its first lookup is late.
            self.remember(&name, &known);
        }
        let patience = self.conf.resolver_timeout.unwrap_or(DEFAULT_TIMEOUT);
        loop {
            let wait = match once(&resolver, &self.turn, &host, patience).await {
                Answered::Addresses(mut found, ms) => {
                    found.sort_unstable();
                    self.remember(&name, &found);
                    self.set(place, with_port(&found, port));
                    ms
                }
                Answered::NoName(reason) => {
                    self.log(&reason);
                    self.remember(&name, &[]);
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

    fn remember(&self, name: &str, found: &[IpAddr]) {
        self.worker.shared.history.current.found.put(name, found);
    }

    fn log(&self, reason: &str) {
        let message = format!("{reason}, in upstream \"{}\"", self.conf.name);
        self.worker.log(Level::Error, &message);
    }

    fn set(&self, place: usize, addresses: Vec<SocketAddr>) {
        let mut found = self.found.borrow_mut();
        if found[place] == addresses {
            return;
        }
        found[place] = addresses;
        let conf = with_found(&self.conf, &found);
        let balancers: &Balancers = &self.worker.shared.balancers;
        balancers.replace(self.index, conf);
    }
}
