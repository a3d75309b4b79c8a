//! An HTTP/3 connection and its requests.

mod reuse;
mod sending;

use super::tls::Handshake;
use super::{Hub, CLOSE_AFTER, GONE_AFTER, GONE_PROBES};
use crate::idle::Idle;
use crate::mux::passing::{self, Passed, Streamed};
use crate::mux::{self, Coding, Mux, Queue};
use crate::reuse::moment;
use bytes::Bytes;
use gallop_conf::model::{Level, ListenAddr};
use gallop_engine::conn::{Conn, Ends};
use gallop_engine::exchange::TlsInfo;
use gallop_http::h3::{self, send, ErrorCode};
use gallop_http::head::{HeadError, RequestHead};
use gallop_http::stream_table::StreamTable;
use gallop_quic::{End, Event, Key};
use gallop_runtime::{coarse_ms, sleep, Notify};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::{Duration, Instant};

/// Bytes taken from a stream at a time.
const READ: usize = 64 * 1024;
/// The most bytes of a request body that are queued before reading from the stream pauses.
const MAX_QUEUED: usize = 64 * 1024;

/// A stream whose response is not completely sent.
#[derive(Default)]
struct StreamState {
    body: Option<Rc<Queue>>,
    /// Bytes in the body's queue.
    queued: usize,
    /// The stream has unread bytes because the queue was full.
    unread: bool,
    /// The complete request was received.
    received: bool,
    writer: Option<Waker>,
    gone: Option<Rc<Notify>>,
    /// The place in the table of requests that wait for an upstream without a task.
    place: Option<usize>,
    /// Bytes that QUIC has not accepted yet.
    pending: VecDeque<Bytes>,
    /// The response ends after `pending`.
    ends: bool,
}

impl StreamState {
    fn lost(self, idle: &Rc<Idle>) {
        if let Some(place) = self.place {
            passing::lost(idle, place);
        }
        if let Some(body) = self.body {
            body.fail();
        }
        if let Some(gone) = self.gone {
            gone.set();
        }
    }
}

/// The result of OCSP checks of the client's certificates (`ssl_ocsp`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judgement {
    /// The handshake, which carries the certificates, is not complete.
    Awaited,
    Asked,
    /// The reason for rejecting the certificates, if any. `None` also if no check is configured.
    Over(Option<&'static str>),
}

pub struct Connection {
    hub: Rc<Hub>,
    key: Key,
    h3: RefCell<h3::Connection>,
    streams: RefCell<StreamTable<StreamState>>,
    /// The connection as the engine sees it; created with the first request.
    conn: RefCell<Option<Rc<Conn>>>,
    /// The client's address when its last packets were handled. As in nginx, a request that arrives
    /// with the first packet from a new address still counts for the old one.
    peer: Cell<Option<SocketAddr>>,
    /// The server's control stream, and its QPACK decoder stream once that is needed.
    control: Cell<Option<u64>>,
    decoder: Cell<Option<u64>>,
    judgement: Cell<Judgement>,
    /// Streams to continue reading.
    resumed: RefCell<Vec<u64>>,
    /// Bytes that follow a field section which waits for the QPACK table; `true`: the stream ends
    /// there.
    held: RefCell<Vec<(u64, VecDeque<Bytes>, bool)>>,
    /// Streams with a time limit for their head.
    timed: RefCell<Vec<u64>>,
    /// The error to close the connection with after pending output is sent, and whether it was
    /// sent.
    failed: Cell<Option<(h3::Error, bool)>>,
    closing: Cell<bool>,
    /// The time of the GOAWAY.
    warned: Cell<Option<Instant>>,
    /// The time of the last activity, see [`moment`].
    last_use: Cell<u32>,
    _count: crate::worker::ConnectionCount,
}

