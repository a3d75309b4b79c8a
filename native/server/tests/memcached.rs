//! memcached_pass: values as responses, from a real memcached and from servers that break the rules.

use crate::h2;
use crate::ports::free_port;
use crate::site::{self, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A memcached that ends with the test.
struct Memcached {
    port: u16,
    child: Child,
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Memcached {
    fn start() -> Memcached {
        let port = free_port();
        let child = Command::new("memcached")
            .args([
                "-l",
                "127.0.0.1",
                "-p",
                &port.to_string(),
                "-U",
                "0",
                "-u",
                "nobody",
            ])
            .stdin(Stdio::null())
            .spawn()
            .expect("memcached (Debian: memcached)");
        let started = Memcached { port, child };
        let limit = Instant::now() + crate::PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < limit, "memcached does not accept");
            std::thread::sleep(Duration::from_millis(10));
        }
        started
    }

    /// Send a command, and read up to the line that ends its response.
    fn ask(&self, command: &[u8], end: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        stream.write_all(command).expect("sent");
        let mut said = String::new();
        let mut lines = BufReader::new(stream);
        while !said.ends_with(end) {
            assert!(lines.read_line(&mut said).expect("a line") > 0, "{said}");
        }
        said
    }

    fn set(&self, key: &str, flags: u32, value: &[u8]) {
        let head = format!("set {key} {flags} 0 {}\r\n", value.len());
        self.ask(&[head.as_bytes(), value, b"\r\n"].concat(), "STORED\r\n");
    }

    fn connections(&self) -> u32 {
        let stats = self.ask(b"stats\r\n", "END\r\n");
        let mut lines = stats.lines();
        let count = lines.find_map(|line| line.strip_prefix("STAT total_connections "));
        count.and_then(|n| n.parse().ok()).expect("a number")
    }
}

