//! HTTP/3 against the real binary.

use crate::common::Server;
use crate::h3::Client;
use crate::movie::{movie, samples};
use crate::ports::free_port;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::time::{Duration, Instant};

struct Site {
    server: Server,
    port: u16,
    certificate: CertificateDer<'static>,
}

impl Site {
    fn start(server: &str, prepare: impl FnOnce(&Path)) -> Self {
        Self::start_with("", server, prepare)
    }

    /// With directives of the main context.
    fn start_with(main: &str, server: &str, prepare: impl FnOnce(&Path)) -> Self {
        let port = free_port();
        let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
        let http = format!(
            "log_format trailers '$uri [$sent_trailer_x_name]';\n\
             server {{ listen 127.0.0.1:{port} quic; ssl_certificate %%/cert.pem;\n\
             ssl_certificate_key %%/key.pem; root %%/html;\n{}\n}}",
            server.replace("PORT", &port.to_string())
        );
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let server = Server::start_with(main, &http, |folder| {
            std::fs::write(folder.join("cert.pem"), certificate).unwrap();
            std::fs::write(folder.join("key.pem"), key).unwrap();
            std::fs::create_dir_all(folder.join("html")).unwrap();
            prepare(&folder.join("html"));
        });
        let certificate = own.cert.der().clone();
        Self {
            server,
            port,
            certificate,
        }
    }

    fn client(&self) -> Client {
        Self::ready(Client::connect(self.port, self.certificate.clone()))
    }

    fn ready(mut client: Client) -> Client {
        client.run("the handshake", |client| client.connected);
        client.greet();
        client
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 % 251) as u8).collect()
}

#[test]
fn http3_serves_small_and_large_files() {
    let site = Site::start("", |html| {
        std::fs::write(html.join("small.html"), "small").unwrap();
        std::fs::write(html.join("large.bin"), pattern(3_000_000)).unwrap();
    });
    let mut client = site.client();
    for _ in 0..3 {
        let id = client.get("/small.html");
        let answer = client.answer(id);
        assert_eq!(
            (&answer.status[..], &answer.body[..]),
            ("200", &b"small"[..])
        );
        let field = |name: &str| answer.fields.iter().find(|(n, _)| n == name).is_some();
        assert!(field("date") && field("etag") && field("last-modified"));
    }
    let id = client.get("/large.bin");
    assert!(client.answer(id).body == pattern(3_000_000));
    let id = client.get("/missing");
    assert_eq!(client.answer(id).status, "404");
}

#[test]
fn http3_sends_parts_of_movies() {
    let movie = movie();
    let site = Site::start("location / { mp4; }", |html| {
        std::fs::write(html.join("a.mp4"), movie.build()).unwrap();
    });
    let mut client = site.client();
    let id = client.get("/a.mp4?start=4&end=6");
    let part = client.answer(id).body;
    let expected: Vec<_> = (31..46).map(|n| movie.tracks[1].sample(n)).collect();
    assert!(samples(&part, b"smhd") == expected);
}

#[test]
fn http3_serves_many_requests_at_once() {
    let site = Site::start("location / { return 200 $uri; }", |_| {});
    let mut client = site.client();
    for round in 0..5 {
        let ids: Vec<_> = (0..100)
            .map(|n| (n, client.get(&format!("/{round}-{n}"))))
            .collect();
        for (n, id) in ids {
            let want = format!("/{round}-{n}");
            let answer = client.answer(id);
            assert_eq!(answer.body, want.as_bytes(), "{answer:?}");
        }
    }
}

#[test]
fn address_is_validated_first_when_configured() {
    let site = Site::start("quic_retry on; location / { return 204; }", |_| {});
    let mut client = site.client();
    let id = client.get("/");
    assert_eq!(client.answer(id).status, "204");
}

