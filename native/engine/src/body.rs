//! Request and response bodies.

use bytes::Bytes;
use std::collections::VecDeque;
use std::fs::File;
use std::future::{poll_fn, Future};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A piece of a response body.
#[derive(Clone, Debug)]
pub enum Chunk {
    Data(Bytes),
    File {
        file: Arc<File>,
        offset: u64,
        len: u64,
    },
    /// The client should receive everything produced so far.
    Flush,
}

impl Chunk {
    pub fn len(&self) -> u64 {
        match self {
            Chunk::Data(b) => b.len() as u64,
            Chunk::File { len, .. } => *len,
            Chunk::Flush => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A body that arrives in pieces; an error means that it was cut off.
pub trait BodyStream {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>>;

    /// Whether a small part of the body, and the response head, may wait for more.
    fn may_hold(&self) -> bool {
        false
    }

    /// The trailer fields; valid after the end of the body.
    fn trailers(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        Vec::new()
    }
}

#[derive(Default)]
pub enum Body {
    #[default]
    Empty,
    Pieces(VecDeque<Chunk>),
    Stream(Box<dyn BodyStream>),
}

impl Body {
    pub fn bytes(data: impl Into<Bytes>) -> Body {
        let data = data.into();
        if data.is_empty() {
            return Body::Empty;
        }
        Body::Pieces(VecDeque::from([Chunk::Data(data)]))
    }

    pub fn file(file: Arc<File>, offset: u64, len: u64) -> Body {
        if len == 0 {
            return Body::Empty;
        }
        Body::Pieces(VecDeque::from([Chunk::File { file, offset, len }]))
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        match self {
            Body::Empty => Poll::Ready(None),
            Body::Pieces(pieces) => Poll::Ready(pieces.pop_front().map(Ok)),
            Body::Stream(stream) => stream.poll_next(cx),
        }
    }

    pub async fn next(&mut self) -> Option<io::Result<Chunk>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub fn may_hold(&self) -> bool {
        matches!(self, Body::Stream(stream) if stream.may_hold())
    }

    pub fn trailers(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        match self {
            Body::Stream(stream) => stream.trailers(),
            _ => Vec::new(),
        }
    }

    /// Read the whole body into memory, at most `limit` bytes.
    pub async fn collect(&mut self, limit: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        while let Some(chunk) = self.next().await {
            match chunk? {
                Chunk::Data(b) => out.extend_from_slice(&b),
                Chunk::File { file, offset, len } => read_range(&file, offset, len, &mut out)?,
                Chunk::Flush => {}
            }
            if out.len() > limit {
                return Err(io::Error::other("too big subrequest response"));
            }
        }
        Ok(out)
    }
}

/// Append a range of a file; an error if the file has become shorter.
pub fn read_range(file: &File, offset: u64, len: u64, out: &mut Vec<u8>) -> io::Result<()> {
    gallop_runtime::append_file(file, offset, len as usize, out)
}

type Step<S> = Pin<Box<dyn Future<Output = (S, Option<io::Result<Chunk>>)>>>;

/// A stream that repeats an asynchronous step until the step returns nothing.
pub struct Unfold<S, F> {
    step: F,
    state: Option<S>,
    running: Option<Step<S>>,
}

pub fn unfold<S, F, Fut>(state: S, step: F) -> Unfold<S, F>
where
    F: FnMut(S) -> Fut,
    Fut: Future<Output = (S, Option<io::Result<Chunk>>)> + 'static,
{
    Unfold {
        step,
        state: Some(state),
        running: None,
    }
}

impl<S: 'static, F, Fut> BodyStream for Unfold<S, F>
where
    F: FnMut(S) -> Fut,
    Fut: Future<Output = (S, Option<io::Result<Chunk>>)> + 'static,
{
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        if self.running.is_none() {
            let Some(state) = self.state.take() else {
                return Poll::Ready(None);
            };
            self.running = Some(Box::pin((self.step)(state)));
        }
        let running = self.running.as_mut().expect("set above");
        match running.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready((state, item)) => {
                self.running = None;
                if matches!(item, Some(Ok(_))) {
                    self.state = Some(state);
                }
                Poll::Ready(item)
            }
        }
    }
}

/// The reason why a request body cannot be read.
#[derive(Debug)]
pub enum BodyError {
    /// The request is malformed or too large: respond with this status.
    Status(u16, &'static str),
    /// The client has left or is too slow.
    Closed(io::Error),
    TimedOut,
}

/// The source of a request body; each protocol implements it.
pub trait RequestBody {
    /// The next bytes; `None` at the end.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>>;

    /// Bytes taken so far, including framing if the protocol writes it into the stream.
    fn consumed(&self) -> u64;

    /// Whether the body was read to its end.
    fn is_ended(&self) -> bool;

    /// Bytes taken that the request's length does not include yet.
    fn uncounted(&self) -> u64 {
        0
    }

    /// Discard received body bytes before a response that does not need them. Returns the status if
    /// they are malformed.
    fn discard_ready(&mut self) -> Result<(), u16> {
        Ok(())
    }
}

/// The body of a request without one.
pub struct NoBody;

impl RequestBody for NoBody {
    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        Poll::Ready(Ok(None))
    }

    fn consumed(&self) -> u64 {
        0
    }

    fn is_ended(&self) -> bool {
        true
    }
}
