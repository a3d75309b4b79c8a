//! Where few of `worker_connections` are left, connections that wait for a request make room for new ones.

use crate::h2::{get, Client as Http2, GOAWAY};
use crate::h3;
use crate::site::{read_all, Folder, Server};
use rustls::pki_types::CertificateDer;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// What site::Server gives a worker.
const LIMIT: usize = 256;

struct Site {
    server: Server,
    secure: u16,
    quic: u16,
    certificate: CertificateDer<'static>,
    /// An upstream that answers when the test says so.
    upstream: TcpListener,
}

impl Site {
    fn start() -> Site {
        let upstream = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let to = upstream.local_addr().expect("its address").port();
        let (secure, quic) = (crate::ports::free_port(), crate::ports::free_port());
        let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
        let folder = Folder::new();
        folder.write("cert.pem", &own.cert.pem());
        folder.write("key.pem", &own.signing_key.serialize_pem());
        folder.write("html/a.txt", "content");
        let server = Server::start_in(
            folder,
            &format!(
                "http2 on; server {{ listen 127.0.0.1:{{port}}; listen 127.0.0.1:{secure} ssl;
                     listen 127.0.0.1:{quic} quic; root html; ssl_certificate cert.pem; ssl_certificate_key key.pem;
                     keepalive_timeout 600s; client_header_timeout 600s;
                     location /slow {{ proxy_pass http://127.0.0.1:{to}; }} }}"
            ),
        );
        let certificate = own.cert.der().clone();
        Site {
            server,
            secure,
            quic,
            certificate,
            upstream,
        }
    }

    /// A connection that had an answer and waits for another request.
    fn keep(&self) -> TcpStream {
        let mut stream = self.server.connect();
        stream.write_all(ASK).expect("sent");
        read_answer(&mut stream);
        stream
    }

    fn errors(&self) -> String {
        self.server.log("error.log")
    }
}

const ASK: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n";

fn read_answer(stream: &mut TcpStream) {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while !text.ends_with(b"content") {
        let n = stream.read(&mut buffer).expect("an answer in time");
        assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&buffer[..n]);
    }
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream
        .set_read_timeout(Some(Duration::from_millis(1)))
        .expect("set");
    matches!(stream.read(&mut [0; 1]), Ok(0))
}

const REUSING: &str = "256 worker_connections are not enough, reusing connections";
const DROPPED: &str = "[alert]";

#[test]
fn idle_connections_are_closed_for_new_ones_and_busy_ones_stay() {
    let site = Site::start();
    // A request under way over HTTP/1.1 and one over HTTP/2.
    let mut busy = site.server.connect();
    busy.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let (mut first, _) = site.upstream.accept().expect("a request");
    let mut busy2 = Http2::new(site.server.port);
    busy2.send(&get(1, "/slow"));
    let (mut second, _) = site.upstream.accept().expect("a request");
    // Half a head is no connection that waits.
    let mut half = site.server.connect();
    half.write_all(b"GET /a.txt HTT").expect("sent");
    let mut idle2 = Http2::new(site.server.port);
    idle2.send(&get(1, "/a.txt"));
    assert_eq!(idle2.answer(1).0, "200");
    let mut oldest = site.keep();
    // These ask again now and then.
    let (mut used, mut used2) = (site.keep(), Http2::new(site.server.port));
    let mut flood: Vec<TcpStream> = Vec::new();
    for n in 0..2 * LIMIT {
        if n % 16 == 0 {
            used.write_all(ASK).expect("sent");
            read_answer(&mut used);
            let stream = 1 + n as u32 / 8;
            used2.send(&get(stream, "/a.txt"));
            assert_eq!(used2.answer(stream).0, "200");
        }
        flood.push(match n % 3 {
            0 => site.keep(),
            // They say nothing, with TLS and without.
            1 => site.server.connect(),
            _ => TcpStream::connect(("127.0.0.1", site.secure)).expect("connected"),
        });
    }
    for _ in 0..50 {
        let answer = site.server.get("/a.txt", "");
        assert!(answer.ends_with("content"), "{answer}{}", site.errors());
    }
    assert!(is_closed(&mut oldest));
    let farewell = std::iter::from_fn(|| idle2.next()).find(|frame| frame.kind == GOAWAY);
    assert!(farewell.is_some(), "HTTP/2 clients are told");
    for upstream in [&mut first, &mut second] {
        upstream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow")
            .expect("sent");
    }
    let answer = read_all(&mut busy);
    assert!(answer.ends_with("slow"), "{answer}");
    assert_eq!(busy2.answer(1), ("200".to_string(), b"slow".to_vec()));
    half.write_all(b"P/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let answer = read_all(&mut half);
    assert!(answer.ends_with("content"), "{answer}");
    let errors = site.errors();
    assert!(
        errors.contains(REUSING) && !errors.contains(DROPPED),
        "{errors}"
    );
    // The last ones to come still wait.
    assert!(!is_closed(flood.last_mut().expect("many")));
}

#[test]
fn busy_connections_are_never_closed_for_new_ones() {
    let site = Site::start();
    let mut busy: Vec<TcpStream> = Vec::new();
    for _ in 0..LIMIT {
        let mut stream = site.server.connect();
        stream.write_all(b"GET /a.txt HTT").expect("sent");
        busy.push(stream);
    }
    site.server.wait_for("all to be read", |_| {
        let mut late = site.server.connect();
        is_closed(&mut late) || read_all(&mut late).is_empty() && site.errors().contains(DROPPED)
    });
    let mut late = site.server.connect();
    assert_eq!(read_all(&mut late), "");
    assert!(
        site.errors()
            .contains("256 worker_connections are not enough\n"),
        "{}",
        site.errors()
    );
    for stream in &mut busy {
        stream
            .write_all(b"P/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .expect("sent");
        let answer = read_all(stream);
        assert!(answer.ends_with("content"), "{answer}");
    }
}

#[test]
fn idle_quic_connections_are_closed_for_new_ones() {
    let site = Site::start();
    let mut clients: Vec<h3::Client> = Vec::new();
    for _ in 0..12 {
        let mut client = h3::Client::connect(site.quic, site.certificate.clone());
        client.run("the handshake", |c| c.connected);
        client.greet();
        let id = client.get("/a.txt");
        assert_eq!(client.answer(id).body, b"content");
        // The server is told that all has come.
        let mut turns = 0;
        client.run("an acknowledgement", |_| {
            turns += 1;
            turns > 40
        });
        clients.push(client);
    }
    let _flood: Vec<TcpStream> = (0..2 * LIMIT).map(|_| site.keep()).collect();
    for client in &mut clients {
        client.run("word of the end", |c| c.closed.is_some());
        let reason = client.closed.as_deref().unwrap_or_default();
        assert!(reason.contains("closed by peer"), "{reason}");
    }
    // And the other way round.
    let mut client = h3::Client::connect(site.quic, site.certificate.clone());
    client.run("the handshake", |c| c.connected);
    client.greet();
    let id = client.get("/a.txt");
    assert_eq!(client.answer(id).body, b"content");
    assert!(!site.errors().contains(DROPPED), "{}", site.errors());
}
