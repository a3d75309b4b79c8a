//! The checks of a request's head: its target, server block, TLS connection, and method.

use super::fields::{has_duplicate, read_no_fields};
use super::server::choose_server;
use crate::exchange::Exchange;
use crate::uri;
use gallop_conf::model::{Level, VerifyClient};
use gallop_http::message::Version;

/// The result of checking a request's head.
pub enum Begin {
    Process,
    /// Malformed: respond with this status and close.
    Refuse(u16),
}

/// Parse the target and choose the server block; call this once the head is complete. As in nginx,
/// the target is parsed before any field, with the settings of the connection's own server block.
pub fn begin(ex: &mut Exchange) -> Begin {
    if !read_target(ex) {
        ex.log(Level::Info, "client sent invalid request");
        return Begin::Refuse(400);
    }
    if let Err(reason) = choose_server(ex) {
        ex.log(Level::Info, reason);
        return Begin::Refuse(400);
    }
    if let Some(status) = tls_refusal(ex) {
        return Begin::Refuse(status);
    }
    if is_misdirected(ex) {
        let message = "client attempted to request the server name different from the one that was negotiated";
        ex.log(Level::Info, message);
        return Begin::Refuse(421);
    }
    if ex.version() == Version::Http2 && !speaks_http2(ex) {
        ex.log(
            Level::Info,
            "client sent HTTP/2 request to a server without it",
        );
        return Begin::Refuse(421);
    }
    if matches!(ex.head.method(), b"CONNECT" | b"TRACE") {
        ex.log(Level::Info, "client sent TRACE or CONNECT method");
        return Begin::Refuse(405);
    }
    Begin::Process
}

/// For a request with a malformed header line, choose the server block by the lines before it.
/// Returns `false` if those already contain an error: in the target, the host, or a duplicate
/// field.
pub fn begin_refused(ex: &mut Exchange) -> bool {
    if !read_target(ex) {
        return false;
    }
    if ex.head.get("host").is_none() && ex.head.authority.is_empty() {
        return !has_duplicate(ex);
    }
    match choose_server(ex) {
        Ok(()) => true,
        Err(reason) => {
            ex.log(Level::Info, reason);
            false
        }
    }
}

/// Parse the target; `false` if it is malformed.
fn read_target(ex: &mut Exchange) -> bool {
    if let Some(server) = ex.conn.sni_server().cloned() {
        ex.loc = server.root.clone();
        ex.server = server;
    }
    let merge = ex.server.conf.merge_slashes.unwrap_or(true);
    let mut parsed = std::mem::take(&mut ex.uri);
    let connect = ex.head.method() == b"CONNECT";
    // CONNECT has a name and port instead of a path; as in nginx, it requests the root.
    let target = if connect {
        b"/"
    } else {
        ex.head.text(ex.head.path)
    };
    let ok = uri::parse(target, merge, &mut parsed);
    ex.uri = parsed;
    ex.header_only = ex.head.method() == b"HEAD";
    if !ok {
        ex.uri.path.clear();
        (ex.head.path, ex.head.target) = Default::default();
        read_no_fields(ex);
    }
    ok
}

/// Whether the TLS handshake was for another server block than this one, which requires client
/// certificates. The other block's certificate check does not count here.
fn is_misdirected(ex: &Exchange) -> bool {
    let Some(tls) = ex.conn.tls() else {
        return false;
    };
    let verify = ex.server.conf.ssl_verify_client;
    let verifies = !matches!(verify, None | Some(VerifyClient::Off));
    let other = !tls.server_name.is_empty() && tls.server_name != ex.host;
    verifies && other && ex.conn.endpoint.hosts.choose(&tls.server_name).named
}

/// Whether the chosen server block allows HTTP/2 (RFC 9113, section 9.1.2).
pub(crate) fn speaks_http2(ex: &Exchange) -> bool {
    ex.conn.endpoint.http2 || ex.server.conf.http2 == Some(true)
}

/// The status for a TLS problem of the chosen server block: a plain request on a TLS port, or a
/// missing or invalid client certificate.
fn tls_refusal(ex: &Exchange) -> Option<u16> {
    let Some(tls) = ex.conn.tls() else {
        if !ex.conn.endpoint.ssl {
            return None;
        }
        ex.log(Level::Info, "client sent plain HTTP request to HTTPS port");
        return Some(497);
    };
    let verify = ex
        .server
        .conf
        .ssl_verify_client
        .unwrap_or(VerifyClient::Off);
    let wanted = matches!(verify, VerifyClient::On | VerifyClient::Optional);
    if let Some(reason) = tls.client_verify.strip_prefix("FAILED:").filter(|_| wanted) {
        let message = format!("client SSL certificate verify error: ({reason})");
        ex.log(Level::Info, &message);
        return Some(495);
    }
    if verify == VerifyClient::On && tls.client_verify != "SUCCESS" {
        ex.log(Level::Info, "client sent no required SSL certificate");
        return Some(496);
    }
    None
}
