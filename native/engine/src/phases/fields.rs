//! The header fields without effect: those after a malformed request line, and those from a
//! duplicate on.

use crate::exchange::Exchange;
use gallop_http::message::Version;
use gallop_http::token::is_name;

/// As in nginx, no field after a malformed request line has an effect.
pub(super) fn read_no_fields(ex: &mut Exchange) {
    if ex.version() < Version::Http2 {
        ex.head.headers.clear();
        let rest = &ex.head.buf[ex.head.line.end as usize..];
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        ex.request_length = u64::from(ex.head.line.end - ex.head.line.start) + end as u64;
    }
}

/// The index of a field that must not appear twice.
pub(crate) fn once(name: &[u8]) -> Option<usize> {
    match name.len() {
        6 if is_name(name, b"expect") => Some(0),
        8 if is_name(name, b"if-match") => Some(1),
        8 if is_name(name, b"if-range") => Some(2),
        13 if is_name(name, b"if-none-match") => Some(3),
        13 if is_name(name, b"content-range") => Some(4),
        13 if is_name(name, b"authorization") => Some(5),
        17 if is_name(name, b"if-modified-since") => Some(6),
        19 if is_name(name, b"if-unmodified-since") => Some(7),
        19 if is_name(name, b"proxy-authorization") => Some(8),
        _ => None,
    }
}

/// Whether a field appears twice that must not. As in nginx, the lines after it are not read, and a
/// second host is not used.
pub(super) fn has_duplicate(ex: &mut Exchange) -> bool {
    const HOST: usize = 9;
    let http1 = ex.version() < Version::Http2;
    let number = |name: &[u8]| match name.len() {
        4 if http1 && is_name(name, b"host") => Some(HOST),
        14 if http1 && is_name(name, b"content-length") => Some(10),
        17 if http1 && is_name(name, b"transfer-encoding") => Some(11),
        _ => once(name),
    };
    let mut seen = 0u32;
    let mut fields = ex.head.iter().enumerate();
    let second = fields.find_map(|(at, (name, _))| {
        let i = number(name)?;
        let twice = seen & (1 << i) != 0;
        seen |= 1 << i;
        twice.then_some((at, i == HOST))
    });
    drop(fields);
    let Some((at, is_host)) = second else {
        return false;
    };
    if http1 {
        let end = ex.head.headers[at].value.end as usize;
        let rest = memchr::memchr(b'\n', &ex.head.buf[end..]).map_or(0, |i| i + 1);
        ex.request_length = (end + rest) as u64 - u64::from(ex.head.line.start);
    }
    ex.head.headers.truncate(at + usize::from(!is_host));
    true
}
