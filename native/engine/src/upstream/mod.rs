//! Responses from other servers.

pub(crate) mod answer;
mod application;
mod attempts;
pub(crate) mod balancers;
mod buffers;
mod cached;
pub(crate) mod chosen;
mod cookies;
pub(crate) mod fastcgi;
mod form;
pub mod found;
mod gateway;
mod http2;
pub mod keepalive;
mod least_time;
pub mod marks;
mod memcached;
pub(crate) mod methods;
mod outgoing;
pub(crate) mod probe;
pub(crate) mod proxy;
pub mod quick;
mod quick_answer;
mod recipe;
mod request;
pub mod resolving;
mod response_body;
mod ring;
#[cfg(test)]
mod samples;
pub(crate) mod saved;
pub mod sessions;
mod settled;
mod spool;
pub(crate) mod state;
mod sticky;
mod store;
pub(crate) mod tls_names;
pub(crate) mod transfer;
mod upload;
pub mod verdicts;

use crate::exchange::Exchange;
use gallop_conf::model::Handler;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

pub use application::serve as application;
pub(crate) use cached::abandon;
pub use cached::Note;
pub use proxy::serve as proxy;
pub use quick::Begun;

/// Values that are known at the end of the response body.
#[derive(Debug, Default)]
pub struct Totals {
    /// Response time in milliseconds; `None` until the end.
    pub response_ms: Cell<Option<u64>>,
    /// The length of the body in bytes.
    pub length: Cell<u64>,
    pub received: Cell<u64>,
    pub sent: Cell<u64>,
}

/// The names and values of a response's fields, in order.
pub type Fields = Rc<Vec<(Vec<u8>, Vec<u8>)>>;

/// One attempt at one server.
#[derive(Debug, Default)]
pub struct Attempt {
    /// The server's index among all counted servers.
    pub meter: Option<usize>,
    pub peer: Arc<str>,
    pub scheme: &'static str,
    /// The requested path and query.
    pub uri: Rc<[u8]>,
    pub status: u16,
    /// Connect time in milliseconds.
    pub connect_ms: Option<u64>,
    pub header_ms: Option<u64>,
    pub times: Rc<Totals>,
    pub headers: Fields,
    pub trailers: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Start time in milliseconds (monotonic clock).
    pub began: u64,
    /// Whether it is the first attempt after an internal redirect.
    pub new_group: bool,
}

impl Attempt {
    /// The requested URL, for the error log.
    pub fn url(&self) -> String {
        let Attempt {
            peer, scheme, uri, ..
        } = self;
        let colon = if peer.starts_with("unix:") { ":" } else { "" };
        format!("{scheme}://{peer}{colon}{}", String::from_utf8_lossy(uri))
    }
}

/// The host and port of `proxy_pass`, for variables.
pub fn proxy_host(ex: &Exchange) -> Option<(String, String)> {
    let Some(Handler::Proxy(pass)) = &ex.loc.handler else {
        return None;
    };
    // As in nginx, a request that was refused earlier has no target.
    let target = ex.is_passed.then(|| proxy::Target::of(ex, pass).ok())??;
    let port = match target.authority.rsplit_once(':') {
        Some((_, p)) if !target.authority.starts_with("unix:") && !p.contains(']') => p.to_string(),
        _ if target.https => "443".to_string(),
        _ => "80".to_string(),
    };
    let unix = target.authority.starts_with("unix:");
    let authority = target.authority.into_owned();
    Some((authority, if unix { String::new() } else { port }))
}
