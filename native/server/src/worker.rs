//! The worker process: its threads, their connections, and its end.

use crate::crew::{self, Crew, End, Handles};
use crate::datagram;
use crate::idle::Idle;
use crate::listen::{inet_of, local_addr, Bound};
use crate::master::threads;
use crate::process::{self, Ids, Pid};
use crate::quic;
use crate::reuse;
use crate::session;
use crate::stream;
use crate::tls::{files, Store, UpstreamConnector, Upstreams};
use gallop_conf::model::{Config, ErrorLog, Level, ListenAddr, Listener};
use gallop_engine::conn::{Conn, Ends};
use gallop_engine::metrics::History;
use gallop_engine::{log, panics, Shared, Worker};
use gallop_runtime::{hang_up, race, sleep, spawn, Either, Handle, IoFd, Listening, Runtime, Sock};
use std::cell::Cell;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// The exit code of a worker that must not be restarted.
pub const FATAL: i32 = 2;

/// Check the parts of the configuration that only loading reveals. Returns warnings.
pub fn check(config: &Config) -> Result<Vec<String>, String> {
    files::begin_configuration(config.main.ssl_object_cache_inheritable.unwrap_or(true));
    let mut tls = Store::new(config, &[])?;
    Upstreams::new(config)?;
    config
        .listeners()
        .filter(|listener| listener.quic)
        .try_for_each(|l| quic::check(l, &tls))?;
    Ok(std::mem::take(&mut tls.warnings))
}

/// Run the worker process until it ends; it ends with the process `master`. Returns the exit code.
pub fn run(
    config: Arc<Config>,
    bound: &[Bound],
    master: Pid,
    ids: Option<&Ids>,
    logs: &[ErrorLog],
    history: History,
) -> i32 {
    let alert = |message: String| {
        log::error_to(logs, Level::Emerg, &message);
        FATAL
    };
    if let Some(nice) = config.main.worker_priority {
        if let Err(e) = process::set_priority(nice) {
            log::error_to(
                logs,
                Level::Alert,
                &format!("setpriority({nice}) failed ({e})"),
            );
        }
    }
    // Load the keys now: often only root can read them.
    let tls = match Store::new(&config, logs) {
        Ok(store) => Arc::new(store),
        Err(message) => return alert(message),
    };
    let upstreams = match Upstreams::new(&config) {
        Ok(upstreams) => Arc::new(upstreams),
        Err(message) => return alert(message),
    };
    if let Some(ids) = ids {
        if let Err(e) = process::drop_privileges(ids) {
            return alert(format!("setuid({}) failed ({e})", ids.uid));
        }
    }
    process::when_parent_dies(master, libc::SIGTERM);
    panics::log_to(logs);
    let shared = Arc::new(Shared::new(config.clone(), logs.to_vec(), history));
    tend_caches(&shared);
    let quitting = || shared.quitting.load(Ordering::SeqCst);
    let handles = Handles::default();
    let prepare = |index| -> Box<dyn FnOnce() -> End + Send> {
        let (shared, handles) = (shared.clone(), handles.clone());
        let (tls, upstreams) = (tls.clone(), upstreams.clone());
        let sockets = sockets_of(&config, bound, index);
        Box::new(move || {
            let worker = Worker::new(shared, index);
            thread(worker, index, tls, upstreams, sockets, &handles)
        })
    };
    let notify = || {
        // Wake the signal loop, which collects ended threads.
        let _ = process::kill(process::own(), libc::SIGALRM);
    };
    let count = threads(&config);
    let mut crew = Crew::new(count, handles.clone(), Box::new(prepare), logs, notify);
    while !crew.is_over() {
        obey(&shared, logs, &handles, crew.next_start());
        crew.tend(quitting());
    }
    0
}

/// Wait for a signal, at most this many milliseconds, and handle it.
fn obey(shared: &Shared, logs: &[ErrorLog], handles: &Handles, wait_ms: Option<u64>) {
    match process::wait_signal(wait_ms) {
        Some(libc::SIGTERM | libc::SIGINT) => {
            std::process::exit(0);
        }
        Some(libc::SIGQUIT) => {
            if !shared.quitting.swap(true, Ordering::SeqCst) {
                log::error_to(logs, Level::Notice, "gracefully shutting down");
            }
            let handles = handles.lock().unwrap_or_else(|e| e.into_inner());
            handles.iter().flatten().for_each(Handle::wake);
        }
        Some(libc::SIGUSR1) => {
            for (path, e) in log::reopen_all() {
                log::error_to(logs, Level::Emerg, &log::open_failed(&path, &e));
            }
        }
        _ => {}
    }
}

