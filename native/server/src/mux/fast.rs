//! Requests answered from prebuilt answers, without a task.
//!
//! A head that was seen before carries a note of where its answer is (see
//! [`RequestHead::set_note`]), so that the usual request costs no look-up at all.

use super::passing::version;
use super::Coding;
use bytes::Bytes;
use gallop_conf::model::{items, Location, Server};
use gallop_engine::fast::{self, is_plain, FileMark, Origin};
use gallop_engine::metrics::Done;
use gallop_engine::uri::ParsedUri;
use gallop_engine::{Conn, Exchange, Worker};
use gallop_http::h3::send;
use gallop_http::head::RequestHead;
use gallop_http::message::Head;
use gallop_runtime::{coarse_ms, coarse_us, unix_time};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Milliseconds an entry is used without looking at the file.
const VALID_MS: u64 = 50;
/// Entries of one thread; the cache starts anew when it is full.
const MAX_ENTRIES: usize = 4096;
/// Longer bodies gain little.
const MAX_BODY: usize = 64 * 1024;

/// A prebuilt answer of one protocol version.
struct Answer {
    coding: Coding,
    origin: Origin,
    section: Vec<u8>,
    date_at: usize,
    /// Second its date says.
    date: u64,
    body: Bytes,
    /// Head and body in the frames of HTTP/3, made anew with each date.
    blob: Option<Bytes>,
    server: Arc<Server>,
    location: Arc<Location>,
    host: String,
    uri: ParsedUri,
    path: PathBuf,
    mark: FileMark,
    checked: u64,
}

#[derive(Default)]
struct Answers {
    entries: Vec<Option<Answer>>,
    by_key: HashMap<Vec<u8>, usize>,
    /// Told apart in notes, so that none outlives a cache that started anew.
    generation: u32,
}

thread_local! {
    static ANSWERS: RefCell<Answers> = RefCell::default();
}

/// What a connection needs of a prebuilt answer.
pub struct Found<'a> {
    /// Its head as a field section.
    pub section: &'a [u8],
    /// Its body, never empty.
    pub body: &'a Bytes,
    /// Both as the frames of HTTP/3.
    pub blob: Option<&'a Bytes>,
    /// Whether an access log wants to hear of it.
    pub logged: bool,
}

fn key(coding: Coding, origin: Origin, authority: &[u8], path: &[u8]) -> Vec<u8> {
    let mut key = Vec::new();
    fast::key(origin, authority, path, &mut key);
    key.push(u8::from(coding == Coding::Qpack));
    key
}

/// Whether a field can change the answer of a plain file, or is refused when it comes twice.
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

/// Hands the prebuilt answer to a request, if there is a valid one, to `send`.
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
    ANSWERS.with(|answers| {
        let mut answers = answers.borrow_mut();
        let origin = fast::origin(conn);
        let index = answers.index(origin, coding, head)?;
        if !answers.is_valid(index, coding, origin) {
            head.set_note(0);
            return None;
        }
        let answer = answers.entries[index].as_mut()?;
        answer.stamp(worker);
        Some(send(Found {
            section: &answer.section,
            body: &answer.body,
            blob: answer.blob.as_ref(),
            logged: !items(&answer.location.conf.access_log).is_empty(),
        }))
    })
}

impl Answers {
    fn index(&self, origin: Origin, coding: Coding, head: &RequestHead) -> Option<usize> {
        let note = head.note();
        if note != 0 && (note >> 32) as u32 == self.generation {
            return Some((note as u32 - 1) as usize);
        }
        if head.method() != b"GET" || head.fields().any(|(name, _)| matters(name)) {
            return None;
        }
        let key = key(coding, origin, head.authority()?, head.path());
        let index = *self.by_key.get(&key)?;
        head.set_note(u64::from(self.generation) << 32 | (index as u64 + 1));
        Some(index)
    }

    /// Whether the answer is for this address and its file is what it was.
    fn is_valid(&mut self, index: usize, coding: Coding, origin: Origin) -> bool {
        let Some(Some(answer)) = self.entries.get_mut(index) else {
            return false;
        };
        if (answer.coding, answer.origin) != (coding, origin) {
            return false;
        }
        let now = coarse_ms();
        if now.saturating_sub(answer.checked) <= VALID_MS {
            return true;
        }
        answer.checked = now;
        let unchanged =
            std::fs::metadata(&answer.path).is_ok_and(|m| FileMark::of(&m) == answer.mark);
        if !unchanged {
            self.entries[index] = None;
        }
        unchanged
    }

