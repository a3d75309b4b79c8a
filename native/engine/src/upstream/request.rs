//! The head of a request to an HTTP server.

use crate::exchange::{Exchange, Received};
use crate::template;
use gallop_conf::model::{items, UpConf};
use std::io::Write;
use std::rc::Rc;

pub struct HttpRequest {
    pub uri: Rc<[u8]>,
    /// `Host` unless the configuration sets one.
    pub host: String,
    /// A cache wants the body of what the client only asks the head of.
    pub as_get: bool,
}

/// How the body is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    None,
    Known(u64),
    Chunked,
}

/// Fields that belong to one connection, or that the server sets itself.
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

/// What the request's body will be.
pub fn body_length(ex: &Exchange, conf: &UpConf) -> BodyLength {
    if conf.pass_request_body == Some(false) {
        return BodyLength::None;
    }
    match &ex.received {
        Some(Received::Memory(b)) if b.is_empty() => match ex.content_length {
            Some(_) if ex.refused_body => BodyLength::Known(0),
            Some(n) => BodyLength::Known(n),
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
    /// The head, and the body if the configuration gives one.
    pub fn encode(&self, ex: &Exchange, conf: &UpConf) -> (Vec<u8>, Option<Vec<u8>>, BodyLength) {
        let set_body = conf.set_body.as_ref().map(|t| template::eval(ex, t));
        let length = match &set_body {
            Some(body) => BodyLength::Known(body.len() as u64),
            None => body_length(ex, conf),
        };
        let http10 = conf.http_version == Some(1000);
        let mut out = Vec::with_capacity(512);
        match &conf.method {
            Some(t) => out.extend_from_slice(&template::eval(ex, t)),
            None if self.as_get => out.extend_from_slice(b"GET"),
            None => out.extend_from_slice(ex.method()),
        }
        out.push(b' ');
        out.extend_from_slice(&self.uri);
        out.extend_from_slice(if http10 {
            b" HTTP/1.0\r\n"
        } else {
            b" HTTP/1.1\r\n"
        });
        self.own_headers(ex, conf, length, &mut out);
        client_headers(ex, conf, &mut out);
        out.extend_from_slice(b"\r\n");
        (out, set_body, length)
    }

    fn own_headers(&self, ex: &Exchange, conf: &UpConf, length: BodyLength, out: &mut Vec<u8>) {
        let set = items(&conf.set_headers);
        let is_set = |name: &str| set.iter().any(|h| h.name.eq_ignore_ascii_case(name));
        if !is_set("host") {
            field(out, b"Host", self.host.as_bytes());
        }
        for header in set {
            let value = template::eval(ex, &header.value);
            if !value.is_empty() {
                field(out, header.name.as_bytes(), &value);
            }
        }
        for (name, value) in own_conditions(ex) {
            if !is_set(name) {
                field(out, name.as_bytes(), &value);
            }
        }
        match length {
            BodyLength::Known(n) if !is_set("content-length") => {
                // Writing into a vector cannot fail.
                let _ = write!(out, "Content-Length: {n}\r\n");
            }
            BodyLength::Chunked if !is_set("transfer-encoding") => {
                field(out, b"Transfer-Encoding", b"chunked");
            }
            _ => {}
        }
    }
}

/// Fields that ask for less than the whole answer, which is what a cache wants.
const CONDITIONS: [&str; 6] = [
    "if-modified-since",
    "if-unmodified-since",
    "if-none-match",
    "if-match",
    "range",
    "if-range",
];

/// A field of the client's that an answer to be kept must not depend on.
pub fn is_withheld(ex: &Exchange, name: &[u8]) -> bool {
    ex.cached.as_ref().is_some_and(|n| n.cacheable)
        && CONDITIONS
            .iter()
            .any(|c| name.eq_ignore_ascii_case(c.as_bytes()))
}

/// Conditions under which the old answer is still good.
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
    if conf.pass_request_headers == Some(false) {
        return;
    }
    let set = items(&conf.set_headers);
    let nominated: Vec<Vec<u8>> = ex
        .head
        .get_all("connection")
        .flat_map(|v| v.split(|&c| c == b','))
        .map(|w| w.trim_ascii().to_ascii_lowercase())
        .collect();
    for (name, value) in ex.head.iter() {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let skipped = OWN.iter().any(|n| is(n))
            || set.iter().any(|h| is(&h.name))
            || nominated.iter().any(|n| name.eq_ignore_ascii_case(n))
            || is_withheld(ex, name);
        if !skipped {
            field(out, name, value);
        }
    }
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    // A line break would start a field that nobody meant to send.
    out.extend(
        value
            .iter()
            .map(|&c| if c == b'\r' || c == b'\n' { b' ' } else { c }),
    );
    out.extend_from_slice(b"\r\n");
}
