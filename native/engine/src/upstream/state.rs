//! A group of servers and the state of each server, shared by the threads.

use super::least_time::Times;
use super::marks::{Marks, SCALE};
use super::ring::{ring, sids};
use crate::metrics;
use crate::panics::lock_shared;
use gallop_conf::model::{Balance, LeastTime, Peer, Upstream};
use gallop_runtime::now_ms;
use std::sync::{Arc, Mutex, MutexGuard};

/// The state of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerState {
    pub(super) current_weight: i64,
    pub(super) effective_weight: i64,
    pub(super) fails: u32,
    /// Times in milliseconds (monotonic clock): the last failure, and the last start of the fail
    /// timeout.
    pub(super) accessed: u64,
    pub(super) checked: u64,
    pub(super) connections: u32,
    /// For `least_time`.
    pub(super) times: Times,
    pub(super) marks: Marks,
}

/// A group of servers.
pub struct Group {
    pub conf: Arc<Upstream>,
    /// The index of its first server among all counted ones; `None` for a group that serves one
    /// request.
    pub(super) first: Option<usize>,
    peers: Mutex<Vec<PeerState>>,
    /// The servers' addresses as text.
    pub(super) names: Vec<Arc<str>>,
    /// The servers' names for `sticky`; empty without it.
    pub(super) sids: Vec<Arc<str>>,
    /// The points of the consistent hash: hash and peer, sorted.
    pub(super) ring: Vec<(u32, usize)>,
    /// The units of a weight: more than one if servers start slowly.
    pub(super) scale: i64,
}

/// Whether a server has failed too often to be chosen now.
pub(super) fn is_failing(peer: &Peer, state: &PeerState) -> bool {
    peer.max_fails > 0
        && state.fails >= peer.max_fails
        && now_ms() - state.checked <= peer.fail_timeout
}

impl Group {
    pub fn new(conf: Arc<Upstream>) -> Group {
        let state = |p: &Peer| PeerState {
            effective_weight: p.weight.into(),
            marks: Marks::new(&conf),
            ..PeerState::default()
        };
        let starts_slowly = conf.peers.iter().any(|p| p.slow_start > 0);
        let peers = conf.peers.iter().map(state).collect();
        let name = |p: &Peer| p.addr.to_string().into();
        Group {
            names: conf.peers.iter().map(name).collect(),
            sids: sids(&conf),
            ring: ring(&conf),
            first: None,
            peers: Mutex::new(peers),
            scale: if starts_slowly { SCALE } else { 1 },
            conf,
        }
    }

    /// Copy the state of servers that `old` also has. Their open connections stay counted in `old`,
    /// where they are released.
    pub(super) fn take_over(&self, old: &Group) {
        let (mut own, states) = (self.lock(), old.lock());
        for (peer, state) in self.conf.peers.iter().zip(own.iter_mut()) {
            let same = |p: &Peer| p.name == peer.name && p.addr == peer.addr;
            if let Some(i) = old.conf.peers.iter().position(same) {
                let heaviest = i64::from(peer.weight);
                *state = PeerState {
                    effective_weight: states[i].effective_weight.min(heaviest),
                    connections: 0,
                    times: states[i].times.without_requests(),
                    ..states[i].clone()
                };
            }
        }
    }

    /// The name of a server for `sticky`; empty without it.
    pub fn sid(&self, index: usize) -> &str {
        self.sids.get(index).map_or("", |sid| sid)
    }

    pub(super) fn least_time(&self) -> Option<LeastTime> {
        match self.conf.balance {
            Balance::LeastTime(rule) => Some(rule),
            _ => None,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<PeerState>> {
        lock_shared(&self.peers)
    }

    /// Read or change what the health checks of a server found.
    pub(crate) fn with_marks<T>(&self, index: usize, f: impl FnOnce(&mut Marks) -> T) -> T {
        f(&mut self.lock()[index].marks)
    }

    /// The units of a weight that a server has now: fewer than the others' while it starts slowly.
    pub(super) fn share(&self, i: usize, state: &PeerState) -> i64 {
        match self.scale {
            1 => 1,
            _ => state.marks.share(self.conf.peers[i].slow_start, now_ms()),
        }
    }

    /// The index of a server among all counted ones: that of its name if its address was resolved.
    pub fn meter(&self, index: usize) -> Option<usize> {
        let peer = &self.conf.peers[index];
        let place = match &peer.resolve {
            None => index,
            Some(_) => {
                let fixed = |p: &&Peer| p.resolve.is_none();
                let same = |p: &Peer| p.name == peer.name;
                let name = self.conf.resolving.iter().position(same)?;
                self.conf.peers.iter().take_while(fixed).count() + name
            }
        };
        Some(self.first? + place)
    }

    /// The state of its servers, and its names without an address.
    pub fn states(&self) -> Vec<metrics::PeerState> {
        let states = self.lock();
        let peers = self.conf.peers.iter().zip(states.iter());
        let lost = self.conf.resolving.iter().filter(|name| {
            let mut peers = self.conf.peers.iter();
            !peers.any(|p| p.resolve.is_some() && p.name == name.name)
        });
        let lost = lost.map(|peer| metrics::PeerState {
            state: if peer.down { "down" } else { "unavailable" },
            ..self.shown(peer, &PeerState::default())
        });
        let shown = peers.map(|(peer, state)| self.shown(peer, state));
        shown.chain(lost).collect()
    }

    fn shown(&self, peer: &Peer, state: &PeerState) -> metrics::PeerState {
        let failing = self.conf.peers.len() > 1 && is_failing(peer, state);
        metrics::PeerState {
            key: metrics::peer_key(&self.conf, peer),
            state: match (peer.down, state.marks.word(), failing) {
                (true, _, _) => "down",
                (false, Some(word), _) => word,
                (false, None, true) => "unavailable",
                (false, None, false) => "up",
            },
            checks: (!self.conf.checks.is_empty()).then_some(state.marks.counts),
            backup: peer.backup,
            weight: peer.weight,
            active: state.connections,
        }
    }
}
