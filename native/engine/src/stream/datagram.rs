//! Sessions of UDP: the datagrams of one client address and port, and what a server answers.

use super::inbox::Inbox;
use super::proxy::{self, Transport, Way};
use super::rate::Rate;
use super::{relay, status, Session};
use crate::pipe::Allowance;
use crate::scope::Scope;
use crate::template;
use crate::upstream::chosen::Chosen;
use crate::upstream::transfer::{datagrams_to, Failure};
use crate::worker::Worker;
use gallop_conf::model::{Level, StreamHandler, StreamPass};
use gallop_conf::parser::os_error;
use gallop_http::proxy_protocol::Transport as HeaderTransport;
use gallop_runtime::{deadline, now_ms, DatagramSock, Deadline, Watch};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{ready, Context, Poll};

/// The most datagrams of a direction before other tasks get their turn; as many as the listening
/// socket gives at a time.
const ROUNDS: usize = 64;
/// Milliseconds that a server has for a response after the shutdown began, unless its number of
/// responses is known.
const SHUTDOWN_MS: u64 = 10_000;
/// The longest datagram.
const LONGEST: usize = 65_536;

thread_local! {
    /// Datagrams of servers are sent on before the next one is received.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; LONGEST]);
}

/// The client's side of a session.
pub trait Client {
    /// Send a datagram, or drop it if that is not possible. Returns whether it was sent.
    fn send(&self, data: &[u8]) -> bool;
    /// The client's datagrams.
    fn inbox(&self) -> &Inbox;
}

/// Serve the content of a session. Returns the status.
pub async fn serve(session: &mut Session, client: &dyn Client) -> u16 {
    let server = session.server.clone();
    match server.stream.as_ref().and_then(|s| s.handler.as_ref()) {
        Some(StreamHandler::Proxy(pass)) => pass_on(session, pass, client).await,
        Some(StreamHandler::Return(text)) => {
            let text = template::eval(session, text);
            if !text.is_empty() && client.send(&text) {
                session.sent += text.len() as u64;
            }
            status::OK
        }
        Some(StreamHandler::Pass(_)) => {
            session.log(
                Level::Error,
                "cannot pass udp connection while passing connection to port",
            );
            status::INTERNAL_SERVER_ERROR
        }
        None => status::INTERNAL_SERVER_ERROR,
    }
}

struct Datagrams;

impl Transport for Datagrams {
    type Opened = Server;

    async fn open(session: &mut Session, way: &Way, chosen: &Chosen) -> Result<Server, Failure> {
        let socket = datagrams_to(session, &way.conf, chosen)?;
        if let Some(attempt) = session.attempts.last_mut() {
            attempt.connect_ms = Some(now_ms().saturating_sub(attempt.began));
        }
        Ok(Server::new(session.worker.clone(), socket))
    }
}

/// The server's side of a session. It is on the list of connections to cut off.
struct Server {
    worker: Rc<Worker>,
    socket: DatagramSock,
}

impl Server {
    fn new(worker: Rc<Worker>, socket: DatagramSock) -> Server {
        worker.sockets.borrow_mut().insert(socket.raw());
        Server { worker, socket }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.worker.sockets.borrow_mut().remove(&self.socket.raw());
    }
}

async fn pass_on(session: &mut Session, pass: &StreamPass, client: &dyn Client) -> u16 {
    let way = match proxy::way(session, pass).await {
        Ok(way) => way,
        Err(message) => {
            session.log(Level::Error, &message);
            return status::INTERNAL_SERVER_ERROR;
        }
    };
    let (server, chosen) = match proxy::connect::<Datagrams>(session, &way).await {
        Ok(connected) => connected,
        Err(status) => return status,
    };
    let worker = session.worker.clone();
    let mut flow = Flow::new(session, client, &server.socket, &chosen);
    let mut shutdown = worker.shutdown.watch();
    let end = poll_fn(|cx| flow.poll(cx, &mut shutdown)).await;
    flow.record(session);
    let counts = flow.counts();
    proxy::finish_attempt(session);
    conclude(session, &chosen, &end, &counts)
}

