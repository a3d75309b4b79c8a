//! The open streams, and how the last ones ended.

use super::ErrorCode;
use crate::stream_table::StreamTable;

/// One open stream and what its owner keeps with it.
#[derive(Debug)]
pub struct Stream<T> {
    pub id: u32,
    /// What the peer lets us send; negative after it shrank its initial window.
    pub send_window: i64,
    /// What we let the peer send.
    pub recv_window: i64,
    /// What the peer may send before any of it is released.
    pub window: u32,
    /// Bytes in one of our DATA frames at most.
    pub chunk: usize,
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
    /// Our answer is whole though the request is not: how many times
    /// [`super::Connection::end_unfinished`] has found it so, from 1.
    pub answered: u8,
    /// The request is malformed: no more events, and this code once the answer is whole.
    pub malformed: Option<ErrorCode>,
    pub user: T,
}

impl<T> Stream<T> {
    /// The body broke its promise with a frame of `len` bytes: what still comes is thrown away.
    pub fn spoil(&mut self, len: i64, end_stream: bool) {
        self.malformed = Some(ErrorCode::PROTOCOL_ERROR);
        self.body_left = None;
        self.recv_window -= len;
        self.remote_done = end_stream;
    }
}

/// How a stream ended, for frames that still come for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By END_STREAM from both sides, or by the peer's reset.
    Closed,
    /// By our reset: frames may have been under way. They are thrown away, but must still be what
    /// they promised: the bytes of body that content-length left.
    Reset { body_left: Option<u64> },
}

/// See the module.
#[derive(Debug)]
pub struct Streams<T> {
    table: StreamTable<Stream<T>>,
    /// The last streams that ended; id 0 stands for none.
    ended: [(u32, Ended); REMEMBERED],
    next_ended: usize,
}

/// How many ended streams are told from those that never were.
const REMEMBERED: usize = 32;

impl<T> Streams<T> {
    pub fn new() -> Self {
        Self {
            table: StreamTable::new(1),
            ended: [(0, Ended::Closed); REMEMBERED],
            next_ended: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Stream<T>> {
        self.table.iter().map(|(_, stream)| stream)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream<T>> {
        self.table.iter_mut().map(|(_, stream)| stream)
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Stream<T>> {
        self.table.get_mut(u64::from(id))
    }

    /// A stream whose answer is not whole yet.
    #[inline]
    pub fn sending(&mut self, id: u32) -> Option<&mut Stream<T>> {
        self.get_mut(id).filter(|stream| stream.answered == 0)
    }

    pub fn get(&self, id: u32) -> Option<&Stream<T>> {
        self.table.get(u64::from(id))
    }

    pub fn insert(&mut self, stream: Stream<T>) {
        self.table.insert(u64::from(stream.id), stream);
    }

    pub fn remove(&mut self, id: u32, how: Ended) -> Option<Stream<T>> {
        let removed = self.table.remove(u64::from(id))?;
        self.remember(id, how);
        Some(removed)
    }

    /// Notes how a stream ended that may never have been in the table.
    pub fn remember(&mut self, id: u32, how: Ended) {
        self.ended[self.next_ended] = (id, how);
        self.next_ended = (self.next_ended + 1) % REMEMBERED;
    }

    /// How a stream ended, if it was among the last.
    pub fn how_ended(&mut self, id: u32) -> Option<&mut Ended> {
        let found = self.ended.iter_mut().find(|(ended, _)| *ended == id);
        found.map(|(_, how)| how)
    }

    /// Removes all streams.
    pub fn clear(&mut self) {
        self.table = StreamTable::new(1);
    }

    /// Gives back what a burst of streams needed.
    pub fn trim(&mut self) {
        self.table.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ended_streams_are_remembered() {
        let mut streams = Streams::<()>::new();
        for n in 0..200 {
            streams.remember(n * 2 + 1, Ended::Reset { body_left: None });
        }
        streams.remember(401, Ended::Closed);
        assert!(matches!(streams.how_ended(399), Some(Ended::Reset { .. })));
        assert_eq!(streams.how_ended(401), Some(&mut Ended::Closed));
        assert_eq!(streams.how_ended(1), None);
    }
}
