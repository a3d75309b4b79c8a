//! The resolved addresses of upstream servers' names (`resolve`), in memory that survives a worker:
//! its successor starts with them and need not wait for name servers.

use gallop_conf::model::{Config, Upstream};
use gallop_runtime::SharedCells;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{fence, AtomicU64, Ordering};

/// The most addresses stored per name.
const MOST: usize = 64;
/// The cells per name: a sequence number that is odd during writes, the number of addresses plus
/// one (0: never resolved), and two cells per address.
const WIDTH: usize = 2 + 2 * MOST;

/// The names of a configuration.
#[derive(Debug)]
pub struct Found {
    /// The group and name of each entry.
    keys: Vec<String>,
    cells: SharedCells,
}

/// The key of a name in a group.
pub fn key(group: &Upstream, host: &str) -> String {
    format!("{}\0{host}", group.name)
}

impl Found {
    /// # Errors
    /// The system has no memory to share.
    pub fn new(config: &Config) -> io::Result<Found> {
        let groups = config.http.iter().flat_map(|http| &http.upstreams);
        let keys = groups.flat_map(|group| {
            let hosts = group.resolving.iter().filter_map(|p| p.resolve.as_ref());
            hosts.map(|(host, _)| key(group, host))
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
    pub fn put(&self, key: &str, addresses: &[IpAddr]) {
        let Some([number, count, words @ ..]) = self.cells(key) else {
            return;
        };
        // The number is already odd if a worker died during a write.
        let odd = number.load(Ordering::Relaxed) | 1;
        number.store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        let kept = &addresses[..addresses.len().min(MOST)];
        count.store(kept.len() as u64 + 1, Ordering::Relaxed);
        for (pair, address) in words.chunks_exact(2).zip(kept) {
            let bits = match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
                IpAddr::V6(v6) => v6.to_bits(),
            };
            pair[0].store((bits >> 64) as u64, Ordering::Relaxed);
            pair[1].store(bits as u64, Ordering::Relaxed);
        }
        number.store(odd.wrapping_add(1), Ordering::Release);
    }

    /// The addresses of a name; `None` if it was never resolved or is being written.
    pub fn get(&self, key: &str) -> Option<Vec<IpAddr>> {
        let [number, count, words @ ..] = self.cells(key)? else {
            return None;
        };
        let before = number.load(Ordering::Acquire);
        let count = usize::try_from(count.load(Ordering::Relaxed)).ok()?;
        let count = count.checked_sub(1)?;
        let pairs = words.chunks_exact(2).take(count);
        let found = pairs.map(|pair| {
            let (high, low) = (
                pair[0].load(Ordering::Relaxed),
                pair[1].load(Ordering::Relaxed),
            );
            let bits = u128::from(high) << 64 | u128::from(low);
            IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical()
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
        let two: Vec<IpAddr> = vec!["127.0.0.1".parse().unwrap(), "fe80::1".parse().unwrap()];
        found.put("u\0b", &two);
        assert_eq!((found.get("u\0a"), found.get("u\0b")), (None, Some(two)));
        found.put("u\0b", &[]);
        assert_eq!(found.get("u\0b"), Some(Vec::new()));
        let many = vec![IpAddr::from([10, 0, 0, 1]); MOST + 1];
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
        let one = [IpAddr::from([127, 0, 0, 1])];
        found.put("u\0a", &one);
        found.cells.cells()[0].fetch_add(1, Ordering::Relaxed);
        assert_eq!(found.get("u\0a"), None);
        found.put("u\0a", &one);
        assert_eq!(found.get("u\0a"), Some(one.to_vec()));
    }
}
