//! Request heads of HTTP/2 and HTTP/3, collected from a field section and validated by RFC 9113,
//! section 8, and RFC 9114, section 4, which agree.

use crate::message::{Head, Version};
use crate::token::is_tchar;
use std::cell::Cell;

/// The limits for a head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// The most bytes of all names and values. As in nginx, this excludes the 32 bytes per field of
    /// SETTINGS_MAX_HEADER_LIST_SIZE and SETTINGS_MAX_FIELD_SECTION_SIZE.
    pub size: usize,
    /// The most bytes of a name or a value.
    pub field: usize,
    /// The most fields.
    pub fields: usize,
}

impl Default for HeadLimits {
    /// nginx's limits: four buffers of 8 KB, and the default of `max_headers`.
    fn default() -> Self {
        Self {
            size: 32 * 1024,
            field: 8 * 1024,
            fields: 1000,
        }
    }
}

/// The reason for rejecting a head. All except `TooLarge` and `TooMany` mean that the request is
/// malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// More bytes than [`HeadLimits`] allow.
    TooLarge,
    /// More fields than [`HeadLimits`] allow.
    TooMany,
    /// A field name is empty, or contains upper-case letters or characters not allowed in a token.
    Name,
    /// A value contains NUL, CR, or LF, or has surrounding blanks.
    Value,
    /// A pseudo-header is unknown, repeated, or late.
    Pseudo,
    /// `:method`, `:scheme`, or `:path` is missing or malformed.
    RequestLine,
    /// A field that concerns a single HTTP/1.1 connection.
    ConnectionSpecific,
    /// `content-length` is repeated or no number.
    ContentLength,
    /// `host` is repeated or differs from `:authority`.
    Host,
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HeadError::TooLarge => "client sent too large request header",
            HeadError::TooMany => "client sent too many header lines",
            HeadError::Name => "client sent invalid header name",
            HeadError::Value => "client sent invalid header value",
            HeadError::Pseudo => "client sent an unknown, duplicate or misplaced pseudo-header",
            HeadError::RequestLine => {
                "client sent no valid \":method\", \":scheme\" or \":path\" header"
            }
            HeadError::ConnectionSpecific => "client sent a connection-specific header",
            HeadError::ContentLength => "client sent invalid \"Content-Length\" header",
            HeadError::Host => "client sent duplicate or conflicting \"Host\" header",
        })
    }
}

impl std::error::Error for HeadError {}

/// Start and length in [`RequestHead::bytes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    at: u32,
    len: u32,
}

/// A complete and valid request head.
#[derive(Debug, Default)]
pub struct RequestHead {
    bytes: Vec<u8>,
    fields: Vec<(Span, Span)>,
    method: Option<Span>,
    scheme: Option<Span>,
    path: Option<Span>,
    authority: Option<Span>,
    host: Option<Span>,
    content_length: Option<u64>,
    encoded: usize,
    note: Cell<u64>,
}

impl RequestHead {
    fn text(&self, span: Span) -> &[u8] {
        &self.bytes[span.at as usize..][..span.len as usize]
    }

    fn optional(&self, span: Option<Span>) -> &[u8] {
        span.map_or(&[], |span| self.text(span))
    }

    /// The method: a token.
    pub fn method(&self) -> &[u8] {
        self.optional(self.method)
    }

    /// The scheme; empty for CONNECT.
    pub fn scheme(&self) -> &[u8] {
        self.optional(self.scheme)
    }

    /// The path and query, beginning with a slash; `*` for OPTIONS, empty for CONNECT.
    pub fn path(&self) -> &[u8] {
        self.optional(self.path)
    }

    /// `:authority`, otherwise `host`; `None` if neither was sent.
    pub fn authority(&self) -> Option<&[u8]> {
        self.authority.or(self.host).map(|span| self.text(span))
    }

