//! The groups of upstream servers: give them their addresses and resolvers.

use crate::error::{ConfError, Result};
use crate::listen::resolve;
use crate::model::*;

/// Resolve the addresses of implicit groups.
pub(super) fn resolve_upstreams(upstreams: &mut [Upstream]) -> Result<()> {
    for group in upstreams.iter_mut().filter(|u| !u.explicit) {
        let place = group.place.clone();
        let fail = |message: String| ConfError {
            message,
            place: place.clone(),
        };
        if let Some(path) = group.name.strip_prefix("unix:") {
            let addr = PeerAddr::Unix(path.into());
            group.peers.push(Peer::new(group.name.clone(), addr));
            continue;
        }
        let port = group.port.unwrap_or(0);
        if port == 0 {
            return Err(fail(format!("no port in upstream \"{}\"", group.name)));
        }
        let found = resolve(&group.name, port)
            .map_err(|e| fail(format!("{e} in upstream \"{}\"", group.name)))?;
        for addr in found {
            group.peers.push(Peer::new(
                format!("{}:{port}", group.name),
                PeerAddr::Inet(addr),
            ));
        }
    }
    Ok(())
}

/// Give resolvers to groups whose names are resolved periodically.
pub(super) fn give_resolvers(upstreams: &mut [Upstream], top: &LocConf) -> Result<()> {
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
