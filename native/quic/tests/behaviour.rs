//! What connections do besides transfers, with quinn-proto as the client.

#[allow(dead_code)]
mod common;

use bytes::{Bytes, BytesMut};
use common::{address, client_config, pattern, Link, Sent, World};
use gallop_quic::{Datagram, Ecn, Event, Options};
use std::time::Duration;

fn world() -> World {
    let mut world = World::new(7, Link::default(), false);
    world.run("the handshake", |world| world.connected);
    world
}

/// Asks and is answered.
fn exchange(world: &mut World, len: usize) {
    let id = world.request(&pattern(9, len));
    world.run("an answer", |world| world.is_answered(id));
    assert!(world.answer(id) == pattern(9, len));
}

#[test]
fn client_with_changed_port_is_followed() {
    let mut world = world();
    exchange(&mut world, 1000);
    world.port = 5544;
    exchange(&mut world, 200_000);
    let counts = world.server.take_counts();
    assert_eq!((counts.migrations, counts.connections), (1, 1));
    assert_eq!(world.server.remote(0), Some(address(5544)));
    assert_eq!(world.server.origin(0), Some(address(4433)));
}

#[test]
fn migrating_client_is_followed() {
    let mut world = world();
    exchange(&mut world, 1000);
    world.port = 5544;
    world.client.local_address_changed();
    exchange(&mut world, 200_000);
    world.port = 4433;
    world.client.local_address_changed();
    exchange(&mut world, 200_000);
    assert_eq!(world.server.take_counts().migrations, 2);
    assert_eq!(world.closed, None);
}

/// Somebody who repeats a client's packets from elsewhere does not get the client's answers.
#[test]
fn copied_packets_do_not_take_over_connection() {
    let mut world = world();
    exchange(&mut world, 1000);
    world.copies = (6666, 3);
    exchange(&mut world, 50_000);
    assert_eq!(world.copies.1, 0);
    assert!(world.server.take_counts().migrations > 0);
    assert_eq!(world.server.remote(0), Some(address(4433)));
}

#[test]
fn server_follows_key_update() {
    let mut world = world();
    for _ in 0..5 {
        world.client.force_key_update();
        exchange(&mut world, 100_000);
    }
    assert_eq!(world.closed, None);
}

#[test]
fn returning_client_sends_requests_with_first_packets() {
    let config = client_config();
    let options = Options {
        max_streams: 100,
        stream_window: 65_536,
        idle: Duration::from_secs(30),
        retry: false,
        gso: true,
        ..Options::default()
    };
    let mut world = World::with(1, Link::default(), &options, config.clone());
    world.run("the handshake", |world| world.connected);
    exchange(&mut world, 1000);
    world.close();
    world.reconnect(config);
    assert!(world.client.has_0rtt());
    exchange(&mut world, 1000);
    assert!(world.client.accepted_0rtt());
    let first = world.events.first().copied();
    assert!(matches!(first, Some(Event::Readable(_))), "{first:?}");
    // The answer goes out before the client's last message of the handshake has come.
    let is_connected = |world: &mut World| world.events.contains(&Event::Connected);
    world.run("the handshake", is_connected);
    assert_eq!(world.server.take_counts().early_data, 1);
}

#[test]
fn token_of_earlier_connection_saves_round_trip() {
    let config = client_config();
    let mut world = World::new(1, Link::default(), true);
    world.reconnect(config.clone());
    world.run("the handshake", |world| world.connected);
    exchange(&mut world, 1000);
    world.close();
    assert_eq!(world.server.take_counts().retries, 1);
    world.reconnect(config);
    world.run("the handshake", |world| world.connected);
    assert_eq!(world.server.take_counts().retries, 0);
}

#[test]
fn idle_connection_ends() {
    let mut world = world();
    exchange(&mut world, 100);
    world.mute = true;
    world.run_out();
    assert_eq!(world.events.last(), Some(&Event::Closed));
}

#[test]
fn unknown_packet_gets_shorter_stateless_reset() {
    let mut world = world();
    exchange(&mut world, 100);
    let noise = |len| BytesMut::from(&vec![0x4fu8; len][..]);
    for (len, answered) in [(20, 0), (60, 1), (1200, 1)] {
        world.now += Duration::from_secs(1);
        world.out.queue.clear();
        let datagram = Datagram {
            remote: address(9),
            local: None,
            data: noise(len),
            ecn: Ecn::None,
        };
        world.server.receive(world.now, datagram, &mut world.out);
        assert_eq!(world.out.queue.len(), answered, "{len} bytes");
        assert!(world.out.queue.iter().all(|(_, data)| data.len() < len));
    }
    world.out.queue.clear();
    assert_eq!(world.server.take_counts().stateless_resets, 2);
}

#[test]
fn unknown_version_gets_version_negotiation() {
    let mut world = world();
    let mut hello = vec![
        0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 3, b'd', b's', b't', 2, b'm', b'e',
    ];
    for (len, answered) in [(1199, 0), (1200, 1)] {
        hello.resize(len, 0);
        let data = BytesMut::from(&hello[..]);
        let datagram = Datagram {
            remote: address(9),
            local: None,
            data,
            ecn: Ecn::None,
        };
        world.server.receive(world.now, datagram, &mut world.out);
        assert_eq!(world.out.queue.len(), answered);
    }
    let (_, answer) = world.out.queue.remove(0);
    assert_eq!(&answer[1..13], b"\0\0\0\0\x02me\x03dst\0");
}

