//! HTTP/1 connections.

mod body;
mod close;
mod fast;
pub mod passing;
mod ready;
mod send;
mod tunnel;

pub use ready::take_up;

use crate::idle::Idle;
use crate::transport::Transport;
use crate::worker::{Busy, ConnectionCount, Phase};
use body::Source;

use gallop_conf::model::{Level, Server};
use gallop_engine::upstream::quick::{Asked as Sent, Flight};
use gallop_engine::{Begin, Conn, Exchange, Worker};
use gallop_http::h1::{self, BodyFraming, HeadError, Limits, Parsed};
use gallop_http::message::{Head, Version};
use gallop_runtime::{coarse_ms, deadline, yield_now, Deadline, Watch};
use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// The connection state that request bodies share.
pub struct Shared<T> {
    pub io: T,
    /// Unused bytes that were read; they start at `pos`.
    buf: RefCell<Vec<u8>>,
    pos: Cell<usize>,
}

/// Bytes read at a time.
const READ_SIZE: usize = 16 * 1024;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static HEAD: RefCell<Head> = RefCell::default();
}

/// The most idle buffers that a thread keeps.
const SPARE_BUFFERS: usize = 64;

impl<T: Transport> Shared<T> {
    pub fn poll_read_more(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // Idle connections hold no buffer: take one only when bytes are ready.
        if self.io.poll_readable(cx).is_pending() {
            return Poll::Pending;
        }
        let mut buf = self.buf.borrow_mut();
        if self.pos.get() == buf.len() {
            buf.clear();
            self.pos.set(0);
        }
        if buf.capacity() == 0 {
            *buf = BUFFERS
                .with(|b| b.borrow_mut().pop())
                .unwrap_or_else(|| Vec::with_capacity(READ_SIZE));
        }
        let len = buf.len();
        let room = match buf.capacity() - len {
            0 => READ_SIZE,
            room => room,
        };
        let result = self.io.poll_read_more(cx, &mut buf, room);
        if buf.is_empty() {
            drop(buf);
            self.release();
        }
        result
    }

    /// Give the buffer back if it is empty.
    fn release(&self) {
        let mut buf = self.buf.borrow_mut();
        if self.pos.get() < buf.len() || buf.capacity() == 0 {
            return;
        }
        let mut spare = std::mem::take(&mut *buf);
        self.pos.set(0);
        spare.clear();
        BUFFERS.with(|b| {
            let mut buffers = b.borrow_mut();
            if spare.capacity() == READ_SIZE && buffers.len() < SPARE_BUFFERS {
                buffers.push(spare);
            }
        });
    }

    pub fn consume(&self, n: usize) {
        self.pos.set(self.pos.get() + n);
    }

    pub fn with_unread<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(&self.buf.borrow()[self.pos.get()..])
    }

    pub fn has_unread(&self) -> bool {
        self.pos.get() < self.buf.borrow().len()
    }

    /// Move the unread bytes to the start of the buffer to make room behind them.
    fn compact(&self) {
        let pos = self.pos.replace(0);
        self.buf.borrow_mut().drain(..pos);
    }
}

/// The result of looking at the unread bytes.
pub enum Next {
    /// A prepared response was sent completely. The value is the time in milliseconds to wait for
    /// the next request, or `None` if the connection ends.
    Answered {
        wait: Option<u64>,
    },
    /// `rest` of a prepared response is still to be sent.
    Partly {
        rest: Vec<u8>,
        wait: Option<u64>,
        /// Milliseconds within which the client must accept more bytes.
        patience: u64,
    },
    /// A request that was passed to an upstream and waits for its response.
    Passed(Box<Flight>),
    Request {
        ex: Box<Exchange>,
        len: usize,
        bad: Option<HeadError>,
    },
    Incomplete {
        started: bool,
    },
    /// No bytes: the connection can wait for the next request without a task.
    Idle,
}

/// The way a connection ends.
pub enum End {
    /// Close at once.
    Close,
    /// Close after the client had time to read the response (`lingering_close`).
    Linger,
}

/// The most requests served in a row before other connections get their turn.
const BATCH: u32 = 32;

/// A connection whose next request is examined.
pub struct Asked<'a, T> {
    pub worker: &'a Rc<Worker>,
    pub conn: &'a Rc<Conn>,
    pub io: &'a T,
}

