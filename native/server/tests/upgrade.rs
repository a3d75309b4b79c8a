//! Another binary takes over while requests come (USR2, https://nginx.org/en/docs/control.html#upgrade).

use crate::h3::Client as Http3;
use crate::ports::free_port;
use crate::site::{self, read_all, Folder, Set};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A server without a terminal, as a package starts it. `$pid` in its answers is that of a worker.
struct Daemon {
    folder: Folder,
    tcp: u16,
    udp: u16,
    datagrams: u16,
    key: rcgen::CertifiedKey<rcgen::KeyPair>,
}

impl Daemon {
    fn start() -> Daemon {
        let key = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]);
        let daemon = Daemon {
            folder: Folder::new(),
            tcp: free_port(),
            udp: free_port(),
            datagrams: free_port(),
            key: key.expect("a key"),
        };
        let folder = &daemon.folder;
        folder.write("cert.pem", &daemon.key.cert.pem());
        folder.write("key.pem", &daemon.key.signing_key.serialize_pem());
        folder.write("html/large", &"x".repeat(200_000));
        daemon.configure("");
        let started = Command::new(site::BINARY)
            .args(["-p", site::path(&folder.0), "-c", "nginx.conf"])
            .args(["-e", "error.log"])
            .status();
        assert!(started.expect("the binary runs").success());
        daemon.wait_for("the pid", |d| d.pid("pid").is_some());
        daemon
    }

    fn configure(&self, more: &str) {
        let (tcp, udp, folder) = (self.tcp, self.udp, site::path(&self.folder.0));
        let datagrams = self.datagrams;
        let text = format!(
            "worker_processes 2; pid pid; error_log error.log notice; events {{}} {more}
             stream {{ server {{ listen 127.0.0.1:{datagrams} udp; return $pid; }} }}
             http {{ access_log off; ssl_certificate cert.pem; ssl_certificate_key key.pem;
                 client_body_temp_path body; root html;
                 server {{ listen 127.0.0.1:{tcp}; listen unix:{folder}/socket; listen 127.0.0.1:{udp} quic;
                     location / {{ return 200 $pid; }}
                     location /large {{ limit_rate 200k; limit_rate_after 1k; }} }} }}\n"
        );
        self.folder.write("nginx.conf", &text);
    }

    /// The process that a file names.
    fn pid(&self, file: &str) -> Option<u32> {
        let text = std::fs::read_to_string(self.folder.0.join(file)).ok()?;
        text.trim().parse().ok()
    }

    fn signal(&self, name: &str, pid: u32) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &pid.to_string()])
            .status();
        assert!(sent.expect("kill runs").success(), "{}", self.log());
    }

    /// Has the binary started anew: the masters before and after.
    fn upgrade(&self) -> (u32, u32) {
        let old = self.pid("pid").expect("a pid");
        self.signal("USR2", old);
        self.wait_for("the new master", |d| {
            d.pid("pid").is_some_and(|new| new != old)
        });
        assert_eq!(self.pid("pid.oldbin"), Some(old));
        (old, self.pid("pid").expect("a pid"))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.0.join("error.log")).unwrap_or_default()
    }

    fn wait_for(&self, what: &str, condition: impl Fn(&Daemon) -> bool) {
        let limit = Instant::now() + crate::PATIENCE;
        while !condition(self) {
            let log = self.log();
            assert!(Instant::now() < limit, "{what} did not come:\n{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The worker that answers a new connection.
    fn worker(&self) -> u32 {
        let stream = TcpStream::connect(("127.0.0.1", self.tcp)).expect("connected");
        asked(stream, "/").parse().expect("a pid")
    }

    fn worker_by_udp(&self) -> u32 {
        let client = crate::udp::client(self.datagrams);
        crate::udp::ask(&client, "x").parse().expect("a pid")
    }

    fn worker_by_unix(&self) -> u32 {
        let stream = UnixStream::connect(self.folder.0.join("socket")).expect("connected");
        asked(stream, "/").parse().expect("a pid")
    }

    fn http3(&self) -> Http3 {
        let mut client = Http3::connect(self.udp, self.key.cert.der().clone());
        client.run("the handshake", |client| client.connected);
        client.greet();
        client
    }

    fn worker_by_http3(&self) -> u32 {
        let mut client = self.http3();
        let worker = worker_of(&mut client);
        client.leave();
        worker
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        for file in ["pid.oldbin", "pid"] {
            if let Some(pid) = self.pid(file) {
                let _ = Command::new("kill").arg(pid.to_string()).status();
                let limit = Instant::now() + crate::PATIENCE;
                while self.pid(file) == Some(pid) && Instant::now() < limit {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }
}

/// The body of the answer over that connection.
fn asked(mut stream: impl Read + Write, uri: &str) -> String {
    let request = format!("GET {uri} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_string()
}

/// The master of a worker.
fn parent(pid: u32) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.expect("a parent").trim().parse().expect("a number")
}

fn worker_of(client: &mut Http3) -> u32 {
    let id = client.get("/");
    let body = client.answer(id).body;
    String::from_utf8_lossy(&body).parse().expect("a pid")
}

#[test]
fn binary_upgrade_rejects_no_connection() {
    let daemon = Daemon::start();
    let before = daemon.worker();
    let mut early = daemon.http3();
    assert_eq!(worker_of(&mut early), before);
    let mut large = TcpStream::connect(("127.0.0.1", daemon.tcp)).expect("connected");
    large
        .write_all(b"GET /large HTTP/1.0\r\n\r\n")
        .expect("sent");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                daemon.worker();
                asked += 1;
            }
            asked
        });
        let ended = Set(&over);
        let (old, new) = daemon.upgrade();
        assert_eq!(parent(before), old);
        // Both serve: who came before stays where he is.
        assert_eq!(worker_of(&mut early), before);
        daemon.wait_for("QUIC's connections at the new one", |d| {
            d.worker_by_http3() != before
        });
        early.leave();
        assert!([old, new].contains(&parent(daemon.worker_by_udp())));
        daemon.signal("QUIT", old);
        daemon.wait_for("the end of the old one", |d| d.pid("pid.oldbin").is_none());
        for _ in 0..8 {
            assert_eq!(parent(daemon.worker_by_udp()), new);
        }
        daemon.wait_for("its socket left alone", |d| {
            parent(d.worker_by_unix()) == new
        });
        assert_eq!(parent(daemon.worker_by_http3()), new);
        assert_eq!(daemon.pid("pid"), Some(new));
        drop(ended);
        assert!(asking.join().expect("all answered") > 0);
        // The new one is no other master's any more.
        let (_, next) = daemon.upgrade();
        daemon.signal("QUIT", new);
        daemon.wait_for("the end of the second", |d| d.pid("pid.oldbin").is_none());
        assert_eq!(parent(daemon.worker()), next);
        assert_eq!(parent(daemon.worker_by_http3()), next);
    });
    let large = read_all(&mut large);
    assert!(large.len() > 200_000, "{} bytes", large.len());
    let log = daemon.log();
    assert!(
        !log.contains("[alert]") && !log.contains("[emerg]"),
        "{log}"
    );
}

