//! Connections that wait for requests: when they end, and that they go on as if they had never waited.

use crate::site::{self, read_all, Server, Set};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SITE: &str = "server { listen 127.0.0.1:{port}; root html; \
    location / { keepalive_timeout 600s; } \
    location /short { keepalive_timeout 300ms; return 200 short; } \
    location /one { limit_conn one 1; return 200 one; } \
    location /state { stub_status; } } \
    limit_conn_zone $server_name zone=one:1m;";

/// Sends a request that keeps the connection, and reads its answer, which ends with `end`.
fn ask(stream: &mut TcpStream, uri: &str, end: &str) -> String {
    let request = format!("GET {uri} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    answer(stream, end)
}

fn answer(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.ends_with(end) {
        let n = stream.read(&mut buffer).expect("an answer in time");
        assert!(n > 0, "closed after {text:?}");
        text.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    text
}

fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1]), Ok(0))
}

fn start() -> Server {
    let folder = site::Folder::new();
    folder.write("html/a.txt", "content");
    Server::start_in(folder, SITE)
}

fn waiting(server: &Server) -> String {
    let state = server.get("/state", "");
    let (_, waiting) = state.rsplit_once("Waiting: ").expect("a state");
    waiting.trim().to_string()
}

#[test]
fn idle_connection_is_closed_at_its_timeout() {
    let server = start();
    let (mut short, mut long) = (server.connect(), server.connect());
    // The second answer comes from memory.
    for _ in 0..2 {
        ask(&mut long, "/a.txt", "content");
    }
    ask(&mut short, "/short", "short");
    assert!(is_closed(&mut short));
    // A connection that was parked with a later time, and one that never was, go on.
    ask(&mut long, "/a.txt", "content");
    ask(&mut long, "/short", "short");
    assert!(is_closed(&mut long));
}

#[test]
fn request_in_pieces_resumes_parked_connection() {
    let server = start();
    let mut stream = server.connect();
    for _ in 0..3 {
        ask(&mut stream, "/a.txt", "content");
        server.wait_for("a connection that waits", |s| waiting(s) == "1");
        for piece in ["\r\nGET /a.t", "xt HTTP/1.1\r\nHost: loc", "alhost\r\n\r"] {
            stream.write_all(piece.as_bytes()).expect("sent");
            // Another connection's turn lets this piece be read by itself, or not: either is right.
            server.get("/state", "");
        }
        stream.write_all(b"\n").expect("sent");
        answer(&mut stream, "content");
    }
    let two = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\nGET /one HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(two.as_bytes()).expect("sent");
    let both = answer(&mut stream, "one");
    assert_eq!(both.matches("HTTP/1.1 200 ").count(), 2, "{both}");
}

#[test]
fn idle_connection_does_not_count_toward_limit() {
    let server = start();
    let mut streams: Vec<TcpStream> = (0..5).map(|_| server.connect()).collect();
    for stream in &mut streams {
        let answer = ask(stream, "/one", "one");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    server.wait_for("five connections that wait", |s| waiting(s) == "5");
}

#[test]
fn idle_connections_count_as_open() {
    let server = Server::start("server { listen 127.0.0.1:{port}; location / { return 200 ok; } }");
    // 256 of them are allowed.
    let mut streams: Vec<TcpStream> = Vec::new();
    for _ in 0..256 {
        let mut stream = server.connect();
        ask(&mut stream, "/", "ok");
        streams.push(stream);
    }
    assert_eq!(read_all(&mut server.connect()), "");
    let log = server.log("error.log");
    assert!(
        log.contains("256 worker_connections are not enough"),
        "{log}"
    );
    streams.pop();
    server.wait_for("a place", |s| {
        let mut stream = s.connect();
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).is_ok() && read_all(&mut stream).ends_with("ok")
    });
}

#[test]
fn graceful_shutdown_closes_idle_and_serves_new_connections() {
    let server = start();
    let (mut idle, mut new) = (server.connect(), server.connect());
    for _ in 0..2 {
        ask(&mut idle, "/a.txt", "content");
    }
    server.wait_for("two connections that wait", |s| waiting(s) == "2");
    server.signal("QUIT");
    assert!(is_closed(&mut idle));
    let request = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    new.write_all(request).expect("sent");
    let answer = read_all(&mut new);
    assert!(answer.contains("Connection: close"), "{answer}");
    assert!(answer.ends_with("content"), "{answer}");
}

#[test]
fn reload_closes_idle_connections() {
    let server = start();
    let mut idle = server.connect();
    ask(&mut idle, "/a.txt", "content");
    server.signal("HUP");
    assert!(is_closed(&mut idle));
    server.wait_for("the new worker", |s| {
        s.get("/a.txt", "").ends_with("content")
    });
}

#[test]
fn shutdown_timeout_closes_connections_without_request() {
    let http = "server { listen 127.0.0.1:{port}; location / { return 200 ok; } }";
    let server = Server::start_with("worker_shutdown_timeout 100ms;", http);
    let mut new = server.connect();
    server.wait_for("the connection", |s| s.get("/", "").ends_with("ok"));
    server.signal("QUIT");
    assert!(is_closed(&mut new));
}

/// Clients that ask on and on while the configuration is loaded anew: each request is answered, also the one
/// that was under way when the worker went.
#[test]
fn reload_loses_no_request() {
    let server = start();
    let is_over = AtomicBool::new(false);
    let answered: [AtomicUsize; 4] = Default::default();
    let have = |n| answered.iter().all(|c| c.load(Ordering::Relaxed) >= n);
    std::thread::scope(|scope| {
        let (server, is_over) = (&server, &is_over);
        let clients: Vec<_> = answered
            .iter()
            .map(|connections| scope.spawn(move || ask_until(server, is_over, connections)))
            .collect();
        let end = Set(is_over);
        for n in 1..=4 {
            server.wait_for("every client's next connection", |_| have(n));
            server.signal("HUP");
            let ended = |s: &Server| s.log("error.log").matches("exited with code 0").count();
            server.wait_for("the old worker's end", |s| ended(s) >= n);
        }
        server.wait_for("every client's last connection", |_| have(5));
        drop(end);
        for client in clients {
            client.join().expect("every request is answered");
        }
    });
}

/// Asks on one connection after the other, on each until the server says that it ends; counts those that were
/// answered. Where this thread has to wait for its turn for long, the server may have closed an idle connection.
fn ask_until(server: &Server, is_over: &AtomicBool, connections: &AtomicUsize) {
    let mut requests = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut reader = BufReader::new(server.connect());
        let (mut goes_on, mut is_first, mut answered) = (true, true, Instant::now());
        while goes_on && !is_over.load(Ordering::Relaxed) {
            let request = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let sent = reader.get_mut().write_all(request);
            let is_late = answered.elapsed() > Duration::from_millis(100);
            let mut head = String::new();
            while sent.is_ok() && !head.ends_with("\r\n\r\n") {
                if !matches!(reader.read_line(&mut head), Ok(n) if n > 0) {
                    break;
                }
            }
            if head.is_empty() && is_late {
                break;
            }
            assert!(
                head.ends_with("\r\n\r\n"),
                "request {requests} was lost: {head:?}"
            );
            let mut body = [0; 7];
            reader.read_exact(&mut body).expect("the body");
            assert_eq!(&body, b"content");
            goes_on = !head.contains("Connection: close");
            (requests, answered) = (requests + 1, Instant::now());
            if std::mem::take(&mut is_first) {
                connections.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