/// Parse the request head at the start of `bytes` and send a prepared response if the cache has
/// one. Returns the number of bytes consumed, which is 0 for a request that still needs a response.
/// `taskless`: no task serves the connection, so a proxied response needs none either.
fn look<T: Transport>(asked: &Asked<'_, T>, bytes: &[u8], taskless: bool) -> (Next, usize) {
    let conf = &asked.conn.endpoint.hosts.default.conf;
    let (count, size) = conf.large_buffers();
    let limits = Limits {
        line: size as usize,
        total: count
            .saturating_mul(size)
            .saturating_add(conf.client_header_buffer_size.unwrap_or(1024)) as usize,
        headers: conf.max_headers.unwrap_or(1000) as usize,
        ignore_invalid: conf.ignore_invalid_headers.unwrap_or(true),
        underscores: conf.underscores_in_headers.unwrap_or(false),
    };
    HEAD.with(|head| {
        let mut head = head.borrow_mut();
        let (len, bad) = match h1::parse(bytes, &mut head, &limits) {
            Err(e) => (0, Some(e)),
            Ok(Parsed::Partial { started }) => return (Next::Incomplete { started }, 0),
            Ok(Parsed::Complete { len }) => (len, None),
        };
        if bad.is_none() {
            if let Some(next) = fast::answer(asked, &head, len, bytes.len() > len) {
                return (next, len);
            }
        }
        let mut begun = None;
        if bad.is_none() && taskless {
            match passing::send(asked, &mut head, &bytes[len..]) {
                Sent::Sent(flight) => return (Next::Passed(flight), bytes.len()),
                Sent::Begun(first) => begun = Some(first),
                Sent::No => {}
            }
        }
        let mut ex = Exchange::new(asked.worker.clone(), asked.conn.clone());
        std::mem::swap(&mut ex.head, &mut head);
        if let Some(begun) = begun {
            ex.take_over(begun);
        }
        (Next::Request { ex, len, bad }, 0)
    })
}

/// A connection to a client.
pub struct Client<T> {
    pub conn: Rc<Conn>,
    pub count: ConnectionCount,
    pub io: T,
}

/// The state from which a connection's task starts.
#[derive(Default)]
pub struct Start {
    /// Bytes that were already read.
    pub early: Vec<u8>,
    /// The result of looking at those bytes, if this was done.
    pub next: Option<Next>,
    /// Milliseconds to wait for the next request; `None` for the first.
    pub wait: Option<u64>,
    /// The request arrived before the previous response was sent.
    pub pipelined: bool,
}

/// Serve a connection until it ends or becomes idle.
pub async fn serve<T: Transport>(idle: Rc<Idle>, client: Client<T>, start: Start) {
    let Client { conn, count, io } = client;
    let shared = Rc::new(Shared {
        io,
        buf: RefCell::new(start.early),
        pos: Cell::new(0),
    });
    let mut driver = Driver {
        worker: idle.worker().clone(),
        conn,
        shared,
        deadline: deadline(),
        wait: start.wait,
        batch: 0,
        pipelined: start.pipelined,
    };
    let busy = Busy::new(driver.worker.clone(), driver.shared.io.raw());
    if !driver.run(start.next).await {
        return;
    }
    let wait = driver.wait.unwrap_or_else(|| driver.header_timeout());
    let Driver { conn, shared, .. } = driver;
    drop(busy);
    if let Ok(Shared { io, .. }) = Rc::try_unwrap(shared) {
        idle.park(Client { conn, count, io }, coarse_ms() + wait + 1);
    }
}

/// Whether a refused request line begins with the method HEAD.
fn is_head(bytes: &[u8]) -> bool {
    let blank = bytes.iter().take_while(|c| matches!(c, b'\r' | b'\n'));
    bytes[blank.count()..].starts_with(b"HEAD ")
}

struct Driver<T: Transport> {
    worker: Rc<Worker>,
    conn: Rc<Conn>,
    shared: Rc<Shared<T>>,
    deadline: Deadline,
    /// Milliseconds to wait for the next request; `None` for the first.
    wait: Option<u64>,
    batch: u32,
    pipelined: bool,
}

impl<T: Transport> Driver<T> {
    fn server(&self) -> &Server {
        &self.conn.endpoint.hosts.default
    }

    fn header_timeout(&self) -> u64 {
        self.server().conf.client_header_timeout.unwrap_or(60_000)
    }

    /// Serve requests until the connection ends (`false`) or becomes idle (`true`). `next`: the
    /// result of an earlier look at the bytes.
    async fn run(&mut self, mut next: Option<Next>) -> bool {
        loop {
            self.batch += 1;
            if self.batch.is_multiple_of(BATCH) {
                yield_now().await;
            }
            let found = match next.take() {
                None | Some(Next::Incomplete { .. }) => self.next().await,
                found => found,
            };
            let keep = match found {
                Some(Next::Answered { wait }) => {
                    self.wait = wait;
                    wait.is_some()
                }
                Some(Next::Partly {
                    rest,
                    wait,
                    patience,
                }) => {
                    self.wait = wait;
                    let io = &self.shared.io;
                    send::write_patiently(io, &rest, patience).await.is_ok() && wait.is_some()
                }
                Some(Next::Request { ex, len, bad }) => self.request(ex, len, bad).await,
                Some(Next::Idle) => return true,
                // Only connections without a task pass requests on beforehand.
                Some(Next::Passed(_) | Next::Incomplete { .. }) | None => return false,
            };
            if !keep {
                return false;
            }
            self.pipelined = self.shared.has_unread();
        }
    }