#[test]
fn http3_trailers_are_logged() {
    let site = Site::start(
        "access_log seen.log trailers; location / { add_trailer x-name $uri; return 200 body; }
         location /none { return 204; }",
        |_| {},
    );
    let mut client = site.client();
    for path in ["/", "/none"] {
        let id = client.get(path);
        client.answer(id);
    }
    let log = || std::fs::read_to_string(site.server.folder.0.join("seen.log")).unwrap_or_default();
    let deadline = Instant::now() + crate::PATIENCE;
    while log().lines().count() < 2 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(log(), "/ [/]\n/none [-]\n");
}

/// What HTTP/1 tells by `Host` and TLS over TCP by the client's hello is told here too.
#[test]
fn host_and_client_offer_are_variables() {
    let site = Site::start(
        "location / { return 200 \"$http_host|$ssl_ciphers|$ssl_curves|$ssl_sigalgs|$ssl_session_id|$tcpinfo_rtt|\"; }",
        |_| {},
    );
    let mut client = site.client();
    let id = client.get("/");
    let body = String::from_utf8(client.answer(id).body).unwrap();
    let told: Vec<&str> = body.split('|').collect();
    assert!(told[0].starts_with("example.org"), "{body}");
    assert!(told[1].contains("TLS_AES_128_GCM_SHA256"), "{body}");
    assert!(told[2].contains("prime256v1"), "{body}");
    assert!(told[3].contains("0x0403"), "{body}");
    assert_eq!((told[4].len(), told[5]), (64, ""), "{body}");
}

/// `quic_host_key`: a token from before a restart, or from another server, shows where the client is.
#[test]
fn tokens_validate_across_servers_sharing_a_host_key() {
    let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
    let port = free_port();
    let start = |host_key: &str| {
        let http = format!(
            "server {{ listen 127.0.0.1:{port} quic; ssl_certificate %%/cert.pem;
             ssl_certificate_key %%/key.pem; quic_retry on; quic_host_key %%/host.key;
             location / {{ status format=prometheus; }} }}"
        );
        Server::start(&http, |folder| {
            std::fs::write(folder.join("cert.pem"), own.cert.pem()).unwrap();
            std::fs::write(folder.join("key.pem"), own.signing_key.serialize_pem()).unwrap();
            std::fs::write(folder.join("host.key"), host_key).unwrap();
        })
    };
    let retries = |client: Client| {
        let mut client = Site::ready(client);
        let id = client.get("/");
        let text = String::from_utf8(client.answer(id).body).unwrap();
        let mut lines = text.lines();
        let count = lines.find_map(|l| l.strip_prefix("gallop_quic_retries_total "));
        (count.unwrap().parse::<u64>().unwrap(), client.config)
    };
    let server = start("one key");
    let (without_token, config) = retries(Client::connect(port, own.cert.der().clone()));
    assert!(without_token > 0);
    drop(server);
    let server = start("one key");
    let (same_key, config) = retries(Client::connect_again(port, config, "example.org"));
    assert_eq!(same_key, 0);
    drop(server);
    let _server = start("another key");
    let (other_key, _) = retries(Client::connect_again(port, config, "example.org"));
    assert!(other_key > 0);
}

#[test]
fn quic_connections_and_their_outcomes_are_counted() {
    let site = Site::start(
        "quic_retry on; location / { return 204; } location /status { status format=prometheus; }",
        |_| {},
    );
    let mut first = site.client();
    let id = first.get("/");
    assert_eq!(first.answer(id).status, "204");
    let mut client = site.client();
    let id = client.get("/status");
    let answer = client.answer(id);
    let text = String::from_utf8(answer.body).unwrap();
    for wanted in [
        "gallop_quic_connections_total 2",
        "gallop_quic_handshakes_total 2",
        "gallop_quic_migrations_total 0",
        "gallop_quic_stateless_resets_total 0",
        "gallop_zone_requests_total{zone=\"127.0.0.1:PORT\",class=\"2xx\"} 1",
    ] {
        let wanted = wanted.replace("PORT", &site.port.to_string());
        assert!(text.lines().any(|l| l == wanted), "{wanted} in {text}");
    }
    let retries = text.lines().find_map(|line| {
        let number = line.strip_prefix("gallop_quic_retries_total ")?;
        number.parse::<u64>().ok()
    });
    // One for each client, and one more for each that asked again because the machine was too busy to answer in time.
    assert!(retries.is_some_and(|n| n >= 2), "{text}");
}

