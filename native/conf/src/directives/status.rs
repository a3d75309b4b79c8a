//! Status pages: `status`, `status_socket`, and `status_zone`.

use crate::builder::{Builder, HttpNode, LocNode, ServerNode};
use crate::error::{ConfError, Place, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use std::path::PathBuf;
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    with("status", SRV | LOC, Arity(0, 1), status),
    with("status_socket", HTTP, Arity(1, 2), status_socket),
    with("status_zone", SRV, ONE, status_zone),
];

const FORMATS: &[(&str, StatusFormat)] = &[
    ("format=json", StatusFormat::Json),
    ("format=prometheus", StatusFormat::Prometheus),
];

fn status(b: &mut Builder, d: &Directive) -> Result<()> {
    let format = match d.args().first() {
        None => StatusFormat::Json,
        Some(word) => match FORMATS.iter().find(|(name, _)| name == word) {
            Some((_, format)) => *format,
            None => return Err(invalid_parameter(d, word)),
        },
    };
    b.http().is_metered = true;
    b.node().handler = Some(Handler::Status(format));
    Ok(())
}

/// The longest path of a Unix socket in bytes (unix(7)).
const LONGEST_PATH: usize = 107;

fn status_socket(b: &mut Builder, d: &Directive) -> Result<()> {
    if b.http().status_socket.is_some() {
        return Err(duplicate(d));
    }
    let path = b.path(d.args()[0].strip_prefix("unix:").unwrap_or(&d.args()[0]));
    if path.as_os_str().len() > LONGEST_PATH {
        let shown = path.display();
        return Err(ConfError::new(format!(
            "too long path \"{shown}\" for a unix socket: {LONGEST_PATH} bytes at most"
        )));
    }
    let mode = match d.args().get(1) {
        None => 0o600,
        Some(word) => mode(word).ok_or_else(|| invalid_parameter(d, word))?,
    };
    let http = b.http();
    http.is_metered = true;
    http.status_socket = Some(listen(path, mode, &d.place));
    Ok(())
}

/// Parse `mode=0660`: permissions in octal.
fn mode(word: &str) -> Option<u32> {
    let mode = u32::from_str_radix(word.strip_prefix("mode=")?, 8).ok()?;
    (mode & !0o777 == 0).then_some(mode)
}

fn listen(path: PathBuf, mode: u32, place: &Place) -> Listen {
    Listen {
        addr: ListenAddr::Unix(path),
        default_server: false,
        ssl: false,
        http2: false,
        quic: false,
        udp: false,
        proxy_protocol: false,
        socket: SocketOptions {
            mode: Some(mode),
            ..SocketOptions::default()
        },
        place: place.clone(),
    }
}

fn status_zone(b: &mut Builder, d: &Directive) -> Result<()> {
    let name = &d.args()[0];
    if name.is_empty() || name.len() > 255 {
        return Err(invalid_value(d));
    }
    store(&mut super::server::current(b).zone, name.clone(), d)
}

/// The server block behind `status_socket`: JSON for every path except `/metrics`. It inherits
/// nothing.
pub(crate) fn server(http: &mut HttpNode) -> Option<ServerNode> {
    let listen = http.status_socket.take()?;
    let place = listen.place.clone();
    let shows = |name: &str, kind, format| {
        let mut node = LocNode::new(name, kind, &place);
        node.handler = Some(Handler::Status(format));
        node
    };
    let mut root = shows("", LocKind::Server, StatusFormat::Json);
    root.conf.get_or_insert_default().access_log = Some(Arc::default());
    root.children = vec![shows("/metrics", LocKind::Exact, StatusFormat::Prometheus)];
    Some(ServerNode {
        conf: SrvConf::default(),
        names: Vec::new(),
        first_name: None,
        listens: vec![listen],
        zone: None,
        root,
        stream: StreamServer::default(),
        place,
    })
}
