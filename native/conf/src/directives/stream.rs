//! `stream`: the directives that http does not have, or has with other rules.

use super::upstream_conf::upstream_of;
use super::upstream_shared::{bind, tls};
use super::{main, sending, ssl};
use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::listen::{literal, split_port};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::template::variable_name;
use crate::values::parse_size;
use crate::vars::VarKind;
use std::sync::Arc;

/// The stream block and its server blocks.
const SS: u32 = STREAM | SSRV;

/// The longest name of a protocol in ALPN.
const LONGEST_PROTOCOL: usize = 255;

pub const TLS: &[Spec] = tls!(proxy, "proxy_ssl_", SS);

pub const TABLE: &[Spec] = &[
    block("stream", MAIN, NONE, |b, d| {
        main::once(b, "stream", d)?;
        b.read_stream(d)
    }),
    with("preread_buffer_size", SS, ONE, |b, d| {
        let size = buffer_size(d)?;
        store(&mut b.stream().preread_buffer_size, size, d)
    }),
    simple(
        "preread_timeout",
        SS,
        ONE,
        Setter::Msec(|b| &mut b.stream().preread_timeout),
    ),
    simple(
        "proxy_protocol_timeout",
        SS,
        ONE,
        Setter::Msec(|b| &mut b.stream().proxy_protocol_timeout),
    ),
    simple(
        "ssl_preread",
        SS,
        ONE,
        Setter::Flag(|b| &mut b.stream().ssl_preread),
    ),
    simple(
        "ssl_handshake_timeout",
        SS,
        ONE,
        Setter::Msec(|b| &mut b.stream().ssl_handshake_timeout),
    ),
    with("ssl_alpn", SS, MORE, |b, d| {
        let names = protocols(d)?;
        store(&mut b.stream().ssl_alpn, names, d)
    }),
    with("set", SSRV, TWO, set),
    with("return", SSRV, ONE, |b, d| {
        let text = b.template(&d.args()[0], &d.place)?;
        handle(b, d, StreamHandler::Return(text))
    }),
    with("proxy_pass", SSRV, ONE, proxy_pass),
    with("pass", SSRV, ONE, pass),
    simple(
        "proxy_timeout",
        SS,
        ONE,
        Setter::Msec(|b| &mut b.stream().timeout),
    ),
    simple(
        "proxy_half_close",
        SS,
        ONE,
        Setter::Flag(|b| &mut b.stream().half_close),
    ),
    with("proxy_upload_rate", SS, ONE, |b, d| {
        let rate = sending::rate_value(b, d)?;
        store(&mut b.stream().upload_rate, rate, d)
    }),
    with("proxy_download_rate", SS, ONE, |b, d| {
        let rate = sending::rate_value(b, d)?;
        store(&mut b.stream().download_rate, rate, d)
    }),
    simple(
        "proxy_next_upstream",
        SS,
        ONE,
        Setter::Flag(|b| &mut b.stream().next_upstream),
    ),
    simple(
        "proxy_requests",
        SS,
        ONE,
        Setter::Num(|b| &mut b.stream().requests),
    ),
    simple(
        "proxy_responses",
        SS,
        ONE,
        Setter::Num(|b| &mut b.stream().responses),
    ),
    with("proxy_protocol", SS, ONE, |b, d| {
        let choices = &[
            ("off", SendProxy::Off),
            ("on", SendProxy::V1),
            ("v2", SendProxy::V2),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.stream().proxy_protocol, value, d)
    }),
    simple(
        "proxy_connect_timeout",
        SS,
        ONE,
        Setter::Msec(|b| &mut b.proxy().connect_timeout),
    ),
    with("proxy_buffer_size", SS, ONE, |b, d| {
        let size = buffer_size(d)?;
        store(&mut b.proxy().buffer_size, size, d)
    }),
    simple(
        "proxy_socket_keepalive",
        SS,
        ONE,
        Setter::Flag(|b| &mut b.proxy().socket_keepalive),
    ),
    simple(
        "proxy_next_upstream_tries",
        SS,
        ONE,
        Setter::Num(|b| &mut b.proxy().next_upstream_tries),
    ),
    simple(
        "proxy_next_upstream_timeout",
        SS,
        ONE,
        Setter::Msec(|b| &mut b.proxy().next_upstream_timeout),
    ),
    with("proxy_bind", SS, Arity(1, 2), |b, d| {
        let value = bind(b, d)?;
        store(&mut b.proxy().bind, value, d)
    }),
    simple(
        "proxy_ssl",
        SS,
        ONE,
        Setter::Flag(|b| &mut b.stream().proxy_ssl),
    ),
    with("proxy_ssl_alpn", SS, MORE, |b, d| {
        let names: Result<Vec<_>> = d.args().iter().map(|a| b.template(a, &d.place)).collect();
        store(&mut b.proxy().ssl_alpn, Arc::new(names?), d)
    }),
];

/// A buffer that has room for at least one byte. nginx accepts 0, and such a session makes no
/// progress.
fn buffer_size(d: &Directive) -> Result<u64> {
    let size = parse_size(&d.args()[0]).filter(|&size| size > 0);
    size.ok_or_else(|| invalid_value(d))
}

