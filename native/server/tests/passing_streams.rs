//! The quick way to upstreams and the general one must not be told apart by clients of HTTP/2 and HTTP/3 either.

use crate::h2::{self, block, frame, HEADERS, RST_STREAM, SETTINGS};
use crate::h3;
use crate::passing::{application, http_upstream, ANY_METHOD, AROUND, HTTP_WORDS, SLOW};
use crate::ports::free_port;
use crate::site::{self, Folder, Server};
use rustls::pki_types::CertificateDer;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{channel, Receiver};

/// What a client sends besides its request line.
type Fields<'a> = &'a [(&'a str, &'a str)];

/// A client of one of both versions.
trait Client {
    /// The whole answer as text, but for its date; how it ended where it did not come whole.
    fn ask(&mut self, method: &str, path: &str, fields: Fields<'_>) -> String;
}

fn request<'a>(method: &'a str, path: &'a str, fields: Fields<'a>) -> Vec<(&'a str, &'a str)> {
    let line = [
        (":method", method),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", path),
    ];
    [&line, fields].concat()
}

fn described(fields: &[(String, String)], body: &[u8], end: &str) -> String {
    let fields = fields.iter().filter(|(name, _)| name != "date");
    let lines: String = fields.map(|(n, v)| format!("{n}: {v}\n")).collect();
    format!("{lines}\n{}{end}", String::from_utf8_lossy(body))
}

/// HTTP/2 on one connection.
struct Http2 {
    client: h2::Client,
    next: u32,
}

impl Http2 {
    fn new(server: &Server) -> Http2 {
        Http2 {
            client: h2::Client::new(server.port),
            next: 1,
        }
    }

    /// Sends a request on a new stream.
    fn send(&mut self, method: &str, path: &str, fields: Fields<'_>) -> u32 {
        let stream = self.next;
        self.next += 2;
        let block = block(&request(method, path, fields));
        self.client.send(&frame(HEADERS, 5, stream, &block));
        stream
    }

    fn answer(&mut self, stream: u32) -> String {
        let (mut fields, mut body) = (Vec::new(), Vec::new());
        loop {
            let Some(frame) = self.client.next() else {
                return described(&fields, &body, "closed");
            };
            if frame.stream != stream {
                continue;
            }
            let ends = frame.flags & 1 != 0;
            match frame.kind {
                HEADERS => fields.extend(self.client.fields(&frame)),
                0 => {
                    body.extend_from_slice(&frame.payload);
                    self.client.open_windows(stream, frame.payload.len(), ends);
                }
                RST_STREAM => return described(&fields, &body, "reset"),
                _ => {}
            }
            if ends && matches!(frame.kind, 0 | HEADERS) {
                return described(&fields, &body, "whole");
            }
        }
    }
}

impl Client for Http2 {
    fn ask(&mut self, method: &str, path: &str, fields: Fields<'_>) -> String {
        let stream = self.send(method, path, fields);
        self.answer(stream)
    }
}

/// HTTP/3 on one connection.
struct Http3(h3::Client);

impl Http3 {
    fn new(port: u16, authority: CertificateDer<'static>) -> Http3 {
        let mut client = h3::Client::connect(port, authority);
        client.run("the handshake", |client| client.connected);
        client.greet();
        Http3(client)
    }
}

impl Client for Http3 {
    fn ask(&mut self, method: &str, path: &str, fields: Fields<'_>) -> String {
        let id = self.0.request(&request(method, path, fields));
        self.0.quic.send_stream(id).finish().expect("the end");
        let answer = self.0.answer(id);
        // Of a stream that was reset the client may have what came before, or not.
        if answer.reset.is_some() {
            return "reset".into();
        }
        let status = (":status".to_string(), answer.status);
        described(
            &[vec![status], answer.fields].concat(),
            &answer.body,
            "whole",
        )
    }
}

