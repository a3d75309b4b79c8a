//! Directives of ngx_http_core for locations.

use crate::builder::{Builder, LocNode};
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::values::{parse_digits, parse_msec, parse_sec, parse_size};
use std::sync::Arc;

const MISC: u32 = HSL;

pub const TABLE: &[Spec] = &[
    block("location", SRV | LOC, Arity(1, 2), location),
    block("limit_except", LOC, MORE, limit_except),
    with("internal", LOC, NONE, |b, d| {
        store(&mut b.node().internal, true, d)
    }),
    block("types", MISC, NONE, types),
    with("default_type", MISC, ONE, |b, d| {
        let value: Arc<[u8]> = d.args()[0].as_bytes().into();
        store(&mut b.loc().default_type, value, d)
    }),
    with("error_page", HSLI, TWO_OR_MORE, error_page),
    simple(
        "recursive_error_pages",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().recursive_error_pages),
    ),
    simple(
        "client_max_body_size",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().client_max_body_size),
    ),
    simple(
        "client_body_buffer_size",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().client_body_buffer_size),
    ),
    simple(
        "client_body_timeout",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().client_body_timeout),
    ),
    with("client_body_in_file_only", HSL, ONE, |b, d| {
        let choices = &[
            ("off", InFile::Off),
            ("on", InFile::On),
            ("clean", InFile::Clean),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.loc().client_body_in_file_only, value, d)
    }),
    simple(
        "client_body_in_single_buffer",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().client_body_in_single_buffer),
    ),
    simple(
        "client_body_temp_path",
        HSL,
        Arity(1, 4),
        Setter::TempPath(|b| &mut b.loc().client_body_temp_path),
    ),
    with("satisfy", HSL, ONE, |b, d| {
        let value = choice(
            d,
            &d.args()[0],
            &[("all", Satisfy::All), ("any", Satisfy::Any)],
        )?;
        store(&mut b.loc().satisfy, value, d)
    }),
    with("keepalive_timeout", HSL, Arity(1, 2), keepalive_timeout),
    simple(
        "keepalive_requests",
        HSL,
        ONE,
        Setter::Num(|b| &mut b.loc().keepalive_requests),
    ),
    simple(
        "keepalive_time",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().keepalive_time),
    ),
    simple(
        "keepalive_min_timeout",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().keepalive_min_timeout),
    ),
    with("keepalive_disable", HSL, Arity(1, 2), |b, d| {
        let bits = bitmask(b, d, &[("none", 0), ("msie6", 1), ("safari", 2)])?;
        store(&mut b.loc().keepalive_disable, bits, d)
    }),
    with("lingering_close", HSL, ONE, |b, d| {
        let choices = &[
            ("off", Lingering::Off),
            ("on", Lingering::On),
            ("always", Lingering::Always),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.loc().lingering_close, value, d)
    }),
    simple(
        "lingering_time",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().lingering_time),
    ),
    simple(
        "lingering_timeout",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().lingering_timeout),
    ),
    simple(
        "send_timeout",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().send_timeout),
    ),
    with("send_lowat", HSL, ONE, send_lowat),
    with("proxy_send_lowat", HSL, ONE, send_lowat),
    with("fastcgi_send_lowat", HSL, ONE, send_lowat),
    simple(
        "sendfile",
        HSLI,
        ONE,
        Setter::Flag(|b| &mut b.loc().sendfile),
    ),
    simple(
        "sendfile_max_chunk",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().sendfile_max_chunk),
    ),
    simple(
        "tcp_nopush",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().tcp_nopush),
    ),
    simple(
        "tcp_nodelay",
        HSL | STREAM | SSRV,
        ONE,
        Setter::Flag(|b| &mut b.loc().tcp_nodelay),
    ),
    with("aio", HSL, ONE, |b, d| {
        let word = &d.args()[0];
        let is_pool = word.strip_prefix("threads=").is_some_and(|p| !p.is_empty());
        if !is_pool && !matches!(word.as_str(), "on" | "off" | "threads") {
            return Err(invalid_value(d));
        }
        store(&mut b.loc().aio, word.clone(), d)
    }),
    simple(
        "aio_write",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().aio_write),
    ),
    with("directio", HSL, ONE, |b, d| {
        let word = &d.args()[0];
        let size = if word == "off" {
            Some(u64::MAX)
        } else {
            parse_size(word)
        };
        store(
            &mut b.loc().directio,
            size.ok_or_else(|| invalid_value(d))?,
            d,
        )
    }),
    simple(
        "directio_alignment",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().directio_alignment),
    ),
    simple(
        "read_ahead",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().read_ahead),
    ),
    simple(
        "output_buffers",
        HSL,
        TWO,
        Setter::Bufs(|b| &mut b.loc().output_buffers),
    ),
    simple(
        "postpone_output",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().postpone_output),
    ),
    with("limit_rate", HSLI, ONE, |b, d| {
        rate(b, d, |l| &mut l.limit_rate)
    }),
    with("limit_rate_after", HSLI, ONE, |b, d| {
        rate(b, d, |l| &mut l.limit_rate_after)
    }),
    simple(
        "reset_timedout_connection",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().reset_timedout_connection),
    ),
    simple(
        "absolute_redirect",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().absolute_redirect),
    ),
    simple(
        "server_name_in_redirect",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().server_name_in_redirect),
    ),
    simple(
        "port_in_redirect",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().port_in_redirect),
    ),
    simple(
        "msie_padding",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().msie_padding),
    ),
    simple(
        "msie_refresh",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().msie_refresh),
    ),
    simple(
        "log_not_found",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().log_not_found),
    ),
    simple(
        "log_subrequest",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().log_subrequest),
    ),
    simple(
        "chunked_transfer_encoding",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().chunked_transfer_encoding),
    ),
    simple("etag", HSL, ONE, Setter::Flag(|b| &mut b.loc().etag)),
    with("if_modified_since", HSL, ONE, |b, d| {
        let choices = &[
            ("off", IfModifiedSince::Off),
            ("exact", IfModifiedSince::Exact),
            ("before", IfModifiedSince::Before),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.loc().if_modified_since, value, d)
    }),
    simple(
        "max_ranges",
        HSL,
        ONE,
        Setter::Num(|b| &mut b.loc().max_ranges),
    ),
    with("server_tokens", HSL, ONE, |b, d| {
        let choices = &[
            ("on", Tokens::On),
            ("off", Tokens::Off),
            ("build", Tokens::Build),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.loc().server_tokens, value, d)
    }),
    // An extension of gallop: the product name in `Server` and on error pages, such as
    // `nginx/1.31.4`.
    with("server_product", HSL, ONE, |b, d| {
        let value: Arc<[u8]> = d.args()[0].as_bytes().into();
        if value.iter().any(|&c| c < 0x20 || c == 0x7f) {
            return Err(invalid_value(d));
        }
        store(&mut b.loc().server_header, value, d)
    }),
    simple(
        "subrequest_output_buffer_size",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().subrequest_output_buffer_size),
    ),
    simple(
        "types_hash_max_size",
        HSL,
        ONE,
        Setter::Num(|b| &mut b.loc().types_hash_max_size),
    ),
    simple(
        "types_hash_bucket_size",
        HSL,
        ONE,
        Setter::Num(|b| &mut b.loc().types_hash_bucket_size),
    ),
    simple(
        "variables_hash_max_size",
        HTTP | STREAM,
        ONE,
        Setter::Num(|b| &mut b.loc().variables_hash_max_size),
    ),
    simple(
        "variables_hash_bucket_size",
        HTTP | STREAM,
        ONE,
        Setter::Num(|b| &mut b.loc().variables_hash_bucket_size),
    ),
    simple(
        "server_names_hash_max_size",
        HTTP | STREAM,
        ONE,
        Setter::Num(|b| &mut b.loc().server_names_hash_max_size),
    ),
    simple(
        "server_names_hash_bucket_size",
        HTTP | STREAM,
        ONE,
        Setter::Num(|b| &mut b.loc().server_names_hash_bucket_size),
    ),
    with("early_hints", HSL, MORE, |b, d| {
        let values: Result<Vec<_>> = d.args().iter().map(|a| b.template(a, &d.place)).collect();
        add_values(&mut b.loc().early_hints, &values?)
    }),
    with("resolver", HSL | UPS | STREAM | SSRV | SUPS, MORE, resolver),
    with(
        "resolver_timeout",
        HSL | UPS | STREAM | SSRV | SUPS,
        ONE,
        |b, d| {
            let ms = parse_msec(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
            match &mut b.upstream {
                Some(group) => store(&mut group.resolver_timeout, ms, d),
                None => store(&mut b.loc().resolver_timeout, ms, d),
            }
        },
    ),
];

