//! `resolve` and `service` of servers in upstream blocks of `http` and `stream`, and `least_time` of
//! `stream`.

use crate::ports::free_port;
use crate::site::{check, read_all, Folder, Server};
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The records of `_web._tcp.a.example`: priority, weight, port, and target.
type Records = Arc<Mutex<Vec<(u16, u16, u16, &'static str)>>>;

/// A name server. `one.example` is 127.0.0.1, and `two.example` 127.0.0.2; others do not exist.
fn name_server(records: &Records, silent: &Arc<AtomicBool>) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("its address").port();
    let (records, silent) = (records.clone(), silent.clone());
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            if !silent.load(Relaxed) {
                let reply = reply(&buffer[..n], &records.lock().expect("records"));
                let _ = socket.send_to(&reply, from);
            }
        }
    });
    port
}

fn wire(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}

fn reply(question: &[u8], records: &[(u16, u16, u16, &str)]) -> Vec<u8> {
    let mut out = question.to_vec();
    out[2] = 0x81;
    let name = question[12..question.len() - 4].to_ascii_lowercase();
    let kind = question[question.len() - 3];
    let mut add = |kind: u8, data: &[u8]| {
        out[7] += 1;
        out.extend_from_slice(&[0xc0, 0x0c, 0, kind, 0, 1, 0, 0, 0, 1, 0, data.len() as u8]);
        out.extend_from_slice(data);
    };
    if name == wire("_web._tcp.a.example") {
        for (priority, weight, port, target) in records.iter().filter(|_| kind == 33) {
            let numbers = [*priority, *weight, *port].map(u16::to_be_bytes).concat();
            add(33, &[numbers, wire(target)].concat());
        }
    } else if name == wire("one.example") || name == wire("two.example") {
        let last = if name == wire("one.example") { 1 } else { 2 };
        if kind == 1 {
            add(1, &[127, 0, 0, last]);
        }
    } else {
        out[3] |= 3;
    }
    out
}

/// A server that sends its name after a while, and closes.
fn greeter(address: &str, port: u16, name: &'static str, delay: Duration) -> u16 {
    let listener = TcpListener::bind((address, port)).expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::sleep(delay);
            let _ = stream.write_all(name.as_bytes());
        }
    });
    port
}

fn greeting(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let patience = Some(crate::PATIENCE);
    stream.set_read_timeout(patience).expect("a timeout");
    read_all(&mut stream)
}

fn greetings(port: u16, n: usize) -> String {
    (0..n).map(|_| greeting(port)).collect()
}

#[test]
fn stream_follows_names_and_services_and_a_reload_keeps_their_addresses() {
    let (records, silent) = (Records::default(), Arc::new(AtomicBool::new(false)));
    let resolver = name_server(&records, &silent);
    let one = greeter("127.0.0.1", 0, "A", Duration::ZERO);
    let two = greeter("127.0.0.2", 0, "B", Duration::ZERO);
    *records.lock().expect("records") = vec![
        (1, 3, one, "one.example"),
        (1, 1, two, "two.example"),
        (1, 1, one, "lost.example"),
    ];
    let (named, service, port) = (free_port(), free_port(), free_port());
    let stream = format!(
        "resolver 127.0.0.1:{resolver} valid=1s; resolver_timeout 1s;
         upstream n {{ zone n 64k; server one.example:{one} resolve; }}
         upstream s {{ zone s 64k; server a.example resolve service=web; }}
         server {{ listen 127.0.0.1:{named}; proxy_pass n; }}
         server {{ listen 127.0.0.1:{service}; proxy_pass s; }}"
    );
    // The same group name in http has servers of its own.
    let http = format!(
        "resolver 127.0.0.1:{resolver} valid=1s; resolver_timeout 1s;
         upstream s {{ zone s 64k; server a.example resolve service=_web._tcp; }}
         server {{ listen 127.0.0.1:{port}; return 200 C; }}
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://s; }} }}"
    );
    let server = Server::start_both(Folder::new(), &stream, &http);
    server.wait_for("the name", |_| greeting(named) == "A");
    server.wait_for("the service", |_| !greeting(service).is_empty());
    let counts = greetings(service, 8);
    assert_eq!(counts.matches('A').count(), 6, "{counts}");
    let lost = "lost.example could not be resolved (3: Host not found) while resolving service \
                _web._tcp.a.example, in upstream \"s\"";
    server.wait_for("the reason", |s| s.log("error.log").contains(lost));
    *records.lock().expect("records") =
        vec![(1, 1, two, "two.example"), (9, 1, one, "one.example")];
    server.wait_for("the change", |_| greetings(service, 4) == "BBBB");
    silent.store(true, Relaxed);
    let old = crate::udp::worker(&server).expect("a worker");
    server.signal("HUP");
    server.wait_for("the end of the old worker", |_| crate::udp::is_gone(&old));
    assert_eq!(greetings(service, 4), "BBBB");
    assert_eq!(greeting(named), "A");
    // A port of http: the other server is a backup now, and nobody needs it.
    silent.store(false, Relaxed);
    *records.lock().expect("records") =
        vec![(5, 1, one, "one.example"), (1, 0, port, "one.example")];
    server.wait_for("the change", |s| s.get("/", "").ends_with("\r\n\r\nC"));
}

