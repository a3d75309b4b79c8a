//! The start of a session of `stream`: PROXY protocol, admission, and TLS.

use crate::idle::Idle;
use crate::session::{proxy_header, shake};
use crate::tls::{HandshakeError, Sealed, Store};
use crate::worker::{Busy, ConnectionCount};
use gallop_conf::model::{Level, Server, VerifyClient};
use gallop_engine::exchange::TlsInfo;
use gallop_engine::scope::Scope;
use gallop_engine::stream::{preread, serve, status, Session};
use gallop_engine::upstream::keepalive::Stream;
use gallop_engine::{Conn, Worker};
use gallop_runtime::{spawn, timeout, Sock};
use std::rc::Rc;
use std::sync::Arc;

/// The default of `proxy_protocol_timeout` in milliseconds.
const PROXY_PROTOCOL_MS: u64 = 30_000;
/// The default of `ssl_handshake_timeout` in milliseconds.
const HANDSHAKE_MS: u64 = 60_000;

/// Handle an accepted connection in a task of its own.
pub fn accept(idle: &Rc<Idle>, tls: &Arc<Store>, conn: Conn, count: ConnectionCount, sock: Sock) {
    let (worker, tls) = (idle.worker().clone(), tls.clone());
    spawn(async move {
        let _busy = Busy::new(worker.clone(), sock.raw());
        begin(worker, &tls, conn, sock).await;
        drop(count);
    });
}

async fn begin(worker: Rc<Worker>, tls: &Store, mut conn: Conn, sock: Sock) {
    if conn.endpoint.proxy_protocol {
        let default = conn.endpoint.hosts.default.stream.as_ref();
        let limit = default.and_then(|s| s.conf.proxy_protocol_timeout);
        let limit = limit.unwrap_or(PROXY_PROTOCOL_MS);
        match Box::pin(timeout(limit, proxy_header(&sock))).await {
            Ok(Ok(header)) => conn = conn.with_proxy_protocol(header),
            Ok(Err(reason)) => {
                let session = Session::new(worker, conn);
                session.log(
                    Level::Error,
                    &format!("{reason} while reading PROXY protocol"),
                );
                return session.finish(status::BAD_REQUEST);
            }
            Err(_) => {
                let session = Session::new(worker, conn);
                session.log(Level::Info, "client timed out while reading PROXY protocol");
                return session.finish(status::OK);
            }
        }
    }
    let mut session = Session::new(worker, conn);
    let status = match session.admit() {
        Ok(()) => Box::pin(admitted(&mut session, tls, sock)).await,
        Err(status) => status,
    };
    session.finish(status);
}

async fn admitted(session: &mut Session, tls: &Store, sock: Sock) -> u16 {
    let client: Box<dyn Stream> = match session.conn.endpoint.ssl {
        false => Box::new(sock),
        true => match secure(session, tls, sock).await {
            Ok(stream) => stream,
            Err(status) => return status,
        },
    };
    match preread::wait(session, &*client).await {
        Ok(early) => serve(session, &*client, &early).await,
        Err(status) => status,
    }
}

/// Complete the TLS handshake with the client, and continue with the server block that it names.
async fn secure(session: &mut Session, tls: &Store, sock: Sock) -> Result<Box<dyn Stream>, u16> {
    let limit = session.conf().ssl_handshake_timeout.unwrap_or(HANDSHAKE_MS);
    let shaken = Box::pin(timeout(limit, shake(tls, &session.conn, sock, &[]))).await;
    let (stream, named, info) = match shaken {
        Ok(Ok(shaken)) => shaken,
        Ok(Err(error)) => {
            session.log(Level::Info, &format!("{error} while SSL handshaking"));
            return Err(match error {
                HandshakeError::Io(_) => status::OK,
                _ => status::INTERNAL_SERVER_ERROR,
            });
        }
        Err(_) => {
            let message = "client timed out (110: Connection timed out) while SSL handshaking";
            session.log(Level::Info, message);
            return Err(status::OK);
        }
    };
    if named.is_some() {
        session.name(info.server_name.as_bytes());
    }
    let refusal = refusal(&session.server, &info);
    session.conn.set_tls(info);
    if let Some(reason) = refusal {
        session.log(Level::Info, &reason);
        return Err(status::INTERNAL_SERVER_ERROR);
    }
    Ok(Box::new(Sealed::new(stream)))
}

/// The reason to end a session whose client did not authenticate as the server block asks.
fn refusal(server: &Server, info: &TlsInfo) -> Option<String> {
    let verify = server.conf.ssl_verify_client.unwrap_or(VerifyClient::Off);
    match (verify, info.client_verify.as_str()) {
        (VerifyClient::Off, _) | (_, "SUCCESS") => None,
        (VerifyClient::On, "NONE") => Some("client sent no required SSL certificate".to_string()),
        (_, "NONE") | (VerifyClient::OptionalNoCa, _) => None,
        (_, failed) => Some(format!(
            "client SSL certificate verify error: {}",
            failed.trim_start_matches("FAILED:")
        )),
    }
}
