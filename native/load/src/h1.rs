//! The client side of an HTTP/1.1 connection, without its socket.

use crate::asked::Head;
use crate::plan::{Due, Plan};
use gallop_http::h1::{parse_length, parse_response, ChunkDecoder, Decoded, ResponseHead, Sender};
use std::collections::VecDeque;
use std::time::Instant;

/// The most bytes of a head.
const MAX_HEAD: usize = 256 << 10;

#[derive(Clone)]
enum Body {
    /// Between responses: a head comes next.
    Head,
    Length(u64),
    Chunked(ChunkDecoder),
    /// The body lasts until the connection ends.
    Close,
}

/// A request without a response.
struct Waiting {
    since: Instant,
    /// Whether it uses HEAD, so that its response has no body.
    is_head: bool,
}

pub struct Client {
    /// The requests, oldest first.
    waiting: VecDeque<Waiting>,
    /// The first part of an incomplete head.
    rest: Vec<u8>,
    body: Body,
    /// The last head and its meaning: most heads are identical.
    head: ResponseHead,
    framing: Body,
    closes: bool,
    /// Whether the connection ends after the current response.
    last: bool,
}

impl Client {
    pub fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            rest: Vec::new(),
            body: Body::Head,
            head: ResponseHead::default(),
            framing: Body::Head,
            closes: false,
            last: false,
        }
    }

    pub fn has_room(&self, streams: usize) -> bool {
        !self.last && self.waiting.len() < streams
    }

    pub fn is_over(&self) -> bool {
        self.last && matches!(self.body, Body::Head)
    }

    pub fn ask(&mut self, requests: &[Head], due: Due, out: &mut Vec<u8>) {
        let request = &requests[due.number as usize % requests.len()];
        out.extend_from_slice(&request.bytes);
        self.waiting.push_back(Waiting {
            since: due.since,
            is_head: request.is_head,
        });
    }

    /// Process received bytes.
    ///
    /// # Errors
    /// They are not HTTP/1.1.
    pub fn take(&mut self, input: &[u8], plan: &mut Plan, now: Instant) -> Result<(), String> {
        let mut joined = std::mem::take(&mut self.rest);
        let mut input = input;
        if !joined.is_empty() {
            joined.extend_from_slice(input);
            input = &joined;
        }
        while !input.is_empty() {
            let Some((used, done)) = self.step(input)? else {
                self.rest = input.to_vec();
                break;
            };
            input = &input[used..];
            if done {
                self.body = Body::Head;
                if let Some(asked) = self.waiting.pop_front() {
                    plan.answered(self.head.status, asked.since, now);
                }
            }
        }
        Ok(())
    }

    /// Process a part of the input. Returns the bytes used, and whether a response ended with them;
    /// `None` while a head is incomplete.
    fn step(&mut self, input: &[u8]) -> Result<Option<(usize, bool)>, String> {
        Ok(Some(match &mut self.body {
            Body::Head => return self.step_head(input),
            Body::Length(left) => {
                let n = (*left).min(input.len() as u64);
                *left -= n;
                (n as usize, *left == 0)
            }
            Body::Chunked(decoder) => match decoder.decode(input) {
                Ok(Decoded::More { consumed }) => (consumed, false),
                Ok(Decoded::Data { consumed, data }) => (consumed + data, false),
                Ok(Decoded::End { consumed }) => (consumed, true),
                Err(_) => return Err("an answer's chunks are malformed".into()),
            },
            Body::Close => (input.len(), false),
        }))
    }

    fn step_head(&mut self, input: &[u8]) -> Result<Option<(usize, bool)>, String> {
        let Some(&Waiting { is_head, .. }) = self.waiting.front() else {
            return Err("an answer came to no request".into());
        };
        if self.head.buf.is_empty() || !input.starts_with(&self.head.buf) {
            let parsed = parse_response(input, &mut self.head, Sender::Server);
            match parsed.map_err(|_| "an answer does not begin like HTTP/1.1")? {
                Some(_) => self.understand()?,
                None if input.len() > MAX_HEAD => {
                    return Err("an answer's head does not end".into())
                }
                None => {
                    self.head.buf.clear();
                    return Ok(None);
                }
            }
        }
        let len = self.head.buf.len();
        if self.head.status < 200 {
            return Ok(Some((len, false)));
        }
        self.body = if is_head {
            Body::Length(0)
        } else {
            self.framing.clone()
        };
        self.last |= self.closes || matches!(self.body, Body::Close);
        Ok(Some((len, matches!(self.body, Body::Length(0)))))
    }

    /// Determine how the body ends for a method other than HEAD (RFC 9112, section 6.3), and
    /// whether the connection ends.
    fn understand(&mut self) -> Result<(), String> {
        let head = &self.head;
        let says = |name: &str, word: &[u8]| {
            head.get(name).is_some_and(|value| {
                let mut parts = value.split(|&c| c == b',');
                parts.any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
            })
        };
        self.framing = if matches!(head.status, 204 | 304) {
            Body::Length(0)
        } else if says("transfer-encoding", b"chunked") {
            Body::Chunked(ChunkDecoder::default())
        } else if let Some(text) = head.get("content-length") {
            Body::Length(parse_length(text).ok_or("an answer's Content-Length is no number")?)
        } else {
            Body::Close
        };
        self.closes =
            says("connection", b"close") || (head.minor == 0 && !says("connection", b"keep-alive"));
        Ok(())
    }

    /// Handle the end of the connection.
    pub fn ended(&mut self, plan: &mut Plan, now: Instant) {
        if matches!(self.body, Body::Close) {
            if let Some(asked) = self.waiting.pop_front() {
                plan.answered(self.head.status, asked.since, now);
            }
        }
        // Requests pipelined after an announced end were not processed (RFC 9112, section 9.6).
        let announced = self.is_over();
        for _ in self.waiting.drain(..) {
            if announced {
                plan.put_back();
            } else {
                plan.lost();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let words = ["-n", "9", "--h1", "http://127.0.0.1/"].map(str::to_string);
        let options = crate::options::parse(words.into_iter()).unwrap();
        Plan::new(&options, 0, Instant::now())
    }

    fn head(bytes: &[u8]) -> Head {
        Head {
            bytes: bytes.to_vec(),
            is_head: bytes == b"HEAD",
        }
    }

    const ANSWERS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
        HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n\
        HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n\
        HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end";

    #[test]
    fn answers_are_told_apart_wherever_they_are_cut() {
        for size in 1..ANSWERS.len() {
            let (mut client, mut plan, mut out) = (Client::new(), plan(), Vec::new());
            for _ in 0..4 {
                let due = plan.start(Instant::now()).unwrap();
                client.ask(&[head(b"GET")], due, &mut out);
            }
            for piece in ANSWERS.chunks(size) {
                client.take(piece, &mut plan, Instant::now()).unwrap();
            }
            assert!(!client.has_room(9), "the last answer ends the connection");
            client.ended(&mut plan, Instant::now());
            assert_eq!(plan.statuses, [0, 0, 2, 1, 1, 0], "pieces of {size}");
            assert_eq!((plan.succeeded, plan.failed, plan.lost), (3, 1, 0));
        }
    }

    #[test]
    fn an_answer_to_head_has_no_body_whatever_it_says_and_the_connection_goes_on() {
        let answers = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\
            HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
            HTTP/1.1 200 OK\r\n\r\n";
        for size in 1..answers.len() {
            let (mut client, mut plan, mut out) = (Client::new(), plan(), Vec::new());
            for _ in 0..5 {
                let due = plan.start(Instant::now()).unwrap();
                client.ask(&[head(b"HEAD"), head(b"GET")], due, &mut out);
            }
            for piece in answers.chunks(size) {
                client.take(piece, &mut plan, Instant::now()).unwrap();
            }
            assert_eq!(
                (plan.succeeded, plan.failed),
                (5, 0),
                "pieces of {size} bytes"
            );
            assert!(client.has_room(1) && !client.is_over());
        }
    }

    #[test]
    fn what_is_missing_when_the_connection_ends_is_lost() {
        let (mut client, mut plan, mut out) = (Client::new(), plan(), Vec::new());
        for _ in 0..2 {
            let due = plan.start(Instant::now()).unwrap();
            client.ask(&[head(b"GET")], due, &mut out);
        }
        client
            .take(&ANSWERS[..40], &mut plan, Instant::now())
            .unwrap();
        client.ended(&mut plan, Instant::now());
        assert_eq!((plan.succeeded, plan.lost), (0, 2));
    }

    #[test]
    fn what_was_pipelined_behind_an_announced_end_is_asked_again() {
        let (mut client, mut plan, mut out) = (Client::new(), plan(), Vec::new());
        for _ in 0..3 {
            let due = plan.start(Instant::now()).unwrap();
            client.ask(&[head(b"GET")], due, &mut out);
        }
        let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
        client.take(last, &mut plan, Instant::now()).unwrap();
        assert!(client.is_over());
        client.ended(&mut plan, Instant::now());
        assert_eq!((plan.succeeded, plan.started, plan.lost), (1, 1, 0));
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        for wrong in [
            "SSH-2.0-x\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        ] {
            let (mut client, mut plan) = (Client::new(), plan());
            let due = plan.start(Instant::now()).unwrap();
            client.ask(&[head(b"")], due, &mut Vec::new());
            assert!(client
                .take(wrong.as_bytes(), &mut plan, Instant::now())
                .is_err());
        }
    }
}
