//! `mp4`: movies from one time to another, compared with nginx byte for byte.

use crate::movie::{movie, Movie, Track};
use crate::nginx::Nginx;
use crate::site::{self, Folder, Server};
use std::io::{Read, Write};
use std::net::TcpStream;

const SITE: &str = "types { video/mp4 mp4; } server { listen 127.0.0.1:{port};
    location / { mp4; }
    location /key/ { mp4; mp4_start_key_frame on; alias {dir}/html/; }
    location /small/ { mp4; mp4_buffer_size 1k; mp4_max_buffer_size 2k; alias {dir}/html/; }
    location /medium/ { mp4; mp4_buffer_size 1k; alias {dir}/html/; }
    location /tiny/ { mp4; mp4_buffer_size 12; alias {dir}/html/; }
    location /rate/ { mp4; limit_rate 1m; alias {dir}/html/; } }";

/// The same files served by both.
struct Both {
    gallop: Server,
    nginx: Nginx,
}

fn both(files: &[(&str, Vec<u8>)]) -> Both {
    let folder = Folder::new();
    for (name, bytes) in files {
        std::fs::write(folder.0.join("html").join(name), bytes).expect("written");
    }
    let dir = site::path(&folder.0).to_owned();
    let nginx = Nginx::start(folder, SITE);
    let root = format!("root {dir}/html; {}", SITE.replace("{dir}", &dir));
    let gallop = Server::start(&root);
    Both { gallop, nginx }
}

/// The head without what names the server and the time, and the body.
pub fn response(port: u16, request: &str) -> (Vec<String>, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let limit = Some(crate::PATIENCE);
    stream.set_read_timeout(limit).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
    let body = bytes.split_off(end.expect("a head") + 4);
    let head = String::from_utf8(bytes).expect("a head of text");
    let is_same = |line: &&str| !line.starts_with("Server:") && !line.starts_with("Date:");
    let mut lines: Vec<_> = head.lines().filter(is_same).map(str::to_owned).collect();
    lines.sort();
    (lines, body)
}

fn get(uri: &str, fields: &str) -> String {
    format!("GET {uri} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n")
}

impl Both {
    /// Ask both the same; an error page is not compared, because it names the server.
    fn compare(&self, request: &str) -> (Vec<String>, Vec<u8>) {
        let (head, body) = response(self.gallop.port, request);
        let (expected_head, expected_body) = response(self.nginx.port, request);
        let is_error = [" 4", " 5"]
            .iter()
            .any(|kind| status(&head)[8..].starts_with(kind));
        let plain = |head: Vec<String>| -> Vec<String> {
            let is_same = |line: &String| !is_error || !line.starts_with("Content-Length");
            head.into_iter().filter(is_same).collect()
        };
        let (head, expected_head) = (plain(head), plain(expected_head));
        assert_eq!(head, expected_head, "{request}");
        assert!(
            is_error || body == expected_body,
            "{request}: bodies differ"
        );
        (head, body)
    }
}

fn variant(change: impl FnOnce(&mut Movie)) -> Vec<u8> {
    let mut movie = movie();
    change(&mut movie);
    movie.build()
}

fn each_track(movie: &mut Movie, change: impl Fn(&mut Track)) {
    movie.tracks.iter_mut().for_each(change);
}

fn variants() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("first.mp4", variant(|_| {})),
        ("last.mp4", variant(|m| m.is_movie_first = false)),
        (
            "wide.mp4",
            variant(|m| {
                m.is_wide = true;
                m.has_others = true;
                each_track(m, |t| t.is_wide = true);
            }),
        ),
        (
            "long.mp4",
            variant(|m| {
                (m.is_long, m.is_movie_first) = (true, false);
                each_track(m, |t| t.is_long = true);
            }),
        ),
        (
            "uniform.mp4",
            variant(|m| each_track(m, |t| t.uniform = 40)),
        ),
        ("video.mp4", variant(|m| m.tracks.truncate(1))),
        ("audio.mp4", variant(|m| drop(m.tracks.remove(0)))),
        (
            "plain.mp4",
            variant(|m| each_track(m, |t| (t.key_frames, t.offsets) = (None, None))),
        ),
        (
            "short.mp4",
            // The second track ends long before the first one.
            variant(|m| {
                m.tracks[1].times = vec![(20, 1024)];
                m.tracks[1].chunks = vec![5; 4];
            }),
        ),
        ("three.mp4", variant(|m| m.tracks.push(m.tracks[0].clone()))),
    ]
}

#[test]
fn parts_of_movies_are_nginx_s() {
    let files = variants();
    let both = both(&files);
    let mut parts = 0;
    for (name, _) in &files {
        for folder in ["", "/key"] {
            for query in queries() {
                let (head, _) = both.compare(&get(&format!("{folder}/{name}?{query}"), ""));
                parts += usize::from(head.iter().any(|line| line.contains("200 OK")));
            }
        }
    }
    assert!(parts > 500, "{parts} parts");
}

fn queries() -> Vec<String> {
    let mut queries: Vec<String> = [
        "",
        "start=0",
        "start=0&end=0",
        "start=&end=",
        "start=x&end=2",
    ]
    .map(str::to_owned)
    .to_vec();
    for start in 0..26 {
        queries.push(format!("start={}", f64::from(start) * 0.4));
    }
    for n in 0..20 {
        let start = f64::from(n * 37 % 80) / 10.0;
        let end = start + 1.0 + f64::from(n * 13 % 40) / 10.0;
        queries.push(format!("start={start}&end={end}"));
        queries.push(format!("a=b&end={end}"));
    }
    queries
}

