//! Active health checks in `stream`: connections, `send` and `expect`, and datagrams.

use crate::ports::free_port;
use crate::site::{check, Server};
use crate::udp::{is_gone, worker, HTTP};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

fn start(stream: &str) -> Server {
    Server::start_with(&format!("stream {{ {stream} }}"), HTTP)
}

/// A server that sends its name, and an answer to each line that it knows, to each connection.
fn named(name: &'static str, answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.write_all(name.as_bytes());
                let mut buffer = [0; 64];
                if matches!(stream.read(&mut buffer), Ok(n) if buffer[..n] == *b"PING\r\n") {
                    let _ = stream.write_all(answer.as_bytes());
                    let _ = stream.read(&mut buffer);
                }
            });
        }
    });
    port
}

/// The first bytes that a client gets; empty if the session ends.
fn greeting(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    stream
        .set_read_timeout(Some(crate::PATIENCE))
        .expect("a timeout");
    let mut buffer = [0; 64];
    let n = stream.read(&mut buffer).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..n]).into_owned()
}

fn wait_for_line(server: &Server, line: &str) {
    server.wait_for(line, |s| s.log("error.log").contains(line));
}

fn line(word: &str, doing: &str, name: &str, peer: u16) -> String {
    format!("peer is {word} while {doing}, health check \"{name}\" of peer 127.0.0.1:{peer} in upstream \"u\"")
}

#[test]
fn server_that_refuses_connections_gets_no_sessions_until_it_listens() {
    let (up, dead, port) = (named("up", ""), free_port(), free_port());
    let server = start(&format!(
        "upstream u {{ zone u 64k; server 127.0.0.1:{dead} max_fails=0; server 127.0.0.1:{up} backup; }}
         server {{ listen 127.0.0.1:{port}; proxy_pass u; health_check interval=50ms passes=2; }}"
    ));
    wait_for_line(
        &server,
        &line("unhealthy", "connecting to upstream", "", dead),
    );
    let reason =
        "connect() failed (111: Connection refused) while connecting to upstream, health check";
    assert!(server.log("error.log").contains(reason));
    assert_eq!(greeting(port), "up");
    // No session tried the server.
    let log = server.log("error.log");
    let tried = log
        .lines()
        .find(|l| l.contains("refused") && l.contains("client: "));
    assert_eq!(tried, None);
    let listener = TcpListener::bind(("127.0.0.1", dead)).expect("the port");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"again");
        }
    });
    wait_for_line(
        &server,
        &line("healthy", "connecting to upstream", "", dead),
    );
    assert_eq!(greeting(port), "again");
}

#[test]
fn send_and_expect_decide_about_a_server() {
    let (good, other) = (named("good", "+PONG\r\n"), named("other", "-ERR\r\n"));
    let port = free_port();
    let server = start(&format!(
        "match ping {{ send PING\\x0d\\x0a; expect ~* ^good\\+pong; }}
         upstream u {{ zone u 64k; server 127.0.0.1:{other}; server 127.0.0.1:{good}; }}
         server {{ listen 127.0.0.1:{port}; proxy_pass u; health_check_timeout 300ms;
             health_check interval=50ms mandatory match=ping; }}"
    ));
    wait_for_line(&server, &line("healthy", "checking data", "ping", good));
    // The other server sends no more: the time is over.
    wait_for_line(
        &server,
        &line("unhealthy", "receiving from upstream", "ping", other),
    );
    for _ in 0..4 {
        assert_eq!(greeting(port), "good");
    }
}

#[test]
fn endless_data_without_the_expected_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endless = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || while stream.write_all(&[b'x'; 4096]).is_ok() {});
        }
    });
    let port = free_port();
    let server = start(&format!(
        "match m {{ expect \"needle\"; }}
         upstream u {{ zone u 64k; server 127.0.0.1:{endless}; }}
         server {{ listen 127.0.0.1:{port}; proxy_pass u; health_check interval=50ms match=m; }}"
    ));
    wait_for_line(&server, &line("unhealthy", "checking data", "m", endless));
    assert_eq!(greeting(port), "");
}

/// A UDP server that answers each datagram with itself.
fn udp_echo() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..n], from);
        }
    });
    port
}