#[test]
fn backups_serve_while_no_name_has_an_address() {
    let resolver = name_server(&Records::default(), &Arc::default());
    let backups = ["A", "B"].map(|name| greeter("127.0.0.1", 0, name, Duration::ZERO));
    for method in [
        "random",
        "random two",
        "hash x",
        "hash x consistent",
        "least_time connect",
    ] {
        let port = free_port();
        let [a, b] = backups;
        let stream = format!(
            "resolver 127.0.0.1:{resolver};
             upstream u {{ zone u 64k; server lost.example:1 resolve;
                 server 127.0.0.1:{a} backup; server 127.0.0.1:{b} backup; {method}; }}
             server {{ listen 127.0.0.1:{port}; proxy_pass u; }}"
        );
        let http = "server { listen 127.0.0.1:{port}; }";
        let _server = Server::start_both(Folder::new(), &stream, http);
        let got = greetings(port, 4);
        assert_eq!(got.len(), 4, "{method}: {got}");
    }
}

#[test]
fn servers_with_resolve_and_service_are_checked_in_both_blocks() {
    for (block, server, error) in [
        (
            "stream",
            "a.example resolve",
            "no port in upstream \"a.example\"",
        ),
        (
            "stream",
            "a.example:1 service=x",
            "service upstream \"a.example:1\" requires \"resolve\" parameter",
        ),
        (
            "http",
            "a.example:1 resolve service=x",
            "service upstream \"a.example:1\" may not have port",
        ),
        (
            "http",
            "127.0.0.1 resolve service=x",
            "service upstream \"127.0.0.1\" requires domain name",
        ),
        ("stream", "a.example resolve service=", "service is empty"),
        (
            "stream",
            "a.example resolve service",
            "invalid parameter \"service\"",
        ),
        ("stream", "a.example:1 resolve; resolver 127.0.0.1", ""),
        (
            "http",
            "a.example resolve service=x; resolver 127.0.0.1",
            "",
        ),
        (
            "stream",
            "127.0.0.1:1; least_time header",
            "invalid value \"header\"",
        ),
        (
            "http",
            "127.0.0.1:1; least_time connect",
            "invalid value \"connect\"",
        ),
        ("stream", "127.0.0.1:1; least_time first_byte inflight", ""),
        (
            "stream",
            "127.0.0.1:1; least_time connect outflight",
            "invalid parameter \"outflight\"",
        ),
    ] {
        let rest = if block == "http" { "" } else { "http { }" };
        let (accepted, said) = check(&format!(
            "events {{ }} {rest} {block} {{ upstream u {{ zone u 64k; server {server}; }} }}"
        ));
        let right = accepted == error.is_empty() && said.contains(error);
        assert!(right, "{block} {server}\n{said}");
    }
}

#[test]
fn least_time_of_stream_prefers_the_fast_server() {
    for rule in [
        "first_byte",
        "last_byte",
        "first_byte inflight",
        "last_byte inflight",
    ] {
        let slow = greeter("127.0.0.1", 0, "A", Duration::from_millis(200));
        let fast = greeter("127.0.0.1", 0, "B", Duration::ZERO);
        let port = free_port();
        let stream = format!(
            "upstream u {{ least_time {rule}; server 127.0.0.1:{slow}; server 127.0.0.1:{fast}; }}
             server {{ listen 127.0.0.1:{port}; proxy_pass u; }}"
        );
        let http = "server { listen 127.0.0.1:{port}; }";
        let _server = Server::start_both(Folder::new(), &stream, http);
        // Each server is measured once.
        let first = greetings(port, 2);
        assert!(first.contains('A'), "{rule}: {first}");
        assert_eq!(greetings(port, 8), "BBBBBBBB", "{rule}");
    }
}