    /// Wait for the next request, or send a prepared response at once; `None` if the connection is
    /// over.
    async fn next(&mut self) -> Option<Next> {
        let worker = self.worker.clone();
        let mut shutdown = worker.shutdown.watch();
        let mut phase: Option<Phase> = None;
        let mut started = false;
        self.deadline
            .set(self.wait.unwrap_or_else(|| self.header_timeout()));
        loop {
            if self.shared.has_unread() {
                match self.look() {
                    Next::Incomplete {
                        started: now_started,
                    } => {
                        if now_started && !started {
                            started = true;
                            phase = None;
                            self.deadline.set(self.header_timeout());
                        }
                        self.shared.compact();
                    }
                    next => return Some(next),
                }
            } else {
                self.shared.release();
            }
            if phase.is_none() {
                phase = Some(if started {
                    Phase::new(&worker, |s| s.counters.reading)
                } else {
                    Phase::new(&worker, |s| s.counters.waiting)
                });
            }
            match self.wait_bytes(started, &mut shutdown).await {
                Wait::Read(n) if n > 0 => {}
                Wait::Read(_) => {
                    if started {
                        self.log_early_close("client prematurely closed connection");
                    }
                    return None;
                }
                Wait::TimedOut => {
                    if started {
                        self.timed_out();
                    }
                    return None;
                }
                Wait::Shutdown => return None,
                Wait::Idle => return Some(Next::Idle),
            }
        }
    }

    async fn wait_bytes(&self, started: bool, shutdown: &mut Watch<'_>) -> Wait {
        // A connection without a first request may still send it during a graceful shutdown.
        let stop = self.wait.is_some() && !started;
        poll_fn(|cx| {
            match self.shared.poll_read_more(cx) {
                Poll::Ready(Ok(n)) => return Poll::Ready(Wait::Read(n)),
                Poll::Ready(Err(_)) => return Poll::Ready(Wait::Read(0)),
                Poll::Pending => {}
            }
            if !self.shared.has_unread() && Rc::strong_count(&self.shared) == 1 {
                return Poll::Ready(Wait::Idle);
            }
            if stop && shutdown.poll_set(cx).is_ready() {
                return Poll::Ready(Wait::Shutdown);
            }
            self.deadline.poll_over(cx).map(|()| Wait::TimedOut)
        })
        .await
    }

    fn look(&self) -> Next {
        let asked = Asked {
            worker: &self.worker,
            conn: &self.conn,
            io: &self.shared.io,
        };
        let (next, used) = self.shared.with_unread(|bytes| look(&asked, bytes, false));
        self.shared.consume(used);
        next
    }

    /// Process one request; `true` if the connection stays open.
    async fn request(&mut self, mut ex: Box<Exchange>, len: usize, bad: Option<HeadError>) -> bool {
        self.deadline.clear();
        self.conn.requests.set(self.conn.requests.get() + 1);
        self.worker
            .shared
            .counters
            .requests
            .fetch_add(1, Ordering::Relaxed);
        self.shared.consume(len);
        // For a refused head, count the lines before the malformed one, without leading blank
        // lines.
        let read = bad.map_or(len, |_| ex.head.buf.len());
        ex.request_length = read.saturating_sub(ex.head.line.start as usize) as u64;
        ex.pipelined = self.pipelined;
        let _phase = Phase::new(&self.worker, |s| s.counters.writing);
        let refused = match bad {
            Some(error) => {
                if ex.head.line.end as usize > ex.head.buf.len() {
                    ex.head.clear();
                }
                if ex.head.buf.is_empty() {
                    // Without a valid request line the response is that of HTTP/1.0.
                    ex.head.version = Version::Http10;
                    ex.header_only = self.shared.with_unread(is_head);
                }
                ex.log(Level::Info, error.reason());
                let known = ex.head.buf.is_empty() || gallop_engine::begin_refused(&mut ex);
                // A response of HTTP/0.9 consists of the body alone.
                ex.header_only &= ex.version() != Version::Http09;
                Some(if known { error.status() } else { 400 })
            }
            None => self.begin(&mut ex),
        };
        if refused.is_some() {
            ex.keepalive = false;
        }
        if ex.version() == Version::Http11 {
            ex.interim = Some(self.shared.clone());
        }
        let end = self.process(&mut ex, refused).await;
        gallop_engine::settled(&ex).await;
        gallop_engine::finish(&mut ex);
        drop(_phase);
        match end {
            None => {
                let timeout = ex.loc.conf.keepalive_timeout.unwrap_or(75_000);
                self.wait = Some(timeout);
                true
            }
            Some(End::Close) => false,
            Some(End::Linger) => {
                close::linger(&self.shared, &ex).await;
                false
            }
        }
    }

