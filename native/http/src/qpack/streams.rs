//! The peer's encoder and decoder streams (RFC 9204, sections 4.3 and 4.4), whose instructions can
//! say next to nothing about a table without entries.

use super::Error;

/// What the peer's encoder sends: only Set Dynamic Table Capacity, and only to 0.
#[derive(Debug, Default)]
pub struct EncoderStream;

impl EncoderStream {
    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// QPACK_ENCODER_STREAM_ERROR: the capacity we announced is exceeded, or nothing could be
    /// inserted.
    pub fn receive(&mut self, input: &[u8]) -> Result<(), Error> {
        if input.iter().all(|&byte| byte == 0x20) {
            return Ok(());
        }
        Err(Error::Instruction)
    }
}

/// What the peer's decoder sends: only Stream Cancellation, with a number that may be long.
#[derive(Debug, Default)]
pub struct DecoderStream {
    /// Bytes of an unfinished number so far, 0 between instructions.
    length: u8,
}

/// A stream id has at most 62 bits: the first byte and nine more.
const LONGEST: u8 = 10;

impl DecoderStream {
    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// QPACK_DECODER_STREAM_ERROR: an acknowledgement of what was never sent.
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
