//! Responses of memcached's text protocol to `get` with one key.
//!
//! Source: doc/protocol.txt of memcached.

use memchr::memchr;

/// The first line of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// `flags` is `None` if they are no number.
    Value { flags: Option<u64>, length: u64 },
    /// There is no value for the key.
    Missing,
}

/// The reason for rejecting the first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// It is about another key.
    Key,
    /// The length is no number.
    Length,
    /// It is no response to `get`.
    Other,
}

fn number(text: &[u8]) -> Option<u64> {
    // Other forms, such as "+1", are no numbers here.
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| digits)?;
    text.parse().ok()
}

/// Parse the first line of a response. Returns the line and its length in bytes when complete.
///
/// # Errors
/// The line is not a response for this key.
pub fn parse_line(input: &[u8], key: &[u8]) -> Result<Option<(Line, usize)>, LineError> {
    let Some(end) = memchr(b'\n', input) else {
        return Ok(None);
    };
    let line = input[..end].strip_suffix(b"\r").ok_or(LineError::Other)?;
    if line == b"END" {
        return Ok(Some((Line::Missing, end + 1)));
    }
    let about = line.strip_prefix(b"VALUE ").ok_or(LineError::Other)?;
    let rest = about.strip_prefix(key).ok_or(LineError::Key)?;
    let words = rest.strip_prefix(b" ").ok_or(LineError::Other)?;
    let space = memchr(b' ', words).ok_or(LineError::Other)?;
    let found = Line::Value {
        flags: number(&words[..space]),
        length: number(&words[space + 1..]).ok_or(LineError::Length)?,
    };
    Ok(Some((found, end + 1)))
}

/// The bytes after a value.
const END: &[u8] = b"\r\nEND\r\n";

/// The part of a response after its first line.
#[derive(Debug)]
pub struct Value {
    /// Bytes of the value that are still expected.
    left: u64,
    /// Bytes of [`END`] that have arrived.
    end: usize,
    is_sound: bool,
}

/// The use of a piece of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The bytes at the start that belong to the value.
    pub value: usize,
    /// The bytes that were used, those of the value among them.
    pub used: usize,
}

impl Value {
    /// A value of `length` bytes and its end.
    pub fn new(length: u64) -> Value {
        Value {
            left: length,
            end: 0,
            is_sound: true,
        }
    }

    /// The end of a response without a value.
    pub fn missing() -> Value {
        Value {
            end: END.len(),
            ..Value::new(0)
        }
    }

    /// Use the next bytes. Bytes that are no proper end of the response are used up.
    pub fn take(&mut self, input: &[u8]) -> Taken {
        let value = usize::try_from(self.left).map_or(input.len(), |left| left.min(input.len()));
        self.left -= value as u64;
        if self.left > 0 {
            return Taken { value, used: value };
        }
        let rest = &input[value..];
        let due = &END[self.end..];
        let shared = due.len().min(rest.len());
        self.is_sound &= rest[..shared] == due[..shared] && rest.len() <= due.len();
        self.end = if self.is_sound {
            self.end + shared
        } else {
            END.len()
        };
        Taken {
            value,
            used: input.len(),
        }
    }

    /// Whether all bytes of the value have arrived.
    pub fn is_whole(&self) -> bool {
        self.left == 0
    }

    /// Whether the response has ended.
    pub fn is_ended(&self) -> bool {
        self.left == 0 && self.end == END.len()
    }

    /// Whether the response ended properly so far, with no bytes after its end.
    pub fn is_sound(&self) -> bool {
        self.is_sound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_tells_flags_and_length() {
        let parse = |text: &[u8]| parse_line(text, b"k");
        let value = |flags, length| Line::Value { flags, length };
        assert_eq!(parse(b"VALUE k 2 5\r\n"), Ok(Some((value(Some(2), 5), 13))));
        assert_eq!(parse(b"VALUE k x 5\r\nab"), Ok(Some((value(None, 5), 13))));
        assert_eq!(parse(b"END\r\n"), Ok(Some((Line::Missing, 5))));
        assert_eq!(parse(b"VALUE k 2 5\r"), Ok(None));
        assert_eq!(parse(b"VALUE other 2 5\r\n"), Err(LineError::Key));
        for (text, error) in [
            (&b"VALUE key 2 5\r\n"[..], LineError::Other),
            (b"VALUE k 2\r\n", LineError::Other),
            (b"VALUE k 2 5\n", LineError::Other),
            (b"END\n", LineError::Other),
            (b"ERROR\r\n", LineError::Other),
            (b"VALUE k 2 5 7\r\n", LineError::Length),
            (b"VALUE k 2 -5\r\n", LineError::Length),
            (b"VALUE k 2 +5\r\n", LineError::Length),
            (b"VALUE k 2 99999999999999999999\r\n", LineError::Length),
            (b"VALUE k 2 \r\n", LineError::Length),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn value_ends_after_its_length_in_any_pieces() {
        let text = b"hello\r\nEND\r\n";
        for piece in 1..=text.len() {
            let mut value = Value::new(5);
            let mut out = Vec::new();
            for input in text.chunks(piece) {
                assert!(!value.is_ended());
                let taken = value.take(input);
                assert_eq!(taken.used, input.len());
                out.extend_from_slice(&input[..taken.value]);
            }
            assert_eq!(out, b"hello");
            assert!(value.is_ended() && value.is_sound(), "pieces of {piece}");
        }
        assert!(Value::missing().is_ended());
    }

    #[test]
    fn improper_end_is_noticed() {
        for text in [&b"hello and more"[..], b"hello\r\nEND\r\nX", b"hello\n"] {
            for piece in 1..=text.len() {
                let mut value = Value::new(5);
                for input in text.chunks(piece) {
                    value.take(input);
                }
                assert!(value.is_ended() && !value.is_sound(), "{text:?} in {piece}");
            }
        }
        let mut cut = Value::new(5);
        cut.take(b"hello\r\nEN");
        assert!(cut.is_whole() && !cut.is_ended() && cut.is_sound());
    }
}
