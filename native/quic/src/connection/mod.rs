//! A connection: its input, its output, and its timers.

mod close;
mod handshake;
mod ids;
mod input;
mod loss;
mod migration;
mod output;
mod path;
mod space;

use crate::cid::ConnectionId;
use crate::crypto::{Session, Tls};
use crate::ecn::Ecn;
use crate::endpoint::Event;
use crate::frame;
use crate::keys::OneRtt;
use crate::params::{Own, Params};
use crate::recovery::Outcome;
use crate::streams::{Limits, Streams};
use bytes::BytesMut;
use close::State;
use path::Path;
use rustls::quic::{DirectionalKeys, Version};
use rustls::Side;
use space::{Level, Space};
use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most 1-RTT packets kept from before the end of the handshake.
const MAX_EARLY_PACKETS: usize = 8;

/// The settings that all connections of a listener share.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub limits: Limits,
    pub idle: Duration,
    pub handshake: Duration,
    /// The largest accepted datagram in bytes.
    pub max_udp_payload: u64,
    /// The largest datagram to send in bytes, if the path carries it.
    pub mtu: u16,
    /// Whether datagrams of equal size can be sent together.
    pub gso: bool,
    /// Whether datagrams can be marked with ECT(0).
    pub ecn: bool,
    /// Whether clients get tokens for later connections.
    pub new_token: bool,
}

/// The source of a datagram, its length, and its ECN mark.
#[derive(Clone, Copy, Debug)]
pub struct From {
    pub remote: SocketAddr,
    pub local: Option<IpAddr>,
    pub bytes: usize,
    pub ecn: Ecn,
}

/// The parameters of a new connection.
pub struct Begin {
    pub now: Instant,
    pub from: From,
    /// The destination id of the client's first packet, and the one before a Retry.
    pub destination: ConnectionId,
    pub original: ConnectionId,
    pub retried: bool,
    /// Whether the client's address is validated.
    pub validated: bool,
    /// The client's id, and ours.
    pub source: ConnectionId,
    pub id: ConnectionId,
    pub reset_token: [u8; 16],
}

/// The tasks of the endpoint for a connection.
#[derive(Debug, Default)]
pub struct Wishes {
    /// Whether a field below changed, or more ids are needed.
    pub any: bool,
    /// The stateless reset token of the client id in use.
    pub reset_token: Option<[u8; 16]>,
    /// Whether to issue a token for later connections.
    pub token: bool,
}

pub struct Connection {
    config: Config,
    session: Box<dyn Session>,
    state: State,
    /// Whether the handshake is complete and thus confirmed (RFC 9001, section 4.1.2).
    complete: bool,
    spaces: [Space; 3],
    /// The level of outgoing handshake bytes.
    write_level: Level,
    early: Option<DirectionalKeys>,
    one_rtt: Option<OneRtt>,
    held: Vec<(From, BytesMut)>,
    /// Packets that could not be decrypted.
    failures: u64,
    params: Option<Params>,
    path: Path,
    /// The path to return to if the client does not validate the new one.
    previous: Option<Path>,
    path_until: Option<Instant>,
    /// PATH_RESPONSE frames to send, with the source and length of the datagrams that asked.
    responses: Vec<([u8; 8], From)>,
    /// Whether the current datagram contained a PATH_CHALLENGE.
    is_challenged: bool,
    local_ids: ids::Local,
    remote_ids: ids::Remote,
    /// Our id to which the last packet was sent.
    used_id: ConnectionId,
    /// The id that the client initially chose for us.
    pub initial_id: ConnectionId,
    pub streams: Streams,
    in_flight: u64,
    /// Whether the congestion window was not fully used.
    app_limited: bool,
    probe_timeouts: u32,
    idle: Duration,
    idle_at: Option<Instant>,
    /// The time limit of the handshake.
    handshake_until: Option<Instant>,
    /// Set once sending has extended the idle timeout; receiving clears it.
    idle_extended: bool,
    paced_until: Option<Instant>,
    /// Whether the datagram being written is marked with ECT(0).
    marking: bool,
    /// The length of the previous datagram; a slightly shorter one is padded to it.
    alike: Option<usize>,
    handshake_done_due: bool,
    new_token: Vec<u8>,
    new_token_due: bool,
    /// The next packet number to skip.
    skip: u64,
    pub wishes: Wishes,
    outcome: Outcome,
    pub sent_packets: u64,
    pub lost_packets: u64,
}

