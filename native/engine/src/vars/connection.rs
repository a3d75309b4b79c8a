//! Built-in variables of connections and of attempts at upstream servers, which `http` and `stream`
//! share.

use crate::conn::Conn;
use crate::exchange::TlsInfo;
use crate::upstream::Attempt;
use crate::{escape, time};
use gallop_conf::vars::Builtin as B;
use gallop_runtime::TcpInfo;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};

pub(super) fn text(out: &mut Vec<u8>, value: &[u8]) -> Option<bool> {
    out.extend_from_slice(value);
    Some(true)
}

pub(super) fn some(out: &mut Vec<u8>, value: Option<&[u8]>) -> Option<bool> {
    match value {
        Some(v) => text(out, v),
        None => Some(false),
    }
}

pub(super) fn show(out: &mut Vec<u8>, value: impl std::fmt::Display) -> Option<bool> {
    // Writing to memory cannot fail.
    let _ = write!(out, "{value}");
    Some(true)
}

pub(super) fn address(out: &mut Vec<u8>, ip: Option<IpAddr>) -> Option<bool> {
    match ip {
        Some(ip) => show(out, ip),
        None => text(out, b"unix:"),
    }
}

pub(super) fn binary(out: &mut Vec<u8>, ip: Option<IpAddr>) -> Option<bool> {
    match ip {
        Some(IpAddr::V4(v4)) => text(out, &v4.octets()),
        Some(IpAddr::V6(v6)) => text(out, &v6.octets()),
        None => text(out, b"unix:"),
    }
}

pub(super) fn port(out: &mut Vec<u8>, addr: Option<SocketAddr>) -> Option<bool> {
    match addr {
        Some(a) => show(out, a.port()),
        None => text(out, b""),
    }
}

/// The client of a request or a session, as variables show it.
pub struct Client<'a> {
    pub conn: &'a Conn,
    pub ip: Option<IpAddr>,
    /// 0 if it is unknown.
    pub port: u16,
    pub server_name: &'a str,
}

/// Append a value that belongs to the connection or to the server; `None` for other variables.
pub fn eval(client: &Client<'_>, b: B, out: &mut Vec<u8>) -> Option<bool> {
    let conn = client.conn;
    let pp = conn.proxy_protocol();
    let wall = gallop_runtime::unix_time();
    match b {
        B::RemoteAddr => address(out, client.ip),
        B::BinaryRemoteAddr => binary(out, client.ip),
        B::RemotePort => match client.port {
            0 => text(out, b""),
            p => show(out, p),
        },
        B::RealipRemoteAddr => address(out, conn.peer().map(|p| p.ip())),
        B::RealipRemotePort => port(out, conn.peer()),
        B::ServerAddr => match conn.local() {
            Some(a) => show(out, a.ip()),
            None => text(out, conn.local_name().as_bytes()),
        },
        B::ServerPort => port(out, conn.local()),
        B::ServerName => text(out, client.server_name.as_bytes()),
        B::Hostname => text(out, crate::worker::hostname().as_bytes()),
        B::Connection => show(out, conn.id),
        B::ConnectionRequests => show(out, conn.requests.get()),
        B::ConnectionTime => {
            let ms = gallop_runtime::now_ms().saturating_sub(conn.started);
            show(out, format_args!("{}.{:03}", ms / 1000, ms % 1000))
        }
        B::ProxyProtocolAddr => endpoint_ip(out, pp.and_then(|p| p.source)),
        B::ProxyProtocolPort => endpoint_port(out, pp.and_then(|p| p.source)),
        B::ProxyProtocolServerAddr => endpoint_ip(out, pp.and_then(|p| p.destination)),
        B::ProxyProtocolServerPort => endpoint_port(out, pp.and_then(|p| p.destination)),
        B::TcpinfoRtt => tcp(conn, out, |info| info.rtt),
        B::TcpinfoRttvar => tcp(conn, out, |info| info.rttvar),
        B::TcpinfoSndCwnd => tcp(conn, out, |info| info.snd_cwnd),
        B::TcpinfoRcvSpace => tcp(conn, out, |info| info.rcv_space),
        B::Pid => show(out, std::process::id()),
        B::NginxVersion => text(out, env!("CARGO_PKG_VERSION").as_bytes()),
        B::Msec => show(out, format_args!("{}.{:03}", wall / 1000, wall % 1000)),
        B::TimeLocal => {
            let now = wall as i64 / 1000;
            text(out, time::log_date(now, time::zone_offset(now)).as_bytes())
        }
        B::TimeIso8601 => {
            let now = wall as i64 / 1000;
            text(out, time::iso_date(now, time::zone_offset(now)).as_bytes())
        }
        _ => None,
    }
}

/// A value from the kernel about the client's TCP connection; nothing for other connections.
fn tcp(conn: &Conn, out: &mut Vec<u8>, pick: fn(&TcpInfo) -> u32) -> Option<bool> {
    match conn.socket().and_then(gallop_runtime::tcp_info) {
        Some(info) => show(out, pick(&info)),
        None => Some(false),
    }
}

fn endpoint_ip(out: &mut Vec<u8>, addr: Option<SocketAddr>) -> Option<bool> {
    match addr {
        Some(a) => show(out, a.ip()),
        None => Some(false),
    }
}

