//! The head of a request to an HTTP server.

use crate::escape::Shown;
use crate::exchange::{Exchange, Received};
use crate::template;
use gallop_conf::model::{items, Level, Param, UpConf};
use gallop_http::token::is_tchar;
use std::io::Write;
use std::rc::Rc;

/// The form of a request on the wire, and the rules that go with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Http1,
    Http2,
    Grpc,
}

pub struct HttpRequest {
    pub wire: Wire,
    pub uri: Rc<[u8]>,
    /// The `Host` value unless the configuration sets one.
    pub host: String,
    /// Whether to send GET instead of HEAD, because a cache needs the body.
    pub as_get: bool,
}

/// The way that the body's length is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    None,
    Known(u64),
    Chunked,
}

/// Fields that belong to one connection or that the server sets itself.
const OWN: [&str; 9] = [
    "host",
    "connection",
    "proxy-connection",
    "content-length",
    "transfer-encoding",
    "te",
    "keep-alive",
    "expect",
    "upgrade",
];

/// The length of the request body.
pub fn body_length(ex: &Exchange, conf: &UpConf) -> BodyLength {
    if conf.pass_request_body == Some(false) {
        return BodyLength::None;
    }
    match &ex.received {
        Some(Received::Memory(b)) if b.is_empty() => match ex.content_length {
            // This also holds for a discarded body, which will not be sent.
            Some(_) => BodyLength::Known(0),
            None if ex.chunked => BodyLength::Known(0),
            None => BodyLength::None,
        },
        Some(body) => BodyLength::Known(body.len()),
        None if ex.chunked => BodyLength::Chunked,
        None => ex
            .content_length
            .map_or(BodyLength::None, BodyLength::Known),
    }
}

impl HttpRequest {
    /// The length of the body that is sent.
    pub fn length(&self, body: Option<&Vec<u8>>, ex: &Exchange, conf: &UpConf) -> BodyLength {
        match body {
            Some(body) => BodyLength::Known(body.len() as u64),
            None => body_length(ex, conf),
        }
    }

    /// The body that the configuration sets.
    pub fn set_body(&self, ex: &Exchange, conf: &UpConf) -> Option<Vec<u8>> {
        conf.set_body.as_ref().map(|t| template::eval(ex, t))
    }

    /// Write the method.
    pub fn method(&self, ex: &Exchange, conf: &UpConf, out: &mut Vec<u8>) {
        match &conf.method {
            // A response for a cache is always requested with GET.
            _ if self.as_get => out.extend_from_slice(b"GET"),
            Some(t) => own_method(ex, t, out),
            None => out.extend_from_slice(ex.method()),
        }
    }

    /// The head in HTTP/1.
    pub fn encode(&self, ex: &Exchange, conf: &UpConf, length: BodyLength) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        self.method(ex, conf, &mut out);
        head(ex, conf, &self.uri, &self.host, length, &mut out);
        out
    }
}

/// The method of `proxy_method`, or the client's if a variable gives an invalid one.
fn own_method(ex: &Exchange, method: &template::Template, out: &mut Vec<u8>) {
    let value = template::eval(ex, method);
    if !value.is_empty() && value.iter().all(|&c| is_tchar(c)) {
        return out.extend_from_slice(&value);
    }
    let message = format!(
        "\"{}\" in \"proxy_method\" is no method, the client's is used",
        Shown(&value)
    );
    ex.log(Level::Error, &message);
    out.extend_from_slice(ex.method());
}

/// Write the rest of the head after the method. `host`: used if the configuration sets none.
pub fn head(
    ex: &Exchange,
    conf: &UpConf,
    uri: &[u8],
    host: &str,
    length: BodyLength,
    out: &mut Vec<u8>,
) {
    out.push(b' ');
    out.extend_from_slice(uri);
    out.extend_from_slice(match conf.http_version {
        Some(1000) => b" HTTP/1.0\r\n",
        _ => b" HTTP/1.1\r\n",
    });
    own_headers(ex, conf, host, length, out);
    client_headers(ex, conf, out);
    out.extend_from_slice(b"\r\n");
}

