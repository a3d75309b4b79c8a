//! A small HTTP/3 client over quinn-proto, with a real socket.

use bytes::BytesMut;
use gallop_http::h3::{send, varint};
use gallop_http::qpack;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ReadError, StreamEvent, StreamId,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::HashMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What came on a stream, and whether it ended.
#[derive(Debug, Default, Clone)]
pub struct Answer {
    pub status: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub done: bool,
    pub reset: Option<u64>,
    raw: Vec<u8>,
}

pub struct Client {
    socket: UdpSocket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub quic: Connection,
    pub answers: HashMap<StreamId, Answer>,
    pub connected: bool,
    /// Why the server closed the connection: its application error code.
    pub closed: Option<String>,
}

impl Client {
    pub fn connect(port: u16, authority: CertificateDer<'static>) -> Self {
        Self::connect_as(port, authority, "example.org", None)
    }

    /// To the server of this name, showing a certificate.
    pub fn connect_as(
        port: u16,
        authority: CertificateDer<'static>,
        name: &str,
        own: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        let tls = match own {
            None => tls.with_no_client_auth(),
            Some((own, key)) => tls.with_client_auth_cert(vec![own], key).unwrap(),
        };
        Self::connect_with(port, tls, name)
    }

    /// To the server of this name, with TLS set up otherwise.
    pub fn connect_with(port: u16, mut tls: rustls::ClientConfig, name: &str) -> Self {
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let remote = ([127, 0, 0, 1], port).into();
        let (handle, quic) = endpoint
            .connect(Instant::now(), config, remote, name)
            .unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(2)))
            .unwrap();
        Self {
            socket,
            endpoint,
            handle,
            quic,
            answers: HashMap::new(),
            connected: false,
            closed: None,
        }
    }

    /// Moves datagrams until `done` says so.
    pub fn run(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + crate::PATIENCE;
        while !done(self) {
            assert!(
                Instant::now() < deadline,
                "{what} does not come about: {:?}",
                self.closed
            );
            self.turn();
        }
    }

    fn turn(&mut self) {
        let now = Instant::now();
        let mut buffer = Vec::new();
        while let Some(transmit) = self.quic.poll_transmit(now, 1, &mut buffer) {
            self.socket
                .send_to(&buffer[..transmit.size], transmit.destination)
                .unwrap();
            buffer.clear();
        }
        let mut datagram = [0; 65_536];
        if let Ok((n, from)) = self.socket.recv_from(&mut datagram) {
            let data = BytesMut::from(&datagram[..n]);
            let event = self
                .endpoint
                .handle(Instant::now(), from, None, None, data, &mut buffer);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.quic.handle_event(event);
            }
        }
        let now = Instant::now();
        if self.quic.poll_timeout().is_some_and(|due| due <= now) {
            self.quic.handle_timeout(now);
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        while let Some(event) = self.quic.poll() {
            self.event(event);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Connected => self.connected = true,
            Event::ConnectionLost { reason } => self.closed = Some(reason.to_string()),
            Event::Stream(StreamEvent::Opened { dir }) => {
                while let Some(id) = self.quic.streams().accept(dir) {
                    self.read(id);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read(id),
            _ => {}
        }
    }

    fn read(&mut self, id: StreamId) {
        let answer = self.answers.entry(id).or_default();
        let mut stream = self.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return;
        };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => answer.raw.extend_from_slice(&chunk.bytes),
                Ok(None) => break answer.done = true,
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(code)) => break answer.reset = Some(code.into_inner()),
            }
        }
        let _ = chunks.finalize();
        if id.dir() == Dir::Bi {
            answer.parse();
        }
    }

    /// Opens our control stream with empty SETTINGS.
    pub fn greet(&mut self) {
        self.uni(&[0, 4, 0]);
    }

    /// Opens a unidirectional stream with these bytes.
    pub fn uni(&mut self, bytes: &[u8]) {
        let id = self.quic.streams().open(Dir::Uni).unwrap();
        assert_eq!(self.quic.send_stream(id).write(bytes).unwrap(), bytes.len());
    }

    pub fn request(&mut self, fields: &[(&str, &str)]) -> StreamId {
        let mut section = Vec::new();
        qpack::encode_prefix(&mut section);
        for (name, value) in fields {
            qpack::encode_field(&mut section, name.as_bytes(), value.as_bytes());
        }
        let mut frame = Vec::new();
        send::push_head(&mut frame, &section);
        let mut opened = None;
        self.run("another stream", |client| {
            opened = client.quic.streams().open(Dir::Bi);
            opened.is_some()
        });
        let id = opened.unwrap();
        self.quic.send_stream(id).write(&frame).unwrap();
        id
    }

    /// Opens a request stream with these bytes.
    pub fn raw(&mut self, bytes: &[u8]) -> StreamId {
        let id = self.quic.streams().open(Dir::Bi).unwrap();
        assert_eq!(self.quic.send_stream(id).write(bytes).unwrap(), bytes.len());
        id
    }

    pub fn get(&mut self, path: &str) -> StreamId {
        let id = self.request(&[
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "example.org"),
            (":path", path),
        ]);
        self.quic.send_stream(id).finish().unwrap();
        id
    }

    /// Waits for the whole answer.
    pub fn answer(&mut self, id: StreamId) -> Answer {
        self.run("the answer", |client| {
            client
                .answers
                .get(&id)
                .is_some_and(|answer| answer.done || answer.reset.is_some())
        });
        self.answers[&id].clone()
    }
}

impl Answer {
    fn parse(&mut self) {
        loop {
            let mut input = &self.raw[..];
            let kind = varint::decode(&mut input);
            let (Some(kind), Some(len)) = (kind, varint::decode(&mut input)) else {
                return;
            };
            let Some(payload) = input.get(..len as usize) else {
                return;
            };
            match kind {
                0 => self.body.extend_from_slice(payload),
                1 => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let fields = &mut self.fields;
                    let status = &mut self.status;
                    let table = qpack::Table::new(0);
                    qpack::decode(payload, &table, &mut Vec::new(), |name, value| match name {
                        b":status" => *status = text(value),
                        _ => fields.push((text(name), text(value))),
                    })
                    .unwrap();
                }
                _ => {}
            }
            let used = self.raw.len() - input.len() + len as usize;
            self.raw.drain(..used);
        }
    }
}