    /// Evaluate the request head; a status code if the request is refused.
    fn begin(&self, ex: &mut Exchange) -> Option<u16> {
        self.set_persistence(ex);
        match gallop_engine::begin(ex) {
            // Like nginx, check the length before the method: the error page may need the body.
            Begin::Refuse(405) => self.frame(ex).or(Some(405)),
            Begin::Refuse(status) => Some(status),
            Begin::Process => self.frame(ex),
        }
    }

    /// Determine the length and framing of the body; a status code if header fields contradict each
    /// other.
    fn frame(&self, ex: &mut Exchange) -> Option<u16> {
        match h1::body_framing(&ex.head) {
            Err((status, reason)) => {
                ex.log(Level::Info, reason);
                return Some(status);
            }
            Ok(framing) => {
                let expects = ex
                    .head
                    .get("expect")
                    .is_some_and(|v| v.eq_ignore_ascii_case(b"100-continue"));
                ex.expect_continue = expects && ex.version() == Version::Http11;
                match framing {
                    BodyFraming::None => {}
                    BodyFraming::Length(n) => ex.content_length = Some(n),
                    BodyFraming::Chunked => ex.chunked = true,
                }
                ex.source = Box::new(Source::new(
                    self.shared.clone(),
                    framing,
                    ex.expect_continue,
                ));
            }
        }
        None
    }

    fn set_persistence(&self, ex: &mut Exchange) {
        let mut keep = ex.version() == Version::Http11;
        for value in ex.head.get_all("connection") {
            for word in value.split(|&c| c == b',').map(<[u8]>::trim_ascii) {
                if word.eq_ignore_ascii_case(b"close") {
                    keep = false;
                } else if word.eq_ignore_ascii_case(b"keep-alive")
                    && ex.version() >= Version::Http10
                {
                    keep = true;
                }
            }
        }
        ex.keepalive = keep && !self.worker.shutdown.is_set();
    }

    /// Run the engine and send the response; `Some` if the connection must end.
    async fn process(&mut self, ex: &mut Exchange, refused: Option<u16>) -> Option<End> {
        match self.run_engine(ex, refused).await {
            Ran::Answer => {}
            Ran::NoAnswer => return Some(End::Close),
            Ran::Aborted => {
                ex.response.status = 499;
                ex.log(Level::Info, "client prematurely closed connection");
                return Some(End::Close);
            }
        }
        if ex.response.upgrade.is_some() {
            send::upgrade(&self.shared, ex).await;
            return Some(End::Close);
        }
        if self.worker.shutdown.is_set() {
            ex.keepalive = false;
        }
        if let Err(e) = send::response(&self.shared, ex).await {
            ex.log(
                Level::Info,
                &format!("{e} while sending response to client"),
            );
            return Some(End::Close);
        }
        ex.complete = true;
        if !ex.keepalive {
            gallop_engine::settle(ex).await;
        }
        let body_left = !ex.source.is_ended();
        if ex.keepalive && (!body_left || close::discard_body(ex).await) {
            return None;
        }
        Some(close::kind(&self.shared, ex))
    }

    /// Run the phases. Stop if the client has closed the connection and nothing else needs the
    /// response.
    async fn run_engine(&self, ex: &mut Exchange, refused: Option<u16>) -> Ran {
        let abortable = ex.abortable.clone();
        let mut run = Box::pin(gallop_engine::run(ex, refused));
        poll_fn(|cx| {
            if let Poll::Ready(answered) = run.as_mut().poll(cx) {
                return Poll::Ready(if answered { Ran::Answer } else { Ran::NoAnswer });
            }
            if abortable.get() {
                if self.shared.io.is_hung_up() {
                    return Poll::Ready(Ran::Aborted);
                }
                // Register for a wake-up when the client closes.
                let _ = self.shared.io.poll_readable(cx);
            }
            Poll::Pending
        })
        .await
    }

    fn log_early_close(&self, reason: &str) {
        let ex = Exchange::new(self.worker.clone(), self.conn.clone());
        ex.log(
            Level::Info,
            &format!("{reason} while reading client request headers"),
        );
    }

    fn timed_out(&self) {
        let mut ex = Exchange::new(self.worker.clone(), self.conn.clone());
        ex.log(
            Level::Info,
            "client timed out (110: Connection timed out) while reading client request headers",
        );
        ex.response.status = 408;
        gallop_engine::finish(&mut ex);
    }
}

enum Wait {
    Read(usize),
    TimedOut,
    Shutdown,
    Idle,
}

enum Ran {
    Answer,
    NoAnswer,
    Aborted,
}