impl Connection {
    pub fn new(hub: &Rc<Hub>, key: Key) -> Rc<Self> {
        let counters = &hub.worker.shared.counters;
        counters.accepted.fetch_add(1, Ordering::Relaxed);
        counters.handled.fetch_add(1, Ordering::Relaxed);
        Rc::new(Self {
            hub: hub.clone(),
            key,
            h3: RefCell::new(h3::Connection::new(hub.config)),
            streams: RefCell::new(StreamTable::new(2)),
            conn: RefCell::default(),
            peer: Cell::new(hub.endpoint.borrow().origin(key)),
            control: Cell::new(None),
            decoder: Cell::new(None),
            judgement: Cell::new(match hub.inquires {
                true => Judgement::Awaited,
                false => Judgement::Over(None),
            }),
            resumed: RefCell::default(),
            held: RefCell::default(),
            timed: RefCell::default(),
            failed: Cell::new(None),
            closing: Cell::new(false),
            warned: Cell::new(None),
            last_use: Cell::new(moment()),
            _count: crate::worker::ConnectionCount::new(hub.worker.clone()),
        })
    }

    pub fn event(self: &Rc<Self>, event: Event, now: Instant) {
        match event {
            Event::Connected => {
                if let Some(tls) = self.conn.borrow().as_ref().and_then(|c| c.tls()) {
                    tls.early_data.set(false);
                }
                self.open_control();
                self.inquire();
            }
            Event::Readable(stream) => self.read(stream, now),
            Event::Writable(stream) => self.write_on(stream),
            Event::Stopped(stream) => self.stopped(stream, now),
            Event::Closed => {}
        }
    }

    /// Process the changes that request tasks made.
    pub fn go_on(self: &Rc<Self>, now: Instant) {
        self.last_use.set(moment());
        match self.failed.take() {
            Some((error, true)) => return self.close(error.code, error.reason, now),
            Some((error, false)) => {
                self.failed.set(Some((error, true)));
                return self.hub.touch(self.key);
            }
            None => {}
        }
        self.release_held(now);
        if self.is_judged() {
            let resumed = std::mem::take(&mut *self.resumed.borrow_mut());
            for stream in resumed {
                self.read(stream, now);
            }
        }
        self.say_instructions();
        let h3 = self.h3.borrow();
        let used_up = h3.is_used_up() && !h3.is_going_away();
        drop(h3);
        if used_up {
            self.say_goaway();
        }
        let h3 = self.h3.borrow();
        let going_away = h3.is_going_away();
        drop(h3);
        // During a graceful shutdown, requests may still be on their way: see `wind_down`.
        if going_away && self.warned.get().is_none() && self.is_idle() {
            self.close(ErrorCode::NO_ERROR, "", now);
        }
        self.follow_client();
    }

    /// Check the client's certificates by OCSP if configured; requests wait for the result.
    fn inquire(self: &Rc<Self>) {
        if self.judgement.get() != Judgement::Awaited {
            return;
        }
        let handshake = self.hub.endpoint.borrow().handshake(self.key);
        let handshake = handshake.and_then(|data| data.downcast::<Handshake>().ok());
        let Some((inquiry, shown)) = handshake.and_then(|known| known.inquiry) else {
            return self.judgement.set(Judgement::Over(None));
        };
        self.judgement.set(Judgement::Asked);
        let connection = Rc::downgrade(self);
        gallop_runtime::spawn(async move {
            let refused = inquiry.refuses(&shown).await;
            if let Some(connection) = connection.upgrade() {
                connection.judgement.set(Judgement::Over(refused));
                connection.hub.touch(connection.key);
            }
        });
    }

    fn is_judged(&self) -> bool {
        matches!(self.judgement.get(), Judgement::Over(_))
    }

    /// Assign the client's current address to the requests that follow.
    fn follow_client(&self) {
        let now = self.hub.endpoint.borrow().remote(self.key);
        if now.is_none() || self.peer.replace(now) == now {
            return;
        }
        let mut conn = self.conn.borrow_mut();
        if let Some(known) = conn.take() {
            *conn = Some(Rc::new(known.moved(now)));
        }
    }

