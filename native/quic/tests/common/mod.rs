//! A server and a quinn-proto client on a link in memory, with a simulated clock.

use bytes::{Bytes, BytesMut};
use gallop_quic::{Datagram, Ecn, End, Endpoint, Event, Fixed, Options, Output, Transmit};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, EndpointConfig, StreamId,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The properties of the link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub loss: f64,
    pub double: f64,
    pub reorder: f64,
    pub delay: Duration,
    /// Larger datagrams are lost.
    pub mtu: usize,
    pub marks: Marks,
}

/// The treatment of the ECN field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Marks {
    /// The mark arrives.
    Kept,
    /// This fraction of ECT(0) marks becomes "congestion experienced".
    Congested(f64),
    /// The mark is cleared.
    Cleared,
    /// The mark becomes ECT(1).
    Changed,
    /// Marked datagrams of the server are lost.
    Swallowed,
    /// The client cannot see the mark.
    Unseen,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            loss: 0.0,
            double: 0.0,
            reorder: 0.0,
            delay: Duration::from_millis(10),
            mtu: 65_535,
            marks: Marks::Kept,
        }
    }
}

/// Bytes that differ from stream to stream.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|n| (n.wrapping_mul(31) ^ n >> 8 ^ seed) as u8)
        .collect()
}

/// The datagrams that the endpoint sends.
#[derive(Default)]
pub struct Sent {
    buffer: Vec<u8>,
    pub queue: Vec<(Transmit, Vec<u8>)>,
}

impl Output for Sent {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer.clear();
        &mut self.buffer
    }

    fn push(&mut self, transmit: Transmit) {
        self.queue.push((transmit, self.buffer.clone()));
    }

    fn is_full(&self) -> bool {
        self.queue.len() >= 64
    }
}

struct Setup {
    server: Arc<Fixed>,
    client: rustls::ClientConfig,
}

fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
        let certificate: CertificateDer<'static> = own.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .unwrap();
        server.alpn_protocols = vec![b"h3".to_vec()];
        server.max_early_data_size = u32::MAX;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).unwrap();
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h3".to_vec()];
        client.enable_early_data = true;
        Setup {
            server: Arc::new(Fixed::new(Arc::new(server)).unwrap()),
            client,
        }
    })
}

/// A client configuration with its own session tickets, which its clones share. Another test's
/// ticket may be from a server with other limits, which a client must not accept for 0-RTT (RFC
/// 9000, section 7.4.1).
pub fn client_config() -> ClientConfig {
    let mut tls = setup().client.clone();
    tls.resumption = rustls::client::Resumption::in_memory_sessions(32);
    let tls = QuicClientConfig::try_from(tls).unwrap();
    ClientConfig::new(Arc::new(tls))
}

pub fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// The destination and time of a datagram.
type Arrival = Reverse<(Instant, u64)>;

pub struct World {
    random: u64,
    link: Link,
    pub now: Instant,
    pub server: Endpoint,
    pub out: Sent,
    endpoint: quinn_proto::Endpoint,
    handle: ConnectionHandle,
    pub client: quinn_proto::Connection,
    /// The client's port.
    pub port: u16,
    under_way: BinaryHeap<Arrival>,
    datagrams: BTreeMap<u64, (bool, SocketAddr, Ecn, Vec<u8>)>,
    sent: u64,
    pub connected: bool,
    pub closed: Option<String>,
    answers: HashMap<StreamId, (Vec<u8>, bool)>,
    /// Bytes that the server has yet to write.
    unwritten: HashMap<(usize, u64), (Vec<Bytes>, bool)>,
    pub events: Vec<Event>,
    /// The port of an attacker that repeats this number of the client's datagrams and is faster.
    pub copies: (u16, u32),
    /// Whether the client's datagrams are lost.
    pub mute: bool,
    /// The datagrams and bytes from the server.
    pub served: (u64, u64),
    /// The marked datagrams from the server, and from the client.
    pub marked: (u64, u64),
}

impl World {
    pub fn new(seed: u64, link: Link, retry: bool) -> Self {
        let options = Options {
            max_streams: 100,
            stream_window: 65_536,
            idle: Duration::from_secs(30),
            retry,
            gso: true,
            ..Options::default()
        };
        Self::with(seed, link, &options, client_config())
    }

