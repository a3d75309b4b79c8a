//! HTTP/3. For each UDP socket of a thread, one task moves datagrams in batches and serves all
//! connections of that socket.

mod connection;
mod tally;
mod tls;
mod udp;

use crate::idle::Idle;
use crate::reuse::{self, Waiting};
use crate::tls::Store;
use connection::Connection;
use gallop_conf::model::{Level, ListenAddr, Listener, Server};
use gallop_engine::Worker;
use gallop_http::h3::{self, ErrorCode};
use gallop_quic::Key;
use gallop_runtime::{deadline, Deadline, IoFd};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tls::Tls;
use udp::BATCH;

pub use gallop_quic::{Datagram, Ecn, End, Endpoint, Event, Options, Output, Transmit};
pub use udp::{prepare, Receiver, Sender};

/// Batches received before responses are sent.
const BATCHES: usize = 4;
/// Connections served before their output is gathered. The code of each of the two steps fits in 32
/// KB, the usual size of the first instruction cache; both together do not. The data of more
/// connections would not fit either.
const SERVED: usize = 16;
/// The time that an idle connection is kept after the shutdown began.
const CLOSE_AFTER: Duration = Duration::from_millis(1000);

/// The least time after the start of the shutdown that a client has to acknowledge its last
/// response or to finish its handshake. A client that leaves this many probes in a row unanswered
/// counts as gone.
const GONE_AFTER: Duration = Duration::from_secs(3);
const GONE_PROBES: u32 = 4;

/// The most milliseconds for a handshake. Lost packets are repeated four times within ten seconds.
const MAX_HANDSHAKE_MS: u64 = 10_000;

/// Milliseconds between checks for remaining connections during a shutdown.
const WIND_DOWN_MS: u64 = 10;

/// The state that all connections of a socket share.
struct Hub {
    idle: Rc<Idle>,
    worker: Rc<Worker>,
    listener: Listener,
    endpoint: RefCell<Endpoint>,
    connections: RefCell<Vec<Option<Rc<Connection>>>>,
    shared: RefCell<h3::Shared>,
    config: h3::Config,
    /// Whether client certificates may need an OCSP check.
    inquires: bool,
    task: RefCell<Option<Waker>>,
    touched: Cell<bool>,
    /// Handshakes under way that count as connections of the worker.
    pending: Cell<usize>,
    /// The time of the last log line about a lack of room.
    complained: Cell<Option<Instant>>,
}

/// The time between two log lines about a lack of room.
const COMPLAIN_EVERY: Duration = Duration::from_secs(1);

/// The key of address validation tokens. It is created before the first worker starts, so that all
/// workers share it, also after a reload.
pub fn secret() -> [u8; 32] {
    *SECRET.get_or_init(gallop_quic::random)
}

/// Use the secret of the previous process, unless a secret is already in use.
pub fn keep_secret(secret: [u8; 32]) {
    SECRET.get_or_init(|| secret);
}

static SECRET: OnceLock<[u8; 32]> = OnceLock::new();

/// Check that a QUIC listener can be served.
///
/// # Errors
/// Describes the problem and its place.
pub fn check(listener: &Listener, tls: &Store) -> Result<(), String> {
    new_endpoint(listener, tls, None, false, 0).map(drop)
}

fn new_endpoint(
    listener: &Listener,
    tls: &Store,
    label: Option<u8>,
    ecn: bool,
    connections: usize,
) -> Result<Endpoint, String> {
    let server = &listener.endpoint.hosts.default;
    let at =
        |e: &dyn std::fmt::Display| format!("{e} in {}:{}", server.place.file, server.place.line);
    let contexts = tls.quic_contexts(&listener.endpoint).map_err(|e| at(&e))?;
    let tls = Tls::new(contexts).map_err(|e| at(&e))?;
    Ok(Endpoint::new(
        Arc::new(tls),
        &options(server, label, ecn, connections),
        Instant::now(),
    ))
}

/// The number of handshakes above which new clients must validate their address (Retry), for a
/// worker with this many connections.
fn retry_above(configured: Option<u64>, connections: usize) -> usize {
    let usual = (connections / 4).clamp(16, 1024);
    configured.map_or(usual, |n| usize::try_from(n).unwrap_or(usize::MAX))
}

