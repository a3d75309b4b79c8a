//! A request and its response.

use crate::body::{Body, BodyError, NoBody, RequestBody};
use crate::conn::Conn;
use crate::escape::Shown;
use crate::scope::{self, Scope};
use crate::upstream::answer::split_charset;
use crate::upstream::Attempt;
use crate::uri::ParsedUri;
use crate::vars;
use crate::worker::Worker;
use bytes::Bytes;
use gallop_conf::model::{ErrorLog, Level, LocConf, Location, Server};
use gallop_conf::pattern::{Groups, Pattern};
use gallop_conf::vars::{Builtin, Prefix, VarId, VarTable};
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

/// The result of the TLS handshake, for variables.
#[derive(Clone, Debug, Default)]
pub struct TlsInfo {
    pub protocol: String,
    pub cipher: String,
    /// The ciphers that the client offered, joined by colons.
    pub ciphers: String,
    pub curve: String,
    /// The groups and signature codes that the client offered, joined by colons.
    pub curves: String,
    pub sigalgs: String,
    /// OpenSSL's names of the server's and the client's signature schemes; empty for none.
    pub sigalg: &'static str,
    pub client_sigalg: &'static str,
    pub alpn: String,
    pub server_name: String,
    pub session_reused: bool,
    pub session_id: String,
    /// Whether incoming data may be a replay because the handshake is incomplete.
    pub early_data: Cell<bool>,
    /// `NONE`, `SUCCESS` or `FAILED:reason`.
    pub client_verify: String,
    /// DER of the client's certificate.
    pub client_certificate: Option<Vec<u8>>,
    /// The variables about the client's certificate by name, such as `ssl_client_s_dn`.
    pub client_fields: Vec<(&'static str, Vec<u8>)>,
}

/// The header fields of a message: name and value.
pub type Fields = [(Vec<u8>, Vec<u8>)];

/// Sends interim responses (RFC 9110, section 15.2) before the final one.
pub trait Interim {
    /// Send `103 Early Hints` (RFC 8297) with these fields.
    fn early_hints<'a>(
        &'a self,
        fields: &'a Fields,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + 'a>>;
}

/// The addresses from a PROXY protocol header.
#[derive(Clone, Debug, Default)]
pub struct ProxyProtocol {
    pub source: Option<SocketAddr>,
    pub destination: Option<SocketAddr>,
    pub tlvs: Vec<(u8, Vec<u8>)>,
}

/// A response before the protocol encodes it.
#[derive(Default)]
pub struct Response {
    pub status: u16,
    /// The reason phrase of an upstream.
    pub reason: Option<Vec<u8>>,
    pub content_length: Option<u64>,
    pub content_type: Option<Vec<u8>>,
    pub charset: Option<Vec<u8>>,
    /// The upstream's original `Content-Type` if it names a charset.
    pub typed: Option<Vec<u8>>,
    /// The charset from `X-Accel-Charset`.
    pub override_charset: Option<Vec<u8>>,
    /// Seconds since 1970.
    pub last_modified: Option<i64>,
    /// Whether `last_modified` comes from an upstream; it is then sent with every status.
    pub is_dated: bool,
    pub etag: Option<Vec<u8>>,
    pub location: Option<Vec<u8>>,
    /// All other header fields in order.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub trailers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether an upstream may send trailers after a body of known length.
    pub may_have_trailers: bool,
    /// The upstream's `Server` and `Date`.
    pub server: Option<Vec<u8>>,
    pub date: Option<Vec<u8>>,
    pub body: Body,
    pub allow_ranges: bool,
    /// Whether a request for several ranges gets the whole body.
    pub single_range: bool,
    /// Whether the upstream evaluated the request's conditions.
    pub judged: bool,
    /// Whether filters may change the body (false for an encoded body).
    pub filterable: bool,
    pub gzip_vary: bool,
    /// After a 101 response: bytes are copied in both directions.
    pub upgrade: Option<Upgrade>,
    /// Whether the body is an unchanged file, so that the response may be prepared for later
    /// requests.
    pub is_plain_file: bool,
}

/// The upstream side of an upgraded connection.
pub struct Upgrade {
    pub stream: Box<dyn crate::upstream::keepalive::Stream>,
    /// Bytes that followed the upstream's response head.
    pub early: Vec<u8>,
    /// Milliseconds without traffic before the connection closes.
    pub timeout: u64,
}

impl Response {
    /// The final value of `Content-Type`.
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

/// The request body after it was read.
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

/// The value of a user variable; `None` inside means not found.
pub type Value = Option<Rc<[u8]>>;

/// A resource that is released when the request ends, such as a place in a limit.
pub type Guard = Box<dyn std::any::Any>;

pub struct Exchange {
    pub worker: Rc<Worker>,
    pub conn: Rc<Conn>,
    pub head: Head,
    pub server: Arc<Server>,
    pub loc: Arc<Location>,
    pub uri: ParsedUri,
    /// Whether the URI has changed since the request was received.
    pub uri_changed: bool,
    /// The validated name from `Host` or the target, in lower case and without port.
    pub host: String,
    /// The port in `Host`.
    pub host_port: Option<u16>,
    pub tls: bool,
    pub content_length: Option<u64>,
    pub chunked: bool,
    pub source: Box<dyn RequestBody>,
    /// Sends interim responses, if the client supports them.
    pub interim: Option<Rc<dyn Interim>>,
    pub received: Option<Received>,
    /// The first bytes of a body that is passed on unbuffered.
    pub early_body: Bytes,
    pub response: Response,
    pub keepalive: bool,
    pub internal: bool,
    /// Whether the URI still starts with the part that the location matched.
    pub location_valid: bool,
    /// Whether the request body was too large and discarded.
    pub refused_body: bool,
    /// Set by `try_files` inside a regex location: the URI is appended to the alias.
    pub add_uri_to_alias: bool,
    pub realip_done: bool,
    /// The state of the response's cache entry.
    pub cached: Option<crate::upstream::Note>,
    /// Work started for later requests; the connection stays open until it is done.
    pub background: Vec<Rc<gallop_runtime::Notify>>,
    /// Set if the request only fetches a response for later requests.
    pub updating: Option<crate::cache::Updating>,
    /// Whether a location on the way uses more than host and path, so that the response fits no
    /// other request.
    pub varies: bool,
    /// The files that were looked up on the way.
    pub looks: Vec<crate::looks::Look>,
    /// Whether `try_files` has replaced the arguments.
    pub args_fixed: bool,
    /// The state that SSI commands share with their subrequests.
    pub ssi: Option<Rc<crate::filters::ssi::Shared>>,
    /// Set if the response is fetched in slices.
    pub slices: RefCell<Option<crate::filters::slice::Shared>>,
    /// In a subrequest: the charset of the response that includes its body.
    pub main_charset: Option<Vec<u8>>,
    /// Whether the body becomes an SSI variable; such a request can have no subrequests.
    pub in_memory: bool,
    /// The status of an earlier refusal under `satisfy any`, when another check failed.
    pub refused_before: Option<u16>,
    /// The date format of SSI.
    pub time_format: Option<Rc<str>>,
    /// Whether two `if` blocks were entered of which only the first passes requests on.
    pub stranded: bool,
    /// Header fields of a response whose `X-Accel-Redirect` is followed.
    pub carried: Vec<(Vec<u8>, Vec<u8>)>,
    pub carried_type: Option<Vec<u8>>,
    /// The cookie that binds the client to an upstream server.
    pub sticky_cookie: Option<Vec<u8>>,
    pub error_page: bool,
    /// The number of parents of a subrequest.
    pub depth: u8,
    pub header_only: bool,
    pub redirects_left: u8,
    pub captures: RefCell<(Vec<u8>, Groups)>,
    /// Shared with subrequests, as in nginx.
    pub vars: Rc<RefCell<Vec<Option<Value>>>>,
    pub attempts: Vec<Attempt>,
    /// The first upstream attempt, if it began before the exchange was created.
    pub begun_attempt: Option<Box<crate::upstream::Begun>>,
    pub guards: Vec<Guard>,
    /// Start of the event loop round that read the request, in microseconds (monotonic clock).
    pub begun: u64,
    /// Start time in milliseconds: monotonic, and since 1970.
    pub started: u64,
    pub started_wall: u64,
    pub client: Option<IpAddr>,
    pub client_port: u16,
    pub remote_user: Option<Vec<u8>>,
    pub request_length: u64,
    /// Whether the request arrived before the previous response was sent.
    pub pipelined: bool,
    /// Bytes of the whole response and of its body.
    pub bytes_sent: u64,
    pub body_sent: u64,
    pub limit_rate: Cell<Option<u64>>,
    /// The results of the limits; shared with subrequests, as in nginx.
    pub limited: Rc<Cell<Limited>>,
    pub fastcgi_path_info: Option<Vec<u8>>,
    pub fastcgi_script_name: Option<Vec<u8>>,
    pub expect_continue: bool,
    /// Bytes before and after gzip.
    pub gzip_ratio: Option<Rc<Cell<(u64, u64)>>>,
    /// Whether copies of the body go to a mirror.
    pub has_copies: bool,
    /// Whether `proxy_pass` of its location was reached.
    pub is_passed: bool,
    pub complete: bool,
    pub request_id: RefCell<Option<String>>,
    /// The ids of userid, once they are needed.
    pub user_id: RefCell<Option<Box<crate::filters::userid::UserId>>>,
    pub error_status: u16,
    pub lingering: bool,
    /// Whether the work may stop when the client leaves, because nothing else needs the response.
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
            sticky_cookie: None,
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
            user_id: RefCell::new(None),
            error_status: 0,
            lingering: false,
            abortable: Rc::default(),
            worker,
            conn,
        })
    }

    /// Reset a used exchange for the next request of the connection. The buffers stay.
    pub fn reset(&mut self) {
        let mut fresh = Exchange::new(self.worker.clone(), self.conn.clone());
        std::mem::swap(&mut fresh.head, &mut self.head);
        std::mem::swap(&mut fresh.uri, &mut self.uri);
        fresh.head.clear();
        *self = *fresh;
    }

    /// Adopt the first upstream attempt, which began without a task.
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

    /// The request target as received, from its path on (`$request_uri`).
    pub fn unparsed_uri(&self) -> &[u8] {
        match self.head.text(self.head.path) {
            b"" if !self.head.target.is_empty() => b"/",
            text => text,
        }
    }

    /// Write to the error log, with a description of the request.
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

    /// Log a processing step at debug level.
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

    /// Whether `debug_connection` includes the client.
    fn is_debugged(&self) -> bool {
        let clients = &self.worker.shared.config.main.debug_connection;
        let client = || self.conn.peer().map(|peer| peer.ip());
        !clients.is_empty() && clients.iter().any(|net| net.contains(client()))
    }

    fn describe(&self, line: &mut String) {
        use std::fmt::Write;
        let client = self.client.map_or("unix:".to_string(), |ip| ip.to_string());
        // Writing to a string cannot fail.
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

    /// Log that a rewrite replaced the part of the URI that the location's alias stands for.
    pub(crate) fn log_lost_alias(&self) {
        let message = format!(
            "\"alias\" cannot be used in location \"{}\" where URI was rewritten",
            self.loc.name
        );
        self.log(Level::Alert, &message);
    }

    /// Set a variable that the configuration assigns.
    pub fn assign(&self, var: VarId, value: &[u8]) {
        self.vars.borrow_mut()[var.0 as usize] = Some(Some(value.into()));
    }

    /// Store the groups of a match for `$1` and named groups.
    pub fn set_captures(&self, subject: &[u8], groups: Groups, pattern: &Pattern) {
        scope::set_captures(self, subject, groups, pattern);
    }

    /// Clear `$1` and similar after a rewrite expression did not match.
    pub fn forget_captures(&self) {
        self.captures.borrow_mut().1.clear();
    }

    pub async fn next_body(&mut self) -> Result<Option<Bytes>, BodyError> {
        poll_fn(|cx| self.poll_body(cx)).await
    }

    /// Like the body's own `poll_data`, but also count the bytes as part of the request.
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

impl Scope for Exchange {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn settings(&self) -> &LocConf {
        &self.loc.conf
    }

    fn table(&self) -> &VarTable {
        &self.worker.shared.config.vars
    }

    fn values(&self) -> &RefCell<Vec<Option<Value>>> {
        &self.vars
    }

    fn captures(&self) -> &RefCell<(Vec<u8>, Groups)> {
        &self.captures
    }

    fn builtin(&self, variable: Builtin, out: &mut Vec<u8>) -> bool {
        vars::builtin::eval(self, variable, out)
    }

    fn prefixed(&self, prefix: Prefix, name: &str, out: &mut Vec<u8>) -> bool {
        vars::prefixed(self, prefix, name, out)
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }

    fn forwarded_for(&self) -> Vec<&[u8]> {
        self.head.get_all("x-forwarded-for").collect()
    }

    fn log(&self, level: Level, message: &str) {
        self.log(level, message);
    }
}
