//! The prepared responses of a worker: ready-to-send responses for small, often requested files.
//! They take a limited number of bytes; the least recently used ones make room for others.

use crate::exchange::Exchange;
use crate::fast::{self, is_plain, Origin};
use crate::looks::Look;
use crate::uri::{self, ParsedUri};
use bytes::Bytes;
use gallop_conf::model::{Location, Main, Server};
use gallop_runtime::unix_time;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use std::sync::Arc;

/// The default of `prepared_responses_size` in bytes.
const DEFAULT_SIZE: u64 = 16 << 20;
/// The default of `prepared_responses_valid` in milliseconds.
const DEFAULT_VALID_MS: u64 = 50;
/// Copying larger bodies has no advantage.
pub const MAX_BODY: u64 = 64 * 1024;
/// An entry may take at most this fraction of the whole size.
const LARGEST: usize = 16;

/// A response that is complete except for its date.
pub struct Entry {
    /// The origin of its requests.
    pub origin: Origin,
    pub server: Arc<Server>,
    pub location: Arc<Location>,
    /// The head as it is sent. In HTTP/1.1 form the body follows it; otherwise the body is in
    /// `body`.
    pub head: Vec<u8>,
    pub head_len: usize,
    /// The position of the 29 bytes of the date.
    pub date_at: usize,
    /// The second that the date shows.
    pub date: u64,
    pub body: Bytes,
    /// Head and body as HTTP/3 frames, rebuilt with each date.
    pub blob: Option<Bytes>,
    /// Whether the entry will get a `blob`.
    pub has_blob: bool,
    /// The host and URI of the request, for the log.
    pub host: String,
    pub uri: ParsedUri,
    /// Whether `try_files` has replaced the request's arguments.
    pub args_fixed: bool,
    /// All file lookups that led to it.
    pub looks: Vec<Look>,
}

/// Whether a response with a body of `len` bytes may be stored, regardless of the HTTP version.
pub fn may_keep(ex: &Exchange, len: usize) -> bool {
    let r = &ex.response;
    r.is_plain_file
        && r.status == 200
        && r.content_length == Some(len as u64)
        && len as u64 <= MAX_BODY
        && !ex.error_page
        && !r.gzip_vary
        && r.trailers.is_empty()
        && !ex.worker.prepared.borrow().is_off()
        && is_plain(&ex.server, &ex.loc)
        && !crate::log::tells_of_answer(&ex.worker, &ex.loc)
        && ex.looks.iter().all(|look| look.is_settled(unix_time()))
}

impl Entry {
    /// An entry without head and body for the response to a request; takes over the request's file
    /// lookups.
    pub fn of(ex: &mut Exchange) -> Entry {
        Entry {
            origin: fast::origin(&ex.conn),
            server: ex.server.clone(),
            location: ex.loc.clone(),
            head: Vec::new(),
            head_len: 0,
            date_at: 0,
            date: u64::MAX,
            body: Bytes::new(),
            blob: None,
            has_blob: false,
            host: ex.host.clone(),
            uri: ex.uri.clone(),
            args_fixed: ex.args_fixed,
            looks: std::mem::take(&mut ex.looks),
        }
    }

    fn size(&self) -> usize {
        let body = self.body.len() * if self.has_blob { 2 } else { 1 };
        let looks: usize = self.looks.iter().map(Look::size).sum();
        size_of::<Slot>()
            + size_of::<Held>()
            + self.head.capacity() * if self.has_blob { 2 } else { 1 }
            + body
            + self.host.capacity()
            + self.uri.path.capacity()
            + self.uri.args.capacity()
            + looks
    }

    /// The URI of a request with this target that gets this response.
    pub fn uri_of(&self, target: &[u8]) -> ParsedUri {
        let mut uri = self.uri.clone();
        if !self.args_fixed {
            uri.set_args(uri::arguments(target).map(<[u8]>::to_vec));
        }
        uri
    }
}

struct Held {
    entry: Entry,
    key: Box<[u8]>,
    hash: u64,
    size: usize,
    /// The time of the last file check in milliseconds (monotonic clock).
    checked: u64,
}

#[derive(Default)]
struct Slot {
    held: Option<Box<Held>>,
    /// Whether it was used since the clock hand passed.
    used: bool,
    /// Distinguishes this entry from earlier ones in the same slot.
    serial: u32,
}

/// The place of an entry; invalid once the entry is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    index: u32,
    serial: u32,
}

impl Place {
    /// The place as a number other than 0.
    pub fn to_note(self) -> u64 {
        u64::from(self.serial) << 32 | (u64::from(self.index) + 1)
    }

    pub fn of_note(note: u64) -> Option<Place> {
        let index = (note as u32).checked_sub(1)?;
        let serial = (note >> 32) as u32;
        Some(Place { index, serial })
    }
}

/// The prepared responses of a worker.
pub struct Prepared {
    limit: usize,
    valid_ms: u64,
    bytes: usize,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    slots: Vec<Slot>,
    free: Vec<u32>,
    hand: usize,
    serial: u32,
}

