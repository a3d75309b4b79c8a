//! Rare requests and configurations, answered as nginx 1.22.1 answers them.

use crate::common;
use crate::ports::free_port;
use crate::site::{read_all, Folder, Server};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// Which of several server blocks answers for a name; `d`: the default one.
fn chosen(names: &[&str], host: &str) -> String {
    let blocks = names.iter().enumerate().map(|(n, names)| {
        format!("server {{ listen 127.0.0.1:{{port}}; server_name {names}; return 200 {n}; }}")
    });
    let http = format!(
        "server {{ listen 127.0.0.1:{{port}} default_server; server_name _; return 200 d; }} {}",
        blocks.collect::<String>()
    );
    let server = Server::start(&http);
    let answer = server.raw(&format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n"));
    body(&answer).to_string()
}

#[test]
fn dotted_name_is_ignored_when_half_of_it_is_taken() {
    for (names, host, want) in [
        (&["example.com", ".example.com"][..], "example.com", "0"),
        (&["example.com", ".example.com"], "a.example.com", "d"),
        (&["*.example.com", ".example.com"], "a.example.com", "0"),
        (&["*.example.com", ".example.com"], "example.com", "d"),
        // The name that was ignored still keeps others from having its half.
        (
            &["*.example.com", ".example.com", "example.com"],
            "example.com",
            "d",
        ),
        (&[".example.com", "example.com"], "example.com", "0"),
        (&[".example.com", "*.example.com"], "a.example.com", "0"),
        (&["example.com .example.com"], "a.example.com", "d"),
    ] {
        assert_eq!(chosen(names, host), want, "{host} of {names:?}");
    }
}

#[test]
fn rejected_head_request_line_gets_no_body() {
    let server = Server::start("server { listen 127.0.0.1:{port}; }");
    let long = format!("HEAD /{} HTTP/1.1", "x".repeat(40_000));
    for (line, want) in [
        ("HEAD /%zz HTTP/1.1", "400"),
        ("HEAD /.. HTTP/1.1", "400"),
        ("HEAD /a b HTTP/1.1", "400"),
        ("HEAD / HTTP/9.9", "505"),
        ("HEAD / HTTP/1.x", "400"),
        ("HEAD /\u{1} HTTP/1.1", "400"),
        ("HEAD http:// HTTP/1.1", "400"),
        ("HEAD x HTTP/1.1", "400"),
        ("\r\nHEAD x HTTP/1.1", "400"),
        ("HEAD / FOO", "400"),
        ("HEAD ", "400"),
        (&long, "414"),
    ] {
        let answer = server.raw(&format!("{line}\r\nHost: x\r\n\r\n"));
        assert_eq!(
            (status(&answer), body(&answer)),
            (want, ""),
            "{line:?}: {answer}"
        );
    }
    for line in [
        "HEADX /%zz HTTP/1.1",
        "GET /%zz HTTP/1.1",
        "HEAD",
        "head / HTTP/1.1",
    ] {
        let answer = server.raw(&format!("{line}\r\nHost: x\r\n\r\n"));
        assert_eq!(status(&answer), "400", "{line}");
        assert!(body(&answer).contains("<center>"), "{line}: {answer}");
    }
}

#[test]
fn method_check_order_matches_nginx() {
    let folder = Folder::new();
    folder.write("html/f.txt", "file");
    folder.write("html/dir/x", "file");
    let server = Server::start_in(
        folder,
        "server { listen 127.0.0.1:{port}; root html;
             location /auto/ { alias html/; autoindex on; }
             location /try/ { try_files $uri =404; }
             location = /gif { empty_gif; }
             location /stub { stub_status; } }",
    );
    let paths = [
        "/none",
        "/f.txt",
        "/dir",
        "/dir/",
        "/nodir/",
        "/auto/",
        "/auto/none",
        "/try/none",
        "/gif",
        "/stub",
    ];
    let refused = "405 405 405 405 405 405 405 404 405 405";
    for (method, want) in [
        ("GET", "404 200 301 403 404 200 404 404 200 200"),
        ("HEAD", "404 200 301 403 404 200 404 404 200 200"),
        ("POST", "404 405 301 403 404 403 404 404 405 405"),
        ("OPTIONS", refused),
        ("PUT", refused),
        ("DELETE", refused),
        ("PROPFIND", refused),
        ("FOO", refused),
        ("TRACE", "405 405 405 405 405 405 405 405 405 405"),
    ] {
        for (path, want) in paths.iter().zip(want.split(' ')) {
            let answer = server.raw(&format!(
                "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            ));
            assert_eq!(status(&answer), want, "{method} {path}");
        }
    }
}

#[test]
fn malformed_socket_variable_is_reported_and_ignored() {
    for value in [
        &b"x;"[..],
        b"999;",
        b"6;",
        b";",
        b"0;",
        b"\xff;",
        b"7;x",
        b"99999999999;",
    ] {
        let port = free_port();
        let http = format!("server {{ listen 127.0.0.1:{port}; return 200 on; }}");
        let server = common::Server::start_changed(
            "",
            &http,
            |_| {},
            |command| {
                command.env("NGINX", std::ffi::OsStr::from_bytes(value));
            },
        );
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("sent");
        let answer = read_all(&mut stream);
        assert!(answer.ends_with("on"), "{answer}");
        let errors = server.errors();
        let said = "in the NGINX environment variable, ignoring the rest of the variable";
        assert!(errors.contains(said), "{errors}");
    }
}

#[test]
fn workers_keep_user_without_master_process() {
    for (master_process, want) in [("off", "200"), ("on", "403")] {
        let folder = Folder::new();
        folder.write("html/own", "own");
        let own = folder.0.join("html/own");
        std::fs::set_permissions(&own, PermissionsExt::from_mode(0o600)).expect("set");
        let server = Server::start_changed(
            folder,
            &format!("master_process {master_process}; user nobody nogroup;"),
            "server { listen 127.0.0.1:{port}; root html; }",
        );
        assert_eq!(
            status(&server.get("/own", "")),
            want,
            "master_process {master_process}"
        );
    }
}
