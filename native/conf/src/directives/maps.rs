//! map, geo, and split_clients.

use crate::builder::Builder;
use crate::cidr::Cidr;
use crate::error::{ConfError, Result};
use crate::geo::Entries;
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::template::{variable_name, Template};
use crate::vars::VarKind;
use std::net::Ipv4Addr;
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    block("map", HTTP | STREAM, TWO, map),
    simple(
        "map_hash_max_size",
        HTTP | STREAM,
        ONE,
        Setter::Num(|b| &mut b.loc().map_hash_max_size),
    ),
    simple(
        "map_hash_bucket_size",
        HTTP | STREAM,
        ONE,
        Setter::Num(|b| &mut b.loc().map_hash_bucket_size),
    ),
    block("geo", HTTP | STREAM, Arity(1, 2), geo),
    block("split_clients", HTTP | STREAM, TWO, split_clients),
];

fn no_block(e: &Directive) -> Result<()> {
    match e.block {
        Some(_) => Err(ConfError::at("unexpected \"{\"", &e.place)),
        None => Ok(()),
    }
}

fn map(b: &mut Builder, d: &Directive) -> Result<()> {
    let source = b.template(&d.args()[0], &d.place)?;
    let name = variable_name(&d.args()[1], &d.place)?.to_string();
    let mut map = Map {
        source,
        ..Map::default()
    };
    let mut seen_default = false;
    for entry in d.block.iter().flatten() {
        no_block(entry)?;
        match (entry.name(), entry.args()) {
            ("hostnames", []) => map.hostnames = true,
            ("volatile", []) => map.volatile = true,
            (key, [value]) => {
                let value = b.template(value, &entry.place)?;
                map.computed |= value.as_literal().is_none();
                if key == "default" {
                    if seen_default {
                        return Err(ConfError::at(
                            "duplicate default map parameter",
                            &entry.place,
                        ));
                    }
                    seen_default = true;
                    map.default = value;
                } else {
                    map_entry(b, &mut map, entry, value)?;
                }
            }
            _ => {
                return Err(ConfError::at(
                    "invalid number of the map parameters",
                    &entry.place,
                ));
            }
        }
    }
    b.vars
        .define(&name, VarKind::Map(Arc::new(map)), &d.place)?;
    Ok(())
}

fn map_entry(b: &mut Builder, map: &mut Map, entry: &Directive, value: Template) -> Result<()> {
    let key = entry.name();
    if let Some(source) = key.strip_prefix('~') {
        let (source, caseless) = match source.strip_prefix('*') {
            Some(s) => (s, true),
            None => (source, false),
        };
        let pattern = b.pattern(source, caseless, &entry.place)?;
        map.regexes.push((pattern, value));
        return Ok(());
    }
    let key = key.strip_prefix('\\').unwrap_or(key).to_ascii_lowercase();
    let table = if !map.hostnames {
        &mut map.exact
    } else if let Some(suffix) = key.strip_prefix("*.") {
        return insert(&mut map.wildcard_head, suffix, value, entry);
    } else if let Some(suffix) = key.strip_prefix('.') {
        insert(&mut map.wildcard_head, suffix, value.clone(), entry)?;
        return insert(&mut map.exact, suffix, value, entry);
    } else if let Some(stem) = key.strip_suffix(".*") {
        return insert(&mut map.wildcard_tail, stem, value, entry);
    } else {
        &mut map.exact
    };
    insert(table, &key, value, entry)
}

fn insert(
    table: &mut hashbrown::HashMap<Box<[u8]>, Template>,
    key: &str,
    value: Template,
    entry: &Directive,
) -> Result<()> {
    if table.insert(key.as_bytes().into(), value).is_some() {
        let message = format!("conflicting parameter \"{}\"", entry.name());
        return Err(ConfError::at(message, &entry.place));
    }
    Ok(())
}

fn geo(b: &mut Builder, d: &Directive) -> Result<()> {
    let (source, name) = match d.args() {
        [source, name] => {
            variable_name(source, &d.place)?;
            (Some(b.template(source, &d.place)?), name)
        }
        args => (None, &args[0]),
    };
    let name = variable_name(name, &d.place)?.to_string();
    let mut geo = Geo {
        source,
        ..Geo::default()
    };
    let (mut entries, mut by_range, mut default) = (Entries::default(), false, None);
    for entry in d.block.iter().flatten() {
        no_block(entry)?;
        match (entry.name(), entry.args()) {
            ("ranges", []) if by_range || entries.is_empty() => by_range = true,
            ("ranges", []) => {
                let message =
                    "the \"ranges\" directive must be the first directive inside \"geo\" block";
                return Err(ConfError::at(message, &entry.place));
            }
            ("volatile", []) => geo.volatile = true,
            ("proxy_recursive", []) => geo.proxy_recursive = true,
            ("default", [text]) => {
                let new = entries.value(text);
                if let Some(old) = default.replace(new) {
                    let message = match by_range {
                        true => {
                            let old = String::from_utf8_lossy(&old);
                            format!("duplicate default geo range value: \"{text}\", old value: \"{old}\"")
                        }
                        false => duplicate_of("network", "default", text, &old),
                    };
                    b.warn(message, &entry.place);
                }
            }
            ("proxy", [text]) => geo.proxies.push(network(b, text, entry)?),
            (_, [_]) if by_range => geo_range(b, &mut entries, entry)?,
            (_, [_]) => geo_net(b, &mut entries, entry)?,
            _ => {
                let message = "invalid number of the geo parameters";
                return Err(ConfError::at(message, &entry.place));
            }
        }
    }
    geo.default = default.unwrap_or_else(|| Arc::from(&b""[..]));
    geo.addresses = entries.lay_out(by_range);
    b.vars
        .define(&name, VarKind::Geo(Arc::new(geo)), &d.place)?;
    Ok(())
}