fn rate(
    b: &mut Builder,
    d: &Directive,
    get: fn(&mut LocConf) -> &mut Option<crate::template::Template>,
) -> Result<()> {
    let value = rate_value(b, d)?;
    store(get(b.loc()), value, d)
}

/// Bytes per second, constant or evaluated per request.
pub fn rate_value(b: &mut Builder, d: &Directive) -> Result<crate::template::Template> {
    let value = b.template(&d.args()[0], &d.place)?;
    if let Some(text) = value.as_literal() {
        parse_size(&String::from_utf8_lossy(text)).ok_or_else(|| invalid_value(d))?;
    }
    Ok(value)
}

fn location(b: &mut Builder, d: &Directive) -> Result<()> {
    let (kind, name) = location_name(b, d)?;
    check_nesting(b, d, &kind, &name)?;
    check_duplicate(b, d, &kind, &name)?;
    let node = LocNode::new(&name, kind, &d.place);
    let node = b.read_location(node, LOC, d)?;
    b.node().children.push(node);
    Ok(())
}

fn location_name(b: &mut Builder, d: &Directive) -> Result<(LocKind, String)> {
    let prefix = |no_regex| LocKind::Prefix { no_regex };
    let args = d.args();
    if let [modifier, name] = args {
        return Ok(match modifier.as_str() {
            "=" => (LocKind::Exact, name.clone()),
            "^~" => (prefix(true), name.clone()),
            "~" => (
                LocKind::Regex(b.pattern(name, false, &d.place)?),
                name.clone(),
            ),
            "~*" => (
                LocKind::Regex(b.pattern(name, true, &d.place)?),
                name.clone(),
            ),
            other => {
                return Err(ConfError::new(format!(
                    "invalid location modifier \"{other}\""
                )));
            }
        });
    }
    let word = &args[0];
    Ok(if let Some(name) = word.strip_prefix('=') {
        (LocKind::Exact, name.into())
    } else if let Some(name) = word.strip_prefix("^~") {
        (prefix(true), name.into())
    } else if let Some(source) = word.strip_prefix("~*") {
        (
            LocKind::Regex(b.pattern(source, true, &d.place)?),
            source.into(),
        )
    } else if let Some(source) = word.strip_prefix('~') {
        (
            LocKind::Regex(b.pattern(source, false, &d.place)?),
            source.into(),
        )
    } else if word.starts_with('@') {
        (LocKind::Named, word.clone())
    } else {
        (prefix(false), word.clone())
    })
}

