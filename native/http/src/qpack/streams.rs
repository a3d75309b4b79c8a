//! Decoder streams (RFC 9204, section 4.4). The peer's stream has almost no valid content, because
//! our encoder has no table.

use super::Error;
use crate::hpack::integer;

/// Append Section Acknowledgment: a section with references to the table was decoded.
pub fn push_acknowledgement(out: &mut Vec<u8>, stream: u64) {
    integer::encode(out, 0x80, 7, stream as usize);
}

/// Append Stream Cancellation: sections of this stream may be unread.
pub fn push_cancellation(out: &mut Vec<u8>, stream: u64) {
    integer::encode(out, 0x40, 6, stream as usize);
}

/// Append Insert Count Increment: this number of further entries has arrived.
pub fn push_increment(out: &mut Vec<u8>, entries: u64) {
    integer::encode(out, 0, 6, entries as usize);
}

/// The peer's decoder stream: only Stream Cancellation, with a number of several bytes, is valid.
#[derive(Debug, Default)]
pub struct DecoderStream {
    /// The bytes of an incomplete number so far; 0 between instructions.
    length: u8,
}

/// A stream id has at most 62 bits: the first byte and nine more.
const LONGEST: u8 = 10;

impl DecoderStream {
    /// Process bytes of the stream.
    ///
    /// # Errors
    /// QPACK_DECODER_STREAM_ERROR: an acknowledgment of a section that was never sent.
    pub fn receive(&mut self, input: &[u8]) -> Result<(), Error> {
        for &byte in input {
            let more = if self.length == 0 {
                if byte & 0xc0 != 0x40 {
                    return Err(Error::Instruction);
                }
                byte & 0x3f == 0x3f
            } else {
                byte & 0x80 != 0
            };
            self.length = if more { self.length + 1 } else { 0 };
            if self.length >= LONGEST {
                return Err(Error::Integer);
            }
        }
        Ok(())
    }
}
