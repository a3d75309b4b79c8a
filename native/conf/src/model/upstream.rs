//! Upstream groups, and the way responses are fetched from them.

use super::{inherited, CacheUse, CacheValid, HealthCheck, List, ResolverConf, SslCommand, Sticky};
use crate::error::Place;
use crate::pattern::Pattern;
use crate::template::Template;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerAddr {
    Inet(SocketAddr),
    Unix(PathBuf),
}

impl std::fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PeerAddr::Inet(a) => a.fmt(f),
            PeerAddr::Unix(p) => write!(f, "unix:{}", p.display()),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Peer {
    /// The name as written in the configuration.
    pub name: String,
    pub addr: PeerAddr,
    pub weight: u32,
    pub max_fails: u32,
    /// Milliseconds.
    pub fail_timeout: u64,
    /// The milliseconds in which a server that recovered gets its whole weight back.
    pub slow_start: u64,
    pub max_conns: u32,
    pub backup: bool,
    pub down: bool,
    /// `drain`: only requests that are bound to the server get there.
    pub draining: bool,
    /// `route`: the name of the server for `sticky`.
    pub route: Option<String>,
    /// `resolve`: the name to resolve periodically.
    pub resolve: Option<PeerName>,
}

impl Peer {
    /// A server with the defaults of the parameters of `server`.
    pub fn new(name: String, addr: PeerAddr) -> Peer {
        Peer {
            name,
            addr,
            weight: 1,
            max_fails: 1,
            fail_timeout: 10_000,
            slow_start: 0,
            max_conns: 0,
            backup: false,
            down: false,
            draining: false,
            route: None,
            resolve: None,
        }
    }
}

/// A name that servers of a group are resolved from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerName {
    pub host: String,
    /// The port, unless SRV records tell it.
    pub port: u16,
    /// `service`: the name whose SRV records tell hosts and ports.
    pub service: Option<String>,
}

impl PeerName {
    /// The name of the SRV records (RFC 2782) of a service.
    pub fn records(&self, service: &str) -> String {
        match service.contains('.') {
            true => format!("{service}.{}", self.host),
            false => format!("_{service}._tcp.{}", self.host),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Balance {
    RoundRobin,
    LeastConn,
    LeastTime(LeastTime),
    IpHash,
    Hash { key: Template, consistent: bool },
    Random { two: bool, least_conn: bool },
}

/// `least_time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastTime {
    pub until: Until,
    /// Whether requests that wait for this moment count, too.
    pub inflight: bool,
}

/// The end of the time that `least_time` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The connection is open; only in `stream`.
    Connected,
    /// The head of the response has come, or in `stream` its first byte.
    FirstByte,
    LastByte,
}

#[derive(Clone, Debug)]
pub struct Upstream {
    pub name: String,
    /// The port of an implicit group (`proxy_pass http://host:port`).
    pub port: Option<u16>,
    pub explicit: bool,
    /// Whether it is one of `stream`.
    pub in_stream: bool,
    pub peers: Vec<Peer>,
    /// Servers whose names are resolved periodically (`resolve`); each stands for all addresses of
    /// its name.
    pub resolving: Vec<Peer>,
    /// The resolver for these names: the group's own, otherwise that of the http or stream block.
    pub resolver: Option<Arc<ResolverConf>>,
    /// Milliseconds.
    pub resolver_timeout: Option<u64>,
    pub balance: Balance,
    pub sticky: Option<Sticky>,
    /// The idle connections kept per thread; 0 disables the pool.
    pub keepalive: u64,
    /// Whether connections are kept per location.
    pub keepalive_local: bool,
    pub keepalive_requests: u64,
    /// Milliseconds.
    pub keepalive_timeout: u64,
    pub keepalive_time: u64,
    pub zone: Option<String>,
    /// The health checks of its servers.
    pub checks: Vec<Arc<HealthCheck>>,
    pub place: Option<Place>,
}

#[derive(Clone, Debug)]
pub enum Target {
    /// The index in `Http::upstreams`.
    Upstream(usize),
    /// The address is known only per request.
    Variable,
}

#[derive(Clone, Debug)]
pub struct ProxyPass {
    pub target: Target,
    /// The whole URL, if it contains variables.
    pub url: Option<Template>,
    pub https: bool,
    /// Replaces the location's prefix in the request URI; `None` passes the URI on as received.
    pub uri: Option<String>,
    /// The length of the location name that `uri` replaces.
    pub replaces: usize,
    /// `host[:port]` as written, for `$proxy_host`.
    pub host: String,
    /// The name of the enclosing location, for `proxy_redirect default`.
    pub location: String,
}

impl ProxyPass {
    /// The rule of `proxy_redirect default`; `None` for a URL with variables.
    pub fn default_redirect(&self) -> Option<RedirectRule> {
        let scheme = if self.https { "https" } else { "http" };
        let uri = self.uri.as_deref().unwrap_or("/");
        // Without a URI, the upstream got the location's name as part of the request.
        let to = self.uri.as_ref().map_or("/", |_| &self.location);
        self.url.is_none().then(|| RedirectRule::Default {
            from: format!("{scheme}://{}{uri}", self.host),
            to: to.to_owned(),
        })
    }
}

/// The protocols of upstreams that are no HTTP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppProtocol {
    Fastcgi,
    Uwsgi,
    Scgi,
    Memcached,
    Grpc,
}