#[test]
fn binary_upgrade_can_be_reverted() {
    let daemon = Daemon::start();
    let (old, new) = daemon.upgrade();
    daemon.wait_for("workers of both", |d| {
        d.log().matches("start worker process").count() == 2
    });
    for master in [old, new] {
        daemon.signal("USR2", master);
    }
    daemon.wait_for("two refusals", |d| {
        d.log().matches("changing binary signal is ignored").count() == 2
    });
    // As the documentation of nginx has it: the old workers end, and are wanted again.
    daemon.signal("WINCH", old);
    daemon.wait_for("the end of the old worker", |d| {
        d.log().contains("exited with code 0")
    });
    assert_eq!(parent(daemon.worker()), new);
    daemon.signal("HUP", old);
    daemon.wait_for("a worker of the old one", |d| {
        d.log().matches("start worker process").count() == 3
    });
    daemon.signal("QUIT", new);
    daemon.wait_for("the old pid", |d| d.pid("pid") == Some(old));
    assert_eq!(daemon.pid("pid.oldbin"), None);
    assert_eq!(parent(daemon.worker_by_unix()), old);
    assert_eq!(parent(daemon.worker_by_http3()), old);
}

#[test]
fn failed_binary_upgrade_changes_nothing() {
    let daemon = Daemon::start();
    let old = daemon.pid("pid").expect("a pid");
    let mut early = daemon.http3();
    daemon.configure("nonsense;");
    daemon.signal("USR2", old);
    daemon.wait_for("its end", |d| {
        d.log().contains("new binary process") && d.log().contains("exited with code 1")
    });
    daemon.wait_for("the pid", |d| d.pid("pid") == Some(old));
    assert_eq!(daemon.pid("pid.oldbin"), None);
    assert!(daemon.log().contains("unknown directive \"nonsense\""));
    assert_eq!(parent(daemon.worker()), old);
    assert_eq!(parent(worker_of(&mut early)), old);
    early.leave();
    assert_eq!(parent(daemon.worker_by_http3()), old);
    // The workers rest until the new binary fails.
    daemon.signal("WINCH", old);
    daemon.wait_for("the end of the worker", |d| {
        d.log().contains("worker process") && d.log().contains("exited with code 0")
    });
    daemon.signal("USR2", old);
    daemon.wait_for("an answer again", |d| {
        d.log().matches("start worker process").count() == 2
    });
    assert_eq!(parent(daemon.worker()), old);
}
