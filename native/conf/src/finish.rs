//! Reading a whole configuration: parse, apply, merge the levels, and assemble the server blocks.

use crate::builder::{Builder, HttpNode, LocNode, ServerNode};
use crate::error::{ConfError, Result, COMMAND_LINE};
use crate::listen::resolve;
use crate::locations::LocTree;
use crate::model::*;
use crate::names::{ServerName, VirtualHosts};
use crate::parser::{self, Directive, Source, SourceFile};
use crate::relations;
use hashbrown::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, OnceLock};

mod health;
mod stream;

/// Information about a configuration that is available even if it is rejected.
#[derive(Default)]
pub struct Seen {
    /// All files that were read.
    pub files: Vec<SourceFile>,
    /// Warnings from before the error.
    pub warnings: Vec<String>,
}

/// Load `file`; `globals` is the argument of `-g`.
pub fn load(prefix: &Path, file: &Path, globals: &str, seen: &mut Seen) -> Result<Config> {
    read(prefix, file, globals, seen).map(|(config, _)| config)
}

/// Like [`load`], with remarks about known mistakes.
pub fn load_with_remarks(
    prefix: &Path,
    file: &Path,
    globals: &str,
    seen: &mut Seen,
) -> Result<(Config, Vec<String>)> {
    let (config, directives) = read(prefix, file, globals, seen)?;
    let remarks = crate::lint::remarks(&directives);
    Ok((config, remarks))
}

fn read(
    prefix: &Path,
    file: &Path,
    globals: &str,
    seen: &mut Seen,
) -> Result<(Config, Vec<Directive>)> {
    let conf_prefix = file.parent().unwrap_or(Path::new("/")).to_path_buf();
    let mut b = Builder::new(prefix, &conf_prefix);
    if !globals.is_empty() {
        let directives = parser::parse_text(COMMAND_LINE, globals, &conf_prefix)?;
        b.apply_all(&directives)?;
    }
    let mut source = Source::default();
    let parsed = parser::parse_file(file, &conf_prefix, &mut source);
    seen.files.clone_from(&source.files);
    parsed?;
    let finished = b
        .apply_all(&source.directives)
        .and_then(|()| finish(&mut b));
    seen.warnings.append(&mut b.warnings);
    let (blocks, warnings) = (finished?, std::mem::take(&mut seen.warnings));
    Ok((
        b.into_config(blocks, source.files, warnings),
        source.directives,
    ))
}

/// Load a configuration from text; `label` is its name in messages.
pub fn load_text(prefix: &Path, label: &str, text: &str) -> Result<Config> {
    let mut b = Builder::new(prefix, prefix);
    b.apply_all(&parser::parse_text(label, text, prefix)?)?;
    let blocks = finish(&mut b)?;
    let warnings = std::mem::take(&mut b.warnings);
    Ok(b.into_config(blocks, Vec::new(), warnings))
}

/// The blocks of a configuration.
struct Blocks {
    http: Option<Http>,
    stream: Option<Stream>,
}

fn finish(b: &mut Builder) -> Result<Blocks> {
    if !b.seen.contains(&"events") {
        return Err(ConfError::new("no \"events\" section in configuration"));
    }
    let http = b.http.take();
    let locs = std::mem::take(&mut b.locs);
    let http = match http {
        Some(node) => Some(finish_http(b, node, locs)?),
        None => None,
    };
    b.vars.check()?;
    let stream = match b.stream.take() {
        Some(node) => Some(stream::finish(b, node)?),
        None => None,
    };
    let of_http = http.iter().flat_map(|http| &http.listeners);
    let of_stream = stream.iter().flat_map(|stream| &stream.listeners);
    stream::check_addresses(of_http.clone(), of_stream.clone())?;
    let sockets = of_http.chain(of_stream).count() as u64;
    let connections = b.main.worker_connections.unwrap_or(512);
    if connections < sockets + 1 {
        return Err(ConfError::new(format!(
            "{connections} worker_connections are not enough for {sockets} listening sockets"
        )));
    }
    Ok(Blocks { http, stream })
}

impl Builder {
    fn into_config(self, blocks: Blocks, files: Vec<SourceFile>, warnings: Vec<String>) -> Config {
        Config {
            main: self.main,
            http: blocks.http,
            stream: blocks.stream,
            vars: self.vars,
            files,
            prefix: self.prefix,
            conf_prefix: self.conf_prefix,
            notices: self.notices,
            warnings,
        }
    }
}

