//! Proxying without a task, a future, or memory per request. It serves requests that one write
//! sends and responses that arrive in one read, or in a few small ones; both are the most common
//! case. Every other request continues in a task from its current state: [`Flight::leave`].

use super::answer;
use super::application;
use super::buffers;
use super::chosen::Chosen;
use super::fastcgi;
use super::form::Form;
use super::keepalive::{Ended, PoolKey, UpstreamConn};
use super::methods::Hint;
use super::proxy::request_uri;
pub use super::quick_answer::Framed;
use super::quick_answer::{self, Answer, Said};
use super::recipe::{is_near, look_up, Recipe, Recipes};
use super::request::{self, BodyLength};
use super::transfer::pool_key;
use super::{Attempt, Totals};
use crate::conn::Conn;
use crate::exchange::{Exchange, Received};
use crate::metrics::Done;
use crate::phases::begin::speaks_http2;
use crate::phases::server::choose_server;
use crate::phases::{end, fields};
use crate::worker::Worker;
use crate::{filters, uri};
use gallop_conf::locations::Found;
use gallop_conf::model::{Handler, LocConf, Location, PeerAddr, Server};
use gallop_http::fastcgi::{is_ended, RequestWriter};
use gallop_http::h1::parse_length;
use gallop_http::message::{Head, Version};
use gallop_http::token::is_name;
use gallop_runtime::{
    coarse_ms, coarse_us, now_ms, start_connect, start_connect_unix, unix_time, ConnectTo, Sock,
};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The thread's reusable objects for requests without a task.
#[derive(Default)]
pub struct Desk {
    /// An exchange that is refilled for each request, for code that reads one.
    exchange: RefCell<Option<Box<Exchange>>>,
    recipes: RefCell<Recipes>,
    heads: RefCell<Vec<Head>>,
    out: RefCell<Vec<u8>>,
    writer: RefCell<RequestWriter>,
    tried: RefCell<Vec<bool>>,
}

/// The most idle request heads that a thread keeps.
const SPARE_HEADS: usize = 1024;

impl Desk {
    /// Drop everything that refers to the worker.
    pub fn clear(&self) {
        *self.exchange.borrow_mut() = None;
    }
}

/// A request that waits for its response.
pub struct Flight {
    recipe: Rc<Recipe>,
    server: Arc<Server>,
    loc: Arc<Location>,
    head: Head,
    /// The body that the client announced, if any.
    body: Option<Vec<u8>>,
    /// The generated `$request_id`, if the configuration uses it.
    request_id: Option<String>,
    /// `None` if it was closed after the response.
    conn: Option<UpstreamConn>,
    chosen: Chosen,
    /// The size of the request as received and as sent, in bytes.
    received: u64,
    sent: u64,
    /// Start time: milliseconds (monotonic clock), microseconds (monotonic clock), milliseconds
    /// since 1970.
    started: u64,
    begun: u64,
    started_wall: u64,
    /// The end of the server's time limit in milliseconds (monotonic clock).
    due: u64,
    /// The first bytes of the response, and the milliseconds until its head was complete.
    came: Vec<u8>,
    header_ms: Option<u64>,
}

/// The result of passing a request on.
pub enum Asked {
    /// The request needs a task.
    No,
    Sent(Box<Flight>),
    /// A server was chosen; a task continues from there.
    Begun(Box<Begun>),
}

/// The result of reading from the server.
pub enum Heard {
    Nothing(Box<Flight>),
    /// The response for the client was written. `keep`: whether the connection to the server can be
    /// reused.
    Answer {
        flight: Box<Flight>,
        framed: Framed,
    },
    /// The response needs a task.
    Other {
        flight: Box<Flight>,
        came: Came,
    },
}

/// A first attempt that began without a task.
pub struct Begun {
    pub chosen: Chosen,
    /// The progress; `None` if there is no connection yet.
    pub started: Option<Started>,
    /// The generated `$request_id`, which may already be sent.
    pub request_id: Option<String>,
}

/// A request that was sent as far as the socket accepted it.
pub struct Started {
    pub conn: UpstreamConn,
    /// The number of bytes sent, and the unsent bytes.
    pub sent: u64,
    pub unsent: Vec<u8>,
    /// The last result of reading.
    pub last: Option<Came>,
    /// Start time in milliseconds (monotonic clock).
    pub began: u64,
    /// Milliseconds left of the server's time limit.
    pub left: u64,
}

