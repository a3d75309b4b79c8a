//! All connections of a UDP socket: assigns datagrams to connections and accepts new ones.

use crate::cid::{ConnectionId, LOCAL_LEN};
use crate::connection::{Begin, Config, Connection, From};
use crate::crypto::Tls;
use crate::ecn::Ecn;
use crate::error::{Error, Reason};
use crate::options::Options;
use crate::packet::{self, Header, Kind, Long, FIXED, LONG, MIN_INITIAL};
use crate::streams::{End, Limits};
use crate::token::{random, retry_tag, Judgement, Tokens, RESET_LEN};
use bytes::{Bytes, BytesMut};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Identifies a connection of an endpoint; reused after [`Event::Closed`].
pub type Key = usize;

/// The largest payload tried on paths that leave the host: 1500 bytes of Ethernet minus headers.
const INTERNET_MTU: u16 = 1452;
/// The largest payload tried on the loopback interface.
const LOOPBACK_MTU: u16 = 16_000;
/// The most bytes that the kernel accepts in one send with segmentation offload.
const MAX_SEND: usize = 64_000;
const MAX_SEGMENTS: usize = 64;
/// The largest payload of UDP (RFC 9000, section 18.2).
const MAX_PAYLOAD: u64 = 65_527;
/// The most unacknowledged bytes of a connection, which limits its memory.
const SEND_WINDOW: u64 = 2 << 20;
/// The client's control and QPACK streams, and some reserved ones.
const MAX_UNI_STREAMS: u64 = 8;
/// The window of a connection, in windows of a stream.
const WINDOWS: u64 = 16;
/// The time between two stateless resets, which limits responses to invalid packets.
const RESET_EVERY: Duration = Duration::from_millis(20);
/// The fraction of the handshake limit above which addresses must be validated first.
const MAX_PENDING: usize = 4;
/// The least bytes of a stateless reset before its token, so that it looks like a packet (section
/// 10.3).
const MIN_RESET: usize = 5;

/// A received datagram.
pub struct Datagram {
    /// The source address.
    pub remote: SocketAddr,
    /// The local address, if known.
    pub local: Option<IpAddr>,
    /// The content.
    pub data: BytesMut,
    /// The ECN mark.
    pub ecn: Ecn,
}

/// A datagram, or several of equal size for one destination, to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The destination.
    pub remote: SocketAddr,
    /// The local address to send from.
    pub local: Option<IpAddr>,
    /// The length of each datagram except the last, if there are several.
    pub segment: Option<usize>,
    /// Whether to mark it with ECT(0).
    pub ecn: bool,
}

impl Transmit {
    /// A single datagram without a mark.
    pub fn unmarked(remote: SocketAddr, local: Option<IpAddr>) -> Self {
        Self {
            remote,
            local,
            segment: None,
            ecn: false,
        }
    }
}

/// Receives outgoing datagrams.
pub trait Output {
    /// An empty buffer for the next datagrams.
    fn buffer(&mut self) -> &mut Vec<u8>;
    /// Queue the last buffer.
    fn push(&mut self, transmit: Transmit);
    /// Whether the queue is full.
    fn is_full(&self) -> bool;
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// A stream, possibly a new one, has bytes, an end, or a reset to read.
    Readable(u64),
    /// A stream that was full accepts bytes again.
    Writable(u64),
    /// The client rejects a stream of ours, which is reset.
    Stopped(u64),
    /// The connection has ended.
    Closed,
}

/// Counts of events on an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accepted connections.
    pub connections: u64,
    /// Completed handshakes.
    pub handshakes: u64,
    /// Handshakes with 0-RTT.
    pub early_data: u64,
    /// Sent Retry packets.
    pub retries: u64,
    /// Client migrations.
    pub migrations: u64,
    /// Stateless resets.
    pub stateless_resets: u64,
    /// Packets sent on ended connections.
    pub packets_sent: u64,
    /// Packets lost on ended connections.
    pub packets_lost: u64,
}

