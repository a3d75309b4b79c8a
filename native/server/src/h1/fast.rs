//! Requests answered from the cache of prebuilt answers, without leaving the read loop.

use super::{Driver, Next, Shared};
use crate::transport::Transport;
use gallop_conf::model::items;
use gallop_engine::fast;
use gallop_engine::Exchange;
use gallop_http::message::{Head, Version};
use gallop_runtime::{coarse_ms, unix_time};
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

thread_local! {
    static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Whether a field can change the answer of a plain file.
fn matters(name: &[u8], value: &[u8]) -> bool {
    match name.len() {
        4 => name.eq_ignore_ascii_case(b"host"),
        5 => name.eq_ignore_ascii_case(b"range"),
        6 => name.eq_ignore_ascii_case(b"expect"),
        7 => name.eq_ignore_ascii_case(b"upgrade"),
        8 => name.eq_ignore_ascii_case(b"if-range") || name.eq_ignore_ascii_case(b"if-match"),
        10 => {
            name.eq_ignore_ascii_case(b"connection") && !value.eq_ignore_ascii_case(b"keep-alive")
        }
        13 => name.eq_ignore_ascii_case(b"if-none-match"),
        14 => name.eq_ignore_ascii_case(b"content-length"),
        17 => {
            name.eq_ignore_ascii_case(b"if-modified-since")
                || name.eq_ignore_ascii_case(b"transfer-encoding")
        }
        19 => name.eq_ignore_ascii_case(b"if-unmodified-since"),
        _ => false,
    }
}

/// The host, if the request is one that a prebuilt answer may serve.
fn simple_host(head: &Head) -> Option<&[u8]> {
    if head.version != Version::Http11 || head.method() != b"GET" || !head.authority.is_empty() {
        return None;
    }
    let mut host = None;
    for (name, value) in head.iter() {
        if matters(name, value) {
            let is_host = name.len() == 4;
            if !is_host || host.is_some() {
                return None;
            }
            host = Some(value);
        }
    }
    host
}

/// Answers the request if a valid prebuilt answer is at hand.
pub fn answer<T: Transport>(driver: &Driver<T>, head: &Head, len: usize) -> Option<Next> {
    let host = simple_host(head)?;
    let worker = &driver.worker;
    if worker.shutdown.is_set() {
        return None;
    }
    KEY.with(|key| {
        let mut key = key.borrow_mut();
        fast::key(
            fast::origin(&driver.conn),
            host,
            head.text(head.target),
            &mut key,
        );
        let mut cache = worker.fast.borrow_mut();
        let (now, wall) = (coarse_ms(), unix_time() / 1000);
        let entry = worker.with_date(|date| cache.get(&key, now, wall, date))?;
        let conf = &entry.location.conf;
        let requests = driver.conn.requests.get() + 1;
        let lifetime = conf.keepalive_time.unwrap_or(3_600_000);
        if requests >= conf.keepalive_requests.unwrap_or(1000)
            || now.saturating_sub(driver.conn.started) > lifetime
        {
            return None;
        }
        driver.conn.requests.set(requests);
        worker
            .shared
            .counters
            .requests
            .fetch_add(1, Ordering::Relaxed);
        let sent = write_now(&driver.shared, &entry.bytes)?;
        if !items(&conf.access_log).is_empty() {
            log(driver, head, entry, len);
        }
        if sent == entry.bytes.len() {
            return Some(Next::Answered);
        }
        Some(Next::Partly {
            rest: entry.bytes[sent..].to_vec(),
        })
    })
}

/// Bytes the transport takes without waiting. `None`: the connection is broken.
fn write_now<T: Transport>(shared: &Shared<T>, bytes: &[u8]) -> Option<usize> {
    let mut cx = Context::from_waker(Waker::noop());
    match shared.io.poll_write(&mut cx, bytes, false) {
        Poll::Ready(Ok(n)) => Some(n),
        Poll::Ready(Err(_)) => None,
        Poll::Pending => Some(0),
    }
}

fn log<T: Transport>(driver: &Driver<T>, head: &Head, entry: &fast::Prebuilt, len: usize) {
    let mut ex = Exchange::new(driver.worker.clone(), driver.conn.clone());
    ex.head.clone_from(head);
    ex.server = entry.server.clone();
    ex.loc = entry.location.clone();
    ex.host.clone_from(&entry.host);
    gallop_engine::uri::parse(head.text(head.path), true, &mut ex.uri);
    ex.response.status = 200;
    ex.bytes_sent = entry.bytes.len() as u64;
    ex.body_sent = (entry.bytes.len() - entry.head_len) as u64;
    ex.response.content_length = Some(ex.body_sent);
    ex.request_length = len as u64;
    ex.complete = true;
    gallop_engine::log::access(&ex);
}

/// Remembers an answer just made, if its location and request allow it.
pub fn remember<T: Transport>(
    shared: &Shared<T>,
    ex: &Exchange,
    bytes: &[u8],
    head_len: usize,
    date_at: Option<usize>,
) {
    let _ = shared;
    let Some(date_at) = date_at else { return };
    let Some(path) = ex.response.plain_file.clone() else {
        return;
    };
    if ex.response.status != 200 || !ex.keepalive || ex.internal && ex.error_page {
        return;
    }
    let Some(host) = simple_host(&ex.head) else {
        return;
    };
    if !fast::is_plain(&ex.server, &ex.loc) || ex.response.gzip_vary {
        return;
    }
    let Ok(meta) = std::fs::metadata(&path) else {
        return;
    };
    let mark = fast::FileMark::of(&meta);
    if meta.len() != (bytes.len() - head_len) as u64 {
        return;
    }
    let mut key = Vec::new();
    fast::key(
        fast::origin(&ex.conn),
        host,
        ex.head.text(ex.head.target),
        &mut key,
    );
    let entry = fast::NewEntry {
        server: ex.server.clone(),
        location: ex.loc.clone(),
        bytes: bytes.to_vec(),
        date_at,
        head_len,
        path,
        mark,
        host: ex.host.clone(),
    };
    ex.worker.fast.borrow_mut().put(key, entry, coarse_ms());
}
