//! A dense table of open streams, indexed by stream id.

/// Stream ids mostly increase in fixed steps, so the id without its constant low bits, modulo the
/// size, rarely collides. Memory depends on the number of entries, not on the ids.
#[derive(Debug)]
pub struct StreamTable<S> {
    slots: Vec<(u64, S)>,
    /// The slot number + 1, or 0; with linear probing, at most half full; its length is a power of
    /// two.
    index: Vec<u16>,
    shift: u32,
}

/// The index length of an empty table.
const SMALLEST: usize = 16;

impl<S> StreamTable<S> {
    /// An empty table for streams whose ids differ above their `shift` low bits.
    pub fn new(shift: u32) -> Self {
        Self {
            slots: Vec::new(),
            index: vec![0; SMALLEST],
            shift,
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// All entries in any order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &S)> {
        self.slots.iter().map(|(id, entry)| (*id, entry))
    }

    /// All entries in any order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut S)> {
        self.slots.iter_mut().map(|(id, entry)| (*id, entry))
    }

    #[inline]
    fn home(&self, id: u64) -> usize {
        (id >> self.shift) as usize & (self.index.len() - 1)
    }

    #[inline]
    fn find(&self, id: u64) -> Option<usize> {
        let mask = self.index.len() - 1;
        let mut at = self.home(id);
        while self.index[at] != 0 {
            if self.slots[usize::from(self.index[at]) - 1].0 == id {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// The entry of a stream.
    #[inline]
    pub fn get_mut(&mut self, id: u64) -> Option<&mut S> {
        let at = self.find(id)?;
        Some(&mut self.slots[usize::from(self.index[at]) - 1].1)
    }

    /// The entry of a stream.
    pub fn get(&self, id: u64) -> Option<&S> {
        let at = self.find(id)?;
        Some(&self.slots[usize::from(self.index[at]) - 1].1)
    }

    /// Add a stream whose id is not in the table.
    ///
    /// # Panics
    /// With more than 65535 entries; callers have lower limits.
    pub fn insert(&mut self, id: u64, entry: S) {
        self.slots.push((id, entry));
        if self.slots.len() * 2 > self.index.len() {
            self.rebuild(self.index.len() * 2);
        } else {
            self.link(id, self.slots.len());
        }
    }

    fn link(&mut self, id: u64, slot: usize) {
        let mask = self.index.len() - 1;
        let mut at = self.home(id);
        while self.index[at] != 0 {
            at = (at + 1) & mask;
        }
        self.index[at] = u16::try_from(slot).expect("more than 65535 streams");
    }

    fn rebuild(&mut self, len: usize) {
        self.index = vec![0; len];
        for slot in 0..self.slots.len() {
            self.link(self.slots[slot].0, slot + 1);
        }
    }

    /// Removes a stream.
    pub fn remove(&mut self, id: u64) -> Option<S> {
        let at = self.find(id)?;
        let slot = usize::from(self.index[at]) - 1;
        let last = self.slots.len() - 1;
        if slot != last {
            let moved = self.find(self.slots[last].0)?;
            self.index[moved] = slot as u16 + 1;
        }
        self.unlink(at);
        Some(self.slots.swap_remove(slot).1)
    }

    /// Clear an index place and move up entries that probed past it. This runs before the slots
    /// move, so `slots` still has the old ids.
    fn unlink(&mut self, mut hole: usize) {
        let mask = self.index.len() - 1;
        let removed = self.index[hole];
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            if self.index[at] == 0 {
                break;
            }
            let slot = usize::from(self.index[at]);
            // The last slot's index entry already has its new place, where the removed slot still
            // is.
            let id = if slot == usize::from(removed) {
                self.slots[self.slots.len() - 1].0
            } else {
                self.slots[slot - 1].0
            };
            let home = self.home(id);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.index[hole] = self.index[at];
                hole = at;
            }
        }
        self.index[hole] = 0;
    }

    /// Release memory after a burst of streams.
    pub fn trim(&mut self) {
        if self.slots.is_empty() {
            self.slots = Vec::new();
            self.index = vec![0; SMALLEST];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    proptest::proptest! {
        /// Compare with a map, using ids that collide.
        #[test]
        fn it_behaves_like_a_map(steps in proptest::collection::vec((0u64..40, proptest::bool::ANY), 0..300)) {
            let mut table = StreamTable::new(1);
            let mut model = BTreeMap::new();
            for (n, add) in steps {
                let id = 1 + 2 * (n % 5 + n / 5 * 64);
                if add && !model.contains_key(&id) {
                    table.insert(id, id * 10);
                    model.insert(id, id * 10);
                } else if !add {
                    assert_eq!(table.remove(id), model.remove(&id));
                }
                assert_eq!(table.len(), model.len());
                for (id, entry) in &model {
                    assert_eq!(table.get_mut(*id), Some(&mut entry.clone()));
                }
            }
        }
    }

    #[test]
    fn huge_ids_take_no_more_room() {
        let mut table = StreamTable::new(2);
        for n in 0..1000u64 {
            let id = (1 << 61) + n * (1 << 40);
            table.insert(id, ());
            assert_eq!(table.remove(id), Some(()));
        }
        assert_eq!(table.index.len(), SMALLEST);
    }
}
