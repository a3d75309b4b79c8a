//! HTTP/2 to upstreams: heads of requests, the sending of bodies, and the reading of responses.

use super::answer::{self, Head};
use super::request::{self, BodyLength, HttpRequest, Wire};
use super::transfer::Plan;
use super::Fields;
use crate::exchange::Exchange;
use crate::template;
use bytes::Bytes;
use gallop_conf::model::items;
use gallop_http::h1::parse_length;
use gallop_http::h2::client::{Client, Event};
use gallop_http::hpack::encode_field;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// The state of a connection; its sending and its receiving side share it.
pub type SharedClient = Rc<RefCell<Client>>;

/// Fields about a connection, which HTTP/2 does not have (RFC 9113, section 8.2.2).
const OF_CONNECTION: [&str; 5] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
];

/// The field section of a request.
pub(super) fn head(
    ex: &Exchange,
    plan: &Plan<'_>,
    request: &HttpRequest,
    length: BodyLength,
) -> Vec<u8> {
    let conf = &plan.conf;
    let mut out = Vec::with_capacity(512);
    let mut method = Vec::new();
    request.method(ex, conf, &mut method);
    encode_field(&mut out, b":method", &method);
    let scheme: &[u8] = if plan.tls { b"https" } else { b"http" };
    encode_field(&mut out, b":scheme", scheme);
    encode_field(&mut out, b":path", &request.uri);
    let set = items(&conf.set_headers);
    let is_host = |name: &str| name.eq_ignore_ascii_case("host");
    let own = set.iter().find(|h| is_host(&h.name));
    let authority = own.map_or(Vec::new(), |h| template::eval(ex, &h.value));
    match authority.is_empty() {
        true => field(&mut out, b":authority", request.host.as_bytes()),
        false => field(&mut out, b":authority", &authority),
    }
    let is_set = |name: &str| set.iter().any(|h| h.name.eq_ignore_ascii_case(name));
    for header in set.iter().filter(|h| !is_host(&h.name)) {
        let value = template::eval(ex, &header.value);
        if !value.is_empty() && !is_of_connection(&header.name) {
            field(&mut out, header.name.as_bytes(), &value);
        }
    }
    for (name, value) in request::own_conditions(ex) {
        if !is_set(name) {
            field(&mut out, name.as_bytes(), &value);
        }
    }
    if let (BodyLength::Known(n), false) = (length, is_set("content-length")) {
        field(&mut out, b"content-length", n.to_string().as_bytes());
    }
    if request.wire == Wire::Grpc && !is_set("te") && takes_trailers(ex) {
        field(&mut out, b"te", b"trailers");
    }
    for (name, value) in request::passed_fields(ex, conf) {
        field(&mut out, name, value);
    }
    out
}

fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.iter().any(|n| name.eq_ignore_ascii_case(n))
}

fn takes_trailers(ex: &Exchange) -> bool {
    let named = |te: &[u8]| te.to_ascii_lowercase().windows(8).any(|w| w == b"trailers");
    ex.head.get("te").is_some_and(named)
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    if !value.iter().any(|c| matches!(c, 0 | b'\r' | b'\n')) {
        return encode_field(out, name, value);
    }
    let one_line = |c: &u8| match c {
        0 | b'\r' | b'\n' => b' ',
        c => *c,
    };
    let value: Vec<u8> = value.iter().map(one_line).collect();
    encode_field(out, name, &value);
}

/// Sends the body of a request as far as the server's windows allow.
pub struct Sending {
    client: SharedClient,
    /// The next part of the body.
    held: Bytes,
    /// Whether the end of the request must still be sent after it.
    end_due: bool,
}

impl Sending {
    /// Start a request; its head goes to the client's output.
    pub fn start(client: &SharedClient, block: &[u8], ends: bool, limit: usize) -> Sending {
        client.borrow_mut().start(block, ends, limit);
        Sending {
            client: client.clone(),
            held: Bytes::new(),
            end_due: false,
        }
    }

    pub fn push(&mut self, data: Bytes) {
        self.held = match self.held.is_empty() {
            true => data,
            false => [&self.held[..], &data].concat().into(),
        };
    }

    pub fn end(&mut self) {
        self.end_due = true;
    }

