//! `stream`: sessions that are passed on, refused, ended, and logged.

use crate::ports::free_port;
use crate::site::{check, read_all, Folder, Server};
use crate::udp::{memory, worker, HTTP};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

fn start(stream: &str) -> Server {
    Server::start_with(&format!("stream {{ {stream} }}"), HTTP)
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    stream
        .set_read_timeout(Some(crate::PATIENCE))
        .expect("a timeout");
    stream
}

/// What a server sends to a client that says nothing.
fn greeting(port: u16) -> String {
    read_all(&mut connect(port))
}

/// A server that sends its name, and then everything it gets, until the client stops sending.
fn echo(name: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let _ = stream.write_all(name.as_bytes());
                let mut buffer = [0; 65536];
                while let Ok(n) = stream.read(&mut buffer) {
                    if n == 0 || stream.write_all(&buffer[..n]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

fn exact(stream: &mut TcpStream, len: usize) -> String {
    let mut buffer = vec![0; len];
    stream.read_exact(&mut buffer).expect("so many bytes");
    String::from_utf8(buffer).expect("text")
}

/// Whether the peer has closed the connection, or will.
fn ends(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_))
}

#[test]
fn session_is_passed_in_both_directions_and_logged() {
    let (upstream, port) = (echo("up:"), free_port());
    let server = start(&format!(
        "log_format f '$status $protocol $bytes_received $bytes_sent $upstream_addr';
         access_log stream.log f;
         server {{ listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{upstream}; }}"
    ));
    let mut client = connect(port);
    let text = "x".repeat(200_000);
    let mut writer = client.try_clone().expect("cloned");
    let sent = text.clone();
    let sending = std::thread::spawn(move || writer.write_all(sent.as_bytes()));
    assert_eq!(exact(&mut client, 3), "up:");
    assert_eq!(exact(&mut client, text.len()), text);
    sending.join().expect("no panic").expect("sent");
    drop(client);
    let line = format!("200 TCP 200000 200003 127.0.0.1:{upstream}\n");
    server.wait_for("the line", |s| s.log("stream.log") == line);
}

#[test]
fn failed_server_is_skipped_and_all_failed_is_502() {
    let (upstream, dead) = (echo("up"), free_port());
    let (port, none) = (free_port(), free_port());
    let server = start(&format!(
        "log_format f '$status $upstream_addr'; access_log stream.log f;
         upstream u {{ server 127.0.0.1:{dead}; server 127.0.0.1:{upstream} backup; }}
         server {{ listen 127.0.0.1:{port}; proxy_pass u; }}
         server {{ listen 127.0.0.1:{none}; proxy_pass 127.0.0.1:{dead}; }}"
    ));
    assert_eq!(exact(&mut connect(port), 2), "up");
    assert_eq!(greeting(none), "");
    let line = format!("200 127.0.0.1:{dead}, 127.0.0.1:{upstream}\n");
    server.wait_for("the line", |s| s.log("stream.log").contains(&line));
    let line = format!("502 127.0.0.1:{dead}\n");
    server.wait_for("the line", |s| s.log("stream.log").contains(&line));
}

#[test]
fn half_closed_session_goes_on_only_with_proxy_half_close() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let upstream = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            // Answer only after the client has stopped sending.
            let asked = read_all(&mut stream);
            let _ = stream.write_all(format!("got {asked}").as_bytes());
        }
    });
    let (open, closed) = (free_port(), free_port());
    let _server = start(&format!(
        "server {{ listen 127.0.0.1:{open}; proxy_pass 127.0.0.1:{upstream};
                   proxy_half_close on; }}
         server {{ listen 127.0.0.1:{closed}; proxy_pass 127.0.0.1:{upstream}; }}"
    ));
    let ask = |port| {
        let mut client = connect(port);
        client.write_all(b"hello").expect("sent");
        client.shutdown(Shutdown::Write).expect("half closed");
        read_all(&mut client)
    };
    assert_eq!(ask(open), "got hello");
    assert_eq!(ask(closed), "");
}