/// A listening socket of this thread.
struct Accepting {
    fd: Arc<OwnedFd>,
    listener: Listener,
    /// Whether other threads or processes accept from the socket too.
    shared: bool,
    /// The label by which the kernel steers QUIC packets to the socket.
    label: Option<u8>,
}

fn sockets_of(config: &Config, bound: &[Bound], index: usize) -> Vec<Accepting> {
    let count = threads(config);
    let mut out = Vec::new();
    for listener in config.listeners() {
        let Some(b) = bound.iter().find(|b| b.serves(listener)) else {
            continue;
        };
        let own = b.sockets.len() > 1;
        let is_unix = matches!(listener.addr, ListenAddr::Unix(_));
        if listener.udp && is_unix && index > 0 {
            // All datagrams of a client reach the thread that has its session.
            continue;
        }
        out.extend(share(&b.sockets, index, count).map(|fd| Accepting {
            label: b.label(fd),
            fd: fd.clone(),
            listener: listener.clone(),
            shared: !own,
        }));
    }
    out
}

/// The sockets of an address that a thread serves. Where fewer threads than before a reload share
/// the sockets, some threads serve several, since the kernel distributes clients over all.
fn share<T>(sockets: &[T], index: usize, count: usize) -> impl Iterator<Item = &T> {
    let first = index % sockets.len().max(1);
    sockets.iter().skip(first).step_by(count.max(1))
}

fn thread(
    worker: Worker,
    index: usize,
    tls: Arc<Store>,
    upstreams: Arc<Upstreams>,
    sockets: Vec<Accepting>,
    handles: &Handles,
) -> End {
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(e) => {
            log::error_to(
                &worker.shared.error_log,
                Level::Emerg,
                &format!("epoll_create() failed ({e})"),
            );
            return End::Failed;
        }
    };
    tell_handle(handles, index, runtime.handle());
    let worker = Rc::new(worker);
    crate::tls::on_this_thread(&worker);
    *worker.connector.borrow_mut() = Some(Rc::new(UpstreamConnector::new(upstreams)));
    let watcher = worker.clone();
    runtime.before_wait(move || {
        log::flush_turn();
        watcher.pool.trim();
        if watcher.shared.quitting.load(Ordering::Relaxed) && !watcher.shutdown.is_set() {
            watcher.shutdown.set();
        }
    });
    let idle = Rc::new(Idle::new(worker));
    let parked = idle.clone();
    runtime.on_unparked(move |slot| parked.wake(slot));
    let serving = serve(idle.clone(), tls, sockets);
    let served = catch_unwind(AssertUnwindSafe(|| runtime.block_on(serving)));
    if served.is_err() {
        let_go(&idle);
    }
    log::flush_all();
    match served {
        Ok(()) => End::Finished,
        Err(_) => End::Failed,
    }
}

fn tell_handle(handles: &Handles, index: usize, handle: Handle) {
    let mut handles = handles.lock().unwrap_or_else(|e| e.into_inner());
    if handles.len() <= index {
        handles.resize(index + 1, None);
    }
    handles[index] = Some(handle);
}

/// Close the sockets of a thread that panicked. Its tasks end with its runtime.
fn let_go(idle: &Idle) {
    idle.close();
    idle.worker().pool.clear();
    idle.worker().desk.clear();
}

