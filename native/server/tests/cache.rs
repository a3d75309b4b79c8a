//! Answers of upstreams that are kept, and those fetched in slices, in the real binary.

use crate::site::{self, upstream, Folder, Server};

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

fn status_of(answer: &str) -> &str {
    answer
        .lines()
        .find_map(|l| l.strip_prefix("X-Cache: "))
        .unwrap_or("none")
}

/// A server that passes on to its own host `origin`, whose files are in `html`.
fn server(settings: &str) -> Server {
    let folder = Folder::new();
    folder.write("html/page", "first");
    folder.write("html/digits", "0123456789");
    let http = format!(
        "proxy_cache_path cache levels=1:2 keys_zone=one:1m;
         add_header X-Cache $upstream_cache_status;
         server {{ listen 127.0.0.1:{{port}}; server_name localhost;
             location / {{ proxy_pass http://127.0.0.1:{{port}}; proxy_set_header Host origin;
                 proxy_cache one; {settings} }} }}
         server {{ listen 127.0.0.1:{{port}}; server_name origin; root html; etag off;
             add_header X-Cache \"\"; add_header Cache-Control $arg_control;
             add_header Vary $arg_vary; add_header X-Range $http_range always; }}"
    );
    Server::start_in(folder, &http)
}

fn change(server: &Server, text: &str) {
    server.folder.write("html/page", text);
}