struct Entry {
    quic: Connection,
    /// The client's first address.
    origin: SocketAddr,
    remote: SocketAddr,
    /// Whether it is in the list of active connections.
    active: bool,
    /// The time of its timer in the heap.
    armed: Option<Instant>,
    /// Whether the application knows of it.
    announced: bool,
    /// Whether the application knows that it has ended.
    closed: bool,
    reset_token: Option<[u8; RESET_LEN]>,
}

/// Our ids are random, so they serve as their own hash.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|b| self.0 = self.0 << 8 | u64::from(*b));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

type Ids = HashMap<u64, Key, BuildHasherDefault<Same>>;

/// All QUIC connections of one UDP socket.
pub struct Endpoint {
    tls: Arc<dyn Tls>,
    config: Config,
    tokens: Tokens,
    label: u8,
    retry: bool,
    retry_above: usize,
    accepting: bool,
    /// The number of connections that may still be accepted.
    room: usize,
    /// The number of connections in their handshake, of which the application does not know.
    pending: usize,
    /// First packets that were dropped because the limit of connections was reached.
    dropped: u64,
    connections: Vec<Option<Box<Entry>>>,
    free: Vec<Key>,
    open: usize,
    /// Connections by our ids, and by the ids that clients chose for their first packets.
    ids: Ids,
    initial_ids: HashMap<ConnectionId, Key>,
    /// Connections by stateless reset tokens from clients.
    resets: HashMap<[u8; RESET_LEN], Key>,
    last_reset: Option<Instant>,
    active: VecDeque<Key>,
    timers: BinaryHeap<Reverse<(Instant, Key)>>,
    /// The last datagram of this round and its size, if later ones can join its message.
    row: Option<(Transmit, usize)>,
    counts: Counts,
}

fn number(id: &ConnectionId) -> Option<u64> {
    id.as_slice().try_into().ok().map(u64::from_ne_bytes)
}

impl Endpoint {
    /// An endpoint that accepts connections with these TLS settings; times are counted from `now`.
    pub fn new(tls: Arc<dyn Tls>, options: &Options, now: Instant) -> Self {
        let stream_window = u64::from(options.stream_window);
        let limits = Limits {
            max_bidi: options.max_streams.into(),
            max_uni: MAX_UNI_STREAMS,
            stream_window,
            window: stream_window * WINDOWS,
            send_window: SEND_WINDOW,
        };
        let config = Config {
            limits,
            idle: options.idle,
            handshake: options.handshake,
            max_udp_payload: MAX_PAYLOAD,
            mtu: INTERNET_MTU,
            gso: options.gso,
            ecn: options.ecn,
            new_token: options.retry,
        };
        Self {
            tls,
            config,
            tokens: Tokens::new(&options.secret, options.steered, now, options.unix_ms),
            label: options.label,
            retry: options.retry,
            retry_above: options.retry_above,
            accepting: true,
            room: usize::MAX,
            pending: 0,
            dropped: 0,
            connections: Vec::new(),
            free: Vec::new(),
            open: 0,
            ids: Ids::default(),
            initial_ids: HashMap::new(),
            resets: HashMap::new(),
            last_reset: None,
            active: VecDeque::new(),
            timers: BinaryHeap::new(),
            row: None,
            counts: Counts::default(),
        }
    }

    #[inline]
    fn entry(&mut self, key: Key) -> Option<&mut Entry> {
        self.connections.get_mut(key)?.as_deref_mut()
    }

    fn known(&self, key: Key) -> Option<&Entry> {
        self.connections.get(key)?.as_deref()
    }