impl Prepared {
    pub fn new(main: &Main) -> Prepared {
        let limit = main.prepared_responses_size.unwrap_or(DEFAULT_SIZE);
        Prepared {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            valid_ms: main.prepared_responses_valid.unwrap_or(DEFAULT_VALID_MS),
            bytes: 0,
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            serial: 0,
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Whether the cache is disabled.
    pub fn is_off(&self) -> bool {
        self.limit == 0
    }

    /// The place of the entry with a key.
    pub fn find(&self, key: &[u8]) -> Option<Place> {
        let hash = self.hasher.hash_one(key);
        let slots = &self.slots;
        let is_it = |&i: &u32| {
            slots[i as usize]
                .held
                .as_ref()
                .is_some_and(|h| *h.key == *key)
        };
        let &index = self.table.find(hash, is_it)?;
        let serial = slots[index as usize].serial;
        Some(Place { index, serial })
    }

    /// The entry at a place, if it still exists and its file lookups still hold.
    pub fn get(&mut self, place: Place, now_ms: u64) -> Option<&mut Entry> {
        let index = place.index as usize;
        let slot = self.slots.get_mut(index)?;
        if slot.serial != place.serial {
            return None;
        }
        let held = slot.held.as_mut()?;
        if now_ms.saturating_sub(held.checked) >= self.valid_ms {
            held.checked = now_ms;
            if !held.entry.looks.iter().all(Look::holds) {
                self.remove(index);
                return None;
            }
        }
        let slot = self.slots.get_mut(index)?;
        slot.used = true;
        slot.held.as_mut().map(|held| &mut held.entry)
    }

    /// The entry at a place, valid or not.
    pub fn peek(&self, place: Place) -> Option<&Entry> {
        let slot = self.slots.get(place.index as usize)?;
        let held = slot.held.as_ref()?;
        (slot.serial == place.serial).then_some(&held.entry)
    }

    /// Store a response. `now_ms`: the time of its file lookups, or later if nothing changed since.
    pub fn put(&mut self, key: &[u8], entry: Entry, now_ms: u64) {
        if let Some(place) = self.find(key) {
            self.remove(place.index as usize);
        }
        let size = entry.size() + key.len();
        if size > self.limit / LARGEST {
            return;
        }
        while self.bytes + size > self.limit {
            self.evict();
        }
        self.bytes += size;
        let hash = self.hasher.hash_one(key);
        let held = Held {
            entry,
            key: key.into(),
            hash,
            size,
            checked: now_ms,
        };
        self.serial = self.serial.wrapping_add(1);
        let slot = Slot {
            held: Some(Box::new(held)),
            used: false,
            serial: self.serial,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        let hash_of = |&i: &u32| slots[i as usize].held.as_ref().map_or(0, |h| h.hash);
        self.table.insert_unique(hash, index, hash_of);
    }

    /// Remove the next entry that was not used since the clock hand last passed.
    fn evict(&mut self) {
        loop {
            self.hand = (self.hand + 1) % self.slots.len().max(1);
            let Some(slot) = self.slots.get_mut(self.hand) else {
                return;
            };
            if slot.held.is_some() && !std::mem::take(&mut slot.used) {
                return self.remove(self.hand);
            }
        }
    }

    fn remove(&mut self, index: usize) {
        let Some(held) = self.slots[index].held.take() else {
            return;
        };
        self.bytes -= held.size;
        self.free.push(index as u32);
        let found = self.table.find_entry(held.hash, |&i| i as usize == index);
        if let Ok(found) = found {
            found.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gallop_conf::model::Config;

    fn config() -> Config {
        let folder = std::env::temp_dir();
        let name = format!(
            "gallop-prepared-{}-{:?}.conf",
            std::process::id(),
            std::thread::current().id()
        );
        let path = folder.join(name);
        let text = "events {} http { server { listen 127.0.0.1:1; } }";
        std::fs::write(&path, text).unwrap();
        let config = gallop_conf::load(&folder, &path, "", &mut gallop_conf::Seen::default());
        std::fs::remove_file(&path).unwrap();
        config.unwrap()
    }

    fn entry(config: &Config, len: usize) -> Entry {
        let server = config.http.as_ref().unwrap().servers[0].clone();
        Entry {
            origin: (0, 0),
            location: server.root.clone(),
            server,
            head: vec![0; len],
            head_len: len,
            date_at: 0,
            date: 0,
            body: Bytes::new(),
            blob: None,
            has_blob: false,
            host: String::new(),
            uri: ParsedUri::default(),
            args_fixed: false,
            looks: Vec::new(),
        }
    }

    #[test]
    fn entries_take_no_more_than_the_limit_and_those_in_use_stay() {
        let mut config = config();
        config.main.prepared_responses_size = Some(1 << 20);
        let mut cache = Prepared::new(&config.main);
        cache.put(b"hot", entry(&config, 10_000), 0);
        for n in 0..5000u32 {
            cache.put(&n.to_ne_bytes(), entry(&config, 10_000), 0);
            let hot = cache.find(b"hot").expect("what is in use stays");
            assert!(cache.get(hot, 0).is_some());
            assert!(cache.bytes <= 1 << 20);
        }
        let kept = cache.slots.iter().filter(|s| s.held.is_some()).count();
        assert!((50..110).contains(&kept), "{kept} entries");
        assert!(cache.slots.len() < 120 && cache.table.len() == kept);
    }

    #[test]
    fn place_of_an_entry_that_made_room_leads_nowhere() {
        let config = config();
        let mut cache = Prepared::new(&config.main);
        cache.put(b"a", entry(&config, 10), 0);
        let place = cache.find(b"a").unwrap();
        assert_eq!(Place::of_note(place.to_note()), Some(place));
        cache.put(b"a", entry(&config, 20), 0);
        assert!(cache.get(place, 0).is_none() && cache.peek(place).is_none());
        let place = cache.find(b"a").unwrap();
        assert_eq!(cache.get(place, 0).map(|e| e.head.len()), Some(20));
    }

    #[test]
    fn no_entry_is_kept_when_switched_off() {
        let mut config = config();
        config.main.prepared_responses_size = Some(0);
        let mut cache = Prepared::new(&config.main);
        cache.put(b"a", entry(&config, 10), 0);
        assert!(cache.is_empty() && cache.is_off());
    }
}