    /// Append to `out` what may be sent now.
    pub fn fill(&mut self, out: &mut Vec<u8>) {
        let mut client = self.client.borrow_mut();
        client.take_output(out);
        if self.held.is_empty() && !self.end_due {
            return;
        }
        let taken = client.send_data(&self.held, self.end_due, out);
        let _ = self.held.split_to(taken);
        if self.held.is_empty() {
            self.end_due = false;
        }
    }

    /// Whether the server's windows do not allow more.
    pub fn is_blocked(&self) -> bool {
        !self.held.is_empty()
    }

    pub fn is_done(&self) -> bool {
        self.held.is_empty() && !self.end_due && !self.client.borrow().has_output()
    }
}

/// Reads a response.
pub struct Reader {
    client: SharedClient,
    /// Bytes of the body that are still expected, if the head told its length.
    left: Option<u64>,
    /// Whether the response has no body, whatever the server sends.
    is_bodiless: bool,
    pub(super) trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Reader {
    pub fn new(client: SharedClient) -> Reader {
        Reader {
            client,
            left: None,
            is_bodiless: false,
            trailers: Vec::new(),
        }
    }

    /// Take the head if it is complete.
    pub(super) fn head(&mut self, input: &mut Vec<u8>) -> Result<Option<Head>, String> {
        let doing = "while reading response header from upstream";
        let mut client = self.client.borrow_mut();
        let mut rest = &input[..];
        let event = client.receive(&mut rest, Instant::now());
        let used = input.len() - rest.len();
        let made = match event {
            Ok(None) => Ok(None),
            Ok(Some(Event::Head { status, fields })) => {
                head_of(status, fields, client.is_ended()).map(Some)
            }
            // The client lets none of these come first.
            Ok(Some(_)) => Err("upstream sent unexpected http2 frame".into()),
            Err(e) => Err(e.to_string()),
        };
        input.drain(..used);
        made.map_err(|e: String| format!("{e} {doing}"))
    }

    pub(super) fn start_body(&mut self, head: &Head, is_head: bool) {
        self.is_bodiless = is_head || matches!(head.status, 204 | 304);
        self.left = match self.is_bodiless {
            true => Some(0),
            false => head.content_length,
        };
    }

    pub fn is_ended(&self) -> bool {
        self.is_bodiless || self.client.borrow().is_ended()
    }

    pub fn is_reusable(&self) -> bool {
        self.client.borrow().is_reusable()
    }

    /// Take body bytes; empty if more bytes are needed or the response has ended.
    pub(super) fn take(&mut self, input: &mut Vec<u8>) -> io::Result<Bytes> {
        let mut client = self.client.borrow_mut();
        let mut out = Vec::new();
        let mut rest = &input[..];
        let now = Instant::now();
        loop {
            match client.receive(&mut rest, now) {
                Ok(None) => break,
                Ok(Some(Event::Data(piece))) => out.extend_from_slice(piece),
                Ok(Some(Event::Trailers(fields))) => self.trailers = fields,
                Ok(Some(Event::Head { .. })) => {}
                Err(e) => return Err(io::Error::other(e.to_string())),
            }
        }
        let used = input.len() - rest.len();
        input.drain(..used);
        if let Some(left) = &mut self.left {
            let larger = "upstream sent response body larger than indicated content length";
            *left = left
                .checked_sub(out.len() as u64)
                .ok_or_else(|| io::Error::other(larger))?;
            if client.is_ended() && *left > 0 {
                return Err(io::Error::other("upstream prematurely closed stream"));
            }
        }
        Ok(out.into())
    }
}

/// `is_whole`: nothing follows the head.
fn head_of(status: u16, fields: Vec<(Vec<u8>, Vec<u8>)>, is_whole: bool) -> Result<Head, String> {
    let mut head = Head {
        status,
        fields: Fields::from(fields),
        keep: true,
        ..Head::default()
    };
    let length = head.only("content-length")?.map(parse_length);
    head.content_length = match length {
        Some(None) => return Err("upstream sent invalid \"Content-Length\" header".into()),
        Some(length) => length,
        None => is_whole.then_some(0),
    };
    Ok(head)
}

/// The trailers that are passed on.
pub(super) fn passed_trailers(
    trailers: &[(Vec<u8>, Vec<u8>)],
    is_hidden: impl Fn(&[u8]) -> bool,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let passed = trailers.iter();
    let passed = passed.filter(|(name, _)| answer::may_be_trailer(name) && !is_hidden(name));
    passed.cloned().collect()
}
