//! The sessions of `sticky learn`, in memory that all workers share and that survives a reload.
//!
//! A zone is a table of sets with a fixed number of entries. A new session takes the place of the
//! least recently used one in its set, so a table never grows.

use gallop_conf::model::{Config, Sticky, StickyLearn, Upstream, LONGEST_ROUTE};
use gallop_runtime::{now_ms, SharedCells};
use md5::{Digest, Md5};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The hash of a session's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u64; 2]);

impl Key {
    pub fn of(session: &[u8]) -> Key {
        let hash: [u8; 16] = Md5::digest(session).into();
        let whole = u128::from_le_bytes(hash);
        Key([whole as u64, (whole >> 64) as u64])
    }
}

/// The cells of an entry: key, time of the last use, length of the server's name, and the name.
const ENTRY: usize = 4 + LONGEST_ROUTE / 8;
/// The entries of a set.
const WAYS: usize = 16;
/// The cells of a set: a lock and its entries.
const SET: usize = 1 + WAYS * ENTRY;

/// A worker that dies may leave a set locked; after so many milliseconds others ignore the lock.
const LONGEST_LOCK: u64 = 1000;
/// How often a lock is tried. A set that stays locked is treated as empty.
const TRIES: u32 = 10_000;

/// The table of a zone.
#[derive(Clone, Debug)]
struct Table {
    zone: String,
    group: String,
    size: u64,
    cells: Arc<SharedCells>,
}

/// The tables of a configuration.
#[derive(Debug)]
pub struct Sessions {
    tables: Vec<Table>,
}

fn rule(group: &Upstream) -> Option<&StickyLearn> {
    match &group.sticky {
        Some(Sticky::Learn(rule)) => Some(rule),
        _ => None,
    }
}

impl Sessions {
    /// The tables for a configuration. Zones that `before` has, too, keep their sessions.
    ///
    /// # Errors
    /// The system has no memory to share.
    pub fn new(config: &Config, before: Option<&Sessions>) -> io::Result<Sessions> {
        let groups = config.http.iter().flat_map(|http| &http.upstreams);
        let rules = groups.filter_map(|group| Some((group, rule(group)?)));
        let table = |(group, rule): (&Arc<Upstream>, &StickyLearn)| {
            let kept = before.and_then(|before| before.find(group, rule));
            match kept {
                Some(kept) => Ok(kept.clone()),
                None => Table::new(&group.name, rule),
            }
        };
        Ok(Sessions {
            tables: rules.map(table).collect::<io::Result<_>>()?,
        })
    }

    fn find(&self, group: &Upstream, rule: &StickyLearn) -> Option<&Table> {
        let same = |t: &&Table| t.zone == rule.zone && t.group == group.name && t.size == rule.size;
        self.tables.iter().find(same)
    }

    /// The server of a session.
    pub fn server(&self, group: &Upstream, rule: &StickyLearn, key: Key) -> Option<Vec<u8>> {
        let set = self.find(group, rule)?.lock(key)?;
        set.server(key, now_ms(), rule.timeout)
    }

    /// Store the server of a session. `creates`: whether it may be a new session.
    pub fn store(
        &self,
        group: &Upstream,
        rule: &StickyLearn,
        key: Key,
        server: &[u8],
        creates: bool,
    ) {
        if let Some(set) = self.find(group, rule).and_then(|table| table.lock(key)) {
            set.store(key, server, creates, now_ms(), rule.timeout);
        }
    }
}

impl Table {
    fn new(group: &str, rule: &StickyLearn) -> io::Result<Table> {
        let cells = usize::try_from(rule.size / 8).unwrap_or(usize::MAX);
        Ok(Table {
            zone: rule.zone.clone(),
            group: group.to_string(),
            size: rule.size,
            cells: Arc::new(SharedCells::new((cells / SET).max(1) * SET)?),
        })
    }

    /// Lock the set of a key; `None` if others hold it for too long.
    fn lock(&self, key: Key) -> Option<Set<'_>> {
        let cells = self.cells.cells();
        let sets = (cells.len() / SET) as u64;
        let at = (key.0[0] % sets) as usize * SET;
        let (lock, entries) = cells[at..at + SET].split_first()?;
        let now = now_ms();
        let mine = now << 20 | crate::random_number() >> 44 | 1;
        for _ in 0..TRIES {
            let held = lock.load(Ordering::Relaxed);
            let is_free = held == 0 || now.saturating_sub(held >> 20) > LONGEST_LOCK;
            let taken = is_free
                && lock
                    .compare_exchange(held, mine, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            if taken {
                return Some(Set {
                    lock,
                    mine,
                    entries,
                });
            }
            std::hint::spin_loop();
        }
        None
    }
}

/// A locked set.
struct Set<'a> {
    lock: &'a AtomicU64,
    mine: u64,
    entries: &'a [AtomicU64],
}

impl Drop for Set<'_> {
    fn drop(&mut self) {
        // Another worker may have taken a lock that was held for too long.
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        let _ = self.lock.compare_exchange(self.mine, 0, release, relaxed);
    }
}

/// The fields of an entry.
#[derive(Clone, Copy)]
enum Field {
    Key = 0,
    Used = 2,
    Length = 3,
    Server = 4,
}

