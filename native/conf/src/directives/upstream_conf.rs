//! `proxy_*`.

use super::upstream_shared::{bind, connection, header, ignored_headers, set_header, shared, tls};
use super::{cache, ssl};
use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::listen::split_port;
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use std::sync::Arc;

pub const CONNECTION: &[Spec] = connection!(proxy, "proxy_");
pub const TLS: &[Spec] = tls!(proxy, "proxy_ssl_", HSL);
pub const PROXY: &[Spec] = shared!(
    proxy,
    "proxy_",
    [
        with("proxy_pass", LOC | LIF | LMT, ONE, proxy_pass),
        with("proxy_set_header", HSL, TWO, |b, d| {
            let header = header(b, d)?;
            set_header(b.proxy(), header);
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
            let value = choice(
                d,
                &d.args()[0],
                &[("1.0", 1000), ("1.1", 1001), ("2", 2000)],
            )?;
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
pub(super) fn upstream_of(
    b: &mut Builder,
    d: &Directive,
    authority: &str,
    default_port: impl Into<Option<u16>>,
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
                group.port = default_port.into();
            }
            Ok(index)
        }
    }
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