fn own_headers(ex: &Exchange, conf: &UpConf, host: &str, length: BodyLength, out: &mut Vec<u8>) {
    let set = items(&conf.set_headers);
    let is_set = |name: &str| set.iter().any(|h| h.name.eq_ignore_ascii_case(name));
    host_field(ex, conf, host, out);
    for header in set.iter().filter(|h| !is_host(h)) {
        set_field(ex, header, out);
    }
    for (name, value) in own_conditions(ex) {
        if !is_set(name) {
            field(out, name.as_bytes(), &value);
        }
    }
    match length {
        BodyLength::Known(n) if !is_set("content-length") => {
            // Writing to a vector cannot fail.
            let _ = write!(out, "Content-Length: {n}\r\n");
        }
        BodyLength::Chunked if !is_set("transfer-encoding") => {
            field(out, b"Transfer-Encoding", b"chunked");
        }
        _ => {}
    }
}

fn is_host(header: &Param) -> bool {
    header.name.eq_ignore_ascii_case("host")
}

/// Write the only `Host` field. HTTP/1.1 requires one: if the configured value is empty, the
/// server's own name `host` is sent.
fn host_field(ex: &Exchange, conf: &UpConf, host: &str, out: &mut Vec<u8>) {
    let start = out.len();
    // As in nginx, the last setting of the configuration wins.
    let set = items(&conf.set_headers).iter().find(|h| is_host(h));
    if let Some(header) = set {
        set_field(ex, header, out);
    }
    let needed = set.is_none() || conf.http_version != Some(1000);
    if out.len() == start && needed {
        field(out, b"Host", host.as_bytes());
    }
}

/// Write a field that the configuration sets, unless its value is empty.
fn set_field(ex: &Exchange, header: &Param, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(header.name.as_bytes());
    out.extend_from_slice(b": ");
    let value = out.len();
    template::eval_into(ex, &header.value, out);
    if out.len() == value {
        return out.truncate(start);
    }
    break_no_line(&mut out[value..]);
    out.extend_from_slice(b"\r\n");
}

/// Fields that request less than the whole response, which a cache needs.
const CONDITIONS: [&str; 6] = [
    "if-modified-since",
    "if-unmodified-since",
    "if-none-match",
    "if-match",
    "range",
    "if-range",
];

/// Whether a client's field is withheld because the response is for a cache.
pub fn is_withheld(ex: &Exchange, name: &[u8]) -> bool {
    ex.cached.as_ref().is_some_and(|n| n.cacheable)
        && CONDITIONS
            .iter()
            .any(|c| name.eq_ignore_ascii_case(c.as_bytes()))
}

/// The conditions to revalidate a stale response.
pub fn own_conditions(ex: &Exchange) -> Vec<(&'static str, Vec<u8>)> {
    let Some(note) = ex.cached.as_ref().filter(|n| n.cacheable) else {
        return Vec::new();
    };
    let since = note
        .last_modified
        .map(|t| crate::time::http_date(t).into_bytes());
    let etag = Some(note.etag.clone()).filter(|e| !e.is_empty());
    let fields = [("If-Modified-Since", since), ("If-None-Match", etag)];
    fields
        .into_iter()
        .filter_map(|(n, v)| Some((n, v?)))
        .collect()
}

fn client_headers(ex: &Exchange, conf: &UpConf, out: &mut Vec<u8>) {
    for (name, value) in passed_fields(ex, conf) {
        field(out, name, value);
    }
}

/// The client's fields that are passed on.
pub(super) fn passed_fields<'a>(
    ex: &'a Exchange,
    conf: &'a UpConf,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let set = items(&conf.set_headers);
    // Fields that `Connection` names concern only the client's connection.
    let ends_here = move |name: &[u8]| {
        let words = ex.head.get_all("connection");
        let mut words = words.flat_map(|v| v.split(|&c| c == b','));
        words.any(|w| w.trim_ascii().eq_ignore_ascii_case(name))
    };
    let names_any = ex.head.get("connection").is_some();
    let is_skipped = move |name: &[u8]| {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        OWN.iter().any(|n| is(n))
            || set.iter().any(|h| is(&h.name))
            || names_any && ends_here(name)
            || is_withheld(ex, name)
    };
    let passes = conf.pass_request_headers != Some(false);
    let fields = ex.head.iter().filter(move |_| passes);
    fields.filter(move |(name, _)| !is_skipped(name))
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    let start = out.len();
    out.extend_from_slice(value);
    break_no_line(&mut out[start..]);
    out.extend_from_slice(b"\r\n");
}

/// Replace line breaks in a value, which would start another field.
fn break_no_line(value: &mut [u8]) {
    while let Some(at) = memchr::memchr2(b'\r', b'\n', value) {
        value[at] = b' ';
    }
}
