//! The smaller modules in the real binary: referer, secure_link, random_index, mirror, addition, sub,
//! gunzip, charset_map, disable_symlinks.

use crate::h2::{block, frame, Client as Http2, HEADERS};
use crate::site::{self, upstream, Folder, Server};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

fn server(locations: &str) -> Server {
    let folder = Folder::new();
    folder.write("html/page.html", "one foo two FOO three");
    folder.write("html/before.html", "<before>");
    folder.write("html/after.html", "<after>");
    folder.write("html/letters.html", "XYX");
    folder.write("html/any/only.txt", "the only file");
    folder.write("html/any/.hidden", "not this one");
    symlink("page.html", folder.0.join("html/link.html")).expect("linked");
    let http = format!(
        "charset_map B A {{ 58 59; }}
         server {{ listen 127.0.0.1:{{port}}; server_name localhost; root html;\n{locations}\n}}"
    );
    Server::start_in(folder, &http)
}

#[test]
fn sub_and_addition_filters_change_bodies() {
    let server = server(
        "sub_filter foo bar;
         location /page.html { add_before_body /before.html; add_after_body /after.html; }
         location /all/ { alias html/; sub_filter foo [$uri]; sub_filter_once off; }",
    );
    let answer = server.get("/page.html", "");
    assert_eq!(
        dechunked(&answer),
        "<before>one bar two FOO three<after>",
        "{answer}"
    );
    assert!(answer.contains("Transfer-Encoding: chunked"), "{answer}");
    assert!(!answer.contains("Last-Modified"), "{answer}");
    let all = server.get("/all/page.html", "");
    assert_eq!(
        dechunked(&all),
        "one [/all/page.html] two [/all/page.html] three"
    );
    let head = server.raw("HEAD /page.html HTTP/1.0\r\n\r\n");
    assert!(!head.contains("Content-Length"), "{head}");
}

fn dechunked(answer: &str) -> String {
    let mut rest = body(answer);
    let mut out = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk's size");
        if size == 0 {
            break;
        }
        out.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    out
}

/// Each part passes the filters of its own location; the page's are for the page.
#[test]
fn added_content_passes_only_its_own_filters() {
    let server = server(
        "location = /page.html {
             sub_filter o 0; sub_filter_once off; sub_filter > !; charset A; ssi on;
             add_before_body /before.html; add_after_body /after.html;
         }
         location = /before.html { sub_filter before earlier; }
         location = /letters.html { charset A; add_after_body /b/letters.html; }
         location /b/ { alias html/; source_charset B; charset_types text/none; }",
    );
    assert_eq!(
        dechunked(&server.get("/page.html", "")),
        "<earlier>0ne f00 tw0 F00 three<after>"
    );
    // In the page's charset, whichever the part was in.
    assert_eq!(dechunked(&server.get("/letters.html", "")), "XYXYYY");
}

#[test]
fn charset_conversion_works_with_ranges() {
    let server = server("location / { charset A; source_charset B; }");
    let whole = server.get("/letters.html", "");
    assert!(
        whole.contains("Content-Type: text/html; charset=A\r\n") && body(&whole) == "YYY",
        "{whole}"
    );
    let part = server.get("/letters.html", "Range: bytes=1-2\r\n");
    assert!(
        part.contains("Content-Range: bytes 1-2/3") && body(&part) == "YY",
        "{part}"
    );
}

#[test]
fn response_without_type_has_no_charset() {
    let server = server(
        "types { } default_type \"\"; charset A; source_charset B; charset_types *; location / { }",
    );
    let whole = server.get("/letters.html", "");
    assert!(!whole.contains("Content-Type"), "{whole}");
    assert_eq!(body(&whole), "XYX", "{whole}");
}

#[test]
fn autoindex_with_rounded_sizes_is_narrow_for_folders() {
    let server = server("location / { autoindex on; autoindex_exact_size off; }");
    let listing = server.get("/", "");
    assert!(listing.contains("       -\r\n"), "{listing}");
    assert!(!listing.contains("         -\r\n"), "{listing}");
}