fn get(entry: &[AtomicU64], field: Field) -> u64 {
    entry[field as usize].load(Ordering::Relaxed)
}

fn set(entry: &[AtomicU64], field: Field, value: u64) {
    entry[field as usize].store(value, Ordering::Relaxed);
}

impl Set<'_> {
    fn entries(&self) -> impl Iterator<Item = &[AtomicU64]> {
        self.entries.chunks_exact(ENTRY)
    }

    fn entry(&self, key: Key) -> Option<&[AtomicU64]> {
        let is_it = |e: &&[AtomicU64]| {
            let at = Field::Key as usize;
            let own = [0, 1].map(|i| e[at + i].load(Ordering::Relaxed));
            own == key.0 && get(e, Field::Length) > 0
        };
        self.entries().find(is_it)
    }

    fn server(&self, key: Key, now: u64, timeout: u64) -> Option<Vec<u8>> {
        let entry = self.entry(key)?;
        if now.saturating_sub(get(entry, Field::Used)) >= timeout {
            return None;
        }
        let words = &entry[Field::Server as usize..];
        let bytes = words
            .iter()
            .map(|w| w.load(Ordering::Relaxed).to_le_bytes());
        let mut name: Vec<u8> = bytes.flatten().collect();
        name.truncate(usize::try_from(get(entry, Field::Length)).ok()?);
        Some(name)
    }

    fn store(&self, key: Key, server: &[u8], creates: bool, now: u64, timeout: u64) {
        let known = self.entry(key);
        let lives = |e: &[AtomicU64]| now.saturating_sub(get(e, Field::Used)) < timeout;
        if !creates && !known.is_some_and(lives) {
            return;
        }
        let oldest = || {
            let used = |e: &&[AtomicU64]| match get(e, Field::Length) {
                0 => 0,
                _ => get(e, Field::Used),
            };
            self.entries().min_by_key(used)
        };
        let Some(entry) = known.or_else(oldest) else {
            return;
        };
        for (i, word) in key.0.iter().enumerate() {
            entry[Field::Key as usize + i].store(*word, Ordering::Relaxed);
        }
        set(entry, Field::Used, now);
        let server = &server[..server.len().min(LONGEST_ROUTE)];
        set(entry, Field::Length, server.len() as u64);
        let words = &entry[Field::Server as usize..];
        for (word, part) in words.iter().zip(server.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(size: u64) -> Table {
        let rule = StickyLearn {
            zone: "z".into(),
            size,
            timeout: 1000,
            lookup: Vec::new(),
            create: Vec::new(),
            at_header: false,
        };
        Table::new("u", &rule).unwrap()
    }

    fn key(n: u32) -> Key {
        Key::of(&n.to_le_bytes())
    }

    #[test]
    fn session_ends_after_its_timeout_without_use() {
        let table = table(1 << 15);
        let set = table.lock(key(1)).unwrap();
        set.store(key(1), b"a", false, 0, 1000);
        assert_eq!(set.server(key(1), 0, 1000), None, "not created");
        let long = [b'x'; LONGEST_ROUTE];
        set.store(key(1), &long, true, 5000, 1000);
        assert_eq!(set.server(key(1), 5999, 1000), Some(long.to_vec()));
        set.store(key(1), b"b", false, 5999, 1000);
        assert_eq!(set.server(key(1), 6998, 1000), Some(b"b".to_vec()));
        assert_eq!(set.server(key(1), 6999, 1000), None);
        set.store(key(1), b"b", false, 7000, 1000);
        assert_eq!(set.server(key(1), 7000, 1000), None, "ended before");
    }

    #[test]
    fn table_forgets_the_least_recently_used_session() {
        // One set.
        let table = table((SET * 8) as u64);
        let set = table.lock(key(0)).unwrap();
        for n in 0..=WAYS as u32 {
            set.store(key(n), b"a", true, 1000 + u64::from(n), 10_000);
            let _ = set.server(key(0), 1000, 10_000);
        }
        assert_eq!(set.server(key(0), 1000, 10_000), None);
        for n in 1..=WAYS as u32 {
            assert!(set.server(key(n), 1000, 10_000).is_some(), "{n}");
        }
    }

    #[test]
    fn megabyte_holds_the_8000_sessions_that_it_holds_in_nginx() {
        let table = table(1 << 20);
        for n in 0..8000 {
            let set = table.lock(key(n)).unwrap();
            set.store(key(n), b"a", true, 1000, 10_000);
        }
        let kept = (0..8000).filter(|n| {
            let set = table.lock(key(*n)).unwrap();
            set.server(key(*n), 1000, 10_000).is_some()
        });
        let kept = kept.count();
        assert!(kept > 7900, "{kept}");
    }

    #[test]
    fn lock_of_a_dead_worker_is_ignored_after_a_while() {
        let table = table((SET * 8) as u64);
        let lock = &table.cells.cells()[0];
        lock.store(now_ms() << 20 | 1, Ordering::Relaxed);
        assert!(table.lock(key(0)).is_none());
        let long_ago = now_ms().saturating_sub(2 * LONGEST_LOCK);
        lock.store(long_ago << 20 | 1, Ordering::Relaxed);
        assert!(table.lock(key(0)).is_some());
        assert_eq!(lock.load(Ordering::Relaxed), 0);
    }
}