fn finish_http(b: &mut Builder, mut node: HttpNode, mut locs: Vec<LocNode>) -> Result<Http> {
    let mut top = *locs.pop().expect("the http level").conf.unwrap_or_default();
    top.types
        .get_or_insert_with(|| Arc::new(crate::directives::default_types()));
    check_limit_zones(&node)?;
    crate::directives::cache::check(&node)?;
    check_upstream_zones(&node)?;
    resolve_upstreams(&mut node.upstreams)?;
    give_resolvers(&mut node.upstreams, &top)?;
    if top.access_log.is_none() {
        let target = AccessTarget::Fixed(default_access_target(&b.prefix));
        let log = AccessLog {
            target,
            format: 0,
            condition: None,
            buffer: None,
            flush: None,
            gzip: None,
        };
        top.access_log = Some(Arc::new(vec![log]));
    }
    let top = Arc::new(top);
    let mut servers = Vec::new();
    let mut listens = Vec::new();
    let mut zones = Zones::default();
    if let Some(own) = crate::directives::status::server(&mut node) {
        let (server, names, at) = finish_server(own, &SrvConf::default(), &Arc::default())?;
        let server = Arc::new(server);
        listens.extend(at.into_iter().map(|l| (l, server.clone(), names.clone())));
    }
    for server in node.servers {
        let zone = zones.of(&server);
        let (mut server, names, at) = finish_server(server, &node.conf, &top)?;
        relations::check_places(&server, &node.charset_maps)?;
        for protocol in AppProtocol::ALL {
            if relations::lacks_cache_key(&server.root, protocol) {
                let name = protocol.name();
                let message = format!("no \"{name}_cache_key\" for \"{name}_cache\"");
                b.warn(message, &server.place);
            }
        }
        server.zone = Some(zone);
        let server = Arc::new(server);
        listens.extend(at.into_iter().map(|l| (l, server.clone(), names.clone())));
        servers.push(server);
    }
    health::attach(&servers, &mut node.upstreams, &node.matches)?;
    let listeners = build_listeners(b, listens)?;
    Ok(Http {
        servers,
        listeners,
        upstreams: node.upstreams.into_iter().map(Arc::new).collect(),
        log_formats: node.log_formats,
        limit_req_zones: node.limit_req_zones,
        limit_conn_zones: node.limit_conn_zones,
        charset_maps: node.charset_maps,
        cache_zones: node.cache_zones,
        status_zones: zones.names,
        is_metered: node.is_metered,
    })
}

/// Status zones by name; server blocks may share one.
#[derive(Default)]
struct Zones {
    names: Vec<String>,
    index: HashMap<String, usize>,
}

impl Zones {
    /// The zone of a server block: from `status_zone`, otherwise its first name, otherwise its
    /// address.
    fn of(&mut self, server: &ServerNode) -> usize {
        let first = server.first_name.clone().filter(|name| !name.is_empty());
        let name = server.zone.clone().or(first);
        let name = name.unwrap_or_else(|| match server.listens.first() {
            Some(listen) => listen.addr.to_string(),
            None => "default".to_string(),
        });
        let next = self.names.len();
        let index = *self.index.entry(name.clone()).or_insert(next);
        if index == next {
            self.names.push(name);
        }
        index
    }
}

impl ConfError {
    /// Remove the place, since nginx reports some errors after the file is read.
    fn without_place(mut self) -> Self {
        self.place = None;
        self
    }
}

/// Check that each zone of a limit is declared.
fn check_limit_zones(node: &HttpNode) -> Result<()> {
    for (index, kind, place) in &node.zone_uses {
        let zones = if *kind == "limit_req" {
            &node.limit_req_zones
        } else {
            &node.limit_conn_zones
        };
        if zones[*index].size == 0 {
            let message = format!("zero size shared memory zone \"{}\"", zones[*index].name);
            return Err(ConfError::at(message, place).without_place());
        }
    }
    Ok(())
}

/// Check that each upstream zone has its size from one of its groups.
fn check_upstream_zones(node: &HttpNode) -> Result<()> {
    let zones = node
        .upstreams
        .iter()
        .filter_map(|group| group.zone.as_ref());
    for name in zones {
        if !node.sized_zones.contains(name) {
            let message = format!("zero size shared memory zone \"{name}\"");
            return Err(ConfError::new(message));
        }
    }
    Ok(())
}

