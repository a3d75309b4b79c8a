//! The http block: merge the levels and assemble its server blocks.

use super::health;
use super::listeners::{build_listeners, Listens};
use super::server::finish_server;
use super::upstreams::{give_resolvers, resolve_upstreams};
use super::zones::{check_limit_zones, check_upstream_zones};
use crate::builder::{Builder, HttpNode, LocNode, ServerNode};
use crate::error::Result;
use crate::model::*;
use crate::relations;
use hashbrown::HashMap;
use std::path::Path;
use std::sync::Arc;

pub(super) fn finish(b: &mut Builder, mut node: HttpNode, mut locs: Vec<LocNode>) -> Result<Http> {
    let mut top = *locs.pop().expect("the http level").conf.unwrap_or_default();
    top.types
        .get_or_insert_with(|| Arc::new(crate::directives::default_types()));
    check_limit_zones(&node)?;
    crate::directives::cache::check(&node)?;
    check_upstream_zones(&node)?;
    resolve_upstreams(&mut node.upstreams)?;
    give_resolvers(&mut node.upstreams, &top)?;
    if top.access_log.is_none() {
        top.access_log = Some(Arc::new(vec![default_access_log(&b.prefix)]));
    }
    let top = Arc::new(top);
    let (servers, listens, zones) = finish_servers(b, &mut node, &top)?;
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
        status_zones: zones,
        is_metered: node.is_metered,
    })
}

/// The log of a block without `access_log`.
fn default_access_log(prefix: &Path) -> AccessLog {
    let target = AccessTarget::Fixed(default_access_target(prefix));
    AccessLog {
        target,
        format: 0,
        condition: None,
        buffer: None,
        flush: None,
        gzip: None,
    }
}

type Servers = (Vec<Arc<Server>>, Listens, Vec<String>);

/// Assemble the server blocks, with their addresses and the names of their status zones.
fn finish_servers(b: &mut Builder, node: &mut HttpNode, top: &Arc<LocConf>) -> Result<Servers> {
    let mut servers = Vec::new();
    let mut listens = Vec::new();
    let mut zones = Zones::default();
    if let Some(own) = crate::directives::status::server(node) {
        let (server, names, at) = finish_server(own, &SrvConf::default(), &Arc::default())?;
        let server = Arc::new(server);
        listens.extend(at.into_iter().map(|l| (l, server.clone(), names.clone())));
    }
    for server in std::mem::take(&mut node.servers) {
        let zone = zones.of(&server);
        let (mut server, names, at) = finish_server(server, &node.conf, top)?;
        relations::check_places(&server, &node.charset_maps)?;
        warn_of_cache_keys(b, &server);
        server.zone = Some(zone);
        let server = Arc::new(server);
        listens.extend(at.into_iter().map(|l| (l, server.clone(), names.clone())));
        servers.push(server);
    }
    Ok((servers, listens, zones.names))
}

/// Warn of a server block with a location that caches responses without a key.
fn warn_of_cache_keys(b: &mut Builder, server: &Server) {
    for protocol in AppProtocol::ALL {
        if relations::lacks_cache_key(&server.root, protocol) {
            let name = protocol.name();
            let message = format!("no \"{name}_cache_key\" for \"{name}_cache\"");
            b.warn(message, &server.place);
        }
    }
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
