//! The stream block: merge the levels and assemble its server blocks.

use super::health;
use super::listeners::build_listeners;
use super::server::finish_server;
use super::upstreams::{give_resolvers, resolve_upstreams};
use super::zones::{check_limit_zones, check_upstream_zones};
use crate::builder::{Builder, StreamNode};
use crate::directives;
use crate::error::{ConfError, Result};
use crate::model::*;
use std::sync::Arc;

pub(super) fn finish(b: &mut Builder, stream: StreamNode) -> Result<Stream> {
    let StreamNode {
        mut node,
        top,
        vars,
    } = stream;
    let mut top = *top.conf.unwrap_or_default();
    check_limit_zones(&node)?;
    check_upstream_zones(&node)?;
    resolve_upstreams(&mut node.upstreams)?;
    give_resolvers(&mut node.upstreams, &top)?;
    // Unlike http, stream writes no access log by default.
    top.access_log.get_or_insert_default();
    let top = Arc::new(top);
    let (mut servers, mut listens) = (Vec::new(), Vec::new());
    for mut server in node.servers {
        let mut own = std::mem::take(&mut server.stream);
        own.conf.inherit(&node.stream);
        // Only a server block that passes sessions on needs these settings.
        server
            .root
            .conf
            .get_or_insert_default()
            .proxy
            .get_or_insert_default();
        let (mut server, names, at) = finish_server(server, &node.conf, &top)?;
        server.stream = Some(Box::new(own));
        directives::stream::check_server(&server)?;
        let server = Arc::new(server);
        listens.extend(at.into_iter().map(|l| (l, server.clone(), names.clone())));
        servers.push(server);
    }
    health::attach(&servers, &mut node.upstreams, &node.matches)?;
    let mut listeners = build_listeners(b, listens)?;
    listeners.iter_mut().for_each(|l| l.stream = true);
    vars.check()?;
    Ok(Stream {
        settings: top,
        servers,
        listeners,
        upstreams: node.upstreams.into_iter().map(Arc::new).collect(),
        log_formats: node.log_formats,
        limit_conn_zones: node.limit_conn_zones,
        vars,
    })
}

/// Refuse an address that http and stream both listen on, in the words of the second `bind()`.
pub(super) fn check_addresses<'a>(
    http: impl Iterator<Item = &'a Listener> + Clone,
    stream: impl Iterator<Item = &'a Listener>,
) -> Result<()> {
    for listener in stream {
        let same = |l: &Listener| l.addr == listener.addr && l.quic == listener.udp;
        if http.clone().any(same) {
            let message = format!(
                "bind() to {} failed (98: Address already in use): \"http\" and \"stream\" listen on it",
                listener.addr
            );
            return Err(ConfError::new(message));
        }
    }
    Ok(())
}