/// An upstream that has its connections answered by the test, which gets each when a request has come.
fn patient_upstream() -> (u16, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let (told, asked) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(n) if n > 0 => request.extend_from_slice(&buffer[..n]),
                    _ => break,
                }
            }
            if told.send(stream).is_err() {
                return;
            }
        }
    });
    (port, asked)
}

const LOCATIONS: &str = "location /quick/ { proxy_pass http://u; }";

fn locations(upstream: u16) -> String {
    format!(
        "{LOCATIONS} location /slow/ {{ {SLOW} proxy_pass http://u; }}
         location /quick-near/ {{ proxy_pass http://127.0.0.1:{upstream}; }}
         location /slow-near/ {{ {SLOW} proxy_pass http://127.0.0.1:{upstream}; }}"
    )
}

fn http2_server(more: &str) -> Server {
    let upstream = http_upstream();
    let locations = locations(upstream);
    Server::start(&format!(
        "upstream u {{ server 127.0.0.1:{upstream}; keepalive 8; }} {AROUND} {more} http2 on;
         server {{ listen 127.0.0.1:{{port}}; {locations} }}"
    ))
}

/// A server of HTTP/3 with this in its server block, and its client.
fn http3_server(folder: Folder, around: &str, locations: &str) -> (Server, Http3) {
    let made = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]);
    let made = made.expect("a certificate");
    folder.write("cert.pem", &made.cert.pem());
    folder.write("key.pem", &made.signing_key.serialize_pem());
    let port = free_port();
    let server = Server::start_in(
        folder,
        &format!(
            "{around} server {{ listen 127.0.0.1:{{port}}; listen 127.0.0.1:{port} quic;
             ssl_certificate cert.pem; ssl_certificate_key key.pem; {locations} }}"
        ),
    );
    let client = Http3::new(port, made.cert.der().clone());
    (server, client)
}

/// Fields of many a request.
const USUAL: Fields<'static> = &[
    ("user-agent", "x"),
    ("cookie", "a=b"),
    ("accept", "*/*"),
    ("cookie", "c=d"),
    ("x-kind", "BIG"),
    ("x-forwarded-for", "1.2.3.4"),
    ("te", "trailers"),
];

/// Words that an upstream of either kind knows.
const FEW: &[&str] = &["plain", "echo", "nothing", "large"];

/// Words whose answers may be compressed, or are already, or are too short.
const COMPRESSED: &[&str] = &["html", "html-encoded", "plain"];

/// Has the same requests go both ways.
fn compare(client: &mut impl Client, quick: &str, slow: &str, words: &[&str]) {
    let requests: [(&str, Fields<'_>, &[&str]); 6] = [
        ("GET", USUAL, words),
        ("HEAD", &[], &ANY_METHOD),
        ("GET", &[("accept-encoding", "gzip")], COMPRESSED),
        ("GET", &[], FEW),
        ("POST", USUAL, FEW),
        ("DELETE", &[("content-length", "0")], FEW),
    ];
    for (method, fields, words) in requests {
        for word in words {
            let mut ask = |place: &str| {
                // It leaves an idle connection to the upstream.
                let first = client.ask("GET", &format!("/{place}/plain"), &[]);
                assert!(first.ends_with("hellowhole"), "{first}");
                client.ask(method, &format!("/{place}/{word}"), fields)
            };
            let (quick, slow) = (ask(quick), ask(slow));
            assert!(!quick.ends_with("closed"), "{method} {word}: {quick}");
            assert_eq!(quick, slow, "{method} {word}");
        }
    }
}

#[test]
fn fast_path_is_the_same_over_http2() {
    let server = http2_server("");
    let client = &mut Http2::new(&server);
    compare(client, "quick", "slow", &HTTP_WORDS);
    let near = ["echo", "plain", "leaves", "silence", "large", "head-cut"];
    compare(client, "quick-near", "slow-near", &near);
    let echo = client.ask("GET", "/quick/echo", USUAL);
    assert!(echo.contains("\r\ncookie: a=b; c=d\r\n"), "{echo}");
    assert!(echo.contains("\r\nX-Kind: large/yes/a\r\n"), "{echo}");
    assert!(echo.contains("\nx-frame-options: SAMEORIGIN\n"), "{echo}");
}

#[test]
fn fast_path_is_the_same_over_http3() {
    let upstream = http_upstream();
    let around = format!("upstream u {{ server 127.0.0.1:{upstream}; keepalive 8; }} {AROUND}");
    let (_server, mut client) = http3_server(Folder::new(), &around, &locations(upstream));
    compare(&mut client, "quick", "slow", &HTTP_WORDS);
}

/// What applications do, see [`application`].
const APPLICATION_WORDS: [&str; 17] = [
    "plain", "echo", "empty", "status", "nothing", "moved", "length", "short", "long", "pieces",
    "cut", "stderr", "large", "no-end", "no-head", "wrong", "silence",
];

/// Locations whose requests an application gets.
fn applications(folder: &Folder) -> String {
    let socket = folder.0.join("app.sock");
    application(&socket);
    let socket = site::path(&socket).to_string();
    let location = |place: &str, more: &str| {
        format!(
            "location ~ ^/{place}/(.*)$ {{ {more} fastcgi_pass unix:{socket};
               fastcgi_param WORD $1.; fastcgi_param METHOD $request_method; }}"
        )
    };
    location("quick", "") + &location("slow", SLOW)
}

