//! Known denial-of-service attacks: each ends the connection or has a limited cost.

use super::*;

const CALM: ErrorCode = ErrorCode::ENHANCE_YOUR_CALM;

/// Send the bytes repeatedly until the connection ends. Returns the count and the error.
fn until_death(client: &mut Client, mut next: impl FnMut(u32) -> Vec<u8>) -> (u32, ErrorCode) {
    for n in 0..100_000 {
        if let Err(error) = client.send(&next(n)) {
            return (n, error.code);
        }
        client.sent();
        assert!(client.server.open_streams() <= 128);
    }
    panic!("100,000 rounds and the connection still stands");
}

#[test]
fn rapid_reset() {
    let mut client = Client::new(Config {
        max_requests: u64::MAX,
        ..Config::default()
    });
    let (n, code) = until_death(&mut client, |n| {
        let stream = 2 * n + 1;
        let cancel = frame_of(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
        [headers(stream, &get("/"), true), cancel].concat()
    });
    assert_eq!(code, CALM);
    assert!(n <= 401, "{n} resets");
}

/// The client makes the server reset the streams (CVE-2025-8671).
#[test]
fn made_you_reset() {
    let mut client = Client::new(Config {
        max_requests: u64::MAX,
        ..Config::default()
    });
    let (n, code) = until_death(&mut client, |n| {
        let stream = 2 * n + 1;
        [headers(stream, &get("/"), true), window_update(stream, 0)].concat()
    });
    assert_eq!(code, CALM);
    assert!(n <= 401, "{n} resets");
}

#[test]
fn peer_that_resets_some_streams_is_served() {
    let mut client = Client::new(Config {
        max_requests: u64::MAX,
        ..Config::default()
    });
    let mut stream = 1;
    for _ in 0..100 {
        for n in 0..20 {
            client.get(stream);
            if n < 5 {
                client
                    .send(&frame_of(RST_STREAM, 0, stream, &[0, 0, 0, 8]))
                    .unwrap();
            } else {
                client.server.send_head(stream, &ok_block(), true);
            }
            stream += 2;
        }
        client.now += Duration::from_millis(100);
        client.sent();
    }
}

#[test]
fn small_frame_floods_end_the_connection() {
    let frames = [
        ("PING", frame_of(PING, 0, 0, &[0; 8])),
        ("SETTINGS", settings_frame(&[])),
        ("SETTINGS ack", frame_of(SETTINGS, ACK, 0, &[])),
        ("PRIORITY", frame_of(PRIORITY, 0, 1, &[0; 5])),
        ("unknown", frame_of(99, 0, 0, &[])),
        ("GOAWAY", frame_of(GOAWAY, 0, 0, &[0; 8])),
        ("empty DATA", data(1, &[], false)),
        ("padded DATA", frame_of(DATA, 0x8, 1, &[3, 0, 0, 0])),
        ("WINDOW_UPDATE", window_update(1, 1)),
    ];
    for (name, frame) in frames {
        let mut client = Client::new(Config::default());
        client.send(&headers(1, &post("1000"), false)).unwrap();
        let (n, code) = until_death(&mut client, |_| frame.clone());
        assert_eq!(code, CALM, "{name}");
        assert!(n <= 2100, "{n} {name} frames");
    }
}

#[test]
fn slow_pings_are_not_a_flood() {
    let mut client = Client::new(Config::default());
    for _ in 0..20_000 {
        client.send(&frame_of(PING, 0, 0, &[0; 8])).unwrap();
        client.sent();
        client.now += Duration::from_millis(10);
    }
}

#[test]
fn settings_in_one_frame_are_counted() {
    let mut client = Client::new(Config::default());
    let frame = settings_frame(&vec![(SETTINGS_INITIAL_WINDOW_SIZE, 1); 2700]);
    let (n, code) = until_death(&mut client, |_| frame.clone());
    assert_eq!(code, CALM);
    assert!(n < 10, "{n} frames");
}

#[test]
fn continuation_flood() {
    let open = frame_of(HEADERS, END_STREAM, 1, &get("/"));
    for piece in [&[][..], &[0x82], &[0x82; 1000], &[0x82; 16_384]] {
        let mut client = Client::new(Config::default());
        client.send(&open).unwrap();
        let (n, code) = until_death(&mut client, |_| frame_of(CONTINUATION, 0, 1, piece));
        assert_eq!(code, CALM);
        assert!(n < 64, "{n} frames");
    }
}

#[test]
fn hpack_bomb() {
    let mut block = vec![0x40, 1, b'a'];
    integer::encode(&mut block, 0, 7, 4000);
    block.extend_from_slice(&[b'x'; 4000]);
    block.extend_from_slice(&[0xbe; 10_000]);
    let client = Client::new(Config::default());
    let code = client.dies_of(&headers(1, &block, true));
    assert_eq!(code, ErrorCode::ENHANCE_YOUR_CALM);
}

#[test]
fn many_tiny_fields_are_limited() {
    let mut block = get("/");
    block.extend([0x40, 1, b'a', 1, b'b']);
    block.extend([0xbe; 2000]);
    let mut client = Client::new(Config::default());
    let seen = client.send(&headers(1, &block, true));
    assert_eq!(seen, Ok(vec![Seen::Malformed(1)]));
    client.server.send_head(1, &[0x8c], true);
    client.get(3);
}

#[test]
fn peer_that_does_not_read_is_not_read_from() {
    let mut client = Client::new(Config::default());
    let pings = frame_of(PING, 0, 0, &[0; 8]).repeat(1000);
    for _ in 0..100 {
        client.now += Duration::from_secs(60);
        client.send(&pings).unwrap();
    }
    assert!(client.server.wants_drain());
    assert!(client.server.output().len() < 300_000);
    let mut input = &pings[..];
    assert!(client
        .server
        .receive(&mut input, client.now)
        .unwrap()
        .is_none());
    assert_eq!(input.len(), pings.len());
}

/// Windows that open byte by byte cause one-byte frames (CVE-2019-9511).
#[test]
fn window_dribble() {
    let mut client = Client::new(Config::default());
    client
        .send(&settings_frame(&[(SETTINGS_INITIAL_WINDOW_SIZE, 0)]))
        .unwrap();
    client.get(1);
    client.server.send_head(1, &ok_block(), false);
    let body = vec![0; 100_000];
    client.server.send_data(1, &body, true);
    let mut died = None;
    for n in 0..10_000 {
        if let Err(error) = client.send(&window_update(1, 1)) {
            died = Some((n, error.code));
            break;
        }
        if client.server.next_ready().is_some() {
            client.server.send_data(1, &body, true);
        }
        client.sent();
    }
    let (n, code) = died.expect("the connection should end");
    assert_eq!(code, CALM);
    assert!(n <= 1100, "{n} bytes");
}

#[test]
fn endless_streams_do_not_grow_tables() {
    let mut client = Client::new(Config {
        max_requests: u64::MAX,
        ..Config::default()
    });
    client.get(1);
    for n in 1..5000 {
        let stream = 2 * n * 1000 + 1;
        client.get(stream);
        client.server.send_head(stream, &ok_block(), true);
        client.sent();
    }
    assert_eq!(client.server.open_streams(), 1);
}