/// Accept connections until the shutdown, then wait for the connections to end.
async fn serve(idle: Rc<Idle>, tls: Arc<Store>, sockets: Vec<Accepting>) {
    let worker = idle.worker().clone();
    let accepting = Rc::new(Cell::new(0usize));
    for socket in sockets {
        accepting.set(accepting.get() + 1);
        let (worker, accepting) = (worker.clone(), accepting.clone());
        let (idle, tls) = (idle.clone(), tls.clone());
        spawn(async move {
            if socket.listener.is_datagram() {
                serve_datagrams(idle, tls, socket).await;
            } else if let Err(e) = accept_loop(&idle, &tls, socket).await {
                worker.log(Level::Emerg, &format!("cannot wait for connections ({e})"));
            }
            accepting.set(accepting.get() - 1);
        });
    }
    spawn(housekeeping(worker.clone()));
    gallop_engine::upstream::resolving::start(&worker);
    gallop_engine::health::start(&worker);
    spawn(idle.clone().watch());
    worker.shutdown.wait().await;
    idle.close_soon();
    let timeout = worker.shared.config.main.worker_shutdown_timeout;
    let done = || worker.connections.get() == 0 && accepting.get() == 0;
    if !settled(done, timeout).await {
        // Their requests end as if the clients had left, and are logged.
        idle.close();
        let sockets = worker.sockets.borrow().clone();
        sockets.into_iter().for_each(hang_up);
        settled(done, Some(CUT_MS)).await;
    }
    idle.close();
    worker.pool.clear();
    worker.desk.clear();
}

/// Milliseconds that closed connections have to finish.
const CUT_MS: u64 = 1000;

/// Wait until `done`, at most `limit` milliseconds. Returns whether it is done.
async fn settled(done: impl Fn() -> bool, limit: Option<u64>) -> bool {
    let started = gallop_runtime::now_ms();
    while !done() {
        if limit.is_some_and(|limit| gallop_runtime::now_ms() - started >= limit) {
            return false;
        }
        sleep(10).await;
    }
    true
}

async fn serve_datagrams(idle: Rc<Idle>, tls: Arc<Store>, socket: Accepting) {
    match socket.fd.as_fd().try_clone_to_owned() {
        Ok(fd) if socket.listener.udp => datagram::serve(idle, socket.listener, fd).await,
        Ok(fd) => quic::serve(idle, tls, socket.listener, fd, socket.label).await,
        Err(e) => idle
            .worker()
            .log(Level::Emerg, &format!("dup() failed ({e})")),
    }
}

/// Flush buffered log lines and close idle upstream connections from time to time.
async fn housekeeping(worker: Rc<Worker>) {
    loop {
        sleep(1000).await;
        log::flush_turn();
        worker.pool.purge();
    }
}

struct ListenFd(RawFd);

impl Listening for ListenFd {
    fn raw(&self) -> RawFd {
        self.0
    }
}

/// The most connections accepted in a row before other tasks get their turn.
const ACCEPT_BATCH: usize = 64;

async fn accept_loop(idle: &Rc<Idle>, tls: &Arc<Store>, socket: Accepting) -> std::io::Result<()> {
    let worker = idle.worker();
    let fd = socket.fd.as_fd().try_clone_to_owned()?;
    let io = if socket.shared {
        IoFd::exclusive(fd)?
    } else {
        IoFd::new(fd)?
    };
    let listening = ListenFd(io.raw());
    let listener = Rc::new(socket.listener);
    loop {
        if let Either::First(()) = race(worker.shutdown.wait(), io.readable()).await {
            return Ok(());
        }
        for _ in 0..ACCEPT_BATCH {
            match listening.accept() {
                Ok((fd, raw, _)) => accepted(idle, tls, &listener, fd, inet_of(&raw)),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    io.clear_readable();
                    break;
                }
                Err(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                    worker.log(Level::Crit, "accept4() failed (24: Too many open files)");
                    sleep(500).await;
                    break;
                }
                // The client disconnected before the accept.
                Err(_) => {}
            }
        }
        if io.is_readable() {
            // A level-triggered socket gets no second event, so the next round checks it again.
            gallop_runtime::yield_now().await;
        }
    }
}

fn accepted(
    idle: &Rc<Idle>,
    tls: &Arc<Store>,
    listener: &Rc<Listener>,
    fd: OwnedFd,
    peer: Option<SocketAddr>,
) {
    let counters = &idle.worker().shared.counters;
    counters.accepted.fetch_add(1, Ordering::Relaxed);
    let closed = reuse::make_room(idle);
    if has_room(idle) {
        return take(idle, tls, listener, fd, peer);
    }
    if closed == 0 {
        return refuse(idle);
    }
    // Connections with tasks end a moment after they were closed.
    let (idle, tls, listener) = (idle.clone(), tls.clone(), listener.clone());
    spawn(async move {
        for _ in 0..ROUNDS {
            gallop_runtime::yield_now().await;
            if has_room(&idle) {
                return take(&idle, &tls, &listener, fd, peer);
            }
        }
        refuse(&idle);
    });
}

