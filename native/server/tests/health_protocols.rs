//! Active health checks of servers that speak other protocols than HTTP/1.1 without TLS.

use crate::applications::{self, Protocol};
use crate::h2_server::{Listener, DATA, END_STREAM};
use crate::site::Server;
use rcgen::{CertificateParams, KeyPair};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{channel, Receiver};

fn wait_for_line(server: &Server, word: &str, doing: &str, group: &str, port: u16) {
    let line = format!("peer is {word} while {doing}, health check \"");
    let end = format!("\" of peer 127.0.0.1:{port} in upstream \"{group}\"");
    server.wait_for(&line, |s| {
        let log = s.log("error.log");
        let mut lines = log.lines();
        lines.any(|l| l.contains(&line) && l.ends_with(&end))
    });
}

/// A gRPC server: the path and body of each call. It answers with this message, or with status 12.
fn grpc(message: Option<&'static [u8]>) -> (u16, Receiver<(String, Vec<u8>)>) {
    let listener = Listener::new();
    let port = listener.port;
    let (sender, calls) = channel();
    std::thread::spawn(move || loop {
        let mut peer = listener.accept();
        let Some(request) = peer.request() else {
            continue;
        };
        let call = (request.field(":path").to_string(), peer.body());
        assert_eq!(request.field("content-type"), "application/grpc");
        assert_eq!(request.field("te"), "trailers");
        match message {
            Some(message) => peer.answer(request.stream, message),
            None => {
                let head = [(":status", "200"), ("grpc-status", "12")];
                peer.fields(END_STREAM, request.stream, &head);
            }
        }
        if sender.send(call).is_err() {
            return;
        }
    });
    (port, calls)
}

#[test]
fn grpc_servers_are_asked_by_the_health_checking_protocol() {
    let (serving, calls) = grpc(Some(b"\0\0\0\0\x02\x08\x01"));
    let (other, _other_calls) = grpc(Some(b"\0\0\0\0\x02\x08\x02"));
    let (without, _calls_without) = grpc(None);
    let group = |name: &str, port: u16, parameters: &str| {
        format!(
            "upstream {name} {{ zone {name} 64k; server 127.0.0.1:{port}; }}
             server {{ listen 127.0.0.1:{{port}}; http2 on; server_name {name};
                 location / {{ grpc_pass grpc://{name};
                     health_check interval=1h mandatory type=grpc {parameters}; }} }}"
        )
    };
    let server = Server::start(
        &[
            group("serving", serving, "grpc_service=shop"),
            group("other", other, ""),
            group("without", without, "grpc_status=12"),
        ]
        .concat(),
    );
    let doing = "checking grpc status";
    wait_for_line(&server, "healthy", doing, "serving", serving);
    wait_for_line(&server, "unhealthy", doing, "other", other);
    wait_for_line(&server, "healthy", doing, "without", without);
    let (path, body) = calls.recv_timeout(crate::PATIENCE).expect("a call");
    assert_eq!(path, "/grpc.health.v1.Health/Check");
    assert_eq!(body, b"\0\0\0\0\x06\x0a\x04shop");
}

#[test]
fn applications_get_a_request_with_their_parameters() {
    for protocol in applications::BOTH {
        let name = protocol.name();
        let respond = |_: &applications::Request| vec![b"Status: 200 OK\r\n\r\nfine".to_vec()];
        let (port, requests) = applications::start(protocol, respond);
        let length = match protocol {
            Protocol::Scgi => "scgi_param SCGI 1;",
            Protocol::Uwsgi => "",
        };
        let server = Server::start(&format!(
            "match fine {{ status 200; body ~ ^fine$; }}
             upstream u {{ zone u 64k; server 127.0.0.1:{port}; }}
             server {{ listen 127.0.0.1:{{port}};
                 location / {{ {name}_pass u; {name}_param REQUEST_URI $request_uri;
                     {name}_param REQUEST_METHOD $request_method; {length}
                     health_check interval=1h mandatory uri=/state?x=1 match=fine; }} }}"
        ));
        wait_for_line(&server, "healthy", "checking body", "u", port);
        let request = requests.recv_timeout(crate::PATIENCE).expect("a request");
        assert_eq!(request.param("REQUEST_URI"), "/state?x=1");
        assert_eq!(request.param("REQUEST_METHOD"), "GET");
    }
}