#[test]
fn valid_referers_and_secure_link_are_checked() {
    let server = server(
        "location /referer { valid_referers none *.example.org server_names ~shop;
             return 200 \"[$invalid_referer]\"; }
         location /hash/ { secure_link $arg_h,$arg_e; secure_link_md5 secret$uri;
             return 200 \"[$secure_link][$secure_link_expires]\"; }",
    );
    for (headers, expected) in [
        ("", "[]"),
        ("Referer: http://www.example.org/x\r\n", "[]"),
        ("Referer: http://LOCALHOST:8080/\r\n", "[]"),
        ("Referer: https://my.shop.example/\r\n", "[]"),
        ("Referer: http://example.org/\r\n", "[1]"),
        ("Referer: none of your business\r\n", "[1]"),
    ] {
        let answer = server.get("/referer", headers);
        assert_eq!(body(&answer), expected, "{headers}");
    }
    // MD5 of "secret/hash/x" in the URL's alphabet.
    let hash = "F2zALuOgNpbHKElW9BBpqQ";
    let get = |uri: String| body(&server.get(&uri, "")).to_string();
    let wrong = get("/hash/x?h=AAAAAAAAAAAAAAAAAAAAAA&e=1".into());
    assert_eq!(wrong, "[][1]");
    let known = get(format!("/hash/x?h={hash}&e=4102444800"));
    let late = get(format!("/hash/x?h={hash}&e=1"));
    assert_eq!((&*known, &*late), ("[1][4102444800]", "[0][1]"));
}

#[test]
fn random_index_skips_hidden_files() {
    let server = server("location /any/ { random_index on; }");
    assert_eq!(body(&server.get("/any/", "")), "the only file");
}

/// A pixel, as clients take it that know images.
#[test]
fn empty_gif_is_constant() {
    let server = server("location /dot { empty_gif; }");
    let mut stream = server.connect();
    stream
        .write_all(b"GET /dot HTTP/1.0\r\n\r\n")
        .expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n");
    let (head, picture) = answer.split_at(end.expect("a head") + 4);
    let head = String::from_utf8_lossy(head);
    assert!(head.contains("Content-Type: image/gif\r\n"), "{head}");
    let modified = "Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\n";
    assert!(head.contains(modified), "{head}");
    // Version, one pixel by one, two colours, and the end.
    assert!(picture.starts_with(b"GIF89a\x01\x00\x01\x00\x80"));
    assert_eq!((picture.len(), picture.last()), (43, Some(&b';')));
    let since = modified.replace("Last-Modified", "If-Modified-Since");
    assert!(server.get("/dot", &since).starts_with("HTTP/1.1 304 "));
    assert!(server
        .raw("POST /dot HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
        .starts_with("HTTP/1.1 405 "));
}

#[test]
fn disabled_symlinks_are_rejected() {
    let server = server(
        "location /link.html { disable_symlinks on; }
         location /own/ { alias html/; disable_symlinks if_not_owner; }
         location /try/ { disable_symlinks on; try_files /link.html /page.html =404; }",
    );
    assert!(server.get("/link.html", "").starts_with("HTTP/1.1 403 "));
    assert!(server
        .get("/own/link.html", "")
        .starts_with("HTTP/1.1 200 "));
    assert!(body(&server.get("/try/", "")).contains("one foo two"));
}

/// What the real nginx 1.31.5 answers, over both protocols and each twice: the second time out of its cache.
#[test]
fn disable_symlinks_limits_followed_links() {
    // SAFETY: getuid() only gives a number.
    let root = unsafe { libc::getuid() == 0 };
    assert!(root, "giving files away needs root");
    let folder = Folder::new();
    for file in ["real/a", "real/index.html", "empty/b", "given/a", "theirs"] {
        folder.write(&format!("html/{file}"), file);
    }
    let html = folder.0.join("html");
    let own =
        |name: &str| std::os::unix::fs::lchown(html.join(name), Some(65534), None).expect(name);
    let link = |target: &str, name: &str| symlink(target, html.join(name)).expect(name);
    ["given", "theirs"].iter().for_each(|name| own(name));
    let links = [
        ("real/a", "file"),
        ("theirs", "to_theirs"),
        ("real", "dir"),
        ("given", "to_given"),
        ("empty", "list"),
        ("file", "chain"),
        ("loop", "loop"),
        ("real/a", "of_theirs"),
        ("real", "dir_of_theirs"),
        ("theirs", "theirs_to_theirs"),
    ];
    links.iter().for_each(|(target, name)| link(target, name));
    ["of_theirs", "dir_of_theirs", "theirs_to_theirs"]
        .iter()
        .for_each(|name| own(name));
    symlink("html", folder.0.join("base")).expect("linked");
    let base = folder.0.join("base");
    let from = base.display();
    let modes = [
        "on".to_string(),
        "if_not_owner".to_string(),
        "on from=$document_root".to_string(),
        format!("on from={from}/dir"),
        format!("if_not_owner from={from}/"),
        format!("on from={from}/di"),
    ];
    let servers = modes.iter().enumerate().map(|(n, mode)| {
        format!(
            "server {{ listen 127.0.0.1:{{port}}; server_name s{n}; root {from}; autoindex on; disable_symlinks {mode};
             location /try/ {{ try_files $uri /to_theirs /real/a =404; }} }}"
        )
    });
    let http = format!(
        "http2 on; open_file_cache max=100; open_file_cache_errors on; {}",
        servers.collect::<String>()
    );
    let server = Server::start_in(folder, &http);
    let cases: [(&str, [u16; 6]); 15] = [
        // on, if_not_owner, from the root, from a link, from the root with a slash, from no whole name
        ("/real/a", [404, 200, 200, 404, 200, 404]),
        ("/file", [404, 200, 403, 404, 200, 404]),
        ("/chain", [404, 200, 403, 404, 200, 404]),
        ("/to_theirs", [404, 403, 403, 404, 403, 404]),
        ("/of_theirs", [404, 403, 403, 404, 403, 404]),
        ("/theirs_to_theirs", [404, 200, 403, 404, 200, 404]),
        ("/dir/a", [404, 200, 404, 200, 200, 404]),
        ("/dir/", [404, 200, 404, 200, 200, 404]),
        ("/dir_of_theirs/a", [404, 403, 404, 404, 403, 404]),
        ("/dir_of_theirs/", [404, 403, 404, 404, 403, 404]),
        ("/to_given/a", [404, 403, 404, 404, 403, 404]),
        ("/list/", [404, 200, 404, 404, 200, 404]),
        ("/empty/", [404, 200, 200, 404, 200, 404]),
        ("/loop", [404, 403, 403, 404, 403, 404]),
        ("/try/x", [404, 200, 200, 404, 200, 404]),
    ];
    let mut http2 = Http2::new(server.port);
    let mut stream = 1;
    for (path, expected) in cases {
        for (n, expected) in expected.iter().enumerate() {
            for _ in 0..2 {
                let request =
                    format!("GET {path} HTTP/1.1\r\nHost: s{n}\r\nConnection: close\r\n\r\n");
                let answer = server.raw(&request);
                let what = format!("{path} with {}", modes[n]);
                assert!(
                    answer.starts_with(&format!("HTTP/1.1 {expected} ")),
                    "{what}: {answer}"
                );
                let host = format!("s{n}");
                let fields = [
                    (":method", "GET"),
                    (":scheme", "http"),
                    (":authority", &*host),
                    (":path", path),
                ];
                http2.send(&frame(HEADERS, 5, stream, &block(&fields)));
                assert_eq!(http2.answer(stream).0, expected.to_string(), "{what}");
                stream += 2;
            }
        }
    }
}