#[test]
fn silent_session_ends_after_proxy_timeout() {
    let (upstream, port) = (echo("up"), free_port());
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{upstream};
                   proxy_timeout 200ms; }}"
    ));
    let mut client = connect(port);
    assert_eq!(exact(&mut client, 2), "up");
    let before = Instant::now();
    assert!(ends(&mut client));
    assert!(before.elapsed() >= Duration::from_millis(100));
    server.wait_for("the reason", |s| s.log("error.log").contains("timed out"));
}

#[test]
fn denied_and_excess_sessions_are_closed_and_logged() {
    let (upstream, denied, limited) = (echo("up"), free_port(), free_port());
    let server = start(&format!(
        "limit_conn_zone $binary_remote_addr zone=one:64k;
         log_format f '$status $limit_conn_status'; access_log stream.log f;
         server {{ listen 127.0.0.1:{denied}; deny 127.0.0.0/8; allow all; return secret; }}
         server {{ listen 127.0.0.1:{limited}; limit_conn one 1; proxy_pass 127.0.0.1:{upstream}; }}"
    ));
    assert_eq!(greeting(denied), "");
    server.wait_for("403", |s| s.log("stream.log").contains("403 -\n"));
    let mut first = connect(limited);
    assert_eq!(exact(&mut first, 2), "up");
    assert_eq!(greeting(limited), "");
    server.wait_for("503", |s| s.log("stream.log").contains("503 REJECTED\n"));
    drop(first);
    server.wait_for("the place", |s| {
        s.log("stream.log").contains("200 PASSED\n")
    });
    assert_eq!(exact(&mut connect(limited), 2), "up");
}

#[test]
fn maps_and_set_choose_the_server() {
    let (one, two, port) = (echo("one"), echo("two"), free_port());
    let server = start(&format!(
        "map $server_port $chosen {{ {port} b; default a; }}
         upstream a {{ server 127.0.0.1:{one}; }}
         upstream b {{ server 127.0.0.1:{two}; }}
         log_format f '$kept'; access_log stream.log f;
         server {{ listen 127.0.0.1:{port}; set $kept <$chosen>; proxy_pass $chosen; }}"
    ));
    assert_eq!(exact(&mut connect(port), 3), "two");
    server.wait_for("the line", |s| s.log("stream.log") == "<b>\n");
}

#[test]
fn proxy_protocol_is_read_and_sent() {
    let (inner, outer, v2) = (free_port(), free_port(), free_port());
    let _server = start(&format!(
        "server {{ listen 127.0.0.1:{inner} proxy_protocol; set_real_ip_from 127.0.0.1;
                   return \"$remote_addr $proxy_protocol_addr $realip_remote_addr\"; }}
         server {{ listen 127.0.0.1:{outer} proxy_protocol; set_real_ip_from 127.0.0.1;
                   proxy_protocol on; proxy_pass 127.0.0.1:{inner}; }}
         server {{ listen 127.0.0.1:{v2}; proxy_protocol v2; proxy_pass 127.0.0.1:{inner}; }}"
    ));
    let mut client = connect(outer);
    let header = b"PROXY TCP4 192.0.2.7 127.0.0.1 4000 80\r\n";
    client.write_all(header).expect("sent");
    assert_eq!(read_all(&mut client), "192.0.2.7 192.0.2.7 127.0.0.1");
    assert_eq!(greeting(v2), "127.0.0.1 127.0.0.1 127.0.0.1");
    let mut client = connect(outer);
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    assert!(ends(&mut client));
}

/// A ClientHello with a name and protocols, as curl sends it.
fn client_hello(port: u16, name: &str) {
    let _ = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}")])
        .args(["-servername", name, "-alpn", "h2,foo"])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("openssl runs");
}

#[test]
fn preread_name_chooses_the_server_without_ending_tls() {
    let port = free_port();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let upstream = listener.local_addr().expect("its address").port();
    let server = start(&format!(
        "map $ssl_preread_server_name $to {{ a.example 127.0.0.1:{upstream}; default none; }}
         log_format f '$ssl_preread_server_name $ssl_preread_alpn_protocols $ssl_preread_protocol';
         access_log stream.log f;
         server {{ listen 127.0.0.1:{port}; ssl_preread on; preread_timeout 300ms;
                   proxy_pass $to; }}"
    ));
    let asked = std::thread::spawn(move || client_hello(port, "a.example"));
    let (mut accepted, _) = listener.accept().expect("the session");
    // The server gets the whole ClientHello.
    assert_eq!(exact(&mut accepted, 3), "\u{16}\u{3}\u{1}");
    drop(accepted);
    asked.join().expect("no panic");
    let line = "a.example h2,foo TLSv1.3\n";
    server.wait_for("the line", |s| s.log("stream.log") == line);
    // A silent client does not wait forever.
    assert!(ends(&mut connect(port)));
}

