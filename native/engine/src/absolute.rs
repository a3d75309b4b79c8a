//! The absolute URL of a redirect.

use crate::exchange::Exchange;

/// The value of `Location` to send: a path becomes an absolute URL, unless `absolute_redirect` is
/// off.
pub fn absolute_location(ex: &Exchange, location: &[u8]) -> Vec<u8> {
    let conf = &ex.loc.conf;
    if location.first() != Some(&b'/') || conf.absolute_redirect == Some(false) {
        return location.to_vec();
    }
    let scheme = if ex.tls { "https" } else { "http" };
    let own_name = conf.server_name_in_redirect == Some(true) && !ex.server.name.is_empty();
    let host = if own_name {
        ex.server.name.clone()
    } else if ex.host.is_empty() {
        let name = ex.conn.local_name().to_string();
        ex.conn.local().map_or(name, |a| match a.ip() {
            std::net::IpAddr::V6(v6) => format!("[{v6}]"),
            v4 => v4.to_string(),
        })
    } else {
        ex.host.clone()
    };
    let default = if ex.tls { 443 } else { 80 };
    let port = ex.conn.local().map_or(0, |a| a.port());
    let port = if conf.port_in_redirect != Some(false) && port != default && port != 0 {
        format!(":{port}")
    } else {
        String::new()
    };
    [format!("{scheme}://{host}{port}").as_bytes(), location].concat()
}
