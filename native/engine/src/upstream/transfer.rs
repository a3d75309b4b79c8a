//! A request to an upstream: choosing a server, connecting, sending the request, and reading the
//! response head; after a failure, the next server.

use super::answer::{self, Giver, Head};
use super::buffers;
use super::chosen::Chosen;
use super::keepalive::{PoolKey, TlsKey, TlsRequest, UpstreamConn};
use super::methods::Hint;
use super::outgoing::{Outgoing, Stop, Wait};
use super::quick::{Came, Started};
use super::request::{HttpRequest, Wire};
use super::response_body::Decoder;
use super::state::Group;
use super::tls_names::{tls_names, TlsNames};
use crate::exchange::Exchange;
use crate::phases::flow::Flow;
use crate::scope::Scope;
use crate::template;
use crate::worker::Worker;
use gallop_conf::model::{items, next, AppProtocol, Level, PeerAddr, ProxyPass, UpConf};
use gallop_conf::parser::os_error;
use gallop_runtime::{connect, deadline, now_ms, timeout, ConnectTo, DatagramSock, Deadline, Sock};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

pub enum Protocol {
    Http(HttpRequest),
    Application(AppProtocol),
}

impl Protocol {
    pub(super) fn is_memcached(&self) -> bool {
        matches!(self, Protocol::Application(AppProtocol::Memcached))
    }
}

/// The parameters of a request to an upstream, except for the server.
pub struct Plan<'a> {
    pub group: Arc<Group>,
    /// The index of a group that keeps idle connections.
    pub index: Option<usize>,
    pub conf: Arc<UpConf>,
    pub hint: Hint,
    pub tls: bool,
    pub scheme: &'static str,
    /// The cache key, unless the configuration sets one.
    pub cache_key: Vec<u8>,
    /// The path and query for the error log.
    pub uri: Rc<[u8]>,
    /// The default name for TLS.
    pub default_name: String,
    pub protocol: Protocol,
    /// The escaped key, for memcached.
    pub memcached_key: Vec<u8>,
    pub pass: Option<&'a ProxyPass>,
}

impl Plan<'_> {
    pub(super) fn giver(&self) -> Giver {
        match self.protocol {
            Protocol::Http(_) => Giver::Server,
            Protocol::Application(protocol) => Giver::Application(protocol),
        }
    }

    /// Whether only the response head is wanted.
    fn asks_head(&self, ex: &Exchange) -> bool {
        let wants_body = match &self.protocol {
            Protocol::Http(request) => request.as_get,
            // An application may send a body even for HEAD, which a cache stores for GET.
            Protocol::Application(_) => ex.cached.as_ref().is_some_and(|n| n.cacheable),
        };
        ex.method() == b"HEAD" && !wants_body
    }

    fn wire(&self) -> Wire {
        match &self.protocol {
            Protocol::Http(request) => request.wire,
            Protocol::Application(_) => Wire::Http1,
        }
    }

    pub(super) fn is_http2(&self) -> bool {
        self.wire() != Wire::Http1
    }

    pub(super) fn is_grpc(&self) -> bool {
        self.wire() == Wire::Grpc
    }

    /// The scheme by which idle connections are told apart.
    fn pool_scheme(&self) -> &'static str {
        match (self.wire(), self.tls) {
            (Wire::Http2, false) => "http2",
            (Wire::Http2, true) => "https2",
            _ => self.scheme,
        }
    }

    /// Whether the request starts with the length of its body, so that the whole body must be read
    /// first if the client does not announce the length.
    pub(super) fn starts_with_length(&self) -> bool {
        use AppProtocol::{Scgi, Uwsgi};
        matches!(self.protocol, Protocol::Application(Scgi | Uwsgi))
    }
}

/// The reason for a failed attempt.
pub struct Failure {
    /// The bit of `next_upstream`; 0 if this side is at fault.
    pub kind: u32,
    pub message: String,
    /// Whether the server may have received a part of the request.
    pub sent: bool,
    /// Whether an idle connection broke before the server could see the request.
    pub stale: bool,
}

impl Failure {
    pub fn status(&self) -> u16 {
        match self.kind {
            0 => 500,
            next::TIMEOUT => 504,
            _ => 502,
        }
    }
}

