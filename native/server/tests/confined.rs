//! Paths that a request tries to lead out of its site's folders: by `..`, and by links under `confine_files`.

use crate::common::Server;
use crate::h2::{block, frame, Client as Http2, HEADERS};
use crate::h3;
use crate::ports::free_port;
use crate::site::{self, read_all, Set};
use rustls::pki_types::CertificateDer;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What no answer may hold.
const CANARY: &str = "the canary";

/// A server that speaks every version of HTTP.
struct Site {
    server: Server,
    port: u16,
    quic: u16,
    certificate: CertificateDer<'static>,
}

/// The connections of one client.
struct Visitor<'a> {
    site: &'a Site,
    http2: Http2,
    stream: u32,
    http3: h3::Client,
}

impl Site {
    fn start(
        locations: &str,
        prepare: impl FnOnce(&Path),
        change: impl FnOnce(&mut Command),
    ) -> Site {
        let (port, quic) = (free_port(), free_port());
        let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
        let http = format!(
            "http2 on; server {{ listen 127.0.0.1:{port}; listen 127.0.0.1:{quic} quic; root %%/html;\n\
             ssl_certificate %%/cert.pem; ssl_certificate_key %%/key.pem;\n{locations} }}\n\
             server {{ listen unix:%%/up.sock; location / {{ return 200 '{CANARY}'; }}
                 location /accel {{ add_header X-Accel-Redirect $arg_to; return 200 x; }} }}"
        );
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let server = Server::start_changed(
            "",
            &http,
            |folder| {
                std::fs::write(folder.join("cert.pem"), certificate).unwrap();
                std::fs::write(folder.join("key.pem"), key).unwrap();
                write(folder, "secret", CANARY);
                prepare(folder);
            },
            change,
        );
        let certificate = own.cert.der().clone();
        Site {
            server,
            port,
            quic,
            certificate,
        }
    }

    fn folder(&self) -> PathBuf {
        self.server.folder.0.clone()
    }

    fn visitor(&self) -> Visitor<'_> {
        let mut http3 = h3::Client::connect(self.quic, self.certificate.clone());
        http3.run("the handshake", |c| c.connected);
        http3.greet();
        Visitor {
            site: self,
            http2: Http2::new(self.port),
            stream: 1,
            http3,
        }
    }

    /// Status and body over HTTP/1.1.
    fn get(&self, target: &str, fields: &str) -> (String, String) {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
        socket.write_all(request.as_bytes()).expect("sent");
        let answer = read_all(&mut socket);
        let status = answer.split(' ').nth(1).unwrap_or_default().to_string();
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, body.to_string())
    }
}