#[test]
fn malformed_http3_request_gets_400() {
    let site = Site::start("location / { return 204; }", |_| {});
    let mut client = site.client();
    let id = client.request(&[(":method", "GET"), (":path", "/")]);
    client.quic.send_stream(id).finish().unwrap();
    assert_eq!(client.answer(id).status, "400");
    let id = client.get("/");
    assert_eq!(client.answer(id).status, "204");
}

#[test]
fn broken_control_stream_ends_the_connection() {
    let site = Site::start("location / { return 204; }", |_| {});
    let mut client = Client::connect(site.port, site.certificate.clone());
    client.run("the handshake", |client| client.connected);
    client.uni(&[0, 7, 1, 0]);
    client.run("the end", |client| client.closed.is_some());
    let reason = client.closed.unwrap();
    assert!(
        reason.contains("266") || reason.contains("SETTINGS"),
        "{reason}"
    );
    assert!(site.client().connected, "others are served");
}

/// Streams that are opened and reset at once, without end.
#[test]
fn rapid_reset_ends_only_its_connection() {
    let site = Site::start(
        "location / { return 204; } keepalive_requests 1000000;",
        |_| {},
    );
    let (mut attacker, mut other) = (site.client(), site.client());
    let mut opened = 0;
    attacker.run("the end", |client| {
        while client.closed.is_none()
            && client
                .quic
                .streams()
                .open(quinn_proto::Dir::Bi)
                .is_some_and(|id| {
                    client.quic.send_stream(id).write(&[1]).unwrap();
                    client.quic.send_stream(id).reset(0x10cu32.into()).unwrap();
                    client.quic.recv_stream(id).stop(0x10cu32.into()).unwrap();
                    true
                })
        {
            opened += 1;
        }
        client.closed.is_some()
    });
    assert!(opened < 5000, "{opened} streams");
    assert!(attacker.closed.unwrap().contains("263"));
    let id = other.get("/");
    assert_eq!(other.answer(id).status, "204");
}

#[test]
fn keepalive_requests_limits_requests_per_connection() {
    let site = Site::start("location / { return 204; } keepalive_requests 5;", |_| {});
    let mut client = site.client();
    for _ in 0..5 {
        let id = client.get("/");
        assert_eq!(client.answer(id).status, "204");
    }
    client.run("the end", |client| client.closed.is_some());
}

#[test]
fn quitting_server_sends_goaway_and_finishes_responses() {
    let mut site = Site::start("", |html| {
        std::fs::write(html.join("large.bin"), pattern(5_000_000)).unwrap();
    });
    let mut client = site.client();
    let id = client.get("/large.bin");
    client.run("the first bytes", |client| client.answers.contains_key(&id));
    let quitting = std::thread::spawn(move || (site.server.quit(), site));
    let answer = client.answer(id);
    assert!(
        answer.body == pattern(5_000_000),
        "{} bytes",
        answer.body.len()
    );
    client.run("the end", |client| client.closed.is_some());
    assert!(quitting.join().unwrap().0, "the server still runs");
}

