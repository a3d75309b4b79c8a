//! HTTP/2 against the real binary, frame by frame, in cleartext.

use crate::common::Server;
use crate::ports::free_port;
use gallop_http::hpack::{encode_field, Decoder};
use std::io::{Read, Write};
use std::net::TcpStream;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
/// An error code.
const FLOW_CONTROL_ERROR: u32 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

struct Client {
    socket: TcpStream,
    decoder: Decoder,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let head = [len[1], len[2], len[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "x"),
        (":path", path),
    ];
    for (name, value) in fields {
        encode_field(&mut block, name.as_bytes(), value.as_bytes());
    }
    frame(HEADERS, 5, stream, &block)
}

impl Client {
    fn new(port: u16) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
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

    fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// The next frame; `None` when the connection is closed.
    fn next(&mut self) -> Option<Frame> {
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

    fn status(&mut self, head: &Frame) -> String {
        let mut status = String::new();
        let field = |name: &[u8], value: &[u8]| {
            if name == b":status" {
                status = String::from_utf8(value.to_vec()).unwrap();
            }
        };
        self.decoder.decode(&head.payload, field).unwrap();
        status
    }

    /// Status and body of the answer on a stream, opening the windows for it.
    fn answer(&mut self, stream: u32) -> (String, Vec<u8>) {
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
    fn reset(&mut self) -> (u32, u32) {
        loop {
            let frame = self.next().expect("a reset");
            if frame.kind == RST_STREAM {
                let code = frame.payload[..4].try_into().unwrap();
                return (frame.stream, u32::from_be_bytes(code));
            }
        }
    }

    fn open_windows(&mut self, stream: u32, len: usize, ended: bool) {
        let increment = (len as u32).to_be_bytes();
        if len > 0 {
            self.send(&frame(WINDOW_UPDATE, 0, 0, &increment));
            if !ended {
                self.send(&frame(WINDOW_UPDATE, 0, stream, &increment));
            }
        }
    }
}

fn server(more: &str) -> (Server, u16) {
    let port = free_port();
    let http = format!("http2 on; server {{ listen 127.0.0.1:{port}; root %%/html; {more} }}");
    let server = Server::start(&http, |folder| {
        std::fs::create_dir_all(folder.join("html")).unwrap();
        std::fs::write(folder.join("html/small.html"), "small").unwrap();
        std::fs::write(folder.join("html/large.bin"), pattern()).unwrap();
    });
    (server, port)
}

fn pattern() -> Vec<u8> {
    (0..1_000_000)
        .map(|n: usize| (n * 31 % 251) as u8)
        .collect()
}

#[test]
fn files_small_and_large() {
    let (_server, port) = server("");
    let mut client = Client::new(port);
    for stream in [1, 3, 5] {
        client.send(&get(stream, "/small.html"));
        assert_eq!(
            client.answer(stream),
            ("200".to_string(), b"small".to_vec())
        );
    }
    client.send(&get(7, "/large.bin"));
    assert!(client.answer(7) == ("200".to_string(), pattern()));
    client.send(&get(9, "/missing"));
    assert_eq!(client.answer(9).0, "404");
}

#[test]
fn answers_find_their_streams() {
    let (_server, port) = server("location /echo { return 200 $uri; }");
    let mut client = Client::new(port);
    let streams: Vec<u32> = (0..100).map(|n| n * 2 + 1).collect();
    let all: Vec<u8> = streams
        .iter()
        .flat_map(|s| get(*s, &format!("/echo/{s}")))
        .collect();
    client.send(&all);
    let mut seen = 0;
    while seen < streams.len() {
        let frame = client.next().unwrap();
        if frame.kind == 0 {
            assert_eq!(frame.payload, format!("/echo/{}", frame.stream).as_bytes());
            seen += 1;
        }
    }
}

/// The same port speaks HTTP/1.
#[test]
fn both_versions_share_a_port() {
    let (_server, port) = server("");
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket
        .write_all(b"GET /small.html HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("small"),
        "{answer}"
    );
}

#[test]
fn a_malformed_request_gets_400_and_a_reset() {
    let (_server, port) = server("");
    let mut client = Client::new(port);
    let mut block = Vec::new();
    encode_field(&mut block, b":method", b"GET");
    client.send(&frame(HEADERS, 5, 1, &block));
    assert_eq!(client.answer(1).0, "400");
    assert_eq!(client.reset(), (1, 1));
    client.send(&get(3, "/small.html"));
    assert_eq!(client.answer(3).0, "200");
}

/// What a client does wrong behind the head of a request that is answered before it is whole must
/// not depend on who was faster.
#[test]
fn an_answered_request_that_does_not_end_is_reset_after_a_while() {
    let (_server, port) = server("");
    let mut client = Client::new(port);
    let mut open = get(1, "/small.html");
    open[4] = 4;
    client.send(&open);
    assert_eq!(client.answer(1).0, "200");
    let most = frame(WINDOW_UPDATE, 0, 1, &0x7fff_ffff_u32.to_be_bytes());
    client.send(&[most.clone(), most].concat());
    assert_eq!(client.reset(), (1, FLOW_CONTROL_ERROR));
    let mut open = get(3, "/small.html");
    open[4] = 4;
    client.send(&open);
    assert_eq!(client.answer(3).0, "200");
    assert_eq!(client.reset(), (3, 0));
}

/// A flood ends its own connection with ENHANCE_YOUR_CALM; others are served.
#[test]
fn a_flood_ends_the_connection_and_no_other() {
    let (_server, port) = server("");
    let (mut attacker, mut other) = (Client::new(port), Client::new(port));
    let resets: Vec<u8> = (0..2000u32)
        .flat_map(|n| {
            let stream = n * 2 + 1;
            [
                get(stream, "/large.bin"),
                frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]),
            ]
            .concat()
        })
        .collect();
    // The server may close before it has taken everything.
    let _ = attacker.socket.write_all(&resets);
    let last = std::iter::from_fn(|| attacker.next())
        .last()
        .expect("a last frame");
    assert_eq!(
        (last.kind, &last.payload[4..8]),
        (GOAWAY, &[0, 0, 0, 11][..])
    );
    other.send(&get(1, "/small.html"));
    assert_eq!(other.answer(1).0, "200");
    let mut pinger = Client::new(port);
    let _ = pinger
        .socket
        .write_all(&frame(PING, 0, 0, &[0; 8]).repeat(10_000));
    let last = std::iter::from_fn(|| pinger.next())
        .last()
        .expect("a last frame");
    assert_eq!(
        (last.kind, &last.payload[4..8]),
        (GOAWAY, &[0, 0, 0, 11][..])
    );
}

#[test]
fn an_empty_file_has_trailers_too() {
    let (server, port) = server("add_trailer x-name $uri;");
    std::fs::write(server.folder.0.join("html/empty"), "").unwrap();
    let mut client = Client::new(port);
    client.send(&get(1, "/empty"));
    let (mut heads, mut ended) = (Vec::new(), false);
    while !ended {
        let frame = client.next().expect("the answer");
        if frame.stream == 1 {
            assert_eq!(frame.kind, HEADERS);
            ended = frame.flags & 1 != 0;
            heads.push(client.status(&frame));
        }
    }
    assert_eq!(heads, ["200", ""]);
}
