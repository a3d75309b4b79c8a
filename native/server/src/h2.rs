//! HTTP/2 connections.

mod sending;

use crate::idle::Idle;
use crate::mux::passing::{self, Passed, Streamed};
use crate::mux::{self, Coding, Mux, Queue};
use crate::reuse::Reusable;
use crate::transport::Transport;
use bytes::{Buf, Bytes};
use gallop_conf::model::{Level, Server};
use gallop_engine::{Conn, Worker};
use gallop_http::h2::{Config, Connection, ErrorCode, Event, MAX_FRAME, MIN_RECEIVE_BUFFER};
use gallop_http::head::{HeadError, HeadLimits, RequestHead};
use gallop_runtime::{coarse_ms, deadline, now_ms, sleep, timeout, Deadline, Notify, Watch};
use sending::Sending;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{ready, Context, Poll, Waker};
use std::time::Instant;

pub use gallop_http::h2::PREFACE;

/// Bytes read at a time; only larger frames need more.
const READ_SIZE: usize = 2 * MIN_RECEIVE_BUFFER;
/// Responses stop adding output while more than this waits.
const OUTPUT_HIGH: usize = 128 * 1024;
/// Bytes that one stream sends before other streams get their turn.
const TURN: usize = 32 * 1024;
/// Milliseconds that a client has to read the end of a connection.
const LINGER_MS: u64 = 2000;
/// Milliseconds after which the server checks again for the unread rest of a request that already
/// has its response.
const REST_MS: u64 = 100;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The most idle buffers that a thread keeps.
const SPARE_BUFFERS: usize = 16;

/// The connection's state of one stream.
#[derive(Default)]
struct StreamState {
    body: Option<Rc<Queue>>,
    /// Wakes the request's task when it waits to send.
    writer: Option<Waker>,
    gone: Option<Rc<Notify>>,
    /// The place in the table of requests that wait for an upstream without a task.
    place: Option<usize>,
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

struct Http2<T> {
    idle: Rc<Idle>,
    worker: Rc<Worker>,
    conn: Rc<Conn>,
    io: T,
    h2: RefCell<Connection<StreamState>>,
    sending: RefCell<Sending>,
    /// Wakes the connection's task.
    task: RefCell<Option<Waker>>,
    /// The task of a request has made a change that the connection's task must handle.
    touched: Cell<bool>,
    /// A task resets the streams whose response ended before the request did.
    ending: Cell<bool>,
    /// Age in milliseconds after which the connection takes no new requests (`keepalive_time`).
    life: u64,
}

/// Received bytes that are not used yet. Holds no memory while empty.
struct Input {
    bytes: Vec<u8>,
    pos: usize,
    /// The most bytes held: enough for the largest frame.
    limit: usize,
}

impl Input {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.pos..]
    }

    /// Read more bytes and append them to the unread ones.
    fn poll_fill<T: Transport>(&mut self, io: &T, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(io.poll_readable(cx));
        self.bytes.drain(..self.pos);
        self.pos = 0;
        if self.bytes.capacity() == 0 {
            self.bytes = BUFFERS.with(|b| b.borrow_mut().pop()).unwrap_or_default();
        }
        let len = self.bytes.len();
        if len >= self.limit {
            return Poll::Pending;
        }
        let room = READ_SIZE.max(len + MIN_RECEIVE_BUFFER).min(self.limit);
        self.bytes.resize(room, 0);
        let result = io.poll_read(cx, &mut self.bytes[len..]);
        let read = match &result {
            Poll::Ready(Ok(n)) => *n,
            _ => 0,
        };
        self.bytes.truncate(len + read);
        self.release();
        result
    }

    fn release(&mut self) {
        if self.pos < self.bytes.len() || self.bytes.capacity() == 0 {
            return;
        }
        let mut spare = std::mem::take(&mut self.bytes);
        self.pos = 0;
        spare.clear();
        BUFFERS.with(|buffers| {
            let mut buffers = buffers.borrow_mut();
            if buffers.len() < SPARE_BUFFERS && spare.capacity() <= 2 * READ_SIZE {
                buffers.push(spare);
            }
        });
    }
}

