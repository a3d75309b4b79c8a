//! What visitors write into logs and into requests to upstreams: it stays on its line and within its quotes.

use crate::site::{Folder, Server};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{channel, Receiver};

/// An upstream that answers every request, and tells its first line.
fn recorder() -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.windows(4).any(|w| w == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(n) if n > 0 => request.extend_from_slice(&buffer[..n]),
                    _ => break,
                }
            }
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (port, receiver)
}

fn send(server: &Server, request: &[u8]) {
    let mut stream = server.connect();
    stream.write_all(request).expect("sent");
    // A refused request may end with a reset.
    let _ = stream.read_to_end(&mut Vec::new());
}

fn escaped_path(byte: u8) -> String {
    format!("x%{byte:02x}[emerg]%0a2026/01/01%0d%22%5c")
}

#[test]
fn client_bytes_never_start_a_log_line() {
    let folder = Folder::new();
    folder.write("users", "a:{PLAIN}b\n");
    let (port, _requests) = recorder();
    let value = "$uri|$arg_a|$http_x|$http_referer|$cookie_c|$remote_user|$request|$host|$args|$request_filename";
    let server = Server::start_in(
        folder,
        &format!(
            "log_format d 'B|{value}|E'; log_format j escape=json 'B|{value}|E';
             resolver 127.0.0.1:1; server_names_hash_bucket_size 128;
             server {{ listen 127.0.0.1:{{port}}; root html; error_log error.log debug;
                 access_log default.log d; access_log json.log j;
                 location /users/ {{ auth_basic a; auth_basic_user_file users; }}
                 location /cycle/ {{ rewrite ^ $uri last; }}
                 location /named/ {{ try_files /none @none$uri; }}
                 location /dead/ {{ proxy_pass http://127.0.0.1:1; }}
                 location /broken/ {{ proxy_pass $arg_to$uri; }}
                 location /up/ {{ proxy_pass http://127.0.0.1:{port}$uri; }}
                 location /test/ {{ root html/$http_x; try_files $uri $uri/ =404; }}
                 location /listed/ {{ autoindex on; }} }}"
        ),
    );
    for byte in 1..=255u8 {
        let path = escaped_path(byte);
        for folder in [
            "", "users/", "cycle/", "named/", "dead/", "broken/", "up/", "test/", "listed/",
        ] {
            let slash = if folder == "listed/" { "/" } else { "" };
            let mut request =
                format!("GET /{folder}{path}{slash}?a={path} HTTP/1.1\r\nHost: h{folder}\r\nConnection: close\r\n").into_bytes();
            for name in ["X", "Referer", "Cookie: c"] {
                let mark = if name.contains(':') { "=" } else { ": " };
                request.extend_from_slice(format!("{name}{mark}v").as_bytes());
                // A line feed would end the field, and NUL and CR are refused.
                request.push(if matches!(byte, b'\n' | b'\r') {
                    b'"'
                } else {
                    byte
                });
                request.extend_from_slice(b"w\r\n");
            }
            // "a<LF>[emerg] b:c"
            request.extend_from_slice(b"Authorization: Basic YQpbZW1lcmddIGI6Yw==\r\n\r\n");
            send(&server, &request);
        }
        // Lines that are refused are logged as they came.
        send(
            &server,
            &[
                b"GET /raw",
                &[byte][..],
                b"[emerg] HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            ]
            .concat(),
        );
        send(
            &server,
            &[
                b"GET / HTTP/1.1\r\nConnection: close\r\nHost: h",
                &[byte][..],
                b"\r\n\r\n",
            ]
            .concat(),
        );
        send(
            &server,
            &[
                &[byte][..],
                b"ET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            ]
            .concat(),
        );
    }
    let is_plain = |line: &str| line.chars().all(|c| !c.is_control() && c != '\u{2028}');
    let errors = server.log("error.log");
    assert!(errors.lines().count() > 255 * 4, "{errors}");
    for line in errors.lines() {
        let date = line.get(..20).unwrap_or_default();
        let is_date = date
            .bytes()
            .zip(b"0000/00/00 00:00:00 ")
            .all(|(c, form)| match form {
                b'0' => c.is_ascii_digit(),
                _ => c == *form,
            });
        assert!(
            is_date && line[20..].starts_with('[') && is_plain(line),
            "{line:?}"
        );
        assert!(!line[20..].starts_with("[emerg]"), "{line:?}");
        // Each value stands between quotes that it does not end.
        assert_eq!(line.matches('"').count() % 2, 0, "{line:?}");
    }
    for name in ["default.log", "json.log"] {
        let log = std::fs::read(server.folder.0.join(name)).expect("a log");
        let log = String::from_utf8_lossy(&log);
        assert!(log.lines().count() > 255 * 4);
        for line in log.lines() {
            let whole = line.starts_with("B|") && line.ends_with("|E");
            assert!(whole && line.bytes().all(|c| c >= 0x20), "{name}: {line:?}");
            assert!(
                name == "json.log" || line.is_ascii() && !line.contains('"'),
                "{line:?}"
            );
        }
    }
}

#[test]
fn upstream_request_line_has_no_client_control_characters() {
    let (port, requests) = recorder();
    let server = Server::start(&format!(
        "upstream u {{ server 127.0.0.1:{port}; }}
         server {{ listen 127.0.0.1:{{port}};
             location /variable/ {{ proxy_pass http://127.0.0.1:{port}$uri; }}
             location /argument/ {{ proxy_pass http://127.0.0.1:{port}/a?$arg_q$uri; }}
             location /part/ {{ proxy_pass http://u/other/; }}
             location /whole/ {{ proxy_pass http://u; }}
             location /written/ {{ rewrite (?s)^/written/(.*)$ /$1 break; proxy_pass http://u; }}
             location /set/ {{ set $to http://u/$uri; proxy_pass $to; }}
             location /method/ {{ proxy_method $http_x; proxy_pass http://u; }}
             location /group/ {{ rewrite (?s)^/group/(.*)$ /method/x?$1 last; }}
             location ~ (?s)^/match/(.*)$ {{ proxy_pass http://u/$1; }} }}"
    ));
    for byte in 1..=255u8 {
        for folder in [
            "variable", "argument", "part", "whole", "written", "set", "method", "group", "match",
        ] {
            let request = format!(
                "GET /{folder}/{} HTTP/1.1\r\nHost: h\r\nX: GET /evil HTTP/1.1\r\nConnection: close\r\n\r\n",
                escaped_path(byte)
            );
            send(&server, request.as_bytes());
            let got = requests.recv_timeout(crate::PATIENCE).expect("a request");
            let line = got.split(|&c| c == b'\n').next().expect("a line");
            let line = line.strip_suffix(b"\r").expect("CRLF");
            let shown = String::from_utf8_lossy(line);
            let words: Vec<&[u8]> = line.split(|&c| c == b' ').collect();
            assert_eq!(words.len(), 3, "{folder} {byte:#x}: {shown:?}");
            assert!(
                words[0] == b"GET" && words[2].starts_with(b"HTTP/1."),
                "{shown:?}"
            );
            let breaks = |c: &u8| *c <= 0x20 || *c == 0x7f;
            assert!(
                !words[1].iter().any(breaks),
                "{folder} {byte:#x}: {shown:?}"
            );
            // Nothing of the path became a field.
            assert!(
                !String::from_utf8_lossy(&got).contains("\n2026/01/01"),
                "{shown:?}"
            );
        }
    }
}
