//! The body of an upstream response as it arrives.

use super::answer::{self, Giver, Head};
use super::buffers;
use super::chosen::Chosen;
use super::http2;
use super::keepalive::UpstreamConn;
use super::memcached;
use super::sticky::Learned;
use super::transfer::{Plan, Protocol, Reply};
use super::upload::Upload;
use super::Totals;
use crate::body::{BodyStream, Chunk};
use crate::exchange::Exchange;
use crate::template;
use crate::worker::Worker;
use bytes::Bytes;
use gallop_conf::model::{AppProtocol, UpConf};
use gallop_conf::values::parse_size;
use gallop_http::fastcgi::{Event, RecordReader, ResponseHeadParser};
use gallop_http::h1::{parse_response, ChunkDecoder, Decoded, ResponseError, ResponseHead, Sender};
use gallop_runtime::{deadline, now_ms, Deadline};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The way that the body's end is signaled.
enum Framing {
    Length(u64),
    Chunked(ChunkDecoder),
    UntilClose,
    Ended,
}

/// Parses an upstream's bytes.
pub enum Decoder {
    Http {
        sender: Sender,
        framing: FramingState,
        keep: bool,
        /// The lines after a chunked body.
        trailers: Vec<u8>,
        /// The most bytes of trailers to accept, if trailers are passed on.
        most: Option<usize>,
    },
    Fastcgi {
        reader: Box<RecordReader>,
        head: Box<ResponseHeadParser>,
        keep: bool,
        /// Body bytes that arrived with the head.
        early: Vec<u8>,
        stderr: Vec<u8>,
        stdout_ended: bool,
        /// Bytes of the body that are still expected, if the head told its length.
        left: Option<u64>,
    },
    Memcached(memcached::Reader),
    Http2(http2::Reader),
}

pub struct FramingState(Framing);

/// The most bytes of FastCGI standard error to keep.
const MAX_STDERR: usize = 64 * 1024;

impl Decoder {
    pub fn new(plan: &Plan<'_>, conn: &UpstreamConn) -> Decoder {
        let limit = plan.conf.head_size();
        if let Some(client) = &conn.http2 {
            return Decoder::Http2(http2::Reader::new(client.clone()));
        }
        match plan.protocol {
            Protocol::Application(AppProtocol::Fastcgi) => Decoder::Fastcgi {
                reader: Box::default(),
                head: Box::new(ResponseHeadParser::new(limit)),
                keep: plan.conf.keep_conn.unwrap_or(false),
                early: Vec::new(),
                stderr: Vec::new(),
                stdout_ended: false,
                left: None,
            },
            Protocol::Application(AppProtocol::Memcached) => {
                Decoder::Memcached(memcached::Reader::new(plan))
            }
            Protocol::Http(_) | Protocol::Application(_) => Decoder::Http {
                sender: match plan.protocol {
                    Protocol::Http(_) => Sender::Server,
                    Protocol::Application(_) => Sender::Gateway,
                },
                framing: FramingState(Framing::Ended),
                keep: false,
                trailers: Vec::new(),
                most: plan.conf.pass_trailers.filter(|p| *p).map(|_| limit),
            },
        }
    }

    /// Parse the head if it is complete, and remove it from `input`.
    pub fn head(&mut self, input: &mut Vec<u8>, limit: usize) -> Result<Option<Head>, String> {
        match self {
            Decoder::Http { sender, .. } => http_head(input, limit, *sender),
            Decoder::Fastcgi { .. } => self.fastcgi_head(input),
            Decoder::Http2(reader) => reader.head(input),
            Decoder::Memcached(reader) => match reader.head(input)? {
                None if input.len() >= limit => Err(too_big()),
                head => Ok(head),
            },
        }
    }

