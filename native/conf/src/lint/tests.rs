//! Tests: each mistake is reported with its line, and correct configurations have no remarks.

use super::remarks;
use crate::parser::parse_text;
use std::path::Path;

fn of_http(text: &str) -> Vec<String> {
    let text = format!("events {{ }}\nhttp {{\n{text}\n}}\n");
    let directives = parse_text("t.conf", &text, Path::new("/")).expect("it can be read");
    remarks(&directives)
}

fn of_server(text: &str) -> Vec<String> {
    of_http(&format!(
        "server {{ listen 127.0.0.1:80; root /r;\n{text}\n}}"
    ))
}

/// Check that there is a single remark, with these words and this line.
fn one(found: &[String], words: &str, line: usize) {
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(words), "{found:?}");
    let place = format!(" in t.conf:{line}");
    assert!(found[0].ends_with(&place), "{found:?} {place}");
}

fn none(found: &[String]) {
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn an_alias_that_can_be_left() {
    one(
        &of_server("location /i {\nalias /data/; }"),
        "/i../x is /data/../x",
        5,
    );
    one(
        &of_server("location ^~ /i { alias /data/; }"),
        "location /i/",
        4,
    );
    none(&of_server(
        "location /i/ { alias /data/; } location = /j { alias /data/; }",
    ));
    none(&of_server(
        "location /i { alias /data; } location ~ ^/i { alias /data/; }",
    ));
}

#[test]
fn headers_that_are_lost() {
    let text = "add_header A 1; add_header B 2; location / {\nadd_header B 3; }";
    one(&of_server(text), "drops those of t.conf:4: A;", 5);
    none(&of_server("add_header A 1; location / { add_header a 3; }"));
    none(&of_server(
        "add_header A 1; add_header_inherit merge; location / { add_header B 3; }",
    ));
    none(&of_server("add_header A 1; location / { expires 1d; }"));
}

#[test]
fn answers_that_a_visitor_can_split() {
    one(
        &of_server("location /a { return 301 https://x$uri; }"),
        "$request_uri",
        4,
    );
    one(
        &of_server("location /a { add_header X ${document_uri}; }"),
        "decoded",
        4,
    );
    none(&of_server(
        "location /a { return 301 https://x$request_uri; } return 200 $uri;",
    ));
    none(&of_server("location /a { return 301 https://x$uri_safe; }"));
}

#[test]
fn if_that_holds_too_much() {
    let text = "location / {\nif ($a) { proxy_pass http://127.0.0.1; expires 1d; } }";
    one(&of_server(text), "proxy_pass, expires", 5);
    none(&of_server(
        "location / { if ($a) { set $b 1; return 403; } } if ($c) { rewrite ^ /x; }",
    ));
}

#[test]
fn locations_that_are_never_reached() {
    let text = "location ~ \\.php$ { return 403; }\nlocation ~ \\.php$ { return 404; }";
    one(&of_server(text), "matches first", 5);
    let text = "location ~ .* { return 403; }\nlocation ~* \\.jpg$ { return 404; }";
    one(&of_server(text), "the one at t.conf:4", 5);
    none(&of_server(
        "location ~ a { return 403; } location ~* a { return 404; } location ~ / { }",
    ));
}

#[test]
fn servers_that_answer_what_nobody_meant() {
    let two = "server { listen 80; server_name a.example; }\nserver { listen *:80; server_name b.example; }";
    one(&of_http(two), "no \"default_server\" for 80", 3);
    none(&of_http(
        "server { listen 80 default_server; return 444; } server { listen 80; server_name b; }",
    ));
    none(&of_http("server { listen 80; server_name a.example; }"));
    none(&of_http(
        "server { listen 80; server_name _; } server { listen 80; server_name b; }",
    ));
}

#[test]
fn servers_that_are_never_chosen() {
    let two = "server { listen 80 default_server; server_name a b; }\nserver { listen 80; server_name B; }";
    one(
        &of_http(two),
        "never chosen: its names are those of t.conf:3",
        4,
    );
    none(&of_http("server { listen 80 default_server; server_name a; } server { listen 80; server_name a c; }"));
    none(&of_http("server { listen 80; } server { listen 81; }"));
}

#[test]
fn a_variable_host_without_a_resolver() {
    let text = "location / { set $b backend.example;\nproxy_pass http://$b:81/; }";
    one(&of_server(text), "no \"resolver\"", 5);
    none(&of_server(
        "resolver 127.0.0.1; location / { proxy_pass http://$backend; }",
    ));
    none(&of_server(
        "location / { set $b 127.0.0.1; proxy_pass http://$b:81; }",
    ));
    let map = "upstream one { server 127.0.0.1; } map $uri $g { default one; ~x [::1]:80; }";
    none(&of_http(&format!(
        "{map} server {{ listen 80; location / {{ proxy_pass http://$g; }} }}"
    )));
    none(&of_server(
        "location / { proxy_pass http://127.0.0.1$request_uri; proxy_pass http://unix:/a:$b; }",
    ));
}

#[test]
fn a_host_that_the_visitor_names() {
    for host in ["$host", "$http_x", "a.$arg_b", "$1.example", "$request_uri"] {
        let found = of_server(&format!(
            "resolver 127.0.0.1; location / {{ proxy_pass http://{host}; }}"
        ));
        one(&found, "wherever the visitor says", 4);
    }
    none(&of_server(
        "resolver 127.0.0.1; location / { proxy_pass http://b/$host$1; }",
    ));
}

#[test]
fn a_slash_that_gets_lost() {
    one(
        &of_server("location /a/ { proxy_pass http://127.0.0.1/b; }"),
        "/a/x is passed on as /bx",
        4,
    );
    none(&of_server("location /a/ { proxy_pass http://127.0.0.1/b/; } location /c { proxy_pass http://127.0.0.1/d; }"));
}

#[test]
fn old_tls() {
    one(
        &of_server("ssl_protocols TLSv1 TLSv1.1 TLSv1.2;"),
        "TLSv1, TLSv1.1",
        4,
    );
    one(&of_http("ssl_ciphers HIGH:RC4-SHA:!MD5;"), "RC4-SHA", 3);
    none(&of_server(
        "ssl_protocols TLSv1.2 TLSv1.3; ssl_ciphers HIGH:!aNULL:!MD5;",
    ));
}

#[test]
fn a_root_in_location_slash_alone() {
    let text = "server { listen 80; location / {\nroot /r; } location /img { expires 1d; } }";
    one(&of_http(text), "/img take files", 4);
    none(&of_http(
        "root /d; server { listen 80; location / { root /r; } location /img { } }",
    ));
    none(&of_http("server { listen 80; location / { root /r; } location /b { proxy_pass http://127.0.0.1; } }"));
}

#[test]
fn a_status_that_everyone_sees() {
    let open = "server { listen 80; location /s {\nstub_status; } }";
    one(&of_http(open), "open to everyone", 4);
    one(
        &of_http("server { location /s { status; } }"),
        "status_socket",
        3,
    );
    none(&of_http(
        "server { listen 127.0.0.1:80; listen unix:/s; location /s { status; } }",
    ));
    none(&of_http(
        "server { listen 80; location /s { allow 10.0.0.0/8; deny all; stub_status; } }",
    ));
}

#[test]
fn php_that_runs_what_is_not_there() {
    let pass = "fastcgi_pass unix:/php.sock;";
    one(
        &of_server(&format!("location ~ \\.php$ {{\n{pass} }}")),
        "x.jpg/y.php",
        5,
    );
    none(&of_server(&format!(
        "location ~ \\.php$ {{ try_files $uri =404; {pass} }}"
    )));
    none(&of_server(&format!(
        "location ~ \\.php$ {{ if (!-f $request_filename) {{ return 404; }} {pass} }}"
    )));
    none(&of_server(&format!(
        "location = /index.php {{ {pass} }} location / {{ {pass} }}"
    )));
}
