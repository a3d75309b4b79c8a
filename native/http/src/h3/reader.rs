//! Parsing of frames from a stream (RFC 9114, section 7.1).

use super::varint;

/// The next piece of a stream of frames.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The start of a frame.
    Start { kind: u64, len: u64 },
    /// A piece of the payload; a frame without payload has one empty piece.
    Payload { data: &'a [u8], last: bool },
}

/// Parses frame headers. A complete header needs no copy; a split one is kept here until it is
/// complete.
#[derive(Debug, Default)]
pub struct FrameReader {
    scratch: [u8; 16],
    have: u8,
    /// The payload bytes that are still expected, while inside of a frame.
    left: Option<u64>,
}

impl FrameReader {
    /// Whether the stream may end here.
    pub fn at_boundary(&self) -> bool {
        self.have == 0 && self.left.is_none()
    }

    /// Take the next piece; `None` if more bytes are needed (`input` is then empty).
    #[inline]
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<Piece<'a>> {
        let Some(left) = self.left else {
            let (kind, len) = self.header(input)?;
            self.left = Some(len);
            return Some(Piece::Start { kind, len });
        };
        if input.is_empty() && left > 0 {
            return None;
        }
        let n = left.min(input.len() as u64);
        let (data, rest) = input.split_at(n as usize);
        *input = rest;
        let last = n == left;
        self.left = (!last).then_some(left - n);
        Some(Piece::Payload { data, last })
    }

    fn header(&mut self, input: &mut &[u8]) -> Option<(u64, u64)> {
        if self.have == 0 {
            let mut ahead = *input;
            if let Some(header) = decode_header(&mut ahead) {
                *input = ahead;
                return Some(header);
            }
        }
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            self.scratch[usize::from(self.have)] = byte;
            self.have += 1;
            if let Some(header) = decode_header(&mut &self.scratch[..usize::from(self.have)]) {
                self.have = 0;
                return Some(header);
            }
        }
        None
    }
}

fn decode_header(input: &mut &[u8]) -> Option<(u64, u64)> {
    Some((varint::decode(input)?, varint::decode(input)?))
}
