//! The ring of the consistent hash, and the names of servers for `sticky`.

use gallop_conf::model::{Balance, Peer, PeerAddr, Upstream};
use md5::{Digest, Md5};
use std::sync::Arc;

/// The points of a server with weight 1 on the consistent hash's ring.
const POINTS: u32 = 160;
/// The most weight of a server on the ring, which needs memory for each point, and of one that an
/// SRV record names.
const HEAVIEST: u32 = 100_000;
const HEAVIEST_OF_SERVICE: u32 = 100;

pub(super) fn ring(conf: &Upstream) -> Vec<(u32, usize)> {
    if !matches!(
        conf.balance,
        Balance::Hash {
            consistent: true,
            ..
        }
    ) {
        return Vec::new();
    }
    let mut points = Vec::new();
    for (i, peer) in conf.peers.iter().enumerate() {
        let address = peer.addr.to_string();
        let service = peer.resolve.as_ref().and_then(|r| r.service.as_ref());
        // Servers of a service share its name, and whoever answers for it sets the weights.
        let (name, weight) = match service {
            Some(_) => (&address, peer.weight.min(HEAVIEST_OF_SERVICE)),
            None => (&peer.name, peer.weight.min(HEAVIEST)),
        };
        let (host, port) = match name.strip_prefix("unix:") {
            Some(path) => (path, ""),
            None => name.rsplit_once(':').unwrap_or((name, "")),
        };
        let base = [host.as_bytes(), b"\0", port.as_bytes()].concat();
        let mut previous = 0u32;
        for _ in 0..weight * POINTS {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&base);
            hasher.update(&previous.to_le_bytes());
            previous = hasher.finalize();
            points.push((previous, i));
        }
    }
    points.sort_unstable();
    points.dedup_by_key(|p| p.0);
    points
}

/// The names of servers for `sticky`: their routes, or the hashes of their addresses as nginx has
/// them.
pub(super) fn sids(conf: &Upstream) -> Vec<Arc<str>> {
    if conf.sticky.is_none() {
        return Vec::new();
    }
    let sid = |peer: &Peer| -> Arc<str> {
        match &peer.route {
            Some(route) => route.as_str().into(),
            None => hash(&peer.addr).into(),
        }
    };
    conf.peers.iter().map(sid).collect()
}

fn hash(address: &PeerAddr) -> String {
    let hash = Md5::digest(address.to_string());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
