//! `pass` of `stream`: another listening socket of the configuration takes the connection.

use super::{status, Session};
use crate::conn::{Conn, Ends};
use crate::scope::Scope;
use crate::template;
use gallop_conf::listen::literal;
use gallop_conf::model::{Endpoint, Handover, Level, ListenAddr, Listener, StreamHandler};
use std::net::SocketAddr;
use std::sync::Arc;

/// The most times that a connection is passed on.
const MOST: u32 = 10;

/// The socket that takes a connection.
pub struct Target {
    address: ListenAddr,
    pub endpoint: Arc<Endpoint>,
    /// Whether it is one of `stream`.
    pub is_stream: bool,
}

impl Target {
    /// The connection as the socket sees it. `secured`: its TLS was terminated.
    pub fn conn(&self, session: &Session, secured: bool) -> Conn {
        let (local, unix) = match &self.address {
            ListenAddr::Inet(addr) => (Some(*addr), None),
            ListenAddr::Unix(path) => (None, Some(path.as_path())),
        };
        let old = &session.conn;
        let ends = Ends {
            peer: session.ends().0,
            local,
            unix,
            socket: old.socket(),
        };
        let mut conn = Conn::new(old.id, self.endpoint.clone(), ends).with_places_of(old);
        if let Some(header) = old.proxy_protocol() {
            conn = conn.with_proxy_protocol(header.clone());
        }
        if let Some(tls) = old.tls().filter(|_| secured) {
            conn.set_tls(tls.clone());
        }
        conn
    }
}

/// Whether the session's server block passes connections to another socket.
pub fn is_next(session: &Session) -> bool {
    handover(session).is_some()
}

fn handover(session: &Session) -> Option<&Handover> {
    match session.server.stream.as_ref()?.handler.as_ref()? {
        StreamHandler::Pass(handover) => Some(handover),
        _ => None,
    }
}

/// Find the socket that takes the connection. `passed`: how often it was passed on before;
/// `secured`: its TLS was terminated.
///
/// # Errors
/// The status of a session that ends here.
pub fn target(session: &Session, passed: u32, secured: bool) -> Result<Target, u16> {
    let fail = |message: &str| {
        let message = format!("{message} while passing connection to port");
        session.log(Level::Error, &message);
        status::INTERNAL_SERVER_ERROR
    };
    let address = address(session).map_err(|message| fail(&message))?;
    if passed >= MOST {
        return Err(fail("stream pass cycle"));
    }
    let Some(listener) = listener(session, &address) else {
        fail(&format!("port not found for \"{address}\""));
        return Err(status::OK);
    };
    let local = match &address {
        ListenAddr::Inet(addr) => Some(addr.ip()),
        ListenAddr::Unix(_) => None,
    };
    let endpoint = listener.endpoint_for(local).clone();
    if secured && (endpoint.ssl || endpoint.proxy_protocol) {
        let what = match endpoint.ssl {
            true => "ssl",
            false => "proxy_protocol",
        };
        return Err(fail(&format!(
            "cannot pass connection with terminated TLS to \"{address}\" with \"{what}\""
        )));
    }
    Ok(Target {
        address,
        endpoint,
        is_stream: listener.stream,
    })
}

fn address(session: &Session) -> Result<ListenAddr, String> {
    let text = match handover(session) {
        Some(Handover::Fixed(address)) => return Ok(address.clone()),
        Some(Handover::Variable(text)) => template::eval(session, text),
        None => Vec::new(),
    };
    let text = String::from_utf8_lossy(&text);
    literal(&text).map_err(|e| format!("{e} in pass \"{}\"", text.escape_default()))
}

/// The listener of an address, or a wildcard listener of its port.
fn listener<'a>(session: &'a Session, address: &ListenAddr) -> Option<&'a Listener> {
    let config = &session.worker.shared.config;
    let streams = || config.listeners().filter(|l| !l.is_datagram());
    let covers = |l: &&Listener| match (&l.addr, address) {
        (ListenAddr::Inet(own), ListenAddr::Inet(wanted)) => is_wildcard_of(own, wanted),
        _ => false,
    };
    let exact = streams().find(|l| l.addr == *address);
    exact.or_else(|| streams().find(covers))
}

fn is_wildcard_of(own: &SocketAddr, wanted: &SocketAddr) -> bool {
    let same_family = own.is_ipv4() == wanted.is_ipv4();
    own.ip().is_unspecified() && same_family && own.port() == wanted.port()
}
