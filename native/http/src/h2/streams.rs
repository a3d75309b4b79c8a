//! The open streams: dense, found by a small hash table, both no larger than the number allowed.

use super::ErrorCode;

/// One open stream and what its owner keeps with it.
#[derive(Debug)]
pub struct Stream<T> {
    pub id: u32,
    /// What the peer lets us send; negative after it shrank its initial window.
    pub send_window: i64,
    /// What we let the peer send.
    pub recv_window: i64,
    /// Bytes released but not yet announced in a WINDOW_UPDATE.
    pub released: u32,
    /// Body bytes announced by content-length and not yet received.
    pub body_left: Option<u64>,
    /// END_STREAM came.
    pub remote_done: bool,
    /// Our response head went out.
    pub head_sent: bool,
    /// The owner has data that did not fit into the window.
    pub blocked: bool,
    /// The stream stands in the queue of those that may go on.
    pub queued: bool,
    /// The request is malformed: no more events, and this code once the answer is whole.
    pub malformed: Option<ErrorCode>,
    pub user: T,
}

/// How a stream ended, for frames that still come for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By END_STREAM from both sides, or by the peer's reset.
    Closed,
    /// By our reset: frames may have been under way.
    Reset,
}

/// Stream ids are odd and mostly consecutive, so `id / 2` modulo the size hardly ever collides.
#[derive(Debug)]
pub struct Streams<T> {
    slots: Vec<Stream<T>>,
    /// Slot number + 1, or 0; linear probing, at most half full, a power of two long.
    index: Vec<u16>,
    /// The last streams that ended: id * 2, + 1 if by our reset; 0 for none.
    ended: [u32; REMEMBERED],
    next_ended: usize,
}

/// How many ended streams are told from those that never were.
const REMEMBERED: usize = 64;

impl<T> Streams<T> {
    pub fn new() -> Self {
        Self {
            slots: Vec::new(),
            index: vec![0; 16],
            ended: [0; REMEMBERED],
            next_ended: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream<T>> {
        self.slots.iter_mut()
    }

    #[inline]
    fn home(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.index.len() - 1)
    }

    #[inline]
    fn find(&self, id: u32) -> Option<usize> {
        let mask = self.index.len() - 1;
        let mut at = self.home(id);
        while self.index[at] != 0 {
            if self.slots[usize::from(self.index[at]) - 1].id == id {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
        None
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Stream<T>> {
        let at = self.find(id)?;
        Some(&mut self.slots[usize::from(self.index[at]) - 1])
    }

    pub fn get(&self, id: u32) -> Option<&Stream<T>> {
        let at = self.find(id)?;
        Some(&self.slots[usize::from(self.index[at]) - 1])
    }

    /// Adds a stream whose id is not in the table.
    pub fn insert(&mut self, stream: Stream<T>) {
        let id = stream.id;
        self.slots.push(stream);
        if self.slots.len() * 2 > self.index.len() {
            self.rebuild(self.index.len() * 2);
        } else {
            self.link(id, self.slots.len());
        }
    }

    fn link(&mut self, id: u32, slot: usize) {
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
            self.link(self.slots[slot].id, slot + 1);
        }
    }

    pub fn remove(&mut self, id: u32, how: Ended) -> Option<Stream<T>> {
        let at = self.find(id)?;
        let slot = usize::from(self.index[at]) - 1;
        let last = self.slots.len() - 1;
        if slot != last {
            let moved = self.find(self.slots[last].id)?;
            self.index[moved] = slot as u16 + 1;
        }
        self.unlink(at);
        self.remember(id, how);
        Some(self.slots.swap_remove(slot))
    }

    /// Notes how a stream ended that may never have been in the table.
    pub fn remember(&mut self, id: u32, how: Ended) {
        self.ended[self.next_ended] = id << 1 | u32::from(how == Ended::Reset);
        self.next_ended = (self.next_ended + 1) % REMEMBERED;
    }

    /// Empties an index place, moving up what had to probe past it. Runs before the slots move, so
    /// ids are read through `slots` as they were.
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
            // The last slot's entry already names its new place, where the removed one still is.
            let id = if slot == usize::from(removed) {
                self.slots[self.slots.len() - 1].id
            } else {
                self.slots[slot - 1].id
            };
            let home = self.home(id);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.index[hole] = self.index[at];
                hole = at;
            }
        }
        self.index[hole] = 0;
    }

    /// How a stream ended, if it was among the last.
    pub fn how_ended(&self, id: u32) -> Option<Ended> {
        let found = *self.ended.iter().find(|&&ended| ended >> 1 == id)?;
        let how = if found & 1 == 1 {
            Ended::Reset
        } else {
            Ended::Closed
        };
        (found != 0).then_some(how)
    }

    /// Gives back what a burst of streams needed.
    pub fn trim(&mut self) {
        if self.slots.is_empty() {
            self.slots = Vec::new();
            self.index = vec![0; 16];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn stream(id: u32) -> Stream<u32> {
        Stream {
            id,
            send_window: 0,
            recv_window: 0,
            released: 0,
            body_left: None,
            remote_done: false,
            head_sent: false,
            blocked: false,
            queued: false,
            malformed: None,
            user: id * 10,
        }
    }

    proptest::proptest! {
        /// Against a map, with ids that collide.
        #[test]
        fn it_behaves_like_a_map(steps in proptest::collection::vec((0u32..40, proptest::bool::ANY), 0..300)) {
            let mut streams = Streams::new();
            let mut model = BTreeMap::new();
            for (n, add) in steps {
                let id = 1 + 2 * (n % 5 + n / 5 * 64);
                if add && !model.contains_key(&id) {
                    streams.insert(stream(id));
                    model.insert(id, id * 10);
                } else if !add {
                    let removed = streams.remove(id, Ended::Closed).map(|s| s.user);
                    assert_eq!(removed, model.remove(&id));
                }
                assert_eq!(streams.len(), model.len());
                for (id, user) in &model {
                    assert_eq!(streams.get_mut(*id).map(|s| s.user), Some(*user));
                }
            }
        }
    }

    #[test]
    fn the_last_ended_streams_are_remembered() {
        let mut streams = Streams::new();
        for n in 0..200 {
            streams.insert(stream(n * 2 + 1));
            streams.remove(n * 2 + 1, Ended::Reset);
        }
        assert_eq!(streams.how_ended(399), Some(Ended::Reset));
        assert_eq!(streams.how_ended(1), None);
        assert_eq!(streams.index.len(), 16);
    }
}
