//! UDP servers, clients, and a gallop whose `stream` block serves them.

use crate::site::Server;
use std::net::UdpSocket;
use std::time::Duration;

/// An http block that nobody asks; the test server wants one.
pub const HTTP: &str = "server { listen 127.0.0.1:{port}; }";
/// Long enough for a datagram that must not come.
pub const SILENCE: Duration = Duration::from_millis(300);

pub fn start(stream: &str) -> Server {
    let server = Server::start_with(&format!("stream {{ {stream} }}"), HTTP);
    // The pid is written before the first worker waits for datagrams.
    server.wait_for("a worker", |s| worker(s).is_some());
    server
}

/// The process id of the worker.
pub fn worker(server: &Server) -> Option<String> {
    let pid = server.log("g.pid").trim().to_string();
    let children = format!("/proc/{pid}/task/{pid}/children");
    let list = std::fs::read_to_string(children).ok()?;
    list.split_whitespace().next().map(str::to_string)
}

/// The resident memory of the worker in KB.
pub fn memory(server: &Server) -> u64 {
    let worker = worker(server).expect("a worker");
    let status = std::fs::read_to_string(format!("/proc/{worker}/status"));
    let status = status.expect("its status");
    let line = status.lines().find(|l| l.starts_with("VmRSS"));
    let kb = line.expect("a line").split_whitespace().nth(1);
    kb.expect("a number").parse().expect("a number")
}

pub fn is_gone(process: &str) -> bool {
    !std::path::Path::new(&format!("/proc/{process}")).exists()
}

/// A client of that port.
pub fn client(port: u16) -> UdpSocket {
    client_at("127.0.0.1", port)
}

pub fn client_at(address: &str, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).expect("a socket");
    socket.connect((address, port)).expect("connected");
    socket
}

/// The next datagram; `None` if none comes in time.
pub fn received(socket: &UdpSocket, patience: Duration) -> Option<String> {
    socket.set_read_timeout(Some(patience)).expect("a timeout");
    let mut buffer = vec![0; 65_536];
    let n = socket.recv(&mut buffer).ok()?;
    buffer.truncate(n);
    Some(String::from_utf8(buffer).expect("text"))
}

/// Send a datagram and receive the response to it.
pub fn ask(socket: &UdpSocket, text: &str) -> String {
    socket.send(text.as_bytes()).expect("sent");
    received(socket, crate::PATIENCE).expect("a response")
}

/// A server that answers each datagram with the client's port, a colon, and the datagram; one of a
/// number N is answered N times.
pub fn echo() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok((n, from)) = socket.recv_from(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
            let times = text.parse().unwrap_or(1);
            for _ in 0..times {
                let answer = format!("{}:{text}", from.port());
                let _ = socket.send_to(answer.as_bytes(), from);
            }
        }
    });
    port
}

/// The port from which a server was asked.
pub fn source(answer: &str) -> &str {
    answer.split_once(':').expect("a port").0
}