    fn fastcgi_head(&mut self, input: &mut Vec<u8>) -> Result<Option<Head>, String> {
        let Decoder::Fastcgi {
            reader,
            head,
            early,
            stderr,
            ..
        } = self
        else {
            return Ok(None);
        };
        let doing = "while reading response header from upstream";
        let mut found = None;
        let mut rest = &input[..];
        while found.is_none() {
            let event = reader.next(&mut rest);
            match event
                .map_err(|e| format!("upstream sent unsupported FastCGI record ({e}) {doing}"))?
            {
                None => break,
                Some(Event::Stdout(mut data)) => {
                    let parsed = head.push(&mut data);
                    let parsed = parsed
                        .map_err(|e| format!("upstream sent invalid header ({e}) {doing}"))?;
                    if let Some(parsed) = parsed {
                        early.extend_from_slice(data);
                        let parsed = Head::from_fastcgi(&parsed, head.bytes());
                        found = Some(parsed.map_err(|e| format!("{e} {doing}"))?);
                    }
                }
                Some(Event::Stderr(data)) if stderr.len() < MAX_STDERR => {
                    stderr.extend_from_slice(data)
                }
                Some(Event::Stderr(_) | Event::StderrEnd) => {}
                // The output has ended without a head.
                Some(Event::StdoutEnd | Event::End { .. }) => {
                    return Err(format!(
                        "upstream closed prematurely FastCGI stdout {doing}"
                    ));
                }
            }
        }
        let used = input.len() - rest.len();
        input.drain(..used);
        Ok(found)
    }

    pub fn stderr(&self) -> &[u8] {
        match self {
            Decoder::Fastcgi { stderr, .. } => stderr,
            Decoder::Http { .. } | Decoder::Memcached(_) | Decoder::Http2(_) => b"",
        }
    }

    pub fn take_stderr(&mut self) -> Option<Vec<u8>> {
        match self {
            Decoder::Fastcgi { stderr, .. } if !stderr.is_empty() => Some(std::mem::take(stderr)),
            _ => None,
        }
    }

    /// Determine from the head how the body ends.
    pub fn start_body(&mut self, head: &Head, is_head: bool) {
        match self {
            Decoder::Http {
                sender,
                framing,
                keep,
                ..
            } => {
                *keep = head.keep;
                framing.0 = if is_head || matches!(head.status, 204 | 304) {
                    Framing::Ended
                } else if head.status == 101 {
                    Framing::UntilClose
                } else if head.chunked && *sender == Sender::Server {
                    Framing::Chunked(ChunkDecoder::default())
                } else {
                    match head.content_length {
                        Some(0) => Framing::Ended,
                        Some(n) => Framing::Length(n),
                        None => Framing::UntilClose,
                    }
                };
            }
            // An application may send a body even for HEAD, which a cache stores for GET.
            Decoder::Fastcgi { left, .. } => *left = head.content_length,
            Decoder::Memcached(_) => {}
            Decoder::Http2(reader) => reader.start_body(head, is_head),
        }
    }

    /// Whether the whole body was taken.
    pub(super) fn is_ended(&self) -> bool {
        match self {
            Decoder::Http { framing, .. } => matches!(framing.0, Framing::Ended),
            Decoder::Fastcgi { reader, early, .. } => reader.is_done() && early.is_empty(),
            Decoder::Memcached(reader) => reader.value.is_ended(),
            Decoder::Http2(reader) => reader.is_ended(),
        }
    }

    /// Whether the connection can be reused after the body's end.
    pub(super) fn is_reusable(&self) -> bool {
        match self {
            Decoder::Http { keep, .. } | Decoder::Fastcgi { keep, .. } => *keep,
            Decoder::Memcached(reader) => reader.value.is_sound(),
            Decoder::Http2(reader) => reader.is_reusable(),
        }
    }