/// Counted when the connection ends; with no loss none are.
#[test]
fn lost_packets_are_counted() {
    let site = Site::start("location = /status { status; }", |html| {
        std::fs::write(html.join("large.bin"), pattern(1_000_000)).unwrap();
    });
    let count = |name: &str| {
        let mut client = site.client();
        let id = client.get("/status");
        let told = String::from_utf8(client.answer(id).body).unwrap();
        let found = told.split(&format!("\"{name}\":")).nth(1).expect(name);
        let digits = found
            .trim_start()
            .split(|c: char| !c.is_ascii_digit())
            .next();
        digits.unwrap().parse::<u64>().expect("a number")
    };
    assert_eq!(count("packets_lost"), 0);
    let mut client = site.client();
    client.loses = 10;
    let id = client.get("/large.bin");
    assert!(client.answer(id).body == pattern(1_000_000));
    let dropped = client.came.0 / client.loses;
    client
        .quic
        .close(Instant::now(), 0u32.into(), Default::default());
    client.send();
    let deadline = Instant::now() + crate::PATIENCE;
    while count("packets_lost") == 0 {
        assert!(Instant::now() < deadline, "of {dropped} none is counted");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Those of the handshake's end and of the last moment may not be missed any more.
    let counted = count("packets_lost");
    assert!(counted >= dropped / 2, "{counted} of {dropped}");
    assert!(count("packets_sent") > counted);
}

/// One of them has an answer on its way, one a handshake; neither is heard of again. Whoever waits for an upstream
/// is answered first.
#[test]
fn quitting_server_does_not_wait_for_lost_clients() {
    let upstream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let slow = upstream.local_addr().unwrap().port();
    let places = format!(
        "location / {{ return 204; }} location /slow {{ proxy_pass http://127.0.0.1:{slow}; }}"
    );
    let mut site = Site::start(&places, |_| {});
    let mut waits = site.client();
    let id = waits.get("/slow");
    waits.send();
    let (mut asked, _) = upstream.accept().unwrap();
    let mut leaves = site.client();
    leaves.get("/");
    leaves.send();
    let mut begins = Client::connect(site.port, site.certificate.clone());
    begins.send();
    let started = Instant::now();
    let quitting = std::thread::spawn(move || (site.server.quit(), site));
    let mut answered = false;
    waits.run("the answer", |client| {
        if !answered && started.elapsed() > Duration::from_secs(5) {
            answered = true;
            std::io::Write::write_all(&mut asked, b"HTTP/1.0 200 OK\r\n\r\nlate").unwrap();
            asked.shutdown(std::net::Shutdown::Both).unwrap();
        }
        client.answers.get(&id).is_some_and(|answer| answer.done)
    });
    assert_eq!(waits.answer(id).body, b"late");
    waits.run("the end", |client| client.closed.is_some());
    assert!(quitting.join().unwrap().0, "the server still runs");
    // Their idle timeout is thirty seconds.
    assert!(started.elapsed() < Duration::from_secs(20), "too late");
}

#[test]
fn clients_cut_off_by_shutdown_timeout_are_notified() {
    let upstream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let slow = upstream.local_addr().unwrap().port();
    let place = format!("location / {{ proxy_pass http://127.0.0.1:{slow}; }}");
    let mut site = Site::start_with("worker_shutdown_timeout 300ms;", &place, |_| {});
    let mut client = site.client();
    client.get("/");
    client.send();
    let _asked = upstream.accept().unwrap();
    let quitting = std::thread::spawn(move || (site.server.quit(), site));
    client.run("the end", |client| client.closed.is_some());
    let why = client.closed.unwrap();
    assert!(why.contains("closed by peer"), "{why}");
    assert!(quitting.join().unwrap().0, "the server still runs");
}

/// Its last packet of the handshake comes with a request, when the server is about to go.
#[test]
fn quitting_server_finishes_handshakes_and_their_requests() {
    let site = Site::start("location / { return 204; }", |_| {});
    let mut client = Client::connect(site.port, site.certificate.clone());
    // What ends the handshake is sent with the next turn.
    client.run("the handshake", |client| client.connected);
    site.server.signal("QUIT");
    let deadline = Instant::now() + crate::PATIENCE;
    while !site.server.errors().contains("gracefully shutting down") {
        assert!(Instant::now() < deadline, "{}", site.server.errors());
        std::thread::sleep(Duration::from_millis(10));
    }
    client.greet();
    let id = client.get("/");
    client.run("the end", |client| client.closed.is_some());
    // Closed before the request came it is when this test has to wait for its turn for more than a second.
    let answer = client.answers.get(&id).cloned().unwrap_or_default();
    assert!(answer.reset.is_none(), "{answer:?}");
    assert!(
        answer.status.is_empty() || answer.status == "204",
        "{answer:?}"
    );
}

/// As clients that asked before they heard that they should not.
#[test]
fn requests_crossing_goaway_are_served_or_rejected() {
    let site = Site::start(
        "location / { return 204; } location /large { limit_rate 20k; }",
        |html| std::fs::write(html.join("large"), vec![b'x'; 50_000]).unwrap(),
    );
    let (mut busy, mut idle) = (site.client(), site.client());
    let id = idle.get("/");
    assert_eq!(idle.answer(id).status, "204");
    let large = busy.get("/large");
    busy.run("a head", |client| {
        let answer = client.answers.get(&large);
        answer.is_some_and(|answer| answer.status == "200")
    });
    let told = Instant::now();
    site.server.signal("QUIT");
    while !site.server.errors().contains("gracefully shutting down") {
        assert!(told.elapsed() < crate::PATIENCE, "{}", site.server.errors());
        std::thread::sleep(Duration::from_millis(10));
    }
    let ids = (busy.get("/"), idle.get("/"));
    let has_ended = |client: &mut Client, id| {
        let answer = client.answers.get(&id);
        client.closed.is_some() || answer.is_some_and(|a| a.done || a.reset.is_some())
    };
    idle.run("an end", |client| has_ended(client, ids.1));
    busy.run("an end", |client| has_ended(client, ids.0));
    // So long the server waits for what crosses; a test that had to wait for its turn came later.
    let late = told.elapsed() > Duration::from_secs(1);
    let crossed = busy.answers.get(&ids.0).cloned().unwrap_or_default();
    assert!(late || crossed.status == "204", "{crossed:?}");
    let rejected = idle.answers.get(&ids.1).cloned().unwrap_or_default();
    // It may come before the GOAWAY goes. H3_REQUEST_REJECTED: whoever asks again asks for the first time (RFC 9114,
    // section 4.1.1).
    let is_known = rejected.status == "204" || rejected.reset == Some(0x10b);
    assert!(late || is_known, "{rejected:?}");
    let whole = busy.answer(large);
    assert_eq!(whole.body.len(), 50_000);
}

#[test]
fn short_body_gets_400() {
    let site = Site::start(
        "location / { proxy_pass http://127.0.0.1:1; client_max_body_size 10; }",
        |_| {},
    );
    let mut client = site.client();
    let id = client.request(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":path", "/"),
        (":authority", "localhost"),
        ("content-length", "5"),
    ]);
    // A DATA frame of four bytes.
    client.quic.send_stream(id).write(b"\0\x04body").unwrap();
    client.quic.send_stream(id).finish().unwrap();
    assert_eq!(client.answer(id).status, "400");
}

