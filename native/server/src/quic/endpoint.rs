//! The QUIC transport. Everything that knows quinn-proto is in this file, so that another transport
//! can take its place.

use super::tally::Tally;
use super::udp::{Datagram, Outgoing, Sender, MAX_PAYLOAD};
use bytes::Bytes;
use gallop_engine::metrics::Quic;
use quinn_proto::{
    crypto, ConnectionHandle, DatagramEvent, Dir, EndpointConfig, Event as QuicEvent, Incoming,
    MtuDiscoveryConfig, ReadError, ServerConfig, StreamEvent, StreamId, Transmit, TransportConfig,
    VarInt, WriteError,
};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Names a connection of an endpoint; used again once [`Event::Closed`] was seen.
pub type Key = usize;

/// Set in the first byte of a packet with a long header (RFC 9000, section 17.2).
const LONG_HEADER: u8 = 0x80;
/// Largest payload tried on paths that leave the machine: 1500 bytes of Ethernet, less headers.
const INTERNET_MTU: u16 = 1452;
/// Largest payload tried on the loopback interface.
const LOOPBACK_MTU: u16 = 16_000;
/// What the kernel takes in one send with segmentation offload.
const MAX_SEND: usize = 64_000;
const MAX_SEGMENTS: usize = 64;
/// Unacknowledged bytes a connection may have under way, and so hold in memory.
const SEND_WINDOW: u64 = 2 << 20;
/// The client's control and QPACK streams, and a few it may grease with.
const MAX_UNI_STREAMS: u32 = 8;
/// Timers that may run out after a handshake before what was sent is repeated.
const MAX_QUIET_PROBES: u32 = 6;
/// Bytes by which a probe of that kind opens the connection's window.
const WINDOW_STEP: u64 = 16;

/// The directives of a QUIC listener, resolved.
#[derive(Clone, Debug)]
pub struct Options {
    /// `http3_max_concurrent_streams`.
    pub max_streams: u32,
    /// `http3_stream_buffer_size`, in bytes.
    pub stream_window: u32,
    /// `keepalive_timeout`.
    pub idle: Duration,
    /// `quic_retry`: addresses are validated before anything is kept for them.
    pub retry: bool,
    /// `quic_gso`.
    pub gso: bool,
}

/// What happened on a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is done.
    Connected,
    /// Bytes, the end or a reset may be read from a stream, perhaps a new one.
    Readable(u64),
    /// A stream that was full takes bytes again.
    Writable(u64),
    /// The client does not want what we send on a stream.
    Stopped(u64),
    /// The connection is gone.
    Closed,
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// More may come.
    Open,
    /// That was all.
    Finished,
    /// The client gave the stream up.
    Reset,
}

struct Connection {
    quic: quinn_proto::Connection,
    /// Where its client was at first.
    origin: SocketAddr,
    /// In the list of those to look at.
    active: bool,
    /// When the timer in the heap is due.
    armed: Option<Instant>,
    accepted: VecDeque<Event>,
    closed: bool,
    quiet: Option<Quiet>,
    /// Where the client was last.
    remote: SocketAddr,
}

/// After the handshake, until the client acknowledges something: what is sent when a timer runs out.
///
/// quinn-proto then repeats its oldest packet, which is that of the session tickets and connection
/// ids. A client that is only busy would get them twice. A probe may be any frame that asks for an
/// acknowledgement (RFC 9002, section 6.2.4); what is really lost is repeated once one arrives.
#[derive(Clone, Copy)]
struct Quiet {
    /// ACK frames seen up to the end of the handshake.
    acks: u64,
    /// Timers that ran out since.
    timeouts: u32,
    /// Packets to fill, two for each timer as in quinn-proto.
    due: u32,
    /// The connection's receive window, which each probe announces a little larger.
    window: u64,
}

