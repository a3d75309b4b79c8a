//! HTTP/2 against the real binary, frame by frame, in cleartext.

use crate::common::Server;
use crate::h2::{block, frame, get, Client, GOAWAY, HEADERS, PING, RST_STREAM, WINDOW_UPDATE};
use crate::ports::free_port;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// An error code.
const FLOW_CONTROL_ERROR: u32 = 3;

fn server(more: &str) -> (Server, u16) {
    let port = free_port();
    let http = format!("http2 on; log_format trailers \"$uri [$sent_trailer_x_name]\"; server {{ listen 127.0.0.1:{port}; root %%/html; {more} }}");
    let server = Server::start(&http, |folder| {
        std::fs::create_dir_all(folder.join("html")).unwrap();
        std::fs::write(folder.join("html/small.html"), "small").unwrap();
        std::fs::write(folder.join("html/large.bin"), pattern()).unwrap();
    });
    (server, port)
}

fn pattern() -> Vec<u8> {
    (0..1_000_000)
        .map(|n: usize| (n * 31 % 251) as u8)
        .collect()
}

#[test]
fn http2_serves_small_and_large_files() {
    let (_server, port) = server("");
    let mut client = Client::new(port);
    for stream in [1, 3, 5] {
        client.send(&get(stream, "/small.html"));
        assert_eq!(
            client.answer(stream),
            ("200".to_string(), b"small".to_vec())
        );
    }
    client.send(&get(7, "/large.bin"));
    assert!(client.answer(7) == ("200".to_string(), pattern()));
    client.send(&get(9, "/missing"));
    assert_eq!(client.answer(9).0, "404");
}

#[test]
fn http2_responses_reach_their_streams() {
    let (_server, port) = server("location /echo { return 200 $uri; }");
    let mut client = Client::new(port);
    let streams: Vec<u32> = (0..100).map(|n| n * 2 + 1).collect();
    let all: Vec<u8> = streams
        .iter()
        .flat_map(|s| get(*s, &format!("/echo/{s}")))
        .collect();
    client.send(&all);
    let mut seen = 0;
    while seen < streams.len() {
        let frame = client.next().unwrap();
        if frame.kind == 0 {
            assert_eq!(frame.payload, format!("/echo/{}", frame.stream).as_bytes());
            seen += 1;
        }
    }
}

/// The same port speaks HTTP/1.
#[test]
fn http1_and_http2_share_a_port() {
    let (_server, port) = server("");
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket
        .write_all(b"GET /small.html HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("small"),
        "{answer}"
    );
}

#[test]
fn malformed_http2_request_gets_400_and_reset() {
    let (_server, port) = server("");
    let mut client = Client::new(port);
    client.send(&frame(HEADERS, 5, 1, &block(&[(":method", "GET")])));
    assert_eq!(client.answer(1).0, "400");
    assert_eq!(client.reset(), (1, 1));
    client.send(&get(3, "/small.html"));
    assert_eq!(client.answer(3).0, "200");
}

/// What a client does wrong behind the head of a request that is answered before it is whole must
/// not depend on who was faster.
#[test]
fn unended_request_is_reset_after_response() {
    let (_server, port) = server("");
    let mut client = Client::new(port);
    let mut open = get(1, "/small.html");
    open[4] = 4;
    client.send(&open);
    assert_eq!(client.answer(1).0, "200");
    let most = frame(WINDOW_UPDATE, 0, 1, &0x7fff_ffff_u32.to_be_bytes());
    client.send(&[most.clone(), most].concat());
    assert_eq!(client.reset(), (1, FLOW_CONTROL_ERROR));
    let mut open = get(3, "/small.html");
    open[4] = 4;
    client.send(&open);
    assert_eq!(client.answer(3).0, "200");
    assert_eq!(client.reset(), (3, 0));
}

