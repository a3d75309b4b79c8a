//! The `listen` directive and host names in the configuration.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::{Listen, ListenAddr, SocketOptions};
use crate::parser::Directive;
use crate::table::invalid_parameter;
use crate::values::{parse_digits, parse_sec, parse_size};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// Resolve a host or address. The error is nginx's phrase without the directive.
pub fn resolve(text: &str, default_port: u16) -> std::result::Result<Vec<SocketAddr>, String> {
    let (host, port) = split_port(text)?;
    let port = port.unwrap_or(default_port);
    if host == "*" {
        return Ok(vec![SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)]);
    }
    if let Some(v6) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        let ip: Ipv6Addr = v6.parse().map_err(|_| "invalid IPv6 address".to_string())?;
        return Ok(vec![SocketAddr::new(ip.into(), port)]);
    }
    if host.is_empty() {
        return Err("no host".to_string());
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    match (host, port).to_socket_addrs() {
        Ok(found) => {
            let mut all: Vec<SocketAddr> = found.collect();
            all.dedup();
            if all.is_empty() {
                Err("host not found".into())
            } else {
                Ok(all)
            }
        }
        Err(_) => Err("host not found".to_string()),
    }
}

/// Parse an address with its port; names are not resolved. The error is nginx's phrase.
pub fn literal(text: &str) -> std::result::Result<ListenAddr, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path {
            "" => Err("no path in the unix domain socket".into()),
            path => Ok(ListenAddr::Unix(path.into())),
        };
    }
    let (host, port) = split_port(text)?;
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let ip = match bare {
        Some(v6) => v6.parse().map(IpAddr::V6),
        None => host.parse().map(IpAddr::V4),
    };
    let ip = ip.map_err(|_| "no addresses".to_string())?;
    let port = port.ok_or_else(|| "no port".to_string())?;
    Ok(ListenAddr::Inet(SocketAddr::new(ip, port)))
}

/// Split `host:port` or `[v6]:port`; the port must be 1 to 65535.
pub fn split_port(text: &str) -> std::result::Result<(&str, Option<u16>), String> {
    let after_bracket = text.rfind(']').map_or(0, |i| i + 1);
    match text[after_bracket..].rfind(':') {
        None if text.starts_with('[') && after_bracket != text.len() => {
            Err("invalid IPv6 address".into())
        }
        None => Ok((text, None)),
        Some(i) => {
            let port =
                parse_digits(&text[after_bracket + i + 1..]).filter(|p| (1..=65535).contains(p));
            let port = port.ok_or_else(|| "invalid port".to_string())?;
            Ok((&text[..after_bracket + i], Some(port as u16)))
        }
    }
}

fn addresses(word: &str) -> std::result::Result<Vec<ListenAddr>, String> {
    if let Some(path) = word.strip_prefix("unix:") {
        if path.is_empty() {
            return Err("no path in the unix domain socket".into());
        }
        if path.len() > 107 {
            return Err("too long path in the unix domain socket".into());
        }
        return Ok(vec![ListenAddr::Unix(path.into())]);
    }
    if let Some((first, last)) = port_range(word) {
        let mut all = Vec::new();
        for port in first.1..=last {
            let (host, _) = split_port(first.0)?;
            let host = if host.is_empty() { "*" } else { host };
            all.extend(
                resolve(&format!("{host}:{port}"), 80)?
                    .into_iter()
                    .map(ListenAddr::Inet),
            );
        }
        return Ok(all);
    }
    let found = match parse_digits(word) {
        Some(port) if (1..=65535).contains(&port) => {
            vec![SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port as u16)]
        }
        Some(_) => return Err("invalid port".into()),
        None => resolve(word, 80)?,
    };
    Ok(found.into_iter().map(ListenAddr::Inet).collect())
}

/// Split `host:first-last` into the host and the ports.
fn port_range(word: &str) -> Option<((&str, u16), u16)> {
    let after_bracket = word.rfind(']').map_or(0, |i| i + 1);
    let colon = word[after_bracket..].rfind(':').map(|i| after_bracket + i);
    let (host, ports) = match colon {
        Some(i) => (&word[..i], &word[i + 1..]),
        None => ("*", word),
    };
    let (first, last) = ports.split_once('-')?;
    let port = |t: &str| {
        parse_digits(t)
            .filter(|p| (1..=65535).contains(p))
            .map(|p| p as u16)
    };
    let (first, last) = (port(first)?, port(last)?);
    (first <= last).then_some(((host, first), last))
}

