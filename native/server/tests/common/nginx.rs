//! A real nginx beside the gallop under test.

use crate::ports::free_port;
use crate::site::{self, Folder};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub struct Nginx {
    pub port: u16,
    _folder: Folder,
    child: Child,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").arg(pid).status();
        let _ = self.child.wait();
    }
}

impl Nginx {
    /// Start nginx with the contents of an http block, in which `{port}` and `{dir}` are replaced.
    pub fn start(folder: Folder, http: &str) -> Nginx {
        let port = free_port();
        let dir = site::path(&folder.0).to_owned();
        let http = http
            .replace("{port}", &port.to_string())
            .replace("{dir}", &dir);
        folder.write(
            "nginx.conf",
            &format!(
                "daemon off; user root; pid {dir}/n.pid; error_log {dir}/n.log;
                 events {{ }} http {{ access_log off; root {dir}/html; client_body_temp_path {dir}/b;
                 proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u;
                 scgi_temp_path {dir}/s; {http} }}"
            ),
        );
        let conf = format!("{dir}/nginx.conf");
        let child = Command::new("nginx")
            .args(["-p", &dir, "-c", &conf, "-e", &format!("{dir}/n.log")])
            .stdin(Stdio::null())
            .spawn()
            .expect("nginx (Debian: nginx)");
        let nginx = Nginx {
            port,
            _folder: folder,
            child,
        };
        let limit = Instant::now() + crate::PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < limit, "nginx does not accept");
            thread::sleep(Duration::from_millis(10));
        }
        nginx
    }
}
