//! Protocol violations, and the error for each.

use super::*;
use proptest::prelude::*;

const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;
const SIZE: ErrorCode = ErrorCode::FRAME_SIZE_ERROR;
const FLOW: ErrorCode = ErrorCode::FLOW_CONTROL_ERROR;
const CLOSED: ErrorCode = ErrorCode::STREAM_CLOSED;

#[test]
fn preface_is_required() {
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nXX"] {
        let server = Connection::new(Config::default());
        let client = Client {
            server,
            now: Instant::now(),
        };
        assert_eq!(client.dies_of(bytes), PROTOCOL);
    }
}

/// RFC 9113, section 3.4, forbids this, but nginx accepts it.
#[test]
fn late_settings_are_accepted() {
    let server = Connection::new(Config::default());
    let now = Instant::now();
    let mut client = Client { server, now };
    client.send(PREFACE).unwrap();
    client.get(1);
}

#[test]
fn protocol_violations_are_connection_errors() {
    let invalid_setting = |id, value| settings_frame(&[(id, value)]);
    let cases: Vec<(&str, Vec<u8>, ErrorCode)> = vec![
        ("DATA on stream 0", data(0, b"x", true), PROTOCOL),
        ("DATA on an idle stream", data(1, b"x", true), PROTOCOL),
        ("HEADERS on stream 0", headers(0, &get("/"), true), PROTOCOL),
        (
            "HEADERS on an even stream",
            headers(2, &get("/"), true),
            PROTOCOL,
        ),
        (
            "HEADERS that cannot be decoded",
            headers(1, &[0x80], true),
            ErrorCode::COMPRESSION_ERROR,
        ),
        (
            "HEADERS with too much padding",
            frame_of(HEADERS, 0xd, 1, &[9, 0x82]),
            PROTOCOL,
        ),
        (
            "HEADERS with no padding length",
            frame_of(HEADERS, 0xd, 1, &[]),
            SIZE,
        ),
        (
            "HEADERS with half a priority",
            frame_of(HEADERS, 0x25, 1, &[0; 4]),
            SIZE,
        ),
        (
            "PRIORITY on stream 0",
            frame_of(PRIORITY, 0, 0, &[0; 5]),
            PROTOCOL,
        ),
        (
            "PRIORITY of 4 bytes",
            frame_of(PRIORITY, 0, 1, &[0; 4]),
            SIZE,
        ),
        (
            "RST_STREAM on stream 0",
            frame_of(RST_STREAM, 0, 0, &[0; 4]),
            PROTOCOL,
        ),
        (
            "RST_STREAM on an idle stream",
            frame_of(RST_STREAM, 0, 1, &[0; 4]),
            PROTOCOL,
        ),
        (
            "RST_STREAM of 3 bytes",
            frame_of(RST_STREAM, 0, 1, &[0; 3]),
            SIZE,
        ),
        (
            "SETTINGS on a stream",
            frame_of(SETTINGS, 0, 1, &[]),
            PROTOCOL,
        ),
        (
            "SETTINGS of 5 bytes",
            frame_of(SETTINGS, 0, 0, &[0; 5]),
            SIZE,
        ),
        (
            "SETTINGS ack with payload",
            frame_of(SETTINGS, ACK, 0, &[0; 6]),
            SIZE,
        ),
        (
            "ENABLE_PUSH of 2",
            invalid_setting(SETTINGS_ENABLE_PUSH, 2),
            PROTOCOL,
        ),
        (
            "window of 2^31",
            invalid_setting(SETTINGS_INITIAL_WINDOW_SIZE, 1 << 31),
            FLOW,
        ),
        (
            "frames of 16383",
            invalid_setting(SETTINGS_MAX_FRAME_SIZE, 16_383),
            PROTOCOL,
        ),
        (
            "frames of 2^24",
            invalid_setting(SETTINGS_MAX_FRAME_SIZE, 1 << 24),
            PROTOCOL,
        ),
        (
            "PUSH_PROMISE",
            frame_of(PUSH_PROMISE, END_HEADERS, 1, &[0; 4]),
            PROTOCOL,
        ),
        ("PING on a stream", frame_of(PING, 0, 1, &[0; 8]), PROTOCOL),
        ("PING of 7 bytes", frame_of(PING, 0, 0, &[0; 7]), SIZE),
        (
            "GOAWAY on a stream",
            frame_of(GOAWAY, 0, 1, &[0; 8]),
            PROTOCOL,
        ),
        ("GOAWAY of 7 bytes", frame_of(GOAWAY, 0, 0, &[0; 7]), SIZE),
        ("WINDOW_UPDATE of 0", window_update(0, 0), PROTOCOL),
        (
            "WINDOW_UPDATE on an idle stream",
            window_update(1, 1),
            PROTOCOL,
        ),
        (
            "WINDOW_UPDATE of 3 bytes",
            frame_of(WINDOW_UPDATE, 0, 0, &[0; 3]),
            SIZE,
        ),
        (
            "WINDOW_UPDATE that overflows",
            window_update(0, 0x7fff_ffff),
            FLOW,
        ),
        (
            "CONTINUATION out of nowhere",
            frame_of(CONTINUATION, END_HEADERS, 1, &[]),
            PROTOCOL,
        ),
        (
            "a frame of 16385 bytes",
            frame_of(DATA, 0, 1, &[0; 16_385]),
            SIZE,
        ),
    ];
    for (name, bytes, code) in cases {
        assert_eq!(
            Client::new(Config::default()).dies_of(&bytes),
            code,
            "{name}"
        );
    }
}