/// The data that arrived on a connection.
pub enum Came {
    Bytes(Vec<u8>),
    End,
    Error(io::Error),
}

/// Shorter parts of a response can wait for the rest, like nginx's `postpone_output`.
const HOLD: usize = 1460;

/// A completely received request.
pub struct Arrived<'a> {
    /// Taken from the caller when the request was sent.
    pub head: &'a mut Head,
    pub body: &'a [u8],
    /// The request's size in bytes.
    pub size: usize,
}

/// Pass a request on if this is possible without waiting.
pub fn ask(worker: &Rc<Worker>, conn: &Rc<Conn>, arrived: Arrived<'_>) -> Asked {
    let Arrived { head, body, size } = arrived;
    let refused = conn.endpoint.ssl && conn.tls().is_none();
    if refused || !is_simple(head, body.len()) {
        return Asked::No;
    }
    let mut desk = worker.desk.exchange.borrow_mut();
    let ex = desk.get_or_insert_with(|| Exchange::new(worker.clone(), conn.clone()));
    fill(ex, conn);
    std::mem::swap(&mut ex.head, head);
    let asked = send(ex, body);
    std::mem::swap(&mut ex.head, head);
    match asked {
        Asked::Sent(mut flight) => {
            let spare = worker.desk.heads.borrow_mut().pop();
            flight.head = std::mem::replace(head, spare.unwrap_or_default());
            flight.received = size as u64;
            Asked::Sent(flight)
        }
        other => other,
    }
}

/// Whether the header fields only need to be passed on. `length`: bytes of the body.
fn is_simple(head: &Head, length: usize) -> bool {
    if matches!(head.method(), b"CONNECT" | b"TRACE") {
        return false;
    }
    let posts = head.method() == b"POST";
    let mut fields = Fields::default();
    let simple = |(name, value): (&[u8], &[u8])| fields.add(name, value, posts).is_some();
    if !head.iter().all(simple) {
        return false;
    }
    match head.version {
        Version::Http11 => {
            let announced = fields.length.unwrap_or(0) == length as u64;
            head.authority.is_empty() && fields.hosts == 1 && announced
        }
        // Without a body, a length field has no effect there.
        Version::Http2 | Version::Http3 => fields.length.is_none() && length == 0,
        _ => false,
    }
}

/// The relevant properties of a request's header fields.
#[derive(Default)]
struct Fields {
    hosts: u32,
    length: Option<u64>,
    /// Bits of the fields that must not appear twice.
    once: u32,
}

impl Fields {
    /// Add a field; `None` if it needs more than passing on.
    fn add(&mut self, name: &[u8], value: &[u8], posts: bool) -> Option<()> {
        match name.len() {
            4 if is_name(name, b"host") => self.hosts += 1,
            6 if is_name(name, b"expect") => return None,
            7 if is_name(name, b"upgrade") => return None,
            10 if is_name(name, b"connection") && !is_name(value, b"keep-alive") => return None,
            // Connections of some old browsers are not kept.
            10 if posts && is_name(name, b"user-agent") => {
                let old = memchr::memmem::find(value, b"MSIE ").is_some();
                return (!old).then_some(());
            }
            14 if is_name(name, b"content-length") => {
                let length = parse_length(value)?;
                return self.length.replace(length).is_none().then_some(());
            }
            17 if is_name(name, b"transfer-encoding") => return None,
            _ => {}
        }
        let bit = fields::once(name).map_or(0, |n| 1 << n);
        let again = self.once & bit != 0;
        self.once |= bit;
        (!again).then_some(())
    }
}

fn fill(ex: &mut Exchange, conn: &Rc<Conn>) {
    ex.conn = conn.clone();
    ex.tls = conn.tls().is_some();
    ex.client = conn.peer().map(|p| p.ip());
    ex.client_port = conn.peer().map_or(0, |p| p.port());
    (ex.begun, ex.started, ex.started_wall) = (coarse_us(), coarse_ms(), unix_time());
    ex.begun_attempt = None;
    ex.is_passed = true;
    *ex.request_id.get_mut() = None;
    let mut captures = ex.captures.borrow_mut();
    captures.0.clear();
    captures.1.clear();
}

