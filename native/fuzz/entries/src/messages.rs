//! Texts that are read as a whole or in pieces: the configuration, HTTP/1, and FastCGI.

use arbitrary::{Arbitrary, Unstructured};
use gallop_http::fastcgi::{decode_params, Error, Event, RecordReader, ResponseHeadParser};
use gallop_http::h1::{
    body_framing, parse, parse_response, ChunkDecoder, Decoded, Limits, Parsed, ResponseHead,
    Sender,
};
use gallop_http::memcached;
use gallop_http::message::Head;
use gallop_http::proxy_protocol;
use std::path::Path;

/// A configuration: rejected with a message, or accepted.
pub fn configuration(bytes: &[u8]) {
    // An include would read files of this machine.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if text.contains("include") {
        return;
    }
    let prefix = Path::new("/nonexistent");
    if let Err(error) = gallop_conf::load_text(prefix, "fuzz.conf", text) {
        assert!(!error.message.is_empty());
    }
}

const LIMITS: Limits = Limits {
    line: 1024,
    total: 4096,
    headers: 32,
    ignore_invalid: true,
    underscores: false,
};

/// A client's bytes on an HTTP/1 connection: the head ends at the same place however it arrives,
/// and the body's framing is never ambiguous.
pub fn http1(bytes: &[u8]) {
    let mut head = Head::default();
    if let Ok(Parsed::Complete { len }) = parse(bytes, &mut head, &LIMITS) {
        assert!(len <= bytes.len());
        for (name, value) in head.iter() {
            assert!(!name.is_empty() && !name.contains(&b':'));
            assert!(!value.iter().any(|c| matches!(c, 0 | b'\r' | b'\n')));
        }
        let mut early = Head::default();
        for cut in [1, len / 2, len - 1] {
            // A part of a request is never a complete request.
            let parsed = parse(&bytes[..cut], &mut early, &LIMITS);
            assert!(!matches!(parsed, Ok(Parsed::Complete { len: other }) if other != len));
        }
        let both = head.get("content-length").is_some() && head.get("transfer-encoding").is_some();
        assert!(!(both && body_framing(&head).is_ok()));
        chunked(&bytes[len..]);
    }
    chunked(bytes);
    let mut answer = ResponseHead::default();
    for sender in [Sender::Server, Sender::Gateway] {
        if let Ok(Some(len)) = parse_response(bytes, &mut answer, sender) {
            assert!(len <= bytes.len());
            assert!(answer.iter().all(|(name, _)| !name.is_empty()));
        }
    }
    if let Ok(Some((_, len))) = proxy_protocol::parse(bytes) {
        assert!(len <= bytes.len());
    }
    if let Ok(Some((_, len))) = memcached::parse_line(bytes, b"k") {
        assert!(len <= bytes.len());
    }
    assert_eq!(value(bytes, bytes.len().max(1)), value(bytes, 1));
}

/// The value of a memcached response in pieces, and whether it ended properly.
fn value(bytes: &[u8], piece: usize) -> (Vec<u8>, bool, bool) {
    let mut value = memcached::Value::new(5);
    let mut out = Vec::new();
    for input in bytes.chunks(piece) {
        if value.is_ended() {
            return (out, true, false);
        }
        let taken = value.take(input);
        assert!(taken.value <= taken.used && taken.used <= input.len());
        out.extend_from_slice(&input[..taken.value]);
    }
    (out, value.is_ended(), value.is_sound())
}

/// Decode a chunked body in one piece and byte by byte.
fn chunked(bytes: &[u8]) {
    let whole = decode_chunks(bytes, bytes.len().max(1));
    assert_eq!(whole, decode_chunks(bytes, 1));
}

fn decode_chunks(bytes: &[u8], piece: usize) -> Option<(Vec<u8>, bool)> {
    let mut decoder = ChunkDecoder::default();
    let mut out = Vec::new();
    for mut input in bytes.chunks(piece) {
        while !input.is_empty() && !decoder.is_done() {
            match decoder.decode(input).ok()? {
                Decoded::More { consumed } | Decoded::End { consumed } => {
                    input = &input[consumed..]
                }
                Decoded::Data { consumed, data } => {
                    out.extend_from_slice(&input[consumed..consumed + data]);
                    input = &input[consumed + data..];
                }
            }
        }
    }
    Some((out, decoder.is_done()))
}

fn records(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), Error> {
    let mut reader = RecordReader::default();
    let mut out = Vec::new();
    for mut piece in pieces.iter().copied() {
        while let Some(event) = reader.next(&mut piece)? {
            if let Event::Stdout(data) = event {
                out.extend_from_slice(data);
            }
        }
    }
    Ok((out, reader.is_done()))
}

/// A FastCGI application's bytes mean the same as a whole and in two parts.
pub fn fastcgi(bytes: &[u8]) {
    let Ok((cut, bytes)) = <(u8, &[u8])>::arbitrary_take_rest(Unstructured::new(bytes)) else {
        return;
    };
    let (first, second) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let whole = records(&[bytes]);
    assert_eq!(whole, records(&[first, second]));
    let taken: usize = decode_params(bytes)
        .map_while(Result::ok)
        .map(|(n, v)| n.len() + v.len())
        .sum();
    assert!(taken <= bytes.len());
    let mut head = ResponseHeadParser::new(1024);
    let _ = head.push(&mut &bytes[..]);
    assert!(head.bytes().len() <= 1024);
}
