//! Values of variables.

pub(crate) mod builtin;
mod computed;
pub(crate) mod connection;
mod geoip2;

pub use builtin::fix_request_id;

use crate::conn::Conn;
use crate::exchange::{Exchange, Value};
use crate::scope::Scope;
use gallop_conf::model::Level;
use gallop_conf::vars::{Builtin, Prefix, VarId, VarKind};
use std::cell::Cell;
use std::rc::Rc;

/// Append a variable's value; `false` if it has none.
pub fn eval<S: Scope + ?Sized>(scope: &S, id: VarId, out: &mut Vec<u8>) -> bool {
    let var = scope.table().get(id);
    if let Some(value) = &scope.values().borrow()[id.0 as usize] {
        return append(value, out);
    }
    match &var.kind {
        VarKind::Undefined | VarKind::Assigned => false,
        VarKind::Builtin(b) if is_judged_once(*b) => {
            let mut value = Vec::new();
            let found = scope.builtin(*b, &mut value);
            let value: Value = found.then(|| Rc::from(value));
            let found = append(&value, out);
            scope.values().borrow_mut()[id.0 as usize] = Some(value);
            found
        }
        VarKind::Builtin(b) => scope.builtin(*b, out),
        VarKind::Prefixed(prefix, name) => scope.prefixed(*prefix, name, out),
        kind => {
            let Some(_depth) = Depth::enter() else {
                let message = format!("cycle while evaluating variable \"{}\"", var.name);
                scope.log(Level::Error, &message);
                return false;
            };
            compute(scope, id, kind, out)
        }
    }
}

/// Append the value of a variable that is computed from other variables.
fn compute<S: Scope + ?Sized>(scope: &S, id: VarId, kind: &VarKind, out: &mut Vec<u8>) -> bool {
    let (value, keep) = match kind {
        VarKind::Geoip2(lookup) => match geoip2::value(scope, lookup) {
            Some(value) => (value, true),
            None => return false,
        },
        VarKind::Map(map) => (computed::map(scope, map), !map.volatile),
        VarKind::Geo(geo) => (computed::geo(scope, geo), !geo.volatile),
        VarKind::SplitClients(split) => (computed::split(scope, split), true),
        _ => return false,
    };
    remember(scope, id, keep, value, out)
}

/// Counts nested evaluations of computed variables. A cycle would overflow the stack; nginx has the
/// same limit.
struct Depth;

const MAX_DEPTH: u32 = 100;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

impl Depth {
    /// `None` if the limit is reached.
    fn enter() -> Option<Depth> {
        let depth = DEPTH.get();
        (depth < MAX_DEPTH).then(|| {
            DEPTH.set(depth + 1);
            Depth
        })
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Whether a variable keeps its value when another location handles the request.
fn is_judged_once(variable: Builtin) -> bool {
    matches!(
        variable,
        Builtin::InvalidReferer | Builtin::SecureLink | Builtin::SecureLinkExpires
    )
}

/// Append the value of a variable whose name is not declared, such as `$http_*`; `false` if it has
/// none.
pub fn by_name(ex: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let shared = ex.worker.shared.clone();
    if let Some(id) = shared.config.vars.find(name) {
        return eval(ex, id, out);
    }
    match gallop_conf::vars::natural_kind(name) {
        VarKind::Builtin(b) => builtin::eval(ex, b, out),
        VarKind::Prefixed(prefix, name) => prefixed(ex, prefix, &name, out),
        _ => false,
    }
}

pub fn value<S: Scope + ?Sized>(scope: &S, id: VarId) -> Vec<u8> {
    let mut out = Vec::new();
    eval(scope, id, &mut out);
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

fn remember<S: Scope + ?Sized>(
    scope: &S,
    id: VarId,
    keep: bool,
    value: Vec<u8>,
    out: &mut Vec<u8>,
) -> bool {
    out.extend_from_slice(&value);
    if keep {
        scope.values().borrow_mut()[id.0 as usize] = Some(Some(Rc::from(value)));
    }
    true
}

pub(crate) fn prefixed(ex: &Exchange, prefix: Prefix, name: &str, out: &mut Vec<u8>) -> bool {
    match prefix {
        Prefix::Http => {
            let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
            join(ex.head.iter(), name, separator, out)
        }
        Prefix::SentHttp => sent_header(ex, name, out),
        Prefix::SentTrailer => join(pairs(&ex.response.trailers), name, b", ", out),
        Prefix::UpstreamHttp => join(pairs(upstream_fields(ex)), name, b", ", out),
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
        Prefix::ProxyProtocolTlv => proxy_protocol_tlv(&ex.conn, name, out),
    }
}

fn put(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    value.inspect(|v| out.extend_from_slice(v)).is_some()
}

fn pairs(list: &[(Vec<u8>, Vec<u8>)]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let sent = list.iter().filter(|(_, value)| !value.is_empty());
    sent.map(|(n, v)| (n.as_slice(), v.as_slice()))
}

/// Whether a field's name equals that of a variable, in which underscores stand for dashes.
fn same_name(field: &[u8], variable: &str) -> bool {
    field.len() == variable.len()
        && field
            .iter()
            .zip(variable.bytes())
            .all(|(f, v)| f.to_ascii_lowercase() == v || (*f == b'-' && v == b'_'))
}

/// The values of all fields with that name, joined.
fn join<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    name: &str,
    separator: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let mut found = false;
    for (_, value) in fields.filter(|(n, _)| same_name(n, name)) {
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

/// The still encoded value of the first argument with that name, in any case.
pub fn argument<'a>(args: &'a [u8], name: &str) -> Option<&'a [u8]> {
    args.split(|&c| c == b'&').find_map(|part| {
        let eq = memchr::memchr(b'=', part)?;
        part[..eq]
            .eq_ignore_ascii_case(name.as_bytes())
            .then(|| &part[eq + 1..])
    })
}

/// The value of a cookie in a `Cookie` field.
pub fn cookie<'a>(field: &'a [u8], name: &str) -> Option<&'a [u8]> {
    field.split(|&c| c == b';').find_map(|part| {
        let part = part.trim_ascii_start();
        let eq = memchr::memchr(b'=', part)?;
        let named = part[..eq]
            .trim_ascii_end()
            .eq_ignore_ascii_case(name.as_bytes());
        named.then(|| part[eq + 1..].trim_ascii())
    })
}

