//! Hostile MP4 files: refused in nginx's words, in little memory, and without harm to others.

use crate::common;
use crate::movie::{atom, movie};
use crate::mp4::{response, status};
use crate::nginx::Nginx;
use crate::ports::free_port;
use crate::site::{self, Folder, Server};

const SITE: &str = "server { listen 127.0.0.1:{port}; location / { mp4; } }";

/// Kilobytes that a request may cost a worker: the largest header and a new one of the same size, and as much again
/// for everything else. Tracks and atoms without a limit would take many times that.
const MOST_KB: u64 = 4 * 10 * 1024;

/// Change the number that begins `offset` bytes after the first `name`.
fn changed(name: &[u8], offset: usize, number: u32) -> Vec<u8> {
    let mut bytes = movie().build();
    let found = bytes.windows(4).position(|window| window == name);
    let at = found.expect("the atom") + offset;
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The atom's size is this.
fn sized(name: &[u8], size: u32) -> Vec<u8> {
    let mut bytes = movie().build();
    let found = bytes.windows(4).position(|window| window == name);
    let at = found.expect("the atom") - 4;
    bytes[at..at + 4].copy_from_slice(&size.to_be_bytes());
    bytes
}

/// A movie header with this, between a file type and media data.
fn around(movie: &[u8]) -> Vec<u8> {
    let file_type = atom("ftyp", &[b"isom"]);
    [file_type, atom("moov", &[movie]), atom("mdat", &[&[0; 99]])].concat()
}

fn damaged() -> Vec<(&'static str, Vec<u8>)> {
    let whole = movie().build();
    let cut = |len: usize| whole[..len].to_vec();
    vec![
        ("empty", Vec::new()),
        ("text", b"This is no movie.".to_vec()),
        ("zeros", vec![0; 4000]),
        ("cut in a size", cut(30)),
        ("cut in moov", cut(1000)),
        ("moov too small", sized(b"moov", 7)),
        ("moov too large", sized(b"moov", u32::MAX)),
        ("trak too large", sized(b"trak", 100_000)),
        ("stbl larger than minf", sized(b"stbl", 5000)),
        ("tkhd too small", sized(b"tkhd", 20)),
        ("stsd too small", sized(b"stsd", 12)),
        ("4 billion times", changed(b"stts", 8, u32::MAX)),
        ("4 billion key frames", changed(b"stss", 8, u32::MAX)),
        ("4 billion offsets of times", changed(b"ctts", 8, u32::MAX)),
        ("4 billion runs", changed(b"stsc", 8, u32::MAX)),
        ("4 billion sizes", changed(b"stsz", 12, u32::MAX)),
        ("4 billion chunks", changed(b"stco", 8, u32::MAX)),
        ("no times", changed(b"stts", 8, 0)),
        ("no runs", changed(b"stsc", 8, 0)),
        ("few sizes", changed(b"stsz", 12, 3)),
        ("few chunks", changed(b"stco", 8, 2)),
        ("short movie", changed(b"mvhd", 20, 100)),
        ("compressed", around(&atom("cmov", &[b"zlib"]))),
        ("no tracks", around(&atom("udta", &[]))),
        ("no tables", around(&atom("trak", &[&atom("mdia", &[])]))),
        (
            "two headers",
            around(&[atom("mvhd", &[&[0; 100]]), atom("mvhd", &[&[0; 100]])].concat()),
        ),
    ]
}

/// The texts of the error log, without time, process, and client.
fn texts(log: &str, dir: &str) -> Vec<String> {
    let text = |line: &str| {
        let (_, text) = line.split_once(" *")?;
        let (_, text) = text.split_once(' ')?;
        let (text, _) = text.split_once(", client:")?;
        Some(text.replace(dir, "DIR"))
    };
    log.lines().filter_map(text).collect()
}

#[test]
fn damaged_movies_are_refused_in_nginx_s_words() {
    let folder = Folder::new();
    let files = damaged();
    for (n, (_, bytes)) in files.iter().enumerate() {
        std::fs::write(folder.0.join(format!("html/{n}.mp4")), bytes).expect("written");
    }
    let dir = site::path(&folder.0).to_owned();
    let nginx_log = folder.0.join("n.log");
    let nginx = Nginx::start(folder, SITE);
    let gallop = Server::start(&format!("root {dir}/html; {SITE}"));
    for (n, (what, _)) in files.iter().enumerate() {
        let request = format!("GET /{n}.mp4?start=1&end=3 HTTP/1.0\r\n\r\n");
        for port in [gallop.port, nginx.port] {
            let (head, _) = response(port, &request);
            assert!(status(&head).contains(" 500 "), "{what}: {head:?}");
        }
    }
    let expected = std::fs::read_to_string(nginx_log).expect("nginx's log");
    let (texts, expected) = (
        texts(&gallop.log("error.log"), &dir),
        texts(&expected, &dir),
    );
    assert_eq!(texts.len(), files.len());
    for (((what, _), text), expected) in files.iter().zip(texts).zip(expected) {
        assert_eq!(text, expected, "{what}");
    }
}

#[test]
fn movie_headers_without_end_cost_little() {
    let tracks = atom("trak", &[]).repeat((10 << 20) / 8 - 1);
    let inner = atom("free", &[]).repeat((10 << 20) / 8 - 1);
    let many = atom("free", &[]).repeat(1 << 19);
    let large = vec![0; 11 << 20];
    // The largest header that is read, and the most that is written.
    let mut one = movie();
    one.tracks.truncate(1);
    let track = {
        let bytes = one.build();
        let found = bytes.windows(4).position(|window| window == b"trak");
        let at = found.expect("the track") - 4;
        let size = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("a size"));
        bytes[at..at + size as usize].to_vec()
    };
    let files = [
        (around(&tracks), "mp4 moov atom has too many tracks"),
        (around(&inner), "no mp4 trak atoms were found"),
        (many, "mp4 file has too many atoms"),
        (
            around(&large),
            "you may want to increase mp4_max_buffer_size",
        ),
        (
            around(&track.repeat(1001)),
            "mp4 moov atom has too many tracks",
        ),
    ];
    let port = free_port();
    let site = format!(
        "root %%/html; {}",
        SITE.replace("{port}", &port.to_string())
    );
    let server = common::Server::start(&site, |folder| {
        for (n, (bytes, _)) in files.iter().enumerate() {
            std::fs::write(folder.join(format!("html/{n}.mp4")), bytes).expect("written");
        }
        std::fs::write(folder.join("html/good.mp4"), movie().build()).expect("written");
    });
    let status = |uri: &str| {
        let (head, _) = response(port, &format!("GET {uri} HTTP/1.0\r\n\r\n"));
        status(&head).to_owned()
    };
    assert!(status("/good.mp4?start=1").contains(" 200 "));
    let before = peak(&server);
    for (n, (_, expected)) in files.iter().enumerate() {
        for _ in 0..3 {
            let status = status(&format!("/{n}.mp4?start=1&end=3"));
            assert!(status.contains(" 500 "), "{status}");
        }
        let log = server.errors();
        assert!(log.contains(expected), "{expected}: {log}");
    }
    let cost = peak(&server) - before;
    assert!(cost < MOST_KB, "{cost} KB");
    assert!(status("/good.mp4?start=1").contains(" 200 "));
}

/// The most memory that the worker has had, in kilobytes.
fn peak(server: &common::Server) -> u64 {
    let status = format!("/proc/{}/status", server.worker());
    let status = std::fs::read_to_string(status).expect("the worker's status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.expect("a size").parse().expect("a number")
}