/// Whether the connection stays open after this request; HTTP/2 and HTTP/3 connections decide this
/// themselves.
fn is_kept(ex: &Exchange) -> bool {
    if ex.version() > Version::Http11 {
        return true;
    }
    let conf = &ex.loc.conf;
    let lasted = ex.started.saturating_sub(ex.conn.started);
    ex.conn.requests.get() + 1 < conf.keepalive_requests.unwrap_or(1000)
        && lasted <= conf.keepalive_time.unwrap_or(3_600_000)
}

/// Choose the server block and the location. Returns the location's recipe.
fn choose(ex: &mut Exchange) -> Option<Rc<Recipe>> {
    choose_server(ex).ok()?;
    if ex.version() == Version::Http2 && !speaks_http2(ex) {
        return None;
    }
    // A match by regular expression may have set variables.
    if !ex.captures.borrow().1.is_empty() {
        ex.vars.borrow_mut().fill(None);
        return None;
    }
    // The target is parsed with the settings of the connection's own server block.
    let own = ex
        .conn
        .sni_server()
        .unwrap_or(&ex.conn.endpoint.hosts.default);
    let merge = own.conf.merge_slashes.unwrap_or(true);
    if !uri::parse(ex.head.text(ex.head.path), merge, &mut ex.uri) {
        return None;
    }
    let server = ex.server.clone();
    let Found::Location { location, matched } = server.root.children.choose(&ex.uri.path) else {
        return None;
    };
    ex.loc = location.clone();
    let worker = ex.worker.clone();
    let recipe = look_up(ex, &mut worker.desk.recipes.borrow_mut())?;
    let mut patterns = matched.with_groups.iter();
    if patterns.any(|(pattern, _)| !pattern.named().is_empty()) {
        return None;
    }
    for (pattern, groups) in matched.with_groups {
        ex.set_captures(&ex.uri.path, groups, pattern);
    }
    if matched.ends_plain {
        ex.forget_captures();
    }
    if recipe.uses_tables {
        ex.vars.borrow_mut().fill(None);
    }
    is_kept(ex).then_some(recipe)
}

fn send(ex: &mut Exchange, body: &[u8]) -> Asked {
    let Some(recipe) = choose(ex) else {
        return Asked::No;
    };
    let body = ex.head.get("content-length").map(|_| body);
    if body.is_some_and(|b| !recipe.takes_body(&ex.loc.conf, b.len() as u64))
        || recipe.host.is_none() && ex.head.method() == b"HEAD"
    {
        return Asked::No;
    }
    if recipe.checks_scripts {
        fastcgi::split_path(ex, &recipe.conf);
        // The request is rejected and logged like any other.
        if !application::scripts_are_allowed(ex, &recipe.conf) {
            return Asked::No;
        }
    }
    let worker = ex.worker.clone();
    let mut tried = worker.desk.tried.borrow_mut();
    tried.clear();
    let Some(chosen) = recipe.group.choose(&Hint::default(), &mut tried) else {
        return Asked::No;
    };
    let key = pool_key(
        ex,
        Some(recipe.index),
        recipe.scheme(),
        &recipe.conf,
        &chosen,
        None,
    );
    // Write the request before connecting: the server that the connection wakes then finds the
    // request with it.
    let mut out = worker.desk.out.borrow_mut();
    out.clear();
    write(ex, &recipe, body, &mut out);
    let Some(mut conn) = connection(&worker, &recipe, key, &chosen) else {
        return begun(ex, chosen, None);
    };
    conn.requests += 1;
    let mut cx = Context::from_waker(Waker::noop());
    let sent = match conn.stream.poll_write(&mut cx, &out) {
        Poll::Ready(Ok(n)) => n,
        // The connection failed; the task that takes over reports this.
        Poll::Ready(Err(_)) | Poll::Pending if !conn.reused && !is_unix(&chosen) => {
            return begun(ex, chosen, None);
        }
        // The task that takes over meets the error again.
        Poll::Ready(Err(_)) | Poll::Pending => 0,
    };
    if sent < out.len() {
        let started = Started {
            conn,
            sent: sent as u64,
            unsent: out[sent..].to_vec(),
            last: None,
            began: ex.started,
            left: recipe.conf.send_ms(),
        };
        return begun(ex, chosen, Some(started));
    }
    Asked::Sent(Box::new(Flight {
        server: ex.server.clone(),
        loc: ex.loc.clone(),
        head: Head::default(),
        body: body.map(<[u8]>::to_vec),
        request_id: ex.request_id.get_mut().take(),
        due: ex.started + recipe.conf.read_ms() + 1,
        came: Vec::new(),
        header_ms: None,
        conn: Some(conn),
        chosen,
        received: 0,
        sent: sent as u64,
        started: ex.started,
        begun: ex.begun,
        started_wall: ex.started_wall,
        recipe,
    }))
}

