//! What health checks found of servers, in memory that survives a worker: its successor begins with
//! that.

use super::balancers::Balancers;
use gallop_conf::model::{Config, Peer, Upstream};
use gallop_runtime::SharedCells;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::atomic::Ordering;

/// The most addresses of one name that are stored.
const MOST: usize = 64;

const HEALTHY: u64 = 1;
const UNHEALTHY: u64 = 2;

/// The servers of a configuration: a hash table of keys and values, at most half full.
#[derive(Debug)]
pub struct Verdicts {
    cells: SharedCells,
    /// The number of entries; 0 without health checks.
    len: usize,
}

/// The key of a server in a group; never 0.
pub fn key(group: &Upstream, peer: &Peer) -> u64 {
    let mut hasher = DefaultHasher::new();
    (group.in_stream, &group.name, &peer.name, &peer.addr).hash(&mut hasher);
    hasher.finish().max(1)
}

impl Verdicts {
    /// # Errors
    /// The system has no memory to share.
    pub fn new(config: &Config) -> io::Result<Verdicts> {
        let of_http = config.http.iter().flat_map(|http| &http.upstreams);
        let of_stream = config.stream.iter().flat_map(|stream| &stream.upstreams);
        let checked = of_http.chain(of_stream).filter(|g| !g.checks.is_empty());
        let servers = checked.map(|group| group.peers.len() + MOST * group.resolving.len());
        let len = 2 * servers.sum::<usize>();
        Ok(Verdicts {
            cells: SharedCells::new(2 * len)?,
            len,
        })
    }

    /// The index of a key's entry, or of the free one that it would take.
    fn find(&self, key: u64) -> Option<usize> {
        let start = key as usize % self.len.max(1);
        let mut entries = (0..self.len).map(|i| (start + i) % self.len);
        entries.find(|i| {
            let found = self.cells.cells()[2 * i].load(Ordering::Acquire);
            found == key || found == 0
        })
    }

    /// Store whether a server is healthy; nothing if the table is full. Only one thread of one
    /// worker process writes at a time.
    pub fn put(&self, key: u64, is_healthy: bool) {
        if let Some(i) = self.find(key) {
            let value = if is_healthy { HEALTHY } else { UNHEALTHY };
            let cells = self.cells.cells();
            cells[2 * i + 1].store(value, Ordering::Relaxed);
            cells[2 * i].store(key, Ordering::Release);
        }
    }

    /// Whether a server is healthy; `None` if no check has said so.
    pub fn get(&self, key: u64) -> Option<bool> {
        let i = self.find(key)?;
        match self.cells.cells()[2 * i + 1].load(Ordering::Relaxed) {
            HEALTHY => Some(true),
            UNHEALTHY => Some(false),
            _ => None,
        }
    }
}

/// Restore what earlier workers found: those of the same configuration everything, those before a
/// reload what `persistent` keeps. `known`: whether a server was healthy under this configuration,
/// and under the one before.
pub fn recall(
    balancers: &Balancers,
    current: &Verdicts,
    known: impl Fn(u64) -> (Option<bool>, Option<bool>),
) {
    for group in balancers.groups().filter(|g| !g.conf.checks.is_empty()) {
        for (i, peer) in group.conf.peers.iter().enumerate() {
            let key = key(&group.conf, peer);
            match known(key) {
                (Some(is_healthy), _) => {
                    let checks = group.conf.checks.len();
                    group.with_marks(i, |marks| marks.restore(is_healthy, checks));
                }
                (None, Some(true)) => {
                    let verdict = group.with_marks(i, |marks| {
                        marks.keep(&group.conf);
                        marks.verdict()
                    });
                    if verdict == Some(true) {
                        // For the next reload, in case it comes before the first check.
                        current.put(key, true);
                    }
                }
                (None, _) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_found_by_key_until_the_table_is_full() {
        let verdicts = Verdicts {
            cells: SharedCells::new(8).unwrap(),
            len: 4,
        };
        for (key, is_healthy) in [(1, true), (5, false), (9, true), (2, false)] {
            assert_eq!(verdicts.get(key), None);
            verdicts.put(key, is_healthy);
            assert_eq!(verdicts.get(key), Some(is_healthy));
        }
        verdicts.put(3, true);
        assert_eq!(verdicts.get(3), None);
        verdicts.put(5, true);
        assert_eq!((verdicts.get(5), verdicts.get(1)), (Some(true), Some(true)));
    }

    #[test]
    fn configuration_without_checks_has_no_entries() {
        let verdicts = Verdicts {
            cells: SharedCells::new(0).unwrap(),
            len: 0,
        };
        verdicts.put(1, true);
        assert_eq!(verdicts.get(1), None);
    }
}
