//! Active health checks in http: `health_check`, `match`, and `slow_start`.

use crate::backend::{
    answers, line, response, servers, site, state, wait_for_state, Backend, Does,
};
use crate::resolver::name_server;
use crate::site::{check, configuration, Server};

#[test]
fn unhealthy_server_gets_no_requests_until_it_recovers() {
    let (a, b) = (Backend::start("a"), Backend::start("b"));
    let parameters = "interval=50ms jitter=10ms fails=2 passes=2 uri=/health?x=1";
    let server = Server::start(&site(&servers(&[&a, &b]), parameters, ""));
    let both = answers(&server, 4);
    assert!(
        both.contains(&"a".into()) && both.contains(&"b".into()),
        "{both:?}"
    );
    a.set("/health", Does::Answer(response(404, "", "")));
    wait_for_state(&server, &a, "unhealthy");
    let said = line("unhealthy", "checking status code", "", a.port);
    assert!(server.log("error.log").contains(&said));
    assert_eq!(answers(&server, 6), ["b"; 6]);
    assert_eq!(state(&server, &b), "up");
    a.set("/health", Does::Answer(response(302, "", "")));
    wait_for_state(&server, &a, "up");
    let said = line("healthy", "checking status code", "", a.port);
    assert!(server.log("error.log").contains(&said));
    assert!(answers(&server, 4).contains(&"a".into()));
    let request = &a
        .requests()
        .into_iter()
        .find(|r| r.contains("/health"))
        .expect("a check");
    assert_eq!(
        request,
        "GET /health?x=1 HTTP/1.1\r\nHost: u\r\nConnection: close\r\n\r\n"
    );
    let page = server.get("/status", "");
    assert!(page.contains("\"health_checks\":{\"checks\":"), "{page}");
    let series = format!(
        "gallop_upstream_health_check_fails_total{{upstream=\"u\",server=\"127.0.0.1:{}\"}} 0\n",
        b.port
    );
    let page = server.get("/metrics", "");
    assert!(page.contains(&series), "{page}");
}

#[test]
fn all_unhealthy_servers_mean_502_also_for_the_only_one() {
    let a = Backend::start("a");
    a.set("/health", Does::Answer(response(500, "", "")));
    let server = Server::start(&site(&servers(&[&a]), "interval=50ms uri=/health", ""));
    wait_for_state(&server, &a, "unhealthy");
    assert!(server.get("/", "").starts_with("HTTP/1.1 502 "));
    assert!(server.log("error.log").contains("no live upstreams"));
    assert_eq!(a.count("/ "), 0);
}

#[test]
fn mandatory_check_keeps_requests_away_until_it_passes() {
    let a = Backend::start("a");
    a.set("/health", Does::Nothing);
    let parameters = "interval=50ms uri=/health mandatory";
    let text = site(&servers(&[&a]), parameters, "proxy_read_timeout 200ms;");
    let server = Server::start(&text.replace("interval", "fails=1000 interval"));
    assert_eq!(state(&server, &a), "checking");
    assert!(server.get("/", "").starts_with("HTTP/1.1 502 "));
    a.set("/health", Does::Answer(response(200, "", "")));
    wait_for_state(&server, &a, "up");
    assert!(server.get("/", "").ends_with("\r\n\r\na"));
    assert_eq!(answers(&server, 1), ["a"]);
}

#[test]
fn server_that_refuses_connections_is_unhealthy_at_the_port_of_the_check() {
    let (a, dead) = (Backend::start("a"), crate::ports::free_port());
    let parameters = format!("interval=50ms port={dead}");
    let server = Server::start(&site(&servers(&[&a]), &parameters, ""));
    wait_for_state(&server, &a, "unhealthy");
    let doing = "connecting to upstream";
    let said = line("unhealthy", doing, "", a.port) + &format!(", port {dead}");
    server.wait_for("the line", |s| s.log("error.log").contains(&said));
    let reason = format!("connect() failed (111: Connection refused) while {doing}, health check");
    assert!(server.log("error.log").contains(&reason));
}

