//! A fast parser for common header field lines, with one pass over each byte. The general parser
//! handles all others.

use crate::message::{Header, Span};
use crate::token::alphanumeric_and;

/// The bytes of common names: letters, digits, and `-`.
const NAME: [bool; 256] = alphanumeric_and(b"-");

/// Parse the field line at `start`. Returns the field and the start of the next line; `None` if the
/// line is incomplete or is not a common name, a colon, at most one blank, a value without control
/// characters or surrounding blanks, and CRLF.
#[inline]
pub(super) fn usual(input: &[u8], start: usize) -> Option<(Header, usize)> {
    let name_end = start
        + input
            .get(start..)?
            .iter()
            .position(|&c| !NAME[c as usize])?;
    if name_end == start || input[name_end] != b':' {
        return None;
    }
    let blank = input.get(name_end + 1) == Some(&b' ');
    let value = name_end + 1 + usize::from(blank);
    let (end, next) = line_end(input, value)?;
    let text = &input[value..end];
    if text.first() == Some(&b' ') || text.last() == Some(&b' ') {
        return None;
    }
    let span = |start: usize, end: usize| Span {
        start: start as u32,
        end: end as u32,
    };
    let header = Header {
        name: span(start, name_end),
        value: span(value, end),
    };
    Some((header, next))
}

/// The end of the text at `start` before CRLF, and the start of the next line. `None` if the line
/// is incomplete or contains a tab or another relevant control character.
pub(super) fn line_end(input: &[u8], start: usize) -> Option<(usize, usize)> {
    let end = start + until_control(input.get(start..)?);
    (input.get(end..end + 2)? == b"\r\n").then_some((end, end + 2))
}

/// The number of bytes before the first control character up to CR; these include NUL, tab, LF, and
/// CR.
#[inline]
fn until_control(text: &[u8]) -> usize {
    const LAST: u8 = b'\r';
    let mut chunks = text.chunks_exact(8);
    let mut at = 0;
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        // The top bit of each byte that is at most LAST. Bits after the first of them may be wrong.
        let found = word.wrapping_sub(each(LAST + 1)) & !word & each(0x80);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = chunks.remainder();
    at + rest.iter().position(|&c| c <= LAST).unwrap_or(rest.len())
}

/// The same byte eight times.
const fn each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &[u8]) -> Option<(&[u8], &[u8], usize)> {
        let (header, next) = usual(text, 0)?;
        let part = |s: Span| &text[s.start as usize..s.end as usize];
        Some((part(header.name), part(header.value), next))
    }

    #[test]
    fn usual_lines_are_read_and_others_left() {
        let long = b"Server: a rather long value with \xc3\xa4\r\nrest";
        assert_eq!(
            read(long),
            Some((
                &b"Server"[..],
                &b"a rather long value with \xc3\xa4"[..],
                long.len() - 4
            ))
        );
        assert_eq!(read(b"A:b\r\n"), Some((&b"A"[..], &b"b"[..], 5)));
        assert_eq!(read(b"A:\r\n"), Some((&b"A"[..], &b""[..], 4)));
        assert_eq!(read(b"A: \r\n"), Some((&b"A"[..], &b""[..], 5)));
        for other in [
            &b"A: b"[..],
            b"A: b\r",
            b"A: b\n",
            b"A: b\rc\r\n",
            b"A: b\0c\r\n",
            b"A: b\tc\r\n",
            b"A:  b\r\n",
            b"A: b \r\n",
            b"A : b\r\n",
            b"a_b: c\r\n",
            b": b\r\n",
            b"\r\n",
            b"",
        ] {
            assert_eq!(read(other), None, "{}", other.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn the_first_control_character_is_found(
            text in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let first = text.iter().position(|&c| c <= b'\r').unwrap_or(text.len());
            prop_assert_eq!(until_control(&text), first);
        }
    }
}
