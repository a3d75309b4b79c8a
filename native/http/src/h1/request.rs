//! Parsing of request heads.

use super::field;
use crate::message::{Head, Header, Span, Version};
use memchr::memchr;

/// The limits for a head.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of the request line or of a header line.
    pub line: usize,
    /// The most bytes of the whole head.
    pub total: usize,
    pub headers: usize,
    /// Whether to drop fields whose names have characters other than letters, digits, and `-`.
    pub ignore_invalid: bool,
    pub underscores: bool,
}

/// The reason for rejecting a request; each has nginx's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    InvalidMethod,
    InvalidRequest,
    InvalidVersion,
    InvalidHeader,
    LineTooLong,
    HeaderTooLarge,
    TooManyHeaders,
}

impl HeadError {
    /// The status of the response; 494 becomes 400 with a text of its own.
    pub fn status(self) -> u16 {
        match self {
            HeadError::InvalidVersion => 505,
            HeadError::LineTooLong => 414,
            HeadError::HeaderTooLarge | HeadError::TooManyHeaders => 494,
            _ => 400,
        }
    }

    /// nginx's message for the error log.
    pub fn reason(self) -> &'static str {
        match self {
            HeadError::InvalidMethod => "client sent invalid method",
            HeadError::InvalidRequest => "client sent invalid request",
            HeadError::InvalidVersion => "client sent invalid version",
            HeadError::InvalidHeader => "client sent invalid header line",
            HeadError::LineTooLong => "client sent too long URI",
            HeadError::HeaderTooLarge => "client sent too large request",
            HeadError::TooManyHeaders => "client sent too many header lines",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed; `started` once anything except blank lines was seen.
    Partial { started: bool },
    /// The head ends after this number of bytes.
    Complete { len: usize },
}

/// Parse the head at the start of `input` into `head`, which is overwritten.
///
/// # Errors
/// The problem with the head. `head` then contains the part before a malformed field; its `buf` is
/// empty if the request line is incomplete.
pub fn parse(input: &[u8], head: &mut Head, limits: &Limits) -> Result<Parsed, HeadError> {
    head.clear();
    // Skip blank lines before a request (RFC 9112, section 2.2).
    let skip = input
        .iter()
        .take_while(|c| matches!(c, b'\r' | b'\n'))
        .count();
    let Some((line, mut pos)) = next_line(input, skip, limits.line) else {
        check_partial(&input[skip..], true, limits)?;
        return Ok(Parsed::Partial {
            started: skip < input.len(),
        });
    };
    let line = line?;
    request_line(
        head,
        &input[line.start as usize..line.end as usize],
        line.start,
        limits,
    )?;
    if head.version == Version::Http09 {
        if &input[head.method.start as usize..head.method.end as usize] != b"GET" {
            head.buf.extend_from_slice(&input[..pos]);
            return Err(HeadError::InvalidRequest);
        }
        return finish(head, input, pos);
    }
    let parsed = fields(head, input, skip, &mut pos, limits);
    if parsed.is_err() {
        head.buf.extend_from_slice(&input[..pos]);
    }
    parsed
}

/// Parse the lines from `pos` on, which moves to the line that is malformed or incomplete.
fn fields(
    head: &mut Head,
    input: &[u8],
    skip: usize,
    pos: &mut usize,
    limits: &Limits,
) -> Result<Parsed, HeadError> {
    loop {
        while let Some((header, next)) = field::usual(input, *pos) {
            let fits = next - *pos <= limits.line && next - skip <= limits.total;
            if !fits || head.headers.len() >= limits.headers {
                break;
            }
            head.headers.push(header);
            *pos = next;
        }
        let Some((line, next)) = next_line(input, *pos, limits.line) else {
            check_partial(&input[*pos..], false, limits)?;
            return Ok(Parsed::Partial { started: true });
        };
        let line = line.map_err(|e| {
            if e == HeadError::LineTooLong {
                HeadError::HeaderTooLarge
            } else {
                e
            }
        })?;
        if next - skip > limits.total {
            return Err(HeadError::HeaderTooLarge);
        }
        if line.is_empty() {
            return finish(head, input, next);
        }
        header_line(head, input, line, limits)?;
        *pos = next;
    }
}

fn finish(head: &mut Head, input: &[u8], len: usize) -> Result<Parsed, HeadError> {
    head.buf.extend_from_slice(&input[..len]);
    Ok(Parsed::Complete { len })
}

type Line = Result<Span, HeadError>;

/// The line at `pos` without its end, and the start of the next one; `None` if it is incomplete.
fn next_line(input: &[u8], pos: usize, max: usize) -> Option<(Line, usize)> {
    let rest = &input[pos..];
    let lf = memchr(b'\n', rest)?;
    let end = if lf > 0 && rest[lf - 1] == b'\r' {
        lf - 1
    } else {
        lf
    };
    let line = if lf + 1 > max {
        Err(HeadError::LineTooLong)
    } else {
        Ok(Span {
            start: pos as u32,
            end: (pos + end) as u32,
        })
    };
    Some((line, pos + lf + 1))
}

/// Reject bytes early that cannot become a valid head.
fn check_partial(rest: &[u8], request_line: bool, limits: &Limits) -> Result<(), HeadError> {
    if rest.len() >= limits.line {
        return Err(if request_line {
            HeadError::LineTooLong
        } else {
            HeadError::HeaderTooLarge
        });
    }
    if request_line {
        let method_end = rest.iter().position(|&c| c == b' ').unwrap_or(rest.len());
        let is_tls = rest.starts_with(&[0x16]);
        if is_tls
            || !rest[..method_end]
                .iter()
                .all(|&c| is_method_char(c) || c == b'\r')
        {
            return Err(HeadError::InvalidMethod);
        }
    }
    Ok(())
}

fn is_method_char(c: u8) -> bool {
    c.is_ascii_uppercase() || c == b'_' || c == b'-'
}

fn request_line(head: &mut Head, line: &[u8], base: u32, limits: &Limits) -> Result<(), HeadError> {
    let span = |a: usize, z: usize| Span {
        start: base + a as u32,
        end: base + z as u32,
    };
    let method_end = line
        .iter()
        .position(|&c| !is_method_char(c))
        .unwrap_or(line.len());
    if method_end == 0 || line.get(method_end) != Some(&b' ') {
        return Err(HeadError::InvalidMethod);
    }
    head.method = span(0, method_end);
    head.line = span(0, line.len());
    let mut start = method_end;
    while line.get(start) == Some(&b' ') {
        start += 1;
    }
    let len = line[start..]
        .iter()
        .position(|&c| c <= 0x20 || c == 0x7f)
        .unwrap_or(line.len() - start);
    let end = start + len;
    if len + 1 > limits.line {
        return Err(HeadError::LineTooLong);
    }
    head.target = span(start, end);
    let mut rest = end;
    while line.get(rest) == Some(&b' ') {
        rest += 1;
    }
    if len == 0 {
        return Err(HeadError::InvalidRequest);
    }
    target(
        head,
        &line[start..end],
        head.target.start,
        &line[..method_end],
    )?;
    head.version = version(&line[rest..])?;
    Ok(())
}

fn version(text: &[u8]) -> Result<Version, HeadError> {
    let text = text.strip_suffix(b" ").map_or(text, <[u8]>::trim_ascii_end);
    if text.is_empty() {
        return Ok(Version::Http09);
    }
    let numbers = text
        .strip_prefix(b"HTTP/")
        .ok_or(HeadError::InvalidRequest)?;
    let digits = |t: &[u8]| -> Result<u32, HeadError> {
        if t.is_empty() || !t.iter().all(u8::is_ascii_digit) {
            return Err(HeadError::InvalidRequest);
        }
        Ok(t.iter()
            .take(4)
            .fold(0, |n, c| n * 10 + u32::from(c - b'0')))
    };
    if numbers.first() == Some(&b'0') {
        return Err(HeadError::InvalidRequest);
    }
    let dot = memchr(b'.', numbers).unwrap_or(numbers.len());
    if digits(&numbers[..dot])? > 1 {
        return Err(HeadError::InvalidVersion);
    }
    match digits(numbers.get(dot + 1..).unwrap_or_default())? {
        0 => Ok(Version::Http10),
        1..=99 => Ok(Version::Http11),
        _ => Err(HeadError::InvalidRequest),
    }
}

/// Split the target: origin form, absolute form, or authority form for CONNECT.
fn target(head: &mut Head, text: &[u8], base: u32, method: &[u8]) -> Result<(), HeadError> {
    let span = |a: usize, z: usize| Span {
        start: base + a as u32,
        end: base + z as u32,
    };
    if method == b"CONNECT" {
        // Host and port are both required (RFC 9110, section 9.3.6).
        let colon = text.iter().rposition(|&c| c == b':');
        let port = colon
            .filter(|&at| at > 0)
            .map_or(&[][..], |at| &text[at + 1..]);
        if port.is_empty() || !port.iter().all(u8::is_ascii_digit) {
            return Err(HeadError::InvalidRequest);
        }
        head.authority = head.target;
        return Ok(());
    }
    if text[0] == b'/' {
        head.path = head.target;
        return Ok(());
    }
    let scheme = text
        .iter()
        .position(|c| !c.is_ascii_alphanumeric() && !b"+-.".contains(c));
    let scheme =
        scheme.filter(|&i| i > 0 && text[0].is_ascii_alphabetic() && text[i..].starts_with(b"://"));
    let scheme = scheme.ok_or(HeadError::InvalidRequest)?;
    let host = scheme + 3;
    let path = text[host..]
        .iter()
        .position(|c| matches!(c, b'/' | b'?' | b'#'))
        .map_or(text.len(), |i| host + i);
    if !is_authority(&text[host..path]) {
        return Err(HeadError::InvalidRequest);
    }
    head.scheme = span(0, scheme);
    head.authority = span(host, path);
    head.path = span(path, text.len());
    Ok(())
}

/// Whether the text is a name or an address (anything in brackets) with an optional port; user
/// names are not allowed in a request.
fn is_authority(text: &[u8]) -> bool {
    let in_address = |c: &u8| c.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:".contains(c);
    let in_name = |c: &u8| c.is_ascii_alphanumeric() || b".-".contains(c);
    let (name, rest) = match text.strip_prefix(b"[") {
        Some(rest) => match memchr(b']', rest) {
            Some(end) if rest[..end].iter().all(in_address) => (&rest[..end], &rest[end + 1..]),
            _ => return false,
        },
        None => {
            let end = text.iter().position(|c| !in_name(c)).unwrap_or(text.len());
            text.split_at(end)
        }
    };
    let port = rest.strip_prefix(b":");
    !name.is_empty() && (rest.is_empty() || port.is_some_and(|p| p.iter().all(u8::is_ascii_digit)))
}

fn header_line(
    head: &mut Head,
    input: &[u8],
    line: Span,
    limits: &Limits,
) -> Result<(), HeadError> {
    let text = &input[line.start as usize..line.end as usize];
    let colon = text
        .iter()
        .position(|&c| !is_name_char(c))
        .unwrap_or(text.len());
    let (name_end, valid) = if text.get(colon) == Some(&b':') && colon > 0 {
        (colon, true)
    } else {
        (odd_name_end(text)?, false)
    };
    let name = &text[..name_end];
    let valid = valid && (limits.underscores || !name.contains(&b'_'));
    let value_start = name_end + 1;
    let value = &text[value_start..];
    // Other programs would read a CR inside of a line, and NUL, differently.
    if value.iter().any(|&c| c == 0 || c == b'\r') {
        return Err(HeadError::InvalidHeader);
    }
    if !valid && limits.ignore_invalid {
        return Ok(());
    }
    if head.headers.len() >= limits.headers {
        return Err(HeadError::TooManyHeaders);
    }
    let lead = value
        .iter()
        .take_while(|c| matches!(c, b' ' | b'\t'))
        .count();
    let trimmed = value[lead..]
        .iter()
        .rposition(|c| !matches!(c, b' ' | b'\t'))
        .map_or(0, |i| i + 1);
    let start = line.start + (value_start + lead) as u32;
    head.headers.push(Header {
        name: Span {
            start: line.start,
            end: line.start + name_end as u32,
        },
        value: Span {
            start,
            end: start + trimmed as u32,
        },
    });
    Ok(())
}

fn is_name_char(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'-' || c == b'_'
}

/// The end of an unusual name. Blanks and control characters make the request invalid, as does a
/// line without a colon or one that continues the previous line.
fn odd_name_end(text: &[u8]) -> Result<usize, HeadError> {
    let colon = memchr(b':', text)
        .filter(|&i| i > 0)
        .ok_or(HeadError::InvalidHeader)?;
    if text[..colon].iter().any(|&c| c <= 0x20 || c == 0x7f) {
        return Err(HeadError::InvalidHeader);
    }
    Ok(colon)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits {
        line: 8192,
        total: 32768,
        headers: 1000,
        ignore_invalid: true,
        underscores: false,
    };

    fn parse_ok(text: &str) -> Head {
        let mut head = Head::default();
        let parsed = parse(text.as_bytes(), &mut head, &LIMITS).expect("valid");
        assert_eq!(parsed, Parsed::Complete { len: text.len() });
        head
    }

    fn parse_err(text: &str) -> HeadError {
        parse(text.as_bytes(), &mut Head::default(), &LIMITS).expect_err("invalid")
    }

    #[test]
    fn a_usual_request() {
        let head = parse_ok("\r\nGET /a?b HTTP/1.1\r\nHost: x \r\nA:\r\n\r\n");
        assert_eq!(head.method(), b"GET");
        assert_eq!(head.text(head.path), b"/a?b");
        assert_eq!(head.get("host"), Some(&b"x"[..]));
        assert_eq!(head.get("a"), Some(&b""[..]));
        assert_eq!(head.version, Version::Http11);
    }

    #[test]
    fn absolute_targets_are_split() {
        let head = parse_ok("GET http://h:1/p?q HTTP/1.0\n\n");
        assert_eq!(head.text(head.authority), b"h:1");
        assert_eq!(head.text(head.path), b"/p?q");
        assert_eq!(head.version, Version::Http10);
    }

    #[test]
    fn http_0_9_ends_with_its_line() {
        assert_eq!(parse_ok("GET /\r\n").version, Version::Http09);
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for (text, error) in [
            ("get / HTTP/1.1\r\n\r\n", HeadError::InvalidMethod),
            ("GET * HTTP/1.1\r\n\r\n", HeadError::InvalidRequest),
            ("GET /a b HTTP/1.1\r\n\r\n", HeadError::InvalidRequest),
            ("GET /a\x01 HTTP/1.1\r\n\r\n", HeadError::InvalidRequest),
            ("GET / HTTP/2.0\r\n\r\n", HeadError::InvalidVersion),
            ("GET / HTTP/1.1\r\nA : b\r\n\r\n", HeadError::InvalidHeader),
            (
                "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
                HeadError::InvalidHeader,
            ),
            ("GET / HTTP/1.1\r\nA: b\0\r\n\r\n", HeadError::InvalidHeader),
            (
                "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
                HeadError::InvalidHeader,
            ),
            (
                "GET / HTTP/1.1\r\nno colon\r\n\r\n",
                HeadError::InvalidHeader,
            ),
            ("GET / HTTP/1.1\r\n: v\r\n\r\n", HeadError::InvalidHeader),
            ("\x16\x03\x01", HeadError::InvalidMethod),
        ] {
            assert_eq!(parse_err(text), error, "{text:?}");
        }
    }

    #[test]
    fn odd_names_are_dropped_unless_allowed() {
        let text = "GET / HTTP/1.1\r\na_b: 1\r\nx!y: 2\r\nc: 3\r\n\r\n";
        assert_eq!(parse_ok(text).headers.len(), 1);
        let mut head = Head::default();
        let all = Limits {
            ignore_invalid: false,
            underscores: true,
            ..LIMITS
        };
        parse(text.as_bytes(), &mut head, &all).expect("valid");
        assert_eq!(head.headers.len(), 3);
    }

    #[test]
    fn long_lines_have_their_own_errors() {
        let long = "x".repeat(9000);
        assert_eq!(
            parse_err(&format!("GET /{long} HTTP/1.1\r\n\r\n")),
            HeadError::LineTooLong
        );
        assert_eq!(parse_err(&format!("GET /{long}")), HeadError::LineTooLong);
        assert_eq!(
            parse_err(&format!("GET / HTTP/1.1\r\nA: {long}\r\n\r\n")),
            HeadError::HeaderTooLarge
        );
    }

    /// Parse the fields with the general parser.
    fn by_every_rule(input: &[u8], head: &mut Head, limits: &Limits) -> Result<Parsed, HeadError> {
        head.clear();
        let mut pos = 0;
        while let Some((line, next)) = next_line(input, pos, limits.line) {
            let line = line.map_err(|_| HeadError::HeaderTooLarge)?;
            if next > limits.total {
                return Err(HeadError::HeaderTooLarge);
            }
            if line.is_empty() {
                return finish(head, input, next);
            }
            header_line(head, input, line, limits)?;
            pos = next;
        }
        check_partial(&input[pos..], false, limits)?;
        Ok(Parsed::Partial { started: true })
    }

    proptest! {
        #[test]
        fn usual_fields_are_read_as_every_rule_has_them(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "A", "a-b", "x_y", ":", ": ", " ", "\t", "\r", "\n", "\r\n", "\0", "value", "\x7f",
                    "Name: a value\r\n", "Long-Name: 0123456789abcdef \r\n", "B:c\r\n", "x_y: z\r\n",
                ]),
                0..12,
            ),
            line in 8usize..40,
            total in 20usize..100,
            headers in 1usize..4,
            ignore_invalid in any::<bool>(),
            underscores in any::<bool>(),
        ) {
            let text = pieces.concat() + "\r\n\r\n";
            let limits = Limits { line, total, headers, ignore_invalid, underscores };
            let (mut quick, mut slow) = (Head::default(), Head::default());
            let mut pos = 0;
            let read = fields(&mut quick, text.as_bytes(), 0, &mut pos, &limits);
            prop_assert_eq!(read, by_every_rule(text.as_bytes(), &mut slow, &limits));
            prop_assert_eq!(quick.headers, slow.headers);
        }

        #[test]
        fn any_split_of_a_request_parses_the_same(cut in 0usize..50) {
            let text = b"GET /abc?d=e HTTP/1.1\r\nHost: localhost\r\nX: y\r\n\r\n";
            let cut = cut.min(text.len() - 1);
            let mut head = Head::default();
            let partial = parse(&text[..cut], &mut head, &LIMITS).expect("no error");
            let is_partial = matches!(partial, Parsed::Partial { .. });
            prop_assert!(is_partial);
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(input in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut head = Head::default();
            if let Ok(Parsed::Complete { len }) = parse(&input, &mut head, &LIMITS) {
                prop_assert!(len <= input.len());
                for (name, value) in head.iter() {
                    prop_assert!(!name.is_empty());
                    prop_assert!(!value.contains(&b'\n'));
                }
            }
        }
    }
}