fn options(server: &Server, label: Option<u8>, ecn: bool, connections: usize) -> Options {
    let conf = &server.conf;
    let header = conf.client_header_timeout.unwrap_or(60_000);
    let idle = server.root.conf.keepalive_timeout.unwrap_or(75_000);
    Options {
        max_streams: conf.http3_max_concurrent_streams.unwrap_or(128).min(32_768) as u32,
        stream_window: conf
            .http3_stream_buffer_size
            .unwrap_or(65_536)
            .clamp(1024, 1 << 30) as u32,
        idle: Duration::from_millis(idle.max(1000)),
        retry: conf.quic_retry.unwrap_or(false),
        retry_above: retry_above(conf.quic_retry_above, connections),
        gso: conf.quic_gso.unwrap_or(true),
        ecn,
        handshake: Duration::from_millis(header.clamp(1000, MAX_HANDSHAKE_MS)),
        label: label.unwrap_or(0),
        secret: match &conf.quic_host_key {
            Some(key) => gallop_quic::secret_of(key),
            None => secret(),
        },
        // Without steering, a packet may reach a thread that does not have its connection.
        steered: label.is_some(),
        unix_ms: unix_ms(),
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn h3_config(server: &Server) -> h3::Config {
    let conf = &server.conf;
    let (count, size) = conf.large_buffers();
    h3::Config {
        head: gallop_http::head::HeadLimits {
            size: count.saturating_mul(size) as usize,
            field: size as usize,
            fields: conf.max_headers.unwrap_or(1000) as usize,
        },
        max_section: count.saturating_mul(size) as usize,
        max_field: size as usize,
        max_requests: server.root.conf.keepalive_requests.unwrap_or(1000),
        max_streams: conf.http3_max_concurrent_streams.unwrap_or(128).min(32_768) as usize,
    }
}

/// Serve a UDP socket until the worker shuts down and its connections have ended. `label`: the
/// kernel uses it to steer packets to this socket.
pub async fn serve(
    idle: Rc<Idle>,
    tls: Arc<Store>,
    listener: Listener,
    fd: OwnedFd,
    label: Option<u8>,
) {
    let worker = idle.worker().clone();
    let ecn = match &listener.addr {
        ListenAddr::Inet(addr) => udp::prepare(fd.as_raw_fd(), addr.ip()),
        ListenAddr::Unix(_) => Ok(false),
    };
    let ecn = match ecn {
        Ok(ecn) => ecn,
        Err(error) => return failed(&worker, &listener, &error),
    };
    let connections = worker.connection_limit();
    let endpoint = match new_endpoint(&listener, &tls, label, ecn, connections) {
        Ok(endpoint) => endpoint,
        Err(message) => return worker.log(Level::Emerg, &message),
    };
    let hub = Rc::new(Hub {
        config: h3_config(&listener.endpoint.hosts.default),
        worker,
        idle,
        inquires: tls.inquires(&listener.endpoint),
        listener,
        endpoint: RefCell::new(endpoint),
        connections: RefCell::default(),
        shared: RefCell::default(),
        task: RefCell::default(),
        touched: Cell::new(false),
        pending: Cell::new(0),
        complained: Cell::new(None),
    });
    let group: Weak<dyn Waiting> = Rc::<Hub>::downgrade(&hub);
    hub.idle.reuse().add_group(group);
    if let Err(error) = hub.run(fd, ecn).await {
        failed(&hub.worker, &hub.listener, &error);
    }
}

fn failed(worker: &Worker, listener: &Listener, error: &io::Error) {
    let message = format!("QUIC socket of {} failed ({error})", listener.addr);
    worker.log(Level::Emerg, &message);
}

impl Hub {
    async fn run(self: &Rc<Self>, fd: OwnedFd, ecn: bool) -> io::Result<()> {
        let io = IoFd::reading(fd)?;
        io.set_readable();
        let gso = self.listener.endpoint.hosts.default.conf.quic_gso;
        let mut receiver = Receiver::default();
        let mut sender = Sender::marking(ecn).joining(gso.unwrap_or(true));
        let timer = deadline();
        let mut ending = None;
        loop {
            let now = Instant::now();
            self.receive(&io, &mut receiver, &mut sender, now)?;
            self.endpoint.borrow_mut().handle_timeouts(now);
            self.serve_active(&io, &mut sender, now)?;
            flush(&io, &mut sender)?;
            tally::count(&mut self.endpoint.borrow_mut(), self.worker.meter.as_ref());
            self.count_pending();
            self.complain(now);
            if self.worker.shutdown.is_set() {
                let since = *ending.get_or_insert_with(|| {
                    self.endpoint.borrow_mut().stop_accepting(now + GONE_AFTER);
                    now
                });
                self.wind_down(now, now - since);
                if self.endpoint.borrow().is_empty() && sender.is_empty() {
                    return Ok(());
                }
            }
            self.wait(&io, &timer, &sender, ending.is_some()).await;
        }
    }

    fn receive(
        &self,
        io: &IoFd,
        receiver: &mut Receiver,
        sender: &mut Sender,
        now: Instant,
    ) -> io::Result<()> {
        for _ in 0..BATCHES {
            if !io.is_readable() {
                return Ok(());
            }
            self.count_pending();
            let limit = self.worker.connection_limit();
            let room = limit.saturating_sub(self.worker.connections.get());
            let mut endpoint = self.endpoint.borrow_mut();
            endpoint.set_room(room);
            let taken = receiver.receive(io.raw(), |datagram| {
                if sender.is_full() {
                    // Datagrams that do not fit are lost, as on any network.
                    let _ = sender.flush(io.raw());
                }
                if !sender.is_full() {
                    endpoint.receive(now, datagram, sender);
                }
            });
            match taken {
                // Fewer datagrams than requested: the socket is empty, and a new event will arrive.
                Ok(n) if n < BATCH => io.clear_readable(),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => io.clear_readable(),
                // An earlier outgoing datagram could not be delivered.
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Count the handshakes under way as connections of the worker.
    fn count_pending(&self) {
        let pending = self.endpoint.borrow().pending();
        let known = self.pending.replace(pending);
        if pending != known {
            let connections = &self.worker.connections;
            connections.set((connections.get() + pending).saturating_sub(known));
        }
    }

    /// Log that clients were turned away, if there were any.
    fn complain(&self, now: Instant) {
        let dropped = self.endpoint.borrow_mut().take_dropped();
        let lately = |at: Instant| now.saturating_duration_since(at) < COMPLAIN_EVERY;
        if dropped == 0 || self.complained.get().is_some_and(lately) {
            return;
        }
        self.complained.set(Some(now));
        let limit = self.worker.connection_limit();
        let message = match self.worker.connections.get() >= limit {
            true => format!("{limit} worker_connections are not enough"),
            false => format!(
                "too many QUIC handshakes are under way at {}",
                self.listener.addr
            ),
        };
        self.worker.log(Level::Alert, &message);
    }

    /// Serve every connection with new events and gather its output.
    fn serve_active(
        self: &Rc<Self>,
        io: &IoFd,
        sender: &mut Sender,
        now: Instant,
    ) -> io::Result<()> {
        self.touched.set(false);
        let mut keys = [0; SERVED];
        while has_room(io, sender)? {
            let count = self.serve_some(&mut keys, now);
            if count == 0 {
                return Ok(());
            }
            for (index, &key) in keys[..count].iter().enumerate() {
                if !has_room(io, sender)? {
                    // The socket accepts no more; the remaining connections return to the list.
                    let mut endpoint = self.endpoint.borrow_mut();
                    keys[index..count]
                        .iter()
                        .for_each(|&key| endpoint.activate(key));
                    return Ok(());
                }
                self.endpoint.borrow_mut().transmit(key, now, sender);
            }
        }
        Ok(())
    }

    /// Serve the connections on the list. Returns their number; `keys` holds them. A connection
    /// that joins the list meanwhile has output to send before it is served again.
    fn serve_some(self: &Rc<Self>, keys: &mut [Key], now: Instant) -> usize {
        let waiting = self.endpoint.borrow().waiting();
        // Ask the endpoint once more than there are connections, so that it knows that the round is
        // over.
        let places = keys.iter_mut().take(waiting.max(1));
        let mut count = 0;
        for place in places {
            let next = self.endpoint.borrow_mut().next_active();
            let Some(key) = next else { break };
            self.serve_connection(key, now);
            *place = key;
            count += 1;
        }
        count
    }

    fn serve_connection(self: &Rc<Self>, key: Key, now: Instant) {
        loop {
            let event = self.endpoint.borrow_mut().poll(key);
            let Some(event) = event else { break };
            if event == Event::Closed {
                if let Some(connection) = self.forget(key) {
                    connection.lost();
                }
                return;
            }
            self.connection(key).event(event, now);
        }
        let known = self.connections.borrow().get(key).cloned().flatten();
        if let Some(connection) = known {
            connection.go_on(now);
        }
    }

    /// The connection with this key; created if it is new.
    fn connection(self: &Rc<Self>, key: Key) -> Rc<Connection> {
        let mut connections = self.connections.borrow_mut();
        if key >= connections.len() {
            connections.resize(key + 1, None);
        }
        connections[key]
            .get_or_insert_with(|| {
                // Closing other connections needs the list that is borrowed here.
                let idle = self.idle.clone();
                gallop_runtime::spawn(async move {
                    reuse::make_room(&idle);
                });
                Connection::new(self, key)
            })
            .clone()
    }

    fn forget(&self, key: Key) -> Option<Rc<Connection>> {
        self.connections.borrow_mut().get_mut(key)?.take()
    }

    /// Schedule a connection that a request's task has changed.
    fn touch(&self, key: Key) {
        self.endpoint.borrow_mut().activate(key);
        if !self.touched.replace(true) {
            if let Some(task) = &*self.task.borrow() {
                task.wake_by_ref();
            }
        }
    }

    /// Continue a shutdown that began `since` ago: send GOAWAY, and close connections without
    /// requests.
    fn wind_down(&self, now: Instant, since: Duration) {
        let connections: Vec<_> = self
            .connections
            .borrow()
            .iter()
            .flatten()
            .cloned()
            .collect();
        for connection in connections {
            connection.wind_down(now, since);
        }
    }

    async fn wait(&self, io: &IoFd, timer: &Deadline, sender: &Sender, ending: bool) {
        match self.endpoint.borrow().next_timeout() {
            _ if ending => timer.set(WIND_DOWN_MS),
            Some(due) => {
                let left = due.saturating_duration_since(Instant::now());
                timer.set(left.as_millis() as u64);
            }
            None => timer.clear(),
        }
        if sender.is_empty() {
            io.stop_writing();
        }
        let mut shutdown = self.worker.shutdown.watch();
        poll_fn(|cx| {
            let mut task = self.task.borrow_mut();
            if !task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                *task = Some(cx.waker().clone());
            }
            drop(task);
            if self.touched.get() || io.poll_readable(cx).is_ready() {
                return Poll::Ready(());
            }
            if !sender.is_empty() && io.poll_writable(cx).is_ready() {
                return Poll::Ready(());
            }
            if !ending && shutdown.poll_set(cx).is_ready() {
                return Poll::Ready(());
            }
            timer.poll_over(cx)
        })
        .await;
    }
}

impl Waiting for Hub {
    fn waiting(&self) -> Vec<(u32, usize)> {
        let connections = self.connections.borrow();
        let known = connections.iter().enumerate();
        known
            .filter_map(|(key, connection)| Some((connection.as_ref()?.waits_since()?, key)))
            .collect()
    }

    fn close(&self, key: Key) {
        let known = self.connections.borrow().get(key).cloned().flatten();
        if let Some(connection) = known {
            connection.close(ErrorCode::NO_ERROR, "", Instant::now());
            self.touch(key);
        }
    }
}

/// Make room for another datagram, if needed by sending the gathered ones. Returns whether there is
/// room.
fn has_room(io: &IoFd, sender: &mut Sender) -> io::Result<bool> {
    if sender.is_full() {
        flush(io, sender)?;
    }
    Ok(!sender.is_full())
}

/// Send the gathered datagrams; those that the socket does not accept stay.
fn flush(io: &IoFd, sender: &mut Sender) -> io::Result<()> {
    match sender.flush(io.raw()) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            io.clear_writable();
            Ok(())
        }
        other => other,
    }
}