#[test]
fn connection_has_one_request_without_keepalive() {
    let site = Site::start("location / { return 204; } keepalive_timeout 0;", |_| {});
    let mut client = site.client();
    let id = client.get("/");
    assert_eq!(client.answer(id).status, "204");
    client.run("the end", |client| client.closed.is_some());
}

#[test]
fn client_certificate_is_requested_and_verified() {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let site = Site::start(
        "ssl_verify_client optional; ssl_client_certificate %%/html/ca.pem;
         location / { return 200 \"$ssl_client_verify $ssl_client_serial $ssl_cipher\"; }",
        |html| std::fs::write(html.join("ca.pem"), authority.pem()).unwrap(),
    );
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["friend".to_string()]).unwrap();
    params.serial_number = Some(vec![0x0a, 0xbc].into());
    let certificate = params.signed_by(&key, &authority).unwrap();
    let own = (
        certificate.der().clone(),
        PrivateKeyDer::Pkcs8(key.serialize_der().into()),
    );
    for (own, want) in [(Some(own), "SUCCESS 0ABC TLS_"), (None, "NONE  TLS_")] {
        let authority = site.certificate.clone();
        let client = Client::connect_as(site.port, authority, "example.org", own);
        let mut client = Site::ready(client);
        let id = client.get("/");
        let body = String::from_utf8(client.answer(id).body).unwrap();
        assert!(body.starts_with(want), "{body}");
    }
}

