//! The limit: a program that answers every request on a connection with the same prepared bytes, by one
//! read and one write. No HTTP/1.1 server of one thread that reads and writes through epoll can be much
//! faster. It also serves as the upstream that costs next to nothing.
//!
//!     limit ADDRESS:BODY_BYTES[:close]...

use gallop_runtime::{Epoll, Listening};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::process::ExitCode;

mod answer;

struct Port {
    listener: TcpListener,
    answer: Vec<u8>,
    close: bool,
}

impl Listening for Port {
    fn raw(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}

/// A client, and the port that it connected to.
type Client = (TcpStream, usize);

/// Marks the keys of listening sockets.
const LISTENER: u64 = 1 << 32;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("limit: {message}");
            ExitCode::FAILURE
        }
    }
}

fn port(text: &str) -> Result<Port, String> {
    let (text, close) = match text.strip_suffix(":close") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let wrong = || format!("wants ADDRESS:PORT:BYTES[:close], not \"{text}\"");
    let (address, size) = text.rsplit_once(':').ok_or_else(wrong)?;
    let size = size.parse().map_err(|_| wrong())?;
    let listener = TcpListener::bind(address).map_err(|e| format!("{address}: {e}"))?;
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    Ok(Port {
        listener,
        answer: answer::with_body(size, close),
        close,
    })
}

fn run() -> Result<(), String> {
    let ports: Vec<Port> = std::env::args()
        .skip(1)
        .map(|text| port(&text))
        .collect::<Result<_, _>>()?;
    let text = |e: io::Error| e.to_string();
    let epoll = Epoll::new().map_err(text)?;
    for (index, port) in ports.iter().enumerate() {
        epoll
            .add(port.raw(), libc::EPOLLIN as u32, LISTENER | index as u64)
            .map_err(text)?;
    }
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut events = Vec::with_capacity(512);
    let mut buffer = vec![0; 16_384];
    loop {
        epoll.wait(&mut events, -1);
        for event in &events {
            let key = event.u64;
            if key & LISTENER != 0 {
                let index = (key & !LISTENER) as usize;
                accept(&epoll, &ports[index], index, &mut clients).map_err(text)?;
                continue;
            }
            let fd = key as usize;
            if let Some((stream, index)) = &mut clients[fd] {
                if !serve(stream, &ports[*index], &mut buffer) {
                    clients[fd] = None;
                }
            }
        }
    }
}

fn accept(
    epoll: &Epoll,
    port: &Port,
    index: usize,
    clients: &mut Vec<Option<Client>>,
) -> io::Result<()> {
    while let Ok((fd, _, _)) = port.accept() {
        let stream = TcpStream::from(fd);
        let fd = stream.as_raw_fd();
        epoll.add(fd, libc::EPOLLIN as u32, fd as u64)?;
        if clients.len() <= fd as usize {
            clients.resize_with(fd as usize + 1, || None);
        }
        clients[fd as usize] = Some((stream, index));
    }
    Ok(())
}

/// Serve a readable connection; `true` if it stays open.
fn serve(stream: &mut TcpStream, port: &Port, buffer: &mut [u8]) -> bool {
    match stream.read(buffer) {
        Ok(0) => false,
        // A request here always arrives in one read, and the response fits into the socket's
        // buffer.
        Ok(n) if buffer[..n].ends_with(b"\r\n\r\n") => {
            stream.write_all(&port.answer).is_ok() && !port.close
        }
        Ok(_) => true,
        Err(e) => e.kind() == io::ErrorKind::WouldBlock,
    }
}
