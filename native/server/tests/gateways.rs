//! uwsgi_pass and scgi_pass: requests as applications read them, and what becomes of responses.

use crate::applications::{self, Protocol, BOTH};
use crate::h2;
use crate::site::{self, Folder, Server};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

/// A response of one piece.
fn whole(text: &str) -> Vec<Vec<u8>> {
    vec![text.as_bytes().to_vec()]
}

/// A server whose locations stand in `text`, with `PASS` for the directive that passes requests to
/// the application and `OWN_` for the prefix of the directives.
fn server(protocol: Protocol, port: u16, text: &str) -> Server {
    let name = protocol.name();
    let text = text
        .replace("PASS", &format!("{name}_pass 127.0.0.1:{port}"))
        .replace("OWN_", &format!("{name}_"));
    Server::start(&text)
}

/// The body of a response, its chunks joined.
fn body(response: &str) -> String {
    let (head, mut rest) = response.split_once("\r\n\r\n").expect("a whole head");
    if !head.contains("\r\nTransfer-Encoding: chunked") {
        return rest.to_owned();
    }
    let mut out = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk's size");
        out += &after[..size];
        rest = after[size..].strip_prefix("\r\n").expect("the chunk's end");
    }
    out
}

/// A uWSGI server that ends with the test.
struct Uwsgi(Child);

