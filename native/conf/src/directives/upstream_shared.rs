//! The directives that several kinds of upstreams share. Their names differ in the prefix only.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::{BindAddr, Param, UpConf};
use crate::parser::Directive;
use crate::table::invalid_parameter;
use std::sync::Arc;

/// The directives about connections to any upstream.
macro_rules! connection {
    ($conf:ident, $prefix:literal) => {
        &[
            simple(
                concat!($prefix, "connect_timeout"),
                HSL,
                ONE,
                Setter::Msec(|b| &mut b.$conf().connect_timeout),
            ),
            simple(
                concat!($prefix, "send_timeout"),
                HSL,
                ONE,
                Setter::Msec(|b| &mut b.$conf().send_timeout),
            ),
            simple(
                concat!($prefix, "read_timeout"),
                HSL,
                ONE,
                Setter::Msec(|b| &mut b.$conf().read_timeout),
            ),
            simple(
                concat!($prefix, "buffer_size"),
                HSL,
                ONE,
                Setter::Size(|b| &mut b.$conf().buffer_size),
            ),
            simple(
                concat!($prefix, "socket_keepalive"),
                HSL,
                ONE,
                Setter::Flag(|b| &mut b.$conf().socket_keepalive),
            ),
            simple(
                concat!($prefix, "next_upstream_tries"),
                HSL,
                ONE,
                Setter::Num(|b| &mut b.$conf().next_upstream_tries),
            ),
            simple(
                concat!($prefix, "next_upstream_timeout"),
                HSL,
                ONE,
                Setter::Msec(|b| &mut b.$conf().next_upstream_timeout),
            ),
            with(concat!($prefix, "bind"), HSL, Arity(1, 2), |b, d| {
                let value = bind(b, d)?;
                store(&mut b.$conf().bind, value, d)
            }),
        ]
    };
}
pub(super) use connection;

