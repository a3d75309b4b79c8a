//! Finds values that depend only on the request's head and connection, so that they can be computed
//! before the phases run.

use crate::exchange::Exchange;
use gallop_conf::model::Map;
use gallop_conf::template::{Part, Template};
use gallop_conf::vars::{Builtin, VarId, VarKind};

/// The deepest nesting of tables that refer to each other.
const MAX_DEPTH: u32 = 8;

/// Whether the value depends only on the request's head and connection.
pub fn is_settled(ex: &Exchange, value: &Template) -> bool {
    is_settled_within(ex, value, MAX_DEPTH)
}

/// Whether the value uses a `map`, `geo`, or `split_clients`.
pub fn uses_tables(ex: &Exchange, value: &Template) -> bool {
    value.parts.iter().any(|part| match part {
        Part::Var(id) => matches!(
            kind(ex, *id),
            VarKind::Map(_) | VarKind::Geo(_) | VarKind::SplitClients(_)
        ),
        _ => false,
    })
}

fn kind(ex: &Exchange, id: VarId) -> &VarKind {
    &ex.worker.shared.config.vars.get(id).kind
}

fn is_settled_within(ex: &Exchange, value: &Template, depth: u32) -> bool {
    value.parts.iter().all(|part| match part {
        Part::Lit(_) | Part::Capture(_) => true,
        Part::Var(id) => is_settled_kind(ex, kind(ex, *id), depth),
    })
}

fn is_settled_kind(ex: &Exchange, kind: &VarKind, depth: u32) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    let settled = |value: &Template| is_settled_within(ex, value, depth);
    match kind {
        VarKind::Builtin(b) => is_known(*b),
        VarKind::Prefixed(prefix, _) => {
            use gallop_conf::vars::Prefix::{Arg, Cookie, Http};
            matches!(prefix, Http | Arg | Cookie)
        }
        VarKind::Map(map) => is_settled_map(map, settled),
        VarKind::Geo(geo) => geo.source.as_ref().is_none_or(settled),
        VarKind::Geoip2(lookup) => lookup.source.as_ref().is_none_or(settled),
        VarKind::SplitClients(split) => {
            settled(&split.source) && split.parts.iter().all(|(_, value)| settled(value))
        }
        VarKind::Undefined | VarKind::Assigned => false,
    }
}

/// A map with regular expressions may set captures for later values.
fn is_settled_map(map: &Map, settled: impl Fn(&Template) -> bool) -> bool {
    let tables = [&map.exact, &map.wildcard_head, &map.wildcard_tail];
    map.regexes.is_empty()
        && settled(&map.source)
        && settled(&map.default)
        && tables.iter().all(|table| table.values().all(&settled))
}

fn is_known(variable: Builtin) -> bool {
    use Builtin::*;
    matches!(
        variable,
        Args | BinaryRemoteAddr
            | Connection
            | ContentLength
            | ContentType
            | DocumentRoot
            | DocumentUri
            | FastcgiPathInfo
            | FastcgiScriptName
            | Host
            | Hostname
            | HttpXForwardedFor
            | Https
            | IsArgs
            | NginxVersion
            | Pid
            | ProxyAddXForwardedFor
            | ProxyHost
            | ProxyPort
            | QueryString
            | RemoteAddr
            | RemotePort
            | Request
            | RequestFilename
            | RequestId
            | RequestMethod
            | RequestUri
            | Scheme
            | ServerAddr
            | ServerName
            | ServerPort
            | ServerProtocol
            | SslAlpnProtocol
            | SslCipher
            | SslCurve
            | SslProtocol
            | SslServerName
            | SslSessionReused
            | Uri
    )
}