/// Resolve the addresses of implicit groups.
fn resolve_upstreams(upstreams: &mut [Upstream]) -> Result<()> {
    for group in upstreams.iter_mut().filter(|u| !u.explicit) {
        let place = group.place.clone();
        let fail = |message: String| ConfError {
            message,
            place: place.clone(),
        };
        let peer = |name: String, addr: PeerAddr| Peer {
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
        };
        if let Some(path) = group.name.strip_prefix("unix:") {
            let addr = PeerAddr::Unix(path.into());
            group.peers.push(peer(group.name.clone(), addr));
            continue;
        }
        let port = group.port.unwrap_or(0);
        if port == 0 {
            return Err(fail(format!("no port in upstream \"{}\"", group.name)));
        }
        let found = resolve(&group.name, port)
            .map_err(|e| fail(format!("{e} in upstream \"{}\"", group.name)))?;
        for addr in found {
            group
                .peers
                .push(peer(format!("{}:{port}", group.name), PeerAddr::Inet(addr)));
        }
    }
    Ok(())
}

/// Give resolvers to groups whose names are resolved periodically.
fn give_resolvers(upstreams: &mut [Upstream], top: &LocConf) -> Result<()> {
    for group in upstreams.iter_mut().filter(|u| !u.resolving.is_empty()) {
        let fail = |message: String| ConfError {
            message,
            place: group.place.clone(),
        };
        if group.zone.is_none() {
            return Err(fail(format!(
                "resolving names at run time requires upstream \"{}\" to be in shared memory: add \"zone\"",
                group.name
            )));
        }
        group.resolver = group.resolver.take().or_else(|| top.resolver.clone());
        group.resolver_timeout = group.resolver_timeout.or(top.resolver_timeout);
        if group.resolver.is_none() {
            return Err(ConfError {
                message: format!(
                    "no resolver defined to resolve names at run time in upstream \"{}\"",
                    group.name
                ),
                place: group.place.clone(),
            });
        }
    }
    Ok(())
}

type Finished = (Server, Arc<Vec<ServerName>>, Vec<Listen>);

fn finish_server(mut node: ServerNode, outer: &SrvConf, top: &Arc<LocConf>) -> Result<Finished> {
    node.conf.inherit(outer);
    relations::check_server(&node.conf, &node.place)?;
    // A server block without names serves requests without a host.
    if node.names.is_empty() {
        node.names.push(ServerName::Exact("".into()));
    }
    if node.listens.is_empty() {
        // As in nginx: port 80, or 8000 without the privilege to bind it.
        let port = if is_root() { 80 } else { 8000 };
        node.listens.push(default_listen(port, &node));
    }
    relations::check_location(top, &node.place)?;
    let root = Arc::new(finish_location(node.root, top)?);
    let names = Arc::new(node.names);
    let server = Server {
        name: node.first_name.unwrap_or_default(),
        names: names.clone(),
        referers: OnceLock::new(),
        conf: node.conf,
        root,
        zone: None,
        stream: None,
        place: node.place,
    };
    Ok((server, names, node.listens))
}

fn is_root() -> bool {
    // The process's own entry in /proc belongs to its effective user.
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

fn default_listen(port: u16, node: &ServerNode) -> Listen {
    Listen {
        addr: ListenAddr::Inet(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)),
        default_server: false,
        ssl: false,
        http2: false,
        quic: false,
        udp: false,
        proxy_protocol: false,
        socket: SocketOptions::default(),
        place: node.place.clone(),
    }
}

