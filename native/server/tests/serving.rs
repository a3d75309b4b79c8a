//! The real binary over HTTP/1: files, locations, refusals, reload, proxying.

use crate::site::{check, configuration, read_all, upstream, Folder, Server};
use std::io::{Read, Write};

const FILES: &str = "server { listen 127.0.0.1:{port}; server_name localhost; root html;
    location /old { return 301 /new; }
    location /text { default_type text/plain; return 200 \"$uri?$args\"; }
    location = /exact { return 204; }
    location ~ \\.php$ { return 403; }
    location ^~ /pics/ { try_files $uri =410; }
    location /app/ { try_files $uri $uri/ /index.html; }
}";

fn files() -> Server {
    let folder = Folder::new();
    folder.write("html/index.html", "front page\n");
    folder.write("html/digits", "0123456789");
    folder.write("html/dir/index.html", "dir page\n");
    Server::start_in(folder, FILES)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[test]
fn files_and_locations_respond_like_nginx() {
    let server = files();
    for (uri, status, text) in [
        ("/", "200 OK", "front page\n"),
        ("/dir/", "200 OK", "dir page\n"),
        ("/dir", "301 Moved Permanently", "301"),
        ("/nothing", "404 Not Found", "404 Not Found"),
        ("/old", "301 Moved Permanently", "301"),
        ("/text/a%20b?c=d", "200 OK", "/text/a b?c=d"),
        ("/exact", "204 No Content", ""),
        ("/x.php", "403 Forbidden", "403"),
        ("/pics/x.php", "410 Gone", "410"),
        ("/app/whatever", "200 OK", "front page\n"),
        ("/%2e%2e/etc/passwd", "400 Bad Request", "400"),
    ] {
        let answer = server.get(uri, "");
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}\r\n")),
            "{uri}: {answer}"
        );
        assert!(body(&answer).contains(text), "{uri}: {answer}");
    }
}

#[test]
fn ranges_and_conditional_requests_work() {
    let server = files();
    let whole = server.get("/digits", "");
    let etag = whole
        .lines()
        .find_map(|l| l.strip_prefix("ETag: "))
        .expect("an etag")
        .to_string();
    let part = server.get("/digits", "Range: bytes=2-4\r\n");
    assert!(part.contains("206 Partial Content") && part.contains("Content-Range: bytes 2-4/10"));
    assert_eq!(body(&part), "234");
    let none = server.get("/digits", &format!("If-None-Match: {etag}\r\n"));
    assert!(none.starts_with("HTTP/1.1 304 "), "{none}");
    assert_eq!(body(&none), "");
    let beyond = server.get("/digits", "Range: bytes=20-\r\n");
    assert!(beyond.contains("416 Requested Range") && beyond.contains("Content-Range: bytes */10"));
    let several = server.get("/digits", "Range: bytes=0-0,9-9\r\n");
    assert!(several.contains("multipart/byteranges"), "{several}");
}

#[test]
fn ambiguous_requests_are_rejected() {
    let server = files();
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
    ] {
        let answer = server.raw(request);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request:?}: {answer}");
        assert!(answer.contains("Connection: close"), "{request:?}: {answer}");
    }
    let unknown = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n";
    assert!(server.raw(unknown).starts_with("HTTP/1.1 501 "));
    assert!(server
        .raw("GET / HTTP/3.0\r\n\r\n")
        .starts_with("HTTP/1.1 505 "));
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000));
    assert!(server.raw(&long).starts_with("HTTP/1.1 414 "));
}

#[test]
fn connection_serves_many_and_pipelined_requests() {
    let server = files();
    let mut stream = server.connect();
    let one = "GET /digits HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = "GET /digits HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream
        .write_all(format!("{one}{one}{one}{last}").as_bytes())
        .expect("sent");
    let answers = read_all(&mut stream);
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 4, "{answers}");
    assert_eq!(answers.matches("0123456789").count(), 4);
}

#[test]
fn changed_file_is_served_at_once() {
    let server = files();
    for _ in 0..3 {
        assert!(server.get("/digits", "").ends_with("0123456789"));
    }
    server.folder.write("html/digits", "changed");
    std::thread::sleep(std::time::Duration::from_millis(120));
    assert!(server.get("/digits", "").ends_with("changed"));
}