    /// Whether every request has its response and the client has acknowledged all of it, so that
    /// only control streams are open. Closing earlier would lose data in flight.
    fn is_idle(&self) -> bool {
        let ours = 1 + usize::from(self.decoder.get().is_some());
        self.is_answered() && self.hub.endpoint.borrow_mut().unacknowledged(self.key) <= ours
    }

    /// Whether QUIC has accepted every response.
    fn is_answered(&self) -> bool {
        self.judgement.get() != Judgement::Asked
            && self.streams.borrow().is_empty()
            && self.h3.borrow().open_requests() == 0
    }

    /// Whether the client has acknowledged nothing for a long time although all responses are
    /// complete. It may have left without closing.
    fn is_gone(&self) -> bool {
        let silent = self.hub.endpoint.borrow().unanswered_probes(self.key) >= GONE_PROBES;
        silent && self.is_answered()
    }

    /// Continue reading streams whose field section waited for the QPACK table.
    fn release_held(self: &Rc<Self>, now: Instant) {
        loop {
            let Some(stream) = self.h3.borrow_mut().unblocked() else {
                return;
            };
            let mut held = self.held.borrow_mut();
            let Some(at) = held.iter().position(|(id, ..)| *id == stream) else {
                continue;
            };
            let (_, mut chunks, mut fin) = held.swap_remove(at);
            drop(held);
            if !fin {
                // The end of the stream may be unread.
                let mut more = Vec::new();
                let mut endpoint = self.hub.endpoint.borrow_mut();
                let end = endpoint.read(self.key, stream, READ, &mut more, |_| false);
                drop(endpoint);
                if end == End::Reset {
                    self.reset_by_peer(stream, now);
                    continue;
                }
                chunks.extend(more);
                fin = end == End::Finished;
            }
            if chunks.is_empty() {
                chunks.push_back(Bytes::new());
            }
            if self.feed_all(stream, chunks, fin, now) && !fin {
                self.read(stream, now);
            }
        }
    }

    /// Send the QPACK decoder's acknowledgments to the client's encoder.
    fn say_instructions(&self) -> bool {
        let Some(instructions) = self.h3.borrow_mut().take_instructions() else {
            return false;
        };
        let mut endpoint = self.hub.endpoint.borrow_mut();
        let stream = match self.decoder.get() {
            Some(stream) => stream,
            None => {
                let Some(stream) = endpoint.open_uni(self.key) else {
                    return false;
                };
                endpoint.write(self.key, stream, &mut [send::decoder_stream().into()]);
                self.decoder.set(Some(stream));
                stream
            }
        };
        endpoint.write(self.key, stream, &mut [instructions.into()]);
        true
    }

    fn open_control(&self) {
        let mut endpoint = self.hub.endpoint.borrow_mut();
        // Every client allows the three streams that HTTP/3 needs (RFC 9114, section 6.2).
        let Some(stream) = endpoint.open_uni(self.key) else {
            return;
        };
        let mut hello = [send::control_stream(&self.hub.config).into()];
        endpoint.write(self.key, stream, &mut hello);
        self.control.set(Some(stream));
    }

    /// Accept no more requests and send GOAWAY.
    fn say_goaway(&self) {
        let first_refused = self.h3.borrow_mut().shutdown();
        self.push_goaway(first_refused);
    }

    fn push_goaway(&self, first_refused: u64) {
        let Some(control) = self.control.get() else {
            return;
        };
        let mut goaway = Vec::new();
        send::push_goaway(&mut goaway, first_refused);
        let mut endpoint = self.hub.endpoint.borrow_mut();
        endpoint.write(self.key, control, &mut [goaway.into()]);
    }