    pub fn with(seed: u64, link: Link, options: &Options, config: ClientConfig) -> Self {
        let now = Instant::now();
        let server = Endpoint::new(setup().server.clone(), options, now);
        let own = Arc::new(EndpointConfig::default());
        let mut endpoint = quinn_proto::Endpoint::new(own, None, true, None);
        let connected = endpoint.connect(now, config, address(443), "example.org");
        let (handle, client) = connected.unwrap();
        Self {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            link,
            now,
            server,
            out: Sent::default(),
            endpoint,
            handle,
            client,
            port: 4433,
            under_way: BinaryHeap::new(),
            datagrams: BTreeMap::new(),
            sent: 0,
            connected: false,
            closed: None,
            answers: HashMap::new(),
            unwritten: HashMap::new(),
            events: Vec::new(),
            copies: (0, 0),
            mute: false,
            served: (0, 0),
            marked: (0, 0),
        }
    }

    /// Connect again with the client's stored state.
    pub fn reconnect(&mut self, config: ClientConfig) {
        let connected = self
            .endpoint
            .connect(self.now, config, address(443), "example.org");
        (self.handle, self.client) = connected.unwrap();
        (self.connected, self.closed) = (false, None);
        self.answers.clear();
        self.events.clear();
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64 <= probability && probability > 0.0
    }

    fn send(&mut self, to_server: bool, from: SocketAddr, ecn: Ecn, data: Vec<u8>) {
        let sent = match to_server {
            true => &mut self.marked.1,
            false => &mut self.marked.0,
        };
        *sent += u64::from(ecn != Ecn::None);
        if data.len() > self.link.mtu || self.chance(self.link.loss) {
            return;
        }
        let marks = self.link.marks;
        let ecn = match marks {
            Marks::Swallowed if ecn != Ecn::None && !to_server => return,
            Marks::Congested(chance) if ecn == Ecn::Ect0 && self.chance(chance) => Ecn::Ce,
            Marks::Changed if ecn == Ecn::Ect0 => Ecn::Ect1,
            Marks::Cleared => Ecn::None,
            _ => ecn,
        };
        let copies = 1 + usize::from(self.chance(self.link.double));
        for _ in 0..copies {
            let late = self.chance(self.link.reorder);
            let delay = self.link.delay * if late { 3 } else { 1 };
            self.sent += 1;
            self.under_way.push(Reverse((self.now + delay, self.sent)));
            self.datagrams
                .insert(self.sent, (to_server, from, ecn, data.clone()));
        }
    }

    /// Do what is due now, then advance the time.
    pub fn turn(&mut self) {
        let mut buffer = Vec::new();
        while let Some(transmit) = self.client.poll_transmit(self.now, 1, &mut buffer) {
            let data = buffer[..transmit.size].to_vec();
            let ecn = Ecn::of(transmit.ecn.map_or(0, |ecn| ecn as u8));
            if self.copies.1 > 0 {
                self.copies.1 -= 1;
                self.deliver(true, address(self.copies.0), ecn, &data);
            }
            if !self.mute {
                self.send(true, address(self.port), ecn, data);
            }
            buffer.clear();
        }
        self.serve();
        let arrival = self.under_way.peek().map(|Reverse((at, _))| *at);
        let due = [
            arrival,
            self.client.poll_timeout(),
            self.server.next_timeout(),
        ];
        let Some(next) = due.into_iter().flatten().min() else {
            return;
        };
        self.now = self.now.max(next);
        self.server.handle_timeouts(self.now);
        if self.client.poll_timeout().is_some_and(|at| at <= self.now) {
            self.client.handle_timeout(self.now);
        }
        while self
            .under_way
            .peek()
            .is_some_and(|Reverse((at, _))| *at <= self.now)
        {
            let Some(Reverse((_, number))) = self.under_way.pop() else {
                break;
            };
            let (to_server, from, ecn, data) = self.datagrams.remove(&number).unwrap();
            self.deliver(to_server, from, ecn, &data);
        }
        self.client_events();
    }

