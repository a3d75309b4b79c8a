//! Health checks over reloads, crashes, and shutdowns, and of servers that do not answer as they should.

use crate::backend::{
    answers, line, servers, site, state, state_in, wait_for_state, Backend, Does,
};
use crate::site::Server;
use std::time::{Duration, Instant};

/// Loads the configuration again and waits until its worker answers.
fn reload(server: &Server, before: &str, after: &str) {
    let text = server.log("nginx.conf").replace(before, after);
    server.folder.write("nginx.conf", &text);
    server.signal("HUP");
    server.wait_for("the new configuration", |s| {
        s.get("/version", "").ends_with(after)
    });
}

#[test]
fn persistent_check_keeps_its_verdict_over_reloads() {
    let a = Backend::start("a");
    let more = format!(
        "upstream p {{ zone p 64k; server 127.0.0.1:{}; }}
         server {{ listen 127.0.0.1:{{port}}; server_name p.example;
             location / {{ proxy_pass http://p; health_check interval=50ms uri=/health mandatory persistent; }} }}
         server {{ listen 127.0.0.1:{{port}} default_server; location = /version {{ return 200 version-1; }}
             location = /status {{ status; }} }}",
        a.port
    );
    let text = site(
        &servers(&[&a]),
        "interval=50ms uri=/health mandatory",
        &more,
    );
    let text = text.replace("server_name localhost;", "server_name other.example;");
    let server = Server::start(&text);
    wait_for_state(&server, &a, "up");
    server.wait_for("up", |s| state_in(s, "p", a.port) == "up");
    // From now on no check ends.
    a.set("/health", Does::Nothing);
    for (before, after) in [("version-1", "version-2"), ("version-2", "version-3")] {
        reload(&server, before, after);
        assert_eq!(state(&server, &a), "checking");
        assert_eq!(state_in(&server, "p", a.port), "up");
    }
}

#[test]
fn worker_that_follows_a_crash_knows_the_verdicts() {
    let a = Backend::start("a");
    let parameters = "interval=50ms uri=/health mandatory";
    let server = Server::start(&site(&servers(&[&a]), parameters, ""));
    wait_for_state(&server, &a, "up");
    a.set("/health", Does::Nothing);
    let worker = |s: &Server| {
        let page = s.get("/status", "");
        let (_, pid) = page.split_once("\"pid\":")?;
        pid.split(',').next().map(str::to_string)
    };
    let before = worker(&server).expect("a worker");
    let killed = std::process::Command::new("kill")
        .args(["-9", &before])
        .status();
    assert!(killed.expect("kill runs").success());
    server.wait_for("another worker", |s| {
        std::net::TcpStream::connect(("127.0.0.1", s.port)).is_ok()
            && worker(s).is_some_and(|pid| pid != before)
    });
    assert_eq!(state(&server, &a), "up");
}

#[test]
fn silent_server_is_unhealthy_after_the_read_timeout() {
    let (a, b) = (Backend::start("a"), Backend::start("b"));
    a.set("/health", Does::Nothing);
    let more = "proxy_read_timeout 100ms;";
    let parameters = "interval=50ms uri=/health";
    let server = Server::start(&site(&servers(&[&a, &b]), parameters, more));
    wait_for_state(&server, &a, "unhealthy");
    let doing = "reading response header from upstream";
    let log = server.log("error.log");
    assert!(log.contains(&line("unhealthy", doing, "", a.port)), "{log}");
    let reason = format!(
        "upstream timed out (110: Connection timed out) while {doing}, health check \"\" of peer"
    );
    assert!(log.contains(&reason), "{log}");
    assert_eq!(answers(&server, 4), ["b"; 4]);
}

#[test]
fn endless_body_is_read_up_to_a_limit_only() {
    let (early, late) = (Backend::start("early"), Backend::start("late"));
    let head = "HTTP/1.1 200 OK\r\n\r\n".to_string();
    early.set(
        "/",
        Does::Endless(head.clone() + "needle", "x".repeat(4096)),
    );
    let far = "x".repeat(256 * 1024);
    late.set("/", Does::Endless(head + &far + "needle", "x".repeat(4096)));
    let parameters = "interval=50ms match=needle mandatory";
    let more = "match needle { body ~ needle; }";
    let server = Server::start(&site(&servers(&[&early, &late]), parameters, more));
    wait_for_state(&server, &early, "up");
    wait_for_state(&server, &late, "unhealthy");
    let said = line("unhealthy", "checking body", "needle", late.port);
    assert!(server.log("error.log").contains(&said));
}

#[test]
fn body_that_drips_is_given_up_after_the_timeouts() {
    let a = Backend::start("a");
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nneed";
    a.set("/", Does::Keep(head.into()));
    let more = "match needle { body ~ needle; }
                proxy_connect_timeout 100ms; proxy_send_timeout 100ms; proxy_read_timeout 100ms;";
    let parameters = "interval=50ms match=needle mandatory";
    let server = Server::start(&site(&servers(&[&a]), parameters, more));
    wait_for_state(&server, &a, "unhealthy");
    let said = line("unhealthy", "reading upstream", "needle", a.port);
    assert!(server.log("error.log").contains(&said));
}

#[test]
fn checks_in_progress_do_not_delay_the_end() {
    for signal in ["QUIT", "TERM"] {
        let a = Backend::start("a");
        a.set("/health", Does::Nothing);
        let server = Server::start(&site(&servers(&[&a]), "interval=50ms uri=/health", ""));
        server.wait_for("a check", |_| a.count("/health") > 0);
        let began = Instant::now();
        assert!(server.end(signal));
        // The check itself would take a minute.
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