    /// Send GOAWAY. A client with open requests, or before its first request, may have sent more
    /// requests meanwhile: they are served until the client had time to receive the GOAWAY (RFC
    /// 9114, section 5.2). On an idle connection, later requests are rejected and can be retried on
    /// another connection (section 4.1.1).
    fn warn(&self, now: Instant) {
        self.warned.set(Some(now));
        if self.h3.borrow().is_going_away() {
            return;
        }
        if self.is_answered() && self.h3.borrow().has_served() {
            self.say_goaway();
        } else {
            self.push_goaway(send::LAST_STREAM);
        }
        self.hub.touch(self.key);
    }

    /// Continue the graceful shutdown, which began `since` ago.
    pub fn wind_down(&self, now: Instant, since: Duration) {
        if self.hub.idle.is_closed() {
            // `worker_shutdown_timeout` has passed.
            return self.close(ErrorCode::NO_ERROR, "", now);
        }
        // A client that is still in its handshake gets the GOAWAY afterwards; its last handshake
        // packet may carry a request.
        if self.warned.get().is_none() && self.control.get().is_some() {
            self.warn(now);
        }
        let warned = self.warned.get().map_or(since, |at| now - at);
        let is_last_word = self.control.get().is_none() || self.h3.borrow().is_going_away();
        if warned > CLOSE_AFTER && !is_last_word {
            self.say_goaway();
            self.hub.touch(self.key);
        }
        let is_done = warned > CLOSE_AFTER && is_last_word && self.is_idle();
        if is_done || since > GONE_AFTER && self.is_gone() {
            self.close(ErrorCode::NO_ERROR, "", now);
        }
    }

    pub fn close(&self, code: ErrorCode, reason: &'static str, now: Instant) {
        if self.closing.replace(true) {
            return;
        }
        self.hub
            .endpoint
            .borrow_mut()
            .close(self.key, now, code.0, reason);
        self.hub.forget(self.key);
        self.lost();
    }

    fn fail(&self, error: h3::Error, now: Instant) {
        self.hub.worker.log(Level::Info, &error.to_string());
        if self.say_instructions() {
            // QUIC sends nothing more after a close.
            self.failed.set(Some((error, false)));
            return self.hub.touch(self.key);
        }
        self.close(error.code, error.reason, now);
    }

    /// Handle the loss of the connection and of its requests.
    pub fn lost(&self) {
        self.closing.set(true);
        let mut streams = self.streams.borrow_mut();
        let states: Vec<_> = streams
            .iter_mut()
            .map(|(_, state)| std::mem::take(state))
            .collect();
        *streams = StreamTable::new(2);
        drop(streams);
        let idle = &self.hub.idle;
        states.into_iter().for_each(|state| state.lost(idle));
    }

    fn read(self: &Rc<Self>, stream: u64, now: Instant) {
        if !self.is_judged() {
            let mut resumed = self.resumed.borrow_mut();
            if !resumed.contains(&stream) {
                resumed.push(stream);
            }
            return;
        }
        let mut chunks = Vec::new();
        loop {
            if self.is_lost() || self.is_full(stream) {
                return;
            }
            if self.is_held(stream) {
                let reset = self.hub.endpoint.borrow_mut().was_reset(self.key, stream);
                if reset {
                    self.reset_by_peer(stream, now);
                }
                return;
            }
            chunks.clear();
            let end =
                self.hub
                    .endpoint
                    .borrow_mut()
                    .read(self.key, stream, READ, &mut chunks, |piece| {
                        self.h3.borrow().would_wait(piece)
                    });
            if end == End::Reset {
                return self.reset_by_peer(stream, now);
            }
            let fin = end == End::Finished;
            if chunks.is_empty() && !fin {
                return;
            }
            let fed = match &chunks[..] {
                [] => self.feed_all(stream, [Bytes::new()].into(), fin, now),
                // Nearly every request arrives in one piece.
                [whole] => self.feed_one(stream, whole, fin, now),
                _ => self.feed_all(stream, chunks.drain(..).collect(), fin, now),
            };
            if !fed || fin {
                return;
            }
        }
    }

