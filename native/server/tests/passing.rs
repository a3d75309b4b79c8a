//! Requests to upstreams go one of two ways, a quick one where nothing special is asked for. Whatever the
//! upstream does, clients and upstreams must not be able to tell which.

use crate::site::{self, Server};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What keeps a location's requests off the quick way and changes nothing of them.
pub const SLOW: &str = "expires off;";

/// What a server does when it was asked: sends these pieces one by one, and then closes or does not.
struct Script {
    pieces: Vec<Vec<u8>>,
    closes: bool,
}

fn say(text: &str) -> Script {
    Script {
        pieces: vec![text.as_bytes().to_vec()],
        closes: false,
    }
}

fn say_and_close(text: &str) -> Script {
    Script {
        closes: true,
        ..say(text)
    }
}

/// In two pieces, cut at `at`.
fn halves(text: &str, at: usize) -> Script {
    let (a, b) = text.as_bytes().split_at(at);
    Script {
        pieces: vec![a.to_vec(), b.to_vec()],
        closes: false,
    }
}

impl Script {
    /// Leaves what answers a request for the head alone.
    fn cut_bodies(&mut self) {
        let mut seen = Vec::new();
        for piece in &mut self.pieces {
            let before = seen.len();
            seen.extend_from_slice(piece);
            let end = seen.windows(4).position(|w| w == b"\r\n\r\n");
            if let Some(end) = end {
                piece.truncate((end + 4).saturating_sub(before));
            }
        }
        self.pieces.retain(|piece| !piece.is_empty());
    }
}

/// Long enough for the first piece to be read by itself as a rule; nothing depends on it.
const PAUSE: Duration = Duration::from_millis(20);

/// Follows a script; whether the connection goes on.
fn follow(stream: &mut impl Write, script: &Script) -> bool {
    for (i, piece) in script.pieces.iter().enumerate() {
        if i > 0 {
            std::thread::sleep(PAUSE);
        }
        if stream.write_all(piece).is_err() {
            return false;
        }
    }
    !script.closes
}

/// An upstream of HTTP that keeps its connections, and does what the path's last word stands for.
pub fn http_upstream() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            std::thread::spawn(move || serve_http(stream));
        }
    });
    port
}

fn serve_http(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    loop {
        let mut request = Vec::new();
        while !is_asked(&request) {
            match stream.read(&mut buffer) {
                Ok(n) if n > 0 => request.extend_from_slice(&buffer[..n]),
                _ => return,
            }
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        let target = text.split(' ').nth(1).unwrap_or_default();
        let word = target.rsplit('/').next().unwrap_or_default().to_string();
        let mut script = http_script(&word, &text);
        if text.starts_with("HEAD ") && word != "long" {
            script.cut_bodies();
        }
        if !follow(&mut stream, &script) {
            return;
        }
    }
}

/// Whether a request is whole.
fn is_asked(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|l| l.strip_prefix("Content-Length: "))
        .map_or(0, |n| n.parse().expect("a length"));
    body.len() >= length
}

