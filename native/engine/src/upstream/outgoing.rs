//! The unsent part of a request to an upstream.

use super::application;
use super::http2::{self, Sending};
use super::keepalive::{Stream, UpstreamConn};
use super::request::{BodyLength, Wire};
use super::transfer::{own_failure, Failure, Plan, Protocol};
use crate::body::{read_range, BodyError};
use crate::exchange::{Exchange, Received};
use crate::phases::flow::Flow;
use crate::received;
use bytes::Bytes;
use gallop_conf::model::{AppProtocol, Level};
use gallop_http::fastcgi::RequestWriter;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The client that sends a request body.
pub trait Supply {
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>>;

    /// Check the size of the body that has arrived so far.
    ///
    /// # Errors
    /// The body is too large; the flow ends the request.
    fn check_size(&mut self, total: u64) -> Result<(), Flow>;

    /// The flow that ends a request whose body cannot be read.
    fn refuse(&mut self, e: BodyError) -> Flow;
}

impl Supply for Exchange {
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        Exchange::poll_body(self, cx)
    }

    fn check_size(&mut self, total: u64) -> Result<(), Flow> {
        received::check_size(self, total)
    }

    fn refuse(&mut self, e: BodyError) -> Flow {
        match e {
            BodyError::Status(status, reason) => {
                self.log(Level::Error, reason);
                self.keepalive = false;
                Flow::Status(status)
            }
            BodyError::Closed(_) | BodyError::TimedOut => {
                self.log(
                    Level::Info,
                    "client prematurely closed connection, so upstream connection is closed too",
                );
                self.response.status = 499;
                Flow::Close
            }
        }
    }
}

/// What the rest of a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Everything is sent.
    Nothing,
    /// More of the body from the client.
    Client,
    /// The socket, or a flow-control window of the server.
    Server,
}

/// The reason why a request cannot be sent to its end.
pub enum Stop {
    Broken(io::Error),
    /// The client side ended the request.
    Flow(Flow),
}

pub struct Outgoing {
    buf: Vec<u8>,
    at: usize,
    feed: Feed,
    framing: BodyFraming,
    /// Bytes sent to the server.
    pub total: u64,
    /// Bytes of the client's body so far.
    body: u64,
}

enum Feed {
    Bytes(Bytes),
    File {
        file: Arc<std::fs::File>,
        at: u64,
        len: u64,
    },
    Client,
    Done,
}

enum BodyFraming {
    Plain,
    Chunked,
    Fastcgi,
    Http2(Sending),
}

const FILE_STEP: u64 = 64 * 1024;

/// The body of the request as it is known now.
fn stored(ex: &Exchange) -> Feed {
    match &ex.received {
        Some(Received::Memory(b)) => Feed::Bytes(b.clone()),
        Some(Received::File { file, len, .. }) => Feed::File {
            file: file.clone(),
            at: 0,
            len: *len,
        },
        None if ex.is_subrequest() => Feed::Bytes(Bytes::new()),
        None if ex.source.is_ended() && ex.early_body.is_empty() => Feed::Bytes(Bytes::new()),
        None => Feed::Client,
    }
}

impl Outgoing {
    pub fn new(ex: &Exchange, plan: &Plan<'_>, conn: &UpstreamConn) -> Result<Outgoing, Failure> {
        let (buf, feed, framing) = match &plan.protocol {
            Protocol::Http(request) => {
                let set_body = request.set_body(ex, &plan.conf);
                let length = request.length(set_body.as_ref(), ex, &plan.conf);
                let feed = match (set_body, length) {
                    (Some(body), _) => Feed::Bytes(body.into()),
                    (None, BodyLength::None) => Feed::Done,
                    (None, _) => stored(ex),
                };
                match (&conn.http2, request.wire) {
                    (Some(client), Wire::Http2 | Wire::Grpc) => {
                        let block = http2::head(ex, plan, request, length);
                        let has_body = !matches!(&feed, Feed::Bytes(b) if b.is_empty())
                            && !matches!(feed, Feed::Done);
                        let limit = plan.conf.head_size();
                        let sending = Sending::start(client, &block, !has_body, limit);
                        let feed = if has_body { feed } else { Feed::Done };
                        (Vec::new(), feed, BodyFraming::Http2(sending))
                    }
                    _ => {
                        let head = request.encode(ex, &plan.conf, length);
                        let framing = match length {
                            BodyLength::Chunked => BodyFraming::Chunked,
                            _ => BodyFraming::Plain,
                        };
                        (head, feed, framing)
                    }
                }
            }
            Protocol::Application(protocol) => {
                let is_unsent = *protocol == AppProtocol::Memcached;
                let feed = if is_unsent || plan.conf.pass_request_body == Some(false) {
                    Feed::Bytes(Bytes::new())
                } else {
                    stored(ex)
                };
                let head = application::encode(ex, plan, *protocol);
                let framing = match protocol {
                    AppProtocol::Fastcgi => BodyFraming::Fastcgi,
                    _ => BodyFraming::Plain,
                };
                (head.map_err(own_failure)?, feed, framing)
            }
        };
        let mut out = Outgoing {
            buf,
            at: 0,
            feed,
            framing,
            total: 0,
            body: 0,
        };
        // A body in memory is sent together with the head.
        if let Feed::Bytes(data) = &mut out.feed {
            let data = std::mem::take(data);
            out.frame(data);
            out.end();
        } else if matches!(out.feed, Feed::Client) {
            let early = ex.early_body.clone();
            out.body = early.len() as u64;
            out.frame(early);
        }
        Ok(out)
    }

