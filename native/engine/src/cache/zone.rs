//! The index of a cache's entries, shared by the threads. The responses themselves are files.

use super::disk;
use crate::metrics::CacheState;
use crate::panics::lock_shared;
use gallop_conf::model::{CacheZone, Http};
use gallop_runtime::now_ms;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// The MD5 hash of an entry's key, which names its file.
pub type Key = [u8; 16];

/// The bytes of a keys zone that each entry counts for.
const NODE_SIZE: u64 = 128;

#[derive(Default)]
struct Node {
    /// Whether the file exists.
    exists: bool,
    uses: u64,
    /// The size of the file in bytes.
    size: u64,
    /// The last use, in milliseconds (monotonic clock).
    used: u64,
    /// The entry's position in the order of last use.
    order: u64,
    /// The request that fetches the response, and the time until which others wait for it.
    updater: Option<(u64, u64)>,
    waiting: Vec<Waker>,
    /// A cached status without a response, and the end of its validity (seconds since 1970).
    error: Option<(u16, i64)>,
}

#[derive(Default)]
struct Index {
    nodes: HashMap<Key, Node>,
    /// The entries by last use, oldest first.
    order: BTreeMap<u64, Key>,
    next: u64,
    size: u64,
    /// Purged key prefixes, and the time of each purge (seconds since 1970).
    purged: Vec<(Vec<u8>, i64)>,
}

impl Index {
    fn touch(&mut self, key: &Key) {
        self.next += 1;
        let next = self.next;
        if let Some(node) = self.nodes.get_mut(key) {
            self.order.remove(&node.order);
            node.order = next;
            node.used = now_ms();
            self.order.insert(next, *key);
        }
    }

    fn take(&mut self, key: &Key) -> Option<Node> {
        let node = self.nodes.remove(key)?;
        self.order.remove(&node.order);
        self.size -= node.size;
        Some(node)
    }
}

/// The index's information about a key.
pub enum Seen {
    /// Requested often enough; the value tells whether there should be a file.
    Known,
    New,
    /// Requested too seldom to be cached.
    Scarce,
    Error(u16),
}

/// A cache.
pub struct Cache {
    pub conf: CacheZone,
    /// Its position in the configuration.
    pub index: usize,
    entries: Mutex<Index>,
    next_updater: AtomicU64,
    /// The disk may hold files that the index does not know yet.
    cold: AtomicBool,
}

/// All caches of a configuration by name.
#[derive(Default)]
pub struct Caches {
    caches: Vec<Arc<Cache>>,
}

impl Caches {
    pub fn new(http: Option<&Http>) -> Caches {
        let zones = http.map_or(&[][..], |h| &h.cache_zones);
        let caches = zones.iter().enumerate();
        let caches = caches.map(|(index, zone)| Arc::new(Cache::new(zone, index)));
        Caches {
            caches: caches.collect(),
        }
    }

    pub fn get(&self, name: &[u8]) -> Option<&Arc<Cache>> {
        let named = |c: &&Arc<Cache>| c.conf.name.as_bytes() == name;
        self.caches.iter().find(named)
    }

    /// The state of each cache.
    pub fn states(&self) -> Vec<CacheState> {
        self.caches.iter().map(|c| c.state()).collect()
    }

    pub(super) fn all(&self) -> &[Arc<Cache>] {
        &self.caches
    }
}