#[test]
fn interrupted_field_section_is_an_error() {
    let open = frame_of(HEADERS, END_STREAM, 1, &get("/"));
    let interruptions = [
        frame_of(PRIORITY, 0, 1, &[0; 5]),
        headers(3, &get("/"), true),
        frame_of(CONTINUATION, END_HEADERS, 3, &[]),
        frame_of(99, 0, 0, &[]),
    ];
    for bytes in interruptions {
        let client = Client::new(Config::default());
        assert_eq!(client.dies_of(&[open.clone(), bytes].concat()), PROTOCOL);
    }
}

#[test]
fn stream_violations_are_stream_errors() {
    let upload = || headers(1, &post("4"), false);
    let cases: Vec<(&str, Vec<Vec<u8>>, ErrorCode)> = vec![
        (
            "DATA after the end",
            vec![headers(1, &get("/"), true), data(1, b"x", true)],
            CLOSED,
        ),
        (
            "HEADERS after the end",
            vec![headers(1, &get("/"), true), headers(1, &get("/"), true)],
            CLOSED,
        ),
        (
            "less, with trailers",
            vec![upload(), headers(1, &[], true)],
            PROTOCOL,
        ),
        (
            "trailers without end",
            vec![upload(), data(1, b"1234", false), headers(1, &[], false)],
            PROTOCOL,
        ),
        (
            "pseudo-header in trailers",
            vec![
                upload(),
                data(1, b"1234", false),
                headers(1, &get("/"), true),
            ],
            PROTOCOL,
        ),
        (
            "WINDOW_UPDATE of 0",
            vec![upload(), window_update(1, 0)],
            PROTOCOL,
        ),
        (
            "window above 2^31 - 1",
            vec![upload(), window_update(1, 0x7fff_ffff)],
            FLOW,
        ),
        (
            "PRIORITY of 4 bytes",
            vec![upload(), frame_of(PRIORITY, 0, 1, &[0; 4])],
            SIZE,
        ),
        (
            "dependency on itself",
            vec![upload(), frame_of(PRIORITY, 0, 1, &[0, 0, 0, 1, 0])],
            PROTOCOL,
        ),
    ];
    for (name, frames, code) in cases {
        let mut client = Client::new(Config::default());
        let seen = client.send(&frames.concat()).unwrap();
        assert_eq!(seen.last(), Some(&Seen::Reset(1, code)), "{name}");
        assert_eq!(client.resets(), [(1, code.0)], "{name}");
        client.get(3);
    }
}

#[test]
fn wrong_content_length_gets_response_then_reset() {
    let more = data(1, b"12345", false);
    let less = data(1, b"123", true);
    for frame in [more, less] {
        let mut client = Client::new(Config::default());
        client.send(&headers(1, &post("4"), false)).unwrap();
        assert_eq!(client.send(&frame), Ok(vec![Seen::BadBody(1)]));
        assert!(client.resets().is_empty());
        client.server.send_head(1, &[0x8c], true);
        assert_eq!(client.resets(), [(1, PROTOCOL.0)]);
        client.get(3);
    }
}

#[test]
fn flow_control_windows_are_enforced() {
    let config = Config {
        stream_window: 10,
        connection_window: 65_535,
        ..Config::default()
    };
    let mut client = Client::new(config);
    client.send(&headers(1, &post("100"), false)).unwrap();
    let seen = client.send(&data(1, &[0; 11], false)).unwrap();
    assert_eq!(seen, [Seen::Reset(1, FLOW)]);
    let mut client = Client::new(Config {
        connection_window: 65_535,
        ..Config::default()
    });
    client.send(&headers(1, &post("70000"), false)).unwrap();
    for _ in 0..4 {
        client.send(&data(1, &[0; 16_000], false)).unwrap();
    }
    assert_eq!(client.dies_of(&data(1, &[0; 2000], false)), FLOW);
}

