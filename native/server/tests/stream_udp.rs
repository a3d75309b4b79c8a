//! UDP in `stream`: sessions by client address, their ends, and their logs.

use crate::ports::free_port;
use crate::site::check;
use crate::udp::{ask, client, echo, received, source, start, SILENCE};
use std::net::UdpSocket;

#[test]
fn datagrams_of_a_client_are_one_session_that_is_logged_at_its_end() {
    let (upstream, port) = (echo(), free_port());
    let server = start(&format!(
        "log_format f '$status $protocol $bytes_received $bytes_sent $upstream_addr '
                      '$upstream_bytes_sent $upstream_bytes_received';
         access_log udp.log f;
         server {{ listen 127.0.0.1:{port} udp; proxy_pass 127.0.0.1:{upstream};
                   proxy_timeout 300ms; }}"
    ));
    let (one, two) = (client(port), client(port));
    let first = ask(&one, "hello");
    let other = ask(&two, "hello");
    assert_ne!(source(&first), source(&other), "each client has a session");
    let long = "x".repeat(9000);
    let again = ask(&one, &long);
    assert_eq!(again, format!("{}:{long}", source(&first)), "the session");
    assert_eq!(ask(&one, ""), format!("{}:", source(&first)), "no bytes");
    assert_eq!(server.log("udp.log"), "");
    let (up, down) = (5 + 9000, 3 * (source(&first).len() + 1) + 9005);
    let line = format!("200 UDP {up} {down} 127.0.0.1:{upstream} {up} {down}\n");
    server.wait_for("the line", |s| s.log("udp.log").contains(&line));
    let errors = server.log("error.log");
    assert!(errors.contains("udp client 127.0.0.1:"), "{errors}");
    assert!(errors.contains("udp timed out, packets from/to client:3/3"));
    let later = ask(&one, "hello");
    assert_ne!(source(&first), source(&later), "a new session");
}

#[test]
fn session_ends_with_the_expected_responses() {
    let upstream = echo();
    let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let server = start(&format!(
        "log_format f '$server_port $status'; access_log udp.log f; proxy_timeout 500ms;
         server {{ listen 127.0.0.1:{} udp; proxy_pass 127.0.0.1:{upstream};
                   proxy_responses 2; }}
         server {{ listen 127.0.0.1:{} udp; proxy_pass 127.0.0.1:{upstream};
                   proxy_responses 0; }}
         server {{ listen 127.0.0.1:{} udp; proxy_pass 127.0.0.1:{upstream};
                   proxy_responses 1; proxy_requests 2; }}",
        ports[0], ports[1], ports[2]
    ));
    let logged = |port: u16, status: u16| {
        let line = format!("{port} {status}\n");
        server.wait_for("the line", |s| s.log("udp.log").contains(&line));
    };
    let two = client(ports[0]);
    let first = ask(&two, "2");
    assert_eq!(received(&two, crate::PATIENCE), Some(first.clone()));
    logged(ports[0], 200);
    assert_ne!(ask(&two, "1"), first, "a new session");
    // One of two responses is missing when the time is over.
    logged(ports[0], 502);
    let none = client(ports[1]);
    none.send(b"x").expect("sent");
    assert_eq!(received(&none, SILENCE), None);
    logged(ports[1], 200);
    let pair = client(ports[2]);
    let sources: Vec<String> = (0..3)
        .map(|_| source(&ask(&pair, "x")).to_string())
        .collect();
    assert_eq!(sources[0], sources[1]);
    assert_ne!(sources[1], sources[2]);
}

