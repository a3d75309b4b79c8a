//! `pass` of `stream`: other listening sockets take connections.

use crate::ports::free_port;
use crate::site::{check, read_all, Folder, Server};
use std::io::Write;
use std::net::TcpStream;

fn get(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    stream
        .set_read_timeout(Some(crate::PATIENCE))
        .expect("a timeout");
    let request = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    let answer = read_all(&mut stream);
    let body = answer.split_once("\r\n\r\n");
    body.map_or(answer.clone(), |(_, body)| body.to_string())
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
fn http_takes_plain_connections_and_those_whose_tls_ended() {
    let ports: Vec<u16> = (0..8).map(|_| free_port()).collect();
    let [plain, sealed, variable, lost, cycle, speaker, read, reader] = ports[..] else {
        unreachable!()
    };
    let folder = certified();
    let path = folder.0.join("http").display().to_string();
    let stream = format!(
        "log_format f '$server_port $status'; access_log stream.log f;
         ssl_certificate a.crt; ssl_certificate_key a.key; geo $where {{ default unix:{path}; }}
         server {{ listen 127.0.0.1:{plain}; pass 127.0.0.2:{{port}}; }}
         server {{ listen 127.0.0.1:{sealed} ssl; pass 127.0.0.2:{{port}}; }}
         server {{ listen 127.0.0.1:{variable}; pass $where; }}
         server {{ listen 127.0.0.1:{lost}; pass 127.0.0.1:1; }}
         server {{ listen 127.0.0.1:{cycle}; pass 127.0.0.1:{cycle}; }}
         server {{ listen 127.0.0.1:{read} ssl; ssl_preread on; pass 127.0.0.2:{{port}}; }}
         server {{ listen 127.0.0.1:{reader}; proxy_pass 127.0.0.1:{read}; proxy_ssl on; }}
         server {{ listen 127.0.0.1:{speaker}; proxy_pass 127.0.0.1:{sealed}; proxy_ssl on;
                   proxy_ssl_name a.example; proxy_ssl_server_name on; }}"
    );
    let server = Server::start_both(
        folder,
        &stream,
        &format!(
            "server {{ listen {{port}}; listen unix:{path};
             location / {{ return 200 '$remote_addr $server_addr $scheme $ssl_server_name $uri'; }} }}"
        ),
    );
    assert_eq!(get(plain), "127.0.0.1 127.0.0.2 http  /a");
    assert_eq!(get(speaker), "127.0.0.1 127.0.0.2 https a.example /a");
    assert_eq!(get(variable), format!("127.0.0.1 unix:{path} http  /a"));
    assert_eq!(get(lost), "");
    assert_eq!(get(cycle), "");
    assert_eq!(get(reader), "");
    let lines = format!("{lost} 200\n{cycle} 500\n{read} 500\n");
    server.wait_for("the lines", |s| s.log("stream.log").contains(&lines));
    let errors = server.log("error.log");
    assert!(errors.contains("port not found for \"127.0.0.1:1\""));
    assert!(errors.contains("stream pass cycle"), "{errors}");
    assert!(errors.contains("cannot pass connection with preread data"));
}

#[test]
fn name_in_the_handshake_chooses_the_socket_that_ends_tls() {
    let ports: Vec<u16> = (0..4).map(|_| free_port()).collect();
    let [gate, known, other, secure] = ports[..] else {
        unreachable!()
    };
    let stream = format!(
        "map $ssl_preread_server_name $to {{ a.example 127.0.0.1:{secure}; default 127.0.0.1:1; }}
         proxy_ssl on; proxy_ssl_server_name on;
         server {{ listen 127.0.0.1:{gate}; ssl_preread on; pass $to; }}
         server {{ listen 127.0.0.1:{known}; proxy_pass 127.0.0.1:{gate};
                   proxy_ssl_name a.example; }}
         server {{ listen 127.0.0.1:{other}; proxy_pass 127.0.0.1:{gate};
                   proxy_ssl_name b.example; }}"
    );
    let _server = Server::start_both(
        certified(),
        &stream,
        &format!(
            "server {{ listen 127.0.0.1:{secure} ssl; ssl_certificate a.crt; ssl_certificate_key a.key;
             location / {{ return 200 $ssl_server_name; }} }}"
        ),
    );
    assert_eq!(get(known), "a.example");
    assert_eq!(get(other), "");
}

#[test]
fn passed_connections_stay_in_their_limits_and_keep_the_real_address() {
    let (outer, inner) = (free_port(), free_port());
    let stream = format!(
        "limit_conn_zone $server_port zone=z:64k;
         server {{ listen 127.0.0.1:{outer} proxy_protocol; set_real_ip_from 127.0.0.1;
                   limit_conn z 1; pass 127.0.0.1:{inner}; }}
         server {{ listen 127.0.0.1:{inner}; pass 127.0.0.1:{{port}}; }}"
    );
    let _server = Server::start_both(
        Folder::new(),
        &stream,
        "server { listen 127.0.0.1:{port};
         location / { return 200 '$remote_addr $proxy_protocol_addr '; } }",
    );
    let begin = || {
        let mut stream = TcpStream::connect(("127.0.0.1", outer)).expect("connected");
        let patience = Some(crate::PATIENCE);
        stream.set_read_timeout(patience).expect("a timeout");
        let text = "PROXY TCP4 192.0.2.7 192.0.2.1 1000 80\r\nGET / HTTP/1.0\r\n";
        stream.write_all(text.as_bytes()).expect("sent");
        stream
    };
    let mut first = begin();
    // http waits for the rest of the head meanwhile.
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(read_all(&mut begin()), "", "one connection at a time");
    first.write_all(b"\r\n").expect("sent");
    assert!(read_all(&mut first).ends_with("192.0.2.7 192.0.2.7 "));
    let mut next = begin();
    next.write_all(b"\r\n").expect("sent");
    assert!(read_all(&mut next).contains("200 OK"));
}

#[test]
fn addresses_of_pass_are_checked() {
    for (address, error) in [
        ("example.com:80", "\"pass\" directive has no addresses"),
        ("127.0.0.1", "\"pass\" directive has no port"),
        (
            "127.0.0.1:x",
            "invalid port in \"127.0.0.1:x\" of the \"pass\" directive",
        ),
        (
            "unix:",
            "no path in the unix domain socket in \"unix:\" of the \"pass\" directive",
        ),
        ("[::1]:80; pass [::1]:80", "\"pass\" directive is duplicate"),
    ] {
        let (accepted, said) = check(&format!(
            "events {{ }} stream {{ server {{ listen 1; pass {address}; }} }}"
        ));
        assert!(!accepted && said.contains(error), "{address}\n{said}");
    }
}
