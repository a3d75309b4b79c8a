//! The choice of the server block by a request's host.

use super::fields::{has_duplicate, read_no_fields};
use crate::exchange::Exchange;
use crate::host::validate_host;
use gallop_http::message::Version;

/// Choose the server block by the request's host; the reason if its head is malformed.
pub(crate) fn choose_server(ex: &mut Exchange) -> Result<(), &'static str> {
    let several = read_host(ex)?;
    let endpoint = ex.conn.endpoint.clone();
    let chosen = endpoint.hosts.choose(&ex.host);
    let sni = ex.conn.sni_server().cloned();
    ex.server = match sni {
        Some(sni) if !chosen.named => sni,
        _ => chosen.server.clone(),
    };
    if let Some((pattern, groups)) = chosen.matched {
        let host = ex.host.clone();
        ex.set_captures(host.as_bytes(), groups, pattern);
    }
    ex.loc = ex.server.root.clone();
    let duplicate = has_duplicate(ex);
    if several {
        return Err("client sent duplicate host header");
    }
    if duplicate {
        return Err("client sent duplicate header line");
    }
    Ok(())
}

/// Read the host that the request names. Returns whether there is more than one `Host` field.
fn read_host(ex: &mut Exchange) -> Result<bool, &'static str> {
    let authority = ex.head.text(ex.head.authority);
    let mut hosts = ex.head.get_all("host");
    let host = hosts.next();
    let several = hosts.next().is_some();
    drop(hosts);
    if host.is_none() && ex.version() == Version::Http11 {
        return Err("client sent HTTP/1.1 request without \"Host\" header");
    }
    let checked = host.map(validate_host);
    if checked == Some(None) {
        return Err("client sent invalid host header");
    }
    let wanted = if authority.is_empty() {
        host
    } else {
        Some(authority)
    };
    let wanted = wanted.filter(|t| !t.is_empty());
    if wanted.is_none() && matches!(ex.version(), Version::Http2 | Version::Http3) {
        return Err("client sent neither \":authority\" nor \"Host\" header");
    }
    if let Some(text) = wanted {
        let known = checked.flatten().filter(|_| authority.is_empty());
        let Some((name, port)) = known.or_else(|| validate_host(text)) else {
            read_no_fields(ex);
            return Err("client sent invalid host in request line");
        };
        // The host usually equals that of the connection's previous request.
        if ex.host.as_bytes() != name {
            let lower = name.iter().map(|&c| char::from(c.to_ascii_lowercase()));
            ex.host.clear();
            ex.host.extend(lower);
        }
        ex.host_port = port;
    }
    Ok(several)
}
