//! Request bodies on streams of HTTP/2 and HTTP/3.

use super::Mux;
use bytes::Bytes;
use gallop_engine::{BodyError, RequestBody};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Received body bytes that were not read yet. The stream's flow-control window limits their size.
#[derive(Default)]
pub struct Queue {
    chunks: RefCell<VecDeque<Bytes>>,
    ended: Cell<bool>,
    broken: Cell<bool>,
    refused: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Queue {
    /// Append a piece; `end`: it is the last.
    pub fn push(&self, data: Bytes, end: bool) {
        if !data.is_empty() {
            self.chunks.borrow_mut().push_back(data);
        }
        if end {
            self.ended.set(true);
        }
        self.wake();
    }

    /// Mark the body as lost: the rest will not arrive.
    pub fn fail(&self) {
        if !self.ended.get() {
            self.broken.set(true);
        }
        self.wake();
    }

    /// Mark the body as invalid: it contradicts the request's head.
    pub fn refuse(&self) {
        self.refused.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

const BAD_LENGTH: &str = "client sent a body of another length than \"content-length\"";

/// The reading end of the queue, used by the engine.
pub struct QueuedBody {
    queue: Rc<Queue>,
    mux: Rc<dyn Mux>,
    stream: u64,
    /// The unsent `100 Continue`; `None` once it is no longer needed.
    interim: Option<Vec<u8>>,
    consumed: u64,
}

impl QueuedBody {
    /// Read from `queue`; send `interim` before the first wait.
    pub fn new(queue: Rc<Queue>, mux: Rc<dyn Mux>, stream: u64, interim: Option<Vec<u8>>) -> Self {
        Self {
            queue,
            mux,
            stream,
            interim,
            consumed: 0,
        }
    }
}

impl RequestBody for QueuedBody {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        if self.queue.refused.get() {
            return Poll::Ready(Err(BodyError::Status(400, BAD_LENGTH)));
        }
        if let Some(data) = self.queue.chunks.borrow_mut().pop_front() {
            self.interim = None;
            self.mux.released(self.stream, data.len());
            self.consumed += data.len() as u64;
            return Poll::Ready(Ok(Some(data)));
        }
        if self.queue.ended.get() {
            return Poll::Ready(Ok(None));
        }
        if self.queue.broken.get() {
            let gone = io::Error::from(io::ErrorKind::ConnectionReset);
            return Poll::Ready(Err(BodyError::Closed(gone)));
        }
        if let Some(section) = self.interim.take() {
            self.mux.send_interim(self.stream, &section);
        }
        self.queue.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    fn discard_ready(&mut self) -> Result<(), u16> {
        if self.queue.refused.get() {
            return Err(400);
        }
        Ok(())
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }

    fn is_ended(&self) -> bool {
        self.queue.ended.get() && self.queue.chunks.borrow().is_empty()
    }
}
