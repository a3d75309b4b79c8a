//! The addresses of a `geo` block: collected while the block is read, then sorted for lookup.

use crate::cidr::{unmap, Cidr};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

pub type Value = Arc<[u8]>;

/// The lookup value for a client without an address of the family.
const NO_ADDRESS: u32 = u32::MAX;

/// Addresses and their values, sorted and without overlap.
#[derive(Debug, Default)]
pub struct Addresses {
    v4: Vec<(u32, u32, Value)>,
    v6: Vec<(u128, u128, Value)>,
    /// Whether `ranges` is on, which excludes IPv6.
    v4_only: bool,
}

impl Addresses {
    /// The value for an address; `None` is a Unix socket peer, which counts as 255.255.255.255.
    pub fn find(&self, ip: Option<IpAddr>) -> Option<&Value> {
        match ip.map(unmap) {
            Some(IpAddr::V4(v4)) => find(&self.v4, u32::from(v4)),
            Some(IpAddr::V6(v6)) if !self.v4_only => find(&self.v6, u128::from(v6)),
            _ => find(&self.v4, NO_ADDRESS),
        }
    }
}

fn find<A: Ord + Copy>(ranges: &[(A, A, Value)], address: A) -> Option<&Value> {
    let after = ranges.partition_point(|(first, _, _)| *first <= address);
    let (_, last, value) = &ranges[after.checked_sub(1)?];
    (*last >= address).then_some(value)
}

/// The entries of a block in the order of the file.
#[derive(Debug, Default)]
pub struct Entries {
    /// By family (`true`: IPv6), prefix length, and bits.
    nets: HashMap<(bool, u8, u128), Value>,
    /// With `ranges`: from first address to last address and value. As in nginx, no entry crosses
    /// the end of a /16, which decides about overlaps and deletions.
    pieces: BTreeMap<u32, (u32, Value)>,
    values: HashMap<Box<str>, Value>,
}

impl Entries {
    /// The bytes of a value, stored once for all entries.
    pub fn value(&mut self, text: &str) -> Value {
        let new = || Value::from(text.as_bytes());
        self.values.entry_ref(text).or_insert_with(new).clone()
    }

    pub fn is_empty(&self) -> bool {
        self.nets.is_empty() && self.pieces.is_empty()
    }

    /// Add a network. Returns its previous value.
    pub fn add_net(&mut self, net: &Cidr, value: Value) -> Option<Value> {
        let Cidr::Net { bits, prefix, v6 } = *net else {
            return None;
        };
        self.nets.insert((v6, prefix, bits), value)
    }

    /// Delete a network; `false` if it does not exist.
    pub fn delete_net(&mut self, net: &Cidr) -> bool {
        match *net {
            Cidr::Net { bits, prefix, v6 } => self.nets.remove(&(v6, prefix, bits)).is_some(),
            Cidr::Unix => false,
        }
    }

    /// Add a range. Returns the previous value of exactly this range, if any.
    ///
    /// # Errors
    /// The existing range that the new one partly overlaps.
    pub fn add_range(
        &mut self,
        first: u32,
        last: u32,
        value: &Value,
    ) -> Result<Option<Value>, (u32, u32)> {
        let mut before = None;
        for (s, e) in by_16(first, last) {
            before = self.add_piece(s, e, value)?.or(before);
        }
        Ok(before)
    }

    fn add_piece(&mut self, s: u32, e: u32, value: &Value) -> Result<Option<Value>, (u32, u32)> {
        let nearest = self.pieces.range(..=e).next_back();
        let nearest = nearest.map(|(start, (end, old))| (*start, *end, old.clone()));
        let Some((start, end, old)) = nearest.filter(|(_, end, _)| s <= *end) else {
            self.pieces.insert(s, (e, value.clone()));
            return Ok(None);
        };
        if s < start || e > end {
            return Err((start, end));
        }
        if start < s {
            self.pieces.insert(start, (s - 1, old.clone()));
        }
        if e < end {
            self.pieces.insert(e + 1, (end, old.clone()));
        }
        self.pieces.insert(s, (e, value.clone()));
        Ok((s == start && e == end).then_some(old))
    }

