//! The start of a connection: TLS or plain, and the version of HTTP.

use crate::h1::{self, Client};
use crate::h2;
use crate::idle::Idle;
use crate::reuse::Reusable;
use crate::tls::{
    challenge, client as handshaking, describe, session_id, sigalg_name, Alpn, HandshakeError,
    Hello, Secure, Store, TlsStream, SESSION_ID,
};
use crate::transport::{Plain, Transport};
use crate::worker::{Busy, ConnectionCount};
use gallop_conf::model::{Endpoint, Level, Server};
use gallop_engine::exchange::ProxyProtocol;
use gallop_engine::{Conn, Worker};
use gallop_http::proxy_protocol;
use gallop_runtime::{coarse_ms, spawn, timeout, Sock};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// The first byte of a TLS record with a handshake message.
const TLS_HANDSHAKE: u8 = 0x16;

/// Handle an accepted connection. Most can wait for their first request without a task; a PROXY
/// protocol header or TLS needs a task first.
pub fn accept(idle: &Rc<Idle>, tls: &Arc<Store>, conn: Conn, count: ConnectionCount, sock: Sock) {
    if !conn.endpoint.ssl && !conn.endpoint.proxy_protocol {
        let limit = header_timeout(&conn);
        let (conn, io) = (Rc::new(conn), Plain::new(sock));
        return h1::take_up(idle, Client { conn, count, io }, coarse_ms() + limit + 1);
    }
    let (idle, tls) = (idle.clone(), tls.clone());
    spawn(async move {
        let _busy = Busy::new(idle.worker().clone(), sock.raw());
        serve(idle, &tls, conn, count, sock).await;
    });
}

/// Handle a connection of `stream` whose TLS was terminated there.
pub fn accept_secured(idle: &Rc<Idle>, conn: Conn, count: ConnectionCount, stream: TlsStream) {
    let (conn, io) = (Rc::new(conn), Secure::new(stream));
    let client = Client { conn, count, io };
    if may_begin_as_http2(&client.conn) {
        return spawn(plain(idle.clone(), client, Vec::new()));
    }
    spawn(h1::serve(idle.clone(), client, h1::Start::default()));
}

fn header_timeout(conn: &Conn) -> u64 {
    let conf = &conn.endpoint.hosts.default.conf;
    conf.client_header_timeout.unwrap_or(60_000)
}

/// Serve a connection from its first byte. State that only some connections need, or only for a
/// while, is boxed, so that long-lived connections stay small.
async fn serve(idle: Rc<Idle>, tls: &Store, mut conn: Conn, count: ConnectionCount, sock: Sock) {
    let limit = header_timeout(&conn);
    let reusable = idle.reuse().add(Some(sock.raw()));
    reusable.waits();
    if conn.endpoint.proxy_protocol {
        match Box::pin(timeout(limit, proxy_header(&sock))).await {
            Ok(Ok(header)) => conn = conn.with_proxy_protocol(header),
            Ok(Err(reason)) => {
                let message = format!("*{} {reason} while reading PROXY protocol", conn.id);
                return idle.worker().log(Level::Error, &message);
            }
            Err(_) => return,
        }
    }
    if conn.endpoint.ssl {
        return secure(idle, tls, conn, count, sock, reusable).await;
    }
    drop(reusable);
    let (conn, io) = (Rc::new(conn), Plain::new(sock));
    let client = Client { conn, count, io };
    if may_begin_as_http2(&client.conn) {
        return Box::pin(plain(idle, client, Vec::new())).await;
    }
    Box::pin(h1::serve(idle, client, h1::Start::default())).await;
}

/// Whether a connection without TLS may speak HTTP/2, which its first bytes tell.
fn may_begin_as_http2(conn: &Conn) -> bool {
    conn.endpoint.http2 || speaks_http2(&conn.endpoint.hosts.default)
}

/// Whether the first bytes of a connection are, or may become, the HTTP/2 preface.
pub fn begins_as_http2(conn: &Conn, early: &[u8]) -> bool {
    let fresh = conn.requests.get() == 0 && conn.tls().is_none();
    fresh
        && may_begin_as_http2(conn)
        && (early.starts_with(h2::PREFACE)
            || h2::PREFACE.starts_with(early)
            || is_broken_preface(early))
}

/// Continue with a connection whose first bytes may be the HTTP/2 preface.
pub fn begin(idle: &Rc<Idle>, client: Client<Plain>, early: Vec<u8>) {
    spawn(plain(idle.clone(), client, early));
}

/// Serve a connection whose first bytes show the version of HTTP.
async fn plain<T: Transport>(idle: Rc<Idle>, client: Client<T>, early: Vec<u8>) {
    let _busy = Busy::new(idle.worker().clone(), client.io.raw());
    let limit = header_timeout(&client.conn);
    let Ok(Ok(early)) = Box::pin(timeout(limit, preface(&client.io, early))).await else {
        return;
    };
    if early.starts_with(h2::PREFACE) || is_broken_preface(&early) {
        let Client { conn, count, io } = client;
        Box::pin(h2::serve(idle, conn, io, early)).await;
        drop(count);
    } else {
        let start = h1::Start {
            early,
            ..h1::Start::default()
        };
        Box::pin(h1::serve(idle, client, start)).await;
    }
}

