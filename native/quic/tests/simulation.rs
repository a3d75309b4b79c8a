//! Transfers over a link that loses, doubles and reorders, with quinn-proto as the client.

#[allow(dead_code)]
mod common;

use common::{pattern, Link, World};

fn transfer(seed: u64, link: Link, streams: u64, len: usize, retry: bool) {
    let mut world = World::new(seed, link, retry);
    world.run("the handshake", |world| world.connected);
    let ids: Vec<_> = (0..streams)
        .map(|n| world.request(&pattern(n, len)))
        .collect();
    for (n, id) in ids.into_iter().enumerate() {
        world.run("an answer", |world| world.is_answered(id));
        assert!(
            world.answer(id) == pattern(n as u64, len),
            "seed {seed}: stream {n} differs"
        );
    }
    assert_eq!(world.closed, None, "seed {seed}");
    world.close();
    assert!(world.server.is_empty());
}

#[test]
fn small_request_completes() {
    transfer(1, Link::default(), 1, 100, false);
}

#[test]
fn address_is_validated_first() {
    transfer(1, Link::default(), 1, 100, true);
}

#[test]
fn large_transfers_complete() {
    transfer(1, Link::default(), 2, 3_000_000, false);
}

#[test]
fn many_streams_complete() {
    transfer(1, Link::default(), 500, 300, false);
}

#[test]
fn transfer_survives_lost_duplicated_and_reordered_packets() {
    for seed in 0..40 {
        let link = Link {
            loss: 0.05,
            double: 0.05,
            reorder: 0.1,
            ..Link::default()
        };
        transfer(seed, link, 20, 20_000, seed % 2 == 0);
    }
}

#[test]
fn transfer_survives_loss_of_every_fifth_packet() {
    for seed in 0..10 {
        let link = Link {
            loss: 0.2,
            ..Link::default()
        };
        transfer(seed, link, 5, 30_000, false);
    }
}

#[test]
fn path_with_small_mtu_works() {
    let link = Link {
        mtu: 1252,
        ..Link::default()
    };
    transfer(3, link, 2, 500_000, false);
}
