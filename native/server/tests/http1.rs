//! HTTP/1 against the real binary.

use crate::common::Server;
use crate::ports::free_port;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Connections that send many requests at once are made to take turns; none may get the answer to
/// another's request.
#[test]
fn pipelined_requests_stay_on_their_connection() {
    let port = free_port();
    let http =
        format!("server {{ listen 127.0.0.1:{port}; location / {{ return 200 \"<$uri>\"; }} }}");
    let _server = Server::start(&http, |_| {});
    let mut connections: Vec<TcpStream> = (0..8)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    for (c, connection) in connections.iter_mut().enumerate() {
        let request = |n| format!("GET /{c}-{n} HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut all: String = (0..200).map(request).collect();
        all.push_str(&format!(
            "GET /{c}-last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        ));
        connection.write_all(all.as_bytes()).unwrap();
    }
    for (c, mut connection) in connections.into_iter().enumerate() {
        let mut answers = String::new();
        connection.read_to_string(&mut answers).unwrap();
        let mut at = 0;
        for n in (0..200).map(|n| n.to_string()).chain(["last".to_string()]) {
            let want = format!("</{c}-{n}>");
            let found = answers[at..].find(&want);
            at += found.unwrap_or_else(|| panic!("no {want} in its place on connection {c}"));
        }
        assert_eq!(
            answers.matches("HTTP/1.1 200").count(),
            201,
            "connection {c}"
        );
    }
}

/// What came on a connection of its own, up to its end; dates are cut out.
fn whole_answer(port: u16, request: &str) -> String {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let lines = answer.split("\r\n").filter(|l| !l.starts_with("Date: "));
    lines.collect::<Vec<_>>().join("\n")
}

/// The second answer to a question comes from memory; it must not differ from the first.
#[test]
fn prebuilt_responses_close_connections_like_others() {
    let port = free_port();
    let http = format!("server {{ listen 127.0.0.1:{port}; root html; }}");
    let _server = Server::start(&http, |root| {
        std::fs::create_dir_all(root.join("html")).unwrap();
        std::fs::write(root.join("html/a.txt"), "content").unwrap();
    });
    let close = "GET /a.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let old = "GET /a.txt HTTP/1.0\r\nHost: x\r\n\r\n";
    let kept = "GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n";
    let first = whole_answer(port, close);
    assert!(first.contains("\nConnection: close\n"), "{first}");
    assert!(first.ends_with("\n\ncontent"), "{first}");
    for _ in 0..3 {
        assert_eq!(whole_answer(port, close), first);
        assert_eq!(whole_answer(port, old), first);
        let two = whole_answer(port, &format!("{kept}{close}"));
        assert_eq!(
            two.matches("\nConnection: keep-alive\n").count(),
            1,
            "{two}"
        );
        assert!(two.ends_with(&first), "{two}");
        // Whatever follows the last request is neither answered nor a reason to lose the answer.
        assert_eq!(whole_answer(port, &format!("{close}{kept}")), first);
    }
}
