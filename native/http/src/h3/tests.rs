use super::reader::{FrameReader, Piece};
use super::*;
use crate::qpack;
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// An event without borrowed data.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Request(u64, String, bool),
    Malformed(u64),
    Data(u64, Vec<u8>, bool),
    BadBody(u64),
    StreamError(u64, ErrorCode),
    Blocked(u64),
    Unwanted(u64),
    GoAway,
}

struct Client {
    server: Connection,
    shared: Shared,
    now: Instant,
    /// The bytes after a section that waits.
    held: Vec<u8>,
}

impl Client {
    fn new(config: Config) -> Self {
        let (server, shared) = (Connection::new(config), Shared::default());
        Self {
            server,
            shared,
            now: Instant::now(),
            held: Vec::new(),
        }
    }

    fn send(&mut self, stream: u64, bytes: &[u8], fin: bool) -> Result<Vec<Seen>, Error> {
        let mut input = bytes;
        let mut seen = Vec::new();
        while let Some(event) =
            self.server
                .receive(&mut self.shared, stream, &mut input, fin, self.now)?
        {
            let (event, over) = match event {
                Event::Request {
                    stream,
                    head,
                    end_stream,
                } => {
                    let path = String::from_utf8(head.path().to_vec()).unwrap();
                    (Seen::Request(stream, path, end_stream), end_stream)
                }
                Event::Malformed {
                    stream, end_stream, ..
                } => (Seen::Malformed(stream), end_stream),
                Event::BadBody { stream, end_stream } => (Seen::BadBody(stream), end_stream),
                Event::Data {
                    stream,
                    data,
                    end_stream,
                } => (Seen::Data(stream, data.to_vec(), end_stream), end_stream),
                Event::StreamError { stream, code } => (Seen::StreamError(stream, code), true),
                Event::Unwanted { stream } => (Seen::Unwanted(stream), false),
                Event::GoAway => (Seen::GoAway, false),
                Event::Blocked { stream } => {
                    self.held = input.to_vec();
                    input = &[];
                    (Seen::Blocked(stream), true)
                }
            };
            seen.push(event);
            if over {
                break;
            }
        }
        assert!(input.is_empty());
        Ok(seen)
    }

    fn dies_of(mut self, stream: u64, bytes: &[u8], fin: bool) -> ErrorCode {
        self.send(stream, bytes, fin)
            .expect_err("the connection should end")
            .code
    }
}

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::encode(&mut out, kind);
    varint::encode(&mut out, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    qpack::encode_prefix(&mut section);
    for (name, value) in fields {
        qpack::encode_field(&mut section, name.as_bytes(), value.as_bytes());
    }
    frame(kind::HEADERS, &section)
}

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/"),
    (":authority", "x"),
];

fn get() -> Vec<u8> {
    headers(&GET)
}

fn post(length: &str) -> Vec<u8> {
    headers(&[
        (":method", "POST"),
        GET[1],
        GET[2],
        GET[3],
        ("content-length", length),
    ])
}

