//! Requests, responses, and flow control.

use super::*;
use proptest::prelude::*;

#[test]
fn server_sends_settings_first() {
    let mut server = Connection::<()>::new(Config::default());
    let out = std::mem::take(server.output());
    assert_eq!(out[3], SETTINGS);
    assert_eq!(out[out.len() - 13 + 3], WINDOW_UPDATE);
}

#[test]
fn request_gets_response() {
    let mut client = Client::new(Config::default());
    client.get(1);
    assert!(client.server.send_head(1, &ok_block(), false));
    assert_eq!(client.server.send_data(1, b"hello", true), 5);
    assert!(!client.server.is_open(1));
    let frames = client.sent();
    assert_eq!((frames[0].kind, frames[0].flags), (HEADERS, END_HEADERS));
    assert_eq!(
        (frames[1].kind, frames[1].flags, &frames[1].payload[..]),
        (DATA, END_STREAM, &b"hello"[..])
    );
    assert_eq!(frames.len(), 2);
}

#[test]
fn equal_requests_share_a_header_block() {
    let mut server = Connection::<()>::new(Config::default());
    let mut block = get("/");
    block.splice(0..0, [0x82]);
    block = super::block(&[(":scheme", "http"), (":path", "/"), (":authority", "x")]);
    block.insert(0, 0x82);
    let bytes = [
        &PREFACE[..],
        &settings_frame(&[]),
        &headers(1, &block, true),
        &headers(3, &block, true),
    ]
    .concat();
    let mut input = &bytes[..];
    let mut heads = Vec::new();
    while let Some(event) = server.receive(&mut input, Instant::now()).unwrap() {
        if let Event::Request { head, .. } = event {
            heads.push(head);
        }
    }
    assert_eq!(heads.len(), 2);
    heads[0].set_note(7);
    assert_eq!(heads[1].note(), 7);
}

#[test]
fn body_arrives_in_pieces_and_opens_windows() {
    let mut client = Client::new(Config {
        stream_window: 100,
        ..Config::default()
    });
    client.send(&headers(1, &post("150"), false)).unwrap();
    let seen = client.send(&data(1, &[b'a'; 100], false)).unwrap();
    assert_eq!(seen, [Seen::Data(1, vec![b'a'; 100], false)]);
    client.server.release(1, 40);
    assert!(client.sent().is_empty());
    client.server.release(1, 60);
    let frames = client.sent();
    assert_eq!(
        (frames[0].kind, frames[0].stream, &frames[0].payload[..]),
        (WINDOW_UPDATE, 1, &[0, 0, 0, 200][..]),
        "what was released, and as much again: the client sends faster than it may"
    );
    let seen = client.send(&data(1, &[b'b'; 50], true)).unwrap();
    assert_eq!(seen, [Seen::Data(1, vec![b'b'; 50], true)]);
}

#[test]
fn padding_is_removed_and_credited() {
    let mut client = Client::new(Config {
        stream_window: 64,
        ..Config::default()
    });
    client.send(&headers(1, &post("3"), false)).unwrap();
    let mut padded = vec![60];
    padded.extend_from_slice(b"abc");
    padded.extend_from_slice(&[0; 60]);
    let seen = client
        .send(&frame_of(DATA, 0x8 | END_STREAM, 1, &padded))
        .unwrap();
    assert_eq!(seen, [Seen::Data(1, b"abc".to_vec(), true)]);
}

#[test]
fn connection_window_survives_dropped_streams() {
    let config = Config {
        connection_window: 65_535,
        ..Config::default()
    };
    let mut client = Client::new(config);
    for n in 0..100 {
        let stream = 1 + 2 * n;
        client
            .send(&headers(stream, &post("10000"), false))
            .unwrap();
        client.send(&data(stream, &[0; 10_000], false)).unwrap();
        client.server.reset(stream, ErrorCode::CANCEL);
        client.server.release(stream, 10_000);
        client.sent();
    }
}