    /// Delete a range; `false` if a part of it does not exist.
    pub fn delete_range(&mut self, first: u32, last: u32) -> bool {
        let mut all = true;
        for (s, e) in by_16(first, last) {
            let there = self.pieces.get(&s).is_some_and(|(end, _)| *end == e);
            if there {
                self.pieces.remove(&s);
            }
            all &= there;
        }
        all
    }

    pub fn lay_out(self, by_range: bool) -> Addresses {
        if by_range {
            let mut v4 = Vec::new();
            for (first, (last, value)) in self.pieces {
                append(&mut v4, first, last, value, |a| a.checked_add(1));
            }
            return Addresses {
                v4,
                v4_only: true,
                ..Addresses::default()
            };
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for ((is_v6, prefix, bits), value) in self.nets {
            let spread = u128::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
            if is_v6 {
                v6.push((bits, bits | spread, value));
            } else {
                v4.push(((bits >> 96) as u32, ((bits | spread) >> 96) as u32, value));
            }
        }
        Addresses {
            v4: flat(v4, |a| a.checked_add(1), |a| a - 1),
            v6: flat(v6, |a| a.checked_add(1), |a| a - 1),
            v4_only: false,
        }
    }
}

/// Split a range at the boundaries of /16 networks.
fn by_16(first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
    let piece = move |high: u32| (first.max(high << 16), last.min(high << 16 | 0xffff));
    (first >> 16..=last >> 16).map(piece)
}

/// Append a range, joined to the last one if they are adjacent and equal.
fn append<A: Ord + Copy>(
    out: &mut Vec<(A, A, Value)>,
    first: A,
    last: A,
    value: Value,
    next: fn(A) -> Option<A>,
) {
    match out.last_mut() {
        Some((_, end, before)) if next(*end) == Some(first) && *before == value => *end = last,
        _ => out.push((first, last, value)),
    }
}

/// Convert nested networks to ranges, in which the narrowest network determines an address.
fn flat<A: Ord + Copy>(
    mut nets: Vec<(A, A, Value)>,
    next: fn(A) -> Option<A>,
    before: fn(A) -> A,
) -> Vec<(A, A, Value)> {
    nets.sort_unstable_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
    let mut out = Vec::with_capacity(nets.len());
    // The networks around the current place, each with the first address not yet written.
    let mut around: Vec<(A, A, Value)> = Vec::new();
    let close = |around: &mut Vec<(A, A, Value)>, out: &mut Vec<_>| {
        let Some((from, last, value)) = around.pop() else {
            return;
        };
        if from <= last {
            append(out, from, last, value, next);
        }
        if let (Some(outer), Some(after)) = (around.last_mut(), next(last)) {
            outer.0 = outer.0.max(after);
        } else if let Some(outer) = around.last().map(|outer| outer.1) {
            // The outer network ends at the same address, which is the last of all.
            debug_assert!(outer == last);
            around.clear();
        }
    };
    for (first, last, value) in nets {
        while around.last().is_some_and(|(_, end, _)| *end < first) {
            close(&mut around, &mut out);
        }
        if let Some((from, _, outer)) = around.last_mut() {
            if *from < first {
                let outer = outer.clone();
                append(&mut out, *from, before(first), outer, next);
                *from = first;
            }
        }
        around.push((first, last, value));
    }
    while !around.is_empty() {
        close(&mut around, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(nets: &[&str]) -> Addresses {
        let mut entries = Entries::default();
        for net in nets {
            let value = entries.value(net);
            entries.add_net(&Cidr::parse(net).expect("a network"), value);
        }
        entries.lay_out(false)
    }

    fn at<'a>(addresses: &'a Addresses, ip: &str) -> &'a str {
        let value = addresses.find(Some(ip.parse().expect("an address")));
        value.map_or("", |v| std::str::from_utf8(v).expect("text"))
    }

    #[test]
    fn the_narrowest_network_counts() {
        let nets = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.0/24",
            "10.0.1.0/24",
            "10.255.255.255",
            "255.255.255.255",
            "255.0.0.0/8",
            "2001:db8::/32",
            "2001:db8::1",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ];
        let addresses = laid_out(&nets);
        let parsed: Vec<Cidr> = nets.iter().filter_map(|n| Cidr::parse(n)).collect();
        for ip in [
            "0.0.0.0",
            "9.255.255.255",
            "10.0.0.0",
            "10.0.0.255",
            "10.0.1.0",
            "10.0.2.0",
            "10.255.255.254",
            "10.255.255.255",
            "11.0.0.0",
            "254.255.255.255",
            "255.0.0.0",
            "255.255.255.254",
            "255.255.255.255",
            "::",
            "2001:db8::",
            "2001:db8::1",
            "2001:db8::2",
            "2001:db9::",
            "::ffff:10.0.0.1",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            let address: IpAddr = ip.parse().expect("an address");
            let holds = |net: &&Cidr| net.contains(Some(address));
            let width = |net: &&Cidr| match net {
                Cidr::Net { prefix, .. } => *prefix,
                Cidr::Unix => 0,
            };
            let best = parsed.iter().filter(holds).max_by_key(width);
            let best = best.and_then(|net| parsed.iter().position(|n| n == net));
            assert_eq!(at(&addresses, ip), best.map_or("", |i| nets[i]), "{ip}");
        }
        assert_eq!(
            addresses.find(None).map(|v| &**v),
            Some(&b"255.255.255.255"[..])
        );
    }