impl Visitor<'_> {
    /// Status and body over each version of HTTP.
    fn get(&mut self, target: &str, fields: &[(&str, &str)]) -> [(String, String); 3] {
        let lines: String = fields
            .iter()
            .map(|(n, v)| format!("{n}: {v}\r\n"))
            .collect();
        let mut all = vec![
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "example.org"),
            (":path", target),
        ];
        all.extend(fields);
        self.http2
            .send(&frame(HEADERS, 5, self.stream, &block(&all)));
        let (status, body) = self.http2.answer(self.stream);
        self.stream += 2;
        let id = self.http3.request(&all);
        self.http3.quic.send_stream(id).finish().unwrap();
        let third = self.http3.answer(id);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        [
            self.site.get(target, &lines),
            (status, text(&body)),
            (third.status.clone(), text(&third.body)),
        ]
    }

    /// Asks twice, the second time out of what is kept, and compares the status over each version.
    fn expect(&mut self, target: &str, fields: &[(&str, &str)], status: &str) {
        for _ in 0..2 {
            for (n, (found, body)) in self.get(target, fields).into_iter().enumerate() {
                let version = ["HTTP/1.1", "HTTP/2", "HTTP/3"][n];
                assert!(
                    !body.contains(CANARY),
                    "{version} {target} {fields:?}: {body}"
                );
                let errors = self.site.server.errors();
                assert_eq!(
                    found, status,
                    "{version} {target} {fields:?}: {body}\n{errors}"
                );
            }
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn paths_that_ascend_by_request_are_rejected() {
    let site = Site::start(
        "location /rewrite/ { rewrite ^/rewrite/(.*)$ /../$1 break; }
         location ~ ^/join/(.)(.)a/(.*)$ { alias %%/html/$1$2/$3; }
         location ~ ^/lead/x(.*)$ { alias %%/html/d/$1; }
         location /try/ { try_files /$arg_f =404; }
         location /dir/ { try_files /$arg_f/ =404; }
         location /field/ { alias %%/html/$http_x_up/; }
         location /cookie/ { alias %%/html/$cookie_up/; }
         location /alias { alias %%/html/d/; }
         location /dot { alias %%/html/d/.; }
         location /root/ { root %%/html/$arg_r; }
         location /index/ { index $arg_i; }
         location /page/ { error_page 404 /$arg_e; return 404; }
         location /list/ { autoindex on; rewrite ^ /../ break; }
         location /any/ { random_index on; rewrite ^ /../ break; }
         location /test/ { if (-f %%/html/$arg_f) { return 200 there; } return 200 missing; }
         location /not/ { if (!-e %%/html/$arg_f) { return 200 missing; } return 200 there; }
         location /users/ { auth_basic a; auth_basic_user_file %%/html/$arg_f; }
         location /sub/ { ssi on; ssi_types *; }
         location /added/ { add_after_body /rewrite/secret; alias %%/html/d/; }
         location /accel/ { proxy_pass http://unix:%%/up.sock:/accel?to=/rewrite/secret; }
         location /socket/ { proxy_pass http://unix:%%/html/$arg_s:/; }
         location /script/ { fastcgi_pass 127.0.0.1:1; fastcgi_param SCRIPT_FILENAME %%/html/$arg_s; }
         location ~ ^/split/x { fastcgi_pass 127.0.0.1:1; fastcgi_split_path_info ^/split/x(.*)()$;
             fastcgi_param SCRIPT_FILENAME %%/html/$fastcgi_script_name; }
         location /store/ { proxy_pass http://unix:%%/up.sock:/; proxy_store %%/html/$arg_s; proxy_hide_header x; }
         location /log/ { access_log %%/html/$arg_l; return 200 logged; }
         location /own/ { alias %%/html/d/../; }",
        |folder| {
            write(folder, "html/d/in", "inside");
            write(folder, "html/index/x", "inside");
            write(folder, "html/sub/page", "<!--# include virtual=\"/rewrite/secret\" -->");
        },
        |_| {},
    );
    let mut visitor = site.visitor();
    let up = [("x-up", ".."), ("cookie", "up=..")];
    let basic = [("authorization", "Basic YTpi")];
    for (target, fields, status) in [
        ("/rewrite/secret", &[][..], "403"),
        ("/join/..a/secret", &[], "403"),
        ("/lead/x../../secret", &[], "404"),
        ("/lead/x..", &[], "403"),
        ("/try/?f=../secret", &[], "403"),
        ("/dir/?f=..", &[], "403"),
        ("/field/secret", &up, "403"),
        ("/cookie/secret", &up, "403"),
        ("/alias../../secret", &[], "404"),
        ("/alias..", &[], "403"),
        ("/dot./in", &[], "403"),
        ("/root/secret?r=..", &[], "403"),
        ("/index/?i=../../secret", &[], "403"),
        ("/page/?e=../secret", &[], "403"),
        ("/list/", &[], "403"),
        ("/any/", &[], "403"),
        ("/test/?f=../secret", &[], "403"),
        ("/test/?f=d/in", &[], "200"),
        ("/not/?f=../secret", &[], "403"),
        ("/users/?f=../secret", &basic, "403"),
        ("/sub/page", &[], "200"),
        ("/added/in", &[], "200"),
        ("/accel/", &[], "403"),
        ("/socket/?s=../up.sock", &[], "502"),
        ("/script/?s=../up.php", &[], "403"),
        ("/script/?s=up.php", &[], "502"),
        ("/split/x../secret.php", &[], "403"),
        ("/split/x..", &[], "403"),
        ("/log/?l=../stolen", &[], "200"),
        ("/own/d/in", &[], "200"),
    ] {
        visitor.expect(target, fields, status);
    }
    let folder = site.folder();
    let (status, _) = site.get("/store/?s=../stolen", "");
    assert_eq!(status, "200");
    site.get("/store/?s=kept", "");
    site.get("/log/?l=logged", "");
    let deadline = Instant::now() + crate::PATIENCE;
    while !(folder.join("html/kept").exists() && folder.join("html/logged").exists()) {
        assert!(Instant::now() < deadline, "{}", site.server.errors());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!folder.join("stolen").exists());
    let refusal = "is refused: its \"..\" comes from the request, not from the configuration, client: 127.0.0.1";
    assert!(
        site.server.errors().contains(refusal),
        "{}",
        site.server.errors()
    );
}

const CONFINED: &str = "confine_files %%/html %%/shared;
     location /far/ { alias %%/far/; }
     location /free/ { confine_files off; alias %%/far/; }
     location /listed/ { autoindex on; }
     location /try/ { try_files /$arg_f =404; }
     location /test/ { if (-f $document_root/$arg_f) { return 200 there; } return 200 missing; }
     location /packed/ { gzip_static always; }
     location /users/ { auth_basic a; auth_basic_user_file %%/html/$arg_f; }
     location /fixed/ { auth_basic a; auth_basic_user_file %%/far/users; alias %%/html/; }
     location /strict/ { disable_symlinks on from=$document_root; alias %%/html/; }
     location /sub/ { ssi on; ssi_types *; }
     location /store/ { proxy_pass http://unix:%%/up.sock:/; proxy_store %%/html/$arg_s; }
     location /log/ { access_log %%/html/$arg_l; return 200 logged; }";

fn prepare(folder: &Path) {
    write(folder, "far/x", CANARY);
    write(folder, "far/users", "a:{PLAIN}b\n");
    write(folder, "far/x.gz", CANARY);
    write(folder, "shared/x", "shared");
    for file in [
        "in.txt",
        "deep/er/x",
        "listed/plain",
        "packed/x",
        "real/index.html",
    ] {
        write(folder, &format!("html/{file}"), "inside");
    }
    write(
        folder,
        "html/sub/page",
        "<!--# include virtual=\"/out\" -->",
    );
    let html = folder.join("html");
    let absolute = |name: &str| folder.join(name).to_string_lossy().into_owned();
    for (target, name) in [
        ("../secret", "out"),
        (&*absolute("secret"), "out_absolute"),
        ("nowhere", "dangling"),
        ("../nowhere", "dangling_out"),
        (&*absolute("html/nowhere"), "dangling_absolute"),
        ("in.txt", "inside"),
        (&*absolute("html/in.txt"), "absolute"),
        (&*absolute("shared/x"), "shared"),
        ("../shared/x", "shared_relative"),
        ("../html/in.txt", "round"),
        ("..", "up"),
        ("../../in.txt", "deep/er/back"),
        (&*absolute("html/deep"), "to_deep"),
        ("to_deep/er", "to_er"),
        ("loop", "loop"),
        ("/proc/self/root", "magic"),
        ("../../far/x", "listed/link"),
        ("../../far/x.gz", "packed/x.gz"),
        ("../far", "folder_out"),
        ("../far/new", "new"),
        ("../far/x", "linked/index.html"),
    ] {
        let path = html.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).expect(name);
    }
}

fn expect_confined(site: &Site) {
    let mut visitor = site.visitor();
    let basic = [("authorization", "Basic YTpi")];
    for (target, fields, status) in [
        ("/in.txt", &[][..], "200"),
        ("/out", &[], "403"),
        ("/out_absolute", &[], "403"),
        ("/missing", &[], "404"),
        ("/in.txt/x", &[], "404"),
        ("/dangling", &[], "404"),
        ("/dangling_out", &[], "403"),
        ("/dangling_absolute", &[], "404"),
        ("/inside", &[], "200"),
        ("/absolute", &[], "200"),
        ("/shared", &[], "200"),
        ("/shared_relative", &[], "200"),
        ("/round", &[], "200"),
        ("/up/secret", &[], "403"),
        ("/up/", &[], "403"),
        ("/deep/er/back", &[], "200"),
        ("/to_deep/er/x", &[], "200"),
        ("/to_er/x", &[], "200"),
        ("/to_er/back", &[], "200"),
        ("/to_er/missing", &[], "404"),
        ("/to_er", &[], "301"),
        ("/loop", &[], "403"),
        ("/magic/etc/passwd", &[], "403"),
        ("/real/", &[], "200"),
        ("/linked/", &[], "403"),
        ("/folder_out/", &[], "403"),
        ("/folder_out/x", &[], "403"),
        ("/far/x", &[], "403"),
        ("/far/missing", &[], "403"),
        ("/free/x.gz?", &[], "200"),
        ("/listed/", &[], "200"),
        ("/listed/link", &[], "403"),
        ("/try/?f=in.txt", &[], "200"),
        ("/try/?f=out", &[], "403"),
        ("/try/?f=missing", &[], "404"),
        ("/test/?f=out", &[], "403"),
        ("/test/?f=in.txt", &[], "200"),
        ("/packed/x", &[], "200"),
        ("/users/?f=out", &basic, "403"),
        ("/fixed/in.txt", &basic, "200"),
        ("/strict/in.txt", &[], "200"),
        ("/strict/inside", &[], "403"),
        ("/strict/out", &[], "403"),
        ("/sub/page", &[], "200"),
        ("/log/?l=new", &[], "200"),
    ] {
        if target.starts_with("/free/") {
            // The canary itself: nothing is confined there.
            for (found, body) in visitor.get(target, fields) {
                assert_eq!((&*found, &*body), (status, CANARY), "{target}");
            }
            continue;
        }
        visitor.expect(target, fields, status);
    }
    let (_, listing) = site.get("/listed/", "");
    assert!(
        listing.contains("link") && listing.contains("plain"),
        "{listing}"
    );
    let folder = site.folder();
    for target in [
        "/store/?s=new",
        "/store/?s=folder_out/stolen",
        "/store/?s=made/here/kept",
        "/log/?l=logged",
    ] {
        assert_eq!(site.get(target, "").0, "200", "{target}");
    }
    let kept = [
        folder.join("html/made/here/kept"),
        folder.join("html/logged"),
    ];
    let deadline = Instant::now() + crate::PATIENCE;
    while !kept.iter().all(|path| path.exists()) {
        assert!(Instant::now() < deadline, "{}", site.server.errors());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!folder.join("far/stolen").exists() && !folder.join("far/new").exists());
    let errors = site.server.errors();
    assert!(
        errors.contains("it leads outside the folders of \"confine_files\""),
        "{errors}"
    );
}

#[test]
fn files_are_served_only_below_confine_files() {
    expect_confined(&Site::start(CONFINED, prepare, |_| {}));
}

/// Makes openat2(2) fail in the server, as an old kernel or a container's filter does.
fn without_openat2(command: &mut Command, errno: libc::c_int) {
    let filter = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut program = [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        filter(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_openat2 as u32,
        ),
        filter(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | errno as u32,
        ),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let filters = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: both calls read only what they are given, and are safe between fork and exec.
        unsafe {
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filters) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes two system calls and nothing else.
    unsafe { command.pre_exec(install) };
}

#[test]
fn files_are_confined_without_openat2() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        let site = Site::start(CONFINED, prepare, |command| without_openat2(command, errno));
        expect_confined(&site);
    }
}

/// Asks over every version until the status is that, and never gets the canary.
fn wait_for(visitor: &mut Visitor<'_>, target: &str, status: &str) {
    let deadline = Instant::now() + crate::PATIENCE;
    loop {
        let answers = visitor.get(target, &[]);
        assert!(
            answers.iter().all(|(_, body)| !body.contains(CANARY)),
            "{target}"
        );
        if answers.iter().all(|(found, _)| found == status) {
            return;
        }
        assert!(Instant::now() < deadline, "{target}: {answers:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn confined_files_are_checked_again_when_path_changes() {
    let site = Site::start("confine_files %%/html;", prepare, |_| {});
    let (folder, mut visitor) = (site.folder(), site.visitor());
    let html = folder.join("html");
    visitor.expect("/in.txt", &[], "200");
    std::fs::remove_file(html.join("in.txt")).unwrap();
    symlink("../secret", html.join("in.txt")).unwrap();
    wait_for(&mut visitor, "/in.txt", "403");
    // The same file, but its folder lies outside now.
    visitor.expect("/deep/er/x", &[], "200");
    std::fs::rename(html.join("deep"), folder.join("moved")).unwrap();
    symlink("../moved", html.join("deep")).unwrap();
    wait_for(&mut visitor, "/deep/er/x", "403");
    // A folder that takes the place of the confined one is served; a link to another one is not.
    std::fs::rename(&html, folder.join("old")).unwrap();
    write(&folder, "html/fresh", "fresh");
    wait_for(&mut visitor, "/fresh", "200");
    std::fs::rename(&html, folder.join("older")).unwrap();
    symlink("far", &html).unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    wait_for(&mut visitor, "/x", "404");
}

#[test]
fn swapped_links_cannot_escape_confinement() {
    for errno in [None, Some(libc::ENOSYS)] {
        let site = Site::start(
            "confine_files %%/html; location /a/ { autoindex on; }",
            |folder| {
                write(folder, "html/a/x", "inside");
                write(folder, "far/x", CANARY);
                write(folder, &format!("far/{}", CANARY.replace(' ', "-")), "");
                symlink("../far", folder.join("html/b")).unwrap();
            },
            |command| {
                if let Some(errno) = errno {
                    without_openat2(command, errno);
                }
            },
        );
        let html = site.folder().join("html");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let end = Set(&is_over);
            let swapping = scope.spawn(|| {
                let (a, b, c) = (html.join("a"), html.join("b"), html.join("c"));
                let mut swaps = 0u32;
                while !is_over.load(Ordering::Relaxed) {
                    for (from, to) in [(&a, &c), (&b, &a), (&a, &b), (&c, &a)] {
                        std::fs::rename(from, to).unwrap();
                    }
                    swaps += 1;
                }
                swaps
            });
            let mut visitor = site.visitor();
            let mut served = 0;
            for _ in 0..300 {
                for target in ["/a/x", "/a/"] {
                    for (status, body) in visitor.get(target, &[]) {
                        assert!(
                            !body.contains(CANARY) && !body.contains("the-canary"),
                            "{body}"
                        );
                        assert!(["200", "403", "404"].contains(&&*status), "{status}");
                        served += u32::from(status == "200");
                    }
                }
            }
            drop(end);
            assert!(swapping.join().unwrap() > 0 && served > 0);
        });
    }
}

#[test]
fn missing_confined_folder_gives_warning_and_is_used_later() {
    let site = Site::start(
        "confine_files %%/html %%/later; location /later/ { root %%; }",
        prepare,
        |_| {},
    );
    let mut visitor = site.visitor();
    visitor.expect("/later/x", &[], "403");
    write(&site.folder(), "later/x", "there");
    wait_for(&mut visitor, "/later/x", "200");
    let (accepted, said) = site::check(
        "events {} http { access_log off; server { listen 81; confine_files /nowhere/at/all; } }",
    );
    let warning = "failed (2: No such file or directory), \"confine_files\" allows no file beneath it until it exists";
    assert!(accepted && said.contains(warning), "{said}");
}