#[test]
fn requests_are_divided_among_sessions_while_responses_are_due() {
    let upstream = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = upstream.local_addr().expect("its address").port();
    let port = free_port();
    let _server = start(&format!(
        "server {{ listen 127.0.0.1:{port} udp; proxy_pass 127.0.0.1:{to}; proxy_requests 2; }}"
    ));
    let client = client(port);
    for n in 0..5u8 {
        client.send(&[n]).expect("sent");
    }
    let mut sources = [0; 5];
    for _ in 0..5 {
        let mut buffer = [0; 9];
        let (_, from) = upstream.recv_from(&mut buffer).expect("a datagram");
        sources[buffer[0] as usize] = from.port();
    }
    let [a, b, c, d, e] = sources;
    assert!(
        a == b && c == d && a != c && e != a && e != c,
        "{sources:?}"
    );
    // All three sessions still pass responses on.
    for port in [a, c, e] {
        let text = port.to_string();
        upstream
            .send_to(text.as_bytes(), ("127.0.0.1", port))
            .expect("sent");
        assert_eq!(received(&client, crate::PATIENCE), Some(text));
    }
}

#[test]
fn refused_datagram_ends_the_session_and_the_next_one_reaches_another_server() {
    let (upstream, dead, port) = (echo(), free_port(), free_port());
    let server = start(&format!(
        "log_format f '$status $upstream_addr'; access_log udp.log f;
         upstream u {{ server 127.0.0.1:{dead}; server 127.0.0.1:{upstream} backup; }}
         server {{ listen 127.0.0.1:{port} udp; proxy_pass u; proxy_responses 1; }}"
    ));
    let client = client(port);
    client.send(b"lost").expect("sent");
    let line = format!("502 127.0.0.1:{dead}\n");
    server.wait_for("the line", |s| s.log("udp.log") == line);
    assert!(server
        .log("error.log")
        .contains("(111: Connection refused)"));
    assert!(ask(&client, "hello").ends_with(":hello"));
}

#[test]
fn weights_hashes_and_variables_choose_servers() {
    let servers = [echo(), echo()];
    let (weighted, hashed, mapped) = (free_port(), free_port(), free_port());
    let server = start(&format!(
        "proxy_responses 1; log_format f '$server_port $upstream_addr'; access_log udp.log f;
         upstream w {{ server 127.0.0.1:{a} weight=2; server 127.0.0.1:{b}; }}
         upstream h {{ hash $remote_addr; server 127.0.0.1:{a}; server 127.0.0.1:{b}; }}
         map $remote_port $to {{ default 127.0.0.1:{b}; }}
         server {{ listen 127.0.0.1:{weighted} udp; proxy_pass w; }}
         server {{ listen 127.0.0.1:{hashed} udp; proxy_pass h; }}
         server {{ listen 127.0.0.1:{mapped} udp; proxy_pass $to; }}",
        a = servers[0],
        b = servers[1],
    ));
    for port in [weighted, hashed, mapped] {
        for _ in 0..6 {
            ask(&client(port), "x");
        }
    }
    server.wait_for("18 lines", |s| s.log("udp.log").lines().count() == 18);
    let count = |port: u16, to: u16| {
        let line = format!("{port} 127.0.0.1:{to}");
        server.log("udp.log").lines().filter(|l| *l == line).count()
    };
    assert_eq!(count(weighted, servers[0]), 4);
    assert_eq!(count(hashed, servers[0]) % 6, 0);
    assert_eq!(count(mapped, servers[1]), 6);
}

#[test]
fn return_answers_each_datagram_of_a_burst() {
    let port = free_port();
    let _server = start(&format!(
        "server {{ listen 127.0.0.1:{port} udp; return $protocol:$remote_port:$bytes_received; }}"
    ));
    let client = client(port);
    let own = client.local_addr().expect("its address").port();
    for n in 1..=20 {
        client.send(&vec![b'x'; n]).expect("sent");
    }
    for n in 1..=20 {
        let answer = received(&client, crate::PATIENCE);
        assert_eq!(answer, Some(format!("UDP:{own}:{n}")));
    }
}

