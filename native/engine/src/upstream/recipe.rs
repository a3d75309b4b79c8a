//! Precomputed information about a location for proxying without a task, and the rules for which
//! locations this is possible. [`super::settled`] has the rules for values.

use super::answer::Giver;
use super::application::must_check_scripts;
use super::form::{Fixed, Form, FORMS};
use super::proxy::{host_header, Target};
use super::settled::{is_settled, uses_tables};
use super::state::Group;
use crate::exchange::Exchange;
use crate::fast::is_straight;
use crate::filters::is_usual_status;
use gallop_conf::model::{
    self, items, AppProtocol, Balance, CacheUse, Handler, InFile, Level, LocConf, Location,
    PeerAddr, ProxyPass, StorePlace, UpConf,
};
use std::rc::Rc;
use std::sync::Arc;

/// The way that requests of a location are passed on.
pub struct Recipe {
    pub conf: Arc<UpConf>,
    pub group: Arc<Group>,
    /// The group's index in the configuration.
    pub index: usize,
    /// The `Host` value for HTTP; `None` for FastCGI.
    pub host: Option<String>,
    fixed: [Fixed; 3],
    /// Whether values of `map`, `geo`, or `split_clients` are used, which are cached per request.
    pub uses_tables: bool,
    /// Whether a script's path may ascend by a `..` from the request.
    pub checks_scripts: bool,
    /// Whether requests are written to an access log.
    pub is_logged: bool,
}

/// A field that `add_header` adds to responses.
pub struct Added<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// Whether it applies to every status.
    pub always: bool,
}

/// The added fields; `None` if one needs a task.
fn added(conf: &LocConf) -> Option<Vec<Added<'_>>> {
    let mut all = Vec::new();
    for header in items(&conf.add_header) {
        let value = header.value.as_literal()?;
        let name = header.name.to_ascii_lowercase();
        if matches!(&name[..], "etag" | "last-modified")
            || value.contains(&b'\r')
            || value.contains(&b'\n')
        {
            return None;
        }
        if !value.is_empty() {
            all.push(Added {
                name: header.name.as_bytes(),
                value,
                always: header.always,
            });
        }
    }
    Some(all)
}

impl Recipe {
    pub(super) fn giver(&self) -> Giver {
        match self.host {
            Some(_) => Giver::Server,
            None => Giver::Application(AppProtocol::Fastcgi),
        }
    }

    /// The constant part of responses in this format.
    pub fn fixed(&self, form: Form) -> &Fixed {
        &self.fixed[form.index()]
    }

    /// The fields added to a response with this status.
    pub fn added(&self, form: Form, status: u16) -> &[u8] {
        let fixed = self.fixed(form);
        match is_usual_status(status) {
            true => &fixed.added,
            false => &fixed.always,
        }
    }

    /// Whether a request body of this length is passed on unchanged from memory.
    pub fn takes_body(&self, conf: &LocConf, length: u64) -> bool {
        let largest = conf.client_max_body_size.unwrap_or(1 << 20);
        let memory = conf.client_body_buffer_size.unwrap_or(16 * 1024);
        let on_disk = conf.client_body_in_file_only.unwrap_or(InFile::Off) != InFile::Off;
        let fits = length <= memory && (largest == 0 || length <= largest);
        fits && !on_disk && self.conf.pass_request_body != Some(false)
    }

    pub fn scheme(&self) -> &'static str {
        match self.host {
            Some(_) => "http",
            None => "fastcgi",
        }
    }

    /// The recipe of the chosen location; `None` if its requests need a task.
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
            Handler::Application(pass) if pass.protocol == AppProtocol::Fastcgi => {
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
            None => items(&conf.params),
        };
        let root = loc.conf.root.as_ref();
        let values = || params.iter().map(|p| &p.value).chain(root.map(|r| &r.path));
        let settled = values().all(|v| is_settled(ex, v));
        let uses_tables = values().any(|v| uses_tables(ex, v));
        let added = added(&loc.conf)?;
        let fits = settled && is_usual(&conf) && is_reachable(&group);
        fits.then(|| Recipe {
            fixed: FORMS.map(|form| Fixed::of(ex, &added, form)),
            uses_tables,
            is_logged: !items(&loc.conf.access_log).is_empty(),
            checks_scripts: host.is_none() && must_check_scripts(ex, &conf),
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

/// Whether no debug log is written.
fn is_watched(ex: &Exchange) -> bool {
    let logs = match &ex.loc.conf.error_log {
        Some(own) => own,
        None => &ex.worker.shared.error_log,
    };
    let main = &ex.worker.shared.config.main;
    !main.debug_connection.is_empty() || logs.iter().any(|l| l.level == Level::Debug)
}

/// Whether the location neither rejects nor redirects requests, and its responses do not depend on
/// them.
fn is_simple(loc: &Location) -> bool {
    let conf = &loc.conf;
    let off = |flag: Option<bool>| flag != Some(true);
    !loc.internal
        && loc.try_files.is_none()
        && (off(conf.gzip) || off(conf.gzip_vary))
        && conf.charset.as_ref().is_none_or(|c| c.0.is_none())
        && conf.slice.unwrap_or(0) == 0
        && conf.chunked_transfer_encoding != Some(false)
        && conf.keepalive_timeout != Some(0)
}

/// Fields with a fixed place in a response head.
const HAVE_PLACES: [&str; 3] = ["content-type", "last-modified", "etag"];

/// Whether responses are passed on unchanged and come from a server, not a cache.
fn is_usual(conf: &UpConf) -> bool {
    let off = |flag: Option<bool>| flag != Some(true);
    conf.buffering != Some(false)
        && conf.http_version != Some(2000)
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

/// Whether a server can be chosen without the request and a connection is available without
/// waiting.
fn is_reachable(group: &Group) -> bool {
    let conf = &group.conf;
    let balance = matches!(conf.balance, Balance::RoundRobin | Balance::LeastConn);
    let near = |peer: &model::Peer| is_near(&peer.addr);
    let is_free = balance && conf.sticky.is_none();
    is_free && conf.resolving.is_empty() && (conf.keepalive > 0 || conf.peers.iter().all(near))
}

/// Whether connecting takes no time because the system does it within the call.
pub fn is_near(addr: &PeerAddr) -> bool {
    match addr {
        PeerAddr::Unix(_) => true,
        PeerAddr::Inet(addr) => addr.ip().is_loopback(),
    }
}

/// Recipes by location, valid for the configuration. `None`: requests need a task.
pub type Recipes = hashbrown::HashMap<usize, Option<Rc<Recipe>>>;

/// The recipe of a request's location.
pub fn look_up(ex: &Exchange, recipes: &mut Recipes) -> Option<Rc<Recipe>> {
    let key = Arc::as_ptr(&ex.loc) as usize;
    let known = recipes.entry(key);
    known.or_insert_with(|| Recipe::of(ex).map(Rc::new)).clone()
}
