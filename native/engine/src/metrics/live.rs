//! The current state, in addition to the counters.

use super::Snapshot;
use crate::resolver::Located;
use crate::upstream::marks::CheckCounts;
use crate::worker::Shared;
use gallop_conf::model::{Peer, Upstream};
use hashbrown::HashMap;
use std::sync::Arc;

/// The state of an upstream server.
#[derive(Clone, Debug)]
pub struct PeerState {
    /// The group and the address or name, as [`Section::Peer`](super::Section::Peer) names them.
    pub key: String,
    /// `up`, `down` (by the configuration), `unavailable` (too many failures), `unhealthy` (by a
    /// health check), or `checking` (before the first one).
    pub state: &'static str,
    /// The health checks so far; `None` if the group has none.
    pub checks: Option<CheckCounts>,
    pub backup: bool,
    pub weight: u32,
    /// Connections in use.
    pub active: u32,
}

#[derive(Clone, Debug)]
pub struct CacheState {
    pub name: String,
    /// Bytes of the cached responses, and the limit.
    pub size: u64,
    pub max_size: Option<u64>,
    pub entries: u64,
    /// Whether the files from before the start are still being loaded.
    pub cold: bool,
}

/// All values that `status` shows.
#[derive(Debug, Default)]
pub struct Live {
    pub counts: Snapshot,
    pub peers: Vec<PeerState>,
    pub caches: Vec<CacheState>,
    /// Seconds since 1970: the start of the master, and of this configuration.
    pub started: u64,
    pub loaded: u64,
    /// The number of configurations loaded since the start.
    pub generation: u64,
    pub threads: usize,
    pub pid: u32,
}

impl Live {
    /// Read the counters and the shared state.
    pub fn read(shared: &Shared) -> Live {
        let history = &shared.history;
        let mut counts = history.carried.clone();
        history.before.iter().for_each(|g| counts.merge(&g.read()));
        counts.merge(&history.current.read());
        // Counters of removed configuration are not shown but kept in case it returns.
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

/// Merge duplicate servers of a group, and the addresses of a name: the result is up while one of
/// them is.
fn distinct(states: impl Iterator<Item = PeerState>) -> Vec<PeerState> {
    let mut out: Vec<PeerState> = Vec::new();
    let mut index = HashMap::new();
    for state in states {
        let known = *index.entry(state.key.clone()).or_insert(out.len());
        match out.get_mut(known) {
            Some(first) => {
                first.active += state.active;
                first.weight += state.weight;
                if let (Some(all), Some(more)) = (&mut first.checks, state.checks) {
                    all.add(more);
                }
                if state.state == "up" {
                    first.state = "up";
                }
            }
            None => out.push(state),
        }
    }
    out
}

/// The counters from before a worker process.
#[derive(Debug)]
pub struct History {
    pub current: Arc<super::Generation>,
    /// Configurations that still had workers when this one started.
    pub before: Vec<Arc<super::Generation>>,
    /// The counts of all other configurations.
    pub carried: Snapshot,
    pub started: u64,
    pub loaded: u64,
    pub number: u64,
}

impl History {
    /// Whether a server was healthy: under this configuration, and under the one before.
    pub fn verdicts(&self, key: u64) -> (Option<bool>, Option<bool>) {
        let mut before = self.before.iter().rev();
        let before = before.find_map(|generation| generation.verdicts.get(key));
        (self.current.verdicts.get(key), before)
    }

    /// The last known addresses of a server's name, under this configuration or one that still has
    /// workers.
    pub fn found(&self, name: &str) -> Option<Vec<Located>> {
        let before = self.before.iter().rev();
        let mut all = std::iter::once(&self.current).chain(before);
        all.find_map(|generation| generation.found.get(name))
    }
}

/// The key of an upstream server: the group (with the port for an implicit group) and the address,
/// or the name if its addresses change.
pub fn peer_key(group: &Upstream, peer: &Peer) -> String {
    let port = group.port.map(|p| format!(":{p}")).unwrap_or_default();
    match peer.resolve {
        Some(_) => format!("{}{port}\0{}", group.name, peer.name),
        None => format!("{}{port}\0{}", group.name, peer.addr),
    }
}

/// The group and address in a key.
pub fn split(key: &str) -> (&str, &str) {
    key.split_once('\0').unwrap_or((key, ""))
}