    /// Like [`Connection::feed_all`], for one piece.
    fn feed_one(self: &Rc<Self>, stream: u64, chunk: &Bytes, fin: bool, now: Instant) -> bool {
        let rest = self.feed(stream, chunk, fin, now);
        let fed = rest.is_none();
        let held = rest.map(|rest| (stream, [rest].into(), fin));
        self.held.borrow_mut().extend(held);
        self.time_head(stream);
        fed
    }

    /// Pass pieces of a stream to HTTP/3; `false` if the rest must wait.
    fn feed_all(
        self: &Rc<Self>,
        stream: u64,
        mut chunks: VecDeque<Bytes>,
        fin: bool,
        now: Instant,
    ) -> bool {
        while let Some(chunk) = chunks.pop_front() {
            let last = fin && chunks.is_empty();
            if let Some(rest) = self.feed(stream, &chunk, last, now) {
                chunks.push_front(rest);
                self.held.borrow_mut().push((stream, chunks, fin));
                self.time_head(stream);
                return false;
            }
        }
        self.time_head(stream);
        true
    }

    /// Start the time limit of an incomplete head.
    fn time_head(self: &Rc<Self>, stream: u64) {
        let mut timed = self.timed.borrow_mut();
        if !self.h3.borrow().awaits_head(stream) || timed.contains(&stream) {
            return;
        }
        timed.push(stream);
        let conf = &self.hub.listener.endpoint.hosts.default.conf;
        let limit = conf.client_header_timeout.unwrap_or(60_000);
        let connection = Rc::downgrade(self);
        gallop_runtime::spawn(async move {
            sleep(limit).await;
            if let Some(connection) = connection.upgrade() {
                connection.head_is_late(stream);
            }
        });
    }

    fn head_is_late(&self, stream: u64) {
        self.timed.borrow_mut().retain(|&id| id != stream);
        if self.is_lost() || !self.h3.borrow().awaits_head(stream) {
            return;
        }
        let message = "client timed out sending a request header";
        self.hub.worker.log(Level::Info, message);
        self.held.borrow_mut().retain(|(id, ..)| *id != stream);
        self.h3.borrow_mut().forget(stream);
        let code = ErrorCode::REQUEST_REJECTED.0;
        let mut endpoint = self.hub.endpoint.borrow_mut();
        endpoint.stop(self.key, stream, code);
        endpoint.reset(self.key, stream, code);
        drop(endpoint);
        self.hub.touch(self.key);
    }

    fn is_held(&self, stream: u64) -> bool {
        let held = self.held.borrow();
        held.iter().any(|(id, ..)| *id == stream)
    }

    fn is_lost(&self) -> bool {
        let failed = self.failed.take();
        self.failed.set(failed);
        failed.is_some() || self.closing.get()
    }

    /// Whether the stream's body queue is full. Reading continues when there is room.
    fn is_full(&self, stream: u64) -> bool {
        let mut streams = self.streams.borrow_mut();
        let full = |state: &&mut StreamState| state.queued >= MAX_QUEUED;
        match streams.get_mut(stream).filter(full) {
            Some(state) => {
                state.unread = true;
                true
            }
            None => false,
        }
    }

    fn lose(&self, stream: u64) {
        let state = self.streams.borrow_mut().remove(stream);
        if let Some(state) = state {
            state.lost(&self.hub.idle);
        }
    }

    fn reset_by_peer(self: &Rc<Self>, stream: u64, now: Instant) {
        self.lose(stream);
        self.held.borrow_mut().retain(|(id, ..)| *id != stream);
        let result = self.h3.borrow_mut().peer_reset(stream, now);
        match result {
            // As in nginx, a request whose head waited for the QPACK table gets a response.
            Ok(true) => return self.start(stream, Err(HeadError::RequestLine), true),
            Ok(false) => {}
            Err(error) => self.fail(error, now),
        }
        let code = ErrorCode::REQUEST_CANCELLED.0;
        let mut endpoint = self.hub.endpoint.borrow_mut();
        endpoint.reset(self.key, stream, code);
    }