/// A response whose head has arrived.
pub struct Reply {
    pub head: Head,
    pub conn: UpstreamConn,
    pub decoder: Decoder,
    /// Bytes that arrived after the head.
    pub rest: Vec<u8>,
    /// The unsent part of the request.
    pub out: Outgoing,
}

/// The outcome of an attempt.
pub enum Tried {
    Answer(Box<Reply>),
    Failed(Failure),
    /// The client side ended the request.
    Flow(Flow),
}

/// A failure of this side, for which the server is not to blame.
pub(super) fn own_failure(message: String) -> Failure {
    Failure {
        kind: 0,
        message,
        sent: false,
        stale: false,
    }
}

/// The key for reuse of a connection. `group`: the index of a group that keeps idle connections.
pub(super) fn pool_key(
    ex: &Exchange,
    group: Option<usize>,
    scheme: &'static str,
    conf: &Arc<UpConf>,
    chosen: &Chosen,
    tls: Option<&TlsNames>,
) -> PoolKey {
    let bind = conf.bind.as_ref().and_then(|b| b.addr.as_ref());
    let local = chosen.group.conf.keepalive_local;
    PoolKey {
        group,
        scheme,
        peer: chosen.name().clone(),
        bind: bind.map_or(Vec::new(), |t| template::eval(ex, t)),
        location: local.then_some(Arc::as_ptr(&ex.loc) as usize),
        tls: tls.map(|tls| {
            Box::new(TlsKey {
                conf: Arc::as_ptr(conf) as usize,
                name: tls.name.clone(),
                certificate: tls.certificate.clone(),
            })
        }),
    }
}

/// Try one server.
pub async fn one(
    ex: &mut Exchange,
    plan: &Plan<'_>,
    chosen: &Chosen,
    started: Option<Started>,
) -> Tried {
    if let Some(started) = started {
        if let Some(a) = ex.attempts.last_mut() {
            a.connect_ms = Some(0);
        }
        return go_on(ex, plan, started).await;
    }
    let started = now_ms();
    let tls = match plan.tls {
        false => None,
        true => match tls_names(ex, &plan.conf, &plan.default_name) {
            Some(names) => Some(names),
            None => {
                let message = "the certificate for upstream cannot be read";
                return Tried::Failed(own_failure(message.into()));
            }
        },
    };
    let key = pool_key(
        ex,
        plan.index,
        plan.pool_scheme(),
        &plan.conf,
        chosen,
        tls.as_ref(),
    );
    let pooled = plan.index.and_then(|_| ex.worker.pool.take(&key));
    let conn = match pooled {
        Some(conn) => conn,
        None => match Box::pin(open(ex, plan, chosen, key, tls)).await {
            Ok(conn) => conn,
            Err(failure) => return Tried::Failed(failure),
        },
    };
    if let Some(a) = ex.attempts.last_mut() {
        a.connect_ms = Some(now_ms() - started);
    }
    exchange(ex, plan, conn).await
}

/// Open a connection to a server.
pub(super) async fn open(
    ex: &Exchange,
    plan: &Plan<'_>,
    chosen: &Chosen,
    key: PoolKey,
    tls: Option<TlsNames>,
) -> Result<UpstreamConn, Failure> {
    let sock = connect_to(ex, &plan.conf, chosen).await?;
    let stream: Box<dyn super::keepalive::Stream> = match tls {
        Some(tls) => handshake(&ex.worker, &plan.conf, sock, tls).await?,
        None => Box::new(sock),
    };
    Ok(UpstreamConn {
        stream,
        key,
        requests: 0,
        opened: now_ms(),
        reused: false,
        http2: None,
    })
}

/// A failure before anything was sent.
fn unsent(kind: u32, message: String) -> Failure {
    Failure {
        kind,
        message,
        sent: false,
        stale: false,
    }
}

fn not_connected(e: &io::Error) -> Failure {
    let message = format!(
        "connect() failed ({}) while connecting to upstream",
        os_error(e)
    );
    unsent(next::ERROR, message)
}

