//! Files that clients create, change and delete, and those that they must not reach.

use crate::site::{Folder, Server};
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;

const ALL: &str = "dav_methods PUT DELETE MKCOL COPY MOVE;";

/// A site whose root is `html` in its folder, beside `outside` with a file that no request may change.
fn start(settings: &str) -> Server {
    let folder = Folder::new();
    folder.write("outside/secret", "the canary");
    folder.write("html/file", "content");
    folder.write("html/dir/inner/deep", "deep");
    folder.write("html/private/own", "private");
    let html = folder.0.join("html");
    symlink(folder.0.join("outside"), html.join("link")).expect("linked");
    symlink(folder.0.join("outside/secret"), html.join("linked")).expect("linked");
    symlink("../outside", html.join("dir/link")).expect("linked");
    // Workers that gave up root could not write into the folders of the test.
    Server::start_changed(
        folder,
        "user root;",
        &format!(
            "server {{ listen 127.0.0.1:{{port}}; server_name localhost; root html; absolute_redirect off; {settings} }}"
        ),
    )
}

/// The status of a request.
fn ask(server: &Server, line: &str, headers: &str, body: &str) -> u16 {
    let length = match body {
        "" => String::new(),
        body => format!("Content-Length: {}\r\n", body.len()),
    };
    let answer = server.raw(&format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{length}{headers}\r\n{body}"
    ));
    let status = answer.get(9..12).and_then(|code| code.parse().ok());
    status.unwrap_or_else(|| panic!("{line}: {answer:?}"))
}

fn read(server: &Server, name: &str) -> String {
    std::fs::read_to_string(server.folder.0.join("html").join(name)).unwrap_or_default()
}

/// Every path beneath a folder with the contents of files.
fn tree(folder: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.display().to_string();
        if path.is_symlink() || !path.is_dir() {
            all.push((name, std::fs::read_to_string(&path).unwrap_or_default()));
        } else {
            all.push((name, String::new()));
            all.extend(tree(&path));
        }
    }
    all.sort();
    all
}

#[test]
fn written_file_is_served_at_once() {
    let server = start(&format!(
        "location / {{ {ALL} dav_access user:rw group:r; }}"
    ));
    for n in 0..20 {
        let body = format!("version {n}");
        let want = if n == 0 { 201 } else { 204 };
        assert_eq!(ask(&server, "PUT /new", "", &body), want);
        assert!(server.get("/new", "").ends_with(&body), "{n}");
    }
    let meta = std::fs::metadata(server.folder.0.join("html/new")).expect("a file");
    assert_eq!(meta.permissions().mode() & 0o777, 0o640);
    let chunks = "4\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\n";
    let answer = server.raw(&format!(
        "PUT /a%20b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\
         Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n{chunks}"
    ));
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    assert!(answer.contains("\r\nLocation: /a%20b\r\n"), "{answer}");
    assert!(answer.contains("\r\nContent-Length: 0\r\n"), "{answer}");
    let answer = server.get("/a%20b", "");
    assert!(answer.ends_with("Wikipedia"), "{answer}");
    assert!(
        answer.contains("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"),
        "{answer}"
    );
    assert_eq!(ask(&server, "PUT /none/new", "", "x"), 409);
    assert_eq!(ask(&server, "PUT /dir", "", "x"), 409);
    assert_eq!(ask(&server, "PUT /nothing", "", ""), 411);
    assert_eq!(
        ask(&server, "PUT /nothing", "Content-Length: 0\r\n", ""),
        201
    );
    // No temporary file is left, whatever became of the request.
    assert_eq!(tree(&server.folder.0.join("body")), []);
}

#[test]
fn methods_are_off_unless_they_are_named() {
    let server = start("location / { dav_methods PUT; } location /off { dav_methods off; }");
    assert_eq!(ask(&server, "DELETE /file", "", ""), 405);
    assert_eq!(ask(&server, "MOVE /file", "Destination: /x\r\n", ""), 405);
    assert_eq!(ask(&server, "PUT /off", "", "x"), 405);
    assert_eq!(read(&server, "file"), "content");
}

