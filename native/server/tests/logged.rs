//! What the log and its variables show: rules that the comparison with the real nginx has taught and its
//! documentation does not give.

use crate::site::{Folder, Server};

#[test]
fn log_shows_sent_response() {
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
fn set_arguments_are_logged_when_empty() {
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
fn upstream_response_length_counts_chunk_framing() {
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
fn prepared_response_is_logged_like_the_first() {
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
fn chunked_body_is_counted_when_read_or_discarded() {
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
fn limit_messages_of_mirror_are_logged_with_request() {
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
fn tcp_info_values_are_variables() {
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
fn response_variables_are_known_when_sent() {
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
fn trailers_and_encoding_are_logged() {
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