fn destination(chosen: &Chosen) -> ConnectTo {
    match &chosen.peer().addr {
        PeerAddr::Inet(a) => ConnectTo::Inet(*a),
        PeerAddr::Unix(p) => ConnectTo::Unix(p.clone()),
    }
}

/// The value of `proxy_bind`.
fn local_address<S: Scope + ?Sized>(scope: &S, conf: &UpConf) -> Option<SocketAddr> {
    let addr = conf.bind.as_ref()?.addr.as_ref()?;
    let text = String::from_utf8_lossy(&template::eval(scope, addr)).into_owned();
    let alone = || text.parse().ok().map(|ip| SocketAddr::new(ip, 0));
    text.parse().ok().or_else(alone)
}

/// A datagram socket for a server.
pub(crate) fn datagrams_to<S: Scope + ?Sized>(
    scope: &S,
    conf: &UpConf,
    chosen: &Chosen,
) -> Result<DatagramSock, Failure> {
    let connected = DatagramSock::connect(&destination(chosen), local_address(scope, conf));
    connected.map_err(|e| match e.raw_os_error() {
        // Clients that use up this process's descriptors must not make servers count as failed.
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => own_failure(format!(
            "socket() failed ({}) while connecting to upstream",
            os_error(&e)
        )),
        _ => not_connected(&e),
    })
}

/// Connect to a server without TLS.
pub(crate) async fn connect_to<S: Scope + ?Sized>(
    scope: &S,
    conf: &UpConf,
    chosen: &Chosen,
) -> Result<Sock, Failure> {
    let (to, bind) = (destination(chosen), local_address(scope, conf));
    match timeout(conf.connect_ms(), connect(&to, bind)).await {
        Ok(Ok(sock)) => Ok(sock),
        Ok(Err(e)) => Err(not_connected(&e)),
        Err(_) => {
            let message =
                "upstream timed out (110: Connection timed out) while connecting to upstream";
            Err(unsent(next::TIMEOUT, message.into()))
        }
    }
}

/// Complete a TLS handshake with a server.
pub(crate) async fn handshake(
    worker: &Worker,
    conf: &UpConf,
    sock: Sock,
    tls: TlsNames,
) -> Result<Box<dyn super::keepalive::Stream>, Failure> {
    let Some(connector) = worker.connector.borrow().clone() else {
        let message = "TLS to upstreams is not offered by this build";
        return Err(unsent(next::ERROR, message.into()));
    };
    let request = TlsRequest {
        conf,
        name: &tls.name,
        certificate: tls.certificate,
        protocols: tls.protocols,
    };
    match timeout(conf.connect_ms(), connector.connect(sock, &request)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(e)) if e.kind() == io::ErrorKind::InvalidInput => Err(unsent(0, e.to_string())),
        Ok(Err(e)) => Err(unsent(
            next::ERROR,
            format!("SSL_do_handshake() failed ({e}) while SSL handshaking to upstream"),
        )),
        Err(_) => {
            let message =
                "upstream timed out (110: Connection timed out) while SSL handshaking to upstream";
            Err(unsent(next::TIMEOUT, message.into()))
        }
    }
}

/// Bytes read at a time until the response head is complete.
const HEAD_STEP: usize = 16 * 1024;