/// The reason for the end.
enum End {
    /// All responses have come.
    Done,
    TimedOut {
        expected_more: bool,
    },
    Shutdown,
    Received(io::Error),
    Sent(io::Error),
}

/// Write the reason to the error log. Returns the status.
fn conclude(session: &Session, chosen: &Chosen, end: &End, counts: &str) -> u16 {
    let error = |text: &str| {
        session.log(Level::Error, text);
        status::BAD_GATEWAY
    };
    let what = match end {
        End::Done => "udp done",
        End::TimedOut {
            expected_more: false,
        } => "udp timed out",
        End::Shutdown => "udp disconnected on shutdown",
        End::TimedOut {
            expected_more: true,
        } => {
            chosen.failed();
            let text = "upstream timed out (110: Connection timed out) while proxying connection";
            return error(text);
        }
        End::Received(e) => {
            chosen.failed();
            let reason = os_error(e);
            return error(&format!(
                "recv() failed ({reason}) while proxying and reading from upstream"
            ));
        }
        End::Sent(e) => {
            // A datagram that is too long, or that this host may not send, is not the server's
            // fault.
            if e.kind() == io::ErrorKind::ConnectionRefused {
                chosen.failed();
            }
            let reason = os_error(e);
            return error(&format!(
                "send() failed ({reason}) while proxying and sending to upstream"
            ));
        }
    };
    session.log(Level::Info, &format!("{what}, {counts}"));
    status::OK
}

/// The datagrams between a client and a server.
struct Flow<'a> {
    client: &'a dyn Client,
    server: &'a DatagramSock,
    chosen: &'a Chosen,
    up: Rate,
    down: Rate,
    /// The start of the next datagram to the server.
    header: Vec<u8>,
    /// A datagram that the server's socket has not taken yet.
    unsent: Option<Vec<u8>>,
    /// `proxy_requests` and `proxy_responses`, if they are limited.
    wanted: u64,
    expected: Option<u64>,
    patience: u64,
    idle: Deadline,
    is_paused: bool,
    began: u64,
    first_byte: Option<u64>,
    requests: u64,
    responses: u64,
    /// Bytes from and to the client, and from and to the server.
    received: u64,
    sent: u64,
    from_server: u64,
    to_server: u64,
}

impl<'a> Flow<'a> {
    fn new(
        session: &Session,
        client: &'a dyn Client,
        server: &'a DatagramSock,
        chosen: &'a Chosen,
    ) -> Flow<'a> {
        let conf = session.conf();
        let patience = conf.timeout.unwrap_or(relay::TIMEOUT);
        let idle = deadline();
        idle.set(patience);
        Flow {
            client,
            server,
            chosen,
            up: Rate::of(session, conf.upload_rate.as_ref()),
            down: Rate::of(session, conf.download_rate.as_ref()),
            header: proxy::header(session, HeaderTransport::Datagram),
            unsent: None,
            wanted: conf.requests.unwrap_or(0),
            expected: conf.responses,
            patience,
            idle,
            is_paused: false,
            began: session.attempts.last().map_or(0, |a| a.began),
            first_byte: None,
            requests: 0,
            responses: 0,
            received: 0,
            sent: 0,
            from_server: 0,
            to_server: 0,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, shutdown: &mut Watch<'_>) -> Poll<End> {
        let before = (self.requests, self.responses);
        if let Poll::Ready(e) = self.poll_up(cx) {
            return Poll::Ready(End::Sent(e));
        }
        let broken = self.poll_down(cx);
        let shuts_down = shutdown.poll_set(cx).is_ready();
        match broken {
            // The socket was hung up.
            Poll::Ready(_) if shuts_down => return Poll::Ready(End::Shutdown),
            Poll::Ready(e) => return Poll::Ready(End::Received(e)),
            Poll::Pending => {}
        }
        if self.client.inbox().is_empty() && self.unsent.is_none() {
            if self.is_done() {
                return Poll::Ready(End::Done);
            }
            if shuts_down && self.is_over(self.responses > before.1) {
                return Poll::Ready(End::Shutdown);
            }
        }
        if shuts_down && self.expected.is_none() && self.patience > SHUTDOWN_MS {
            self.patience = SHUTDOWN_MS;
            self.idle.set(self.patience);
        }
        self.poll_idle(cx, before != (self.requests, self.responses))
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>, moved: bool) -> Poll<End> {
        let is_delayed = self.up.is_delayed() || self.down.is_delayed();
        let was_paused = std::mem::replace(&mut self.is_paused, is_delayed);
        if is_delayed {
            // As in nginx, a session that waits for its rate does not time out.
            self.idle.clear();
        } else if moved || was_paused {
            self.idle.set(self.patience);
        }
        self.idle.poll_over(cx).map(|()| End::TimedOut {
            expected_more: !self.has_responses(),
        })
    }