impl Drop for Uwsgi {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PYTHON: &str = "
def application(env, start_response):
    body = env['wsgi.input'].read(int(env.get('CONTENT_LENGTH') or 0))
    start_response('201 Made', [('Content-Type', 'text/plain'), ('X-Method', env['REQUEST_METHOD'])])
    said = env.get('HTTP_COOKIE', '') + '|' + env.get('HTTP_X_BLAH', '') + '|' + env['QUERY_STRING'] + '|'
    return [said.encode('latin-1'), body[::-1] * int(env.get('HTTP_TIMES', '1'))]
";

/// Start uWSGI with a Python application on a socket in the folder.
fn uwsgi(folder: &Folder) -> Uwsgi {
    folder.write("app.py", PYTHON);
    let at = |name: &str| format!("{}/{name}", site::path(&folder.0));
    let child = Command::new("uwsgi")
        .args(["--plugin", "python3", "--chmod-socket=666", "--die-on-term"])
        .args(["--socket", &at("app.sock"), "--wsgi-file", &at("app.py")])
        .args(["--logto", &at("uwsgi.log")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("uwsgi (Debian: uwsgi-core and uwsgi-plugin-python3)");
    Uwsgi(child)
}

#[test]
fn uwsgi_server_runs_python_application() {
    let folder = Folder::new();
    let _running = uwsgi(&folder);
    let socket = folder.0.join("app.sock");
    let server = Server::start_in(
        folder,
        &format!(
            "server {{ listen 127.0.0.1:{{port}}; http2 on; server_name localhost;
                 uwsgi_param QUERY_STRING $query_string; uwsgi_param REQUEST_METHOD $request_method;
                 uwsgi_param CONTENT_LENGTH $content_length; uwsgi_param HTTP_X_BLAH blah;
                 uwsgi_param SERVER_PROTOCOL $server_protocol;
                 location / {{ uwsgi_pass unix:{}; }} }}",
            site::path(&socket)
        ),
    );
    server.wait_for("uWSGI", |_| {
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    let fields = "Cookie: a\r\nX-Blah: 1\r\nCookie: b\r\nX-Blah: 2\r\n";
    let response = server.get("/?x=1", fields);
    assert!(response.starts_with("HTTP/1.1 201 Made\r\n"), "{response}");
    assert!(response.contains("\r\nX-Method: GET\r\n"), "{response}");
    assert_eq!(body(&response), "a; b|blah|x=1|");
    let post = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let response = server.raw(&format!("{post}Content-Length: 3\r\n\r\nabc"));
    assert_eq!(body(&response), "|blah||cba");
    let chunks = "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let response = server.raw(&format!("{post}{chunks}"));
    assert_eq!(body(&response), "|blah||edcba");
    let head = "HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let response = server.raw(head);
    assert!(response.contains("\r\nX-Method: HEAD\r\n"), "{response}");
    assert_eq!(body(&response), "", "{response}");
    large_responses_arrive_over_http2(&server);
}

fn large_responses_arrive_over_http2(server: &Server) {
    let mut client = h2::Client::new(server.port);
    let request = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/"),
        ("times", "100000"),
    ];
    client.send(&h2::frame(h2::HEADERS, 4, 1, &h2::block(&request)));
    client.send(&h2::frame(0, 1, 1, b"0123456789"));
    let (status, body) = client.answer(1);
    assert_eq!(status, "201");
    let expected = format!("|blah||{}", "9876543210".repeat(100_000));
    assert!(body == expected.as_bytes(), "{} bytes", body.len());
}

#[test]
fn application_reads_params_fields_and_body() {
    for protocol in BOTH {
        let (port, requests) = applications::start(protocol, |_| whole("Status: 200 OK\r\n\r\nok"));
        let server = server(
            protocol,
            port,
            "server { listen 127.0.0.1:{port}; OWN_param METHOD $request_method; OWN_param HTTP_X_SET own;
                 OWN_param EMPTY $arg_none if_not_empty; OWN_param BLANK $arg_none;
                 location / { PASS; }
                 location /bare { PASS; OWN_pass_request_headers off; OWN_pass_request_body off; }
                 location /other { PASS; OWN_param OTHER 1; } }",
        );
        let fields = "X-Set: theirs\r\nX-A: 1\r\nx-a: 2\r\nCookie: c\r\nCookie: d\r\n";
        assert_eq!(body(&server.get("/", fields)), "ok");
        let request = requests.recv().expect("a request");
        for (name, value) in [
            ("METHOD", "GET"),
            ("HTTP_X_SET", "own"),
            ("BLANK", ""),
            ("HTTP_X_A", "1, 2"),
            ("HTTP_COOKIE", "c; d"),
            ("HTTP_HOST", "localhost"),
        ] {
            assert_eq!(request.param(name), value, "{name} of {request:?}");
        }
        let names: Vec<_> = request.params.iter().map(|(name, _)| &name[..]).collect();
        assert!(names.contains(&"BLANK") && !names.contains(&"EMPTY"));
        let post = "POST /bare HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nContent-Length: 3\r\n\
                    Connection: close\r\n\r\nabc";
        assert_eq!(body(&server.raw(post)), "ok");
        let request = requests.recv().expect("a request");
        assert_eq!((request.param("HTTP_X_A"), request.body.len()), ("", 0));
        assert_eq!(request.param("METHOD"), "POST");
        // As with every list of nginx, a location's own parameters replace the outer ones.
        assert_eq!(body(&server.get("/other", "")), "ok");
        let request = requests.recv().expect("a request");
        assert_eq!((request.param("OTHER"), request.param("METHOD")), ("1", ""));
    }
}

/// A request with its body in two chunks, the second one later.
fn post_slowly(server: &Server, path: &str) -> String {
    let mut stream = server.connect();
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
    let first = "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    stream
        .write_all(format!("{head}{first}").as_bytes())
        .expect("sent");
    std::thread::sleep(std::time::Duration::from_millis(30));
    stream.write_all(b"2\r\nde\r\n0\r\n\r\n").expect("sent");
    site::read_all(&mut stream)
}

#[test]
fn application_is_told_length_of_chunked_body() {
    for protocol in BOTH {
        let (port, requests) = applications::start(protocol, |_| whole("\r\nok"));
        let params = match protocol {
            Protocol::Uwsgi => "uwsgi_param CONTENT_LENGTH $content_length;",
            Protocol::Scgi => "",
        };
        let server = server(
            protocol,
            port,
            &format!(
                "server {{ listen 127.0.0.1:{{port}}; {params} location / {{ PASS; }}
                     location /stream {{ PASS; OWN_request_buffering off; }} }}"
            ),
        );
        for path in ["/", "/stream"] {
            assert_eq!(body(&post_slowly(&server, path)), "ok");
            let request = requests.recv().expect("a request");
            assert_eq!(request.param("CONTENT_LENGTH"), "5", "{path}");
            assert_eq!(request.body, b"abcde", "{path}");
        }
        let announced = "POST /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
                         Content-Length: 4\r\n\r\nbody";
        assert_eq!(body(&server.raw(announced)), "ok");
        assert_eq!(requests.recv().expect("a request").body, b"body");
    }
}

