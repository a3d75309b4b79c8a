//! proxy_pass.

use super::attempts;
use super::balancers::Balancers;
use super::methods::Hint;
use super::request::{HttpRequest, Wire};
use super::state::Group;
use super::sticky;
use super::transfer::{Plan, Protocol};
use crate::escape::{self, Shown, Use};
use crate::exchange::Exchange;
use crate::phases::flow::Flow;
use crate::scope::Scope;
use crate::template;
use gallop_conf::directives::upstream_conf::ProxyUrl;
use gallop_conf::model::{self, Balance, Level, Peer, PeerAddr, ProxyPass, UpConf, Upstream};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// The target of a proxied request.
pub struct Target<'a> {
    pub https: bool,
    /// `host`, `host:port`, or `unix:/path` as written.
    pub authority: Cow<'a, str>,
    /// The URI of a `proxy_pass` with variables.
    pub uri: Option<Vec<u8>>,
}

impl Target<'_> {
    pub fn of<'a>(ex: &Exchange, pass: &'a ProxyPass) -> Result<Target<'a>, String> {
        let Some(url) = &pass.url else {
            return Ok(Target {
                https: pass.https,
                authority: Cow::Borrowed(&pass.host),
                uri: None,
            });
        };
        let bytes = template::eval(ex, url);
        let text = String::from_utf8_lossy(&bytes);
        let parsed = ProxyUrl::parse(&text)
            .map_err(|_| format!("invalid URL prefix in \"{}\"", Shown(&bytes)))?;
        Ok(Target {
            https: parsed.https,
            authority: parsed.authority.to_string().into(),
            // The client's bytes are passed on unchanged, even if they are no text.
            uri: parsed.uri.map(|u| tail(&bytes, text.len() - u.len())),
        })
    }
}

fn tail(bytes: &[u8], at: usize) -> Vec<u8> {
    bytes.get(at..).unwrap_or_default().to_vec()
}

/// Find the group for an address from variables, or create one. A `default_port` of 0 is none.
pub async fn group_of<S: Scope + ?Sized>(
    scope: &S,
    balancers: &Balancers,
    authority: &str,
    default_port: u16,
) -> Result<(Option<usize>, Arc<Group>), String> {
    let mut groups = balancers.groups().enumerate();
    let known = groups.find(|(_, g)| match g.conf.port {
        None => g.conf.name == authority,
        Some(port) => {
            port == default_port && g.conf.name == authority
                || format!("{}:{port}", g.conf.name) == authority
        }
    });
    if let Some((i, group)) = known {
        return Ok((Some(i), group));
    }
    let addresses = match authority.strip_prefix("unix:") {
        Some(path) if ascends(path) => {
            return Err(format!(
                "upstream \"{}\" is refused: its \"..\" comes from the request, not from the configuration",
                Shown(authority.as_bytes())
            ));
        }
        Some(path) => vec![PeerAddr::Unix(path.into())],
        None => match literal(authority, default_port) {
            Some(address) => vec![PeerAddr::Inet(address)],
            None => resolved(scope, authority, default_port).await?,
        },
    };
    let peer = |addr: PeerAddr| Peer {
        max_fails: 0,
        fail_timeout: 0,
        ..Peer::new(authority.to_string(), addr)
    };
    let conf = Upstream {
        name: authority.to_string(),
        port: None,
        in_stream: false,
        explicit: false,
        peers: addresses.into_iter().map(peer).collect(),
        resolving: Vec::new(),
        resolver: None,
        resolver_timeout: None,
        balance: Balance::RoundRobin,
        sticky: None,
        keepalive: 0,
        keepalive_local: true,
        keepalive_requests: 1000,
        keepalive_timeout: 60_000,
        keepalive_time: 3_600_000,
        zone: None,
        checks: Vec::new(),
        place: None,
    };
    Ok((None, Arc::new(Group::new(Arc::new(conf)))))
}

/// Whether a socket path from variables has a `..` segment.
fn ascends(path: &str) -> bool {
    path.split('/').any(|segment| segment == "..")
}

/// An IP address with its port or the default port.
fn literal(authority: &str, default_port: u16) -> Option<SocketAddr> {
    if let Ok(address) = authority.parse() {
        return Some(address);
    }
    let bare = authority.trim_start_matches('[').trim_end_matches(']');
    let ip = bare.parse().ok().filter(|_| default_port != 0)?;
    Some(SocketAddr::new(ip, default_port))
}

/// Resolve a name with the location's resolver.
async fn resolved<S: Scope + ?Sized>(
    scope: &S,
    authority: &str,
    default_port: u16,
) -> Result<Vec<PeerAddr>, String> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().unwrap_or(0)),
        None => (authority, default_port),
    };
    if port == 0 {
        return Err(format!(
            "no port in upstream \"{}\"",
            Shown(authority.as_bytes())
        ));
    }
    let settings = scope.settings();
    let Some(conf) = &settings.resolver else {
        return Err(format!("no resolver defined to resolve {host}"));
    };
    let patience = settings.resolver_timeout.unwrap_or(30_000);
    let worker = scope.worker();
    let found = worker.resolver.resolve(conf, host, patience).await?;
    let address = |ip| PeerAddr::Inet(SocketAddr::new(ip, port));
    Ok(found.into_iter().map(address).collect())
}

