//! The limit of passing requests on: for each that comes it sends prepared bytes to an upstream by one write,
//! waits for the answer, takes it by one read and answers the client with prepared bytes. It understands nothing,
//! so no server of one thread that passes requests on through epoll can be much faster.
//!
//!     relay ADDRESS:PORT:BYTES http ADDRESS:PORT        connections to the upstream are kept
//!     relay ADDRESS:PORT:BYTES fastcgi SOCKET SCRIPT    a connection for each request, as php-fpm wants it

use gallop_runtime::{start_connect, ConnectTo, Epoll, Listening};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::process::ExitCode;

mod answer;

/// The target of the requests.
struct Upstream {
    to: ConnectTo,
    request: Vec<u8>,
    keep: bool,
}

enum Place {
    Nobody,
    Client(TcpStream),
    /// A connection to the upstream, and the number of its client while a request is under way.
    Upstream(TcpStream, Option<RawFd>),
}

struct Relay {
    epoll: Epoll,
    upstream: Upstream,
    answer: Vec<u8>,
    /// By descriptor number.
    places: Vec<Place>,
    idle: Vec<RawFd>,
    buffer: Vec<u8>,
}

struct Port(TcpListener);

impl Listening for Port {
    fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

const LISTENER: u64 = u64::MAX;
/// Edge-triggered events, which cost the kernel less than level-triggered ones.
const CHANGES: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("relay: {message}");
            ExitCode::FAILURE
        }
    }
}

fn upstream(words: &[String]) -> Option<Upstream> {
    match words {
        [kind, address] if kind == "http" => Some(Upstream {
            to: ConnectTo::Inet(address.parse().ok()?),
            request: b"GET /proxy HTTP/1.1\r\nHost: fast\r\n\r\n".to_vec(),
            keep: true,
        }),
        [kind, socket, script] if kind == "fastcgi" => Some(Upstream {
            to: ConnectTo::Unix(socket.into()),
            request: fastcgi(script),
            keep: false,
        }),
        _ => None,
    }
}

/// A request by the FastCGI specification: BEGIN_REQUEST (a responder without keeping the
/// connection), PARAMS, and the ends of PARAMS and STDIN.
fn fastcgi(script: &str) -> Vec<u8> {
    let mut params = Vec::new();
    for (name, value) in [
        ("SCRIPT_FILENAME", script),
        ("REQUEST_METHOD", "GET"),
        ("QUERY_STRING", ""),
    ] {
        assert!(value.len() < 128, "a longer value is told of in four bytes");
        params.extend([name.len() as u8, value.len() as u8]);
        params.extend(name.bytes().chain(value.bytes()));
    }
    let record = |kind: u8, content: &[u8]| {
        let [high, low] = (content.len() as u16).to_be_bytes();
        [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
    };
    [
        record(1, &[0, 1, 0, 0, 0, 0, 0, 0]),
        record(4, &params),
        record(4, &[]),
        record(5, &[]),
    ]
    .concat()
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage =
        || "wants ADDRESS:PORT:BYTES, and http ADDRESS:PORT or fastcgi SOCKET SCRIPT".to_owned();
    let (own, rest) = words.split_first().ok_or_else(usage)?;
    let upstream = upstream(rest).ok_or_else(usage)?;
    let (address, size) = own.rsplit_once(':').ok_or_else(usage)?;
    let size = size.parse().map_err(|_| usage())?;
    let text = |e: io::Error| e.to_string();
    let listener = Port(TcpListener::bind(address).map_err(text)?);
    listener.0.set_nonblocking(true).map_err(text)?;
    let mut relay = Relay {
        epoll: Epoll::new().map_err(text)?,
        upstream,
        answer: answer::with_body(size, false),
        places: Vec::new(),
        idle: Vec::new(),
        buffer: vec![0; 16_384],
    };
    relay
        .epoll
        .add(listener.raw(), libc::EPOLLIN as u32, LISTENER)
        .map_err(text)?;
    let mut events = Vec::with_capacity(512);
    loop {
        relay.epoll.wait(&mut events, -1);
        for event in &events {
            match event.u64 {
                LISTENER => relay.accept(&listener).map_err(text)?,
                fd => relay.serve(fd as usize),
            }
        }
    }
}

impl Relay {
    fn accept(&mut self, listener: &Port) -> io::Result<()> {
        while let Ok((fd, _, _)) = listener.accept() {
            self.join(fd.as_raw_fd(), Place::Client(fd.into()))?;
        }
        Ok(())
    }

    fn join(&mut self, fd: RawFd, place: Place) -> io::Result<()> {
        let index = fd as usize;
        if self.places.len() <= index {
            self.places.resize_with(index + 1, || Place::Nobody);
        }
        self.places[index] = place;
        self.epoll.add(fd, CHANGES, fd as u64)
    }

    /// Handle an event of the connection with this number.
    fn serve(&mut self, index: usize) {
        let (stream, waits) = match &mut self.places[index] {
            Place::Nobody => return,
            Place::Client(stream) => (stream, None),
            Place::Upstream(stream, client) => (stream, Some(client)),
        };
        let came = match stream.read(&mut self.buffer) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            came => came.unwrap_or(0),
        };
        match waits {
            _ if came == 0 => {
                self.places[index] = Place::Nobody;
                self.idle.retain(|fd| *fd as usize != index);
            }
            None => {
                if let Err(e) = self.ask(index as RawFd) {
                    eprintln!("relay: {e}");
                    self.places[index] = Place::Nobody;
                }
            }
            Some(client) => {
                let client = client.take();
                // A response here always arrives in one read.
                match self.upstream.keep {
                    true => self.idle.push(index as RawFd),
                    false => self.places[index] = Place::Nobody,
                }
                if let Some(Place::Client(stream)) = client.map(|fd| &mut self.places[fd as usize])
                {
                    // The next event reports a client that has left.
                    let _ = stream.write_all(&self.answer);
                }
            }
        }
    }

    /// Pass a client's request on.
    fn ask(&mut self, client: RawFd) -> io::Result<()> {
        if let Some(fd) = self.idle.pop() {
            if let Place::Upstream(stream, waits) = &mut self.places[fd as usize] {
                *waits = Some(client);
                return stream.write_all(&self.upstream.request);
            }
        }
        let (fd, connected) = start_connect(&self.upstream.to, None)?;
        if let Err(e) = connected {
            // On the same host, the connection is established nevertheless.
            if e.raw_os_error() != Some(libc::EINPROGRESS) {
                return Err(e);
            }
        }
        let mut stream = TcpStream::from(fd);
        stream.write_all(&self.upstream.request)?;
        let fd = stream.as_raw_fd();
        self.join(fd, Place::Upstream(stream, Some(client)))
    }
}
