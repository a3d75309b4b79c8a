//! What the comparison with the real nginx has taught: rules that its documentation does not give.

use crate::site::{read_all, Folder, Server};
use std::io::Write;

#[test]
fn what_lies_within_an_internal_location_is_internal() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location /in { internal; location /in/deep { return 200 seen; } }
             location /way { rewrite ^ /in/deep last; } }",
    );
    assert!(server.get("/in/deep", "").starts_with("HTTP/1.1 404 "));
    assert!(server.get("/way", "").ends_with("seen"));
}

#[test]
fn a_fallback_of_try_files_has_only_its_own_arguments() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location / { try_files $uri /end; } location /own/ { try_files $uri /end?own; }
             location /end { return 200 \"[$args]\"; } }",
    );
    assert!(server.get("/x?a=1", "").ends_with("[]"));
    assert!(server.get("/own/x?a=1", "").ends_with("[own]"));
}

#[test]
fn captures_are_those_of_the_last_expression_that_was_looked_at() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location ~ ^/(a)(.) { if ($args ~ ^n(.)) { set $x 1; } return 200 \"[$1]\"; }
             location ~ ^/(?<n>b) { location ~ /b { return 200 \"[$1|$n]\"; } }
             location ~ ^/c(.*) { set $v $1; return 200 \"[$v|$1]\"; } }",
    );
    assert!(server.get("/ab?no", "").ends_with("[o]"));
    assert!(server.get("/ab?yes", "").ends_with("[]"));
    assert!(server.get("/b", "").ends_with("[|b]"));
    assert!(server.get("/c%20d", "").ends_with("[%20d| d]"));
}

/// The head of a request that is refused must not be told from the one before it.
#[test]
fn a_refused_head_is_its_own_servers_and_logged_as_itself() {
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
fn bytes_of_a_target_reach_an_upstream_as_they_came() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location / { proxy_pass http://127.0.0.1:{port}/seen$request_uri; }
             location /seen { return 200 $request_uri; } }",
    );
    let mut stream = server.connect();
    stream
        .write_all(b"GET /\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let answer = read_all(&mut stream);
    assert!(answer.contains("Content-Length: 7\r\n"), "{answer}");
}

#[test]
fn error_pages_end_with_the_error_of_a_loop() {
    let folder = Folder::new();
    folder.write("html/x", "x");
    let server = Server::start_in(
        folder,
        "server { listen 127.0.0.1:{port}; server_name localhost; root html;
             error_page 404 /nowhere; recursive_error_pages on; error_page 410 =200 /x;
             location /gone { return 410; } location /page { return 401; } }",
    );
    assert!(server.get("/no", "").starts_with("HTTP/1.1 500 "));
    let never = "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n";
    let page = server.get("/gone", never);
    assert!(
        page.starts_with("HTTP/1.1 200 ") && page.ends_with('x'),
        "{page}"
    );
    assert!(server
        .get("/page", "")
        .contains("<title>401 Authorization Required</title>"));
}

/// A page of an index lies in another location than the request for it.
#[test]
fn each_kind_of_limit_counts_where_it_stands() {
    let folder = Folder::new();
    folder.write("html/index.html", "page");
    let server = Server::start_in(
        folder,
        "limit_req_zone $uri zone=r:1m rate=100r/s; limit_conn_zone $server_name zone=c:1m;
         log_format limits '$limit_req_status $limit_conn_status'; access_log limits.log limits;
         server { listen 127.0.0.1:{port}; server_name localhost; root html;
             location / { limit_req zone=r; } location = /index.html { limit_conn c 5; } }",
    );
    assert!(server.get("/", "").ends_with("page"));
    server.wait_for("the line", |s| s.log("limits.log").contains('\n'));
    assert_eq!(server.log("limits.log"), "PASSED PASSED\n");
}

#[test]
fn a_rewrite_to_another_server_redirects_whatever_its_flag() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location /a { rewrite ^/a(.*)$ $scheme://other.test$1 last; }
             location /b { rewrite ^/b(.*)$ https://other.test$1 break; } }",
    );
    assert!(server
        .get("/a/x", "")
        .contains("\r\nLocation: http://other.test/x\r\n"));
    assert!(server
        .get("/b/x", "")
        .contains("\r\nLocation: https://other.test/x\r\n"));
}

#[test]
fn the_log_shows_what_was_sent() {
    let folder = Folder::new();
    folder.write("html/empty", "x");
    let server = Server::start_in(
        folder,
        "log_format sent '$status $request_completion|$sent_http_location|$sent_http_content_type|$request_length';
         access_log sent.log sent; default_type text/plain;
         server { listen 127.0.0.1:{port}; server_name localhost; root html;
             location /way { return 301 /else; } location /shown { return 409 $status; }
             location /none { error_page 404 =204 /empty; } location /left { return 499; }
             location /late { return 408; } location /closed { return 444; } }",
    );
    assert!(server.get("/shown", "").ends_with("409"));
    for left in ["/left", "/late", "/closed"] {
        assert_eq!(server.get(left, ""), "");
    }
    let none = server.get("/none", "");
    assert!(!none.contains("Content-Type"), "{none}");
    server.get("/way", "");
    server.raw("\r\nGET /way HTTP/1.1\r\nHost: localhost\r\nX : 1\r\n\r\n");
    server.wait_for("the last line", |s| s.log("sent.log").lines().count() == 7);
    let log = server.log("sent.log");
    let words: Vec<&str> = log
        .lines()
        .map(|l| l.split('|').next().expect("one"))
        .collect();
    assert_eq!(
        words,
        ["409 OK", "499 ", "408 ", "444 ", "204 OK", "301 OK", "400 OK"]
    );
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[4].starts_with("204 OK|-|-|"), "{log}");
    assert!(
        lines[5].contains("/else|text/html") && lines[5].contains("|http://"),
        "{log}"
    );
    // The request line and Host: what came before the wrong field.
    assert!(lines[6].ends_with("|36"), "{log}");
}

#[test]
fn a_path_that_an_upstream_redirects_to_stays_a_path() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location / { proxy_pass http://127.0.0.1:{port}/own/; proxy_redirect /made/ /other/; }
             location /own/ { absolute_redirect off; return 302 /kept/; }
             location /own/made { absolute_redirect off; return 302 /made/; } }",
    );
    assert!(server.get("/x", "").contains("\r\nLocation: /kept/\r\n"));
    let made = server.get("/made", "");
    assert!(
        made.contains("\r\nLocation: http://localhost:") && made.contains("/other/\r\n"),
        "{made}"
    );
}

#[test]
fn a_password_is_asked_for_though_a_subrequest_refuses_too() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location / { satisfy any; auth_basic here; auth_basic_user_file /dev/null; auth_request /check; }
             location = /check { return 401; } }",
    );
    let answer = server.get("/", "");
    assert!(
        answer.starts_with("HTTP/1.1 401 ")
            && answer.contains("WWW-Authenticate: Basic realm=\"here\""),
        "{answer}"
    );
}