fn check_nesting(b: &mut Builder, d: &Directive, kind: &LocKind, name: &str) -> Result<()> {
    if b.ctx != LOC {
        return Ok(());
    }
    let outer = b.node();
    let message = match (&outer.kind, kind) {
        (LocKind::Exact, _) => {
            format!(
                "location \"{name}\" cannot be inside the exact location \"{}\"",
                outer.name
            )
        }
        (LocKind::Named, _) => {
            format!(
                "location \"{name}\" cannot be inside the named location \"{}\"",
                outer.name
            )
        }
        (_, LocKind::Named) => {
            format!("named location \"{name}\" can be on the server level only")
        }
        (LocKind::Prefix { .. }, LocKind::Prefix { .. } | LocKind::Exact)
            if !name.starts_with(&outer.name) =>
        {
            format!("location \"{name}\" is outside location \"{}\"", outer.name)
        }
        _ => return Ok(()),
    };
    Err(ConfError::at(message, &d.place))
}

fn check_duplicate(b: &mut Builder, d: &Directive, kind: &LocKind, name: &str) -> Result<()> {
    let same = |other: &LocKind| {
        matches!(
            (kind, other),
            (LocKind::Exact, LocKind::Exact)
                | (LocKind::Named, LocKind::Named)
                | (LocKind::Prefix { .. }, LocKind::Prefix { .. })
        )
    };
    if b.node()
        .children
        .iter()
        .any(|c| same(&c.kind) && c.name == name)
    {
        return Err(ConfError::at(
            format!("duplicate location \"{name}\""),
            &d.place,
        ));
    }
    Ok(())
}

const METHODS: &[&str] = &[
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "MKCOL",
    "COPY",
    "MOVE",
    "OPTIONS",
    "PROPFIND",
    "PROPPATCH",
    "LOCK",
    "UNLOCK",
    "PATCH",
];

fn limit_except(b: &mut Builder, d: &Directive) -> Result<()> {
    if b.node().limit_except.is_some() {
        return Err(duplicate(d));
    }
    let mut methods = Vec::new();
    for word in d.args() {
        let upper = word.to_ascii_uppercase();
        if !METHODS.contains(&upper.as_str()) {
            return Err(ConfError::new(format!("invalid method \"{word}\"")));
        }
        if upper == "GET" {
            methods.push("HEAD".to_string());
        }
        methods.push(upper);
    }
    let name = b.node().name.clone();
    let node = b.read_location(LocNode::new(&name, LocKind::Nameless, &d.place), LMT, d)?;
    b.node().limit_except = Some((methods, Box::new(node)));
    Ok(())
}

