//! Responses from the cache of prepared responses, sent without leaving the read loop.

use super::{Asked, Next};
use crate::transport::Transport;
use gallop_conf::model::{items, Lingering, Location};
use gallop_engine::fast;
use gallop_engine::metrics::Done;
use gallop_engine::prepared::{may_keep, Entry};
use gallop_engine::{Conn, Exchange, Worker};
use gallop_http::message::{Head, Version};
use gallop_http::token::is_name;
use gallop_runtime::{coarse_ms, coarse_us, unix_time};
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

thread_local! {
    static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The parts of a request, besides its target, that select a prepared response.
struct Simple<'a> {
    host: &'a [u8],
    /// The client wants the connection to close after the response.
    close: bool,
}

/// Whether a header field can change the response for a static file, or must not appear twice.
fn matters(name: &[u8]) -> bool {
    match name.len() {
        5 => is_name(name, b"range"),
        6 => is_name(name, b"expect"),
        7 => is_name(name, b"upgrade"),
        8 => is_name(name, b"if-range") || is_name(name, b"if-match"),
        13 => {
            is_name(name, b"if-none-match")
                || is_name(name, b"authorization")
                || is_name(name, b"content-range")
        }
        14 => is_name(name, b"content-length"),
        17 => is_name(name, b"if-modified-since") || is_name(name, b"transfer-encoding"),
        19 => is_name(name, b"if-unmodified-since") || is_name(name, b"proxy-authorization"),
        _ => false,
    }
}

/// Whether the connection closes after the response; `None` for a `Connection` value with other
/// options.
fn wants_close(connection: &[u8]) -> Option<bool> {
    if connection.eq_ignore_ascii_case(b"keep-alive") {
        Some(false)
    } else if connection.eq_ignore_ascii_case(b"close") {
        Some(true)
    } else {
        None
    }
}

/// The request's parts if a prepared response can serve it.
fn simple(head: &Head) -> Option<Simple<'_>> {
    let plain_version = matches!(head.version, Version::Http10 | Version::Http11);
    if !plain_version || head.method() != b"GET" || !head.authority.is_empty() {
        return None;
    }
    let (mut host, mut close) = (None, None);
    for (name, value) in head.iter() {
        if is_name(name, b"host") {
            if host.replace(value).is_some() {
                return None;
            }
        } else if is_name(name, b"connection") {
            if close.replace(wants_close(value)?).is_some() {
                return None;
            }
        } else if matters(name) {
            return None;
        }
    }
    Some(Simple {
        host: host?,
        close: close.unwrap_or(head.version == Version::Http10),
    })
}

fn key(conn: &Conn, head: &Head, simple: &Simple<'_>, out: &mut Vec<u8>) {
    fast::key(fast::origin(conn), simple.host, head.text(head.target), out);
    out.push(u8::from(simple.close));
}

/// Send a valid prepared response for the request of `len` bytes, if the cache has one. `more`:
/// further bytes follow the request.
pub fn answer<T: Transport>(
    asked: &Asked<'_, T>,
    head: &Head,
    len: usize,
    more: bool,
) -> Option<Next> {
    let (worker, conn) = (asked.worker, asked.conn);
    // The cache is empty if all locations pass requests to upstreams.
    if worker.prepared.borrow().is_empty() {
        return None;
    }
    let simple = simple(head)?;
    if worker.shutdown.is_set() {
        return None;
    }
    // The bytes after the last request must be read before the connection closes.
    if simple.close && more {
        return None;
    }
    KEY.with(|buffer| {
        let mut buffer = buffer.borrow_mut();
        key(conn, head, &simple, &mut buffer);
        let mut cache = worker.prepared.borrow_mut();
        let now = coarse_ms();
        let place = cache.find(&buffer)?;
        let entry = cache.get(place, now)?;
        stamp(worker, entry);
        let conf = &entry.location.conf;
        if !simple.close && is_last(conn, &entry.location, now) {
            return None;
        }
        conn.requests.set(conn.requests.get() + 1);
        worker
            .shared
            .counters
            .requests
            .fetch_add(1, Ordering::Relaxed);
        let wrote = match simple.close {
            true => write_last(asked.io, &entry.head),
            false => write_now(asked.io, &entry.head),
        };
        if matches!(wrote, Wrote::Nothing) {
            return None;
        }
        count(worker, head, entry, len);
        if !items(&conf.access_log).is_empty() {
            log(asked, head, entry, len);
        }
        let wait = (!simple.close).then(|| conf.keepalive_timeout.unwrap_or(75_000));
        let Wrote::Part(sent) = wrote else {
            return Some(Next::Answered { wait });
        };
        Some(Next::Partly {
            rest: entry.head[sent..].to_vec(),
            wait,
            patience: conf.send_timeout.unwrap_or(60_000),
        })
    })
}