/// An event while sending and receiving.
enum Event {
    Received,
    Closed,
    Broken(io::Error),
    TimedOut(&'static str),
    Flow(Flow),
}

/// Send the request and read until the response head is complete.
pub(super) async fn exchange(ex: &mut Exchange, plan: &Plan<'_>, mut conn: UpstreamConn) -> Tried {
    conn.requests += 1;
    if plan.is_http2() {
        conn.http2.get_or_insert_with(Default::default);
    }
    let out = match Outgoing::new(ex, plan, &conn) {
        Ok(out) => out,
        Err(failure) => return Tried::Failed(failure),
    };
    let doing = Doing {
        conn,
        out,
        input: buffers::take(),
        last: None,
        left: None,
    };
    head_of(ex, plan, doing).await
}

/// Continue with a request that was sent as far as the socket accepted it.
async fn go_on(ex: &mut Exchange, plan: &Plan<'_>, started: Started) -> Tried {
    let mut input = Vec::new();
    let last = match started.last {
        None => None,
        Some(Came::Bytes(bytes)) => {
            input = bytes;
            Some(Event::Received)
        }
        Some(Came::End) => Some(Event::Closed),
        Some(Came::Error(e)) => Some(Event::Broken(e)),
    };
    let doing = Doing {
        conn: started.conn,
        out: Outgoing::rest(started.unsent, started.sent),
        input,
        last,
        left: Some(started.left),
    };
    head_of(ex, plan, doing).await
}

/// A request under way.
struct Doing {
    conn: UpstreamConn,
    out: Outgoing,
    input: Vec<u8>,
    /// An event that was not handled yet.
    last: Option<Event>,
    /// Milliseconds for the next step, if not the usual number.
    left: Option<u64>,
}

async fn head_of(ex: &mut Exchange, plan: &Plan<'_>, doing: Doing) -> Tried {
    let Doing {
        conn,
        mut out,
        mut input,
        mut last,
        mut left,
    } = doing;
    let mut decoder = Decoder::new(plan, &conn);
    let idle = deadline();
    let limit = plan.conf.head_size();
    // Bytes received in total, and bytes of the input that were already parsed.
    let (mut got, mut seen) = (0u64, 0);
    // The bytes of interim responses.
    let mut hinted = 0;
    loop {
        let event = match last.take() {
            Some(event) => event,
            None => {
                let usual = match out.is_done() {
                    true => plan.conf.read_ms(),
                    false => plan.conf.send_ms(),
                };
                idle.set(left.take().unwrap_or(usual));
                step(ex, plan, &conn, &mut out, &mut input, &idle).await
            }
        };
        match event {
            Event::Received => {}
            Event::Flow(flow) => return Tried::Flow(flow),
            Event::Closed => {
                let message =
                    "upstream prematurely closed connection while reading response header from upstream";
                let stale = conn.reused && got == 0;
                return failed(next::ERROR, message.into(), stale);
            }
            Event::Broken(e) => {
                let what = if out.is_done() {
                    "recv() failed"
                } else {
                    "writev() failed"
                };
                let doing = if out.is_done() {
                    "reading response header from upstream"
                } else {
                    "sending request to upstream"
                };
                let stale = conn.reused && got == 0;
                return failed(
                    next::ERROR,
                    format!("{what} ({}) while {doing}", os_error(&e)),
                    stale,
                );
            }
            Event::TimedOut(doing) => {
                let message =
                    format!("upstream timed out (110: Connection timed out) while {doing}");
                return failed(next::TIMEOUT, message, false);
            }
        }
        got += (input.len() - seen) as u64;
        if let Some(a) = ex.attempts.last() {
            a.times.received.set(got);
            a.times.sent.set(out.total);
        }
        let mut before = input.len();
        let mut parsed = decoder.head(&mut input, limit);
        // The final response follows an interim one, often at once.
        while let Some(hints) = interim(&mut parsed) {
            hinted += before - input.len();
            // Without a limit, a server could send interim responses forever.
            if hinted <= limit {
                pass_hints(ex, plan, &hints).await;
            }
            before = input.len();
            parsed = decoder.head(&mut input, limit);
        }
        if let Some(text) = caught(plan, &decoder) {
            log_stderr(ex, &mut decoder);
            let message =
                format!("FastCGI sent \"{text}\" in stderr, as fastcgi_catch_stderr forbids");
            return failed(next::INVALID_HEADER, message, false);
        }
        match parsed {
            Ok(None) => {}
            Ok(Some(head)) => {
                log_stderr(ex, &mut decoder);
                decoder.start_body(&head, plan.asks_head(ex));
                return Tried::Answer(Box::new(Reply {
                    head,
                    conn,
                    decoder,
                    rest: input,
                    out,
                }));
            }
            Err(message) => {
                log_stderr(ex, &mut decoder);
                return failed(next::INVALID_HEADER, message, false);
            }
        }
        log_stderr(ex, &mut decoder);
        seen = input.len();
    }
}

/// Take the head of an interim response from the parsed result.
fn interim(parsed: &mut Result<Option<Head>, String>) -> Option<Head> {
    let is_interim = |head: &&Head| (100..200).contains(&head.status) && head.status != 101;
    match parsed {
        Ok(head) if head.as_ref().filter(is_interim).is_some() => head.take(),
        _ => None,
    }
}

/// Pass on `103 Early Hints` if `early_hints` allows it.
async fn pass_hints(ex: &Exchange, plan: &Plan<'_>, head: &Head) {
    let Some(interim) = ex.interim.as_ref().filter(|_| head.status == 103) else {
        return;
    };
    let conf = &ex.loc.conf;
    let wanted = items(&conf.early_hints).iter().any(|value| {
        let value = template::eval(ex, value);
        !value.is_empty() && value != b"0"
    });
    if ex.is_subrequest() || !wanted {
        return;
    }
    let fields: Vec<_> = head
        .fields
        .iter()
        .filter(|(name, _)| answer::is_passed(&plan.conf, name, false, plan.giver()))
        .cloned()
        .collect();
    if let Err(e) = interim.early_hints(&fields).await {
        // The final response will fail in the same way.
        ex.log(
            Level::Info,
            &format!("{e} while sending early hints to client"),
        );
    }
}

/// The first text of `fastcgi_catch_stderr` that the application wrote.
fn caught(plan: &Plan<'_>, decoder: &Decoder) -> Option<String> {
    let wanted = plan.conf.catch_stderr.as_ref()?;
    let text = decoder.stderr();
    wanted
        .iter()
        .find(|w| memchr::memmem::find(text, w.as_bytes()).is_some())
        .cloned()
}

/// Log the application's standard error.
pub fn log_stderr(ex: &Exchange, decoder: &mut Decoder) {
    if let Some(text) = decoder.take_stderr() {
        let text = String::from_utf8_lossy(text.trim_ascii_end()).into_owned();
        ex.log(
            Level::Error,
            &format!(
                "FastCGI sent in stderr: \"{text}\" while reading response header from upstream"
            ),
        );
    }
}

fn failed(kind: u32, message: String, stale: bool) -> Tried {
    Tried::Failed(Failure {
        kind,
        message,
        sent: true,
        stale,
    })
}

/// Send and read as much as possible; ready after bytes were read or an error occurred.
async fn step(
    ex: &mut Exchange,
    plan: &Plan<'_>,
    conn: &UpstreamConn,
    out: &mut Outgoing,
    input: &mut Vec<u8>,
    idle: &Deadline,
) -> Event {
    let (send_ms, read_ms) = (plan.conf.send_ms(), plan.conf.read_ms());
    let mut broken: Option<io::Error> = None;
    poll_fn(|cx| {
        if broken.is_none() {
            let mut progress = false;
            let wrote = out.poll_write(&*conn.stream, ex, cx, &mut progress);
            if progress {
                idle.set(if out.is_done() { read_ms } else { send_ms });
            }
            match wrote {
                // The server is not responsible for a slow client.
                Ok(Wait::Client) => {
                    idle.set(ex.loc.conf.client_body_timeout.unwrap_or(60_000));
                }
                Ok(Wait::Nothing | Wait::Server) => {}
                // The response may have arrived before the server closed the connection.
                Err(Stop::Broken(e)) => broken = Some(e),
                Err(Stop::Flow(flow)) => return Poll::Ready(Event::Flow(flow)),
            }
        }
        if let Poll::Ready(Err(e)) = conn.stream.poll_flush(cx) {
            broken = Some(e);
        }
        match conn.stream.poll_read_more(cx, input, HEAD_STEP) {
            Poll::Ready(Ok(0)) => {
                return Poll::Ready(broken.take().map_or(Event::Closed, Event::Broken))
            }
            Poll::Ready(Ok(_)) => return Poll::Ready(Event::Received),
            Poll::Ready(Err(e)) => return Poll::Ready(Event::Broken(broken.take().unwrap_or(e))),
            Poll::Pending => {}
        }
        if let Some(e) = broken.take() {
            return Poll::Ready(Event::Broken(e));
        }
        let doing = if out.is_done() {
            "reading response header from upstream"
        } else {
            "sending request to upstream"
        };
        idle.poll_over(cx).map(|()| Event::TimedOut(doing))
    })
    .await
}