    /// The fields in order, without pseudo-headers; names are in lower case.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .map(|&(n, v)| (self.text(n), self.text(v)))
    }

    /// The announced length of the body in bytes.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// The size of the field section in bytes, for `$request_length`.
    pub fn size(&self) -> usize {
        self.encoded
    }

    /// Write the head in the format that all protocol versions share. Split cookies are joined (RFC
    /// 9113, section 8.2.3); a request line is constructed for the log.
    pub fn copy_to(&self, head: &mut Head, version: Version) {
        head.clear();
        head.version = version;
        head.buf.reserve(self.bytes.len() * 2 + 16);
        head.method = head.store(self.method());
        head.scheme = head.store(self.scheme());
        head.authority = head.store(self.optional(self.authority));
        head.path = head.store(self.path());
        head.target = head.path;
        let line = [
            self.method(),
            b" ",
            self.path(),
            b" ",
            version.name().as_bytes(),
        ];
        head.line = head.store(&line.concat());
        // Applications and `$http_host` expect the name in a `Host` field, as in HTTP/1.
        if let (Some(authority), None) = (self.authority, self.host) {
            head.push_header(b"host", self.text(authority));
        }
        let is_cookie = |name: &[u8]| name == b"cookie";
        for (name, value) in self.fields().filter(|(name, _)| !is_cookie(name)) {
            head.push_header(name, value);
        }
        let crumbs: Vec<&[u8]> = self
            .fields()
            .filter(|(n, _)| is_cookie(n))
            .map(|(_, v)| v)
            .collect();
        if !crumbs.is_empty() {
            head.push_header(b"cookie", &crumbs.join(&b"; "[..]));
        }
    }

    /// A number for the owner's use, initially 0: equal sections share a head, so the owner can
    /// store information about it.
    pub fn note(&self) -> u64 {
        self.note.get()
    }

    /// Set [`RequestHead::note`].
    pub fn set_note(&self, note: u64) {
        self.note.set(note);
    }
}

/// Collects a field section. After the first error, fields are only counted.
#[derive(Debug)]
pub struct HeadBuilder {
    head: RequestHead,
    limits: HeadLimits,
    size: usize,
    regular: bool,
    error: Option<HeadError>,
}

impl HeadBuilder {
    /// An empty builder.
    pub fn new(limits: HeadLimits) -> Self {
        Self {
            head: RequestHead::default(),
            limits,
            size: 0,
            regular: false,
            error: None,
        }
    }

    /// Add the next field of the section.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.error.is_none() {
            self.error = self.add(name, value).err();
        }
    }

    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        self.size += name.len() + value.len();
        let limits = &self.limits;
        if self.size > limits.size || name.len().max(value.len()) > limits.field {
            return Err(HeadError::TooLarge);
        }
        if self.head.fields.len() >= limits.fields {
            return Err(HeadError::TooMany);
        }
        check_value(value)?;
        if let Some(pseudo) = name.strip_prefix(b":") {
            return self.pseudo(pseudo, value);
        }
        check_name(name)?;
        self.regular = true;
        let name_span = self.push(name);
        let value_span = self.push(value);
        self.known(name, value, value_span)?;
        self.head.fields.push((name_span, value_span));
        Ok(())
    }

    fn push(&mut self, text: &[u8]) -> Span {
        let at = self.head.bytes.len() as u32;
        self.head.bytes.extend_from_slice(text);
        let len = text.len() as u32;
        Span { at, len }
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        let span = self.push(value);
        let place = match name {
            b"method" => &mut self.head.method,
            b"scheme" => &mut self.head.scheme,
            b"path" => &mut self.head.path,
            b"authority" => &mut self.head.authority,
            _ => return Err(HeadError::Pseudo),
        };
        if self.regular || place.replace(span).is_some() {
            return Err(HeadError::Pseudo);
        }
        Ok(())
    }

    /// Handle fields with a meaning for the message itself.
    fn known(&mut self, name: &[u8], value: &[u8], span: Span) -> Result<(), HeadError> {
        match name {
            b"content-length" => {
                let length = parse_length(value).ok_or(HeadError::ContentLength)?;
                if self.head.content_length.replace(length).is_some() {
                    return Err(HeadError::ContentLength);
                }
            }
            b"host" if self.head.host.replace(span).is_some() => return Err(HeadError::Host),
            b"te" if value != b"trailers" => return Err(HeadError::ConnectionSpecific),
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => return Err(HeadError::ConnectionSpecific),
            _ => {}
        }
        Ok(())
    }

    /// The head, if it is valid as a whole; `encoded` is the size of its section in bytes.
    ///
    /// # Errors
    /// The first problem of the head.
    pub fn finish(mut self, encoded: usize) -> Result<RequestHead, HeadError> {
        match self.error {
            Some(error) => Err(error),
            None => {
                check_request(&self.head)?;
                self.head.encoded = encoded;
                Ok(self.head)
            }
        }
    }

    /// Validate the section as trailers, without pseudo-headers. Trailers are not kept.
    ///
    /// # Errors
    /// The first problem of the trailers.
    pub fn finish_trailers(self) -> Result<(), HeadError> {
        let head = &self.head;
        match self.error {
            Some(error) => Err(error),
            None if [head.method, head.scheme, head.path, head.authority] != [None; 4] => {
                Err(HeadError::Pseudo)
            }
            None => Ok(()),
        }
    }
}

