//! The client's address as reported by trusted proxies.

use crate::conn::Conn;
use crate::exchange::Exchange;
use gallop_conf::cidr::Cidr;
use gallop_conf::model::{items, Location, RealIpHeader, RealIpSource};
use std::net::{IpAddr, SocketAddr};

/// Replace the client's address if the peer is trusted; once per request.
pub fn apply(ex: &mut Exchange, loc: &Location) {
    let trusted = items(&loc.conf.set_real_ip_from);
    if trusted.is_empty() || ex.is_subrequest() || ex.realip_done {
        return;
    }
    let default = RealIpSource::Known(RealIpHeader::XRealIp);
    let source = loc.conf.real_ip_header.as_ref().unwrap_or(&default);
    let recursive = loc.conf.real_ip_recursive.unwrap_or(false);
    let name = match source {
        RealIpSource::Known(RealIpHeader::XRealIp) => "x-real-ip",
        RealIpSource::Known(RealIpHeader::XForwardedFor) => "x-forwarded-for",
        RealIpSource::Header(name) => name,
        RealIpSource::Known(RealIpHeader::ProxyProtocol) => {
            if let Some(addr) = told_by_proxy(&ex.conn, ex.client, trusted) {
                ex.client = Some(addr.ip());
                ex.client_port = addr.port();
                ex.realip_done = true;
            }
            return;
        }
    };
    // X-Forwarded-For lists are joined; for any other repeated field the first one counts, as in
    // nginx.
    let most = match name.eq_ignore_ascii_case("x-forwarded-for") {
        true => usize::MAX,
        false => 1,
    };
    let fields: Vec<&[u8]> = ex.head.get_all(name).take(most).collect();
    if let Some((ip, port)) = last_untrusted(ex.client, &fields, trusted, recursive) {
        ex.client = Some(ip);
        ex.client_port = port.unwrap_or(0);
        ex.realip_done = true;
    }
}

/// The client's address in the PROXY protocol header of a trusted peer.
pub(crate) fn told_by_proxy(
    conn: &Conn,
    peer: Option<IpAddr>,
    trusted: &[Cidr],
) -> Option<SocketAddr> {
    let source = conn.proxy_protocol().and_then(|header| header.source);
    source.filter(|_| trusted.iter().any(|net| net.contains(peer)))
}

/// Walk the list of addresses from its end while the previous address is trusted; a single step
/// unless `recursive`. `None` if nothing changes.
pub fn last_untrusted(
    peer: Option<IpAddr>,
    fields: &[&[u8]],
    trusted: &[Cidr],
    recursive: bool,
) -> Option<(IpAddr, Option<u16>)> {
    let mut current = peer;
    let mut found = None;
    for field in fields.iter().rev() {
        // Separators after an address are skipped. A field that starts with a separator, or is
        // empty, has no address there, and the walk ends.
        let end = field.iter().rposition(|&c| !is_separator(c));
        let mut rest = &field[..end.map_or(0, |i| i + 1)];
        loop {
            let start = rest.iter().rposition(|&c| is_separator(c));
            let word = &rest[start.map_or(0, |i| i + 1)..];
            let is_trusted = trusted.iter().any(|net| net.contains(current));
            let Some((ip, port)) = parse_address(word).filter(|_| is_trusted) else {
                return found;
            };
            found = Some((ip, port));
            current = Some(ip);
            if !recursive {
                return found;
            }
            let Some(start) = start else {
                break;
            };
            let before = rest[..start].iter().rposition(|&c| !is_separator(c));
            rest = &rest[..before.map_or(0, |i| i + 1)];
        }
    }
    found
}

fn is_separator(c: u8) -> bool {
    c == b',' || c == b' '
}

fn parse_address(word: &[u8]) -> Option<(IpAddr, Option<u16>)> {
    let text = std::str::from_utf8(word).ok()?;
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return Some((addr.ip(), Some(addr.port())));
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .unwrap_or(text);
    bare.parse().ok().map(|ip| (ip, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_hops_are_walked_from_the_end() {
        let trusted = [
            Cidr::parse("127.0.0.0/8").expect("net"),
            Cidr::parse("10.0.0.0/8").expect("net"),
        ];
        let peer = Some("127.0.0.1".parse().expect("ip"));
        let fields: &[&[u8]] = &[b"1.1.1.1, 2.2.2.2:99", b"10.0.0.1"];
        let ip = |s: &str| s.parse::<IpAddr>().expect("ip");
        assert_eq!(
            last_untrusted(peer, fields, &trusted, false),
            Some((ip("10.0.0.1"), None))
        );
        assert_eq!(
            last_untrusted(peer, fields, &trusted, true),
            Some((ip("2.2.2.2"), Some(99)))
        );
        let stranger = Some(ip("9.9.9.9"));
        assert_eq!(last_untrusted(stranger, fields, &trusted, true), None);
    }

    /// As in nginx 1.31: an invalid or empty entry ends the walk.
    #[test]
    fn invalid_address_ends_the_walk() {
        let trusted = [Cidr::parse("0.0.0.0/0").expect("net")];
        let peer = Some("127.0.0.1".parse().expect("ip"));
        for (fields, recursive, found) in [
            (&[&b"1.1.1.1"[..], b""][..], false, None),
            (&[b"1.1.1.1", b""], true, None),
            (&[b"1.1.1.1", b", ,"], true, None),
            (&[b"1.1.1.1", b"x"], true, None),
            (&[b"1.1.1.1", b",2.2.2.2"], true, Some("2.2.2.2")),
            (&[b"", b"2.2.2.2"], true, Some("2.2.2.2")),
            (
                &[b"1.1.1.1", b"2.2.2.2 , ,3.3.3.3, "],
                true,
                Some("1.1.1.1"),
            ),
        ] {
            let expected = found.map(|ip: &str| (ip.parse().expect("ip"), None));
            let walked = last_untrusted(peer, fields, &trusted, recursive);
            assert_eq!(walked, expected, "{fields:?}");
        }
    }
}