    /// Send the client's datagrams to the server. Ready after an error.
    fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        for _ in 0..ROUNDS {
            if self.unsent.is_none() {
                ready!(self.up.poll_allowed(cx, self.received));
                let data = ready!(self.client.inbox().poll_next(cx));
                self.requests += 1;
                self.received += data.len() as u64;
                self.up.took(data.len());
                let mut datagram = std::mem::take(&mut self.header);
                datagram.extend_from_slice(&data);
                self.unsent = Some(datagram);
            }
            let datagram = self.unsent.as_deref().unwrap_or_default();
            match ready!(self.server.poll_send(cx, datagram)) {
                Ok(n) => self.to_server += n as u64,
                Err(e) => return Poll::Ready(e),
            }
            self.unsent = None;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Send the server's datagrams to the client. Ready after an error.
    fn poll_down(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        for _ in 0..ROUNDS {
            ready!(self.down.poll_allowed(cx, self.from_server));
            let n = match ready!(self.poll_one_down(cx)) {
                Ok(n) => n,
                Err(e) => return Poll::Ready(e),
            };
            self.responses += 1;
            self.from_server += n as u64;
            self.down.took(n);
            if self.first_byte.is_none() {
                let since = now_ms().saturating_sub(self.began);
                self.chosen.answered(since);
                self.first_byte = Some(since);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_one_down(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        BUFFER.with_borrow_mut(|buffer| {
            let n = match ready!(self.server.poll_receive(cx, buffer)) {
                Ok(n) => n,
                Err(e) => return Poll::Ready(Err(e)),
            };
            if self.client.send(&buffer[..n]) {
                self.sent += n as u64;
            }
            Poll::Ready(Ok(n))
        })
    }

    /// Whether the server has sent all that it is expected to.
    fn has_responses(&self) -> bool {
        let all = |expected: u64| self.responses >= expected.saturating_mul(self.requests);
        self.expected.is_none_or(all)
    }

    fn is_done(&self) -> bool {
        self.expected.is_some() && self.has_responses() && self.requests >= self.wanted.max(1)
    }

    /// Whether a worker that is told to end can end the session. The client's next datagram reaches
    /// a new worker, so only what the server still has to say matters.
    fn is_over(&self, is_answered: bool) -> bool {
        match self.expected {
            Some(_) => self.has_responses(),
            None => is_answered || self.responses >= self.requests,
        }
    }

    /// Note the bytes in the session.
    fn record(&self, session: &mut Session) {
        session.received = self.received;
        session.sent = self.sent;
        if let Some(attempt) = session.attempts.last_mut() {
            attempt.header_ms = self.first_byte;
            attempt.times.received.set(self.from_server);
            attempt.times.sent.set(self.to_server);
        }
    }

    fn counts(&self) -> String {
        let (requests, responses) = (self.requests, self.responses);
        format!("packets from/to client:{requests}/{responses}")
    }
}