fn endpoint_port(out: &mut Vec<u8>, addr: Option<SocketAddr>) -> Option<bool> {
    match addr {
        Some(a) => show(out, a.port()),
        None => Some(false),
    }
}

/// Append a value that belongs to the attempts at servers of an upstream; `None` for other variables.
pub fn attempts(attempts: &[Attempt], b: B, out: &mut Vec<u8>) -> Option<bool> {
    let number =
        |value: u64, out: &mut Vec<u8>| out.extend_from_slice(value.to_string().as_bytes());
    let each = |out: &mut Vec<u8>, put: &dyn Fn(&Attempt, &mut Vec<u8>)| {
        for (i, attempt) in attempts.iter().enumerate() {
            if i > 0 {
                // An internal redirect starts a new group of attempts.
                out.extend_from_slice(if attempt.new_group { b" : " } else { b", " });
            }
            put(attempt, out);
        }
        Some(!attempts.is_empty())
    };
    let ms = |value: Option<u64>, out: &mut Vec<u8>| match value {
        Some(ms) => out.extend_from_slice(format!("{}.{:03}", ms / 1000, ms % 1000).as_bytes()),
        None => out.push(b'-'),
    };
    match b {
        B::UpstreamAddr => each(out, &|a, out| out.extend_from_slice(a.peer.as_bytes())),
        B::UpstreamStatus => each(out, &|a, out| match a.status {
            0 => out.push(b'-'),
            s => out.extend_from_slice(format!("{s:03}").as_bytes()),
        }),
        B::UpstreamConnectTime => each(out, &|a, out| ms(a.connect_ms, out)),
        B::UpstreamHeaderTime | B::UpstreamFirstByteTime => {
            each(out, &|a, out| ms(a.header_ms, out))
        }
        B::UpstreamResponseTime | B::UpstreamSessionTime => {
            each(out, &|a, out| ms(a.times.response_ms.get(), out))
        }
        B::UpstreamResponseLength => each(out, &|a, out| number(a.times.length.get(), out)),
        B::UpstreamBytesReceived => each(out, &|a, out| number(a.times.received.get(), out)),
        B::UpstreamBytesSent => each(out, &|a, out| number(a.times.sent.get(), out)),
        _ => None,
    }
}

/// Append a value that belongs to the TLS connection; `None` for other variables.
pub fn tls(conn: &Conn, b: B, out: &mut Vec<u8>) -> Option<bool> {
    let Some(tls) = conn.tls() else {
        return Some(false);
    };
    let filled = |out: &mut Vec<u8>, value: &str| {
        out.extend_from_slice(value.as_bytes());
        Some(!value.is_empty())
    };
    match b {
        B::SslProtocol => filled(out, &tls.protocol),
        B::SslCipher => filled(out, &tls.cipher),
        B::SslCiphers => filled(out, &tls.ciphers),
        B::SslCurve => filled(out, &tls.curve),
        B::SslCurves => filled(out, &tls.curves),
        B::SslSigalgs => filled(out, &tls.sigalgs),
        // Encrypted Client Hello is not supported.
        B::SslEchStatus | B::SslEchOuterServerName => Some(false),
        B::SslSigalg => filled(out, tls.sigalg),
        B::SslClientSigalg => filled(out, tls.client_sigalg),
        B::SslAlpnProtocol => filled(out, &tls.alpn),
        B::SslServerName => filled(out, &tls.server_name),
        B::SslSessionId => filled(out, &tls.session_id),
        B::SslSessionReused => text(out, if tls.session_reused { b"r" } else { b"." }),
        B::SslEarlyData => text(out, if tls.early_data.get() { b"1" } else { b"" }),
        B::SslClientVerify => filled(out, &tls.client_verify),
        B::SslClientRawCert => Some(pem(tls, out)),
        B::SslClientCert => {
            let mut raw = Vec::new();
            let found = pem(tls, &mut raw);
            // A header value must not contain bare newlines, so each line continues with a tab.
            for line in raw.trim_ascii_end().split_inclusive(|&c| c == b'\n') {
                out.extend_from_slice(line);
                if line.ends_with(b"\n") {
                    out.push(b'\t');
                }
            }
            Some(found)
        }
        B::SslClientEscapedCert => {
            let mut raw = Vec::new();
            let found = pem(tls, &mut raw);
            escape::escape(&raw, escape::Use::Component, out);
            Some(found)
        }
        _ => {
            let name = client_field(b)?;
            some(
                out,
                tls.client_fields
                    .iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, v)| v.as_slice()),
            )
        }
    }
}

fn client_field(b: B) -> Option<&'static str> {
    Some(match b {
        B::SslClientFingerprint => "fingerprint",
        B::SslClientIDn => "i_dn",
        B::SslClientIDnLegacy => "i_dn_legacy",
        B::SslClientSDn => "s_dn",
        B::SslClientSDnLegacy => "s_dn_legacy",
        B::SslClientSerial => "serial",
        B::SslClientVEnd => "v_end",
        B::SslClientVRemain => "v_remain",
        B::SslClientVStart => "v_start",
        _ => return None,
    })
}

fn pem(tls: &TlsInfo, out: &mut Vec<u8>) -> bool {
    use base64::Engine;
    let Some(der) = &tls.client_certificate else {
        return false;
    };
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    out.extend_from_slice(b"-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.extend_from_slice(b"-----END CERTIFICATE-----\n");
    true
}