#[test]
fn udp_servers_are_checked_with_datagrams() {
    let (echo, dead, port) = (udp_echo(), free_port(), free_port());
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let quiet = silent.local_addr().expect("its address").port();
    let server = start(&format!(
        "match same {{ send \\x01ask; expect \\x01as; }} health_check_timeout 200ms;
         upstream u {{ zone u 64k; server 127.0.0.1:{dead}; server 127.0.0.1:{quiet}; server 127.0.0.1:{echo}; }}
         server {{ listen 127.0.0.1:{port} udp; proxy_pass u; health_check udp interval=50ms mandatory; }}
         server {{ listen 127.0.0.1:{port}; proxy_pass u;
             health_check interval=50ms mandatory udp match=same; }}"
    ));
    let doing = "receiving from upstream";
    wait_for_line(&server, &line("unhealthy", doing, "", dead));
    // Silence is no fault unless a response is expected.
    wait_for_line(&server, &line("healthy", doing, "", quiet));
    wait_for_line(&server, &line("unhealthy", doing, "same", quiet));
    wait_for_line(&server, &line("healthy", doing, "", echo));
    wait_for_line(&server, &line("healthy", "checking data", "same", echo));
    let mut buffer = [0; 64];
    let mut greeted =
        (0..64).filter_map(|_| silent.recv(&mut buffer).ok().map(|n| buffer[..n].to_vec()));
    assert!(greeted.any(|datagram| datagram == b"nginx health check"));
    let client = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    client
        .set_read_timeout(Some(crate::PATIENCE))
        .expect("a timeout");
    client.send_to(b"hello", ("127.0.0.1", port)).expect("sent");
    let n = client.recv(&mut buffer).expect("an answer");
    assert_eq!(&buffer[..n], b"hello");
}

#[test]
fn faulty_stream_checks_are_refused() {
    let refused = [
        ("health_check uri=/;", "", "invalid parameter \"uri=/\""),
        ("health_check match=m;", "", "match \"m\" is not found"),
        ("health_check;", "match m { expect \\x0; }", "invalid value"),
        (
            "health_check;",
            "match m { status 200; }",
            "\"status\" directive is not allowed here",
        ),
    ];
    for (directive, block, said) in refused {
        let text = format!(
            "daemon off; pid g.pid; events {{ }} stream {{ {block} upstream u {{ zone u 64k; server 127.0.0.1:1; }}
             server {{ listen 127.0.0.1:1; proxy_pass u; {directive} }} }}"
        );
        let (good, out) = check(&text);
        assert!(!good && out.contains(said), "{directive} {block}: {out}");
    }
}

#[test]
fn persistent_check_of_stream_keeps_its_verdict_over_a_reload() {
    let (up, port) = (named("up", "+PONG\r\n"), free_port());
    let server = start(&format!(
        "match ping {{ send PING\\x0d\\x0a; expect PONG; }} match none {{ expect absent; }}
         upstream u {{ zone u 64k; server 127.0.0.1:{up}; }}
         server {{ listen 127.0.0.1:{port}; proxy_pass u;
             health_check interval=50ms mandatory persistent match=ping; }}"
    ));
    wait_for_line(&server, &line("healthy", "checking data", "ping", up));
    assert_eq!(greeting(port), "up");
    // A check that does not end for an hour.
    let text = server.log("nginx.conf");
    let text = text.replace("match=ping;", "match=none; health_check_timeout 1h;");
    server.folder.write("nginx.conf", &text);
    let before = worker(&server);
    server.signal("HUP");
    server.wait_for("the end of the first worker", |s| {
        let now = worker(s);
        now.is_some() && now != before && before.as_deref().is_some_and(is_gone)
    });
    assert_eq!(greeting(port), "up");
    assert!(server.end("QUIT"));
}

#[test]
fn mandatory_check_of_stream_refuses_sessions_until_it_passes() {
    let (up, port) = (named("up", ""), free_port());
    let server = start(&format!(
        "match none {{ expect absent; }} upstream u {{ zone u 64k; server 127.0.0.1:{up}; }}
         server {{ listen 127.0.0.1:{port}; proxy_pass u; health_check_timeout 1h;
             health_check mandatory match=none; }}"
    ));
    server.wait_for("a worker", |s| worker(s).is_some());
    assert_eq!(greeting(port), "");
    assert!(server.log("error.log").contains("no live upstreams"));
    // The check under way does not hold up the end.
    assert!(server.end("QUIT"));
}
