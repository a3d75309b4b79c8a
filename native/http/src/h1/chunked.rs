//! Chunked bodies (RFC 9112, section 7.1).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In a chunk's size, with the number of digits seen.
    Size {
        digits: u8,
    },
    Extension {
        len: u16,
        cr: bool,
    },
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailer {
        cr: bool,
    },
    EndLf,
    Done,
}

/// Decodes a chunked body whose bytes may be split anywhere.
#[derive(Clone, Debug)]
pub struct ChunkDecoder {
    state: State,
    /// The remaining bytes of the current chunk.
    left: u64,
    /// The bytes of trailer fields so far.
    trailer: u32,
    /// The trailer fields as received.
    fields: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// All input was framing; more bytes are needed.
    More { consumed: usize },
    /// `data` bytes of body follow the first `consumed` bytes; both are consumed.
    Data { consumed: usize, data: usize },
    /// The body has ended; the bytes after `consumed` belong to the next message.
    End { consumed: usize },
}

const MAX_EXTENSION: u16 = 4096;
const MAX_TRAILER: u32 = 32 * 1024;

impl Default for ChunkDecoder {
    fn default() -> Self {
        ChunkDecoder {
            state: State::Size { digits: 0 },
            left: 0,
            trailer: 0,
            fields: Vec::new(),
        }
    }
}

impl ChunkDecoder {
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Take the lines of the trailer section.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.fields)
    }

    /// The bytes of the trailer section so far, without its final line feed.
    pub fn trailers_len(&self) -> usize {
        self.fields.len()
    }

    /// The bytes of the current chunk that have not arrived.
    pub fn left_in_chunk(&self) -> u64 {
        if self.state == State::Data {
            self.left
        } else {
            0
        }
    }

    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, ChunkError> {
        let mut i = 0;
        loop {
            if self.state == State::Done {
                return Ok(Decoded::End { consumed: i });
            }
            if i == input.len() {
                return Ok(Decoded::More { consumed: i });
            }
            if self.state == State::Data {
                let data = self.left.min((input.len() - i) as u64);
                self.left -= data;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                return Ok(Decoded::Data {
                    consumed: i,
                    data: data as usize,
                });
            }
            if matches!(self.state, State::TrailerStart | State::Trailer { .. }) {
                self.fields.push(input[i]);
            }
            self.state = self.framing(input[i])?;
            i += 1;
        }
    }

    fn framing(&mut self, c: u8) -> Result<State, ChunkError> {
        Ok(match (self.state, c) {
            (State::Size { digits }, _) if c.is_ascii_hexdigit() => {
                // Sixteen digits would overflow, even with leading zeros.
                if digits >= 15 {
                    return Err(ChunkError);
                }
                let digit = (c as char).to_digit(16).expect("a hexadecimal digit");
                self.left = self.left * 16 + u64::from(digit);
                State::Size { digits: digits + 1 }
            }
            (State::Size { digits: 0 }, _) => return Err(ChunkError),
            (State::Size { .. }, b'\r') => State::SizeLf,
            (State::Size { .. }, b';' | b' ' | b'\t') => State::Extension { len: 0, cr: false },
            (State::Extension { cr: true, .. }, b'\n') | (State::SizeLf, b'\n') => self.size_done(),
            (State::Extension { len, cr: false }, _)
                if c != b'\n' && c != 0 && len < MAX_EXTENSION =>
            {
                State::Extension {
                    len: len + 1,
                    cr: c == b'\r',
                }
            }
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size { digits: 0 },
            (State::TrailerStart, b'\r') => State::EndLf,
            (State::EndLf, b'\n') => State::Done,
            (State::Trailer { cr: true }, b'\n') => State::TrailerStart,
            (State::TrailerStart | State::Trailer { cr: false }, _) if c != b'\n' && c != 0 => {
                self.trailer += 1;
                if self.trailer > MAX_TRAILER {
                    return Err(ChunkError);
                }
                State::Trailer { cr: c == b'\r' }
            }
            _ => return Err(ChunkError),
        })
    }

    fn size_done(&mut self) -> State {
        if self.left == 0 {
            State::TrailerStart
        } else {
            State::Data
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decode the input in pieces. Returns the body and the remaining bytes.
    fn decode(input: &[u8], piece: usize) -> Result<(Vec<u8>, Option<usize>), ChunkError> {
        let mut decoder = ChunkDecoder::default();
        let (mut body, mut pos) = (Vec::new(), 0);
        while pos < input.len() {
            let end = (pos + piece).min(input.len());
            match decoder.decode(&input[pos..end])? {
                Decoded::More { consumed } => pos += consumed,
                Decoded::Data { consumed, data } => {
                    body.extend_from_slice(&input[pos + consumed..pos + consumed + data]);
                    pos += consumed + data;
                }
                Decoded::End { consumed } => return Ok((body, Some(input.len() - pos - consumed))),
            }
        }
        let left = if decoder.is_done() { Some(0) } else { None };
        Ok((body, left))
    }

    #[test]
    fn extensions_and_trailers_are_passed_over() {
        let input = b"3;a=b\r\nabc\r\n2 ; x\r\nde\r\n0\r\nT: v\r\n\r\nGET";
        assert_eq!(decode(input, 100), Ok((b"abcde".to_vec(), Some(3))));
    }

    #[test]
    fn loose_framing_is_refused() {
        let bad: &[&[u8]] = &[
            b"3\nabc\r\n0\r\n\r\n",
            b"3\r\nabcd\r\n0\r\n\r\n",
            b"3\r\nabc\n0\r\n\r\n",
            b"\r\n",
            b"x\r\n",
            b"-1\r\n",
            b"fffffffffffffffff\r\n",
            b"0\r\n\n",
            b"0\r\nA: b\n\r\n",
            b"3;a\nabc\r\n0\r\n\r\n",
            b"3;a\rb\r\nabc\r\n",
        ];
        for input in bad {
            assert_eq!(
                decode(input, 100),
                Err(ChunkError),
                "{:?}",
                String::from_utf8_lossy(input)
            );
        }
    }

    proptest! {
        #[test]
        fn the_cut_does_not_matter(piece in 1usize..20) {
            let input = b"a\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n";
            prop_assert_eq!(decode(input, piece), Ok((b"0123456789x".to_vec(), Some(0))));
        }

        #[test]
        fn any_bytes_end_without_a_panic(input in proptest::collection::vec(any::<u8>(), 0..200), piece in 1usize..9) {
            let _ = decode(&input, piece);
        }
    }
}