#[test]
fn abandoned_streams_are_released() {
    let mut world = world();
    let ids: Vec<_> = (0..50).map(|_| world.open(b"begun")).collect();
    for id in ids {
        world.client.send_stream(id).reset(7u32.into()).unwrap();
        world.client.recv_stream(id).stop(7u32.into()).unwrap();
    }
    exchange(&mut world, 1000);
    assert!(world
        .events
        .iter()
        .any(|event| matches!(event, Event::Stopped(_))));
    // Those, their limit renewed, and many more.
    for _ in 0..300 {
        exchange(&mut world, 10);
    }
}

#[test]
fn application_can_end_streams_and_connections() {
    let mut world = world();
    let id = world.open(b"begun");
    world.run("the stream", |world| {
        world.events.contains(&Event::Readable(0))
    });
    world.server.reset(0, 0, 77);
    world.server.stop(0, 0, 78);
    world.server.activate(0);
    world.run("the end of the stream", |world| {
        world.client.send_stream(id).write(b"more").is_err()
    });
    exchange(&mut world, 1000);
    world.server.close(0, world.now, 99, "enough");
    for _ in 0..1000 {
        world.turn();
    }
    let closed = world.closed.as_deref().unwrap_or_default();
    assert!(
        closed.contains("enough") && closed.contains("99"),
        "{closed}"
    );
    assert!(world.server.is_empty());
}

/// The limit of packets for a round trip holds, and what a client may have in memory.
#[test]
fn server_stops_sending_when_client_does_not_read() {
    let mut world = world();
    let id = world.open(&pattern(1, 10));
    world.run("the stream", |world| {
        world.events.contains(&Event::Readable(0))
    });
    let mut taken = 0;
    loop {
        let mut chunks = [vec![1; 65_536].into()];
        match world.server.write(0, 0, &mut chunks) {
            Some(n) if n > 0 => taken += n,
            _ => break,
        }
        assert!(taken < 100_000_000);
    }
    assert!(taken <= 2 << 20, "{taken} bytes");
    assert!(!world.is_answered(id));
}

#[test]
fn unfinished_handshake_times_out() {
    let mut world = World::new(7, Link::default(), false);
    let began = world.now;
    while world.server.is_empty() {
        world.turn();
    }
    world.mute = true;
    world.run_out();
    assert_eq!(world.server.take_counts().handshakes, 0);
    assert!(world.now - began < Duration::from_secs(15));
}

/// Sizes of the datagrams that bring streams of these lengths, one after the other.
fn sizes(world: &mut World, lengths: &[usize]) -> Vec<usize> {
    let mut out = Sent::default();
    for len in lengths {
        let stream = world.server.open_uni(0).unwrap();
        let mut data = [Bytes::from(pattern(3, *len))];
        assert_eq!(world.server.write(0, stream, &mut data), Some(*len));
        world.server.activate(0);
        assert_eq!(world.server.next_active(), Some(0));
        assert!(world.server.transmit(0, world.now, &mut out));
    }
    assert_eq!(world.server.next_active(), None);
    out.queue.iter().map(|(_, data)| data.len()).collect()
}

#[test]
fn datagrams_of_a_batch_are_padded_to_equal_length() {
    let mut world = world();
    exchange(&mut world, 1000);
    let found = sizes(&mut world, &[300, 295, 292, 291, 300, 302]);
    let first = found[0];
    // The fourth ends a message of the kernel's, which begins another with the next.
    let wanted = [first, first, first, first - 9, first, first + 2];
    assert_eq!(found, wanted);
    // Another turn: nothing goes out together with what went before.
    assert_eq!(sizes(&mut world, &[295, 294]), [first - 5, first - 5]);
    exchange(&mut world, 50_000);
}

#[test]
fn single_datagrams_are_not_padded() {
    let options = Options {
        gso: false,
        ..Options::default()
    };
    let mut world = World::with(7, Link::default(), &options, client_config());
    exchange(&mut world, 1000);
    let found = sizes(&mut world, &[300, 295]);
    assert_eq!(found[1], found[0] - 5);
}

/// As [`World::new`], with few handshakes under way before clients get Retry packets.
fn validating_above(handshakes: usize) -> World {
    let options = Options {
        max_streams: 100,
        idle: Duration::from_secs(30),
        retry_above: handshakes,
        ..Options::default()
    };
    World::with(1, Link::default(), &options, client_config())
}

#[test]
fn address_validation_is_required_during_many_handshakes() {
    let mut world = validating_above(1);
    world.run("the first connection", |world| world.connected);
    assert_eq!(world.server.take_counts().retries, 0);
    // A client that goes away in the middle of its handshake.
    world.reconnect(client_config());
    world.turn();
    world.run("half a handshake", |world| world.server.pending() == 1);
    world.reconnect(client_config());
    world.run("the third connection", |world| world.connected);
    assert!(world.server.take_counts().retries > 0);
    exchange(&mut world, 1000);
}

#[test]
fn initial_packet_is_dropped_when_full() {
    let mut world = World::new(7, Link::default(), false);
    world.server.set_room(0);
    world.run("a dropped packet", |world| world.server.take_dropped() > 0);
    assert_eq!((world.server.pending(), world.connected), (0, false));
    assert!(world.server.is_empty());
    // The client tries again.
    world.server.set_room(1);
    world.run("the connection", |world| world.connected);
}

#[test]
fn handshakes_are_limited_to_four_times_retry_threshold() {
    let mut world = validating_above(0);
    world.run("a dropped packet", |world| world.server.take_dropped() > 0);
    assert_eq!(world.server.take_counts().retries, 1);
    assert!(world.server.is_empty());
}
