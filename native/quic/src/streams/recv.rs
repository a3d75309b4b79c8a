//! Reassembly of a stream's received bytes.

use crate::error::{Error, Reason};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// The most pieces behind gaps. With packets of 1200 bytes, reaching it takes a window of a
/// megabyte of which every second packet is lost.
const MAX_PIECES: usize = 512;
/// The number of pieces from which small ones are joined.
const MANY: usize = 64;
/// A piece with fewer bytes on average counts as small.
const SMALL: usize = 1024;

/// Takes bytes in any order and returns them in order. Waiting bytes are copied from their
/// datagrams, so memory depends on their length, which flow control limits, and on the number of
/// pieces.
#[derive(Debug, Default)]
pub struct Assembler {
    /// The stream offset of the waiting bytes.
    read: u64,
    ready: VecDeque<Bytes>,
    ready_len: u64,
    /// The bytes behind gaps by their stream offset, without overlap.
    later: BTreeMap<u64, Vec<u8>>,
}

impl Assembler {
    /// The end of the bytes that can be read or were read.
    pub fn in_order(&self) -> u64 {
        self.read + self.ready_len
    }

    /// The end of the bytes that were read.
    pub fn read_offset(&self) -> u64 {
        self.read
    }

    /// Insert received bytes; `true` if more can be read than before.
    ///
    /// # Errors
    /// There are more pieces than a real network causes.
    #[inline]
    pub fn insert(&mut self, offset: u64, mut data: Bytes) -> Result<bool, Error> {
        let next = self.in_order();
        let end = offset + data.len() as u64;
        if end <= next {
            return Ok(false);
        }
        if offset > next {
            return self.keep(offset, &data).map(|()| false);
        }
        if offset < next {
            data = data.slice((next - offset) as usize..);
        }
        self.push(data);
        if !self.later.is_empty() {
            self.join();
        }
        Ok(true)
    }

    fn push(&mut self, data: Bytes) {
        self.ready_len += data.len() as u64;
        self.ready.push_back(data);
        if self.ready.len() >= MANY && self.ready_len < (self.ready.len() * SMALL) as u64 {
            // Small pieces would otherwise keep whole datagrams in memory.
            let mut joined = Vec::with_capacity(self.ready_len as usize);
            self.ready
                .drain(..)
                .for_each(|piece| joined.extend_from_slice(&piece));
            self.ready.push_back(joined.into());
        }
    }

    fn keep(&mut self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let (mut at, end) = (offset, offset + data.len() as u64);
        while at < end {
            let next = self.later.range(at + 1..).next();
            let stop = next.map_or(end, |(start, _)| end.min(*start));
            let before = self.later.range_mut(..=at).next_back();
            let before = before.map(|(start, piece)| (start + piece.len() as u64, piece));
            match before {
                Some((known, _)) if known > at => {
                    at = known;
                    continue;
                }
                Some((known, piece)) if known == at => {
                    piece
                        .extend_from_slice(&data[(at - offset) as usize..(stop - offset) as usize]);
                }
                _ => {
                    let piece = &data[(at - offset) as usize..(stop - offset) as usize];
                    self.later.insert(at, piece.to_vec());
                }
            }
            at = stop;
        }
        if self.later.len() > MAX_PIECES {
            let reason = "too many gaps in a stream";
            return Err(Error::new(Reason::ProtocolViolation, reason));
        }
        Ok(())
    }

    /// Move bytes behind a closed gap to the readable ones.
    fn join(&mut self) {
        while let Some(first) = self.later.first_entry() {
            let next = self.read + self.ready_len;
            if *first.key() > next {
                return;
            }
            let (start, piece) = first.remove_entry();
            if start + piece.len() as u64 > next {
                self.push(Bytes::from(piece).slice((next - start) as usize..));
            }
        }
    }

    /// Take the next piece in order.
    #[inline]
    pub fn next(&mut self) -> Option<Bytes> {
        let piece = self.ready.pop_front()?;
        self.ready_len -= piece.len() as u64;
        self.read += piece.len() as u64;
        Some(piece)
    }

    /// Discard waiting bytes, and all before `offset`.
    pub fn discard(&mut self, offset: u64) {
        *self = Self {
            read: offset,
            ..Self::default()
        };
    }

    /// Reset for a new stream, keeping memory.
    pub fn restart(&mut self) {
        self.read = 0;
        self.ready.clear();
        self.ready_len = 0;
        self.later.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::Ranges;
    use proptest::prelude::*;

    fn content(range: std::ops::Range<usize>) -> Bytes {
        range
            .map(|n| (n * 7 % 251) as u8)
            .collect::<Vec<_>>()
            .into()
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_become_the_stream(
            pieces in prop::collection::vec((0usize..2000, 0usize..200, any::<bool>()), 0..200),
        ) {
            let mut assembler = Assembler::default();
            let mut read = Vec::new();
            let mut have = Ranges::default();
            for (start, len, reads) in pieces {
                have.insert(start as u64..(start + len) as u64);
                assembler.insert(start as u64, content(start..start + len)).unwrap();
                let whole = have.first().filter(|r| r.start == 0).map_or(0, |r| r.end);
                prop_assert_eq!(assembler.in_order(), whole);
                while let Some(piece) = reads.then(|| assembler.next()).flatten() {
                    read.extend_from_slice(&piece);
                }
            }
            while let Some(piece) = assembler.next() {
                read.extend_from_slice(&piece);
            }
            prop_assert_eq!(&read[..], &content(0..read.len())[..]);
            prop_assert_eq!(read.len() as u64, assembler.read_offset());
        }
    }

    #[test]
    fn many_small_pieces_are_joined() {
        let mut assembler = Assembler::default();
        for n in 0..1000 {
            assert!(assembler
                .insert(n, content(n as usize..n as usize + 1))
                .unwrap());
        }
        assert!(assembler.ready.len() < MANY);
        let read: Vec<u8> = std::iter::from_fn(|| assembler.next()).flatten().collect();
        assert_eq!(read, content(0..1000));
    }

    /// A byte far ahead costs one byte of memory regardless of the window.
    #[test]
    fn memory_follows_what_came() {
        let mut assembler = Assembler::default();
        assembler.insert(1 << 40, content(0..1)).unwrap();
        assembler.insert((1 << 40) + 1, content(1..2)).unwrap();
        assert_eq!(assembler.later.len(), 1);
    }

    #[test]
    fn too_many_gaps_are_refused() {
        let mut assembler = Assembler::default();
        let result: Result<Vec<_>, _> = (1..2000)
            .map(|n| assembler.insert(2 * n, content(0..1)))
            .collect();
        assert_eq!(result.unwrap_err().code, Reason::ProtocolViolation as u64);
    }
}