/// The directives of upstreams that send HTTP or CGI responses.
macro_rules! shared {
    ($conf:ident, $prefix:literal, [$($rest:expr),* $(,)?]) => {
        &[
            simple(concat!($prefix, "buffers"), HSL, TWO, Setter::Bufs(|b| &mut b.$conf().buffers)),
            simple(concat!($prefix, "busy_buffers_size"), HSL, ONE, Setter::Size(|b| &mut b.$conf().busy_buffers_size)),
            simple(concat!($prefix, "max_temp_file_size"), HSL, ONE, Setter::Size(|b| &mut b.$conf().max_temp_file_size)),
            simple(concat!($prefix, "temp_file_write_size"), HSL, ONE, Setter::Size(|b| &mut b.$conf().temp_file_write_size)),
            simple(concat!($prefix, "temp_path"), HSL, Arity(1, 4), Setter::TempPath(|b| &mut b.$conf().temp_path)),
            simple(concat!($prefix, "buffering"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().buffering)),
            simple(concat!($prefix, "request_buffering"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().request_buffering)),
            simple(concat!($prefix, "ignore_client_abort"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().ignore_client_abort)),
            simple(concat!($prefix, "intercept_errors"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().intercept_errors)),
            simple(concat!($prefix, "force_ranges"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().force_ranges)),
            simple(concat!($prefix, "pass_request_headers"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().pass_request_headers)),
            simple(concat!($prefix, "pass_request_body"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().pass_request_body)),
            with(concat!($prefix, "limit_rate"), HSL, ONE, |b, d| {
                let value = super::sending::rate_value(b, d)?;
                store(&mut b.$conf().limit_rate, value, d)
            }),
            simple(concat!($prefix, "hide_header"), HSL, ONE, Setter::Strings(|b| &mut b.$conf().hide_headers)),
            simple(concat!($prefix, "pass_header"), HSL, ONE, Setter::Strings(|b| &mut b.$conf().pass_headers)),
            with(concat!($prefix, "ignore_headers"), HSL, MORE, |b, d| {
                ignored_headers(b, d)?.into_iter().for_each(|name| push(&mut b.$conf().ignore_headers, name));
                Ok(())
            }),
            with(concat!($prefix, "next_upstream"), HSL, MORE, |b, d| {
                let bits = bitmask(b, d, next::NAMES)?;
                add_bits(&mut b.$conf().next_upstream, bits)
            }),
            with(concat!($prefix, "cache_path"), HTTP, TWO_OR_MORE, cache::path),
            with(concat!($prefix, "cache"), HSL, ONE, |b, d| {
                let value = cache::cache_use(b, d)?;
                store(&mut b.$conf().cache, value, d)
            }),
            simple(concat!($prefix, "cache_key"), HSL, ONE, Setter::Tmpl(|b| &mut b.$conf().cache_key)),
            with(concat!($prefix, "cache_bypass"), HSL, MORE, |b, d| {
                let values = cache::templates(b, d)?;
                add_values(&mut b.$conf().cache_bypass, &values)
            }),
            with(concat!($prefix, "no_cache"), HSL, MORE, |b, d| {
                let values = cache::templates(b, d)?;
                add_values(&mut b.$conf().no_cache, &values)
            }),
            with(concat!($prefix, "cache_purge"), HSL, MORE, |b, d| {
                let values = cache::templates(b, d)?;
                store(&mut b.$conf().cache_purge, values, d)
            }),
            with(concat!($prefix, "cache_valid"), HSL, MORE, |b, d| {
                cache::valid(d)?.into_iter().for_each(|rule| push(&mut b.$conf().cache_valid, rule));
                Ok(())
            }),
            simple(concat!($prefix, "cache_min_uses"), HSL, ONE, Setter::Num(|b| &mut b.$conf().cache_min_uses)),
            simple(concat!($prefix, "cache_max_range_offset"), HSL, ONE, Setter::Size(|b| &mut b.$conf().cache_max_range_offset)),
            with(concat!($prefix, "cache_use_stale"), HSL, MORE, |b, d| {
                let bits = bitmask(b, d, next::STALE_NAMES)?;
                let slot = &mut b.$conf().cache_use_stale;
                let bits = slot.unwrap_or(0) | bits;
                *slot = Some(if bits & next::OFF != 0 { next::OFF } else { bits });
                Ok(())
            }),
            with(concat!($prefix, "cache_methods"), HSL, MORE, |b, d| {
                // GET and HEAD are always included.
                let bits = bitmask(b, d, cache_methods::NAMES)? | cache_methods::GET | cache_methods::HEAD;
                add_bits(&mut b.$conf().cache_methods, bits)
            }),
            simple(concat!($prefix, "cache_lock"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().cache_lock)),
            simple(concat!($prefix, "cache_lock_timeout"), HSL, ONE, Setter::Msec(|b| &mut b.$conf().cache_lock_timeout)),
            simple(concat!($prefix, "cache_lock_age"), HSL, ONE, Setter::Msec(|b| &mut b.$conf().cache_lock_age)),
            simple(concat!($prefix, "cache_revalidate"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().cache_revalidate)),
            simple(concat!($prefix, "cache_background_update"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().cache_background_update)),
            with(concat!($prefix, "store"), HSL, ONE, |b, d| {
                let value = cache::store_place(b, d)?;
                store(&mut b.$conf().store, value, d)
            }),
            with(concat!($prefix, "store_access"), HSL, Arity(1, 3), |b, d| {
                let mode = cache::access_mode(d)?;
                store(&mut b.$conf().store_access, mode, d)
            }),
            $($rest),*
        ]
    };
}
pub(super) use shared;