pub(super) fn network(b: &mut Builder, text: &str, entry: &Directive) -> Result<Cidr> {
    let net = b
        .network(text, &entry.place)
        .filter(|net| *net != Cidr::Unix);
    net.ok_or_else(|| ConfError::at(format!("invalid network \"{text}\""), &entry.place))
}

/// Parse `NETWORK value` or `delete NETWORK`.
fn geo_net(b: &mut Builder, entries: &mut Entries, entry: &Directive) -> Result<()> {
    let (text, value) = (entry.name(), &entry.args()[0]);
    if text == "delete" {
        if !entries.delete_net(&network(b, value, entry)?) {
            b.warn(format!("no network \"{value}\" to delete"), &entry.place);
        }
        return Ok(());
    }
    let net = network(b, text, entry)?;
    let new = entries.value(value);
    if let Some(old) = entries.add_net(&net, new) {
        b.warn(duplicate_of("network", text, value, &old), &entry.place);
    }
    Ok(())
}

/// Parse `FIRST-LAST value` or `delete FIRST-LAST`.
fn geo_range(b: &mut Builder, entries: &mut Entries, entry: &Directive) -> Result<()> {
    let (text, value) = (entry.name(), &entry.args()[0]);
    if text == "delete" {
        let (first, last) = parse_range(value, entry)?;
        if !entries.delete_range(first, last) {
            let message = format!("no address range \"{value}\" to delete");
            b.warn(message, &entry.place);
        }
        return Ok(());
    }
    let (first, last) = parse_range(text, entry)?;
    let new = entries.value(value);
    match entries.add_range(first, last, &new) {
        Ok(None) => {}
        Ok(Some(old)) => b.warn(duplicate_of("range", text, value, &old), &entry.place),
        Err((start, end)) => {
            let (start, end) = (Ipv4Addr::from(start), Ipv4Addr::from(end));
            let message = format!("range \"{text}\" overlaps \"{start}-{end}\"");
            return Err(ConfError::at(message, &entry.place));
        }
    }
    Ok(())
}

fn duplicate_of(what: &str, text: &str, value: &str, old: &[u8]) -> String {
    let old = String::from_utf8_lossy(old);
    format!("duplicate {what} \"{text}\", value: \"{value}\", old value: \"{old}\"")
}

fn parse_range(text: &str, entry: &Directive) -> Result<(u32, u32)> {
    let address = |text: &str| text.parse::<Ipv4Addr>().ok().map(u32::from);
    let both = text.split_once('-');
    let both = both.and_then(|(a, z)| Some((address(a)?, address(z)?)));
    both.filter(|(first, last)| first <= last)
        .ok_or_else(|| ConfError::at(format!("invalid range \"{text}\""), &entry.place))
}

fn split_clients(b: &mut Builder, d: &Directive) -> Result<()> {
    let source = b.template(&d.args()[0], &d.place)?;
    let name = variable_name(&d.args()[1], &d.place)?.to_string();
    let mut split = SplitClients {
        source,
        parts: Vec::new(),
    };
    let mut hundredths = 0u64;
    for entry in d.block.iter().flatten() {
        no_block(entry)?;
        let [value] = entry.args() else {
            return Err(ConfError::at(
                "invalid number of the split_clients parameters",
                &entry.place,
            ));
        };
        let value = b.template(value, &entry.place)?;
        if entry.name() == "*" {
            split.parts.push((None, value));
            continue;
        }
        let percent = entry.name().strip_suffix('%').and_then(parse_percent);
        let percent = percent.ok_or_else(|| {
            ConfError::at(
                format!("invalid percent value \"{}\"", entry.name()),
                &entry.place,
            )
        })?;
        hundredths += percent;
        if hundredths > 10_000 {
            return Err(ConfError::at(
                "percent total is greater than 100%",
                &entry.place,
            ));
        }
        let bound = (u64::from(u32::MAX) * hundredths / 10_000) as u32;
        split.parts.push((Some(bound), value));
    }
    b.vars
        .define(&name, VarKind::SplitClients(Arc::new(split)), &d.place)?;
    Ok(())
}

/// Parse a percentage with up to two decimals into hundredths; zero is rejected.
fn parse_percent(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 2 {
        return None;
    }
    let whole = crate::values::parse_digits(whole)?;
    let fraction = crate::values::parse_digits(&format!("{decimals:0<2}"))?;
    Some(whole * 100 + fraction).filter(|&n| n > 0)
}
