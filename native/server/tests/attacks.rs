//! Attacks on a running server: it must hold out in little memory, end the connections that attack, and go
//! on serving others.

use crate::common::Server;
use crate::h2::{
    block, frame, get, Client, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use crate::h3;
use crate::ports::free_port;
use crate::site::Set;
use quinn_proto::Dir;
use rustls::pki_types::CertificateDer;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PRIORITY: u8 = 2;
const CONTINUATION: u8 = 9;
/// ENHANCE_YOUR_CALM (RFC 9113, section 7).
const CALM: [u8; 4] = [0, 0, 0, 11];

/// Kilobytes that an attack may cost the server. A bomb that goes off, or a flood that is kept, takes
/// many times that.
const MOST_KB: u64 = 24 * 1024;
/// Bytes that an attacker has to send.
const FLOOD: usize = 16 << 20;

/// Between two requests of others.
const PAUSE: Duration = Duration::from_millis(20);

/// A server that speaks every version of HTTP.
struct Site {
    server: Server,
    /// Cleartext.
    port: u16,
    quic: u16,
    certificate: CertificateDer<'static>,
}

impl Site {
    fn start(more: &str) -> Self {
        let (port, quic) = (free_port(), free_port());
        let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
        let http = format!(
            "http2 on; server {{ listen 127.0.0.1:{port}; listen 127.0.0.1:{quic} quic; root %%/html;\n\
             ssl_certificate %%/cert.pem; ssl_certificate_key %%/key.pem;\n\
             location = /other {{ return 200 other; }} {more} }}"
        );
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let server = Server::start(&http, |folder| {
            std::fs::write(folder.join("cert.pem"), certificate).unwrap();
            std::fs::write(folder.join("key.pem"), key).unwrap();
            std::fs::create_dir_all(folder.join("html/inner")).unwrap();
            std::fs::write(folder.join("html/large.bin"), vec![7; 4_000_000]).unwrap();
            std::fs::write(folder.join("secret"), "secret").unwrap();
        });
        let certificate = own.cert.der().clone();
        let site = Self {
            server,
            port,
            quic,
            certificate,
        };
        site.ask();
        site
    }

    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
        socket.set_write_timeout(Some(crate::PATIENCE)).unwrap();
        socket
    }

    fn quic(&self) -> h3::Client {
        let mut client = h3::Client::connect(self.quic, self.certificate.clone());
        client.run("the handshake", |c| c.connected);
        client
    }

    /// Somebody else's request.
    fn ask(&self) {
        let mut socket = self.connect();
        let request = b"GET /other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        socket.write_all(request).expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        assert!(answer.ends_with("other"), "{answer}");
    }

    /// The most memory that the worker ever had, in kilobytes.
    fn peak(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// A figure of the worker's memory, in kilobytes (proc(5)).
    fn memory(&self, field: &str) -> u64 {
        let status = format!("/proc/{}/status", self.server.worker());
        let status = std::fs::read_to_string(status).expect("the worker lives");
        let line = status.lines().find_map(|l| l.strip_prefix(field));
        let number = line.and_then(|l| l.trim().strip_suffix(" kB"));
        number.expect("a figure").parse().expect("a number")
    }

    /// Attacks while others go on asking; they must be answered, and memory stay small.
    fn endures(&self, attack: impl FnOnce()) {
        let ask = || {
            let began = Instant::now();
            self.ask();
            began.elapsed()
        };
        let quiet: Vec<Duration> = (0..100).map(|_| ask()).collect();
        let (before, resident) = (self.peak(), self.memory("VmRSS:"));
        let worker = self.server.worker();
        let is_over = AtomicBool::new(false);
        let during = std::thread::scope(|scope| {
            let others = scope.spawn(|| {
                let mut times = Vec::new();
                while !is_over.load(Ordering::Relaxed) || times.is_empty() {
                    times.push(ask());
                    std::thread::sleep(PAUSE);
                }
                times
            });
            let end = Set(&is_over);
            attack();
            drop(end);
            others.join().expect("others are answered")
        });
        self.ask();
        assert_eq!(self.server.worker(), worker, "the worker died");
        let name = std::thread::current()
            .name()
            .unwrap_or_default()
            .to_string();
        println!(
            "attack | {name} | {resident} KB before | {} KB peak | {} KB after | p99 {:.1?} before | {:.1?} during, {} requests",
            self.peak(),
            self.memory("VmRSS:"),
            p99(quiet),
            p99(during.clone()),
            during.len()
        );
        let grown = self.peak() - before;
        assert!(grown < MOST_KB, "{grown} kB more");
    }
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() * 99 / 100]
}