/// All QUIC connections of one UDP socket.
pub struct Endpoint {
    inner: quinn_proto::Endpoint,
    connections: Vec<Option<Connection>>,
    active: VecDeque<Key>,
    timers: BinaryHeap<Reverse<(Instant, Key)>>,
    local: Arc<ServerConfig>,
    remote: Arc<ServerConfig>,
    retry: bool,
    accepting: bool,
    /// Bytes that all streams of a connection may have under way to us.
    window: u64,
    tally: Tally,
}

impl Endpoint {
    /// An endpoint that accepts connections with this TLS.
    pub fn new(crypto: Arc<dyn crypto::ServerConfig>, options: &Options) -> Self {
        let config = |mtu| {
            let mut config = ServerConfig::with_crypto(crypto.clone());
            config.transport_config(Arc::new(transport(options, mtu)));
            Arc::new(config)
        };
        let (local, remote) = (config(LOOPBACK_MTU), config(INTERNET_MTU));
        let mut endpoint = EndpointConfig::default();
        endpoint
            .max_udp_payload_size(MAX_PAYLOAD)
            .expect("what UDP can carry is allowed");
        let endpoint = Arc::new(endpoint);
        Self {
            inner: quinn_proto::Endpoint::new(endpoint, Some(remote.clone()), true, None),
            connections: Vec::new(),
            active: VecDeque::new(),
            timers: BinaryHeap::new(),
            local,
            remote,
            retry: options.retry,
            accepting: true,
            window: receive_window(options),
            tally: Tally::default(),
        }
    }

