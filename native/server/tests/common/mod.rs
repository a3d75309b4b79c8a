//! A server of its own for each test: the real binary in a folder that goes away.

use crate::site::{self, Folder};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

pub struct Server {
    pub folder: Folder,
    child: Child,
}

impl Server {
    /// Starts a server whose `http` block is `http`; `%%` stands for its folder, which `prepare`
    /// may fill.
    pub fn start(http: &str, prepare: impl FnOnce(&Path)) -> Self {
        Self::start_with("", http, prepare)
    }

    /// The same with directives of the main context.
    pub fn start_with(main: &str, http: &str, prepare: impl FnOnce(&Path)) -> Self {
        Self::start_changed(main, http, prepare, |_| {})
    }

    /// The same with a change to the command that starts it.
    pub fn start_changed(
        main: &str,
        http: &str,
        prepare: impl FnOnce(&Path),
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let folder = Folder::new();
        prepare(&folder.0);
        let conf = format!(
            "{main} daemon off; user root; pid %%/pid; error_log %%/error.log info;\nevents {{ worker_connections 8192; }}\n\
             http {{ access_log off; client_body_temp_path %%/body;\n{http}\n}}\n"
        );
        let conf = conf.replace("%%", site::path(&folder.0));
        folder.write("gallop.conf", &conf);
        let mut command = Command::new(site::BINARY);
        command
            .arg("-p")
            .arg(&folder.0)
            .args(["-c", "gallop.conf", "-e", "error.log"])
            // Tests can have the server fail on purpose, at URIs under /fault/.
            .env("GALLOP_TEST_FAULTS", "1");
        change(&mut command);
        let child = command.spawn().unwrap();
        let server = Self { folder, child };
        let deadline = Instant::now() + crate::PATIENCE;
        while !server.folder.0.join("pid").exists() {
            assert!(
                Instant::now() < deadline,
                "not started: {}",
                server.errors()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Asks the server to finish what it is doing and end; whether it did.
    pub fn quit(&mut self) -> bool {
        self.signal("QUIT");
        let deadline = Instant::now() + crate::PATIENCE;
        while Instant::now() < deadline {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Ends the master with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let signal = format!("-{name}");
        let sent = Command::new("kill").args([&signal, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// The process id of the worker, once the master has one.
    pub fn worker(&self) -> u32 {
        let master = self.child.id();
        let list = format!("/proc/{master}/task/{master}/children");
        let deadline = Instant::now() + crate::PATIENCE;
        loop {
            let children = std::fs::read_to_string(&list).unwrap();
            if let Some(first) = children.split_whitespace().next() {
                return first.parse().unwrap();
            }
            assert!(Instant::now() < deadline, "no worker: {}", self.errors());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.0.join("error.log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The master takes its workers with it.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill")
                .arg(self.child.id().to_string())
                .status();
            let _ = self.child.wait();
        }
        site::assert_no_panic(&self.errors());
    }
}
