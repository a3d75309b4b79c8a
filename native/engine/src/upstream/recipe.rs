//! What the quick way needs to know of a location, worked out once; and which locations it is for.

use super::proxy::{host_header, Target};
use super::state::Group;
use crate::exchange::Exchange;
use crate::fast::is_straight;
use gallop_conf::model::{
    self, items, Balance, CacheUse, Handler, Level, LocConf, Location, PeerAddr, ProxyPass,
    StorePlace, UpConf,
};
use gallop_conf::template::{Part, Template};
use gallop_conf::vars::{Builtin, VarKind};
use std::rc::Rc;
use std::sync::Arc;

/// How the requests of a location are passed on.
pub struct Recipe {
    pub conf: Arc<UpConf>,
    pub group: Arc<Group>,
    /// The group's index in the configuration.
    pub index: usize,
    /// `Host`, where the server speaks HTTP; `None`: FastCGI.
    pub host: Option<String>,
    /// Lines of every answer's head.
    pub server: Vec<u8>,
    pub connection: Vec<u8>,
    /// Requests are written to an access log.
    pub is_logged: bool,
}

impl Recipe {
    pub fn scheme(&self) -> &'static str {
        match self.host {
            Some(_) => "http",
            None => "fastcgi",
        }
    }

    /// The recipe of the location that was chosen, if the quick way is for it.
    pub fn of(ex: &Exchange) -> Option<Recipe> {
        let loc = &ex.loc;
        if !is_straight(&ex.server, loc) || !is_simple(loc) || is_watched(ex) {
            return None;
        }
        let (target, conf, host) = match loc.handler.as_ref()? {
            Handler::Proxy(pass) => {
                let conf = loc.conf.proxy.clone().unwrap_or_default();
                (&pass.target, conf, Some(host_of(ex, pass)?))
            }
            Handler::Fastcgi(pass) => {
                let conf = loc.conf.fastcgi.clone().unwrap_or_default();
                (&pass.target, conf, None)
            }
            _ => return None,
        };
        let model::Target::Upstream(index) = *target else {
            return None;
        };
        let group = ex.worker.shared.balancers.group(index);
        let params = match host {
            Some(_) => items(&conf.set_headers),
            None => items(&loc.conf.fastcgi_params),
        };
        let root = loc.conf.root.as_ref();
        let fits = is_usual(&conf)
            && is_reachable(&group)
            && root.is_none_or(|root| is_settled(ex, &root.path))
            && params.iter().all(|p| is_settled(ex, &p.value));
        fits.then(|| Recipe {
            server: server_line(ex),
            connection: connection_line(&loc.conf),
            is_logged: !items(&loc.conf.access_log).is_empty(),
            conf,
            group,
            index,
            host,
        })
    }
}

fn host_of(ex: &Exchange, pass: &ProxyPass) -> Option<String> {
    let plain = pass.url.is_none() && !pass.https;
    let target = plain.then(|| Target::of(ex, pass).ok())??;
    Some(host_header(&target))
}

fn server_line(ex: &Exchange) -> Vec<u8> {
    [b"Server: ", &crate::errors::product(ex)[..], b"\r\n"].concat()
}

fn connection_line(conf: &LocConf) -> Vec<u8> {
    let mut line = b"Connection: keep-alive\r\n".to_vec();
    if let Some((_, Some(seconds))) = conf.keepalive_timeout {
        line.extend_from_slice(format!("Keep-Alive: timeout={seconds}\r\n").as_bytes());
    }
    line
}

/// No step of the request's way is logged.
fn is_watched(ex: &Exchange) -> bool {
    let logs = match &ex.loc.conf.error_log {
        Some(own) => own,
        None => &ex.worker.shared.error_log,
    };
    let main = &ex.worker.shared.config.main;
    !main.debug_connection.is_empty() || logs.iter().any(|l| l.level == Level::Debug)
}

/// Requests are neither refused here nor sent elsewhere, and nothing is added to their answers.
fn is_simple(loc: &Location) -> bool {
    let conf = &loc.conf;
    let off = |flag: Option<bool>| flag != Some(true);
    !loc.internal
        && loc.try_files.is_none()
        && items(&conf.add_header).is_empty()
        && off(conf.gzip)
        && conf.charset.as_ref().is_none_or(|c| c.0.is_none())
        && conf.slice.unwrap_or(0) == 0
        && conf.chunked_transfer_encoding != Some(false)
        && conf.keepalive_timeout.is_none_or(|t| t.0 > 0)
}

/// Fields that an answer's head has places of their own for.
const HAVE_PLACES: [&str; 3] = ["content-type", "last-modified", "etag"];

/// Answers are passed on as they are, and come from nowhere else.
fn is_usual(conf: &UpConf) -> bool {
    let off = |flag: Option<bool>| flag != Some(true);
    conf.buffering != Some(false)
        && off(conf.intercept_errors)
        && off(conf.force_ranges)
        && conf.method.is_none()
        && conf.set_body.is_none()
        && conf.limit_rate.is_none()
        && conf.bind.is_none()
        && items(&conf.pass_headers).is_empty()
        && items(&conf.cookie_domain).is_empty()
        && items(&conf.cookie_path).is_empty()
        && items(&conf.cookie_flags).is_empty()
        && conf.hidden().iter().all(|n| !HAVE_PLACES.contains(&&n[..]))
        && matches!(conf.cache, None | Some(CacheUse::Off))
        && matches!(conf.store, None | Some(StorePlace::Off))
}

/// The choice of a server needs nothing of the request, and there is a connection without waiting.
fn is_reachable(group: &Group) -> bool {
    let conf = &group.conf;
    let balance = matches!(conf.balance, Balance::RoundRobin | Balance::LeastConn);
    let unix = |peer: &model::Peer| matches!(peer.addr, PeerAddr::Unix(_));
    balance && conf.resolving.is_empty() && (conf.keepalive > 0 || conf.peers.iter().all(unix))
}

/// The value depends on nothing but the request's head and its connection.
fn is_settled(ex: &Exchange, value: &Template) -> bool {
    value.parts.iter().all(|part| match part {
        Part::Lit(_) | Part::Capture(_) => true,
        Part::Var(id) => match &ex.worker.shared.config.vars.get(*id).kind {
            VarKind::Builtin(b) => is_known(*b),
            VarKind::Prefixed(prefix, _) => {
                use gallop_conf::vars::Prefix::{Arg, Cookie, Http};
                matches!(prefix, Http | Arg | Cookie)
            }
            _ => false,
        },
    })
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
            | RequestMethod
            | RequestUri
            | Scheme
            | ServerAddr
            | ServerName
            | ServerPort
            | ServerProtocol
            | Uri
    )
}

/// Recipes by their locations, which live as long as the configuration. `None`: not the quick way.
pub type Recipes = hashbrown::HashMap<usize, Option<Rc<Recipe>>>;

/// The recipe of a request's location.
pub fn look_up(ex: &Exchange, recipes: &mut Recipes) -> Option<Rc<Recipe>> {
    let key = Arc::as_ptr(&ex.loc) as usize;
    let known = recipes.entry(key);
    known.or_insert_with(|| Recipe::of(ex).map(Rc::new)).clone()
}