#[test]
fn failure_of_one_of_several_checks_makes_a_server_unhealthy() {
    let (a, b) = (Backend::start("a"), Backend::start("b"));
    let more = "server { listen 127.0.0.1:{port}; server_name other.example;
        location / { proxy_pass http://u; health_check interval=50ms uri=/health/deep mandatory; } }";
    // The same server twice: both entries are marked.
    let servers = servers(&[&a, &b, &a]);
    let parameters = "interval=50ms uri=/health mandatory";
    let server = Server::start(&site(&servers, parameters, more));
    wait_for_state(&server, &a, "up");
    wait_for_state(&server, &b, "up");
    a.set("/health/deep", Does::Answer(response(500, "", "")));
    wait_for_state(&server, &a, "unhealthy");
    assert_eq!(answers(&server, 8), ["b"; 8]);
    a.set("/health", Does::Answer(response(500, "", "")));
    a.set("/health/deep", Does::Answer(response(200, "", "")));
    let checks = a.count("/health");
    server.wait_for("more checks", |_| a.count("/health") > checks + 6);
    assert_eq!(state(&server, &a), "unhealthy");
    a.set("/health", Does::Answer(response(200, "", "")));
    wait_for_state(&server, &a, "up");
}

#[test]
fn checks_share_a_connection_for_keepalive_time() {
    let (a, b) = (Backend::start("a"), Backend::start("b"));
    for backend in [&a, &b] {
        backend.set("/health", Does::Keep(response(200, "", "fine")));
    }
    let more = format!(
        "upstream v {{ zone v 64k; server 127.0.0.1:{}; }}
         server {{ listen 127.0.0.1:{{port}}; server_name v.example;
             location / {{ proxy_pass http://v; health_check interval=20ms uri=/health; }} }}",
        b.port
    );
    let parameters = "interval=20ms uri=/health keepalive_time=1h";
    let server = Server::start(&site(&servers(&[&a]), parameters, &more));
    server.wait_for("checks", |_| {
        a.count("/health") >= 5 && b.count("/health") >= 5
    });
    assert_eq!(a.connections(), 1);
    assert!(b.connections() >= 5);
    // The connection has gone: the next check takes another one.
    a.set("/health", Does::Answer(response(200, "", "fine")));
    server.wait_for("another connection", |_| a.connections() > 2);
    assert_eq!(state(&server, &a), "up");
    assert!(!server.log("error.log").contains("unhealthy"));
}

#[test]
fn one_thread_of_several_checks_each_server_once_per_interval() {
    let a = Backend::start("a");
    let http = site(&servers(&[&a]), "interval=1h uri=/health", "");
    let server = Server::start_with("worker_processes 4;", &http);
    server.wait_for("a check", |_| a.count("/health") > 0);
    answers(&server, 8);
    assert_eq!(a.count("/health"), 1);
}

#[test]
fn recovered_server_starts_slowly() {
    let (a, b) = (Backend::start("a"), Backend::start("b"));
    a.set("/health", Does::Answer(response(500, "", "")));
    let servers = format!(
        "server 127.0.0.1:{} slow_start=10h; server 127.0.0.1:{};",
        a.port, b.port
    );
    let server = Server::start(&site(&servers, "interval=50ms uri=/health", ""));
    wait_for_state(&server, &a, "unhealthy");
    a.set("/health", Does::Answer(response(200, "", "")));
    wait_for_state(&server, &a, "up");
    assert_eq!(answers(&server, 6), ["b"; 6]);
    // Without another server it takes all requests.
    b.set("/health", Does::Answer(response(500, "", "")));
    wait_for_state(&server, &b, "unhealthy");
    assert_eq!(answers(&server, 2), ["a"; 2]);
}

#[test]
fn resolved_servers_are_checked_as_they_come() {
    let a = Backend::start("a");
    let (port, _asked) = name_server();
    let servers = format!("server known.example:{} resolve;", a.port);
    let more = format!("resolver 127.0.0.1:{port};");
    let parameters = "interval=50ms uri=/health mandatory";
    let server = Server::start(&site(&servers, parameters, &more));
    server.wait_for("an answer", |s| s.get("/", "").ends_with("\r\n\r\na"));
    a.set("/health", Does::Answer(response(500, "", "")));
    server.wait_for("the refusal", |s| {
        s.get("/", "").starts_with("HTTP/1.1 502 ")
    });
    let said = line("unhealthy", "checking status code", "", a.port);
    assert!(server.log("error.log").contains(&said));
}

#[test]
fn faulty_health_checks_are_refused() {
    let group = "upstream u { zone u 64k; server 127.0.0.1:1; }";
    let place = |text: &str| {
        let http = format!("{group} server {{ listen 127.0.0.1:1; {text} }}");
        check(&configuration(&http))
    };
    let refused = [
        ("interval=0", "invalid parameter \"interval=0\""),
        ("fails=0", "invalid parameter \"fails=0\""),
        ("port=70000", "invalid parameter \"port=70000\""),
        ("uri=health", "invalid parameter \"uri=health\""),
        ("persistent", "invalid parameter \"persistent\""),
        ("udp", "invalid parameter \"udp\""),
        ("match=none", "match \"none\" is not found"),
        ("type=grpc", "\"type=grpc\" requires \"grpc_pass\""),
        ("type=grpc interval=1s", "invalid parameter \"interval=1s\""),
        ("match=m type=grpc", "invalid parameter \"type=grpc\""),
    ];
    for (parameters, said) in refused {
        let (good, text) = place(&format!(
            "location / {{ proxy_pass http://u; health_check {parameters}; }}"
        ));
        assert!(!good && text.contains(said), "{parameters}: {text}");
    }
    let wrong_places = [
        (
            "location / { health_check; }",
            "requires a place that passes requests on",
        ),
        (
            "location / { proxy_pass http://$host; health_check; }",
            "variables name the upstream",
        ),
        (
            "location / { proxy_pass http://127.0.0.1:2; health_check; }",
            "to be in shared memory",
        ),
        (
            "health_check;",
            "\"health_check\" directive is not allowed here",
        ),
    ];
    for (text, said) in wrong_places {
        let (good, out) = place(text);
        assert!(!good && out.contains(said), "{text}: {out}");
    }
}