#[test]
fn server_is_told_of_the_client_in_the_first_datagram() {
    let upstream = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = upstream.local_addr().expect("its address").port();
    let (one, two) = (free_port(), free_port());
    let _server = start(&format!(
        "server {{ listen 127.0.0.1:{one} udp; proxy_pass 127.0.0.1:{to}; proxy_protocol on; }}
         server {{ listen 127.0.0.1:{two} udp; proxy_pass 127.0.0.1:{to}; proxy_protocol v2;
                   proxy_bind 127.0.0.2; }}"
    ));
    let mut buffer = [0; 99];
    let client = client(one);
    let own = client.local_addr().expect("its address").port();
    client.send(b"hello").expect("sent");
    let n = upstream.recv(&mut buffer).expect("a datagram");
    let header = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {own} {one}\r\nhello");
    assert_eq!(&buffer[..n], header.as_bytes());
    client.send(b"again").expect("sent");
    let n = upstream.recv(&mut buffer).expect("a datagram");
    assert_eq!(&buffer[..n], b"again");
    UdpSocket::bind("127.0.0.1:0")
        .expect("a socket")
        .send_to(b"hello", ("127.0.0.1", two))
        .expect("sent");
    let (n, from) = upstream.recv_from(&mut buffer).expect("a datagram");
    assert_eq!(from.ip().to_string(), "127.0.0.2");
    assert_eq!(buffer[12..14], [0x21, 0x12], "PROXY, UDP over IPv4");
    assert!(buffer[..n].ends_with(b"hello"));
}

#[test]
fn wildcard_answers_from_the_address_that_was_asked() {
    let (upstream, port) = (echo(), free_port());
    let _server = start(&format!(
        "server {{ listen {port} udp; proxy_pass 127.0.0.1:{upstream}; }}
         server {{ listen 127.0.0.3:{port} udp; return $server_addr; }}"
    ));
    // A connected socket receives only from the address that it asked.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut sources = Vec::new();
    for address in ["127.0.0.1", "127.0.0.2"] {
        socket.connect((address, port)).expect("connected");
        sources.push(source(&ask(&socket, "x")).to_string());
    }
    assert_ne!(sources[0], sources[1], "a session for each local address");
    socket.connect(("127.0.0.3", port)).expect("connected");
    assert_eq!(ask(&socket, "x"), "127.0.0.3");
}

#[test]
fn tcp_and_udp_share_a_port_and_options_are_checked() {
    let (accepted, said) = check(
        "events { } stream {
         server { listen 53; listen 53 udp reuseport rcvbuf=64k; return x; }
         server { listen 127.0.0.1:53 udp; proxy_pass 127.0.0.1:5353; proxy_requests 1; }
         } http { access_log off; server { listen 443; } }",
    );
    assert!(accepted, "{said}");
    let incompatible = |name: &str| {
        format!("\"listen\" directive \"{name}\" parameter is incompatible with \"udp\"")
    };
    for (listen, error) in [
        ("1 udp backlog=5", incompatible("backlog")),
        ("1 udp ssl", incompatible("ssl")),
        ("1 udp fastopen=5", incompatible("fastopen")),
        ("1 udp deferred", incompatible("deferred")),
        ("1 udp multipath", incompatible("multipath")),
        ("1 udp so_keepalive=on", incompatible("so_keepalive")),
        ("1 udp proxy_protocol", incompatible("proxy_protocol")),
        ("1 udp; listen 1 udp", "a duplicate listen 1".into()),
        ("unix:/x udp backlog=5", incompatible("backlog")),
        ("1 udp; proxy_responses x", "invalid number".into()),
    ] {
        let text = format!("events {{ }} stream {{ server {{ listen {listen}; return x; }} }}");
        let (accepted, said) = check(&text);
        assert!(!accepted && said.contains(&error), "{listen}\n{said}");
    }
    let (accepted, said) = check("events { } http { server { listen 1 udp; } }");
    assert!(
        !accepted && said.contains("invalid parameter \"udp\""),
        "{said}"
    );
}
