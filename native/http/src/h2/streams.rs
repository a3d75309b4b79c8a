//! The table of open streams, and the ends of recent ones.

use super::ErrorCode;
use crate::stream_table::StreamTable;

/// An open stream with its owner's data.
#[derive(Debug)]
pub struct Stream<T> {
    pub id: u32,
    /// The bytes that the peer allows us to send; negative after it reduced its initial window.
    pub send_window: i64,
    /// The bytes that the peer may send.
    pub recv_window: i64,
    /// The bytes that the peer may send before any are released.
    pub window: u32,
    /// The most bytes in one of our DATA frames.
    pub chunk: usize,
    /// Released bytes that are not yet announced by WINDOW_UPDATE.
    pub released: u32,
    /// Body bytes that content-length announced and that have not arrived.
    pub body_left: Option<u64>,
    /// Whether END_STREAM has arrived.
    pub remote_done: bool,
    /// Whether our response head was sent.
    pub head_sent: bool,
    /// Whether the owner has data that exceeded the window.
    pub blocked: bool,
    /// Whether the stream is in the queue of streams that may continue.
    pub queued: bool,
    /// If our response is complete but the request is not: the number of
    /// [`super::Connection::end_unfinished`] calls that found this, plus 1.
    pub answered: u8,
    /// The request is malformed: no more events, and a reset with this code after the response.
    pub malformed: Option<ErrorCode>,
    pub user: T,
}

impl<T> Stream<T> {
    /// Mark the body as invalid after a frame of `len` bytes; the rest is discarded.
    pub fn spoil(&mut self, len: i64, end_stream: bool) {
        self.malformed = Some(ErrorCode::PROTOCOL_ERROR);
        self.body_left = None;
        self.recv_window -= len;
        self.remote_done = end_stream;
    }
}

/// The way a stream ended, for late frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By END_STREAM from both sides, or by the peer's reset.
    Closed,
    /// By our reset. Late frames are discarded but must match the remaining content-length.
    Reset { body_left: Option<u64> },
}

/// The table of streams.
#[derive(Debug)]
pub struct Streams<T> {
    table: StreamTable<Stream<T>>,
    /// The streams that ended last; id 0 marks an empty slot.
    ended: [(u32, Ended); REMEMBERED],
    next_ended: usize,
}

/// The number of ended streams that are remembered.
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

    /// A stream whose response is incomplete.
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

    /// Remember the end of a stream, which may never have been in the table.
    pub fn remember(&mut self, id: u32, how: Ended) {
        self.ended[self.next_ended] = (id, how);
        self.next_ended = (self.next_ended + 1) % REMEMBERED;
    }

    /// The end of a stream, if it is remembered.
    pub fn how_ended(&mut self, id: u32) -> Option<&mut Ended> {
        let found = self.ended.iter_mut().find(|(ended, _)| *ended == id);
        found.map(|(_, how)| how)
    }

    /// Remove all streams.
    pub fn clear(&mut self) {
        self.table = StreamTable::new(1);
    }

    /// Release memory after a burst of streams.
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
