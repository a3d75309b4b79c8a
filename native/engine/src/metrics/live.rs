//! How things stand at the moment, beside what was counted.

use super::Snapshot;
use crate::worker::Shared;
use gallop_conf::model::{Peer, Upstream};
use hashbrown::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// A server of an upstream group.
#[derive(Clone, Debug)]
pub struct PeerState {
    /// Group and address or name, as [`Section::Peer`](super::Section::Peer) names them.
    pub key: String,
    /// `up`, `down` (by the configuration) or `unavailable` (it failed too often).
    pub state: &'static str,
    pub backup: bool,
    pub weight: u32,
    /// Connections in use.
    pub active: u32,
}

#[derive(Clone, Debug)]
pub struct CacheState {
    pub name: String,
    /// Bytes of the answers kept, and of the most that may be.
    pub size: u64,
    pub max_size: Option<u64>,
    pub entries: u64,
    /// The files there were at the start are still being looked through.
    pub cold: bool,
}

/// Everything `status` shows.
#[derive(Debug, Default)]
pub struct Live {
    pub counts: Snapshot,
    pub peers: Vec<PeerState>,
    pub caches: Vec<CacheState>,
    /// Seconds since 1970: of the master's start, and of this configuration's.
    pub started: u64,
    pub loaded: u64,
    /// Configurations loaded since the start.
    pub generation: u64,
    pub threads: usize,
    pub pid: u32,
}

impl Live {
    /// Reads the cells and the state that the threads share.
    pub fn read(shared: &Shared) -> Live {
        let history = &shared.history;
        let mut counts = history.carried.clone();
        history.before.iter().for_each(|g| counts.merge(&g.read()));
        counts.merge(&history.current.read());
        // What is configured no more is not shown, but kept in case it comes back.
        counts.keep(&history.current);
        let groups = shared.balancers.groups();
        Live {
            counts,
            peers: distinct(groups.flat_map(|group| group.states())),
            caches: shared.caches.states(),
            started: history.started,
            loaded: history.loaded,
            generation: history.number,
            threads: history.current.threads,
            pid: std::process::id(),
        }
    }
}

/// A server that stands twice in its group is shown once, as is a name with several addresses: it is up
/// while one of them is.
fn distinct(states: impl Iterator<Item = PeerState>) -> Vec<PeerState> {
    let mut out: Vec<PeerState> = Vec::new();
    let mut index = HashMap::new();
    for state in states {
        let known = *index.entry(state.key.clone()).or_insert(out.len());
        match out.get_mut(known) {
            Some(first) => {
                first.active += state.active;
                first.weight += state.weight;
                if state.state == "up" {
                    first.state = "up";
                }
            }
            None => out.push(state),
        }
    }
    out
}

/// What a worker process knows of the counts before its own.
#[derive(Debug)]
pub struct History {
    pub current: Arc<super::Generation>,
    /// Configurations that still had workers when this one came.
    pub before: Vec<Arc<super::Generation>>,
    /// What was counted under all others.
    pub carried: Snapshot,
    pub started: u64,
    pub loaded: u64,
    pub number: u64,
}

impl History {
    /// What a server's name stood for last, under this configuration or one that still has workers.
    pub fn found(&self, name: &str) -> Option<Vec<IpAddr>> {
        let before = self.before.iter().rev();
        let mut all = std::iter::once(&self.current).chain(before);
        all.find_map(|generation| generation.found.get(name))
    }
}

/// The key of an upstream's server: group (with the port that tells undeclared ones apart) and address, or
/// name where the addresses behind it change.
pub fn peer_key(group: &Upstream, peer: &Peer) -> String {
    let port = group.port.map(|p| format!(":{p}")).unwrap_or_default();
    match peer.resolve {
        Some(_) => format!("{}{port}\0{}", group.name, peer.name),
        None => format!("{}{port}\0{}", group.name, peer.addr),
    }
}

/// Group and address of a key.
pub fn split(key: &str) -> (&str, &str) {
    key.split_once('\0').unwrap_or((key, ""))
}
