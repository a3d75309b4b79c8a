//! Parsing of a CGI response head (RFC 3875, section 6) in a FastCGI stdout stream.
//!
//! Applications end lines with LF or CRLF; both are accepted. `Status` sets the status; without it,
//! the status is 302 if there is a `Location`, otherwise 200, as in nginx.

use memchr::{memchr, memchr2};
use std::ops::Range;

/// The reason for rejecting a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// The head exceeds the limit: `fastcgi_buffer_size` is too small.
    TooBig,
    /// The line at this byte offset is no header field.
    Line(usize),
    /// `Status` is no number from 100 to 999.
    Status,
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeadError::TooBig => f.write_str(
                "upstream sent too big header while reading response header from upstream",
            ),
            HeadError::Line(at) => write!(
                f,
                "upstream sent invalid header at byte {at} of its response"
            ),
            HeadError::Status => {
                f.write_str("upstream sent invalid status in the \"Status\" header")
            }
        }
    }
}

impl std::error::Error for HeadError {}

/// A parsed head. Names and values are ranges of [`ResponseHeadParser::bytes`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status code, 100 to 999.
    pub status: u16,
    /// The reason phrase after the status code, possibly empty.
    pub reason: Range<usize>,
    /// The fields in order, without `Status`; values have no surrounding blanks.
    pub fields: Vec<(Range<usize>, Range<usize>)>,
}

/// Collects stdout until the head is complete. The buffer is reused for the next response.
#[derive(Debug)]
pub struct ResponseHeadParser {
    buffer: Vec<u8>,
    limit: usize,
    /// The start of the incomplete line.
    line: usize,
    status: Option<(u16, Range<usize>)>,
    location: bool,
    fields: Vec<(Range<usize>, Range<usize>)>,
}

impl ResponseHeadParser {
    /// A parser that rejects heads longer than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            limit,
            line: 0,
            status: None,
            location: false,
            fields: Vec::new(),
        }
    }

    /// The bytes of the head, to which the ranges of a [`ResponseHead`] refer.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Add a piece of stdout. If this completes the head, return it and leave the following body
    /// bytes in `data`.
    ///
    /// # Errors
    /// The head is malformed or too long: respond with 502.
    pub fn push(&mut self, data: &mut &[u8]) -> Result<Option<ResponseHead>, HeadError> {
        while let Some(end) = memchr(b'\n', data) {
            self.append(&data[..=end])?;
            *data = &data[end + 1..];
            if self.finish_line()? {
                return Ok(Some(self.take_head()));
            }
        }
        self.append(data)?;
        *data = &[];
        Ok(None)
    }

    /// Prepare for another response with a head of up to `limit` bytes, reusing the memory.
    pub fn restart(&mut self, limit: usize) {
        self.buffer.clear();
        self.fields.clear();
        (self.limit, self.line, self.status, self.location) = (limit, 0, None, false);
    }

    /// Take back the memory of a head's fields.
    pub fn recycle(&mut self, head: ResponseHead) {
        self.fields = head.fields;
    }

    fn append(&mut self, piece: &[u8]) -> Result<(), HeadError> {
        if self.buffer.len() + piece.len() > self.limit {
            return Err(HeadError::TooBig);
        }
        self.buffer.extend_from_slice(piece);
        Ok(())
    }

    /// Parse the line at the end of the buffer; `true` for the empty line after the head.
    fn finish_line(&mut self) -> Result<bool, HeadError> {
        let start = self.line;
        let mut end = self.buffer.len() - 1;
        if end > start && self.buffer[end - 1] == b'\r' {
            end -= 1;
        }
        self.line = self.buffer.len();
        if end == start {
            return Ok(true);
        }
        // A status line, as applications with an HTTP server of their own send it.
        if self.buffer[start..end].starts_with(b"HTTP/") {
            return Ok(false);
        }
        let (name, value) = split_field(&self.buffer, start..end).ok_or(HeadError::Line(start))?;
        if self.buffer[name.clone()].eq_ignore_ascii_case(b"status") {
            // The first `Status` counts.
            if self.status.is_none() {
                self.status = Some(status_at(&self.buffer, value).ok_or(HeadError::Status)?);
            }
            return Ok(false);
        }
        self.location |= self.buffer[name.clone()].eq_ignore_ascii_case(b"location");
        self.fields.push((name, value));
        Ok(false)
    }

    fn take_head(&mut self) -> ResponseHead {
        let implied = if self.location { 302 } else { 200 };
        let (status, reason) = self.status.take().unwrap_or((implied, 0..0));
        ResponseHead {
            status,
            reason,
            fields: std::mem::take(&mut self.fields),
        }
    }
}

fn split_field(head: &[u8], line: Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let colon = line.start + memchr(b':', &head[line.clone()])?;
    let name = line.start..colon;
    let value = trim(head, colon + 1..line.end);
    let name_ok = !name.is_empty() && !head[name.clone()].iter().any(|&b| b <= 0x20 || b == 0x7f);
    let value_ok = memchr2(0, b'\r', &head[value.clone()]).is_none();
    (name_ok && value_ok).then_some((name, value))
}

fn trim(head: &[u8], mut range: Range<usize>) -> Range<usize> {
    let blank = |b: u8| b == b' ' || b == b'\t';
    while range.start < range.end && blank(head[range.start]) {
        range.start += 1;
    }
    while range.start < range.end && blank(head[range.end - 1]) {
        range.end -= 1;
    }
    range
}

fn status_at(head: &[u8], value: Range<usize>) -> Option<(u16, Range<usize>)> {
    let (code, _) = parse_status(&head[value.clone()])?;
    Some((code, trim(head, value.start + 3..value.end)))
}

/// Parse the value of `Status`: the status code, 100 to 999, and the reason phrase.
pub fn parse_status(value: &[u8]) -> Option<(u16, &[u8])> {
    let (digits, rest) = value.split_at_checked(3)?;
    if !digits.iter().all(u8::is_ascii_digit) || rest.first().is_some_and(|&b| b != b' ') {
        return None;
    }
    let code = digits.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0'));
    (code >= 100).then(|| (code, rest.trim_ascii()))
}