fn finish_location(mut node: LocNode, outer: &Arc<LocConf>) -> Result<Location> {
    let conf = settings(&mut node, outer);
    if !Arc::ptr_eq(&conf, outer) {
        relations::check_location(&conf, &node.place)?;
    }
    let handler = node.handler.clone();
    let nameless = |mut inner: LocNode| {
        // An `if` block inherits the location's handler unless it has its own.
        if inner.handler.is_none() {
            inner.handler = handler.clone();
        }
        finish_location(inner, &conf).map(Arc::new)
    };
    let ifs = node.ifs.into_iter().map(nameless).collect::<Result<_>>()?;
    let limit_except = match node.limit_except {
        Some((methods, inner)) => Some((methods, nameless(*inner)?)),
        None => None,
    };
    let children = node.children.into_iter().map(|mut inner| {
        // A location inside an internal location is internal too.
        inner.internal = inner.internal.or(node.internal);
        finish_location(inner, &conf).map(Arc::new)
    });
    let children = LocTree::build(children.collect::<Result<_>>()?);
    let passes = node.handler.as_ref().is_some_and(Handler::passes);
    let plain = matches!(node.kind, LocKind::Prefix { .. } | LocKind::Exact);
    Ok(Location {
        auto_redirect: passes && plain && node.name.ends_with('/'),
        name: node.name,
        kind: node.kind,
        conf,
        handler: node.handler,
        ops: node.ops,
        ifs,
        try_files: node.try_files,
        checks: node.checks,
        internal: node.internal.unwrap_or(false),
        limit_except,
        children,
    })
}

/// A location's settings: its own, completed by the outer ones.
fn settings(node: &mut LocNode, outer: &Arc<LocConf>) -> Arc<LocConf> {
    if node.conf.is_none() && is_taken_over(node.handler.as_ref(), outer) {
        return outer.clone();
    }
    let mut conf = *node.conf.take().unwrap_or_default();
    merge_headers(&mut conf, outer);
    merge_coding(&mut conf.brotli, &outer.brotli);
    merge_coding(&mut conf.zstd, &outer.zstd);
    if let (Some(inner), Some(outer)) = (&mut conf.userid, &outer.userid) {
        Arc::make_mut(inner).inherit(outer);
    }
    merge_upstream(&mut conf.proxy, &outer.proxy);
    for protocol in AppProtocol::ALL {
        let inner = conf.application_mut(protocol);
        merge_upstream(inner, outer.application(protocol));
    }
    merge_secure_link(&mut conf, outer);
    conf.inherit(outer);
    give_settings(node.handler.as_ref(), &mut conf);
    Arc::new(conf)
}

/// Whether a location without settings of its own can share the outer settings.
fn is_taken_over(handler: Option<&Handler>, outer: &LocConf) -> bool {
    let complete = match handler {
        Some(Handler::Proxy(_)) => outer.proxy.as_ref().is_some_and(|p| p.redirect.is_some()),
        Some(Handler::Application(pass)) => {
            let own = outer.application(pass.protocol);
            own.is_some() && !pass.protocol.has_fixed_settings()
        }
        _ => true,
    };
    complete
        && outer.add_header_inherit.is_none()
        && outer.add_trailer_inherit.is_none()
        && outer.secure_link.is_none()
        && outer.secure_link_md5.is_none()
        && outer.secure_link_secret.is_none()
}

/// Merge secure_link. The old and the new form exclude each other: a level with one form does not
/// inherit the other.
fn merge_secure_link(inner: &mut LocConf, outer: &LocConf) {
    let new_form = inner.secure_link.is_some() || inner.secure_link_md5.is_some();
    // An empty secret stands for the new form, which is inherited with its own directives.
    let secret = |conf: &LocConf| conf.secure_link_secret.clone().filter(|s| !s.is_empty());
    if inner.secure_link_secret.is_none() && !new_form {
        inner.secure_link_secret = secret(outer);
    }
    if secret(inner).is_some() {
        // An empty template: set, but to nothing.
        inner.secure_link.get_or_insert_default();
        inner.secure_link_md5.get_or_insert_default();
    } else if new_form {
        inner.secure_link_secret = Some(String::new());
    }
}

/// Give upstream settings to each level that passes requests on. As in nginx, nested locations
/// inherit the default of proxy_redirect, even if they pass requests elsewhere.
fn give_settings(handler: Option<&Handler>, conf: &mut LocConf) {
    match handler {
        Some(Handler::Proxy(pass)) => {
            let proxy = conf.proxy.get_or_insert_with(Arc::default);
            if let Some(rule) = pass.default_redirect().filter(|_| proxy.redirect.is_none()) {
                Arc::make_mut(proxy).redirect = Some(Arc::new(vec![rule]));
            }
        }
        Some(Handler::Application(pass)) => {
            let own = conf.application_mut(pass.protocol);
            let own = own.get_or_insert_with(Arc::default);
            if pass.protocol.has_fixed_settings() {
                let is_grpc = pass.protocol == AppProtocol::Grpc;
                let own = Arc::make_mut(own);
                (own.buffering, own.force_ranges) = (Some(false), Some(!is_grpc));
                if is_grpc {
                    (own.request_buffering, own.pass_trailers) = (Some(false), Some(true));
                }
            }
        }
        _ => {}
    }
}

