//! What the command line answers, in nginx's words.

use crate::site::{self, Folder};
use std::process::Command;

const GOOD: &str = "pid g.pid; events {} http { include types.inc; }\n";
const TYPES: &str = "types {}\n";

/// Runs the binary where `good.conf` and `bad.conf` are: its exit code, and what it says on either way. The
/// folder is called DIR.
fn run(args: &[&str]) -> (i32, String, String) {
    let folder = Folder::new();
    folder.write("good.conf", GOOD);
    folder.write("types.inc", TYPES);
    folder.write("other.conf", "events {} http {}\n");
    folder.write("bad.conf", "events {}\nhttp { nonsense on; }\n");
    let out = Command::new(site::BINARY)
        .args(["-p", site::path(&folder.0), "-e", "error.log"])
        .args(args)
        .output()
        .expect("the binary runs");
    let text = |bytes| String::from_utf8_lossy(bytes).replace(site::path(&folder.0), "DIR");
    let code = out.status.code().expect("it ends by itself");
    (code, text(&out.stdout), text(&out.stderr))
}

#[test]
fn configuration_test_reports_its_findings() {
    let good = "gallop: the configuration file DIR/good.conf syntax is ok\n\
                gallop: configuration file DIR/good.conf test is successful\n";
    let bad = "gallop: [emerg] unknown directive \"nonsense\" in DIR/bad.conf:2\n\
               gallop: configuration file DIR/bad.conf test failed\n";
    let dump = format!(
        "# configuration file DIR/good.conf:\n{GOOD}\n# configuration file DIR/types.inc:\n{TYPES}\n"
    );
    for (args, want) in [
        (&["-t", "-c", "good.conf"][..], (0, "", good)),
        (&["-tq", "-c", "good.conf"], (0, "", "")),
        (&["-T", "-c", "good.conf"], (0, &*dump, good)),
        (&["-qT", "-cgood.conf"], (0, &*dump, "")),
        (&["-t", "-c", "bad.conf"], (1, "", bad)),
        (&["-T", "-q", "-c", "bad.conf"], (1, "", bad)),
        // A test sends no signals.
        (&["-s", "stop", "-t", "-c", "good.conf"], (0, "", good)),
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, &*out, &*err), want, "{args:?}");
    }
}

#[test]
fn configuration_test_finds_unwritable_pid_file() {
    for (pid, reason) in [
        ("none/g.pid", "2: No such file or directory"),
        (".", "21: Is a directory"),
        ("types.inc/g.pid", "20: Not a directory"),
    ] {
        let globals = format!("pid {pid};");
        let (code, _, said) = run(&["-t", "-q", "-c", "other.conf", "-g", &globals]);
        let failed = "gallop: configuration file DIR/other.conf test failed\n";
        // The folder's own path ends without a slash.
        let path = if pid == "." {
            "DIR/.".to_string()
        } else {
            format!("DIR/{pid}")
        };
        let want = format!("gallop: [emerg] open() \"{path}\" failed ({reason})\n{failed}");
        assert_eq!((code, said), (1, want));
    }
}

