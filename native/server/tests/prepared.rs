//! Prepared responses: they stay within their bytes, and none is sent that the files on the disk would not
//! give at that moment.

use crate::common::Server;
use crate::h2;
use crate::h3;
use crate::ports::free_port;
use rustls::pki_types::CertificateDer;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

struct Site {
    server: Server,
    port: u16,
    quic: u16,
    certificate: CertificateDer<'static>,
}

impl Site {
    fn start(main: &str, locations: &str, prepare: impl FnOnce(&Path)) -> Self {
        let (port, quic) = (free_port(), free_port());
        let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
        let http = format!(
            "http2 on; log_format args '$request_uri [$args] [$is_args] $uri $status';\n\
             server {{ listen 127.0.0.1:{port}; listen 127.0.0.1:{quic} quic; root %%/html;\n\
             keepalive_requests 1000000; access_log off;\n\
             ssl_certificate %%/cert.pem; ssl_certificate_key %%/key.pem; {locations} }}"
        );
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let server = Server::start_with(main, &http, |folder| {
            fs::write(folder.join("cert.pem"), certificate).unwrap();
            fs::write(folder.join("key.pem"), key).unwrap();
            fs::create_dir_all(folder.join("html")).unwrap();
            prepare(&folder.join("html"));
        });
        let certificate = own.cert.der().clone();
        Self {
            server,
            port,
            quic,
            certificate,
        }
    }

    fn clients(&self) -> Clients {
        let mut http3 = h3::Client::connect(self.quic, self.certificate.clone());
        http3.run("the handshake", |c| c.connected);
        http3.greet();
        let http1 = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        http1.set_read_timeout(Some(crate::PATIENCE)).unwrap();
        Clients {
            http1,
            http2: h2::Client::new(self.port),
            http3,
            stream: 1,
        }
    }

    /// Kilobytes that the worker has in memory.
    fn memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.server.worker());
        let status = fs::read_to_string(status).expect("the worker lives");
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let number = line.and_then(|l| l.trim().strip_suffix(" kB"));
        number.expect("a figure").parse().expect("a number")
    }
}

/// A connection of every version of HTTP.
struct Clients {
    http1: TcpStream,
    http2: h2::Client,
    http3: h3::Client,
    stream: u32,
}

impl Clients {
    /// Status and body over HTTP/1.1, HTTP/2 and HTTP/3.
    fn get(&mut self, path: &str) -> [(String, String); 3] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        self.http1.write_all(request.as_bytes()).unwrap();
        let first = answer(&mut self.http1);
        self.http2.send(&h2::get(self.stream, path));
        let second = self.http2.answer(self.stream);
        self.stream += 2;
        let id = self.http3.get(path);
        let third = self.http3.answer(id);
        let text = |body: Vec<u8>| String::from_utf8_lossy(&body).into_owned();
        [
            first,
            (second.0, text(second.1)),
            (third.status, text(third.body)),
        ]
    }
}

/// Status and body of an answer that says how long it is.
fn answer(socket: &mut TcpStream) -> (String, String) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().to_string();
    let mut body = Vec::new();
    match head
        .lines()
        .find_map(|l| l.strip_prefix("content-length: "))
    {
        Some(length) => {
            body.resize(length.parse().unwrap(), 0);
            socket.read_exact(&mut body).unwrap();
        }
        None => loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                socket.read_exact(&mut byte).expect("a chunk");
                line.push(byte[0]);
            }
            let digits = std::str::from_utf8(&line).unwrap().trim();
            let length = usize::from_str_radix(digits, 16).unwrap();
            let at = body.len();
            body.resize(at + length + 2, 0);
            socket.read_exact(&mut body[at..]).unwrap();
            body.truncate(at + length);
            if length == 0 {
                break;
            }
        },
    }
    (status, String::from_utf8_lossy(&body).into_owned())
}

const LOCATIONS: &str = "
    location /try/ { try_files $uri $uri/ /fallback.html; }
    location /alt/ { try_files $uri.html $uri/index.html =404; }
    location /index/ { index a.html b.html; }
    location /down/ { if (-f $document_root/maintenance) { return 503 down; } }
    location /up/ { if (!-e $document_root/maintenance) { return 200 up; } return 200 down; }
    location /folder/ { if (-d $document_root/maintenance) { return 200 folder; } return 200 none; }
    location /error/ { error_page 404 /missing.html; }
    location /list/ { autoindex on; }
    location /gz/ { gzip_static always; }
    location /aliased/ { alias %%/html/index/; index a.html b.html; try_files $uri $uri/ /fallback.html; }
";

type Change = fn(&Path);
/// Path, status, text in the body.
type Expected = &'static [(&'static str, &'static str, &'static str)];

/// A file that is there at once, as a deployment puts it.
fn put(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}

