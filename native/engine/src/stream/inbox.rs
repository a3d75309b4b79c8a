//! Datagrams of a client that wait for their session.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

/// The memory that a waiting datagram costs besides its bytes.
const OVERHEAD: usize = 64;

/// A bounded queue with one reader.
pub struct Inbox {
    waiting: RefCell<VecDeque<Box<[u8]>>>,
    /// The memory of the waiting datagrams, and its bound.
    used: Cell<usize>,
    room: usize,
    /// The turn in which the first waiting datagram came; 0 once the reader has left some.
    since: Cell<u64>,
    accepted: Cell<u64>,
    reader: RefCell<Option<Waker>>,
}

impl Inbox {
    /// An empty queue for about `room` bytes. One datagram always has room, and so have those that
    /// come in the same turn, before the reader can take any.
    pub fn new(room: usize) -> Inbox {
        Inbox {
            waiting: RefCell::default(),
            used: Cell::new(0),
            room,
            since: Cell::new(0),
            accepted: Cell::new(0),
            reader: RefCell::default(),
        }
    }

    /// Add a datagram of a turn, which is not 0; `false` if there is no room for it.
    pub fn push(&self, data: &[u8], turn: u64) -> bool {
        let used = self.used.get() + data.len() + OVERHEAD;
        if self.is_empty() {
            self.since.set(turn);
        } else if used > self.room && self.since.get() != turn {
            return false;
        }
        self.used.set(used);
        self.accepted.set(self.accepted.get() + 1);
        self.waiting.borrow_mut().push_back(data.into());
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
        true
    }

    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Box<[u8]>> {
        self.since.set(0);
        match self.waiting.borrow_mut().pop_front() {
            Some(data) => {
                self.used.set(self.used.get() - data.len() - OVERHEAD);
                Poll::Ready(data)
            }
            None => {
                *self.reader.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// The number of datagrams that were ever added.
    pub fn accepted(&self) -> u64 {
        self.accepted.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_datagrams_are_bounded_and_keep_their_order() {
        let inbox = Inbox::new(1000);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(inbox.poll_next(&mut cx).is_pending());
        assert!(inbox.push(&[7; 5000], 1), "one always has room");
        assert!(inbox.push(&[7; 5000], 1), "the reader had no turn yet");
        assert!(!inbox.push(b"", 2));
        for _ in 0..2 {
            assert!(matches!(inbox.poll_next(&mut cx), Poll::Ready(data) if data.len() == 5000));
        }
        let taken = (0..100u8).filter(|n| inbox.push(&[*n], 3 + u64::from(*n)));
        let taken = taken.count();
        assert_eq!(taken, 1000 / (OVERHEAD + 1));
        for n in 0..taken {
            assert!(matches!(inbox.poll_next(&mut cx), Poll::Ready(data) if *data == [n as u8]));
        }
        assert_eq!((inbox.used.get(), inbox.accepted()), (0, 2 + taken as u64));
    }
}
