//! Rewriting of redirects and cookies in upstream responses.

use super::transfer::Plan;
use crate::exchange::Exchange;
use crate::template;
use gallop_conf::directives::upstream_conf::COOKIE_FLAGS;
use gallop_conf::model::{items, CookieName, Level, RedirectRule, UpConf};

/// Apply `proxy_redirect` to a `Location` value.
pub fn redirect(ex: &Exchange, plan: &Plan<'_>, value: Vec<u8>) -> Vec<u8> {
    if plan.pass.is_none() {
        return value;
    }
    for rule in items(&plan.conf.redirect) {
        if matches!(rule, RedirectRule::Off) {
            return value;
        }
        if let Some(changed) = rewrite(ex, rule, &value) {
            return changed;
        }
    }
    value
}

/// Apply `proxy_redirect` to the URL in a `Refresh` value.
pub fn refresh(ex: &Exchange, plan: &Plan<'_>, value: Vec<u8>) -> Vec<u8> {
    let lower = value.to_ascii_lowercase();
    match lower.windows(4).position(|w| w == b"url=") {
        Some(i) => {
            let url = redirect(ex, plan, value[i + 4..].to_vec());
            [&value[..i + 4], &url].concat()
        }
        None => value,
    }
}

fn rewrite(ex: &Exchange, rule: &RedirectRule, value: &[u8]) -> Option<Vec<u8>> {
    match rule {
        RedirectRule::Default { from, to } => {
            let rest = value.strip_prefix(from.as_bytes())?;
            Some([to.as_bytes(), rest].concat())
        }
        RedirectRule::Prefix { from, to } => {
            let from = template::eval(ex, from);
            let rest = value.strip_prefix(&from[..])?;
            Some([&template::eval(ex, to)[..], rest].concat())
        }
        RedirectRule::Regex { pattern, to } => {
            let groups = pattern.captures(value)?;
            ex.set_captures(value, groups, pattern);
            Some(template::eval(ex, to))
        }
        RedirectRule::Off => None,
    }
}

/// The position of a cookie attribute's value.
fn attribute(cookie: &[u8], name: &str) -> Option<(usize, usize)> {
    let mut at = memchr::memchr(b';', cookie)? + 1;
    loop {
        let end = memchr::memchr(b';', &cookie[at..]).map_or(cookie.len(), |i| at + i);
        let part = &cookie[at..end];
        let lead = part.len() - part.trim_ascii_start().len();
        if let Some(eq) = memchr::memchr(b'=', part) {
            if part[lead..eq]
                .trim_ascii_end()
                .eq_ignore_ascii_case(name.as_bytes())
            {
                return Some((at + eq + 1, end));
            }
        }
        if end == cookie.len() {
            return None;
        }
        at = end + 1;
    }
}

/// Apply `proxy_cookie_domain`, `proxy_cookie_path`, and `proxy_cookie_flags`.
pub fn set_cookie(ex: &Exchange, conf: &UpConf, cookie: Vec<u8>) -> Vec<u8> {
    let pair = cookie.split(|&c| c == b';').next().unwrap_or_default();
    if !pair.contains(&b'=') {
        // The value is no cookie, and adding attributes would make it one.
        return cookie;
    }
    let cookie = change(ex, cookie, "domain", items(&conf.cookie_domain));
    let cookie = change(ex, cookie, "path", items(&conf.cookie_path));
    flags(ex, conf, cookie)
}

fn change(ex: &Exchange, cookie: Vec<u8>, name: &str, rules: &[RedirectRule]) -> Vec<u8> {
    let Some((start, end)) = attribute(&cookie, name).filter(|_| !rules.is_empty()) else {
        return cookie;
    };
    let domain = name == "domain";
    // The leading dot of a domain is kept.
    let dot = usize::from(domain && cookie[start..end].starts_with(b"."));
    for rule in rules {
        if matches!(rule, RedirectRule::Off) {
            return cookie;
        }
        let plain = matches!(rule, RedirectRule::Prefix { .. });
        let start = if plain { start + dot } else { start };
        let value = &cookie[start..end];
        let changed = match rule {
            // A domain must match completely, in any case.
            RedirectRule::Prefix { from, to } if domain => value
                .eq_ignore_ascii_case(&template::eval(ex, from))
                .then(|| template::eval(ex, to)),
            rule => rewrite(ex, rule, value),
        };
        if let Some(changed) = changed {
            return [&cookie[..start], &changed, &cookie[end..]].concat();
        }
    }
    cookie
}

fn flags(ex: &Exchange, conf: &UpConf, cookie: Vec<u8>) -> Vec<u8> {
    let end = memchr::memchr2(b'=', b';', &cookie).unwrap_or(cookie.len());
    let name = cookie[..end].trim_ascii();
    let rule = items(&conf.cookie_flags)
        .iter()
        .find(|rule| match &rule.name {
            CookieName::Exact(t) => template::eval(ex, t) == name,
            CookieName::Regex(p) => p.is_match(name),
        });
    let Some(rule) = rule else { return cookie };
    let mut parts: Vec<Vec<u8>> = cookie
        .split(|&c| c == b';')
        .map(|p| p.trim_ascii().to_vec())
        .collect();
    let first = parts.remove(0);
    for flag in rule.flags.iter().filter_map(|t| known_flag(ex, t)) {
        let (set, base) = match flag.strip_prefix("no") {
            Some(base) => (None, base),
            None => (Some(flag), flag.split('=').next().unwrap_or(flag)),
        };
        let is_base = |p: &Vec<u8>| {
            let attr = p.split(|&c| c == b'=').next().unwrap_or(p);
            attr.eq_ignore_ascii_case(base.as_bytes())
        };
        match set {
            None => parts.retain(|p| !is_base(p)),
            Some(flag) => {
                let text = spelled(flag).as_bytes().to_vec();
                match parts.iter_mut().find(|p| is_base(p)) {
                    Some(part) if flag.contains('=') => *part = text,
                    Some(_) => {}
                    None => parts.push(text),
                }
            }
        }
    }
    parts.insert(0, first);
    parts.join(&b"; "[..])
}

/// A flag in lower case; `None` if a variable gives no known flag.
fn known_flag(ex: &Exchange, flag: &template::Template) -> Option<&'static str> {
    let value = template::eval(ex, flag);
    let known = COOKIE_FLAGS
        .iter()
        .find(|k| k.as_bytes().eq_ignore_ascii_case(&value));
    if known.is_none() && !value.is_empty() {
        let shown = crate::escape::Shown(&value);
        ex.log(
            Level::Error,
            &format!("invalid proxy_cookie_flags flag \"{shown}\""),
        );
    }
    known.copied()
}

fn spelled(flag: &str) -> &str {
    match flag {
        "secure" => "Secure",
        "httponly" => "HttpOnly",
        "samesite=strict" => "SameSite=Strict",
        "samesite=lax" => "SameSite=Lax",
        "samesite=none" => "SameSite=None",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::attribute;

    #[test]
    fn attributes_are_found_whole() {
        let cookie = b"path=x; Secure; Path = /a; domain=.b";
        let (a, z) = attribute(cookie, "path").expect("path");
        assert_eq!(&cookie[a..z], b" /a");
        let (a, z) = attribute(cookie, "domain").expect("domain");
        assert_eq!(&cookie[a..z], b".b");
        assert_eq!(attribute(b"a=b", "path"), None);
    }
}
