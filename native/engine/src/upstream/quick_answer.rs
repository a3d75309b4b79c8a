//! Converts a complete upstream response to the client's response at the byte level.
//! [`super::answer`] does this for responses with special needs.

use super::answer::{is_passed, Head};
use super::form::Form;
use super::recipe::Recipe;
use crate::filters::may_compress;
use crate::status;
use crate::time::parse_http_date;
use crate::worker::Worker;
use gallop_conf::model::{next, LocConf};
use gallop_http::fastcgi::{self, Event, RecordReader, ResponseHeadParser};
use gallop_http::h1::{parse_length, parse_response, ResponseHead, Sender};
use gallop_http::token::is_name;
use std::borrow::Cow;
use std::cell::RefCell;

/// Information about a response that was written.
pub struct Framed {
    pub status: u16,
    /// Whether the connection to the server can be reused.
    pub keep: bool,
    /// Bytes received from the server, and bytes of the body.
    pub received: u64,
    pub body: u64,
    /// The position of the body in the written bytes, if there can be a body.
    pub body_at: Option<usize>,
    /// The server's head, if requests are logged.
    pub head: Option<Head>,
}

/// The properties of the request that the response depends on.
pub struct Request<'a> {
    pub conf: &'a LocConf,
    /// The output format.
    pub form: Form,
    /// Whether it is a HEAD request.
    pub asks_head: bool,
    /// Whether the client accepts any content coding.
    pub takes_encoded: bool,
}

/// The result of parsing the received bytes.
pub enum Said {
    Answer(Framed),
    /// The first part of a response; `head`: its head is complete.
    Part {
        head: bool,
    },
    /// The response needs a task, or there are bytes after it.
    Other,
}

thread_local! {
    static HEAD: RefCell<ResponseHead> = RefCell::default();
    static PARSER: RefCell<ResponseHeadParser> = RefCell::new(ResponseHeadParser::new(0));
}

/// The bytes received for a request.
pub struct Answer<'a> {
    pub worker: &'a Worker,
    pub recipe: &'a Recipe,
    pub request: Request<'a>,
    pub input: &'a [u8],
}