fn http_script(word: &str, request: &str) -> Script {
    let ok = |fields: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}");
    match word {
        "plain" => say(&ok("Content-Length: 5\r\nServer: x\r\nX-A: 1\r\n", "hello")),
        "echo" => {
            // The location's name differs, the rest must not.
            let seen = request.replacen("/quick", "/slow", 1);
            say(&ok(&format!("Content-Length: {}\r\n", seen.len()), &seen))
        }
        "fields" => say(&ok(
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/plain;charset=\"UTF-8\"\r\n\
             Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nETag: \"x\"\r\nX-Pad: y\r\nX-Hide: z\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nAccept-Ranges: bytes\r\n\
             Connection: keep-alive\r\nKeep-Alive: timeout=9\r\nVary: *\r\nContent-Length: 2\r\n",
            "ok",
        )),
        "dates" => say(&ok(
            "Last-Modified: Sunday, 06-Nov-94 08:49:37 GMT\r\nContent-Length: 0\r\n",
            "",
        )),
        "twice" => say(&ok(
            "Expires: Thu, 01 Jan 1970 00:00:01 GMT\r\nExpires: 0\r\nContent-Type: a/b\r\n\
             Content-Type: c/d\r\nContent-Length: 0\r\n",
            "",
        )),
        "accel" => say(&ok("X-Accel-Buffering: no\r\nContent-Length: 2\r\n", "ok")),
        "moved" => say("HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 2\r\n\r\nno"),
        "nothing" => say("HTTP/1.1 204 None\r\nContent-Type: text/html;charset=\"UTF-8\"\r\nX-A: 1\r\n\r\n"),
        "unchanged" => say("HTTP/1.1 304 Same\r\nContent-Length: 7\r\nETag: \"e\"\r\n\r\n"),
        "missing" => say("HTTP/1.1 404 \r\nContent-Length: 2\r\n\r\nno"),
        "broken" => say("HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno"),
        "html" => say(&ok(
            "Content-Type: text/html\r\nContent-Length: 50\r\n",
            &"x".repeat(50),
        )),
        "html-encoded" => say(&ok(
            "Content-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: 50\r\n",
            &"x".repeat(50),
        )),
        "large-echo" => {
            let body = format!("{request}{}", "x".repeat(100_000));
            say(&ok(&format!("Content-Length: {}\r\n", body.len()), &body))
        }
        "hints" => say(&format!(
            "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n{}",
            ok("Content-Length: 2\r\n", "ok")
        )),
        "chunked" => say(&ok(
            "Transfer-Encoding: chunked\r\n",
            "2\r\nok\r\n0\r\n\r\n",
        )),
        "old" => say_and_close("HTTP/1.0 200 OK\r\nX-A: 1\r\n\r\nuntil the end"),
        "last" => say_and_close(&ok("Connection: close\r\nContent-Length: 2\r\n", "ok")),
        "leaves" => say_and_close(&ok("Content-Length: 2\r\n", "ok")),
        "head-cut" => halves(&ok("X-A: 1\r\nContent-Length: 5\r\n", "hello"), 25),
        "body-cut" => halves(&ok("Content-Length: 5\r\n", "hello"), 42),
        "body-late" => halves(&ok("X-A: 1\r\nContent-Length: 5\r\n", "hello"), 46),
        "rest-lost" => Script {
            closes: true,
            ..halves(&ok("X-A: 1\r\nContent-Length: 9\r\n", "hello"), 46)
        },
        "more-than-told" => halves(&ok("X-A: 1\r\nContent-Length: 2\r\n", "hello"), 46),
        "half-large" => halves(&ok("Content-Length: 3000\r\n", &"x".repeat(3000)), 2000),
        "missing-file" => say(
            "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nETag: \"e\"\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nno",
        ),
        "large" => say(&ok("Content-Length: 100000\r\n", &"x".repeat(100_000))),
        "short" => say_and_close(&ok("Content-Length: 9\r\n", "hello")),
        "long" => say(&ok(
            "Content-Length: 3\r\n",
            "helloHTTP/1.1 200 Bad\r\n\r\n",
        )),
        "two-lengths" => say(&ok("Content-Length: 2\r\nContent-Length: 3\r\n", "abc")),
        "both" => say(&ok(
            "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
            "2\r\nok\r\n0\r\n\r\n",
        )),
        "no-http" => say_and_close("hello\r\n\r\n"),
        "big-head" => say(&ok(
            &format!("X-A: {}\r\nContent-Length: 0\r\n", "a".repeat(5000)),
            "",
        )),
        "blanks" => say(&ok(
            "X-Tab:\tone\ttwo\t\r\nX-Blank:  three  \r\nX-None:\r\nX_Odd!name: 4\r\nContent-Length: 2 \r\n",
            "ok",
        )),
        "feeds" => say("HTTP/1.1 200 Fine\nX-A: 1\nContent-Length: 2\n\nok"),
        "no-reason" => say("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"),
        "controls" => say(&ok("X-A: 1\x012\x7f\r\nContent-Length: 2\r\n", "ok")),
        "no-name" => say(&ok(": 1\r\nContent-Length: 2\r\n", "ok")),
        "blank-name" => say(&ok("X A: 1\r\nContent-Length: 2\r\n", "ok")),
        "many-fields" => {
            let fields: String = (0..70).map(|n| format!("X-{n}: {n}\r\n")).collect();
            say(&ok(&format!("{fields}Date: x\r\nContent-Length: 2\r\n"), "ok"))
        }
        "silence" => say_and_close(""),
        _ => say(""),
    }
}

