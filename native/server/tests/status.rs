//! What the server counts, as its pages and its private socket show it.

use crate::site::{self, check, upstream, Folder, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

/// GET over the private socket: head and body.
fn ask(server: &Server, path: &str) -> (String, String) {
    let mut stream = UnixStream::connect(server.folder.0.join("s.sock")).expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
    (head.to_string(), body.to_string())
}

type Samples = BTreeMap<String, f64>;

/// Reads the text format 0.0.4 strictly: each family has HELP and TYPE, once, before its samples; no
/// sample stands twice; histograms add up.
fn samples(text: &str) -> Samples {
    let (mut out, mut types) = (Samples::new(), BTreeMap::new());
    let mut helped = BTreeSet::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a text");
            assert!(
                helped.insert(name.to_string()) && !help.is_empty(),
                "{line}"
            );
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(helped.contains(name), "{line}");
            let known = types.insert(name.to_string(), kind.to_string());
            assert!(known.is_none(), "{line} twice");
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let name = series.split('{').next().expect("a name");
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end).filter(|n| types.contains_key(*n)))
                .unwrap_or(name);
            let kind = types
                .get(family)
                .unwrap_or_else(|| panic!("{line}: no type"));
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            labels(series);
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(
                out.insert(series.to_string(), value).is_none(),
                "{line} twice"
            );
        }
    }
    out
}

/// Label names and values, unescaped; panics where the grammar is broken.
fn labels(series: &str) -> Vec<(String, String)> {
    let Some((name, rest)) = series.split_once('{') else {
        return Vec::new();
    };
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    let mut rest = rest.strip_suffix('}').expect("a closing brace");
    let mut out = Vec::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").expect("a value");
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next().expect("a closing quote") {
                (i, '"') => break i,
                (_, '\\') => match chars.next().expect("an escape").1 {
                    'n' => value.push('\n'),
                    c @ ('\\' | '"') => value.push(c),
                    c => panic!("\\{c} is no escape"),
                },
                (_, c) => value.push(c),
            }
        };
        out.push((label.to_string(), value));
        rest = after[end + 1..].trim_start_matches(',');
    }
    out
}

fn metrics(server: &Server) -> Samples {
    let (head, body) = ask(server, "/metrics");
    assert!(
        head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"),
        "{head}"
    );
    samples(&body)
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("html/page", "0123456789");
    folder
}

/// Counts are written after the answer was sent: waits for them.
fn wait_for(server: &Server, series: &str, n: f64) {
    server.wait_for(series, |s| metrics(s).get(series) == Some(&n));
}

const TWO_SITES: &str = "status_socket s.sock;
    server { listen 127.0.0.1:{port} default_server; server_name one.example; status_zone \"a \\\"b\\\" \\\\c\"; root html;
        location /gone { return 410; } location /closed { return 444; } }
    server { listen 127.0.0.1:{port}; server_name localhost; root html; }";
const ONE: &str = r#"zone="a \"b\" \\c""#;