#[test]
fn setting_that_overflows_window_is_an_error() {
    let mut client = Client::new(Config::default());
    client.get(1);
    client
        .send(&window_update(1, 0x7fff_ffff - 65_535))
        .unwrap();
    let bytes = settings_frame(&[(SETTINGS_INITIAL_WINDOW_SIZE, 65_536)]);
    assert_eq!(client.dies_of(&bytes), FLOW);
}

#[test]
fn stream_ids_must_increase() {
    let mut client = Client::new(Config::default());
    client.get(5);
    assert_eq!(client.dies_of(&headers(3, &get("/"), true)), PROTOCOL);
    let mut client = Client::new(Config::default());
    client.get(1);
    client.server.send_head(1, &ok_block(), true);
    assert_eq!(client.dies_of(&headers(1, &get("/"), true)), PROTOCOL);
}

#[test]
fn largest_stream_id_is_accepted() {
    let mut client = Client::new(Config::default());
    client.get(0x7fff_ffff);
    client.server.send_head(0x7fff_ffff, &ok_block(), true);
    client
        .send(&headers(0x7fff_ffff, &get("/"), true))
        .unwrap_err();
}

#[test]
fn frames_for_closed_stream_follow_rfc() {
    let mut client = Client::new(Config::default());
    client.get(1);
    let reset = frame_of(RST_STREAM, 0, 1, &8u32.to_be_bytes());
    assert_eq!(
        client.send(&reset),
        Ok(vec![Seen::Reset(1, ErrorCode::CANCEL)])
    );
    assert_eq!(
        client.send(&[window_update(1, 1), reset].concat()),
        Ok(vec![])
    );
    assert_eq!(client.send(&data(1, b"x", true)), Ok(vec![]));
    assert_eq!(client.resets(), [(1, CLOSED.0)]);
}

#[test]
fn refused_stream_is_not_an_error() {
    let mut client = Client::new(Config {
        max_streams: 1,
        ..Config::default()
    });
    client.get(1);
    assert_eq!(client.send(&headers(3, &post("1"), false)), Ok(vec![]));
    assert_eq!(client.resets(), [(3, ErrorCode::REFUSED_STREAM.0)]);
    assert_eq!(
        client.send(&[data(3, b"x", false), headers(3, &[], true)].concat()),
        Ok(vec![])
    );
    assert!(client.resets().is_empty());
}

#[test]
fn stream_reset_by_both_sides_is_closed() {
    let mut client = Client::new(Config::default());
    client.send(&headers(1, &post("4"), false)).unwrap();
    client.server.send_head(1, &ok_block(), true);
    client.give_up();
    assert_eq!(client.resets(), [(1, 0)]);
    client.send(&frame_of(RST_STREAM, 0, 1, &[0; 4])).unwrap();
    assert_eq!(client.dies_of(&headers(1, &[], true)), PROTOCOL);
}

#[test]
fn zero_window_update_on_closed_stream_is_an_error() {
    let mut client = Client::new(Config::default());
    client.get(1);
    client.server.send_head(1, &ok_block(), true);
    client.send(&window_update(1, 0)).unwrap();
    assert_eq!(client.resets(), [(1, PROTOCOL.0)]);
    client.get(3);
}

#[test]
fn late_header_section_ends_only_its_stream() {
    let mut client = Client::new(Config::default());
    let request = headers(1, &get("/"), true);
    let (first, rest) = request.split_at(20);
    assert_eq!(client.send(first), Ok(vec![]));
    assert!(client.server.awaits_head(first) && !client.server.head_is_late());
    assert!(client.server.expire_head(first));
    assert!(client.server.head_is_late() && !client.server.expire_head(first));
    assert_eq!(client.resets(), [(1, PROTOCOL.0)]);
    assert_eq!(client.send(&[first, rest].concat()), Ok(vec![]));
    assert!(!client.server.head_is_late());
    client.get(3);
}

#[test]
fn frames_up_to_announced_size_are_accepted() {
    let config = Config {
        max_frame: 20_000,
        ..Config::default()
    };
    let mut client = Client::new(config);
    client.send(&headers(1, &post("20000"), false)).unwrap();
    let seen = client.send(&data(1, &[7; 20_000], true));
    assert_eq!(seen, Ok(vec![Seen::Data(1, vec![7; 20_000], true)]));
    let code = Client::new(config).dies_of(&data(1, &[7; 20_001], true));
    assert_eq!(code, SIZE);
}

