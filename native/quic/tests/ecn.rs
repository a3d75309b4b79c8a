//! Explicit congestion notification, with quinn-proto as the client.

#[allow(dead_code)]
mod common;

use common::{client_config, pattern, Link, Marks, World};
use gallop_quic::Options;

fn world(marks: Marks) -> World {
    let link = Link {
        marks,
        ..Link::default()
    };
    let mut world = World::new(7, link, false);
    world.run("the handshake", |world| world.connected);
    world
}

/// Asks and is answered; datagrams of the server meanwhile, and how many of them were marked.
fn exchange(world: &mut World, len: usize) -> (u64, u64) {
    let (served, marked) = (world.served.0, world.marked.0);
    let id = world.request(&pattern(9, len));
    world.run("an answer", |world| world.is_answered(id));
    assert!(world.answer(id) == pattern(9, len));
    (world.served.0 - served, world.marked.0 - marked)
}

#[test]
fn packets_are_marked_when_marks_arrive() {
    let mut world = world(Marks::Kept);
    for _ in 0..5 {
        exchange(&mut world, 100_000);
    }
    assert_eq!(world.served.0, world.marked.0);
    // The client, too, is told that its marks arrive, or it would have stopped.
    let before = world.marked.1;
    exchange(&mut world, 100_000);
    assert!(world.marked.1 > before + 20, "{} marked", world.marked.1);
    assert_eq!(world.client.stats().path.congestion_events, 0);
}

/// Ways on which marks do not arrive as they were sent: nothing is marked any more, and all is served.
#[test]
fn packets_are_not_marked_when_marks_do_not_arrive() {
    for marks in [Marks::Cleared, Marks::Changed, Marks::Unseen] {
        let mut world = world(marks);
        exchange(&mut world, 10_000);
        let (served, marked) = exchange(&mut world, 100_000);
        assert!(served > 60, "{marks:?}: {served} datagrams");
        assert_eq!(marked, 0, "{marks:?}");
        assert_eq!(world.closed, None, "{marks:?}");
    }
}

#[test]
fn path_that_drops_marked_packets_is_detected() {
    let mut world = world(Marks::Swallowed);
    for _ in 0..3 {
        exchange(&mut world, 50_000);
    }
    let (_, marked) = exchange(&mut world, 50_000);
    assert_eq!(marked, 0);
    assert!(world.marked.0 <= 10, "{} marked", world.marked.0);
}

/// How long a transfer takes in round trips says how large the congestion window was.
#[test]
fn congestion_marks_slow_the_server_without_loss() {
    let took = |marks| {
        let mut world = world(marks);
        let began = world.now;
        exchange(&mut world, 1_000_000);
        let counts = world.lost_packets();
        (world.now - began, counts)
    };
    let (free, congested) = (took(Marks::Kept), took(Marks::Congested(0.05)));
    assert_eq!((free.1, congested.1), (0, 0));
    assert!(
        congested.0 > 2 * free.0,
        "{:?} congested, {:?} free",
        congested.0,
        free.0
    );
}

#[test]
fn ecn_is_tested_again_after_migration() {
    let mut world = world(Marks::Kept);
    exchange(&mut world, 50_000);
    world.port = 5544;
    exchange(&mut world, 50_000);
    assert_eq!(world.server.take_counts().migrations, 1);
    let (served, marked) = exchange(&mut world, 100_000);
    assert!(served > 60 && marked == served, "{marked} of {served}");
}

#[test]
fn socket_without_ecn_sends_no_marks() {
    let options = Options {
        max_streams: 100,
        ecn: false,
        ..Options::default()
    };
    let mut world = World::with(7, Link::default(), &options, client_config());
    world.run("the handshake", |world| world.connected);
    exchange(&mut world, 50_000);
    assert_eq!(world.marked.0, 0);
    // What comes marked is reported all the same.
    assert!(world.marked.1 > 20, "{} marked", world.marked.1);
}