fn check_name(name: &[u8]) -> Result<(), HeadError> {
    let valid = |&b: &u8| is_tchar(b) && !b.is_ascii_uppercase();
    if name.is_empty() || !name.iter().all(valid) {
        return Err(HeadError::Name);
    }
    Ok(())
}

fn check_value(value: &[u8]) -> Result<(), HeadError> {
    let blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    let bad = value
        .iter()
        .fold(false, |bad, &b| bad | matches!(b, 0 | b'\r' | b'\n'));
    if bad || blank(value.first()) || blank(value.last()) {
        return Err(HeadError::Value);
    }
    Ok(())
}

/// Parse decimal digits, up to 2^63 - 1.
fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = value
        .iter()
        .fold(0, |n: u64, d| n * 10 + u64::from(d - b'0'));
    i64::try_from(length).is_ok().then_some(length)
}

fn check_request(head: &RequestHead) -> Result<(), HeadError> {
    let method = head.method();
    // RFC 9110, section 9.1, allows any token; nginx accepts only these characters in all versions.
    let known = |b: &u8| b.is_ascii_uppercase() || matches!(b, b'_' | b'-');
    if method.is_empty() || !method.iter().all(known) {
        return Err(HeadError::RequestLine);
    }
    let valid = if method == b"CONNECT" {
        // The engine rejects CONNECT, with or without its special fields.
        head.authority.is_some()
    } else {
        is_scheme(head.scheme()) && is_path(head.path(), method)
    };
    if !valid {
        return Err(HeadError::RequestLine);
    }
    match (head.authority, head.host) {
        (Some(a), Some(h)) if !head.text(a).eq_ignore_ascii_case(head.text(h)) => {
            Err(HeadError::Host)
        }
        _ => Ok(()),
    }
}

fn is_scheme(scheme: &[u8]) -> bool {
    let rest = |&b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    scheme.first().is_some_and(u8::is_ascii_alphabetic) && scheme.iter().all(rest)
}