/// The HTTP/2 limits of a server block.
fn config(server: &Server) -> Config {
    let conf = &server.conf;
    let (count, size) = conf.large_buffers();
    let window = conf
        .http2_body_preread_size
        .unwrap_or(65_536)
        .clamp(1, 0x7fff_ffff) as u32;
    Config {
        max_streams: conf.http2_max_concurrent_streams.unwrap_or(128) as usize,
        stream_window: window,
        connection_window: window.saturating_mul(16).clamp(1 << 20, 0x7fff_ffff),
        head: HeadLimits {
            size: count.saturating_mul(size) as usize,
            field: size as usize,
            fields: conf.max_headers.unwrap_or(1000) as usize,
        },
        max_section: count.saturating_mul(size) as usize,
        // The largest field may arrive in a single frame.
        max_frame: (size as usize).clamp(MAX_FRAME, (1 << 24) - 1),
        max_requests: server.root.conf.keepalive_requests.unwrap_or(1000),
        chunk: server.root.conf.http2_chunk_size.unwrap_or(8192).max(1) as usize,
    }
}

/// Serve a connection until it ends. `early`: bytes that were already read.
pub async fn serve<T: Transport>(idle: Rc<Idle>, conn: Rc<Conn>, io: T, early: Vec<u8>) {
    let server = conn.sni_server().cloned();
    let server = server.unwrap_or_else(|| conn.endpoint.hosts.default.clone());
    let config = config(&server);
    let this = Rc::new(Http2 {
        h2: RefCell::new(Connection::new(config)),
        worker: idle.worker().clone(),
        idle,
        conn,
        io,
        sending: RefCell::default(),
        task: RefCell::default(),
        touched: Cell::new(false),
        ending: Cell::new(false),
        life: server.root.conf.keepalive_time.unwrap_or(3_600_000),
    });
    let times = Times {
        header: server.conf.client_header_timeout.unwrap_or(60_000),
        idle: server.root.conf.keepalive_timeout.unwrap_or(75_000),
        send: server.root.conf.send_timeout.unwrap_or(60_000),
        deadline: deadline(),
        since: Cell::new((Waiting::Request, now_ms())),
        reusable: this.idle.reuse().add(None),
    };
    let input = Input {
        bytes: early,
        pos: 0,
        limit: READ_SIZE.max(config.max_frame + MIN_RECEIVE_BUFFER),
    };
    let orderly = this.run(input, &times).await;
    times.reusable.is_busy();
    let lost = this.h2.borrow_mut().take_all();
    lost.into_iter().for_each(|state| state.lost(&this.idle));
    if orderly {
        this.linger().await;
    }
}

/// The event that the current time limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// The client accepts output.
    Output,
    /// The rest of a head that has begun.
    Head,
    /// The rest of an abandoned head. It must be read before any other frame.
    LateHead,
    /// The first request.
    Request,
    /// Another request, after this many requests.
    Idle(u64),
    /// No time limit here: the tasks of open requests have their own.
    Nothing,
}

struct Times {
    header: u64,
    idle: u64,
    send: u64,
    deadline: Deadline,
    /// The awaited event and the start of the wait. Slow progress does not extend it.
    since: Cell<(Waiting, u64)>,
    /// Marks the connection as one that may be closed while it waits for a request.
    reusable: Rc<Reusable>,
}

impl Times {
    fn limit(&self, waiting: Waiting) -> Option<u64> {
        match waiting {
            Waiting::Output => Some(self.send),
            Waiting::Head | Waiting::Request => Some(self.header),
            Waiting::LateHead | Waiting::Idle(_) => Some(self.idle),
            Waiting::Nothing => None,
        }
    }

    fn set(&self, waiting: Waiting) {
        let is_new = self.since.get().0 != waiting || !self.reusable.is_waiting();
        match waiting {
            Waiting::Request | Waiting::Idle(_) if is_new => self.reusable.waits(),
            Waiting::Request | Waiting::Idle(_) => {}
            _ => self.reusable.is_busy(),
        }
        let Some(limit) = self.limit(waiting) else {
            self.since.set((waiting, 0));
            return self.deadline.clear();
        };
        let (before, since) = self.since.get();
        if before != waiting {
            self.since.set((waiting, now_ms()));
            return self.deadline.set(limit);
        }
        self.deadline.set((since + limit).saturating_sub(now_ms()));
    }

    /// Restart the time limit because the client accepted output. Input does not restart it.
    fn written(&self) {
        if self.since.get().0 == Waiting::Output {
            self.since.set((Waiting::Output, now_ms()));
        }
    }