#[test]
fn cached_response_is_served_with_ranges_and_after_restart() {
    let server = server("proxy_cache_valid 200 1h; proxy_cache_bypass $arg_fresh;");
    let miss = server.get("/page", "");
    assert_eq!((status_of(&miss), body(&miss)), ("MISS", "first"), "{miss}");
    change(&server, "second");
    let hit = server.get("/page", "");
    assert_eq!((status_of(&hit), body(&hit)), ("HIT", "first"), "{hit}");
    let part = server.get("/page", "Range: bytes=1-2\r\n");
    assert!(part.contains("Content-Range: bytes 1-2/5"), "{part}");
    assert_eq!(body(&part), "ir");
    // The kept answer is judged by its own date.
    let modified = hit.lines().find_map(|l| l.strip_prefix("Last-Modified: "));
    let since = format!("If-Modified-Since: {}\r\n", modified.expect("a date"));
    assert!(server.get("/page", &since).starts_with("HTTP/1.1 304 "));
    let head = server.raw("HEAD /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!((status_of(&head), body(&head)), ("HIT", ""), "{head}");
    // HUP starts another process, which knows the files only by finding them.
    server.signal("HUP");
    server.wait_for("the new process", |s| {
        s.log("error.log").contains("gracefully shutting down")
    });
    assert_eq!(status_of(&server.get("/page", "")), "HIT");
    let bypass = server.get("/page?fresh=0", "");
    assert_eq!(status_of(&bypass), "MISS", "another key: {bypass}");
    let bypass = server.get("/page?fresh=1", "");
    assert_eq!((status_of(&bypass), body(&bypass)), ("BYPASS", "second"));
}

/// Such an answer is not kept, and the upstream is asked for the part alone.
#[test]
fn ranges_far_into_response_bypass_cache() {
    for (max, far, near) in [
        (
            "4",
            &["bytes=4-5", "bytes=-2", "Bytes=  -1"][..],
            &["bytes=3-5", "bytes=x", "bytes=", "bytes=\t9-", "lines=9-"][..],
        ),
        ("0", &["bytes=0-1", "lines=9-", "x"], &[]),
    ] {
        let server = server(&format!(
            "proxy_cache_valid any 1h; proxy_cache_max_range_offset {max};"
        ));
        let asked = |range: &str, n: usize| {
            let answer = server.get(&format!("/digits?{n}"), &format!("Range: {range}\r\n"));
            // The origin says what it was asked for.
            answer.lines().any(|l| l.starts_with("X-Range: "))
        };
        for (n, range) in far.iter().enumerate() {
            assert!(asked(range, n), "{range:?} of {max}");
            assert_eq!(status_of(&server.get(&format!("/digits?{n}"), "")), "MISS");
        }
        for (n, range) in near.iter().enumerate() {
            assert!(!asked(range, n + 10), "{range:?} of {max}");
        }
        // nginx's reading fails there.
        assert_eq!(asked("bytes=99999999999999999999-", 20), max == "0");
    }
}

#[test]
fn only_cacheable_responses_are_cached() {
    let server = server("proxy_cache_valid 200 1h; proxy_no_cache $arg_not;");
    for uri in [
        "/page?control=no-store",
        "/page?control=max-age=0",
        "/page?control=private",
        "/page?vary=*",
        "/page?not=1",
        "/nothing",
    ] {
        for _ in 0..2 {
            let answer = server.get(uri, "");
            assert_eq!(
                status_of(&answer),
                if uri == "/nothing" { "none" } else { "MISS" },
                "{uri}"
            );
        }
    }
}

/// The error page answers, and nothing of what the upstream had begun to say is used.
#[test]
fn response_that_cannot_satisfy_request_is_not_cached() {
    let server = server("proxy_cache_valid 200 1h;");
    for (asked, status) in [("If-Match: x", "412"), ("Range: bytes=99-", "416")] {
        let refused = server.get("/page", &format!("{asked}\r\n"));
        assert!(
            refused.starts_with(&format!("HTTP/1.1 {status} ")),
            "{refused}"
        );
    }
    assert_eq!(status_of(&server.get("/page", "")), "MISS");
    let refused = server.get("/page", "If-Match: x\r\n");
    assert!(refused.starts_with("HTTP/1.1 412 "), "{refused}");
    assert_eq!(status_of(&server.get("/page", "")), "HIT");
}

#[test]
fn error_page_carries_nothing_of_replaced_response() {
    let said = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nWWW-Authenticate: Basic\r\nX-A: 1\r\n\
                Connection: close\r\n\r\nfirst";
    let (port, _requests) = upstream(vec![said.into()]);
    let server = passing(port, "proxy_cache_valid 200 1h;");
    let refused = server.get("/", "If-Match: \"x\"\r\n");
    assert!(refused.starts_with("HTTP/1.1 412 "), "{refused}");
    let is_said = refused.contains("WWW-Authenticate") || refused.contains("X-A");
    assert!(!is_said, "{refused}");
}

/// Each location reads what is kept as if the upstream had just said it.
#[test]
fn response_cached_by_another_location_is_used() {
    let said =
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nSet-Cookie: a=1\r\nX-Accel-Redirect: /there\r\n\
                Connection: close\r\n\r\nfirst";
    let (port, _requests) = upstream(vec![said.into()]);
    let pass = format!("proxy_pass http://127.0.0.1:{port}; proxy_cache one; proxy_cache_key k;");
    let server = Server::start(&format!(
        "proxy_cache_path cache keys_zone=one:1m;
         server {{ listen 127.0.0.1:{{port}}; server_name localhost; proxy_cache_valid 200 1h;
             location /keeps {{ {pass} proxy_ignore_headers X-Accel-Redirect Set-Cookie; }}
             location /follows {{ {pass} }} location /there {{ return 200 there; }}
             location /judges {{ {pass} proxy_ignore_headers X-Accel-Redirect; }} }}"
    ));
    assert_eq!(body(&server.get("/keeps", "")), "first");
    assert_eq!(body(&server.get("/follows", "")), "there");
    let any = "If-None-Match: *\r\n";
    assert!(server.get("/keeps", any).starts_with("HTTP/1.1 304 "));
    assert_eq!(body(&server.get("/judges", any)), "first");
}

#[test]
fn response_variants_are_cached_separately() {
    let server = server("proxy_cache_valid 200 1h;");
    let get = |language: &str| {
        let answer = server.get(
            "/page?vary=Accept-Language",
            &format!("Accept-Language: {language}\r\n"),
        );
        format!("{} {}", status_of(&answer), body(&answer))
    };
    assert_eq!(get("en, de"), "MISS first");
    change(&server, "second");
    assert_eq!(get("fr"), "MISS second");
    assert_eq!(get("en,de"), "HIT first");
    assert_eq!(get("fr"), "HIT second");
}

#[test]
fn response_is_cached_after_minimum_uses() {
    let server = server("proxy_cache_valid 200 1h; proxy_cache_min_uses 2;");
    let statuses: Vec<String> = (0..3)
        .map(|_| status_of(&server.get("/page", "")).to_string())
        .collect();
    assert_eq!(statuses, ["MISS", "MISS", "HIT"]);
}

fn stale_answer() -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nCache-Control: max-age=1\r\nETag: \"x\"\r\n\
     Connection: close\r\n\r\nold"
        .into()
}

