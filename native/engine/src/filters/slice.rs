//! slice: fetches a response in ranges of one size, each of which can be cached separately.

use crate::body::{Body, BodyStream, Chunk};
use crate::exchange::{Exchange, Response};
use crate::phases::content;
use crate::phases::flow::Flow;
use crate::subrequest::{self, SubBody};
use gallop_conf::model::Level;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{ready, Context, Poll};

/// The state shared by a request and the subrequests for its other slices. Offsets are in bytes.
#[derive(Debug)]
pub struct Slices {
    size: u64,
    /// The start of the requested slice.
    start: u64,
    etag: Option<Vec<u8>>,
    /// The part of the whole response that the client gets.
    pub window: (u64, u64),
}

pub type Shared = Rc<RefCell<Slices>>;

/// The value of `$slice_range`. Its first use switches the request to slices.
pub fn range(ex: &Exchange) -> Option<String> {
    let size = ex.loc.conf.slice.filter(|&n| n > 0)?;
    let mut slot = ex.slices.borrow_mut();
    if slot.is_none() {
        if ex.is_subrequest() || ex.response.status != 0 {
            return None;
        }
        let start = first_byte(ex) / size * size;
        *slot = Some(Rc::new(RefCell::new(Slices {
            size,
            start,
            etag: None,
            window: (0, u64::MAX),
        })));
    }
    let slices = slot.as_ref()?.borrow();
    let last = slices.start.saturating_add(slices.size - 1);
    Some(format!("bytes={}-{last}", slices.start))
}

/// The first requested byte, if the client asks for a single range.
fn first_byte(ex: &Exchange) -> u64 {
    let range = ex.head.get("range").filter(|r| r.len() >= 7);
    let (None, Some(range)) = (ex.head.get("if-range"), range) else {
        return 0;
    };
    let (unit, spec) = range.split_at(6);
    if !unit.eq_ignore_ascii_case(b"bytes=") || spec.contains(&b',') {
        return 0;
    }
    let spec = String::from_utf8_lossy(spec).trim().to_string();
    let digits = spec.split('-').next().unwrap_or_default();
    digits.trim().parse().unwrap_or(0)
}

/// Parse `bytes start-last/length` into start, end, and length.
fn content_range(text: &[u8]) -> Option<(u64, u64, u64)> {
    let text = std::str::from_utf8(text).ok()?.strip_prefix("bytes ")?;
    let (range, length) = text.split_once('/')?;
    let (start, last) = range.split_once('-')?;
    let number = |t: &str| t.trim().parse::<u64>().ok();
    let (start, last, length) = (number(start)?, number(last)?, number(length)?);
    (start <= last && last < length).then_some((start, last + 1, length))
}

/// Check that the response is the requested slice. Returns the length of the whole.
fn check(slices: &mut Slices, r: &Response) -> Result<u64, String> {
    if slices.etag.is_some() && slices.etag != r.etag {
        return Err("etag mismatch in slice response".into());
    }
    slices.etag.clone_from(&r.etag);
    let range = r.header("content-range").and_then(content_range);
    let (start, end, length) = range.ok_or("invalid range in slice response")?;
    if start != slices.start || end != length.min(start.saturating_add(slices.size)) {
        return Err(format!("unexpected range in slice response: {start}-{end}"));
    }
    Ok(length)
}

/// The upstream did not respond with the requested slice; as in nginx, no response is sent.
pub struct NoSlice;

/// Make the first slice the start of the whole response.
pub fn apply(ex: &mut Exchange) -> Result<(), NoSlice> {
    let Some(shared) = ex.slices.borrow().clone() else {
        return Ok(());
    };
    if ex.is_subrequest() {
        return Ok(());
    }
    if ex.response.status != 206 {
        // The upstream does not support ranges, so its response is complete.
        *ex.slices.borrow_mut() = None;
        return Ok(());
    }
    let checked = check(&mut shared.borrow_mut(), &ex.response);
    let length = match checked {
        Ok(length) => length,
        Err(message) => {
            ex.log(Level::Error, &message);
            return Err(NoSlice);
        }
    };
    let own = subrequest::same(ex);
    *own.slices.borrow_mut() = Some(shared.clone());
    let start = shared.borrow().start;
    let r = &mut ex.response;
    r.status = 200;
    r.reason = None;
    r.remove_header("Content-Range");
    r.remove_header("Accept-Ranges");
    r.content_length = Some(length);
    r.allow_ranges = true;
    r.single_range = true;
    if ex.header_only {
        return Ok(());
    }
    let body = std::mem::take(&mut ex.response.body);
    ex.response.body = Body::Stream(Box::new(Sliced {
        own,
        shared,
        length,
        at: start,
        state: State::Body(body),
    }));
    Ok(())
}

