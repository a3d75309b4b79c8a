//! What the comparison with the real nginx has taught: rules that its documentation does not give.

use crate::site::{read_all, Folder, Server};
use std::io::{Read, Write};

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
fn a_location_within_another_takes_its_default_redirect_over() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost; absolute_redirect off;
             location / { proxy_pass http://127.0.0.1:{port}/own/a/;
                 location /in/ { proxy_pass http://127.0.0.1:{port}/own/b/; }
                 location /off/ { proxy_pass http://127.0.0.1:{port}/own/b/; proxy_redirect off; }
                 location /set/ { proxy_pass http://127.0.0.1:{port}/own/b/; proxy_redirect default; } }
             location /own/ { return 302 http://127.0.0.1:{port}$uri$is_args$args; } }",
    );
    let elsewhere = format!("http://127.0.0.1:{}/own/b/x", server.port);
    for (path, location) in [
        ("/x", "/x"),
        ("/in/x", &elsewhere),
        ("/off/x", &elsewhere),
        ("/set/x", "/set/x"),
    ] {
        let answer = server.get(path, "");
        let expected = format!("\r\nLocation: {location}\r\n");
        assert!(answer.contains(&expected), "{path}: {answer}");
    }
}

#[test]
fn a_path_without_escapes_reaches_the_upstream_as_it_came_though_arguments_are_set() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location / { set $args a=1; proxy_pass http://127.0.0.1:{port}; proxy_set_header Host own; }
             location /w { rewrite ^/w(.*)$ /q$1 break; proxy_pass http://127.0.0.1:{port};
                 proxy_set_header Host own; } }
         server { listen 127.0.0.1:{port}; server_name own; return 200 $request_uri; }",
    );
    for (path, sent) in [
        ("/a\"b<?c", "/a\"b<?a=1"),
        ("/%41\"", "/A%22?a=1"),
        ("/w\"", "/q%22"),
    ] {
        let answer = server.get(path, "");
        assert!(answer.ends_with(&format!("\r\n\r\n{sent}")), "{answer}");
    }
}

#[test]
fn an_upstream_is_asked_for_what_the_client_wrote_though_a_file_was_found() {
    let folder = Folder::new();
    folder.write("html/found", "x");
    let server = Server::start_in(
        folder,
        "server { listen 127.0.0.1:{port}; server_name localhost; root html;
             location / { try_files /found =404; proxy_pass http://127.0.0.1:{port}; proxy_set_header Host own; }
         }
         server { listen 127.0.0.1:{port}; server_name own; return 200 $request_uri; }",
    );
    assert!(server
        .get("/a/..//%41?b", "")
        .ends_with("\r\n\r\n/a/..//%41?b"));
}

#[test]
fn a_path_without_a_slash_has_no_extension_behind_its_first_byte() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost; types { text/x-own txt; }
             default_type text/x-none; error_page 404 @text; rewrite ^ $arg_q last;
             location @text { return 200 $uri; } }",
    );
    for (path, kind) in [
        ("b.txt", "none"),
        ("bc.txt", "own"),
        ("/b.txt", "own"),
        ("/.txt", "none"),
    ] {
        let answer = server.get(&format!("/?q={path}"), "");
        let expected = format!("\r\nContent-Type: text/x-{kind}\r\n");
        assert!(answer.contains(&expected), "{path}: {answer}");
    }
}

