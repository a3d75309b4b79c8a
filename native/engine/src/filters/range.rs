//! Byte ranges (RFC 9110, section 14), single and multiple.

use crate::body::{Body, BodyStream, Chunk};
use crate::exchange::Exchange;
use crate::time::parse_http_date;
use bytes::Bytes;
use gallop_http::message::Version;
use std::collections::VecDeque;
use std::io;
use std::task::{ready, Context, Poll};

/// Apply `Range`. Returns a status if no range can be satisfied.
pub fn apply(ex: &mut Exchange) -> Option<u16> {
    let r = &ex.response;
    let length = r.content_length?;
    if ex.version() < Version::Http10 || r.status != 200 || !r.allow_ranges {
        return None;
    }
    let max = ex.loc.conf.max_ranges.unwrap_or(u64::MAX);
    let max = if r.single_range { max.min(1) } else { max };
    if max == 0 {
        return None;
    }
    let wanted = ex
        .head
        .get("range")
        .filter(|t| t.len() >= 7 && t[..6].eq_ignore_ascii_case(b"bytes="));
    let ranges = match wanted.filter(|_| if_range_holds(ex)) {
        None => Parsed::Whole,
        Some(text) => parse(&text[6..], length, max),
    };
    if !matches!(ranges, Parsed::Whole) {
        // The upstream's field describes its own response, not the one being sent.
        ex.response.remove_header("Content-Range");
    }
    match ranges {
        Parsed::Whole => {
            ex.response.add_header("Accept-Ranges", "bytes");
            None
        }
        Parsed::Unsatisfiable => {
            ex.response
                .add_header("Content-Range", format!("bytes */{length}"));
            Some(416)
        }
        Parsed::Ranges(ranges) => {
            partial(ex, &ranges, length);
            None
        }
    }
}

/// Reduce the body to its ranges. A stream supports one range; for several, sending the whole body
/// is also correct.
fn partial(ex: &mut Exchange, ranges: &[(u64, u64)], length: u64) {
    if let (Some(slices), &[(start, end)]) = (&*ex.slices.borrow(), ranges) {
        // Only the slices of this range are fetched.
        slices.borrow_mut().window = (start, end);
    }
    let sliced = ex.slices.borrow().is_some();
    let pieces = match (std::mem::take(&mut ex.response.body), ranges) {
        (Body::Pieces(pieces), _) => pieces,
        (Body::Empty, _) => VecDeque::new(),
        (Body::Stream(inner), &[(start, end)]) => {
            single(ex, &VecDeque::new(), start, end, length);
            ex.response.body = Body::Stream(if sliced {
                inner
            } else {
                Box::new(Window {
                    inner,
                    start,
                    end,
                    at: 0,
                })
            });
            return;
        }
        (other, _) => {
            ex.response.body = other;
            return;
        }
    };
    match ranges {
        &[(start, end)] => single(ex, &pieces, start, end, length),
        _ => multiple(ex, &pieces, ranges, length),
    }
}

/// A range of a body that arrives in pieces.
struct Window {
    inner: Box<dyn BodyStream>,
    start: u64,
    end: u64,
    at: u64,
}

impl BodyStream for Window {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        loop {
            if self.at >= self.end {
                return Poll::Ready(None);
            }
            let chunk = match ready!(self.inner.poll_next(cx)) {
                Some(Ok(chunk)) => chunk,
                end => return Poll::Ready(end),
            };
            if matches!(chunk, Chunk::Flush) {
                return Poll::Ready(Some(Ok(chunk)));
            }
            let at = self.at;
            self.at += chunk.len();
            let (from, to) = (self.start.max(at), self.end.min(self.at));
            if from < to {
                let cut = slice(&VecDeque::from([chunk]), from - at, to - at).pop_front();
                return Poll::Ready(cut.map(Ok));
            }
        }
    }
}

fn if_range_holds(ex: &Exchange) -> bool {
    let Some(condition) = ex.head.get("if-range") else {
        return true;
    };
    if condition.ends_with(b"\"") {
        return ex.response.etag.as_deref() == Some(condition);
    }
    let modified = ex.response.last_modified;
    modified.is_some() && parse_http_date(condition) == modified
}

/// The meaning of a `Range` field.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Send the whole body.
    Whole,
    Unsatisfiable,
    /// Start and end (exclusive).
    Ranges(Vec<(u64, u64)>),
}

/// Parse the value after `bytes=`, for content of `length` bytes and at most `max` ranges.
pub fn parse(text: &[u8], length: u64, max: u64) -> Parsed {
    let mut ranges = Vec::new();
    let mut total = 0u64;
    for item in text.split(|&c| c == b',') {
        let Some((start, end)) = parse_one(item.trim_ascii(), length) else {
            return Parsed::Unsatisfiable;
        };
        if start < end {
            total = total.saturating_add(end - start);
            ranges.push((start, end));
            if ranges.len() as u64 > max {
                return Parsed::Whole;
            }
        } else if start == 0 {
            return Parsed::Whole; // of an empty file, from its start
        }
    }
    if ranges.is_empty() {
        return Parsed::Unsatisfiable;
    }
    // Overlapping ranges would send more than the whole body.
    if total > length {
        return Parsed::Whole;
    }
    Parsed::Ranges(ranges)
}