impl Answer<'_> {
    /// Write the client's response if exactly one complete response has arrived; otherwise the
    /// output is unusable.
    pub fn write(&self, out: &mut Vec<u8>) -> Said {
        out.clear();
        let said = match self.recipe.host {
            Some(_) => self.http(out),
            None => self.fastcgi(out),
        };
        said.unwrap_or(Said::Other)
    }

    fn limit(&self) -> usize {
        self.recipe.conf.buffer_size.unwrap_or(4096) as usize
    }

    fn http(&self, out: &mut Vec<u8>) -> Option<Said> {
        let (input, request) = (self.input, &self.request);
        HEAD.with_borrow_mut(|head| {
            let Some(len) = parse_response(input, head, Sender::Server).ok()? else {
                return (input.len() < self.limit()).then_some(Said::Part { head: false });
            };
            if len > self.limit() {
                return None;
            }
            let body = &input[len..];
            let seen = Seen::of(head.iter())?;
            let bodiless = request.asks_head || matches!(head.status, 204 | 304);
            // A bodiless response has the length that another request would get.
            let length = if bodiless { 0 } else { seen.length? };
            if length > body.len() as u64 {
                return Some(Said::Part { head: true });
            }
            if length < body.len() as u64 {
                return None;
            }
            let line = Line {
                status: head.status,
                reason: head.text(head.reason),
                length: seen.length,
                bodiless,
            };
            self.head(&line, &seen, head.iter(), out)?;
            let body_at = line.has_body().then_some(out.len());
            out.extend_from_slice(body);
            Some(Said::Answer(Framed {
                status: head.status,
                keep: seen.keep.unwrap_or(head.minor > 0),
                received: input.len() as u64,
                body: length,
                body_at,
                head: match self.recipe.is_logged {
                    true => Some(Head::from_http(head).ok()?),
                    false => None,
                },
            }))
        })
    }

    fn fastcgi(&self, out: &mut Vec<u8>) -> Option<Said> {
        PARSER.with_borrow_mut(|parser| {
            parser.restart(self.limit());
            let (head, body) = match records(self.input, parser)? {
                Records::Whole { head, body } => (head?, body),
                Records::Part { head } => return Some(Said::Part { head }),
            };
            let said = self.application(&head, &body, parser.bytes(), out);
            parser.recycle(head);
            said
        })
    }

    /// Parse an application's response. `bytes`: the buffer that the ranges of its head refer to.
    fn application(
        &self,
        head: &fastcgi::ResponseHead,
        body: &[u8],
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Said> {
        let text = |range: &std::ops::Range<usize>| &bytes[range.clone()];
        let fields = head.fields.iter().map(|(n, v)| (text(n), text(v)));
        let seen = Seen::of(fields.clone())?;
        // Fields that replace the server's own values are rare.
        if fields.clone().any(|(name, _)| is_own_word(name)) {
            return None;
        }
        let len = body.len() as u64;
        let bodiless = matches!(head.status, 204 | 304);
        if bodiless || seen.length.is_some_and(|l| l != len) {
            return None;
        }
        let line = Line {
            status: head.status,
            reason: text(&head.reason),
            length: seen.length,
            bodiless,
        };
        self.head(&line, &seen, fields, out)?;
        let body_at = line.has_body().then_some(out.len());
        if seen.length.is_none() && self.request.form == Form::Lines {
            chunked(body, out);
        } else {
            out.extend_from_slice(body);
        }
        Some(Said::Answer(Framed {
            status: head.status,
            keep: self.recipe.conf.keep_conn == Some(true),
            received: self.input.len() as u64,
            body: len,
            body_at,
            head: match self.recipe.is_logged {
                true => Some(Head::from_fastcgi(head, bytes).ok()?),
                false => None,
            },
        }))
    }

    /// Write the head; `None` if the response needs a task.
    fn head<'a>(
        &self,
        line: &Line<'_>,
        seen: &Seen<'_>,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let (recipe, form, status) = (self.recipe, self.request.form, line.status);
        // Interim responses, protocol changes, and responses that lead to another server need a
        // task.
        let is_last = status >= 200 && next::of_status(status) & recipe.conf.next_servers() == 0;
        if !is_last || seen.is_compressed(&self.request, status) {
            return None;
        }
        let reason = match line.reason {
            b"" => status::reason(status).as_bytes(),
            reason => reason,
        };
        let fixed = recipe.fixed(form);
        form.begin(out, status, reason);
        out.extend_from_slice(&fixed.server);
        form.date(out, self.worker);
        entity(form, line, seen, out);
        out.extend_from_slice(&fixed.connection);
        let http1 = form == Form::Lines;
        let passed =
            |name: &[u8]| is_passed(&recipe.conf, name, http1, recipe.giver()) && form.allows(name);
        for (i, (name, value)) in fields.enumerate() {
            if seen.placed & (1 << i) == 0 && passed(name) {
                form.field(out, name, value);
            }
        }
        out.extend_from_slice(recipe.added(form, status));
        if let Some(etag) = seen.etag {
            form.field(out, b"ETag", etag);
        }
        if form == Form::Lines {
            out.extend_from_slice(b"\r\n");
        }
        Some(())
    }
}

/// Write the fields about the body.
fn entity(form: Form, line: &Line<'_>, seen: &Seen<'_>, out: &mut Vec<u8>) {
    let status = line.status;
    let has_type = status != 204 || form == Form::Lines && !line.reason.is_empty();
    if let Some(value) = seen.content_type.filter(|v| has_type && !v.is_empty()) {
        form.field(out, b"Content-Type", value);
    }
    if let Some(length) = line.length.filter(|_| status != 204) {
        form.length(out, length);
    }
    if let Some(modified) = seen.modified {
        form.field(out, b"Last-Modified", modified);
    }
    if line.length.is_none() && !line.bodiless && form == Form::Lines {
        form.field(out, b"Transfer-Encoding", b"chunked");
    }
}

fn is_own_word(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"server") || name.eq_ignore_ascii_case(b"date")
}

/// The content of FastCGI records.
enum Records<'a> {
    Whole {
        head: Option<fastcgi::ResponseHead>,
        body: Cow<'a, [u8]>,
    },
    /// The first part of a response; `head`: its head is complete.
    Part { head: bool },
}

/// Parse FastCGI records; `None` if they cannot be passed on unchanged.
fn records<'a>(input: &'a [u8], parser: &mut ResponseHeadParser) -> Option<Records<'a>> {
    let mut reader = RecordReader::default();
    let mut rest = input;
    let (mut head, mut body) = (None, Cow::<[u8]>::default());
    while !reader.is_done() {
        let Some(event) = reader.next(&mut rest).ok()? else {
            let head = head.is_some();
            return Some(Records::Part { head });
        };
        match event {
            Event::Stdout(mut data) => {
                if head.is_none() {
                    head = parser.push(&mut data).ok()?;
                }
                if body.is_empty() {
                    body = Cow::Borrowed(data);
                } else {
                    body.to_mut().extend_from_slice(data);
                }
            }
            Event::StdoutEnd if head.is_none() => return None,
            Event::StdoutEnd => {}
            // The connection must not be reused.
            Event::End { .. } if !reader.is_clean() => return None,
            Event::End { .. } => {}
            // Output on standard error is logged.
            Event::Stderr(_) | Event::StderrEnd => return None,
        }
    }
    rest.is_empty().then_some(Records::Whole { head, body })
}

