//! Clients that stay at one server of a group, servers that are drained, and least_time.

use crate::ports::free_port;
use crate::site::Server;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

/// A group `u` of two servers, which answer `A` and `B` and the cookie that the request asks for by an argument.
fn start(group: &str, location: &str) -> Server {
    let (a, b) = (free_port(), free_port());
    let group = group
        .replace("{a}", &format!("127.0.0.1:{a}"))
        .replace("{b}", &format!("127.0.0.1:{b}"));
    Server::start(&format!(
        "upstream u {{ {group} }}
         server {{ listen 127.0.0.1:{{port}}; server_name localhost; {location}
             location / {{ proxy_pass http://u; }} }}
         server {{ listen 127.0.0.1:{a}; add_header Set-Cookie $arg_set; location / {{ return 200 A; }}
             location /missing {{ return 404 A; }} }}
         server {{ listen 127.0.0.1:{b}; add_header Set-Cookie $arg_set; location / {{ return 200 B; }}
             location /missing {{ return 404 B; }} }}"
    ))
}

fn cookie(answer: &str) -> Option<&str> {
    let rest = answer.split_once("\r\nSet-Cookie: ")?.1;
    rest.lines().next()
}

/// The bodies of several answers.
fn bodies(server: &Server, uri: &str, headers: &str, n: usize) -> String {
    let body = |_| {
        let answer = server.get(uri, headers);
        answer.chars().last().expect("a body")
    };
    (0..n).map(body).collect()
}

#[test]
fn cookie_binds_a_client_to_its_server() {
    let server = start(
        "server {a} route=first; server {b} route=second; \
         sticky cookie srv expires=1h domain=.example.org httponly secure samesite=lax path=/x;",
        "location /page { proxy_pass http://u/missing; proxy_intercept_errors on; error_page 404 /own; }
         location /own { return 200 own; } location /free { return 200 x; }",
    );
    let answer = server.get("/", "");
    let set = cookie(&answer).expect("a cookie");
    assert!(set.starts_with("srv=first; expires="), "{set}");
    let rest = "; max-age=3600; domain=.example.org; httponly; secure; samesite=lax; path=/x";
    assert!(set.ends_with(rest), "{set}");
    for (name, all) in [("first", "AAAAAA"), ("second", "BBBBBB")] {
        let headers = format!("Cookie: a=b; srv={name}\r\n");
        assert_eq!(bodies(&server, "/", &headers, 6), all);
        let answer = server.get("/", &headers);
        assert!(cookie(&answer).is_some_and(|c| c.starts_with(&format!("srv={name};"))));
    }
    // An unknown server is as good as none, and the client gets another one.
    let unknown = server.get("/", "Cookie: srv=third\r\n");
    assert!(cookie(&unknown).is_some_and(|c| !c.contains("third")));
    // A page in place of the answer binds as well; what comes from no upstream does not.
    let page = server.get("/page", "Cookie: srv=second\r\n");
    assert!(page.ends_with("own") && cookie(&page).is_some(), "{page}");
    assert_eq!(cookie(&server.get("/free", "")), None);
}

#[test]
fn cookie_names_servers_without_routes_by_the_hash_of_their_address() {
    let server = start("server {a}; server {b}; sticky cookie srv;", "");
    let both: Vec<(String, char)> = (0..2)
        .map(|_| {
            let answer = server.get("/", "");
            let set = cookie(&answer).expect("a cookie").to_string();
            (set, answer.chars().last().expect("a body"))
        })
        .collect();
    for (set, body) in both {
        let hash = set.strip_prefix("srv=").expect("the name");
        assert!(
            hash.len() == 32 && hash.bytes().all(|c| c.is_ascii_hexdigit()),
            "{set}"
        );
        let headers = format!("Cookie: {set}\r\n");
        assert_eq!(
            bodies(&server, "/", &headers, 4),
            body.to_string().repeat(4)
        );
    }
}

#[test]
fn cookie_attributes_of_visitors_write_no_fields() {
    let server = start(
        "server {a}; server {b}; sticky cookie srv domain=$uri samesite=$arg_s;",
        "",
    );
    let answer = server.get("/a%0d%0aX-Own:%20b?s=none;%20x=y", "");
    assert!(!answer.contains("\nX-Own"), "{answer}");
    assert!(answer.contains("; samesite=strict\r\n"), "{answer}");
}

#[test]
fn route_leads_to_its_server_also_when_that_is_drained() {
    let server = start(
        "server {a} route=a drain; server {b} route=b; sticky route $cookie_r $arg_r;",
        "",
    );
    assert_eq!(bodies(&server, "/", "", 4), "BBBB");
    assert_eq!(bodies(&server, "/?r=a", "", 4), "AAAA");
    assert_eq!(bodies(&server, "/?r=a", "Cookie: r=b\r\n", 4), "BBBB");
    assert_eq!(bodies(&server, "/?r=c", "", 4), "BBBB");
}

#[test]
fn drained_server_alone_in_its_group_serves_bound_clients_only() {
    let server = start("server {a} route=a drain; sticky route $arg_r;", "");
    assert!(server.get("/", "").starts_with("HTTP/1.1 502 "));
    assert_eq!(bodies(&server, "/?r=a", "", 2), "AA");
}

#[test]
fn learned_sessions_survive_a_reload() {
    let server = start(
        "server {a}; server {b}; \
         sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=sessions:64k timeout=1h;",
        "",
    );
    let unknown = bodies(&server, "/", "Cookie: sid=one\r\n", 4);
    assert!(unknown.contains('A') && unknown.contains('B'), "{unknown}");
    let creator = bodies(&server, "/?set=sid=one", "", 1);
    let all = creator.repeat(4);
    assert_eq!(bodies(&server, "/", "Cookie: sid=one\r\n", 4), all);
    let workers = |s: &Server| s.log("error.log").matches("exited with code 0").count();
    let before = workers(&server);
    server.signal("HUP");
    server.wait_for("the end of the old worker", |s| workers(s) > before);
    assert_eq!(bodies(&server, "/", "Cookie: sid=one\r\n", 4), all);
}

/// A server that answers each connection after some time.
fn slow(body: &'static str, wait: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 4096]);
            std::thread::sleep(wait);
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    port
}

#[test]
fn least_time_prefers_the_fast_server() {
    for rule in [
        "header",
        "last_byte",
        "header inflight",
        "last_byte inflight",
    ] {
        let (tardy, quick) = (
            slow("A", Duration::from_millis(200)),
            slow("B", Duration::ZERO),
        );
        let server = Server::start(&format!(
            "upstream u {{ least_time {rule}; server 127.0.0.1:{tardy}; server 127.0.0.1:{quick}; }}
             server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://u; }} }}"
        ));
        // Each server is measured once.
        let first = bodies(&server, "/", "", 2);
        assert!(first.contains('A'), "{rule}: {first}");
        assert_eq!(bodies(&server, "/", "", 8), "BBBBBBBB", "{rule}");
    }
}