/// A folder with a certificate.
fn certified() -> Folder {
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(vec!["a.example".into()]).expect("a certificate");
    folder.write("a.crt", &made.cert.pem());
    folder.write("a.key", &made.signing_key.serialize_pem());
    folder
}

#[test]
fn tls_is_ended_and_begun() {
    let (plain, sealed, port) = (free_port(), free_port(), free_port());
    let stream = format!(
        "ssl_certificate a.crt; ssl_certificate_key a.key;
         server {{ listen 127.0.0.1:{sealed} ssl; ssl_alpn two one;
                   return \"$ssl_protocol $ssl_server_name $ssl_alpn_protocol\"; }}
         server {{ listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{sealed}; proxy_ssl on;
                   proxy_ssl_name a.example; proxy_ssl_server_name on; proxy_ssl_alpn one;
                   proxy_ssl_verify on; proxy_ssl_trusted_certificate a.crt; }}
         server {{ listen 127.0.0.1:{plain}; proxy_pass 127.0.0.1:{sealed}; }}"
    );
    let server = Server::start_changed(certified(), &format!("stream {{ {stream} }}"), HTTP);
    assert_eq!(greeting(port), "TLSv1.3 a.example one");
    let mut client = connect(plain);
    client.write_all(b"no TLS\r\n").expect("sent");
    read_all(&mut client);
    let reason = "while SSL handshaking";
    server.wait_for("the reason", |s| s.log("error.log").contains(reason));
}

#[test]
fn reload_and_quit_keep_sessions() {
    let (upstream, port) = (echo("up"), free_port());
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{upstream}; }}"
    ));
    let mut client = connect(port);
    assert_eq!(exact(&mut client, 2), "up");
    server.signal("HUP");
    server.wait_for("the reload", |s| {
        s.log("error.log").contains("gracefully shutting down")
    });
    client.write_all(b"still").expect("sent");
    assert_eq!(exact(&mut client, 5), "still");
    let mut second = connect(port);
    assert_eq!(exact(&mut second, 2), "up");
    server.signal("QUIT");
    std::thread::sleep(Duration::from_millis(300));
    second.write_all(b"there").expect("sent");
    assert_eq!(exact(&mut second, 5), "there");
    drop((client, second));
    assert!(server.end("QUIT"));
}

#[test]
fn upload_rate_is_kept() {
    let (upstream, port) = (echo(""), free_port());
    let _server = start(&format!(
        "server {{ listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{upstream};
                   proxy_upload_rate 1000; }}"
    ));
    let mut client = connect(port);
    let before = Instant::now();
    client.write_all(&[b'x'; 2500]).expect("sent");
    exact(&mut client, 2500);
    // 1,000 bytes in the first second, and as many in each further one.
    assert!(
        before.elapsed() >= Duration::from_millis(1500),
        "{:?}",
        before.elapsed()
    );
}

#[test]
fn silent_session_ends_after_it_waited_for_its_rate() {
    let (upstream, port) = (echo(""), free_port());
    let _server = start(&format!(
        "server {{ listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{upstream};
                   proxy_upload_rate 1000; proxy_timeout 300ms; }}"
    ));
    let mut client = connect(port);
    let before = Instant::now();
    client.write_all(&[b'x'; 500]).expect("sent");
    exact(&mut client, 500);
    assert!(ends(&mut client));
    assert!(before.elapsed() < crate::PATIENCE / 2);
}