#[test]
fn a_field_that_comes_again_is_refused_before_a_line_that_is_too_long() {
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

#[test]
fn arguments_that_were_set_are_logged_though_they_are_empty() {
    let server = Server::start(
        "log_format args '$request_uri [$args]'; access_log args.log args;
         server { listen 127.0.0.1:{port}; server_name localhost;
             location / { return 204; } location /cut { rewrite ^ /? last; } location /set { set $args ''; return 204; }
             location /with { rewrite ^ /?; return 204; } location /own { rewrite ^ /?$1; return 204; }
             location /try { try_files /none /; } error_page 402 /; error_page 403 $uri; recursive_error_pages on;
             location = /page { return 402; } location = /named { if ($args = x) { return 403; } return 204; } }",
    );
    let asked = [
        ("/", "-"),
        ("/?", "-"),
        ("/?a", "a"),
        ("/?#x", ""),
        ("/cut", "-"),
        ("/cut?a", ""),
        ("/set", ""),
        ("/with", "-"),
        ("/own", ""),
        ("/try", ""),
        ("/page?a", "-"),
        ("/named?x", ""),
    ];
    for (uri, _) in asked {
        server.get(uri, "");
    }
    let expected: Vec<String> = asked.map(|(uri, args)| format!("{uri} [{args}]")).into();
    server.wait_for("all lines", |s| {
        s.log("args.log").lines().count() == asked.len()
    });
    let log = server.log("args.log");
    assert_eq!(log.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_rewrite_in_a_named_location_counts_as_one_more_turn() {
    let server = Server::start(
        "log_format where '$uri'; access_log where.log where;
         server { listen 127.0.0.1:{port}; server_name localhost; recursive_error_pages on;
             error_page 404 = @again; location / { return 404; } location @again { rewrite ^ /x$uri last; } }",
    );
    assert!(server.get("/a", "").starts_with("HTTP/1.1 500 "));
    server.wait_for("the line", |s| s.log("where.log").ends_with('\n'));
    assert_eq!(server.log("where.log"), "/x/x/x/x/x/a\n");
}

#[test]
fn a_named_location_that_is_missing_has_the_page_of_a_500() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost; error_page 500 /sorry;
             location / { try_files /none @none; } location = /sorry { return 200 sorry; } }",
    );
    let answer = server.get("/", "");
    assert!(
        answer.starts_with("HTTP/1.1 500 ") && answer.ends_with("sorry"),
        "{answer}"
    );
}

#[test]
fn the_length_of_an_upstreams_answer_counts_the_framing_of_chunks() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let (upstream, _) = crate::site::upstream(vec![chunked.into()]);
    let server = Server::start(&format!(
        "log_format length '$upstream_response_length'; access_log length.log length;
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }} }}"
    ));
    assert!(server.get("/", "").contains("abc"));
    server.wait_for("the line", |s| s.log("length.log").ends_with('\n'));
    assert_eq!(server.log("length.log"), "13\n");
}

/// The second answer comes from memory.
#[test]
fn an_answer_from_memory_is_logged_as_the_first_was() {
    let folder = Folder::new();
    folder.write("html/index.html", "index");
    folder.write("html/a.txt", "a");
    let server = Server::start_in(
        folder,
        "log_format all '$request_uri $uri|$1|$n|$sent_http_content_type|$sent_http_etag|$loud';
         log_format short '$uri'; map $sent_http_last_modified $loud { '' no; default yes; }
         types { text/plain txt; text/html html; }
         server { listen 127.0.0.1:{port}; server_name localhost; root html;
             location / { access_log all.log all; access_log short.log short; }
             location ~ /(?<n>a)(.)txt { access_log all.log all; } }",
    );
    for uri in ["/", "/a.txt", "/?b"] {
        for _ in 0..3 {
            assert!(server.get(uri, "").starts_with("HTTP/1.1 200 "));
        }
    }
    server.wait_for("all lines", |s| s.log("all.log").lines().count() == 9);
    let log = server.log("all.log");
    let lines: Vec<&str> = log.lines().collect();
    for same in lines.chunks(3) {
        assert!(same.iter().all(|line| *line == same[0]), "{log}");
        assert!(same[0].ends_with("\\x22|yes"), "{log}");
    }
    assert!(lines[0].starts_with("/ /index.html|"), "{log}");
    assert!(
        lines[3].starts_with("/a.txt /a.txt|a|a|text/plain|"),
        "{log}"
    );
    assert_eq!(server.log("short.log"), "/index.html\n".repeat(6));
}