fn begun(ex: &mut Exchange, chosen: Chosen, started: Option<Started>) -> Asked {
    Asked::Begun(Box::new(Begun {
        chosen,
        started,
        request_id: ex.request_id.get_mut().take(),
    }))
}

/// A connection to the chosen server, if one is available without waiting.
fn connection(
    worker: &Worker,
    recipe: &Recipe,
    key: PoolKey,
    chosen: &Chosen,
) -> Option<UpstreamConn> {
    if let Some(conn) = worker.pool.take(&key) {
        // Only plain sockets are waited for here.
        return conn.stream.sock().is_some().then_some(conn);
    }
    let started = match &chosen.peer().addr {
        PeerAddr::Unix(path) => start_connect_unix(path),
        addr @ PeerAddr::Inet(inet) if is_near(addr) => {
            start_connect(&ConnectTo::Inet(*inet), None)
        }
        PeerAddr::Inet(_) => return None,
    };
    let (fd, result) = started.ok()?;
    // On the same host, the connection is established at once unless the server is very busy.
    let under_way = |e: &io::Error| e.raw_os_error() == Some(libc::EINPROGRESS);
    if result.is_err_and(|e| is_unix(chosen) || !under_way(&e)) {
        return None;
    }
    debug_assert!(recipe.group.conf.resolving.is_empty());
    Some(UpstreamConn {
        http2: None,
        stream: Box::new(Sock::connected(fd)),
        key,
        requests: 0,
        opened: coarse_ms(),
        reused: false,
    })
}

fn is_unix(chosen: &Chosen) -> bool {
    matches!(chosen.peer().addr, PeerAddr::Unix(_))
}

/// Write the request in the server's protocol.
fn write(ex: &mut Exchange, recipe: &Recipe, body: Option<&[u8]>, out: &mut Vec<u8>) {
    let conf = &recipe.conf;
    let Some(host) = &recipe.host else {
        fastcgi::split_path(ex, conf);
        let mut writer = ex.worker.desk.writer.borrow_mut();
        fastcgi::write(ex, conf, &mut writer);
        if let Some(body) = body.filter(|b| !b.is_empty()) {
            writer.stdin(body);
        }
        writer.end_stdin();
        return out.extend_from_slice(writer.bytes());
    };
    let loc = ex.loc.clone();
    let Some(Handler::Proxy(pass)) = &loc.handler else {
        return;
    };
    out.extend_from_slice(ex.method());
    let uri = request_uri(ex, Some(pass), None);
    let length = body.map_or(BodyLength::None, |b| BodyLength::Known(b.len() as u64));
    request::head(ex, conf, &uri, host, length, out);
    out.extend_from_slice(body.unwrap_or_default());
}

impl Flight {
    /// The number of the upstream socket, see [`gallop_runtime::IoFd::slot`]. Its events go to the
    /// thread's handler of parked descriptors.
    pub fn wait(&self) -> usize {
        let io = self.sock().io();
        io.park();
        io.slot()
    }

    fn sock(&self) -> &Sock {
        let sock = self.conn.as_ref().and_then(|c| c.stream.sock());
        sock.expect("only sockets are waited for, until the answer has come")
    }

    /// The end of the server's time limit in milliseconds (monotonic clock).
    pub fn due(&self) -> u64 {
        self.due
    }

    /// The settings of the request's location.
    pub fn conf(&self) -> &LocConf {
        &self.loc.conf
    }