/// Sessions are a copy through two small buffers: a client that does not read costs no more.
#[test]
fn client_that_does_not_read_costs_little_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let upstream = listener.local_addr().expect("its address").port();
    let (port, warm) = (free_port(), free_port());
    std::thread::spawn(move || {
        let mut stream = listener.accept().expect("the session").0;
        let block = vec![b'x'; 1 << 20];
        stream
            .set_write_timeout(Some(Duration::from_secs(2)))
            .expect("a timeout");
        for _ in 0..256 {
            if stream.write_all(&block).is_err() {
                return;
            }
        }
    });
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{upstream}; }}
         server {{ listen 127.0.0.1:{warm}; return x; }}"
    ));
    server.wait_for("a worker", |s| worker(s).is_some());
    // The first session makes what all later ones share.
    assert_eq!(greeting(warm), "x");
    let before = memory(&server);
    let _client = connect(port);
    std::thread::sleep(Duration::from_secs(1));
    let after = memory(&server);
    assert!(after < before + 2048, "{before} KB, {after} KB");
}

#[test]
fn broken_configurations_are_refused_in_nginx_words() {
    for (stream, error) in [
        ("server { return x; }", "no \"listen\" is defined for server in DIR/nginx.conf:1"),
        ("server { listen 127.0.0.1; return x; }", "no port in \"127.0.0.1\" of the \"listen\" directive"),
        ("server { listen 1 http2; }", "invalid parameter \"http2\""),
        ("server { listen 1; proxy_pass 127.0.0.1; }", "no port in upstream \"127.0.0.1\""),
        ("server { listen 1; proxy_pass a:1; proxy_pass a:1; }", "\"proxy_pass\" directive is duplicate"),
        ("upstream u { }", "no servers are inside upstream"),
        ("upstream u { server 127.0.0.1; }", "no port in upstream \"127.0.0.1\""),
        ("upstream u { server 127.0.0.1:1; keepalive 2; }", "\"keepalive\" directive is not allowed here"),
        ("upstream u { server 127.0.0.1:1; ip_hash; }", "\"ip_hash\" directive is not allowed here"),
        ("server { listen 1; location / { } }", "\"location\" directive is not allowed here"),
        ("server { listen 1; root /; }", "\"root\" directive is not allowed here"),
        ("server { listen 1; return $request; }", "unknown \"request\" variable"),
        ("server { listen 1; proxy_timeout x; }", "\"proxy_timeout\" directive invalid value"),
        ("server { listen 1; proxy_buffer_size 0; }", "\"proxy_buffer_size\" directive invalid value"),
        ("server { listen 1; preread_buffer_size 0; }", "\"preread_buffer_size\" directive invalid value"),
        ("server { listen 1; proxy_protocol v3; }", "invalid value \"v3\""),
        ("server { listen 1; limit_conn x 1; }", "zero size shared memory zone \"x\""),
        ("server { listen 1; access_log a.log; }", "log format is not specified"),
        ("server { listen 1; access_log a.log combined; }", "unknown log format \"combined\""),
        ("server { listen 1 ssl; return x; }", "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive in DIR/nginx.conf:1"),
        ("server { listen 1; return x; } } stream {", "\"stream\" directive is duplicate"),
        ("server { listen 127.0.0.1:9; return x; } } http { server { listen 127.0.0.1:9; }", "bind() to 127.0.0.1:9 failed (98: Address already in use)"),
    ] {
        let text = format!("events {{ }} stream {{ {stream} }}");
        let (accepted, said) = check(&text);
        assert!(!accepted && said.contains(error), "{stream}\n{said}");
    }
    let (accepted, said) = check("events { } stream { }");
    assert!(accepted, "{said}");
}

#[test]
fn names_of_http_and_stream_do_not_mix() {
    let text = "events { }
        stream { map $remote_addr $a { default 1; } upstream u { server 127.0.0.1:1; }
                 log_format f '$a'; server { listen 1; proxy_pass u; access_log off; } }
        http { access_log off; map $uri $a { default 2; } upstream u { server 127.0.0.1:2; ip_hash; }
               log_format f '$uri'; server { listen 2; location / { proxy_pass http://u; } } }";
    let (accepted, said) = check(text);
    assert!(accepted, "{said}");
    let (accepted, said) = check(&text.replace("$a'", "$status $uri'"));
    assert!(
        !accepted && said.contains("unknown \"uri\" variable"),
        "{said}"
    );
}