#[test]
fn body_over_limit_is_rejected() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; client_max_body_size 10; location / { proxy_pass http://127.0.0.1:1; } }",
    );
    let known = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n";
    assert!(server.raw(known).starts_with("HTTP/1.1 413 "));
    let chunked =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n";
    assert!(server.raw(chunked).starts_with("HTTP/1.1 413 "));
}

#[test]
fn proxied_request_is_forwarded_without_hop_by_hop_fields() {
    let (port, requests) = upstream(vec![
        "HTTP/1.1 201 Made\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok".into(),
    ]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; location /in/ {{
            proxy_pass http://127.0.0.1:{port}/out/; proxy_set_header X-Real-IP $remote_addr; }} }}"
    ));
    let answer = server.raw(
        "POST /in/a?b HTTP/1.1\r\nHost: h\r\nConnection: close, X-Drop\r\nX-Drop: 1\r\nX-Keep: 2\r\n\
         Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 201 Made\r\n"), "{answer}");
    assert!(
        answer.contains("X-A: b") && answer.ends_with("ok"),
        "{answer}"
    );
    let seen = requests.recv().expect("the upstream was asked");
    assert!(seen.starts_with("POST /out/a?b HTTP/1.1\r\n"), "{seen}");
    assert!(
        seen.contains("X-Real-IP: 127.0.0.1") && seen.contains("X-Keep: 2"),
        "{seen}"
    );
    assert!(
        seen.contains("Content-Length: 3\r\n") && seen.ends_with("abc"),
        "{seen}"
    );
    assert!(
        !seen.contains("X-Drop") && !seen.to_lowercase().contains("transfer-encoding"),
        "{seen}"
    );
}

#[test]
fn next_upstream_server_is_used_when_one_is_down() {
    let (port, _requests) = upstream(vec![
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlive".into()
    ]);
    let dead = crate::ports::free_port();
    let server = Server::start(&format!(
        "upstream u {{ server 127.0.0.1:{dead}; server 127.0.0.1:{port} backup; }}
         log_format up \"$upstream_addr $upstream_status\"; access_log access.log up;
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; }} }}"
    ));
    assert!(server.get("/", "").ends_with("live"));
    let expected = format!("127.0.0.1:{dead}, 127.0.0.1:{port} 502, 200");
    server.wait_for("the log line", |s| s.log("access.log").contains(&expected));
}

#[test]
fn upstream_response_with_two_lengths_is_rejected() {
    let broken = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc";
    let (port, _requests) = upstream(vec![broken.into()]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{port}; }} }}"
    ));
    assert!(server.get("/", "").starts_with("HTTP/1.1 502 "));
}

#[test]
fn reload_applies_configuration_and_loses_no_connection() {
    let server = files();
    let mut old = server.connect();
    old.write_all(b"GET /digits HTTP/1.1\r\nHost: localhost\r\n")
        .expect("half a request");
    let text = configuration(&format!(
        "server {{ listen 127.0.0.1:{}; location / {{ return 200 new; }} }}",
        server.port
    ));
    server.folder.write("nginx.conf", &text);
    let out = server.run(&["-s", "reload"]);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    server.wait_for("the new configuration", |s| s.get("/", "").ends_with("new"));
    old.write_all(b"\r\n").expect("the other half");
    let mut answer = [0; 15];
    old.read_exact(&mut answer).expect("the old worker answers");
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    server.folder.write("nginx.conf", "nonsense;");
    server.signal("HUP");
    server.wait_for("the refusal", |s| {
        s.log("error.log")
            .contains("unknown directive \"nonsense\"")
    });
    assert!(
        server.get("/", "").ends_with("new"),
        "a refused configuration changes nothing"
    );
    assert!(server.end("QUIT"));
}

#[test]
fn logs_are_reopened() {
    let server = files();
    server.get("/digits", "");
    server.wait_for("the line", |s| s.log("access.log").contains("/digits"));
    let old = server.folder.0.join("access.log");
    std::fs::rename(&old, server.folder.0.join("access.1")).expect("rotated");
    server.signal("USR1");
    server.wait_for("the new file", |_| old.exists());
    // The file may exist a moment before every thread writes to it.
    server.wait_for("the new line", |s| {
        s.get("/dir/", "");
        s.log("access.log").contains("/dir/")
    });
}