/// Count a request that a prepared response served.
fn count(worker: &Worker, head: &Head, entry: &Entry, len: usize) {
    let Some(meter) = &worker.meter else { return };
    meter.request(Done {
        zone: entry.server.zone,
        version: head.version,
        status: 200,
        received: len as u64,
        sent: entry.head.len() as u64,
        since: coarse_us(),
    });
}

/// Whether a limit (`keepalive_requests`, `keepalive_time`) ends the connection after this request.
fn is_last(conn: &Conn, location: &Location, now: u64) -> bool {
    let conf = &location.conf;
    let lifetime = conf.keepalive_time.unwrap_or(3_600_000);
    conn.requests.get() + 1 >= conf.keepalive_requests.unwrap_or(1000)
        || now.saturating_sub(conn.started) > lifetime
}

/// The outcome of a write that does not wait.
pub enum Wrote {
    /// The connection is broken.
    Nothing,
    /// The transport took this many bytes; they may still need a flush.
    Part(usize),
    All,
}

/// Write as many bytes as the transport takes without waiting.
pub fn write_now<T: Transport>(io: &T, bytes: &[u8]) -> Wrote {
    write(io, bytes, false)
}

/// Like [`write_now`], but also end the connection: the last bytes and the FIN share one segment.
fn write_last<T: Transport>(io: &T, bytes: &[u8]) -> Wrote {
    if !T::ENDS_WITH_BYTES {
        return write_now(io, bytes);
    }
    let wrote = write(io, bytes, true);
    if matches!(wrote, Wrote::All) {
        // If the client has sent more meanwhile, closing alone would discard the held-back bytes.
        io.close_write();
    }
    wrote
}

fn write<T: Transport>(io: &T, bytes: &[u8], more: bool) -> Wrote {
    let mut cx = Context::from_waker(Waker::noop());
    match io.poll_write(&mut cx, bytes, more) {
        Poll::Ready(Ok(n)) if n == bytes.len() => match io.poll_flush(&mut cx) {
            Poll::Ready(Ok(())) => Wrote::All,
            Poll::Ready(Err(_)) => Wrote::Nothing,
            Poll::Pending => Wrote::Part(n),
        },
        Poll::Ready(Ok(n)) => Wrote::Part(n),
        Poll::Ready(Err(_)) => Wrote::Nothing,
        Poll::Pending => Wrote::Part(0),
    }
}

fn log<T>(asked: &Asked<'_, T>, head: &Head, entry: &Entry, len: usize) {
    let mut ex = Exchange::new(asked.worker.clone(), asked.conn.clone());
    ex.head.clone_from(head);
    ex.server = entry.server.clone();
    ex.loc = entry.location.clone();
    ex.host.clone_from(&entry.host);
    ex.uri = entry.uri_of(head.text(head.path));
    ex.response.status = 200;
    ex.bytes_sent = entry.head.len() as u64;
    ex.body_sent = (entry.head.len() - entry.head_len) as u64;
    ex.response.content_length = Some(ex.body_sent);
    ex.request_length = len as u64 - u64::from(ex.head.line.start);
    ex.complete = true;
    gallop_engine::log::access(&ex);
}

/// Write the current date into the head.
fn stamp(worker: &Worker, entry: &mut Entry) {
    let now = unix_time() / 1000;
    if entry.date != now {
        entry.date = now;
        let at = entry.date_at;
        worker.with_date(|date| entry.head[at..at + date.len()].copy_from_slice(date));
    }
}

/// Store a response for later requests if its location and request allow this.
pub fn remember(ex: &mut Exchange, bytes: &[u8], head_len: usize, date_at: Option<usize>) {
    let Some(date_at) = date_at else { return };
    if !may_keep(ex, bytes.len() - head_len) {
        return;
    }
    let Some(simple) = simple(&ex.head) else {
        return;
    };
    // Do not store a response that closes the connection for a reason of the server.
    if simple.close == ex.keepalive {
        return;
    }
    let lingers = matches!(ex.loc.conf.lingering_close, Some(Lingering::Always));
    if simple.close && lingers {
        return;
    }
    let mut at = Vec::new();
    key(&ex.conn, &ex.head, &simple, &mut at);
    let entry = Entry {
        head: bytes.to_vec(),
        head_len,
        date_at,
        ..Entry::of(ex)
    };
    let mut cache = ex.worker.prepared.borrow_mut();
    cache.put(&at, entry, coarse_ms());
}