    /// Take body bytes from `input`; empty if more bytes are needed.
    pub(super) fn take(&mut self, input: &mut Vec<u8>) -> io::Result<Bytes> {
        match self {
            Decoder::Http {
                framing,
                trailers,
                most,
                ..
            } => match &mut framing.0 {
                Framing::Ended => Ok(Bytes::new()),
                Framing::UntilClose => Ok(split_front(input, input.len())),
                Framing::Length(left) => {
                    let n = (*left).min(input.len() as u64) as usize;
                    *left -= n as u64;
                    let done = *left == 0;
                    let data = split_front(input, n);
                    if done {
                        framing.0 = Framing::Ended;
                    }
                    Ok(data)
                }
                Framing::Chunked(_) => framing.0.take_chunked(input, trailers, *most),
            },
            Decoder::Http2(reader) => reader.take(input),
            Decoder::Fastcgi { .. } => self.take_records(input),
            Decoder::Memcached(reader) => {
                let taken = reader.value.take(input);
                let out = split_front(input, taken.value);
                input.drain(..taken.used - taken.value);
                Ok(out)
            }
        }
    }

    fn take_records(&mut self, input: &mut Vec<u8>) -> io::Result<Bytes> {
        let Decoder::Fastcgi {
            reader,
            early,
            stderr,
            stdout_ended,
            left,
            keep,
            ..
        } = self
        else {
            return Ok(Bytes::new());
        };
        let mut out = std::mem::take(early);
        let mut rest = &input[..];
        loop {
            if reader.is_done() && !rest.is_empty() {
                // Bytes after the end belong to no request, so the connection must not be reused.
                *keep = false;
                rest = &[];
                break;
            }
            match reader.next(&mut rest) {
                Ok(None) => break,
                Ok(Some(Event::Stdout(data))) => out.extend_from_slice(data),
                Ok(Some(Event::StdoutEnd)) => *stdout_ended = true,
                Ok(Some(Event::Stderr(data))) if stderr.len() < MAX_STDERR => {
                    stderr.extend_from_slice(data)
                }
                Ok(Some(_)) => {}
                Err(e) => return Err(io::Error::other(e.to_string())),
            }
        }
        let used = input.len() - rest.len();
        input.drain(..used);
        *keep &= !reader.is_done() || reader.is_clean();
        if let Some(left) = left {
            // More bytes than announced would be taken for the next response.
            out.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= out.len() as u64;
            if *left > 0 && out.is_empty() && (reader.is_done() || *stdout_ended) {
                let e = "upstream prematurely closed FastCGI stdout while reading upstream";
                return Err(io::Error::other(e));
            }
        }
        Ok(Bytes::from(out))
    }

    /// Whether closing the connection here ends the body rather than cutting it off.
    pub(super) fn may_close(&self) -> bool {
        match self {
            Decoder::Http { framing, .. } => {
                matches!(framing.0, Framing::Ended | Framing::UntilClose)
            }
            Decoder::Fastcgi {
                reader,
                stdout_ended,
                ..
            } => reader.is_done() || *stdout_ended,
            Decoder::Memcached(reader) => reader.value.is_whole(),
            Decoder::Http2(_) => false,
        }
    }
}

/// Parse the head of a response if it is complete, and remove it from `input`.
fn http_head(input: &mut Vec<u8>, limit: usize, sender: Sender) -> Result<Option<Head>, String> {
    let doing = "while reading response header from upstream";
    let mut head = ResponseHead::default();
    match parse_response(input, &mut head, sender) {
        Ok(Some(len)) if len > limit => Err(too_big()),
        Ok(Some(len)) => {
            input.drain(..len);
            let made = match sender {
                Sender::Server => Head::from_http(&head),
                Sender::Gateway => Head::from_gateway(&head),
            };
            made.map(Some).map_err(|e| format!("{e} {doing}"))
        }
        Ok(None) if input.len() >= limit => Err(too_big()),
        Ok(None) => Ok(None),
        Err(ResponseError::NoStatusLine) => {
            Err(format!("upstream sent no valid HTTP/1.0 header {doing}"))
        }
        Err(ResponseError::InvalidHeader) => Err(format!("upstream sent invalid header {doing}")),
    }
}

fn too_big() -> String {
    "upstream sent too big header while reading response header from upstream".into()
}

/// The most reads in a row that give no part of a body.
const MOST_READS: u32 = 16;
/// Smaller pieces are copied from the buffer instead of giving the buffer away.
const SMALL: usize = 8 * 1024;

