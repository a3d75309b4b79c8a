//! A request head, independent of the protocol version.

/// Bytes `start..end` of [`Head::buf`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// The three digits of a status in every version of HTTP; `return 99` becomes `099`, as in nginx.
/// No configuration and no upstream can set a status above 999; 500 replaces such a value.
pub fn status_digits(status: u16) -> [u8; 3] {
    let status = if status > 999 { 500 } else { status };
    [status / 100, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    Http09,
    Http10,
    #[default]
    Http11,
    Http2,
    Http3,
}

impl Version {
    /// The name in `$server_protocol`.
    pub fn name(self) -> &'static str {
        match self {
            Version::Http09 => "HTTP/0.9",
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: Span,
    pub value: Span,
}

/// A request head. All text is in one buffer, so that the head can be reused without allocation.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub buf: Vec<u8>,
    pub method: Span,
    /// The request target as received (origin form, or absolute form in HTTP/1).
    pub target: Span,
    /// The scheme and authority, from an absolute target or from pseudo-header fields.
    pub scheme: Span,
    pub authority: Span,
    /// The target from its path on; empty if an absolute target has no path.
    pub path: Span,
    /// The request line as received (HTTP/1 only).
    pub line: Span,
    pub version: Version,
    pub headers: Vec<Header>,
}

impl Head {
    pub fn clear(&mut self) {
        self.buf.clear();
        self.headers.clear();
        (self.method, self.target, self.path) = Default::default();
        (self.scheme, self.authority, self.line) = Default::default();
        self.version = Version::Http11;
    }

    pub fn text(&self, span: Span) -> &[u8] {
        &self.buf[span.start as usize..span.end as usize]
    }

    /// Append text and return its position.
    pub fn store(&mut self, text: &[u8]) -> Span {
        let start = self.buf.len() as u32;
        self.buf.extend_from_slice(text);
        Span {
            start,
            end: self.buf.len() as u32,
        }
    }

    pub fn push_header(&mut self, name: &[u8], value: &[u8]) {
        let (name, value) = (self.store(name), self.store(value));
        self.headers.push(Header { name, value });
    }

    pub fn method(&self) -> &[u8] {
        self.text(self.method)
    }

    /// The name and value of each header field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.headers
            .iter()
            .map(|h| (self.text(h.name), self.text(h.value)))
    }

    /// The first field with that name, in any case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, v)| v)
    }

    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let wanted = move |h: &&Header| {
            h.name.len() == name.len() && self.text(h.name).eq_ignore_ascii_case(name.as_bytes())
        };
        self.headers
            .iter()
            .filter(wanted)
            .map(|h| self.text(h.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_any_case_and_in_order() {
        let mut head = Head::default();
        head.push_header(b"Host", b"a");
        head.push_header(b"X-A", b"1");
        head.push_header(b"x-a", b"2");
        assert_eq!(head.get("host"), Some(&b"a"[..]));
        assert_eq!(head.get_all("X-a").collect::<Vec<_>>(), [&b"1"[..], b"2"]);
        assert_eq!(head.get("nope"), None);
    }
}
