//! grpc_pass: calls to servers that speak HTTP/2, and to servers that break its rules.

use crate::common;
use crate::h2::{self, block, frame, Client};
use crate::h2_server::{Listener, Peer, CONTINUATION, DATA, END_HEADERS, END_STREAM};
use crate::nginx::Nginx;
use crate::ports::free_port;
use crate::site::{self, Folder, Server};
use rcgen::{CertificateParams, KeyPair};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

/// A server with one location for each text; `UP` stands for the upstream.
fn server(upstream: u16, locations: &str) -> Server {
    let locations = locations.replace("UP", &format!("127.0.0.1:{upstream}"));
    Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; http2 on; {locations} }}"
    ))
}

/// The head of a call whose body follows.
fn call(stream: u32, path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "site.example"),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("x-client", "yes"),
    ];
    frame(h2::HEADERS, END_HEADERS, stream, &block(&fields))
}

fn data(flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    frame(DATA, flags, stream, body)
}

/// The next frame of a stream that carries a part of its response.
fn next(client: &mut Client, stream: u32) -> h2::Frame {
    loop {
        let frame = client.next().expect("a frame");
        let is_part = matches!(frame.kind, DATA | h2::HEADERS | h2::RST_STREAM);
        if frame.stream == stream && is_part {
            return frame;
        }
    }
}

fn value<'a>(fields: &'a [(String, String)], name: &str) -> &'a str {
    let named = fields.iter().find(|(n, _)| n == name);
    named.map_or("", |(_, value)| value)
}

#[test]
fn unary_call_passes_fields_body_and_trailers() {
    let listener = Listener::new();
    let server = server(
        listener.port,
        "location / { grpc_pass grpc://UP; grpc_set_header X-Set $remote_addr; grpc_set_header X-Client \"\";
             grpc_hide_header x-hidden; grpc_hide_header x-late; }
         location /named { grpc_pass UP; grpc_set_header Host named.example; }",
    );
    let upstream = thread::spawn(move || {
        let mut peer = listener.accept();
        let request = peer.request().expect("a request");
        let body = peer.body();
        let head = [
            (":status", "200"),
            ("content-type", "application/grpc"),
            ("x-hidden", "1"),
            ("server", "upstream"),
        ];
        peer.fields(0, 1, &head);
        peer.send(DATA, 0, 1, b"reply");
        let trailers = [("grpc-status", "0"), ("grpc-message", ""), ("x-late", "1")];
        peer.fields(END_STREAM, 1, &trailers);
        let named = listener.accept().request().expect("another request");
        (
            request,
            body,
            named.field(":authority").to_owned(),
            listener.port,
        )
    });
    let mut client = Client::new(server.port);
    client.send(
        &[
            call(1, "/Greeter/Hello?a=%20"),
            data(END_STREAM, 1, b"message"),
        ]
        .concat(),
    );
    let head = next(&mut client, 1);
    let fields = client.fields(&head);
    assert_eq!(head.flags, END_HEADERS);
    assert_eq!(value(&fields, ":status"), "200");
    assert_eq!(value(&fields, "content-type"), "application/grpc");
    assert_eq!(value(&fields, "x-hidden"), "");
    assert!(value(&fields, "server").starts_with("gallop"), "{fields:?}");
    let body = next(&mut client, 1);
    assert_eq!((&body.payload[..], body.flags), (&b"reply"[..], 0));
    let trailers = next(&mut client, 1);
    assert_eq!(trailers.flags, END_HEADERS | END_STREAM);
    let trailers = client.fields(&trailers);
    assert_eq!(value(&trailers, "grpc-status"), "0");
    assert_eq!(value(&trailers, "x-late"), "");
    client.send(&[call(3, "/named"), data(END_STREAM, 3, b"")].concat());
    let (request, body, authority, port) = upstream.join().expect("the upstream");
    assert_eq!(body, b"message");
    assert!(!request.ends);
    let expected = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/Greeter/Hello?a=%20"),
        (":authority", &format!("127.0.0.1:{port}")),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("x-set", "127.0.0.1"),
        ("x-client", ""),
        ("host", ""),
    ];
    for (name, wanted) in expected {
        assert_eq!(request.field(name), wanted, "{name}");
    }
    assert_eq!(authority, "named.example");
}

