//! Names that only a request gives, looked up with a name server of the test's own.

use crate::site::{self, Server};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

/// See [`name_server_until`].
pub fn name_server() -> (u16, Receiver<String>) {
    name_server_until(Arc::default())
}

/// Until `silent` is set it answers every question for `known.example` with 127.0.0.1 (none for IPv6), for others that there is
/// no such name; gives the names asked for.
fn name_server_until(silent: Arc<AtomicBool>) -> (u16, Receiver<String>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("its address").port();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            if silent.load(Relaxed) {
                continue;
            }
            let question = &buffer[..n];
            let labels: Vec<String> = labels(&question[12..]);
            let name = labels.join(".");
            let kind = question[n - 3];
            let mut answer = question.to_vec();
            answer[2] = 0x81;
            if name.eq_ignore_ascii_case("known.example") {
                if kind == 1 {
                    answer[7] = 1;
                    answer.extend_from_slice(
                        b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x0e\x10\x00\x04\x7f\x00\x00\x01",
                    );
                }
            } else {
                answer[3] |= 3;
            }
            if sender.send(name).is_err() || socket.send_to(&answer, from).is_err() {
                return;
            }
        }
    });
    (port, receiver)
}

fn labels(mut bytes: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    while let [len, rest @ ..] = bytes {
        if *len == 0 {
            break;
        }
        let (label, after) = rest.split_at(usize::from(*len));
        out.push(String::from_utf8_lossy(label).into_owned());
        bytes = after;
    }
    out
}

#[test]
fn upstream_names_are_resolved_while_running() {
    let (port, asked) = name_server();
    let server = Server::start(&format!(
        "resolver 127.0.0.1:9 valid=1s; resolver_timeout 1s;
         upstream names {{ zone names 64k; resolver 127.0.0.1:{port};
             server known.example:{{port}} resolve; server unknown.example:{{port}} resolve; }}
         server {{ listen 127.0.0.1:{{port}}; server_name localhost;
             location /found {{ return 200 found; }}
             location /status {{ status format=prometheus; }}
             location / {{ proxy_pass http://names/found; }} }}"
    ));
    server.wait_for("an answer", |s| s.get("/", "").ends_with("found"));
    counts_go_by_name(&server);
    let upstream = format!("upstream: \"http://127.0.0.1:{}/found\"", server.port);
    assert!(!server.log("error.log").contains(&upstream));
    assert!(asked.try_iter().any(|name| name == "known.example"));
    let said = "unknown.example could not be resolved (3: Host not found), in upstream \"names\"";
    server.wait_for("the reason", |s| s.log("error.log").contains(said));
}

/// Addresses come and go: what is counted is the configured name's.
fn counts_go_by_name(server: &Server) {
    let series = |metric: &str, name: &str, class: &str| {
        let place = format!("server=\"{name}:{}\"", server.port);
        format!("gallop_upstream_{metric}{{upstream=\"names\",{place}{class}}} ")
    };
    let one = series("responses_total", "known.example", ",class=\"2xx\"") + "1\n";
    server.wait_for("the count", |s| s.get("/status", "").contains(&one));
    let all = server.get("/status", "");
    assert!(
        all.contains(&(series("up", "known.example", "") + "1\n")),
        "{all}"
    );
    assert!(
        all.contains(&(series("up", "unknown.example", "") + "0\n")),
        "{all}"
    );
}

/// The name server is away when the configuration is loaded anew: what was found before is still right.
#[test]
fn resolved_addresses_survive_reload() {
    let silent = Arc::new(AtomicBool::new(false));
    let (port, _asked) = name_server_until(silent.clone());
    let server = Server::start(&format!(
        "upstream names {{ zone names 64k; resolver 127.0.0.1:{port};
             server known.example:{{port}} resolve; }}
         server {{ listen 127.0.0.1:{{port}}; server_name localhost;
             location /found {{ return 200 first; }}
             location / {{ proxy_pass http://names/found; }} }}"
    ));
    server.wait_for("an answer", |s| s.get("/", "").ends_with("first"));
    silent.store(true, Relaxed);
    for (before, after) in [("first", "second"), ("second", "third")] {
        let text = server.log("nginx.conf").replace(before, after);
        server.folder.write("nginx.conf", &text);
        server.signal("HUP");
        server.wait_for("the new configuration", |s| {
            let passed = s.get("/", "");
            assert!(passed.starts_with("HTTP/1.1 200 "), "{passed}");
            passed.ends_with(after)
        });
    }
}

#[test]
fn upstream_names_require_zone_and_resolver() {
    let check = |group: &str| {
        let http = format!("upstream u {{ {group} }} server {{ listen 127.0.0.1:1; }}");
        site::check(&site::configuration(&http))
    };
    let (good, said) = check("zone u 64k; server a.example resolve; resolver 127.0.0.1;");
    assert!(good, "{said}");
    let (good, said) = check("server a.example resolve; resolver 127.0.0.1;");
    assert!(!good && said.contains("to be in shared memory"), "{said}");
    let (good, said) = check("zone u 64k; server a.example resolve;");
    assert!(!good && said.contains("no resolver defined"), "{said}");
}

#[test]
fn names_are_resolved_on_request_and_cached() {
    let (port, asked) = name_server();
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; server_name localhost;
             resolver 127.0.0.1:{port}; resolver_timeout 10s;
             location /found {{ return 200 \"$http_host\"; }}
             location / {{ proxy_pass http://$arg_name:{{port}}/found; }} }}"
    ));
    for name in ["known.example", "KNOWN.example"] {
        let answer = server.get(&format!("/?name={name}"), "");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(
            answer.ends_with(&format!("{name}:{}", server.port)),
            "{answer}"
        );
    }
    // One question for each kind of address; the second request found the answer kept.
    let names: Vec<String> = asked.try_iter().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let unknown = server.get("/?name=unknown.example", "");
    assert!(unknown.starts_with("HTTP/1.1 502 "), "{unknown}");
    let said = "unknown.example could not be resolved (3: Host not found)";
    assert!(server.log("error.log").contains(said));
}