#[test]
fn ranges_and_conditions_of_parts_are_nginx_s() {
    let both = both(&[("a.mp4", variant(|m| m.is_movie_first = false))]);
    let part = "/a.mp4?start=2&end=5";
    let (head, body) = both.compare(&get(part, ""));
    for range in ["0-9", "-20", "3000-4200", "10-", "99999-", "0-3,7-9", "x"] {
        for uri in [part, "/a.mp4"] {
            // Several ranges of a whole file have a boundary of each server's own.
            if uri == part || range != "0-3,7-9" {
                both.compare(&get(uri, &format!("Range: bytes={range}\r\n")));
            }
        }
    }
    let (_, ranged) = both.compare(&get(part, "Range: bytes=3000-4200\r\n"));
    assert_eq!(ranged, body[3000..=4200]);
    let field = |name: &str| {
        let mut values = head.iter().filter_map(|line| line.strip_prefix(name));
        values.next().expect("the field").to_owned()
    };
    for condition in [
        format!("If-Modified-Since: {}\r\n", field("Last-Modified: ")),
        format!("If-None-Match: {}\r\n", field("ETag: ")),
    ] {
        let (head, body) = both.compare(&get(part, &condition));
        assert!(head.iter().any(|line| line.contains(" 304 ")) && body.is_empty());
        let whole = format!("{condition}If-None-Match: \"x\"\r\n");
        both.compare(&get(part, &whole));
    }
    both.compare(&get(
        part,
        "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n",
    ));
    both.compare(&get(part, "If-Range: \"x\"\r\nRange: bytes=0-9\r\n"));
    let request = |method: &str, uri: &str| get(uri, "").replacen("GET", method, 1);
    let (head, body) = both.compare(&request("HEAD", part));
    assert!(body.is_empty() && head.iter().any(|line| line.starts_with("Content-Length: ")));
    for (method, uri) in [("POST", part), ("PUT", "/a.mp4"), ("HEAD", "/a.mp4")] {
        let (head, _) = response(both.gallop.port, &request(method, uri));
        let (expected, _) = response(both.nginx.port, &request(method, uri));
        assert_eq!(status(&head), status(&expected), "{method} {uri}");
    }
    for uri in ["/lost.mp4?start=1", "/key?start=1", "/?start=1"] {
        let (head, _) = response(both.gallop.port, &get(uri, ""));
        let (expected, _) = response(both.nginx.port, &get(uri, ""));
        assert_eq!(status(&head), status(&expected), "{uri}");
    }
}

pub fn status(head: &[String]) -> &str {
    let mut lines = head.iter().filter(|line| line.starts_with("HTTP/"));
    lines.next().expect("a status line")
}

#[test]
fn buffer_sizes_limit_movie_headers_as_in_nginx() {
    let files = [
        ("first.mp4", variant(|_| {})),
        ("last.mp4", variant(|m| m.is_movie_first = false)),
    ];
    let both = both(&files);
    for (name, _) in &files {
        // The header has about 3 KB.
        for (folder, expected) in [
            ("", "200"),
            ("/medium", "200"),
            ("/small", "500"),
            ("/tiny", "500"),
            ("/rate", "200"),
        ] {
            let (head, _) = both.compare(&get(&format!("{folder}/{name}?start=3"), ""));
            assert!(
                status(&head).contains(expected),
                "{folder}/{name}: {head:?}"
            );
        }
    }
    let log = both.gallop.log("error.log");
    assert!(
        log.contains("you may want to increase mp4_max_buffer_size"),
        "{log}"
    );
}

/// Every sample of the part is there, whole and in order, and the tables lead to it.
#[test]
fn part_has_the_samples_of_its_time() {
    let movie = Movie {
        is_movie_first: false,
        ..movie()
    };
    let folder = Folder::new();
    std::fs::write(folder.0.join("html/a.mp4"), movie.build()).expect("written");
    let page = "<p><!--#include virtual=\"/a.mp4?start=4&end=6\" --></p>";
    folder.write("html/page.html", page);
    let server = Server::start_in(
        folder,
        "types { text/html html; } server { listen 127.0.0.1:{port}; http2 on; location / { mp4; }
             location = /page.html { ssi on; } }",
    );
    let (_, body) = response(server.port, &get("/a.mp4?start=4&end=6", ""));
    // After 70 frames, the video has 30 frames a second instead of 15.
    let expected = [(60, 110), (31, 46)];
    for (track, (first, end)) in movie.tracks.iter().zip(expected) {
        let samples: Vec<_> = (first..end).map(|n| track.sample(n)).collect();
        let kind: &[u8] = if track.is_video { b"vmhd" } else { b"smhd" };
        assert!(crate::movie::samples(&body, kind) == samples, "{track:?}");
    }
    let (_, page) = response(server.port, "GET /page.html HTTP/1.0\r\n\r\n");
    assert!(
        page.windows(body.len()).any(|window| window == body),
        "a page that includes the part"
    );
    let mut client = crate::h2::Client::new(server.port);
    client.send(&crate::h2::get(1, "/a.mp4?start=4&end=6"));
    assert!(client.answer(1) == ("200".to_owned(), body));
}
