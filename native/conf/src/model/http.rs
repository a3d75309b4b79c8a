//! Server blocks and their listeners.

use super::{
    inherited, CacheZone, CertificateCache, CharsetMap, LimitZone, Location, StreamServer, Upstream,
};
use crate::error::Place;
use crate::names::{NameTable, ServerName, VirtualHosts};
use crate::template::Template;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub struct Http {
    pub servers: Vec<Arc<Server>>,
    pub listeners: Vec<Listener>,
    pub upstreams: Vec<Arc<Upstream>>,
    pub log_formats: Vec<LogFormat>,
    pub limit_req_zones: Vec<LimitZone>,
    pub limit_conn_zones: Vec<LimitZone>,
    pub charset_maps: Vec<Arc<CharsetMap>>,
    pub cache_zones: Vec<CacheZone>,
    /// The names of status zones.
    pub status_zones: Vec<String>,
    /// Whether a directive shows counters.
    pub is_metered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    Default,
    Json,
    None,
}

#[derive(Clone, Debug)]
pub struct LogFormat {
    pub name: String,
    pub escape: Escape,
    pub template: Template,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddr {
    Inet(SocketAddr),
    Unix(PathBuf),
}

impl std::fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ListenAddr::Inet(a) => a.fmt(f),
            ListenAddr::Unix(p) => write!(f, "unix:{}", p.display()),
        }
    }
}

/// `so_keepalive`: on or off, idle time and interval in seconds, and count.
pub type Keepalive = (bool, Option<u32>, Option<u32>, Option<u32>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    pub backlog: Option<i32>,
    pub rcvbuf: Option<u64>,
    pub sndbuf: Option<u64>,
    pub ipv6only: Option<bool>,
    pub reuseport: bool,
    pub deferred: bool,
    pub fastopen: Option<i32>,
    /// Inner `None`s mean the system's setting for idle time, interval (s), and count.
    pub keepalive: Option<Keepalive>,
    pub multipath: bool,
    pub bind: bool,
    /// The permissions of a Unix socket, if not every account may connect.
    pub mode: Option<u32>,
}

impl SocketOptions {
    /// Whether any option was given that only one `listen` of an address may have.
    pub fn is_set(&self) -> bool {
        *self != SocketOptions::default()
    }
}

/// A `listen` directive for one resolved address.
#[derive(Clone, Debug)]
pub struct Listen {
    pub addr: ListenAddr,
    pub default_server: bool,
    pub ssl: bool,
    pub http2: bool,
    pub quic: bool,
    /// `udp` of `stream`.
    pub udp: bool,
    pub proxy_protocol: bool,
    pub socket: SocketOptions,
    pub place: Place,
}

/// A socket to bind, and the endpoints that it serves.
#[derive(Clone, Debug)]
pub struct Listener {
    pub addr: ListenAddr,
    /// Whether it is UDP, for HTTP/3.
    pub quic: bool,
    /// Whether it is UDP, for `stream`.
    pub udp: bool,
    /// Whether it serves `stream`.
    pub stream: bool,
    pub socket: SocketOptions,
    /// Addresses of the same port that this wildcard socket serves.
    pub specific: Vec<(IpAddr, Arc<Endpoint>)>,
    pub endpoint: Arc<Endpoint>,
}

impl Listener {
    /// Whether it receives datagrams.
    pub fn is_datagram(&self) -> bool {
        self.quic || self.udp
    }

    /// The endpoint for the address that a client connected to.
    pub fn endpoint_for(&self, local: Option<IpAddr>) -> &Arc<Endpoint> {
        let specific = self.specific.iter().find(|(ip, _)| Some(*ip) == local);
        specific.map_or(&self.endpoint, |(_, e)| e)
    }
}

/// The protocols and server blocks of an address.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub ssl: bool,
    pub http2: bool,
    pub quic: bool,
    /// `udp` of `stream`.
    pub udp: bool,
    pub proxy_protocol: bool,
    pub hosts: VirtualHosts,
}

