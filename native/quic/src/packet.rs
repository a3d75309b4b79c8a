//! Encoding of packets (RFC 9000, section 17).

use crate::cid::{ConnectionId, LOCAL_LEN, MAX_LEN};
use gallop_http::h3::varint;
use std::ops::Range;

/// The version of RFC 9000.
pub const VERSION: u32 = 1;
/// The bit of a long header in the first byte.
pub const LONG: u8 = 0x80;
/// The bit that is set in the first byte of every packet of this version.
pub const FIXED: u8 = 0x40;
/// The key phase bit of a short header.
pub const KEY_PHASE: u8 = 0x04;
/// The least size of a client's first datagram (RFC 9000, section 14.1).
pub const MIN_INITIAL: usize = 1200;
/// The length of an authentication tag.
pub const TAG: usize = 16;
/// The bytes from the packet number on that header protection needs.
pub const SAMPLE_END: usize = 4 + 16;
/// The number of bytes of the length fields that we write.
const LENGTH: usize = 2;

/// The types of packets with long headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
}

/// A long header before its protection is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Long {
    pub kind: Kind,
    pub version: u32,
    pub destination: ConnectionId,
    pub source: ConnectionId,
    /// The position of an Initial packet's token in the datagram.
    pub token: Range<usize>,
    /// The position of the packet number.
    pub number_at: usize,
    /// The end of the packet, where the next one may begin.
    pub end: usize,
}

/// The header of a packet in a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    Long(Long),
    /// An unsupported version: its connection ids may have any length up to 255 bytes.
    OtherVersion {
        destination: Range<usize>,
        source: Range<usize>,
    },
    /// A short header with this id of ours.
    Short(ConnectionId),
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(taken)
}

/// Parse the unprotected parts of a header; `None` if it is invalid.
pub fn parse(datagram: &[u8]) -> Option<Header> {
    let first = *datagram.first()?;
    if first & LONG == 0 {
        if first & FIXED == 0 {
            return None;
        }
        let id = datagram.get(1..1 + LOCAL_LEN)?;
        return ConnectionId::new(id).map(Header::Short);
    }
    parse_long(datagram, first)
}

fn parse_long(datagram: &[u8], first: u8) -> Option<Header> {
    let mut input = &datagram[1..];
    let at = |input: &[u8]| datagram.len() - input.len();
    let version = u32::from_be_bytes(*take(&mut input, 4)?.first_chunk()?);
    let mut ids = [0..0, 0..0];
    for id in &mut ids {
        let len = usize::from(take(&mut input, 1)?[0]);
        let start = at(input);
        take(&mut input, len)?;
        *id = start..start + len;
    }
    let [destination, source] = ids;
    if version != VERSION {
        // Version 0 is a Version Negotiation packet, which clients never send.
        return (version != 0).then_some(Header::OtherVersion {
            destination,
            source,
        });
    }
    if destination.len() > MAX_LEN || source.len() > MAX_LEN || first & FIXED == 0 {
        return None;
    }
    let kind = match first >> 4 & 3 {
        0 => Kind::Initial,
        1 => Kind::ZeroRtt,
        2 => Kind::Handshake,
        _ => Kind::Retry,
    };
    let mut token = 0..0;
    if kind == Kind::Initial {
        let len = usize::try_from(varint::decode(&mut input)?).ok()?;
        let start = at(input);
        take(&mut input, len)?;
        token = start..start + len;
    }
    let (mut number_at, mut end) = (datagram.len(), datagram.len());
    if kind != Kind::Retry {
        let length = usize::try_from(varint::decode(&mut input)?).ok()?;
        number_at = at(input);
        take(&mut input, length)?;
        end = number_at + length;
    }
    Some(Header::Long(Long {
        kind,
        version,
        destination: ConnectionId::new(&datagram[destination])?,
        source: ConnectionId::new(&datagram[source])?,
        token,
        number_at,
        end,
    }))
}

/// The bytes that a packet number needs if `acked` is the largest acknowledged one (section 17.1).
pub fn number_len(number: u64, acked: Option<u64>) -> usize {
    let range = acked.map_or(number + 1, |acked| number - acked) * 2;
    match range {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => 4,
    }
}

/// Expand a truncated packet number, given the expected one (appendix A.3).
pub fn expand_number(truncated: u64, len: usize, expected: u64) -> u64 {
    let window = 1u64 << (8 * len);
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate + half <= expected && candidate < (1 << 62) - window {
        return candidate + window;
    }
    if candidate > expected + half && candidate >= window {
        return candidate - window;
    }
    candidate
}

