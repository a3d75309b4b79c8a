//! What upstreams are asked and what becomes of their answers: rules that the comparison with the real nginx has taught and its
//! documentation does not give.

use crate::site::{read_all, Folder, Server};
use std::io::{Read, Write};

#[test]
fn request_target_bytes_reach_upstream_unchanged() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location / { proxy_pass http://127.0.0.1:{port}/seen$request_uri; }
             location /seen { return 200 $request_uri; } }",
    );
    let mut stream = server.connect();
    stream
        .write_all(b"GET /\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let answer = read_all(&mut stream);
    assert!(answer.contains("Content-Length: 7\r\n"), "{answer}");
}

#[test]
fn plain_path_reaches_upstream_unchanged_when_arguments_are_set() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost;
             location / { set $args a=1; proxy_pass http://127.0.0.1:{port}; proxy_set_header Host own; }
             location /w { rewrite ^/w(.*)$ /q$1 break; proxy_pass http://127.0.0.1:{port};
                 proxy_set_header Host own; } }
         server { listen 127.0.0.1:{port}; server_name own; return 200 $request_uri; }",
    );
    for (path, sent) in [
        ("/a\"b<?c", "/a\"b<?a=1"),
        ("/%41\"", "/A%22?a=1"),
        ("/w\"", "/q%22"),
    ] {
        let answer = server.get(path, "");
        assert!(answer.ends_with(&format!("\r\n\r\n{sent}")), "{answer}");
    }
}

#[test]
fn upstream_gets_original_path_when_a_file_was_found() {
    let folder = Folder::new();
    folder.write("html/found", "x");
    let server = Server::start_in(
        folder,
        "server { listen 127.0.0.1:{port}; server_name localhost; root html;
             location / { try_files /found =404; proxy_pass http://127.0.0.1:{port}; proxy_set_header Host own; }
         }
         server { listen 127.0.0.1:{port}; server_name own; return 200 $request_uri; }",
    );
    assert!(server
        .get("/a/..//%41?b", "")
        .ends_with("\r\n\r\n/a/..//%41?b"));
}

#[test]
fn set_arguments_reach_upstream_with_current_uri() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nAccept-Ranges: bytes\r\n\r\nok";
    let (upstream, requests) = crate::site::upstream(vec![answer.into()]);
    let server = Server::start(&format!(
        "proxy_cache_path cache keys_zone=c:1m;
         server {{ listen 127.0.0.1:{{port}}; max_ranges 0; proxy_buffering off; proxy_cache c; proxy_cache_valid 1h;
             location / {{ set $args own; proxy_pass http://127.0.0.1:{upstream}; }} }}"
    ));
    let answer = server.get("/%61/../%62?x", "");
    assert!(
        answer.ends_with("ok") && !answer.contains("Accept-Ranges"),
        "{answer}"
    );
    let request = requests.recv().expect("a request");
    assert!(request.starts_with("GET /b?own HTTP/1."), "{request}");
}

#[test]
fn upstream_path_keeps_escapes_of_client() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; server_name localhost; error_page 404 =404 /dated;
             location /in { proxy_pass http://127.0.0.1:{port}/own; }
             location /own { return 200 $request_uri; }
             location /dated { proxy_pass http://127.0.0.1:{port}/date; }
             location /date { add_header Last-Modified 'Sun, 06 Nov 1994 08:49:37 GMT'; return 200 x; } }",
    );
    assert!(server.get("/in/a+\"", "").ends_with("/own/a+\""));
    assert!(server.get("/in/a%2B\"", "").ends_with("/own/a+%22"));
    // An upstream's date stands whatever the status is.
    let answer = server.get("/none", "");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(
        answer.contains("\r\nLast-Modified: Sun, 06 Nov 1994 "),
        "{answer}"
    );
}

#[test]
fn unbuffered_response_meets_client_conditions() {
    let server = Server::start(
        "proxy_cache_path cache keys_zone=c:1m; proxy_cache_valid 1h;
         server { listen 127.0.0.1:{port}; server_name localhost;
             location / { proxy_pass http://127.0.0.1:{port}/own; proxy_cache c; proxy_buffering off; }
             location = /own { add_header ETag '\"e\"'; return 200 body; } }",
    );
    let answer = server.get("/", "If-Match: \"other\"\r\n");
    assert!(answer.starts_with("HTTP/1.1 412 "), "{answer}");
    let answer = server.get("/", "If-None-Match: \"e\"\r\n");
    assert!(answer.starts_with("HTTP/1.1 304 "), "{answer}");
}

/// The port of an application that gives these answers through FastCGI.
fn application(answers: &'static [&'static str]) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a request");
            let mut request = Vec::new();
            // Until the record that ends the body.
            while !request.ends_with(&[1, 5, 0, 1, 0, 0, 0, 0]) {
                let mut buffer = [0; 4096];
                let n = stream.read(&mut buffer).expect("more of the request");
                assert!(n > 0, "the request ended early");
                request.extend_from_slice(&buffer[..n]);
            }
            let mut records = vec![1, 6, 0, 1, 0, answer.len() as u8, 0, 0];
            records.extend_from_slice(answer.as_bytes());
            records.extend_from_slice(&[1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            let _ = stream.write_all(&records);
        }
    });
    port
}