#[test]
fn mirror_gets_request_with_body() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    let (port, requests) = upstream(vec![answer.into()]);
    let server = server(&format!(
        "location /main {{ mirror /copy; client_max_body_size 1m; }}
         location /copy {{ internal; proxy_pass http://127.0.0.1:{port}/seen?$args; }}"
    ));
    let request = "POST /main?a=b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
                   Content-Length: 4\r\n\r\nbody";
    // The answer is the main request's own: there is no such file.
    assert!(server.raw(request).starts_with("HTTP/1.1 404 "));
    let limit = crate::PATIENCE;
    let seen = requests.recv_timeout(limit).expect("a copy");
    assert!(seen.starts_with("POST /seen?a=b HTTP/1.1\r\n"), "{seen}");
    assert!(seen.ends_with("\r\n\r\nbody"), "{seen}");
}

#[test]
fn gunzip_decodes_for_clients_without_gzip() {
    let server = server(
        "gzip_static always;
         location /zipped/ { alias html/; gunzip on; gzip_vary on; }",
    );
    let path = server.folder.0.join("html/page.html");
    let status = std::process::Command::new("gzip")
        .args(["-k", site::path(&path)])
        .status()
        .expect("gzip runs");
    assert!(status.success());
    let plain = server.get("/zipped/page.html", "");
    assert_eq!(dechunked(&plain), "one foo two FOO three", "{plain}");
    assert!(!plain.contains("Content-Encoding"), "{plain}");
    let packed = server.get("/zipped/page.html", "Accept-Encoding: gzip\r\n");
    assert!(packed.contains("Content-Encoding: gzip"), "{packed}");
}

#[test]
fn clients_get_an_accepted_encoding() {
    let server = server(
        "brotli on; brotli_window 16k; brotli_min_length 1; zstd on; zstd_min_length 1; gzip on; gzip_min_length 1;
         gzip_vary on;
         location /fixed/ { alias html/; brotli_static on; zstd_static on; }",
    );
    server.folder.write("html/letters.html.br", "packed");
    for (accepted, expected) in [
        ("gzip, br, zstd", Some("br")),
        ("gzip, zstd", Some("zstd")),
        ("gzip, br;q=0", Some("gzip")),
        ("deflate", None),
    ] {
        let answer = server.get("/page.html", &format!("Accept-Encoding: {accepted}\r\n"));
        let coding = answer
            .lines()
            .find_map(|l| l.strip_prefix("Content-Encoding: "));
        assert_eq!(coding, expected, "{accepted}: {answer}");
        assert!(answer.contains("Vary: Accept-Encoding\r\n"), "{answer}");
    }
    let fixed = server.get("/fixed/letters.html", "Accept-Encoding: br, zstd\r\n");
    assert!(fixed.contains("Content-Encoding: br\r\n"), "{fixed}");
    assert_eq!(body(&fixed), "packed");
}

#[test]
fn upstream_early_hints_are_forwarded_when_enabled() {
    let hints =
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: close\r\n\r\n";
    // Both in one piece: the answer that counts must be found behind the hints.
    let answer = format!("{hints}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let (up, _seen) = upstream(vec![
        answer.clone(),
        answer.clone(),
        answer,
        hints.to_string(),
    ]);
    let server = server(&format!(
        "location / {{ proxy_pass http://127.0.0.1:{up}; early_hints $arg_hints; }}"
    ));
    let wanted = server.get("/?hints=1", "");
    let (first, rest) = wanted.split_once("\r\n\r\n").expect("two heads");
    assert_eq!(
        first,
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload"
    );
    assert!(
        rest.starts_with("HTTP/1.1 200 OK\r\n") && rest.ends_with("ok"),
        "{rest}"
    );
    for unwanted in [
        server.get("/?hints=0", ""),
        server.raw("GET /?hints=1 HTTP/1.0\r\nHost: localhost\r\n\r\n"),
    ] {
        assert!(unwanted.starts_with("HTTP/1.1 200 OK\r\n"), "{unwanted}");
        assert!(unwanted.ends_with("ok"), "{unwanted}");
    }
    // Hints are no answer.
    assert!(server.get("/?hints=0", "").starts_with("HTTP/1.1 502 "));
}

