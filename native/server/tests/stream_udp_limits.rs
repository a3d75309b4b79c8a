//! UDP in `stream`: limits, floods, several workers, reloads, and shutdowns.

use crate::ports::free_port;
use crate::site::Server;
use crate::udp::{ask, client, echo, is_gone, memory, received, start, worker, HTTP, SILENCE};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

#[test]
fn denied_and_excess_sessions_get_no_answer_and_are_logged() {
    let (upstream, denied, limited) = (echo(), free_port(), free_port());
    let server = start(&format!(
        "log_format f '$server_port $status $limit_conn_status'; access_log udp.log f;
         limit_conn_zone $binary_remote_addr zone=z:1m;
         server {{ listen 127.0.0.1:{denied} udp; deny all; return x; }}
         server {{ listen 127.0.0.1:{limited} udp; limit_conn z 1;
                   proxy_pass 127.0.0.1:{upstream}; proxy_timeout 1s; }}"
    ));
    let refused = client(denied);
    refused.send(b"x").expect("sent");
    assert_eq!(received(&refused, SILENCE), None);
    let first = client(limited);
    ask(&first, "x");
    let second = client(limited);
    second.send(b"x").expect("sent");
    assert_eq!(received(&second, SILENCE), None);
    assert!(ask(&first, "again").ends_with("again"));
    for line in [
        format!("{denied} 403 -\n"),
        format!("{limited} 503 REJECTED\n"),
        format!("{limited} 200 PASSED\n"),
    ] {
        server.wait_for(&line, |s| s.log("udp.log").contains(&line));
    }
    assert!(ask(&second, "x").ends_with(":x"), "the place is free");
}

#[test]
fn datagrams_of_a_client_reach_one_of_several_workers() {
    let (upstream, port) = (echo(), free_port());
    let server = Server::start_with(
        &format!(
            "worker_processes 4; stream {{ server {{ listen 127.0.0.1:{port} udp;
             proxy_pass 127.0.0.1:{upstream}; }} }}"
        ),
        HTTP,
    );
    server.wait_for("a worker", |s| worker(s).is_some());
    let clients: Vec<UdpSocket> = (0..16).map(|_| client(port)).collect();
    let sources: Vec<String> = clients.iter().map(|c| ask(c, "x")).collect();
    for _ in 0..4 {
        for (client, source) in clients.iter().zip(&sources) {
            assert_eq!(&ask(client, "x"), source);
        }
    }
    // The new worker has the same sockets.
    let old = worker(&server).expect("a worker");
    server.signal("HUP");
    server.wait_for("the end of the old worker", |_| is_gone(&old));
    let sources: Vec<String> = clients.iter().map(|c| ask(c, "x")).collect();
    for (client, source) in clients.iter().zip(&sources) {
        assert_eq!(&ask(client, "x"), source);
    }
}

#[test]
fn rates_delay_datagrams_and_waiting_ones_are_bounded() {
    let (upstream, port) = (echo(), free_port());
    let _server = start(&format!(
        "server {{ listen 127.0.0.1:{port} udp; proxy_pass 127.0.0.1:{upstream};
                   proxy_upload_rate 2000; proxy_buffer_size 4k; }}"
    ));
    let client = client(port);
    let text = "x".repeat(1000);
    let before = Instant::now();
    ask(&client, &text);
    for _ in 0..20 {
        client.send(text.as_bytes()).expect("sent");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut count = 0;
    while received(&client, Duration::from_millis(1500)).is_some() {
        count += 1;
    }
    assert!((2..=5).contains(&count), "{count} of 20 had room");
    assert!(before.elapsed() > Duration::from_millis(1000));
}

#[test]
fn reload_passes_on_what_is_due_and_ends_the_old_worker() {
    let upstream = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = upstream.local_addr().expect("its address").port();
    let port = free_port();
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{port} udp; proxy_pass 127.0.0.1:{to}; }}"
    ));
    let old = worker(&server).expect("a worker");
    let client = client(port);
    client.send(b"one").expect("sent");
    let mut buffer = [0; 9];
    let (_, from) = upstream.recv_from(&mut buffer).expect("a datagram");
    server.signal("HUP");
    server.wait_for("the reload", |s| {
        s.log("error.log").contains("gracefully shutting down")
    });
    // nginx drops this response.
    upstream.send_to(b"due", from).expect("sent");
    assert_eq!(received(&client, crate::PATIENCE), Some("due".into()));
    server.wait_for("the end of the old worker", |_| is_gone(&old));
    client.send(b"two").expect("sent");
    let (n, _) = upstream.recv_from(&mut buffer).expect("a datagram");
    assert_eq!(&buffer[..n], b"two");
    upstream.send_to(b"x", from).expect("sent");
    assert_eq!(received(&client, SILENCE), None, "the old session is over");
}