#[test]
fn folders_are_copied_moved_and_deleted_without_following_links() {
    let server = start(&format!(
        "location / {{ {ALL} create_full_put_path on; min_delete_depth 1; }}"
    ));
    let outside = tree(&server.folder.0.join("outside"));
    assert_eq!(ask(&server, "PUT /new/a/b", "", "x"), 201);
    assert_eq!(
        ask(&server, "COPY /dir/", "Destination: /copy/\r\n", ""),
        201
    );
    assert_eq!(read(&server, "copy/inner/deep"), "deep");
    assert!(!server.folder.0.join("html/copy/link").exists());
    assert_eq!(
        ask(&server, "MOVE /copy/", "Destination: /moved/\r\n", ""),
        201
    );
    assert!(!server.folder.0.join("html/copy").exists());
    assert_eq!(
        ask(
            &server,
            "COPY /dir/",
            "Destination: /moved/\r\nOverwrite: F\r\n",
            ""
        ),
        412
    );
    assert_eq!(
        ask(
            &server,
            "MOVE /file",
            "Destination: /some/new/place\r\n",
            ""
        ),
        204
    );
    assert_eq!(read(&server, "some/new/place"), "content");
    // A folder cannot go into itself, also through a link.
    symlink("dir", server.folder.0.join("html/again")).expect("linked");
    for target in ["/dir/inner/x/", "/dir/", "/again/x/", "/again/inner/x/"] {
        for method in ["COPY", "MOVE"] {
            let to = format!("Destination: {target}\r\n");
            assert_eq!(
                ask(&server, &format!("{method} /dir/"), &to, ""),
                403,
                "{method} {target}"
            );
        }
    }
    assert_eq!(
        ask(&server, "MOVE /dir/inner/", "Destination: /dir/\r\n", ""),
        403
    );
    assert_eq!(read(&server, "dir/inner/deep"), "deep");
    // The link goes, what it leads to stays.
    assert_eq!(ask(&server, "DELETE /dir/", "", ""), 204);
    assert!(!server.folder.0.join("html/dir").exists());
    assert_eq!(ask(&server, "DELETE /link/", "", ""), 409);
    assert_eq!(ask(&server, "COPY /link/", "Destination: /x/\r\n", ""), 404);
    assert_eq!(ask(&server, "DELETE /link", "", ""), 204);
    assert_eq!(ask(&server, "DELETE /", "", ""), 409);
    assert_eq!(tree(&server.folder.0.join("outside")), outside);
}

#[test]
fn link_is_replaced_and_its_target_stays() {
    let server = start(&format!("location / {{ {ALL} }}"));
    let outside = tree(&server.folder.0.join("outside"));
    let link = server.folder.0.join("html/linked");
    let secret = server.folder.0.join("outside/secret");
    for (line, headers, body) in [
        ("PUT /linked", "", "mine"),
        ("COPY /file", "Destination: /linked\r\n", ""),
        ("MOVE /file", "Destination: /linked\r\n", ""),
    ] {
        let _ = std::fs::remove_file(&link);
        symlink(&secret, &link).expect("linked");
        assert_eq!(ask(&server, line, headers, body), 204, "{line}");
        assert!(!link.is_symlink(), "{line}");
        assert_eq!(tree(&server.folder.0.join("outside")), outside, "{line}");
    }
}

