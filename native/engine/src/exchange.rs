//! One request and its answer.

use crate::body::{Body, BodyError, NoBody, RequestBody};
use crate::conn::Conn;
use crate::escape::Shown;
use crate::upstream::answer::split_charset;
use crate::upstream::Attempt;
use crate::uri::ParsedUri;
use crate::worker::Worker;
use bytes::Bytes;
use gallop_conf::model::{ErrorLog, Level, Location, Server};
use gallop_conf::pattern::{Groups, Pattern};
use gallop_conf::vars::VarId;
use gallop_http::message::{Head, Version};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::poll_fn;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// What the handshake agreed on, for variables.
#[derive(Clone, Debug, Default)]
pub struct TlsInfo {
    pub protocol: String,
    pub cipher: String,
    /// What the client offered, joined by colons.
    pub ciphers: String,
    pub curve: String,
    /// The groups and the codes of the signatures that the client offered, joined by colons.
    pub curves: String,
    pub sigalgs: String,
    /// OpenSSL's names of the signatures, the server's and the client's; empty for none.
    pub sigalg: &'static str,
    pub client_sigalg: &'static str,
    pub alpn: String,
    pub server_name: String,
    pub session_reused: bool,
    pub session_id: String,
    /// What comes now may be a replay: the handshake is not over.
    pub early_data: Cell<bool>,
    /// `NONE`, `SUCCESS` or `FAILED:reason`.
    pub client_verify: String,
    /// DER of the client's certificate.
    pub client_certificate: Option<Vec<u8>>,
    /// Variables of the client's certificate by name, as `ssl_client_s_dn`.
    pub client_fields: Vec<(&'static str, Vec<u8>)>,
}

/// Fields of a message, name and value.
pub type Fields = [(Vec<u8>, Vec<u8>)];

/// Sends interim answers (RFC 9110, section 15.2) before the one that counts.
pub trait Interim {
    /// Sends `103 Early Hints` (RFC 8297) with these fields.
    fn early_hints<'a>(
        &'a self,
        fields: &'a Fields,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + 'a>>;
}

/// Addresses a PROXY protocol header told.
#[derive(Clone, Debug, Default)]
pub struct ProxyProtocol {
    pub source: Option<SocketAddr>,
    pub destination: Option<SocketAddr>,
    pub tlvs: Vec<(u8, Vec<u8>)>,
}

/// The answer, before the protocol encodes it.
#[derive(Default)]
pub struct Response {
    pub status: u16,
    /// An upstream's own reason phrase.
    pub reason: Option<Vec<u8>>,
    pub content_length: Option<u64>,
    pub content_type: Option<Vec<u8>>,
    pub charset: Option<Vec<u8>>,
    /// An upstream's `Content-Type` as it came, if it names a charset.
    pub typed: Option<Vec<u8>>,
    /// What `X-Accel-Charset` wants.
    pub override_charset: Option<Vec<u8>>,
    /// Seconds since 1970.
    pub last_modified: Option<i64>,
    /// That is an upstream's word, which goes out whatever the status is.
    pub is_dated: bool,
    pub etag: Option<Vec<u8>>,
    pub location: Option<Vec<u8>>,
    /// All other fields, in order.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub trailers: Vec<(Vec<u8>, Vec<u8>)>,
    /// An upstream's own `Server` and `Date`.
    pub server: Option<Vec<u8>>,
    pub date: Option<Vec<u8>>,
    pub body: Body,
    pub allow_ranges: bool,
    /// Of several ranges none is sent by itself.
    pub single_range: bool,
    /// Conditions of the request were for the upstream to judge.
    pub judged: bool,
    /// The body may be changed by filters (false for one that is encoded already).
    pub filterable: bool,
    pub gzip_vary: bool,
    /// After a 101: bytes flow both ways.
    pub upgrade: Option<Upgrade>,
    /// The body is a file as it is: the response may be prepared for later requests.
    pub is_plain_file: bool,
}

/// The upstream's side of a connection that was upgraded.
pub struct Upgrade {
    pub stream: Box<dyn crate::upstream::keepalive::Stream>,
    /// Bytes that came with the upstream's answer.
    pub early: Vec<u8>,
    /// Milliseconds without traffic before the connection is closed.
    pub timeout: u64,
}

impl Response {
    /// `Content-Type`, as it goes out.
    pub fn media_type(&self) -> Option<Cow<'_, [u8]>> {
        let kind = self.content_type.as_deref().filter(|k| !k.is_empty())?;
        let Some(charset) = self.charset.as_deref() else {
            return Some(Cow::Borrowed(kind));
        };
        let typed = self.typed.as_deref();
        let came = typed.filter(|t| split_charset(t) == (kind, Some(charset)));
        Some(match came {
            Some(came) => Cow::Borrowed(came),
            None => Cow::Owned([kind, b"; charset=", charset].concat()),
        })
    }

    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let named = |h: &&(Vec<u8>, Vec<u8>)| h.0.eq_ignore_ascii_case(name.as_bytes());
        self.headers.iter().find(named).map(|(_, v)| v.as_slice())
    }

    pub fn remove_header(&mut self, name: &str) {
        self.headers
            .retain(|(n, _)| !n.eq_ignore_ascii_case(name.as_bytes()));
    }

    pub fn add_header(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.headers.push((name.as_bytes().to_vec(), value.into()));
    }
}