#[test]
fn trailers_end_the_body() {
    let mut client = Client::new(Config::default());
    client.send(&headers(1, &post("3"), false)).unwrap();
    client.send(&data(1, b"abc", false)).unwrap();
    let seen = client
        .send(&headers(1, &block(&[("x-sum", "1")]), true))
        .unwrap();
    assert_eq!(seen, [Seen::Data(1, vec![], true)]);
}

#[test]
fn header_sections_may_be_continued() {
    let mut client = Client::new(Config::default());
    let block = get("/continued");
    let (first, second) = block.split_at(4);
    client
        .send(&frame_of(HEADERS, END_STREAM, 1, first))
        .unwrap();
    let seen = client
        .send(&frame_of(CONTINUATION, END_HEADERS, 1, second))
        .unwrap();
    assert_eq!(seen, [Seen::Request(1, "/continued".into(), true)]);
}

#[test]
fn long_responses_wait_for_windows() {
    let mut client = Client::new(Config::default());
    client.get(1);
    client.server.send_head(1, &ok_block(), false);
    let body = vec![7; 100_000];
    assert_eq!(client.server.send_data(1, &body, true), 65_535);
    assert_eq!(client.server.next_ready(), None);
    client.send(&window_update(1, 50_000)).unwrap();
    assert_eq!(
        client.server.next_ready(),
        None,
        "the connection's window is shut"
    );
    client.send(&window_update(0, 20_000)).unwrap();
    assert_eq!(client.server.next_ready(), Some(1));
    assert_eq!(client.server.capacity(1), 20_000);
    assert_eq!(client.server.send_data(1, &body[65_535..], true), 20_000);
    client.send(&window_update(0, 50_000)).unwrap();
    assert_eq!(client.server.next_ready(), Some(1));
    assert_eq!(client.server.send_data(1, &body[85_535..], true), 14_465);
    let total: usize = client
        .sent()
        .iter()
        .filter(|f| f.kind == DATA)
        .map(|f| f.payload.len())
        .sum();
    assert_eq!(total, 100_000);
    assert!(!client.server.is_open(1));
}

#[test]
fn frames_respect_maximum_size() {
    let mut client = Client::new(Config::default());
    client.get(1);
    client.server.send_head(1, &vec![0x88; 40_000], false);
    client.server.set_chunk(1, 1 << 20);
    client.server.send_data(1, &[0; 40_000], true);
    let frames = client.sent();
    assert!(frames.iter().all(|f| f.payload.len() <= MAX_FRAME));
    let kinds: Vec<u8> = frames.iter().map(|f| f.kind).collect();
    assert_eq!(
        kinds,
        [HEADERS, CONTINUATION, CONTINUATION, DATA, DATA, DATA]
    );
    let ends: Vec<u8> = frames.iter().map(|f| f.flags).collect();
    assert_eq!(ends, [0, 0, END_HEADERS, 0, 0, END_STREAM]);
}

#[test]
fn header_section_fits_one_frame_when_peer_allows() {
    let mut client = Client::new(Config::default());
    let large = settings_frame(&[(SETTINGS_MAX_FRAME_SIZE, 50_000)]);
    client.send(&large).unwrap();
    client.sent();
    client.get(1);
    client.server.send_head(1, &vec![0x88; 60_000], true);
    let lengths: Vec<usize> = client.sent().iter().map(|f| f.payload.len()).collect();
    assert_eq!(lengths, [50_000, 10_000]);
}

#[test]
fn data_frames_respect_configured_size() {
    let mut client = Client::new(Config {
        chunk: 10_000,
        ..Config::default()
    });
    client.get(1);
    client.server.send_head(1, &ok_block(), false);
    client.server.send_data(1, &[0; 25_000], false);
    client.server.set_chunk(1, 4000);
    client.server.send_data(1, &[0; 5000], true);
    let frames = client.sent();
    let lengths: Vec<usize> = frames.iter().skip(1).map(|f| f.payload.len()).collect();
    assert_eq!(lengths, [10_000, 10_000, 5000, 4000, 1000]);
}