#[test]
fn rejected_configurations_have_nginx_messages() {
    let http = |inner: &str| {
        format!(
            "events {{}}\nhttp {{ access_log off; server {{ listen 127.0.0.1:9;\n{inner}\n}} }}\n"
        )
    };
    for (inner, words) in [
        (
            "nosuch on;",
            "unknown directive \"nosuch\" in DIR/nginx.conf:3",
        ),
        // Expressions with braces want quotes: what is said is where, not that the file ends too early.
        (
            "rewrite ^/(\\d{4})/x$ /y;",
            "directive \"rewrite\" is not terminated by \";\" in DIR/nginx.conf:3",
        ),
        (
            "location ~ ^/a{2}/ { }",
            "unknown directive \"2}/\" in DIR/nginx.conf:3",
        ),
        (
            "brotli_window 3k;",
            "\"brotli_window\" directive must be 1k, 2k,",
        ),
        (
            "root a b;",
            "invalid number of arguments in \"root\" directive in DIR/nginx.conf:3",
        ),
        (
            "root a; root b;",
            "\"root\" directive is duplicate in DIR/nginx.conf:3",
        ),
        (
            "worker_processes 1;",
            "\"worker_processes\" directive is not allowed here in DIR/nginx.conf:3",
        ),
        (
            "location / {",
            "unexpected end of file, expecting \"}\" in DIR/nginx.conf:5",
        ),
        (
            "sendfile maybe;",
            "invalid value \"maybe\" in \"sendfile\" directive, it must be \"on\" or \"off\"",
        ),
        (
            "include missing.conf;",
            "open() \"DIR/missing.conf\" failed (2: No such file or directory)",
        ),
        (
            "return 200 $nothing_sets_this;",
            "unknown \"nothing_sets_this\" variable",
        ),
        (
            "location /a {} location /a {}",
            "duplicate location \"/a\" in DIR/nginx.conf:3",
        ),
        (
            "max_ranges x;",
            "\"max_ranges\" directive invalid number in DIR/nginx.conf:3",
        ),
        (
            "ssi_value_length x;",
            "\"ssi_value_length\" directive invalid value in DIR/nginx.conf:3",
        ),
        (
            "ssi_value_length 1; ssi_value_length 1;",
            "\"ssi_value_length\" directive is duplicate in DIR/nginx.conf:3",
        ),
        (
            "aio some;",
            "\"aio\" directive invalid value in DIR/nginx.conf:3",
        ),
        (
            "client_body_temp_path a 1 2 x;",
            "\"client_body_temp_path\" directive invalid value in DIR/nginx.conf:3",
        ),
        (
            "proxy_limit_rate x;",
            "\"proxy_limit_rate\" directive invalid value in DIR/nginx.conf:3",
        ),
        (
            "fastcgi_split_path_info ^(.+)$;",
            "pattern \"^(.+)$\" must have 2 captures in DIR/nginx.conf:3",
        ),
        (
            "if ($arg_a) { fastcgi_param A b; }",
            "\"fastcgi_param\" directive is not allowed here in DIR/nginx.conf:3",
        ),
        (
            "location / { proxy_pass ftp://x; }",
            "invalid URL prefix in DIR/nginx.conf:3",
        ),
    ] {
        let (accepted, said) = check(&http(inner));
        assert!(
            !accepted && said.contains(&format!("gallop: [emerg] {words}")),
            "{inner}: {said}"
        );
    }
    let (accepted, said) = check(&http("root html; http2_push off; http2_recv_timeout 1s;"));
    assert!(accepted && said.contains("test is successful"), "{said}");
    for words in [
        "\"http2_push\" directive is obsolete, ignored in DIR/nginx.conf:3",
        "\"http2_recv_timeout\" directive is obsolete, use the \"client_header_timeout\" directive instead",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn slow_client_does_not_block_upstream() {
    use std::net::TcpListener;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let size = 16 << 20;
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("asked");
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("head");
        let text: Vec<u8> = (0..size).map(|i| b'a' + (i / 1000 % 26) as u8).collect();
        let sent = stream.write_all(&text).is_ok();
        let _ = sender.send((sent, text));
    });
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{port}; }} }}"
    ));
    let mut client = server.connect();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let limit = crate::PATIENCE;
    let (sent, text) = done
        .recv_timeout(limit)
        .expect("the upstream is done before the client reads");
    assert!(sent);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("read");
    let head = answer
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .expect("a head")
        + 4;
    assert!(answer[head..] == text[..], "the body is whole and in order");
}