#[test]
fn messages_flow_in_both_directions_after_the_head() {
    let listener = Listener::new();
    let server = Server::start(&format!(
        "log_format length \"$uri $request_length\"; access_log length.log length;
         server {{ listen 127.0.0.1:{{port}}; http2 on; location / {{ grpc_pass 127.0.0.1:{}; }} }}",
        listener.port
    ));
    let upstream = thread::spawn(move || {
        let mut peer = listener.accept();
        peer.request().expect("a request");
        peer.fields(0, 1, &[(":status", "200")]);
        // The reply to a ping waits for no part of the request or of the response.
        peer.send(h2::PING, 0, 0, b"measured");
        assert_eq!(peer.wait_for(h2::PING).payload, b"measured");
        peer.send(DATA, 0, 1, b"ready");
        for n in 0.. {
            let message = peer.wait_for(DATA);
            if message.flags & END_STREAM != 0 {
                peer.fields(END_STREAM, 1, &[("grpc-status", "0")]);
                return (n, peer);
            }
            peer.send(DATA, 0, 1, &[b"re: ", &message.payload[..]].concat());
        }
        unreachable!()
    });
    let mut client = Client::new(server.port);
    client.send(&call(1, "/chat"));
    let head = next(&mut client, 1);
    assert_eq!(client.status(&head), "200");
    assert_eq!(next(&mut client, 1).payload, b"ready");
    for n in 0..20 {
        let message = format!("message {n:100}");
        client.send(&data(0, 1, message.as_bytes()));
        let reply = next(&mut client, 1);
        assert_eq!(reply.payload, format!("re: {message}").as_bytes());
    }
    client.send(&data(END_STREAM, 1, b""));
    let trailers = next(&mut client, 1);
    assert_eq!(value(&client.fields(&trailers), "grpc-status"), "0");
    assert_eq!(upstream.join().expect("the upstream").0, 20);
    server.wait_for("the log", |s| s.log("length.log").contains("/chat"));
    let log = server.log("length.log");
    let length = log.trim().strip_prefix("/chat ").expect("a line");
    assert!(length.parse::<u32>().expect("a number") > 20 * 100, "{log}");
}

#[test]
fn clients_of_http1_get_trailers_and_may_send_chunks() {
    let listener = Listener::new();
    let server = server(listener.port, "location / { grpc_pass UP; }");
    let upstream = thread::spawn(move || {
        let mut peer = listener.accept();
        let request = peer.request().expect("a request");
        let body = peer.body();
        peer.answer(1, b"reply");
        (request.field("te").to_owned(), body, peer)
    });
    let response = server.raw(
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    );
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let body = response.split_once("\r\n\r\n").expect("a head").1;
    assert_eq!(body, "5\r\nreply\r\n0\r\ngrpc-status: 0\r\n\r\n");
    let (te, body, _peer) = upstream.join().expect("the upstream");
    assert_eq!((te.as_str(), &body[..]), ("trailers", &b"abcde"[..]));
}

