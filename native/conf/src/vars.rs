//! The variables of a configuration, interned as small numbers.

use crate::error::{ConfError, Place, Result};
use hashbrown::HashMap;
use std::sync::Arc;

/// The index of a variable in [`VarTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VarId(pub u32);

/// Variables whose name contains an argument, such as `$http_host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    Http,
    SentHttp,
    SentTrailer,
    UpstreamHttp,
    UpstreamTrailer,
    UpstreamCookie,
    Arg,
    Cookie,
    ProxyProtocolTlv,
}

const PREFIXES: &[(&str, Prefix)] = &[
    ("sent_http_", Prefix::SentHttp),
    ("sent_trailer_", Prefix::SentTrailer),
    ("http_", Prefix::Http),
    ("upstream_http_", Prefix::UpstreamHttp),
    ("upstream_trailer_", Prefix::UpstreamTrailer),
    ("upstream_cookie_", Prefix::UpstreamCookie),
    ("arg_", Prefix::Arg),
    ("cookie_", Prefix::Cookie),
    ("proxy_protocol_tlv_", Prefix::ProxyProtocolTlv),
];

macro_rules! builtins {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// A built-in variable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Builtin { $($variant),* }

        impl Builtin {
            pub fn from_name(name: &str) -> Option<Builtin> {
                match name {
                    $($name => Some(Builtin::$variant),)*
                    _ => None,
                }
            }

            /// All built-in variables, for the documentation of directives.
            pub const ALL: &'static [(&'static str, Builtin)] = &[$(($name, Builtin::$variant)),*];
        }
    };
}

