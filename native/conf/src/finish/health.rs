//! Health checks: give each one to the group whose servers it checks.

use crate::error::{ConfError, Result};
use crate::model::*;
use hashbrown::HashMap;
use std::sync::Arc;

type Matches = HashMap<String, Arc<Tests>>;

/// Add the checks of these server blocks to their groups.
///
/// # Errors
/// A check has no group whose servers it could check, or names an unknown match block.
pub(super) fn attach(
    servers: &[Arc<Server>],
    groups: &mut [Upstream],
    matches: &Matches,
) -> Result<()> {
    for server in servers {
        let own = server.stream.iter().flat_map(|stream| &stream.checks);
        let own = own.map(|conf| (conf, &server.root));
        let mut all: Vec<(&CheckConf, &Arc<Location>)> = own.collect();
        collect(&server.root, &mut all);
        for (conf, location) in all {
            let fail = |message: String| ConfError::at(message, &conf.place);
            let index = group_of(server, location, conf).map_err(fail)?;
            let conf = CheckConf {
                tests: tests(conf, matches).map_err(fail)?,
                ..conf.clone()
            };
            let check = HealthCheck {
                conf,
                server: server.clone(),
                location: location.clone(),
            };
            add(&mut groups[index], check)?;
        }
    }
    Ok(())
}

/// The checks of all locations inside this one.
fn collect<'a>(place: &'a Location, out: &mut Vec<(&'a CheckConf, &'a Arc<Location>)>) {
    for inner in place.children.all() {
        out.extend(inner.checks.iter().map(|conf| (conf, inner)));
        collect(inner, out);
    }
}

fn tests(conf: &CheckConf, matches: &Matches) -> std::result::Result<Option<Arc<Tests>>, String> {
    let name = &conf.match_name;
    match (name.is_empty(), matches.get(name)) {
        (true, _) => Ok(None),
        (false, Some(tests)) => Ok(Some(tests.clone())),
        (false, None) => Err(format!("match \"{name}\" is not found")),
    }
}

/// The index of the group that the place passes requests to.
fn group_of(
    server: &Server,
    location: &Location,
    conf: &CheckConf,
) -> std::result::Result<usize, String> {
    let is_grpc = matches!(conf.kind, CheckKind::Grpc { .. });
    let stream = server.stream.as_ref().and_then(|s| s.handler.as_ref());
    let target = match (stream, &location.handler) {
        (Some(StreamHandler::Proxy(pass)), _) => &pass.target,
        (None, Some(Handler::Application(pass))) => match is_grpc {
            true if pass.protocol != AppProtocol::Grpc => {
                return Err("\"type=grpc\" requires \"grpc_pass\" in the location".into());
            }
            _ => &pass.target,
        },
        (None, Some(Handler::Proxy(_))) if is_grpc => {
            return Err("\"type=grpc\" requires \"grpc_pass\" in the location".into());
        }
        (None, Some(Handler::Proxy(pass))) => &pass.target,
        _ => {
            return Err("\"health_check\" requires a place that passes requests on".into());
        }
    };
    match target {
        Target::Upstream(index) => Ok(*index),
        Target::Variable => {
            Err("\"health_check\" cannot be used where variables name the upstream".into())
        }
    }
}

fn add(group: &mut Upstream, check: HealthCheck) -> Result<()> {
    let name = &group.name;
    let fault = if group.zone.is_none() {
        format!("health checks require upstream \"{name}\" to be in shared memory: add \"zone\"")
    } else if group.checks.len() >= MOST_CHECKS {
        format!("too many health checks of upstream \"{name}\": {MOST_CHECKS} at most")
    } else {
        group.checks.push(Arc::new(check));
        return Ok(());
    };
    Err(ConfError::at(fault, &check.conf.place))
}