impl Cache {
    fn new(conf: &CacheZone, index: usize) -> Cache {
        Cache {
            index,

            conf: conf.clone(),
            entries: Mutex::default(),
            next_updater: AtomicU64::new(1),
            cold: AtomicBool::new(true),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        lock_shared(&self.entries)
    }

    fn state(&self) -> CacheState {
        let index = self.lock();
        CacheState {
            name: self.conf.name.clone(),
            size: index.size,
            max_size: self.conf.max_size,
            entries: index.nodes.len() as u64,
            cold: self.is_cold(),
        }
    }

    pub fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Relaxed)
    }

    /// Note that all existing files are in the index.
    pub(super) fn loaded(&self) {
        self.cold.store(false, Ordering::Relaxed);
    }

    /// The path of an entry's file, in folders named after the end of the key, as in nginx.
    pub fn path(&self, key: &Key) -> PathBuf {
        let name: String = key.iter().map(|b| format!("{b:02x}")).collect();
        let mut path = self.conf.path.clone();
        let mut end = name.len();
        for level in &self.conf.levels {
            path.push(&name[end - level..end]);
            end -= level;
        }
        path.push(name);
        path
    }

    /// Look up a key; `count`: this is another request for it.
    pub fn see(&self, key: &Key, min_uses: u64, now: i64, count: bool) -> Seen {
        let mut index = self.lock();
        let Some(node) = index.nodes.get_mut(key) else {
            drop(index);
            self.insert(key, 0, false);
            return Seen::New;
        };
        if let Some((status, until)) = node.error {
            if until >= now {
                index.touch(key);
                return Seen::Error(status);
            }
            node.error = None;
            node.uses = 0;
        }
        node.uses += u64::from(count);
        let known = node.exists || node.uses >= min_uses;
        index.touch(key);
        if known {
            Seen::Known
        } else {
            Seen::Scarce
        }
    }

    /// Add an entry with one request; if the zone is full, the oldest entries make room.
    fn insert(&self, key: &Key, size: u64, exists: bool) {
        let limit = (self.conf.keys_size / NODE_SIZE).max(1) as usize;
        let mut removed = None;
        let mut index = self.lock();
        if index.nodes.len() >= limit {
            removed = Self::oldest(&index).inspect(|old| {
                index.take(old);
            });
        }
        let node = index.nodes.entry(*key).or_default();
        node.uses = 1;
        let before = std::mem::replace(&mut node.size, size);
        node.exists = exists;
        index.size = index.size - before + size;
        index.touch(key);
        drop(index);
        if let Some(old) = removed {
            self.unlink(&old);
        }
    }

    /// The entry with the oldest use that no request is fetching.
    fn oldest(index: &Index) -> Option<Key> {
        let idle = |key: &&Key| index.nodes.get(*key).is_some_and(|n| n.updater.is_none());
        index.order.values().find(idle).copied()
    }

    fn unlink(&self, key: &Key) {
        // A missing file needs no removal.
        let _ = std::fs::remove_file(self.path(key));
    }

    /// Note that an entry's file is complete.
    pub fn stored(&self, key: &Key, size: u64) {
        self.insert(key, size, true);
        if let Some(node) = self.lock().nodes.get_mut(key) {
            node.error = None;
        }
    }

    /// Add a file found on disk unless its key is known.
    pub fn found(&self, key: &Key, size: u64) {
        if self.lock().nodes.get(key).is_none_or(|n| !n.exists) {
            self.insert(key, size, true);
        }
    }

    /// Store a status instead of a response.
    pub fn failed(&self, key: &Key, status: u16, until: i64) {
        if let Some(node) = self.lock().nodes.get_mut(key) {
            node.error = Some((status, until));
        }
    }

    pub fn remove(&self, key: &Key) -> bool {
        let known = self.lock().take(key);
        known
            .into_iter()
            .for_each(|n| n.waiting.into_iter().for_each(Waker::wake));
        std::fs::remove_file(self.path(key)).is_ok()
    }

    /// Try to become the request that fetches the response. Fails while another one does, unless
    /// that one may be overtaken. `age`: milliseconds that others wait for this one.
    pub fn claim(self: &Arc<Self>, key: &Key, age: u64, overtake: bool) -> Option<Updating> {
        let mut index = self.lock();
        let node = index.nodes.get_mut(key)?;
        let now = now_ms();
        let free = node
            .updater
            .is_none_or(|(_, until)| overtake && until <= now);
        if !free {
            return None;
        }
        let id = self.next_updater.fetch_add(1, Ordering::Relaxed);
        node.updater = Some((id, now.saturating_add(age)));
        Some(Updating {
            cache: self.clone(),
            key: *key,
            id,
        })
    }

    /// Ready when no request fetches the response. Otherwise wait until the time limit (monotonic
    /// clock).
    pub fn poll_free(&self, key: &Key, cx: &Context<'_>) -> Poll<()> {
        let mut index = self.lock();
        let Some(node) = index.nodes.get_mut(key) else {
            return Poll::Ready(());
        };
        if node.updater.is_none() {
            return Poll::Ready(());
        }
        if !node.waiting.iter().any(|w| w.will_wake(cx.waker())) {
            node.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Milliseconds until the fetching request may be overtaken.
    pub fn patience(&self, key: &Key) -> u64 {
        let index = self.lock();
        let updater = index.nodes.get(key).and_then(|n| n.updater);
        updater.map_or(0, |(_, until)| until.saturating_sub(now_ms()))
    }

    /// Purge all entries whose keys start with a prefix. They are ignored from now on; their files
    /// are removed later.
    pub fn purge_prefix(&self, prefix: &[u8], now: i64) {
        self.lock().purged.push((prefix.to_vec(), now));
    }

    /// Whether an entry created at `date` was purged afterwards.
    pub fn is_purged(&self, text: &[u8], date: i64) -> bool {
        let index = self.lock();
        let hit = |(prefix, at): &(Vec<u8>, i64)| text.starts_with(prefix) && date <= *at;
        index.purged.iter().any(hit)
    }

    /// The purges whose files are not all removed yet.
    pub(super) fn purges(&self) -> Vec<(Vec<u8>, i64)> {
        self.lock().purged.clone()
    }

    pub(super) fn purges_done(&self, done: &[(Vec<u8>, i64)]) {
        self.lock().purged.retain(|p| !done.contains(p));
    }

    /// Remove an entry from the index if the limits for bytes or entries are exceeded.
    pub(super) fn next_to_remove(&self, max_size: u64, max_count: u64) -> Option<Key> {
        let mut index = self.lock();
        let key = Self::oldest(&index)?;
        let unused = now_ms().saturating_sub(index.nodes.get(&key)?.used);
        let over = index.size > max_size || index.nodes.len() as u64 > max_count;
        if unused < self.conf.inactive && !over {
            return None;
        }
        index.take(&key);
        Some(key)
    }

    pub(super) fn delete(&self, key: &Key) {
        self.unlink(key);
    }

    /// The number of entries that fit into the keys zone.
    pub(super) fn capacity(&self) -> u64 {
        self.conf.keys_size / NODE_SIZE
    }

    /// Read an entry's file. A damaged file, or one of another key, counts as missing.
    pub fn open(&self, key: &Key, text: &[u8]) -> Option<disk::Entry> {
        let entry = disk::read(&self.path(key)).ok()?;
        (entry.meta.key == text && !self.is_purged(text, entry.meta.date)).then_some(entry)
    }
}

/// The right and duty to fetch a response; released when dropped.
pub struct Updating {
    cache: Arc<Cache>,
    key: Key,
    id: u64,
}

impl Drop for Updating {
    fn drop(&mut self) {
        let mut index = self.cache.lock();
        let Some(node) = index.nodes.get_mut(&self.key) else {
            return;
        };
        // A request that waited too long may have overtaken this one.
        if node.updater.is_some_and(|(id, _)| id == self.id) {
            node.updater = None;
            let waiting = std::mem::take(&mut node.waiting);
            drop(index);
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(keys_size: u64) -> Arc<Cache> {
        Arc::new(Cache::new(
            &CacheZone {
                name: "one".into(),
                path: "/nonexistent/cache".into(),
                levels: vec![1, 2],
                keys_size,
                inactive: 600_000,
                max_size: None,
                min_free: 0,
                manager_files: 100,
                manager_sleep: 50,
            },
            0,
        ))
    }

    #[test]
    fn files_lie_where_nginx_puts_them() {
        let key = [0xab; 16];
        let expected = format!("/nonexistent/cache/b/ba/{}", "ab".repeat(16));
        assert_eq!(cache(8192).path(&key), PathBuf::from(expected));
    }

    #[test]
    fn an_answer_is_kept_once_it_was_asked_for_often_enough() {
        let cache = cache(8192);
        assert!(matches!(cache.see(&[1; 16], 3, 0, true), Seen::New));
        assert!(matches!(cache.see(&[1; 16], 3, 0, true), Seen::Scarce));
        assert!(matches!(cache.see(&[1; 16], 3, 0, true), Seen::Known));
    }

    #[test]
    fn one_fetches_while_others_wait_until_it_takes_too_long() {
        let cache = cache(8192);
        cache.see(&[1; 16], 1, 0, true);
        let first = cache.claim(&[1; 16], 0, true).expect("free");
        assert!(cache.claim(&[1; 16], 10_000, false).is_none(), "taken");
        let second = cache.claim(&[1; 16], 10_000, true).expect("overtaken");
        drop(first);
        assert!(
            cache.claim(&[1; 16], 0, true).is_none(),
            "the first gives back nothing of the second's"
        );
        drop(second);
        assert!(cache.claim(&[1; 16], 0, false).is_some());
    }

    #[test]
    fn the_index_stays_within_its_zone() {
        let cache = cache(8192);
        for n in 0..1000u16 {
            let mut key = [0; 16];
            key[..2].copy_from_slice(&n.to_be_bytes());
            cache.see(&key, 1, 0, true);
        }
        assert_eq!(cache.lock().nodes.len() as u64, 8192 / NODE_SIZE);
        assert_eq!(cache.lock().order.len() as u64, 8192 / NODE_SIZE);
    }

    #[test]
    fn a_remembered_error_stands_until_its_time() {
        let cache = cache(8192);
        cache.see(&[1; 16], 1, 0, true);
        cache.failed(&[1; 16], 502, 10);
        assert!(matches!(cache.see(&[1; 16], 1, 10, true), Seen::Error(502)));
        assert!(matches!(cache.see(&[1; 16], 1, 11, true), Seen::Known));
    }
}
