//! `listen unix:PATH udp` in `stream`.

use crate::site::{Folder, Server};
use crate::udp::{is_gone, worker, HTTP, SILENCE};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

fn start(main: &str, stream: &str) -> Server {
    let folder = Folder::new();
    let stream = stream.replace("%%", &folder.0.to_string_lossy());
    let main = format!("user root; {main} stream {{ {stream} }}");
    let server = Server::start_changed(folder, &main, HTTP);
    server.wait_for("a worker", |s| worker(s).is_some());
    server
}

fn client(server: &Server, name: &str) -> UnixDatagram {
    let socket = UnixDatagram::bind(server.folder.0.join(name)).expect("a socket");
    connected(server, socket)
}

fn connected(server: &Server, socket: UnixDatagram) -> UnixDatagram {
    let to = server.folder.0.join("gallop");
    server.wait_for("the socket", |_| socket.connect(&to).is_ok());
    socket
}

fn ask(socket: &UnixDatagram, text: &str, patience: Duration) -> Option<String> {
    socket.send(text.as_bytes()).expect("sent");
    socket.set_read_timeout(Some(patience)).expect("a timeout");
    let mut buffer = vec![0; 65_536];
    let n = socket.recv(&mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..n]).into_owned())
}

/// A server that answers with the number of its peers so far, a colon, and the datagram.
fn count() -> u16 {
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = udp.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        let (mut peers, mut buffer) = (Vec::new(), vec![0; 65_536]);
        while let Ok((n, from)) = udp.recv_from(&mut buffer) {
            if !peers.contains(&from) {
                peers.push(from);
            }
            let place = peers.iter().position(|p| *p == from).unwrap_or_default();
            let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
            let _ = udp.send_to(format!("{place}:{text}").as_bytes(), from);
        }
    });
    port
}

#[test]
fn clients_of_a_unix_socket_have_sessions_by_path_and_a_reload_keeps_the_socket() {
    let port = count();
    let server = start(
        "worker_processes 3;",
        &format!(
            "log_format f '$status $protocol $remote_addr $server_addr $bytes_received';
             access_log udp.log f; proxy_timeout 400ms;
             server {{ listen unix:%%/gallop udp; proxy_pass 127.0.0.1:{port}; }}"
        ),
    );
    let (one, two) = (client(&server, "one"), client(&server, "two"));
    let long = "x".repeat(20_000);
    for text in ["a", "", &long] {
        let expected = format!("0:{text}");
        assert_eq!(ask(&one, text, crate::PATIENCE), Some(expected));
    }
    assert_eq!(ask(&two, "b", crate::PATIENCE).as_deref(), Some("1:b"));
    let at = server.folder.0.join("gallop");
    let line = format!("200 UDP unix: unix:{} 20001\n", at.display());
    server.wait_for("the line", |s| s.log("udp.log").contains(&line));
    let old = worker(&server).expect("a worker");
    server.signal("HUP");
    server.wait_for("the end of the old worker", |_| is_gone(&old));
    assert_eq!(ask(&one, "c", crate::PATIENCE).as_deref(), Some("2:c"));
}

#[test]
fn clients_without_a_path_are_served_but_get_no_response() {
    let server = start(
        "",
        "log_format f '$status $bytes_received $bytes_sent'; access_log udp.log f;
         server { listen unix:%%/gallop udp; return hello; }",
    );
    let named = client(&server, "one");
    assert_eq!(ask(&named, "x", crate::PATIENCE).as_deref(), Some("hello"));
    let nameless = UnixDatagram::unbound().expect("a socket");
    let nameless = connected(&server, nameless);
    assert_eq!(ask(&nameless, "xyz", SILENCE), None);
    server.wait_for("the line", |s| s.log("udp.log") == "200 1 5\n200 3 0\n");
}