/// The body of a response that tells its length.
fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[test]
fn values_are_served_by_key() {
    let memcached = Memcached::start();
    memcached.set("/page.txt", 0, b"hello");
    memcached.set("/a%20b%25/\u{e9}?x=1", 0, b"escaped");
    memcached.set("/empty", 0, b"");
    memcached.set("/large", 0, &vec![b'x'; 900_000]);
    let server = Server::start(&format!(
        "types {{ text/plain txt; }} default_type a/b;
         server {{ listen 127.0.0.1:{{port}}; http2 on;
             location / {{ set $memcached_key $uri; memcached_pass 127.0.0.1:{port};
                 error_page 404 = @missing; }}
             location /a {{ set $memcached_key $uri?$args; memcached_pass 127.0.0.1:{port}; }}
             location /bare {{ set $memcached_key none; memcached_pass 127.0.0.1:{port}; }}
             location /unset {{ memcached_pass 127.0.0.1:{port}; }}
             location @missing {{ return 200 \"made for $uri\"; }} }}",
        port = memcached.port
    ));
    let page = server.get("/page.txt", "");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("\r\nContent-Type: text/plain\r\n"), "{page}");
    assert!(page.contains("\r\nContent-Length: 5\r\n"), "{page}");
    assert_eq!(body(&page), "hello");
    let part = server.get("/page.txt", "Range: bytes=1-2\r\n");
    assert!(part.starts_with("HTTP/1.1 206 "), "{part}");
    assert_eq!(body(&part), "el");
    assert_eq!(body(&server.get("/a%20b%25/%C3%A9?x=1", "")), "escaped");
    let empty = server.get("/empty", "");
    assert!(empty.contains("\r\nContent-Length: 0\r\n"), "{empty}");
    assert!(empty.contains("\r\nContent-Type: a/b\r\n"), "{empty}");
    assert_eq!(body(&server.get("/large", "")).len(), 900_000);
    assert_eq!(body(&server.get("/none", "")), "made for /none");
    assert!(server.get("/bare", "").starts_with("HTTP/1.1 404 "));
    assert!(server.get("/unset", "").starts_with("HTTP/1.1 500 "));
    let request = |method: &str| {
        let fields = "Host: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx";
        server.raw(&format!("{method} /page.txt HTTP/1.1\r\n{fields}"))
    };
    assert!(request("POST").starts_with("HTTP/1.1 405 "));
    let head = request("HEAD");
    assert!(head.contains("\r\nContent-Length: 5\r\n"), "{head}");
    assert_eq!(body(&head), "");
    assert_eq!(body(&request("GET")), "hello");
    let mut client = h2::Client::new(server.port);
    client.send(&h2::get(1, "/large"));
    let (status, large) = client.answer(1);
    assert_eq!((&status[..], large.len()), ("200", 900_000));
    client.send(&h2::get(3, "/none"));
    assert_eq!(client.answer(3), ("200".into(), b"made for /none".to_vec()));
}

#[test]
fn connections_to_memcached_are_reused() {
    let memcached = Memcached::start();
    memcached.set("/page", 0, b"hello");
    let server = Server::start(&format!(
        "upstream m {{ server 127.0.0.1:{}; keepalive 1; }}
         server {{ listen 127.0.0.1:{{port}}; set $memcached_key $uri;
             location / {{ memcached_pass m; }} }}",
        memcached.port
    ));
    let before = memcached.connections();
    for _ in 0..4 {
        assert_eq!(body(&server.get("/page", "")), "hello");
        assert!(server.get("/none", "").starts_with("HTTP/1.1 404 "));
    }
    // The second question for the number connects as well.
    assert_eq!(memcached.connections() - before, 2);
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut child = Command::new("gzip")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gzip");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(text).expect("sent");
    drop(input);
    child.wait_with_output().expect("packed").stdout
}

#[test]
fn gzip_flag_marks_compressed_values() {
    let memcached = Memcached::start();
    let packed = gzip(b"hello hello hello");
    memcached.set("/packed", 6, &packed);
    memcached.set("/plain", 4, b"plain");
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; set $memcached_key $uri; memcached_gzip_flag 2;
             location / {{ memcached_pass 127.0.0.1:{port}; gunzip on; }}
             location /p {{ memcached_pass 127.0.0.1:{port}; }}
             location = /packed-off {{ set $memcached_key /packed; memcached_gzip_flag 0;
                 memcached_pass 127.0.0.1:{port}; }}
             location = /unpacked {{ set $memcached_key /packed; gunzip on;
                 memcached_pass 127.0.0.1:{port}; }} }}",
        port = memcached.port
    ));
    let ask = |path: &str| {
        let mut stream = server.connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).expect("the response");
        let text = String::from_utf8_lossy(&response).into_owned();
        (text.contains("\r\nContent-Encoding: gzip\r\n"), response)
    };
    let (is_marked, response) = ask("/packed");
    assert!(is_marked && response.ends_with(&packed));
    assert!(!ask("/plain").0 && !ask("/packed-off").0);
    let (is_marked, response) = ask("/unpacked");
    let text = String::from_utf8_lossy(&response);
    assert!(!is_marked && text.contains("hello hello hello"), "{text}");
}

/// The port of a server that sends these bytes for each request, and then closes.
fn fake(response: impl Fn(&str) -> Vec<u8> + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            let _ = stream.write_all(&response(line.trim_end()));
        }
    });
    port
}

#[test]
fn invalid_memcached_responses_are_bad_gateways() {
    let cases: [&[u8]; 14] = [
        b"",
        b"VALUE /2 0 2\r\nok\r\nEND\r\n",
        b"VALUE /1 0 2\r\nok\r\nEND\r\n",
        b"VALUE /3 0\r\nok\r\nEND\r\n",
        b"VALUE /4 x 2\r\nok\r\nEND\r\n",
        b"VALUE /5 0 -2\r\nok\r\nEND\r\n",
        b"VALUE /6 0 2 7\r\nok\r\nEND\r\n",
        b"VALUE /7 0 2\nok\r\nEND\r\n",
        b"ERROR\r\n",
        b"\r\n",
        b"END",
        b"VALUE /11 0 99999999999999999999\r\nok\r\nEND\r\n",
        b"VALUE /12 0 2",
        &[b'x'; 10_000],
    ];
    let port = fake(move |line| {
        let at = line.strip_prefix("get /").expect("a key");
        at.parse::<usize>().map_or_else(
            |_| b"VALUE /ok 0 2\r\nok\r\nEND\r\n".to_vec(),
            |at| cases[at].to_vec(),
        )
    });
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; set $memcached_key $uri; memcached_gzip_flag 1;
             location / {{ memcached_pass 127.0.0.1:{port}; }} }}"
    ));
    for (at, text) in cases.iter().enumerate() {
        let response = server.get(&format!("/{at}"), "");
        let text = String::from_utf8_lossy(text);
        assert!(
            response.starts_with("HTTP/1.1 502 "),
            "{text:?}: {response}"
        );
    }
    assert_eq!(body(&server.get("/ok", "")), "ok");
    site::assert_no_panic(&server.log("error.log"));
}

