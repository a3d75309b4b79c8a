//! map, geo and split_clients.

use crate::scope::{set_captures, Scope};
use crate::template;
use gallop_conf::cidr::Cidr;
use gallop_conf::model::{Geo, Map, SplitClients};
use std::net::IpAddr;

pub fn map<S: Scope + ?Sized>(scope: &S, map: &Map) -> Vec<u8> {
    let mut source = template::eval(scope, &map.source);
    if map.hostnames && source.last() == Some(&b'.') {
        source.pop();
    }
    let key = source.to_ascii_lowercase();
    if let Some(value) = map.exact.get(&*key).or_else(|| wildcard(map, &key)) {
        return template::eval(scope, value);
    }
    for (pattern, value) in &map.regexes {
        if let Some(groups) = pattern.captures(&source) {
            set_captures(scope, &source, groups, pattern);
            return template::eval(scope, value);
        }
    }
    template::eval(scope, &map.default)
}

fn wildcard<'a>(map: &'a Map, key: &[u8]) -> Option<&'a gallop_conf::template::Template> {
    let dots = || {
        key.iter()
            .enumerate()
            .filter(|(_, c)| **c == b'.')
            .map(|(i, _)| i)
    };
    let head = dots().find_map(|i| map.wildcard_head.get(&key[i + 1..]));
    head.or_else(|| {
        let mut ends: Vec<usize> = dots().collect();
        ends.reverse();
        ends.into_iter()
            .find_map(|i| map.wildcard_tail.get(&key[..i]))
    })
}

pub fn geo<S: Scope + ?Sized>(scope: &S, geo: &Geo) -> Vec<u8> {
    let address = match &geo.source {
        None => scope.client(),
        Some(source) => {
            let text = template::eval(scope, source);
            let parsed = std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok());
            if parsed.is_none() && !text.starts_with(b"unix:") {
                Some(IpAddr::from([255, 255, 255, 255]))
            } else {
                parsed
            }
        }
    };
    let address = through_proxies(scope, &geo.proxies, geo.proxy_recursive, address);
    let value = geo.addresses.find(address).unwrap_or(&geo.default);
    value.to_vec()
}

/// The address in `X-Forwarded-For`, if it comes from a trusted proxy.
pub fn through_proxies<S: Scope + ?Sized>(
    scope: &S,
    proxies: &[Cidr],
    recursive: bool,
    address: Option<IpAddr>,
) -> Option<IpAddr> {
    if proxies.is_empty() {
        return address;
    }
    let fields = scope.forwarded_for();
    crate::realip::last_untrusted(address, &fields, proxies, recursive)
        .map_or(address, |(ip, _)| Some(ip))
}

pub fn split<S: Scope + ?Sized>(scope: &S, split: &SplitClients) -> Vec<u8> {
    let hash = murmur2(&template::eval(scope, &split.source));
    let hit = split
        .parts
        .iter()
        .find(|(bound, _)| bound.is_none_or(|b| hash < b));
    hit.map_or(Vec::new(), |(_, value)| template::eval(scope, value))
}

/// MurmurHash2 with seed 0, which nginx uses for split_clients.
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut h = data.len() as u32;
    let mut chunks = data.chunks_exact(4);
    for c in &mut chunks {
        let mut k = u32::from_le_bytes([c[0], c[1], c[2], c[3]]).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        h = h.wrapping_mul(M) ^ k;
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (i, c) in rest.iter().enumerate() {
            h ^= u32::from(*c) << (8 * i);
        }
        h = h.wrapping_mul(M);
    }
    h = (h ^ (h >> 13)).wrapping_mul(M);
    h ^ (h >> 15)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_hash_is_murmur2() {
        // Reference values of MurmurHash2 (seed 0).
        assert_eq!(super::murmur2(b""), 0);
        assert_eq!(super::murmur2(b"a"), 0x92685f5e);
    }
}