#[test]
fn impossible_length_is_rejected_early() {
    for start in [&[0xff; 4][..], &[0x42, 0xff, 0xff, 0xff, 0xff]] {
        let mut frame = frame_of(HEADERS, END_HEADERS | END_STREAM, 1, &[0; 100]);
        frame.truncate(9);
        frame.extend_from_slice(start);
        let code = Client::new(Config::default()).dies_of(&frame);
        assert_eq!(code, ErrorCode::COMPRESSION_ERROR);
    }
    let mut client = Client::new(Config::default());
    assert_eq!(
        client.send(&[0, 0, 9, 1, 5, 0, 0, 0, 1, 0x42, 0xff]),
        Ok(vec![])
    );
}

/// The rest of a request after its response is discarded but still validated.
#[test]
fn malformed_late_frames_are_rejected() {
    let late = [
        data(1, b"12345", false),
        data(1, b"123", true),
        headers(1, &get("/"), true),
        headers(1, &[], false),
    ];
    for (frame, reset) in late.iter().flat_map(|f| [(f, false), (f, true)]) {
        let mut client = Client::new(Config::default());
        client.send(&headers(1, &post("4"), false)).unwrap();
        client.server.send_head(1, &ok_block(), true);
        if reset {
            client.give_up();
            assert_eq!(client.resets(), [(1, 0)]);
        }
        assert_eq!(client.send(frame), Ok(vec![]));
        assert_eq!(client.resets(), [(1, PROTOCOL.0)]);
    }
}

#[test]
fn pings_get_ack_and_acks_get_nothing() {
    let mut client = Client::new(Config::default());
    client.send(&frame_of(PING, 0, 0, b"12345678")).unwrap();
    let pong = Sent {
        kind: PING,
        flags: ACK,
        stream: 0,
        payload: b"12345678".to_vec(),
    };
    assert_eq!(client.sent(), [pong]);
    client.send(&frame_of(PING, ACK, 0, b"12345678")).unwrap();
    client.send(&frame_of(200, 0, 77, b"unknown")).unwrap();
    assert!(client.sent().is_empty());
    assert_eq!(
        client.send(&frame_of(GOAWAY, 0, 0, &[0; 8])),
        Ok(vec![Seen::GoAway])
    );
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        Just(get("/")),
        Just(post("5")),
        Just(vec![0, 0, 0, 1]),
    ];
    (0u8..11, any::<u8>(), 0u32..8, payload)
        .prop_map(|(kind, flags, stream, payload)| frame_of(kind, flags, stream, &payload))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// Arbitrary frames: requests get responses, without panics or partial frames.
    #[test]
    fn arbitrary_frames_do_not_panic(frames in prop::collection::vec(any_frame(), 0..40)) {
        let mut client = Client::new(Config { max_streams: 3, ..Config::default() });
        for frame in frames {
            let Ok(seen) = client.send(&frame) else {
                prop_assert!(client.server.is_finished());
                return Ok(());
            };
            for event in seen {
                match event {
                    Seen::Request(stream, _, true) => {
                        client.server.send_head(stream, &ok_block(), false);
                        client.server.send_data(stream, &[1; 20_000], true);
                    }
                    Seen::Data(stream, data, _) => client.server.release(stream, data.len()),
                    _ => {}
                }
            }
            client.sent();
            prop_assert!(client.server.open_streams() <= 3);
        }
    }
}

#[test]
fn body_is_accepted_within_old_window_until_settings_ack() {
    let small = Config {
        stream_window: 10,
        ..Config::default()
    };
    let refused = ErrorCode::REFUSED_STREAM.0;
    let mut client = Client::unaware(small);
    let seen = client.send(&headers(1, &post("4"), false)).unwrap();
    assert_eq!((seen, client.resets()), (vec![], vec![(1, refused)]));
    client.get(3);
    client.send(&frame_of(SETTINGS, ACK, 0, &[])).unwrap();
    let seen = client.send(&headers(5, &post("4"), false)).unwrap();
    assert_eq!(seen, [Seen::Request(5, "/".into(), false)]);
    // With windows of the default size, the client needs no settings.
    let mut client = Client::unaware(Config::default());
    let seen = client.send(&headers(1, &post("4"), false)).unwrap();
    assert_eq!(seen, [Seen::Request(1, "/".into(), false)]);
}