#[test]
fn application_response_uses_server_defaults() {
    let port = application(&[
        "Server: own/1\r\nDate: then\r\n\r\nquick",
        "Server: own/2\r\nServer: other\r\n\r\nbody",
        "HTTP/1.1 404 None\r\nStatus: 201 Made\r\nStatus: 500 Oh\r\né: x\r\nxé: x\r\nX-Good: é\r\n\r\nbody",
        "Content-Length: 4, 4\r\n\r\nbody",
        "Status: 204 None\r\nContent-Type: a/b\r\n\r\n",
    ]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; server_name localhost;
             location / {{ fastcgi_pass 127.0.0.1:{port}; }}
             location /slow {{ fastcgi_pass 127.0.0.1:{port}; sub_filter body BODY; sub_filter_types *; }} }}"
    ));
    let quick = server.get("/", "");
    assert!(quick.contains("\r\nServer: own/1\r\n"), "{quick}");
    assert!(quick.contains("\r\nDate: then\r\n"), "{quick}");
    let slow = server.get("/slow", "");
    assert_eq!(slow.matches("\r\nServer: ").count(), 1, "{slow}");
    assert!(slow.contains("\r\nServer: own/2\r\n"), "{slow}");
    let odd = server.get("/", "");
    assert!(odd.starts_with("HTTP/1.1 201 Made\r\n"), "{odd}");
    assert!(odd.contains("\r\nX-Good: é\r\n"), "{odd}");
    assert!(!odd.contains("é: x"), "{odd}");
    assert!(server.get("/", "").starts_with("HTTP/1.1 502 "));
    let nothing = server.get("/", "");
    assert!(nothing.starts_with("HTTP/1.1 204 None\r\n"), "{nothing}");
    assert!(nothing.contains("\r\nContent-Type: a/b\r\n"), "{nothing}");
}

#[test]
fn upstream_status_field_is_a_plain_field() {
    let answer =
        "HTTP/1.1 200 OK\r\nHTTP/1.1 404 None\r\nStatus: 404 None\r\nContent-Length: 2\r\n\r\nok";
    let (upstream, _) = crate::site::upstream(vec![answer.into()]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }} }}"
    ));
    let answer = server.get("/", "");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\nStatus: 404 None\r\n"), "{answer}");
}

#[test]
fn content_fields_reach_named_location() {
    let answer = "HTTP/1.1 200 OK\r\nX-Accel-Redirect: @named\r\nContent-Type: a/b\r\n\
                  Cache-Control: no-store\r\nContent-Length: 0\r\n\r\n";
    let (upstream, _) = crate::site::upstream(vec![answer.into()]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }}
             location @named {{ return 200 named; }} }}"
    ));
    let answer = server.get("/", "");
    assert!(answer.ends_with("named"), "{answer}");
    assert!(answer.contains("\r\nContent-Type: a/b\r\n"), "{answer}");
    assert!(
        answer.contains("\r\nCache-Control: no-store\r\n"),
        "{answer}"
    );
}