#[test]
fn a_chunked_body_counts_as_it_was_read_or_thrown_away() {
    let (upstream, _) = crate::site::upstream(vec![
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".into(),
    ]);
    let server = Server::start(&format!(
        "log_format sizes '$request_length $content_length'; access_log sizes.log sizes;
         server {{ listen 127.0.0.1:{{port}}; location / {{ add_header X-Length [$content_length]; return 200; }}
             location = /own {{ return 402 own; }} error_page 400 /own;
             location /none {{ return 404; }} location /way {{ return 302 /; }} location /up {{ proxy_pass http://127.0.0.1:{upstream}; }} }}"
    ));
    let head = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
    };
    let ask = |path: &str, body: &str| server.raw(&format!("{}{body}", head(path)));
    let body = "3;x=y\r\nabc\r\n0\r\nT: t\r\n\r\n";
    assert!(ask("/up", body).ends_with("ok"));
    assert!(ask("/", body).contains("\r\nX-Length: [0]\r\n"));
    // Malformed: a 400 with its own page, unless the request was refused already.
    assert!(ask("/", "x\r\n\r\n").ends_with("own"));
    assert!(ask("/none", "x\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask("/way", "x\r\n\r\n").ends_with("own"));
    server.wait_for("all lines", |s| s.log("sizes.log").lines().count() == 5);
    let log = server.log("sizes.log");
    let lines: Vec<&str> = log.lines().take(2).collect();
    let read = head("/up").len() + body.len();
    assert_eq!(
        lines,
        [format!("{read} 3"), format!("{} 0", head("/").len())]
    );
}

#[test]
fn lines_behind_one_that_came_before_do_not_count() {
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
fn arguments_that_were_set_reach_the_upstream_with_the_uri_as_it_is_now() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nAccept-Ranges: bytes\r\n\r\nok";
    let (upstream, requests) = crate::site::upstream(vec![answer.into()]);
    let server = Server::start(&format!(
        "proxy_cache_path cache keys_zone=c:1m;
         server {{ listen 127.0.0.1:{{port}}; max_ranges 0; proxy_buffering off; proxy_cache c; proxy_cache_valid 1h;
             location / {{ set $args own; proxy_pass http://127.0.0.1:{upstream}; }} }}"
    ));
    let answer = server.get("/%61/../%62?x", "");
    assert!(
        answer.ends_with("ok") && !answer.contains("Accept-Ranges"),
        "{answer}"
    );
    let request = requests.recv().expect("a request");
    assert!(request.starts_with("GET /b?own HTTP/1."), "{request}");
}

#[test]
fn what_limits_say_of_a_copy_is_in_the_requests_log() {
    let server = Server::start(
        "limit_conn_zone $uri zone=c:64k; log_format limits '$status $limit_conn_status'; access_log limits.log limits;
         server { listen 127.0.0.1:{port}; server_name localhost;
             location / { mirror /copy; } location /copy { limit_conn c 5; } }",
    );
    for n in 1..=20 {
        server.get("/none", "");
        server.wait_for("the line", |s| s.log("limits.log").lines().count() == n);
    }
    assert_eq!(server.log("limits.log"), "404 PASSED\n".repeat(20));
}

#[test]
fn what_an_upstream_is_asked_for_is_escaped_as_the_client_escaped_it() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost; error_page 404 =404 /dated;
             location /in { proxy_pass http://127.0.0.1:{port}/own; }
             location /own { return 200 $request_uri; }
             location /dated { proxy_pass http://127.0.0.1:{port}/date; }
             location /date { add_header Last-Modified 'Sun, 06 Nov 1994 08:49:37 GMT'; return 200 x; } }",
    );
    assert!(server.get("/in/a+\"", "").ends_with("/own/a+\""));
    assert!(server.get("/in/a%2B\"", "").ends_with("/own/a+%22"));
    // An upstream's date stands whatever the status is.
    let answer = server.get("/none", "");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(
        answer.contains("\r\nLast-Modified: Sun, 06 Nov 1994 "),
        "{answer}"
    );
}

#[test]
fn a_referer_is_judged_once() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location / { valid_referers none ~good x.test; error_page 403 = @other;
                 if ($invalid_referer) { return 403; } return 200 fine; }
             location @other { return 200 \"[$invalid_referer]\"; } }",
    );
    assert!(server.get("/", "Referer: bad\r\n").ends_with("[1]"));
    assert!(server.get("/", "").ends_with("fine"));
}

#[test]
fn what_is_kept_unbuffered_meets_the_clients_conditions() {
    let server = Server::start(
        "proxy_cache_path cache keys_zone=c:1m; proxy_cache_valid 1h;
         server { listen 127.0.0.1:{port}; server_name localhost;
             location / { proxy_pass http://127.0.0.1:{port}/own; proxy_cache c; proxy_buffering off; }
             location = /own { add_header ETag '\"e\"'; return 200 body; } }",
    );
    let answer = server.get("/", "If-Match: \"other\"\r\n");
    assert!(answer.starts_with("HTTP/1.1 412 "), "{answer}");
    let answer = server.get("/", "If-None-Match: \"e\"\r\n");
    assert!(answer.starts_with("HTTP/1.1 304 "), "{answer}");
}

#[test]
fn files_are_tried_before_a_request_is_mirrored() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost; client_max_body_size 1;
             location / { mirror /mirror; try_files /none =404; } location /mirror { return 204; } }",
    );
    let head =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    let answer = server.raw(&format!("{head}3\r\nabc\r\n0\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[test]
fn a_target_that_is_none_leads_to_no_named_location() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost; error_page 400 = @there;
             location @there { return 402; } }",
    );
    let answer = server.raw("GET /../x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    let answer = server.raw("GET /x HTTP/1.1\r\nHost: localhost\r\nX : 1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 402 "), "{answer}");
}

#[test]
fn a_page_that_leads_on_names_the_location_as_it_was_written() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost; msie_refresh on;
             location / { return 302 /else; } location /to/ { rewrite ^/to/a(.*)$ /$1 redirect; } }",
    );
    let agent = "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0)\r\n";
    let answer = server.get("/", agent);
    assert!(answer.contains("URL=/else\""), "{answer}");
    let answer = server.get("/to/a%7B}~'", agent);
    assert!(answer.contains("URL=/%7B}%7E%27\""), "{answer}");
    let answer = server.get("/", &format!("{agent}If-Match: x\r\n"));
    assert!(answer.starts_with("HTTP/1.1 412 "), "{answer}");
}

#[test]
fn a_location_inherits_secure_link_beside_its_own_settings() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             secure_link $arg_h,$arg_e; secure_link_md5 secret;
             location / { add_header X-Own 1; return 200 \"[$secure_link][$secure_link_expires]\"; } }",
    );
    // base64url(md5("secret"))
    let link = "/?h=Xr4ilOzQ4PCOq3aQ0qbuaQ&e=4102444800";
    assert!(server.get(link, "").ends_with("[1][4102444800]"));
    assert!(server
        .get("/?h=x&e=4102444800", "")
        .ends_with("[][4102444800]"));
}

#[test]
fn the_kernels_figures_of_a_connection_are_variables() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             return 200 \"$tcpinfo_rtt $tcpinfo_rttvar $tcpinfo_snd_cwnd $tcpinfo_rcv_space\"; }",
    );
    let answer = server.get("/", "");
    let body = answer.rsplit("\r\n").next().unwrap_or_default();
    let figures: Vec<u32> = body.split(' ').filter_map(|n| n.parse().ok()).collect();
    assert!(figures.len() == 4 && figures[2] > 0, "{answer}");
}