/// Write a long header up to its packet number. Returns the position for [`set_length`].
pub fn write_long(
    out: &mut Vec<u8>,
    kind: Kind,
    number_len: usize,
    destination: &ConnectionId,
    source: &ConnectionId,
) -> usize {
    let kind = match kind {
        Kind::Initial => 0,
        Kind::ZeroRtt => 1,
        Kind::Handshake => 2,
        Kind::Retry => 3,
    };
    out.push(LONG | FIXED | kind << 4 | (number_len as u8 - 1));
    out.extend_from_slice(&VERSION.to_be_bytes());
    for id in [destination, source] {
        out.push(id.len() as u8);
        out.extend_from_slice(id.as_slice());
    }
    if kind == 0 {
        // Only clients send tokens.
        out.push(0);
    }
    let at = out.len();
    out.extend_from_slice(&[0; LENGTH]);
    at
}

/// Set the length field of a long header to the number of bytes after it.
pub fn set_length(out: &mut [u8], at: usize, length: usize) {
    let value = length as u16 | 0x4000;
    out[at..at + LENGTH].copy_from_slice(&value.to_be_bytes());
}

/// The longest of our long headers, including the packet number.
pub const MAX_LONG: usize = 1 + 4 + 2 * (1 + MAX_LEN) + 1 + LENGTH + 4;

/// Write a packet number.
pub fn write_number(out: &mut Vec<u8>, number: u64, len: usize) {
    out.extend_from_slice(&number.to_be_bytes()[8 - len..]);
}

/// A Version Negotiation packet for a client that wrote to `destination` from `source` (section
/// 17.2.1).
pub fn version_negotiation(out: &mut Vec<u8>, random: u8, destination: &[u8], source: &[u8]) {
    out.push(LONG | FIXED | random);
    out.extend_from_slice(&0u32.to_be_bytes());
    for id in [source, destination] {
        out.push(id.len() as u8);
        out.extend_from_slice(id);
    }
    out.extend_from_slice(&VERSION.to_be_bytes());
    // A reserved version, so that clients learn to ignore unknown ones (section 15).
    let grease = u32::from_be_bytes([random; 4]) & 0xf0f0_f0f0 | 0x0a0a_0a0a;
    out.extend_from_slice(&grease.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive_truncation(acked in 0u64..1 << 40, ahead in 1u64..1 << 20, back in 0u64..1 << 20) {
            // The sender chooses the length by the packets in flight (section 17.1).
            let number = acked + ahead;
            let len = number_len(number, Some(acked));
            let truncated = number & ((1 << (8 * len)) - 1);
            let expected = (acked + 1).max(number.saturating_sub(back % ahead));
            prop_assert_eq!(expand_number(truncated, len, expected), number);
        }

        #[test]
        fn long_headers_are_read_as_they_were_written(
            destination in prop::collection::vec(any::<u8>(), 0..=20),
            source in prop::collection::vec(any::<u8>(), 0..=20),
            payload in prop::collection::vec(any::<u8>(), 0..300),
            initial in any::<bool>(),
            len in 1usize..=4,
        ) {
            let kind = if initial { Kind::Initial } else { Kind::Handshake };
            let destination = ConnectionId::new(&destination).unwrap();
            let source = ConnectionId::new(&source).unwrap();
            let mut out = Vec::new();
            let at = write_long(&mut out, kind, len, &destination, &source);
            let number_at = out.len();
            write_number(&mut out, 0x0102_0304, len);
            out.extend_from_slice(&payload);
            set_length(&mut out, at, len + payload.len());
            prop_assert!(number_at + 4 <= MAX_LONG);
            let end = out.len();
            out.extend_from_slice(b"the next packet");
            let Some(Header::Long(long)) = parse(&out) else {
                return Err(TestCaseError::fail("not read"));
            };
            prop_assert_eq!((long.kind, long.destination, long.source), (kind, destination, source));
            prop_assert_eq!((long.number_at, long.end), (number_at, end));
        }

        #[test]
        fn nothing_is_read_beyond_the_end(datagram in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(Header::Long(long)) = parse(&datagram) {
                prop_assert!(long.number_at <= long.end && long.end <= datagram.len());
            }
        }
    }

    /// RFC 9000, appendix A.3, and sequences around a power of 256.
    #[test]
    fn the_rfcs_number() {
        assert_eq!(expand_number(0x9b32, 2, 0xa82f_30eb), 0xa82f_9b32);
        assert_eq!(expand_number(0, 1, 0), 0);
        assert_eq!(expand_number(0xff, 1, 0x101), 0xff);
        assert_eq!(expand_number(0x01, 1, 0xff), 0x101);
    }

    #[test]
    fn version_negotiation_names_our_version() {
        let mut out = Vec::new();
        version_negotiation(&mut out, 0x15, b"destination", b"source");
        assert_eq!(out[0] & LONG, LONG);
        assert_eq!(&out[1..5], [0; 4]);
        assert_eq!(&out[5..12], b"\x06source");
        assert_eq!(&out[12..24], b"\x0bdestination");
        assert_eq!(&out[24..28], [0, 0, 0, 1]);
        assert_eq!(
            out[28..].iter().map(|b| b & 0x0f).collect::<Vec<_>>(),
            [10; 4]
        );
    }
}