/// Limits of a connection hold for answers that need no file, too.
#[test]
fn last_request_of_connection_closes_it() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; keepalive_requests 2;
         location / { return 200 text; } location /none { keepalive_timeout 0; return 204; } }",
    );
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answers = server.raw(&request.repeat(3));
    assert_eq!(answers.matches("200 OK").count(), 2, "{answers}");
    assert!(answers.contains("Connection: close"), "{answers}");
    let answers = server.raw(&request.replace("/ ", "/none ").repeat(2));
    assert_eq!(answers.matches("204 No Content").count(), 1, "{answers}");
}

#[test]
fn empty_body_is_written_to_file_when_bodies_are() {
    let (port, _requests) = upstream(vec![
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
            .to_string();
        2
    ]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; location / {{ client_body_in_file_only on;
         add_header X-File \"file=$request_body_file\"; proxy_pass http://127.0.0.1:{port}; }} }}"
    ));
    let empty =
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let answer = server.raw(empty);
    let (_, rest) = answer.split_once("file=").expect("the field");
    let file = rest.lines().next().expect("its value");
    assert_eq!(std::fs::read(file).expect("the body's file"), b"", "{file}");
    let none = server.get("/", "");
    assert!(none.contains("X-File: file=\r\n"), "{none}");
}

#[test]
fn requests_are_logged_at_shutdown_timeout() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("its address").port();
    let server = Server::start_with(
        "worker_shutdown_timeout 10ms;",
        &format!(
            "server {{ listen 127.0.0.1:{{port}};
             location / {{ proxy_pass http://127.0.0.1:{port}; }} }}"
        ),
    );
    let mut client = server.connect();
    write!(client, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let _upstream = silent.accept().expect("the request came through");
    server.signal("QUIT");
    assert_eq!(read_all(&mut client), "");
    server.wait_for("the line", |s| s.log("access.log").contains("GET /slow"));
}

#[test]
fn slow_clients_are_disconnected() {
    const SIZE: u64 = 300_000_000;
    let folder = Folder::new();
    folder.write("html/big", "");
    let big = std::fs::File::options()
        .write(true)
        .open(folder.0.join("html/big"));
    big.and_then(|file| file.set_len(SIZE))
        .expect("a large file");
    let server = Server::start_in(
        folder,
        "client_header_timeout 200ms; client_body_timeout 200ms; send_timeout 200ms;
         server { listen 127.0.0.1:{port}; root html; location /post { proxy_pass http://127.0.0.1:1; } }",
    );
    assert_eq!(server.raw("GET / HTTP/1.1\r\nHost: loc"), "", "half a head");
    let half = "POST /post HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf";
    assert!(!server.raw(half).contains("200 OK"), "half a body");
    let mut reader = server.connect();
    write!(reader, "GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    // Nothing is read until the server has given up.
    server.wait_for("the end", |s| s.log("access.log").contains("GET /big"));
    assert!((read_all(&mut reader).len() as u64) < SIZE);
}

#[test]
fn private_response_is_not_served_to_another_client() {
    let folder = Folder::new();
    folder.write("html/index.html", "inside\n");
    folder.write("html/one.html", "one\n");
    folder.write("html/two.html", "two\n");
    let server = Server::start_in(
        folder,
        "map $http_user_agent $page { Two two; default one; }
         map $http_user_agent $shut { Shut 403; default 0; }
         server { listen 127.0.0.1:{port}; server_name localhost; root html;
             location = / { if ($shut) { return 403; } }
             location /pages/ { alias html/; index $page.html; } }",
    );
    for _ in 0..3 {
        assert!(server.get("/", "").ends_with("inside\n"));
        let shut = server.get("/", "User-Agent: Shut\r\n");
        assert!(shut.starts_with("HTTP/1.1 403 "), "{shut}");
        assert!(server.get("/pages/", "").ends_with("one\n"));
        assert!(server
            .get("/pages/", "User-Agent: Two\r\n")
            .ends_with("two\n"));
    }
}
