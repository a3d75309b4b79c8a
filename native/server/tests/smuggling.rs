//! Requests that two servers could read in two ways: refused, or passed on in the one shape that cannot be.

use crate::common::Server;
use crate::h2::{block, frame, Client, HEADERS};
use crate::h3;
use crate::ports::free_port;
use rustls::pki_types::CertificateDer;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// An upstream that answers every head with an empty 200 and keeps every byte that came.
struct Upstream {
    port: u16,
    came: Arc<Mutex<Vec<u8>>>,
}

impl Upstream {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let came: Arc<Mutex<Vec<u8>>> = Arc::default();
        let kept = came.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = kept.clone();
                std::thread::spawn(move || record(stream, &kept));
            }
        });
        Self { port, came }
    }

    /// What came since the last time.
    fn take(&self) -> String {
        let came = std::mem::take(&mut *self.came.lock().unwrap());
        String::from_utf8_lossy(&came).into_owned()
    }
}

fn record(mut stream: TcpStream, kept: &Mutex<Vec<u8>>) {
    let mut own = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n) = stream.read(&mut buffer) {
        if n == 0 {
            return;
        }
        kept.lock().unwrap().extend_from_slice(&buffer[..n]);
        own.extend_from_slice(&buffer[..n]);
        if own.windows(4).any(|w| w == b"\r\n\r\n") {
            own.clear();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

struct Site {
    _server: Server,
    port: u16,
    quic: u16,
    certificate: CertificateDer<'static>,
    upstream: Upstream,
}

impl Site {
    fn start() -> Self {
        let upstream = Upstream::start();
        let (port, quic) = (free_port(), free_port());
        let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
        let http = format!(
            "http2 on; server {{ listen 127.0.0.1:{port}; listen 127.0.0.1:{quic} quic;\n\
             ssl_certificate %%/cert.pem; ssl_certificate_key %%/key.pem;\n\
             location / {{ proxy_pass http://127.0.0.1:{}; }} }}",
            upstream.port
        );
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let server = Server::start(&http, |folder| {
            std::fs::write(folder.join("cert.pem"), certificate).unwrap();
            std::fs::write(folder.join("key.pem"), key).unwrap();
        });
        let certificate = own.cert.der().clone();
        Self {
            _server: server,
            port,
            quic,
            certificate,
            upstream,
        }
    }

    /// Sends bytes and reads to the end of the connection.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
        // Refused early, the rest of it may find nobody.
        let _ = socket.write_all(bytes);
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// A second request that must never be one.
const SECOND: &str = "GET /second HTTP/1.1\r\nHost: x\r\n\r\n";

/// Field lines that make a request one of two.
const FIELDS: &[&str] = &[
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 5\r\nContent-Length: 5",
    "Content-Length: 5, 5",
    "Content-Length: 5,6",
    "Content-Length: +5",
    "Content-Length: -5",
    "Content-Length: 0x5",
    "Content-Length: 5 5",
    "Content-Length: 5_0",
    "Content-Length: 5.0",
    "Content-Length:",
    "Content-Length: \"5\"",
    "Content-Length: 18446744073709551621",
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunked;q=1",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding: \x0bchunked",
    "Transfer-Encoding:",
    "Transfer-Encoding : chunked",
    "Content-Length : 5",
    "Content-Length\t: 5",
    "X: y\r\n Transfer-Encoding: chunked",
    "X: y\r\n\tContent-Length: 5",
    "Transfer-Encoding:\r\n chunked",
    "X: a\0b",
    "X\0: b",
    "X: a\rContent-Length: 5",
    "X\r: 5",
    "no colon at all",
    ": no name",
    "Host: y",
    "host: x",
];

#[test]
fn ambiguous_header_sections_are_not_forwarded() {
    let site = Site::start();
    for field in FIELDS {
        for end in ["\r\n", "\n"] {
            let head = format!("POST /first HTTP/1.1{end}Host: x{end}{field}{end}{end}");
            let answer = site.raw(format!("{head}hello{SECOND}").as_bytes());
            let is_refused = ["HTTP/1.1 400 ", "HTTP/1.1 501 "];
            assert!(
                is_refused.iter().any(|r| answer.starts_with(r)),
                "{field:?}: {answer}"
            );
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{field:?}");
            assert_eq!(site.upstream.take(), "", "{field:?}");
        }
    }
    for line in [
        "POST  /first HTTP/1.1\r\nHost: x\r\nContent-Length : 5",
        "POST /first HTTP/1.1\r\n Host: x",
        "POST /first HTTP/1.1\r\nContent-Length: 5",
        "POST /first HTTP/1.0\r\nTransfer-Encoding: chunked",
        "POST /fir\0st HTTP/1.1\r\nHost: x",
        "POST /first\rHTTP/1.1\r\nHost: x",
        "POST\0 /first HTTP/1.1\r\nHost: x",
        "PO\nST /first HTTP/1.1\r\nHost: x",
        "POST /first HTTP/1.1\r\nHost: x/y",
        "POST /first HTTP/1.1\r\nHost: x\x01",
    ] {
        let answer = site.raw(format!("{line}\r\n\r\nhello{SECOND}").as_bytes());
        assert!(answer.contains("400 Bad Request"), "{line:?}: {answer}");
        assert_eq!(site.upstream.take(), "", "{line:?}");
    }
}

#[test]
fn ambiguous_chunks_are_not_forwarded() {
    let site = Site::start();
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhelloo\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5_0\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\n\n",
        "5\r\nhello\r\n0\r\nX: y\n\n",
        "g\r\nhello\r\n0\r\n\r\n",
    ] {
        let head = "POST /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = site.raw(format!("{head}{body}{SECOND}").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400 "), "{body:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{body:?}");
        assert_eq!(site.upstream.take(), "", "{body:?}");
    }
}