#[test]
fn uncreatable_folders_give_warnings_only() {
    let folder = Folder::new();
    folder.write("file", "");
    folder.write(
        "c.conf",
        "pid g.pid; events {} http { access_log off; client_body_temp_path file/body; proxy_temp_path new/proxy;
         proxy_cache_path file/cache keys_zone=a:1m;
         server { listen unix:s; location / { proxy_pass http://127.0.0.1:1; } } }\n",
    );
    let run = |more: &[&str]| {
        let args = ["-p", site::path(&folder.0), "-c", "c.conf", "-e", "e.log"];
        let out = Command::new(site::BINARY).args(args).args(more).output();
        let out = out.expect("the binary runs");
        let said = String::from_utf8_lossy(&out.stderr).replace(site::path(&folder.0), "DIR");
        (out.status.code(), said)
    };
    let failed = |name: &str| {
        format!("gallop: [warn] mkdir() \"DIR/{name}\" failed (20: Not a directory)\n")
    };
    let (code, said) = run(&["-t"]);
    assert_eq!(code, Some(0), "{said}");
    for name in ["file/body", "file/cache"] {
        assert!(said.contains(&failed(name)), "{said}");
    }
    assert_eq!(said.matches("mkdir()").count(), 2, "{said}");
    // A test makes none of those that can be made.
    assert!(!folder.0.join("new").exists());
    assert_eq!(run(&["-t", "-q"]), (Some(0), String::new()));
}

/// Debian's nginx.conf, and the files that its packages of modules put into modules-enabled.
fn with_debian_modules(folder: &Folder, modules: &[&str]) {
    for (n, module) in modules.iter().enumerate() {
        let text = format!("load_module modules/{module}.so;\n");
        folder.write(&format!("modules-enabled/{n}-mod.conf"), &text);
    }
    folder.write(
        "nginx.conf",
        "pid g.pid; daemon off; error_log error.log notice;\ninclude DIR/modules-enabled/*.conf;\n\
         events { worker_connections 768; }\nhttp { access_log off; brotli on; brotli_static on;\n\
         server { listen unix:s; } }\n"
            .replace("DIR", site::path(&folder.0))
            .as_str(),
    );
}

#[test]
fn debian_modules_that_are_built_in_are_accepted_with_a_note() {
    let folder = Folder::new();
    with_debian_modules(&folder, &[]);
    let test = |more: &[&str]| {
        let args = [
            "-t",
            "-p",
            site::path(&folder.0),
            "-c",
            "nginx.conf",
            "-e",
            "e.log",
        ];
        let out = Command::new(site::BINARY).args(args).args(more).output();
        let out = out.expect("the binary runs");
        let said = String::from_utf8_lossy(&out.stderr).replace(site::path(&folder.0), "DIR");
        (out.status.code(), said)
    };
    assert!(!test(&[]).1.contains("[notice]"));
    let both = [
        "ngx_http_brotli_filter_module",
        "ngx_http_brotli_static_module",
    ];
    with_debian_modules(&folder, &both);
    let (code, said) = test(&[]);
    for (n, module) in both.iter().enumerate() {
        let note = format!(
            "gallop: [notice] module \"{module}\" is built into gallop, so \"modules/{module}.so\" is not loaded \
             in DIR/modules-enabled/{n}-mod.conf:1\n"
        );
        assert!(said.contains(&note), "{said}");
    }
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(test(&["-q"]), (Some(0), String::new()));
    with_debian_modules(
        &folder,
        &["ngx_http_brotli_filter_module", "ngx_mail_module"],
    );
    let (code, said) = test(&[]);
    assert_eq!(code, Some(1), "{said}");
    let error = "gallop: [emerg] module \"ngx_mail_module\" is not built into gallop, which cannot load modules; \
                 remove this line and the module's directives; gallop has no \"mail\" block";
    assert!(
        said.contains(error) && said.contains("DIR/modules-enabled/1-mod.conf:1"),
        "{said}"
    );
}

#[test]
fn notes_about_modules_are_in_the_error_log_after_start_and_reload() {
    let note = "[notice] ";
    let server = site::Server::start_with(
        "load_module /usr/lib/nginx/modules/ngx_http_zstd_filter_module.so;",
        "server { listen 127.0.0.1:{port}; zstd on; return 200 x; }",
    );
    let count = |log: &str| {
        let lines = log.lines().filter(|line| line.contains(note));
        lines
            .filter(|line| line.contains("\"ngx_http_zstd_filter_module\" is built into gallop"))
            .count()
    };
    server.wait_for("the note", |s| count(&s.log("error.log")) == 1);
    server.signal("HUP");
    server.wait_for("the note of the reload", |s| {
        count(&s.log("error.log")) == 2
    });
}

/// A directive of each module that nginx has unless it is built without it.
const OF_MODULES: [(&str, &str); 31] = [
    ("http_charset", "charset utf-8"),
    ("http_gzip", "gzip on"),
    ("http_ssi", "ssi on"),
    ("http_userid", "userid on"),
    ("http_access", "allow all"),
    ("http_auth_basic", "auth_basic off"),
    ("http_mirror", "mirror off"),
    ("http_autoindex", "autoindex on"),
    ("http_geo", "geo $a { default 1; }"),
    ("http_map", "map $host $a { default 1; }"),
    ("http_split_clients", "split_clients $host $a { * 1; }"),
    ("http_referer", "server { valid_referers a.b; }"),
    ("http_rewrite", "rewrite_log on"),
    ("http_proxy", "proxy_buffering on"),
    ("http_fastcgi", "fastcgi_buffering on"),
    ("http_uwsgi", "uwsgi_buffering on"),
    ("http_scgi", "scgi_buffering on"),
    ("http_grpc", "grpc_socket_keepalive on"),
    ("http_memcached", "memcached_socket_keepalive on"),
    ("http_limit_conn", "limit_conn_dry_run on"),
    ("http_limit_req", "limit_req_dry_run on"),
    ("http_empty_gif", "server { location / { empty_gif; } }"),
    ("http_browser", "ancient_browser x"),
    (
        "http_upstream_hash",
        "upstream u { hash $uri; server unix:s; }",
    ),
    (
        "http_upstream_ip_hash",
        "upstream u { ip_hash; server unix:s; }",
    ),
    (
        "http_upstream_least_conn",
        "upstream u { least_conn; server unix:s; }",
    ),
    (
        "http_upstream_least_time",
        "upstream u { least_time header; server unix:s; }",
    ),
    (
        "http_upstream_random",
        "upstream u { random; server unix:s; }",
    ),
    (
        "http_upstream_keepalive",
        "upstream u { server unix:s; keepalive 1; }",
    ),
    (
        "http_upstream_zone",
        "upstream u { zone u 64k; server unix:s; }",
    ),
    (
        "http_upstream_sticky",
        "upstream u { server unix:s; sticky cookie c; }",
    ),
];

/// Whoever looks at `-V` to see what there is, as scripts do, is told the truth.
#[test]
fn version_output_names_missing_features() {
    let (code, out, said) = run(&["-V"]);
    assert_eq!((code, &*out), (0, ""));
    assert_eq!(
        run(&["-v"]),
        (
            0,
            String::new(),
            said.lines().next().expect("a line").to_string() + "\n"
        )
    );
    assert!(said.starts_with("gallop version: gallop/"), "{said}");
    let arguments: Vec<&str> = said.split_whitespace().collect();
    for (module, directive) in OF_MODULES {
        let is_left_out = arguments.contains(&&*format!("--without-{module}_module"));
        let end = if directive.ends_with('}') { "" } else { ";" };
        let text = format!("pid p; events {{}} http {{ access_log off; {directive}{end} }}\n");
        let (accepted, words) = site::check(&text);
        assert_eq!(accepted, !is_left_out, "{module}: {words}");
        assert_eq!(words.contains("unknown directive"), is_left_out, "{words}");
    }
}

#[test]
fn command_line_directives_are_read_first() {
    let failed = "gallop: configuration file DIR/good.conf test failed\n";
    for (globals, reason) in [
        ("worker_processes 2;", ""),
        ("worker_processes 2; env A=b;", ""),
        ("", ""),
        (
            "worker_processes 2",
            "unexpected end of parameter, expecting \";\" in command line",
        ),
        (
            "nonsense;",
            "unknown directive \"nonsense\" in command line",
        ),
        (
            "events { }",
            "block directives are not supported in -g option in command line",
        ),
        (
            "pid other.pid;",
            "\"pid\" directive is duplicate in DIR/good.conf:1",
        ),
    ] {
        let (code, _, said) = run(&["-t", "-q", "-c", "good.conf", "-g", globals]);
        if reason.is_empty() {
            assert_eq!((code, &*said), (0, ""), "{globals}");
        } else {
            let want = format!("gallop: [emerg] {reason}\n{failed}");
            assert_eq!((code, said), (1, want), "{globals}");
        }
    }
}

#[test]
fn wrong_options_are_reported() {
    for (args, want) in [
        (&["-s", "again"][..], "invalid option: \"-s again\""),
        (&["-s"], "option \"-s\" requires parameter"),
        (&["-g"], "option \"-g\" requires parameter"),
        (&["-c"], "option \"-c\" requires file name"),
        (&["-p"], "option \"-p\" requires directory name"),
        (&["-x"], "invalid option: \"x\""),
        (&["start"], "invalid option: \"start\""),
        (
            &["-s", "reload", "-c", "good.conf"],
            "[error] open() \"DIR/g.pid\" failed (2: No such file or directory)",
        ),
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, &*out), (1, ""), "{args:?}");
        assert_eq!(err, format!("gallop: {want}\n"), "{args:?}");
    }
}