#[test]
fn variables_of_the_answer_are_known_when_it_is_sent() {
    let upstream = crate::passing::http_upstream();
    let server = Server::start(&format!(
        "log_format f '$uri $gzip_ratio [$proxy_host] [$request_port] $limit_rate [$sent_http_transfer_encoding]';
         access_log seen.log f;
         server {{ listen 127.0.0.1:{{port}}; server_name localhost; default_type text/html;
             location /zip {{ gzip on; gzip_min_length 1; return 200 {body}; }}
             location /slow {{ limit_rate 1m; return 200 \"[$sent_http_transfer_encoding]$limit_rate\"; }}
             location /denied {{ deny all; proxy_pass http://127.0.0.1:{upstream}; }}
             location /passed {{ proxy_pass http://127.0.0.1:{upstream}; }} }}",
        body = "x".repeat(400)
    ));
    server.get("/zip", "Accept-Encoding: gzip\r\n");
    assert!(server.get("/slow", "").ends_with("[]0"));
    server.get("/denied", "");
    server.get("/passed/plain", "");
    server.wait_for("the log", |s| s.log("seen.log").lines().count() == 4);
    let log = server.log("seen.log");
    let (zip, rest) = log.split_once('\n').expect("lines");
    let ratio = zip.split(' ').nth(1).and_then(|word| word.parse().ok());
    assert!(ratio.is_some_and(|ratio: f64| ratio > 10.0), "{zip}");
    assert!(zip.ends_with(" [-] [] 0 [chunked]"), "{zip}");
    let want = format!(
        "/slow - [-] [] 1048576 [-]\n/denied - [-] [] 0 [-]\n/passed/plain - [127.0.0.1:{upstream}] [] 0 [-]\n"
    );
    assert_eq!(rest, want);
}

#[test]
fn the_log_tells_of_trailers_and_of_the_coding_that_was_used() {
    let server = Server::start(
        "log_format f \"$status [$sent_http_transfer_encoding] [$sent_trailer_x]\"; access_log seen.log f;
         server { listen 127.0.0.1:{port}; server_name localhost;
             location / { add_trailer X y; return 200 body; } location /none { return 204; } }",
    );
    server.get("/", "");
    server.get("/none", "");
    server.wait_for("the log", |s| s.log("seen.log").lines().count() == 2);
    assert_eq!(server.log("seen.log"), "200 [chunked] [y]\n204 [-] [-]\n");
}

#[test]
fn connections_are_kept_as_the_locations_of_a_request_say() {
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
fn a_named_location_has_the_requests_method_and_body() {
    let (port, requests) = crate::site::upstream(vec![
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".into();
        3
    ]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; server_name localhost; root html;
             location / {{ try_files $uri @app; }}
             location /error {{ error_page 404 = @app; }}
             location /method {{ error_page 405 = @app; return 405; }}
             location @app {{ proxy_pass http://127.0.0.1:{port}; }} }}"
    ));
    for uri in ["/tried", "/error", "/method"] {
        let answer = server.raw(&format!(
            "POST {uri}?a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
        ));
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok"),
            "{answer}"
        );
        let seen = requests.recv_timeout(crate::PATIENCE).expect("a request");
        assert!(
            seen.starts_with(&format!("POST {uri}?a HTTP/1.1\r\n")),
            "{seen}"
        );
        assert!(seen.ends_with("\r\n\r\nbody"), "{seen}");
    }
}

#[test]
fn limits_of_methods_come_before_any_rule_of_their_location() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost; root html; error_page 404 = @named;
             location /return { limit_except GET { deny all; } return 200 ok; }
             location /if { limit_except GET { deny all; } if ($arg_a) { set $b 1; }
                 proxy_pass http://127.0.0.1:{port}/return; }
             location /rewrite { limit_except GET { deny all; } rewrite ^ /open last; }
             location /open { return 200 open; } location /none { return 404; }
             location @named { limit_except GET { deny all; } return 200 named; } }",
    );
    let status = |method: &str, uri: &str| {
        let answer = server.raw(&format!("{method} {uri} HTTP/1.0\r\n\r\n"));
        answer[9..12].to_string()
    };
    for uri in ["/return", "/if?a=1", "/if", "/rewrite", "/none"] {
        assert_eq!(status("GET", uri), "200", "{uri}");
        assert_eq!(status("DELETE", uri), "403", "{uri}");
    }
}

/// The port of an application that gives these answers through FastCGI.
fn application(answers: &'static [&'static str]) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a request");
            let mut request = Vec::new();
            // Until the record that ends the body.
            while !request.ends_with(&[1, 5, 0, 1, 0, 0, 0, 0]) {
                let mut buffer = [0; 4096];
                let n = stream.read(&mut buffer).expect("more of the request");
                assert!(n > 0, "the request ended early");
                request.extend_from_slice(&buffer[..n]);
            }
            let mut records = vec![1, 6, 0, 1, 0, answer.len() as u8, 0, 0];
            records.extend_from_slice(answer.as_bytes());
            records.extend_from_slice(&[1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            let _ = stream.write_all(&records);
        }
    });
    port
}

#[test]
fn an_application_speaks_for_this_server() {
    let port = application(&[
        "Server: own/1\r\nDate: then\r\n\r\nquick",
        "Server: own/2\r\nServer: other\r\n\r\nbody",
        "HTTP/1.1 404 None\r\nStatus: 201 Made\r\nStatus: 500 Oh\r\né: x\r\nxé: x\r\nX-Good: é\r\n\r\nbody",
        "Content-Length: 4, 4\r\n\r\nbody",
        "Status: 204 None\r\nContent-Type: a/b\r\n\r\n",
    ]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; server_name localhost;
             location / {{ fastcgi_pass 127.0.0.1:{port}; }}
             location /slow {{ fastcgi_pass 127.0.0.1:{port}; sub_filter body BODY; sub_filter_types *; }} }}"
    ));
    let quick = server.get("/", "");
    assert!(quick.contains("\r\nServer: own/1\r\n"), "{quick}");
    assert!(quick.contains("\r\nDate: then\r\n"), "{quick}");
    let slow = server.get("/slow", "");
    assert_eq!(slow.matches("\r\nServer: ").count(), 1, "{slow}");
    assert!(slow.contains("\r\nServer: own/2\r\n"), "{slow}");
    let odd = server.get("/", "");
    assert!(odd.starts_with("HTTP/1.1 201 Made\r\n"), "{odd}");
    assert!(odd.contains("\r\nX-Good: é\r\n"), "{odd}");
    assert!(!odd.contains("é: x"), "{odd}");
    assert!(server.get("/", "").starts_with("HTTP/1.1 502 "));
    let nothing = server.get("/", "");
    assert!(nothing.starts_with("HTTP/1.1 204 None\r\n"), "{nothing}");
    assert!(nothing.contains("\r\nContent-Type: a/b\r\n"), "{nothing}");
}

#[test]
fn an_upstreams_status_field_is_a_field_and_a_second_status_line_is_none() {
    let answer =
        "HTTP/1.1 200 OK\r\nHTTP/1.1 404 None\r\nStatus: 404 None\r\nContent-Length: 2\r\n\r\nok";
    let (upstream, _) = crate::site::upstream(vec![answer.into()]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }} }}"
    ));
    let answer = server.get("/", "");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\nStatus: 404 None\r\n"), "{answer}");
}