    /// Read what has arrived; a response is written to `out`. `fits`: whether the client has room
    /// for a body of this length.
    pub fn hear(
        mut self: Box<Self>,
        worker: &Worker,
        out: &mut Vec<u8>,
        fits: impl FnOnce(u64) -> bool,
    ) -> Heard {
        let mut input = self.held();
        let mut cx = Context::from_waker(Waker::noop());
        let read = self
            .sock()
            .poll_read_more(&mut cx, &mut input, buffers::SIZE - HOLD);
        let said = match read {
            Poll::Pending => {
                self.hold(input);
                return Heard::Nothing(self);
            }
            // First handle the bytes before the end; the end is met again.
            Poll::Ready(Ok(0) | Err(_)) if !input.is_empty() => Said::Other,
            Poll::Ready(Ok(0)) => return self.other(Came::End),
            Poll::Ready(Err(e)) => return self.other(Came::Error(e)),
            Poll::Ready(Ok(_)) if worker.shutdown.is_set() => Said::Other,
            Poll::Ready(Ok(_)) => {
                self.close_if_over(&input);
                self.answer(worker, &input).write(out)
            }
        };
        self.due = coarse_ms() + self.recipe.conf.read_ms() + 1;
        match said {
            Said::Answer(framed) if fits(framed.body) => {
                buffers::give(input);
                if !framed.keep {
                    self.conn = None;
                }
                Heard::Answer {
                    flight: self,
                    framed,
                }
            }
            // A closed connection gets no further events.
            Said::Part { head } if input.len() < HOLD && !self.is_hung_up() => {
                self.note_head(head);
                self.hold(input);
                Heard::Nothing(self)
            }
            _ => self.other(Came::Bytes(input)),
        }
    }

    fn is_hung_up(&self) -> bool {
        let sock = self.conn.as_ref().and_then(|c| c.stream.sock());
        sock.is_none_or(|sock| sock.io().is_hung_up())
    }

    /// Close a single-request connection as soon as the response is complete. php-fpm waits for the
    /// close: it is awake from the reading and sees the end at once instead of sleeping until it is
    /// woken again.
    fn close_if_over(&mut self, records: &[u8]) {
        let is_single = self.recipe.host.is_none() && self.recipe.conf.keep_conn != Some(true);
        if let Some(conn) = self
            .conn
            .as_mut()
            .filter(|_| is_single && is_ended(records))
        {
            conn.stream = Box::new(Ended);
        }
    }

    /// The bytes held from before, or an empty buffer.
    fn held(&mut self) -> Vec<u8> {
        match self.came.capacity() {
            0 => buffers::take(),
            _ => std::mem::take(&mut self.came),
        }
    }

    /// Record the time when the head became complete.
    fn note_head(&mut self, is_whole: bool) {
        if is_whole {
            let passed = now_ms().saturating_sub(self.started);
            self.header_ms.get_or_insert(passed);
        }
    }