/// Parse a `listen` directive into an entry per address.
pub fn parse(b: &mut Builder, d: &Directive) -> Result<Vec<Listen>> {
    let word = &d.args()[0];
    let addrs = addresses(word).map_err(|e| {
        ConfError::at(
            format!("{e} in \"{word}\" of the \"listen\" directive"),
            &d.place,
        )
    })?;
    let mut listen = Listen {
        addr: addrs[0].clone(),
        default_server: false,
        ssl: false,
        http2: false,
        quic: false,
        udp: false,
        proxy_protocol: false,
        socket: SocketOptions::default(),
        place: d.place.clone(),
    };
    for arg in &d.args()[1..] {
        option(b, d, &mut listen, arg)?;
    }
    if listen.quic && (listen.ssl || listen.http2 || listen.proxy_protocol) {
        let other = if listen.ssl {
            "ssl"
        } else if listen.http2 {
            "http2"
        } else {
            "proxy_protocol"
        };
        return Err(ConfError::new(format!(
            "\"{other}\" parameter is incompatible with \"quic\""
        )));
    }
    Ok(addrs
        .into_iter()
        .map(|addr| Listen {
            addr,
            ..listen.clone()
        })
        .collect())
}

fn option(b: &mut Builder, d: &Directive, l: &mut Listen, arg: &str) -> Result<()> {
    let bad = || invalid_parameter(d, arg);
    let size = |v: &str| parse_size(v).filter(|&n| n > 0).ok_or_else(bad);
    let number = |v: &str| {
        parse_digits(v)
            .filter(|&n| n <= i32::MAX as u64)
            .ok_or_else(bad)
    };
    match arg.split_once('=').unwrap_or((arg, "")) {
        ("default_server" | "default", "") => l.default_server = true,
        ("ssl", "") => l.ssl = true,
        ("http2", "") => {
            b.warn(
                "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead",
                &d.place,
            );
            l.http2 = true;
        }
        ("quic", "") => l.quic = true,
        ("udp", "") if b.is_in_stream() => l.udp = true,
        ("proxy_protocol", "") => l.proxy_protocol = true,
        ("bind", "") => l.socket.bind = true,
        ("reuseport", "") => l.socket.reuseport = true,
        ("deferred", "") => l.socket.deferred = true,
        ("multipath", "") => l.socket.multipath = true,
        ("backlog", v) => l.socket.backlog = Some(number(v)?.max(1) as i32),
        ("fastopen", v) => l.socket.fastopen = Some(number(v)? as i32),
        ("rcvbuf", v) => l.socket.rcvbuf = Some(size(v)?),
        ("sndbuf", v) => l.socket.sndbuf = Some(size(v)?),
        ("ipv6only", v) => {
            if !matches!(&l.addr, ListenAddr::Inet(SocketAddr::V6(_))) {
                let message = format!("ipv6only is not supported on addr \"{}\"", l.addr);
                return Err(ConfError::at(message, &d.place));
            }
            l.socket.ipv6only = Some(match v {
                "on" => true,
                "off" => false,
                _ => {
                    let message = format!("invalid ipv6only flags \"{v}\"");
                    return Err(ConfError::at(message, &d.place));
                }
            });
        }
        ("so_keepalive", v) => {
            let parsed = keepalive(v).ok_or_else(|| {
                ConfError::at(format!("invalid so_keepalive value: \"{v}\""), &d.place)
            })?;
            l.socket.keepalive = Some(parsed);
        }
        _ => return Err(bad()),
    }
    Ok(())
}

type Keepalive = (bool, Option<u32>, Option<u32>, Option<u32>);

fn keepalive(v: &str) -> Option<Keepalive> {
    match v {
        "on" => return Some((true, None, None, None)),
        "off" => return Some((false, None, None, None)),
        _ => {}
    }
    let mut parts = v.split(':');
    let mut next = |time: bool| -> Option<Option<u32>> {
        let word = parts.next().unwrap_or("");
        if word.is_empty() {
            return Some(None);
        }
        let n = if time {
            parse_sec(word)
        } else {
            parse_digits(word)
        }?;
        Some(Some(u32::try_from(n).ok().filter(|&n| n > 0)?))
    };
    let (idle, interval, count) = (next(true)?, next(true)?, next(false)?);
    if parts.next().is_some() || (idle.is_none() && interval.is_none() && count.is_none()) {
        return None;
    }
    Some((true, idle, interval, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ports() {
        assert_eq!(
            resolve("127.0.0.1:81", 80),
            Ok(vec!["127.0.0.1:81".parse().expect("addr")])
        );
        assert_eq!(
            resolve("[::1]", 80),
            Ok(vec!["[::1]:80".parse().expect("addr")])
        );
        assert_eq!(
            resolve("*:8080", 80),
            Ok(vec!["0.0.0.0:8080".parse().expect("addr")])
        );
        assert_eq!(resolve("127.0.0.1:0", 80), Err("invalid port".into()));
        assert_eq!(resolve("127.0.0.1:x", 80), Err("invalid port".into()));
        assert!(resolve("[::1", 80).is_err());
        assert!(addresses("unix:").is_err());
    }

    #[test]
    fn keepalive_forms() {
        assert_eq!(
            keepalive("30m::10"),
            Some((true, Some(1800), None, Some(10)))
        );
        assert_eq!(keepalive("::"), None);
        assert_eq!(keepalive("1:2:3:4"), None);
    }
}