pub const HTTP_WORDS: [&str; 40] = [
    "plain",
    "echo",
    "fields",
    "dates",
    "twice",
    "accel",
    "moved",
    "nothing",
    "unchanged",
    "missing",
    "broken",
    "hints",
    "chunked",
    "old",
    "last",
    "leaves",
    "leaves",
    "head-cut",
    "body-cut",
    "body-late",
    "rest-lost",
    "more-than-told",
    "half-large",
    "missing-file",
    "large",
    "short",
    "long",
    "two-lengths",
    "both",
    "no-http",
    "big-head",
    "blanks",
    "feeds",
    "no-reason",
    "controls",
    "no-name",
    "blank-name",
    "many-fields",
    "silence",
    "plain",
];

/// Words that are answered whatever the method is.
pub const ANY_METHOD: [&str; 9] = [
    "echo",
    "plain",
    "missing",
    "nothing",
    "unchanged",
    "leaves",
    "body-late",
    "large",
    "long",
];

/// An answer over a connection that may go on; what there was where it did not.
fn answer(client: &mut impl Read) -> String {
    answer_to("GET", client)
}

fn answer_to(method: &str, client: &mut impl Read) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 16_384];
    while !is_whole(method, &all) {
        match client.read(&mut buffer) {
            Ok(n) if n > 0 => all.extend_from_slice(&buffer[..n]),
            _ => break,
        }
    }
    let text = String::from_utf8_lossy(&all).into_owned();
    let lines = text.split("\r\n").filter(|l| !l.starts_with("Date: "));
    lines.collect::<Vec<_>>().join("\r\n")
}

fn is_whole(method: &str, answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|l| l.strip_prefix("Content-Length: "));
    let bodiless = head.starts_with("HTTP/1.1 204") || head.starts_with("HTTP/1.1 304");
    let bodiless = bodiless || method == "HEAD";
    match length.and_then(|n| n.parse::<usize>().ok()) {
        _ if bodiless => true,
        Some(n) => body.len() >= n,
        None => head.contains("chunked") && body.ends_with("0\r\n\r\n"),
    }
}

/// Asks for `word` after something that leaves an idle connection to the upstream.
fn ask(server: &Server, place: &str, word: &str, fields: &str) -> String {
    ask_with(&mut server.connect(), "GET", place, word, fields, "")
}

fn ask_with(
    client: &mut (impl Read + Write),
    method: &str,
    place: &str,
    word: &str,
    fields: &str,
    body: &str,
) -> String {
    let start =
        |method: &str, word: &str| format!("{method} /{place}/{word} HTTP/1.1\r\nHost: a\r\n");
    write!(client, "{}\r\n", start("GET", "plain")).expect("sent");
    let first = answer(client);
    assert!(first.contains("hello"), "{first}");
    write!(client, "{}{fields}\r\n{body}", start(method, word)).expect("sent");
    client.flush().expect("sent");
    answer_to(method, client)
}

/// What many a configuration has around its locations.
pub const AROUND: &str = "map $http_x_kind $kind { default usual; big large; }
    geo $near { default no; 127.0.0.0/8 yes; }
    split_clients $remote_addr $part { 50% a; * a; }
    proxy_http_version 1.1; proxy_hide_header X-Hide;
    proxy_set_header X-Real-IP $remote_addr; proxy_set_header Host $host;
    proxy_set_header X-Kind $kind/$near/$part; proxy_set_header Connection '';
    add_header X-Frame-Options SAMEORIGIN; add_header X-Nothing '';
    add_header Strict-Transport-Security 'max-age=9' always; gzip on;";

fn http_server() -> Server {
    http_server_with("")
}

