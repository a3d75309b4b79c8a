//! A worker that panics or dies costs its own connections and nothing else: it is logged, and another one
//! takes its place. Configured values do not make one panic.

use crate::common::Server;
use crate::h2;
use crate::h3;
use crate::ports::free_port;
use crate::site::check;
use rustls::pki_types::CertificateDer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A server that speaks every version of HTTP.
struct Site {
    server: Server,
    /// Cleartext.
    port: u16,
    quic: u16,
    certificate: CertificateDer<'static>,
}

const SECOND: Duration = Duration::from_secs(1);

impl Site {
    fn start(main: &str, http: &str, locations: &str) -> Self {
        let (port, quic) = (free_port(), free_port());
        let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
        let http = format!(
            "{http} http2 on; server {{ listen 127.0.0.1:{port} reuseport; listen 127.0.0.1:{quic} quic reuseport;\n\
             root %%/html; ssl_certificate %%/cert.pem; ssl_certificate_key %%/key.pem;\n\
             location = /alive {{ return 200 alive; }} {locations} }}"
        );
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let server = Server::start_with(main, &http, |folder| {
            std::fs::write(folder.join("cert.pem"), certificate).unwrap();
            std::fs::write(folder.join("key.pem"), key).unwrap();
            std::fs::create_dir_all(folder.join("html")).unwrap();
            std::fs::write(folder.join("html/index.html"), "index").unwrap();
        });
        let certificate = own.cert.der().clone();
        Self {
            server,
            port,
            quic,
            certificate,
        }
    }

    /// Sends a request on a connection of its own; what came before the server closed the connection.
    fn http1(&self, path: &str) -> String {
        let mut socket = self.connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let mut answer = Vec::new();
        // The worker may be gone before all is sent or read.
        let _ = socket.write_all(request.as_bytes());
        let _ = socket.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
        socket
    }

    /// Status and body over HTTP/2; `None`: the stream was reset.
    fn http2(&self, path: &str) -> Option<(String, Vec<u8>)> {
        let mut client = h2::Client::new(self.port);
        client.send(&h2::get(1, path));
        let mut status = String::new();
        let mut body = Vec::new();
        loop {
            let frame = client.next()?;
            match frame.kind {
                h2::RST_STREAM => return None,
                h2::HEADERS => status = client.status(&frame),
                0 => body.extend_from_slice(&frame.payload),
                _ => continue,
            }
            if frame.flags & 1 != 0 {
                return Some((status, body));
            }
        }
    }

    fn http3(&self) -> h3::Client {
        let mut client = h3::Client::connect(self.quic, self.certificate.clone());
        client.run("the handshake", |client| client.connected);
        client.greet();
        client
    }

    fn is_alive(&self) -> bool {
        self.http1("/alive").ends_with("alive")
    }

    fn panics(&self) -> usize {
        self.server.errors().matches("panicked at").count()
    }

    /// Has the worker panic that takes a request over this version of HTTP.
    fn panic_over(&self, version: u32) {
        match version {
            1 => assert_eq!(self.http1("/fault/panic"), ""),
            2 => assert_eq!(self.http2("/fault/panic"), None),
            _ => {
                let before = self.panics();
                let mut client = self.http3();
                client.get("/fault/panic");
                client.run("the panic", |_| self.panics() > before);
            }
        }
    }