    /// Process a datagram. Responses outside of connections go to `out`.
    pub fn receive(&mut self, now: Instant, datagram: Datagram, out: &mut impl Output) {
        let Some(header) = packet::parse(&datagram.data) else {
            return;
        };
        let Datagram {
            remote,
            local,
            data,
            ecn,
        } = datagram;
        let from = From {
            remote,
            local,
            bytes: data.len(),
            ecn,
        };
        let key = match &header {
            Header::Short(id) => number(id).and_then(|id| self.ids.get(&id)).copied(),
            Header::Long(long) => self.find(&long.destination),
            Header::OtherVersion {
                destination,
                source,
            } => {
                if data.len() >= MIN_INITIAL {
                    let random = random::<1>()[0] & 0x3f;
                    let (destination, source) = (&data[destination.clone()], &data[source.clone()]);
                    packet::version_negotiation(out.buffer(), random, destination, source);
                    answer(out, from);
                }
                return;
            }
        };
        match (key, header) {
            (Some(key), _) => self.deliver(now, key, from, data),
            (None, Header::Long(long)) if long.kind == Kind::Initial => {
                self.incoming(now, from, &long, data, out);
            }
            (None, Header::Short(id)) => self.unknown(now, from, &id, &data, out),
            _ => {}
        }
    }

    fn find(&self, id: &ConnectionId) -> Option<Key> {
        let ours = number(id).and_then(|id| self.ids.get(&id));
        ours.or_else(|| self.initial_ids.get(id)).copied()
    }

    #[inline]
    fn deliver(&mut self, now: Instant, key: Key, from: From, data: BytesMut) {
        let Some(entry) = self.entry(key) else { return };
        entry.quic.receive(now, from, data);
        let moved = entry.quic.remote();
        let wishes = entry.quic.wishes.any;
        if std::mem::replace(&mut entry.remote, moved) != moved {
            self.counts.migrations += 1;
        }
        if wishes {
            self.grant(now, key);
        }
        self.activate(key);
    }

    /// Perform the endpoint's tasks for a connection.
    fn grant(&mut self, now: Instant, key: Key) {
        let Some(entry) = self.connections.get_mut(key).and_then(Option::as_deref_mut) else {
            return;
        };
        let wishes = std::mem::take(&mut entry.quic.wishes);
        for id in entry.quic.take_gone() {
            number(&id).map(|id| self.ids.remove(&id));
        }
        for _ in 0..entry.quic.missing_ids() {
            let id = new_id(&mut self.ids, self.label, key);
            entry.quic.add_id(id, self.tokens.reset(&id));
        }
        if let Some(token) = wishes.reset_token {
            if let Some(old) = entry.reset_token.replace(token) {
                self.resets.remove(&old);
            }
            self.resets.insert(token, key);
        }
        if wishes.token {
            let token = self.tokens.for_later(entry.remote, now);
            entry.quic.set_new_token(token);
        }
    }

    /// Handle the first packet of a client.
    fn incoming(
        &mut self,
        now: Instant,
        from: From,
        long: &Long,
        data: BytesMut,
        out: &mut impl Output,
    ) {
        // First packets must not have ids shorter than 8 bytes (RFC 9000, section 7.2).
        if !self.accepting || data.len() < MIN_INITIAL || long.destination.len() < LOCAL_LEN {
            return;
        }
        let judgement = self
            .tokens
            .judge(&data[long.token.clone()], from.remote, now);
        let validated = matches!(judgement, Judgement::Retried(_) | Judgement::Known);
        // A Retry stores no state, so a flood from forged addresses costs no memory.
        let busy = self.pending >= self.retry_above;
        if (self.retry || busy) && judgement == Judgement::Unknown {
            return self.send_retry(now, from, long, out);
        }
        // A client whose packet is dropped sends it again.
        if self.room == 0 || self.pending >= self.retry_above.saturating_mul(MAX_PENDING) {
            self.dropped += 1;
            return;
        }
        let original = match judgement {
            Judgement::Retried(original) => original,
            _ => long.destination,
        };
        let key = self.free.last().copied().unwrap_or(self.connections.len());
        let id = new_id(&mut self.ids, self.label, key);
        let begin = Begin {
            now,
            from,
            destination: long.destination,
            original,
            retried: matches!(judgement, Judgement::Retried(_)),
            validated,
            source: long.source,
            id,
            reset_token: self.tokens.reset(&id),
        };
        let mut config = self.config;
        if from.remote.ip().is_loopback() {
            config.mtu = LOOPBACK_MTU;
        }
        let mut quic = Connection::new(config, self.tls.clone(), begin);
        if judgement == Judgement::Invalid {
            number(&id).map(|id| self.ids.remove(&id));
            let error = Error::new(Reason::InvalidToken, "the token is not for this address");
            return refuse(now, from, quic, error, out);
        }
        quic.receive(now, from, data);
        if quic.is_untouched() {
            // The packet could not be decrypted, so drop the new connection.
            number(&id).map(|id| self.ids.remove(&id));
            return;
        }
        self.add(key, quic, from.remote);
    }