#[test]
fn debug_points_follow_nginx() {
    for (line, refused) in [
        ("debug_points stop;", ""),
        ("debug_points Abort;", ""),
        ("debug_points on;", "invalid value \"on\""),
        (
            "debug_points stop; debug_points stop;",
            "\"debug_points\" directive is duplicate",
        ),
    ] {
        let (accepted, said) = site::check(&format!("{line} pid p; events {{ }}\n"));
        assert_eq!(accepted, refused.is_empty(), "{line}: {said}");
        assert!(said.contains(refused), "{line}: {said}");
    }
}

/// What is odd and no error, in nginx's words, at its file and line; also where an error follows.
#[test]
fn unusual_settings_give_nginx_warnings() {
    let folder = Folder::new();
    folder.write("nets", "10.0.0.0/8 a;\n10.0.0.0/8 b;\n");
    let lines = [
        "types { text/html html; text/plain HTML; }",
        "set_real_ip_from 10.1.2.3/8;",
        "allow 2001:db8::1/32; deny 10.0.0.0/8;",
        "geo $a { default x; default y; 10.1.0.0/8 1; include NETS; 2001:db8::/32 1; 2001:db8::/32 2; delete 12.0.0.0/8; }",
        "geo $b { ranges; default x; default y; 10.0.0.0-10.0.0.255 1; 10.0.0.0-10.0.0.255 2; delete 11.0.0.0-11.0.0.1; }",
        "proxy_ignore_headers Expires expires; proxy_next_upstream error timeout ERROR; gzip_types text/css text/css;",
        "ssl_protocols TLSv1.2 TLSv1.2; proxy_send_lowat 1k; fastcgi_cache_path DIR/c keys_zone=c:1m;",
        "server { listen 127.0.0.1:1 http2; server_name a.b; location / { fastcgi_cache c; } }",
        "server { listen 127.0.0.1:1 proxy_protocol; server_name c.d; }",
        "server { no_such_directive; }",
    ];
    let nets = format!("{}/nets", folder.0.display());
    let text = lines.join("\n").replace("NETS", &nets);
    let told = |lines: &str| {
        let (_, said) = site::check(&format!(
            "events {{ }} http {{ access_log off;\n{lines}\n}}\n"
        ));
        said.replace(&nets, "NETS")
    };
    let before = [
        "duplicate extension \"HTML\", content type: \"text/plain\", previous content type: \"text/html\" in DIR/nginx.conf:2",
        "low address bits of 10.1.2.3/8 are meaningless in DIR/nginx.conf:3",
        "low address bits of 2001:db8::1/32 are meaningless in DIR/nginx.conf:4",
        "duplicate network \"default\", value: \"y\", old value: \"x\" in DIR/nginx.conf:5",
        "low address bits of 10.1.0.0/8 are meaningless in DIR/nginx.conf:5",
        "duplicate network \"10.0.0.0/8\", value: \"a\", old value: \"1\" in NETS:1",
        "duplicate network \"10.0.0.0/8\", value: \"b\", old value: \"a\" in NETS:2",
        "duplicate network \"2001:db8::/32\", value: \"2\", old value: \"1\" in DIR/nginx.conf:5",
        "no network \"12.0.0.0/8\" to delete in DIR/nginx.conf:5",
        "duplicate default geo range value: \"y\", old value: \"x\" in DIR/nginx.conf:6",
        "duplicate range \"10.0.0.0-10.0.0.255\", value: \"2\", old value: \"1\" in DIR/nginx.conf:6",
        "no address range \"11.0.0.0-11.0.0.1\" to delete in DIR/nginx.conf:6",
        "duplicate value \"expires\" in DIR/nginx.conf:7",
        "duplicate value \"ERROR\" in DIR/nginx.conf:7",
        "duplicate MIME type \"text/css\" in DIR/nginx.conf:7",
        "duplicate value \"TLSv1.2\" in DIR/nginx.conf:8",
        "\"proxy_send_lowat\" is not supported, ignored in DIR/nginx.conf:8",
        "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead in DIR/nginx.conf:9",
    ];
    let before = before.map(|said| format!("gallop: [warn] {said}\n"));
    let said = told(&text);
    let emerg = "gallop: [emerg] unknown directive \"no_such_directive\" in DIR/nginx.conf:11\n";
    assert!(
        said.starts_with(&(before.concat() + emerg)),
        "with an error:\n{said}"
    );
    let said = told(&text.replace("no_such_directive;", ""));
    assert!(said.starts_with(&before.concat()), "{said}");
    for line in [
        "no \"fastcgi_cache_key\" for \"fastcgi_cache\" in DIR/nginx.conf:9\n",
        "protocol options redefined for 127.0.0.1:1 in DIR/nginx.conf:10\n",
    ] {
        let line = format!("gallop: [warn] {line}");
        assert!(said.contains(&line), "{line} not in {said}");
    }
}
