//! Request bodies of HTTP/1.

use super::Shared;
use crate::transport::Transport;
use bytes::Bytes;
use gallop_engine::{BodyError, RequestBody};
use gallop_http::h1::{BodyFraming, ChunkDecoder, Decoded};
use std::rc::Rc;
use std::task::{ready, Context, Poll, Waker};

enum State {
    Length(u64),
    Chunked(ChunkDecoder),
    Ended,
}

pub struct Source<T> {
    shared: Rc<Shared<T>>,
    state: State,
    /// Bytes taken from the connection for the body, including framing.
    consumed: u64,
    /// The unsent bytes of `100 Continue`, which precede the body.
    interim: &'static [u8],
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl<T: Transport> Source<T> {
    pub fn new(shared: Rc<Shared<T>>, framing: BodyFraming, expect_continue: bool) -> Self {
        let state = match framing {
            BodyFraming::None | BodyFraming::Length(0) => State::Ended,
            BodyFraming::Length(n) => State::Length(n),
            BodyFraming::Chunked => State::Chunked(ChunkDecoder::default()),
        };
        let interim = if expect_continue { CONTINUE } else { b"" };
        Source {
            shared,
            state,
            consumed: 0,
            interim,
        }
    }

    /// Take body bytes from the read buffer; `None` if more bytes are needed.
    fn take(&mut self) -> Result<Option<Bytes>, BodyError> {
        let shared = self.shared.clone();
        loop {
            let (consumed, data) = match &mut self.state {
                State::Ended => return Ok(Some(Bytes::new())),
                State::Length(left) => {
                    let data = shared
                        .with_unread(|b| take_bytes(b, 0, (*left).min(b.len() as u64) as usize));
                    *left -= data.len() as u64;
                    if *left == 0 {
                        self.state = State::Ended;
                    }
                    (data.len(), data)
                }
                State::Chunked(decoder) => {
                    let step = shared.with_unread(|b| {
                        let decoded = decoder.decode(b);
                        decoded.map(|d| match d {
                            Decoded::Data { consumed, data } => {
                                (consumed + data, take_bytes(b, consumed, data), false)
                            }
                            Decoded::More { consumed } => (consumed, Bytes::new(), false),
                            Decoded::End { consumed } => (consumed, Bytes::new(), true),
                        })
                    });
                    let Ok((consumed, data, end)) = step else {
                        // After a framing error, the bytes that follow cannot be interpreted.
                        self.state = State::Ended;
                        let reason = "client sent invalid chunked body";
                        return Err(BodyError::Status(400, reason));
                    };
                    if end {
                        self.state = State::Ended;
                    }
                    (consumed, data)
                }
            };
            shared.consume(consumed);
            self.consumed += consumed as u64;
            if !data.is_empty() {
                return Ok(Some(data));
            }
            if matches!(self.state, State::Ended) {
                return Ok(Some(Bytes::new()));
            }
            if consumed == 0 || !shared.has_unread() {
                return Ok(None);
            }
        }
    }
}

fn take_bytes(all: &[u8], at: usize, len: usize) -> Bytes {
    Bytes::copy_from_slice(&all[at..at + len])
}

impl<T: Transport> RequestBody for Source<T> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            if matches!(self.state, State::Ended) && self.interim.is_empty() {
                return Poll::Ready(Ok(None));
            }
            if self.shared.has_unread() {
                // The client has already sent its body without waiting for `100 Continue`.
                self.interim = b"";
                match self.take() {
                    Err(e) => return Poll::Ready(Err(e)),
                    Ok(Some(data)) if data.is_empty() => return Poll::Ready(Ok(None)),
                    Ok(Some(data)) => return Poll::Ready(Ok(Some(data))),
                    Ok(None) => {}
                }
            }
            while !self.interim.is_empty() {
                match ready!(self.shared.io.poll_write(cx, self.interim, false)) {
                    Ok(n) => self.interim = &self.interim[n..],
                    Err(e) => return Poll::Ready(Err(BodyError::Closed(e))),
                }
            }
            if matches!(self.state, State::Ended) {
                return Poll::Ready(Ok(None));
            }
            match ready!(self.shared.poll_read_more(cx)) {
                Ok(0) => {
                    let e = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                    return Poll::Ready(Err(BodyError::Closed(e)));
                }
                Ok(_) => {}
                Err(e) => return Poll::Ready(Err(BodyError::Closed(e))),
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }

    fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn discard_ready(&mut self) -> Result<(), u16> {
        // Beyond this many bytes, send the response before reading on.
        const MOST: u64 = 1 << 20;
        let mut cx = Context::from_waker(Waker::noop());
        let start = self.consumed;
        while !self.is_ended() && self.consumed - start < MOST {
            if !self.shared.has_unread() {
                match self.shared.poll_read_more(&mut cx) {
                    Poll::Ready(Ok(n)) if n > 0 => {}
                    _ => return Ok(()),
                }
            }
            match self.take() {
                Err(BodyError::Status(status, _)) => return Err(status),
                Err(_) => return Ok(()),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}
