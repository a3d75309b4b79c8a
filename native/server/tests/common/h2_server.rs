//! An HTTP/2 server over cleartext, frame by frame, for requests that gallop passes on.

use crate::h2::{self, Frame};
use gallop_http::hpack::Decoder;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

pub const DATA: u8 = 0;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub struct Listener {
    pub port: u16,
    listener: TcpListener,
}

impl Listener {
    pub fn new() -> Listener {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        Listener { port, listener }
    }

    /// The next connection, after its preface.
    pub fn accept(&self) -> Peer {
        let (socket, _) = self.listener.accept().expect("a connection");
        socket.set_nodelay(true).expect("an option");
        socket
            .set_read_timeout(Some(crate::PATIENCE))
            .expect("a timeout");
        let mut peer = Peer {
            socket,
            decoder: Decoder::new(4096),
        };
        let mut preface = [0; 24];
        peer.socket.read_exact(&mut preface).expect("the preface");
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        peer.send(h2::SETTINGS, 0, 0, &[]);
        peer
    }
}

/// The server's side of a connection.
pub struct Peer {
    pub socket: TcpStream,
    decoder: Decoder,
}

/// A request's head.
pub struct Request {
    pub stream: u32,
    pub fields: Vec<(String, String)>,
    /// Whether there is no body.
    pub ends: bool,
}

impl Request {
    /// The only field with this name; empty if there is none.
    pub fn field(&self, name: &str) -> &str {
        let mut named = self.fields.iter().filter(|(n, _)| n == name);
        let value = named.next().map_or("", |(_, value)| value);
        assert!(named.next().is_none(), "{name} twice in {:?}", self.fields);
        value
    }
}

impl Peer {
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let frame = h2::frame(kind, flags, stream, payload);
        self.socket.write_all(&frame).expect("sent");
    }

    /// Send a field section.
    pub fn fields(&mut self, flags: u8, stream: u32, fields: &[(&str, &str)]) {
        let block = h2::block(fields);
        self.send(h2::HEADERS, flags | END_HEADERS, stream, &block);
    }

    /// Send a response with a body and trailers.
    pub fn answer(&mut self, stream: u32, body: &[u8]) {
        let head = [(":status", "200"), ("content-type", "application/grpc")];
        self.fields(0, stream, &head);
        self.send(DATA, 0, stream, body);
        self.fields(END_STREAM, stream, &[("grpc-status", "0")]);
    }

    /// The next frame; `None` when the connection is closed.
    pub fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head).ok()?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; len];
        self.socket.read_exact(&mut payload).ok()?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }

    /// The next frame of this kind.
    pub fn wait_for(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().expect("a frame");
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// The next request, if the connection brings one.
    pub fn request(&mut self) -> Option<Request> {
        let head = loop {
            let frame = self.next()?;
            if frame.kind == h2::HEADERS {
                break frame;
            }
        };
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let field = |name: &[u8], value: &[u8]| fields.push((text(name), text(value)));
        self.decoder.decode(&head.payload, field).expect("fields");
        Some(Request {
            stream: head.stream,
            fields,
            ends: head.flags & END_STREAM != 0,
        })
    }

    /// The rest of a request's body.
    pub fn body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let frame = self.wait_for(DATA);
            body.extend_from_slice(&frame.payload);
            if frame.flags & END_STREAM != 0 {
                return body;
            }
        }
    }
}
