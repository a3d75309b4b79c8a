//! Storage of a dynamic table: fields in the order they came, the oldest evicted first. HPACK and
//! QPACK share it.

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

/// A dynamic table (RFC 7541, section 4; RFC 9204, section 3.2). Holds nothing until the first
/// insertion, and never more than twice its capacity in bytes.
#[derive(Debug, Default)]
pub struct FieldRing {
    /// Bytes of all entries, oldest first, after a dead part that belonged to evicted ones.
    bytes: Vec<u8>,
    entries: VecDeque<Entry>,
    size: usize,
    capacity: usize,
    inserted: u64,
}

impl FieldRing {
    /// An empty table of `capacity` bytes, as the protocol counts them.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    /// Entries in the table.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Size as the protocol counts it: names, values and 32 bytes for each.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The size that is not exceeded.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Entries ever inserted: QPACK's insert count.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Changes the capacity, evicting what does not fit.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.evict_to(capacity);
        if self.entries.is_empty() {
            self.bytes = Vec::new();
        }
    }

    /// Name and value of the entry inserted `age` insertions ago; 0 is the newest.
    #[inline]
    pub fn newest(&self, age: usize) -> Option<(&[u8], &[u8])> {
        let index = self.entries.len().checked_sub(age + 1)?;
        let entry = self.entries[index];
        let bytes = &self.bytes[entry.at as usize..][..entry.len()];
        Some(bytes.split_at(entry.name as usize))
    }

    /// Inserts a field, evicting the oldest until it fits. A field larger than the capacity leaves
    /// the table empty; `false` then.
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

    /// Inserts a copy of the entry `age` insertions ago (QPACK's Duplicate), or a field with its
    /// name and a new `value`. `None` when there is no such entry, `Some(false)` when the new one
    /// is larger than the capacity.
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

    /// Moves the live bytes to the front when the dead part has grown to the table's capacity: each
    /// byte is moved at most once for each byte inserted.
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