#[test]
fn smaller_initial_window_may_become_negative() {
    let mut client = Client::new(Config::default());
    client.get(1);
    client.server.send_head(1, &ok_block(), false);
    client.server.send_data(1, &[0; 70_000], true);
    client
        .send(&settings_frame(&[(SETTINGS_INITIAL_WINDOW_SIZE, 100)]))
        .unwrap();
    client.send(&window_update(0, 100_000)).unwrap();
    assert_eq!(client.server.capacity(1), 0);
    client.send(&window_update(1, 65_434)).unwrap();
    assert_eq!(client.server.next_ready(), None);
    client.send(&window_update(1, 2)).unwrap();
    assert_eq!(
        (client.server.next_ready(), client.server.capacity(1)),
        (Some(1), 1)
    );
}

#[test]
fn streams_are_sent_in_turns() {
    let mut client = Client::new(Config::default());
    client.send(&window_update(0, 1 << 20)).unwrap();
    for stream in [1, 3, 5] {
        client.get(stream);
        client.server.send_head(stream, &ok_block(), false);
        client.server.send_data(stream, &[0; 70_000], true);
    }
    client
        .send(&settings_frame(&[(SETTINGS_INITIAL_WINDOW_SIZE, 66_000)]))
        .unwrap();
    let mut turns = Vec::new();
    while let Some(stream) = client.server.next_ready() {
        turns.push(stream);
        if turns.len() < 6 {
            client.server.mark_ready(stream);
        }
    }
    assert_eq!(turns, [1, 3, 5, 1, 3, 5, 1, 3]);
}

#[test]
fn smaller_header_table_is_acknowledged_once() {
    let mut client = Client::new(Config::default());
    client
        .send(&settings_frame(&[(SETTINGS_HEADER_TABLE_SIZE, 0)]))
        .unwrap();
    client.sent();
    for (stream, want) in [(1, vec![0x20, 0x88]), (3, vec![0x88])] {
        client.get(stream);
        client.server.send_head(stream, &ok_block(), true);
        assert_eq!(client.sent()[0].payload, want);
    }
}

#[test]
fn early_response_stops_request() {
    let mut client = Client::new(Config::default());
    client.send(&headers(1, &post("1000"), false)).unwrap();
    client.server.send_head(1, &ok_block(), true);
    assert!(client.resets().is_empty());
    assert_eq!(client.send(&data(1, b"still", false)), Ok(vec![]));
    assert_eq!(client.resets(), [(1, 0)]);
    assert_eq!(client.send(&data(1, b"more", false)), Ok(vec![]));
    assert!(client.resets().is_empty(), "what was under way is ignored");
    assert_eq!(client.server.open_streams(), 0);
}

#[test]
fn early_response_stops_started_body() {
    let mut client = Client::new(Config::default());
    let begun = [headers(1, &post("1000"), false), data(1, b"some", false)];
    client.send(&begun.concat()).unwrap();
    client.server.send_head(1, &ok_block(), true);
    assert_eq!(client.resets(), [(1, 0)]);
    assert!(!client.server.has_unfinished());
}

#[test]
fn request_that_ends_after_response_is_not_reset() {
    for end in [data(1, b"1234", true), headers(1, &[], true)] {
        let mut client = Client::new(Config::default());
        let length = if end[3] == DATA { "4" } else { "0" };
        client.send(&headers(1, &post(length), false)).unwrap();
        client.server.send_head(1, &ok_block(), false);
        assert_eq!(client.server.send_data(1, b"early", true), 5);
        assert!(!client.server.is_open(1) && client.server.has_unfinished());
        assert_eq!(client.send(&end), Ok(vec![]));
        assert!(client.resets().is_empty());
        assert_eq!(client.server.open_streams(), 0);
        client.give_up();
        assert!(client.resets().is_empty());
    }
}

