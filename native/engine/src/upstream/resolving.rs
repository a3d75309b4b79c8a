//! Servers of groups whose names are looked up again and again while running (`resolve`).

use super::state::Balancers;
use crate::resolver::{once, Answered};
use crate::worker::Worker;
use gallop_conf::model::{Level, Peer, PeerAddr, Upstream};
use gallop_runtime::{sleep, spawn};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// `resolver_timeout` where there is none, in milliseconds.
const DEFAULT_TIMEOUT: u64 = 30_000;
/// Milliseconds between two lookups of a name at least.
const SHORTEST: u64 = 1000;

/// A group, and what its names stand for now.
struct Names {
    worker: Rc<Worker>,
    index: usize,
    conf: Arc<Upstream>,
    /// By place in `conf.resolving`.
    found: RefCell<Vec<Vec<SocketAddr>>>,
    /// The name server to be asked next.
    turn: Cell<usize>,
}

/// Looks the names up for as long as this thread runs, unless another thread does.
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
        let names = Rc::new(Names {
            worker: worker.clone(),
            index,
            conf: conf.clone(),
            found: RefCell::new(vec![Vec::new(); conf.resolving.len()]),
            turn: Cell::new(0),
        });
        for place in 0..conf.resolving.len() {
            spawn(names.clone().follow(place));
        }
    }
}

impl Names {
    async fn follow(self: Rc<Self>, place: usize) {
        let Some((host, port)) = self.conf.resolving[place].resolve.clone() else {
            return;
        };
        let Some(resolver) = self.conf.resolver.clone() else {
            return;
        };
        let patience = self.conf.resolver_timeout.unwrap_or(DEFAULT_TIMEOUT);
        loop {
            let wait = match once(&resolver, &self.turn, &host, patience).await {
                Answered::Addresses(mut found, ms) => {
                    found.sort_unstable();
                    let found = found.iter().map(|ip| SocketAddr::new(*ip, port));
                    self.set(place, found.collect());
                    ms
                }
                Answered::NoName(reason) => {
                    self.log(&reason);
                    self.set(place, Vec::new());
                    resolver.valid.unwrap_or(patience)
                }
                Answered::Failed(reason) => {
                    // What was known may still be right.
                    self.log(&reason);
                    patience
                }
            };
            sleep(wait.max(SHORTEST)).await;
        }
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
        let mut conf = (*self.conf).clone();
        for (peer, addresses) in self.conf.resolving.iter().zip(found.iter()) {
            conf.peers.extend(addresses.iter().map(|addr| Peer {
                addr: PeerAddr::Inet(*addr),
                ..peer.clone()
            }));
        }
        let balancers: &Balancers = &self.worker.shared.balancers;
        balancers.replace(self.index, conf);
    }
}
