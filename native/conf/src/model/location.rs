//! Locations and their settings.

use super::{
    inherited, AppPass, AppProtocol, CheckConf, ErrorLog, LogTarget, Op, ProxyPass, UpConf,
};
use crate::cidr::Cidr;
use crate::locations::LocTree;
use crate::pattern::Pattern;
use crate::template::Template;
use crate::vars::VarId;
use hashbrown::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum LocKind {
    /// The server block itself.
    Server,
    Prefix {
        no_regex: bool,
    },
    Exact,
    Regex(Pattern),
    Named,
    /// The settings of an `if` or `limit_except` block inside a location.
    Nameless,
}

#[derive(Clone, Debug)]
pub enum Handler {
    Proxy(Arc<ProxyPass>),
    Application(Arc<AppPass>),
    StubStatus,
    Status(StatusFormat),
    EmptyGif,
    Flv,
    Mp4,
}

/// The output format of `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFormat {
    Json,
    Prometheus,
}

#[derive(Debug)]
pub struct Location {
    pub name: String,
    pub kind: LocKind,
    /// Shared with the outer level if the location sets nothing.
    pub conf: Arc<LocConf>,
    pub handler: Option<Handler>,
    pub ops: Vec<Op>,
    pub ifs: Vec<Arc<Location>>,
    pub try_files: Option<Arc<TryFiles>>,
    pub checks: Vec<CheckConf>,
    pub internal: bool,
    /// The methods that use this location; other methods use the second one.
    pub limit_except: Option<(Vec<String>, Arc<Location>)>,
    /// Whether a request for the name without its final slash is redirected.
    pub auto_redirect: bool,
    pub children: LocTree,
}

#[derive(Clone, Debug)]
pub struct TryFiles {
    pub files: Vec<TryFile>,
    pub fallback: Fallback,
}

#[derive(Clone, Debug)]
pub struct TryFile {
    pub path: Template,
    pub test_dir: bool,
}

#[derive(Clone, Debug)]
pub enum Fallback {
    Status(u16),
    Named(String),
    Uri(Template),
}