#[test]
fn fast_path_gives_same_application_responses_on_streams() {
    let folder = Folder::new();
    let locations = applications(&folder);
    let around = "http2 on;";
    let (server, mut http3) = http3_server(folder, around, &locations);
    compare(&mut http3, "quick", "slow", &APPLICATION_WORDS);
    let client = &mut Http2::new(&server);
    compare(client, "quick", "slow", &APPLICATION_WORDS);
}

#[test]
fn waiting_streams_get_their_own_responses() {
    let server = http2_server("");
    let mut client = Http2::new(&server);
    let words: Vec<&str> = HTTP_WORDS.into_iter().filter(|w| *w != "large").collect();
    let mut single = Http2::new(&server);
    let expected: Vec<String> = words
        .iter()
        .map(|word| single.ask("GET", &format!("/slow/{word}"), &[("x-a", word)]))
        .collect();
    // Answers come in any order: each stream's own frames are kept.
    let streams: Vec<u32> = words
        .iter()
        .map(|word| client.send("GET", &format!("/quick/{word}"), &[("x-a", word)]))
        .collect();
    let mut frames = Vec::new();
    let ends = |f: &h2::Frame| f.kind == RST_STREAM || f.flags & 1 != 0 && f.kind <= HEADERS;
    let mut left = streams.len();
    while left > 0 {
        let frame = client.client.next().expect("a frame");
        if frame.stream == 0 {
            continue;
        }
        let fields = match frame.kind {
            HEADERS => client.client.fields(&frame),
            _ => Vec::new(),
        };
        left -= usize::from(ends(&frame));
        frames.push((frame, fields));
    }
    for ((stream, expected), word) in streams.iter().zip(expected).zip(words) {
        let (mut fields, mut body, mut end) = (Vec::new(), Vec::new(), "whole");
        for (frame, more) in frames.iter().filter(|(f, _)| f.stream == *stream) {
            fields.extend_from_slice(more);
            match frame.kind {
                0 => body.extend_from_slice(&frame.payload),
                RST_STREAM => end = "reset",
                _ => {}
            }
        }
        assert_eq!(described(&fields, &body, end), expected, "{word}");
    }
}

#[test]
fn fast_path_respects_flow_control() {
    let server = http2_server("");
    let mut answers = ["quick", "slow"].map(|place| {
        let mut client = Http2::new(&server);
        // Streams begin with windows of 10 bytes.
        client
            .client
            .send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 10]));
        let first = client.ask("GET", &format!("/{place}/plain"), &[]);
        assert!(first.ends_with("hellowhole"), "{first}");
        client.ask("GET", &format!("/{place}/html"), &[])
    });
    assert!(answers[0].ends_with(&format!("{}whole", "x".repeat(50))));
    answers.sort();
    assert_eq!(answers[0], answers[1]);
}