/// The header fields of the upstream's response, including a cached one.
fn upstream_fields(ex: &Exchange) -> &[(Vec<u8>, Vec<u8>)] {
    let kept = ex.cached.as_ref().and_then(|n| n.fields.as_ref());
    let fresh = ex.attempts.last().map(|a| &a.headers);
    kept.or(fresh).map_or(&[], |fields| fields.as_slice())
}

/// The value that a `Set-Cookie` field sets for the cookie with that name.
fn set_cookie<'a>(field: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let blank = |text: &'a [u8]| {
        let n = text.iter().take_while(|c| **c == b' ').count();
        &text[n..]
    };
    let (start, rest) = field.split_at_checked(name.len())?;
    if !start.eq_ignore_ascii_case(name.as_bytes()) {
        return None;
    }
    let value = blank(blank(rest).strip_prefix(b"=")?);
    value.split(|&c| c == b';').next()
}

fn upstream_cookie(ex: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let fields = upstream_fields(ex)
        .iter()
        .filter(|(n, _)| n.eq_ignore_ascii_case(b"set-cookie"));
    let mut values = fields.filter_map(|(_, v)| set_cookie(v, name));
    put(values.next().filter(|v| !v.is_empty()), out)
}

pub(crate) fn proxy_protocol_tlv(conn: &Conn, name: &str, out: &mut Vec<u8>) -> bool {
    let Some(header) = conn.proxy_protocol() else {
        return false;
    };
    if let Some(rest) = name.strip_prefix("ssl_") {
        return proxy_protocol_ssl(&header.tlvs, rest, out);
    }
    let kind = match name {
        "alpn" => 0x01,
        "authority" => 0x02,
        "unique_id" => 0x05,
        "ssl" => 0x20,
        "netns" => 0x30,
        _ => match tlv_number(name) {
            Some(kind) => kind,
            None => return false,
        },
    };
    put(tlv(&header.tlvs, kind), out)
}

fn tlv_number(name: &str) -> Option<u8> {
    u8::from_str_radix(name.strip_prefix("0x")?, 16).ok()
}

fn tlv(tlvs: &[(u8, Vec<u8>)], kind: u8) -> Option<&[u8]> {
    let found = tlvs.iter().find(|(k, _)| *k == kind);
    found.map(|(_, v)| v.as_slice())
}

/// Read a value from the TLV about the proxy's TLS connection: one byte of flags, four bytes of the
/// verification result, then nested TLVs.
fn proxy_protocol_ssl(tlvs: &[(u8, Vec<u8>)], name: &str, out: &mut Vec<u8>) -> bool {
    let Some((fixed, mut rest)) = tlv(tlvs, 0x20).and_then(|v| v.split_at_checked(5)) else {
        return false;
    };
    let kind = match name {
        "verify" => {
            let result = u32::from_be_bytes([fixed[1], fixed[2], fixed[3], fixed[4]]);
            out.extend_from_slice(result.to_string().as_bytes());
            return true;
        }
        "version" => 0x21,
        "cn" => 0x22,
        "cipher" => 0x23,
        "sig_alg" => 0x24,
        "key_alg" => 0x25,
        _ => match tlv_number(name) {
            Some(kind) => kind,
            None => return false,
        },
    };
    while let &[found, high, low, ref more @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([high, low]));
        let Some((value, after)) = more.split_at_checked(len) else {
            return false;
        };
        if found == kind {
            return put(Some(value), out);
        }
        rest = after;
    }
    false
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
        assert_eq!(set_cookie(b"B = 2 ;c=", "b"), Some(&b"2 "[..]));
        assert_eq!(set_cookie(b"b\t=2", "b"), None);
        assert_eq!(set_cookie(b"=b=2", "b"), None);
    }

    #[test]
    fn tls_of_the_proxy_is_told_by_inner_tlvs() {
        let value = [&[1, 0, 0, 0, 7, 0x21, 0, 2][..], b"v1", &[0x22, 0, 1], b"c"].concat();
        let tlvs = [(0x20, value)];
        let get = |name: &str| {
            let mut out = Vec::new();
            proxy_protocol_ssl(&tlvs, name, &mut out).then_some(out)
        };
        assert_eq!(get("verify"), Some(b"7".to_vec()));
        assert_eq!(get("version"), Some(b"v1".to_vec()));
        assert_eq!(get("0x22"), Some(b"c".to_vec()));
        assert_eq!(get("cipher"), None);
    }
}
