//! A server of its own for each test: the real binary in a folder that goes away.

// Not every test uses all of it.
#![allow(dead_code)]

use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static NEXT: AtomicU32 = AtomicU32::new(0);

pub struct Server {
    pub folder: PathBuf,
    child: Child,
}

/// A port that was free a moment ago, for TCP and UDP alike.
pub fn free_port() -> u16 {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Server {
    /// Starts a server whose `http` block is `http`; `%%` stands for its folder, which `prepare`
    /// may fill.
    pub fn start(http: &str, prepare: impl FnOnce(&Path)) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gallop-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        prepare(&folder);
        let conf = format!(
            "daemon off; user root; pid %%/pid; error_log %%/error.log info;\nevents {{ }}\n\
             http {{ access_log off; client_body_temp_path %%/body;\n{http}\n}}\n"
        );
        let conf = conf.replace("%%", folder.to_str().unwrap());
        std::fs::write(folder.join("gallop.conf"), conf).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_gallop"))
            .arg("-p")
            .arg(&folder)
            .args(["-c", "gallop.conf", "-e", "error.log"])
            .spawn()
            .unwrap();
        let server = Self { folder, child };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !server.folder.join("pid").exists() {
            assert!(
                Instant::now() < deadline,
                "not started: {}",
                server.errors()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Asks the server to finish what it is doing and end; whether it did within ten seconds.
    pub fn quit(&mut self) -> bool {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-QUIT", &pid]).status().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    pub fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.join("error.log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The master takes its workers with it.
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
