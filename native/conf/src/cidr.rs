//! Address ranges.

use std::net::{IpAddr, Ipv6Addr};

/// A network, or all Unix socket peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cidr {
    Net { bits: u128, prefix: u8, v6: bool },
    Unix,
}

fn bits_of(ip: IpAddr) -> (u128, bool) {
    match ip {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, false),
        IpAddr::V6(v6) => (u128::from(v6), true),
    }
}

fn mask(prefix: u8) -> u128 {
    if prefix == 0 {
        0
    } else {
        u128::MAX << (128 - prefix)
    }
}

/// Convert an IPv4 address mapped into IPv6 to the IPv4 address, as nginx does.
pub fn unmap(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

impl Cidr {
    /// Parse `10.0.0.0/8`, `2001:db8::/32`, a single address, or `unix:`.
    pub fn parse(text: &str) -> Option<Cidr> {
        if text == "unix:" {
            return Some(Cidr::Unix);
        }
        let (addr, prefix) = match text.split_once('/') {
            Some((addr, p)) => (addr, Some(p)),
            None => (text, None),
        };
        let ip: IpAddr = addr.parse().ok()?;
        let (bits, v6) = bits_of(ip);
        let max = if v6 { 128 } else { 32 };
        let prefix = match prefix {
            None => max,
            Some(p) if p.contains('.') => dotted_prefix(p)?,
            Some(p) => crate::values::parse_digits(p).filter(|&n| n <= u64::from(max))? as u8,
        };
        Some(Cidr::Net {
            bits: bits & mask(prefix),
            prefix,
            v6,
        })
    }

    /// Whether `text`, from which this network was parsed, contains an address other than the
    /// network's first.
    pub fn has_low_bits(&self, text: &str) -> bool {
        let address = text.split('/').next().and_then(|a| a.parse().ok());
        match (self, address) {
            (Cidr::Net { bits, .. }, Some(address)) => bits_of(address).0 != *bits,
            _ => false,
        }
    }

    /// Whether the network contains an address; `None` is a Unix socket peer.
    pub fn contains(&self, ip: Option<IpAddr>) -> bool {
        match (self, ip) {
            (Cidr::Unix, None) => true,
            (Cidr::Net { bits, prefix, v6 }, Some(ip)) => {
                let (b, is_v6) = bits_of(unmap(ip));
                is_v6 == *v6 && b & mask(*prefix) == *bits
            }
            _ => false,
        }
    }

    /// The first and last address of the network.
    pub fn range(&self) -> Option<(IpAddr, IpAddr)> {
        let Cidr::Net { bits, prefix, v6 } = *self else {
            return None;
        };
        let last = bits | !mask(prefix);
        Some(if v6 {
            (Ipv6Addr::from(bits).into(), Ipv6Addr::from(last).into())
        } else {
            let v4 = |b: u128| IpAddr::from(((b >> 96) as u32).to_be_bytes());
            (v4(bits), v4(last))
        })
    }
}

fn dotted_prefix(text: &str) -> Option<u8> {
    let mask = u32::from(text.parse::<std::net::Ipv4Addr>().ok()?);
    (mask.leading_ones() + mask.trailing_zeros() == 32 || mask == 0)
        .then(|| mask.leading_ones() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        let net = Cidr::parse("10.1.2.3/8").expect("parses");
        assert!(net.contains(Some("10.200.0.1".parse().expect("ip"))));
        assert!(net.contains(Some("::ffff:10.0.0.1".parse().expect("ip"))));
        assert!(!net.contains(Some("11.0.0.1".parse().expect("ip"))));
        assert!(!net.contains(None));
        assert!(Cidr::parse("0.0.0.0/0")
            .expect("parses")
            .contains(Some("1.2.3.4".parse().expect("ip"))));
        assert!(!Cidr::parse("::/0")
            .expect("parses")
            .contains(Some("1.2.3.4".parse().expect("ip"))));
        assert!(Cidr::parse("10.0.0.0/33").is_none());
    }
}