#[test]
fn bytes_behind_a_value_are_nobodys() {
    let port = fake(|line| {
        let key = line.strip_prefix("get ").expect("a key");
        let rest = match key {
            "/more" => "ok\r\nEND\r\nVALUE /more 0 3\r\nbad\r\nEND\r\n",
            "/wrong" => "ok and more",
            "/cut" => "o",
            "/endless" => return format!("VALUE {key} 0 2\r\nok{}", "y".repeat(1 << 20)).into(),
            _ => "ok",
        };
        format!("VALUE {key} 0 2\r\n{rest}").into_bytes()
    });
    let server = Server::start(&format!(
        "upstream m {{ server 127.0.0.1:{port}; keepalive 4; }}
         server {{ listen 127.0.0.1:{{port}}; set $memcached_key $uri;
             location / {{ memcached_pass m; }} }}"
    ));
    for path in ["/more", "/wrong", "/endless", "/no-end"] {
        for _ in 0..2 {
            let response = server.get(path, "");
            assert!(response.contains("\r\nContent-Length: 2\r\n"), "{response}");
            assert_eq!(body(&response), "ok", "{path}");
        }
    }
    assert_eq!(body(&server.get("/cut", "")), "o");
}

#[test]
fn next_memcached_is_asked_where_the_key_is_missing() {
    let missing = fake(|_| b"END\r\n".to_vec());
    let broken = fake(|_| b"SERVER_ERROR x\r\n".to_vec());
    let good = fake(|_| b"VALUE k 0 2\r\nok\r\nEND\r\n".to_vec());
    let group = |name: &str, first: u16| {
        format!("upstream {name} {{ server 127.0.0.1:{first} max_fails=0; server 127.0.0.1:{good} backup; }}")
    };
    let server = Server::start(&format!(
        "{} {} add_header X-Tried $upstream_status always;
         server {{ listen 127.0.0.1:{{port}}; set $memcached_key k;
             location /missing {{ memcached_pass missing; memcached_next_upstream not_found; }}
             location /broken {{ memcached_pass broken; memcached_next_upstream invalid_response; }}
             location /usual {{ memcached_pass missing; }}
             location /once {{ memcached_pass broken; memcached_next_upstream invalid_response;
                 memcached_next_upstream_tries 1; }} }}",
        group("missing", missing),
        group("broken", broken)
    ));
    for (path, status, tried) in [
        ("/missing", "200", "404, 200"),
        ("/usual", "404", "404"),
        ("/broken", "200", "502, 200"),
        ("/once", "502", "502"),
    ] {
        let response = server.get(path, "");
        let line = format!("HTTP/1.1 {status} ");
        assert!(response.starts_with(&line), "{path}: {response}");
        let tried = format!("\r\nX-Tried: {tried}\r\n");
        assert!(response.contains(&tried), "{path}: {response}");
    }
}

#[test]
fn directives_of_memcached_are_checked() {
    for (line, error) in [
        (
            "set $memcached_key k; memcached_pass 127.0.0.1;",
            "no port in upstream",
        ),
        (
            "memcached_pass 127.0.0.1:1;",
            "unknown \"memcached_key\" variable",
        ),
        (
            "memcached_next_upstream http_500;",
            "invalid value \"http_500\"",
        ),
        ("memcached_gzip_flag x;", "invalid number"),
        ("memcached_buffer_size 64k; memcached_read_timeout 1m;", ""),
    ] {
        let text = format!(
            "events {{ }} http {{ access_log off; server {{ listen 127.0.0.1:1; location / {{ {line} }} }} }}"
        );
        let (is_valid, said) = site::check(&text);
        assert_eq!(is_valid, error.is_empty(), "{line}: {said}");
        assert!(said.contains(error), "{line}: {said}");
    }
}