fn settings(pairs: &[(u64, u64)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (id, value) in pairs {
        varint::encode(&mut payload, *id);
        varint::encode(&mut payload, *value);
    }
    frame(kind::SETTINGS, &payload)
}

fn control(frames: &[Vec<u8>]) -> Vec<u8> {
    [vec![0], frames.concat()].concat()
}

#[test]
fn integers_of_rfc_9000_appendix_a1() {
    let cases: [(&[u8], u64); 4] = [
        (
            &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
            151_288_809_941_952_652,
        ),
        (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
        (&[0x7b, 0xbd], 15_293),
        (&[0x25], 37),
    ];
    for (bytes, value) in cases {
        assert_eq!(varint::decode(&mut &bytes[..]), Some(value));
        let mut out = Vec::new();
        varint::encode(&mut out, value);
        assert_eq!(out, bytes);
        assert_eq!(varint::decode(&mut &bytes[..bytes.len() - 1]), None);
    }
    assert_eq!(varint::decode(&mut &[0x40, 0x25][..]), Some(37));
}

#[test]
fn a_request_without_body_is_one_event() {
    let mut client = Client::new(Config::default());
    assert_eq!(
        client.send(0, &get(), true),
        Ok(vec![Seen::Request(0, "/".into(), true)])
    );
    assert_eq!(client.server.open_requests(), 0);
}

#[test]
fn the_end_may_come_late() {
    let mut client = Client::new(Config::default());
    assert_eq!(
        client.send(0, &get(), false),
        Ok(vec![Seen::Request(0, "/".into(), false)])
    );
    assert_eq!(
        client.send(0, &[], true),
        Ok(vec![Seen::Data(0, vec![], true)])
    );
    assert_eq!(client.server.open_requests(), 0);
}

#[test]
fn equal_requests_share_a_head_across_connections() {
    let mut shared = Shared::default();
    let mut notes = Vec::new();
    for _ in 0..2 {
        let mut server = Connection::new(Config::default());
        let bytes = get();
        let event = server.receive(&mut shared, 0, &mut &bytes[..], true, Instant::now());
        let Ok(Some(Event::Request { head, .. })) = event else {
            panic!("no request: {event:?}");
        };
        notes.push(head.note());
        head.set_note(5);
    }
    assert_eq!(notes, [0, 5]);
}

#[test]
fn a_body_and_trailers() {
    let bytes = [
        post("5"),
        frame(0x21, b"grease"),
        frame(kind::DATA, b"he"),
        frame(kind::DATA, b"llo"),
        headers(&[("x-sum", "1")]),
        frame(0x21, b""),
    ]
    .concat();
    let mut client = Client::new(Config::default());
    let seen = client.send(0, &bytes, true).unwrap();
    let want = [
        Seen::Request(0, "/".into(), false),
        Seen::Data(0, b"he".to_vec(), false),
        Seen::Data(0, b"llo".to_vec(), false),
    ];
    assert_eq!(seen[..3], want);
    assert_eq!(seen[3..], [Seen::Data(0, vec![], true)]);
}

#[test]
fn request_streams_that_end_the_connection() {
    let cases: Vec<(&str, Vec<u8>, bool, ErrorCode)> = vec![
        (
            "DATA first",
            frame(kind::DATA, b"x"),
            true,
            ErrorCode::FRAME_UNEXPECTED,
        ),
        ("SETTINGS", settings(&[]), true, ErrorCode::FRAME_UNEXPECTED),
        (
            "GOAWAY",
            frame(kind::GOAWAY, &[0]),
            true,
            ErrorCode::FRAME_UNEXPECTED,
        ),
        (
            "PUSH_PROMISE",
            frame(kind::PUSH_PROMISE, &[0]),
            true,
            ErrorCode::FRAME_UNEXPECTED,
        ),
        (
            "a frame of HTTP/2",
            frame(0x8, &[0; 4]),
            true,
            ErrorCode::FRAME_UNEXPECTED,
        ),
        ("half a frame header", vec![1], true, ErrorCode::FRAME_ERROR),
        (
            "half a frame",
            get()[..4].to_vec(),
            true,
            ErrorCode::FRAME_ERROR,
        ),
        (
            "half a DATA frame",
            [get(), vec![0, 4, b'x']].concat(),
            true,
            ErrorCode::FRAME_ERROR,
        ),
        (
            "a wrong section",
            frame(kind::HEADERS, &[0, 0, 0x80]),
            true,
            ErrorCode::QPACK_DECOMPRESSION_FAILED,
        ),
        (
            "DATA after trailers",
            [get(), headers(&[]), frame(kind::DATA, b"x")].concat(),
            true,
            ErrorCode::FRAME_UNEXPECTED,
        ),
        (
            "HEADERS thrice",
            [get(), headers(&[]), headers(&[])].concat(),
            true,
            ErrorCode::FRAME_UNEXPECTED,
        ),
    ];
    for (name, bytes, fin, code) in cases {
        let mut client = Client::new(Config::default());
        let mut result = Ok(vec![]);
        for piece in bytes.chunks(1) {
            result = client.send(0, piece, false);
            if result.is_err() {
                break;
            }
        }
        if result.is_ok() && fin {
            result = client.send(0, &[], true);
        }
        assert_eq!(result.unwrap_err().code, code, "{name}");
    }
}

#[test]
fn malformed_requests() {
    let message = |code| move |stream| Seen::StreamError(stream, code);
    let error = message(ErrorCode::MESSAGE_ERROR);
    let incomplete = message(ErrorCode::REQUEST_INCOMPLETE);
    let cases: Vec<(&str, Vec<u8>, Seen)> = vec![
        ("nothing at all", vec![], incomplete(0)),
        ("only grease", frame(0x21, b"x"), incomplete(0)),
        ("no path", headers(&GET[..2]), Seen::Malformed(0)),
        ("body missing", post("5"), Seen::Malformed(0)),
        (
            "too long a body",
            [post("2"), frame(0, b"abc")].concat(),
            Seen::BadBody(0),
        ),
        (
            "too short a body",
            [post("5"), frame(0, b"abc")].concat(),
            Seen::BadBody(0),
        ),
        (
            "too short, with trailers",
            [post("5"), headers(&[("a", "b")])].concat(),
            error(0),
        ),
        (
            "pseudo-header in trailers",
            [get(), get()].concat(),
            error(0),
        ),
    ];
    for (name, bytes, want) in cases {
        let mut client = Client::new(Config::default());
        let mut seen = client.send(0, &bytes, true).unwrap();
        assert_eq!(seen.pop(), Some(want), "{name}");
        assert_eq!(client.server.open_requests(), 0, "{name}");
    }
}

#[test]
fn the_rest_of_a_malformed_request_is_thrown_away() {
    let mut client = Client::new(Config::default());
    let bytes = [headers(&GET[..2]), frame(0, b"body")].concat();
    assert_eq!(client.send(0, &bytes, false), Ok(vec![Seen::Malformed(0)]));
    assert_eq!(client.send(0, &frame(0, b"more"), true), Ok(vec![]));
    assert_eq!(client.server.open_requests(), 0);
}

#[test]
fn control_streams() {
    let all = control(&[
        settings(&[(1, 0), (6, 100), (0x21, 5)]),
        frame(0x21, b"x"),
        frame(kind::MAX_PUSH_ID, &[9]),
    ]);
    for cut in 1..all.len() {
        let mut client = Client::new(Config::default());
        for piece in all.chunks(cut) {
            assert_eq!(client.send(2, piece, false), Ok(vec![]));
        }
        assert_eq!(client.send(6, &[2, 0x20], false), Ok(vec![]));
        assert_eq!(client.send(10, &[3], false), Ok(vec![]));
        assert_eq!(
            client.send(14, &[0x40, 0x21, 1, 2, 3], false),
            Ok(vec![Seen::Unwanted(14)])
        );
        assert_eq!(
            client.send(2, &frame(kind::GOAWAY, &[0]), false),
            Ok(vec![Seen::GoAway])
        );
    }
}

#[test]
fn control_streams_that_end_the_connection() {
    use ErrorCode as E;
    let start = || settings(&[]);
    let cases: Vec<(&str, Vec<u8>, E)> = vec![
        (
            "no SETTINGS",
            control(&[frame(kind::GOAWAY, &[0])]),
            E::MISSING_SETTINGS,
        ),
        (
            "two SETTINGS",
            control(&[start(), start()]),
            E::FRAME_UNEXPECTED,
        ),
        (
            "DATA",
            control(&[start(), frame(kind::DATA, b"")]),
            E::FRAME_UNEXPECTED,
        ),
        (
            "HEADERS",
            control(&[start(), frame(kind::HEADERS, b"")]),
            E::FRAME_UNEXPECTED,
        ),
        (
            "PING of HTTP/2",
            control(&[start(), frame(0x6, &[0; 8])]),
            E::FRAME_UNEXPECTED,
        ),
        (
            "a setting of HTTP/2",
            control(&[settings(&[(4, 1)])]),
            E::SETTINGS_ERROR,
        ),
        (
            "a setting twice",
            control(&[settings(&[(6, 1), (6, 1)])]),
            E::SETTINGS_ERROR,
        ),
        (
            "half a setting",
            control(&[frame(kind::SETTINGS, &[6])]),
            E::FRAME_ERROR,
        ),
        ("huge SETTINGS", vec![0, 4, 0x7f, 0xff], E::EXCESSIVE_LOAD),
        (
            "CANCEL_PUSH",
            control(&[start(), frame(kind::CANCEL_PUSH, &[0])]),
            E::ID_ERROR,
        ),
        (
            "GOAWAY with two numbers",
            control(&[start(), frame(kind::GOAWAY, &[0, 0])]),
            E::FRAME_ERROR,
        ),
        (
            "GOAWAY raised",
            control(&[
                start(),
                frame(kind::GOAWAY, &[4]),
                frame(kind::GOAWAY, &[5]),
            ]),
            E::ID_ERROR,
        ),
        (
            "MAX_PUSH_ID lowered",
            control(&[
                start(),
                frame(kind::MAX_PUSH_ID, &[4]),
                frame(kind::MAX_PUSH_ID, &[3]),
            ]),
            E::ID_ERROR,
        ),
        ("a push stream", vec![1], E::STREAM_CREATION_ERROR),
        (
            "a table above the announced capacity",
            vec![2, 0x3f, 0xe2, 0x1f],
            E::QPACK_ENCODER_STREAM_ERROR,
        ),
        (
            "an acknowledgement",
            vec![3, 0x84],
            E::QPACK_DECODER_STREAM_ERROR,
        ),
    ];
    for (name, bytes, code) in cases {
        assert_eq!(
            Client::new(Config::default()).dies_of(2, &bytes, false),
            code,
            "{name}"
        );
    }
}

#[test]
fn critical_streams_exist_once_and_stay_open() {
    let open = control(&[settings(&[])]);
    assert_eq!(
        Client::new(Config::default()).dies_of(2, &open, true),
        ErrorCode::CLOSED_CRITICAL_STREAM
    );
    let mut client = Client::new(Config::default());
    client.send(2, &open, false).unwrap();
    let now = client.now;
    assert_eq!(
        client.server.peer_reset(2, now).unwrap_err().code,
        ErrorCode::CLOSED_CRITICAL_STREAM
    );
    let mut client = Client::new(Config::default());
    client.send(2, &open, false).unwrap();
    assert_eq!(
        client.dies_of(6, &open, false),
        ErrorCode::STREAM_CREATION_ERROR
    );
}

#[test]
fn shutdown_rejects_what_is_new() {
    let mut client = Client::new(Config::default());
    client.send(4, &get(), true).unwrap();
    assert_eq!(client.server.shutdown(), 8);
    assert_eq!(
        client.send(0, &get(), true),
        Ok(vec![Seen::Request(0, "/".into(), true)])
    );
    let rejected = Seen::StreamError(8, ErrorCode::REQUEST_REJECTED);
    assert_eq!(client.send(8, &get(), true), Ok(vec![rejected]));
}

#[test]
fn a_section_too_large_is_refused_without_being_kept() {
    let mut client = Client::new(Config {
        max_section: 100,
        ..Config::default()
    });
    let mut bytes = vec![1, 0x80, 0xff, 0xff, 0xff];
    bytes.extend_from_slice(&[0; 1000]);
    assert_eq!(client.send(0, &bytes, false), Ok(vec![Seen::Malformed(0)]));
    assert_eq!(client.send(0, &[0; 60_000], false), Ok(vec![]));
    client.server.forget(0);
    assert_eq!(client.server.open_requests(), 0);
}

/// Send on one stream after another until the connection ends. Returns the number of streams.
fn until_death(
    client: &mut Client,
    mut round: impl FnMut(&mut Client, u64) -> Result<(), Error>,
) -> u32 {
    for n in 0..100_000 {
        if let Err(error) = round(client, u64::from(n) * 4) {
            assert_eq!(error.code, ErrorCode::EXCESSIVE_LOAD);
            return n;
        }
    }
    panic!("100,000 rounds and the connection still stands");
}

#[test]
fn rapid_reset() {
    let mut client = Client::new(Config {
        max_requests: u64::MAX,
        ..Config::default()
    });
    let n = until_death(&mut client, |client, id| {
        client.send(id, &get(), true)?;
        let now = client.now;
        client.server.peer_reset(id, now).map(drop)
    });
    assert!(n <= 401, "{n}");
}

#[test]
fn floods_of_frames_and_streams() {
    let mut client = Client::new(Config::default());
    client.send(2, &control(&[settings(&[])]), false).unwrap();
    let on_control = until_death(&mut client, |client, _| {
        client.send(2, &frame(0x21, b""), false).map(drop)
    });
    let mut client = Client::new(Config::default());
    client.send(0, &get(), false).unwrap();
    let on_request = until_death(&mut client, |client, _| {
        client.send(0, &frame(0x21, b""), false).map(drop)
    });
    let mut client = Client::new(Config::default());
    client.send(0, &get(), false).unwrap();
    let empty_data = until_death(&mut client, |client, _| {
        client.send(0, &frame(0, b""), false).map(drop)
    });
    let mut client = Client::new(Config::default());
    let streams = until_death(&mut client, |client, id| {
        client.send(id + 2, &[0x40, 0x21], true).map(drop)
    });
    for n in [on_control, on_request, empty_data, streams] {
        assert!(n <= 2001, "{n}");
    }
    let mut client = Client::new(Config::default());
    for _ in 0..3000 {
        client.send(0, &frame(0x21, b""), false).unwrap();
        client.now += Duration::from_millis(10);
    }
}

#[test]
fn huge_stream_ids_take_no_room() {
    let mut client = Client::new(Config::default());
    for n in 0..100u64 {
        let id = (varint::MAX & !3) - n * (1 << 40);
        client.send(id, &get(), false).unwrap();
    }
    assert_eq!(client.server.open_requests(), 100);
}

#[test]
fn a_qpack_bomb_is_cut_short() {
    let mut section = vec![0, 0];
    for (name, value) in GET {
        qpack::encode_field(&mut section, name.as_bytes(), value.as_bytes());
    }
    section.extend_from_slice(&[0xff, 22].repeat(8000));
    let mut client = Client::new(Config::default());
    assert_eq!(
        client.send(0, &frame(kind::HEADERS, &section), true),
        Ok(vec![Seen::Malformed(0)])
    );
}

#[test]
fn a_bomb_of_the_dynamic_table_is_cut_short() {
    let mut instructions = vec![2, 0x3f, 0xe1, 0x1f, 0x41, b'a'];
    crate::hpack::integer::encode(&mut instructions, 0, 7, 3000);
    instructions.extend([b'x'; 3000]);
    let mut client = Client::new(Config::default());
    client.send(2, &instructions, false).unwrap();
    let section = [&[2, 0][..], &[0x80; 10_000]].concat();
    let seen = client.send(0, &frame(kind::HEADERS, &section), true);
    assert_eq!(seen, Ok(vec![Seen::Malformed(0)]));
    assert_eq!(client.server.take_instructions(), Some(vec![0x80]));
}

#[test]
fn what_the_server_sends_can_be_read() {
    let mut out = send::control_stream(&Config::default());
    assert_eq!(out.remove(0), 0);
    send::push_goaway(&mut out, 400);
    send::push_head(&mut out, b"section");
    send::push_data_header(&mut out, 70_000);
    let mut reader = FrameReader::default();
    let mut input = &out[..];
    let mut starts = Vec::new();
    while let Some(piece) = reader.next(&mut input) {
        if let Piece::Start { kind, len } = piece {
            starts.push((kind, len));
        }
    }
    assert_eq!(starts, [(4, 11), (7, 2), (1, 7), (0, 70_000)]);
}

proptest! {
    /// The events do not depend on how the input is split, except for the pieces of the body.
    #[test]
    fn pieces_do_not_matter(cut in 1usize..40) {
        let bytes = [post("8"), frame(0x21, b"zz"), frame(0, b"abcd"), frame(0, b"efgh")].concat();
        let mut client = Client::new(Config::default());
        let mut body = Vec::new();
        let mut ended = 0;
        for (n, piece) in bytes.chunks(cut).enumerate() {
            let fin = (n + 1) * cut >= bytes.len();
            for seen in client.send(0, piece, fin).unwrap() {
                match seen {
                    Seen::Data(_, data, end) => { body.extend(data); ended += u32::from(end); }
                    Seen::Request(..) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        prop_assert_eq!(body, b"abcdefgh");
        prop_assert_eq!(ended, 1);
    }

    #[test]
    fn garbage_is_read_or_refused(
        pieces in prop::collection::vec((0u64..4, prop::collection::vec(any::<u8>(), 0..60), any::<bool>()), 0..30)) {
        let mut client = Client::new(Config { max_streams: 4, ..Config::default() });
        let ids = [0, 4, 2, 6];
        for (stream, bytes, headers) in pieces {
            let bytes = if headers { [get(), bytes].concat() } else { bytes };
            if client.send(ids[stream as usize], &bytes, false).is_err() {
                break;
            }
        }
        prop_assert!(client.server.open_requests() <= 4);
    }
}

/// Inserts `:path: /dynamic` as entry 0, after the stream's type.
const ENCODER: &[u8] = b"\x02\x3f\xe1\x1f\xc1\x08/dynamic";

/// A request whose path is entry 0.
fn get_dynamic() -> Vec<u8> {
    frame(kind::HEADERS, b"\x02\x00\xd1\xd7\x80\x50\x01x")
}

#[test]
fn a_section_may_refer_to_the_dynamic_table() {
    let mut client = Client::new(Config::default());
    client.send(2, ENCODER, false).unwrap();
    for stream in [0, 4] {
        let seen = client.send(stream, &get_dynamic(), true).unwrap();
        assert_eq!(seen, [Seen::Request(stream, "/dynamic".into(), true)]);
    }
    // The acknowledgments of both sections also acknowledge the entry.
    assert_eq!(client.server.take_instructions(), Some(vec![0x80, 0x84]));
    assert_eq!(client.server.take_instructions(), None);
}

#[test]
fn a_section_waits_for_its_entries() {
    let mut client = Client::new(Config::default());
    let request = [get_dynamic(), frame(kind::DATA, b"body")].concat();
    assert!(client.server.would_wait(&request));
    assert!(!client.server.would_wait(&request[..1]));
    assert!(!client.server.would_wait(&frame(kind::DATA, b"\x02\x00")));
    let seen = client.send(0, &request, true).unwrap();
    assert_eq!(seen, [Seen::Blocked(0)]);
    assert!(client.server.awaits_head(0));
    assert_eq!(client.server.unblocked(), None);
    client.send(2, ENCODER, false).unwrap();
    assert_eq!(client.server.unblocked(), Some(0));
    assert!(!client.server.would_wait(&request));
    let rest = std::mem::take(&mut client.held);
    let seen = client.send(0, &rest, true).unwrap();
    let body = Seen::Data(0, b"body".to_vec(), true);
    assert_eq!(seen, [Seen::Request(0, "/dynamic".into(), false), body]);
    assert_eq!(client.server.take_instructions(), Some(vec![0x80]));
}

#[test]
fn a_stream_given_up_while_it_waits_is_cancelled() {
    let mut client = Client::new(Config::default());
    client.send(0, &get_dynamic(), true).unwrap();
    let now = client.now;
    assert_eq!(client.server.peer_reset(0, now), Ok(true));
    assert_eq!(client.server.take_instructions(), Some(vec![0x40]));
    client.send(2, ENCODER, false).unwrap();
    assert_eq!(client.server.unblocked(), None);
    assert_eq!(client.server.take_instructions(), Some(vec![0x01]));
}

#[test]
fn a_reference_to_nothing_ends_the_connection() {
    let mut client = Client::new(Config::default());
    client.send(2, ENCODER, false).unwrap();
    let missing = frame(kind::HEADERS, b"\x02\x00\xd1\xd7\x81\x50\x01x");
    let error = client.send(0, &missing, true).unwrap_err();
    assert_eq!(error.code, ErrorCode::QPACK_DECOMPRESSION_FAILED);
    let said = client.server.take_instructions();
    assert_eq!(said, Some(vec![0x40, 0x01]), "the stream is cancelled");
}