/// Take the first `n` bytes, without copying if these are all and many.
fn split_front(input: &mut Vec<u8>, n: usize) -> Bytes {
    if n < SMALL {
        let front = Bytes::copy_from_slice(&input[..n]);
        input.drain(..n);
        return front;
    }
    if n == input.len() {
        return Bytes::from(std::mem::take(input));
    }
    let rest = input.split_off(n);
    Bytes::from(std::mem::replace(input, rest))
}

impl Framing {
    /// Parse a chunked body. `most`: the limit for bytes of trailer fields.
    fn take_chunked(
        &mut self,
        input: &mut Vec<u8>,
        trailers: &mut Vec<u8>,
        most: Option<usize>,
    ) -> io::Result<Bytes> {
        let Framing::Chunked(decoder) = self else {
            return Ok(Bytes::new());
        };
        let mut out = Vec::new();
        let mut at = 0;
        let mut ended = false;
        while at < input.len() && !ended {
            match decoder.decode(&input[at..]) {
                Ok(Decoded::More { consumed }) => at += consumed,
                Ok(Decoded::Data { consumed, data }) => {
                    out.extend_from_slice(&input[at + consumed..at + consumed + data]);
                    at += consumed + data;
                }
                Ok(Decoded::End { consumed }) => {
                    at += consumed;
                    ended = true;
                }
                Err(_) => return Err(io::Error::other("upstream sent invalid chunked response")),
            }
        }
        ended |= decoder.is_done();
        if most.is_some_and(|most| decoder.trailers_len() >= most) {
            return Err(io::Error::other("upstream sent too big trailers"));
        }
        if ended {
            *trailers = decoder.take_trailers();
            *self = Framing::Ended;
        }
        input.drain(..at);
        Ok(Bytes::from(out))
    }
}

/// `limit_rate` of the upstream's settings, if set.
fn limit_rate(ex: &Exchange, plan: &Plan<'_>) -> Option<u64> {
    let text = template::eval(ex, plan.conf.limit_rate.as_ref()?);
    let rate = parse_size(std::str::from_utf8(&text).ok()?)?;
    (rate > 0 && plan.conf.buffering != Some(false)).then_some(rate)
}

/// Streams a response body, and returns the connection to the pool after a clean end.
pub struct UpstreamBody {
    worker: Rc<Worker>,
    conn: Option<UpstreamConn>,
    decoder: Decoder,
    input: Vec<u8>,
    /// Whether the whole request was sent.
    request_sent: bool,
    /// The rest of the request, for HTTP/2.
    upload: Option<Upload>,
    chosen: Option<Chosen>,
    /// The session to store at the end.
    learned: Option<Learned>,
    group: Option<usize>,
    times: Rc<Totals>,
    started: u64,
    idle: Deadline,
    read_ms: u64,
    /// The most bytes read per second, and the start time.
    rate: Option<(u64, u64)>,
    pause: Deadline,
    /// Whether unbuffered pieces are flushed to the client at once.
    flush: bool,
    pending_flush: bool,
    pass_trailers: bool,
    conf: Arc<UpConf>,
    giver: Giver,
}

impl UpstreamBody {
    pub fn new(
        ex: &mut Exchange,
        plan: &Plan<'_>,
        reply: Reply,
        chosen: Chosen,
    ) -> (Head, UpstreamBody) {
        let times = ex
            .attempts
            .last()
            .map(|a| a.times.clone())
            .unwrap_or_default();
        let idle = deadline();
        idle.set(plan.conf.read_ms());
        let mut body = UpstreamBody {
            worker: ex.worker.clone(),
            conn: Some(reply.conn),
            decoder: reply.decoder,
            input: reply.rest,
            request_sent: reply.out.is_done(),
            upload: plan.is_http2().then(|| Upload::new(ex, reply.out)),
            chosen: Some(chosen),
            learned: None,
            group: plan.index,
            times,
            started: now_ms(),
            idle,
            read_ms: plan.conf.read_ms(),
            rate: limit_rate(ex, plan).map(|rate| (rate, now_ms())),
            pause: deadline(),
            flush: plan.conf.buffering == Some(false),
            pending_flush: false,
            pass_trailers: plan.conf.pass_trailers == Some(true),
            conf: plan.conf.clone(),
            giver: plan.giver(),
        };
        body.settle();
        (reply.head, body)
    }

