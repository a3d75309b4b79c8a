//! What admins take for granted of nginx and no other file of tests shows: which server is chosen, who of a group is
//! asked, how fast answers go, what is logged where, and what the process may do.

use crate::common::Server;
use crate::h2::{get, Client as Http2};
use crate::h3::Client as Http3;
use crate::ports::free_port;
use crate::site::{self, read_all, Folder};
use std::io::{Read, Write};
use std::net::{Ipv6Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

fn patient<S>(stream: S, set: impl Fn(&S, Option<Duration>) -> std::io::Result<()>) -> S {
    set(&stream, Some(crate::PATIENCE)).expect("a timeout");
    stream
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    patient(stream, TcpStream::set_read_timeout)
}

fn body(answer: &str) -> String {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    body.to_string()
}

/// The body of the answer to a GET with more fields.
fn get_with(port: u16, uri: &str, fields: &str) -> String {
    let mut stream = connect(port);
    let request = format!("GET {uri} HTTP/1.0\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    body(&read_all(&mut stream))
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + crate::PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn server_is_chosen_by_address_then_name() {
    let port = free_port();
    let block = |listen: &str, names: &str, text: &str| {
        format!("server {{ {listen} server_name {names}; return 200 \"{text}\"; }}\n")
    };
    let all = format!("listen 127.0.0.1:{port}; listen [::1]:{port};");
    let http = [
        block(&all, "exact.test www.wild.test", "exact"),
        block(&all, "~^(?<who>[a-z]+)[.]re[.]test$", "re $who"),
        block(&all, "~re[.]test$", "second re"),
        block(&all, "tail.* tail.long.*", "tail"),
        block(&all, "*.wild.test", "wild"),
        block(&all, "*.long.wild.test", "longer"),
        block(&all, ".dot.test", "dot"),
        block(
            &format!("listen 127.0.0.1:{port} default_server;"),
            "_",
            "default",
        ),
        block(
            &format!("listen [::1]:{port} default_server;"),
            "six.test",
            "six [$server_addr]",
        ),
        block(
            "listen unix:%%/one.sock;",
            "unix.test",
            "unix [$remote_addr] [$server_addr]",
        ),
        block("listen unix:%%/one.sock;", "exact.test", "exact of unix"),
    ];
    let server = Server::start(&http.concat(), |_| {});
    let ask = |host: &str| get_with(port, "/", &format!("Host: {host}\r\n"));
    for (host, text) in [
        ("exact.test", "exact"),
        ("EXACT.Test:80", "exact"),
        ("exact.test.", "exact"),
        // An exact name before any wildcard, a longer wildcard before a shorter one, leading before trailing ones.
        ("www.wild.test", "exact"),
        ("a.wild.test", "wild"),
        ("a.b.wild.test", "wild"),
        ("x.long.wild.test", "longer"),
        ("wild.test", "default"),
        ("dot.test", "dot"),
        ("a.dot.test", "dot"),
        ("tail.org", "tail"),
        ("tail.wild.test", "wild"),
        // The first expression that matches, and only where no name does.
        ("abc.re.test", "re abc"),
        ("a1.re.test", "second re"),
        ("tail.re.test", "tail"),
        ("six.test", "default"),
        ("nobody", "default"),
    ] {
        assert_eq!(ask(host), text, "{host}");
    }
    assert_eq!(get_with(port, "/", ""), "default");
    let six = |host: &str| {
        let stream = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).expect("connected");
        let mut stream = patient(stream, TcpStream::set_read_timeout);
        write!(stream, "GET / HTTP/1.0\r\nHost: {host}\r\n\r\n").expect("sent");
        body(&read_all(&mut stream))
    };
    assert_eq!(six("exact.test"), "exact");
    assert_eq!(six("[::1]:80"), "six [::1]");
    let unix = |host: &str| {
        let stream = UnixStream::connect(server.folder.0.join("one.sock")).expect("connected");
        let mut stream = patient(stream, UnixStream::set_read_timeout);
        write!(stream, "GET / HTTP/1.0\r\nHost: {host}\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        body(&answer)
    };
    assert_eq!(unix("exact.test"), "exact of unix");
    let path = server.folder.0.join("one.sock");
    assert_eq!(
        unix("other"),
        format!("unix [unix:] [unix:{}]", path.display())
    );
}

/// Three servers that say their number, and one that takes connections and never answers.
#[test]
fn balancing_methods_choose_like_nginx() {
    let port = free_port();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    silent.set_nonblocking(true).expect("not waiting");
    let dead = free_port();
    let one = |n: u32| format!("server unix:%%/{n}.sock");
    let busy = format!("server {}", silent.local_addr().expect("its address"));
    let servers =
        (1..=3).map(|n| format!("server {{ listen unix:%%/{n}.sock; return 200 {n}; }}\n"));
    let (u1, u2, u3) = (one(1), one(2), one(3));
    let groups = format!(
        "upstream weights {{ {u1} weight=5; {u2}; {u3} weight=2; }}
         upstream least {{ least_conn; {busy}; {u2}; }}
         upstream two {{ random two least_conn; {busy}; {u2}; }}
         upstream any {{ random; {u1}; {u2}; {u3}; }}
         upstream address {{ ip_hash; {u1}; {u2}; {u3}; }}
         upstream three {{ hash $arg_k consistent; {u1}; {u2}; {u3}; }}
         upstream fewer {{ hash $arg_k consistent; {u1}; {u2}; {u3} down; }}
         upstream key {{ hash $arg_k; {u1}; {u2}; {u3}; }}
         upstream failing {{ server 127.0.0.1:{dead} max_fails=1 fail_timeout=1h; {u2} backup; {u3} down; }}
         upstream full {{ {busy} max_conns=1; {u3} backup; }}\n"
    );
    let http = format!(
        "{groups} {} server {{ listen 127.0.0.1:{port}; set_real_ip_from 127.0.0.1; real_ip_header X-Ip;
             location ~ ^/(?<group>[a-z]+)$ {{ add_header X-Tried $upstream_addr; proxy_pass http://$group; }} }}",
        servers.collect::<String>()
    );
    let _server = Server::start(&http, |_| {});
    let times = |group: &str, n: usize| -> Vec<String> {
        (0..n).map(|_| get_with(port, group, "")).collect()
    };
    let counted =
        |answers: &[String]| ["1", "2", "3"].map(|n| answers.iter().filter(|a| *a == n).count());
    // Smoothly: never the heaviest five times in a row.
    let weights = times("/weights", 16);
    assert_eq!(counted(&weights), [10, 2, 4]);
    assert_eq!(weights[..8], weights[8..]);
    assert!(
        !weights.windows(4).any(|w| w.iter().all(|n| n == "1")),
        "{weights:?}"
    );
    // A connection waits at the silent server; whoever counts asks the other one from then on.
    let mut held = Vec::new();
    for group in ["/least", "/two", "/full"] {
        loop {
            let mut stream = connect(port);
            write!(stream, "GET {group} HTTP/1.0\r\n\r\n").expect("sent");
            stream
                .set_read_timeout(Some(Duration::from_millis(20)))
                .expect("a timeout");
            let mut byte = [0];
            let answered = stream.read(&mut byte).is_ok_and(|n| n > 0);
            if answered {
                continue;
            }
            held.push(stream);
            if let Ok((connection, _)) = silent.accept() {
                held.push(connection);
                break;
            }
        }
        let want = if group == "/full" {
            [0, 0, 8]
        } else {
            [0, 8, 0]
        };
        assert_eq!(counted(&times(group, 8)), want, "{group}");
    }
    assert!(counted(&times("/any", 60)).iter().all(|n| *n > 0));
    let of_address = |n: u32| get_with(port, "/address", &format!("X-Ip: 10.0.{n}.9\r\n"));
    let chosen: Vec<String> = (0..40).map(of_address).collect();
    assert!(counted(&chosen).iter().all(|n| *n > 0), "{chosen:?}");
    assert_eq!(chosen, (0..40).map(of_address).collect::<Vec<_>>());
    // The last part of an address does not count.
    assert_eq!(
        get_with(port, "/address", "X-Ip: 10.0.7.200\r\n"),
        chosen[7]
    );
    let of_keys = |group: &str| -> Vec<String> {
        (0..60)
            .map(|k| get_with(port, &format!("{group}?k=key{k}"), ""))
            .collect()
    };
    let (three, fewer) = (of_keys("/three"), of_keys("/fewer"));
    assert!(counted(&three).iter().all(|n| *n > 5), "{three:?}");
    // Keys of the servers that are still there stay where they were.
    for (before, after) in three.iter().zip(&fewer) {
        assert!(before == after || before == "3", "{before} {after}");
    }
    assert_eq!(counted(&fewer)[2], 0);
    assert!(counted(&of_keys("/key")).iter().all(|n| *n > 5));
    assert_eq!(of_keys("/key"), of_keys("/key"));
    // It fails once, and is left alone for an hour.
    let mut tried = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(port);
        write!(stream, "GET /failing HTTP/1.0\r\n\r\n").expect("sent");
        let answer = read_all(&mut stream);
        assert!(answer.ends_with("\r\n\r\n2"), "{answer}");
        let line = answer.lines().find_map(|l| l.strip_prefix("X-Tried: "));
        tried.push(line.expect("who was asked").contains(&format!(":{dead}")));
    }
    assert_eq!(tried, [true, false, false]);
}

#[test]
fn rate_limits_apply_to_responses_and_requests() {
    let port = free_port();
    let http = format!(
        "limit_req_zone $arg_k zone=rate:1m rate=4r/s; limit_conn_zone $arg_k zone=count:1m;
         server {{ listen 127.0.0.1:{port}; root %%/html; http2 on;
             location /slow/ {{ alias %%/html/; limit_rate 40k; }}
             location /after/ {{ alias %%/html/; limit_rate_after 1m; limit_rate 40k; }}
             location /told/ {{ proxy_pass http://127.0.0.1:{port}/source/; }}
             location /source/ {{ alias %%/html/; add_header X-Accel-Limit-Rate 40960; }}
             location /once {{ limit_req zone=rate; try_files /small =404; }}
             location /later {{ limit_req zone=rate burst=1; limit_req_status 429; try_files /small =404; }}
             location /one {{ limit_conn count 1; alias %%/html/file; limit_rate 1k; }} }}"
    );
    let server = Server::start(&http, |folder| {
        std::fs::create_dir_all(folder.join("html")).unwrap();
        std::fs::write(folder.join("html/file"), vec![b'x'; 102_400]).unwrap();
        std::fs::write(folder.join("html/small"), "small").unwrap();
    });
    let timed = |uri: &'static str| {
        std::thread::spawn(move || {
            let begun = Instant::now();
            assert_eq!(get_with(port, uri, "").len(), 102_400, "{uri}");
            begun.elapsed()
        })
    };
    let slow = ["/slow/file", "/told/file"].map(timed);
    let fast = timed("/after/file");
    // Over HTTP/2, too.
    let begun = Instant::now();
    let mut client = Http2::new(port);
    client.send(&get(1, "/slow/file"));
    let (status, whole) = client.answer(1);
    assert_eq!((&*status, whole.len()), ("200", 102_400));
    let by_stream = begun.elapsed();
    let slow = slow.map(|t| t.join().expect("an answer"));
    // 100 KB at 40 KB a second: two whole seconds must begin, as the clock shows them.
    for took in slow.iter().chain([&by_stream]) {
        assert!(
            *took > Duration::from_millis(900),
            "{took:?} {slow:?} {by_stream:?}"
        );
    }
    assert!(fast.join().expect("an answer") < Duration::from_secs(30));
    let status = |uri: &str| {
        let mut stream = connect(port);
        write!(stream, "GET {uri} HTTP/1.0\r\n\r\n").expect("sent");
        read_all(&mut stream)[9..12].to_string()
    };
    assert_eq!([status("/once?k=a"), status("/once?k=a")], ["200", "503"]);
    assert_eq!(status("/once?k=b"), "200");
    let begun = Instant::now();
    assert_eq!([status("/later?k=c"), status("/later?k=c")], ["200", "200"]);
    assert!(begun.elapsed() > Duration::from_millis(200), "not delayed");
    let mut held = connect(port);
    write!(held, "GET /one?k=d HTTP/1.0\r\n\r\n").expect("sent");
    held.read_exact(&mut [0; 9]).expect("the beginning");
    assert_eq!(status("/one?k=d"), "503");
    drop(held);
    wait_for("room for another", || {
        let mut stream = connect(port);
        write!(stream, "GET /one?k=d HTTP/1.0\r\n\r\n").expect("sent");
        let mut line = [0; 12];
        stream.read_exact(&mut line).expect("a status line");
        line.ends_with(b"200")
    });
    drop(server);
}

#[test]
fn logs_go_to_configured_targets() {
    let port = free_port();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let socket = patient(socket, UdpSocket::set_read_timeout);
    let to = socket.local_addr().expect("its address");
    let http = format!(
        "log_format short '$uri $status'; log_format json escape=json '{{\"a\":\"$arg_a\"}}';
         map $arg_quiet $loud {{ default 1; yes 0; }}
         server {{ listen 127.0.0.1:{port}; root %%/html;
             location /sys {{ access_log syslog:server={to},facility=local3,tag=web,severity=warn short; return 200 x; }}
             location /nohost {{ access_log syslog:server={to},nohostname short; return 200 x; }}
             location /error {{ access_log off; error_log syslog:server={to},tag=err error; alias %%/none; }}
             location /held {{ access_log %%/held.log short buffer=32k flush=1h if=$loud; return 200 x; }}
             location /soon {{ access_log %%/soon.log json buffer=32k flush=50ms; return 200 x; }}
             location /packed {{ access_log %%/packed.gz short gzip flush=50ms; return 200 x; }}
             location /named/ {{ access_log %%/by-$arg_n.log short; return 200 x; }}
             location /grave {{ error_log %%/grave.log crit; alias %%/none; }}
             location /plain {{ error_log %%/plain.log error; alias %%/none; }} }}"
    );
    let mut server = Server::start(&http, |_| {});
    let told = |uri: &str| {
        get_with(port, uri, "");
        let mut buffer = [0; 2048];
        let n = socket.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    };
    // Facility 19, severity 4; then the time, the host, and the tag.
    let line = told("/sys");
    assert!(
        line.starts_with("<156>") && line.ends_with(" web: /sys 200"),
        "{line}"
    );
    assert_eq!(line.split_whitespace().count(), 7, "{line}");
    let line = told("/nohost");
    assert!(
        line.starts_with("<190>") && line.ends_with(" nginx: /nohost 200"),
        "{line}"
    );
    assert_eq!(line.split_whitespace().count(), 6, "{line}");
    let line = told("/error");
    assert!(
        line.starts_with("<187>") && line.contains(" err: "),
        "{line}"
    );
    assert!(
        line.contains("[error]") && line.contains("No such file"),
        "{line}"
    );
    let folder = server.folder.0.clone();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    for uri in [
        "/held/1",
        "/held/2?quiet=yes",
        "/held/3",
        "/soon?a=%22\"",
        "/packed",
        "/named/x?n=one",
    ] {
        get_with(port, uri, "");
    }
    wait_for("the line", || !read("soon.log").is_empty());
    assert_eq!(read("soon.log"), "{\"a\":\"%22\\\"\"}\n");
    assert_eq!(read("by-one.log"), "/named/x 200\n");
    let packed = folder.join("packed.gz");
    wait_for("what was packed", || {
        std::fs::metadata(&packed).is_ok_and(|m| m.len() > 0)
    });
    let out = Command::new("gzip")
        .arg("-dc")
        .arg(&packed)
        .output()
        .expect("gzip runs");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "/packed 200\n");
    for uri in ["/grave", "/plain"] {
        get_with(port, uri, "");
    }
    wait_for("the error", || read("plain.log").contains("No such file"));
    assert_eq!(read("grave.log"), "");
    assert_eq!(read("held.log"), "");
    assert!(server.quit());
    assert_eq!(read("held.log"), "/held/1 200\n/held/3 200\n");
}

/// What a load balancer says of the client, in both versions of its protocol.
#[test]
fn client_address_comes_from_trusted_proxy() {
    let port = free_port();
    let http = format!(
        "server {{ listen 127.0.0.1:{port} proxy_protocol;
             location / {{ set_real_ip_from 127.0.0.0/8; real_ip_header proxy_protocol; try_files /none @who; }}
             location @who {{ return 200 \"$remote_addr:$remote_port|$proxy_protocol_addr|$proxy_protocol_server_port\"; }}
             location /list {{ real_ip_header X-Forwarded-For; real_ip_recursive on; set_real_ip_from 127.0.0.1;
                 set_real_ip_from 10.0.0.0/8; try_files /none @who; }}
             location /others {{ real_ip_header X-Real-IP; set_real_ip_from 192.0.2.1; try_files /none @who; }} }}"
    );
    let _server = Server::start(&http, |_| {});
    let ask = |before: &[u8], rest: &str| {
        let mut stream = connect(port);
        let request = [before, rest.as_bytes()].concat();
        stream.write_all(&request).expect("sent");
        body(&read_all(&mut stream))
    };
    let first = "PROXY TCP4 203.0.113.5 192.0.2.7 4711 443\r\n";
    let six = "PROXY TCP6 2001:db8::9 2001:db8::1 4712 444\r\n";
    let request = "GET / HTTP/1.0\r\n\r\n";
    assert_eq!(
        ask(first.as_bytes(), request),
        "203.0.113.5:4711|203.0.113.5|443"
    );
    assert_eq!(
        ask(six.as_bytes(), request),
        "2001:db8::9:4712|2001:db8::9|444"
    );
    let mut second = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    second.extend([198, 51, 100, 3, 192, 0, 2, 7, 0x12, 0x67, 0x01, 0xbb]);
    assert_eq!(ask(&second, request), "198.51.100.3:4711|198.51.100.3|443");
    // Without it, or with one that is wrong, nobody is answered.
    assert_eq!(ask(b"", request), "");
    assert_eq!(ask(b"PROXY TCP4 1.2.3.4\r\n", request), "");
    let list = "GET /list HTTP/1.0\r\nX-Forwarded-For: 198.51.100.1, 203.0.113.8, 10.1.2.3\r\n\r\n";
    assert!(ask(first.as_bytes(), list).starts_with("203.0.113.8:"));
    let others = "GET /others HTTP/1.0\r\nX-Real-IP: 198.51.100.1\r\n\r\n";
    assert!(ask(first.as_bytes(), others).starts_with("127.0.0.1:"));
}

/// Whoever is refused in the middle of a body still hears why.
#[test]
fn rejection_reaches_client_that_keeps_sending() {
    let port = free_port();
    let http =
        format!("server {{ listen 127.0.0.1:{port}; client_max_body_size 1k; root %%/html; }}");
    let _server = Server::start(&http, |_| {});
    let mut stream = connect(port);
    let length = 4 << 20;
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    )
    .expect("sent");
    stream
        .write_all(&vec![b'x'; length])
        .expect("the whole body is taken");
    stream.shutdown(Shutdown::Write).expect("no more");
    let answer = read_all(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn reopen_and_stop_commands_work() {
    let server = site::Server::start("server { listen 127.0.0.1:{port}; return 200 ok; }");
    server.get("/first", "");
    server.wait_for("the line", |s| s.log("access.log").contains("/first"));
    let path = |name: &str| server.folder.0.join(name);
    std::fs::rename(path("access.log"), path("old.log")).expect("renamed");
    assert!(server.run(&["-s", "reopen"]).status.success());
    // The master opens the new file before the worker is told: what comes between goes into the old one.
    server.wait_for("a line in the new file", |s| {
        s.get("/second", "");
        s.log("access.log").contains("/second")
    });
    server.get("/third", "");
    server.wait_for("the line", |s| s.log("access.log").contains("/third"));
    assert!(!server.log("old.log").contains("/third"));
    assert!(server.run(&["-s", "stop"]).status.success());
    server.wait_for("its end", |s| !s.folder.0.join("g.pid").exists());
    assert!(TcpStream::connect(("127.0.0.1", server.port)).is_err());
    let again = server.run(&["-s", "stop"]);
    assert!(!again.status.success());
}

fn is_root() -> bool {
    // SAFETY: no arguments, no memory, never fails.
    unsafe { libc::getuid() == 0 }
}

/// The words behind a name in a process's status.
fn status_of(pid: u32, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    let words = line.expect("the line").split_whitespace();
    words.map(String::from).collect()
}

fn child_of(pid: u32) -> Option<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    list.split_whitespace().next()?.parse().ok()
}

/// Who starts as root serves as somebody else, who may do nothing else and read nothing of root's.
#[test]
fn worker_drops_root_privileges() {
    let server = site::Server::start_with(
        "user nobody nogroup;",
        "server { listen 127.0.0.1:{port}; root html; }",
    );
    server.folder.write("html/own", "own");
    server.folder.write("html/secret", "secret");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(server.folder.0.join("html/secret"), mode).expect("closed to others");
    assert!(server.get("/own", "").ends_with("own"));
    let master: u32 = server.log("g.pid").trim().parse().expect("a number");
    let worker = child_of(master).expect("a worker");
    if is_root() {
        assert_eq!(status_of(worker, "Uid:"), ["65534"; 4]);
        assert_eq!(status_of(worker, "Gid:"), ["65534"; 4]);
        assert_eq!(status_of(worker, "Groups:"), ["65534"]);
        for set in ["CapEff:", "CapPrm:", "CapAmb:"] {
            assert_eq!(status_of(worker, set), ["0000000000000000"], "{set}");
        }
        assert!(server.get("/secret", "").starts_with("HTTP/1.1 403 "));
        // The master keeps it, for the next configuration and its logs and ports.
        assert_eq!(status_of(master, "Uid:"), ["0"; 4]);
    } else {
        assert_eq!(status_of(worker, "Uid:"), status_of(master, "Uid:"));
        assert!(server.log("error.log").contains("\"user\""));
    }
}

/// As in a container that gives no capability to a user that is not root: all versions of HTTP, caches, and a reload.
#[test]
fn server_runs_without_capabilities() {
    let folder = Folder::new();
    let (tcp, udp) = (free_port(), free_port());
    let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).expect("a key");
    folder.write("cert.pem", &own.cert.pem());
    folder.write("key.pem", &own.signing_key.serialize_pem());
    folder.write("html/page", "page");
    let text = |more: &str| {
        format!(
            "daemon off; user nobody; worker_processes 2; pid pid; error_log error.log; events {{}}
             http {{ access_log access.log; proxy_cache_path cache keys_zone=a:1m;
                 ssl_certificate cert.pem; ssl_certificate_key key.pem; client_body_temp_path body;
                 server {{ listen 127.0.0.1:{tcp} reuseport; listen 127.0.0.1:{udp} quic reuseport; root html;
                     location /kept/ {{ proxy_cache a; proxy_cache_valid 1h; add_header X-Cache $upstream_cache_status;
                         proxy_pass http://127.0.0.1:{tcp}/; }} {more} }} }}\n"
        )
    };
    folder.write("nginx.conf", &text(""));
    // Where nobody may execute what stands where it was built.
    let binary = folder.0.join("gallop");
    std::fs::copy(site::BINARY, &binary).expect("copied");
    let mut command = if is_root() {
        let given = Command::new("chown")
            .args(["-R", "65534:65534"])
            .arg(&folder.0)
            .status();
        assert!(given.expect("chown runs").success());
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--bounding-set=-all",
        ]);
        command
            .args(["--inh-caps=-all", "--no-new-privs", "--"])
            .arg(&binary);
        command
    } else {
        Command::new(&binary)
    };
    let args = [
        "-p",
        site::path(&folder.0),
        "-c",
        "nginx.conf",
        "-e",
        "error.log",
    ];
    let mut child = Ended(command.args(args).spawn().expect("it starts"));
    let log = || std::fs::read_to_string(folder.0.join("error.log")).unwrap_or_default();
    wait_for("the pid", || {
        std::fs::metadata(folder.0.join("pid")).is_ok_and(|m| m.len() > 0)
    });
    assert_eq!(get_with(tcp, "/page", ""), "page", "{}", log());
    for _ in 0..2 {
        assert_eq!(get_with(tcp, "/kept/page", ""), "page", "{}", log());
    }
    let ask = |uri: &str| {
        let mut client = Http3::connect(udp, own.cert.der().clone());
        client.run("the handshake", |client| client.connected);
        client.greet();
        let id = client.get(uri);
        client.answer(id).status
    };
    // Both threads have a socket; whoever is not steered to his own loses nothing.
    for _ in 0..4 {
        assert_eq!(ask("/page"), "200", "{}", log());
    }
    folder.write("nginx.conf", &text("location /new { return 200 new; }"));
    let pid = std::fs::read_to_string(folder.0.join("pid")).expect("the pid");
    let hup = Command::new("kill").args(["-HUP", pid.trim()]).status();
    assert!(hup.expect("kill runs").success());
    wait_for("the new configuration", || {
        get_with(tcp, "/new", "") == "new"
    });
    assert_eq!(ask("/new"), "200", "{}", log());
    let refused = log();
    assert!(
        !refused.contains("[emerg]") && !refused.contains("[alert]"),
        "{refused}"
    );
    // At once: the clients of HTTP/3 are gone without a word.
    let term = Command::new("kill").args(["-TERM", pid.trim()]).status();
    assert!(term.expect("kill runs").success());
    assert!(child.0.wait().expect("it ends").success());
}

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = Command::new("kill").arg(self.0.id().to_string()).status();
            let _ = self.0.wait();
        }
    }
}
