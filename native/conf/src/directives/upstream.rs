//! The upstream block.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::listen::{resolve, split_port};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::values::{parse_digits, parse_msec, parse_size};

/// The smallest zone: eight pages.
pub(super) const SMALLEST_ZONE: u64 = 8 * 4096;

pub const TABLE: &[Spec] = &[
    block("upstream", HTTP | STREAM, ONE, upstream),
    with("server", UPS | SUPS, MORE, server),
    with("least_conn", UPS | SUPS, NONE, |b, d| {
        balance(b, d, Balance::LeastConn)
    }),
    with("least_time", UPS | SUPS, Arity(1, 2), |b, d| {
        let (header, last) = (("header", Until::FirstByte), ("last_byte", Until::LastByte));
        let (connect, first) = (("connect", Until::Connected), ("first_byte", header.1));
        let until = match b.is_in_stream() {
            false => choice(d, &d.args()[0], &[header, last])?,
            true => choice(d, &d.args()[0], &[connect, first, last])?,
        };
        let inflight = match d.args().get(1).map(String::as_str) {
            None => false,
            Some("inflight") => true,
            Some(other) => return Err(invalid_parameter(d, other)),
        };
        let value = LeastTime { until, inflight };
        balance(b, d, Balance::LeastTime(value))
    }),
    with("ip_hash", UPS, NONE, |b, d| balance(b, d, Balance::IpHash)),
    with("hash", UPS | SUPS, Arity(1, 2), |b, d| {
        let key = b.template(&d.args()[0], &d.place)?;
        let consistent = match d.args().get(1).map(String::as_str) {
            None => false,
            Some("consistent") => true,
            Some(other) => return Err(invalid_parameter(d, other)),
        };
        balance(b, d, Balance::Hash { key, consistent })
    }),
    with("random", UPS | SUPS, Arity(0, 2), |b, d| {
        let words: Vec<&str> = d.args().iter().map(String::as_str).collect();
        let value = match words.as_slice() {
            [] => Balance::Random {
                two: false,
                least_conn: false,
            },
            ["two"] | ["two", "least_conn"] => Balance::Random {
                two: true,
                least_conn: true,
            },
            ["two", other] | [other, ..] => return Err(invalid_parameter(d, other)),
        };
        balance(b, d, value)
    }),
    with("keepalive", UPS, Arity(1, 2), |b, d| {
        let n = parse_digits(&d.args()[0]);
        let n = n.ok_or_else(|| {
            ConfError::new(format!(
                "invalid value \"{}\" in \"keepalive\" directive",
                d.args()[0]
            ))
        })?;
        b.up().keepalive_local = match d.args().get(1).map(String::as_str) {
            None => false,
            Some("local") => true,
            Some(other) => return Err(invalid_parameter(d, other)),
        };
        b.up().keepalive = n;
        Ok(())
    }),
    with("keepalive_requests", UPS, ONE, |b, d| {
        let n = parse_digits(&d.args()[0]).ok_or_else(|| invalid_number(d))?;
        b.up().keepalive_requests = n;
        Ok(())
    }),
    with("keepalive_timeout", UPS, ONE, |b, d| {
        b.up().keepalive_timeout = parse_msec(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
        Ok(())
    }),
    with("keepalive_time", UPS, ONE, |b, d| {
        b.up().keepalive_time = parse_msec(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
        Ok(())
    }),
    with("zone", UPS | SUPS, Arity(1, 2), zone),
];

fn upstream(b: &mut Builder, d: &Directive) -> Result<()> {
    let name = &d.args()[0];
    let index = b.intern_upstream(name, None, &d.place);
    if b.http().upstreams[index].explicit {
        return Err(ConfError::new(format!("duplicate upstream \"{name}\"")));
    }
    let mut group = b.http().upstreams[index].clone();
    group.explicit = true;
    group.keepalive = 32;
    b.upstream = Some(group);
    let context = if b.is_in_stream() { SUPS } else { UPS };
    let result = b.apply_in(context, d);
    let group = b.upstream.take().expect("the group set above");
    result?;
    let mut all = group.peers.iter().chain(&group.resolving);
    if all.clone().next().is_none() {
        return Err(ConfError::at("no servers are inside upstream", &d.place));
    }
    if all.all(|p| p.backup) {
        return Err(ConfError::new(format!("no servers in upstream \"{name}\"")));
    }
    b.http().upstreams[index] = group;
    Ok(())
}

/// The name and size of a zone; groups may share a zone, and one of them sets its size.
fn zone(b: &mut Builder, d: &Directive) -> Result<()> {
    let name = &d.args()[0];
    if name.is_empty() {
        return Err(ConfError::new("invalid zone name \"\""));
    }
    if let Some(size) = d.args().get(1) {
        let bytes = parse_size(size);
        let bytes = bytes.ok_or_else(|| ConfError::new(format!("invalid zone size \"{size}\"")))?;
        if bytes < SMALLEST_ZONE {
            return Err(ConfError::new(format!("zone \"{name}\" is too small")));
        }
        b.http().sized_zones.insert(name.clone());
    }
    b.up().zone = Some(name.clone());
    Ok(())
}

fn balance(b: &mut Builder, d: &Directive, value: Balance) -> Result<()> {
    if !matches!(b.up().balance, Balance::RoundRobin) {
        b.warn("load balancing method redefined", &d.place);
    }
    b.up().balance = value;
    Ok(())
}

fn server(b: &mut Builder, d: &Directive) -> Result<()> {
    let word = &d.args()[0];
    let mut peer = Peer::new(word.clone(), PeerAddr::Unix(Default::default()));
    for arg in &d.args()[1..] {
        parameter(b, d, &mut peer, arg)?;
    }
    let (resolving, service) = match peer.resolve.take() {
        Some(name) => (!name.host.is_empty(), name.service),
        None => (false, None),
    };
    if let Some(service) = &service {
        check_service(word, service, resolving)?;
    }
    if let Some(path) = word.strip_prefix("unix:") {
        peer.addr = PeerAddr::Unix(path.into());
        b.up().peers.push(peer);
        return Ok(());
    }
    if b.is_in_stream() {
        stream_server(&peer, word, service.is_some())?;
    }
    if resolving && !is_address(word) {
        let (host, port) = host_and_port(word).ok_or_else(|| invalid_parameter(d, word))?;
        peer.resolve = Some(PeerName {
            host,
            port,
            service,
        });
        b.up().resolving.push(peer);
        return Ok(());
    }
    let found =
        resolve(word, 80).map_err(|e| ConfError::new(format!("{e} in upstream \"{word}\"")))?;
    for addr in found {
        b.up().peers.push(Peer {
            addr: PeerAddr::Inet(addr),
            ..peer.clone()
        });
    }
    Ok(())
}

/// Refuse what the servers of `stream` cannot be.
fn stream_server(peer: &Peer, word: &str, has_service: bool) -> Result<()> {
    if peer.draining || peer.route.is_some() {
        let word = if peer.draining { "drain" } else { "route" };
        return Err(ConfError::new(format!("invalid parameter \"{word}\"")));
    }
    match split_port(word) {
        Ok((_, None)) if !has_service => {
            Err(ConfError::new(format!("no port in upstream \"{word}\"")))
        }
        _ => Ok(()),
    }
}

/// Check a server whose hosts and ports SRV records tell.
fn check_service(word: &str, service: &str, resolving: bool) -> Result<()> {
    let fault = match (service, split_port(word)) {
        ("", _) => "service is empty".to_string(),
        _ if !resolving => {
            format!("service upstream \"{word}\" requires \"resolve\" parameter")
        }
        (_, Ok((_, Some(_)))) => format!("service upstream \"{word}\" may not have port"),
        _ if is_address(word) || word.starts_with("unix:") => {
            format!("service upstream \"{word}\" requires domain name")
        }
        _ => return Ok(()),
    };
    Err(ConfError::new(fault))
}

/// Whether no lookup is needed.
fn is_address(word: &str) -> bool {
    word.parse::<std::net::SocketAddr>().is_ok()
        || word
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok()
}

fn host_and_port(word: &str) -> Option<(String, u16)> {
    match word.split_once(':') {
        None => Some((word.to_string(), 80)),
        Some((host, port)) if !host.is_empty() => {
            let port = port.parse().ok().filter(|&port| port > 0)?;
            Some((host.to_string(), port))
        }
        Some(_) => None,
    }
}

/// The name of a server that has `resolve` or `service`; its host is empty without `resolve`.
fn named(peer: &mut Peer) -> &mut PeerName {
    peer.resolve.get_or_insert_with(|| PeerName {
        host: String::new(),
        port: 0,
        service: None,
    })
}

fn parameter(b: &mut Builder, d: &Directive, peer: &mut Peer, arg: &str) -> Result<()> {
    let word = &d.args()[0];
    let bad = || invalid_parameter(d, arg);
    let number = |v: &str| {
        parse_digits(v)
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(bad)
    };
    let fixed = matches!(
        b.up().balance,
        Balance::IpHash | Balance::Hash { .. } | Balance::Random { .. }
    );
    match arg.split_once('=').unwrap_or((arg, "")) {
        ("weight", v) => peer.weight = number(v).ok().filter(|&n| n > 0).ok_or_else(bad)?,
        ("max_fails", v) => peer.max_fails = number(v)?,
        ("max_conns", v) => peer.max_conns = number(v)?,
        ("fail_timeout", v) => peer.fail_timeout = parse_msec(v).ok_or_else(bad)?,
        ("backup", "") | ("slow_start", _) if fixed => {
            return Err(ConfError::new(format!(
                "balancing method does not support parameter \"{arg}\""
            )));
        }
        ("slow_start", v) => peer.slow_start = parse_msec(v).ok_or_else(bad)?,
        ("backup", "") => peer.backup = true,
        ("down", "") => (peer.down, peer.draining) = (true, false),
        ("drain", "") => (peer.down, peer.draining) = (false, true),
        ("route", "") if arg.contains('=') => return Err(ConfError::new("route is empty")),
        ("route", v) if v.len() > LONGEST_ROUTE => {
            return Err(ConfError::new(format!(
                "route is longer than {LONGEST_ROUTE}"
            )));
        }
        ("route", v) if !v.is_empty() => peer.route = Some(v.to_string()),
        ("resolve", "") => named(peer).host = word.to_string(),
        ("service", v) if arg.contains('=') => named(peer).service = Some(v.to_string()),
        _ => return Err(bad()),
    }
    Ok(())
}