    fn stopped(self: &Rc<Self>, stream: u64, now: Instant) {
        let known = self.streams.borrow().get(stream).is_some();
        if known {
            self.hub
                .endpoint
                .borrow_mut()
                .stop(self.key, stream, ErrorCode::NO_ERROR.0);
            self.reset_by_peer(stream, now);
        }
    }

    /// Pass bytes of a stream to HTTP/3. Returns the rest if the stream must wait.
    fn feed(self: &Rc<Self>, stream: u64, chunk: &Bytes, fin: bool, now: Instant) -> Option<Bytes> {
        let mut input = &chunk[..];
        while !self.is_lost() {
            let mut shared = self.hub.shared.borrow_mut();
            let event = self
                .h3
                .borrow_mut()
                .receive(&mut shared, stream, &mut input, fin, now);
            drop(shared);
            match event {
                Err(error) => {
                    self.fail(error, now);
                    return None;
                }
                Ok(None) => break,
                Ok(Some(h3::Event::Blocked { .. })) => return Some(chunk.slice_ref(input)),
                Ok(Some(event)) => {
                    if self.h3_event(event, chunk) {
                        break;
                    }
                }
            }
        }
        None
    }

    /// Handle an HTTP/3 event; `true` if nothing more is to be read from the stream.
    fn h3_event(self: &Rc<Self>, event: h3::Event<'_>, chunk: &Bytes) -> bool {
        match event {
            h3::Event::Request {
                stream,
                head,
                end_stream,
            } => {
                if !(end_stream && (self.answer_now(stream, &head) || self.pass_on(stream, &head)))
                {
                    self.start(stream, Ok(&head), end_stream);
                }
                if self.is_spent() {
                    self.h3.borrow_mut().use_up();
                }
                end_stream
            }
            h3::Event::Malformed {
                stream,
                error,
                end_stream,
            } => {
                self.start(stream, Err(error), true);
                self.mark_received(stream, end_stream);
                end_stream
            }
            h3::Event::Data {
                stream,
                data,
                end_stream,
            } => {
                self.body(stream, Some(chunk.slice_ref(data)), end_stream);
                end_stream
            }
            h3::Event::BadBody { stream, end_stream } => {
                self.body(stream, None, end_stream);
                end_stream
            }
            h3::Event::StreamError { stream, code } => {
                self.stream_error(stream, code);
                true
            }
            h3::Event::Unwanted { stream } => {
                let code = ErrorCode::STREAM_CREATION_ERROR.0;
                self.hub.endpoint.borrow_mut().stop(self.key, stream, code);
                false
            }
            h3::Event::GoAway | h3::Event::Blocked { .. } => false,
        }
    }

    /// Handle a piece of a request body; `None`: the body contradicts its head.
    fn body(&self, stream: u64, data: Option<Bytes>, end_stream: bool) {
        let mut streams = self.streams.borrow_mut();
        let Some(state) = streams.get_mut(stream) else {
            return;
        };
        state.received |= end_stream;
        match (&state.body, data) {
            (Some(body), Some(data)) => {
                state.queued += data.len();
                body.push(data, end_stream);
            }
            (Some(body), None) => body.refuse(),
            (None, _) => {}
        }
    }

    fn stream_error(&self, stream: u64, code: ErrorCode) {
        self.lose(stream);
        let mut endpoint = self.hub.endpoint.borrow_mut();
        endpoint.stop(self.key, stream, code.0);
        endpoint.reset(self.key, stream, code.0);
    }

    /// Whether `keepalive_timeout` or `keepalive_time` ends the connection.
    fn is_spent(&self) -> bool {
        let conf = &self.hub.listener.endpoint.hosts.default.root.conf;
        let age = coarse_ms().saturating_sub(self.conn().started);
        let life = conf.keepalive_time.unwrap_or(3_600_000);
        age > life || conf.keepalive_timeout == Some(0)
    }