const STEPS: &[(&str, Change, Expected)] = &[
    (
        "nothing yet",
        |_| (),
        &[
            ("/try/new", "200", "fallback"),
            ("/try/folder/", "200", "fallback"),
            ("/alt/page", "404", "404"),
            ("/index/", "403", "403"),
            ("/down/file", "200", "file"),
            ("/up/file", "200", "up"),
            ("/folder/file", "200", "none"),
            ("/error/none", "404", "missing"),
            ("/list/", "200", "Index"),
            ("/aliased/new", "200", "fallback"),
            ("/plain", "404", "404"),
        ],
    ),
    (
        "files are created",
        |html| {
            put(&html.join("try/new"), "new");
            put(&html.join("index/b.html"), "second index");
            put(&html.join("maintenance"), "x");
            put(&html.join("plain"), "plain");
            put(&html.join("list/entry"), "x");
            put(&html.join("alt/page.html"), "page");
            put(&html.join("index/new"), "aliased");
            put(&html.join("gz/file.gz"), "packed");
        },
        &[
            ("/try/new", "200", "new"),
            ("/alt/page", "200", "page"),
            ("/index/", "200", "second index"),
            ("/aliased/", "200", "second index"),
            ("/aliased/new", "200", "aliased"),
            ("/down/file", "503", "down"),
            ("/up/file", "200", "down"),
            ("/list/", "200", "entry"),
            ("/plain", "200", "plain"),
            ("/gz/file", "200", "packed"),
        ],
    ),
    (
        "a better index and a changed file appear",
        |html| {
            put(&html.join("index/a.html"), "first index");
            put(&html.join("plain"), "PLAIN");
            fs::remove_file(html.join("maintenance")).unwrap();
            fs::create_dir(html.join("maintenance")).unwrap();
            put(&html.join("missing.html"), "other");
            put(&html.join("gz/file.gz"), "PACKED");
            fs::remove_file(html.join("list/entry")).unwrap();
        },
        &[
            ("/index/", "200", "first index"),
            ("/aliased/", "200", "first index"),
            ("/plain", "200", "PLAIN"),
            ("/down/file", "200", "file"),
            ("/up/file", "200", "down"),
            ("/folder/file", "200", "folder"),
            ("/error/none", "404", "other"),
            ("/gz/file", "200", "PACKED"),
        ],
    ),
    (
        "files become folders and links",
        |html| {
            fs::remove_file(html.join("try/new")).unwrap();
            fs::create_dir(html.join("try/new")).unwrap();
            put(&html.join("try/new/index.html"), "in a folder");
            fs::remove_file(html.join("plain")).unwrap();
            symlink("fallback.html", html.join("plain")).unwrap();
            fs::remove_file(html.join("index/a.html")).unwrap();
            fs::remove_file(html.join("alt/page.html")).unwrap();
            fs::create_dir(html.join("alt/page")).unwrap();
            put(&html.join("alt/page/index.html"), "page in a folder");
        },
        &[
            ("/try/new/", "200", "in a folder"),
            ("/try/new", "301", "301"),
            ("/plain", "200", "fallback"),
            ("/index/", "200", "second index"),
            ("/alt/page", "200", "page in a folder"),
        ],
    ),
    (
        "links lead elsewhere, folders are renamed",
        |html| {
            let link = html.join("link");
            symlink("down/file", &link).unwrap();
            fs::rename(&link, html.join("plain")).unwrap();
            fs::rename(html.join("try/new"), html.join("try/old")).unwrap();
            fs::rename(html.join("index"), html.join("away")).unwrap();
            fs::remove_dir(html.join("maintenance")).unwrap();
        },
        &[
            ("/plain", "200", "file"),
            ("/try/new/", "200", "fallback"),
            ("/try/new", "200", "fallback"),
            ("/try/old/", "200", "in a folder"),
            ("/index/", "404", "404"),
            ("/folder/file", "200", "none"),
            ("/up/file", "200", "up"),
        ],
    ),
    (
        "what the fallback is goes",
        |html| {
            fs::remove_file(html.join("fallback.html")).unwrap();
            fs::remove_file(html.join("plain")).unwrap();
            fs::remove_file(html.join("missing.html")).unwrap();
            fs::rename(html.join("away"), html.join("index")).unwrap();
        },
        &[
            ("/try/new/", "404", "404"),
            ("/plain", "404", "404"),
            ("/error/none", "404", "404"),
            ("/index/", "200", "second index"),
        ],
    ),
];

fn prepare(html: &Path) {
    for folder in [
        "try", "alt", "index", "down", "up", "folder", "error", "list", "gz",
    ] {
        fs::create_dir(html.join(folder)).unwrap();
        fs::write(html.join(folder).join("file"), "file").unwrap();
    }
    fs::write(html.join("fallback.html"), "fallback").unwrap();
    fs::write(html.join("missing.html"), "missing").unwrap();
}

