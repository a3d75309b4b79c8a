//! `flv`: videos from the middle.

use crate::site::{Folder, Server};

const HEADER: &str = "FLV\u{1}\u{5}\0\0\0\t\0\0\0\0";

#[test]
fn video_starts_at_the_byte_of_the_argument() {
    let folder = Folder::new();
    let video: String = (0..100).map(|i| format!("X{i:03}XXXXXX")).collect();
    folder.write("html/a.flv", &video);
    folder.write("html/d/index.html", "index");
    let server = Server::start_in(
        folder,
        "types { video/x-flv flv; } server { listen 127.0.0.1:{port}; location / { flv; } }",
    );
    let part = |uri: &str, fields: &str| {
        let answer = server.get(uri, fields);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_string(), body.to_string())
    };
    for whole in [
        "",
        "?start=0",
        "?start=1000",
        "?start=x",
        "?start=-5",
        "?start=",
        "?start=99999999999999999999",
    ] {
        let (head, body) = part(&format!("/a.flv{whole}"), "");
        assert!(head.contains("Content-Type: video/x-flv"), "{head}");
        assert_eq!(body, video, "{whole}");
    }
    let (head, body) = part("/a.flv?a=b&start=100", "");
    assert!(head.contains("Content-Length: 913"), "{head}");
    // As in nginx, the tag ends with the length of the response (913 bytes).
    let is_tag = |line: &str| line.starts_with("ETag: ") && line.ends_with("-391\"");
    assert!(head.contains("Last-Modified: ") && head.lines().any(is_tag));
    assert_eq!(body, format!("{HEADER}{}", &video[100..]));
    let (head, body) = part("/a.flv?start=100", "Range: bytes=10-22\r\n");
    assert!(head.contains("Content-Range: bytes 10-22/913"), "{head}");
    assert_eq!(body, format!("{}{}", &HEADER[10..], &video[100..110]));
    // What was asked before does not decide.
    assert_eq!(part("/a.flv", "").1, video);
    assert_eq!(
        part("/a.flv?start=990", "").1,
        format!("{HEADER}X099XXXXXX")
    );
    assert_eq!(part("/d/", "").1, "index");
    assert!(part("/d", "").0.contains("301 Moved"));
    assert!(part("/lost.flv?start=1", "").0.contains("404"));
    let post = server.raw("POST /a.flv HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
    assert!(post.contains(" 405 "), "{post}");
}