#[test]
fn endless_early_hints_are_rejected() {
    let hints = format!(
        "HTTP/1.1 103 Early Hints\r\nX-A: {}\r\n\r\n",
        "a".repeat(400)
    );
    let answer = format!(
        "{}HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        hints.repeat(50)
    );
    let (up, _seen) = upstream(vec![answer]);
    let server = server(&format!(
        "location / {{ proxy_pass http://127.0.0.1:{up}; early_hints 1; proxy_buffer_size 1k; }}"
    ));
    let answer = server.get("/", "");
    assert_eq!(answer.matches("HTTP/1.1 103 ").count(), 2, "{answer}");
    assert!(answer.ends_with("ok"), "{answer}");
}

#[test]
fn oversized_trailers_end_the_response() {
    let said = |length: usize| {
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
             2\r\nok\r\n0\r\nX-T: {}\r\n\r\n",
            "t".repeat(length)
        )
    };
    // With the name and the line breaks 1024 bytes, and one more.
    let (up, _seen) = upstream(vec![said(1015), said(1016), said(1016)]);
    let pass =
        format!("proxy_pass http://127.0.0.1:{up}; proxy_http_version 1.1; proxy_buffer_size 1k;");
    let server = server(&format!(
        "location /on {{ {pass} proxy_pass_trailers on; }} location /off {{ {pass} }}"
    ));
    let ended = |path: &str| server.get(path, "TE: trailers\r\n").contains("\r\n0\r\n");
    assert!(ended("/on") && !ended("/on") && ended("/off"));
}