#[test]
fn shutdown_timeout_cuts_sessions_off() {
    let upstream = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = upstream.local_addr().expect("its address").port();
    let port = free_port();
    let server = Server::start_with(
        &format!(
            "worker_shutdown_timeout 200ms;
             stream {{ log_format f $status; access_log udp.log f;
             server {{ listen 127.0.0.1:{port} udp; proxy_pass 127.0.0.1:{to}; }} }}"
        ),
        HTTP,
    );
    let client = client(port);
    client.send(b"x").expect("sent");
    upstream.recv(&mut [0; 9]).expect("a datagram");
    let log = server.folder.0.join("udp.log");
    let before = Instant::now();
    // The folder goes with the server.
    let kept = std::fs::File::open(&log).expect("the log");
    assert!(server.end("QUIT"));
    assert!(before.elapsed() < Duration::from_secs(20));
    assert_eq!(std::io::read_to_string(kept).expect("the log"), "200\n");
}

/// Each datagram of the flood comes from another address, as with forged ones. The test server has
/// 256 `worker_connections`.
#[test]
fn flood_from_many_addresses_fills_half_of_the_connections_only() {
    let (upstream, port) = (echo(), free_port());
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{port} udp; proxy_pass 127.0.0.1:{upstream}; }}"
    ));
    let known = client(port);
    let session = ask(&known, "x");
    let before = memory(&server);
    let text = vec![b'x'; 1400];
    for n in 0..4000u16 {
        let [high, low] = n.to_be_bytes();
        let socket = UdpSocket::bind((format!("127.1.{high}.{low}"), 0)).expect("a socket");
        socket.send_to(&text, ("127.0.0.1", port)).expect("sent");
    }
    let alert = "256 worker_connections are not enough for UDP sessions";
    let sessions = |s: &Server| s.log("error.log").matches("udp client").count();
    // Each thread writes its lines when it has nothing else to do.
    server.wait_for("the alert and its sessions", |s| {
        s.log("error.log").contains(alert) && sessions(s) >= 128
    });
    let errors = server.log("error.log");
    assert_eq!(sessions(&server), 128);
    assert!(errors.matches(alert).count() < 30, "not a line for each");
    let after = memory(&server);
    assert!(after < before + 8192, "{before} KB, {after} KB");
    assert_eq!(ask(&known, "x"), session, "known clients are served");
    assert!(server.get("/", "").starts_with("HTTP/1.1 "), "so is TCP");
}

/// The kernel divides clients among the sockets of all threads that there ever were.
#[test]
fn fewer_workers_serve_the_sockets_of_more() {
    let (upstream, udp, tcp) = (echo(), free_port(), free_port());
    let main = |workers: usize| {
        format!(
            "worker_processes {workers}; stream {{
             server {{ listen 127.0.0.1:{tcp} reuseport; return hello; }}
             server {{ listen 127.0.0.1:{udp} udp; proxy_pass 127.0.0.1:{upstream}; }} }}"
        )
    };
    let server = Server::start_with(&main(4), HTTP);
    server.wait_for("a worker", |s| worker(s).is_some());
    let old = worker(&server).expect("a worker");
    let text = server.log("nginx.conf");
    server
        .folder
        .write("nginx.conf", &text.replace(&main(4), &main(1)));
    server.signal("HUP");
    server.wait_for("the end of the old worker", |_| is_gone(&old));
    for _ in 0..16 {
        assert!(ask(&client(udp), "x").ends_with(":x"));
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", tcp)).expect("connected");
        let patience = Some(crate::PATIENCE);
        stream.set_read_timeout(patience).expect("a timeout");
        assert_eq!(crate::site::read_all(&mut stream), "hello");
    }
}
