//! How heads of requests are read, refused and what they leave of the connection: rules that the comparison with the real nginx has taught and its
//! documentation does not give.

use crate::site::{Folder, Server};

/// The head of a request that is refused must not be told from the one before it.
#[test]
fn rejected_request_is_logged_by_its_own_server() {
    let server = Server::start(
        "log_format who '$host|$request'; access_log who.log who;
         server { listen 127.0.0.1:{port} default_server; server_name first; }
         server { listen 127.0.0.1:{port}; server_name second; error_page 400 =402 /bad;
             location = /bad { return 402 own; } }",
    );
    let head = "GET /a HTTP/1.1\r\nHost: second\r\n";
    let bad = |more: &str| server.raw(&format!("{head}{more}\r\n\r\n"));
    assert!(bad("X : 1").ends_with("own"));
    let target = server.raw("GET /../x HTTP/1.1\r\nHost: second\r\n\r\n");
    assert!(
        target.contains("<title>400 Bad Request</title>"),
        "{target}"
    );
    let garbage = server.raw("\u{16}\u{3}\u{1}\r\n\r\n");
    assert!(
        garbage.contains("<title>400 Bad Request</title>"),
        "{garbage}"
    );
    server.wait_for("the last line", |s| s.log("who.log").lines().count() == 3);
    let log = server.log("who.log");
    assert!(log.ends_with("|-\n") || log.ends_with("|\n"), "{log}");
    assert!(log.starts_with("second|GET /a HTTP/1.1\n"), "{log}");
}

#[test]
fn duplicate_field_is_rejected_before_long_line() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost; large_client_header_buffers 2 1k;
             error_page 494 =200 /long; location /long { return 200 long; } location / { return 204; } }",
    );
    let long = "v".repeat(1500);
    for (fields, status) in [
        ("Host: localhost\r\nExpect: x\r\nExpect: y\r\n", 400),
        ("Expect: x\r\nExpect: y\r\n", 400),
        ("Host: a..b\r\n", 400),
        ("Host: localhost\r\nExpect: x\r\n", 200),
    ] {
        let answer = server.raw(&format!("GET / HTTP/1.1\r\n{fields}X-Long: {long}\r\n\r\n"));
        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&expected), "{fields}: {answer}");
    }
}

#[test]
fn lines_after_a_duplicate_field_are_not_counted() {
    let server = Server::start(
        "log_format seen '$request_length $http_host $uri'; access_log seen.log seen;
         server { listen 127.0.0.1:{port}; server_name localhost; }",
    );
    let start = "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n";
    let heads = [
        format!("{start}Content-Length: 1\r\n"),
        format!("{start}Host: other\r\n"),
        format!("{start}If-Match: *\r\nIf-Match: *\r\n"),
    ];
    for head in &heads {
        let answer = server.raw(&format!("{head}X-Behind: it\r\n\r\nx"));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    server.raw("CONNECT x:80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    server.wait_for("all lines", |s| s.log("seen.log").lines().count() == 4);
    let log = server.log("seen.log");
    let lines: Vec<&str> = log.lines().collect();
    for (line, head) in lines.iter().zip(&heads) {
        assert_eq!(**line, format!("{} localhost /a", head.len()), "{head}");
    }
    assert!(lines[3].ends_with(" localhost /"), "{log}");
}

#[test]
fn keepalive_follows_location_of_request() {
    let folder = Folder::new();
    folder.write("html/index.html", "index");
    let server = Server::start_in(
        folder,
        "keepalive_timeout 75 20;
         server { listen 127.0.0.1:{port}; server_name localhost; root html;
             location /to/ { alias html/; } location = /to/index.html { keepalive_timeout 0; alias html/index.html; }
             location /off/ { keepalive_timeout 0; alias html/; }
             location = /off/index.html { keepalive_timeout 30; alias html/index.html; }
             location /shorter { keepalive_timeout 30; return 200 x; }
             location /silent { keepalive_timeout 30 0; return 200 x; } }",
    );
    let kept = |uri: &str| {
        let answer = server.raw(&format!(
            "GET {uri} HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.0\r\nHost: localhost\r\n\r\n"
        ));
        let heads = answer.matches("HTTP/1.1 200 OK\r\n").count();
        let told = answer.lines().find(|l| l.starts_with("Keep-Alive"));
        (heads, told.map(String::from))
    };
    let timeout = |n: u32| Some(format!("Keep-Alive: timeout={n}"));
    assert_eq!(kept("/"), (2, timeout(20)));
    // The second answer is one that was prepared.
    for uri in ["/to/", "/to/", "/off/", "/off/"] {
        assert_eq!(kept(uri), (1, None), "{uri}");
    }
    // What clients are told is an outer level's where this one does not say.
    assert_eq!(kept("/shorter"), (2, timeout(20)));
    assert_eq!(kept("/silent"), (2, None));
}

#[test]
fn duplicate_field_is_rejected_with_prepared_response() {
    let folder = Folder::new();
    folder.write("html/a.txt", "a");
    let server = Server::start_in(
        folder,
        "server { listen 127.0.0.1:{port}; server_name localhost; root html; }",
    );
    for _ in 0..3 {
        assert!(server.get("/a.txt", "").starts_with("HTTP/1.1 200 "));
    }
    for name in ["Authorization", "Proxy-Authorization", "Content-Range"] {
        let answer = server.get("/a.txt", &format!("{name}: a\r\n{name}: b\r\n"));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{name}: {answer}");
    }
}

/// Nor has it a version, though its error page is asked for with GET; CONNECT's user is a proxy's.
#[test]
fn unknown_values_of_rejected_request_stay_empty() {
    let server = Server::start(
        "log_format who '$remote_user'; access_log who.log who;
         server { listen 127.0.0.1:{port}; error_page 400 /bad;
             location /bad { return 200 <$request_method:$server_protocol>; } }",
    );
    let bad = server.raw("GET /a\u{7f} HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(bad.ends_with("<GET:>"), "{bad}");
    let user = |field: &str| {
        server.raw(&format!(
            "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n{field}: Basic YTpi\r\n\r\n"
        ))
    };
    assert!(user("Authorization").starts_with("HTTP/1.1 405 "));
    assert!(user("Proxy-Authorization").starts_with("HTTP/1.1 405 "));
    server.wait_for("the last line", |s| s.log("who.log").lines().count() == 3);
    assert_eq!(server.log("who.log"), "-\n-\na\n");
}

/// The page of a method that is not served gets the body, as any other page does; nothing of it is a request.
#[test]
fn body_of_rejected_method_reaches_error_page() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name site; error_page 405 =200 /page;
             location / { proxy_pass http://127.0.0.1:{port}; proxy_set_header Host up; } }
         server { listen 127.0.0.1:{port}; server_name up;
             return 200 \"$request_method <$content_length>\"; }",
    );
    let trace = |fields: &str| {
        let body = "GET /own HTTP/1.1\r\nHost: up\r\n\r\n";
        server.raw(&format!(
            "TRACE / HTTP/1.1\r\nHost: site\r\n{fields}\r\n{body}"
        ))
    };
    let answer = trace("Content-Length: 31\r\n");
    assert!(answer.ends_with("GET <31>"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    let answer = trace("Content-Length: 31\r\nTransfer-Encoding: chunked\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}
