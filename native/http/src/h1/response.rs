//! Parsing of response heads from upstream servers.

use super::field;
use crate::message::{Header, Span};
use memchr::memchr;

/// A response head; its text is in `buf`.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    pub buf: Vec<u8>,
    /// 0 and 1 for HTTP/1.0 and 1.1.
    pub minor: u8,
    pub status: u16,
    pub reason: Span,
    pub headers: Vec<Header>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// There is no status line: HTTP/0.9, or not HTTP.
    NoStatusLine,
    InvalidHeader,
}

impl ResponseHead {
    pub fn text(&self, span: Span) -> &[u8] {
        &self.buf[span.start as usize..span.end as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.headers
            .iter()
            .map(|h| (self.text(h.name), self.text(h.value)))
    }

    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, v)| v)
    }
}

/// The kind of server that sends a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// An HTTP server: the response starts with a status line of HTTP/1.
    Server,
    /// A uwsgi or SCGI application: the response starts with a status line of any version, or with
    /// header fields; then the head's status is 0.
    Gateway,
}

/// Parse a head at the start of `input`. Returns its length when complete.
pub fn parse_response(
    input: &[u8],
    head: &mut ResponseHead,
    sender: Sender,
) -> Result<Option<usize>, ResponseError> {
    head.headers.clear();
    let mut pos = 0;
    if let Some(next) = usual_status(input, head) {
        pos = next;
    } else if b"HTTP/".starts_with(&input[..input.len().min(5)]) {
        let Some((line, next)) = line(input, 0) else {
            return Ok(None);
        };
        parse_status(head, input, line, sender)?;
        pos = next;
    } else if sender == Sender::Server {
        return Err(ResponseError::NoStatusLine);
    } else {
        (head.status, head.reason) = (0, Span::default());
    }
    loop {
        while let Some((header, next)) = field::usual(input, pos) {
            head.headers.push(header);
            pos = next;
        }
        let Some((span, next)) = line(input, pos) else {
            return Ok(None);
        };
        pos = next;
        if span.is_empty() {
            head.buf.clear();
            head.buf.extend_from_slice(&input[..pos]);
            return Ok(Some(pos));
        }
        parse_field(head, input, span)?;
    }
}

/// Parse a common status line. Returns the start of the next line.
fn usual_status(input: &[u8], head: &mut ResponseHead) -> Option<usize> {
    const REASON: usize = "HTTP/1.1 200 ".len();
    let (minor, code) = match input.get(..REASON)? {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'1', b' ', code @ .., b' '] => {
            (minor - b'0', code)
        }
        _ => return None,
    };
    if code[0] == b'0' || !code.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (end, next) = field::line_end(input, REASON)?;
    head.minor = minor;
    head.status = code.iter().fold(0, |n, c| n * 10 + u16::from(c - b'0'));
    head.reason = Span {
        start: REASON as u32,
        end: end as u32,
    };
    Some(next)
}

fn line(input: &[u8], pos: usize) -> Option<(Span, usize)> {
    let lf = pos + memchr(b'\n', &input[pos..])?;
    let end = if lf > pos && input[lf - 1] == b'\r' {
        lf - 1
    } else {
        lf
    };
    Some((
        Span {
            start: pos as u32,
            end: end as u32,
        },
        lf + 1,
    ))
}

fn parse_status(
    head: &mut ResponseHead,
    input: &[u8],
    span: Span,
    sender: Sender,
) -> Result<(), ResponseError> {
    let text = &input[span.start as usize..span.end as usize];
    let invalid = ResponseError::NoStatusLine;
    let dot = memchr(b'.', text).ok_or(invalid)?;
    let major = text.get(5..dot).ok_or(invalid)?;
    let minor_len = text[dot + 1..]
        .iter()
        .take_while(|c| c.is_ascii_digit())
        .count();
    // uWSGI responds in the version that a parameter tells, such as HTTP/2.0.
    let is_known = match sender {
        Sender::Server => major == b"1",
        Sender::Gateway => !major.is_empty() && major.iter().all(u8::is_ascii_digit),
    };
    if !is_known || minor_len == 0 || text.get(dot + 1 + minor_len) != Some(&b' ') {
        return Err(invalid);
    }
    head.minor = (text[dot + 1] - b'0').min(1);
    let after = dot + 2 + minor_len;
    let blanks = text[after..].iter().take_while(|c| **c == b' ').count();
    let code = text
        .get(after + blanks..after + blanks + 3)
        .ok_or(invalid)?;
    if !code.iter().all(u8::is_ascii_digit) || code[0] == b'0' {
        return Err(invalid);
    }
    let rest = after + blanks + 3;
    if !matches!(text.get(rest), None | Some(b' ' | b'.')) {
        return Err(invalid);
    }
    head.status = code.iter().fold(0, |n, c| n * 10 + u16::from(c - b'0'));
    let start = (rest + 1).min(text.len()) as u32;
    head.reason = Span {
        start: span.start + start,
        end: span.end,
    };
    Ok(())
}