#[test]
fn requests_are_counted_by_site_status_and_duration() {
    let server = Server::start_in(folder(), TWO_SITES);
    for _ in 0..3 {
        assert!(server.get("/page", "").starts_with("HTTP/1.1 200 "));
    }
    server.get("/missing", "");
    server.raw("GET /gone HTTP/1.0\r\nHost: one.example\r\n\r\n");
    server.raw("GET /closed HTTP/1.0\r\nHost: one.example\r\n\r\n");
    let of =
        |zone: &str, class: &str| format!("gallop_zone_requests_total{{{zone},class=\"{class}\"}}");
    wait_for(&server, &of("zone=\"localhost\"", "2xx"), 3.0);
    wait_for(&server, &of("zone=\"localhost\"", "4xx"), 1.0);
    wait_for(&server, &of(ONE, "4xx"), 1.0);
    wait_for(&server, &of(ONE, "none"), 1.0);
    let all = metrics(&server);
    let histogram = "gallop_zone_request_duration_seconds";
    assert_eq!(
        all[&format!("{histogram}_count{{zone=\"localhost\"}}")],
        4.0
    );
    let bounds = all
        .iter()
        .filter(|(s, _)| s.starts_with(&format!("{histogram}_bucket{{zone=\"localhost\"")));
    let mut bounds: Vec<(f64, f64)> = bounds.map(|(s, n)| (bound(s), *n)).collect();
    bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(bounds.windows(2).all(|w| w[0].1 <= w[1].1), "{bounds:?}");
    assert_eq!(bounds.last(), Some(&(f64::INFINITY, 4.0)));
    assert!(all["gallop_zone_sent_bytes_total{zone=\"localhost\"}"] > 700.0);
    assert!(all["gallop_zone_received_bytes_total{zone=\"localhost\"}"] > 150.0);
    assert_eq!(
        all["gallop_protocol_requests_total{protocol=\"HTTP/1.1\"}"],
        4.0
    );
    assert_eq!(
        all["gallop_protocol_requests_total{protocol=\"HTTP/1.0\"}"],
        2.0
    );
    let (head, json) = ask(&server, "/");
    assert!(head.contains("Content-Type: application/json"), "{head}");
    assert!(
        json.contains(
            r#""localhost":{"requests":4,"responses":{"none":0,"1xx":0,"2xx":3,"3xx":0,"4xx":1"#
        ),
        "{json}"
    );
    assert!(json.contains(r#""latency_ms":{"p50":0."#), "{json}");
    // The socket's own requests are no site's, and in no log.
    assert!(!server.log("access.log").contains("/metrics"));
}

fn bound(series: &str) -> f64 {
    let found = labels(series).into_iter().find(|(name, _)| name == "le");
    match found.expect("a bound").1.as_str() {
        "+Inf" => f64::INFINITY,
        text => text.parse().expect("a number"),
    }
}

#[test]
fn prebuilt_responses_are_counted() {
    let server = Server::start_in(folder(), TWO_SITES);
    let mut stream = server.connect();
    let request = "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(50);
    stream.write_all(request.as_bytes()).expect("sent");
    wait_for(
        &server,
        "gallop_zone_requests_total{zone=\"localhost\",class=\"2xx\"}",
        50.0,
    );
    let all = metrics(&server);
    assert_eq!(
        all["gallop_zone_request_duration_seconds_count{zone=\"localhost\"}"],
        50.0
    );
    assert_eq!(
        all["gallop_zone_received_bytes_total{zone=\"localhost\"}"],
        request.len() as f64
    );
}

#[test]
fn counts_survive_reload_and_worker_and_sum_over_threads() {
    let server = Server::start_with("worker_processes 3;", TWO_SITES);
    let two = "gallop_zone_requests_total{zone=\"localhost\",class=\"4xx\"}";
    for _ in 0..10 {
        server.get("/none", "");
    }
    wait_for(&server, two, 10.0);
    server.signal("HUP");
    server.wait_for("the new configuration", |s| {
        metrics(s)["gallop_config_loads_total"] == 2.0
    });
    server.get("/none", "");
    wait_for(&server, two, 11.0);
    server.wait_for("the old worker's end", |s| {
        s.log("error.log").contains("exited with code 0")
    });
    server.signal("HUP");
    server.wait_for("the third", |s| {
        metrics(s)["gallop_config_loads_total"] == 3.0
    });
    wait_for(&server, two, 11.0);
    // Only this connection is open, whatever the workers before left.
    server.wait_for("the others' end", |s| {
        metrics(s)["gallop_connections_active"] == 1.0
    });
    assert!(metrics(&server)["gallop_connections_accepted_total"] >= 12.0);
}

#[test]
fn removed_zone_is_hidden_and_can_return() {
    let text = TWO_SITES.replace(
        "server_name localhost;",
        "server_name localhost; status_zone other;",
    );
    let server = Server::start_in(folder(), TWO_SITES);
    server.get("/none", "");
    let two = "gallop_zone_requests_total{zone=\"localhost\",class=\"4xx\"}";
    wait_for(&server, two, 1.0);
    let now = |http: &str| {
        let text = site::configuration(&http.replace("{port}", &server.port.to_string()));
        server.folder.write("nginx.conf", &text);
        server.signal("HUP");
    };
    now(&text);
    server.wait_for("the other zone", |s| !metrics(s).contains_key(two));
    now(TWO_SITES);
    wait_for(&server, two, 1.0);
}

#[test]
fn status_socket_is_private() {
    let server = Server::start_in(folder(), TWO_SITES);
    let mode = |s: &Server| {
        let found = std::fs::metadata(s.folder.0.join("s.sock")).expect("it is there");
        found.permissions().mode() & 0o777
    };
    assert_eq!(mode(&server), 0o600);
    let wider = Server::start_in(folder(), "status_socket s.sock mode=0660;");
    assert_eq!(mode(&wider), 0o660);
    let socket = server.folder.0.join("s.sock");
    assert!(server.run(&["-s", "quit"]).status.success());
    server.wait_for("its end", |_| !socket.exists());
}

#[test]
fn caches_upstreams_and_limits_are_counted() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nCache-Control: max-age=60\r\n\r\nok";
    let (peer, _requests) = upstream(vec![answer.into(), answer.into()]);
    let dead = crate::ports::free_port();
    let http = format!(
        "status_socket s.sock; proxy_cache_path cache keys_zone=one:1m max_size=10m;
         limit_req_zone $server_name zone=slow:1m rate=1r/m; limit_conn_zone $server_name zone=few:1m;
         upstream group {{ server 127.0.0.1:{dead} max_fails=1 fail_timeout=1h; server 127.0.0.1:{peer}; }}
         server {{ listen 127.0.0.1:{{port}}; server_name localhost; root html;
             location /kept {{ proxy_pass http://group; proxy_cache one; }}
             location /slowpage {{ limit_req zone=slow; limit_conn few 5; alias html/page; }} }}"
    );
    let server = Server::start_in(folder(), &http);
    assert!(server.get("/kept", "").ends_with("ok"));
    assert!(server.get("/kept", "").ends_with("ok"));
    assert!(server.get("/slowpage", "").starts_with("HTTP/1.1 200 "));
    assert!(server.get("/slowpage", "").starts_with("HTTP/1.1 503 "));
    let group = |rest: &str| format!("{{upstream=\"group\",server=\"127.0.0.1:{rest}}}");
    wait_for(
        &server,
        "gallop_cache_responses_total{cache=\"one\",status=\"hit\"}",
        1.0,
    );
    wait_for(
        &server,
        "gallop_cache_responses_total{cache=\"one\",status=\"miss\"}",
        1.0,
    );
    wait_for(
        &server,
        "gallop_limit_req_total{zone=\"slow\",outcome=\"rejected\"}",
        1.0,
    );
    let all = metrics(&server);
    assert_eq!(
        all["gallop_limit_req_total{zone=\"slow\",outcome=\"passed\"}"],
        1.0
    );
    assert_eq!(
        all["gallop_limit_conn_total{zone=\"few\",outcome=\"passed\"}"],
        1.0
    );
    assert_eq!(all["gallop_cache_entries{cache=\"one\"}"], 1.0);
    assert!(all["gallop_cache_size_bytes{cache=\"one\"}"] > 2.0);
    let responses = |port: u16, class: &str| {
        all[&format!(
            "gallop_upstream_responses_total{}",
            group(&format!("{port}\",class=\"{class}\""))
        )]
    };
    assert_eq!((responses(dead, "5xx"), responses(peer, "2xx")), (1.0, 1.0));
    let of = |name: &str, port: u16| {
        all[&format!("gallop_upstream_{name}{}", group(&format!("{port}\"")))]
    };
    assert_eq!(
        (of("fails_total", dead), of("fails_total", peer)),
        (1.0, 0.0)
    );
    assert_eq!((of("up", dead), of("up", peer)), (0.0, 1.0));
    let (_, json) = ask(&server, "/status");
    assert!(json.contains(r#""caches":{"one":{"size":"#), "{json}");
    assert!(
        json.contains(&format!(r#""127.0.0.1:{dead}":{{"state":"unavailable""#)),
        "{json}"
    );
    assert!(
        json.contains(r#""limit_req":{"slow":{"passed":1,"delayed":0,"rejected":1"#),
        "{json}"
    );
}

#[test]
fn status_location_matches_socket() {
    let http = "server { listen 127.0.0.1:{port}; server_name localhost; root html;
        location = /metrics { status format=prometheus; } location = /json { status; } }";
    let server = Server::start_in(folder(), http);
    server.get("/page", "");
    let page = server.get("/metrics", "");
    let (_, body) = page.split_once("\r\n\r\n").expect("an answer");
    assert!(samples(body).contains_key("gallop_connections_active"));
    assert!(server
        .get("/json", "")
        .contains("\"zones\":{\"localhost\":{"));
    assert!(server
        .raw("POST /json HTTP/1.0\r\n\r\n")
        .starts_with("HTTP/1.1 405 "));
}

#[test]
fn contradicting_status_settings_are_rejected() {
    let test = |http: &str| check(&format!("events {{ }} http {{ access_log off; {http} }}"));
    for (http, words) in [
        (
            "status_socket a; status_socket b;",
            "\"status_socket\" directive is duplicate",
        ),
        ("status_socket a mode=9;", "invalid parameter \"mode=9\""),
        ("status_socket a mode=1777;", "invalid parameter"),
        (
            "server { location / { status format=xml; } }",
            "invalid parameter \"format=xml\"",
        ),
        ("server { status_zone a; status_zone b; }", "is duplicate"),
        (
            "server { location / { status_zone a; } }",
            "not allowed here",
        ),
    ] {
        let (accepted, said) = test(http);
        assert!(!accepted && said.contains(words), "{http}: {said}");
    }
    let long = "x".repeat(120);
    let (accepted, said) = test(&format!("status_socket /{long};"));
    assert!(!accepted && said.contains("107 bytes at most"), "{said}");
}

#[test]
fn configuration_test_warns_of_known_mistakes() {
    let text = "events { }\nhttp { access_log off;\nserver { listen 127.0.0.1:1; root /r;\n\
                location /i { alias /data/; } } }";
    let (accepted, said) = check(text);
    assert!(accepted, "{said}");
    let warning = "gallop: [warn] location \"/i\" has no slash at its end";
    assert!(
        said.contains(warning) && said.contains("DIR/nginx.conf:4\n"),
        "{said}"
    );
    let (accepted, said) = check(&text.replace("/i ", "/i/ "));
    assert!(accepted && !said.contains("[warn]"), "{said}");
}