/// Rounds of the event loop that closed connections have to end.
const ROUNDS: usize = 4;

fn has_room(idle: &Idle) -> bool {
    idle.worker().connections.get() < reuse::limit(idle)
}

fn refuse(idle: &Idle) {
    let limit = reuse::limit(idle);
    let message = format!("{limit} worker_connections are not enough");
    idle.worker().log(Level::Alert, &message);
}

fn take(
    idle: &Rc<Idle>,
    tls: &Arc<Store>,
    listener: &Rc<Listener>,
    fd: OwnedFd,
    peer: Option<SocketAddr>,
) {
    let worker = idle.worker();
    let counters = &worker.shared.counters;
    counters.handled.fetch_add(1, Ordering::Relaxed);
    let count = ConnectionCount::new(worker.clone());
    let sock = Sock::accepted(fd);
    let conn = connection(worker, listener, &sock, peer);
    if listener.stream {
        stream::accept(idle, tls, conn, count, sock);
    } else {
        session::accept(idle, tls, conn, count, sock);
    }
}

fn connection(worker: &Worker, listener: &Listener, sock: &Sock, peer: Option<SocketAddr>) -> Conn {
    let (local, unix) = match &listener.addr {
        ListenAddr::Inet(addr) if !addr.ip().is_unspecified() => (Some(*addr), None),
        ListenAddr::Inet(_) => (local_addr(sock.raw()), None),
        ListenAddr::Unix(path) => (None, Some(path.as_path())),
    };
    let id = &worker.shared.next_connection;
    let endpoint = listener.endpoint_for(local.map(|a| a.ip())).clone();
    let socket = Some(sock.raw());
    let ends = Ends {
        peer,
        local,
        unix,
        socket,
    };
    Conn::new(id.fetch_add(1, Ordering::Relaxed), endpoint, ends)
}

/// Keeps a client's descriptor on the list of connections to cut off while a task serves it. The
/// entry is removed at most one round of the event loop after the connection is dropped, before the
/// number can be reused.
pub struct Busy {
    worker: Rc<Worker>,
    fd: RawFd,
}

impl Busy {
    pub fn new(worker: Rc<Worker>, fd: RawFd) -> Self {
        worker.sockets.borrow_mut().insert(fd);
        Self { worker, fd }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.worker.sockets.borrow_mut().remove(&self.fd);
    }
}

/// Counts an open connection until it is dropped.
pub struct ConnectionCount {
    worker: Rc<Worker>,
}

impl ConnectionCount {
    pub fn new(worker: Rc<Worker>) -> Self {
        worker.connections.set(worker.connections.get() + 1);
        worker
            .shared
            .counters
            .active
            .fetch_add(1, Ordering::Relaxed);
        ConnectionCount { worker }
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.worker
            .connections
            .set(self.worker.connections.get() - 1);
        self.worker
            .shared
            .counters
            .active
            .fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a connection as reading, writing, or waiting until it is dropped.
pub struct Phase {
    shared: Arc<Shared>,
    which: fn(&Shared) -> &AtomicU64,
}

impl Phase {
    pub fn new(worker: &Worker, which: fn(&Shared) -> &AtomicU64) -> Phase {
        which(&worker.shared).fetch_add(1, Ordering::Relaxed);
        Phase {
            shared: worker.shared.clone(),
            which,
        }
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        (self.which)(&self.shared).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Start the thread that maintains the cache files. It ends with the process and restarts after a
/// panic.
fn tend_caches(shared: &Arc<Shared>) {
    let shared = shared.clone();
    let thread = std::thread::Builder::new().name("cache manager".into());
    let logs = shared.error_log.clone();
    let tend = move || {
        let run = || gallop_engine::cache::manager::run(&shared);
        while catch_unwind(AssertUnwindSafe(run)).is_err() {
            std::thread::sleep(Duration::from_millis(crew::RESTART_MS));
        }
    };
    if let Err(e) = thread.spawn(tend) {
        let message = format!("pthread_create() failed for the cache manager ({e})");
        log::error_to(&logs, Level::Alert, &message);
    }
}
