//! Which location answers and what its rules do there: rules that the comparison with the real nginx has taught and its
//! documentation does not give.

use crate::site::{Folder, Server};

#[test]
fn locations_within_internal_location_are_internal() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location /in { internal; location /in/deep { return 200 seen; } }
             location /way { rewrite ^ /in/deep last; } }",
    );
    assert!(server.get("/in/deep", "").starts_with("HTTP/1.1 404 "));
    assert!(server.get("/way", "").ends_with("seen"));
}

#[test]
fn try_files_fallback_has_only_its_own_arguments() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location / { try_files $uri /end; } location /own/ { try_files $uri /end?own; }
             location /end { return 200 \"[$args]\"; } }",
    );
    assert!(server.get("/x?a=1", "").ends_with("[]"));
    assert!(server.get("/own/x?a=1", "").ends_with("[own]"));
}

#[test]
fn captures_come_from_last_evaluated_expression() {
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

#[test]
fn error_page_loop_ends_with_its_error() {
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
fn limits_count_at_their_own_level() {
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
fn rewrite_to_another_server_always_redirects() {
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
fn path_of_upstream_redirect_stays_a_path() {
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
fn nested_location_inherits_default_redirect() {
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
fn path_without_slash_has_no_extension_at_first_byte() {
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
fn password_is_requested_when_subrequest_rejects_too() {
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
fn rewrite_in_named_location_counts_as_cycle() {
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
fn missing_named_location_gets_500_page() {
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
fn referer_is_checked_once() {
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
fn try_files_runs_before_mirror() {
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
fn invalid_target_reaches_no_named_location() {
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
fn error_page_redirect_keeps_location_as_written() {
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
fn location_inherits_secure_link_beside_own_settings() {
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
fn named_location_gets_method_and_body_of_request() {
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
fn limit_except_applies_before_location_rules() {
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

/// As in nginx, whose rule joins them before it knows that one is empty.
#[test]
fn request_arguments_follow_rewrite_arguments_even_when_empty() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port};
             location /in { rewrite ^/in(.*)$ /out?$1 last; }
             location /away { rewrite ^/away(.*)$ /out?$1 redirect; }
             location /out { return 200 <$args>; } }",
    );
    assert!(server.get("/in?q=x", "").ends_with("<&q=x>"));
    assert!(server.get("/in1?q=x", "").ends_with("<1&q=x>"));
    assert!(server.get("/in", "").ends_with("<>"));
    let away = |uri: &str| {
        let answer = server.get(uri, "");
        let to = answer.lines().find_map(|l| l.strip_prefix("Location: "));
        to.and_then(|to| to.split_once("/out"))
            .map(|(_, rest)| rest.to_string())
    };
    assert_eq!(away("/away?q=x").as_deref(), Some("?&q=x"));
    assert_eq!(away("/away").as_deref(), Some("?"));
}

/// As in nginx: the page for a check that failed is no way past the one that had refused.
#[test]
fn rejected_request_stays_rejected_on_error_page() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; error_page 500 /page; recursive_error_pages on;
             location / { satisfy any; auth_basic here; auth_basic_user_file /dev/null; auth_request /check; }
             location /all { auth_request /check; }
             location = /check { return 500; }
             location = /page { try_files /none @page; }
             location @page { return 200 page; } }",
    );
    assert!(server.get("/", "").starts_with("HTTP/1.1 401 "));
    assert!(server.get("/all", "").ends_with("page"));
}

#[test]
fn empty_response_type_and_length_are_known_to_headers_only() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; default_type text/css; add_header X-Type $sent_http_content_type;
             add_header X-Length $sent_http_content_length; location / { return 204; } location /more { return 204 text; charset utf-8; gzip on; } }",
    );
    for (uri, length) in [("/", 0), ("/more", 4)] {
        let answer = server.get(uri, "Accept-Encoding: gzip\r\n");
        let told = format!("\r\nX-Type: text/css\r\nX-Length: {length}\r\n");
        assert!(answer.contains(&told), "{answer}");
        assert!(!answer.contains("\r\nContent-"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    }
}