/// Parse one range; `None` if malformed. A range that starts at or after its end lies beyond the
/// file.
fn parse_one(text: &[u8], length: u64) -> Option<(u64, u64)> {
    let dash = memchr::memchr(b'-', text)?;
    let (first, last) = (text[..dash].trim_ascii(), text[dash + 1..].trim_ascii());
    let number = |t: &[u8]| -> Option<u64> {
        if t.is_empty() || !t.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(t)
            .ok()?
            .parse::<u64>()
            .ok()
            .filter(|&n| n <= i64::MAX as u64)
    };
    if first.is_empty() {
        let suffix = number(last)?;
        return Some((length.saturating_sub(suffix), length));
    }
    let start = number(first)?;
    let end = if last.is_empty() {
        length
    } else {
        number(last)?.saturating_add(1).min(length)
    };
    Some((start, end))
}

fn single(ex: &mut Exchange, pieces: &VecDeque<Chunk>, start: u64, end: u64, length: u64) {
    let r = &mut ex.response;
    r.status = 206;
    r.reason = None;
    r.content_length = Some(end - start);
    r.add_header(
        "Content-Range",
        format!("bytes {start}-{}/{length}", end - 1),
    );
    r.body = Body::Pieces(slice(pieces, start, end));
}

fn multiple(ex: &mut Exchange, pieces: &VecDeque<Chunk>, ranges: &[(u64, u64)], length: u64) {
    let boundary = format!("{:020}", crate::worker_unique());
    let kind = ex.response.media_type().unwrap_or_default().into_owned();
    ex.response.charset = None;
    let mut out = VecDeque::new();
    let mut total = 0;
    let mut put = |chunk: Chunk| {
        total += chunk.len();
        out.push_back(chunk);
    };
    for (start, end) in ranges {
        let mut head = format!("\r\n--{boundary}\r\n").into_bytes();
        if !kind.is_empty() {
            head.extend_from_slice(b"Content-Type: ");
            head.extend_from_slice(&kind);
            head.extend_from_slice(b"\r\n");
        }
        let range = format!("Content-Range: bytes {start}-{}/{length}\r\n\r\n", end - 1);
        head.extend_from_slice(range.as_bytes());
        put(Chunk::Data(Bytes::from(head)));
        slice(pieces, *start, *end).into_iter().for_each(&mut put);
    }
    put(Chunk::Data(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    if ex.header_only {
        // The file was not read, but its ranges count.
        total += ranges.iter().map(|(a, z)| z - a).sum::<u64>() * u64::from(pieces.is_empty());
    }
    let r = &mut ex.response;
    r.status = 206;
    r.reason = None;
    r.content_type = Some(format!("multipart/byteranges; boundary={boundary}").into_bytes());
    r.content_length = Some(total);
    r.body = Body::Pieces(out);
}

/// The bytes `start..end` of a body in pieces.
pub fn slice(pieces: &VecDeque<Chunk>, start: u64, end: u64) -> VecDeque<Chunk> {
    let mut out = VecDeque::new();
    let mut at = 0;
    for piece in pieces {
        let len = piece.len();
        let (from, to) = (start.max(at), end.min(at + len));
        if from < to {
            out.push_back(match piece {
                Chunk::Data(b) => Chunk::Data(b.slice((from - at) as usize..(to - at) as usize)),
                Chunk::File { file, offset, .. } => Chunk::File {
                    file: file.clone(),
                    offset: offset + (from - at),
                    len: to - from,
                },
                Chunk::Flush => Chunk::Flush,
            });
        }
        at += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_clamped_and_refused_as_nginx_does() {
        let ranges = |t: &str| parse(t.as_bytes(), 100, u64::MAX);
        assert_eq!(ranges("0-9"), Parsed::Ranges(vec![(0, 10)]));
        assert_eq!(ranges("90-"), Parsed::Ranges(vec![(90, 100)]));
        assert_eq!(ranges("-10"), Parsed::Ranges(vec![(90, 100)]));
        assert_eq!(ranges("-1000"), Parsed::Ranges(vec![(0, 100)]));
        assert_eq!(ranges("0-0, 50-59"), Parsed::Ranges(vec![(0, 1), (50, 60)]));
        assert_eq!(ranges("100-"), Parsed::Unsatisfiable);
        assert_eq!(ranges("x-"), Parsed::Unsatisfiable);
        assert_eq!(ranges("0-60,10-80"), Parsed::Whole);
    }

    proptest! {
        #[test]
        fn satisfied_ranges_lie_inside(text in "[-0-9, ]{0,30}", length in 0u64..1000) {
            if let Parsed::Ranges(ranges) = parse(text.as_bytes(), length, u64::MAX) {
                for (a, z) in ranges {
                    prop_assert!(a < z && z <= length);
                }
            }
        }
    }
}