const LOGGED: &str = "log_format all '$uri $status $bytes_sent $body_bytes_sent $request_length \
    $upstream_addr $upstream_status $upstream_bytes_received $upstream_response_length \
    $upstream_http_etag $sent_http_content_type $sent_http_etag $host $request_completion \
    $sent_http_x_frame_options $sent_http_last_modified $server_protocol';";

#[test]
fn stream_requests_are_logged_alike() {
    let (upstream, (silent, asked)) = (http_upstream(), patient_upstream());
    let server = Server::start(&format!(
        "upstream u {{ server 127.0.0.1:{upstream}; keepalive 8; }} {AROUND} {LOGGED} http2 on;
         server {{ listen 127.0.0.1:{{port}};
             location /aaaaa/ {{ access_log quick.log all; proxy_pass http://u;
                 location /aaaaa/never {{ proxy_pass http://127.0.0.1:{silent}; }} }}
             location /ccccc/ {{ access_log slow.log all; {SLOW} proxy_pass http://u;
                 location /ccccc/never {{ proxy_pass http://127.0.0.1:{silent}; }} }} }}"
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
    let mut busy = Vec::new();
    for place in ["aaaaa", "ccccc"] {
        let mut client = Http2::new(&server);
        for word in words {
            client.ask("GET", &format!("/{place}/{word}"), &[]);
        }
        // Given up while the upstream works.
        let stream = client.send("GET", &format!("/{place}/never"), &[]);
        busy.push(asked.recv_timeout(crate::PATIENCE).expect("a request"));
        client
            .client
            .send(&frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
        client.ask("GET", &format!("/{place}/plain"), &[]);
        // The connection is lost.
        client.send("GET", &format!("/{place}/never"), &[]);
        busy.push(asked.recv_timeout(crate::PATIENCE).expect("a request"));
    }
    let count = words.len() + 3;
    server.wait_for("all lines", |s| {
        let lines = |name: &str| s.log(name).lines().count();
        lines("quick.log") == count && lines("slow.log") == count
    });
    let sorted = |log: String| {
        let mut lines: Vec<_> = log.lines().map(String::from).collect();
        lines.sort();
        lines
    };
    let slow = sorted(server.log("slow.log").replace("/ccccc/", "/aaaaa/"));
    assert_eq!(sorted(server.log("quick.log")), slow);
    let given_up = slow.iter().filter(|l| l.contains("/never 499 "));
    assert_eq!(given_up.count(), 2, "{slow:?}");
}

#[test]
fn silent_upstream_times_out_on_streams() {
    let server = http2_server("proxy_read_timeout 2s;");
    let mut client = Http2::new(&server);
    for place in ["quick", "slow"] {
        let late = client.ask("GET", &format!("/{place}/never"), &[]);
        assert!(late.starts_with(":status: 504\n"), "{place}: {late}");
    }
    let log = server.log("error.log");
    assert_eq!(log.matches("upstream timed out").count(), 2, "{log}");
}

#[test]
fn waiting_stream_gets_response_during_shutdown() {
    let (upstream, asked) = patient_upstream();
    let server = Server::start(&format!(
        "upstream u {{ server 127.0.0.1:{upstream}; keepalive 8; }} {AROUND} http2 on;
         server {{ listen 127.0.0.1:{{port}}; {LOCATIONS} }}"
    ));
    let mut client = Http2::new(&server);
    let stream = client.send("GET", "/quick/x", &[]);
    let mut connection = asked.recv_timeout(crate::PATIENCE).expect("a request");
    server.signal("QUIT");
    server.wait_for("the signal", |s| {
        s.log("error.log").contains("gracefully shutting down")
    });
    connection
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        .expect("sent");
    let answer = client.answer(stream);
    assert!(answer.ends_with("hellowhole"), "{answer}");
}