#[test]
fn servers_over_tls_are_verified_as_for_requests() {
    let folder = crate::site::Folder::new();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["up.example".to_string()]).expect("parameters");
    let own = params.self_signed(&key).expect("signed");
    folder.write("up.crt", &own.pem());
    folder.write("up.key", &key.serialize_pem());
    let (up, port) = (crate::ports::free_port(), "{port}");
    let place = |name: &str| {
        format!(
            "upstream {name} {{ zone {name} 64k; server 127.0.0.1:{up}; }}
             server {{ listen 127.0.0.1:{port}; server_name {name};
                 location / {{ proxy_pass https://{name}; proxy_ssl_verify on;
                     proxy_ssl_trusted_certificate up.crt; proxy_ssl_name {name}.example;
                     health_check interval=1h mandatory; }} }}"
        )
    };
    let server = Server::start_in(
        folder,
        &format!(
            "server {{ listen 127.0.0.1:{up} ssl; ssl_certificate up.crt; ssl_certificate_key up.key;
                 location / {{ return 204; }} }} {} {}",
            place("up"),
            place("wrong")
        ),
    );
    wait_for_line(&server, "healthy", "checking status code", "up", up);
    wait_for_line(
        &server,
        "unhealthy",
        "SSL handshaking to upstream",
        "wrong",
        up,
    );
}

/// A server that reads until `is_whole`, then sends these bytes and closes the connection.
fn fixed(is_whole: fn(&[u8]) -> bool, answer: Vec<u8>) -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
            while !is_whole(&request) {
                match stream.read(&mut buffer) {
                    Ok(n) if n > 0 => request.extend_from_slice(&buffer[..n]),
                    _ => break,
                }
            }
            let _ = stream.write_all(&answer);
            let _ = sender.send(request);
        }
    });
    (port, requests)
}

/// A server that is checked by the place with these directives.
fn checked(port: u16, place: &str) -> Server {
    Server::start(&format!(
        "match fine {{ status 200; body ~ ^fine$; }} map $request_method $memcached_key {{ default state; }}
         upstream u {{ zone u 64k; server 127.0.0.1:{port}; }}
         server {{ listen 127.0.0.1:{{port}};
             location / {{ {place} health_check interval=1h mandatory uri=/state match=fine; }} }}"
    ))
}

#[test]
fn fastcgi_applications_are_checked() {
    let record = |kind: u8, text: &[u8]| {
        let head = [1, kind, 0, 1, 0, text.len() as u8, 0, 0];
        [&head[..], text].concat()
    };
    let (stdout, end) = (6, 3);
    let answer = [
        record(stdout, b"Status: 200 OK\r\n\r\nfi"),
        record(stdout, b"ne"),
        record(stdout, b""),
        record(end, &[0; 8]),
    ];
    // The request ends with an empty record of its input.
    let is_whole = |request: &[u8]| request.ends_with(&[1, 5, 0, 1, 0, 0, 0, 0]);
    let (port, requests) = fixed(is_whole, answer.concat());
    let params = "fastcgi_param SCRIPT_FILENAME /srv$fastcgi_script_name;";
    let server = checked(port, &format!("fastcgi_pass u; {params}"));
    wait_for_line(&server, "healthy", "checking body", "u", port);
    let request = requests.recv_timeout(crate::PATIENCE).expect("a request");
    let param = b"SCRIPT_FILENAME/srv/state";
    assert!(request.windows(param.len()).any(|part| part == param));
}

#[test]
fn memcached_is_checked_with_the_key_of_a_map() {
    let is_whole = |request: &[u8]| request.ends_with(b"\r\n");
    let answer = b"VALUE state 0 4\r\nfine\r\nEND\r\n".to_vec();
    let (port, requests) = fixed(is_whole, answer);
    let server = checked(port, "memcached_pass u;");
    wait_for_line(&server, "healthy", "checking body", "u", port);
    let request = requests.recv_timeout(crate::PATIENCE).expect("a request");
    assert_eq!(request, b"get state\r\n");
}

#[test]
fn http2_servers_are_checked_where_proxy_http_version_is_2() {
    let listener = Listener::new();
    let port = listener.port;
    std::thread::spawn(move || loop {
        let mut peer = listener.accept();
        if let Some(request) = peer.request() {
            assert_eq!(request.field(":path"), "/state");
            assert_eq!(request.field("connection"), "");
            peer.fields(0, request.stream, &[(":status", "200")]);
            peer.send(DATA, END_STREAM, request.stream, b"fine");
        }
    });
    let server = checked(port, "proxy_pass http://u; proxy_http_version 2;");
    wait_for_line(&server, "healthy", "checking body", "u", port);
}