builtins! {
    Args = "args", BinaryRemoteAddr = "binary_remote_addr",
    BodyBytesSent = "body_bytes_sent", BytesSent = "bytes_sent", Connection = "connection",
    ConnectionRequests = "connection_requests", ConnectionTime = "connection_time",
    ConnectionsActive = "connections_active", ConnectionsReading = "connections_reading",
    ConnectionsWaiting = "connections_waiting", ConnectionsWriting = "connections_writing",
    ContentLength = "content_length", ContentType = "content_type",
    DateGmt = "date_gmt", DateLocal = "date_local",
    DocumentRoot = "document_root", DocumentUri = "document_uri",
    FastcgiScriptName = "fastcgi_script_name", FastcgiPathInfo = "fastcgi_path_info",
    GzipRatio = "gzip_ratio", Host = "host", Hostname = "hostname", Http2 = "http2", Http3 = "http3",
    InvalidReferer = "invalid_referer", IsArgs = "is_args", IsRequestPort = "is_request_port",
    LimitConnStatus = "limit_conn_status", LimitRate = "limit_rate", LimitReqStatus = "limit_req_status",
    Msec = "msec", NginxVersion = "nginx_version", Pid = "pid", Pipe = "pipe",
    ProxyAddXForwardedFor = "proxy_add_x_forwarded_for", ProxyHost = "proxy_host", ProxyPort = "proxy_port",
    ProxyInternalConnection = "proxy_internal_connection",
    ProxyProtocolAddr = "proxy_protocol_addr", ProxyProtocolPort = "proxy_protocol_port",
    ProxyProtocolServerAddr = "proxy_protocol_server_addr",
    ProxyProtocolServerPort = "proxy_protocol_server_port",
    QueryString = "query_string", RealpathRoot = "realpath_root",
    RealipRemoteAddr = "realip_remote_addr", RealipRemotePort = "realip_remote_port",
    RemoteAddr = "remote_addr", RemotePort = "remote_port", RemoteUser = "remote_user",
    Request = "request", RequestBody = "request_body", RequestBodyFile = "request_body_file",
    RequestCompletion = "request_completion", RequestFilename = "request_filename",
    RequestId = "request_id", RequestLength = "request_length", RequestMethod = "request_method",
    RequestPort = "request_port", RequestTime = "request_time", RequestUri = "request_uri",
    Scheme = "scheme", SecureLink = "secure_link", SecureLinkExpires = "secure_link_expires",
    SentHttpCacheControl = "sent_http_cache_control", SentHttpConnection = "sent_http_connection",
    SentHttpContentLength = "sent_http_content_length", SentHttpContentType = "sent_http_content_type",
    SentHttpKeepAlive = "sent_http_keep_alive", SentHttpLastModified = "sent_http_last_modified",
    SentHttpLink = "sent_http_link", SentHttpLocation = "sent_http_location",
    SentHttpTransferEncoding = "sent_http_transfer_encoding",
    ServerAddr = "server_addr", ServerName = "server_name", ServerPort = "server_port",
    ServerProtocol = "server_protocol", SliceRange = "slice_range",
    SslAlpnProtocol = "ssl_alpn_protocol", SslCipher = "ssl_cipher", SslCiphers = "ssl_ciphers",
    SslClientCert = "ssl_client_cert", SslClientEscapedCert = "ssl_client_escaped_cert",
    SslClientFingerprint = "ssl_client_fingerprint", SslClientIDn = "ssl_client_i_dn",
    SslClientIDnLegacy = "ssl_client_i_dn_legacy", SslClientRawCert = "ssl_client_raw_cert",
    SslClientSDn = "ssl_client_s_dn", SslClientSDnLegacy = "ssl_client_s_dn_legacy",
    SslClientSerial = "ssl_client_serial", SslClientVEnd = "ssl_client_v_end",
    SslClientVRemain = "ssl_client_v_remain", SslClientVStart = "ssl_client_v_start",
    SslClientVerify = "ssl_client_verify", SslCurve = "ssl_curve", SslCurves = "ssl_curves",
    SslEarlyData = "ssl_early_data", SslProtocol = "ssl_protocol", SslServerName = "ssl_server_name",
    SslSessionId = "ssl_session_id", SslSessionReused = "ssl_session_reused",
    SslEchStatus = "ssl_ech_status", SslEchOuterServerName = "ssl_ech_outer_server_name",
    SslSigalgs = "ssl_sigalgs", TcpinfoRtt = "tcpinfo_rtt", TcpinfoRttvar = "tcpinfo_rttvar",
    TcpinfoSndCwnd = "tcpinfo_snd_cwnd", TcpinfoRcvSpace = "tcpinfo_rcv_space",
    SslSigalg = "ssl_sigalg", SslClientSigalg = "ssl_client_sigalg",
    Status = "status", TimeIso8601 = "time_iso8601", TimeLocal = "time_local",
    UidGot = "uid_got", UidSet = "uid_set",
    UpstreamAddr = "upstream_addr", UpstreamBytesReceived = "upstream_bytes_received",
    UpstreamBytesSent = "upstream_bytes_sent", UpstreamCacheStatus = "upstream_cache_status",
    UpstreamCacheKey = "upstream_cache_key",
    UpstreamCacheLastModified = "upstream_cache_last_modified", UpstreamCacheEtag = "upstream_cache_etag", UpstreamConnectTime = "upstream_connect_time",
    UpstreamHeaderTime = "upstream_header_time", UpstreamLastServerName = "upstream_last_server_name",
    UpstreamResponseLength = "upstream_response_length",
    UpstreamResponseTime = "upstream_response_time", UpstreamStatus = "upstream_status", Uri = "uri",
    BytesReceived = "bytes_received", Protocol = "protocol", SessionTime = "session_time",
    SslPrereadAlpnProtocols = "ssl_preread_alpn_protocols", SslPrereadProtocol = "ssl_preread_protocol",
    SslPrereadServerName = "ssl_preread_server_name",
    UpstreamFirstByteTime = "upstream_first_byte_time", UpstreamSessionTime = "upstream_session_time",
    Https = "https", HttpXForwardedFor = "http_x_forwarded_for",
}

/// The source of a variable's value.
#[derive(Clone, Debug)]
pub enum VarKind {
    Undefined,
    Builtin(Builtin),
    /// The argument in its spelling as a variable: lower case, with `_` for `-`.
    Prefixed(Prefix, Box<str>),
    /// Set during a request (`set`, captures, `auth_request_set`).
    Assigned,
    Map(Arc<crate::model::Map>),
    Geo(Arc<crate::model::Geo>),
    Geoip2(Arc<crate::model::Geoip2>),
    SplitClients(Arc<crate::model::SplitClients>),
}

#[derive(Clone, Debug)]
pub struct Var {
    pub name: Box<str>,
    pub kind: VarKind,
}

/// All variables that a configuration names in `http`, or in `stream`.
#[derive(Clone, Debug, Default)]
pub struct VarTable {
    is_stream: bool,
    vars: Vec<Var>,
    index: HashMap<Box<str>, VarId>,
}

impl VarTable {
    /// The table of the variables of `stream`.
    pub fn of_stream() -> VarTable {
        VarTable {
            is_stream: true,
            ..VarTable::default()
        }
    }

    /// The number of `name`, which may be defined later.
    pub fn intern(&mut self, name: &str) -> VarId {
        let lower = name.to_ascii_lowercase();
        if let Some(&id) = self.index.get(lower.as_str()) {
            return id;
        }
        let id = VarId(self.vars.len() as u32);
        let kind = match self.is_stream {
            true => stream_kind(&lower),
            false => natural_kind(&lower),
        };
        self.vars.push(Var {
            name: lower.as_str().into(),
            kind,
        });
        self.index.insert(lower.into(), id);
        id
    }