#[derive(Clone, Debug)]
pub struct Root {
    pub path: Template,
    /// `alias`: the matched location name is removed from the URI.
    pub alias: Option<Alias>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alias {
    /// The length of the location's name in bytes.
    Prefix(usize),
    /// In a regex location, the alias is the whole path.
    Whole,
}

#[derive(Clone, Debug)]
pub struct ErrorPage {
    pub statuses: Vec<u16>,
    /// `Some(0)`: use the target's own status (`=`); `Some(n)`: respond with n.
    pub overwrite: Option<u16>,
    pub target: Template,
}

#[derive(Clone, Debug)]
pub struct AddHeader {
    pub name: String,
    pub value: Template,
    pub always: bool,
}

#[derive(Clone, Debug)]
pub enum Expires {
    Off,
    Epoch,
    Max,
    /// Seconds after the request.
    Access(i64),
    /// Seconds after the file's modification.
    Modified(i64),
    /// Seconds after midnight.
    Daily(i64),
    Variable {
        value: Template,
        modified: bool,
    },
}

#[derive(Clone, Debug)]
pub struct AccessLog {
    pub target: AccessTarget,
    /// The index in `Http::log_formats`.
    pub format: usize,
    pub condition: Option<Template>,
    pub buffer: Option<u64>,
    /// Milliseconds.
    pub flush: Option<u64>,
    pub gzip: Option<u32>,
}

#[derive(Clone, Debug)]
pub enum AccessTarget {
    Fixed(LogTarget),
    Variable(Template),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Satisfy {
    All,
    Any,
}

#[derive(Clone, Debug)]
pub struct AccessRule {
    pub allow: bool,
    /// `None` means all.
    pub net: Option<Cidr>,
}

#[derive(Clone, Debug)]
pub struct LimitReq {
    pub zone: usize,
    /// The burst in thousandths of a request.
    pub burst: u64,
    /// The part of the burst without delay, in thousandths of a request; `u64::MAX` for `nodelay`.
    pub delay: u64,
}

#[derive(Clone, Debug)]
pub struct LimitConn {
    pub zone: usize,
    pub limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfModifiedSince {
    Off,
    Exact,
    Before,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    On,
    Off,
    Build,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFile {
    Off,
    On,
    Clean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GzipStatic {
    Off,
    On,
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoindexFormat {
    Html,
    Xml,
    Json,
    Jsonp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lingering {
    Off,
    On,
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Info,
    Notice,
    Warn,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealIpHeader {
    XRealIp,
    XForwardedFor,
    ProxyProtocol,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RealIpSource {
    Known(RealIpHeader),
    Header(String),
}

#[derive(Clone, Debug)]
pub struct CharsetName(pub Option<Template>);

/// The media types that a filter applies to.
#[derive(Clone, Debug)]
pub enum TypeSet {
    All,
    Some(Arc<HashSet<Vec<u8>>>),
}

impl TypeSet {
    pub fn contains(&self, media_type: &[u8]) -> bool {
        match self {
            TypeSet::All => true,
            TypeSet::Some(set) => set.contains(media_type),
        }
    }
}

/// From file name extension (lower case) to media type.
pub type TypesMap = HashMap<Box<[u8]>, Arc<[u8]>>;

#[derive(Clone, Debug)]
pub struct ResolverConf {
    pub servers: Vec<std::net::SocketAddr>,
    /// Milliseconds that a response is cached regardless of its own lifetime.
    pub valid: Option<u64>,
    pub ipv4: bool,
    pub ipv6: bool,
}

/// The cache of open logs whose names contain variables.
#[derive(Clone, Debug)]
pub struct LogFileCache {
    pub max: u64,
    /// Milliseconds without use after which a name is dropped.
    pub inactive: u64,
    /// Milliseconds after which the name is checked again.
    pub valid: u64,
    /// The least number of uses before the file is cached.
    pub min_uses: u64,
}

#[derive(Clone, Debug)]
pub struct OpenFileCache {
    pub max: u64,
    /// Milliseconds.
    pub inactive: u64,
}

/// Bits of `dav_methods`.
pub mod dav {
    pub const OFF: u32 = 0;
    pub const PUT: u32 = 1;
    pub const DELETE: u32 = 1 << 1;
    pub const MKCOL: u32 = 1 << 2;
    pub const COPY: u32 = 1 << 3;
    pub const MOVE: u32 = 1 << 4;
    pub const NAMES: &[(&str, u32)] = &[
        ("off", OFF),
        ("put", PUT),
        ("delete", DELETE),
        ("mkcol", MKCOL),
        ("copy", COPY),
        ("move", MOVE),
    ];
}

/// Bits of `gzip_proxied`.
pub mod proxied {
    pub const OFF: u32 = 0;
    pub const EXPIRED: u32 = 1;
    pub const NO_CACHE: u32 = 1 << 1;
    pub const NO_STORE: u32 = 1 << 2;
    pub const PRIVATE: u32 = 1 << 3;
    pub const NO_LM: u32 = 1 << 4;
    pub const NO_ETAG: u32 = 1 << 5;
    pub const AUTH: u32 = 1 << 6;
    pub const ANY: u32 = 1 << 7;
    pub const NAMES: &[(&str, u32)] = &[
        ("off", OFF),
        ("expired", EXPIRED),
        ("no-cache", NO_CACHE),
        ("no-store", NO_STORE),
        ("private", PRIVATE),
        ("no_last_modified", NO_LM),
        ("no_etag", NO_ETAG),
        ("auth", AUTH),
        ("any", ANY),
    ];
}

inherited! {
    /// The settings of a location, an `if` block, a server block, or the http block.
    pub struct LocConf {
        root: Arc<Root>,
        types: Arc<TypesMap>,
        default_type: Arc<[u8]>,
        index: Arc<Vec<Template>>,
        error_pages: Arc<Vec<ErrorPage>>,
        recursive_error_pages: bool,
        client_max_body_size: u64,
        client_body_buffer_size: u64,
        client_body_timeout: u64,
        client_body_in_file_only: InFile,
        client_body_in_single_buffer: bool,
        client_body_temp_path: PathBuf,
        satisfy: Satisfy,
        access: Arc<Vec<AccessRule>>,
        auth_basic: Template,
        auth_basic_user_file: Template,
        auth_delay: u64,
        auth_request: Option<String>,
        auth_request_set: Arc<Vec<(VarId, Template)>>,
        keepalive_timeout: u64,
        /// The seconds in the `Keep-Alive` field; 0 for no field.
        keepalive_header: u64,
        keepalive_requests: u64,
        keepalive_time: u64,
        keepalive_min_timeout: u64,
        keepalive_disable: u32,
        lingering_close: Lingering,
        lingering_time: u64,
        lingering_timeout: u64,
        send_timeout: u64,
        http2_chunk_size: u64,
        sendfile: bool,
        sendfile_max_chunk: u64,
        tcp_nopush: bool,
        tcp_nodelay: bool,
        aio: String,
        aio_write: bool,
        directio: u64,
        directio_alignment: u64,
        read_ahead: u64,
        output_buffers: (u64, u64),
        postpone_output: u64,
        limit_rate: Template,
        limit_rate_after: Template,
        reset_timedout_connection: bool,
        absolute_redirect: bool,
        server_name_in_redirect: bool,
        port_in_redirect: bool,
        msie_padding: bool,
        msie_refresh: bool,
        log_not_found: bool,
        log_subrequest: bool,
        chunked_transfer_encoding: bool,
        etag: bool,
        if_modified_since: IfModifiedSince,
        max_ranges: u64,
        server_tokens: Tokens,
        server_header: Arc<[u8]>,
        subrequest_output_buffer_size: u64,
        open_file_cache: Option<OpenFileCache>,
        open_file_cache_valid: u64,
        open_file_cache_min_uses: u64,
        open_file_cache_errors: bool,
        open_file_cache_events: bool,
        open_log_file_cache: Option<Arc<LogFileCache>>,
        disable_symlinks: super::Symlinks,
        confine_files: Arc<super::Confinement>,
        resolver: Arc<ResolverConf>,
        early_hints: Arc<Vec<Template>>,
        resolver_timeout: u64,
        error_log: Arc<Vec<ErrorLog>>,
        access_log: Arc<Vec<AccessLog>>,
        dav_methods: u32,
        dav_access: u32,
        create_full_put_path: bool,
        min_delete_depth: u64,
        autoindex: bool,
        autoindex_exact_size: bool,
        autoindex_localtime: bool,
        autoindex_format: AutoindexFormat,
        charset: CharsetName,
        source_charset: CharsetName,
        charset_types: TypeSet,
        override_charset: bool,
        valid_referers: Arc<super::Referers>,
        secure_link: Template,
        secure_link_md5: Template,
        secure_link_secret: String,
        random_index: bool,
        mirror: Arc<Vec<String>>,
        mirror_request_body: bool,
        add_before_body: String,
        add_after_body: String,
        addition_types: TypeSet,
        sub_filter: Arc<Vec<super::SubPair>>,
        sub_filter_types: TypeSet,
        sub_filter_once: bool,
        sub_filter_last_modified: bool,
        gunzip: bool,
        brotli: Arc<super::CodingConf>,
        zstd: Arc<super::CodingConf>,
        slice: u64,
        ssi: bool,
        ssi_silent_errors: bool,
        ssi_last_modified: bool,
        ssi_types: TypeSet,
        add_header: Arc<Vec<AddHeader>>,
        add_header_inherit: u32,
        add_trailer: Arc<Vec<AddHeader>>,
        add_trailer_inherit: u32,
        expires: Expires,
        mp4_buffer_size: u64,
        mp4_max_buffer_size: u64,
        mp4_start_key_frame: bool,
        gzip: bool,
        gzip_types: TypeSet,
        gzip_min_length: u64,
        gzip_comp_level: u64,
        gzip_vary: bool,
        gzip_proxied: u32,
        gzip_http_version: u64,
        gzip_disable: Arc<Vec<Pattern>>,
        gzip_buffers: (u64, u64),
        gzip_window: u64,
        gzip_hash: u64,
        gzip_no_buffer: bool,
        gzip_static: GzipStatic,
        limit_req: Arc<Vec<LimitReq>>,
        limit_req_log_level: LogLevel,
        limit_req_status: u64,
        limit_req_dry_run: bool,
        limit_conn: Arc<Vec<LimitConn>>,
        limit_conn_log_level: LogLevel,
        limit_conn_status: u64,
        limit_conn_dry_run: bool,
        set_real_ip_from: Arc<Vec<Cidr>>,
        real_ip_header: RealIpSource,
        real_ip_recursive: bool,
        geoip2_proxy: Arc<Vec<Cidr>>,
        geoip2_proxy_recursive: bool,
        rewrite_log: bool,
        uninitialized_variable_warn: bool,
        proxy: Arc<UpConf>,
        fastcgi: Arc<UpConf>,
        uwsgi: Arc<UpConf>,
        scgi: Arc<UpConf>,
        memcached: Arc<UpConf>,
        grpc: Arc<UpConf>,
        userid: Arc<super::UserIdConf>,
        types_hash_max_size: u64,
        types_hash_bucket_size: u64,
        variables_hash_max_size: u64,
        variables_hash_bucket_size: u64,
        server_names_hash_max_size: u64,
        server_names_hash_bucket_size: u64,
        map_hash_max_size: u64,
        map_hash_bucket_size: u64,
        proxy_headers_hash_max_size: u64,
        proxy_headers_hash_bucket_size: u64,
    }
}

impl Handler {
    /// Whether requests are passed on to an upstream.
    pub fn passes(&self) -> bool {
        matches!(self, Handler::Proxy(_) | Handler::Application(_))
    }
}

impl LocConf {
    /// The settings for a protocol of applications.
    pub fn application(&self, protocol: AppProtocol) -> &Option<Arc<UpConf>> {
        match protocol {
            AppProtocol::Fastcgi => &self.fastcgi,
            AppProtocol::Uwsgi => &self.uwsgi,
            AppProtocol::Scgi => &self.scgi,
            AppProtocol::Memcached => &self.memcached,
            AppProtocol::Grpc => &self.grpc,
        }
    }

    /// Like [`LocConf::application`], for changes.
    pub fn application_mut(&mut self, protocol: AppProtocol) -> &mut Option<Arc<UpConf>> {
        match protocol {
            AppProtocol::Fastcgi => &mut self.fastcgi,
            AppProtocol::Uwsgi => &mut self.uwsgi,
            AppProtocol::Scgi => &mut self.scgi,
            AppProtocol::Memcached => &mut self.memcached,
            AppProtocol::Grpc => &mut self.grpc,
        }
    }

    /// The seconds in the `Keep-Alive` field.
    pub fn told_keepalive(&self) -> Option<u64> {
        self.keepalive_header.filter(|&seconds| seconds > 0)
    }
}

/// The log for a configuration without `access_log`.
pub fn default_access_target(prefix: &std::path::Path) -> LogTarget {
    LogTarget::File(prefix.join("logs/access.log"))
}