#[test]
fn invalid_cookie_gets_no_attributes() {
    let said = "HTTP/1.1 200 OK\r\nSet-Cookie: none; a=b\r\nSet-Cookie:\r\nSet-Cookie: =\r\nContent-Length: 0\r\n\
                Connection: close\r\n\r\n";
    let (up, _seen) = upstream(vec![said.into()]);
    let server = server(&format!(
        "location / {{ proxy_pass http://127.0.0.1:{up}; proxy_cookie_flags ~ httponly; }}"
    ));
    let answer = server.get("/", "");
    let cookies = answer.lines().filter_map(|l| l.strip_prefix("Set-Cookie:"));
    let cookies: Vec<_> = cookies.map(str::trim).collect();
    assert_eq!(cookies, ["none; a=b", "", "=; HttpOnly"], "{answer}");
}

#[test]
fn debug_connection_logs_everything() {
    let server = server("location /debugged { error_log debug.log alert; return 200 x; }");
    server.get("/debugged", "");
    assert_eq!(server.log("debug.log"), "");
    let conf = server.log("nginx.conf");
    let conf = conf.replacen("events {", "events { debug_connection 127.0.0.0/8;", 1);
    server.folder.write("nginx.conf", &conf);
    server.signal("HUP");
    server.wait_for("a line", |s| {
        s.get("/debugged", "");
        s.log("debug.log").contains("[debug]")
    });
    let log = server.log("debug.log");
    assert!(log.contains("using configuration \"/debugged\""), "{log}");
}

#[test]
fn thousands_of_referers_do_not_delay_start() {
    let names: String = (0..40_000).map(|n| format!("site{n}.example\n")).collect();
    let text = |more: &str| {
        format!("pid p; events {{}} http {{ access_log off; server {{ listen unix:s; valid_referers {names} {more}; }} }}")
    };
    let started = std::time::Instant::now();
    let (accepted, said) = site::check(&text(""));
    assert!(accepted, "{said}");
    // A comparison of each with each takes many times as long.
    let took = started.elapsed();
    assert!(took < std::time::Duration::from_secs(4), "{took:?}");
    let (accepted, said) = site::check(&text("site7.example"));
    assert!(
        !accepted && said.contains("conflicting parameter \"site7.example\""),
        "{said}"
    );
    let (accepted, said) = site::check(&text("server_names; server_name site8.example"));
    assert!(
        !accepted && said.contains("conflicting parameter \"site8.example\""),
        "{said}"
    );
}