/// What may be read in one way only reaches an upstream as if it had been written that way.
#[test]
fn accepted_requests_are_forwarded_in_canonical_form() {
    let site = Site::start();
    let own = format!("Host: 127.0.0.1:{}\r\n", site.upstream.port);
    let wanted = format!("POST /first HTTP/1.1\r\n{own}Content-Length: 5\r\n\r\nhello");
    let get = format!("GET /first HTTP/1.1\r\n{own}\r\n");
    let close = "Connection: close";
    let chunked =
        format!("POST /first HTTP/1.1\r\nHost: x\r\n{close}\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (request, wanted) in [
        (format!("POST /first HTTP/1.1\nHost: x\n{close}\nContent-Length: 5\n\nhello"), &wanted),
        (format!("POST /first HTTP/1.1\r\nHost:x\r\n{close}\r\nContent-Length: \t005 \t\r\n\r\nhello"), &wanted),
        (format!("{chunked}5;ext=\"a;b\"\r\nhello\r\n0\r\n\r\n"), &wanted),
        (format!("{chunked}0000005\r\nhello\r\n000;x\r\nContent-Length: 9\r\nX: y\r\n\r\n"), &wanted),
        (format!("{chunked}2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), &wanted),
        (chunked.replace(": chunked", ": CHUNKED") + "5\r\nhello\r\n0\r\n\r\n", &wanted),
        (format!("POST http://x/first HTTP/1.1\r\nHost: x\r\n{close}\r\nContent-Length: 5\r\n\r\nhello"), &wanted),
        (format!("GET /first HTTP/1.1\r\nHost: x\r\n{close}, Content-Length, Transfer-Encoding, Te\r\nTe: trailers\r\n\r\n"), &get),
        (format!("GET /first HTTP/1.1\r\nHost: x\r\n{close}\r\nKeep-Alive: 1\r\nUpgrade: y\r\n\r\n"), &get),
    ] {
        let answer = site.raw(request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200 "), "{request:?}: {answer}");
        assert_eq!(&site.upstream.take(), wanted, "{request:?}");
    }
}

/// Fields that are harmless in HTTP/2 and 3, or seem so, and would not be in HTTP/1.
const LATER: &[(&str, &str)] = &[
    ("transfer-encoding", "chunked"),
    ("connection", "keep-alive"),
    ("keep-alive", "1"),
    ("proxy-connection", "close"),
    ("upgrade", "h2c"),
    ("te", "gzip"),
    ("content-length", "5, 5"),
    ("content-length", "+5"),
    ("content-length", "7"),
    ("x", "a\r\nContent-Length: 5"),
    ("x", "a\nb"),
    ("x", "a\rb"),
    ("x", "a\0b"),
    ("x\r\nTransfer-Encoding", "chunked"),
    ("x: y\r\nz", "a"),
    ("x y", "a"),
    ("x:", "a"),
    ("", "a"),
    ("host", "other"),
    (":path", "/again"),
    (":unknown", "a"),
];

/// The same for the pseudo-fields: method, scheme, authority and path.
const BEGINNINGS: &[[&str; 4]] = &[
    ["POST / HTTP/1.1\r\nX:", "https", "x", "/first"],
    ["PO ST", "https", "x", "/first"],
    ["POST", "https", "x", "/first HTTP/1.1\r\nX: y"],
    ["POST", "https", "x", "/fi\0rst"],
    ["POST", "https", "x\r\nX: y", "/first"],
    ["POST", "https", "x/y", "/first"],
    ["POST", "https", "x y", "/first"],
    ["POST", "https", "x", ""],
    ["POST", "https", "x", "first"],
    ["", "https", "x", "/first"],
];

/// Every head of both lists.
fn later() -> Vec<Vec<(&'static str, &'static str)>> {
    let names = [":method", ":scheme", ":authority", ":path"];
    let usual = ["POST", "https", "x", "/first"];
    let begin = |values: &[&'static str; 4]| names.into_iter().zip(*values).collect::<Vec<_>>();
    let mut all: Vec<_> = BEGINNINGS.iter().map(begin).collect();
    for field in LATER {
        let mut head = begin(&usual);
        head.push(*field);
        all.push(head);
    }
    all
}

#[test]
fn http2_fields_cannot_smuggle_requests() {
    let site = Site::start();
    for head in later() {
        let mut client = Client::new(site.port);
        client.send(&frame(HEADERS, 4, 1, &block(&head)));
        client.send(&frame(0, 1, 1, b"hello"));
        let mut status = String::new();
        while let Some(frame) = client.next() {
            if frame.kind == HEADERS {
                status = client.status(&frame);
            }
            if frame.kind == 3 || (frame.stream == 1 && frame.flags & 1 != 0) {
                break;
            }
        }
        assert!(status.is_empty() || status == "400", "{head:?}: {status}");
        assert_eq!(site.upstream.take(), "", "{head:?}");
    }
}

#[test]
fn http3_fields_cannot_smuggle_requests() {
    let site = Site::start();
    for head in later() {
        let mut client = h3::Client::connect(site.quic, site.certificate.clone());
        client.run("the handshake", |c| c.connected);
        client.greet();
        let id = client.request(&head);
        // DATA (RFC 9114, section 7.2.1).
        client.quic.send_stream(id).write(b"\0\x05hello").unwrap();
        client.quic.send_stream(id).finish().unwrap();
        client.run("an end", |client| {
            let is_over = |a: &h3::Answer| a.done || a.reset.is_some();
            client.closed.is_some() || client.answers.get(&id).is_some_and(is_over)
        });
        let answer = client.answers.get(&id).cloned().unwrap_or_default();
        let status = answer.status;
        assert!(status.is_empty() || status == "400", "{head:?}: {status}");
        assert_eq!(site.upstream.take(), "", "{head:?}");
    }
}
