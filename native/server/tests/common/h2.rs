//! A small HTTP/2 client over cleartext, frame by frame.

use gallop_http::hpack::{encode_field, Decoder};
use std::io::{Read, Write};
use std::net::TcpStream;

pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;

pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

pub struct Client {
    pub socket: TcpStream,
    decoder: Decoder,
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let head = [len[1], len[2], len[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

pub fn get(stream: u32, path: &str) -> Vec<u8> {
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "x"),
        (":path", path),
    ];
    frame(HEADERS, 5, stream, &block(&fields))
}

/// A field section.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        encode_field(&mut block, name.as_bytes(), value.as_bytes());
    }
    block
}

impl Client {
    pub fn new(port: u16) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
        // What follows a small frame is not to wait until that is acknowledged.
        socket.set_nodelay(true).unwrap();
        let mut client = Self {
            socket,
            decoder: Decoder::new(4096),
        };
        let hello = [
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
            &frame(SETTINGS, 0, 0, &[]),
        ]
        .concat();
        client.socket.write_all(&hello).unwrap();
        client
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// The next frame; `None` when the connection is closed.
    pub fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head).ok()?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; len];
        self.socket.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream,
            payload,
        })
    }

    pub fn status(&mut self, head: &Frame) -> String {
        let fields = self.fields(head).into_iter();
        let mut statuses = fields.filter(|(name, _)| name == ":status");
        statuses.next().map(|(_, value)| value).unwrap_or_default()
    }

    /// The fields of a head, with its status.
    pub fn fields(&mut self, head: &Frame) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let field = |name: &[u8], value: &[u8]| fields.push((text(name), text(value)));
        self.decoder.decode(&head.payload, field).unwrap();
        fields
    }

    /// Status and body of the answer on a stream, opening the windows for it.
    pub fn answer(&mut self, stream: u32) -> (String, Vec<u8>) {
        let (mut status, mut body) = (String::new(), Vec::new());
        loop {
            let frame = self.next().expect("the answer");
            let ends = frame.flags & 1 != 0 && frame.stream == stream;
            match frame.kind {
                HEADERS if frame.stream == stream => status = self.status(&frame),
                HEADERS => _ = self.status(&frame),
                0 if frame.stream == stream => {
                    body.extend_from_slice(&frame.payload);
                    self.open_windows(stream, frame.payload.len(), ends);
                }
                _ => {}
            }
            if ends && matches!(frame.kind, 0 | HEADERS) {
                return (status, body);
            }
        }
    }

    /// Stream and code of the next reset.
    pub fn reset(&mut self) -> (u32, u32) {
        loop {
            let frame = self.next().expect("a reset");
            if frame.kind == RST_STREAM {
                let code = frame.payload[..4].try_into().unwrap();
                return (frame.stream, u32::from_be_bytes(code));
            }
        }
    }

    pub fn open_windows(&mut self, stream: u32, len: usize, ended: bool) {
        let increment = (len as u32).to_be_bytes();
        if len > 0 {
            self.send(&frame(WINDOW_UPDATE, 0, 0, &increment));
            if !ended {
                self.send(&frame(WINDOW_UPDATE, 0, stream, &increment));
            }
        }
    }
}
