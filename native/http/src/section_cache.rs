//! A cache of request heads by their encoded bytes.
//!
//! Clients send the same field section repeatedly, and a section decodes to the same head while the
//! dynamic table is unchanged. The lookup by raw bytes saves decoding, validating, and allocating;
//! the head's owner may store further results with it, see [`RequestHead::set_note`].

use crate::head::RequestHead;
use std::rc::Rc;

/// Longer sections are not cached.
const MAX_SECTION: usize = 1024;

#[derive(Debug)]
struct Entry {
    generation: u64,
    section: Box<[u8]>,
    head: Rc<RequestHead>,
}

/// A table with one slot per hash value: a collision replaces the older head. Memory is allocated
/// with the first entry.
#[derive(Debug)]
pub struct SectionCache {
    places: Vec<Option<Entry>>,
    bits: u32,
}

impl SectionCache {
    /// A cache of at most 2^`bits` heads.
    pub fn new(bits: u32) -> Self {
        Self {
            places: Vec::new(),
            bits,
        }
    }

    fn place(&self, section: &[u8]) -> usize {
        const K: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut hash = section.len() as u64;
        let (words, rest) = section.as_chunks::<8>();
        for word in words {
            hash = (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(K);
        }
        for &byte in rest {
            hash = (hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(K);
        }
        (hash >> (64 - self.bits)) as usize
    }

    /// The head of an equal section that was decoded with an equal table.
    #[inline]
    pub fn get(&self, generation: u64, section: &[u8]) -> Option<&Rc<RequestHead>> {
        if self.places.is_empty() {
            return None;
        }
        let entry = self.places[self.place(section)].as_ref()?;
        (entry.generation == generation && *entry.section == *section).then_some(&entry.head)
    }

    /// Store a head.
    pub fn put(&mut self, generation: u64, section: &[u8], head: &Rc<RequestHead>) {
        if section.len() > MAX_SECTION {
            return;
        }
        if self.places.is_empty() {
            self.places.resize_with(1 << self.bits, || None);
        }
        let place = self.place(section);
        self.places[place] = Some(Entry {
            generation,
            section: section.into(),
            head: Rc::clone(head),
        });
    }

    /// Remove everything and free the memory.
    pub fn clear(&mut self) {
        self.places = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_find_the_head_only_with_an_equal_table() {
        let mut cache = SectionCache::new(3);
        let head = Rc::new(RequestHead::default());
        assert!(cache.get(0, b"abc").is_none());
        cache.put(0, b"abc", &head);
        assert!(Rc::ptr_eq(cache.get(0, b"abc").unwrap(), &head));
        assert!(cache.get(1, b"abc").is_none());
        assert!(cache.get(0, b"abd").is_none());
        cache.put(0, &[0; MAX_SECTION + 1], &head);
        assert!(cache.get(0, &[0; MAX_SECTION + 1]).is_none());
    }

    #[test]
    fn it_does_not_grow() {
        let mut cache = SectionCache::new(3);
        for n in 0..1000u32 {
            cache.put(0, &n.to_be_bytes(), &Rc::new(RequestHead::default()));
        }
        assert_eq!(cache.places.len(), 8);
    }
}