    /// Takes a datagram. Answers that belong to no connection go to `out`.
    pub fn receive(&mut self, now: Instant, datagram: Datagram, out: &mut Sender) {
        let Datagram {
            remote,
            local,
            data,
        } = datagram;
        let buffer = out.buffer();
        let short = data.first().is_some_and(|first| first & LONG_HEADER == 0);
        match self.inner.handle(now, remote, local, None, data, buffer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(connection) = connection(&mut self.connections, handle.0) {
                    connection.quic.handle_event(event);
                    let remote = connection.quic.remote_address();
                    if std::mem::replace(&mut connection.remote, remote) != remote {
                        self.tally.add(Quic::Migrations, 1);
                    }
                    self.activate(handle.0);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.incoming(now, incoming, out),
            Some(DatagramEvent::Response(transmit)) => {
                // To a short header there is no other answer (RFC 9000, section 10.3).
                self.tally.add(Quic::StatelessResets, u64::from(short));
                out.push(outgoing(&transmit));
            }
            None => {}
        }
    }

    fn incoming(&mut self, now: Instant, incoming: Incoming, out: &mut Sender) {
        let buffer = out.buffer();
        if !self.accepting {
            // The client tries again, and reaches whoever listens on the socket now.
            self.inner.ignore(incoming);
            return;
        }
        if self.retry && !incoming.remote_address_validated() {
            // Fails only when it cannot be retried, which validation rules out.
            if let Ok(transmit) = self.inner.retry(incoming, buffer) {
                self.tally.add(Quic::Retries, 1);
                out.push(outgoing(&transmit));
            }
            return;
        }
        let config = if incoming.remote_address().ip().is_loopback() {
            self.local.clone()
        } else {
            self.remote.clone()
        };
        match self.inner.accept(incoming, now, buffer, Some(config)) {
            Ok((handle, quic)) => self.add(handle.0, quic),
            Err(error) => {
                if let Some(transmit) = error.response {
                    out.push(outgoing(&transmit));
                }
            }
        }
    }

    fn add(&mut self, key: Key, quic: quinn_proto::Connection) {
        self.tally.add(Quic::Connections, 1);
        if key >= self.connections.len() {
            self.connections.resize_with(key + 1, || None);
        }
        self.connections[key] = Some(Connection {
            origin: quic.remote_address(),
            remote: quic.remote_address(),
            quic,
            active: false,
            armed: None,
            accepted: VecDeque::new(),
            closed: false,
            quiet: None,
        });
        self.activate(key);
    }

    /// Takes no new connections from now on.
    pub fn stop_accepting(&mut self) {
        self.accepting = false;
    }

    /// Puts a connection on the list of those to look at.
    pub fn activate(&mut self, key: Key) {
        if let Some(connection) = connection(&mut self.connections, key) {
            if !std::mem::replace(&mut connection.active, true) {
                self.active.push_back(key);
            }
        }
    }

    /// A connection to look at: take its events, then call [`Endpoint::transmit`].
    pub fn next_active(&mut self) -> Option<Key> {
        let key = self.active.pop_front()?;
        if let Some(connection) = connection(&mut self.connections, key) {
            connection.active = false;
        }
        Some(key)
    }

    /// Takes the next event of a connection.
    pub fn poll(&mut self, key: Key) -> Option<Event> {
        self.relay(key);
        let connection = connection(&mut self.connections, key)?;
        loop {
            if connection.closed {
                return None;
            }
            if let Some(event) = connection.accepted.pop_front() {
                return Some(event);
            }
            match connection.quic.poll()? {
                QuicEvent::Connected => {
                    connection.quiet = Some(Quiet {
                        acks: connection.quic.stats().frame_rx.acks,
                        timeouts: 0,
                        due: 0,
                        window: self.window,
                    });
                    let early = u64::from(connection.quic.has_0rtt());
                    self.tally.add(Quic::Handshakes, 1);
                    self.tally.add(Quic::EarlyData, early);
                    return Some(Event::Connected);
                }
                QuicEvent::ConnectionLost { .. } => {
                    connection.closed = true;
                    return Some(Event::Closed);
                }
                QuicEvent::Stream(event) => connection.stream_event(event),
                _ => {}
            }
        }
    }

    /// Carries events between a connection and the endpoint, which hands out connection ids.
    fn relay(&mut self, key: Key) {
        let Some(connection) = connection(&mut self.connections, key) else {
            return;
        };
        let handle = ConnectionHandle(key);
        while let Some(event) = connection.quic.poll_endpoint_events() {
            if let Some(event) = self.inner.handle_event(handle, event) {
                connection.quic.handle_event(event);
            }
        }
    }

    /// Writes what a connection has to send into `out`, and sets its timer. `false`: `out` is full,
    /// call again once it was flushed.
    pub fn transmit(&mut self, key: Key, now: Instant, out: &mut Sender) -> bool {
        let Some(connection) = connection(&mut self.connections, key) else {
            return true;
        };
        loop {
            if out.is_full() {
                self.activate(key);
                return false;
            }
            let segments = connection.segments();
            let Some(transmit) = connection.quic.poll_transmit(now, segments, out.buffer()) else {
                break;
            };
            out.push(outgoing(&transmit));
        }
        self.relay(key);
        self.settle(key);
        true
    }

    /// Arms the timer of a connection, or lets go of one that is drained.
    fn settle(&mut self, key: Key) {
        let Some(connection) = connection(&mut self.connections, key) else {
            return;
        };
        if connection.quic.is_drained() && connection.closed {
            let path = connection.quic.stats().path;
            self.tally.add(Quic::PacketsSent, path.sent_packets);
            self.tally.add(Quic::PacketsLost, path.lost_packets);
            self.connections[key] = None;
            return;
        }
        if let Some(due) = connection.quic.poll_timeout() {
            // A timer in the heap that comes too early finds out and is set again; most are only
            // ever moved to later.
            if connection.armed.is_none_or(|armed| due < armed) {
                connection.armed = Some(due);
                self.timers.push(Reverse((due, key)));
            }
        }
    }

    /// When [`Endpoint::handle_timeouts`] is to be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    /// Tells connections whose time has come.
    pub fn handle_timeouts(&mut self, now: Instant) {
        while let Some(&Reverse((due, key))) = self.timers.peek() {
            if due > now {
                return;
            }
            self.timers.pop();
            let Some(connection) = connection(&mut self.connections, key) else {
                continue;
            };
            if connection.armed != Some(due) {
                continue;
            }
            connection.armed = None;
            if connection
                .quic
                .poll_timeout()
                .is_some_and(|real| real <= now)
            {
                connection.quic.handle_timeout(now);
                connection.probe_quietly();
                self.activate(key);
            } else {
                self.settle(key);
            }
        }
    }

    /// Reads what has come on a stream, up to about `limit` bytes, in order. Nothing is read behind
    /// a piece for which `stop` holds, not even the stream's end.
    pub fn read(
        &mut self,
        key: Key,
        stream: u64,
        limit: usize,
        chunks: &mut Vec<Bytes>,
        stop: impl Fn(&[u8]) -> bool,
    ) -> End {
        let Some(connection) = connection(&mut self.connections, key) else {
            return End::Reset;
        };
        let mut stream = connection.quic.recv_stream(id(stream));
        // Read to its end already: two events may have told of the same bytes.
        let Ok(mut reader) = stream.read(true) else {
            return End::Open;
        };
        let mut taken = 0;
        let end = loop {
            if taken >= limit {
                break End::Open;
            }
            match reader.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    taken += chunk.bytes.len();
                    let stops = stop(&chunk.bytes);
                    chunks.push(chunk.bytes);
                    if stops {
                        break End::Open;
                    }
                }
                Ok(None) => break End::Finished,
                Err(ReadError::Blocked) => break End::Open,
                Err(ReadError::Reset(_)) => break End::Reset,
            }
        };
        if reader.finalize().should_transmit() {
            self.activate(key);
        }
        end
    }

    /// Whether the client gave a stream up whose bytes are not wanted now; true once.
    pub fn was_reset(&mut self, key: Key, stream: u64) -> bool {
        let Some(connection) = connection(&mut self.connections, key) else {
            return false;
        };
        let mut stream = connection.quic.recv_stream(id(stream));
        matches!(stream.received_reset(), Ok(Some(_)))
    }

    /// Queues bytes on a stream: how many were taken, or `None` when the stream is gone. What is
    /// not taken can be tried again after [`Event::Writable`].
    pub fn write(&mut self, key: Key, stream: u64, chunks: &mut [Bytes]) -> Option<usize> {
        let connection = connection(&mut self.connections, key)?;
        match connection.quic.send_stream(id(stream)).write_chunks(chunks) {
            Ok(written) => Some(written.bytes),
            Err(WriteError::Blocked) => Some(0),
            Err(_) => None,
        }
    }

    /// Ends a stream after what was queued on it.
    pub fn finish(&mut self, key: Key, stream: u64) {
        if let Some(connection) = connection(&mut self.connections, key) {
            // An error means that the client stopped it or that it is gone.
            let _ = connection.quic.send_stream(id(stream)).finish();
        }
    }

    /// Gives up sending on a stream.
    pub fn reset(&mut self, key: Key, stream: u64, code: u64) {
        if let Some(connection) = connection(&mut self.connections, key) {
            // An error means that it is gone already.
            let _ = connection.quic.send_stream(id(stream)).reset(code_of(code));
        }
    }

    /// Tells the client to stop sending on a stream.
    pub fn stop(&mut self, key: Key, stream: u64, code: u64) {
        if let Some(connection) = connection(&mut self.connections, key) {
            // An error means that it ended already.
            let _ = connection.quic.recv_stream(id(stream)).stop(code_of(code));
        }
    }

    /// Opens a unidirectional stream, if the client allows another.
    pub fn open_uni(&mut self, key: Key) -> Option<u64> {
        let connection = connection(&mut self.connections, key)?;
        Some(u64::from(connection.quic.streams().open(Dir::Uni)?))
    }

    /// Streams with bytes that the client has not acknowledged, our control stream among them.
    pub fn unacknowledged(&mut self, key: Key) -> usize {
        connection(&mut self.connections, key).map_or(0, |c| c.quic.streams().send_streams())
    }

    /// Closes a connection; [`Event::Closed`] does not follow, its owner knows.
    pub fn close(&mut self, key: Key, now: Instant, code: u64, reason: &'static str) {
        if let Some(connection) = connection(&mut self.connections, key) {
            let reason = Bytes::from_static(reason.as_bytes());
            connection.quic.close(now, code_of(code), reason);
            connection.closed = true;
            self.activate(key);
        }
    }

    /// Where a connection's client is now; it may move.
    pub fn remote(&self, key: Key) -> Option<SocketAddr> {
        Some(self.connections.get(key)?.as_ref()?.quic.remote_address())
    }

    /// Where a connection's client was at first.
    pub fn origin(&self, key: Key) -> Option<SocketAddr> {
        Some(self.connections.get(key)?.as_ref()?.origin)
    }

    /// What the TLS of a connection says about its handshake.
    pub fn handshake(&self, key: Key) -> Option<Box<dyn Any>> {
        let connection = self.connections.get(key)?.as_ref()?;
        connection.quic.crypto_session().handshake_data()
    }

    /// What happened since it was last asked for.
    pub fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Whether all connections are drained.
    pub fn is_empty(&self) -> bool {
        self.inner.open_connections() == 0
    }
}

