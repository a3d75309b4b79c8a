//! A group of servers and the sequence of its choices, for tests.

use super::methods::Hint;
use super::state::Group;
use gallop_conf::model::{Balance, Peer, PeerAddr, Upstream};
use std::sync::Arc;

pub(super) fn group(balance: Balance, weights: &[u32]) -> Arc<Group> {
    let peer = |(i, w): (usize, &u32)| Peer {
        weight: *w,
        ..Peer::new(
            format!("127.0.0.1:{}", 8000 + i),
            PeerAddr::Unix(format!("/{i}").into()),
        )
    };
    Arc::new(Group::new(Arc::new(Upstream {
        name: "u".into(),
        port: None,
        explicit: true,
        in_stream: false,
        peers: weights.iter().enumerate().map(peer).collect(),
        resolving: Vec::new(),
        resolver: None,
        resolver_timeout: None,
        balance,
        sticky: None,
        keepalive: 0,
        keepalive_local: true,
        keepalive_requests: 1000,
        keepalive_timeout: 60_000,
        keepalive_time: 60_000,
        zone: None,
        checks: Vec::new(),
        place: None,
    })))
}

pub(super) fn sequence(group: &Arc<Group>, n: usize) -> Vec<usize> {
    (0..n)
        .map(|_| {
            group
                .choose(&Hint::default(), &mut Vec::new())
                .expect("a server")
                .index
        })
        .collect()
}
