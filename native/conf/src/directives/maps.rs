//! map, geo and split_clients.

use crate::builder::Builder;
use crate::cidr::Cidr;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::template::{variable_name, Template};
use crate::vars::VarKind;
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    block("map", HTTP, TWO, map),
    simple(
        "map_hash_max_size",
        HTTP,
        ONE,
        Setter::Num(|b| &mut b.loc().map_hash_max_size),
    ),
    simple(
        "map_hash_bucket_size",
        HTTP,
        ONE,
        Setter::Num(|b| &mut b.loc().map_hash_bucket_size),
    ),
    block("geo", HTTP, Arity(1, 2), geo),
    block("split_clients", HTTP, TWO, split_clients),
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
        default: Arc::from(&b""[..]),
        ..Geo::default()
    };
    for entry in d.block.iter().flatten() {
        no_block(entry)?;
        geo_entry(&mut geo, entry)?;
    }
    // The narrowest network wins; later ones replace equal ones.
    geo.nets.sort_by_key(|(net, _)| match net {
        Cidr::Net { prefix, v6, .. } => std::cmp::Reverse((*v6, *prefix)),
        Cidr::Unix => std::cmp::Reverse((false, 255)),
    });
    b.vars
        .define(&name, VarKind::Geo(Arc::new(geo)), &d.place)?;
    Ok(())
}

fn geo_entry(geo: &mut Geo, entry: &Directive) -> Result<()> {
    let value = |v: &str| -> Arc<[u8]> { v.as_bytes().into() };
    let network = |text: &str| -> Result<Cidr> {
        Cidr::parse(text)
            .ok_or_else(|| ConfError::at(format!("invalid network \"{text}\""), &entry.place))
    };
    match (entry.name(), entry.args()) {
        ("ranges", []) => {
            if !geo.nets.is_empty() {
                let message =
                    "the \"ranges\" directive must be the first directive inside \"geo\" block";
                return Err(ConfError::at(message, &entry.place));
            }
            geo.by_range = true;
        }
        ("volatile", []) => geo.volatile = true,
        ("proxy_recursive", []) => geo.proxy_recursive = true,
        ("default", [v]) => geo.default = value(v),
        ("proxy", [net]) => geo.proxies.push(network(net)?),
        ("delete", [net]) if geo.by_range => {
            let range = parse_range(net, entry)?;
            geo.ranges.retain(|(a, z, _)| (*a, *z) != range);
        }
        ("delete", [net]) => {
            let net = network(net)?;
            geo.nets.retain(|(n, _)| *n != net);
        }
        (range, [v]) if geo.by_range => {
            let (first, last) = parse_range(range, entry)?;
            carve(geo, first, last);
            let at = geo.ranges.partition_point(|(a, _, _)| *a < first);
            geo.ranges.insert(at, (first, last, value(v)));
        }
        (net, [v]) => {
            let net = network(net)?;
            geo.nets.retain(|(n, _)| *n != net);
            geo.nets.push((net, value(v)));
        }
        _ => {
            return Err(ConfError::at(
                "invalid number of the geo parameters",
                &entry.place,
            ))
        }
    }
    Ok(())
}

fn parse_range(text: &str, entry: &Directive) -> Result<(std::net::IpAddr, std::net::IpAddr)> {
    let invalid = || ConfError::at(format!("invalid range \"{text}\""), &entry.place);
    let (a, z) = text.split_once('-').ok_or_else(invalid)?;
    let (a, z): (std::net::Ipv4Addr, std::net::Ipv4Addr) = (
        a.parse().map_err(|_| invalid())?,
        z.parse().map_err(|_| invalid())?,
    );
    if a > z {
        return Err(invalid());
    }
    Ok((a.into(), z.into()))
}

/// Cuts `first..=last` out of the ranges declared before, so that the later one holds.
fn carve(geo: &mut Geo, first: std::net::IpAddr, last: std::net::IpAddr) {
    use std::net::IpAddr;
    let step = |ip: IpAddr, by: i64| match ip {
        IpAddr::V4(v4) => IpAddr::from(((i64::from(u32::from(v4)) + by) as u32).to_be_bytes()),
        other => other,
    };
    let mut kept = Vec::with_capacity(geo.ranges.len() + 1);
    for (a, z, v) in geo.ranges.drain(..) {
        if z < first || a > last {
            kept.push((a, z, v));
            continue;
        }
        if a < first {
            kept.push((a, step(first, -1), v.clone()));
        }
        if z > last {
            kept.push((step(last, 1), z, v));
        }
    }
    geo.ranges = kept;
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

/// A percentage with up to two decimals, in hundredths; zero is refused.
fn parse_percent(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 2 {
        return None;
    }
    let whole = crate::values::parse_digits(whole)?;
    let fraction = crate::values::parse_digits(&format!("{decimals:0<2}"))?;
    Some(whole * 100 + fraction).filter(|&n| n > 0)
}