    /// The answer that a head was found to have.
    fn noted(&self, head: &RequestHead) -> Option<&Answer> {
        let index = (head.note() as u32).wrapping_sub(1) as usize;
        self.entries.get(index)?.as_ref()
    }

    fn put(&mut self, key: Vec<u8>, answer: Answer) {
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.clear();
            self.by_key.clear();
            self.generation = self.generation.wrapping_add(1);
        }
        match self.by_key.get(&key) {
            Some(&index) => self.entries[index] = Some(answer),
            None => {
                self.by_key.insert(key, self.entries.len());
                self.entries.push(Some(answer));
            }
        }
    }
}

impl Answer {
    /// Writes the date of this second.
    fn stamp(&mut self, worker: &Worker) {
        let now = unix_time() / 1000;
        if self.date != now {
            self.date = now;
            let at = self.date_at;
            worker.with_date(|date| self.section[at..at + date.len()].copy_from_slice(date));
            if self.coding == Coding::Qpack {
                self.blob = Some(self.frames());
            }
        }
    }

    fn frames(&self) -> Bytes {
        let mut frames = Vec::with_capacity(self.section.len() + self.body.len() + 16);
        send::push_head(&mut frames, &self.section);
        send::push_data_header(&mut frames, self.body.len() as u64);
        frames.extend_from_slice(&self.body);
        frames.into()
    }
}

/// Counts a request that was answered from here, and logs it if it is to be.
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
    ANSWERS.with(|answers| {
        let answers = answers.borrow();
        let Some(answer) = answers.noted(head) else {
            return;
        };
        ex.server = answer.server.clone();
        ex.loc = answer.location.clone();
        ex.host.clone_from(&answer.host);
        ex.uri.clone_from(&answer.uri);
        ex.body_sent = answer.body.len() as u64;
        ex.bytes_sent = ex.body_sent + answer.section.len() as u64;
    });
    ex.response.status = 200;
    ex.response.content_length = Some(ex.body_sent);
    ex.request_length = head.size() as u64;
    ex.complete = true;
    gallop_engine::finish(&mut ex);
}

/// Counts a request that no log wants to hear of.
fn count(worker: &Worker, coding: Coding, head: &RequestHead) {
    let Some(meter) = &worker.meter else { return };
    ANSWERS.with(|answers| {
        let answers = answers.borrow();
        let Some(answer) = answers.noted(head) else {
            return;
        };
        meter.request(Done {
            zone: answer.server.zone,
            version: version(coding),
            status: 200,
            received: head.size() as u64,
            sent: (answer.section.len() + answer.body.len()) as u64,
            since: coarse_us(),
        });
    });
}

/// Whether a request is one whose answer may be prebuilt.
fn is_simple(head: &Head) -> bool {
    head.method() == b"GET" && !head.iter().any(|(name, _)| matters(name))
}

/// Remembers an answer just made, if its location and request allow it.
pub fn remember(
    coding: Coding,
    ex: &Exchange,
    section: &[u8],
    date_at: Option<usize>,
    body: &Bytes,
) {
    let (Some(date_at), Some(path)) = (date_at, ex.response.plain_file.clone()) else {
        return;
    };
    let fits = ex.response.status == 200 && !body.is_empty() && body.len() <= MAX_BODY;
    // Prebuilt answers are sent in frames of the connection's size.
    let own_frames = ex.loc.conf.http2_chunk_size != ex.server.root.conf.http2_chunk_size;
    if !fits
        || own_frames
        || ex.error_page
        || ex.response.gzip_vary
        || !ex.response.trailers.is_empty()
    {
        return;
    }
    if !is_simple(&ex.head)
        || !is_plain(&ex.server, &ex.loc)
        || gallop_engine::log::tells_of_answer(&ex.worker, &ex.loc)
    {
        return;
    }
    let authority = match ex.head.text(ex.head.authority) {
        [] => ex.head.get("host").unwrap_or_default(),
        authority => authority,
    };
    let Ok(meta) = std::fs::metadata(&path) else {
        return;
    };
    if authority.is_empty() || meta.len() != body.len() as u64 {
        return;
    }
    let origin = fast::origin(&ex.conn);
    let answer = Answer {
        coding,
        origin,
        section: section.to_vec(),
        date_at,
        date: u64::MAX,
        body: body.clone(),
        blob: None,
        server: ex.server.clone(),
        location: ex.loc.clone(),
        host: ex.host.clone(),
        uri: ex.uri.clone(),
        path,
        mark: FileMark::of(&meta),
        checked: coarse_ms(),
    };
    let key = key(coding, origin, authority, ex.head.text(ex.head.path));
    ANSWERS.with(|answers| answers.borrow_mut().put(key, answer));
}
