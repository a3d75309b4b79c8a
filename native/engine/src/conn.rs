//! The client side of a connection. Most open connections are idle, so data that only some
//! connections have is stored separately.

use crate::exchange::{Guard, ProxyProtocol, TlsInfo};
use gallop_conf::model::{Endpoint, Server};
use gallop_conf::names::VirtualHosts;
use std::cell::Cell;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::RawFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// The client side of a connection, for the requests on it.
pub struct Conn {
    pub id: u64,
    pub endpoint: Arc<Endpoint>,
    peer: Option<Address>,
    local: Option<Address>,
    pub requests: Cell<u64>,
    /// Milliseconds (monotonic).
    pub started: u64,
    learnt: Option<Box<Learnt>>,
    /// The descriptor of the socket; -1 with QUIC.
    socket: RawFd,
    /// The start of the wait for a request, as the server's `moment` returns it.
    pub waits_since: Cell<u32>,
}

/// Data from the start of a connection, such as TLS and the PROXY protocol.
#[derive(Clone, Default)]
struct Learnt {
    tls: Option<TlsInfo>,
    proxy_protocol: Option<ProxyProtocol>,
    /// The server block chosen by the name in the TLS handshake.
    sni_server: Option<Arc<Server>>,
    /// Places in limits of `stream`, which the connection keeps after another socket took it.
    places: Vec<Rc<Guard>>,
}

/// The addresses of both ends of a connection, if they have any.
#[derive(Default)]
pub struct Ends<'a> {
    pub peer: Option<SocketAddr>,
    pub local: Option<SocketAddr>,
    /// The Unix socket that accepted it.
    pub unix: Option<&'a Path>,
    pub socket: Option<RawFd>,
}

impl Conn {
    /// A new connection.
    pub fn new(id: u64, endpoint: Arc<Endpoint>, ends: Ends<'_>) -> Conn {
        let name = |path: &Path| Name(format!("unix:{}", path.display()));
        let unix = ends.unix.map(|path| Address::Unix(Box::new(name(path))));
        Conn {
            id,
            endpoint,
            peer: ends.peer.map(Address::from),
            local: ends.local.map(Address::from).or(unix),
            requests: Cell::new(0),
            started: gallop_runtime::coarse_ms(),
            learnt: None,
            socket: ends.socket.unwrap_or(-1),
            waits_since: Cell::new(0),
        }
    }

    /// The connection that a request of the server's own seems to come from. It has no addresses.
    pub fn own(id: u64, server: &Arc<Server>, udp: bool) -> Conn {
        let endpoint = Endpoint {
            ssl: false,
            http2: false,
            quic: false,
            udp,
            proxy_protocol: false,
            hosts: VirtualHosts::new(server.clone()),
        };
        Conn::new(id, Arc::new(endpoint), Ends::default())
    }

    /// The same connection after the client's address has changed.
    pub fn moved(&self, peer: Option<SocketAddr>) -> Conn {
        Conn {
            id: self.id,
            endpoint: self.endpoint.clone(),
            peer: peer.map(Address::from),
            local: self.local.clone(),
            requests: self.requests.clone(),
            started: self.started,
            learnt: self.learnt.clone(),
            socket: self.socket,
            waits_since: self.waits_since.clone(),
        }
    }

    /// Add the result of the TLS handshake and the server block that its name selected.
    pub fn with_tls(mut self, tls: TlsInfo, server: Option<Arc<Server>>) -> Conn {
        let learnt = self.learnt.get_or_insert_default();
        (learnt.tls, learnt.sni_server) = (Some(tls), server);
        self
    }

    /// Add the result of the TLS handshake.
    pub fn set_tls(&mut self, tls: TlsInfo) {
        self.learnt.get_or_insert_default().tls = Some(tls);
    }

    /// Add the data of a PROXY protocol header.
    pub fn with_proxy_protocol(mut self, header: ProxyProtocol) -> Conn {
        self.learnt.get_or_insert_default().proxy_protocol = Some(header);
        self
    }

    /// Keep these places in limits until the connection ends.
    pub fn with_places(mut self, places: Vec<Guard>) -> Conn {
        if !places.is_empty() {
            let learnt = self.learnt.get_or_insert_default();
            learnt.places.extend(places.into_iter().map(Rc::new));
        }
        self
    }

    /// Keep the places in limits that the connection `other` has.
    pub fn with_places_of(mut self, other: &Conn) -> Conn {
        if let Some(theirs) = other
            .learnt
            .as_ref()
            .filter(|theirs| !theirs.places.is_empty())
        {
            self.learnt
                .get_or_insert_default()
                .places
                .clone_from(&theirs.places);
        }
        self
    }

    pub fn tls(&self) -> Option<&TlsInfo> {
        self.learnt.as_ref()?.tls.as_ref()
    }

    pub fn proxy_protocol(&self) -> Option<&ProxyProtocol> {
        self.learnt.as_ref()?.proxy_protocol.as_ref()
    }

    pub fn sni_server(&self) -> Option<&Arc<Server>> {
        self.learnt.as_ref()?.sni_server.as_ref()
    }

    /// The socket's number, to query the kernel about the connection. Another socket may reuse the
    /// number once this connection has ended.
    pub fn socket(&self) -> Option<RawFd> {
        Some(self.socket).filter(|&fd| fd >= 0)
    }

    /// The client's address; `None` on Unix sockets.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer.as_ref()?.inet()
    }

    /// The local address; `None` on Unix sockets.
    pub fn local(&self) -> Option<SocketAddr> {
        self.local.as_ref()?.inet()
    }

    /// The Unix socket's path as in `$server_addr`; empty for other sockets.
    pub fn local_name(&self) -> &str {
        match &self.local {
            Some(Address::Unix(name)) => &name.0,
            _ => "",
        }
    }
}

/// An address in half the memory of a `SocketAddr`.
#[derive(Clone)]
enum Address {
    V4(SocketAddrV4),
    V6(Box<SocketAddrV6>),
    Unix(Box<Name>),
}

/// The address of a Unix socket: `unix:` and its path.
#[derive(Clone)]
struct Name(String);

impl From<SocketAddr> for Address {
    fn from(addr: SocketAddr) -> Address {
        match addr {
            SocketAddr::V4(v4) => Address::V4(v4),
            SocketAddr::V6(v6) => Address::V6(Box::new(v6)),
        }
    }
}

impl Address {
    fn inet(&self) -> Option<SocketAddr> {
        match self {
            Address::V4(v4) => Some(SocketAddr::V4(*v4)),
            Address::V6(v6) => Some(SocketAddr::V6(**v6)),
            Address::Unix(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_costs_little() {
        assert!(size_of::<Conn>() <= 80, "{} bytes", size_of::<Conn>());
    }

    #[test]
    fn addresses_come_back_as_they_were() {
        for text in ["127.0.0.1:80", "[fe80::1%3]:443", "[::1]:1"] {
            let addr: SocketAddr = text.parse().expect("an address");
            assert_eq!(Address::from(addr).inet(), Some(addr));
        }
    }
}
