//! expires, add_header, and add_trailer.

use crate::body::Body;
use crate::exchange::Exchange;
use crate::template;
use crate::time::{http_date, parse_http_date};
use gallop_conf::directives::files::parse_expires;
use gallop_conf::model::{items, Expires};

/// Whether `add_header` without `always` applies to this status.
pub fn is_usual(status: u16) -> bool {
    matches!(
        status,
        200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308
    )
}

pub fn apply(ex: &mut Exchange) {
    if ex.is_subrequest() {
        return;
    }
    let loc = ex.loc.clone();
    let usual = is_usual(ex.response.status);
    if let Some(rule) = loc.conf.expires.as_ref().filter(|_| usual) {
        expires(ex, rule);
    }
    for header in items(&loc.conf.add_header)
        .iter()
        .filter(|h| usual || h.always)
    {
        let value = template::eval(ex, &header.value);
        add(ex, &header.name, value);
    }
    for trailer in items(&loc.conf.add_trailer)
        .iter()
        .filter(|h| usual || h.always)
    {
        // The value is computed at the end of the body.
        ex.response
            .trailers
            .push((trailer.name.clone().into_bytes(), Vec::new()));
    }
}

/// The trailer fields after the body: those of the upstream, then those of `add_trailer`, each of
/// which may refer to earlier ones. The exchange keeps them for the log.
pub fn trailers(ex: &mut Exchange, body: &mut Body) -> Vec<(Vec<u8>, Vec<u8>)> {
    let announced = std::mem::replace(&mut ex.response.trailers, body.trailers());
    let loc = ex.loc.clone();
    let own = items(&loc.conf.add_trailer).iter();
    for header in own.filter(|h| announced.iter().any(|(n, _)| *n == h.name.as_bytes())) {
        let value = template::eval(ex, &header.value);
        if !value.is_empty() {
            let name = header.name.clone().into_bytes();
            ex.response.trailers.push((name, value));
        }
    }
    ex.response.trailers.clone()
}

fn add(ex: &mut Exchange, name: &str, value: Vec<u8>) {
    let r = &mut ex.response;
    match name.to_ascii_lowercase().as_str() {
        "last-modified" => {
            r.last_modified = if value.is_empty() {
                None
            } else {
                parse_http_date(&value)
            };
            if r.last_modified.is_none() && !value.is_empty() {
                r.add_header(name, value);
            }
        }
        "etag" => r.etag = if value.is_empty() { None } else { Some(value) },
        _ if value.is_empty() => {}
        _ => r.add_header(name, value),
    }
}

fn expires(ex: &mut Exchange, rule: &Expires) {
    let now = (gallop_runtime::unix_time() / 1000) as i64;
    if let Expires::Variable { value, modified } = rule {
        let text = template::eval(ex, value);
        let text = String::from_utf8_lossy(&text).into_owned();
        if let Some(rule) = parse_expires(&text, *modified) {
            expires(ex, &rule);
        }
        return;
    }
    let date = match rule {
        Expires::Off | Expires::Variable { .. } => return,
        Expires::Epoch => {
            return set(
                ex,
                "Thu, 01 Jan 1970 00:00:01 GMT".into(),
                "no-cache".into(),
            )
        }
        Expires::Max => {
            return set(
                ex,
                "Thu, 31 Dec 2037 23:55:55 GMT".into(),
                "max-age=315360000".into(),
            );
        }
        Expires::Access(s) => now + s,
        Expires::Modified(s) => ex.response.last_modified.map_or(now + s, |m| m + s),
        Expires::Daily(s) => {
            let midnight = now - now.rem_euclid(86_400) - crate::time::zone_offset(now);
            let at = midnight + s;
            if at >= now {
                at
            } else {
                at + 86_400
            }
        }
    };
    let age = date - now;
    let control = if age < 0 {
        "no-cache".to_string()
    } else {
        format!("max-age={age}")
    };
    set(ex, http_date(date), control);
}

fn set(ex: &mut Exchange, date: String, control: String) {
    ex.response.remove_header("Expires");
    ex.response.remove_header("Cache-Control");
    ex.response.add_header("Expires", date);
    ex.response.add_header("Cache-Control", control);
}