type Next = Pin<Box<dyn Future<Output = Result<Body, String>>>>;

enum State {
    Body(Body),
    Asked(Next),
}

/// A body that fetches one slice after another.
struct Sliced {
    /// Replaces the request, whose own fields are being sent already.
    own: Box<Exchange>,
    shared: Shared,
    length: u64,
    /// The offset of the next byte in the whole.
    at: u64,
    state: State,
}

impl BodyStream for Sliced {
    fn may_hold(&self) -> bool {
        true
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        loop {
            let slice_end = self.slice_end();
            match &mut self.state {
                State::Body(body) => {
                    let (start, end) = self.shared.borrow().window;
                    if self.at >= end {
                        return Poll::Ready(None);
                    }
                    // The unneeded rest of a slice is not read.
                    let of_use = self.at >= start || start < slice_end;
                    match ready!(if of_use {
                        body.poll_next(cx)
                    } else {
                        Poll::Ready(None)
                    }) {
                        None => {}
                        Some(Ok(chunk)) => match self.cut(chunk) {
                            Some(chunk) => return Poll::Ready(Some(Ok(chunk))),
                            None => continue,
                        },
                        next => return Poll::Ready(next),
                    }
                }
                State::Asked(next) => {
                    match ready!(next.as_mut().poll(cx)) {
                        Ok(body) => self.state = State::Body(body),
                        Err(message) => {
                            self.own.log(Level::Error, &message);
                            let e = io::Error::new(io::ErrorKind::InvalidData, message);
                            return Poll::Ready(Some(Err(e)));
                        }
                    }
                    continue;
                }
            }
            if !self.advance() {
                return Poll::Ready(None);
            }
            let mut sub = subrequest::same(&self.own);
            sub.depth = 1;
            *sub.slices.borrow_mut() = Some(self.shared.clone());
            self.state = State::Asked(Box::pin(fetch(sub, self.shared.clone())));
        }
    }
}

impl Sliced {
    /// The end of the current slice.
    fn slice_end(&self) -> u64 {
        let slices = self.shared.borrow();
        slices.start.saturating_add(slices.size)
    }

    /// The part of a chunk that the client gets.
    fn cut(&mut self, chunk: Chunk) -> Option<Chunk> {
        if matches!(chunk, Chunk::Flush) {
            return Some(chunk);
        }
        let (start, end) = self.shared.borrow().window;
        let at = self.at;
        self.at += chunk.len();
        let (from, to) = (start.max(at), end.min(self.at));
        if from >= to {
            return None;
        }
        super::range::slice(&VecDeque::from([chunk]), from - at, to - at).pop_front()
    }

    /// Advance to the next needed slice; `false` if there is none.
    fn advance(&mut self) -> bool {
        let mut slices = self.shared.borrow_mut();
        let (start, end) = slices.window;
        let wanted = start / slices.size * slices.size;
        slices.start = slices.start.saturating_add(slices.size).max(wanted);
        self.at = slices.start;
        slices.start < self.length.min(end)
    }
}

async fn fetch(mut sub: Box<Exchange>, shared: Shared) -> Result<Body, String> {
    let flow = content::serve(&mut sub).await;
    let status = sub.response.status;
    if !matches!(flow, Flow::Done) || status != 206 {
        return Err(format!("unexpected status code {status} in slice response"));
    }
    check(&mut shared.borrow_mut(), &sub.response)?;
    Ok(Body::Stream(Box::new(SubBody::new(sub))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_must_be_the_one_asked_for_and_of_the_same_file() {
        let mut slices = Slices {
            size: 4,
            start: 4,
            etag: None,
            window: (0, u64::MAX),
        };
        let mut check = |range: &str, etag: &str| {
            let mut r = Response {
                etag: Some(etag.into()),
                ..Response::default()
            };
            r.add_header("Content-Range", range);
            check(&mut slices, &r)
        };
        assert_eq!(check("bytes 4-7/10", "\"a\""), Ok(10));
        assert_eq!(check("bytes 4-5/6", "\"a\""), Ok(6));
        for (range, etag) in [
            ("bytes 4-7/10", "\"b\""),
            ("bytes 0-3/10", "\"a\""),
            ("bytes 4-8/10", "\"a\""),
            ("bytes 4-7/*", "\"a\""),
            ("bytes 7-4/10", "\"a\""),
            ("4-7/10", "\"a\""),
        ] {
            assert!(check(range, etag).is_err(), "{range} {etag}");
        }
    }
}