    #[test]
    fn ranges_lie_within_others_or_are_refused() {
        let mut entries = Entries::default();
        let (wide, inner) = (entries.value("wide"), entries.value("inner"));
        let ip = |text: &str| u32::from(text.parse::<std::net::Ipv4Addr>().expect("an address"));
        assert_eq!(
            entries.add_range(ip("10.0.0.0"), ip("10.3.255.255"), &wide),
            Ok(None)
        );
        assert_eq!(
            entries.add_range(ip("10.1.0.5"), ip("10.1.0.9"), &inner),
            Ok(None)
        );
        let overlapped = (ip("10.1.0.5"), ip("10.1.0.9"));
        assert_eq!(
            entries.add_range(ip("10.1.0.7"), ip("10.1.0.20"), &wide),
            Err((ip("10.1.0.10"), ip("10.1.255.255")))
        );
        assert_eq!(
            entries.add_range(ip("10.1.0.3"), ip("10.1.0.7"), &wide),
            Err(overlapped)
        );
        assert_eq!(
            entries.add_range(ip("10.1.0.5"), ip("10.1.0.9"), &inner),
            Ok(Some(inner.clone()))
        );
        assert!(entries.delete_range(ip("10.2.0.0"), ip("10.2.255.255")));
        assert!(!entries.delete_range(ip("10.3.0.0"), ip("10.3.0.1")));
        let addresses = entries.lay_out(true);
        for (address, value) in [
            ("9.255.255.255", ""),
            ("10.0.0.0", "wide"),
            ("10.1.0.4", "wide"),
            ("10.1.0.5", "inner"),
            ("10.1.0.9", "inner"),
            ("10.1.0.10", "wide"),
            ("10.2.0.0", ""),
            ("10.3.255.255", "wide"),
            ("10.4.0.0", ""),
            ("::1", ""),
        ] {
            assert_eq!(at(&addresses, address), value, "{address}");
        }
    }

    #[test]
    fn as_many_networks_as_the_world_has_are_read_at_once() {
        let started = std::time::Instant::now();
        let mut entries = Entries::default();
        for i in 0..300_000u32 {
            let value = entries.value(if i % 2 == 0 { "a" } else { "b" });
            let net = Cidr::Net {
                bits: u128::from(i << 8) << 96,
                prefix: 24,
                v6: false,
            };
            entries.add_net(&net, value.clone());
            entries
                .add_range(i << 8, i << 8 | 255, &value)
                .expect("no two overlap");
        }
        assert_eq!(at(&entries.lay_out(false), "0.0.3.7"), "b");
        assert!(
            started.elapsed().as_secs() < 10,
            "each entry is as quick as the first"
        );
    }
}
