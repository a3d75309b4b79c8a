//! HTTP/3: one task for each UDP socket of a thread, which moves datagrams in batches and serves all
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

/// Batches taken in before answers go out.
const BATCHES: usize = 4;
/// Connections served before what they have to send is gathered. Code for either fits in 32 KB, which is what most
/// processors have next to them, and for both does not; what is touched of more connections would not, either.
const SERVED: usize = 16;
/// Milliseconds a connection without requests is kept after shutdown began.
const CLOSE_AFTER: Duration = Duration::from_millis(1000);

/// How long after shutdown began a client may at least take to acknowledge the end of its last answer, or to
/// finish its handshake; and how many probes in a row it has to have left without an answer to count as gone.
const GONE_AFTER: Duration = Duration::from_secs(3);
const GONE_PROBES: u32 = 4;

/// Milliseconds a handshake may take at most. Ten seconds see four repetitions of what was lost.
const MAX_HANDSHAKE_MS: u64 = 10_000;

/// Milliseconds between looks at what is left after shutdown began.
const WIND_DOWN_MS: u64 = 10;

/// All that the connections of one socket share.
struct Hub {
    idle: Rc<Idle>,
    worker: Rc<Worker>,
    listener: Listener,
    endpoint: RefCell<Endpoint>,
    connections: RefCell<Vec<Option<Rc<Connection>>>>,
    shared: RefCell<h3::Shared>,
    config: h3::Config,
    /// Authorities may have to be asked about clients' certificates.
    inquires: bool,
    task: RefCell<Option<Waker>>,
    touched: Cell<bool>,
    /// Handshakes under way that are among the worker's connections.
    pending: Cell<usize>,
    /// When it was logged last that there is no room for connections.
    complained: Cell<Option<Instant>>,
}

/// Between two lines of the log that say that there is no room.
const COMPLAIN_EVERY: Duration = Duration::from_secs(1);

/// What tokens of this server are made from. Asked for before the first worker begins, it is the same in all of
/// them, and after a reload.
pub fn secret() -> [u8; 32] {
    *SECRET.get_or_init(gallop_quic::random)
}

/// Goes on with the secret of the process before. One that is in use already stays.
pub fn keep_secret(secret: [u8; 32]) {
    SECRET.get_or_init(|| secret);
}

static SECRET: OnceLock<[u8; 32]> = OnceLock::new();

/// Makes sure that a QUIC listener can be served.
///
/// # Errors
/// What is wrong, and where.
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

/// Handshakes under way above which addresses are validated first, of a worker that may have so many connections.
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
        // Without steering a packet may come to a thread that does not have its connection.
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

/// Serves a UDP socket until the worker shuts down and its connections are done.
/// `label`: what leads packets to this socket among those of its address, where the kernel does that.
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
                    // What does not fit is lost, as on any network.
                    let _ = sender.flush(io.raw());
                }
                if !sender.is_full() {
                    endpoint.receive(now, datagram, sender);
                }
            });
            match taken {
                // Fewer than asked for: the socket is empty, a new event will come.
                Ok(n) if n < BATCH => io.clear_readable(),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => io.clear_readable(),
                // An earlier datagram of ours could not be delivered.
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Counts handshakes under way among the worker's connections.
    fn count_pending(&self) {
        let pending = self.endpoint.borrow().pending();
        let known = self.pending.replace(pending);
        if pending != known {
            let connections = &self.worker.connections;
            connections.set((connections.get() + pending).saturating_sub(known));
        }
    }

    /// Logs that clients were passed over, if some were.
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

    /// Serves every connection that something happened on, and gathers what it has to send.
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
                    // The socket takes no more; whoever is left goes back on the list.
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

    /// Serves connections that are on the list now; how many, and their keys. What comes onto it meanwhile has something
    /// to send before it is served again.
    fn serve_some(self: &Rc<Self>, keys: &mut [Key], now: Instant) -> usize {
        let waiting = self.endpoint.borrow().waiting();
        // The endpoint is asked once more than there are: it is to know that the turn is over.
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

    /// The connection of this key, which may be new.
    fn connection(self: &Rc<Self>, key: Key) -> Rc<Connection> {
        let mut connections = self.connections.borrow_mut();
        if key >= connections.len() {
            connections.resize(key + 1, None);
        }
        connections[key]
            .get_or_insert_with(|| {
                // Closing others needs the list of connections, which is in use here.
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

    /// Has the socket's task look at a connection that a request's task changed.
    fn touch(&self, key: Key) {
        self.endpoint.borrow_mut().activate(key);
        if !self.touched.replace(true) {
            if let Some(task) = &*self.task.borrow() {
                task.wake_by_ref();
            }
        }
    }

    /// After shutdown began, so long ago: tells clients, and closes connections without requests.
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

/// Whether another datagram can be gathered, if need be after those that are were sent.
fn has_room(io: &IoFd, sender: &mut Sender) -> io::Result<bool> {
    if sender.is_full() {
        flush(io, sender)?;
    }
    Ok(!sender.is_full())
}

/// Sends what is gathered; what the socket does not take stays.
fn flush(io: &IoFd, sender: &mut Sender) -> io::Result<()> {
    match sender.flush(io.raw()) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            io.clear_writable();
            Ok(())
        }
        other => other,
    }
}