    fn add(&mut self, key: Key, quic: Connection, remote: SocketAddr) {
        self.counts.connections += 1;
        self.open += 1;
        self.pending += 1;
        self.room = self.room.saturating_sub(1);
        self.initial_ids.insert(quic.initial_id, key);
        if self.free.pop().is_none() {
            self.connections.push(None);
        }
        self.connections[key] = Some(Box::new(Entry {
            quic,
            origin: remote,
            remote,
            active: false,
            armed: None,
            announced: false,
            closed: false,
            reset_token: None,
        }));
        self.activate(key);
    }

    /// Send Retry to validate the client's address (RFC 9000, section 8.1.2).
    fn send_retry(&mut self, now: Instant, from: From, long: &Long, out: &mut impl Output) {
        let token = self.tokens.retry(from.remote, now, &long.destination);
        let source = ConnectionId::random(self.label);
        let buffer = out.buffer();
        buffer.push(LONG | FIXED | 3 << 4 | random::<1>()[0] & 0x0f);
        buffer.extend_from_slice(&packet::VERSION.to_be_bytes());
        for id in [&long.source, &source] {
            buffer.push(id.len() as u8);
            buffer.extend_from_slice(id.as_slice());
        }
        buffer.extend_from_slice(&token);
        let tag = retry_tag(&long.destination, buffer);
        buffer.extend_from_slice(&tag);
        self.counts.retries += 1;
        answer(out, from);
    }

    /// Handle a packet of an unknown connection: the client or this endpoint has lost its state.
    fn unknown(
        &mut self,
        now: Instant,
        from: From,
        id: &ConnectionId,
        data: &[u8],
        out: &mut impl Output,
    ) {
        if let Some(token) = data.last_chunk::<RESET_LEN>() {
            if let Some(key) = self.resets.get(token).copied() {
                if let Some(entry) = self.entry(key) {
                    entry.quic.lose();
                }
                return self.activate(key);
            }
        }
        // Shorter than the packet it responds to, so that two endpoints do not loop (section
        // 10.3.3).
        let room = data.len().saturating_sub(1).min(MIN_RESET + 40);
        let too_soon = self.last_reset.is_some_and(|last| last + RESET_EVERY > now);
        if room < MIN_RESET + RESET_LEN || too_soon {
            return;
        }
        self.last_reset = Some(now);
        let noise = random::<{ MIN_RESET + 40 }>();
        let buffer = out.buffer();
        buffer.extend_from_slice(&noise[..room - RESET_LEN]);
        buffer[0] = buffer[0] & 0x3f | FIXED;
        buffer.extend_from_slice(&self.tokens.reset(id));
        self.counts.stateless_resets += 1;
        answer(out, from);
    }

    /// Accept no new connections; handshakes under way have until then to complete.
    pub fn stop_accepting(&mut self, until: Instant) {
        self.accepting = false;
        for key in 0..self.connections.len() {
            if let Some(entry) = self.entry(key) {
                entry.quic.finish_handshake_until(until);
                self.settle(key);
            }
        }
    }

    /// Add a connection to the list of active ones.
    pub fn activate(&mut self, key: Key) {
        if let Some(entry) = self.entry(key) {
            if !std::mem::replace(&mut entry.active, true) {
                self.active.push_back(key);
            }
        }
    }

    /// The number of active connections.
    pub fn waiting(&self) -> usize {
        self.active.len()
    }

    /// The next active connection: take its events, then call [`Endpoint::transmit`].
    pub fn next_active(&mut self) -> Option<Key> {
        let Some(key) = self.active.pop_front() else {
            self.row = None;
            return None;
        };
        if let Some(entry) = self.entry(key) {
            entry.active = false;
        }
        Some(key)
    }

