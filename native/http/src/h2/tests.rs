//! Tests: conversations of a client with a connection.

mod attacks;
mod exchange;
mod rules;

use super::*;
use crate::hpack::{encode_field, integer};
use frame::*;
use std::time::{Duration, Instant};

/// An event without borrowed data.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Request(u32, String, bool),
    Malformed(u32),
    BadBody(u32),
    Data(u32, Vec<u8>, bool),
    Reset(u32, ErrorCode),
    GoAway,
}

/// A frame that the server sent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

struct Client {
    server: Connection<u32>,
    now: Instant,
}

impl Client {
    /// A client after the handshake.
    fn new(config: Config) -> Self {
        let mut client = Self::unaware(config);
        client.send(&frame_of(SETTINGS, ACK, 0, &[])).unwrap();
        client
    }

    /// A client that has not acknowledged the server's settings.
    fn unaware(config: Config) -> Self {
        let server = Connection::new(config);
        let now = Instant::now();
        let mut client = Self { server, now };
        client
            .send(&[&PREFACE[..], &settings_frame(&[])].concat())
            .unwrap();
        client.sent();
        client
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<Vec<Seen>, Error> {
        let mut seen = Vec::new();
        while let Some(event) = self.server.receive(&mut bytes, self.now)? {
            seen.push(match event {
                Event::Request {
                    stream,
                    head,
                    end_stream,
                } => {
                    let path = String::from_utf8(head.path().to_vec()).unwrap();
                    Seen::Request(stream, path, end_stream)
                }
                Event::Malformed { stream, .. } => Seen::Malformed(stream),
                Event::Data {
                    stream,
                    data,
                    end_stream,
                } => Seen::Data(stream, data.to_vec(), end_stream),
                Event::Reset { stream, code, .. } => Seen::Reset(stream, code),
                Event::BadBody { stream } => Seen::BadBody(stream),
                Event::GoAway => Seen::GoAway,
            });
        }
        Ok(seen)
    }

    /// The frames that the server sent since the last call.
    fn sent(&mut self) -> Vec<Sent> {
        let out = std::mem::take(self.server.output());
        let mut rest = &out[..];
        let mut frames = Vec::new();
        while let Some(header) = Header::parse(rest) {
            let payload = rest[HEADER_LEN..HEADER_LEN + header.len].to_vec();
            rest = &rest[HEADER_LEN + header.len..];
            let Header {
                kind,
                flags,
                stream,
                ..
            } = header;
            frames.push(Sent {
                kind,
                flags,
                stream,
                payload,
            });
        }
        assert!(rest.is_empty(), "half a frame in the output");
        frames
    }

    /// Send bytes that must end the connection. Returns the code of the GOAWAY.
    fn dies_of(mut self, bytes: &[u8]) -> ErrorCode {
        let error = self.send(bytes).expect_err("the connection should end");
        let last = self.sent().pop().expect("a GOAWAY");
        assert_eq!(
            (last.kind, &last.payload[4..8]),
            (GOAWAY, &error.code.0.to_be_bytes()[..])
        );
        assert!(self.server.is_finished());
        error.code
    }

    fn get(&mut self, stream: u32) {
        let seen = self.send(&headers(stream, &get("/"), true)).unwrap();
        assert_eq!(seen, [Seen::Request(stream, "/".into(), true)]);
    }

    /// Let time pass until the server stops waiting for incomplete requests with complete
    /// responses.
    fn give_up(&mut self) {
        self.server.end_unfinished();
        self.server.end_unfinished();
    }

    fn resets(&mut self) -> Vec<(u32, u32)> {
        let frames = self.sent().into_iter().filter(|f| f.kind == RST_STREAM);
        frames
            .map(|f| (f.stream, u32::from_be_bytes(f.payload.try_into().unwrap())))
            .collect()
    }
}

fn frame_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_header(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

fn settings_frame(settings: &[(u16, u32)]) -> Vec<u8> {
    let bytes = settings
        .iter()
        .flat_map(|(id, v)| [&id.to_be_bytes()[..], &v.to_be_bytes()].concat());
    frame_of(SETTINGS, 0, 0, &bytes.collect::<Vec<u8>>())
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame_of(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        encode_field(&mut out, name.as_bytes(), value.as_bytes());
    }
    out
}

fn get(path: &str) -> Vec<u8> {
    block(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", path),
        (":authority", "x"),
    ])
}

fn post(length: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", "/"),
        ("content-length", length),
    ];
    block(&fields)
}

fn headers(stream: u32, block: &[u8], end_stream: bool) -> Vec<u8> {
    frame_of(HEADERS, END_HEADERS | u8::from(end_stream), stream, block)
}

fn data(stream: u32, bytes: &[u8], end_stream: bool) -> Vec<u8> {
    frame_of(DATA, u8::from(end_stream), stream, bytes)
}

fn ok_block() -> Vec<u8> {
    vec![0x88]
}