fn chunked(body: &[u8], out: &mut Vec<u8>) {
    if !body.is_empty() {
        hexadecimal(body.len(), out);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
}

/// Append a number in the format of chunk sizes.
fn hexadecimal(number: usize, out: &mut Vec<u8>) {
    let digits = (usize::BITS - number.leading_zeros()).div_ceil(4).max(1);
    let digit = |i| b"0123456789abcdef"[number >> (4 * i) & 15];
    out.extend((0..digits).rev().map(digit));
}

/// Fields with a special role in the response head.
#[derive(Default)]
struct Seen<'a> {
    content_type: Option<&'a [u8]>,
    length: Option<u64>,
    modified: Option<&'a [u8]>,
    etag: Option<&'a [u8]>,
    encoded: bool,
    /// The meaning of `Connection`.
    keep: Option<bool>,
    /// Bits of the fields, by index, that are written elsewhere or replaced by the server's own.
    placed: u64,
}

impl<'a> Seen<'a> {
    /// Sort the fields; `None` if a field needs a task, or appears twice but must not.
    fn of(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<Seen<'a>> {
        let mut seen = Seen::default();
        let mut expires = false;
        for (i, (name, value)) in fields.enumerate() {
            if i == u64::BITS as usize {
                return None;
            }
            let mut placed = true;
            let again = match name.len() {
                4 if is_name(name, b"etag") => seen.etag.replace(value).is_some(),
                4 if is_name(name, b"date") => false,
                6 if is_name(name, b"server") => false,
                10 if is_name(name, b"connection") => seen.keep.replace(keeps(value)?).is_some(),
                12 if is_name(name, b"content-type") => seen.content_type.replace(value).is_some(),
                13 if is_name(name, b"last-modified") => {
                    // A date in another spelling is not passed on unchanged.
                    parse_http_date(value).filter(|_| value.len() == 29)?;
                    seen.modified.replace(value).is_some()
                }
                14 if is_name(name, b"content-length") => {
                    seen.length.replace(parse_length(value)?).is_some()
                }
                _ => {
                    placed = false;
                    seen.asks_no_more(name, &mut expires)?
                }
            };
            if again {
                return None;
            }
            seen.placed |= u64::from(placed) << i;
        }
        Some(seen)
    }

    /// Whether another field was seen before but must not appear twice. `None` if it needs a task.
    fn asks_no_more(&mut self, name: &[u8], expires: &mut bool) -> Option<bool> {
        Some(match name.len() {
            7 if is_name(name, b"expires") => std::mem::replace(expires, true),
            7 if is_name(name, b"refresh") || is_name(name, b"upgrade") => return None,
            8 if is_name(name, b"location") => return None,
            16 if is_name(name, b"content-encoding") => std::mem::replace(&mut self.encoded, true),
            17 if is_name(name, b"transfer-encoding") => return None,
            14.. if is_name(&name[..8], b"x-accel-") => return None,
            _ => false,
        })
    }

    /// Whether compression prevents sending the response unchanged.
    fn is_compressed(&self, request: &Request<'_>, status: u16) -> bool {
        let kind = self.content_type;
        request.takes_encoded
            && !self.encoded
            && may_compress(request.conf, status, self.length, kind)
    }
}

/// The content of the status line, and the body's length if known.
struct Line<'a> {
    status: u16,
    reason: &'a [u8],
    length: Option<u64>,
    /// There is no body regardless of the length.
    bodiless: bool,
}

impl Line<'_> {
    fn has_body(&self) -> bool {
        !self.bodiless && self.length != Some(0)
    }
}

/// Parse `Connection`; `None` for other options than those about keeping the connection.
fn keeps(value: &[u8]) -> Option<bool> {
    match value.len() {
        10 if is_name(value, b"keep-alive") => Some(true),
        5 if is_name(value, b"close") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::hexadecimal;

    #[test]
    fn chunk_sizes_are_written_as_the_formatter_does() {
        for number in [
            0,
            1,
            9,
            15,
            16,
            255,
            256,
            0xfff,
            0x1000,
            65_535,
            1 << 32,
            usize::MAX,
        ] {
            let mut out = Vec::new();
            hexadecimal(number, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), format!("{number:x}"));
        }
    }
}