/// Remove the PROXY protocol header from the start of a connection.
pub async fn proxy_header(sock: &Sock) -> Result<ProxyProtocol, String> {
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

/// Whether the first line has at least three words and the last is no HTTP version. Such a line is
/// no HTTP/1 request either, so the connection ends with an HTTP/2 error (RFC 9113, section 3.4).
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

/// Read after `early` until it is clear whether the client starts with the HTTP/2 preface. Returns
/// all bytes read.
async fn preface<T: Transport>(io: &T, mut early: Vec<u8>) -> io::Result<Vec<u8>> {
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

async fn secure(
    idle: Rc<Idle>,
    tls: &Store,
    conn: Conn,
    count: ConnectionCount,
    sock: Sock,
    reusable: Rc<Reusable>,
) {
    let limit = header_timeout(&conn);
    let mut first = [0; 1];
    match timeout(limit, sock.read(&mut first)).await {
        Ok(Ok(1)) => {}
        _ => return,
    }
    // The TLS handshake has begun.
    drop(reusable);
    if first[0] != TLS_HANDSHAKE {
        // The response is 497, as for every plain request on a TLS port.
        let (conn, io) = (Rc::new(conn), Plain::new(sock));
        let start = h1::Start {
            early: first.to_vec(),
            ..h1::Start::default()
        };
        return Box::pin(h1::serve(idle, Client { conn, count, io }, start)).await;
    }
    let worker = idle.worker().clone();
    let shaken = Box::pin(timeout(limit, shake(tls, &conn, sock, &first))).await;
    let (stream, server, info) = match shaken {
        Ok(Ok(shaken)) => shaken,
        Ok(Err(error)) => return failed(&worker, &conn, &error),
        Err(_) => {
            let message = format!("*{} client timed out during the TLS handshake", conn.id);
            return worker.log(Level::Info, &message);
        }
    };
    let http2 = info.alpn == "h2";
    let conn = Rc::new(conn.with_tls(info, server));
    let io = Secure::new(stream);
    if http2 {
        Box::pin(h2::serve(idle, conn, io, Vec::new())).await;
        drop(count);
    } else {
        let client = Client { conn, count, io };
        Box::pin(h1::serve(idle, client, h1::Start::default())).await;
    }
}

pub type Shaken = (
    TlsStream,
    Option<Arc<Server>>,
    gallop_engine::exchange::TlsInfo,
);

/// Read the ClientHello and continue with the settings of the server block that it names.
pub async fn shake(
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
    if hello.is_challenge() {
        if let Some((name, proof)) = challenge(&hello, endpoint) {
            return Err(hello.show(name, &proof).await);
        }
    }
    let alpn = if server.stream.is_some() {
        Alpn::Stream
    } else if endpoint.http2 || speaks_http2(server) {
        Alpn::Http2
    } else {
        Alpn::Http1
    };
    let Some(context) = tls.context(endpoint, server, alpn) else {
        return Err(hello.reject());
    };
    let offered = hello.offered();
    let client = || {
        let mut known = gallop_engine::exchange::TlsInfo {
            server_name: hello.server_name().unwrap_or_default(),
            ..Default::default()
        };
        offered.clone().put(&mut known);
        handshaking(conn.moved(conn.peer()), server, known)
    };
    let context = context.for_client(client);
    let stream = hello.finish(context.config()).await?;
    let session = stream.session();
    let mut info = describe(session, session.server_name(), &context);
    if let (Some(inquiry), "SUCCESS") = (&context.ocsp, info.client_verify.as_str()) {
        let shown = session.peer_certificates().unwrap_or_default();
        if let Some(reason) = inquiry.refuses(shown).await {
            info.client_verify = format!("FAILED:{reason}");
        }
    }
    offered.put(&mut info);
    let exported = session.export_keying_material([0; 32], SESSION_ID, None);
    info.session_id = session_id(exported.unwrap_or_default());
    let signed = stream.signed();
    (info.sigalg, info.client_sigalg) = (sigalg_name(signed.own), sigalg_name(signed.client));
    Ok((stream, named, info))
}

/// The name and the key authorization of the challenge that a certificate authority validates.
/// The block that serves the name also names the folder.
fn challenge(hello: &Hello, endpoint: &Endpoint) -> Option<(String, Vec<u8>)> {
    let name = hello.server_name()?;
    let served = challenge::served_name(&name);
    let server = endpoint.hosts.choose(&served).server;
    let folder = server.conf.acme_tls_challenges.as_ref()?;
    let proof = challenge::key_authorization(folder, &name)?;
    Some((name, proof))
}

fn failed(worker: &Worker, conn: &Conn, error: &HandshakeError) {
    let client = conn
        .peer()
        .map_or("unix:".to_string(), |peer| peer.ip().to_string());
    let id = conn.id;
    let message = format!("*{id} {error} while SSL handshaking, client: {client}");
    worker.log(Level::Info, &message);
}