#[test]
fn uwsgi_packet_has_modifiers_and_at_most_64_kb() {
    let (port, requests) = applications::start(Protocol::Uwsgi, |_| whole("\r\nok"));
    let server = server(
        Protocol::Uwsgi,
        port,
        "server { listen 127.0.0.1:{port}; large_client_header_buffers 8 40k; uwsgi_param A b;
             location / { PASS; uwsgi_modifier1 5; uwsgi_modifier2 7; } }",
    );
    assert_eq!(body(&server.get("/", "")), "ok");
    let request = requests.recv().expect("a request");
    assert_eq!((request.modifiers, request.param("A")), ((5, 7), "b"));
    let field = |name: &str| format!("{name}: {}\r\n", "x".repeat(32_000));
    let two = [field("X-A"), field("X-B")].concat();
    assert_eq!(body(&server.get("/", &two)), "ok");
    assert_eq!(
        requests.recv().expect("a request").param("HTTP_X_B").len(),
        32_000
    );
    let three = [two, field("X-C")].concat();
    let response = server.get("/", &three);
    assert!(response.starts_with("HTTP/1.1 500 "), "{response}");
    server.wait_for("the reason", |s| {
        s.log("error.log").contains("uwsgi request is too big: 96")
    });
}

#[test]
fn addresses_name_servers_groups_and_sockets() {
    for protocol in BOTH {
        let (port, _requests) = applications::start(protocol, |_| whole("\r\nok"));
        let server = server(
            protocol,
            port,
            &format!(
                "upstream u {{ server 127.0.0.1:{port}; }}
                 server {{ listen 127.0.0.1:{{port}};
                     location / {{ PASS; }}
                     location /group {{ OWN_pass u; }}
                     location /variable {{ OWN_pass $arg_to; }}
                     location /inner/ {{ if ($arg_a) {{ PASS; }} return 204; }} }}"
            ),
        );
        let address = format!("127.0.0.1:{port}");
        for path in [
            "/",
            "/group",
            &format!("/variable?to={address}"),
            "/variable?to=u",
        ] {
            assert_eq!(body(&server.get(path, "")), "ok", "{protocol:?} {path}");
        }
        for path in [
            "/variable?to=",
            "/variable?to=127.0.0.1",
            "/variable?to=unix:/../x",
        ] {
            let response = server.get(path, "");
            assert!(response.starts_with("HTTP/1.1 50"), "{path}: {response}");
        }
        let schemes = [
            format!("/variable?to=uwsgi://{address}"),
            "/variable?to=UWSGI://u".into(),
        ];
        for path in schemes {
            let is_found = body(&server.get(&path, "")) == "ok";
            assert_eq!(is_found, protocol == Protocol::Uwsgi, "{protocol:?} {path}");
        }
    }
}

#[test]
fn status_comes_from_line_field_or_location() {
    let cases = [
        ("HTTP/1.1 404 Not Here\r\nX-A: 1\r\n\r\nok", "404 Not Here"),
        ("HTTP/1.0 201 Made\nX-A: 1\n\nok", "201 Made"),
        (
            "HTTP/1.1 200 OK\r\nStatus: 404 No\r\nX-A: 1\r\n\r\nok",
            "200 OK",
        ),
        ("Status: 418 Teapot\r\nX-A: 1\r\n\r\nok", "418 Teapot"),
        ("X-A: 1\nStatus: 403\n\nok", "403 Forbidden"),
        (
            "Location: http://a/b\r\nX-A: 1\r\n\r\nok",
            "302 Moved Temporarily",
        ),
        ("X-A: 1\r\n\r\nok", "200 OK"),
        ("HTTP/2.0 200 Yes\r\nX-A: 1\r\n\r\nok", "200 Yes"),
        (
            "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 202 Yes\r\nX-A: 1\r\n\r\nok",
            "202 Yes",
        ),
    ];
    for protocol in BOTH {
        let (port, _requests) = applications::start(protocol, move |request| {
            let (text, _) = cases[request
                .param("HTTP_CASE")
                .parse::<usize>()
                .expect("a number")];
            match request.param("HTTP_PIECES") {
                "" => whole(text),
                _ => text.bytes().map(|byte| vec![byte]).collect(),
            }
        });
        let server = server(
            protocol,
            port,
            "server { listen 127.0.0.1:{port}; http2 on; location / { PASS; } }",
        );
        for (i, (text, status)) in cases.iter().enumerate() {
            for pieces in ["", "Pieces: 1\r\n"] {
                let response = server.get("/", &format!("Case: {i}\r\n{pieces}"));
                let line = format!("HTTP/1.1 {status}\r\n");
                assert!(
                    response.starts_with(&line),
                    "{protocol:?} {text}: {response}"
                );
                assert!(response.contains("\r\nX-A: 1\r\n"), "{response}");
                assert_eq!(body(&response), "ok", "{text}: {response}");
                // Only SCGI's own field stays here, as in nginx.
                let shows = text.contains("Status") && protocol == Protocol::Uwsgi;
                assert_eq!(response.contains("\r\nStatus: "), shows, "{response}");
            }
            let mut client = h2::Client::new(server.port);
            let number = i.to_string();
            let request = [
                (":method", "GET"),
                (":scheme", "http"),
                (":authority", "a"),
                (":path", "/"),
                ("case", &number[..]),
            ];
            client.send(&h2::frame(h2::HEADERS, 5, 1, &h2::block(&request)));
            assert_eq!(client.answer(1), (status[..3].into(), b"ok".to_vec()));
        }
    }
}

