//! Tests of the client against the frames of good and of hostile servers.

use super::super::frame::{push_goaway, push_header, push_u32};
use super::super::ErrorCode;
use super::*;
use crate::hpack::{encode_field, encode_status};
use std::time::Duration;

fn section(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    if status != 0 {
        encode_status(&mut block, status);
    }
    for (name, value) in fields {
        encode_field(&mut block, name.as_bytes(), value.as_bytes());
    }
    block
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_header(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

fn head(flags: u8, status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let flags = flags | frame::END_HEADERS;
    frame(frame::HEADERS, flags, 1, &section(status, fields))
}

fn update(stream: u32, increment: u32) -> Vec<u8> {
    let mut out = Vec::new();
    push_u32(&mut out, frame::WINDOW_UPDATE, stream, increment);
    out
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(frame::SETTINGS, 0, 0, &payload)
}

/// A client that has sent the head of a request.
fn asking(ends: bool) -> Client {
    let mut client = Client::new();
    client.start(&section(0, &[(":method", "POST")]), ends, 4096);
    client.take_output(&mut Vec::new());
    client
}

/// The events of an input, as text.
fn events(client: &mut Client, input: &[u8]) -> Result<Vec<String>> {
    let now = Instant::now();
    let mut rest = input;
    let mut seen = Vec::new();
    while let Some(event) = client.receive(&mut rest, now)? {
        let text = |fields: Fields| {
            let field = |(n, v): &(Vec<u8>, Vec<u8>)| {
                format!(
                    "{}={}",
                    String::from_utf8_lossy(n),
                    String::from_utf8_lossy(v)
                )
            };
            fields.iter().map(field).collect::<Vec<_>>().join(",")
        };
        seen.push(match event {
            Event::Head { status, fields } => format!("{status} {}", text(fields)),
            Event::Data(data) => String::from_utf8_lossy(data).into_owned(),
            Event::Trailers(fields) => text(fields),
        });
    }
    Ok(seen)
}

fn reason(input: &[u8]) -> String {
    let mut client = asking(true);
    events(&mut client, input)
        .expect_err("an error")
        .to_string()
}

#[test]
fn first_request_follows_preface_settings_and_window() {
    let mut client = Client::new();
    client.start(b"x", true, 4096);
    let mut out = Vec::new();
    client.take_output(&mut out);
    assert!(out.starts_with(frame::PREFACE));
    let last = frame(
        frame::HEADERS,
        frame::END_HEADERS | frame::END_STREAM,
        1,
        b"x",
    );
    assert!(out.ends_with(&last), "{out:x?}");
    assert!(!client.has_output());
}

#[test]
fn large_head_is_split_into_frames_of_the_default_size() {
    let mut client = asking(true);
    events(&mut client, &head(frame::END_STREAM, 200, &[])).unwrap();
    client.start(&vec![b'x'; 40_000], true, 4096);
    let mut out = Vec::new();
    client.take_output(&mut out);
    let mut rest = &out[..];
    let mut seen = Vec::new();
    while let Some(header) = Header::parse(rest) {
        seen.push((header.kind, header.len, header.flags, header.stream));
        rest = &rest[frame::HEADER_LEN + header.len..];
    }
    let expected = [
        (frame::HEADERS, 16_384, frame::END_STREAM, 3),
        (frame::CONTINUATION, 16_384, 0, 3),
        (frame::CONTINUATION, 7232, frame::END_HEADERS, 3),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn response_arrives_in_pieces_with_padding_and_trailers() {
    let padded = [&[2][..], b"hello", &[0, 0]].concat();
    let input = [
        setting(frame::SETTINGS_MAX_FRAME_SIZE, 16_384),
        head(0, 200, &[("a", "b")]),
        frame(frame::DATA, frame::PADDED, 1, &padded),
        frame(frame::DATA, 0, 1, b" world"),
        head(frame::END_STREAM, 0, &[("grpc-status", "0")]),
    ]
    .concat();
    let whole = events(&mut asking(true), &input).unwrap();
    assert_eq!(whole, ["200 a=b", "hello", " world", "grpc-status=0"]);
    // The same byte by byte.
    let mut client = asking(true);
    let mut unread = Vec::new();
    let mut body = String::new();
    for byte in input {
        unread.push(byte);
        let mut rest = &unread[..];
        while let Some(event) = client.receive(&mut rest, Instant::now()).unwrap() {
            if let Event::Data(data) = event {
                body.push_str(std::str::from_utf8(data).unwrap());
            }
        }
        unread = rest.to_vec();
    }
    assert_eq!(body, "hello world");
    assert!(client.is_ended());
    let mut out = Vec::new();
    client.take_output(&mut out);
    assert_eq!(out, frame(frame::SETTINGS, frame::ACK, 0, b""));
    assert!(client.is_reusable());
}

#[test]
fn body_is_sent_as_far_as_the_windows_allow() {
    let mut client = asking(false);
    let body = vec![b'x'; 65_535 + 15];
    let mut out = Vec::new();
    assert_eq!(client.send_data(&body, true, &mut out), 65_535);
    assert_eq!(client.send_data(&body[65_535..], true, &mut out), 0);
    events(&mut client, &update(0, 100)).unwrap();
    assert_eq!(client.send_data(&body[65_535..], true, &mut out), 0);
    events(&mut client, &update(1, 10)).unwrap();
    assert_eq!(client.send_data(&body[65_535..], true, &mut out), 10);
    events(
        &mut client,
        &setting(frame::SETTINGS_INITIAL_WINDOW_SIZE, 65_540),
    )
    .unwrap();
    out.clear();
    assert_eq!(client.send_data(&body[65_545..], true, &mut out), 5);
    assert_eq!(out, frame(frame::DATA, frame::END_STREAM, 1, b"xxxxx"));
}

#[test]
fn window_may_become_negative() {
    let mut client = asking(false);
    let mut out = Vec::new();
    assert_eq!(client.send_data(&[b'x'; 1000], false, &mut out), 1000);
    events(
        &mut client,
        &setting(frame::SETTINGS_INITIAL_WINDOW_SIZE, 10),
    )
    .unwrap();
    events(&mut client, &update(1, 500)).unwrap();
    assert_eq!(client.send_data(b"y", false, &mut out), 0);
    events(&mut client, &update(1, 491)).unwrap();
    assert_eq!(client.send_data(b"y", false, &mut out), 1);
}

#[test]
fn connection_is_reused_only_after_a_whole_exchange() {
    let whole = head(frame::END_STREAM, 200, &[]);
    let mut client = asking(false);
    events(&mut client, &whole).unwrap();
    assert!(!client.is_reusable(), "the request has not ended");
    client.send_data(b"", true, &mut Vec::new());
    assert!(client.is_reusable());
    let mut leaving = asking(true);
    let mut goaway = Vec::new();
    push_goaway(&mut goaway, 1, ErrorCode::NO_ERROR);
    events(&mut leaving, &[goaway, whole.clone()].concat()).unwrap();
    assert!(!leaving.is_reusable());
    let mut full = asking(true);
    let none = setting(frame::SETTINGS_MAX_CONCURRENT_STREAMS, 0);
    events(&mut full, &[none, whole].concat()).unwrap();
    full.take_output(&mut Vec::new());
    assert!(!full.is_reusable());
}

#[test]
fn reset_after_the_response_ends_the_upload() {
    let mut client = asking(false);
    let mut input = head(frame::END_STREAM, 200, &[]);
    push_u32(&mut input, frame::RST_STREAM, 1, 0);
    events(&mut client, &input).unwrap();
    assert!(client.is_ended() && client.is_reset() && !client.is_reusable());
    let mut out = Vec::new();
    assert_eq!(client.send_data(b"rest", true, &mut out), 4);
    assert!(out.is_empty());
}

#[test]
fn frames_about_the_previous_request_are_ignored() {
    let mut client = asking(true);
    events(&mut client, &head(frame::END_STREAM, 200, &[])).unwrap();
    client.start(b"", true, 4096);
    let mut late = update(1, 5);
    push_u32(&mut late, frame::RST_STREAM, 1, 0);
    assert_eq!(events(&mut client, &late), Ok(vec![]));
}

#[test]
fn interim_responses_come_before_the_head() {
    let input = [
        head(0, 103, &[("link", "x")]),
        head(frame::END_STREAM, 200, &[]),
    ]
    .concat();
    let seen = events(&mut asking(true), &input).unwrap();
    assert_eq!(seen, ["103 link=x", "200 "]);
}

#[test]
fn rejections_name_their_code() {
    let mut reset = Vec::new();
    push_u32(&mut reset, frame::RST_STREAM, 1, 7);
    assert_eq!(reason(&reset), "upstream rejected request with error 7");
    let mut goaway = Vec::new();
    push_goaway(&mut goaway, 0, ErrorCode(11));
    assert_eq!(reason(&goaway), "upstream sent goaway with error 11");
}

#[test]
fn broken_frames_are_rejected() {
    let bad_name = frame(frame::HEADERS, 4, 1, &[0x88, 0, 1, b'A', 1, b'x']);
    let bad_value = frame(frame::HEADERS, 4, 1, &[0x88, 0, 1, b'a', 1, b'\n']);
    let no_stream = frame(frame::DATA, 0, 0, b"x");
    let cases: &[(&[u8], &str)] = &[
        (&frame(frame::DATA, 0, 1, b"x"), "unexpected http2 frame"),
        (
            &frame(frame::CONTINUATION, 4, 1, b""),
            "unexpected http2 frame",
        ),
        (
            &frame(frame::HEADERS, 4, 3, b""),
            "frame for unknown stream",
        ),
        (&no_stream, "http2 frame without stream"),
        (
            &frame(frame::PUSH_PROMISE, 4, 1, &[0; 4]),
            "unexpected push promise frame",
        ),
        (&[0, 0x40, 1, 0, 0, 0, 0, 0, 1], "too large http2 frame"),
        (&bad_name, "invalid header"),
        (&bad_value, "invalid header"),
        (
            &frame(frame::HEADERS, 4, 1, &[0xff]),
            "invalid encoded header",
        ),
        (&head(0, 0, &[("a", "b")]), "no :status header"),
        (&head(0, 0, &[(":status", "20x")]), "invalid :status"),
        (&head(0, 200, &[(":status", "200")]), "invalid :status"),
        (&head(0, 101, &[]), "unexpected :status"),
        (&head(1, 103, &[]), "interim response that ends the stream"),
        (
            &frame(frame::SETTINGS, 0, 1, b""),
            "settings frame with non-zero stream id",
        ),
        (
            &frame(frame::SETTINGS, 0, 0, b"x"),
            "settings frame with invalid length",
        ),
        (
            &frame(frame::PING, 0, 0, b"x"),
            "ping frame with invalid length",
        ),
        (
            &frame(frame::PING, 1, 0, &[0; 8]),
            "ping frame with ack flag",
        ),
        (
            &frame(frame::RST_STREAM, 0, 1, b"x"),
            "rst stream frame with invalid length",
        ),
        (
            &frame(frame::GOAWAY, 0, 0, b"x"),
            "goaway frame with invalid length",
        ),
        (&update(0, 0), "zero window update"),
        (&update(1, 0x7fff_ffff), "too large window update"),
        (&update(0, 0x7fff_ffff), "too large window update"),
        (
            &setting(frame::SETTINGS_INITIAL_WINDOW_SIZE, 1 << 31),
            "settings frame with too large initial window size",
        ),
    ];
    for (input, what) in cases {
        assert_eq!(reason(input), format!("upstream sent {what}"));
    }
}

#[test]
fn frames_after_the_head_keep_the_rules() {
    let first = head(0, 200, &[]);
    let last = head(frame::END_STREAM, 200, &[]);
    let cases: &[(&[u8], Vec<u8>, &str)] = &[
        (
            &first,
            head(0, 0, &[("a", "b")]),
            "trailer without end stream flag",
        ),
        (&first, head(1, 200, &[]), "invalid trailer"),
        (
            &last,
            frame(frame::DATA, 0, 1, b"x"),
            "frame for closed stream",
        ),
        (
            &first,
            frame(frame::DATA, 8, 1, b""),
            "too short http2 frame",
        ),
        (
            &first,
            frame(frame::DATA, 8, 1, &[9, 0]),
            "http2 frame with too long padding",
        ),
        (
            &first,
            frame(frame::HEADERS, 0, 1, b"").repeat(2),
            "unexpected http2 frame",
        ),
    ];
    for (before, after, what) in cases {
        let input = [before, &after[..]].concat();
        assert_eq!(reason(&input), format!("upstream sent {what}"));
    }
}

/// Feed the same frame until the client refuses, replies unread; the number of frames it took.
fn flood(client: &mut Client, one: &[u8]) -> (usize, ClientError) {
    for n in 0..200_000 {
        if let Err(e) = events(client, one) {
            assert!(
                client.out.len() <= MAX_OUTPUT + 64,
                "{} bytes",
                client.out.len()
            );
            return (n, e);
        }
    }
    panic!("200,000 frames were taken");
}

#[test]
fn floods_of_frames_end_the_connection() {
    let frames = [
        frame(frame::PING, 0, 0, &[0; 8]),
        frame(frame::SETTINGS, 0, 0, b""),
        setting(frame::SETTINGS_INITIAL_WINDOW_SIZE, 65_535),
        frame(frame::SETTINGS, frame::ACK, 0, b""),
        frame(frame::PRIORITY, 0, 1, &[0; 5]),
        frame(0xbe, 0, 0, b"unknown"),
        update(1, 1),
        update(0, 1),
        head(0, 103, &[]),
    ];
    for one in frames {
        let (taken, e) = flood(&mut asking(true), &one);
        assert!(taken <= 2100, "{taken} of {one:x?}");
        let expected = ClientError::Protocol("too many http2 frames without effect");
        assert_eq!(e, expected);
    }
    let mut client = asking(true);
    events(&mut client, &head(0, 200, &[])).unwrap();
    let (taken, _) = flood(&mut client, &frame(frame::DATA, 0, 1, b""));
    assert!(taken <= 2100, "{taken}");
}

#[test]
fn slow_pings_do_not_grow_the_output() {
    let mut client = asking(true);
    let ping = frame(frame::PING, 0, 0, &[0; 8]);
    let start = Instant::now();
    let refused = (0..100_000u64).find(|n| {
        let now = start + Duration::from_millis(n * 20);
        client.receive(&mut &ping[..], now).is_err()
    });
    assert!(refused.is_some());
    assert!(client.out.len() <= MAX_OUTPUT + 64);
}

#[test]
fn pings_during_an_upload_are_allowed() {
    let mut client = asking(false);
    let mut out = Vec::new();
    let ping = frame(frame::PING, 0, 0, &[0; 8]);
    for _ in 0..20_000 {
        assert_eq!(client.send_data(&[b'x'; 100], false, &mut out), 100);
        events(
            &mut client,
            &[ping.clone(), update(0, 100), update(1, 100)].concat(),
        )
        .unwrap();
        client.take_output(&mut out);
        out.clear();
    }
}

#[test]
fn tiny_windows_end_the_connection() {
    let mut client = asking(false);
    let mut out = Vec::new();
    client.send_data(&[b'x'; 65_535], false, &mut out);
    let one = [update(0, 1), update(1, 1)].concat();
    let refused = (0..10_000).find(|_| {
        let refused = events(&mut client, &one).is_err();
        client.send_data(&[b'x'; 1000], false, &mut out);
        refused
    });
    assert!(refused.is_some());
}

#[test]
fn sections_are_limited() {
    // An announced size above the limit is refused before it arrives.
    let announced = [0, 0x30, 0, 1, 4, 0, 0, 0, 1];
    assert_eq!(reason(&announced), "upstream sent too big header");
    // Continuations gather no more than the limit.
    let first = frame(frame::HEADERS, 0, 1, &[0; 100]);
    let more = frame(frame::CONTINUATION, 0, 1, &[0; 100]);
    let mut client = asking(true);
    events(&mut client, &first).unwrap();
    let (taken, e) = flood(&mut client, &more);
    assert!(taken <= 41, "{taken}");
    assert_eq!(e, ClientError::TooBig);
    // Empty ones end soon, too.
    let mut client = asking(true);
    events(&mut client, &first).unwrap();
    let (taken, _) = flood(&mut client, &frame(frame::CONTINUATION, 0, 1, b""));
    assert!(taken <= 210, "{taken}");
    // One byte that stands for a whole field.
    let bomb = [&[0x88][..], &[0xa5; 4000]].concat();
    let mut client = asking(true);
    let small = events(&mut client, &frame(frame::HEADERS, 4, 1, &bomb));
    assert_eq!(small, Err(ClientError::TooBig));
}

#[test]
fn dynamic_table_is_not_available_to_the_server() {
    // A literal that is to be remembered, and a reference to it.
    let block = [&[0x88, 0x40, 1, b'a', 1, b'b'][..], &[0xbe]].concat();
    assert_eq!(
        reason(&frame(frame::HEADERS, 4, 1, &block)),
        "upstream sent invalid encoded header"
    );
    assert_eq!(
        reason(&frame(frame::HEADERS, 4, 1, &[0x3f, 0xe1, 0x1f, 0x88])),
        "upstream sent invalid encoded header"
    );
}

#[test]
fn small_table_of_the_server_is_confirmed_in_the_next_head() {
    let mut client = asking(true);
    let small = setting(frame::SETTINGS_HEADER_TABLE_SIZE, 0);
    events(
        &mut client,
        &[small, head(frame::END_STREAM, 200, &[])].concat(),
    )
    .unwrap();
    let mut out = Vec::new();
    client.take_output(&mut out);
    out.clear();
    client.start(b"xy", true, 4096);
    client.take_output(&mut out);
    let block = [DYNAMIC_TABLE_OFF, b'x', b'y'];
    let flags = frame::END_HEADERS | frame::END_STREAM;
    assert_eq!(out, frame(frame::HEADERS, flags, 3, &block));
}

#[test]
fn windows_open_again_after_much_data() {
    let mut client = asking(true);
    events(&mut client, &head(0, 200, &[])).unwrap();
    let data = frame(frame::DATA, 0, 1, &[b'x'; 16_384]);
    let mut sent = 0u64;
    while !client.has_output() {
        events(&mut client, &data).unwrap();
        sent += 16_384;
        assert!(sent < 1 << 31, "no window was opened");
    }
    let mut out = Vec::new();
    client.take_output(&mut out);
    assert_eq!(out.len(), 2 * (frame::HEADER_LEN + 4));
    assert_eq!(client.receive_window, MAX_WINDOW);
}
