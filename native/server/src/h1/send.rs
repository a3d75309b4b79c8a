//! Sending responses over HTTP/1.

use super::{fast, Shared};
use crate::transport::Transport;
use gallop_conf::values::parse_size;
use gallop_engine::body::read_range;
use gallop_engine::exchange::{Fields, Interim};
use gallop_engine::prepared::MAX_BODY;
use gallop_engine::{log, status, time, Body, Chunk, Exchange};
use gallop_http::message::{status_digits, Version};
use gallop_runtime::{race, sleep, timeout, unix_time, Either};
use std::fs::File;
use std::future::{poll_fn, Future};
use std::io::{self, Write};
use std::pin::Pin;
use std::rc::Rc;

/// A file up to this size is read and sent in one write with the head.
const INLINE: u64 = 32 * 1024;
/// Gathered bytes are written when they reach this size.
const GATHER: usize = 64 * 1024;
/// Fewer bytes than this can wait for more if the body allows it, like nginx's `postpone_output`.
const HOLD: usize = 1460;

pub async fn write_all<T: Transport>(io: &T, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = poll_fn(|cx| io.poll_write(cx, bytes, false)).await?;
        bytes = &bytes[n..];
    }
    Ok(())
}

/// Like [`write_all`], but the client must accept some bytes every `patience` milliseconds.
pub async fn write_patiently<T: Transport>(
    io: &T,
    mut bytes: &[u8],
    patience: u64,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let write = poll_fn(|cx| io.poll_write(cx, bytes, false));
        let n = timeout(patience, write).await.map_err(|_| timed_out())??;
        bytes = &bytes[n..];
    }
    timeout(patience, poll_flush(io))
        .await
        .map_err(|_| timed_out())?
}

/// The way that the end of the body is signaled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length,
    Chunked,
    Close,
    /// No body.
    None,
}

fn framing(ex: &mut Exchange) -> Framing {
    let r = &ex.response;
    if ex.header_only || r.status == 304 || r.status == 204 {
        return Framing::None;
    }
    let chunkable =
        ex.version() == Version::Http11 && ex.loc.conf.chunked_transfer_encoding != Some(false);
    if chunkable && !r.trailers.is_empty() {
        ex.response.content_length = None;
        return Framing::Chunked;
    }
    if r.content_length.is_some() {
        return Framing::Length;
    }
    if matches!(r.body, Body::Empty) {
        ex.response.content_length = Some(0);
        return Framing::Length;
    }
    if ex.version() == Version::Http11 && ex.loc.conf.chunked_transfer_encoding != Some(false) {
        return Framing::Chunked;
    }
    ex.keepalive = false;
    Framing::Close
}

impl<T: Transport> Interim for Shared<T> {
    fn early_hints<'a>(
        &'a self,
        fields: &'a Fields,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + 'a>> {
        let mut buf = b"HTTP/1.1 103 Early Hints\r\n".to_vec();
        for (name, value) in fields {
            field(&mut buf, name, value);
        }
        buf.extend_from_slice(b"\r\n");
        Box::pin(async move { write_all(&self.io, &buf).await })
    }
}

/// Send the head and the body.
pub async fn response<T: Transport>(shared: &Rc<Shared<T>>, ex: &mut Exchange) -> io::Result<()> {
    let framing = framing(ex);
    let mut out = Output::new(shared, ex);
    let mut date_at = None;
    if ex.version() > Version::Http09 {
        date_at = head(ex, framing, &mut out.buf);
    }
    out.head_len = out.buf.len();
    let mut body = std::mem::take(&mut ex.response.body);
    if framing == Framing::None {
        return out.finish(ex).await;
    }
    if framing != Framing::Chunked && inline(&mut body, &mut out.buf)? {
        if out.rate.is_none() && out.buf.len() as u64 <= MAX_BODY {
            fast::remember(ex, &out.buf, out.head_len, date_at);
        }
        return out.finish(ex).await;
    }
    let result = out.body(ex, &mut body, framing).await;
    if let Err(e) = result {
        // Send the bytes from before the error unless the body itself is invalid.
        if e.kind() != io::ErrorKind::InvalidData {
            let _ = out.drain(false).await;
        }
        out.account(ex);
        return Err(e);
    }
    out.finish(ex).await
}

