//! A real gallop on free ports, in a folder of its own.

use crate::ports::free_port;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const BINARY: &str = env!("CARGO_BIN_EXE_gallop");

/// A folder that is removed when the test ends.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gallop-test-{}-{n}", std::process::id()));
        std::fs::create_dir_all(path.join("html")).expect("a temporary folder");
        // Workers that gave up root must be able to read it.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("open to all");
        Folder(path)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("written");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sets a flag when it goes, also when the test fails.
pub struct Set<'a>(pub &'a AtomicBool);

impl Drop for Set<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub struct Server {
    pub folder: Folder,
    pub port: u16,
    child: Child,
}

/// The configuration around an http block's contents.
pub fn configuration(http: &str) -> String {
    format!(
        "daemon off; pid g.pid; error_log error.log info;\nevents {{ worker_connections 256; }}\n\
         http {{ access_log access.log; client_body_temp_path body;\n{http}\n}}\n"
    )
}

impl Server {
    /// Starts with `{port}` in the http block replaced, and waits until it is ready.
    pub fn start(http: &str) -> Server {
        Self::start_in(Folder::new(), http)
    }

    /// The same with directives before the http block.
    pub fn start_with(main: &str, http: &str) -> Server {
        Self::run_in(Folder::new(), main, http)
    }

    pub fn start_in(folder: Folder, http: &str) -> Server {
        Self::run_in(folder, "", http)
    }

    /// A folder, and directives before the http block.
    pub fn start_changed(folder: Folder, main: &str, http: &str) -> Server {
        Self::run_in(folder, main, http)
    }

    /// A stream block and an http block, with `{port}` replaced in both.
    pub fn start_both(folder: Folder, stream: &str, http: &str) -> Server {
        let main = format!("user root; stream {{ {stream} }}");
        Self::run_in(folder, &main, http)
    }

    fn run_in(folder: Folder, main: &str, http: &str) -> Server {
        let port = free_port();
        let text = format!("{main}\n{}", configuration(http));
        let text = text.replace("{port}", &port.to_string());
        folder.write("nginx.conf", &text);
        let child = Command::new(BINARY)
            .args(["-p", path(&folder.0), "-c", "nginx.conf", "-e", "error.log"])
            .stdin(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let server = Server {
            folder,
            port,
            child,
        };
        server.wait_for("the pid in its file", |s| !s.log("g.pid").is_empty());
        server
    }

    /// Polls until it is so.
    pub fn wait_for(&self, what: &str, condition: impl Fn(&Server) -> bool) {
        let limit = Instant::now() + crate::PATIENCE;
        while !condition(self) {
            assert!(
                Instant::now() < limit,
                "{what} did not come; error log:\n{}",
                self.log("error.log")
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.0.join(name)).unwrap_or_default()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        stream
            .set_read_timeout(Some(crate::PATIENCE))
            .expect("a timeout");
        stream
    }

    /// Sends bytes and reads until the server closes.
    pub fn raw(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        read_all(&mut stream)
    }

    /// GET over a connection of its own.
    pub fn get(&self, uri: &str, headers: &str) -> String {
        self.raw(&format!(
            "GET {uri} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
        ))
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status()
            .expect("kill runs");
        assert!(status.success());
    }

    /// The exit status after a signal that ends it.
    pub fn end(mut self, signal: &str) -> bool {
        self.signal(signal);
        self.child.wait().expect("it ends").success()
    }

    /// Runs the binary once more on the same configuration.
    pub fn run(&self, args: &[&str]) -> Output {
        let mut all = vec!["-p", path(&self.folder.0), "-c", "nginx.conf"];
        all.extend(args);
        Command::new(BINARY)
            .args(all)
            .output()
            .expect("the binary runs")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The id of a child that was waited for may be another process's by now.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill")
                .arg(self.child.id().to_string())
                .status();
            let _ = self.child.wait();
        }
        assert_no_panic(&self.log("error.log"));
    }
}

/// Fails the test if a worker panicked of which the test did not ask it.
pub fn assert_no_panic(log: &str) {
    let mut panics = log.lines().filter(|l| l.contains("panicked at"));
    let unasked = panics.find(|l| !l.contains("asked for by a test"));
    // While the test fails already, another panic would hide why.
    if !std::thread::panicking() {
        assert_eq!(unasked, None, "a worker panicked");
    }
}

pub fn path(p: &Path) -> &str {
    p.to_str().expect("a plain path")
}

pub fn read_all(stream: &mut TcpStream) -> String {
    let mut out = Vec::new();
    // A reset after the answer loses nothing that was read.
    let _ = stream.read_to_end(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Tests a configuration without starting it; whether it is accepted, and what was said.
pub fn check(text: &str) -> (bool, String) {
    let folder = Folder::new();
    folder.write("nginx.conf", text);
    let out = Command::new(BINARY)
        .args([
            "-t",
            "-p",
            path(&folder.0),
            "-c",
            "nginx.conf",
            "-e",
            "error.log",
        ])
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&out.stderr).replace(path(&folder.0), "DIR");
    (out.status.success(), said)
}

/// One HTTP server that answers each connection with fixed text and gives the requests it saw.
pub fn upstream(answers: Vec<String>) -> (u16, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else {
                return;
            };
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !is_whole(&request) {
                match stream.read(&mut buffer) {
                    Ok(n) if n > 0 => request.extend_from_slice(&buffer[..n]),
                    _ => break,
                }
            }
            let _ = sender.send(String::from_utf8_lossy(&request).into_owned());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (port, receiver)
}

/// Head and body, as far as Content-Length tells.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some(end) = text.find("\r\n\r\n") else {
        return false;
    };
    let length = text[..end]
        .lines()
        .find_map(|l| l.strip_prefix("content-length: "))
        .and_then(|n| n.parse::<usize>().ok());
    request.len() >= end + 4 + length.unwrap_or(0)
}