#[derive(Debug)]
pub struct Server {
    /// The first `server_name`, for redirects and `$server_name`.
    pub name: String,
    /// All its names, for `valid_referers`.
    pub names: Arc<Vec<ServerName>>,
    /// A lookup table of the names, built when a request needs it.
    pub referers: OnceLock<NameTable<()>>,
    pub conf: SrvConf,
    /// The server level itself, used if no location matches; the locations are its children.
    pub root: Arc<Location>,
    /// The index in `Http::status_zones` for its requests; `None` for the server's own status
    /// pages.
    pub zone: Option<usize>,
    /// The part of a server block of `stream`.
    pub stream: Option<Box<StreamServer>>,
    pub place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyClient {
    Off,
    On,
    Optional,
    OptionalNoCa,
}

/// The certificates of a client's chain to check by OCSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ocsp {
    Off,
    /// Only the client's certificate.
    Leaf,
    On,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionCache {
    Off,
    None,
    /// Built-in and shared caches: the name and size of the shared one.
    Shared {
        builtin: bool,
        zone: Option<(String, u64)>,
    },
}

/// The supported commands of `ssl_conf_command`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SslCommand {
    Certificate(PathBuf),
    PrivateKey(PathBuf),
    Ciphers(String),
    /// The suites of TLS 1.3.
    Suites(String),
    /// The oldest or newest allowed version.
    Least(String),
    Most(String),
    Curves(String),
    Tickets(bool),
    ServerPreference(bool),
}

inherited! {
    /// The settings of a server block.
    pub struct SrvConf {
        client_header_timeout: u64,
        client_header_buffer_size: u64,
        large_client_header_buffers: (u64, u64),
        connection_pool_size: u64,
        request_pool_size: u64,
        ignore_invalid_headers: bool,
        merge_slashes: bool,
        underscores_in_headers: bool,
        max_headers: u64,
        allow_connect: bool,
        http2: bool,
        http2_max_concurrent_streams: u64,
        http2_body_preread_size: u64,
        http2_recv_buffer_size: u64,
        http3: bool,
        http3_hq: bool,
        http3_max_concurrent_streams: u64,
        http3_stream_buffer_size: u64,
        quic_retry: bool,
        quic_retry_above: u64,
        quic_gso: bool,
        /// The key material for address validation tokens and stateless resets.
        quic_host_key: Arc<[u8]>,
        quic_active_connection_id_limit: u64,
        quic_bpf: bool,
        ssl: bool,
        ssl_certificate: Arc<Vec<Template>>,
        ssl_certificate_key: Arc<Vec<Template>>,
        ssl_password_file: PathBuf,
        ssl_certificate_cache: Option<CertificateCache>,
        ssl_protocols: Arc<Vec<String>>,
        ssl_ciphers: String,
        ssl_ecdh_curve: String,
        ssl_dhparam: PathBuf,
        ssl_prefer_server_ciphers: bool,
        ssl_session_cache: SessionCache,
        ssl_session_tickets: bool,
        ssl_session_ticket_key: Arc<Vec<PathBuf>>,
        ssl_session_timeout: u64,
        ssl_buffer_size: u64,
        ssl_verify_client: VerifyClient,
        ssl_verify_depth: u64,
        ssl_client_certificate: PathBuf,
        ssl_trusted_certificate: PathBuf,
        ssl_crl: PathBuf,
        ssl_ocsp: Ocsp,
        ssl_ocsp_responder: String,
        ssl_ocsp_cache: Option<(String, u64)>,
        ssl_stapling: bool,
        ssl_stapling_file: PathBuf,
        ssl_stapling_responder: String,
        ssl_stapling_verify: bool,
        ssl_early_data: bool,
        acme_tls_challenges: PathBuf,
        ssl_reject_handshake: bool,
        ssl_certificate_compression: bool,
        ssl_conf_command: Arc<Vec<SslCommand>>,
    }
}

impl SrvConf {
    /// The buffers for a long request line or header: number and size in bytes.
    pub fn large_buffers(&self) -> (u64, u64) {
        self.large_client_header_buffers.unwrap_or((4, 8192))
    }
}