    fn answer<'a>(&'a self, worker: &'a Worker, input: &'a [u8]) -> Answer<'a> {
        Answer {
            worker,
            recipe: &self.recipe,
            request: quick_answer::Request {
                conf: &self.loc.conf,
                form: Form::of(self.head.version),
                asks_head: self.head.method() == b"HEAD",
                takes_encoded: self.head.get("accept-encoding").is_some(),
            },
            input,
        }
    }

    fn other(self: Box<Self>, came: Came) -> Heard {
        Heard::Other { flight: self, came }
    }

    /// Keep the first bytes of a response.
    fn hold(&mut self, input: Vec<u8>) {
        match input.is_empty() {
            true => buffers::give(input),
            false => self.came = input,
        }
    }

    /// Count and log the request and release its resources. `sent`: bytes of the response.
    pub fn finish(
        mut self: Box<Self>,
        worker: &Rc<Worker>,
        conn: &Rc<Conn>,
        mut framed: Framed,
        sent: usize,
    ) {
        self.chosen.succeeded();
        match framed.head.take() {
            Some(head) => self.log(worker, conn, &head, &framed, sent),
            None => self.count(worker, &framed, sent),
        }
        if let Some(conn) = self.conn.take() {
            let conf = &self.chosen.group.conf;
            worker.pool.give(self.recipe.index, conf, conn);
        }
        let head = std::mem::take(&mut self.head);
        let mut heads = worker.desk.heads.borrow_mut();
        if heads.len() < SPARE_HEADS {
            heads.push(head);
        }
    }

    fn count(&self, worker: &Worker, framed: &Framed, sent: usize) {
        let Some(meter) = &worker.meter else { return };
        meter.request(Done {
            zone: self.server.zone,
            version: self.head.version,
            status: framed.status,
            received: self.received,
            sent: sent as u64,
            since: self.begun,
        });
        if let Some(peer) = self.chosen.group.meter(self.chosen.index) {
            let lasted = now_ms().saturating_sub(self.started);
            meter.attempt(peer, framed.status, false, lasted);
        }
    }

    /// Count and log the request like any other.
    fn log(
        &mut self,
        worker: &Rc<Worker>,
        conn: &Rc<Conn>,
        head: &answer::Head,
        framed: &Framed,
        sent: usize,
    ) {
        let mut ex = Exchange::new(worker.clone(), conn.clone());
        ex.request_length = self.received;
        ex.is_passed = true;
        std::mem::swap(&mut ex.head, &mut self.head);
        (ex.begun, ex.started) = (self.begun, self.started);
        ex.started_wall = self.started_wall;
        ex.request_id = self.request_id.take().into();
        ex.content_length = self.body.as_ref().map(|b| b.len() as u64);
        ex.received = Some(Received::Memory(
            self.body.take().unwrap_or_default().into(),
        ));
        choose(&mut ex);
        (ex.server, ex.loc) = (self.server.clone(), self.loc.clone());
        if self.recipe.host.is_none() {
            fastcgi::split_path(&mut ex, &self.recipe.conf);
        }
        answer::note(&mut ex, &self.recipe.conf, head, self.recipe.giver());
        filters::add_headers(&mut ex);
        filters::type_nothing(&mut ex);
        ex.attempts.push(self.attempt(&ex, head, framed));
        (ex.bytes_sent, ex.body_sent) = (sent as u64, framed.body);
        ex.complete = true;
        end::finish(&mut ex);
        std::mem::swap(&mut ex.head, &mut self.head);
    }

    fn attempt(&self, ex: &Exchange, head: &answer::Head, framed: &Framed) -> Attempt {
        let lasted = now_ms().saturating_sub(self.started);
        let times = Totals::default();
        times.response_ms.set(Some(lasted));
        times.length.set(framed.body);
        times.received.set(framed.received);
        times.sent.set(self.sent);
        let uri = match &ex.loc.handler {
            Some(Handler::Proxy(pass)) => request_uri(ex, Some(pass), None),
            _ => Vec::new(),
        };
        Attempt {
            meter: self.chosen.group.meter(self.chosen.index),
            peer: self.chosen.name().clone(),
            scheme: self.recipe.scheme(),
            uri: uri.into(),
            status: framed.status,
            connect_ms: Some(0),
            header_ms: self.header_ms.or(Some(lasted)),
            times: times.into(),
            headers: head.fields.clone(),
            began: self.started,
            ..Attempt::default()
        }
    }

    /// Continue in a task, after `came` if anything arrived. Returns the exchange and the client's
    /// body.
    pub fn leave(
        self: Box<Self>,
        worker: &Rc<Worker>,
        conn: &Rc<Conn>,
        came: Option<Came>,
    ) -> (Box<Exchange>, Vec<u8>) {
        let left = self.due().saturating_sub(coarse_ms());
        let flight = *self;
        let before = Some(flight.came).filter(|bytes| !bytes.is_empty());
        let mut ex = Exchange::new(worker.clone(), conn.clone());
        ex.head = flight.head;
        ex.request_length = flight.received;
        (ex.begun, ex.started) = (flight.begun, flight.started);
        ex.started_wall = flight.started_wall;
        ex.take_over(Box::new(Begun {
            chosen: flight.chosen,
            request_id: flight.request_id,
            started: Some(Started {
                conn: flight.conn.expect("what was answered is not left"),
                sent: flight.sent,
                unsent: Vec::new(),
                last: came.or(before.map(Came::Bytes)),
                began: flight.started,
                left,
            }),
        }));
        (ex, flight.body.unwrap_or_default())
    }
}