    /// Whether the client has accepted no output for too long.
    fn is_stuck(&self) -> bool {
        let (waiting, since) = self.since.get();
        waiting == Waiting::Output && now_ms() >= since + self.send
    }
}

/// The event that ended a wait.
enum Step {
    Progress,
    Gone,
    TimedOut,
    Shutdown,
    /// The connection closes to make room for another client.
    Reused,
}

impl<T: Transport> Http2<T> {
    /// Run until the connection is over; `true` if the client should get time to read the remaining
    /// output.
    async fn run(self: &Rc<Self>, mut input: Input, times: &Times) -> bool {
        let mut shutdown = Some(self.worker.shutdown.watch());
        let mut reused = times.reusable.closing.watch();
        loop {
            if let Err(error) = self.process(&mut input) {
                let id = self.conn.id;
                self.worker.log(Level::Info, &format!("*{id} {error}"));
                return self.flush(times.send).await;
            }
            self.wake_ready();
            self.end_unfinished();
            if self.h2.borrow().is_finished() {
                return self.flush(times.send).await;
            }
            self.set_deadline(&input, times);
            match self
                .step(&mut input, times, shutdown.as_mut(), &mut reused)
                .await
            {
                Step::Progress => {}
                Step::Gone => return false,
                Step::TimedOut if self.expire_head(&input, times) => {}
                Step::TimedOut => {
                    self.h2.borrow_mut().shutdown();
                    return self.flush(1000).await;
                }
                Step::Reused => {
                    self.h2.borrow_mut().shutdown();
                    self.flush(1000).await;
                    return false;
                }
                Step::Shutdown => {
                    shutdown = None;
                    self.h2.borrow_mut().shutdown();
                }
            }
        }
    }

    fn set_deadline(&self, input: &Input, times: &Times) {
        let h2 = self.h2.borrow();
        times.set(if self.has_output(&h2) {
            Waiting::Output
        } else if h2.awaits_head(input.unread()) && h2.head_is_late() {
            Waiting::LateHead
        } else if h2.awaits_head(input.unread()) {
            Waiting::Head
        } else if h2.open_streams() > 0 {
            Waiting::Nothing
        } else if self.conn.requests.get() == 0 {
            Waiting::Request
        } else {
            Waiting::Idle(self.conn.requests.get())
        });
    }

    /// Reset a stream whose head arrived too slowly; the other streams continue.
    fn expire_head(&self, input: &Input, times: &Times) -> bool {
        if times.since.get().0 != Waiting::Head {
            return false;
        }
        times.since.set((Waiting::Nothing, 0));
        self.h2.borrow_mut().expire_head(input.unread())
    }

    fn has_output(&self, h2: &Connection<StreamState>) -> bool {
        h2.has_output() || !self.sending.borrow().is_empty()
    }

