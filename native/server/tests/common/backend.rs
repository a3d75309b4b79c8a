//! An HTTP server of the test's own whose responses can change while it runs, and a gallop that checks it.

use crate::site::Server;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server does with a request whose path begins with this.
#[derive(Clone, Debug)]
pub enum Does {
    /// Send these bytes and close the connection.
    Answer(String),
    /// Send these bytes and wait for the next request.
    Keep(String),
    /// Send nothing.
    Nothing,
    /// Send these bytes and then the second ones without end.
    Endless(String, String),
}

#[derive(Clone, Default)]
struct State {
    does: Vec<(&'static str, Does)>,
    requests: Vec<String>,
    connections: usize,
}

pub struct Backend {
    pub port: u16,
    state: Arc<Mutex<State>>,
}

/// A whole response that ends with its connection.
pub fn response(status: u16, fields: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} Text\r\nContent-Length: {length}\r\n{fields}\r\n{body}")
}

impl Backend {
    /// A server that answers requests with its name, and those for `/health` with 200.
    pub fn start(name: &str) -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let backend = Backend {
            port,
            state: Arc::default(),
        };
        backend.set("/health", Does::Answer(response(200, "", "fine")));
        backend.set("/", Does::Answer(response(200, "", name)));
        let state = backend.state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = state.clone();
                state.lock().expect("the state").connections += 1;
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        backend
    }

    /// Change what it does from now on.
    pub fn set(&self, path: &'static str, does: Does) {
        let mut state = self.state.lock().expect("the state");
        state.does.retain(|(known, _)| *known != path);
        state.does.push((path, does));
        // The longest path counts.
        state
            .does
            .sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().expect("the state").requests.clone()
    }

    /// The number of requests so far whose path begins with `path`.
    pub fn count(&self, path: &str) -> usize {
        let is_it = |request: &&String| {
            request
                .split(' ')
                .nth(1)
                .is_some_and(|p| p.starts_with(path))
        };
        self.requests().iter().filter(is_it).count()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.state.lock().expect("the state").connections
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    while let Some(request) = read(&mut stream) {
        let path = request.split(' ').nth(1).unwrap_or_default().to_string();
        let does = {
            let mut state = state.lock().expect("the state");
            state.requests.push(request);
            let mut all = state.does.iter();
            all.find(|(known, _)| path.starts_with(known))
                .map(|(_, does)| does.clone())
        };
        match does {
            Some(Does::Keep(text)) if stream.write_all(text.as_bytes()).is_ok() => {}
            Some(Does::Answer(text)) => {
                let _ = stream.write_all(text.as_bytes());
                return;
            }
            Some(Does::Endless(head, more)) => {
                let _ = stream.write_all(head.as_bytes());
                while stream.write_all(more.as_bytes()).is_ok() {}
                return;
            }
            Some(Does::Nothing) => {
                // Until the client gives up.
                let _ = stream.read(&mut [0; 1]);
                return;
            }
            _ => return,
        }
    }
}

/// The head of the next request.
fn read(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0; 1];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// An HTTP server with an upstream `u` of these servers, which `/` passes requests to.
pub fn site(servers: &str, health_check: &str, more: &str) -> String {
    format!(
        "upstream u {{ zone u 64k; {servers} }} {more}
         server {{ listen 127.0.0.1:{{port}}; server_name localhost;
             location /status {{ status; }}
             location /metrics {{ status format=prometheus; }}
             location / {{ proxy_pass http://u; health_check {health_check}; }} }}"
    )
}

pub fn servers(backends: &[&Backend]) -> String {
    let server = |b: &&Backend| format!("server 127.0.0.1:{} max_fails=0;", b.port);
    backends.iter().map(server).collect()
}

/// The state that the status page tells of a server.
pub fn state(server: &Server, backend: &Backend) -> String {
    state_in(server, "u", backend.port)
}

pub fn state_in(server: &Server, group: &str, port: u16) -> String {
    let page = server.get("/status", "");
    let (_, upstreams) = page.split_once("\"upstreams\":").expect("the upstreams");
    let (_, group) = upstreams
        .split_once(&format!("\"{group}\":"))
        .expect("the group");
    let (_, peer) = group
        .split_once(&format!(":{port}\":"))
        .expect("the server");
    let (_, state) = peer.split_once("\"state\":\"").expect("its state");
    state.split('"').next().expect("a word").to_string()
}

pub fn wait_for_state(server: &Server, backend: &Backend, word: &str) {
    server.wait_for(word, |s| state(s, backend) == word);
}

/// The bodies of so many responses.
pub fn answers(server: &Server, n: usize) -> Vec<String> {
    let body = |_| {
        let answer = server.get("/", "");
        answer
            .rsplit("\r\n\r\n")
            .next()
            .unwrap_or_default()
            .to_string()
    };
    (0..n).map(body).collect()
}

pub fn line(word: &str, doing: &str, name: &str, port: u16) -> String {
    format!(
        "peer is {word} while {doing}, health check \"{name}\" of peer 127.0.0.1:{port} in upstream \"u\""
    )
}
