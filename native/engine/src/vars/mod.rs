//! Values of variables.

mod builtin;
mod computed;

use crate::exchange::{Exchange, Value};
use crate::template;
use gallop_conf::vars::{Prefix, VarId, VarKind};
use std::rc::Rc;

/// Appends a variable's value; `false` when it has none.
pub fn eval(ex: &Exchange, id: VarId, out: &mut Vec<u8>) -> bool {
    let shared = ex.worker.shared.clone();
    let var = shared.config.vars.get(id);
    if let Some(value) = &ex.vars.borrow()[id.0 as usize] {
        return append(value, out);
    }
    match &var.kind {
        VarKind::Undefined | VarKind::Assigned => false,
        VarKind::Builtin(b) => builtin::eval(ex, *b, out),
        VarKind::Prefixed(prefix, name) => prefixed(ex, *prefix, name, out),
        VarKind::Map(map) => {
            let value = computed::map(ex, map);
            remember(ex, id, !map.volatile, value, out)
        }
        VarKind::Geo(geo) => {
            let value = computed::geo(ex, geo);
            remember(ex, id, !geo.volatile, value, out)
        }
        VarKind::SplitClients(split) => {
            let value = computed::split(ex, split);
            remember(ex, id, true, value, out)
        }
    }
}

pub fn value(ex: &Exchange, id: VarId) -> Vec<u8> {
    let mut out = Vec::new();
    eval(ex, id, &mut out);
    out
}

fn append(value: &Value, out: &mut Vec<u8>) -> bool {
    match value {
        Some(text) => {
            out.extend_from_slice(text);
            true
        }
        None => false,
    }
}

fn remember(ex: &Exchange, id: VarId, keep: bool, value: Vec<u8>, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(&value);
    if keep {
        ex.vars.borrow_mut()[id.0 as usize] = Some(Some(Rc::from(value)));
    }
    true
}

fn prefixed(ex: &Exchange, prefix: Prefix, name: &str, out: &mut Vec<u8>) -> bool {
    match prefix {
        Prefix::Http => {
            let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
            join(ex.head.iter(), name, separator, out)
        }
        Prefix::SentHttp => sent_header(ex, name, out),
        Prefix::SentTrailer => join(pairs(&ex.response.trailers), name, b", ", out),
        Prefix::UpstreamHttp => match ex.attempts.last() {
            Some(a) => join(pairs(&a.headers), name, b", ", out),
            None => false,
        },
        Prefix::UpstreamTrailer => match ex.attempts.last() {
            Some(a) => join(pairs(&a.trailers.borrow()), name, b", ", out),
            None => false,
        },
        Prefix::UpstreamCookie => upstream_cookie(ex, name, out),
        Prefix::Arg => put(argument(&ex.uri.args, name), out),
        Prefix::Cookie => {
            let cookies = ex.head.get_all("cookie");
            put(cookies.filter_map(|c| cookie(c, name)).next(), out)
        }
        Prefix::ProxyProtocolTlv => proxy_protocol_tlv(ex, name, out),
    }
}

fn put(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    value.inspect(|v| out.extend_from_slice(v)).is_some()
}

fn pairs(list: &[(Vec<u8>, Vec<u8>)]) -> impl Iterator<Item = (&[u8], &[u8])> {
    list.iter().map(|(n, v)| (n.as_slice(), v.as_slice()))
}

/// Whether a field's name is that of a variable, where dashes are written as underscores.
fn same_name(field: &[u8], variable: &str) -> bool {
    field.len() == variable.len()
        && field
            .iter()
            .zip(variable.bytes())
            .all(|(f, v)| f.to_ascii_lowercase() == v || (*f == b'-' && v == b'_'))
}

/// All fields of that name, joined.
fn join<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    name: &str,
    separator: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let mut found = false;
    for (_, value) in fields.filter(|(n, v)| same_name(n, name) && !v.is_empty()) {
        if found {
            out.extend_from_slice(separator);
        }
        out.extend_from_slice(value);
        found = true;
    }
    found
}

fn sent_header(ex: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    match name {
        "etag" if ex.response.etag.is_some() => put(ex.response.etag.as_deref(), out),
        _ => join(pairs(&ex.response.headers), name, b", ", out),
    }
}

/// The first argument of that name (any case), still encoded.
pub fn argument<'a>(args: &'a [u8], name: &str) -> Option<&'a [u8]> {
    args.split(|&c| c == b'&').find_map(|part| {
        let eq = memchr::memchr(b'=', part)?;
        part[..eq]
            .eq_ignore_ascii_case(name.as_bytes())
            .then(|| &part[eq + 1..])
    })
}

/// A cookie's value out of one `Cookie` field.
fn cookie<'a>(field: &'a [u8], name: &str) -> Option<&'a [u8]> {
    field.split(|&c| c == b';').find_map(|part| {
        let part = part.trim_ascii_start();
        let eq = memchr::memchr(b'=', part)?;
        let named = part[..eq]
            .trim_ascii_end()
            .eq_ignore_ascii_case(name.as_bytes());
        named.then(|| part[eq + 1..].trim_ascii())
    })
}

fn upstream_cookie(ex: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let Some(attempt) = ex.attempts.last() else {
        return false;
    };
    let fields = attempt
        .headers
        .iter()
        .filter(|(n, _)| n.eq_ignore_ascii_case(b"set-cookie"));
    let mut value = fields.filter_map(|(_, v)| {
        let first = v.split(|&c| c == b';').next()?;
        cookie(first, name)
    });
    put(value.next_back(), out)
}

fn proxy_protocol_tlv(ex: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let Some(header) = &ex.conn.proxy_protocol else {
        return false;
    };
    let kind = match name {
        "alpn" => 0x01,
        "authority" => 0x02,
        "unique_id" => 0x05,
        "ssl" => 0x20,
        "netns" => 0x30,
        _ => match name
            .strip_prefix("0x")
            .and_then(|h| u8::from_str_radix(h, 16).ok())
        {
            Some(kind) => kind,
            None => return false,
        },
    };
    put(
        header
            .tlvs
            .iter()
            .find(|(k, _)| *k == kind)
            .map(|(_, v)| v.as_slice()),
        out,
    )
}

/// Appends a path: `$document_root` or an alias, then what of the URI belongs below it.
pub fn filename(ex: &Exchange, out: &mut Vec<u8>) {
    use gallop_conf::model::Alias;
    let Some(root) = &ex.loc.conf.root else {
        out.extend_from_slice(
            ex.worker
                .shared
                .config
                .prefix
                .join("html")
                .as_os_str()
                .as_encoded_bytes(),
        );
        out.extend_from_slice(&ex.uri.path);
        return;
    };
    template::eval_into(ex, &root.path, out);
    match root.alias {
        None => out.extend_from_slice(&ex.uri.path),
        Some(Alias::Prefix(n)) => out.extend_from_slice(ex.uri.path.get(n..).unwrap_or(b"")),
        Some(Alias::Whole) if ex.add_uri_to_alias => out.extend_from_slice(&ex.uri.path),
        Some(Alias::Whole) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_cookies() {
        assert_eq!(argument(b"a=1&B=2&c", "b"), Some(&b"2"[..]));
        assert_eq!(argument(b"a=1&c", "c"), None);
        assert_eq!(cookie(b"a=1; b = 2 ;c=", "b"), Some(&b"2"[..]));
        assert_eq!(cookie(b"ab=1", "b"), None);
        assert!(same_name(b"X-Real-IP", "x_real_ip"));
    }
}