    /// Wait for the socket, a request's task, the shutdown, or the time limit.
    async fn step(
        &self,
        input: &mut Input,
        times: &Times,
        mut shutdown: Option<&mut Watch<'_>>,
        reused: &mut Watch<'_>,
    ) -> Step {
        poll_fn(|cx| {
            self.remember_task(cx);
            let mut progress = self.touched.take();
            match self.poll_write(cx) {
                Poll::Ready(Ok(written)) => {
                    progress |= written;
                    if written {
                        times.written();
                    }
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Step::Gone),
                Poll::Pending => {}
            }
            if !self.h2.borrow().wants_drain() {
                match input.poll_fill(&self.io, cx) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Step::Gone),
                    Poll::Ready(Ok(_)) => progress = true,
                    Poll::Pending => {}
                }
            }
            if progress {
                let is_stuck = times.is_stuck();
                return Poll::Ready(if is_stuck {
                    Step::TimedOut
                } else {
                    Step::Progress
                });
            }
            if let Some(watch) = &mut shutdown {
                if watch.poll_set(cx).is_ready() {
                    return Poll::Ready(Step::Shutdown);
                }
            }
            if reused.poll_set(cx).is_ready() {
                return Poll::Ready(Step::Reused);
            }
            times.deadline.poll_over(cx).map(|()| Step::TimedOut)
        })
        .await
    }

    fn remember_task(&self, cx: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        match &*task {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => *task = Some(cx.waker().clone()),
        }
    }

    /// Wake the connection's task to handle a change by a request's task.
    fn touch(&self) {
        if !self.touched.replace(true) {
            if let Some(waker) = &*self.task.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    /// Write output until the socket accepts no more. Returns whether anything was written; `false`
    /// means that all output is sent.
    fn poll_write(&self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let refill = |bytes: &mut Vec<u8>| std::mem::swap(self.h2.borrow_mut().output(), bytes);
        self.sending.borrow_mut().poll(cx, &self.io, refill)
    }

    /// Send all output; `true` if this succeeded within the time limit.
    async fn flush(&self, limit: u64) -> bool {
        let all = poll_fn(|cx| loop {
            match ready!(self.poll_write(cx)) {
                // TLS may hold sealed bytes that are not sent yet.
                Ok(true) => {}
                Ok(false) if self.has_output(&self.h2.borrow()) => {}
                result => return Poll::Ready(result),
            }
        });
        matches!(timeout(limit, all).await, Ok(Ok(_)))
    }

    /// Read what the client still sends; otherwise its system could discard the last output.
    async fn linger(&self) {
        self.io.close_write();
        let until = now_ms() + LINGER_MS;
        let mut scratch = [0; 4096];
        while now_ms() < until {
            match timeout(LINGER_MS, poll_fn(|cx| self.io.poll_read(cx, &mut scratch))).await {
                Ok(Ok(n)) if n > 0 => {}
                _ => return,
            }
        }
    }

    /// Let streams with open windows continue while the output is not too long.
    fn wake_ready(&self) {
        let mut h2 = self.h2.borrow_mut();
        while h2.output().len() < OUTPUT_HIGH {
            let Some(stream) = h2.next_ready() else {
                return;
            };
            if let Some(waker) = h2.user_mut(stream).and_then(|state| state.writer.take()) {
                waker.wake();
            }
        }
    }

    /// Reset the streams whose response is complete but whose request does not end.
    fn end_unfinished(self: &Rc<Self>) {
        if !self.h2.borrow().has_unfinished() || self.ending.replace(true) {
            return;
        }
        let weak = Rc::downgrade(self);
        gallop_runtime::spawn(async move {
            loop {
                sleep(REST_MS).await;
                let Some(this) = weak.upgrade() else {
                    return;
                };
                this.h2.borrow_mut().end_unfinished();
                this.touch();
                if !this.h2.borrow().has_unfinished() {
                    this.ending.set(false);
                    return;
                }
            }
        });
    }

    /// Process the frames in the input.
    fn process(self: &Rc<Self>, input: &mut Input) -> Result<(), gallop_http::h2::Error> {
        let now = Instant::now();
        let mut rest = input.unread();
        let result = loop {
            let event = self.h2.borrow_mut().receive(&mut rest, now);
            match event {
                Ok(Some(event)) => self.event(event),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        input.pos = input.bytes.len() - rest.len();
        input.release();
        result
    }

    fn event(self: &Rc<Self>, event: Event<'_, StreamState>) {
        match event {
            Event::Request {
                stream,
                head,
                end_stream,
            } => {
                if !(end_stream && (self.answer_now(stream, &head) || self.pass_on(stream, &head)))
                {
                    self.start(stream, Ok(&head), end_stream);
                }
                if coarse_ms().saturating_sub(self.conn.started) > self.life {
                    self.h2.borrow_mut().shutdown();
                }
            }
            Event::BadBody { stream } => {
                let mut h2 = self.h2.borrow_mut();
                let queue = h2.user_mut(stream).and_then(|state| state.body.clone());
                drop(h2);
                if let Some(queue) = queue {
                    queue.refuse();
                }
            }
            Event::Malformed { stream, error } => self.start(stream, Err(error), true),
            Event::Data {
                stream,
                data,
                end_stream,
            } => {
                let mut h2 = self.h2.borrow_mut();
                let queue = h2.user_mut(stream).and_then(|state| state.body.clone());
                drop(h2);
                if let Some(queue) = queue {
                    queue.push(Bytes::copy_from_slice(data), end_stream);
                }
            }
            Event::Reset { user, .. } => user.lost(&self.idle),
            Event::GoAway => self.h2.borrow_mut().shutdown(),
        }
    }

    /// Send a prepared response if the windows have room for all of it.
    fn answer_now(&self, stream: u32, head: &Rc<RequestHead>) -> bool {
        let sent = mux::find(&self.worker, &self.conn, Coding::Hpack, head, |found| {
            let mut h2 = self.h2.borrow_mut();
            if h2.capacity(stream) < found.body.len() {
                return None;
            }
            h2.send_head(stream, found.section, false);
            h2.send_data(stream, found.body, true);
            Some(found.logged)
        });
        let Some(logged) = sent.flatten() else {
            return false;
        };
        mux::log(&self.worker, &self.conn, Coding::Hpack, head, logged);
        true
    }

    /// Pass a request to an upstream if it needs no task.
    fn pass_on(self: &Rc<Self>, stream: u32, head: &RequestHead) -> bool {
        let client = Streamed {
            conn: self.conn.clone(),
            mux: self.clone(),
            stream: stream.into(),
        };
        let Some(passed) = passing::send(&self.idle, client, head) else {
            return false;
        };
        if let Some(state) = self.h2.borrow_mut().user_mut(stream) {
            match passed {
                Passed::Waits(place) => state.place = Some(place),
                Passed::Started(gone) => state.gone = Some(gone),
            }
        }
        true
    }

    fn start(self: &Rc<Self>, stream: u32, head: Result<&RequestHead, HeadError>, end: bool) {
        let mux: Rc<dyn Mux> = self.clone();
        let started = mux::start(&self.worker, &self.conn, mux, stream.into(), head, end);
        if let Some(state) = self.h2.borrow_mut().user_mut(stream) {
            state.body = started.body;
            state.gone = Some(started.gone);
        }
    }
}

impl<T: Transport> Mux for Http2<T> {
    fn coding(&self) -> Coding {
        Coding::Hpack
    }

    fn send_head(&self, stream: u64, section: &[u8], end: bool) {
        self.h2.borrow_mut().send_head(stream as u32, section, end);
        self.touch();
    }

    fn fits(&self, stream: u64, length: u64) -> bool {
        let mut h2 = self.h2.borrow_mut();
        let stream = stream as u32;
        let has_room = h2.is_open(stream) && h2.output().len() < OUTPUT_HIGH;
        has_room && h2.capacity(stream) as u64 >= length
    }

    fn has_window(&self, stream: u64) -> bool {
        self.h2.borrow_mut().capacity(stream as u32) > 0
    }

    fn answer(&self, stream: u64, section: &[u8], body: Option<&[u8]>) {
        let mut h2 = self.h2.borrow_mut();
        h2.send_head(stream as u32, section, body.is_none());
        if let Some(body) = body {
            h2.send_data(stream as u32, body, true);
        }
        drop(h2);
        self.touch();
    }

    fn landed(&self, stream: u64, gone: Rc<Notify>) {
        match self.h2.borrow_mut().user_mut(stream as u32) {
            Some(state) => {
                state.place = None;
                state.gone = Some(gone);
            }
            None => gone.set(),
        }
    }

    fn send_interim(&self, stream: u64, section: &[u8]) {
        self.h2.borrow_mut().send_interim(stream as u32, section);
        self.touch();
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        stream: u64,
        data: &mut Bytes,
        end: bool,
    ) -> Poll<io::Result<()>> {
        let mut h2 = self.h2.borrow_mut();
        let stream = stream as u32;
        if !h2.is_open(stream) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if h2.output().len() < OUTPUT_HIGH {
            let turn = data.len().min(TURN);
            let taken = h2.send_data(stream, &data[..turn], end && turn == data.len());
            let more = turn < data.len() && taken == turn;
            data.advance(taken);
            self.touch();
            if data.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if more {
                h2.mark_ready(stream);
            }
        } else {
            h2.mark_ready(stream);
        }
        if let Some(state) = h2.user_mut(stream) {
            state.writer = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn send_trailers(&self, stream: u64, section: &[u8]) {
        self.h2.borrow_mut().send_trailers(stream as u32, section);
        self.touch();
    }

    fn set_chunk(&self, stream: u64, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.h2.borrow_mut().set_chunk(stream as u32, bytes);
    }

    fn abort(&self, stream: u64, late: bool) {
        let code = if late {
            ErrorCode::PROTOCOL_ERROR
        } else {
            ErrorCode::INTERNAL_ERROR
        };
        // The caller is the stream's task, which ends by itself.
        drop(self.h2.borrow_mut().reset(stream as u32, code));
        self.touch();
    }

    fn released(&self, stream: u64, len: usize) {
        self.h2.borrow_mut().release(stream as u32, len);
        self.touch();
    }
}