impl Connection {
    /// A connection for a client whose first packet has arrived; pass the packet next.
    pub fn new(config: Config, tls: Arc<dyn Tls>, begin: Begin) -> Self {
        let own = Own {
            original: &begin.original,
            source: &begin.id,
            retry_source: begin.retried.then_some(&begin.destination),
            reset_token: &begin.reset_token,
            idle: config.idle,
            max_udp_payload: config.max_udp_payload,
            max_data: config.limits.window,
            max_stream_data: config.limits.stream_window,
            max_streams_bidi: config.limits.max_bidi,
            max_streams_uni: config.limits.max_uni,
            active_ids: ids::ACTIVE,
        };
        let suite = tls.suite();
        let initial = suite.keys(begin.destination.as_slice(), Side::Server, Version::V1);
        let mut path = Path::new(begin.from.remote, begin.from.local, config.mtu, config.ecn);
        path.validated = begin.validated;
        let mut spaces: [Space; 3] = Default::default();
        spaces[0].keys = Some(initial);
        Self {
            session: tls.start(own.encode()),
            state: State::Open,
            complete: false,
            spaces,
            write_level: Level::Initial,
            early: None,
            one_rtt: None,
            held: Vec::new(),
            failures: 0,
            params: None,
            path,
            previous: None,
            path_until: None,
            responses: Vec::new(),
            is_challenged: false,
            local_ids: ids::Local::new(begin.id),
            remote_ids: ids::Remote::new(begin.source),
            used_id: begin.id,
            initial_id: begin.destination,
            streams: Streams::new(config.limits),
            in_flight: 0,
            app_limited: true,
            probe_timeouts: 0,
            idle: config.idle,
            idle_at: Some(begin.now + config.idle),
            handshake_until: Some(begin.now + config.handshake),
            idle_extended: false,
            paced_until: None,
            marking: false,
            alike: None,
            handshake_done_due: false,
            new_token: Vec::new(),
            new_token_due: false,
            skip: output::first_skip(),
            wishes: Wishes::default(),
            outcome: Outcome::default(),
            sent_packets: 0,
            lost_packets: 0,
            config,
        }
    }

    /// Whether no packet of the client could be decrypted.
    pub fn is_untouched(&self) -> bool {
        self.spaces.iter().all(|space| space.received.is_empty()) && self.is_open()
    }

    /// Take the next event; [`Event::Closed`] is the last.
    pub fn poll(&mut self) -> Option<Event> {
        self.streams.events.pop_front()
    }

    /// The client's current address.
    pub fn remote(&self) -> SocketAddr {
        self.path.remote
    }

    /// The size of outgoing datagrams.
    pub fn mtu(&self) -> usize {
        usize::from(self.path.mtu.current())
    }

    /// The TLS layer's description of the handshake.
    pub fn describe(&self) -> Option<Box<dyn Any>> {
        self.session.describe()
    }

    /// Whether the client may have sent data in 0-RTT packets.
    pub fn had_early_data(&self) -> bool {
        self.early.is_some()
    }

    /// Our ids of this connection.
    pub fn ids(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.local_ids
            .all()
            .chain(self.local_ids.gone.iter().copied())
    }

    /// Take the ids that no longer belong to this connection.
    pub fn take_gone(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.local_ids.gone)
    }

    /// The number of further ids that it can issue.
    pub fn missing_ids(&self) -> usize {
        self.local_ids.missing()
    }

    /// Give it another id.
    pub fn add_id(&mut self, id: ConnectionId, token: [u8; 16]) {
        self.local_ids.add(id, token);
    }

    /// Set a token for the client's next connections.
    pub fn set_new_token(&mut self, token: Vec<u8>) {
        self.new_token = token;
        self.new_token_due = true;
    }

    /// Whether the datagram ends with the stateless reset token of the client id in use.
    pub fn is_reset_by(&self, datagram: &[u8]) -> bool {
        let token = self.remote_ids.active.token;
        datagram.len() >= 21 && token.is_some_and(|token| datagram.ends_with(&token))
    }

    /// The probe timeout, without the delay of acknowledgments.
    fn probe_timeout(&self) -> Duration {
        self.path.rtt.probe_timeout()
    }

    fn max_ack_delay(&self) -> Duration {
        self.params
            .as_ref()
            .map_or(Duration::ZERO, |p| p.max_ack_delay)
    }

    /// The time when [`Connection::handle_timeout`] must be called.
    pub fn timeout(&self) -> Option<Instant> {
        if let Some(until) = self.state.until() {
            return Some(until);
        }
        if self.state.is_drained() {
            return None;
        }
        let earliest = |a: Option<Instant>, b: Option<Instant>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let mut due = earliest(self.idle_at, self.spaces[Level::Data as usize].ack_at);
        due = earliest(due, self.handshake_until);
        due = earliest(due, self.path_until);
        due = earliest(due, self.paced_until);
        due = earliest(due, self.loss_at());
        earliest(due, self.probe_at().map(|(at, _)| at))
    }

    /// Handle the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.state.until().is_some() {
            if is_due(self.state.until()) {
                self.state = State::Drained;
            }
            return;
        }
        if is_due(self.idle_at) || is_due(self.handshake_until) {
            return self.lose();
        }
        let data = &mut self.spaces[Level::Data as usize];
        if is_due(data.ack_at) {
            data.ack_at = None;
            data.ack_now = true;
        }
        if is_due(self.paced_until) {
            self.paced_until = None;
        }
        if is_due(self.path_until) {
            self.path_failed();
        }
        if is_due(self.loss_at()) {
            self.find_losses(now);
        } else if let Some((_, level)) = self.probe_at().filter(|(at, _)| *at <= now) {
            self.probe(level);
        }
    }

    /// Set the time limit of the handshake.
    pub fn finish_handshake_until(&mut self, until: Instant) {
        if !self.complete {
            self.handshake_until = Some(self.handshake_until.map_or(until, |at| at.min(until)));
        }
    }

    /// The number of successive probes without a response.
    pub fn unanswered_probes(&self) -> u32 {
        self.probe_timeouts
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }
}

/// Whether packets before the end of the handshake may contain this frame type (RFC 9000, section
/// 12.4).
fn is_for_handshake(kind: u64) -> bool {
    matches!(
        kind,
        frame::PING | frame::ACK | frame::ACK_ECN | frame::CRYPTO | frame::CONNECTION_CLOSE
    )
}