    /// Take the next event of a connection.
    pub fn poll(&mut self, key: Key) -> Option<Event> {
        let entry = self.entry(key).filter(|entry| !entry.closed)?;
        let event = entry.quic.poll()?;
        let is_news = !std::mem::replace(&mut entry.announced, true);
        match event {
            Event::Connected => {
                let early = u64::from(entry.quic.had_early_data());
                self.counts.handshakes += 1;
                self.counts.early_data += early;
            }
            Event::Closed => entry.closed = true,
            _ => {}
        }
        self.pending -= usize::from(is_news);
        Some(event)
    }

    /// Write a connection's output to `out` and set its timer. `false`: `out` is full; call again
    /// after it was flushed.
    pub fn transmit(&mut self, key: Key, now: Instant, out: &mut impl Output) -> bool {
        loop {
            let row = self.row;
            let Some(entry) = self.entry(key) else {
                return true;
            };
            if out.is_full() {
                self.activate(key);
                return false;
            }
            let segments = (MAX_SEND / entry.quic.mtu()).clamp(1, MAX_SEGMENTS);
            let buffer = out.buffer();
            let alike = row.filter(|(last, _)| last.remote == entry.quic.remote());
            let alike = alike.map(|(_, size)| size);
            let Some(transmit) = entry.quic.transmit(now, segments, alike, buffer) else {
                break;
            };
            let size = buffer.len();
            let more = entry.quic.may_send_more(now);
            out.push(transmit);
            let goes_on = transmit.segment.is_none() && (alike.is_none_or(|alike| size >= alike));
            self.row = goes_on.then_some((transmit, size));
            if !more {
                break;
            }
        }
        self.settle(key);
        true
    }

    /// Set the timer of a connection, or remove it if it has ended.
    fn settle(&mut self, key: Key) {
        let Some(entry) = self.entry(key) else { return };
        if entry.quic.is_drained() {
            if entry.closed {
                self.remove(key);
            } else {
                // Its end must still be reported.
                self.activate(key);
            }
            return;
        }
        if let Some(due) = entry.quic.timeout() {
            // A timer in the heap that fires too early is set again; most timers only move to later
            // times.
            if entry.armed.is_none_or(|armed| due < armed) {
                entry.armed = Some(due);
                self.timers.push(Reverse((due, key)));
            }
        }
    }

    fn remove(&mut self, key: Key) {
        let Some(entry) = self.connections[key].take() else {
            return;
        };
        self.counts.packets_sent += entry.quic.sent_packets;
        self.counts.packets_lost += entry.quic.lost_packets;
        for id in entry.quic.ids() {
            number(&id).map(|id| self.ids.remove(&id));
        }
        // Another client may have chosen the same id later.
        if self.initial_ids.get(&entry.quic.initial_id) == Some(&key) {
            self.initial_ids.remove(&entry.quic.initial_id);
        }
        if let Some(token) = entry.reset_token {
            self.resets.remove(&token);
        }
        self.open -= 1;
        self.pending -= usize::from(!entry.announced);
        self.free.push(key);
    }

