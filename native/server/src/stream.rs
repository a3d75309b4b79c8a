//! The start of a session of `stream`: PROXY protocol, admission, and TLS.

use crate::idle::Idle;
use crate::session::{self, proxy_header, shake};
use crate::tls::{HandshakeError, Sealed, Store, TlsStream};
use crate::worker::{Busy, ConnectionCount};
use gallop_conf::model::{Level, Server, VerifyClient};
use gallop_engine::exchange::TlsInfo;
use gallop_engine::scope::Scope;
use gallop_engine::stream::pass::{self, Target};
use gallop_engine::stream::preread::{self, Client};
use gallop_engine::stream::{serve, status, Session};
use gallop_engine::{Conn, Worker};
use gallop_runtime::{spawn, timeout, Sock};
use std::rc::Rc;
use std::sync::Arc;

/// The default of `proxy_protocol_timeout` in milliseconds.
const PROXY_PROTOCOL_MS: u64 = 30_000;
/// The default of `ssl_handshake_timeout` in milliseconds.
const HANDSHAKE_MS: u64 = 60_000;

/// The bytes of a connection.
enum Link {
    Plain(Sock),
    /// TLS was terminated.
    Tls(Box<TlsStream>),
}

/// A connection that another listening socket takes.
struct Passed {
    conn: Conn,
    link: Link,
    is_stream: bool,
}

/// The end of a session.
enum Outcome {
    Ended(u16),
    Passed(Target, Link),
}

/// Handle an accepted connection in a task of its own.
pub fn accept(idle: &Rc<Idle>, tls: &Arc<Store>, conn: Conn, count: ConnectionCount, sock: Sock) {
    let (idle, tls) = (idle.clone(), tls.clone());
    let busy = Busy::new(idle.worker().clone(), sock.raw());
    spawn(async move {
        let link = Link::Plain(sock);
        serve_all(idle, tls, conn, count, link, busy).await;
    });
}

/// Serve one session after another, until one ends the connection, or http takes it.
async fn serve_all(
    idle: Rc<Idle>,
    tls: Arc<Store>,
    mut conn: Conn,
    count: ConnectionCount,
    mut link: Link,
    busy: Busy,
) {
    let mut times = 0;
    while let Some(passed) = begin(idle.worker(), &tls, conn, link, times).await {
        (conn, link) = (passed.conn, passed.link);
        times += 1;
        if passed.is_stream {
            continue;
        }
        drop(busy);
        return match link {
            Link::Plain(sock) => session::accept(&idle, &tls, conn, count, sock),
            Link::Tls(stream) => session::accept_secured(&idle, conn, count, *stream),
        };
    }
}

/// Serve a session. Returns the connection if another listening socket takes it.
async fn begin(
    worker: &Rc<Worker>,
    tls: &Store,
    mut conn: Conn,
    link: Link,
    times: u32,
) -> Option<Passed> {
    if let (true, Link::Plain(sock)) = (conn.endpoint.proxy_protocol, &link) {
        conn = introduced(worker, conn, sock).await?;
    }
    let mut session = Session::new(worker.clone(), conn);
    let outcome = match session.admit() {
        Ok(()) => Box::pin(admitted(&mut session, tls, link, times)).await,
        Err(status) => Outcome::Ended(status),
    };
    match outcome {
        Outcome::Ended(status) => {
            session.finish(status);
            None
        }
        Outcome::Passed(target, link) => {
            let conn = target.conn(&session, matches!(link, Link::Tls(_)));
            Some(Passed {
                conn: conn.with_places(session.leave()),
                link,
                is_stream: target.is_stream,
            })
        }
    }
}

/// Read the PROXY protocol header. Without one, the session ends.
async fn introduced(worker: &Rc<Worker>, conn: Conn, sock: &Sock) -> Option<Conn> {
    let default = conn.endpoint.hosts.default.stream.as_ref();
    let limit = default.and_then(|s| s.conf.proxy_protocol_timeout);
    let limit = limit.unwrap_or(PROXY_PROTOCOL_MS);
    let (level, message, status) = match Box::pin(timeout(limit, proxy_header(sock))).await {
        Ok(Ok(header)) => return Some(conn.with_proxy_protocol(header)),
        Ok(Err(reason)) => {
            let message = format!("{reason} while reading PROXY protocol");
            (Level::Error, message, status::BAD_REQUEST)
        }
        Err(_) => {
            let message = "client timed out while reading PROXY protocol".to_string();
            (Level::Info, message, status::OK)
        }
    };
    let session = Session::new(worker.clone(), conn);
    session.log(level, &message);
    session.finish(status);
    None
}

async fn admitted(session: &mut Session, tls: &Store, link: Link, times: u32) -> Outcome {
    let link = match (session.conn.endpoint.ssl, link) {
        (true, Link::Plain(sock)) => match secure(session, tls, sock).await {
            Ok(stream) => Link::Tls(Box::new(stream)),
            Err(status) => return Outcome::Ended(status),
        },
        (_, link) => link,
    };
    let reads = session.conf().ssl_preread == Some(true);
    match link {
        Link::Plain(sock) => match preread::wait(session, Client::Plain(&sock)).await {
            Ok(_) if pass::is_next(session) => pass_on(session, Link::Plain(sock), times),
            Ok(early) => Outcome::Ended(serve(session, &sock, &early).await),
            Err(status) => Outcome::Ended(status),
        },
        Link::Tls(stream) if !reads && pass::is_next(session) => {
            pass_on(session, Link::Tls(stream), times)
        }
        Link::Tls(stream) => Outcome::Ended(sealed(session, stream).await),
    }
}

fn pass_on(session: &Session, link: Link, times: u32) -> Outcome {
    match pass::target(session, times, matches!(link, Link::Tls(_))) {
        Ok(target) => Outcome::Passed(target, link),
        Err(status) => Outcome::Ended(status),
    }
}

async fn sealed(session: &mut Session, stream: Box<TlsStream>) -> u16 {
    let client = Sealed::new(*stream);
    match preread::wait(session, Client::Sealed(&client)).await {
        Ok(early) => serve(session, &client, &early).await,
        Err(status) => status,
    }
}

/// Complete the TLS handshake with the client, and continue with the server block that it names.
async fn secure(session: &mut Session, tls: &Store, sock: Sock) -> Result<TlsStream, u16> {
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
    Ok(stream)
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