fn parse_field(head: &mut ResponseHead, input: &[u8], span: Span) -> Result<(), ResponseError> {
    let text = &input[span.start as usize..span.end as usize];
    // Some servers send their status line twice.
    if text.starts_with(b"HTTP/") {
        return Ok(());
    }
    let colon = memchr(b':', text)
        .filter(|&i| i > 0)
        .ok_or(ResponseError::InvalidHeader)?;
    // Other programs would read blanks around the name differently.
    if text[..colon].iter().any(|&c| c <= 0x20 || c == 0x7f) {
        return Err(ResponseError::InvalidHeader);
    }
    let value = &text[colon + 1..];
    if value.iter().any(|&c| c == 0 || c == b'\r') {
        return Err(ResponseError::InvalidHeader);
    }
    let lead = value
        .iter()
        .take_while(|c| matches!(c, b' ' | b'\t'))
        .count();
    let len = value[lead..]
        .iter()
        .rposition(|c| !matches!(c, b' ' | b'\t'))
        .map_or(0, |i| i + 1);
    let start = span.start + (colon + 1 + lead) as u32;
    head.headers.push(Header {
        name: Span {
            start: span.start,
            end: span.start + colon as u32,
        },
        value: Span {
            start,
            end: start + len as u32,
        },
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Parse the fields with the general parser.
    fn by_every_rule(
        input: &[u8],
        head: &mut ResponseHead,
    ) -> Result<Option<usize>, ResponseError> {
        head.headers.clear();
        let mut pos = 0;
        while let Some((span, next)) = line(input, pos) {
            pos = next;
            if span.is_empty() {
                return Ok(Some(pos));
            }
            parse_field(head, input, span)?;
        }
        Ok(None)
    }

    proptest! {
        #[test]
        fn usual_fields_are_read_as_every_rule_has_them(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "A", "a-b", "x_y", ":", ": ", " ", "\t", "\r", "\n", "\r\n", "\0", "value", "\x7f",
                    "Name: a value\r\n", "Long-Name: 0123456789abcdef \r\n", "B:c\r\n",
                ]),
                0..12,
            ),
        ) {
            let text = pieces.concat() + "\r\n\r\n";
            let (mut quick, mut slow) = (ResponseHead::default(), ResponseHead::default());
            let read = parse_response(text.as_bytes(), &mut quick, Sender::Gateway);
            prop_assert_eq!(read, by_every_rule(text.as_bytes(), &mut slow));
            prop_assert_eq!(quick.headers, slow.headers);
        }

        #[test]
        fn usual_status_lines_are_read_as_every_rule_has_them(
            version in proptest::sample::select(vec!["HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/1"]),
            code in proptest::sample::select(vec![" 200", " 099", " 999", " 20", "  200", " 2000", " 20x"]),
            reason in proptest::sample::select(vec!["", " ", " OK", " Not  Here ", ".1", "\tx", " a\rb"]),
            end in proptest::sample::select(vec!["\r\n", "\n", "\r"]),
        ) {
            let text = [version, code, reason, end].concat();
            let (mut quick, mut slow) = (ResponseHead::default(), ResponseHead::default());
            if usual_status(text.as_bytes(), &mut quick).is_some() {
                let (span, _) = line(text.as_bytes(), 0).expect("a whole line");
                prop_assert_eq!(parse_status(&mut slow, text.as_bytes(), span, Sender::Server), Ok(()));
                prop_assert_eq!((quick.minor, quick.status, quick.reason), (slow.minor, slow.status, slow.reason));
            }
        }
    }

    #[test]
    fn a_response_head() {
        let mut head = ResponseHead::default();
        let text = b"HTTP/1.1 404 Not Here\r\nA: b\r\n\r\nbody";
        assert_eq!(
            parse_response(text, &mut head, Sender::Server),
            Ok(Some(text.len() - 4))
        );
        assert_eq!((head.status, head.minor), (404, 1));
        assert_eq!(head.text(head.reason), b"Not Here");
        assert_eq!(head.get("a"), Some(&b"b"[..]));
        assert_eq!(
            parse_response(&text[..20], &mut head, Sender::Server),
            Ok(None)
        );
        assert_eq!(
            parse_response(b"hello", &mut head, Sender::Server),
            Err(ResponseError::NoStatusLine)
        );
        assert_eq!(
            parse_response(
                b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
                &mut head,
                Sender::Server
            ),
            Err(ResponseError::InvalidHeader)
        );
    }

    #[test]
    fn gateway_heads_may_lack_a_status_line() {
        let mut head = ResponseHead::default();
        let cases = [
            (&b"HTTP/2.0 201 Made\r\nA: b\r\n\r\n"[..], 201, &b"Made"[..]),
            (b"A: b\n\n", 0, b""),
            (b"HTTP/1.1 404 Not Here\nA: b\n\n", 404, b"Not Here"),
        ];
        for (text, status, reason) in cases {
            for cut in 0..text.len() {
                let parsed = parse_response(&text[..cut], &mut head, Sender::Gateway);
                assert_eq!(parsed, Ok(None), "{cut} bytes");
            }
            let parsed = parse_response(text, &mut head, Sender::Gateway);
            assert_eq!(parsed, Ok(Some(text.len())));
            assert_eq!((head.status, head.text(head.reason)), (status, reason));
            assert_eq!(head.get("a"), Some(&b"b"[..]));
        }
        for text in [&b"HTTP/.1 200 OK\n\n"[..], b"HTTP/x.1 200 OK\n\n"] {
            let parsed = parse_response(text, &mut head, Sender::Gateway);
            assert_eq!(parsed, Err(ResponseError::NoStatusLine));
        }
        let parsed = parse_response(b"HTTP/2.0 200 OK\n\n", &mut head, Sender::Server);
        assert_eq!(parsed, Err(ResponseError::NoStatusLine));
    }
}
