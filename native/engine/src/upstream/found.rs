//! The resolved addresses of upstream servers' names (`resolve`), in memory that survives a worker:
//! its successor starts with them and need not wait for name servers.

use crate::resolver::{Located, Service};
use gallop_conf::model::{Config, PeerName, Upstream};
use gallop_runtime::SharedCells;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{fence, AtomicU64, Ordering};

/// The most addresses stored per name.
const MOST: usize = 64;
/// The cells per name: a sequence number that is odd during writes, the number of addresses plus
/// one (0: never resolved), and three cells per address: its bits, and the values of its SRV record.
const WIDTH: usize = 2 + 3 * MOST;
/// Set if there is an SRV record.
const HAS_SERVICE: u64 = 1 << 63;
const IS_BACKUP: u64 = 1 << 32;

/// The names of a configuration.
#[derive(Debug)]
pub struct Found {
    /// The group and name of each entry.
    keys: Vec<String>,
    cells: SharedCells,
}

/// The key of a name in a group.
pub fn key(group: &Upstream, name: &PeerName) -> String {
    let block = if group.in_stream { "stream" } else { "http" };
    let service = name.service.as_deref().unwrap_or_default();
    format!("{block}\0{}\0{}\0{service}", group.name, name.host)
}

fn pack(service: Option<Service>) -> u64 {
    service.map_or(0, |s| {
        let backup = if s.backup { IS_BACKUP } else { 0 };
        HAS_SERVICE | backup | u64::from(s.weight) << 16 | u64::from(s.port)
    })
}

fn unpack(cell: u64) -> Option<Service> {
    (cell & HAS_SERVICE != 0).then_some(Service {
        port: cell as u16,
        weight: (cell >> 16) as u16,
        backup: cell & IS_BACKUP != 0,
    })
}

impl Found {
    /// # Errors
    /// The system has no memory to share.
    pub fn new(config: &Config) -> io::Result<Found> {
        let of_http = config.http.iter().flat_map(|http| &http.upstreams);
        let of_stream = config.stream.iter().flat_map(|stream| &stream.upstreams);
        let keys = of_http.chain(of_stream).flat_map(|group| {
            let names = group.resolving.iter().filter_map(|p| p.resolve.as_ref());
            names.map(|name| key(group, name))
        });
        let keys: Vec<String> = keys.collect();
        Ok(Found {
            cells: SharedCells::new(keys.len() * WIDTH)?,
            keys,
        })
    }

    fn cells(&self, key: &str) -> Option<&[AtomicU64]> {
        let index = self.keys.iter().position(|k| k == key)?;
        self.cells.cells().get(index * WIDTH..(index + 1) * WIDTH)
    }

    /// Store the addresses of a name. Only one thread of one worker process writes at a time.
    pub fn put(&self, key: &str, addresses: &[Located]) {
        let Some([number, count, words @ ..]) = self.cells(key) else {
            return;
        };
        // The number is already odd if a worker died during a write.
        let odd = number.load(Ordering::Relaxed) | 1;
        number.store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        let kept = &addresses[..addresses.len().min(MOST)];
        count.store(kept.len() as u64 + 1, Ordering::Relaxed);
        for (cells, address) in words.chunks_exact(3).zip(kept) {
            let bits = match address.ip {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
                IpAddr::V6(v6) => v6.to_bits(),
            };
            cells[0].store((bits >> 64) as u64, Ordering::Relaxed);
            cells[1].store(bits as u64, Ordering::Relaxed);
            cells[2].store(pack(address.service), Ordering::Relaxed);
        }
        number.store(odd.wrapping_add(1), Ordering::Release);
    }

    /// The addresses of a name; `None` if it was never resolved or is being written.
    pub fn get(&self, key: &str) -> Option<Vec<Located>> {
        let [number, count, words @ ..] = self.cells(key)? else {
            return None;
        };
        let before = number.load(Ordering::Acquire);
        let count = usize::try_from(count.load(Ordering::Relaxed)).ok()?;
        let count = count.checked_sub(1)?;
        let places = words.chunks_exact(3).take(count);
        let found = places.map(|cells| {
            let load = |i: usize| cells[i].load(Ordering::Relaxed);
            let bits = u128::from(load(0)) << 64 | u128::from(load(1));
            Located {
                ip: IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical(),
                service: unpack(load(2)),
            }
        });
        let found = found.collect();
        fence(Ordering::Acquire);
        (before % 2 == 0 && number.load(Ordering::Relaxed) == before).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_remembered_until_they_stand_for_something_else() {
        let found = Found {
            keys: vec!["u\0a".into(), "u\0b".into()],
            cells: SharedCells::new(2 * WIDTH).unwrap(),
        };
        assert_eq!(found.get("u\0a"), None);
        let at = |text: &str, service| Located {
            ip: text.parse().unwrap(),
            service,
        };
        let service = Service {
            port: 65_535,
            weight: 7,
            backup: true,
        };
        let two = vec![at("127.0.0.1", None), at("fe80::1", Some(service))];
        found.put("u\0b", &two);
        assert_eq!((found.get("u\0a"), found.get("u\0b")), (None, Some(two)));
        found.put("u\0b", &[]);
        assert_eq!(found.get("u\0b"), Some(Vec::new()));
        let many = vec![at("10.0.0.1", None); MOST + 1];
        found.put("u\0b", &many);
        assert_eq!(found.get("u\0b").map(|all| all.len()), Some(MOST));
        found.put("v\0a", &many);
        assert_eq!((found.get("v\0a"), found.get("u\0a")), (None, None));
    }

    #[test]
    fn half_written_entry_is_ignored() {
        let found = Found {
            keys: vec!["u\0a".into()],
            cells: SharedCells::new(WIDTH).unwrap(),
        };
        let one = [Located::from(IpAddr::from([127, 0, 0, 1]))];
        found.put("u\0a", &one);
        found.cells.cells()[0].fetch_add(1, Ordering::Relaxed);
        assert_eq!(found.get("u\0a"), None);
        found.put("u\0a", &one);
        assert_eq!(found.get("u\0a"), Some(one.to_vec()));
    }
}