/// Goes through the steps; `wait`: as long as a response may be sent without a look at the disk.
fn follow_changes(main: &str, wait: Duration) {
    let site = Site::start(main, LOCATIONS, prepare);
    let html = site.server.folder.0.join("html");
    let mut clients = site.clients();
    let mut paths: Vec<&str> = Vec::new();
    for (name, change, expected) in STEPS {
        // All that was asked for before lies ready, and is asked for all the time.
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(30));
            paths.iter().for_each(|path| _ = clients.get(path));
        }
        change(&html);
        std::thread::sleep(wait);
        for (path, status, text) in *expected {
            for (version, (code, body)) in clients.get(path).into_iter().enumerate() {
                let version = version + 1;
                assert_eq!(code, *status, "{name}: {path} over HTTP/{version}: {body}");
                assert!(
                    body.contains(text),
                    "{name}: {path} over HTTP/{version}: {body}"
                );
            }
            if !paths.contains(path) {
                paths.push(path);
            }
        }
    }
}

#[test]
fn prepared_response_follows_file_changes_at_once_without_validity() {
    follow_changes("prepared_responses_valid 0;", Duration::ZERO);
}

#[test]
fn prepared_response_follows_file_changes_after_50_ms() {
    follow_changes("", Duration::from_millis(60));
}

#[test]
fn unprepared_responses_follow_file_changes() {
    follow_changes("prepared_responses_size 0;", Duration::ZERO);
}

/// A file that changes without a change of its size, again and again, and within one step of the clock.
#[test]
fn response_never_has_content_of_replaced_file() {
    let site = Site::start("prepared_responses_valid 0;", "", |html| {
        fs::write(html.join("f"), "0000").unwrap();
    });
    let path = site.server.folder.0.join("html/f");
    let mut clients = site.clients();
    for n in 1..400 {
        let text = format!("{n:04}");
        // In place: the same inode.
        fs::write(&path, &text).unwrap();
        for (_, body) in clients.get("/f") {
            assert_eq!(body, text);
        }
    }
}

#[test]
fn log_has_each_request_with_its_own_arguments() {
    let locations = "
        location /a/ { access_log %%/args.log args; }
        location /b/ { try_files $uri /a/file?own=1; access_log %%/args.log args; }";
    let site = Site::start("", locations, |html| {
        fs::create_dir(html.join("a")).unwrap();
        fs::write(html.join("a/file"), "file").unwrap();
    });
    std::thread::sleep(Duration::from_millis(30));
    let mut clients = site.clients();
    let mut expected = Vec::new();
    for (path, args, is_args) in [
        ("/a/file", "-", ""),
        ("/a/file?", "-", ""),
        ("/a/file?x=1", "x=1", "?"),
        ("/a/file?y=%20&z", "y=%20&z", "?"),
        ("/a/file?x=2", "x=2", "?"),
        ("/b/none?x=3", "own=1", "?"),
        ("/b/none?x=4", "own=1", "?"),
        ("/b/none", "own=1", "?"),
    ] {
        for _ in 0..2 {
            clients.get(path);
            let line = format!("{path} [{args}] [{is_args}] /a/file 200");
            expected.extend([line.clone(), line.clone(), line]);
        }
    }
    let log = site.server.folder.0.join("args.log");
    let deadline = std::time::Instant::now() + crate::PATIENCE;
    loop {
        let text = fs::read_to_string(&log).unwrap_or_default();
        if text.lines().count() >= expected.len() {
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines, expected);
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Kilobytes that 50,000 hosts and as many arguments may cost: the limit of 16 MB, and what the allocator
/// keeps of what comes and goes.
const MOST_KB: u64 = 32 * 1024;

#[test]
fn memory_stays_bounded_under_50000_hosts_and_arguments() {
    let site = Site::start("", "", |html| {
        fs::write(html.join("f.js"), vec![b'x'; 30_000]).unwrap();
    });
    std::thread::sleep(Duration::from_millis(30));
    let mut clients = site.clients();
    clients.get("/f.js");
    let before = site.memory();
    let ask = |socket: &mut TcpStream, from: u32, line: &dyn Fn(u32) -> String| {
        let requests: String = (from..from + 50).map(line).collect();
        socket.write_all(requests.as_bytes()).unwrap();
        let mut left: usize = 50 * 30_000;
        let mut buffer = vec![0; 1 << 20];
        // Heads have less than 400 bytes; the last answer's end has come when all bodies have.
        while left > 0 {
            let n = socket.read(&mut buffer).unwrap();
            assert!(n > 0);
            left = left.saturating_sub(buffer[..n].iter().filter(|&&b| b == b'x').count());
        }
    };
    let mut peak = 0;
    for from in (0..50_000).step_by(50) {
        ask(&mut clients.http1, from, &|n| {
            format!("GET /f.js?{n} HTTP/1.1\r\nHost: h{n}.y.org\r\n\r\n")
        });
        peak = peak.max(site.memory());
    }
    for n in 0..4000 {
        clients
            .http2
            .send(&h2::get(clients.stream, &format!("/f.js?{n}")));
        assert_eq!(clients.http2.answer(clients.stream).1.len(), 30_000);
        clients.stream += 2;
    }
    peak = peak.max(site.memory());
    let growth = peak.saturating_sub(before);
    println!(
        "{before} KB before, {peak} KB at the peak, {} KB after",
        site.memory()
    );
    assert!(growth < MOST_KB, "{growth} KB more");
}