#[test]
fn body_ends_with_its_length_or_the_connection() {
    for protocol in BOTH {
        let (port, _requests) = applications::start(protocol, |request| {
            match request.param("HTTP_CASE") {
                "exact" => whole("Content-Length: 2\r\n\r\nok"),
                "more" => whole("Content-Length: 2\r\n\r\nok and more"),
                "less" => whole("Content-Length: 9\r\n\r\nok"),
                "none" => whole("Status: 204 No Content\r\n\r\nextra"),
                "kept" => whole("Status: 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
                // The protocols know no chunks, so that these are plain bytes.
                "chunks" => whole("Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
                "large" => vec![b"\r\n".to_vec(), vec![b'x'; 3_000_000]],
                _ => whole("X: y\r\n\r\nok"),
            }
        });
        let server = server(
            protocol,
            port,
            "server { listen 127.0.0.1:{port}; location / { PASS; }
                 location /now { PASS; OWN_buffering off; } }",
        );
        for path in ["/", "/now"] {
            let ask = |case: &str| server.get(path, &format!("Case: {case}\r\n"));
            for case in ["exact", "more", "until close"] {
                assert_eq!(body(&ask(case)), "ok", "{protocol:?} {path} {case}");
            }
            let less = ask("less");
            assert!(less.contains("\r\nContent-Length: 9\r\n"), "{less}");
            assert_eq!(body(&less), "ok");
            let none = ask("none");
            assert!(none.starts_with("HTTP/1.1 204 "), "{none}");
            assert_eq!(body(&none), "");
            assert!(ask("kept").starts_with("HTTP/1.1 304 "));
            assert_eq!(body(&ask("chunks")), "2\r\nok\r\n0\r\n\r\n");
            assert_eq!(body(&ask("large")).len(), 3_000_000);
            let head = format!(
                "HEAD {path} HTTP/1.1\r\nHost: a\r\nCase: exact\r\nConnection: close\r\n\r\n"
            );
            let head = server.raw(&head);
            assert!(head.contains("\r\nContent-Length: 2\r\n"), "{head}");
            assert_eq!(body(&head), "");
        }
    }
}

/// A head with a line of this length.
fn long(length: usize) -> String {
    format!("X-A: {}\r\n\r\nok", "x".repeat(length))
}

#[test]
fn hostile_responses_are_bad_gateways() {
    let cases: [String; 16] = [
        String::new(),
        "HTT".into(),
        "HTTP/".into(),
        "HTTP/1.1 20\r\n\r\n".into(),
        "HTTP/1.1 0200 OK\r\n\r\n".into(),
        "HTTP/one 200 OK\r\n\r\n".into(),
        "no field\r\n\r\nok".into(),
        ": nameless\r\n\r\nok".into(),
        "Status: none\r\n\r\nok".into(),
        "Status: 99\r\n\r\nok".into(),
        "Status: 2000\r\n\r\nok".into(),
        "X-A: a\0b\r\n\r\nok".into(),
        "Content-Length: 1\r\nContent-Length: 2\r\n\r\nok".into(),
        "Content-Length: -1\r\n\r\nok".into(),
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok".into(),
        long(5000),
    ];
    for protocol in BOTH {
        let texts = cases.clone();
        let (port, _requests) = applications::start(protocol, move |request| {
            let at = request.param("HTTP_CASE").parse::<usize>();
            whole(&at.map_or(long(3000), |at| texts[at].clone()))
        });
        let server = server(
            protocol,
            port,
            "server { listen 127.0.0.1:{port}; location / { PASS; } }",
        );
        for (i, text) in cases.iter().enumerate() {
            let response = server.get("/", &format!("Case: {i}\r\n"));
            assert!(
                response.starts_with("HTTP/1.1 502 "),
                "{protocol:?} {text:?}: {response}"
            );
        }
        assert_eq!(body(&server.get("/", "")), "ok");
        site::assert_no_panic(&server.log("error.log"));
    }
}

#[test]
fn endless_head_and_silence_end_in_time() {
    for protocol in BOTH {
        let (port, _requests) =
            applications::start(protocol, |request| match request.param("HTTP_CASE") {
                "endless" => vec![b"X-A: 1\r\n".repeat(1000); 1000],
                _ => {
                    std::thread::sleep(crate::PATIENCE);
                    Vec::new()
                }
            });
        let server = server(
            protocol,
            port,
            "server { listen 127.0.0.1:{port}; location / { PASS; OWN_read_timeout 300ms; } }",
        );
        let endless = server.get("/", "Case: endless\r\n");
        assert!(endless.starts_with("HTTP/1.1 502 "), "{endless}");
        let silent = server.get("/", "");
        assert!(silent.starts_with("HTTP/1.1 504 "), "{silent}");
    }
}

#[test]
fn next_server_is_tried_after_a_failure() {
    for protocol in BOTH {
        let (bad, _) = applications::start(protocol, |request| match request.param("HTTP_CASE") {
            "busy" => whole("Status: 503 Busy\r\n\r\nbusy"),
            "broken" => whole("HTTP/1.1 2\r\n\r\n"),
            _ => Vec::new(),
        });
        let (good, _requests) = applications::start(protocol, |_| whole("\r\nok"));
        let server = server(
            protocol,
            good,
            &format!(
                "upstream u {{ server 127.0.0.1:{bad} max_fails=0; server 127.0.0.1:{good} backup; }}
                 add_header X-Tried $upstream_status;
                 server {{ listen 127.0.0.1:{{port}}; OWN_pass_header X-None;
                     location / {{ OWN_pass u; OWN_next_upstream error http_503 invalid_header; }}
                     location /once {{ OWN_pass u; OWN_next_upstream_tries 1; }}
                     location /off {{ OWN_pass u; OWN_next_upstream off; }} }}"
            ),
        );
        for (case, tried) in [
            ("busy", "503, 200"),
            ("broken", "502, 200"),
            ("closed", "502, 200"),
        ] {
            let response = server.get("/", &format!("Case: {case}\r\n"));
            assert_eq!(body(&response), "ok", "{protocol:?} {case}: {response}");
            assert!(
                response.contains(&format!("\r\nX-Tried: {tried}\r\n")),
                "{response}"
            );
        }
        for path in ["/once", "/off"] {
            assert!(server.get(path, "").starts_with("HTTP/1.1 502 "), "{path}");
        }
    }
}

#[test]
fn response_fields_are_hidden_passed_and_followed() {
    for protocol in BOTH {
        let (port, _requests) = applications::start(protocol, |_| {
            whole(
                "Status: 404 None\r\nServer: own\r\nX-Hidden: 1\r\nX-Accel-Expires: 5\r\nX-Powered: 1\r\n\
                 X-Accel-Limit-Rate: 7\r\n\r\nno",
            )
        });
        let server = server(
            protocol,
            port,
            "server { listen 127.0.0.1:{port}; OWN_ignore_headers X-Accel-Limit-Rate;
                 location / { PASS; OWN_hide_header X-Hidden; OWN_pass_header X-Accel-Expires; }
                 location /page { PASS; OWN_intercept_errors on; error_page 404 = @page; }
                 location @page { return 200 page; } }",
        );
        let response = server.get("/", "");
        assert!(response.starts_with("HTTP/1.1 404 None\r\n"), "{response}");
        for shown in ["Server: own", "X-Accel-Expires: 5", "X-Powered: 1"] {
            assert!(response.contains(shown), "{protocol:?} {shown}: {response}");
        }
        for hidden in ["X-Hidden", "X-Accel-Limit-Rate"] {
            assert!(!response.contains(hidden), "{hidden}: {response}");
        }
        assert_eq!(body(&server.get("/page", "")), "page");
    }
}