/// Names of application protocols. TLS cannot express an empty one.
fn protocols(d: &Directive) -> Result<Arc<Vec<String>>> {
    let fault = |text: &str| ConfError::at(format!("\"{}\" directive {text}", d.name()), &d.place);
    if d.args().iter().any(|name| name.len() > LONGEST_PROTOCOL) {
        return Err(fault("protocol too long"));
    }
    if d.args().iter().any(String::is_empty) {
        return Err(fault("invalid value"));
    }
    Ok(Arc::new(d.args().to_vec()))
}

fn set(b: &mut Builder, d: &Directive) -> Result<()> {
    let name = variable_name(&d.args()[0], &d.place)?;
    let var = b.vars.define(name, VarKind::Assigned, &d.place)?;
    let value = b.template(&d.args()[1], &d.place)?;
    super::server::current(b).stream.sets.push((var, value));
    Ok(())
}

/// Set the content of the server block's sessions. As in nginx, the last one of several kinds
/// counts.
fn handle(b: &mut Builder, d: &Directive, handler: StreamHandler) -> Result<()> {
    let slot = &mut super::server::current(b).stream.handler;
    if let Some(known) = slot {
        if std::mem::discriminant(known) == std::mem::discriminant(&handler) {
            return Err(duplicate(d));
        }
    }
    *slot = Some(handler);
    Ok(())
}

fn proxy_pass(b: &mut Builder, d: &Directive) -> Result<()> {
    let word = &d.args()[0];
    let mut pass = StreamPass {
        target: Target::Variable,
        address: None,
        host: String::new(),
    };
    if word.contains('$') {
        pass.address = Some(b.template(word, &d.place)?);
        return handle(b, d, StreamHandler::Proxy(pass));
    }
    if word == "unix:" {
        let message = format!("no path in the unix domain socket in upstream \"{word}\"");
        return Err(ConfError::new(message));
    }
    pass.target = Target::Upstream(upstream_of(b, d, word, None)?);
    pass.host = match split_port(word) {
        Ok((host, _)) if !word.starts_with("unix:") => host.to_string(),
        _ => word.clone(),
    };
    handle(b, d, StreamHandler::Proxy(pass))
}

fn pass(b: &mut Builder, d: &Directive) -> Result<()> {
    let word = &d.args()[0];
    if word.contains('$') {
        let address = b.template(word, &d.place)?;
        return handle(b, d, StreamHandler::Pass(Handover::Variable(address)));
    }
    let address = literal(word).map_err(|e| {
        let message = match e.starts_with("no ") && !word.starts_with("unix:") {
            true => format!("\"pass\" directive has {e}"),
            false => format!("{e} in \"{word}\" of the \"pass\" directive"),
        };
        ConfError::at(message, &d.place)
    })?;
    handle(b, d, StreamHandler::Pass(Handover::Fixed(address)))
}

/// Refuse what the listeners of `stream` cannot do.
pub fn check_listen(listen: &Listen, word: &str) -> Result<()> {
    if listen.quic || listen.http2 {
        let word = if listen.quic { "quic" } else { "http2" };
        return Err(ConfError::at(
            format!("invalid parameter \"{word}\""),
            &listen.place,
        ));
    }
    if listen.udp {
        check_udp(listen)?;
    }
    let has_port = match &listen.addr {
        ListenAddr::Unix(_) => true,
        // A word without a port is the address alone, unless it is the port alone.
        ListenAddr::Inet(_) => {
            word.bytes().all(|c| c.is_ascii_digit() || c == b'-')
                || split_port(word).map_or(true, |(_, port)| port.is_some())
        }
    };
    if has_port {
        return Ok(());
    }
    let message = format!("no port in \"{word}\" of the \"listen\" directive");
    Err(ConfError::at(message, &listen.place))
}

/// Refuse parameters that UDP sockets do not support.
fn check_udp(listen: &Listen) -> Result<()> {
    let socket = &listen.socket;
    let taken = [
        ("fastopen", socket.fastopen.is_some()),
        ("backlog", socket.backlog.is_some()),
        ("deferred", socket.deferred),
        ("multipath", socket.multipath),
        ("ssl", listen.ssl),
        ("so_keepalive", socket.keepalive.is_some()),
        ("proxy_protocol", listen.proxy_protocol),
    ];
    if let Some((name, _)) = taken.iter().find(|(_, is_taken)| *is_taken) {
        return Err(ConfError::at(
            format!("\"listen\" directive \"{name}\" parameter is incompatible with \"udp\""),
            &listen.place,
        ));
    }
    Ok(())
}

/// Check the settings of TLS that need each other.
pub fn check_server(server: &Server) -> Result<()> {
    let certificates = items(&server.conf.ssl_certificate);
    let keys = items(&server.conf.ssl_certificate_key);
    if let Some(certificate) = certificates.get(keys.len()) {
        let name = certificate.as_literal().unwrap_or_default();
        return Err(ConfError::new(format!(
            "no \"ssl_certificate_key\" is defined for certificate \"{}\"",
            String::from_utf8_lossy(name)
        )));
    }
    Ok(())
}