/// The request's body once it was read.
#[derive(Clone)]
pub enum Received {
    Memory(Bytes),
    File {
        file: Arc<File>,
        len: u64,
        path: Option<PathBuf>,
    },
}

impl Received {
    pub fn len(&self) -> u64 {
        match self {
            Received::Memory(b) => b.len() as u64,
            Received::File { len, .. } => *len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `$limit_req_status` and `$limit_conn_status`.
#[derive(Clone, Copy, Default)]
pub struct Limited {
    pub requests: Option<&'static str>,
    pub connections: Option<&'static str>,
}

/// A user variable's value; `None` inside: not found.
pub type Value = Option<Rc<[u8]>>;

/// Released when the request ends, as a place in a limit.
pub type Guard = Box<dyn std::any::Any>;

pub struct Exchange {
    pub worker: Rc<Worker>,
    pub conn: Rc<Conn>,
    pub head: Head,
    pub server: Arc<Server>,
    pub loc: Arc<Location>,
    pub uri: ParsedUri,
    /// The URI was changed since it was received.
    pub uri_changed: bool,
    /// The validated name from `Host` or the target; lower case, without port.
    pub host: String,
    /// The port as sent in `Host`.
    pub host_port: Option<u16>,
    pub tls: bool,
    pub content_length: Option<u64>,
    pub chunked: bool,
    pub source: Box<dyn RequestBody>,
    /// The way of interim answers, to clients that understand them.
    pub interim: Option<Rc<dyn Interim>>,
    pub received: Option<Received>,
    /// The start of a body that is passed on as it comes.
    pub early_body: Bytes,
    pub response: Response,
    pub keepalive: bool,
    pub internal: bool,
    /// No rewrite has replaced the part of the URI that the location matched.
    pub location_valid: bool,
    /// The request's body is too large, and thrown away.
    pub refused_body: bool,
    /// `try_files` inside a regex location: the URI goes behind the alias.
    pub add_uri_to_alias: bool,
    pub realip_done: bool,
    /// What is known of the cache that keeps its answer.
    pub cached: Option<crate::upstream::Note>,
    /// Work begun for later requests; a connection is not closed before it is done.
    pub background: Vec<Rc<gallop_runtime::Notify>>,
    /// It fetches an answer for later requests alone.
    pub updating: Option<crate::cache::Updating>,
    /// A location on its way asks for more than host and path: its answer serves nobody else.
    pub varies: bool,
    /// What was found on the disk on its way.
    pub looks: Vec<crate::looks::Look>,
    /// `try_files` has replaced its arguments.
    pub args_fixed: bool,
    /// What its SSI commands share with those of its subrequests.
    pub ssi: Option<Rc<crate::filters::ssi::Shared>>,
    /// It is answered in slices.
    pub slices: RefCell<Option<crate::filters::slice::Shared>>,
    /// Of a subrequest: the charset of the answer that its body becomes a part of.
    pub main_charset: Option<Vec<u8>>,
    /// Its body becomes a variable of SSI: it can have no subrequests of its own.
    pub in_memory: bool,
    /// A check of `satisfy any` had refused it when another one failed.
    pub refused_before: Option<u16>,
    /// How SSI wants dates.
    pub time_format: Option<Rc<str>>,
    /// Two `if`s were entered of which only the first passes requests on.
    pub stranded: bool,
    /// Fields of an answer whose `X-Accel-Redirect` is followed.
    pub carried: Vec<(Vec<u8>, Vec<u8>)>,
    pub carried_type: Option<Vec<u8>>,
    pub error_page: bool,
    /// Parents of a subrequest.
    pub depth: u8,
    pub header_only: bool,
    pub redirects_left: u8,
    pub captures: RefCell<(Vec<u8>, Groups)>,
    /// Shared with subrequests, as in nginx.
    pub vars: Rc<RefCell<Vec<Option<Value>>>>,
    pub attempts: Vec<Attempt>,
    /// Its first attempt was begun before this came into being.
    pub begun_attempt: Option<Box<crate::upstream::Begun>>,
    pub guards: Vec<Guard>,
    /// Microseconds (monotonic) when the turn began that read it.
    pub begun: u64,
    /// Milliseconds: monotonic, and since 1970.
    pub started: u64,
    pub started_wall: u64,
    pub client: Option<IpAddr>,
    pub client_port: u16,
    pub remote_user: Option<Vec<u8>>,
    pub request_length: u64,
    /// The request had arrived before the answer to the one before was sent.
    pub pipelined: bool,
    /// Whole answer and its body, in bytes.
    pub bytes_sent: u64,
    pub body_sent: u64,
    pub limit_rate: Cell<Option<u64>>,
    /// What the limits said; shared with subrequests, as in nginx.
    pub limited: Rc<Cell<Limited>>,
    pub fastcgi_path_info: Option<Vec<u8>>,
    pub fastcgi_script_name: Option<Vec<u8>>,
    pub expect_continue: bool,
    /// Bytes before and after compression, of a body that gzip makes smaller.
    pub gzip_ratio: Option<Rc<Cell<(u64, u64)>>>,
    /// Copies of it go to a mirror.
    pub has_copies: bool,
    /// Its location's `proxy_pass` was reached.
    pub is_passed: bool,
    pub complete: bool,
    pub request_id: RefCell<Option<String>>,
    pub error_status: u16,
    pub lingering: bool,
    /// Set while the answer is fetched and nobody needs it once the client is gone.
    pub abortable: Rc<Cell<bool>>,
}

impl Exchange {
    pub fn new(worker: Rc<Worker>, conn: Rc<Conn>) -> Box<Exchange> {
        let server = conn.endpoint.hosts.default.clone();
        let vars = worker.shared.config.vars.len();
        Box::new(Exchange {
            loc: server.root.clone(),
            server,
            head: Head::default(),
            uri: ParsedUri::default(),
            uri_changed: false,
            host: String::new(),
            host_port: None,
            tls: conn.tls().is_some(),
            content_length: None,
            chunked: false,
            source: Box::new(NoBody),
            interim: None,
            received: None,
            early_body: Bytes::new(),
            response: Response::default(),
            keepalive: true,
            internal: false,
            location_valid: true,
            refused_body: false,
            add_uri_to_alias: false,
            realip_done: false,
            cached: None,
            updating: None,
            background: Vec::new(),
            varies: false,
            looks: Vec::new(),
            args_fixed: false,
            ssi: None,
            slices: RefCell::default(),
            main_charset: None,
            in_memory: false,
            refused_before: None,
            time_format: None,
            stranded: false,
            carried: Vec::new(),
            carried_type: None,
            error_page: false,
            depth: 0,
            header_only: false,
            redirects_left: 11,
            captures: RefCell::default(),
            vars: Rc::new(RefCell::new(vec![None; vars])),
            attempts: Vec::new(),
            begun_attempt: None,
            guards: Vec::new(),
            begun: gallop_runtime::coarse_us(),
            started: gallop_runtime::coarse_ms(),
            started_wall: gallop_runtime::unix_time(),
            client: conn.peer().map(|p| p.ip()),
            client_port: conn.peer().map_or(0, |p| p.port()),
            remote_user: None,
            request_length: 0,
            pipelined: false,
            bytes_sent: 0,
            body_sent: 0,
            limit_rate: Cell::new(None),
            limited: Rc::default(),
            fastcgi_path_info: None,
            fastcgi_script_name: None,
            expect_continue: false,
            gzip_ratio: None,
            has_copies: false,
            is_passed: false,
            complete: false,
            request_id: RefCell::new(None),
            error_status: 0,
            lingering: false,
            abortable: Rc::default(),
            worker,
            conn,
        })
    }

    /// Makes a used exchange ready for the connection's next request, keeping its buffers.
    pub fn reset(&mut self) {
        let mut fresh = Exchange::new(self.worker.clone(), self.conn.clone());
        std::mem::swap(&mut fresh.head, &mut self.head);
        std::mem::swap(&mut fresh.uri, &mut self.uri);
        fresh.head.clear();
        *self = *fresh;
    }

    /// Its first attempt was begun by the quick way.
    pub fn take_over(&mut self, mut begun: Box<crate::upstream::Begun>) {
        self.request_id = begun.request_id.take().into();
        self.begun_attempt = Some(begun);
    }

    pub fn method(&self) -> &[u8] {
        self.head.method()
    }

    pub fn is_subrequest(&self) -> bool {
        self.depth > 0
    }

    pub fn version(&self) -> Version {
        self.head.version
    }

    /// The target as received, from its path on (`$request_uri`).
    pub fn unparsed_uri(&self) -> &[u8] {
        match self.head.text(self.head.path) {
            b"" if !self.head.target.is_empty() => b"/",
            text => text,
        }
    }

    /// Writes to the error log, with the request it concerns.
    pub fn log(&self, level: Level, message: &str) {
        let logs = self.error_logs();
        let everything = self.is_debugged();
        if !everything && !logs.iter().any(|l| level <= l.level) {
            return;
        }
        let mut line = format!("*{} {message}", self.conn.id);
        self.describe(&mut line);
        if everything {
            crate::log::error_to_all(logs, level, &line);
        } else {
            crate::log::error_to(logs, level, &line);
        }
    }

    /// Logs a step of the request's way, for those who look for a fault in the configuration.
    pub fn debug(&self, step: impl FnOnce() -> String) {
        if self.is_debugged() || self.error_logs().iter().any(|l| l.level == Level::Debug) {
            self.log(Level::Debug, &step());
        }
    }

    fn error_logs(&self) -> &[ErrorLog] {
        match &self.loc.conf.error_log {
            Some(own) => own,
            None => &self.worker.shared.error_log,
        }
    }

    /// Whether `debug_connection` names the client.
    fn is_debugged(&self) -> bool {
        let clients = &self.worker.shared.config.main.debug_connection;
        let client = || self.conn.peer().map(|peer| peer.ip());
        !clients.is_empty() && clients.iter().any(|net| net.contains(client()))
    }

    fn describe(&self, line: &mut String) {
        use std::fmt::Write;
        let client = self.client.map_or("unix:".to_string(), |ip| ip.to_string());
        // Writing into a string cannot fail.
        let _ = write!(line, ", client: {client}, server: {}", self.server.name);
        let request = self.head.text(self.head.line);
        if !request.is_empty() {
            let _ = write!(line, ", request: \"{}\"", Shown(request));
        }
        if let Some(attempt) = self.attempts.last() {
            let _ = write!(line, ", upstream: \"{}\"", Shown(attempt.url().as_bytes()));
        }
        if let Some(host) = self.head.get("host") {
            let _ = write!(line, ", host: \"{}\"", Shown(host));
        }
        if let Some(referer) = self.head.get("referer") {
            let _ = write!(line, ", referrer: \"{}\"", Shown(referer));
        }
    }

    /// Logs that a rewrite replaced the part of the URI that the location's alias stands for.
    pub(crate) fn log_lost_alias(&self) {
        let message = format!(
            "\"alias\" cannot be used in location \"{}\" where URI was rewritten",
            self.loc.name
        );
        self.log(Level::Alert, &message);
    }

    /// Sets a variable that the configuration assigns.
    pub fn assign(&self, var: VarId, value: &[u8]) {
        self.vars.borrow_mut()[var.0 as usize] = Some(Some(value.into()));
    }

    /// Remembers what an expression matched, for `$1` and for named groups.
    pub fn set_captures(&self, subject: &[u8], groups: Groups, pattern: &Pattern) {
        for (group, var) in pattern.named() {
            let found = groups.get(*group).copied().flatten();
            let value = found.map(|(a, z)| Rc::from(&subject[a..z]));
            self.vars.borrow_mut()[var.0 as usize] = Some(value);
        }
        if pattern.has_groups() {
            *self.captures.borrow_mut() = (subject.to_vec(), groups);
        } else {
            let all = groups.first().copied().flatten();
            *self.captures.borrow_mut() = (subject.to_vec(), vec![all]);
        }
    }

    /// A regular expression of the rewrite module did not match: `$1` and the like are empty.
    pub fn forget_captures(&self) {
        self.captures.borrow_mut().1.clear();
    }

    pub async fn next_body(&mut self) -> Result<Option<Bytes>, BodyError> {
        poll_fn(|cx| self.poll_body(cx)).await
    }

    /// As the body's own `poll_data`; what is read counts as part of the request.
    pub fn poll_body(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<Option<Bytes>, BodyError>> {
        let before = self.source.consumed();
        let polled = self.source.poll_data(cx);
        self.request_length += self.source.consumed() - before;
        polled
    }
}
