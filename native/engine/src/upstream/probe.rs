//! A request of this server's own to one upstream server, for health checks.

use super::application::{grpc_host, scheme};
use super::fastcgi;
use super::keepalive::UpstreamConn;
use super::memcached;
use super::methods::Hint;
use super::proxy::{host_header, host_only, Target};
use super::request::{HttpRequest, Wire};
use super::response_body::Decoder;
use super::state::Group;
use super::tls_names::tls_names;
use super::transfer::{self, Plan, Protocol, Reply, Tried};
use super::Attempt;
use crate::exchange::Exchange;
use gallop_conf::model::{AppPass, AppProtocol, Handler, ProxyPass, UpConf};
use gallop_runtime::now_ms;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

/// The parameters of a request.
pub(crate) struct Ask<'a> {
    /// The only server of this group is asked.
    pub group: Arc<Group>,
    pub handler: &'a Handler,
    /// The settings of the location, for which TLS was prepared.
    pub location: Arc<UpConf>,
    /// The settings of the request.
    pub conf: Arc<UpConf>,
    /// Whether the connection may serve another request.
    pub keeps: bool,
    /// The most bytes of the body to read; `None` if only the head counts.
    pub body: Option<usize>,
}

/// A response whose head is that of the exchange's last attempt.
pub(crate) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    pub trailers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The connection, if it may serve another request.
    pub conn: Option<UpstreamConn>,
}

/// Bytes read at a time from a body.
const STEP: usize = 16 * 1024;

/// Send the request of `ex` over `kept`, or over a new connection.
///
/// # Errors
/// The reason in nginx's words, which end with what was done meanwhile.
pub(crate) async fn ask(
    ex: &mut Exchange,
    ask: &Ask<'_>,
    kept: Option<UpstreamConn>,
) -> Result<Answer, String> {
    let mut plan = plan(ex, ask)?;
    let usable = kept.filter(UpstreamConn::is_quiet);
    let reused = usable.is_some();
    let tried = match usable {
        Some(conn) => transfer::exchange(ex, &plan, UpstreamConn { reused, ..conn }).await,
        None => fresh(ex, &mut plan, ask).await?,
    };
    let tried = match tried {
        // The server closed the connection when the request was on its way.
        Tried::Failed(failure) if failure.stale => fresh(ex, &mut plan, ask).await?,
        tried => tried,
    };
    match tried {
        Tried::Answer(reply) => {
            note(ex, &reply);
            finish(*reply, ask).await
        }
        Tried::Failed(failure) => Err(failure.message),
        Tried::Flow(_) => Err("the request was ended while sending request to upstream".into()),
    }
}

/// Send the request over a new connection.
async fn fresh(ex: &mut Exchange, plan: &mut Plan<'_>, ask: &Ask<'_>) -> Result<Tried, String> {
    plan.conf = ask.location.clone();
    let Some(chosen) = plan.group.choose(&Hint::default(), &mut Vec::new()) else {
        return Err("no server while connecting to upstream".into());
    };
    ex.attempts = vec![Attempt {
        peer: chosen.name().clone(),
        scheme: plan.scheme,
        uri: plan.uri.clone(),
        began: now_ms(),
        ..Attempt::default()
    }];
    let tls = match plan.tls {
        false => None,
        true => Some(
            tls_names(ex, &plan.conf, &plan.default_name).ok_or_else(|| {
                "the certificate cannot be read while SSL handshaking to upstream".to_string()
            })?,
        ),
    };
    let key = transfer::pool_key(ex, None, plan.scheme, &plan.conf, &chosen, tls.as_ref());
    let opened = transfer::open(ex, plan, &chosen, key, tls).await;
    let conn = opened.map_err(|failure| failure.message)?;
    plan.conf = ask.conf.clone();
    Ok(transfer::exchange(ex, plan, conn).await)
}

fn note(ex: &mut Exchange, reply: &Reply) {
    if let Some(attempt) = ex.attempts.last_mut() {
        attempt.status = reply.head.status;
        attempt.header_ms = Some(now_ms().saturating_sub(attempt.began));
        attempt.headers = reply.head.fields.clone();
    }
}