    /// Declare that the configuration defines `name`.
    pub fn define(&mut self, name: &str, kind: VarKind, place: &Place) -> Result<VarId> {
        let id = self.intern(name);
        let var = &mut self.vars[id.0 as usize];
        match (&var.kind, &kind) {
            (VarKind::Builtin(b), VarKind::Assigned) if is_settable(*b) => {}
            (VarKind::Builtin(_), _) => {
                return Err(ConfError::at(
                    format!("the duplicate \"{name}\" variable"),
                    place,
                ));
            }
            // The request's own value applies until another is assigned.
            (VarKind::Prefixed(..), VarKind::Assigned) => {}
            (
                VarKind::Map(_) | VarKind::Geo(_) | VarKind::Geoip2(_) | VarKind::SplitClients(_),
                VarKind::Assigned,
            ) => {}
            _ => var.kind = kind,
        }
        Ok(id)
    }

    pub fn get(&self, id: VarId) -> &Var {
        &self.vars[id.0 as usize]
    }

    pub fn find(&self, name: &str) -> Option<VarId> {
        self.index.get(name).copied()
    }

    pub fn len(&self) -> usize {
        self.vars.len()
    }

    pub fn is_empty(&self) -> bool {
        self.vars.is_empty()
    }

    /// Reject variables that are never defined.
    pub fn check(&self) -> Result<()> {
        match self
            .vars
            .iter()
            .find(|v| matches!(v.kind, VarKind::Undefined))
        {
            Some(v) => Err(ConfError::new(format!("unknown \"{}\" variable", v.name))),
            None => Ok(()),
        }
    }
}

/// Whether `set` may overwrite a built-in variable.
fn is_settable(b: Builtin) -> bool {
    matches!(
        b,
        Builtin::Args | Builtin::LimitRate | Builtin::FastcgiPathInfo | Builtin::Host
    )
}

/// The meaning of a name before the configuration defines it.
pub fn natural_kind(name: &str) -> VarKind {
    if let Some(b) = Builtin::from_name(name).filter(|b| !is_stream_only(*b)) {
        return VarKind::Builtin(b);
    }
    // Without a value unless the configuration gives one.
    if name == "uid_reset" {
        return VarKind::Assigned;
    }
    for (prefix, kind) in PREFIXES {
        if let Some(rest) = name.strip_prefix(prefix) {
            return VarKind::Prefixed(*kind, rest.into());
        }
    }
    VarKind::Undefined
}

/// The built-in variables that only `stream` has.
fn is_stream_only(b: Builtin) -> bool {
    use Builtin as B;
    matches!(
        b,
        B::BytesReceived
            | B::Protocol
            | B::SessionTime
            | B::SslPrereadAlpnProtocols
            | B::SslPrereadProtocol
            | B::SslPrereadServerName
            | B::UpstreamFirstByteTime
            | B::UpstreamSessionTime
    )
}

/// The built-in variables that `http` and `stream` have.
fn is_common(b: Builtin, name: &str) -> bool {
    use Builtin as B;
    let of_tls = name.starts_with("ssl_") && b != B::SslEarlyData;
    let of_connection = matches!(
        b,
        B::BinaryRemoteAddr
            | B::BytesSent
            | B::Connection
            | B::Hostname
            | B::LimitConnStatus
            | B::Msec
            | B::NginxVersion
            | B::Pid
            | B::ProxyProtocolAddr
            | B::ProxyProtocolPort
            | B::ProxyProtocolServerAddr
            | B::ProxyProtocolServerPort
            | B::RealipRemoteAddr
            | B::RealipRemotePort
            | B::RemoteAddr
            | B::RemotePort
            | B::ServerAddr
            | B::ServerName
            | B::ServerPort
            | B::Status
            | B::TimeIso8601
            | B::TimeLocal
    );
    let of_upstream = matches!(
        b,
        B::UpstreamAddr | B::UpstreamBytesReceived | B::UpstreamBytesSent | B::UpstreamConnectTime
    );
    of_tls || of_connection || of_upstream
}

/// The meaning of a name in `stream` before the configuration defines it.
fn stream_kind(name: &str) -> VarKind {
    if let Some(b) = Builtin::from_name(name) {
        if is_stream_only(b) || is_common(b, name) {
            return VarKind::Builtin(b);
        }
    }
    match name.strip_prefix("proxy_protocol_tlv_") {
        Some(rest) => VarKind::Prefixed(Prefix::ProxyProtocolTlv, rest.into()),
        None => VarKind::Undefined,
    }
}
