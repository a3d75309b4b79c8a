//! Requests that get a prepared response without a task.
//!
//! A head that was seen before carries a note with the place of its response (see
//! [`RequestHead::set_note`]), so that the common request needs no lookup.

use super::passing::version;
use super::Coding;
use bytes::Bytes;
use gallop_conf::model::items;
use gallop_engine::fast::{self, Origin};
use gallop_engine::metrics::Done;
use gallop_engine::prepared::{may_keep, Entry, Place, Prepared};
use gallop_engine::{Conn, Exchange, Worker};
use gallop_http::h3::send;
use gallop_http::head::RequestHead;
use gallop_http::message::Head;
use gallop_runtime::{coarse_ms, coarse_us, unix_time};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The parts of a prepared response that a connection needs.
pub struct Found<'a> {
    /// The head as a field section.
    pub section: &'a [u8],
    /// The body, never empty.
    pub body: &'a Bytes,
    /// Head and body as HTTP/3 frames.
    pub blob: Option<&'a Bytes>,
    /// Whether an access log records the request.
    pub logged: bool,
}

/// The cache key. It differs from every HTTP/1.1 key, which ends in 0 or 1.
fn key(coding: Coding, origin: Origin, authority: &[u8], path: &[u8]) -> Vec<u8> {
    let mut key = Vec::new();
    fast::key(origin, authority, path, &mut key);
    key.push(2 + u8::from(coding == Coding::Qpack));
    key
}

/// Whether a header field can change the response for a static file, or must not appear twice.
fn matters(name: &[u8]) -> bool {
    let names: [&[u8]; 11] = [
        b"range",
        b"expect",
        b"if-range",
        b"if-match",
        b"if-none-match",
        b"if-modified-since",
        b"if-unmodified-since",
        b"content-length",
        b"authorization",
        b"proxy-authorization",
        b"content-range",
    ];
    names.contains(&name)
}

/// Pass the valid prepared response for a request, if any, to `send`.
pub fn find<R>(
    worker: &Worker,
    conn: &Conn,
    coding: Coding,
    head: &RequestHead,
    send: impl FnOnce(Found<'_>) -> R,
) -> Option<R> {
    if worker.shutdown.is_set() {
        return None;
    }
    let mut cache = worker.prepared.borrow_mut();
    let place = place(&cache, fast::origin(conn), coding, head)?;
    let entry = cache.get(place, coarse_ms())?;
    stamp(worker, coding, entry);
    Some(send(Found {
        section: &entry.head,
        body: &entry.body,
        blob: entry.blob.as_ref(),
        logged: !items(&entry.location.conf.access_log).is_empty(),
    }))
}

/// The place of the response. Equal heads in one coding share a note on every connection.
fn place(cache: &Prepared, origin: Origin, coding: Coding, head: &RequestHead) -> Option<Place> {
    let noted = Place::of_note(head.note());
    let is_here = |place: &Place| cache.peek(*place).is_some_and(|e| e.origin == origin);
    if let Some(place) = noted.filter(is_here) {
        return Some(place);
    }
    if cache.is_empty() || head.method() != b"GET" || head.fields().any(|(name, _)| matters(name)) {
        return None;
    }
    let key = key(coding, origin, head.authority()?, head.path());
    let place = cache.find(&key)?;
    head.set_note(place.to_note());
    Some(place)
}

/// Write the current date into the head.
fn stamp(worker: &Worker, coding: Coding, entry: &mut Entry) {
    let now = unix_time() / 1000;
    if entry.date != now {
        entry.date = now;
        let at = entry.date_at;
        worker.with_date(|date| entry.head[at..at + date.len()].copy_from_slice(date));
        if coding == Coding::Qpack {
            entry.blob = Some(frames(entry));
        }
    }
}

fn frames(entry: &Entry) -> Bytes {
    let mut frames = Vec::with_capacity(entry.head.len() + entry.body.len() + 16);
    send::push_head(&mut frames, &entry.head);
    send::push_data_header(&mut frames, entry.body.len() as u64);
    frames.extend_from_slice(&entry.body);
    frames.into()
}

/// Count a request with a prepared response and log it if required.
pub fn log(worker: &Rc<Worker>, conn: &Rc<Conn>, coding: Coding, head: &RequestHead, logged: bool) {
    conn.requests.set(conn.requests.get() + 1);
    worker
        .shared
        .counters
        .requests
        .fetch_add(1, Ordering::Relaxed);
    if !logged {
        return count(worker, coding, head);
    }
    let mut ex = Exchange::new(worker.clone(), conn.clone());
    head.copy_to(&mut ex.head, version(coding));
    {
        let cache = worker.prepared.borrow();
        let Some(entry) = noted(&cache, head) else {
            return;
        };
        ex.server = entry.server.clone();
        ex.loc = entry.location.clone();
        ex.host.clone_from(&entry.host);
        ex.uri = entry.uri_of(head.path());
        ex.body_sent = entry.body.len() as u64;
        ex.bytes_sent = ex.body_sent + entry.head.len() as u64;
    }
    ex.response.status = 200;
    ex.response.content_length = Some(ex.body_sent);
    ex.request_length = head.size() as u64;
    ex.complete = true;
    gallop_engine::finish(&mut ex);
}

/// The response that the request's note refers to.
fn noted<'a>(cache: &'a Prepared, head: &RequestHead) -> Option<&'a Entry> {
    cache.peek(Place::of_note(head.note())?)
}

/// Count a request that no log records.
fn count(worker: &Worker, coding: Coding, head: &RequestHead) {
    let Some(meter) = &worker.meter else { return };
    let cache = worker.prepared.borrow();
    let Some(entry) = noted(&cache, head) else {
        return;
    };
    meter.request(Done {
        zone: entry.server.zone,
        version: version(coding),
        status: 200,
        received: head.size() as u64,
        sent: (entry.head.len() + entry.body.len()) as u64,
        since: coarse_us(),
    });
}

/// Whether the response to a request may be prepared.
fn is_simple(head: &Head) -> bool {
    head.method() == b"GET" && !head.iter().any(|(name, _)| matters(name))
}

/// Store a response for later requests if its location and request allow this.
pub fn remember(
    coding: Coding,
    ex: &mut Exchange,
    section: &[u8],
    date_at: Option<usize>,
    body: &Bytes,
) {
    let Some(date_at) = date_at.filter(|_| !body.is_empty()) else {
        return;
    };
    // Prepared responses are sent in frames of the connection's size.
    let own_frames = ex.loc.conf.http2_chunk_size != ex.server.root.conf.http2_chunk_size;
    if own_frames || !is_simple(&ex.head) || !may_keep(ex, body.len()) {
        return;
    }
    let authority = match ex.head.text(ex.head.authority) {
        [] => ex.head.get("host").unwrap_or_default(),
        authority => authority,
    };
    if authority.is_empty() {
        return;
    }
    let origin = fast::origin(&ex.conn);
    let key = key(coding, origin, authority, ex.head.text(ex.head.path));
    let entry = Entry {
        head: section.to_vec(),
        head_len: section.len(),
        date_at,
        // Copy the bytes: a slice would keep the larger buffer in memory.
        body: Bytes::copy_from_slice(body),
        has_blob: coding == Coding::Qpack,
        ..Entry::of(ex)
    };
    let mut cache = ex.worker.prepared.borrow_mut();
    cache.put(&key, entry, coarse_ms());
}