impl Connection {
    /// After a timer ran out: has the packets that quinn-proto sends now carry no repetition.
    fn probe_quietly(&mut self) {
        let acks = |connection: &Self| connection.quic.stats().frame_rx.acks;
        let Some(mut quiet) = self.quiet else { return };
        quiet.timeouts += 1;
        quiet.due = 2;
        let over = quiet.timeouts > MAX_QUIET_PROBES || acks(self) != quiet.acks;
        self.quiet = (!over).then_some(quiet);
    }

    /// Packets to ask for at once.
    fn segments(&mut self) -> usize {
        if let Some(quiet) = self.quiet.as_mut().filter(|quiet| quiet.due > 0) {
            quiet.due -= 1;
            quiet.window += WINDOW_STEP;
            self.quic.set_receive_window(code_of(quiet.window));
            return 1;
        }
        (MAX_SEND / usize::from(self.quic.current_mtu())).clamp(1, MAX_SEGMENTS)
    }

    fn stream_event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Opened { dir } => {
                while let Some(id) = self.quic.streams().accept(dir) {
                    self.accepted.push_back(Event::Readable(id.into()));
                }
            }
            StreamEvent::Readable { id } => self.accepted.push_back(Event::Readable(id.into())),
            StreamEvent::Writable { id } => self.accepted.push_back(Event::Writable(id.into())),
            StreamEvent::Stopped { id, .. } => self.accepted.push_back(Event::Stopped(id.into())),
            StreamEvent::Finished { .. } | StreamEvent::Available { .. } => {}
        }
    }
}

