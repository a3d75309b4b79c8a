//! The beginning of a connection: TLS or not, and which version of HTTP is spoken on it.

use crate::tls::{describe, session_id, Alpn, HandshakeError, Hello, Secure, Store, TlsStream};
use crate::transport::{Plain, Transport};
use crate::{h1, h2};
use gallop_conf::model::{Level, Server};
use gallop_engine::exchange::ProxyProtocol;
use gallop_engine::{Conn, Worker};
use gallop_http::proxy_protocol;
use gallop_runtime::{timeout, Sock};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// First byte of a TLS record that holds a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// Serves a connection from its first byte to its end.
pub async fn serve(worker: Rc<Worker>, tls: &Store, mut conn: Conn, sock: Sock) {
    let server = conn.endpoint.hosts.default.clone();
    let limit = server.conf.client_header_timeout.unwrap_or(60_000);
    if conn.endpoint.proxy_protocol {
        match timeout(limit, proxy_header(&sock)).await {
            Ok(Ok(header)) => conn.proxy_protocol = Some(header),
            Ok(Err(reason)) => {
                let message = format!("*{} {reason} while reading PROXY protocol", conn.id);
                return worker.log(Level::Error, &message);
            }
            Err(_) => return,
        }
    }
    if conn.endpoint.ssl {
        return secure(worker, tls, conn, sock, limit).await;
    }
    let io = Plain::new(sock);
    let early = if conn.endpoint.http2 || speaks_http2(&server) {
        match timeout(limit, preface(&io)).await {
            Ok(Ok(early)) => early,
            _ => return,
        }
    } else {
        Vec::new()
    };
    let conn = Rc::new(conn);
    if early.starts_with(h2::PREFACE) || is_broken_preface(&early) {
        h2::serve(worker, conn, io, early).await;
    } else {
        h1::serve(worker, conn, io, early).await;
    }
}

/// Takes the PROXY protocol's header off the front of a connection.
async fn proxy_header(sock: &Sock) -> Result<ProxyProtocol, String> {
    let mut buffer = [0; 4096 + 16];
    let mut known = 0;
    loop {
        let n = sock
            .peek(&mut buffer, known)
            .await
            .map_err(|e| e.to_string())?;
        if n <= known {
            return Err("client closed connection".into());
        }
        known = n;
        let parsed = proxy_protocol::parse(&buffer[..n]);
        let Some((header, len)) = parsed.map_err(|_| "broken header: invalid PROXY protocol")?
        else {
            continue;
        };
        let mut at = 0;
        while at < len {
            let n = sock
                .read(&mut buffer[at..len])
                .await
                .map_err(|e| e.to_string())?;
            if n == 0 {
                return Err("client closed connection".into());
            }
            at += n;
        }
        return Ok(ProxyProtocol {
            source: header.source,
            destination: header.destination,
            tlvs: header.tlvs,
        });
    }
}

/// Whether the first line has three words or more of which the last is no version of HTTP: then it is
/// no request of HTTP/1 either, and the connection ends as one of HTTP/2 (RFC 9113, section 3.4).
fn is_broken_preface(early: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'\n', early) else {
        return false;
    };
    let mut words = early[..end].trim_ascii_end().rsplit(|&c| c == b' ');
    let last = words.next().unwrap_or_default();
    words.count() >= 2 && !last.starts_with(b"HTTP/")
}

fn speaks_http2(server: &Server) -> bool {
    server.conf.http2 == Some(true)
}

/// Reads until it is clear whether the client begins as HTTP/2 does; what was read.
async fn preface<T: Transport>(io: &T) -> io::Result<Vec<u8>> {
    let mut early = Vec::new();
    let mut buffer = [0; 1024];
    while early.len() < h2::PREFACE.len() && h2::PREFACE.starts_with(&early) {
        let n = poll_fn(|cx| io.poll_read(cx, &mut buffer)).await?;
        if n == 0 {
            break;
        }
        early.extend_from_slice(&buffer[..n]);
    }
    Ok(early)
}

async fn secure(worker: Rc<Worker>, tls: &Store, mut conn: Conn, sock: Sock, limit: u64) {
    let mut first = [0; 1];
    match timeout(limit, sock.read(&mut first)).await {
        Ok(Ok(1)) => {}
        _ => return,
    }
    if first[0] != TLS_HANDSHAKE {
        // Answered with 497, as every request on a TLS port without TLS.
        return h1::serve(worker, Rc::new(conn), Plain::new(sock), first.to_vec()).await;
    }
    let shaken = timeout(limit, shake(tls, &conn, sock, &first)).await;
    let (stream, server, info) = match shaken {
        Ok(Ok(shaken)) => shaken,
        Ok(Err(error)) => return failed(&worker, &conn, &error),
        Err(_) => {
            let message = format!("*{} client timed out during the TLS handshake", conn.id);
            return worker.log(Level::Info, &message);
        }
    };
    let http2 = info.alpn == "h2";
    conn.tls = Some(info);
    *conn.sni_server.get_mut() = server;
    let (conn, io) = (Rc::new(conn), Secure::new(stream));
    if http2 {
        h2::serve(worker, conn, io, Vec::new()).await;
    } else {
        h1::serve(worker, conn, io, Vec::new()).await;
    }
}

type Shaken = (
    TlsStream,
    Option<Arc<Server>>,
    gallop_engine::exchange::TlsInfo,
);

/// Reads the client's hello and goes on as the server block that it names wants.
async fn shake(
    tls: &Store,
    conn: &Conn,
    sock: Sock,
    first: &[u8],
) -> Result<Shaken, HandshakeError> {
    let hello = Hello::read(sock, first).await?;
    let endpoint = &conn.endpoint;
    let named = hello
        .server_name()
        .map(|name| endpoint.hosts.choose(&name).server.clone());
    let server = named.as_ref().unwrap_or(&endpoint.hosts.default);
    let alpn = if endpoint.http2 || speaks_http2(server) {
        Alpn::Http2
    } else {
        Alpn::Http1
    };
    let Some(context) = tls.context(endpoint, server, alpn) else {
        return Err(hello.reject());
    };
    let ciphers = hello.ciphers();
    let stream = hello.finish(context).await?;
    let session = stream.session();
    let mut info = describe(session, session.server_name(), context);
    info.ciphers = ciphers;
    info.session_id = session_id(session);
    Ok((stream, named, info))
}

fn failed(worker: &Worker, conn: &Conn, error: &HandshakeError) {
    let client = conn
        .peer
        .map_or("unix:".to_string(), |peer| peer.ip().to_string());
    let id = conn.id;
    let message = format!("*{id} {error} while SSL handshaking, client: {client}");
    worker.log(Level::Info, &message);
}