#[test]
fn rejected_server_name_gets_tls_alert() {
    let site = Site::start(
        "location / { return 204; } }
         server { listen 127.0.0.1:PORT quic; server_name rejected.example; ssl_reject_handshake on;",
        |_| {},
    );
    let authority = site.certificate.clone();
    let mut client = Client::connect_as(site.port, authority, "rejected.example", None);
    client.run("the alert", |client| client.closed.is_some());
    let closed = client.closed.unwrap();
    // unrecognized_name
    assert!(closed.contains("112"), "{closed}");
}

#[test]
fn datagrams_are_marked_only_for_clients_that_report_marks() {
    let site = Site::start("", |html| {
        std::fs::write(html.join("large.bin"), pattern(300_000)).unwrap();
    });
    for tells in [true, false] {
        let mut client = Client::connect(site.port, site.certificate.clone());
        client.tells_marks = tells;
        let mut client = Site::ready(client);
        for round in 0..3 {
            let (sent, came) = (client.sent, client.came);
            let id = client.get("/large.bin");
            assert!(client.answer(id).body == pattern(300_000));
            let (sent, came) = (
                (client.sent.0 - sent.0, client.sent.1 - sent.1),
                (client.came.0 - came.0, client.came.1 - came.1),
            );
            // The server tells of the client's marks, or the client would send none any more.
            assert_eq!(sent.0, sent.1, "round {round}, {tells}");
            // In the first round the server finds out.
            let wanted = if tells { came.0 } else { 0 };
            assert!(round == 0 || came.1 == wanted, "{came:?}, {tells}");
        }
        assert_eq!(client.closed, None);
    }
}

/// Clients that are only busy must not get the session tickets twice.
#[test]
fn post_handshake_data_is_not_repeated_to_slow_client() {
    let site = Site::start("", |html| std::fs::write(html.join("a"), "a").unwrap());
    // The server gives up waiting some time; a machine that stalled that long shows nothing.
    let stalled = Duration::from_millis(900);
    for _ in 0..20 {
        let mut client = site.client();
        let mut turns = 0;
        client.run("the end of the handshake to go out", |_| {
            turns += 1;
            turns > 1
        });
        let began = Instant::now();
        std::thread::sleep(Duration::from_millis(150));
        let id = client.get("/a");
        assert_eq!(client.answer(id).body, b"a");
        if began.elapsed() < stalled {
            let seen = client.quic.stats().frame_rx;
            assert_eq!((seen.handshake_done, client.closed), (1, None));
            return;
        }
    }
    panic!("this machine is too slow for this test");
}

#[test]
fn request_abandoned_while_waiting_for_table_gets_error() {
    let site = Site::start("", |_| {});
    let mut client = site.client();
    // Refers to an entry of the dynamic table that never comes.
    let id = client.raw(b"\x01\x08\x02\x00\xd1\xd7\x80\x50\x01x");
    // Everything sent has arrived once another request is answered.
    let other = client.get("/missing");
    assert_eq!(client.answer(other).status, "404");
    client.quic.send_stream(id).reset(0x10c_u32.into()).unwrap();
    assert_eq!(client.answer(id).status, "400");
}