/// An error in frames that follow the head is reported correctly.
#[test]
fn stream_rules_hold_after_response_until_end() {
    let mut client = Client::new(Config::default());
    client.send(&headers(1, &get("/"), false)).unwrap();
    client.server.send_head(1, &ok_block(), true);
    let most = window_update(1, 0x7fff_ffff);
    client.send(&[most.clone(), most].concat()).unwrap();
    assert_eq!(client.resets(), [(1, ErrorCode::FLOW_CONTROL_ERROR.0)]);
    assert!(!client.server.has_unfinished());
}

#[test]
fn unended_request_is_reset() {
    let mut client = Client::new(Config::default());
    client.send(&headers(1, &post("9"), false)).unwrap();
    client.server.send_head(1, &ok_block(), true);
    client.server.end_unfinished();
    client.send(&headers(3, &post("9"), false)).unwrap();
    client.server.send_head(3, &ok_block(), true);
    assert!(client.resets().is_empty());
    client.server.end_unfinished();
    assert_eq!(client.resets(), [(1, 0)], "the other has waited once only");
    client.server.end_unfinished();
    assert_eq!(client.resets(), [(3, 0)]);
    assert!(!client.server.has_unfinished());
}

#[test]
fn malformed_request_gets_response_then_reset() {
    let mut client = Client::new(Config::default());
    let bad = block(&[(":method", "GET"), (":path", "/")]);
    assert_eq!(
        client.send(&headers(1, &bad, false)),
        Ok(vec![Seen::Malformed(1)])
    );
    assert_eq!(client.send(&data(1, b"ignored", true)), Ok(vec![]));
    client.server.send_head(1, &[0x8c], true);
    assert_eq!(client.resets(), [(1, 1)]);
}

#[test]
fn shutdown_finishes_open_streams() {
    let mut client = Client::new(Config::default());
    client.get(1);
    client.server.shutdown();
    let goaway = client.sent().pop().unwrap();
    assert_eq!(
        (goaway.kind, &goaway.payload[..]),
        (GOAWAY, &[0, 0, 0, 1, 0, 0, 0, 0][..])
    );
    assert_eq!(
        client.send(&headers(3, &get("/"), true)),
        Ok(vec![]),
        "too late"
    );
    assert!(!client.server.is_finished());
    client.server.send_head(1, &ok_block(), true);
    assert!(client.server.is_finished());
}

#[test]
fn keepalive_requests_ends_the_connection() {
    let mut client = Client::new(Config {
        max_requests: 2,
        ..Config::default()
    });
    for stream in [1, 3] {
        client.get(stream);
        client.server.send_head(stream, &ok_block(), true);
    }
    assert!(client.server.is_finished());
    assert!(client.sent().iter().any(|f| f.kind == GOAWAY));
}

proptest! {
    /// The events do not depend on how the input is split.
    #[test]
    fn input_can_arrive_in_any_pieces(cut in 1usize..60) {
        let bytes = [
            &PREFACE[..], &settings_frame(&[(SETTINGS_INITIAL_WINDOW_SIZE, 9)]),
            &headers(1, &get("/a"), true), &headers(3, &post("5"), false), &data(3, b"12", false),
            &window_update(0, 5), &data(3, b"345", true), &frame_of(PING, 0, 0, &[1; 8]),
        ].concat();
        let mut server = Connection::<u32>::new(Config::default());
        let (mut buffer, mut events) = (Vec::new(), 0);
        for piece in bytes.chunks(cut) {
            buffer.extend_from_slice(piece);
            let mut input = &buffer[..];
            while server.receive(&mut input, Instant::now()).unwrap().is_some() {
                events += 1;
            }
            let used = buffer.len() - input.len();
            buffer.drain(..used);
        }
        prop_assert_eq!(events, 4);
        prop_assert!(buffer.is_empty());
    }
}