fn merge_coding(inner: &mut Option<Arc<CodingConf>>, outer: &Option<Arc<CodingConf>>) {
    if let (Some(inner), Some(outer)) = (inner, outer) {
        Arc::make_mut(inner).inherit(outer);
    }
}

fn merge_upstream(inner: &mut Option<Arc<UpConf>>, outer: &Option<Arc<UpConf>>) {
    if let (Some(inner), Some(outer)) = (inner, outer) {
        Arc::make_mut(inner).inherit(outer);
    }
}

/// `add_header_inherit merge` puts the outer fields before a level's own; `off` drops them.
fn merge_headers(inner: &mut LocConf, outer: &LocConf) {
    let mode = inner
        .add_header_inherit
        .or(outer.add_header_inherit)
        .unwrap_or(0);
    merge_list(&mut inner.add_header, &outer.add_header, mode);
    let mode = inner
        .add_trailer_inherit
        .or(outer.add_trailer_inherit)
        .unwrap_or(0);
    merge_list(&mut inner.add_trailer, &outer.add_trailer, mode);
}

fn merge_list(inner: &mut List<AddHeader>, outer: &List<AddHeader>, mode: u32) {
    match (mode, &inner, outer) {
        (1, None, _) => *inner = Some(Arc::default()),
        (2, Some(own), Some(outer)) => {
            *inner = Some(Arc::new(outer.iter().chain(own.iter()).cloned().collect()));
        }
        _ => {}
    }
}

type Listens = Vec<(Listen, Arc<Server>, Arc<Vec<ServerName>>)>;

/// An address with all server blocks that listen on it.
struct AddrNode {
    addr: ListenAddr,
    quic: bool,
    udp: bool,
    ssl: bool,
    http2: bool,
    proxy_protocol: bool,
    said: Protocols,
    socket: SocketOptions,
    default: Option<Arc<Server>>,
    servers: Vec<(Arc<Server>, Arc<Vec<ServerName>>)>,
}

fn build_listeners(b: &mut Builder, listens: Listens) -> Result<Vec<Listener>> {
    let mut nodes: Vec<AddrNode> = Vec::new();
    let mut index: HashMap<(ListenAddr, bool, bool), usize> = HashMap::new();
    for (listen, server, names) in listens {
        let key = (listen.addr.clone(), listen.quic, listen.udp);
        let i = *index.entry(key).or_insert_with(|| {
            nodes.push(AddrNode {
                addr: listen.addr.clone(),
                quic: listen.quic,
                udp: listen.udp,
                ssl: false,
                http2: false,
                proxy_protocol: false,
                said: Protocols::default(),
                socket: SocketOptions::default(),
                default: None,
                servers: Vec::new(),
            });
            nodes.len() - 1
        });
        let first = nodes[i].servers.is_empty();
        if nodes[i].redefines(&listen, first) {
            let message = format!("protocol options redefined for {}", listen.addr);
            b.warn(message, &listen.place);
        }
        add_listen(&mut nodes[i], listen, server, names)?;
    }
    let mut conflicts = Vec::new();
    let endpoints: Vec<Arc<Endpoint>> = nodes
        .iter()
        .map(|n| Arc::new(endpoint(n, &mut conflicts)))
        .collect();
    b.warnings.extend(conflicts);
    Ok(group_wildcards(nodes, endpoints))
}

/// The protocols in the `listen` directives of one address.
#[derive(Default)]
struct Protocols {
    /// Bits: PROXY protocol, TLS, HTTP/2.
    last: u8,
    is_set: bool,
    changed: bool,
}

impl AddrNode {
    /// Whether another `listen` changes the protocols in a way that nginx warns about. Later
    /// directives may omit options; one that also sets socket options may introduce them.
    fn redefines(&mut self, listen: &Listen, first: bool) -> bool {
        let bits = |proxy: bool, ssl: bool, http2: bool| {
            u8::from(proxy) | u8::from(ssl) << 1 | u8::from(http2) << 2
        };
        let now = bits(listen.proxy_protocol, listen.ssl, listen.http2);
        if first {
            return false;
        }
        let before = bits(self.proxy_protocol, self.ssl, self.http2);
        let (set, was_set) = (listen.socket.is_set(), self.socket.is_set());
        let said = &mut self.said;
        let others = said.is_set && now != said.last;
        let (odd, last) = if now | before != before {
            let odd = was_set && !set || said.changed || now | before != now;
            said.changed = true;
            (odd, before)
        } else if before | now != now {
            said.changed = true;
            (set || others, now)
        } else {
            (set && said.changed || others, now)
        };
        said.last = last;
        said.is_set = true;
        odd
    }
}