pub fn hint(ex: &Exchange, group: &Group) -> Hint {
    let key = match &group.conf.balance {
        Balance::Hash { key, .. } => template::eval(ex, key),
        _ => Vec::new(),
    };
    let mut hint = Hint {
        client: ex.client,
        key,
        ..Hint::default()
    };
    sticky::find(ex, group, &mut hint);
    hint
}

pub async fn serve(ex: &mut Exchange, pass: &ProxyPass) -> Flow {
    ex.is_passed = true;
    let target = match Target::of(ex, pass) {
        Ok(target) => target,
        Err(message) => {
            ex.log(Level::Error, &message);
            return Flow::Status(500);
        }
    };
    let found = match &pass.target {
        model::Target::Upstream(i) => Ok((Some(*i), ex.worker.shared.balancers.group(*i))),
        model::Target::Variable => {
            let port = if target.https { 443 } else { 80 };
            group_of(ex, &ex.worker.shared.balancers, &target.authority, port).await
        }
    };
    let (index, group) = match found {
        Ok(found) => found,
        Err(message) => {
            ex.log(Level::Error, &message);
            return Flow::Status(502);
        }
    };
    let conf: Arc<UpConf> = ex.loc.conf.proxy.clone().unwrap_or_default();
    let uri: Rc<[u8]> = request_uri(ex, Some(pass), target.uri.as_deref()).into();
    let scheme = if target.https { "https" } else { "http" };
    let cache_key = match conf.cache {
        None => Vec::new(),
        Some(_) => [format!("{scheme}://{}", target.authority).as_bytes(), &uri].concat(),
    };
    let wire = match conf.http_version {
        Some(2000) => Wire::Http2,
        _ => Wire::Http1,
    };
    let request = HttpRequest {
        wire,
        uri: uri.clone(),
        host: host_header(&target),
        as_get: false,
    };
    let plan = Plan {
        hint: hint(ex, &group),
        group,
        index,
        conf,
        tls: target.https,
        scheme,
        cache_key,
        uri,
        default_name: match target.https {
            true => host_only(&target.authority),
            false => String::new(),
        },
        protocol: Protocol::Http(request),
        memcached_key: Vec::new(),
        pass: Some(pass),
    };
    attempts::run(ex, plan).await
}

pub(super) fn host_only(authority: &str) -> String {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|c| c.is_ascii_digit()) => host.to_string(),
        _ => authority.to_string(),
    }
}

/// `$proxy_host` as a Host value: `localhost` for Unix sockets, without a default port.
pub(super) fn host_header(target: &Target) -> String {
    if target.authority.starts_with("unix:") {
        return "localhost".into();
    }
    let default = if target.https { ":443" } else { ":80" };
    target
        .authority
        .strip_suffix(default)
        .unwrap_or(&target.authority)
        .to_string()
}

/// The request URI, escaped so that it cannot end the request line.
pub(super) fn request_uri(ex: &Exchange, pass: Option<&ProxyPass>, own: Option<&[u8]>) -> Vec<u8> {
    escape::request_target(unchecked_uri(ex, pass, own))
}

/// The request URI: as received, or with the location's part replaced. `own`: the URI of a
/// `proxy_pass` with variables.
fn unchecked_uri(ex: &Exchange, pass: Option<&ProxyPass>, own: Option<&[u8]>) -> Vec<u8> {
    if let Some(uri) = own {
        let slash: &[u8] = if uri.starts_with(b"/") { b"" } else { b"/" };
        return [slash, uri].concat();
    }
    let given = pass.and_then(|pass| Some((pass.uri.as_deref()?, pass.replaces)));
    if given.is_none() && !ex.uri_changed {
        let unparsed = ex.unparsed_uri();
        return match unparsed.first() {
            Some(b'/') => unparsed.to_vec(),
            _ => [b"/", unparsed].concat(),
        };
    }
    let mut out = Vec::new();
    let mut rest = &ex.uri.path[..];
    if let Some((uri, replaces)) = given.filter(|_| ex.location_valid) {
        if !uri.starts_with('/') {
            out.push(b'/');
        }
        out.extend_from_slice(uri.as_bytes());
        rest = rest.get(replaces..).unwrap_or(b"");
    }
    // As in nginx, a path that arrived without escapes and was not rewritten is not escaped.
    if ex.uri.quoted || ex.internal {
        escape::escape(rest, Use::Uri, &mut out);
    } else {
        out.extend_from_slice(rest);
    }
    if !ex.uri.args.is_empty() {
        out.push(b'?');
        out.extend_from_slice(&ex.uri.args);
    }
    out
}