/// A flood ends its own connection with ENHANCE_YOUR_CALM; others are served.
#[test]
fn flood_ends_only_its_connection() {
    let (_server, port) = server("");
    let (mut attacker, mut other) = (Client::new(port), Client::new(port));
    let resets: Vec<u8> = (0..2000u32)
        .flat_map(|n| {
            let stream = n * 2 + 1;
            [
                get(stream, "/large.bin"),
                frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]),
            ]
            .concat()
        })
        .collect();
    // The server may close before it has taken everything.
    let _ = attacker.socket.write_all(&resets);
    let last = std::iter::from_fn(|| attacker.next())
        .last()
        .expect("a last frame");
    assert_eq!(
        (last.kind, &last.payload[4..8]),
        (GOAWAY, &[0, 0, 0, 11][..])
    );
    other.send(&get(1, "/small.html"));
    assert_eq!(other.answer(1).0, "200");
    let mut pinger = Client::new(port);
    let _ = pinger
        .socket
        .write_all(&frame(PING, 0, 0, &[0; 8]).repeat(10_000));
    let last = std::iter::from_fn(|| pinger.next())
        .last()
        .expect("a last frame");
    assert_eq!(
        (last.kind, &last.payload[4..8]),
        (GOAWAY, &[0, 0, 0, 11][..])
    );
}

#[test]
fn empty_file_has_trailers() {
    let (server, port) = server("add_trailer x-name $uri;");
    std::fs::write(server.folder.0.join("html/empty"), "").unwrap();
    let mut client = Client::new(port);
    client.send(&get(1, "/empty"));
    let (mut heads, mut ended) = (Vec::new(), false);
    while !ended {
        let frame = client.next().expect("the answer");
        if frame.stream == 1 {
            assert_eq!(frame.kind, HEADERS);
            ended = frame.flags & 1 != 0;
            heads.push(client.status(&frame));
        }
    }
    assert_eq!(heads, ["200", ""]);
}

#[test]
fn http2_trailers_are_logged() {
    let (server, port) = server(
        "access_log %%/seen.log trailers; location /t { add_trailer x-name $uri; return 200 body; }
         location /none { return 204; }",
    );
    let mut client = Client::new(port);
    for (stream, path) in [(1, "/t"), (3, "/none")] {
        client.send(&get(stream, path));
        client.answer(stream);
    }
    let log = || std::fs::read_to_string(server.folder.0.join("seen.log")).unwrap_or_default();
    let deadline = Instant::now() + crate::PATIENCE;
    while log().lines().count() < 2 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(log(), "/t [/t]\n/none [-]\n");
}

/// A reload says GOAWAY, finishes what is under way, and leaves new connections to the new configuration.
#[test]
fn reload_finishes_open_streams() {
    let (server, port) = server("location /which { return 200 old; }");
    let mut client = Client::new(port);
    client.send(&get(1, "/large.bin"));
    let first = loop {
        let frame = client.next().expect("the answer");
        if frame.kind == 0 {
            break frame.payload;
        }
        if frame.kind == HEADERS {
            assert_eq!(client.status(&frame), "200");
        }
    };
    let conf = server.folder.0.join("gallop.conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, text.replace("return 200 old", "return 200 new")).unwrap();
    server.signal("HUP");
    let deadline = Instant::now() + crate::PATIENCE;
    loop {
        let mut other = Client::new(port);
        other.send(&get(1, "/which"));
        if other.answer(1) == ("200".to_string(), b"new".to_vec()) {
            break;
        }
        assert!(Instant::now() < deadline, "{}", server.errors());
    }
    // The rest, for which the windows were not open before.
    let (mut body, mut told) = (first, false);
    client.open_windows(1, pattern().len(), false);
    let mut ended = false;
    while !ended {
        let frame = client.next().expect("the rest");
        told |= frame.kind == GOAWAY;
        if frame.kind == 0 {
            ended = frame.flags & 1 != 0;
            body.extend_from_slice(&frame.payload);
        }
    }
    assert!(body == pattern(), "{} bytes", body.len());
    while let Some(frame) = client.next() {
        told |= frame.kind == GOAWAY;
    }
    assert!(told, "no GOAWAY");
}
