//! `proxy_*` and `fastcgi_*`.

use super::cache;
use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::listen::split_port;
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use std::sync::Arc;

/// The directives that proxy and fastcgi share.
macro_rules! shared {
    ($conf:ident, $prefix:literal, [$($rest:expr),* $(,)?]) => {
        &[
            simple(concat!($prefix, "connect_timeout"), HSL, ONE, Setter::Msec(|b| &mut b.$conf().connect_timeout)),
            simple(concat!($prefix, "send_timeout"), HSL, ONE, Setter::Msec(|b| &mut b.$conf().send_timeout)),
            simple(concat!($prefix, "read_timeout"), HSL, ONE, Setter::Msec(|b| &mut b.$conf().read_timeout)),
            simple(concat!($prefix, "buffer_size"), HSL, ONE, Setter::Size(|b| &mut b.$conf().buffer_size)),
            simple(concat!($prefix, "buffers"), HSL, TWO, Setter::Bufs(|b| &mut b.$conf().buffers)),
            simple(concat!($prefix, "busy_buffers_size"), HSL, ONE, Setter::Size(|b| &mut b.$conf().busy_buffers_size)),
            simple(concat!($prefix, "max_temp_file_size"), HSL, ONE, Setter::Size(|b| &mut b.$conf().max_temp_file_size)),
            simple(concat!($prefix, "temp_file_write_size"), HSL, ONE, Setter::Size(|b| &mut b.$conf().temp_file_write_size)),
            simple(concat!($prefix, "temp_path"), HSL, Arity(1, 4), Setter::TempPath(|b| &mut b.$conf().temp_path)),
            simple(concat!($prefix, "buffering"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().buffering)),
            simple(concat!($prefix, "request_buffering"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().request_buffering)),
            simple(concat!($prefix, "ignore_client_abort"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().ignore_client_abort)),
            simple(concat!($prefix, "intercept_errors"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().intercept_errors)),
            simple(concat!($prefix, "socket_keepalive"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().socket_keepalive)),
            simple(concat!($prefix, "force_ranges"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().force_ranges)),
            simple(concat!($prefix, "pass_request_headers"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().pass_request_headers)),
            simple(concat!($prefix, "pass_request_body"), HSL, ONE, Setter::Flag(|b| &mut b.$conf().pass_request_body)),
            with(concat!($prefix, "limit_rate"), HSL, ONE, |b, d| {
                let value = super::core_http::rate_value(b, d)?;
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
            simple(concat!($prefix, "next_upstream_tries"), HSL, ONE, Setter::Num(|b| &mut b.$conf().next_upstream_tries)),
            simple(concat!($prefix, "next_upstream_timeout"), HSL, ONE, Setter::Msec(|b| &mut b.$conf().next_upstream_timeout)),
            with(concat!($prefix, "bind"), HSL, Arity(1, 2), |b, d| {
                let value = bind(b, d)?;
                store(&mut b.$conf().bind, value, d)
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

pub const PROXY: &[Spec] = shared!(
    proxy,
    "proxy_",
    [
        with("proxy_pass", LOC | LIF | LMT, ONE, proxy_pass),
        with("proxy_set_header", HSL, TWO, |b, d| {
            let value = b.template(&d.args()[1], &d.place)?;
            let param = Param {
                name: d.args()[0].clone(),
                value,
                if_not_empty: false,
            };
            let first = param.name.eq_ignore_ascii_case("host");
            let list = b.proxy().set_headers.get_or_insert_with(Arc::default);
            let at = if first { 0 } else { list.len() };
            Arc::make_mut(list).insert(at, param);
            Ok(())
        }),
        simple(
            "proxy_pass_trailers",
            HSL,
            ONE,
            Setter::Flag(|b| &mut b.proxy().pass_trailers)
        ),
        simple(
            "proxy_cache_convert_head",
            HSL,
            ONE,
            Setter::Flag(|b| &mut b.proxy().cache_convert_head)
        ),
        with("proxy_http_version", HSL, ONE, |b, d| {
            let value = choice(d, &d.args()[0], &[("1.0", 1000), ("1.1", 1001)])?;
            store(&mut b.proxy().http_version, value, d)
        }),
        simple(
            "proxy_method",
            HSL,
            ONE,
            Setter::Tmpl(|b| &mut b.proxy().method)
        ),
        simple(
            "proxy_set_body",
            HSL,
            ONE,
            Setter::Tmpl(|b| &mut b.proxy().set_body)
        ),
        with("proxy_redirect", HSL, Arity(1, 2), proxy_redirect),
        with("proxy_cookie_domain", HSL, Arity(1, 2), |b, d| cookie_rule(
            b,
            d,
            true,
            |u| &mut u.cookie_domain
        )),
        with("proxy_cookie_path", HSL, Arity(1, 2), |b, d| cookie_rule(
            b,
            d,
            false,
            |u| &mut u.cookie_path
        )),
        with("proxy_cookie_flags", HSL, Arity(1, 4), cookie_flags),
        simple(
            "proxy_ssl_name",
            HSL,
            ONE,
            Setter::Tmpl(|b| &mut b.proxy().ssl_name)
        ),
        simple(
            "proxy_ssl_server_name",
            HSL,
            ONE,
            Setter::Flag(|b| &mut b.proxy().ssl_server_name)
        ),
        simple(
            "proxy_ssl_verify",
            HSL,
            ONE,
            Setter::Flag(|b| &mut b.proxy().ssl_verify)
        ),
        simple(
            "proxy_ssl_verify_depth",
            HSL,
            ONE,
            Setter::Num(|b| &mut b.proxy().ssl_verify_depth)
        ),
        simple(
            "proxy_ssl_trusted_certificate",
            HSL,
            ONE,
            Setter::ConfPath(|b| &mut b.proxy().ssl_trusted_certificate)
        ),
        simple(
            "proxy_ssl_crl",
            HSL,
            ONE,
            Setter::ConfPath(|b| &mut b.proxy().ssl_crl)
        ),
        with("proxy_ssl_certificate", HSL, ONE, |b, d| {
            let path = super::ssl::certificate(b, d)?;
            store(&mut b.proxy().ssl_certificate, path, d)
        }),
        with("proxy_ssl_certificate_key", HSL, ONE, |b, d| {
            let path = super::ssl::certificate(b, d)?;
            store(&mut b.proxy().ssl_certificate_key, path, d)
        }),
        with("proxy_ssl_password_file", HSL, ONE, |b, d| {
            let is_known = b.proxy().ssl_password_file.is_some();
            let path = super::ssl::password_file(b, d, is_known)?;
            store(&mut b.proxy().ssl_password_file, path, d)
        }),
        simple(
            "proxy_ssl_session_reuse",
            HSL,
            ONE,
            Setter::Flag(|b| &mut b.proxy().ssl_session_reuse)
        ),
        with("proxy_ssl_protocols", HSL, MORE, |b, d| {
            let protocols = super::ssl::protocols(b, d)?;
            add_values(&mut b.proxy().ssl_protocols, &protocols)
        }),
        simple(
            "proxy_ssl_ciphers",
            HSL,
            ONE,
            Setter::Str(|b| &mut b.proxy().ssl_ciphers)
        ),
        with("proxy_ssl_certificate_cache", HSL, Arity(1, 3), |b, d| {
            let cache = super::ssl::certificate_cache(d)?;
            store(&mut b.proxy().ssl_certificate_cache, cache, d)
        }),
        simple(
            "proxy_headers_hash_max_size",
            HSL,
            ONE,
            Setter::Num(|b| &mut b.loc().proxy_headers_hash_max_size)
        ),
        simple(
            "proxy_headers_hash_bucket_size",
            HSL,
            ONE,
            Setter::Num(|b| &mut b.loc().proxy_headers_hash_bucket_size)
        ),
    ]
);

pub const FASTCGI: &[Spec] = shared!(
    fastcgi,
    "fastcgi_",
    [
        with("fastcgi_pass", LOC | LIF, ONE, fastcgi_pass),
        with("fastcgi_param", HSL, Arity(2, 3), |b, d| {
            let value = b.template(&d.args()[1], &d.place)?;
            let if_not_empty = match d.args().get(2).map(String::as_str) {
                None => false,
                Some("if_not_empty") => true,
                Some(other) => return Err(invalid_parameter(d, other)),
            };
            let param = Param {
                name: d.args()[0].clone(),
                value,
                if_not_empty,
            };
            push(&mut b.loc().fastcgi_params, param);
            Ok(())
        }),
        simple(
            "fastcgi_index",
            HSL,
            ONE,
            Setter::Str(|b| &mut b.fastcgi().index)
        ),
        with("fastcgi_split_path_info", HSL, ONE, |b, d| {
            let pattern = b.pattern(&d.args()[0], false, &d.place)?;
            if pattern.groups() != 2 {
                return Err(ConfError::new(format!(
                    "pattern \"{}\" must have 2 captures",
                    d.args()[0]
                )));
            }
            store(&mut b.fastcgi().split_path_info, pattern, d)
        }),
        simple(
            "fastcgi_keep_conn",
            HSL,
            ONE,
            Setter::Flag(|b| &mut b.fastcgi().keep_conn)
        ),
        simple(
            "fastcgi_catch_stderr",
            HSL,
            ONE,
            Setter::Strings(|b| &mut b.fastcgi().catch_stderr)
        ),
    ]
);

/// Parse the names of upstream fields to ignore.
fn ignored_headers(b: &mut Builder, d: &Directive) -> Result<Vec<String>> {
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

fn bind(b: &mut Builder, d: &Directive) -> Result<BindAddr> {
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

/// Whether the enclosing location cannot have its prefix replaced.
fn uri_part_forbidden(b: &mut Builder) -> bool {
    let context = b.ctx;
    context & (LIF | LMT) != 0 || matches!(b.node().kind, LocKind::Regex(_) | LocKind::Named)
}

fn proxy_pass(b: &mut Builder, d: &Directive) -> Result<()> {
    if b.node().handler.is_some() {
        return Err(duplicate(d));
    }
    let url = d.args()[0].as_str();
    let (location, replaces) = (b.node().name.clone(), b.node().name.len());
    let mut pass = ProxyPass {
        target: Target::Variable,
        url: None,
        https: false,
        uri: None,
        replaces,
        host: String::new(),
        location,
    };
    if url.contains('$') {
        pass.url = Some(b.template(url, &d.place)?);
        b.node().handler = Some(Handler::Proxy(Arc::new(pass)));
        return Ok(());
    }
    let parsed = ProxyUrl::parse(url).map_err(ConfError::new)?;
    if parsed.uri.is_some() && uri_part_forbidden(b) {
        return Err(ConfError::new(
            "\"proxy_pass\" cannot have URI part in location given by regular expression, or inside \
             named location, or inside \"if\" statement, or inside \"limit_except\" block",
        ));
    }
    pass.https = parsed.https;
    pass.host = parsed.authority.to_string();
    pass.uri = parsed.uri.map(str::to_string);
    let index = upstream_of(b, d, parsed.authority, if parsed.https { 443 } else { 80 })?;
    pass.target = Target::Upstream(index);
    b.node().handler = Some(Handler::Proxy(Arc::new(pass)));
    Ok(())
}

/// The parts of `http://host:port/uri`.
pub struct ProxyUrl<'a> {
    pub https: bool,
    /// `host`, `host:port` or `unix:/path`.
    pub authority: &'a str,
    pub uri: Option<&'a str>,
}

impl<'a> ProxyUrl<'a> {
    pub fn parse(url: &'a str) -> std::result::Result<ProxyUrl<'a>, String> {
        let lower = url.get(..8).unwrap_or(url).to_ascii_lowercase();
        let (https, rest) = if lower.starts_with("http://") {
            (false, &url[7..])
        } else if lower.starts_with("https://") {
            (true, &url[8..])
        } else {
            return Err("invalid URL prefix".into());
        };
        if let Some(path) = rest.strip_prefix("unix:") {
            // The socket's path ends at the second colon.
            let (end, uri) = match path.find(':') {
                Some(i) => (i, Some(&path[i + 1..])),
                None => (path.len(), None),
            };
            if end == 0 {
                return Err(format!(
                    "no path in the unix domain socket in upstream \"{rest}\""
                ));
            }
            let uri = uri.filter(|u| !u.is_empty());
            return Ok(ProxyUrl {
                https,
                authority: &rest[..5 + end],
                uri,
            });
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        if end == 0 {
            return Err(format!("no host in upstream \"{rest}\""));
        }
        let uri = Some(&rest[end..]).filter(|u| !u.is_empty());
        Ok(ProxyUrl {
            https,
            authority: &rest[..end],
            uri,
        })
    }
}

/// The group for an authority: a declared one with that name, or an implicit one.
fn upstream_of(
    b: &mut Builder,
    d: &Directive,
    authority: &str,
    default_port: u16,
) -> Result<usize> {
    if authority.starts_with("unix:") {
        return Ok(b.intern_upstream(authority, None, &d.place));
    }
    let invalid = |e: String| ConfError::at(format!("{e} in upstream \"{authority}\""), &d.place);
    let (host, port) = split_port(authority).map_err(invalid)?;
    match port {
        Some(p) => Ok(b.intern_upstream(host, Some(p), &d.place)),
        None => {
            let index = b.intern_upstream(host, None, &d.place);
            // Used only if no upstream block with that name follows.
            let group = &mut b.http().upstreams[index];
            if !group.explicit && group.port.is_none() {
                group.port = Some(default_port);
            }
            Ok(index)
        }
    }
}

fn fastcgi_pass(b: &mut Builder, d: &Directive) -> Result<()> {
    if b.node().handler.is_some() {
        return Err(duplicate(d));
    }
    let word = d.args()[0].as_str();
    let mut pass = FastcgiPass {
        target: Target::Variable,
        address: None,
    };
    if word.contains('$') {
        pass.address = Some(b.template(word, &d.place)?);
    } else {
        pass.target = Target::Upstream(upstream_of(b, d, word, 0)?);
    }
    b.node().handler = Some(Handler::Fastcgi(Arc::new(pass)));
    Ok(())
}

/// Check that `off` is the only value.
fn check_off(rules: &List<RedirectRule>, d: &Directive) -> Result<()> {
    let rules = items(rules);
    let is_off = matches!(rules.first(), Some(RedirectRule::Off));
    match d.args() {
        [word] if word == "off" && !rules.is_empty() => Err(duplicate(d)),
        _ if is_off => Err(duplicate(d)),
        _ => Ok(()),
    }
}

fn proxy_redirect(b: &mut Builder, d: &Directive) -> Result<()> {
    check_off(&b.proxy().redirect, d)?;
    let args = d.args();
    let rule = match args {
        [word] if word == "off" => RedirectRule::Off,
        [word] if word == "false" => {
            return Err(ConfError::new(
                "invalid parameter \"false\", use \"off\" instead",
            ));
        }
        [word] if word == "default" => {
            let Some(Handler::Proxy(pass)) = &b.node().handler else {
                return Err(ConfError::new(
                    "\"proxy_redirect default\" should be placed after the \"proxy_pass\" directive",
                ));
            };
            pass.default_redirect().ok_or_else(|| {
                ConfError::new(
                    "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with \
                     variables",
                )
            })?
        }
        [from, to] => rewrite_rule(b, d, from, to)?,
        [word, ..] => return Err(invalid_parameter(d, word)),
        [] => return Err(invalid_value(d)),
    };
    push(&mut b.proxy().redirect, rule);
    Ok(())
}

fn rewrite_rule(b: &mut Builder, d: &Directive, from: &str, to: &str) -> Result<RedirectRule> {
    let target = b.template(to, &d.place)?;
    if let Some(source) = from.strip_prefix('~') {
        let (source, caseless) = match source.strip_prefix('*') {
            Some(s) => (s, true),
            None => (source, false),
        };
        return Ok(RedirectRule::Regex {
            pattern: b.pattern(source, caseless, &d.place)?,
            to: target,
        });
    }
    Ok(RedirectRule::Prefix {
        from: b.template(from, &d.place)?,
        to: target,
    })
}

fn cookie_rule(
    b: &mut Builder,
    d: &Directive,
    domain: bool,
    get: fn(&mut UpConf) -> &mut List<RedirectRule>,
) -> Result<()> {
    check_off(get(b.proxy()), d)?;
    let rule = match d.args() {
        [word] if word == "off" => RedirectRule::Off,
        // Domains match in any case, without their leading dots.
        [from, to] if domain => match from.strip_prefix('~') {
            Some(source) => {
                let source = source.strip_prefix('*').unwrap_or(source);
                let pattern = b.pattern(source, true, &d.place)?;
                let to = b.template(to, &d.place)?;
                RedirectRule::Regex { pattern, to }
            }
            None => {
                let bare = |text: &'_ str| text.strip_prefix('.').unwrap_or(text).to_string();
                rewrite_rule(b, d, &bare(from), &bare(to))?
            }
        },
        [from, to] => rewrite_rule(b, d, from, to)?,
        [word, ..] => return Err(invalid_parameter(d, word)),
        [] => return Err(invalid_value(d)),
    };
    push(get(b.proxy()), rule);
    Ok(())
}

/// The flags that `proxy_cookie_flags` can set or remove.
pub const COOKIE_FLAGS: &[&str] = &[
    "secure",
    "nosecure",
    "httponly",
    "nohttponly",
    "samesite=strict",
    "samesite=lax",
    "samesite=none",
    "nosamesite",
];

fn cookie_flags(b: &mut Builder, d: &Directive) -> Result<()> {
    let (name, flags) = d.args().split_first().expect("arity checked");
    let known = &mut b.proxy().cookie_flags;
    if known.as_ref().is_some_and(|all| all.is_empty()) {
        return Err(duplicate(d));
    }
    if flags.is_empty() {
        return match name.as_str() {
            "off" => store(known, Arc::default(), d),
            _ => Err(invalid_parameter(d, name)),
        };
    }
    // Unknown flags have no effect: nginx checks them when a cookie arrives, since variables may
    // produce them.
    let mut templates = Vec::new();
    for flag in flags {
        templates.push(b.template(flag, &d.place)?);
    }
    let name = match name.strip_prefix('~') {
        Some(source) => CookieName::Regex(b.pattern(source, true, &d.place)?),
        None => CookieName::Exact(b.template(name, &d.place)?),
    };
    push(
        &mut b.proxy().cookie_flags,
        CookieFlags {
            name,
            flags: templates,
        },
    );
    Ok(())
}