    /// Descriptors that the worker process has open.
    fn descriptors(&self) -> usize {
        let list = format!("/proc/{}/fd", self.server.worker());
        std::fs::read_dir(list).expect("the worker lives").count()
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + crate::PATIENCE;
        while !is_so(self) {
            let errors = self.server.errors();
            assert!(Instant::now() < deadline, "{what} did not come:\n{errors}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn worker_ends_if_master_is_killed_while_worker_starts() {
    // The worker loads the certificate of each server before it is ready, which takes a while.
    let servers: String = (0..300)
        .map(|n| {
            format!(
                "server {{ listen 127.0.0.1:{} ssl; server_name n{n};\n\
                 ssl_certificate %%/cert.pem; ssl_certificate_key %%/key.pem; }}\n",
                free_port()
            )
        })
        .collect();
    let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
    let mut server = Server::start(&servers, |folder| {
        std::fs::write(folder.join("cert.pem"), own.cert.pem()).unwrap();
        std::fs::write(folder.join("key.pem"), own.signing_key.serialize_pem()).unwrap();
    });
    let worker = server.worker();
    server.kill();
    let deadline = Instant::now() + crate::PATIENCE;
    while std::path::Path::new(&format!("/proc/{worker}")).exists() {
        assert!(Instant::now() < deadline, "worker {worker} runs on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Locations, and what nginx 1.22 answers there; an empty status: it closes the connection.
const STATUSES: [(&str, &str, &str); 22] = [
    ("return 0", "000", ""),
    ("return 0 text", "000", "text"),
    ("return 1 text", "001", "text"),
    ("return 99 x", "099", "x"),
    ("return 99", "099", ""),
    ("return 100 x", "100", "x"),
    ("return 103", "103", ""),
    ("return 299 x", "299", "x"),
    ("return 600 x", "600", "x"),
    ("return 999", "999", ""),
    ("try_files $uri =0", "404", "..."),
    ("try_files $uri =99", "", ""),
    ("try_files $uri =100", "", ""),
    ("try_files $uri =200", "", ""),
    ("try_files $uri =999", "999", ""),
    ("error_page 404 =99 /index.html", "099", "index"),
    ("error_page 404 =0 /index.html", "200", "index"),
    ("error_page 404 = /index.html", "200", "index"),
    ("error_page 404 =100 /index.html", "100", "index"),
    ("error_page 404 =204 /index.html", "204", ""),
    ("error_page 404 =999 /index.html", "999", "index"),
    ("error_page 404 =600 http://x/", "302", "..."),
];

#[test]
fn status_outside_100_to_599_matches_nginx_in_every_version() {
    let locations = STATUSES
        .iter()
        .enumerate()
        .map(|(n, (directive, ..))| format!("location /{n} {{ {directive}; }}\n"));
    let locations = locations.collect::<Vec<_>>().concat();
    let site = Site::start("", "", &locations);
    let mut quic = site.http3();
    for (n, (directive, status, body)) in STATUSES.iter().enumerate() {
        let path = format!("/{n}");
        let is_body = |found: &str| found == *body || *body == "..." && !found.is_empty();
        let first = site.http1(&path);
        let second = site.http2(&path);
        let id = quic.get(&path);
        if status.is_empty() {
            assert_eq!((first, second), (String::new(), None), "{directive}");
            quic.run("a reset", |c| {
                c.answers.get(&id).is_some_and(|a| a.reset.is_some())
            });
            continue;
        }
        let (head, text) = first.split_once("\r\n\r\n").expect("a head");
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{directive}: {head}"
        );
        assert!(is_body(text), "{directive}: {text}");
        let (code, text) = second.expect("an answer");
        assert_eq!(code, *status, "{directive} over HTTP/2");
        assert!(
            is_body(&String::from_utf8_lossy(&text)),
            "{directive} over HTTP/2"
        );
        let answer = quic.answer(id);
        assert_eq!(answer.status, *status, "{directive} over HTTP/3");
        assert!(
            is_body(&String::from_utf8_lossy(&answer.body)),
            "{directive} over HTTP/3"
        );
    }
    assert_eq!(site.panics(), 0);
}

#[test]
fn four_digit_status_is_rejected_by_configuration_test() {
    for directive in ["error_page 404 =1000 /x", "error_page 404 =65736 /x"] {
        let (ok, said) = check(&format!(
            "events {{}} http {{ server {{ listen 127.0.0.1:1; {directive}; }} }}"
        ));
        assert!(!ok && said.contains("a status has three digits"), "{said}");
    }
    for directive in [
        "error_page 404 =+5 /x",
        "return 1000",
        "location / { try_files a =1000; }",
    ] {
        let text = format!("events {{}} http {{ server {{ listen 127.0.0.1:1; {directive} ; }} }}");
        assert!(!check(&text.replace("} ;", "}")).0, "{directive}");
    }
}

#[test]
fn applications_and_upstreams_must_send_three_digit_status() {
    let port = free_port();
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for (n, socket) in listener.incoming().enumerate() {
            let mut socket = socket.unwrap();
            let mut request = [0; 4096];
            let _ = socket.read(&mut request);
            let status = ["99", "1000", "099", "65636", "-1", "2 0"][n % 6];
            let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
            let _ = socket.write_all(answer.as_bytes());
        }
    });
    let site = Site::start(
        "",
        "",
        &format!("location /up {{ proxy_pass http://127.0.0.1:{port}; }}"),
    );
    for n in 0..6 {
        // What is no HTTP is an answer of HTTP/0.9 to nginx; here it is an error.
        let answer = site.http1("/up");
        assert!(
            answer.starts_with("HTTP/1.1 502 ") || answer.starts_with("HTTP/1.1 200 "),
            "{n}: {answer}"
        );
        assert!(site.http2("/up").is_some());
    }
    assert_eq!(site.panics(), 0);
}

#[test]
fn circular_variables_give_error_without_crash() {
    let maps = "map $b $a { default $b; } map $a $b { default $a; }";
    let site = Site::start("", maps, "location /cycle { return 200 [$a]; }");
    assert!(site.http1("/cycle").ends_with("[]"));
    assert!(site
        .server
        .errors()
        .contains("cycle while evaluating variable"));
    assert!(site.is_alive());
}

#[test]
fn rewritten_uri_shorter_than_alias_gives_error_without_panic() {
    let alias = "location /images/ { alias %%/html/; rewrite ^ /i break; try_files $uri =404; }";
    let site = Site::start("", "", alias);
    assert!(site.http1("/images/x").starts_with("HTTP/1.1 500 "));
    assert_eq!(site.panics(), 0);
}

#[test]
fn panic_is_logged_and_another_worker_serves_within_a_second() {
    let site = Site::start("worker_processes 2;", "", "");
    for version in [1, 2, 3] {
        let before = site.panics();
        std::thread::sleep(SECOND);
        site.panic_over(version);
        let died = Instant::now();
        site.wait_for("a log entry", |site| site.panics() == before + 1);
        // Each connection goes to one of the two workers.
        for _ in 0..16 {
            assert!(site.is_alive());
        }
        println!(
            "another worker served {:?} after a panic over HTTP/{version}",
            died.elapsed()
        );
        // A thread that another program keeps from running is not the server's fault.
        assert!(
            died.elapsed() < 3 * SECOND,
            "{:?} over HTTP/{version}",
            died.elapsed()
        );
    }
    let errors = site.server.errors();
    let header = errors.lines().find(|l| l.contains("panicked at")).unwrap();
    assert!(
        header.contains("[alert]") && header.contains("asked for by a test\\r\\n[alert]"),
        "{header}"
    );
    let frames = errors
        .lines()
        .filter(|l| l.contains("[alert]") && l.contains("backtrace: "));
    assert!(frames.clone().count() > 5, "{errors}");
    assert!(
        frames
            .clone()
            .any(|l| l.contains("engine/src/phases/mod.rs")),
        "{errors}"
    );
    assert!(
        !errors.lines().any(|l| l.starts_with("[alert]")),
        "a forged line"
    );
    let mut site = site;
    assert!(site.server.quit(), "QUIT did not end the server");
}

#[test]
fn panic_of_one_worker_leaves_connections_of_the_others_alone() {
    let site = Site::start("worker_processes 4;", "", "");
    let mut others: Vec<TcpStream> = (0..40).map(|_| site.connect()).collect();
    let mut ask = |socket: &mut TcpStream| {
        let mut answer = [0; 4096];
        let sent = socket.write_all(b"GET /alive HTTP/1.1\r\nHost: x\r\n\r\n");
        sent.is_ok() && matches!(socket.read(&mut answer), Ok(n) if answer[..n].ends_with(b"alive"))
    };
    assert!(others.iter_mut().all(&mut ask));
    site.panic_over(1);
    let alive = others
        .iter_mut()
        .filter_map(|s| ask(s).then_some(()))
        .count();
    println!("{alive} of 40 connections to four workers go on after the panic of one");
    // The kernel spreads them by a hash: about ten were the dead worker's.
    assert!((20..40).contains(&alive), "{alive} of 40 connections go on");
}

#[test]
fn repeated_panics_are_throttled_without_leaks() {
    let site = Site::start("", "", "");
    site.panic_over(1);
    site.wait_for("the next worker", Site::is_alive);
    let before = site.descriptors();
    let began = Instant::now();
    let mut idle = Vec::new();
    while began.elapsed() < 4 * SECOND {
        idle.push(site.connect());
        assert_eq!(site.http1("/fault/panic"), "");
    }
    let (seen, allowed) = (site.panics(), 2 + began.elapsed().as_secs() as usize + 1);
    assert!(seen <= allowed && seen >= 3, "{seen} panics");
    drop(idle);
    site.wait_for("the next worker", Site::is_alive);
    site.wait_for("closed descriptors", |site| {
        site.descriptors() <= before + 1
    });
    let mut site = site;
    assert!(site.server.quit(), "QUIT did not end the server");
}

#[test]
fn reload_and_quit_work_after_panic() {
    let mut site = Site::start("worker_processes 2;", "", "");
    site.panic_over(2);
    let old = site.server.worker();
    site.server.signal("HUP");
    site.wait_for("the new worker process", |site| site.server.worker() != old);
    assert!(site.is_alive());
    // QUIT comes while the dead worker waits for its second to pass.
    site.panic_over(1);
    assert!(site.server.quit(), "QUIT did not end the server");
}

#[test]
fn dead_worker_process_is_replaced() {
    let site = Site::start("worker_processes 2;", "", "");
    for (path, word) in [
        ("/fault/abort", "on signal 6"),
        ("/fault/locked", "panicked at"),
    ] {
        std::thread::sleep(SECOND);
        let old = site.server.worker();
        assert_eq!(site.http1(path), "");
        if path == "/fault/locked" {
            // The state is given up by the next thread that needs it, if there is one.
            let _ = site.http1(path);
        }
        let died = Instant::now();
        site.wait_for("another worker process", |site| {
            site.server.worker() != old && site.is_alive()
        });
        assert!(died.elapsed() < 3 * SECOND, "{:?}", died.elapsed());
        assert!(site.server.errors().contains(word));
    }
    assert!(site.server.errors().contains("half changed"));
    assert!(site.server.errors().contains("exited with code 3"));
}

#[test]
fn repeatedly_dying_worker_is_replaced_once_per_second() {
    let site = Site::start("", "", "");
    let began = Instant::now();
    while began.elapsed() < 4 * SECOND {
        site.http1("/fault/abort");
    }
    let deaths = site.server.errors().matches("on signal 6").count();
    assert!((3..=6).contains(&deaths), "{deaths} deaths in 4 seconds");
    site.wait_for("a worker process", |site| site.is_alive());
}

#[test]
fn daemon_replaces_panicking_worker() {
    let site = Site::start("", "", "");
    let folder = crate::site::Folder::new();
    let port = free_port();
    let conf = format!(
        "pid g.pid; error_log error.log; events {{}} http {{ access_log off;\n\
         server {{ listen 127.0.0.1:{port}; return 200 alive; }} }}"
    );
    folder.write("nginx.conf", &conf);
    let started = std::process::Command::new(crate::site::BINARY)
        .args(["-p", crate::site::path(&folder.0), "-c", "nginx.conf"])
        .env("GALLOP_TEST_FAULTS", "1")
        .status();
    assert!(started.unwrap().success());
    let daemon = Site { port, ..site };
    daemon.wait_for("the daemon", |daemon| daemon.is_alive());
    assert_eq!(daemon.http1("/fault/panic"), "");
    daemon.wait_for("the next worker", |daemon| daemon.is_alive());
    let errors = std::fs::read_to_string(folder.0.join("error.log")).unwrap();
    assert!(errors.contains("panicked at"), "{errors}");
    let stopped = std::process::Command::new(crate::site::BINARY)
        .args([
            "-p",
            crate::site::path(&folder.0),
            "-c",
            "nginx.conf",
            "-s",
            "quit",
        ])
        .status();
    assert!(stopped.unwrap().success());
    let deadline = Instant::now() + crate::PATIENCE;
    while folder.0.join("g.pid").exists() {
        assert!(Instant::now() < deadline, "the daemon goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}