/// Append a small body that is in memory; `true` if that was all of it.
fn inline(body: &mut Body, buf: &mut Vec<u8>) -> io::Result<bool> {
    let Body::Pieces(pieces) = body else {
        return Ok(matches!(body, Body::Empty));
    };
    if pieces.iter().map(Chunk::len).sum::<u64>() > INLINE {
        return Ok(false);
    }
    for piece in pieces {
        match piece {
            Chunk::Data(data) => buf.extend_from_slice(data),
            Chunk::File { file, offset, len } => read_range(file, *offset, *len, buf)?,
            Chunk::Flush => {}
        }
    }
    Ok(true)
}

/// Limits the rate of what is written, and counts it.
struct Output<'a, T> {
    shared: &'a Rc<Shared<T>>,
    buf: Vec<u8>,
    head_len: usize,
    sent: u64,
    /// Bytes per second, and the bytes sent before the limit applies (`limit_rate_after`).
    rate: Option<(u64, u64)>,
    started: u64,
    timeout: u64,
}

impl<'a, T: Transport> Output<'a, T> {
    fn new(shared: &'a Rc<Shared<T>>, ex: &Exchange) -> Self {
        let conf = &ex.loc.conf;
        let size = |t: &Option<gallop_conf::template::Template>| {
            let text = gallop_engine::template::eval(ex, t.as_ref()?);
            parse_size(&String::from_utf8_lossy(&text))
        };
        let rate = ex
            .limit_rate
            .get()
            .or_else(|| size(&conf.limit_rate))
            .filter(|&r| r > 0);
        let after = size(&conf.limit_rate_after).unwrap_or(0);
        Output {
            shared,
            buf: Vec::with_capacity(1024),
            head_len: 0,
            sent: 0,
            rate: rate.map(|r| (r, after)),
            started: ex.started_wall / 1000,
            timeout: conf.send_timeout.unwrap_or(60_000),
        }
    }

    /// The number of bytes that may be sent now. Waits while the limit is reached.
    async fn allowance(&self, want: u64) -> io::Result<u64> {
        let Some((rate, after)) = self.rate else {
            return Ok(want);
        };
        loop {
            let seconds = (unix_time() / 1000).saturating_sub(self.started) + 1;
            let limit = rate * seconds + after;
            if limit > self.sent {
                return Ok(want.min(limit - self.sent));
            }
            self.rest((self.sent - limit) * 1000 / rate + 1).await?;
        }
    }

