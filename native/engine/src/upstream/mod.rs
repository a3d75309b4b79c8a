//! Answers fetched from other servers.

pub mod keepalive;
pub mod state;

use crate::exchange::Exchange;
use crate::phases::Flow;
use gallop_conf::model::{FastcgiPass, Handler, Level, ProxyPass};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What is only known when the answer's body has ended.
#[derive(Debug, Default)]
pub struct Totals {
    /// Milliseconds; `None` while it lasts.
    pub response_ms: Cell<Option<u64>>,
    /// Bytes of the body.
    pub length: Cell<u64>,
    pub received: Cell<u64>,
    pub sent: Cell<u64>,
}

/// One try at one server.
#[derive(Debug, Default)]
pub struct Attempt {
    pub peer: String,
    /// The URL asked for, for the error log.
    pub url: String,
    pub status: u16,
    /// Milliseconds.
    pub connect_ms: Option<u64>,
    pub header_ms: Option<u64>,
    pub times: Rc<Totals>,
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub trailers: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    /// The first after an internal redirect.
    pub new_group: bool,
}

/// Host and port that `proxy_pass` names, for variables.
pub fn proxy_host(ex: &Exchange) -> Option<(String, String)> {
    let Some(Handler::Proxy(pass)) = &ex.loc.handler else {
        return None;
    };
    let port = match pass.host.rsplit_once(':') {
        Some((_, p)) if !pass.host.starts_with("unix:") && !p.contains(']') => p.to_string(),
        _ if pass.https => "443".to_string(),
        _ => "80".to_string(),
    };
    Some((pass.host.clone(), port))
}

pub async fn proxy(ex: &mut Exchange, _pass: &ProxyPass) -> Flow {
    ex.log(Level::Error, "proxying is not built in");
    Flow::Status(502)
}

pub async fn fastcgi(ex: &mut Exchange, _pass: &FastcgiPass) -> Flow {
    ex.log(Level::Error, "fastcgi is not built in");
    Flow::Status(502)
}