#[test]
fn application_may_redirect_internally_or_upgrade() {
    for protocol in BOTH {
        let (port, _requests) =
            applications::start(protocol, |request| match request.param("HTTP_UPGRADE") {
                "" => whole("X-Accel-Redirect: /inner\r\n\r\n"),
                _ => vec![
                    b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\n\r\n".to_vec(),
                    b"hello".to_vec(),
                ],
            });
        let server = server(
            protocol,
            port,
            "server { listen 127.0.0.1:{port}; location / { PASS; }
                 location /inner { internal; return 200 inner; } }",
        );
        assert_eq!(body(&server.get("/", "")), "inner");
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("the response");
        assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
        assert_eq!(body(&response), "hello", "{response}");
    }
}

#[test]
fn gateway_responses_are_cached_and_revalidated() {
    for protocol in BOTH {
        let (port, requests) = applications::start(protocol, |request| {
            match request.param("HTTP_IF_NONE_MATCH") {
                "\"e\"" => whole("Status: 304 Not Modified\r\n\r\n"),
                _ => whole(
                    "ETag: \"e\"\r\nAccept-Ranges: bytes\r\nContent-Length: 2\r\nCache-Control: max-age=1\r\n\r\nok",
                ),
            }
        });
        let server = server(
            protocol,
            port,
            "OWN_cache_path kept keys_zone=c:1m; add_header X-Cache $upstream_cache_status;
             server { listen 127.0.0.1:{port};
                 location / { PASS; OWN_cache c; OWN_cache_key $request_uri; OWN_cache_revalidate on; } }",
        );
        let ask = |status: &str| {
            let response = server.get("/", "Range: bytes=0-0\r\nIf-None-Match: \"mine\"\r\n");
            response.contains(&format!("\r\nX-Cache: {status}\r\n")) && body(&response) == "o"
        };
        assert!(ask("MISS") && ask("HIT"));
        // The cache asks for the whole response, whatever the client asks for.
        let request = requests.recv().expect("a request");
        assert_eq!(
            (
                request.param("HTTP_RANGE"),
                request.param("HTTP_IF_NONE_MATCH")
            ),
            ("", "")
        );
        server.wait_for("the end of its time", |_| ask("REVALIDATED"));
        let request = requests.recv().expect("a request");
        assert_eq!(request.param("HTTP_IF_NONE_MATCH"), "\"e\"");
        assert!(requests.try_recv().is_err());
    }
}