fn is_path(path: &[u8], method: &[u8]) -> bool {
    let printable = |&b: &u8| b > b' ' && b != 0x7f;
    let begins = path.first() == Some(&b'/') || (path == b"*" && method == b"OPTIONS");
    begins && path.iter().all(printable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/a?b"),
        (":authority", "example.org"),
    ];

    fn build(fields: &[(&str, &str)]) -> HeadBuilder {
        let mut builder = HeadBuilder::new(HeadLimits::default());
        for (name, value) in fields {
            builder.field(name.as_bytes(), value.as_bytes());
        }
        builder
    }

    fn with(more: &[(&str, &str)]) -> Result<RequestHead, HeadError> {
        build(&[&GET, more].concat()).finish(0)
    }

    #[test]
    fn a_request_is_taken_apart() {
        let head = with(&[
            ("accept", "*/*"),
            ("content-length", "12"),
            ("te", "trailers"),
        ])
        .unwrap();
        assert_eq!(head.method(), b"GET");
        assert_eq!(head.scheme(), b"https");
        assert_eq!(head.path(), b"/a?b");
        assert_eq!(head.authority(), Some(&b"example.org"[..]));
        assert_eq!(head.content_length(), Some(12));
        let fields: Vec<_> = head.fields().collect();
        assert_eq!(fields[0], (&b"accept"[..], &b"*/*"[..]));
        assert_eq!(fields.len(), 3);
    }

    #[test]
    fn it_is_copied_to_the_common_form() {
        let cookies = [("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2")];
        let mut head = Head::default();
        with(&cookies).unwrap().copy_to(&mut head, Version::Http2);
        assert_eq!(head.text(head.line), b"GET /a?b HTTP/2.0");
        assert_eq!(
            (head.text(head.path), head.text(head.target)),
            (&b"/a?b"[..], &b"/a?b"[..])
        );
        assert_eq!(head.text(head.authority), b"example.org");
        assert_eq!(head.get("cookie"), Some(&b"a=1; b=2"[..]));
        assert_eq!(head.get("host"), Some(&b"example.org"[..]));
        assert_eq!(head.headers.len(), 3);
    }

    #[test]
    fn host_stands_in_for_authority() {
        let head = build(&[GET[0], GET[1], GET[2], ("host", "h")])
            .finish(0)
            .unwrap();
        assert_eq!(head.authority(), Some(&b"h"[..]));
        assert_eq!(build(&GET[..3]).finish(0).unwrap().authority(), None);
        assert!(with(&[("host", "EXAMPLE.org")]).is_ok());
    }

    #[test]
    fn malformed_requests_are_refused() {
        use HeadError::*;
        let cases: [(&[(&str, &str)], HeadError); 24] = [
            (&[("X-Upper", "1")], Name),
            (&[("", "1")], Name),
            (&[("a b", "1")], Name),
            (&[("a:", "1")], Name),
            (&[("a", "x\r\ny")], Value),
            (&[("a", "x\0")], Value),
            (&[("a", " x")], Value),
            (&[("a", "x\t")], Value),
            (&[(":method", "GET")], Pseudo),
            (&[(":path", "/")], Pseudo),
            (&[(":scheme", "http")], Pseudo),
            (&[(":status", "200")], Pseudo),
            (&[(":protocol", "websocket")], Pseudo),
            (&[("a", "1"), (":authority", "x")], Pseudo),
            (&[("connection", "close")], ConnectionSpecific),
            (&[("transfer-encoding", "chunked")], ConnectionSpecific),
            (&[("upgrade", "h2c")], ConnectionSpecific),
            (&[("te", "gzip")], ConnectionSpecific),
            (&[("content-length", "+1")], ContentLength),
            (&[("content-length", "9223372036854775808")], ContentLength),
            (&[("content-length", "99999999999999999999")], ContentLength),
            (
                &[("content-length", "1"), ("content-length", "1")],
                ContentLength,
            ),
            (&[("host", "other.example")], Host),
            (&[("host", "example.org"), ("host", "example.org")], Host),
        ];
        for (more, error) in cases {
            assert_eq!(with(more).unwrap_err(), error, "{more:?}");
        }
    }

    #[test]
    fn the_request_line_must_be_whole() {
        for missing in 0..3 {
            let mut fields = GET.to_vec();
            fields.remove(missing);
            assert_eq!(
                build(&fields).finish(0).unwrap_err(),
                HeadError::RequestLine
            );
        }
        for (at, value) in [
            (0, ""),
            (0, "G T"),
            (1, ""),
            (1, "1x"),
            (2, ""),
            (2, "a"),
            (2, "*"),
            (2, "/a b"),
        ] {
            let mut fields = GET.to_vec();
            fields[at].1 = value;
            assert!(build(&fields).finish(0).is_err(), "{:?}", fields[at]);
        }
        let star = [(":method", "OPTIONS"), (":scheme", "http"), (":path", "*")];
        assert!(build(&star).finish(0).is_ok());
    }

    #[test]
    fn connect_has_an_authority() {
        assert!(build(&[(":method", "CONNECT"), (":authority", "x:1")])
            .finish(0)
            .is_ok());
        assert!(build(&[(":method", "CONNECT")]).finish(0).is_err());
    }

    #[test]
    fn trailers_have_no_pseudo_headers() {
        assert_eq!(build(&[("x-sum", "1")]).finish_trailers(), Ok(()));
        assert_eq!(
            build(&[(":path", "/")]).finish_trailers(),
            Err(HeadError::Pseudo)
        );
        assert_eq!(build(&[("X", "1")]).finish_trailers(), Err(HeadError::Name));
    }

    #[test]
    fn size_and_number_are_limited() {
        let limits = HeadLimits {
            size: 200,
            field: 120,
            fields: 3,
        };
        for (name, value) in [("a", "x".repeat(121)), (&"x".repeat(121), "a".into())] {
            let mut one = HeadBuilder::new(limits);
            one.field(name.as_bytes(), value.as_bytes());
            assert_eq!(one.finish(0).unwrap_err(), HeadError::TooLarge);
        }
        let mut long = HeadBuilder::new(limits);
        for _ in 0..1000 {
            long.field(b"a", &[b'x'; 100]);
        }
        assert!(long.head.bytes.len() <= 200);
        assert_eq!(long.finish(0).unwrap_err(), HeadError::TooLarge);
        let mut many = HeadBuilder::new(limits);
        for _ in 0..4 {
            many.field(b"a", b"");
        }
        assert_eq!(many.finish(0).unwrap_err(), HeadError::TooMany);
    }
}