impl AppProtocol {
    pub const ALL: [AppProtocol; 5] = [
        AppProtocol::Fastcgi,
        AppProtocol::Uwsgi,
        AppProtocol::Scgi,
        AppProtocol::Memcached,
        AppProtocol::Grpc,
    ];

    /// Whether locations have settings that no directive changes.
    pub fn has_fixed_settings(self) -> bool {
        matches!(self, AppProtocol::Memcached | AppProtocol::Grpc)
    }

    /// The prefix of the protocol's directives.
    pub fn name(self) -> &'static str {
        match self {
            AppProtocol::Fastcgi => "fastcgi",
            AppProtocol::Uwsgi => "uwsgi",
            AppProtocol::Scgi => "scgi",
            AppProtocol::Memcached => "memcached",
            AppProtocol::Grpc => "grpc",
        }
    }

    /// The default folder for temporary files, below the prefix; `None` if responses are not
    /// buffered.
    pub fn temp_folder(self) -> Option<&'static str> {
        match self {
            AppProtocol::Fastcgi => Some("fastcgi_temp"),
            AppProtocol::Uwsgi => Some("uwsgi_temp"),
            AppProtocol::Scgi => Some("scgi_temp"),
            AppProtocol::Memcached | AppProtocol::Grpc => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct AppPass {
    pub protocol: AppProtocol,
    pub target: Target,
    /// The address, if it contains variables.
    pub address: Option<Template>,
    pub tls: bool,
    /// The address without its scheme as written, if it has no variables.
    pub host: String,
    /// `$memcached_key`, for memcached.
    pub key: Option<Template>,
}

/// Bits of `proxy_next_upstream` and `proxy_cache_use_stale`.
pub mod next {
    pub const ERROR: u32 = 1;
    pub const TIMEOUT: u32 = 1 << 1;
    pub const INVALID_HEADER: u32 = 1 << 2;
    pub const HTTP_500: u32 = 1 << 3;
    pub const HTTP_502: u32 = 1 << 4;
    pub const HTTP_503: u32 = 1 << 5;
    pub const HTTP_504: u32 = 1 << 6;
    pub const HTTP_403: u32 = 1 << 7;
    pub const HTTP_404: u32 = 1 << 8;
    pub const HTTP_429: u32 = 1 << 9;
    pub const UPDATING: u32 = 1 << 10;
    pub const NON_IDEMPOTENT: u32 = 1 << 11;
    pub const OFF: u32 = 1 << 12;

    pub const NAMES: &[(&str, u32)] = &[
        ("error", ERROR),
        ("timeout", TIMEOUT),
        ("invalid_header", INVALID_HEADER),
        ("http_500", HTTP_500),
        ("http_502", HTTP_502),
        ("http_503", HTTP_503),
        ("http_504", HTTP_504),
        ("http_403", HTTP_403),
        ("http_404", HTTP_404),
        ("http_429", HTTP_429),
        ("updating", UPDATING),
        ("non_idempotent", NON_IDEMPOTENT),
        ("off", OFF),
    ];

    /// The parameters of `proxy_cache_use_stale`.
    pub const STALE_NAMES: &[(&str, u32)] = &[
        ("error", ERROR),
        ("timeout", TIMEOUT),
        ("invalid_header", INVALID_HEADER),
        ("updating", UPDATING),
        ("http_500", HTTP_500),
        ("http_502", HTTP_502),
        ("http_503", HTTP_503),
        ("http_504", HTTP_504),
        ("http_403", HTTP_403),
        ("http_404", HTTP_404),
        ("http_429", HTTP_429),
        ("off", OFF),
    ];

    /// The parameters of `grpc_next_upstream`.
    pub const GRPC_NAMES: &[(&str, u32)] = &[
        ("error", ERROR),
        ("timeout", TIMEOUT),
        ("invalid_header", INVALID_HEADER),
        ("non_idempotent", NON_IDEMPOTENT),
        ("http_500", HTTP_500),
        ("http_502", HTTP_502),
        ("http_503", HTTP_503),
        ("http_504", HTTP_504),
        ("http_403", HTTP_403),
        ("http_404", HTTP_404),
        ("http_429", HTTP_429),
        ("off", OFF),
    ];

    /// The parameters of `memcached_next_upstream`.
    pub const MEMCACHED_NAMES: &[(&str, u32)] = &[
        ("error", ERROR),
        ("timeout", TIMEOUT),
        ("invalid_response", INVALID_HEADER),
        ("not_found", HTTP_404),
        ("off", OFF),
    ];

    /// The bit of an upstream's status, if there is one.
    pub fn of_status(status: u16) -> u32 {
        match status {
            500 => HTTP_500,
            502 => HTTP_502,
            503 => HTTP_503,
            504 => HTTP_504,
            403 => HTTP_403,
            404 => HTTP_404,
            429 => HTTP_429,
            _ => 0,
        }
    }
}

#[derive(Clone, Debug)]
pub enum RedirectRule {
    /// The URL and location of a `proxy_pass`. Nested locations inherit the rule, so the response
    /// may come from another URL.
    Default {
        from: String,
        to: String,
    },
    Off,
    Prefix {
        from: Template,
        to: Template,
    },
    Regex {
        pattern: Pattern,
        to: Template,
    },
}

#[derive(Clone, Debug)]
pub struct CookieFlags {
    pub name: CookieName,
    pub flags: Vec<Template>,
}

#[derive(Clone, Debug)]
pub enum CookieName {
    Exact(Template),
    Regex(Pattern),
}

#[derive(Clone, Debug)]
pub struct Param {
    pub name: String,
    pub value: Template,
    pub if_not_empty: bool,
}

#[derive(Clone, Debug)]
pub struct BindAddr {
    /// `None` means off.
    pub addr: Option<Template>,
    pub transparent: bool,
}

/// `proxy_store`: the place where responses are saved as files.
#[derive(Clone, Debug)]
pub enum StorePlace {
    Off,
    /// The file path of the request's URI.
    On,
    Path(Template),
}

/// The cache of certificates whose paths contain variables.
#[derive(Clone, Debug)]
pub struct CertificateCache {
    pub max: u64,
    /// Milliseconds without use, and milliseconds since reading.
    pub inactive: u64,
    pub valid: u64,
}

inherited! {
    /// The common settings of all upstream modules, and the specific ones.
    pub struct UpConf {
        connect_timeout: u64,
        send_timeout: u64,
        read_timeout: u64,
        buffer_size: u64,
        buffers: (u64, u64),
        busy_buffers_size: u64,
        max_temp_file_size: u64,
        temp_file_write_size: u64,
        buffering: bool,
        request_buffering: bool,
        ignore_client_abort: bool,
        intercept_errors: bool,
        next_upstream: u32,
        next_upstream_tries: u64,
        next_upstream_timeout: u64,
        set_headers: Arc<Vec<Param>>,
        hide_headers: Arc<Vec<String>>,
        pass_headers: Arc<Vec<String>>,
        ignore_headers: Arc<Vec<String>>,
        pass_request_headers: bool,
        pass_request_body: bool,
        pass_trailers: bool,
        http_version: u64,
        method: Template,
        set_body: Template,
        redirect: Arc<Vec<RedirectRule>>,
        cookie_domain: Arc<Vec<RedirectRule>>,
        cookie_path: Arc<Vec<RedirectRule>>,
        cookie_flags: Arc<Vec<CookieFlags>>,
        bind: BindAddr,
        socket_keepalive: bool,
        limit_rate: Template,
        force_ranges: bool,
        temp_path: PathBuf,
        allow_upstream: Arc<Vec<String>>,
        ssl_name: Template,
        ssl_server_name: bool,
        ssl_verify: bool,
        ssl_verify_depth: u64,
        ssl_trusted_certificate: PathBuf,
        ssl_crl: PathBuf,
        ssl_certificate: Template,
        ssl_certificate_key: Template,
        ssl_password_file: PathBuf,
        ssl_session_reuse: bool,
        ssl_protocols: Arc<Vec<String>>,
        ssl_ciphers: String,
        ssl_certificate_cache: Option<CertificateCache>,
        ssl_conf_command: Arc<Vec<SslCommand>>,
        ssl_alpn: Arc<Vec<Template>>,
        cache: CacheUse,
        cache_key: Template,
        cache_bypass: Arc<Vec<Template>>,
        no_cache: Arc<Vec<Template>>,
        cache_purge: Arc<Vec<Template>>,
        cache_valid: Arc<Vec<CacheValid>>,
        cache_min_uses: u64,
        cache_max_range_offset: u64,
        cache_use_stale: u32,
        cache_methods: u32,
        cache_lock: bool,
        cache_lock_timeout: u64,
        cache_lock_age: u64,
        cache_revalidate: bool,
        cache_convert_head: bool,
        cache_background_update: bool,
        store: StorePlace,
        store_access: u32,
        index: String,
        split_path_info: Pattern,
        keep_conn: bool,
        catch_stderr: Arc<Vec<String>>,
        /// `fastcgi_param`, `uwsgi_param`, or `scgi_param`.
        params: Arc<Vec<Param>>,
        modifier1: u64,
        modifier2: u64,
        uwsgi_string: String,
        gzip_flag: u64,
    }
}

impl UpConf {
    pub fn hidden(&self) -> &[String] {
        super::items(&self.hide_headers)
    }

    /// The bits of `next_upstream`.
    pub fn next_servers(&self) -> u32 {
        self.next_upstream.unwrap_or(next::ERROR | next::TIMEOUT)
    }

    /// The most bytes of a response head.
    pub fn head_size(&self) -> usize {
        self.buffer_size.unwrap_or(4096) as usize
    }

    /// Milliseconds.
    pub fn connect_ms(&self) -> u64 {
        self.connect_timeout.unwrap_or(60_000)
    }

    pub fn send_ms(&self) -> u64 {
        self.send_timeout.unwrap_or(60_000)
    }

    pub fn read_ms(&self) -> u64 {
        self.read_timeout.unwrap_or(60_000)
    }
}

/// A list of parameters; the name is used where such lists are built.
pub type Params = List<Param>;