/// Sends pieces from a thread of its own until the socket takes no more, or `FLOOD` bytes are gone; those
/// that were taken.
fn flood(socket: &TcpStream, piece: &[u8]) -> JoinHandle<usize> {
    let mut socket = socket.try_clone().expect("a second handle");
    let many = piece.repeat((16 * 1024 / piece.len()).max(1));
    std::thread::spawn(move || {
        let mut sent = 0;
        while sent < FLOOD && socket.write_all(&many).is_ok() {
            sent += many.len();
        }
        sent
    })
}

/// Reads until the server says that it will end the connection, or ends it; the error that it gives.
fn farewell(client: &mut Client) -> Option<[u8; 4]> {
    let goaway = std::iter::from_fn(|| client.next()).find(|frame| frame.kind == GOAWAY)?;
    goaway.payload[4..8].try_into().ok()
}

/// Floods a connection of HTTP/2 until the server ends it; the error that it gives. Closed with unread
/// bytes, a connection is reset, and what the server said last may be lost.
fn flooded(client: &mut Client, piece: &[u8]) -> Option<[u8; 4]> {
    let flooding = flood(&client.socket, piece);
    let error = farewell(client);
    // It does not matter whether the server was first.
    let _ = client.socket.shutdown(Shutdown::Both);
    let sent = flooding.join().expect("the flood ends");
    assert!(error.is_some() || sent < FLOOD, "{sent} bytes were borne");
    error
}

#[test]
fn floods_of_control_frames_end_the_connection() {
    let site = Site::start("");
    let setting = [0, 3, 0, 0, 0, 100];
    for piece in [
        frame(PING, 0, 0, &[0; 8]),
        frame(SETTINGS, 0, 0, &[]),
        frame(SETTINGS, 0, 0, &setting.repeat(100)),
    ] {
        site.endures(|| {
            let mut client = Client::new(site.port);
            let error = flooded(&mut client, &piece);
            assert!(error.is_none_or(|e| e == CALM), "{error:?}");
        });
    }
}

#[test]
fn frames_without_effect_cost_no_memory() {
    let site = Site::start("");
    for piece in [
        frame(PRIORITY, 0, 0x7fff_fffd, &[0, 0, 0, 0, 1]),
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        frame(0xbb, 0, 0, &[0; 100]),
    ] {
        site.endures(|| {
            let client = Client::new(site.port);
            let flooding = flood(&client.socket, &piece);
            let mut reader = client.socket.try_clone().expect("a second handle");
            let reading = std::thread::spawn(move || {
                // Ended or borne, both will do.
                let _ = std::io::copy(&mut reader, &mut std::io::sink());
            });
            flooding.join().expect("the flood ends");
            let _ = client.socket.shutdown(Shutdown::Both);
            reading.join().expect("all is read");
        });
    }
}

#[test]
fn endless_header_section_ends_the_connection() {
    let site = Site::start("");
    let fields = block(&[("x-more", &"x".repeat(1000))]).repeat(16);
    for piece in [
        frame(CONTINUATION, 0, 1, &fields),
        frame(CONTINUATION, 0, 1, &[]),
    ] {
        site.endures(|| {
            let mut client = Client::new(site.port);
            let mut open = get(1, "/other");
            open[4] = 1;
            client.send(&open);
            flooded(&mut client, &piece);
        });
    }
}