    /// Process what came with the head of a response without a body: frames about the connection.
    fn settle(&mut self) {
        let is_settled = match &self.decoder {
            Decoder::Http2(reader) if reader.is_ended() && !self.input.is_empty() => {
                matches!(self.decoder.take(&mut self.input), Ok(data) if data.is_empty())
            }
            _ => true,
        };
        if !is_settled {
            self.conn = None;
            self.input.clear();
        }
    }

    /// Set the start time of the attempt in milliseconds.
    pub fn since(mut self, began: u64) -> UpstreamBody {
        self.started = began;
        self
    }

    /// Set the session to store at the end.
    pub fn learning(mut self, learned: Option<Learned>) -> UpstreamBody {
        self.learned = learned;
        self
    }

    pub fn is_unbuffered(&self) -> bool {
        self.flush
    }

    pub fn set_unbuffered(&mut self, unbuffered: bool) {
        self.flush = unbuffered;
    }

    /// The connection and its early bytes, for an upgraded connection.
    pub fn into_upgrade(mut self) -> Option<(UpstreamConn, Vec<u8>)> {
        let input = std::mem::take(&mut self.input);
        self.conn.take().map(|c| (c, input))
    }

    /// Drop the body, and its connection unless the body has ended.
    pub fn discard(mut self) {
        self.finish();
    }

    pub fn passes_trailers(&self) -> bool {
        self.pass_trailers
    }

    pub fn is_ended(&self) -> bool {
        self.decoder.is_ended() && self.input.is_empty()
    }

    /// Send more of the request, and replies to the server.
    fn send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let (Some(upload), Some(conn)) = (&mut self.upload, &self.conn) else {
            return Ok(());
        };
        let sent = upload.poll_write(&*conn.stream, cx)?;
        self.times.sent.set(sent);
        self.request_sent = upload.is_done();
        Ok(())
    }

    /// End a response that cannot be read to its end.
    fn fail<T>(&mut self, e: io::Error) -> Poll<Option<io::Result<T>>> {
        self.conn = None;
        self.finish();
        Poll::Ready(Some(Err(e)))
    }

    fn finish(&mut self) {
        if self.decoder.is_ended() {
            // The last replies, so that the connection can be reused.
            let _ = self.send(&mut Context::from_waker(Waker::noop()));
        }
        self.upload = None;
        let header = now_ms() - self.started;
        self.times.response_ms.set(Some(header));
        let clean = self.decoder.is_ended() && self.input.is_empty();
        if self.input.is_empty() {
            buffers::give(std::mem::take(&mut self.input));
        }
        self.learned = None;
        let chosen = self.chosen.take();
        let Some(conn) = self.conn.take() else { return };
        if let (true, Some(group), Some(chosen)) = (clean, self.group, chosen) {
            if self.decoder.is_reusable() && self.request_sent {
                self.worker.pool.give(group, &chosen.group.conf, conn);
            }
        }
    }

    /// The number of bytes that may be read now; `None` while the rate limit is reached.
    fn allowed(&self) -> Option<usize> {
        const MOST: u64 = buffers::SIZE as u64;
        let Some((rate, began)) = self.rate else {
            return Some(MOST as usize);
        };
        let seconds = (now_ms() - began) / 1000 + 1;
        let left = (rate * seconds).saturating_sub(self.times.received.get());
        if left == 0 {
            let over = self.times.received.get() - rate * seconds;
            self.pause.set(over * 1000 / rate + 1);
            return None;
        }
        Some(left.min(MOST) as usize)
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(conn) = &self.conn else {
            return Poll::Ready(Ok(0));
        };
        let Some(allowed) = self.allowed() else {
            return Poll::Pending;
        };
        if self.input.capacity() == 0 {
            self.input = buffers::take();
        }
        let read = conn.stream.poll_read_more(cx, &mut self.input, allowed);
        let n = match &read {
            Poll::Ready(Ok(n)) => *n,
            _ => 0,
        };
        if n > 0 {
            self.times
                .received
                .set(self.times.received.get() + n as u64);
            self.idle.set(self.read_ms);
        }
        read
    }
}