#[test]
fn what_is_said_of_the_content_goes_to_a_named_location_too() {
    let answer = "HTTP/1.1 200 OK\r\nX-Accel-Redirect: @named\r\nContent-Type: a/b\r\n\
                  Cache-Control: no-store\r\nContent-Length: 0\r\n\r\n";
    let (upstream, _) = crate::site::upstream(vec![answer.into()]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }}
             location @named {{ return 200 named; }} }}"
    ));
    let answer = server.get("/", "");
    assert!(answer.ends_with("named"), "{answer}");
    assert!(answer.contains("\r\nContent-Type: a/b\r\n"), "{answer}");
    assert!(
        answer.contains("\r\nCache-Control: no-store\r\n"),
        "{answer}"
    );
}

#[test]
fn what_goes_with_a_redirect_within_the_server_is_as_if_it_were_the_answer() {
    let answer = |target: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nX-Accel-Redirect: {target}\r\nSet-Cookie: a=1; path=/in/\r\n\
             Expires: 0\r\nExpires: 1\r\nContent-Type: text/plain; charset=koi8-r\r\nAccept-Ranges: none\r\n\
             Content-Length: 0\r\n\r\n"
        )
    };
    let mut answers = ["@named", "@named", "/none", "@named"].map(answer);
    answers[3] = answers[3].replace("200 OK", "302 Found");
    let (upstream, _) = crate::site::upstream(answers.into());
    let server = Server::start(&format!(
        "proxy_cache_path kept keys_zone=kept:1m; proxy_cookie_path /in/ /out/;
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }}
             location /kept {{ proxy_pass http://127.0.0.1:{upstream}; proxy_cache kept; }}
             location = /none {{ return 404; }}
             location /pages {{ proxy_pass http://127.0.0.1:{upstream}; proxy_intercept_errors on;
                 error_page 302 =418 /none; }}
             location @named {{ return 200 named; }} }}"
    ));
    let plain = server.get("/", "");
    assert!(
        plain.contains("\r\nSet-Cookie: a=1; path=/out/\r\n"),
        "{plain}"
    );
    assert!(plain.contains("\r\nAccept-Ranges: none\r\n"), "{plain}");
    assert!(plain.contains("\r\nExpires: 0\r\n"), "{plain}");
    assert!(!plain.contains("Expires: 1"), "{plain}");
    let kept = server.get("/kept", "");
    assert!(kept.contains("\r\nSet-Cookie: "), "{kept}");
    assert!(!kept.contains("Accept-Ranges: none"), "{kept}");
    let page = server.get("/", "");
    assert!(
        page.contains("\r\nContent-Type: text/html; charset=koi8-r\r\n"),
        "{page}"
    );
    // A page for the status comes before where the answer wants to go.
    let page = server.get("/pages", "");
    assert!(page.contains("404 Not Found"), "{page}");
}