    /// Deliver a datagram.
    pub fn deliver(&mut self, to_server: bool, from: SocketAddr, ecn: Ecn, data: &[u8]) {
        let data = BytesMut::from(data);
        if to_server {
            let datagram = Datagram {
                remote: from,
                local: None,
                data,
                ecn,
            };
            return self.server.receive(self.now, datagram, &mut self.out);
        }
        let mut buffer = Vec::new();
        let seen = match self.link.marks {
            Marks::Unseen => None,
            _ => EcnCodepoint::from_bits(ecn as u8),
        };
        let event = self
            .endpoint
            .handle(self.now, from, None, seen, data, &mut buffer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.client.handle_event(event);
        }
        while let Some(event) = self.client.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.client.handle_event(event);
            }
        }
    }

    fn client_events(&mut self) {
        while let Some(event) = self.client.poll() {
            match event {
                quinn_proto::Event::Connected => self.connected = true,
                quinn_proto::Event::ConnectionLost { reason } => {
                    self.closed = Some(reason.to_string());
                }
                _ => {}
            }
        }
        let ids: Vec<_> = self.answers.keys().copied().collect();
        for id in ids {
            let (answer, done) = self.answers.get_mut(&id).unwrap();
            let mut stream = self.client.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else {
                continue;
            };
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => answer.extend_from_slice(&chunk.bytes),
                    Ok(None) => break *done = true,
                    Err(_) => break,
                }
            }
            let _ = chunks.finalize();
        }
    }

    /// The application: echo the received bytes.
    pub fn serve(&mut self) {
        while let Some(key) = self.server.next_active() {
            while let Some(event) = self.server.poll(key) {
                self.events.push(event);
                match event {
                    Event::Readable(stream) if stream & 2 == 0 => self.read(key, stream),
                    Event::Writable(stream) => self.write(key, stream),
                    _ => {}
                }
            }
            while !self.server.transmit(key, self.now, &mut self.out) {
                self.take_sent();
            }
            self.take_sent();
        }
        self.take_sent();
    }

    fn read(&mut self, key: usize, stream: u64) {
        let mut chunks = Vec::new();
        let end = self
            .server
            .read(key, stream, usize::MAX, &mut chunks, |_| false);
        let waiting = self.unwritten.entry((key, stream)).or_default();
        waiting.0.extend(chunks);
        waiting.1 |= end == End::Finished;
        self.write(key, stream);
    }

    fn write(&mut self, key: usize, stream: u64) {
        let Some((chunks, finished)) = self.unwritten.get_mut(&(key, stream)) else {
            return;
        };
        while !chunks.is_empty() {
            match self.server.write(key, stream, chunks) {
                Some(n) if n > 0 => chunks.retain(|chunk| !chunk.is_empty()),
                _ => return,
            }
        }
        if *finished {
            self.server.finish(key, stream);
            self.unwritten.remove(&(key, stream));
        }
    }

    fn take_sent(&mut self) {
        for (transmit, data) in std::mem::take(&mut self.out.queue) {
            let size = transmit.segment.unwrap_or(data.len()).max(1);
            for datagram in data.chunks(size) {
                self.served.0 += 1;
                self.served.1 += datagram.len() as u64;
                // A datagram to a previous address is lost.
                if transmit.remote == address(self.port) {
                    let ecn = if transmit.ecn { Ecn::Ect0 } else { Ecn::None };
                    self.send(false, address(443), ecn, datagram.to_vec());
                }
            }
        }
    }

    /// Begin a request with these bytes.
    pub fn open(&mut self, data: &[u8]) -> StreamId {
        let mut opened = None;
        self.run("another stream", |world| {
            opened = world.client.streams().open(Dir::Bi);
            opened.is_some()
        });
        let id = opened.unwrap();
        self.answers.insert(id, Default::default());
        let mut written = 0;
        self.run("room on a stream", |world| {
            if let Ok(n) = world.client.send_stream(id).write(&data[written..]) {
                written += n;
            }
            written == data.len()
        });
        id
    }

    /// Send a request with these bytes on a new stream.
    pub fn request(&mut self, data: &[u8]) -> StreamId {
        let id = self.open(data);
        self.client.send_stream(id).finish().unwrap();
        id
    }

    pub fn is_answered(&self, id: StreamId) -> bool {
        self.answers.get(&id).is_some_and(|(_, done)| *done)
    }

    pub fn answer(&self, id: StreamId) -> &[u8] {
        &self.answers[&id].0
    }

    /// The number of lost server packets, after the connection was closed.
    pub fn lost_packets(&mut self) -> u64 {
        self.close();
        self.server.take_counts().packets_lost
    }

    /// Let time pass until the server has removed its connections.
    pub fn run_out(&mut self) {
        for _ in 0..10_000 {
            if self.server.is_empty() {
                return;
            }
            self.turn();
        }
        panic!("connections stay");
    }

    pub fn run(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..1_000_000 {
            if done(self) {
                return;
            }
            assert_eq!(self.closed, None, "{what} does not come about");
            self.turn();
        }
        panic!("{what} does not come about");
    }

    /// Close the connection by the client, and let the server remove it.
    pub fn close(&mut self) {
        self.client.close(self.now, 0u32.into(), Bytes::new());
        for _ in 0..100_000 {
            if self.server.is_empty() {
                return;
            }
            self.turn();
        }
    }
}
