//! Decides which responses may be prepared (see [`crate::prepared`]) and what they depend on.

use crate::conn::Conn;
use gallop_conf::model::{Location, Server, VerifyClient};
use std::sync::Arc;

/// The origin of a request: the listening address, and the server block that TLS chose, which
/// serves unknown hosts. Zero means that there was no such choice.
pub type Origin = (usize, usize);

/// The origin of a connection's requests.
pub fn origin(conn: &Conn) -> Origin {
    let sni = conn
        .sni_server()
        .map_or(0, |server| Arc::as_ptr(server) as usize);
    (Arc::as_ptr(&conn.endpoint) as usize, sni)
}

/// The cache key of a request: everything that its response depends on. Arguments are not part of
/// it, since prepared responses do not use them.
pub fn key((endpoint, sni): Origin, host: &[u8], target: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&endpoint.to_ne_bytes());
    out.extend_from_slice(&sni.to_ne_bytes());
    out.extend_from_slice(host);
    out.push(0);
    let end = memchr::memchr(b'?', target).unwrap_or(target.len());
    out.extend_from_slice(&target[..end]);
}

/// Whether responses of a location depend only on host, path, and files.
pub fn is_plain(server: &Server, location: &Location) -> bool {
    let conf = &location.conf;
    let literal = |t: &gallop_conf::template::Template| t.as_literal().is_some();
    is_straight(server, location)
        && location.handler.is_none()
        && conf.root.as_ref().is_none_or(|r| literal(&r.path))
        && gallop_conf::model::items(&conf.index).iter().all(literal)
        && conf.random_index != Some(true)
        // A client that changes a file sees the change at once.
        && conf.dav_methods.is_none()
        && conf
            .charset
            .as_ref()
            .is_none_or(|c| c.0.as_ref().is_none_or(literal))
}

/// Whether requests go directly to a location's handler and its responses directly to the client,
/// so that nothing uses more than host and target or changes the body.
pub(crate) fn is_straight(server: &Server, location: &Location) -> bool {
    let conf = &location.conf;
    let literal = |t: &gallop_conf::template::Template| t.as_literal().is_some();
    // A required client certificate is checked for each request.
    matches!(
        server.conf.ssl_verify_client,
        None | Some(VerifyClient::Off)
    ) && server.root.ops.is_empty()
        && location.ops.is_empty()
        && location.limit_except.is_none()
        && conf.access.is_none()
        && conf.auth_basic.is_none()
        && !matches!(conf.auth_request, Some(Some(_)))
        && conf.limit_req.is_none()
        && conf.limit_conn.is_none()
        && conf.limit_rate.is_none()
        && conf.set_real_ip_from.is_none()
        && conf.expires.is_none()
        && conf.userid.is_none()
        && gallop_conf::model::items(&conf.add_header)
            .iter()
            .all(|h| literal(&h.value))
        && conf.add_trailer.is_none()
        && conf.gzip_static.is_none()
        && conf.disable_symlinks.is_none()
        && conf.mirror.is_none()
        && conf.ssi.is_none()
        && conf.gunzip.is_none()
        && conf.brotli.is_none()
        && conf.zstd.is_none()
        && conf.add_before_body.is_none()
        && conf.add_after_body.is_none()
        && conf.sub_filter.is_none()
        && conf.source_charset.is_none()
        && conf.keepalive_disable.is_none()
}