/// A field of 3.9 KB in the table, named again and again by one byte each.
#[test]
fn hpack_bomb_is_rejected() {
    let site = Site::start("");
    site.endures(|| {
        let mut client = Client::new(site.port);
        let value = [b'x'; 3900];
        // With incremental indexing (RFC 7541, section 6.2.1); the length with a prefix of seven bits.
        let literal = [&[0x40, 1, b'x', 0x7f, 0xbd, 0x1d], &value[..]].concat();
        let request = &get(1, "/other")[9..];
        client.send(&frame(HEADERS, 5, 1, &[request, &literal].concat()));
        assert_eq!(client.answer(1).0, "200");
        // The first entry of the table, 61 behind the static ones.
        let bomb = [request, &[0xbe; 16_000][..]].concat();
        for stream in (3..203).step_by(2) {
            if client
                .socket
                .write_all(&frame(HEADERS, 5, stream, &bomb))
                .is_err()
            {
                break;
            }
        }
        let mut answered = 0;
        while let Some(frame) = client.next() {
            if frame.kind == GOAWAY {
                break;
            }
            if frame.kind == HEADERS {
                let status = client.status(&frame);
                assert!(status.starts_with('4'), "{status}");
                answered += 1;
                if answered == 100 {
                    break;
                }
            }
        }
    });
}