    /// The unsent rest of a request without a body.
    pub fn rest(buf: Vec<u8>, sent: u64) -> Outgoing {
        Outgoing {
            buf,
            at: 0,
            feed: Feed::Done,
            framing: BodyFraming::Plain,
            total: sent,
            body: 0,
        }
    }

    pub fn is_done(&self) -> bool {
        let is_framed = match &self.framing {
            BodyFraming::Http2(sending) => sending.is_done(),
            _ => true,
        };
        self.at == self.buf.len() && matches!(self.feed, Feed::Done) && is_framed
    }

    /// Whether a part of the body must still come from the client.
    pub fn needs_client(&self) -> bool {
        matches!(self.feed, Feed::Client)
    }

    fn frame(&mut self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        match &mut self.framing {
            BodyFraming::Plain => self.buf.extend_from_slice(&data),
            BodyFraming::Chunked => {
                self.buf
                    .extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
                self.buf.extend_from_slice(&data);
                self.buf.extend_from_slice(b"\r\n");
            }
            BodyFraming::Fastcgi => {
                let mut writer = RequestWriter::default();
                writer.stdin(&data);
                self.buf.extend_from_slice(writer.bytes());
            }
            BodyFraming::Http2(sending) => sending.push(data),
        }
    }

    fn end(&mut self) {
        self.feed = Feed::Done;
        match &mut self.framing {
            BodyFraming::Plain => {}
            BodyFraming::Chunked => self.buf.extend_from_slice(b"0\r\n\r\n"),
            BodyFraming::Fastcgi => {
                let mut writer = RequestWriter::default();
                writer.end_stdin();
                self.buf.extend_from_slice(writer.bytes());
            }
            BodyFraming::Http2(sending) => sending.end(),
        }
    }

    /// Write as much as possible. `progress` is set when bytes were written.
    ///
    /// # Errors
    /// The connection is broken, or the client side ended the request.
    pub fn poll_write(
        &mut self,
        stream: &dyn Stream,
        supply: &mut dyn Supply,
        cx: &mut Context<'_>,
        progress: &mut bool,
    ) -> Result<Wait, Stop> {
        while !self.is_done() {
            if self.at == self.buf.len() {
                self.buf.clear();
                self.at = 0;
                match self.refill(supply, cx).map_err(Stop::Flow)? {
                    Wait::Nothing => continue,
                    wait => return Ok(wait),
                }
            }
            match stream.poll_write(cx, &self.buf[self.at..]) {
                Poll::Ready(Ok(n)) => {
                    self.at += n;
                    self.total += n as u64;
                    *progress = true;
                }
                Poll::Ready(Err(e)) => return Err(Stop::Broken(e)),
                Poll::Pending => return Ok(Wait::Server),
            }
        }
        Ok(Wait::Nothing)
    }

    /// Append more of the body to the unsent bytes.
    fn refill(&mut self, supply: &mut dyn Supply, cx: &mut Context<'_>) -> Result<Wait, Flow> {
        if let BodyFraming::Http2(sending) = &mut self.framing {
            sending.fill(&mut self.buf);
            if !self.buf.is_empty() {
                return Ok(Wait::Nothing);
            }
            if sending.is_blocked() {
                return Ok(Wait::Server);
            }
        }
        match &mut self.feed {
            Feed::Done => {}
            Feed::Bytes(data) => {
                let data = std::mem::take(data);
                self.frame(data);
                self.end();
            }
            Feed::File { file, at, len } => {
                let step = (*len - *at).min(FILE_STEP);
                let mut data = Vec::new();
                if read_range(file, *at, step, &mut data).is_err() {
                    return Err(Flow::Status(500));
                }
                *at += step;
                let ended = *at == *len;
                self.frame(data.into());
                if ended {
                    self.end();
                }
            }
            Feed::Client => return self.take_from_client(supply, cx),
        }
        Ok(Wait::Nothing)
    }

    /// Take all bytes that the client has sent so far as one piece.
    fn take_from_client(
        &mut self,
        supply: &mut dyn Supply,
        cx: &mut Context<'_>,
    ) -> Result<Wait, Flow> {
        let mut piece: Vec<u8> = Vec::new();
        let mut ended = false;
        while !ended && (piece.len() as u64) < FILE_STEP {
            match supply.poll_body(cx) {
                Poll::Pending if piece.is_empty() => return Ok(Wait::Client),
                Poll::Pending => break,
                Poll::Ready(Ok(Some(data))) => piece.extend_from_slice(&data),
                Poll::Ready(Ok(None)) => ended = true,
                Poll::Ready(Err(e)) => return Err(supply.refuse(e)),
            }
        }
        self.body += piece.len() as u64;
        supply.check_size(self.body)?;
        self.frame(piece.into());
        if ended {
            self.end();
        }
        Ok(Wait::Nothing)
    }
}