    /// The time of the next call of [`Endpoint::handle_timeouts`].
    pub fn next_timeout(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    /// Handle the timers that are due.
    pub fn handle_timeouts(&mut self, now: Instant) {
        while let Some(&Reverse((due, key))) = self.timers.peek() {
            if due > now {
                return;
            }
            self.timers.pop();
            let Some(entry) = self.entry(key).filter(|entry| entry.armed == Some(due)) else {
                continue;
            };
            entry.armed = None;
            if entry.quic.timeout().is_some_and(|real| real <= now) {
                entry.quic.handle_timeout(now);
                self.activate(key);
            } else {
                self.settle(key);
            }
        }
    }

    /// Read received bytes of a stream in order, up to about `limit`. Reading stops after a piece
    /// for which `stop` returns true, before the stream's end.
    pub fn read(
        &mut self,
        key: Key,
        stream: u64,
        limit: usize,
        chunks: &mut Vec<Bytes>,
        stop: impl Fn(&[u8]) -> bool,
    ) -> End {
        let Some(entry) = self.entry(key) else {
            return End::Reset;
        };
        let end = entry.quic.streams.read(stream, limit, chunks, stop);
        if entry.quic.streams.has_pending() {
            self.activate(key);
        }
        end
    }

    /// Whether the client reset a stream that is not being read; `true` only once.
    pub fn was_reset(&mut self, key: Key, stream: u64) -> bool {
        self.entry(key)
            .is_some_and(|entry| entry.quic.streams.was_reset(stream))
    }

    /// Queue bytes on a stream. Returns the number taken, or `None` if the stream is gone. Retry
    /// the rest after [`Event::Writable`].
    pub fn write(&mut self, key: Key, stream: u64, chunks: &mut [Bytes]) -> Option<usize> {
        self.entry(key)?.quic.streams.write(stream, chunks)
    }

    /// End a stream after its queued bytes.
    pub fn finish(&mut self, key: Key, stream: u64) {
        if let Some(entry) = self.entry(key) {
            entry.quic.streams.finish(stream);
        }
    }

    /// Reset the sending side of a stream.
    pub fn reset(&mut self, key: Key, stream: u64, code: u64) {
        if let Some(entry) = self.entry(key) {
            entry.quic.streams.reset(stream, code);
        }
    }

    /// Send STOP_SENDING for a stream.
    pub fn stop(&mut self, key: Key, stream: u64, code: u64) {
        if let Some(entry) = self.entry(key) {
            entry.quic.streams.stop(stream, code);
        }
    }

    /// Open a unidirectional stream if the client allows another.
    pub fn open_uni(&mut self, key: Key) -> Option<u64> {
        self.entry(key)?.quic.streams.open_uni()
    }

    /// The number of streams with unacknowledged bytes or room to write.
    pub fn unacknowledged(&mut self, key: Key) -> usize {
        self.known(key)
            .map_or(0, |entry| entry.quic.streams.sending())
    }

    /// The number of successive probes of a connection without a response.
    pub fn unanswered_probes(&self, key: Key) -> u32 {
        self.known(key)
            .map_or(0, |entry| entry.quic.unanswered_probes())
    }

    /// Close a connection without a following [`Event::Closed`].
    pub fn close(&mut self, key: Key, now: Instant, code: u64, reason: &'static str) {
        if let Some(entry) = self.entry(key) {
            entry.quic.close(now, code, reason);
            entry.closed = true;
            self.activate(key);
        }
    }

    /// The current address of a connection's client; it may migrate.
    pub fn remote(&self, key: Key) -> Option<SocketAddr> {
        self.known(key).map(|entry| entry.remote)
    }

    /// The first address of a connection's client.
    pub fn origin(&self, key: Key) -> Option<SocketAddr> {
        self.known(key).map(|entry| entry.origin)
    }

    /// The TLS layer's description of a connection's handshake.
    pub fn handshake(&self, key: Key) -> Option<Box<dyn Any>> {
        self.known(key)?.quic.describe()
    }

    /// Take the counts since the last call.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// The number of connections in their handshake, without any event taken.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Set the number of connections that may still be accepted; first packets of others are
    /// dropped.
    pub fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// Take the number of first packets dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Whether all connections have ended and were removed.
    pub fn is_empty(&self) -> bool {
        self.open == 0
    }
}

fn new_id(ids: &mut Ids, label: u8, key: Key) -> ConnectionId {
    loop {
        let id = ConnectionId::random(label);
        let vacant = number(&id).map(|number| ids.entry(number));
        if let Some(std::collections::hash_map::Entry::Vacant(vacant)) = vacant {
            vacant.insert(key);
            return id;
        }
    }
}

fn answer(out: &mut impl Output, from: From) {
    out.push(Transmit::unmarked(from.remote, from.local));
}

/// Send the reason for refusing a connection, and drop it.
fn refuse(now: Instant, from: From, mut quic: Connection, error: Error, out: &mut impl Output) {
    if let Some(transmit) = quic.refuse(now, from, error, out.buffer()) {
        out.push(transmit);
    }
}