#[test]
fn connections_carry_further_calls_until_goaway() {
    let listener = Listener::new();
    let server = Server::start(&format!(
        "upstream calls {{ server 127.0.0.1:{}; keepalive 4; }}
         server {{ listen 127.0.0.1:{{port}}; http2 on; location / {{ grpc_pass grpc://calls; }} }}",
        listener.port
    ));
    let upstream = thread::spawn(move || {
        let (mut streams, mut peers) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let mut peer = listener.accept();
            for n in 0..3 {
                let Some(request) = peer.request() else { break };
                peer.body();
                streams.push((request.stream, request.field(":authority").to_owned()));
                if n == 2 {
                    let last = request.stream.to_be_bytes();
                    peer.send(h2::GOAWAY, 0, 0, &[&last[..], &[0; 4]].concat());
                }
                peer.answer(request.stream, b"x");
            }
            peers.push(peer);
        }
        (streams, peers)
    });
    let mut client = Client::new(server.port);
    for n in 0..6 {
        let stream = 1 + 2 * n;
        client.send(&[call(stream, "/"), data(END_STREAM, stream, b"y")].concat());
        assert_eq!(client.answer(stream), ("".into(), b"x".to_vec()));
    }
    let (streams, _peers) = upstream.join().expect("the upstream");
    let expected = [1, 3, 5, 1, 3, 5].map(|id| (id, "calls".to_owned()));
    assert_eq!(streams, expected);
}

#[test]
fn upload_keeps_to_the_windows_of_the_server() {
    let listener = Listener::new();
    let server = server(
        listener.port,
        "http2_body_preread_size 1m; location / { grpc_pass UP; client_max_body_size 0; }",
    );
    let upstream = thread::spawn(move || {
        let mut peer = listener.accept();
        // An initial window of 1000 bytes.
        peer.send(h2::SETTINGS, 0, 0, &[0, 4, 0, 0, 3, 0xe8]);
        peer.request().expect("a request");
        peer.fields(0, 1, &[(":status", "200")]);
        let (mut body, mut allowed) = (Vec::new(), 65_535);
        loop {
            let frame = peer.wait_for(DATA);
            body.extend_from_slice(&frame.payload);
            assert!(body.len() <= allowed, "{} of {allowed}", body.len());
            if frame.flags & END_STREAM != 0 {
                break;
            }
            let more = 20_000u32.to_be_bytes();
            allowed += 20_000;
            peer.send(h2::WINDOW_UPDATE, 0, 0, &more);
            peer.send(h2::WINDOW_UPDATE, 0, 1, &more);
            peer.send(h2::PING, 0, 0, b"measured");
        }
        peer.fields(END_STREAM, 1, &[("grpc-status", "0")]);
        // A connection that is closed while gallop's replies are unread may lose the trailers.
        (body, peer)
    });
    let mut client = Client::new(server.port);
    client.send(&call(1, "/"));
    let sent: Vec<u8> = (0..400_000u32).map(|n| n as u8).collect();
    for piece in sent.chunks(10_000) {
        client.send(&data(0, 1, piece));
    }
    client.send(&data(END_STREAM, 1, b""));
    assert_eq!(client.answer(1).1, b"");
    assert_eq!(upstream.join().expect("the upstream").0, sent);
}

/// nginx with a large file.
fn nginx(locations: &str) -> Nginx {
    let folder = Folder::new();
    folder.write("html/large.txt", &"0123456789abcdef".repeat(200_000));
    let server = format!("server {{ listen 127.0.0.1:{{port}} http2; {locations} }}");
    Nginx::start(folder, &server)
}

#[test]
fn nginx_as_upstream_gets_the_same_requests_and_gives_the_same_files() {
    let nginx = nginx(
        "location /seen { return 200 \"$request_method $http_host $content_length $server_protocol\"; }",
    );
    let server = Server::start(&format!(
        "upstream up {{ server 127.0.0.1:{}; keepalive 2; }}
         server {{ listen 127.0.0.1:{{port}}; http2 on;
             location / {{ grpc_pass grpc://up; }}
             location /proxied/ {{ proxy_pass http://up/; proxy_http_version 2; }} }}",
        nginx.port
    ));
    for prefix in ["", "/proxied"] {
        for _ in 0..3 {
            let large = server.get(&format!("{prefix}/large.txt"), "");
            let body = large.split_once("\r\n\r\n").expect("a head").1;
            assert!(
                large.contains("\r\nContent-Length: 3200000\r\n"),
                "{}",
                &large[..300]
            );
            assert!(body == "0123456789abcdef".repeat(200_000), "{prefix}");
        }
        let missing = server.get(&format!("{prefix}/missing"), "");
        assert!(missing.starts_with("HTTP/1.1 404 "), "{missing}");
        let head = server.raw(&format!(
            "HEAD {prefix}/large.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        ));
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
        let posted = server.raw(&format!(
            "POST {prefix}/seen HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
        ));
        assert!(posted.ends_with("\r\n\r\nPOST up 5 HTTP/2.0"), "{posted}");
    }
}

#[test]
fn grpcs_offers_h2_and_verifies_the_certificate() {
    let folder = Folder::new();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["up.example".to_string()]).expect("parameters");
    folder.write("up.crt", &params.self_signed(&key).expect("signed").pem());
    folder.write("up.key", &key.serialize_pem());
    let tls = free_port();
    let server = Server::start_in(
        folder,
        &format!(
            "server {{ listen 127.0.0.1:{tls} ssl; http2 on; ssl_certificate up.crt; ssl_certificate_key up.key;
                 location / {{ return 200 \"$server_protocol $ssl_alpn_protocol $scheme\"; }} }}
             server {{ listen 127.0.0.1:{{port}}; grpc_ssl_verify on; grpc_ssl_trusted_certificate up.crt;
                 grpc_ssl_name up.example;
                 location /right {{ grpc_pass grpcs://127.0.0.1:{tls}; }}
                 location /variable {{ set $up grpcs://127.0.0.1:{tls}; grpc_pass $up; }}
                 location /wrong {{ grpc_pass grpcs://127.0.0.1:{tls}; grpc_ssl_name other.example; }}
                 location /proxied {{ proxy_pass https://127.0.0.1:{tls}; proxy_http_version 2; }} }}"
        ),
    );
    for path in ["/right", "/variable", "/proxied"] {
        let right = server.get(path, "");
        assert!(right.ends_with("HTTP/2.0 h2 https"), "{path}: {right}");
    }
    assert!(server.get("/wrong", "").starts_with("HTTP/1.1 502 "));
}

#[test]
fn failed_calls_go_to_the_next_server() {
    let listener = Listener::new();
    let server = Server::start(&format!(
        "upstream calls {{ server 127.0.0.1:{}; server 127.0.0.1:{} backup; }}
         server {{ listen 127.0.0.1:{{port}}; http2 on;
             location / {{ grpc_pass calls; grpc_next_upstream error invalid_header; }} }}",
        free_port(),
        listener.port
    ));
    let upstream = thread::spawn(move || {
        let mut peer = listener.accept();
        let request = peer.request().expect("a request");
        peer.fields(
            END_STREAM,
            request.stream,
            &[(":status", "200"), ("grpc-status", "5")],
        );
        peer
    });
    let mut client = Client::new(server.port);
    client.send(&[call(1, "/"), data(END_STREAM, 1, b"")].concat());
    let head = next(&mut client, 1);
    let fields = client.fields(&head);
    assert_eq!(head.flags & END_STREAM, END_STREAM);
    assert_eq!(value(&fields, "grpc-status"), "5");
    upstream.join().expect("the upstream");
}

/// Call an upstream that `misbehaves`, and check that the call ends and others are served.
fn survives(what: &str, misbehaves: impl FnOnce(&mut Peer) + Send + 'static) -> String {
    let listener = Listener::new();
    let server = server(
        listener.port,
        "location / { grpc_pass UP; grpc_read_timeout 5s; grpc_send_timeout 5s; }
         location /other { return 200 fine; }",
    );
    let upstream = thread::spawn(move || {
        let mut peer = listener.accept();
        peer.request().expect("a request");
        misbehaves(&mut peer);
        // Until gallop has closed the connection.
        while peer.next().is_some() {}
    });
    let mut client = Client::new(server.port);
    client.send(&[call(1, "/call"), data(END_STREAM, 1, b"")].concat());
    let first = next(&mut client, 1);
    let mut status = "reset".to_owned();
    if first.kind == h2::HEADERS {
        status = client.status(&first);
        while status == "200" && next(&mut client, 1).kind != h2::RST_STREAM {}
    }
    assert!(server.get("/other", "").ends_with("fine"), "{what}");
    upstream
        .join()
        .unwrap_or_else(|_| panic!("{what}: the upstream"));
    status
}

/// Send the same frames until gallop closes the connection.
fn repeat(peer: &mut Peer, frames: &[u8]) {
    let many = frames.repeat(1 + 16_000 / frames.len());
    let limit = Instant::now() + crate::PATIENCE;
    while peer.socket.write_all(&many).is_ok() {
        assert!(Instant::now() < limit, "the flood does not end");
    }
}

#[test]
fn floods_of_an_upstream_end_only_its_call() {
    let floods: Vec<(&str, Vec<u8>)> = vec![
        ("PING", frame(h2::PING, 0, 0, &[0; 8])),
        ("SETTINGS", frame(h2::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9])),
        (
            "WINDOW_UPDATE",
            frame(h2::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        ),
        ("unknown frames", frame(0xbe, 0, 0, &[0; 8000])),
        (
            "interim heads",
            frame(h2::HEADERS, END_HEADERS, 1, &block(&[(":status", "103")])),
        ),
    ];
    for (what, one) in floods {
        let status = survives(what, move |peer| repeat(peer, &one));
        assert_eq!(status, "502", "{what}");
    }
    let status = survives("CONTINUATION", |peer| {
        peer.send(h2::HEADERS, 0, 1, &block(&[(":status", "200")]));
        repeat(peer, &frame(CONTINUATION, 0, 1, &[0; 10]));
    });
    assert_eq!(status, "502");
    let status = survives("empty DATA", |peer| {
        peer.fields(0, 1, &[(":status", "200")]);
        repeat(peer, &frame(DATA, 0, 1, b""));
    });
    assert_eq!(status, "200");
}

#[test]
fn broken_responses_end_only_their_call() {
    let bomb = [&[0x88][..], &[0xa5; 4000]].concat();
    let heads: Vec<(&str, Vec<u8>)> = vec![
        ("no frame", b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
        ("a frame of 16 MB", vec![0xff, 0xff, 0xff, 1, 4, 0, 0, 0, 1]),
        ("an HPACK bomb", frame(h2::HEADERS, END_HEADERS, 1, &bomb)),
        (
            "a window above its limit",
            frame(h2::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
        ),
        ("a push", frame(5, END_HEADERS, 1, &[0, 0, 0, 2, 0x88])),
        (
            "another stream",
            frame(h2::HEADERS, END_HEADERS, 7, &[0x88]),
        ),
        ("a reset", frame(h2::RST_STREAM, 0, 1, &[0, 0, 0, 7])),
        ("a body without a head", frame(DATA, 0, 1, b"x")),
    ];
    for (what, bytes) in heads {
        let status = survives(what, move |peer| {
            let _ = peer.socket.write_all(&bytes);
        });
        assert_eq!(status, "502", "{what}");
    }
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("a second head", frame(h2::HEADERS, END_HEADERS, 1, &[0x88])),
        ("a reset", frame(h2::RST_STREAM, 0, 1, &[0, 0, 0, 2])),
        ("more than its length", frame(DATA, 0, 1, b"much more")),
        ("less than its length", frame(DATA, END_STREAM, 1, b"x")),
        ("padding without end", frame(DATA, 8, 1, &[9])),
    ];
    for (what, bytes) in bodies {
        let status = survives(what, move |peer| {
            peer.fields(0, 1, &[(":status", "200"), ("content-length", "5")]);
            let _ = peer.socket.write_all(&bytes);
        });
        assert_eq!(status, "200", "{what}");
    }
}

#[test]
fn endless_response_to_a_client_that_does_not_read_costs_little_memory() {
    let listener = Listener::new();
    let (port, up) = (free_port(), listener.port);
    let server = common::Server::start(
        &format!("server {{ listen 127.0.0.1:{port}; http2 on; location / {{ grpc_pass 127.0.0.1:{up}; }} }}"),
        |_| {},
    );
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.worker()));
        let status = status.expect("the worker lives");
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let number = line.and_then(|l| l.trim().strip_suffix(" kB"));
        number.expect("a figure").parse::<u64>().expect("a number")
    };
    let mut client = Client::new(port);
    client.send(&[call(1, "/"), data(END_STREAM, 1, b"")].concat());
    let mut peer = listener.accept();
    peer.request().expect("a request");
    peer.fields(0, 1, &[(":status", "200")]);
    let before = memory();
    let one = frame(DATA, 0, 1, &[b'x'; 16_000]);
    let wait = Some(Duration::from_secs(1));
    peer.socket.set_write_timeout(wait).expect("a timeout");
    let mut sent = 0;
    // Until nothing is taken any more.
    while peer.socket.write_all(&one).is_ok() {
        sent += one.len();
        assert!(sent < 200_000_000, "everything is taken");
    }
    let grown = memory() - before;
    assert!(grown < 8 * 1024, "{grown} kB for {sent} bytes");
}

#[test]
fn wrong_settings_are_refused() {
    let location = |directives: &str| {
        site::check(&site::configuration(&format!(
            "server {{ listen 127.0.0.1:1; location / {{ {directives} }} }}"
        )))
    };
    let right = "grpc_pass grpcs://127.0.0.1:1; grpc_next_upstream error non_idempotent http_429;
        grpc_ignore_headers X-Accel-Redirect; grpc_bind off; grpc_socket_keepalive on;";
    let (accepted, said) = location(right);
    assert!(accepted, "{said}");
    let wrong = [
        ("grpc_pass 127.0.0.1;", "no port in upstream"),
        ("grpc_pass 127.0.0.1:1; grpc_pass 127.0.0.1:2;", "duplicate"),
        (
            "grpc_pass 127.0.0.1:1; grpc_next_upstream updating;",
            "updating",
        ),
        ("grpc_buffering on;", "unknown directive"),
        ("proxy_http_version 3;", "invalid value"),
    ];
    for (directives, message) in wrong {
        let (accepted, said) = location(directives);
        assert!(!accepted && said.contains(message), "{directives}: {said}");
    }
}