fn add_listen(
    node: &mut AddrNode,
    listen: Listen,
    server: Arc<Server>,
    names: Arc<Vec<ServerName>>,
) -> Result<()> {
    if listen.socket.is_set() {
        if node.socket.is_set() {
            let message = format!("duplicate listen options for {}", listen.addr);
            return Err(ConfError::at(message, &listen.place));
        }
        node.socket = listen.socket;
    }
    if listen.default_server {
        if node.default.is_some() {
            let message = format!("a duplicate default server for {}", listen.addr);
            return Err(ConfError::at(message, &listen.place));
        }
        node.default = Some(server.clone());
    }
    node.ssl |= listen.ssl;
    node.http2 |= listen.http2;
    node.proxy_protocol |= listen.proxy_protocol;
    node.servers.push((server, names));
    Ok(())
}

fn endpoint(node: &AddrNode, warnings: &mut Vec<String>) -> Endpoint {
    let default = node
        .default
        .clone()
        .unwrap_or_else(|| node.servers[0].0.clone());
    let mut hosts = VirtualHosts::new(default);
    for (server, names) in &node.servers {
        for name in names.iter().filter(|n| !hosts.add(n, server)) {
            let text = match name {
                ServerName::Exact(n) => n.to_string(),
                ServerName::Below {
                    suffix,
                    and_itself: true,
                } => format!(".{suffix}"),
                ServerName::Below { suffix, .. } => format!("*.{suffix}"),
                ServerName::Trailing(stem) => format!("{stem}.*"),
                ServerName::Regex(p) => format!("~{}", p.source()),
            };
            warnings.push(format!(
                "conflicting server name \"{text}\" on {}, ignored",
                node.addr
            ));
        }
    }
    Endpoint {
        ssl: node.ssl,
        http2: node.http2,
        quic: node.quic,
        udp: node.udp,
        proxy_protocol: node.proxy_protocol,
        hosts,
    }
}

/// What a wildcard socket and the addresses that it serves share.
type WildcardKey = (bool, u16, bool, bool);

impl AddrNode {
    fn key_of(&self, address: &SocketAddr) -> WildcardKey {
        (address.is_ipv6(), address.port(), self.quic, self.udp)
    }

    fn wildcard_key(&self) -> Option<WildcardKey> {
        match &self.addr {
            ListenAddr::Inet(a) if a.ip().is_unspecified() => Some(self.key_of(a)),
            _ => None,
        }
    }
}

/// Let addresses share the wildcard socket of their port if there is one.
fn group_wildcards(nodes: Vec<AddrNode>, endpoints: Vec<Arc<Endpoint>>) -> Vec<Listener> {
    let wildcards: HashMap<WildcardKey, usize> = nodes
        .iter()
        .enumerate()
        .filter_map(|(i, n)| Some((n.wildcard_key()?, i)))
        .collect();
    let mut specific: HashMap<usize, Vec<(IpAddr, Arc<Endpoint>)>> = HashMap::new();
    let mut keep = vec![true; nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        let ListenAddr::Inet(a) = &node.addr else {
            continue;
        };
        if a.ip().is_unspecified() || node.socket.bind || node.socket.is_set() {
            continue;
        }
        if let Some(&w) = wildcards.get(&node.key_of(a)) {
            specific
                .entry(w)
                .or_default()
                .push((a.ip(), endpoints[i].clone()));
            keep[i] = false;
        }
    }
    let all = nodes
        .into_iter()
        .zip(endpoints)
        .enumerate()
        .filter(|(i, _)| keep[*i]);
    all.map(|(i, (node, endpoint))| Listener {
        addr: node.addr,
        quic: node.quic,
        udp: node.udp,
        stream: false,
        socket: node.socket,
        specific: specific.remove(&i).unwrap_or_default(),
        endpoint,
    })
    .collect()
}