#[test]
fn paths_and_destinations_never_leave_root() {
    let server = start(&format!(
        "location / {{ {ALL} }} location /private {{ {ALL} }} location /in/ {{ alias html/dir/; {ALL} }}"
    ));
    let outside = tree(&server.folder.0.join("outside"));
    let ascents = [
        "/../outside/secret",
        "/%2e%2e/outside/secret",
        "/dir/../../outside/secret",
        "/dir/..%2f..%2foutside/secret",
        "//..//outside/secret",
        "/\\..\\..\\outside",
        "/..",
        "/.%2e/",
        "/a%00b",
    ];
    for target in ascents {
        for method in ["PUT", "DELETE", "MKCOL", "COPY", "MOVE"] {
            let body = if method == "PUT" { "x" } else { "" };
            let status = ask(
                &server,
                &format!("{method} {target}"),
                "Destination: /x\r\n",
                body,
            );
            assert!(
                status >= 400 || target.contains('\\'),
                "{method} {target}: {status}"
            );
        }
        for before in ["", "http://localhost", "http://LOCALHOST:80"] {
            let to = format!("Destination: {before}{target}\r\n");
            let status = ask(&server, "COPY /file", &to, "");
            assert!(status >= 400 || target.contains('\\'), "{to}: {status}");
        }
    }
    // Other locations have rules of their own, and other hosts other files.
    for (target, status) in [
        ("/private/own", 403),
        ("/in/x", 403),
        ("/%70rivate/own", 403),
        ("/dir/..//private/own", 403),
        ("http://localhost.evil/x", 400),
        ("http://localhostevil/x", 400),
        ("http://user@localhost/x", 400),
        ("https://localhost/x", 400),
        ("file", 400),
        ("", 400),
    ] {
        let to = format!("Destination: {target}\r\n");
        assert_eq!(ask(&server, "MOVE /file", &to, ""), status, "{target}");
    }
    assert_eq!(
        ask(&server, "MOVE /private/own", "Destination: /own\r\n", ""),
        403
    );
    assert_eq!(
        ask(
            &server,
            "COPY /in/inner/deep",
            "Destination: /in/inner/copy\r\n",
            ""
        ),
        204
    );
    assert_eq!(read(&server, "dir/inner/copy"), "deep");
    assert_eq!(read(&server, "private/own"), "private");
    assert_eq!(read(&server, "file"), "content");
    assert_eq!(tree(&server.folder.0.join("outside")), outside);
}

#[test]
fn confined_and_linkless_locations_change_nothing_behind_links() {
    for rule in ["confine_files html;", "disable_symlinks on;"] {
        let server = start(&format!(
            "{rule} location / {{ {ALL} create_full_put_path on; }}"
        ));
        let outside = tree(&server.folder.0.join("outside"));
        for (line, headers, body) in [
            ("PUT /link/secret", "", "mine"),
            ("PUT /link/a/b/new", "", "mine"),
            ("PUT /dir/link/new", "", "mine"),
            ("DELETE /link/secret", "", ""),
            ("MKCOL /link/new/", "", ""),
            ("COPY /file", "Destination: /link/secret\r\n", ""),
            ("MOVE /file", "Destination: /link/new/file\r\n", ""),
            ("COPY /linked", "Destination: /mine\r\n", ""),
            ("COPY /link/secret", "Destination: /mine\r\n", ""),
            ("MOVE /link/secret", "Destination: /mine\r\n", ""),
            ("COPY /dir/", "Destination: /link/dir/\r\n", ""),
        ] {
            let status = ask(&server, line, headers, body);
            assert!(
                matches!(status, 403 | 404 | 409),
                "{rule} {line} {headers}: {status}"
            );
        }
        assert_eq!(tree(&server.folder.0.join("outside")), outside, "{rule}");
        assert_eq!(read(&server, "mine"), "");
        assert_eq!(ask(&server, "PUT /dir/new/file", "", "x"), 201, "{rule}");
        assert_eq!(
            ask(&server, "COPY /dir/", "Destination: /copy/\r\n", ""),
            201,
            "{rule}"
        );
        assert_eq!(ask(&server, "DELETE /copy/", "", ""), 204, "{rule}");
    }
}

/// Each level costs a descriptor and a part of the stack while a tree is walked.
#[test]
fn deeply_nested_folders_do_not_harm_the_server() {
    let server = start(&format!("location / {{ {ALL} }}"));
    let mut path = server.folder.0.join("html/nest");
    for _ in 0..400 {
        path.push("a");
    }
    std::fs::create_dir_all(&path).expect("folders");
    assert_eq!(
        ask(&server, "COPY /nest/", "Destination: /copy/\r\n", ""),
        500
    );
    assert_eq!(ask(&server, "DELETE /nest/", "", ""), 500);
    assert!(server
        .log("error.log")
        .contains("nested more than 128 deep"));
    assert_eq!(ask(&server, "GET /file", "", ""), 200);
}
