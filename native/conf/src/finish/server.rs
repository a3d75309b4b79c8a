//! A server block: merge its settings with the outer ones, and complete its names and addresses.

use super::location::finish_location;
use crate::builder::ServerNode;
use crate::error::Result;
use crate::model::*;
use crate::names::ServerName;
use crate::relations;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

type Finished = (Server, Arc<Vec<ServerName>>, Vec<Listen>);

pub(super) fn finish_server(
    mut node: ServerNode,
    outer: &SrvConf,
    top: &Arc<LocConf>,
) -> Result<Finished> {
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