/// The directives about TLS to an upstream.
macro_rules! tls {
    ($conf:ident, $prefix:literal, $contexts:expr) => {
        &[
            simple(
                concat!($prefix, "name"),
                $contexts,
                ONE,
                Setter::Tmpl(|b| &mut b.$conf().ssl_name),
            ),
            simple(
                concat!($prefix, "server_name"),
                $contexts,
                ONE,
                Setter::Flag(|b| &mut b.$conf().ssl_server_name),
            ),
            simple(
                concat!($prefix, "verify"),
                $contexts,
                ONE,
                Setter::Flag(|b| &mut b.$conf().ssl_verify),
            ),
            simple(
                concat!($prefix, "verify_depth"),
                $contexts,
                ONE,
                Setter::Num(|b| &mut b.$conf().ssl_verify_depth),
            ),
            simple(
                concat!($prefix, "trusted_certificate"),
                $contexts,
                ONE,
                Setter::ConfPath(|b| &mut b.$conf().ssl_trusted_certificate),
            ),
            simple(
                concat!($prefix, "crl"),
                $contexts,
                ONE,
                Setter::ConfPath(|b| &mut b.$conf().ssl_crl),
            ),
            with(concat!($prefix, "certificate"), $contexts, ONE, |b, d| {
                let path = ssl::certificate(b, d)?;
                store(&mut b.$conf().ssl_certificate, path, d)
            }),
            with(
                concat!($prefix, "certificate_key"),
                $contexts,
                ONE,
                |b, d| {
                    let path = ssl::certificate(b, d)?;
                    store(&mut b.$conf().ssl_certificate_key, path, d)
                },
            ),
            with(concat!($prefix, "password_file"), $contexts, ONE, |b, d| {
                let is_known = b.$conf().ssl_password_file.is_some();
                let path = ssl::password_file(b, d, is_known)?;
                store(&mut b.$conf().ssl_password_file, path, d)
            }),
            simple(
                concat!($prefix, "session_reuse"),
                $contexts,
                ONE,
                Setter::Flag(|b| &mut b.$conf().ssl_session_reuse),
            ),
            with(concat!($prefix, "protocols"), $contexts, MORE, |b, d| {
                let protocols = ssl::protocols(b, d)?;
                add_values(&mut b.$conf().ssl_protocols, &protocols)
            }),
            simple(
                concat!($prefix, "ciphers"),
                $contexts,
                ONE,
                Setter::Str(|b| &mut b.$conf().ssl_ciphers),
            ),
            with(concat!($prefix, "conf_command"), $contexts, TWO, |b, d| {
                let commands = ssl::commands(b, d)?;
                add_values(&mut b.$conf().ssl_conf_command, &commands)
            }),
            with(
                concat!($prefix, "certificate_cache"),
                $contexts,
                Arity(1, 3),
                |b, d| {
                    let cache = ssl::certificate_cache(d)?;
                    store(&mut b.$conf().ssl_certificate_cache, cache, d)
                },
            ),
        ]
    };
}
pub(super) use tls;

/// Parse the names of upstream fields to ignore.
pub(super) fn ignored_headers(b: &mut Builder, d: &Directive) -> Result<Vec<String>> {
    const KNOWN: &[&str] = &[
        "X-Accel-Redirect",
        "X-Accel-Expires",
        "X-Accel-Limit-Rate",
        "X-Accel-Buffering",
        "X-Accel-Charset",
        "Expires",
        "Cache-Control",
        "Set-Cookie",
        "Vary",
    ];
    let mut names = Vec::new();
    for word in d.args() {
        if !KNOWN.iter().any(|k| k.eq_ignore_ascii_case(word)) {
            return Err(ConfError::new(format!("invalid value \"{word}\"")));
        }
        let name = word.to_ascii_lowercase();
        if names.contains(&name) {
            b.warn(format!("duplicate value \"{word}\""), &d.place);
        }
        names.push(name);
    }
    Ok(names)
}

/// Parse the local address of connections.
pub(super) fn bind(b: &mut Builder, d: &Directive) -> Result<BindAddr> {
    let args = d.args();
    if args == ["off"] {
        return Ok(BindAddr {
            addr: None,
            transparent: false,
        });
    }
    let addr = b.template(&args[0], &d.place)?;
    if let Some(text) = addr.as_literal() {
        let text = String::from_utf8_lossy(text).into_owned();
        let is_ip = text.parse::<std::net::IpAddr>().is_ok();
        if !is_ip && text.parse::<std::net::SocketAddr>().is_err() {
            return Err(ConfError::new(format!("invalid address \"{text}\"")));
        }
    }
    let transparent = match args.get(1).map(String::as_str) {
        None => false,
        Some("transparent") => true,
        Some(other) => return Err(invalid_parameter(d, other)),
    };
    Ok(BindAddr {
        addr: Some(addr),
        transparent,
    })
}

/// Parse a header field of requests.
pub(super) fn header(b: &mut Builder, d: &Directive) -> Result<Param> {
    let value = b.template(&d.args()[1], &d.place)?;
    Ok(Param {
        name: d.args()[0].clone(),
        value,
        if_not_empty: false,
    })
}

/// Add a header field of requests. Of several `Host` fields the last counts: it comes first.
pub(super) fn set_header(conf: &mut UpConf, header: Param) {
    let is_host = header.name.eq_ignore_ascii_case("host");
    let list = conf.set_headers.get_or_insert_with(Arc::default);
    let at = if is_host { 0 } else { list.len() };
    Arc::make_mut(list).insert(at, header);
}