    /// Send a prepared response, if there is one.
    fn answer_now(&self, stream: u64, head: &Rc<RequestHead>) -> bool {
        let conn = self.conn();
        let sent = mux::find(&self.hub.worker, &conn, Coding::Qpack, head, |found| {
            (found.blob.cloned(), found.logged)
        });
        let Some((Some(blob), logged)) = sent else {
            return false;
        };
        let mut endpoint = self.hub.endpoint.borrow_mut();
        let len = blob.len();
        let mut chunks = [blob];
        let taken = endpoint.write(self.key, stream, &mut chunks);
        if taken == Some(len) {
            endpoint.finish(self.key, stream);
            self.h3.borrow_mut().request_done();
        } else if taken.is_some() {
            let [rest] = chunks;
            let pending = VecDeque::from([rest]);
            let state = StreamState {
                pending,
                ends: true,
                received: true,
                ..Default::default()
            };
            self.streams.borrow_mut().insert(stream, state);
        }
        drop(endpoint);
        mux::log(&self.hub.worker, &conn, Coding::Qpack, head, logged);
        true
    }

    /// Pass a request to an upstream if it needs no task.
    fn pass_on(self: &Rc<Self>, stream: u64, head: &RequestHead) -> bool {
        let client = Streamed {
            conn: self.conn(),
            mux: self.clone(),
            stream,
        };
        let Some(passed) = passing::send(&self.hub.idle, client, head) else {
            return false;
        };
        let mut state = StreamState {
            received: true,
            ..Default::default()
        };
        match passed {
            Passed::Waits(place) => state.place = Some(place),
            Passed::Started(gone) => state.gone = Some(gone),
        }
        self.streams.borrow_mut().insert(stream, state);
        true
    }

    fn start(self: &Rc<Self>, stream: u64, head: Result<&RequestHead, HeadError>, end: bool) {
        let state = StreamState {
            received: end,
            ..Default::default()
        };
        self.streams.borrow_mut().insert(stream, state);
        let (conn, mux) = (self.conn(), self.clone() as Rc<dyn Mux>);
        let started = mux::start(&self.hub.worker, &conn, mux, stream, head, end);
        if let Some(state) = self.streams.borrow_mut().get_mut(stream) {
            state.body = started.body;
            state.gone = Some(started.gone);
        }
    }

    fn mark_received(&self, stream: u64, received: bool) {
        if let Some(state) = self.streams.borrow_mut().get_mut(stream) {
            state.received = received;
        }
    }

    /// The connection as the engine sees it.
    fn conn(&self) -> Rc<Conn> {
        if let Some(conn) = &*self.conn.borrow() {
            return conn.clone();
        }
        let conn = Rc::new(self.new_conn());
        *self.conn.borrow_mut() = Some(conn.clone());
        conn
    }

    fn new_conn(&self) -> Conn {
        let hub = &self.hub;
        let endpoint = hub.endpoint.borrow();
        let local = match &hub.listener.addr {
            ListenAddr::Inet(addr) => Some(*addr),
            ListenAddr::Unix(_) => None,
        };
        let handshake = endpoint.handshake(self.key);
        let handshake = handshake.and_then(|data| data.downcast::<Handshake>().ok());
        let mut tls = handshake.map_or_else(TlsInfo::default, |known| known.info);
        if let Judgement::Over(Some(reason)) = self.judgement.get() {
            tls.client_verify = format!("FAILED:{reason}");
        }
        let served = hub
            .listener
            .endpoint_for(local.map(|addr| addr.ip()))
            .clone();
        let name = Some(&tls.server_name).filter(|name| !name.is_empty());
        let server = name.map(|name| served.hosts.choose(name).server.clone());
        let id = &hub.worker.shared.next_connection;
        let ends = Ends {
            peer: self.peer.get(),
            local,
            unix: None,
            socket: None,
        };
        let conn = Conn::new(id.fetch_add(1, Ordering::Relaxed), served, ends);
        conn.with_tls(tls, server)
    }
}
