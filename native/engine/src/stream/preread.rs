//! `ssl_preread`: the ClientHello of a session whose TLS another server terminates.

use super::{pass, status, Session};
use crate::scope::Scope;
use crate::upstream::keepalive::Stream;
use gallop_conf::model::Level;
use gallop_http::client_hello::{peek, Peeked};
use gallop_runtime::{timeout, Sock};
use std::future::poll_fn;

/// The default of `preread_buffer_size`.
const BUFFER: u64 = 16 * 1024;
/// The first bytes of a buffer that grows.
const FIRST: usize = 2048;
/// The default of `preread_timeout` in milliseconds.
const TIMEOUT: u64 = 30_000;

/// The client's side of a session.
#[derive(Clone, Copy)]
pub enum Client<'a> {
    Plain(&'a Sock),
    /// The bytes of a TLS connection, which can only be read once.
    Sealed(&'a dyn Stream),
}

/// Wait for the ClientHello if the server block asks for it. Returns the bytes that were read: none
/// if another listening socket takes the connection, with all its bytes.
///
/// # Errors
/// The status of a session that ends here.
pub async fn wait(session: &mut Session, client: Client<'_>) -> Result<Vec<u8>, u16> {
    let conf = session.conf();
    if conf.ssl_preread != Some(true) {
        return Ok(Vec::new());
    }
    let room = conf.preread_buffer_size.unwrap_or(BUFFER) as usize;
    let patience = conf.preread_timeout.unwrap_or(TIMEOUT);
    // As in nginx, a client that is silent or leaves ends its session without an error.
    let found = match client {
        Client::Plain(sock) => timeout(patience, look(sock, room)).await,
        Client::Sealed(stream) => timeout(patience, read(stream, room)).await,
    };
    match found.unwrap_or(Read::Ended) {
        Read::Hello(bytes, Peeked::Hello(hello)) => {
            let name = hello.server_name.clone();
            session.hello = Some(hello);
            if !name.is_empty() {
                session.name(&name);
            }
            take(session, client, bytes).await
        }
        Read::Hello(bytes, _) => take(session, client, bytes).await,
        Read::Full => {
            session.log(
                Level::Error,
                "preread buffer full while prereading client data",
            );
            Err(status::BAD_REQUEST)
        }
        Read::Ended => Err(status::OK),
    }
}

enum Read {
    Hello(Vec<u8>, Peeked),
    Full,
    Ended,
}

/// Take the bytes out of a plain connection, unless another listening socket will read them.
async fn take(session: &Session, client: Client<'_>, bytes: Vec<u8>) -> Result<Vec<u8>, u16> {
    let Client::Plain(sock) = client else {
        return Ok(bytes);
    };
    if pass::is_next(session) {
        return Ok(Vec::new());
    }
    let (mut taken, mut at) = (bytes, 0);
    while at < taken.len() {
        match sock.read(&mut taken[at..]).await {
            Ok(n) if n > 0 => at += n,
            _ => return Err(status::OK),
        }
    }
    Ok(taken)
}

/// Read without consuming.
async fn look(sock: &Sock, room: usize) -> Read {
    let mut buffer = vec![0; FIRST.min(room)];
    let mut known = 0;
    loop {
        let n = sock.peek(&mut buffer, known).await.unwrap_or(0);
        if n <= known {
            return Read::Ended;
        }
        known = n;
        match peek(&buffer[..n]) {
            Peeked::Incomplete if n >= room => return Read::Full,
            Peeked::Incomplete if n == buffer.len() => buffer.resize((2 * n).min(room), 0),
            Peeked::Incomplete => {}
            found => {
                buffer.truncate(n);
                return Read::Hello(buffer, found);
            }
        }
    }
}

async fn read(client: &dyn Stream, room: usize) -> Read {
    let mut bytes = Vec::new();
    loop {
        let left = room - bytes.len();
        let n = poll_fn(|cx| client.poll_read_more(cx, &mut bytes, left)).await;
        if !n.is_ok_and(|n| n > 0) {
            return Read::Ended;
        }
        match peek(&bytes) {
            Peeked::Incomplete if bytes.len() >= room => return Read::Full,
            Peeked::Incomplete => {}
            found => return Read::Hello(bytes, found),
        }
    }
}
