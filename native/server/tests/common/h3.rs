//! A small HTTP/3 client over quinn-proto, with a real socket.

use gallop_http::h3::{send, varint};
use gallop_http::qpack;
use gallop_server::quic::{prepare, Output, Receiver, Sender, Transmit};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
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
    pub config: ClientConfig,
    socket: UdpSocket,
    receiver: Receiver,
    sender: Sender,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub quic: Connection,
    pub answers: HashMap<StreamId, Answer>,
    pub connected: bool,
    /// Why the server closed the connection: its application error code.
    pub closed: Option<String>,
    /// Tells the server of marks that came.
    pub tells_marks: bool,
    /// Every so manieth datagram that comes is lost; 0: none.
    pub loses: u64,
    /// Datagrams that were sent, and that came, and of those how many had a mark.
    pub sent: (u64, u64),
    pub came: (u64, u64),
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
        Self::connect_again(port, config, name)
    }

    /// With what another connection has kept for later ones.
    pub fn connect_again(port: u16, config: ClientConfig, name: &str) -> Self {
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let remote = ([127, 0, 0, 1], port).into();
        let (handle, quic) = endpoint
            .connect(Instant::now(), config.clone(), remote, name)
            .unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(2)))
            .unwrap();
        let marks = prepare(socket.as_raw_fd(), Ipv4Addr::LOCALHOST.into()).unwrap();
        Self {
            config,
            socket,
            receiver: Receiver::default(),
            sender: Sender::marking(marks),
            endpoint,
            handle,
            quic,
            answers: HashMap::new(),
            connected: false,
            closed: None,
            tells_marks: true,
            loses: 0,
            sent: (0, 0),
            came: (0, 0),
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

    /// Sends what there is to send, and looks at nothing that comes.
    pub fn send(&mut self) {
        let now = Instant::now();
        while let Some(transmit) = self.quic.poll_transmit(now, 1, self.sender.buffer()) {
            let ecn = transmit.ecn.is_some();
            self.sent.0 += 1;
            self.sent.1 += u64::from(ecn);
            let unmarked = Transmit::unmarked(transmit.destination, None);
            self.sender.push(Transmit { ecn, ..unmarked });
            // A full socket drops, as networks do.
            let _ = self.sender.flush(self.socket.as_raw_fd());
        }
    }

    fn turn(&mut self) {
        self.send();
        self.take_in();
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

    /// Waits a little for datagrams.
    fn take_in(&mut self) {
        if self.socket.peek(&mut [0]).is_err() {
            return;
        }
        let mut came = Vec::new();
        let taken = |datagram| came.push(datagram);
        let _ = self.receiver.receive(self.socket.as_raw_fd(), taken);
        for datagram in came {
            let marked = EcnCodepoint::from_bits(datagram.ecn as u8);
            self.came.0 += 1;
            self.came.1 += u64::from(marked.is_some());
            if self.came.0.is_multiple_of(self.loses) {
                continue;
            }
            let (now, from) = (Instant::now(), datagram.remote);
            let told = marked.filter(|_| self.tells_marks);
            let mut answer = Vec::new();
            let event = self
                .endpoint
                .handle(now, from, None, told, datagram.data, &mut answer);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.quic.handle_event(event);
            }
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

    /// Says that it goes.
    pub fn leave(mut self) {
        const H3_NO_ERROR: u32 = 0x100; // RFC 9114, section 8.1
        let now = Instant::now();
        self.quic.close(now, H3_NO_ERROR.into(), Default::default());
        self.turn();
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
