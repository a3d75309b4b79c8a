//! The tests of `match` blocks on responses to health checks.

use crate::backend::{response, servers, site, state_in, wait_for_state, Backend, Does};
use crate::site::{check, configuration, Server};

/// Each test, a response that passes it, and one that does not, and what the log says of that.
const MATCHES: [(&str, &str, &str, &str); 9] = [
    (
        "status 200 204 300-302;",
        "301||",
        "303||",
        "checking status code",
    ),
    (
        "status ! 200-399;",
        "404||",
        "399||",
        "checking status code",
    ),
    (
        "header X-A = b;",
        "200|x-a: b\r\n|",
        "200|X-A: c\r\n|",
        "checking header",
    ),
    (
        "header X-A != b;",
        "200|X-A: c\r\n|",
        "200||",
        "checking header",
    ),
    (
        "header X-A ~* ^B;",
        "200|X-A: bc\r\n|",
        "200|X-A: cb\r\n|",
        "checking header",
    ),
    (
        "header X-A;",
        "200|X-A: c\r\n|",
        "200|X-B: c\r\n|",
        "checking header",
    ),
    (
        "header ! X-A;",
        "500||",
        "200|X-A: c\r\n|",
        "checking header",
    ),
    (
        "status 200; body ~ \"we(lc)ome\";",
        "200||so welcome",
        "200||no",
        "checking body",
    ),
    (
        "body !~ error;",
        "200||fine",
        "200||an error",
        "checking body",
    ),
];

fn answer_of(text: &str) -> Does {
    let parts: Vec<&str> = text.split('|').collect();
    Does::Answer(response(
        parts[0].parse().expect("a status"),
        parts[1],
        parts[2],
    ))
}

#[test]
fn match_tests_status_header_and_body() {
    let mut backends = Vec::new();
    let (mut blocks, mut places) = (String::new(), String::new());
    for (i, (tests, good, bad, _)) in MATCHES.iter().enumerate() {
        blocks += &format!("match m{i} {{ {tests} }}");
        for (kind, answer) in [("good", good), ("bad", bad)] {
            let backend = Backend::start(kind);
            backend.set("/", answer_of(answer));
            let (name, port) = (format!("{kind}{i}"), backend.port);
            blocks += &format!("upstream {name} {{ zone u 64k; server 127.0.0.1:{port}; }}");
            places += &format!(
                "location /{name} {{ proxy_pass http://{name}; health_check interval=50ms mandatory match=m{i}; }}"
            );
            backends.push((name, backend));
        }
    }
    let server = Server::start(&format!(
        "{blocks} server {{ listen 127.0.0.1:{{port}}; location /status {{ status; }} {places} }}"
    ));
    for (name, backend) in &backends {
        let word = if name.starts_with("good") {
            "up"
        } else {
            "unhealthy"
        };
        server.wait_for(&format!("{name} {word}"), |s| {
            let found = state_in(s, name, backend.port);
            assert!(found == word || found == "checking", "{name} is {found}");
            found == word
        });
    }
    let log = server.log("error.log");
    for (i, (_, _, _, doing)) in MATCHES.iter().enumerate() {
        assert!(log.contains(&format!(
            "peer is unhealthy while {doing}, health check \"m{i}\""
        )));
        assert!(log.contains(&format!(
            "peer is healthy while {doing}, health check \"m{i}\""
        )));
    }
}

#[test]
fn match_requires_variables_of_the_response() {
    let a = Backend::start("a");
    let more = "map $upstream_http_x_load $is_idle { default 0; ~^[0-4]$ yes; }
                match idle { require $upstream_status $is_idle; }";
    a.set("/", answer_of("200|X-Load: 3\r\n|"));
    let parameters = "interval=50ms match=idle mandatory";
    let server = Server::start(&site(&servers(&[&a]), parameters, more));
    wait_for_state(&server, &a, "up");
    a.set("/", answer_of("200|X-Load: 9\r\n|"));
    wait_for_state(&server, &a, "unhealthy");
}

#[test]
fn faulty_tests_and_slow_starts_are_refused() {
    let refused = [
        ("match m { status 2000; }", "invalid status \"2000\""),
        ("match m { status 300-200; }", "invalid status \"300-200\""),
        ("match m { header A ? b; }", "invalid parameter \"?\""),
        ("match m { body = x; }", "invalid parameter \"=\""),
        (
            "match m { require name; }",
            "invalid variable name \"name\"",
        ),
        (
            "match m { require $nothing; }",
            "unknown \"nothing\" variable",
        ),
        (
            "match m { send x; }",
            "\"send\" directive is not allowed here",
        ),
        (
            "match m { status 200; } match m { status 200; }",
            "duplicate match \"m\"",
        ),
        (
            "upstream v { ip_hash; server 127.0.0.1:1 slow_start=1s; }",
            "balancing method does not support parameter \"slow_start=1s\"",
        ),
    ];
    for (text, said) in refused {
        let (good, out) = check(&configuration(text));
        assert!(!good && out.contains(said), "{text}: {out}");
    }
}
