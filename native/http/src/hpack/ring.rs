//! The storage of a dynamic table, which evicts the oldest fields first. HPACK and QPACK share it.

use super::ENTRY_OVERHEAD;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u32,
    name: u32,
    value: u32,
}

impl Entry {
    fn len(self) -> usize {
        (self.name + self.value) as usize
    }
}

/// A dynamic table (RFC 7541, section 4; RFC 9204, section 3.2). It uses no memory before the first
/// insertion, and never more than twice its capacity in bytes.
#[derive(Debug, Default)]
pub struct FieldRing {
    /// The bytes of all entries, oldest first, after an unused part that belonged to evicted
    /// entries.
    bytes: Vec<u8>,
    entries: VecDeque<Entry>,
    size: usize,
    capacity: usize,
    inserted: u64,
}

impl FieldRing {
    /// An empty table with `capacity` bytes, as the protocol counts them.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The size as the protocol counts it: names, values, and 32 bytes per entry.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The largest allowed size.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of entries ever inserted: QPACK's insert count.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Change the capacity and evict entries that do not fit.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.evict_to(capacity);
        if self.entries.is_empty() {
            self.bytes = Vec::new();
        }
    }

    /// The name and value of the entry that was inserted `age` insertions ago; 0 is the newest.
    #[inline]
    pub fn newest(&self, age: usize) -> Option<(&[u8], &[u8])> {
        let index = self.entries.len().checked_sub(age + 1)?;
        let entry = self.entries[index];
        let bytes = &self.bytes[entry.at as usize..][..entry.len()];
        Some(bytes.split_at(entry.name as usize))
    }

    /// Insert a field and evict the oldest entries until it fits. A field above the capacity
    /// empties the table and returns `false`.
    pub fn insert(&mut self, name: &[u8], value: &[u8]) -> bool {
        let size = name.len() + value.len() + ENTRY_OVERHEAD;
        self.evict_to(self.capacity.saturating_sub(size));
        if size > self.capacity {
            return false;
        }
        self.make_room(name.len() + value.len());
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.push(at, name.len(), value.len());
        true
    }

    /// Insert a copy of the entry from `age` insertions ago (QPACK's Duplicate), or a field with
    /// its name and a new `value`. `None` if there is no such entry, `Some(false)` if the new one
    /// exceeds the capacity.
    pub fn insert_from(&mut self, age: usize, value: Option<&[u8]>) -> Option<bool> {
        let (name, old_value) = self.newest(age)?;
        let (name, value) = (name.to_vec(), value.unwrap_or(old_value).to_vec());
        Some(self.insert(&name, &value))
    }

    fn push(&mut self, at: u32, name: usize, value: usize) {
        self.entries.push_back(Entry {
            at,
            name: name as u32,
            value: value as u32,
        });
        self.size += name + value + ENTRY_OVERHEAD;
        self.inserted += 1;
    }

    fn evict_to(&mut self, size: usize) {
        while self.size > size {
            let Some(entry) = self.entries.pop_front() else {
                return;
            };
            self.size -= entry.len() + ENTRY_OVERHEAD;
        }
        if self.entries.is_empty() {
            self.bytes.clear();
        }
    }

    /// Move the used bytes to the front once the unused part is as large as the capacity: each
    /// inserted byte causes at most one moved byte.
    fn make_room(&mut self, len: usize) {
        if self.bytes.len() + len <= 2 * self.capacity {
            return;
        }
        let dead = self
            .entries
            .front()
            .map_or(self.bytes.len(), |e| e.at as usize);
        self.bytes.drain(..dead);
        for entry in &mut self.entries {
            entry.at -= dead as u32;
        }
    }
}