/// Waits until what was kept for a second is no longer fresh.
fn until_expired(server: &Server) {
    server.wait_for("an old answer", |s| {
        status_of(&s.get("/", "Only-If: kept\r\n")) != "HIT"
    });
}

fn passing(port: u16, settings: &str) -> Server {
    Server::start(&format!(
        "proxy_cache_path cache keys_zone=one:1m;
         add_header X-Cache $upstream_cache_status;
         server {{ listen 127.0.0.1:{{port}}; server_name localhost;
             location / {{ proxy_pass http://127.0.0.1:{port}; proxy_cache one; {settings} }} }}"
    ))
}

#[test]
fn stale_response_is_served_on_error() {
    let (port, _requests) = upstream(vec![stale_answer()]);
    // The upstream is gone after its first answer.
    let server = passing(port, "proxy_cache_use_stale error timeout;");
    assert_eq!(body(&server.get("/", "")), "old");
    until_expired(&server);
    let answer = server.get("/", "");
    assert_eq!(
        (status_of(&answer), body(&answer)),
        ("STALE", "old"),
        "{answer}"
    );
}

#[test]
fn stale_response_is_revalidated_by_upstream() {
    let confirmed = "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=3600\r\n\
                     Connection: close\r\n\r\n";
    let (port, requests) = upstream(vec![stale_answer(), confirmed.into()]);
    let server = passing(port, "proxy_cache_revalidate on;");
    assert_eq!(
        status_of(&server.get("/", "If-None-Match: \"y\"\r\n")),
        "MISS"
    );
    until_expired(&server);
    let first = requests.recv().expect("a request");
    assert!(!first.contains("If-None-Match"), "{first}");
    let second = requests.recv().expect("another request");
    assert!(second.contains("If-None-Match: \"x\"\r\n"), "{second}");
    let answer = server.get("/", "");
    assert_eq!(
        (status_of(&answer), body(&answer)),
        ("HIT", "old"),
        "{answer}"
    );
}

#[test]
fn stale_response_is_served_while_updating() {
    let fresh = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nCache-Control: max-age=3600\r\n\
                 Connection: close\r\n\r\nnew";
    let (port, _requests) = upstream(vec![stale_answer(), fresh.into()]);
    let server = passing(
        port,
        "proxy_cache_use_stale updating; proxy_cache_background_update on;",
    );
    assert_eq!(body(&server.get("/", "")), "old");
    until_expired(&server);
    server.wait_for("the new answer", |s| {
        let answer = s.get("/", "");
        status_of(&answer) == "HIT" && body(&answer) == "new"
    });
}

#[test]
fn cache_lock_lets_one_request_fetch() {
    let slow = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\none";
    // A second request would find nobody to answer it.
    let (port, _requests) = upstream(vec![slow.into()]);
    let server = passing(
        port,
        "proxy_cache_valid 200 1h; proxy_cache_lock on; proxy_cache_lock_timeout 20s;
         proxy_cache_lock_age 20s;",
    );
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..5)
            .map(|_| scope.spawn(|| server.get("/", "")))
            .collect();
        for thread in threads {
            let answer = thread.join().expect("an answer");
            assert_eq!(body(&answer), "one", "{answer}");
        }
    });
}

#[test]
fn entries_are_purged_by_key_and_by_its_start() {
    let server =
        server("proxy_cache_valid 200 1h; proxy_cache_key $uri; proxy_cache_purge $arg_purge;");
    for _ in 0..2 {
        server.get("/page", "");
    }
    assert_eq!(status_of(&server.get("/page", "")), "HIT");
    let gone = server.get("/page?purge=1", "");
    assert!(gone.starts_with("HTTP/1.1 204 "), "{gone}");
    assert_eq!(status_of(&server.get("/page", "")), "MISS");
    let none = server.get("/other?purge=1", "");
    assert!(none.starts_with("HTTP/1.1 404 "), "{none}");
    assert!(server.get("/pa*?purge=1", "").starts_with("HTTP/1.1 204 "));
    server.wait_for("the purge", |s| status_of(&s.get("/page", "")) != "HIT");
}

#[test]
fn slices_are_fetched_in_order_and_cached_separately() {
    let server = server(
        "proxy_cache_valid 200 206 1h; slice 4; proxy_cache_key $uri$slice_range;
         proxy_set_header Range $slice_range;",
    );
    let whole = server.get("/digits", "");
    assert!(whole.starts_with("HTTP/1.1 200 OK\r\n"), "{whole}");
    assert!(whole.contains("Content-Length: 10\r\n"), "{whole}");
    assert_eq!(body(&whole), "0123456789");
    std::fs::remove_file(server.folder.0.join("html/digits")).expect("removed");
    let part = server.get("/digits", "Range: bytes=5-8\r\n");
    assert!(part.contains("Content-Range: bytes 5-8/10\r\n"), "{part}");
    assert_eq!((status_of(&part), body(&part)), ("HIT", "5678"), "{part}");
}

#[test]
fn impossible_cache_settings_are_rejected() {
    let refused = |http: &str| {
        let (accepted, said) = site::check(&site::configuration(http));
        assert!(!accepted, "{http}");
        said
    };
    let said = refused("server { location / { proxy_pass http://127.0.0.1:1; proxy_cache x; } }");
    assert!(said.contains("zone \"x\" is unknown"), "{said}");
    let said = refused("proxy_cache_path c;");
    assert!(said.contains("invalid number of arguments"), "{said}");
    let said = refused("proxy_cache_path c levels=3 keys_zone=a:1m;");
    assert!(said.contains("invalid \"levels\""), "{said}");
    let said = refused("proxy_cache_path c keys_zone=a:1k;");
    assert!(said.contains("too small"), "{said}");
}

#[test]
fn fastcgi_responses_are_cached() {
    let folder = Folder::new();
    crate::passing::application(&folder.0.join("app.sock"));
    let socket = format!("unix:{}/app.sock", site::path(&folder.0));
    let server = Server::start_in(
        folder,
        &format!(
            "fastcgi_cache_path kept keys_zone=app:1m; add_header X-Cache $upstream_cache_status;
             server {{ listen 127.0.0.1:{{port}}; server_name localhost;
                 location / {{ fastcgi_pass {socket}; fastcgi_param ASKED WORD$arg_word.; fastcgi_cache app;
                     fastcgi_cache_key $request_uri; fastcgi_cache_valid 200 1h; fastcgi_cache_methods GET HEAD;
                     fastcgi_cache_bypass $http_x_bypass; fastcgi_no_cache $arg_private; }} }}"
        ),
    );
    let ask = |uri: &str, fields: &str| {
        let answer = server.get(uri, fields);
        assert!(body(&answer).contains("hello"), "{answer}");
        status_of(&answer).to_string()
    };
    for status in ["MISS", "HIT", "HIT"] {
        assert_eq!(ask("/?word=plain", ""), status);
    }
    assert_eq!(ask("/?word=plain", "X-Bypass: 1\r\n"), "BYPASS");
    for _ in 0..2 {
        assert_eq!(ask("/?word=plain&private=1", ""), "MISS");
    }
}

/// `proxy_store`: files that others may read as well.
#[test]
fn responses_are_stored_as_files() {
    // Its worker may write where the test's folder is.
    let server = Server::start_with(
        "user root;",
        "server { listen 127.0.0.1:{port}; server_name localhost; root html;
             location /copies/ { proxy_pass http://127.0.0.1:{port}/; proxy_store html$uri;
                 proxy_store_access user:rw group:r; } }",
    );
    server.folder.write("html/source", "stored");
    assert!(server.get("/copies/source", "").ends_with("stored"));
    assert!(server.get("/copies/none", "").starts_with("HTTP/1.1 404 "));
    server.wait_for("the file", |s| s.log("html/copies/source") == "stored");
    let path = server.folder.0.join("html/copies/source");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).expect("the file"));
    assert_eq!(mode & 0o777, 0o640);
    assert!(!server.folder.0.join("html/copies/none").exists());
}
