//! `server` blocks: names, addresses, and the reading of requests.

use crate::builder::{Builder, LocNode, ServerNode};
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::names::ServerName;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::values::parse_size;

/// The bytes of a frame that nginx keeps between two reads.
const HTTP2_STATE: u64 = 16;

pub const TABLE: &[Spec] = &[
    block("server", HTTP | STREAM, NONE, server),
    with("listen", SRV | SSRV, MORE, listen),
    with("server_name", SRV | SSRV, MORE, server_name),
    simple(
        "client_header_timeout",
        HS,
        ONE,
        Setter::Msec(|b| &mut b.srv().client_header_timeout),
    ),
    with("client_header_buffer_size", HS, ONE, |b, d| {
        let size = parse_size(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
        store(&mut b.srv().client_header_buffer_size, size, d)
    }),
    simple(
        "large_client_header_buffers",
        HS,
        TWO,
        Setter::Bufs(|b| &mut b.srv().large_client_header_buffers),
    ),
    with("connection_pool_size", HS, ONE, |b, d| {
        let size = pool_size(d)?;
        store(&mut b.srv().connection_pool_size, size, d)
    }),
    with("request_pool_size", HS, ONE, |b, d| {
        let size = pool_size(d)?;
        store(&mut b.srv().request_pool_size, size, d)
    }),
    simple(
        "ignore_invalid_headers",
        HS,
        ONE,
        Setter::Flag(|b| &mut b.srv().ignore_invalid_headers),
    ),
    simple(
        "merge_slashes",
        HS,
        ONE,
        Setter::Flag(|b| &mut b.srv().merge_slashes),
    ),
    simple(
        "underscores_in_headers",
        HS,
        ONE,
        Setter::Flag(|b| &mut b.srv().underscores_in_headers),
    ),
    simple(
        "max_headers",
        HS,
        ONE,
        Setter::Num(|b| &mut b.srv().max_headers),
    ),
    simple("http2", HS, ONE, Setter::Flag(|b| &mut b.srv().http2)),
    simple(
        "http2_max_concurrent_streams",
        HS,
        ONE,
        Setter::Num(|b| &mut b.srv().http2_max_concurrent_streams),
    ),
    with("http2_chunk_size", HSL, ONE, |b, d| {
        let size = parse_size(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
        if size == 0 {
            return Err(ConfError::new("the http2 chunk size cannot be zero"));
        }
        store(&mut b.loc().http2_chunk_size, size, d)
    }),
    simple(
        "http2_body_preread_size",
        HS,
        ONE,
        Setter::Size(|b| &mut b.srv().http2_body_preread_size),
    ),
    with("http2_recv_buffer_size", HTTP, ONE, |b, d| {
        let size = parse_size(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
        if size <= HTTP2_STATE {
            let message = format!("\"{}\" directive value is too small", d.name());
            return Err(ConfError::new(message));
        }
        store(&mut b.srv().http2_recv_buffer_size, size, d)
    }),
    simple("http3", HS, ONE, Setter::Flag(|b| &mut b.srv().http3)),
    simple("http3_hq", HS, ONE, Setter::Flag(|b| &mut b.srv().http3_hq)),
    simple(
        "http3_max_concurrent_streams",
        HS,
        ONE,
        Setter::Num(|b| &mut b.srv().http3_max_concurrent_streams),
    ),
    simple(
        "http3_stream_buffer_size",
        HS,
        ONE,
        Setter::Size(|b| &mut b.srv().http3_stream_buffer_size),
    ),
    simple(
        "quic_retry_above",
        HS,
        ONE,
        Setter::Num(|b| &mut b.srv().quic_retry_above),
    ),
    simple(
        "quic_retry",
        HS,
        ONE,
        Setter::Flag(|b| &mut b.srv().quic_retry),
    ),
    simple("quic_gso", HS, ONE, Setter::Flag(|b| &mut b.srv().quic_gso)),
    with("quic_host_key", HS, ONE, |b, d| {
        if b.srv().quic_host_key.is_some() {
            return Err(duplicate(d));
        }
        let path = b.conf_path(&d.args()[0]);
        let key = read_file(&path)?;
        if key.is_empty() {
            let message = format!("\"{}\" zero key size", path.display());
            return Err(ConfError::new(message));
        }
        b.srv().quic_host_key = Some(key.into());
        Ok(())
    }),
    simple(
        "quic_active_connection_id_limit",
        HS,
        ONE,
        Setter::Num(|b| &mut b.srv().quic_active_connection_id_limit),
    ),
    simple(
        "http2_idle_timeout",
        HS,
        ONE,
        Setter::Obsolete(Some("keepalive_timeout")),
    ),
    simple(
        "http2_max_concurrent_pushes",
        HS,
        ONE,
        Setter::Obsolete(None),
    ),
    simple(
        "http2_max_field_size",
        HS,
        ONE,
        Setter::Obsolete(Some("large_client_header_buffers")),
    ),
    simple(
        "http2_max_header_size",
        HS,
        ONE,
        Setter::Obsolete(Some("large_client_header_buffers")),
    ),
    simple(
        "http2_max_requests",
        HS,
        ONE,
        Setter::Obsolete(Some("keepalive_requests")),
    ),
    simple("http2_pool_size", HS, ONE, Setter::Unused(Takes::Pool)),
    simple("http2_push", HSL, ONE, Setter::Obsolete(None)),
    simple("http2_push_preload", HSL, ONE, Setter::Obsolete(None)),
    simple(
        "http2_recv_timeout",
        HS,
        ONE,
        Setter::Obsolete(Some("client_header_timeout")),
    ),
    simple(
        "http2_streams_index_size",
        HS,
        ONE,
        Setter::Unused(Takes::PowerOfTwo),
    ),
    simple("quic_bpf", MAIN, ONE, Setter::Unused(Takes::Flag)),
];

fn server(b: &mut Builder, d: &Directive) -> Result<()> {
    let root = LocNode::new("", LocKind::Server, &d.place);
    let context = if b.is_in_stream() { SSRV } else { SRV };
    b.server = Some(ServerNode {
        conf: SrvConf::default(),
        names: Vec::new(),
        first_name: None,
        listens: Vec::new(),
        zone: None,
        root: LocNode::new("", LocKind::Server, &d.place),
        stream: StreamServer::default(),
        place: d.place.clone(),
    });
    let root = b.read_location(root, context, d)?;
    let mut server = b.server.take().expect("the server set above");
    server.root = root;
    if context == SSRV && server.listens.is_empty() {
        return Err(ConfError::new(format!(
            "no \"listen\" is defined for server in {}:{}",
            d.place.file, d.place.line
        )));
    }
    b.http().servers.push(server);
    Ok(())
}

pub(super) fn current(b: &mut Builder) -> &mut ServerNode {
    b.server.as_mut().expect("only allowed inside server")
}

fn listen(b: &mut Builder, d: &Directive) -> Result<()> {
    for listen in crate::listen::parse(b, d)? {
        if b.is_in_stream() {
            super::stream::check_listen(&listen, &d.args()[0])?;
        }
        let twice = current(b)
            .listens
            .iter()
            .any(|l| (&l.addr, l.quic, l.udp) == (&listen.addr, listen.quic, listen.udp));
        if twice {
            return Err(ConfError::new(format!(
                "a duplicate listen {}",
                d.args()[0]
            )));
        }
        current(b).listens.push(listen);
    }
    Ok(())
}

fn server_name(b: &mut Builder, d: &Directive) -> Result<()> {
    for word in d.args() {
        let text = if word == "$hostname" {
            hostname()
        } else {
            word.clone()
        };
        if word.contains('/') && !word.starts_with('~') {
            b.warn(
                format!("server name \"{word}\" has suspicious symbols"),
                &d.place,
            );
        }
        let name = ServerName::parse(&text, &mut b.vars, &d.place)?;
        let server = current(b);
        server
            .first_name
            .get_or_insert_with(|| match text.strip_prefix('~') {
                Some(_) => text.clone(),
                None => text.strip_prefix('.').unwrap_or(&text).to_lowercase(),
            });
        server.names.push(name);
    }
    Ok(())
}

/// The host's name from the kernel.
pub fn hostname() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    text.trim().to_ascii_lowercase()
}
