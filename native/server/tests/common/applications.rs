//! Applications that speak uwsgi or SCGI, as far as a test needs them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

/// The protocol of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Uwsgi,
    Scgi,
}

pub const BOTH: [Protocol; 2] = [Protocol::Uwsgi, Protocol::Scgi];

impl Protocol {
    /// The prefix of the directives.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Uwsgi => "uwsgi",
            Protocol::Scgi => "scgi",
        }
    }
}

/// A request as the application reads it.
#[derive(Debug, Default)]
pub struct Request {
    /// For uwsgi; the two modifiers.
    pub modifiers: (u8, u8),
    pub params: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The only parameter with this name; empty if there is none.
    pub fn param(&self, name: &str) -> &str {
        let mut named = self.params.iter().filter(|(n, _)| n == name);
        let value = named.next().map_or("", |(_, value)| value);
        assert!(named.next().is_none(), "{name} twice in {self:?}");
        value
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn exactly(stream: &mut impl Read, len: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn uwsgi_params(mut block: &[u8]) -> Vec<(String, String)> {
    let mut word = || {
        let (len, rest) = block.split_first_chunk::<2>()?;
        let (word, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        block = rest;
        Some(text(word))
    };
    let mut params = Vec::new();
    while let Some(name) = word() {
        params.push((name, word().expect("a value for each name")));
    }
    params
}

fn scgi_params(block: &[u8]) -> Vec<(String, String)> {
    let words: Vec<String> = block.split(|&c| c == 0).map(text).collect();
    let (last, words) = words.split_last().expect("a word");
    assert!(last.is_empty() && words.len() % 2 == 0, "{words:?}");
    let pairs = words.chunks(2);
    pairs.map(|w| (w[0].clone(), w[1].clone())).collect()
}

fn read_head(stream: &mut impl Read, protocol: Protocol) -> std::io::Result<Request> {
    let mut request = Request::default();
    if protocol == Protocol::Uwsgi {
        let header = exactly(stream, 4)?;
        request.modifiers = (header[0], header[3]);
        let len = u16::from_le_bytes([header[1], header[2]]);
        request.params = uwsgi_params(&exactly(stream, usize::from(len))?);
        return Ok(request);
    }
    let mut digits = String::new();
    loop {
        match exactly(stream, 1)?[0] {
            b':' => break,
            digit => digits.push(char::from(digit)),
        }
    }
    let block = exactly(stream, digits.parse().expect("the netstring's length"))?;
    assert_eq!(exactly(stream, 1)?, b",", "the netstring's end");
    request.params = scgi_params(&block);
    assert_eq!(request.params[0].0, "CONTENT_LENGTH", "{request:?}");
    Ok(request)
}

/// Read a request with its body.
pub fn read(stream: &mut impl Read, protocol: Protocol) -> std::io::Result<Request> {
    let mut request = read_head(stream, protocol)?;
    let length = request.param("CONTENT_LENGTH").parse().unwrap_or(0);
    request.body = exactly(stream, length)?;
    Ok(request)
}

/// Start an application: the pieces of a response come from the request, and are sent with a short
/// pause between them. Then the connection closes. Returns the port and the requests.
pub fn start(
    protocol: Protocol,
    respond: impl Fn(&Request) -> Vec<Vec<u8>> + Send + Clone + 'static,
) -> (u16, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (respond, sender) = (respond.clone(), sender.clone());
            std::thread::spawn(move || {
                let Ok(request) = read(&mut stream, protocol) else {
                    return;
                };
                let pieces = respond(&request);
                let _ = sender.send(request);
                send(&mut stream, &pieces);
            });
        }
    });
    (port, requests)
}

fn send(stream: &mut impl Write, pieces: &[Vec<u8>]) {
    for (i, piece) in pieces.iter().enumerate() {
        if i > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        if stream.write_all(piece).is_err() {
            return;
        }
    }
}