#[test]
fn a_date_that_is_none_goes_with_the_page_that_ssi_makes_anew() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nLast-Modified: nonsense\r\n\
                  Upgrade: h2c\r\nContent-Length: 4\r\n\r\nbody";
    let (upstream, _) = crate::site::upstream(vec![answer.into(); 2]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }}
             location /ssi {{ ssi on; proxy_pass http://127.0.0.1:{upstream}; }} }}"
    ));
    let plain = server.raw("GET / HTTP/1.0\r\n\r\n");
    assert!(plain.contains("\r\nLast-Modified: nonsense\r\n"), "{plain}");
    // What the server could speak is said to clients of HTTP/1.0, too.
    assert!(plain.contains("\r\nUpgrade: h2c\r\n"), "{plain}");
    let made = server.get("/ssi", "");
    assert!(made.ends_with("body") || made.contains("body"), "{made}");
    assert!(!made.contains("Last-Modified"), "{made}");
}

#[test]
fn of_two_addresses_that_are_told_the_first_counts_unless_there_is_a_list() {
    let server = Server::start(
        "set_real_ip_from 127.0.0.0/8;
         server { listen 127.0.0.1:{port}; server_name localhost;
             add_header X-Seen $remote_addr always;
             location /one { real_ip_header X-Real-IP; }
             location /list { real_ip_header X-Forwarded-For; } }",
    );
    let two = |name| format!("{name}: 192.0.2.1\r\n{name}: 192.0.2.2\r\n");
    let one = server.get("/one", &two("X-Real-IP"));
    assert!(one.contains("X-Seen: 192.0.2.1\r\n"), "{one}");
    let list = server.get("/list", &two("X-Forwarded-For"));
    assert!(list.contains("X-Seen: 192.0.2.2\r\n"), "{list}");
}

#[test]
fn a_field_that_comes_twice_is_refused_though_the_answer_lies_ready() {
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