    /// Wait because of the rate limit, but not longer than the client stays connected.
    async fn rest(&self, ms: u64) -> io::Result<()> {
        let gone = poll_fn(|cx| {
            let _ = self.shared.io.poll_readable(cx);
            if self.shared.io.is_hung_up() {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        });
        match race(sleep(ms), gone).await {
            Either::First(()) => Ok(()),
            Either::Second(()) => Err(io::Error::other("client prematurely closed connection")),
        }
    }

    async fn pace(&self, n: u64) -> io::Result<()> {
        if let Some((rate, after)) = self.rate {
            if self.sent > after {
                let over = n.min(self.sent - after);
                let delay = over * 1000 / rate;
                if delay > 0 {
                    self.rest(delay).await?;
                }
            }
        }
        Ok(())
    }

    /// Write the gathered bytes.
    async fn drain(&mut self, more: bool) -> io::Result<()> {
        let buf = std::mem::take(&mut self.buf);
        let mut at = 0;
        while at < buf.len() {
            let n = self.allowance((buf.len() - at) as u64).await? as usize;
            let part = &buf[at..at + n];
            let write = poll_fn(|cx| self.shared.io.poll_write(cx, part, more));
            let n = timeout(self.timeout, write)
                .await
                .map_err(|_| timed_out())??;
            at += n;
            self.sent += n as u64;
            if at < buf.len() {
                self.pace(n as u64).await?;
            }
        }
        self.buf = buf;
        self.buf.clear();
        Ok(())
    }

    async fn send_file(
        &mut self,
        file: &File,
        mut offset: u64,
        mut len: u64,
        max: u64,
    ) -> io::Result<()> {
        self.drain(true).await?;
        while len > 0 {
            let n = self.allowance(len.min(max)).await?;
            let write = poll_fn(|cx| self.shared.io.poll_send_file(cx, file, offset, n));
            let n = timeout(self.timeout, write)
                .await
                .map_err(|_| timed_out())?? as u64;
            if n == 0 {
                return Err(io::Error::other("file was truncated"));
            }
            (offset, len) = (offset + n, len - n);
            self.sent += n;
            if len > 0 {
                self.pace(n).await?;
            }
        }
        Ok(())
    }

    async fn body(
        &mut self,
        ex: &mut Exchange,
        body: &mut Body,
        framing: Framing,
    ) -> io::Result<()> {
        let chunked = framing == Framing::Chunked;
        let max_file = ex.loc.conf.sendfile_max_chunk.unwrap_or(2 << 20).max(1);
        let sendfile = ex.loc.conf.sendfile.unwrap_or(false) || self.rate.is_none();
        let mut left = if framing == Framing::Length {
            ex.response.content_length
        } else {
            None
        };
        loop {
            // Send the gathered bytes before waiting for more of the body.
            let next = {
                let mut next = poll_fn(|cx| std::task::Poll::Ready(body.poll_next(cx))).await;
                if next.is_pending() {
                    let hold = self.sent == 0 && self.buf.len() < HOLD && body.may_hold();
                    if !hold {
                        self.drain(false).await?;
                        poll_flush(&self.shared.io).await?;
                    }
                    next = std::task::Poll::Ready(body.next().await);
                }
                match next {
                    std::task::Poll::Ready(next) => next,
                    std::task::Poll::Pending => None,
                }
            };
            let Some(chunk) = next else { break };
            let chunk = chunk?;
            let len = chunk.len();
            if let Some(left) = &mut left {
                // Never send more than Content-Length says: the client would read the rest as the
                // next response.
                if len > *left {
                    return Err(io::Error::other("body is longer than its length"));
                }
                *left -= len;
            }
            if chunked && len > 0 {
                let _ = write!(self.buf, "{len:x}\r\n");
            }
            match chunk {
                Chunk::Flush => self.drain(false).await?,
                Chunk::Data(data) => self.buf.extend_from_slice(&data),
                Chunk::File { file, offset, len } if len <= INLINE || !sendfile => {
                    read_range(&file, offset, len.min(INLINE), &mut self.buf)?;
                    if len > INLINE {
                        self.send_file(&file, offset + INLINE, len - INLINE, max_file)
                            .await?;
                    }
                }
                Chunk::File { file, offset, len } => {
                    self.send_file(&file, offset, len, max_file).await?
                }
            }
            if chunked && len > 0 {
                self.buf.extend_from_slice(b"\r\n");
            }
            if self.buf.len() >= GATHER {
                self.drain(true).await?;
            }
        }
        if left.is_some_and(|l| l > 0) {
            return Err(io::Error::other("body is shorter than its length"));
        }
        if chunked {
            self.buf.extend_from_slice(b"0\r\n");
            for (name, value) in gallop_engine::trailers(ex, body) {
                field(&mut self.buf, &name, &value);
            }
            self.buf.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    fn account(&self, ex: &mut Exchange) {
        ex.bytes_sent = self.sent;
        ex.body_sent = self.sent.saturating_sub(self.head_len as u64);
    }

    async fn finish(&mut self, ex: &mut Exchange) -> io::Result<()> {
        let result = self.drain(false).await;
        self.account(ex);
        result?;
        poll_flush(&self.shared.io).await
    }
}

async fn poll_flush<T: Transport>(io: &T) -> io::Result<()> {
    poll_fn(|cx| io.poll_flush(cx)).await
}

fn timed_out() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "client timed out (110: Connection timed out)",
    )
}

fn field(buf: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    buf.extend_from_slice(name);
    buf.extend_from_slice(b": ");
    // A line break inside a value would start a new header field.
    buf.extend(
        value
            .iter()
            .map(|&c| if c == b'\r' || c == b'\n' { b' ' } else { c }),
    );
    buf.extend_from_slice(b"\r\n");
}

/// Write the head. Returns the position of the Date value if the server added it.
fn head(ex: &mut Exchange, framing: Framing, buf: &mut Vec<u8>) -> Option<usize> {
    let r = &ex.response;
    buf.extend_from_slice(b"HTTP/1.1 ");
    buf.extend_from_slice(&status_digits(r.status));
    match &r.reason {
        Some(reason) => {
            buf.push(b' ');
            buf.extend_from_slice(reason);
        }
        None => {
            buf.push(b' ');
            buf.extend_from_slice(status::reason(r.status).as_bytes());
        }
    }
    buf.extend_from_slice(b"\r\n");
    match &r.server {
        Some(server) if server.is_empty() => {}
        Some(server) => field(buf, b"Server", server),
        None => field(buf, b"Server", &gallop_engine::product(ex)),
    }
    let mut date_at = None;
    match &r.date {
        Some(date) if date.is_empty() => {}
        Some(date) => field(buf, b"Date", date),
        None => {
            date_at = Some(buf.len() + 6);
            ex.worker.with_date(|date| field(buf, b"Date", date));
        }
    }
    entity(ex, buf);
    connection(ex, framing, buf);
    for (name, value) in &ex.response.headers {
        field(buf, name, value);
    }
    if let Some(etag) = &ex.response.etag {
        field(buf, b"ETag", etag);
    }
    buf.extend_from_slice(b"\r\n");
    date_at
}

fn entity(ex: &Exchange, buf: &mut Vec<u8>) {
    let r = &ex.response;
    if let Some(media_type) = r.media_type() {
        field(buf, b"Content-Type", &media_type);
    }
    if let Some(length) = r.content_length.filter(|_| r.status != 204) {
        // Writing to a vector cannot fail.
        let _ = write!(buf, "Content-Length: {length}\r\n");
    }
    if let Some(modified) = r.last_modified.filter(|&t| t >= 0) {
        field(buf, b"Last-Modified", time::http_date(modified).as_bytes());
    }
    if let Some(location) = &r.location {
        let location = gallop_engine::absolute_location(ex, location);
        field(buf, b"Location", &location);
    }
}

fn connection(ex: &Exchange, framing: Framing, buf: &mut Vec<u8>) {
    if framing == Framing::Chunked {
        field(buf, b"Transfer-Encoding", b"chunked");
    }
    if ex.response.status == 101 {
        field(buf, b"Connection", b"upgrade");
    } else if ex.keepalive {
        field(buf, b"Connection", b"keep-alive");
        if let Some(seconds) = ex.loc.conf.told_keepalive() {
            field(buf, b"Keep-Alive", format!("timeout={seconds}").as_bytes());
        }
    } else {
        field(buf, b"Connection", b"close");
    }
}

/// Send a 101 response and then copy bytes in both directions until one side ends.
pub async fn upgrade<T: Transport>(shared: &Rc<Shared<T>>, ex: &mut Exchange) {
    let Some(upgrade) = ex.response.upgrade.take() else {
        return;
    };
    let mut buf = Vec::new();
    head(ex, Framing::None, &mut buf);
    let head_len = buf.len() as u64;
    buf.extend_from_slice(&upgrade.early);
    if write_all(&shared.io, &buf).await.is_err() {
        return;
    }
    let early = shared.with_unread(<[u8]>::to_vec);
    shared.consume(early.len());
    let received = super::tunnel::copy(shared, &upgrade, &early).await;
    ex.bytes_sent = buf.len() as u64 + received;
    ex.body_sent = ex.bytes_sent - head_len;
    log::flush_turn();
}