/// Windows wide open, a hundred large answers, and nothing is read.
#[test]
fn client_that_does_not_read_is_disconnected() {
    let site = Site::start("send_timeout 500ms;");
    site.endures(|| {
        let mut client = Client::new(site.port);
        let windows = [0, 4, 0x7f, 0xff, 0xff, 0xff];
        client.send(&frame(SETTINGS, 0, 0, &windows));
        let wide = 0x7fff_0000_u32.to_be_bytes();
        client.send(&frame(WINDOW_UPDATE, 0, 0, &wide));
        for stream in (1..200).step_by(2) {
            client.send(&get(stream, "/large.bin"));
        }
        let log = || site.server.errors();
        let deadline = std::time::Instant::now() + crate::PATIENCE;
        // What the kernel holds is all that is left to read once the server has let go.
        let mut probe = [0; 1];
        while client.socket.peek(&mut probe).is_ok() {
            std::thread::sleep(Duration::from_millis(100));
            if client
                .socket
                .write_all(&frame(PING, 0, 0, &[0; 8]))
                .is_err()
            {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{}", log());
        }
    });
}

#[test]
fn silent_client_is_disconnected() {
    let site = Site::start(
        "client_header_timeout 300ms; client_body_timeout 300ms; keepalive_timeout 1s;
         location /post { proxy_pass http://127.0.0.1:1; }",
    );
    let open_head = {
        let mut open = get(1, "/other");
        open[4] = 1;
        open
    };
    let post = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "x"),
        (":path", "/post"),
        ("content-length", "10"),
    ];
    let without_body = frame(HEADERS, 4, 1, &block(&post));
    site.endures(|| {
        for begun in [Vec::new(), open_head, without_body] {
            let mut client = Client::new(site.port);
            client.send(&begun);
            // To the end of the connection.
            while client.next().is_some() {}
        }
        // A byte at a time: the head as a whole has its time.
        let mut slow: Vec<_> = (0..100).map(|_| site.connect()).collect();
        for socket in &mut slow {
            socket
                .write_all(b"GET /other HTTP/1.1\r\nX-Slow: ")
                .expect("sent");
        }
        let deadline = std::time::Instant::now() + crate::PATIENCE;
        while slow.iter_mut().any(|socket| socket.write_all(b"x").is_ok()) {
            assert!(std::time::Instant::now() < deadline, "they go on for ever");
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

#[test]
fn endless_requests_are_rejected() {
    let site = Site::start("location /post { proxy_pass http://127.0.0.1:1; }");
    let head = "POST /post HTTP/1.1\r\nHost: x\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    for (begin, piece) in [
        ("GET /".to_string(), "x"),
        (format!("{head}X-Long: "), "x"),
        (head.to_string(), "X-Many: 1\r\n"),
        (format!("{chunked}1;a="), "x"),
        (chunked.clone() + "0", "0"),
        (format!("{chunked}1\r\nx\r\n0\r\n"), "X-Trailer: 1\r\n"),
    ] {
        site.endures(|| {
            let mut socket = site.connect();
            socket.write_all(begin.as_bytes()).expect("sent");
            let flooding = flood(&socket, piece.as_bytes());
            // The refusal; or the connection is reset, and it was lost. What comes after a refusal is read
            // and thrown away for a while (lingering_close), however much that is.
            let mut answer = [0; 10];
            let is_refused = socket.read_exact(&mut answer).is_ok();
            if is_refused {
                assert_eq!(&answer, b"HTTP/1.1 4", "{begin:?}");
            }
            let _ = socket.shutdown(Shutdown::Both);
            let sent = flooding.join().expect("the flood ends");
            assert!(is_refused || sent < FLOOD, "{begin:?} was borne");
        });
    }
}

#[test]
fn thousands_of_idle_connections_leave_room_for_others() {
    let wanted = raise_limit(4096);
    let site = Site::start("");
    let count = usize::try_from(wanted)
        .unwrap()
        .saturating_sub(1000)
        .min(3000);
    assert!(count >= 1000, "only {wanted} files may be open");
    site.endures(|| {
        let mut idle: Vec<_> = (0..count).map(|_| site.connect()).collect();
        site.ask();
        for socket in &mut idle {
            let request = b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n";
            socket.write_all(request).expect("sent");
        }
        for socket in &mut idle {
            let mut answer = [0; 12];
            socket.read_exact(&mut answer).expect("an answer");
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
    });
}

/// Lets this process, and the servers that it starts, have that many files open; how many they may.
fn raise_limit(wanted: u64) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for what the call writes.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    assert_eq!(got, 0);
    if limit.rlim_cur < wanted {
        limit.rlim_cur = wanted.min(limit.rlim_max);
        // SAFETY: `limit` is a valid limit, not above the hard one.
        let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        assert_eq!(set, 0);
    }
    limit.rlim_cur
}

/// The same bomb for the table of HTTP/3 (RFC 9204).
#[test]
fn qpack_bomb_is_rejected() {
    let site = Site::start("");
    site.endures(|| {
        let mut client = site.quic();
        client.greet();
        let value = [b'x'; 3900];
        // The encoder's stream: a table of 4096 bytes, and an entry named "x".
        let mut encoder = vec![2, 0x3f, 0xe1, 0x1f, 0x41, b'x', 0x7f, 0xbd, 0x1d];
        encoder.extend(value);
        client.uni(&encoder);
        // One entry must be there; then that entry again and again (section 4.5).
        let section = [&[2, 0][..], &[0x80; 8000]].concat();
        let len = (section.len() as u16 | 0x4000).to_be_bytes();
        let bomb = [&[1, len[0], len[1]], &section[..]].concat();
        let mut streams = Vec::new();
        for _ in 0..50 {
            if client.closed.is_none() {
                let id = client.raw(&bomb);
                client.quic.send_stream(id).finish().unwrap();
                streams.push(id);
            }
        }
        client.run("a refusal of each", |client| {
            let is_over = |id| {
                client
                    .answers
                    .get(id)
                    .is_some_and(|a| a.reset.is_some() || a.status.starts_with('4'))
            };
            client.closed.is_some() || streams.iter().all(is_over)
        });
    });
}

/// Frames with the largest numbers there are, and without end.
#[test]
fn floods_of_http3_frames_end_the_connection() {
    let site = Site::start("");
    const LARGEST: [u8; 8] = [0xff; 8];
    let numbered = |kind: u8| [&[kind, 8][..], &LARGEST].concat();
    for frame in [
        // MAX_PUSH_ID, CANCEL_PUSH, GOAWAY and one of no known type (RFC 9114, section 7.2).
        numbered(0x0d),
        numbered(3),
        numbered(7),
        vec![0x21, 0],
    ] {
        site.endures(|| {
            let mut client = site.quic();
            let id = client.quic.streams().open(Dir::Uni).unwrap();
            client.quic.send_stream(id).write(&[0, 4, 0]).unwrap();
            let many = frame.repeat(1000);
            let mut sent = 0;
            client.run("the end", |client| {
                while let Ok(n) = client.quic.send_stream(id).write(&many) {
                    sent += n;
                }
                client.closed.is_some() || sent > 4 << 20
            });
            assert!(client.closed.is_some(), "{frame:?} was borne");
        });
    }
}

/// Ways to say "one folder up" that some server has fallen for.
const UPWARDS: &[&str] = &[
    "/../secret",
    "/inner/../../secret",
    "/%2e%2e/secret",
    "/.%2e/secret",
    "/%2E%2E%2Fsecret",
    "/..%2fsecret",
    "/..%2f..%2fsecret",
    "/inner/..%2f..%2fsecret",
    "/..%5csecret",
    "/..\\secret",
    "/%252e%252e/secret",
    "/%25%32%65%25%32%65/secret",
    "/%c0%ae%c0%ae/secret",
    "/%e0%80%ae%e0%80%ae/secret",
    "/%u002e%u002e/secret",
    "/..;/secret",
    "/....//secret",
    "/..%00/secret",
    "/..%00.html",
    "/.%00./secret",
    "/.%0d./secret",
    "//../secret",
    "/./../secret",
    "/inner//..//../secret",
    "/alias../secret",
    "/alias/../secret",
    "/alias/%2e%2e/secret",
    "/alias..%2fsecret",
    "/regex/../../secret",
    "/regex/..%2f..%2fsecret",
    "/secret",
    "/inner/..",
    "/?/../secret",
    "/#/../secret",
];

#[test]
fn path_notations_never_leave_root() {
    let site = Site::start(
        "location /alias/ { alias %%/html/inner/; } location ~ ^/regex/([^?]*)$ { alias %%/html/inner/$1; }",
    );
    for path in UPWARDS {
        for target in [path.to_string(), format!("http://x{path}")] {
            let mut socket = site.connect();
            let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            socket.write_all(request.as_bytes()).expect("sent");
            let mut answer = Vec::new();
            socket.read_to_end(&mut answer).expect("an answer");
            let answer = String::from_utf8_lossy(&answer);
            assert!(!answer.contains("\r\n\r\nsecret"), "{target}: {answer}");
            assert!(answer.starts_with("HTTP/1.1 "), "{target}: {answer}");
        }
    }
    let mut client = Client::new(site.port);
    for (n, path) in UPWARDS.iter().enumerate() {
        let stream = 2 * n as u32 + 1;
        client.send(&get(stream, path));
        let (status, body) = client.answer(stream);
        assert!(!body.starts_with(b"secret"), "{path}: {status}");
    }
    let mut client = site.quic();
    client.greet();
    for path in UPWARDS {
        let id = client.get(path);
        let answer = client.answer(id);
        assert!(!answer.body.starts_with(b"secret"), "{path}");
    }
}

/// Requests that are given up as soon as they are made, on many connections.
#[test]
fn rapid_resets_cost_little_memory() {
    let site = Site::start("");
    let resets = (0..2000u32).flat_map(|n| {
        let stream = n * 2 + 1;
        let reset = frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
        [get(stream, "/large.bin"), reset].concat()
    });
    let resets: Vec<u8> = resets.collect();
    site.endures(|| {
        for _ in 0..50 {
            let mut client = Client::new(site.port);
            // The server may close before it has taken everything.
            let _ = client.socket.write_all(&resets);
            while client.next().is_some() {}
        }
    });
}

/// Bodies in frames of one byte and of none, as far as the windows go.
#[test]
fn tiny_data_frames_cost_little_memory() {
    let site = Site::start(
        "location /post { client_body_buffer_size 8k; proxy_pass http://127.0.0.1:1; }",
    );
    let post = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "x"),
        (":path", "/post"),
    ];
    let open = frame(HEADERS, 4, 1, &block(&post));
    let bytes = frame(0, 0, 1, b"x").repeat(60_000);
    site.endures(|| {
        let mut clients: Vec<Client> = (0..10).map(|_| Client::new(site.port)).collect();
        for client in &mut clients {
            client.send(&open);
            let _ = client.socket.write_all(&bytes);
        }
        site.ask();
    });
    site.endures(|| {
        let mut client = Client::new(site.port);
        client.send(&open);
        flooded(&mut client, &frame(0, 0, 1, &[]));
    });
}

/// A thousand answers for which the clients open no window.
#[test]
fn stalled_windows_cost_little_memory() {
    let site = Site::start("send_timeout 60s;");
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    site.endures(|| {
        let mut clients: Vec<Client> = (0..10).map(|_| Client::new(site.port)).collect();
        for client in &mut clients {
            client.send(&settings);
            for stream in (1..200).step_by(2) {
                client.send(&get(stream, "/large.bin"));
            }
            let mut heads = 0;
            while heads < 100 {
                heads += u32::from(client.next().expect("a head").kind == HEADERS);
            }
        }
        (0..10).for_each(|_| site.ask());
    });
}