/// `send_lowat` has no effect on Linux.
fn send_lowat(b: &mut Builder, d: &Directive) -> Result<()> {
    parse_size(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
    let message = format!("\"{}\" is not supported, ignored", d.name());
    b.warn(message, &d.place);
    Ok(())
}

fn types(b: &mut Builder, d: &Directive) -> Result<()> {
    let mut map = b
        .loc()
        .types
        .take()
        .map(|t| (*t).clone())
        .unwrap_or_default();
    for entry in d.block.iter().flatten() {
        let value: Arc<[u8]> = entry.name().as_bytes().into();
        if entry.block.is_some() {
            return Err(ConfError::at("unexpected \"{\"", &entry.place));
        }
        for extension in entry.args() {
            let key = extension.to_ascii_lowercase().as_bytes().into();
            let Some(old) = map.insert(key, value.clone()) else {
                continue;
            };
            let message = format!(
                "duplicate extension \"{extension}\", content type: \"{}\", previous content type: \"{}\"",
                entry.name(),
                String::from_utf8_lossy(&old)
            );
            b.warn(message, &entry.place);
        }
    }
    b.loc().types = Some(Arc::new(map));
    Ok(())
}

/// The media types that apply without a `types` block, as in nginx.
pub fn default_types() -> TypesMap {
    let known: [(&str, &str); 3] = [
        ("html", "text/html"),
        ("gif", "image/gif"),
        ("jpg", "image/jpeg"),
    ];
    known
        .iter()
        .map(|(e, t)| (e.as_bytes().into(), t.as_bytes().into()))
        .collect()
}

fn error_page(b: &mut Builder, d: &Directive) -> Result<()> {
    let (last, rest) = d.args().split_last().expect("arity checked");
    let (overwrite, codes) = match rest.split_last() {
        Some((word, codes)) if word.starts_with('=') => {
            let status = match &word[1..] {
                "" => Some(0),
                digits => parse_digits(digits),
            };
            match status {
                Some(s @ 0..=999) => (Some(s as u16), codes),
                // nginx accepts such values and then sends heads that no client can read.
                Some(_) => {
                    return Err(ConfError::new(format!(
                        "value \"{word}\" must be between =0 and =999: a status has three digits"
                    )))
                }
                None => return Err(ConfError::new(format!("invalid value \"{word}\""))),
            }
        }
        _ => (None, rest),
    };
    if codes.is_empty() {
        return Err(ConfError::new(format!("invalid value \"{}\"", d.args()[0])));
    }
    let mut statuses = Vec::new();
    for word in codes {
        let status = parse_digits(word);
        let Some(status) = status.filter(|s| (300..=599).contains(s) && *s != 499) else {
            let why = if status == Some(499) || status.is_none() {
                format!("invalid value \"{word}\"")
            } else {
                format!("value \"{word}\" must be between 300 and 599")
            };
            return Err(ConfError::new(why));
        };
        statuses.push(status as u16);
    }
    let target = b.template(last, &d.place)?;
    push(
        &mut b.loc().error_pages,
        ErrorPage {
            statuses,
            overwrite,
            target,
        },
    );
    Ok(())
}

fn keepalive_timeout(b: &mut Builder, d: &Directive) -> Result<()> {
    let args = d.args();
    let timeout = parse_msec(&args[0]).ok_or_else(|| invalid_value(d))?;
    store(&mut b.loc().keepalive_timeout, timeout, d)?;
    if let Some(word) = args.get(1) {
        let seconds = parse_sec(word).ok_or_else(|| invalid_value(d))?;
        // As in nginx, an unset value is inherited from the outer level.
        b.loc().keepalive_header = Some(seconds);
    }
    Ok(())
}

fn resolver(b: &mut Builder, d: &Directive) -> Result<()> {
    let mut conf = ResolverConf {
        servers: Vec::new(),
        valid: None,
        ipv4: true,
        ipv6: true,
    };
    for word in d.args() {
        match word.split_once('=') {
            Some(("valid", time)) => {
                let ms = parse_msec(time)
                    .ok_or_else(|| ConfError::new(format!("invalid parameter: {word}")))?;
                conf.valid = Some(ms);
            }
            Some(("ipv6", v)) => conf.ipv6 = flag(d, v)?,
            Some(("ipv4", v)) => conf.ipv4 = flag(d, v)?,
            Some(("status_zone", _)) => {}
            _ => {
                let found = crate::listen::resolve(word, 53)
                    .map_err(|e| ConfError::new(format!("{e} in resolver \"{word}\"")))?;
                conf.servers.extend(found);
            }
        }
    }
    if !conf.ipv4 && !conf.ipv6 {
        return Err(ConfError::new(
            "\"ipv4\" and \"ipv6\" cannot both be \"off\"",
        ));
    }
    if conf.servers.is_empty() {
        return Err(ConfError::new("no name servers defined"));
    }
    match &mut b.upstream {
        Some(group) => store(&mut group.resolver, Arc::new(conf), d),
        None => store(&mut b.loc().resolver, Arc::new(conf), d),
    }
}
