//! The addresses to listen on, each with the server blocks that it serves.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::names::{ServerName, VirtualHosts};
use hashbrown::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub(super) type Listens = Vec<(Listen, Arc<Server>, Arc<Vec<ServerName>>)>;

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

pub(super) fn build_listeners(b: &mut Builder, listens: Listens) -> Result<Vec<Listener>> {
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
