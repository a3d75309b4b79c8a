//! Checks across the settings of a level, made after merging, as in nginx.

use crate::error::{ConfError, Place, Result};
use crate::model::{
    charset_route, AppProtocol, CacheUse, CharsetMap, CharsetName, LocConf, Location, Referers,
    Server,
};
use crate::model::{SrvConf, UpConf};
use crate::names::{NameTable, ServerName};
use crate::template::Template;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// # Errors
/// Settings that contradict each other, with the place of their block.
pub fn check_location(conf: &LocConf, place: &Place) -> Result<()> {
    // Responses of memcached and gRPC are not buffered.
    let buffered = AppProtocol::ALL.into_iter();
    let buffered = buffered.filter(|protocol| protocol.temp_folder().is_some());
    let applications = buffered.map(|p| (p.name(), conf.application(p)));
    let proxy = [("proxy", &conf.proxy)];
    for (prefix, up) in proxy.into_iter().chain(applications) {
        if let Some(problem) = up.as_ref().and_then(|up| buffers(prefix, up)) {
            return Err(ConfError::at(problem, place));
        }
    }
    Ok(())
}

/// The problem with the buffers of a location that passes requests on.
fn buffers(prefix: &str, conf: &UpConf) -> Option<String> {
    let (number, each) = conf.buffers.unwrap_or((8, PAGE));
    let largest = conf.buffer_size.unwrap_or(PAGE).max(each);
    let busy = conf.busy_buffers_size.unwrap_or(largest.saturating_mul(2));
    let written = conf
        .temp_file_write_size
        .unwrap_or(largest.saturating_mul(2));
    let file = conf.max_temp_file_size.unwrap_or(1 << 30);
    let maximum = format!(
        "the maximum of the value of \"{prefix}_buffer_size\" and one of the \"{prefix}_buffers\""
    );
    let at_least = "must be equal to or greater than";
    if number < 2 {
        return Some(format!("there must be at least 2 \"{prefix}_buffers\""));
    }
    if busy < largest {
        return Some(format!(
            "\"{prefix}_busy_buffers_size\" {at_least} {maximum}"
        ));
    }
    if busy > (number - 1).saturating_mul(each) {
        return Some(format!(
            "\"{prefix}_busy_buffers_size\" must be less than the size of all \"{prefix}_buffers\" minus one buffer"
        ));
    }
    if written < largest {
        return Some(format!(
            "\"{prefix}_temp_file_write_size\" {at_least} {maximum}"
        ));
    }
    (file != 0 && file < largest).then(|| {
        format!(
            "\"{prefix}_max_temp_file_size\" must be equal to zero to disable temporary files usage \
             or {at_least} {maximum}"
        )
    })
}

/// # Errors
/// Settings of a server block's locations that need a missing charset map or conflict with its
/// names.
pub fn check_places(server: &Server, maps: &[Arc<CharsetMap>]) -> Result<()> {
    check_place(&server.root, server, maps)
}

fn check_place(place: &Location, server: &Server, maps: &[Arc<CharsetMap>]) -> Result<()> {
    let conf = &place.conf;
    let problem = charsets(conf, maps).or_else(|| {
        conf.valid_referers
            .as_ref()
            .and_then(|r| referers(r, server))
    });
    if let Some(message) = problem {
        // As in nginx, this error has no place.
        return Err(ConfError {
            message,
            place: None,
        });
    }
    let limited = place.limit_except.iter().map(|(_, inner)| inner);
    let mut inner = place.ifs.iter().chain(limited).chain(place.children.all());
    inner.try_for_each(|inner| check_place(inner, server, maps))
}

/// Whether a place caches an application's responses without a cache key.
pub fn lacks_cache_key(place: &Location, protocol: AppProtocol) -> bool {
    let lacks = |up: &UpConf| {
        matches!(up.cache, Some(CacheUse::Zone(_) | CacheUse::Variable(_)))
            && up.cache_key.is_none()
    };
    let limited = place.limit_except.iter().map(|(_, inner)| inner);
    let mut inner = place.ifs.iter().chain(limited).chain(place.children.all());
    let conf = place.conf.application(protocol);
    conf.as_deref().is_some_and(lacks) || inner.any(|inner| lacks_cache_key(inner, protocol))
}

/// The problem with the source and target charset of a response.
fn charsets(conf: &LocConf, maps: &[Arc<CharsetMap>]) -> Option<String> {
    let name = |of: &Option<CharsetName>| {
        let name = of.as_ref()?.0.as_ref()?.as_literal()?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    let (from, to) = (name(&conf.source_charset)?, name(&conf.charset)?);
    let known = from.eq_ignore_ascii_case(&to) || charset_route(maps, &from, &to).is_some();
    (!known).then(|| format!("no \"charset_map\" between the charsets \"{from}\" and \"{to}\""))
}

/// The problem with `valid_referers`: nginx stores the names in one table, without the regular
/// expressions.
fn referers(own: &Referers, server: &Server) -> Option<String> {
    let names = match own.server_names {
        true => &server.names[..],
        false => &[],
    };
    let mut before = NameTable::default();
    let is_taken = |name: &&ServerName| own.names.holds(name) || !before.add(name, &());
    if let Some(name) = names.iter().find(is_taken) {
        return Some(format!("conflicting parameter \"{name}\""));
    }
    let is_entry = |name: &ServerName| !matches!(name, ServerName::Regex(_));
    let empty = own.names.is_empty() && !names.iter().any(is_entry);
    (empty && (own.none || own.blocked)).then(|| {
        "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive \
         without any valid referer"
            .into()
    })
}

/// # Errors
/// Settings of a server block that contradict each other.
pub fn check_server(conf: &SrvConf, place: &Place) -> Result<()> {
    let (_, line) = conf.large_client_header_buffers.unwrap_or((4, 8192));
    if line
        < conf
            .connection_pool_size
            .unwrap_or(64 * size_of::<usize>() as u64)
    {
        let message = "the \"large_client_header_buffers\" size must be equal to or greater than \
                       \"connection_pool_size\"";
        return Err(ConfError::at(message, place));
    }
    let certificates = crate::model::items(&conf.ssl_certificate);
    if crate::model::items(&conf.ssl_certificate_key).len() < certificates.len() {
        let last = certificates.last().and_then(Template::as_literal);
        let last = String::from_utf8_lossy(last.unwrap_or_default());
        // As in nginx, this error has no place.
        return Err(ConfError {
            message: format!("no \"ssl_certificate_key\" is defined for certificate \"{last}\""),
            place: None,
        });
    }
    Ok(())
}