fn http_server_with(more: &str) -> Server {
    let upstream = http_upstream();
    Server::start(&format!(
        "upstream u {{ server 127.0.0.1:{upstream}; keepalive 8; }} {AROUND} {more}
         server {{ listen 127.0.0.1:{{port}};
             location /quick/ {{ proxy_pass http://u; }}
             location /slow/ {{ {SLOW} proxy_pass http://u; }}
             location /quick-near/ {{ proxy_pass http://127.0.0.1:{upstream}; }}
             location /slow-near/ {{ {SLOW} proxy_pass http://127.0.0.1:{upstream}; }} }}"
    ))
}

#[test]
fn fast_path_gives_same_response_for_any_upstream() {
    let server = http_server();
    for word in HTTP_WORDS {
        let quick = ask(&server, "quick", word, "");
        let slow = ask(&server, "slow", word, "");
        assert_eq!(quick, slow, "{word}");
        assert!(quick.starts_with("HTTP/1.1 "), "{word}: {quick}");
    }
    // A type stays as it was written, also where there is no body.
    let nothing = ask(&server, "slow", "nothing", "");
    let kind = "\r\nContent-Type: text/html;charset=\"UTF-8\"\r\n";
    assert!(nothing.contains(kind), "{nothing}");
    let fields = "User-Agent: x\r\nCookie: a=b\r\nConnection: keep-alive\r\nTE: trailers\r\n\
                  Accept: */*\r\nX-Forwarded-For: 1.2.3.4\r\nKeep-Alive: 1\r\n";
    let quick = ask(&server, "quick", "echo", fields);
    assert_eq!(quick, ask(&server, "slow", "echo", fields));
    assert!(
        quick.contains("Cookie: a=b") && !quick.contains("trailers"),
        "{quick}"
    );
    // One of these is compressed.
    for word in ["fields", "html", "html-encoded", "missing", "plain"] {
        let fields = "Accept-Encoding: gzip\r\n";
        let quick = ask(&server, "quick", word, fields);
        let slow = ask(&server, "slow", word, fields);
        assert_eq!(joined(&quick), joined(&slow), "{word}");
        let compressed = quick.contains("\r\nContent-Encoding: gzip\r\n");
        assert_eq!(compressed, word.starts_with("html"), "{quick}");
    }
    let fields = "X-Kind: BIG\r\nAccept-Encoding: gzip\r\n";
    let quick = ask(&server, "quick", "echo", fields);
    assert_eq!(quick, ask(&server, "slow", "echo", fields));
    assert!(quick.contains("X-Kind: large/yes/a\r\n"), "{quick}");
    assert!(
        quick.contains("\r\nX-Frame-Options: SAMEORIGIN\r\n"),
        "{quick}"
    );
}

#[test]
fn fast_path_closes_unkept_connections_alike() {
    let server = http_server();
    for word in HTTP_WORDS {
        let quick = ask(&server, "quick-near", word, "");
        let slow = ask(&server, "slow-near", word, "");
        assert_eq!(quick, slow, "{word}");
    }
}

#[test]
fn fast_path_handles_methods_and_bodies_alike() {
    let server = http_server();
    let length = |n: usize| format!("Content-Length: {n}\r\nContent-Type: a/b\r\n");
    let requests = [
        ("HEAD", String::new(), ""),
        ("OPTIONS", String::new(), ""),
        ("GET", length(3), "a=b"),
        ("POST", length(0), ""),
        ("POST", length(3), "a=b"),
        ("POST", length(3) + "User-Agent: MSIE 6.0\r\n", "a=b"),
        ("PUT", length(3) + "Expect: 100-continue\r\n", "a=b"),
        (
            "DELETE",
            "Transfer-Encoding: chunked\r\n".into(),
            "3\r\na=b\r\n0\r\n\r\n",
        ),
    ];
    for (method, fields, body) in &requests {
        for word in ANY_METHOD {
            let get = |place| ask_with(&mut server.connect(), method, place, word, fields, body);
            let (quick, slow) = (get("quick"), get("slow"));
            assert!(quick.starts_with("HTTP/1.1 "), "{method} {word}: {quick}");
            assert_eq!(quick, slow, "{method} {word}");
        }
    }
}

#[test]
fn fast_path_is_the_same_over_tls() {
    let folder = site::Folder::new();
    let made = rcgen::generate_simple_self_signed(vec!["a".to_string()]).expect("a certificate");
    folder.write("cert.pem", &made.cert.pem());
    folder.write("key.pem", &made.signing_key.serialize_pem());
    let upstream = http_upstream();
    let server = Server::start_in(
        folder,
        &format!(
            "upstream u {{ server 127.0.0.1:{upstream}; keepalive 8; }} {AROUND}
             proxy_set_header X-Tls $ssl_protocol/$ssl_server_name/$https;
             server {{ listen 127.0.0.1:{{port}} ssl; server_name a;
                 ssl_certificate cert.pem; ssl_certificate_key key.pem;
                 location /quick/ {{ proxy_pass http://u; }}
                 location /slow/ {{ {SLOW} proxy_pass http://u; }} }}"
        ),
    );
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    for word in HTTP_WORDS {
        let get = |place| {
            let name = ServerName::try_from("a").expect("a name");
            let tls = ClientConnection::new(config.clone(), name).expect("a client");
            let mut client = StreamOwned::new(tls, server.connect());
            ask_with(&mut client, "GET", place, word, "", "")
        };
        let (quick, slow) = (get("quick"), get("slow"));
        assert!(quick.starts_with("HTTP/1.1 "), "{word}: {quick}");
        assert_eq!(quick, slow, "{word}");
        assert!(
            word != "echo" || quick.contains("X-Tls: TLSv1.3/a/on\r\n"),
            "{quick}"
        );
    }
}

#[test]
fn request_id_stays_the_same_within_request() {
    let upstream = http_upstream();
    let server = Server::start(&format!(
        "upstream u {{ server 127.0.0.1:{upstream}; keepalive 8; }}
         log_format id '$request_id $request_length $request_body'; access_log id.log id;
         proxy_set_header X-Id $request_id; proxy_set_header Host '';
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; }} }}"
    ));
    for word in ["echo", "large-echo"] {
        let fields = "Content-Length: 3\r\n";
        let answer = ask_with(&mut server.connect(), "POST", "x", word, fields, "a=b");
        let id = answer.split("X-Id: ").nth(1).map(|rest| &rest[..32]);
        let id = id.unwrap_or_else(|| panic!("no number: {answer}"));
        server.wait_for("the line", |s| s.log("id.log").contains(id));
        let log = server.log("id.log");
        let line = log.lines().find(|l| l.contains(id)).expect("the line");
        let length = format!("POST /x/{word} HTTP/1.1\r\nHost: a\r\n{fields}\r\na=b").len();
        assert_eq!(line, format!("{id} {length} a=b"));
    }
}

#[test]
fn upstream_request_over_http_1_1_has_one_host() {
    let upstream = http_upstream();
    let none = "proxy_set_header Host $http_x_none; proxy_pass http://u;";
    let server = Server::start(&format!(
        "upstream u {{ server 127.0.0.1:{upstream}; keepalive 8; }}
         server {{ listen 127.0.0.1:{{port}};
             location /quick/ {{ {none} }}
             location /slow/ {{ {SLOW} {none} }}
             location /variable/ {{ set $to u; proxy_set_header Host $http_x_none; proxy_pass http://$to; }}
             location /old/ {{ proxy_http_version 1.0; {none} }}
             location /twice/ {{ proxy_set_header Host a; proxy_set_header X-A b; proxy_set_header Host c;
                 proxy_pass http://u; }} }}"
    ));
    let hosts = |place: &str| {
        let answer = ask(&server, place, "echo", "");
        let (_, request) = answer.split_once("\r\n\r\n").expect("a body");
        let lines = request.lines().filter_map(|l| l.strip_prefix("Host: "));
        lines.map(String::from).collect::<Vec<_>>()
    };
    for place in ["quick", "slow", "variable"] {
        assert_eq!(hosts(place), ["u"], "{place}");
    }
    assert!(hosts("old").is_empty());
    assert_eq!(hosts("twice"), ["c"]);
}

#[test]
fn fast_path_is_logged_alike() {
    let upstream = http_upstream();
    let server = Server::start(&format!(
        "upstream u {{ server 127.0.0.1:{upstream}; keepalive 8; }}
         proxy_http_version 1.1; proxy_set_header Connection '';
         log_format all '$uri $status $bytes_sent $body_bytes_sent $request_length $upstream_addr '
            '$upstream_status $upstream_bytes_received $upstream_response_length $upstream_http_etag '
            '$sent_http_content_type $sent_http_etag $host $request_completion $connection_requests '
            '$sent_http_x_added $sent_http_last_modified';
         add_header X-Added yes;
         server {{ listen 127.0.0.1:{{port}};
             location /quick/ {{ access_log quick.log all; proxy_pass http://u; }}
             location /slow/ {{ access_log slow.log all; {SLOW} proxy_pass http://u; }} }}"
    ));
    let words = [
        "fields",
        "plain",
        "nothing",
        "chunked",
        "large",
        "body-late",
        "missing-file",
        "head-cut",
    ];
    for word in words {
        ask(&server, "quick", word, "");
        ask(&server, "slow", word, "");
    }
    server.wait_for("all lines", |s| {
        let lines = |name: &str| s.log(name).lines().count();
        lines("quick.log") == 2 * words.len() && lines("slow.log") == 2 * words.len()
    });
    let slow = server.log("slow.log").replace("/slow/", "/quick/");
    // The location's name is part of the request's length.
    let shorter = |line: &str| {
        let mut words: Vec<_> = line.split(' ').map(String::from).collect();
        let length: usize = words[4].parse().expect("a length");
        words[4] = (length + 1).to_string();
        words.join(" ")
    };
    let slow: Vec<_> = slow.lines().map(shorter).collect();
    let quick = server.log("quick.log");
    assert_eq!(quick.lines().collect::<Vec<_>>(), slow);
}

#[test]
fn silent_upstream_times_out() {
    let server = http_server_with("proxy_read_timeout 2s;");
    for place in ["quick", "slow"] {
        let late = ask(&server, place, "never", "");
        assert!(late.starts_with("HTTP/1.1 504 "), "{place}: {late}");
    }
    let log = server.log("error.log");
    assert_eq!(log.matches("upstream timed out").count(), 2, "{log}");
}

#[test]
fn disconnected_clients_are_noticed_during_upstream_request() {
    let upstream = http_upstream();
    let server = Server::start(&format!(
        "upstream u {{ server 127.0.0.1:{upstream}; keepalive 8; }}
         proxy_http_version 1.1; proxy_set_header Connection '';
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; }} }}"
    ));
    let mut client = server.connect();
    write!(client, "GET /plain HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    assert!(answer(&mut client).ends_with("hello"));
    write!(client, "GET /never HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    drop(client);
    server.wait_for("the line", |s| {
        let log = s.log("access.log");
        log.contains("GET /never") && log.contains(" 499 ")
    });
}

#[test]
fn pipelined_requests_get_responses_in_order() {
    let server = http_server();
    let mut client = server.connect();
    let get = |word: &str| format!("GET /quick/{word} HTTP/1.1\r\nHost: a\r\n\r\n");
    write!(client, "{}", get("plain")).expect("sent");
    assert!(answer(&mut client).ends_with("hello"));
    // The second comes while the first waits for its answer.
    write!(client, "{}", get("body-cut")).expect("sent");
    write!(client, "{}{}", get("plain"), get("missing")).expect("sent");
    let end = "GET /quick/nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    write!(client, "{end}").expect("sent");
    let all = site::read_all(&mut client);
    let statuses: Vec<_> = all
        .match_indices("HTTP/1.1 ")
        .map(|(at, _)| &all[at + 9..at + 12])
        .collect();
    assert_eq!(statuses, ["200", "200", "404", "204"], "{all}");
}

#[test]
fn last_request_of_connection_gets_close() {
    let upstream = http_upstream();
    let server = Server::start(&format!(
        "upstream u {{ server 127.0.0.1:{upstream}; keepalive 8; }} keepalive_requests 3;
         proxy_http_version 1.1; proxy_set_header Connection '';
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; }} }}"
    ));
    let mut client = server.connect();
    for number in 1..=3 {
        write!(client, "GET /plain HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
        let answer = answer(&mut client);
        assert!(answer.ends_with("hello"), "{answer}");
        let closes = answer.contains("Connection: close");
        assert_eq!(closes, number == 3, "{number}: {answer}");
    }
    assert_eq!(client.read(&mut [0; 1]).expect("the end"), 0);
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    let header = [1, kind, 0, 1, length[0], length[1], 0, 0];
    [&header, content].concat()
}

const STDOUT: u8 = 6;
const STDERR: u8 = 7;

fn end() -> Vec<u8> {
    record(3, &[0; 8])
}

fn said(text: &str) -> Script {
    let all = [record(STDOUT, text.as_bytes()), end()].concat();
    Script {
        pieces: vec![all],
        closes: true,
    }
}

/// A FastCGI application that does what the last word of `SCRIPT` stands for.
pub fn application(path: &Path) {
    let listener = open_to_all(path);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || serve_fastcgi(&mut stream));
        }
    });
}

fn open_to_all(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).expect("a socket");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(path, mode).expect("open to all");
    listener
}

fn serve_fastcgi(stream: &mut UnixStream) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    let ending = record(5, b"");
    while !request.ends_with(&ending) {
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => request.extend_from_slice(&buffer[..n]),
            _ => return,
        }
    }
    follow(stream, &fastcgi_script(&request));
}

fn fastcgi_script(request: &[u8]) -> Script {
    let text = String::from_utf8_lossy(request);
    let after = text.split("WORD").nth(1).unwrap_or_default();
    let word = after.split('.').next().unwrap_or_default();
    let pieces = |all: &[Vec<u8>]| Script {
        pieces: all.to_vec(),
        closes: true,
    };
    let out = |text: &str| record(STDOUT, text.as_bytes());
    match word {
        "plain" => said("Content-Type: text/html; charset=UTF-8\r\nX-A: 1\r\n\r\nhello"),
        "echo" => said(&format!("X-A: 1\r\n\r\n{:?}", request)),
        "empty" => said("X-A: 1\r\n\r\n"),
        "status" => said("Status: 404 Not Here\nX-A: 1\n\nno"),
        "nothing" => said("Status: 204 None\r\nContent-Type: a/b;charset=c\r\n\r\n"),
        "moved" => said("Location: http://a/b\r\n\r\n"),
        "length" => said("Content-Length: 5\r\n\r\nhello"),
        "short" => said("Content-Length: 9\r\n\r\nhello"),
        "long" => said("Content-Length: 2\r\n\r\nhello"),
        "pieces" => pieces(&[[out("X-A: 1\r\n"), out("\r\nhel"), out("lo"), end()].concat()]),
        "cut" => pieces(&[out("X-A: 1\r\n\r\nhel"), [out("lo"), end()].concat()]),
        "stderr" => {
            let complaint = record(STDERR, b"oh no");
            pieces(&[[complaint, out("X-A: 1\r\n\r\nhello"), end()].concat()])
        }
        "large" => said(&format!("X-A: 1\r\n\r\n{}", "x".repeat(50_000))),
        "more" => pieces(&[[out("X-A: 1\r\n\r\nhello"), end(), out("late"), end()].concat()]),
        "ends-first" => pieces(&[[out(""), out("X-A: 1\r\n\r\nhello"), end()].concat()]),
        "bad-end" => pieces(&[[out("X-A: 1\r\n\r\nhello"), record(3, b"?")].concat()]),
        "no-end" => pieces(&[out("X-A: 1\r\n\r\nhello")]),
        "no-head" => pieces(&[[out("X-A: 1\r\n"), end()].concat()]),
        "wrong" => pieces(&[b"what is this, a web server?".to_vec()]),
        _ => pieces(&[]),
    }
}

#[test]
fn fast_path_gives_same_response_for_any_application() {
    let folder = site::Folder::new();
    let socket = folder.0.join("app.sock");
    application(&socket);
    let socket = site::path(&socket).to_string();
    let location = |place: &str, more: &str| {
        format!(
            "location ~ ^/{place}/(.*)$ {{ {more} fastcgi_pass unix:{socket};
               fastcgi_param WORD $1.; fastcgi_param METHOD $request_method;
               fastcgi_param QUERY $query_string if_not_empty;
               fastcgi_param ROOT $document_root; }}"
        )
    };
    let (quick, slow) = (location("quick", ""), location("slow", SLOW));
    let http = format!("server {{ listen 127.0.0.1:{{port}}; {quick} {slow} }}");
    let server = Server::start_in(folder, &http);
    let words = [
        "plain",
        "echo",
        "empty",
        "status",
        "nothing",
        "moved",
        "length",
        "short",
        "long",
        "pieces",
        "cut",
        "stderr",
        "large",
        "more",
        "bad-end",
        "ends-first",
        "no-end",
        "no-head",
        "wrong",
        "silence",
        "plain",
    ];
    let fields = "Cookie: a=b\r\nX-A: 1\r\nx-a: 2\r\nAccept: */*\r\n";
    for word in words {
        let quick = ask(&server, "quick", word, fields);
        let slow = ask(&server, "slow", word, fields);
        assert!(quick.starts_with("HTTP/1.1 "), "{word}: {quick}");
        assert_eq!(joined(&quick), joined(&slow), "{word}");
    }
    // What comes behind the end is nobody's.
    let more = joined(&ask(&server, "slow", "more", ""));
    assert!(more.ends_with("\r\n\r\nhellothe end"), "{more}");
    let ended = ask(&server, "slow", "ends-first", "");
    assert!(ended.starts_with("HTTP/1.1 502 "), "{ended}");
    let malformed = joined(&ask(&server, "slow", "bad-end", ""));
    assert!(malformed.ends_with("\r\n\r\nhellothe end"), "{malformed}");
}

/// php-fpm closes its side when it has said all, and waits for the other.
#[test]
fn application_that_reads_to_the_end_gets_end_of_body() {
    let folder = site::Folder::new();
    let socket = folder.0.join("app.sock");
    let listener = open_to_all(&socket);
    let (ends, found) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let patience = Some(Duration::from_secs(5));
            stream.set_read_timeout(patience).expect("a limit");
            serve_fastcgi(&mut stream);
            stream
                .shutdown(Shutdown::Write)
                .expect("closed on this side");
            let end = stream.read(&mut [0; 1]);
            ends.send(end.map_err(|e| e.kind())).expect("somebody asks");
        }
    });
    let server = Server::start_in(
        folder,
        &format!(
            "server {{ listen 127.0.0.1:{{port}};
               location ~ ^/quick/(.*)$ {{ fastcgi_pass unix:{}; fastcgi_param WORD $1.; }} }}",
            site::path(&socket)
        ),
    );
    let mut client = server.connect();
    // The second is more than the quick way is for.
    for word in ["plain", "stderr", "plain"] {
        write!(client, "GET /quick/{word} HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
        let answer = answer(&mut client);
        assert!(answer.contains("200 OK"), "{word}: {answer}");
        assert_eq!(found.recv().expect("it is told"), Ok(0), "{word}");
    }
}

/// An answer with its chunks joined: where they are cut is for the reads to decide.
fn joined(answer: &str) -> String {
    let Some((head, mut rest)) = answer.split_once("\r\n\r\n") else {
        return answer.into();
    };
    if !head.contains("chunked") {
        return answer.into();
    }
    let mut out = format!("{head}\r\n\r\n");
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk's size");
        let Some((data, next)) = after.split_at_checked(size) else {
            return out + after;
        };
        out += data;
        rest = next.strip_prefix("\r\n").unwrap_or(next);
        if size == 0 {
            return out + "the end";
        }
    }
    out + rest
}