/// Parse the fields in the lines after a chunked body.
fn trailer_fields(lines: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let field = |line: &[u8]| {
        let colon = memchr::memchr(b':', line)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let plain = !name.is_empty() && name.iter().all(|c| is_token(*c));
        let allowed = answer::may_be_trailer(name);
        let clean = !value.iter().any(|c| c.is_ascii_control() && *c != b'\t');
        (plain && allowed && clean).then(|| (name.to_vec(), value.to_vec()))
    };
    lines.split(|&c| c == b'\n').filter_map(field).collect()
}

fn is_token(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c)
}

impl BodyStream for UpstreamBody {
    fn trailers(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        match &self.decoder {
            Decoder::Http { trailers, .. } if self.pass_trailers => trailer_fields(trailers),
            Decoder::Http2(reader) if self.pass_trailers => {
                let is_hidden =
                    |name: &[u8]| !answer::is_passed(&self.conf, name, false, self.giver);
                http2::passed_trailers(&reader.trailers, is_hidden)
            }
            _ => Vec::new(),
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        let mut reads = 0;
        loop {
            if std::mem::take(&mut self.pending_flush) {
                return Poll::Ready(Some(Ok(Chunk::Flush)));
            }
            let before = self.input.len();
            let data = match self.decoder.take(&mut self.input) {
                Ok(data) => data,
                Err(e) => return self.fail(e),
            };
            if let Err(e) = self.send(cx) {
                return self.fail(e);
            }
            // As in nginx, the framing of chunks counts.
            let used = match &self.decoder {
                Decoder::Http { .. } => before - self.input.len(),
                Decoder::Fastcgi { .. } | Decoder::Memcached(_) | Decoder::Http2(_) => data.len(),
            };
            self.times.length.set(self.times.length.get() + used as u64);
            if !data.is_empty() {
                self.pending_flush = self.flush;
                if self.decoder.is_ended() {
                    self.finish();
                }
                return Poll::Ready(Some(Ok(Chunk::Data(data))));
            }
            if self.decoder.is_ended() || self.conn.is_none() {
                self.finish();
                return Poll::Ready(None);
            }
            match self.read(cx) {
                Poll::Ready(Ok(0)) => {
                    let whole = self.decoder.may_close();
                    self.conn = None;
                    self.finish();
                    if whole {
                        return Poll::Ready(None);
                    }
                    let e = io::Error::other("upstream prematurely closed connection");
                    return Poll::Ready(Some(Err(e)));
                }
                Poll::Ready(Ok(_)) if reads == MOST_READS => {
                    // Other connections get a turn when a server sends much but no body.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(Ok(_)) => reads += 1,
                Poll::Ready(Err(e)) => return self.fail(e),
                Poll::Pending if self.allowed().is_none() => {
                    // The delay is this server's, so restart the time limit for reading.
                    self.idle.set(self.read_ms);
                    std::task::ready!(self.pause.poll_over(cx));
                }
                Poll::Pending => {
                    if self.idle.poll_over(cx).is_ready() {
                        self.conn = None;
                        self.finish();
                        let e = "upstream timed out (110: Connection timed out)";
                        return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, e))));
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::trailer_fields;

    #[test]
    fn only_fields_that_change_nothing_else_are_trailers() {
        let lines = b"X-A: b\r\nContent-Length: 5\r\nbad name: c\r\nno colon\r\nY:\r\n\r\n";
        let expected = [("X-A", "b"), ("Y", "")].map(|(n, v)| (n.into(), v.into()));
        assert_eq!(trailer_fields(lines), expected);
    }
}