/// Read as much of the body as is wanted.
async fn finish(mut reply: Reply, ask: &Ask<'_>) -> Result<Answer, String> {
    let mut body = Vec::new();
    let mut ended = false;
    if let Some(most) = ask.body {
        ended = read(&mut reply, most, &mut body).await?;
        body.truncate(most);
    }
    let is_clean = ended && reply.decoder.is_reusable() && reply.rest.is_empty();
    let keeps = ask.keeps && is_clean && reply.out.is_done();
    let trailers = match &mut reply.decoder {
        Decoder::Http2(reader) => std::mem::take(&mut reader.trailers),
        _ => Vec::new(),
    };
    Ok(Answer {
        status: reply.head.status,
        body,
        trailers,
        conn: keeps.then_some(reply.conn),
    })
}

/// Append the body until it ends or has so many bytes. Returns whether it ended.
async fn read(reply: &mut Reply, most: usize, body: &mut Vec<u8>) -> Result<bool, String> {
    let Reply {
        decoder,
        conn,
        rest,
        ..
    } = reply;
    loop {
        let piece = decoder.take(rest);
        let piece = piece.map_err(|e| format!("{e} while reading upstream"))?;
        body.extend_from_slice(&piece);
        if decoder.is_ended() {
            return Ok(true);
        }
        if body.len() >= most {
            return Ok(false);
        }
        match poll_fn(|cx| conn.stream.poll_read_more(cx, rest, STEP)).await {
            Ok(0) if decoder.may_close() => return Ok(true),
            Ok(0) => {
                return Err("upstream prematurely closed connection while reading upstream".into())
            }
            Ok(_) => {}
            Err(e) => {
                let reason = gallop_conf::parser::os_error(&e);
                return Err(format!("recv() failed ({reason}) while reading upstream"));
            }
        }
    }
}

fn plan<'a>(ex: &mut Exchange, ask: &Ask<'a>) -> Result<Plan<'a>, String> {
    match ask.handler {
        Handler::Proxy(pass) => Ok(to_server(ex, ask, pass)),
        Handler::Application(pass) => to_application(ex, ask, pass),
        _ => Err("nothing is passed on while connecting to upstream".into()),
    }
}

fn to_server<'a>(ex: &Exchange, ask: &Ask<'a>, pass: &'a ProxyPass) -> Plan<'a> {
    let target = Target {
        https: pass.https,
        authority: pass.host.as_str().into(),
        uri: None,
    };
    let request = HttpRequest {
        wire: match ask.conf.http_version {
            Some(2000) => Wire::Http2,
            _ => Wire::Http1,
        },
        uri: ex.unparsed_uri().into(),
        host: host_header(&target),
        as_get: false,
    };
    Plan {
        pass: Some(pass),
        scheme: if pass.https { "https" } else { "http" },
        ..base(ask, pass.https, &pass.host, Protocol::Http(request))
    }
}

fn to_application<'a>(
    ex: &mut Exchange,
    ask: &Ask<'a>,
    pass: &AppPass,
) -> Result<Plan<'a>, String> {
    let key = match &pass.key {
        None => Vec::new(),
        Some(key) => memcached::prepare(ex, key).map_err(|_| {
            "the \"$memcached_key\" variable is not set while connecting to upstream".to_string()
        })?,
    };
    if pass.protocol == AppProtocol::Fastcgi {
        fastcgi::split_path(ex, &ask.conf);
    }
    let protocol = match pass.protocol {
        AppProtocol::Grpc => Protocol::Http(HttpRequest {
            wire: Wire::Grpc,
            uri: ex.unparsed_uri().into(),
            host: grpc_host(&pass.host),
            as_get: false,
        }),
        protocol => Protocol::Application(protocol),
    };
    Ok(Plan {
        memcached_key: key,
        scheme: scheme(pass.protocol, pass.tls),
        ..base(ask, pass.tls, &pass.host, protocol)
    })
}

/// The parts of a plan that all protocols have.
fn base<'a>(ask: &Ask<'a>, tls: bool, authority: &str, protocol: Protocol) -> Plan<'a> {
    Plan {
        group: ask.group.clone(),
        index: None,
        conf: ask.conf.clone(),
        hint: Hint::default(),
        tls,
        scheme: "",
        cache_key: Vec::new(),
        uri: match &protocol {
            Protocol::Http(request) => request.uri.clone(),
            Protocol::Application(_) => Rc::default(),
        },
        default_name: match tls {
            true => host_only(authority),
            false => String::new(),
        },
        protocol,
        memcached_key: Vec::new(),
        pass: None,
    }
}
