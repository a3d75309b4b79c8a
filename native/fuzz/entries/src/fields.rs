//! Single header fields and the request target.

use gallop_conf::cidr::Cidr;
use gallop_engine::fields::{last_untrusted, lists_gzip, parse_ranges, Ranges};
use gallop_engine::{escape, time, uri};
use std::net::{IpAddr, Ipv4Addr};

/// The value of `Range` after `bytes=`: the ranges are within the file and no larger than it.
pub fn range(bytes: &[u8]) {
    for (length, max) in [
        (0, u64::MAX),
        (1, 3),
        (1000, u64::MAX),
        (i64::MAX as u64, 2),
    ] {
        if let Ranges::Ranges(ranges) = parse_ranges(bytes, length, max) {
            assert!(!ranges.is_empty() && ranges.len() as u64 <= max);
            assert!(ranges
                .iter()
                .all(|(start, end)| start < end && *end <= length));
            assert!(ranges.iter().map(|(start, end)| end - start).sum::<u64>() <= length);
        }
    }
}

/// Targets, dates, codings, and addresses.
pub fn fields(bytes: &[u8]) {
    target(bytes);
    if let Some(date) = time::parse_http_date(bytes) {
        let written = time::http_date(date);
        assert_eq!(time::parse_http_date(written.as_bytes()), Some(date));
    }
    let _ = lists_gzip(bytes);
    let trusted = [Cidr::parse("0.0.0.0/0").expect("a network")];
    let peer = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let _ = last_untrusted(peer, &[bytes], &trusted, true);
    let _ = gallop_http::h1::parse_length(bytes);
    let _ = gallop_http::client_hello::peek(bytes);
    let _ = gallop_http::proxy_protocol::parse(bytes);
    let decoded = escape::unescape(bytes);
    assert!(decoded.len() <= bytes.len());
    let mut logged = Vec::new();
    escape::log(bytes, &mut logged);
    assert!(logged.iter().all(|c| (b' '..=b'~').contains(c)));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = gallop_conf::values::parse_size(text);
        let _ = gallop_conf::values::parse_msec(text);
    }
}

/// No target leaves the root in any encoding.
fn target(bytes: &[u8]) {
    for merge in [true, false] {
        let mut parsed = uri::ParsedUri::default();
        if uri::parse(bytes, merge, &mut parsed) {
            assert_eq!(parsed.path.first(), Some(&b'/'));
            assert!(!parsed.path.contains(&0));
            let mut segments = parsed.path.split(|&c| c == b'/');
            assert!(!segments.any(|segment| segment == b".."));
        }
    }
}