#[test]
fn directives_of_gateways_are_checked() {
    for (line, error) in [
        ("uwsgi_pass 127.0.0.1;", "no port in upstream \"127.0.0.1\""),
        ("scgi_pass uwsgi://127.0.0.1:1;", "invalid port in upstream"),
        (
            "uwsgi_pass 127.0.0.1:1; scgi_pass 127.0.0.1:1;",
            "\"scgi_pass\" directive is duplicate",
        ),
        ("uwsgi_param a b c;", "invalid parameter \"c\""),
        (
            "scgi_param a;",
            "invalid number of arguments in \"scgi_param\" directive",
        ),
        ("uwsgi_modifier1 x;", "invalid number"),
        (
            "uwsgi_buffers 1 4k;",
            "there must be at least 2 \"uwsgi_buffers\"",
        ),
        (
            "scgi_busy_buffers_size 1k;",
            "\"scgi_busy_buffers_size\" must be equal to or greater than",
        ),
        (
            "uwsgi_ssl_verify on; uwsgi_pass suwsgi://127.0.0.1:1;",
            "no uwsgi_ssl_trusted_certificate for uwsgi_ssl_verify",
        ),
    ] {
        let text = format!(
            "events {{ }} http {{ access_log off; server {{ listen 127.0.0.1:1; location / {{ {line} }} }} }}"
        );
        let (is_valid, said) = site::check(&text);
        assert!(!is_valid && said.contains(error), "{line}: {said}");
    }
    let text = "events { } http { access_log off; uwsgi_cache_path c keys_zone=c:1m; server { listen 127.0.0.1:1;
        location / { uwsgi_cache c; uwsgi_pass 127.0.0.1:1; } } }";
    let (is_valid, said) = site::check(text);
    assert!(is_valid, "{said}");
    assert!(
        said.contains("no \"uwsgi_cache_key\" for \"uwsgi_cache\""),
        "{said}"
    );
}