fn connection(connections: &mut [Option<Connection>], key: Key) -> Option<&mut Connection> {
    connections.get_mut(key)?.as_mut()
}

fn id(stream: u64) -> StreamId {
    StreamId::from(VarInt::from_u64(stream).unwrap_or(VarInt::MAX))
}

fn code_of(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn outgoing(transmit: &Transmit) -> Outgoing {
    Outgoing {
        remote: transmit.destination,
        local: transmit.src_ip,
        segment: transmit.segment_size,
    }
}

fn receive_window(options: &Options) -> u64 {
    u64::from(options.stream_window) * 16
}

fn transport(options: &Options, mtu: u16) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(mtu);
    let idle = VarInt::from_u64(options.idle.as_millis() as u64).unwrap_or(VarInt::MAX);
    transport
        .max_concurrent_bidi_streams(options.max_streams.into())
        .max_concurrent_uni_streams(MAX_UNI_STREAMS.into())
        .stream_receive_window(options.stream_window.into())
        .receive_window(code_of(receive_window(options)))
        .send_window(SEND_WINDOW)
        .max_idle_timeout(Some(idle.into()))
        .mtu_discovery_config(Some(discovery))
        .datagram_receive_buffer_size(None)
        .enable_segmentation_offload(options.gso);
    transport
}
