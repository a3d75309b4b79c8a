//! `ssl_preread`: the ClientHello of a session whose TLS another server terminates.

use super::{status, Session};
use crate::scope::Scope;
use crate::upstream::keepalive::Stream;
use gallop_conf::model::Level;
use gallop_http::client_hello::{peek, Peeked};
use gallop_runtime::timeout;
use std::future::poll_fn;

/// The default of `preread_buffer_size`.
const BUFFER: u64 = 16 * 1024;
/// The default of `preread_timeout` in milliseconds.
const TIMEOUT: u64 = 30_000;

/// Wait for the ClientHello if the server block asks for it. Returns the bytes that were read.
///
/// # Errors
/// The status of a session that ends here.
pub async fn wait(session: &mut Session, client: &dyn Stream) -> Result<Vec<u8>, u16> {
    let conf = session.conf();
    if conf.ssl_preread != Some(true) {
        return Ok(Vec::new());
    }
    let room = conf.preread_buffer_size.unwrap_or(BUFFER) as usize;
    let patience = conf.preread_timeout.unwrap_or(TIMEOUT);
    // As in nginx, a client that is silent or leaves ends its session without an error.
    let read = timeout(patience, read(client, room)).await;
    match read.unwrap_or(Read::Ended) {
        Read::Hello(bytes, Peeked::Hello(hello)) => {
            let name = hello.server_name.clone();
            session.hello = Some(hello);
            if !name.is_empty() {
                session.name(&name);
            }
            Ok(bytes)
        }
        Read::Hello(bytes, _) => Ok(bytes),
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
