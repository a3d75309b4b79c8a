//! Sessions of `stream`. They share addresses, balancing, TLS, variables, limits, and logs with
//! http; the bytes are passed on as they are.
//!
//! A session of TCP goes through [`Session::admit`], then TLS (in the server crate),
//! [`preread::wait`], and [`serve`]; one of UDP through [`Session::admit`] and [`datagram::serve`].

pub mod datagram;
mod inbox;
pub mod pass;
pub mod preread;
pub(crate) mod probe;
mod proxy;
mod rate;
mod relay;
mod session;

pub use inbox::Inbox;
pub use session::Session;

use crate::scope::Scope;
use crate::template;
use crate::upstream::keepalive::Stream;
use gallop_conf::model::{Level, StreamHandler};
use gallop_runtime::timeout;
use std::future::poll_fn;

/// The statuses of sessions.
pub mod status {
    pub const OK: u16 = 200;
    pub const BAD_REQUEST: u16 = 400;
    pub const FORBIDDEN: u16 = 403;
    pub const INTERNAL_SERVER_ERROR: u16 = 500;
    pub const BAD_GATEWAY: u16 = 502;
    pub const SERVICE_UNAVAILABLE: u16 = 503;
}

/// Milliseconds that a client may take to read the text of `return`.
const RETURN_MS: u64 = 60_000;

/// Serve the content of a session. `early`: bytes that the client has already sent. Returns the
/// status.
pub async fn serve(session: &mut Session, client: &dyn Stream, early: &[u8]) -> u16 {
    let server = session.server.clone();
    match server.stream.as_ref().and_then(|s| s.handler.as_ref()) {
        Some(StreamHandler::Proxy(pass)) => proxy::serve(session, pass, client, early).await,
        Some(StreamHandler::Return(text)) => {
            let text = template::eval(session, text);
            // A client that leaves or does not read is the client's own problem.
            let _ = timeout(RETURN_MS, send(session, client, &text)).await;
            status::OK
        }
        Some(StreamHandler::Pass(_)) => {
            session.log(
                Level::Error,
                "cannot pass connection with preread data while passing connection to port",
            );
            status::INTERNAL_SERVER_ERROR
        }
        None => status::INTERNAL_SERVER_ERROR,
    }
}

async fn send(session: &mut Session, client: &dyn Stream, mut text: &[u8]) -> std::io::Result<()> {
    while !text.is_empty() {
        let n = poll_fn(|cx| client.poll_write(cx, text)).await?;
        session.sent += n as u64;
        text = &text[n..];
    }
    poll_fn(|cx| client.poll_flush(cx)).await
}