#[test]
fn internal_redirect_fields_act_like_response_fields() {
    let answer = |target: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nX-Accel-Redirect: {target}\r\nSet-Cookie: a=1; path=/in/\r\n\
             Expires: 0\r\nExpires: 1\r\nContent-Type: text/plain; charset=koi8-r\r\nAccept-Ranges: none\r\n\
             Content-Length: 0\r\n\r\n"
        )
    };
    let mut answers = ["@named", "@named", "/none", "@named"].map(answer);
    answers[3] = answers[3].replace("200 OK", "302 Found");
    let (upstream, _) = crate::site::upstream(answers.into());
    let server = Server::start(&format!(
        "proxy_cache_path kept keys_zone=kept:1m; proxy_cookie_path /in/ /out/;
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }}
             location /kept {{ proxy_pass http://127.0.0.1:{upstream}; proxy_cache kept; }}
             location = /none {{ return 404; }}
             location /pages {{ proxy_pass http://127.0.0.1:{upstream}; proxy_intercept_errors on;
                 error_page 302 =418 /none; }}
             location @named {{ return 200 named; }} }}"
    ));
    let plain = server.get("/", "");
    assert!(
        plain.contains("\r\nSet-Cookie: a=1; path=/out/\r\n"),
        "{plain}"
    );
    assert!(plain.contains("\r\nAccept-Ranges: none\r\n"), "{plain}");
    assert!(plain.contains("\r\nExpires: 0\r\n"), "{plain}");
    assert!(!plain.contains("Expires: 1"), "{plain}");
    let kept = server.get("/kept", "");
    assert!(kept.contains("\r\nSet-Cookie: "), "{kept}");
    assert!(!kept.contains("Accept-Ranges: none"), "{kept}");
    let page = server.get("/", "");
    assert!(
        page.contains("\r\nContent-Type: text/html; charset=koi8-r\r\n"),
        "{page}"
    );
    // A page for the status comes before where the answer wants to go.
    let page = server.get("/pages", "");
    assert!(page.contains("404 Not Found"), "{page}");
}

#[test]
fn invalid_date_is_kept_on_ssi_page() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nLast-Modified: nonsense\r\n\
                  Upgrade: h2c\r\nContent-Length: 4\r\n\r\nbody";
    let (upstream, _) = crate::site::upstream(vec![answer.into(); 2]);
    let server = Server::start(&format!(
        "server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }}
             location /ssi {{ ssi on; proxy_pass http://127.0.0.1:{upstream}; }} }}"
    ));
    let plain = server.raw("GET / HTTP/1.0\r\n\r\n");
    assert!(plain.contains("\r\nLast-Modified: nonsense\r\n"), "{plain}");
    // What the server could speak is said to clients of HTTP/1.0, too.
    assert!(plain.contains("\r\nUpgrade: h2c\r\n"), "{plain}");
    let made = server.get("/ssi", "");
    assert!(made.ends_with("body") || made.contains("body"), "{made}");
    assert!(!made.contains("Last-Modified"), "{made}");
}

#[test]
fn first_of_two_real_ip_fields_counts() {
    let server = Server::start(
        "set_real_ip_from 127.0.0.0/8;
         server { listen 127.0.0.1:{port}; server_name localhost;
             add_header X-Seen $remote_addr always;
             location /one { real_ip_header X-Real-IP; }
             location /list { real_ip_header X-Forwarded-For; } }",
    );
    let two = |name| format!("{name}: 192.0.2.1\r\n{name}: 192.0.2.2\r\n");
    let one = server.get("/one", &two("X-Real-IP"));
    assert!(one.contains("X-Seen: 192.0.2.1\r\n"), "{one}");
    let list = server.get("/list", &two("X-Forwarded-For"));
    assert!(list.contains("X-Seen: 192.0.2.2\r\n"), "{list}");
}

/// A body that `return` has thrown away does not come: an upstream that was told of one would wait for it.
#[test]
fn upstream_is_told_of_no_discarded_body() {
    let server = Server::start(
        "server { listen 127.0.0.1:{port}; error_page 301 =200 /page;
             location /gone { return 301 /page; }
             location /page { proxy_pass http://127.0.0.1:{port}/seen; }
             location /seen { return 200 <$content_length>; } }",
    );
    let answer = server
        .raw("POST /gone HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\na=1");
    assert!(answer.contains("<0>"), "{answer}");
}
