//! `sticky` in upstream blocks.

use super::upstream::SMALLEST_ZONE;
use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::UPS, *};
use crate::values::{parse_msec, parse_sec, parse_size};
use crate::vars::VarId;
use std::sync::Arc;

pub const TABLE: &[Spec] = &[with("sticky", UPS, TWO_OR_MORE, sticky)];

/// The default `timeout` of sessions in milliseconds.
const TIMEOUT: u64 = 600_000;

fn sticky(b: &mut Builder, d: &Directive) -> Result<()> {
    let value = match d.args()[0].as_str() {
        "cookie" => Sticky::Cookie(cookie(b, d)?),
        "route" => Sticky::Route(route(b, d)?),
        "learn" => Sticky::Learn(Arc::new(learn(b, d)?)),
        other => return Err(unknown(other)),
    };
    store(&mut b.up().sticky, value, d)
}

fn unknown(word: &str) -> ConfError {
    ConfError::new(format!("unknown parameter \"{word}\""))
}

fn fault(what: impl std::fmt::Display) -> ConfError {
    ConfError::new(format!("\"sticky\" directive {what}"))
}

/// Store a parameter that may be given once.
fn once<T>(slot: &mut Option<T>, name: &str, value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(fault(format_args!("parameter \"{name}\" is duplicate"))),
    }
}

fn cookie(b: &mut Builder, d: &Directive) -> Result<StickyCookie> {
    let name = d.args()[1].clone();
    if name.is_empty() {
        return Err(fault("empty cookie name"));
    }
    let mut cookie = StickyCookie {
        lookup: b.vars.intern(&format!("cookie_{name}")),
        name,
        expires: None,
        domain: None,
        path: None,
        samesite: None,
        httponly: false,
        secure: false,
    };
    let (mut httponly, mut secure) = (None, None);
    for word in &d.args()[2..] {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let given = || match value {
            "" => Err(fault(format_args!("no value for \"{key}\""))),
            value => Ok(value),
        };
        match (key, word.contains('=')) {
            ("domain", true) => {
                let template = b.template(given()?, &d.place)?;
                once(&mut cookie.domain, key, template)?;
            }
            ("path", true) => once(&mut cookie.path, key, given()?.to_string())?,
            ("expires", true) => once(&mut cookie.expires, key, expires(value)?)?,
            ("samesite", true) => {
                let template = b.template(value, &d.place)?;
                if template.as_literal().is_some() && !is_same_site(value) {
                    return Err(fault("invalid \"samesite\" parameter value"));
                }
                once(&mut cookie.samesite, key, template)?;
            }
            ("httponly", false) => once(&mut httponly, key, ())?,
            ("secure", false) => once(&mut secure, key, ())?,
            _ => return Err(unknown(word)),
        }
    }
    cookie.httponly = httponly.is_some();
    cookie.secure = secure.is_some();
    Ok(cookie)
}

fn is_same_site(value: &str) -> bool {
    SAME_SITE.iter().any(|s| s.eq_ignore_ascii_case(value))
}

fn expires(value: &str) -> Result<StickyExpires> {
    if value == "max" {
        return Ok(StickyExpires::Max);
    }
    let seconds = parse_sec(value).map(StickyExpires::After);
    seconds.ok_or_else(|| fault("invalid \"expires\" parameter value"))
}

fn route(b: &mut Builder, d: &Directive) -> Result<Vec<VarId>> {
    let mut variables = Vec::new();
    for word in &d.args()[1..] {
        let name = word.strip_prefix('$').filter(|name| !name.is_empty());
        let name =
            name.ok_or_else(|| ConfError::new(format!("invalid variable name \"{word}\"")))?;
        variables.push(b.vars.intern(name));
    }
    Ok(variables)
}

fn learn(b: &mut Builder, d: &Directive) -> Result<StickyLearn> {
    let (mut zone, mut timeout) = (None, None);
    let mut learn = StickyLearn {
        zone: String::new(),
        size: 0,
        timeout: TIMEOUT,
        lookup: Vec::new(),
        create: Vec::new(),
        at_header: false,
    };
    for word in &d.args()[1..] {
        match word.split_once('=').unwrap_or((word, "")) {
            ("zone", _) if zone.is_some() => return Err(fault("duplicate zone")),
            ("zone", value) => zone = Some(zone_of(value)?),
            ("timeout", _) if timeout.is_some() => return Err(fault("duplicate timeout")),
            ("timeout", value) => {
                let ms = parse_msec(value).filter(|&ms| ms > 0);
                timeout = Some(ms.ok_or_else(|| fault("invalid timeout"))?);
            }
            ("create", value) => learn.create.push(variable(b, "create", value)?),
            ("lookup", value) => learn.lookup.push(variable(b, "lookup", value)?),
            ("header", "") if word == "header" => learn.at_header = true,
            _ => return Err(unknown(word)),
        }
    }
    let missing = |name| fault(format_args!("\"{name}\" parameter is not specified"));
    if learn.lookup.is_empty() {
        return Err(missing("lookup"));
    }
    if learn.create.is_empty() {
        return Err(missing("create"));
    }
    (learn.zone, learn.size) = zone.ok_or_else(|| missing("zone"))?;
    learn.timeout = timeout.unwrap_or(TIMEOUT);
    claim_zone(b, &learn.zone)?;
    Ok(learn)
}

fn variable(b: &mut Builder, parameter: &str, value: &str) -> Result<VarId> {
    let name = value.strip_prefix('$').filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| {
        fault(format_args!(
            "missing variable in the \"{parameter}\" parameter"
        ))
    })?;
    Ok(b.vars.intern(name))
}

/// The name and the bytes of a zone.
fn zone_of(value: &str) -> Result<(String, u64)> {
    let Some((name, size)) = value.split_once(':') else {
        return Err(fault("zone size is not specified"));
    };
    if name.is_empty() {
        return Err(fault("zone name is not specified"));
    }
    let size = parse_size(size).ok_or_else(|| fault("invalid zone size"))?;
    if size < SMALLEST_ZONE {
        return Err(fault("zone is too small"));
    }
    Ok((name.to_string(), size))
}

/// Reject a zone that another group has.
fn claim_zone(b: &mut Builder, zone: &str) -> Result<()> {
    let group = b.up().name.clone();
    match b.http().sticky_zones.insert(zone.to_string(), group) {
        None => Ok(()),
        Some(other) => Err(ConfError::new(format!(
            "sticky zone \"{zone}\" is already used in upstream \"{other}\""
        ))),
    }
}
