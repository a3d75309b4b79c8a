//! `proxy_pass` of `stream`: one server after another, until one takes the session.

use super::{relay, status, Session};
use crate::scope::Scope;
use crate::template;
use crate::upstream::chosen::Chosen;
use crate::upstream::keepalive::Stream;
use crate::upstream::methods::Hint;
use crate::upstream::proxy::group_of;
use crate::upstream::state::Group;
use crate::upstream::tls_names::tls_names;
use crate::upstream::transfer::{connect_to, handshake, Failure};
use crate::upstream::Attempt;
use gallop_conf::listen::split_port;
use gallop_conf::model::{Balance, Level, SendProxy, StreamPass, Target, UpConf};
use gallop_http::proxy_protocol::{write_v1, write_v2, Transport as HeaderTransport};
use gallop_runtime::{now_ms, timeout, Sock};
use std::sync::Arc;

/// A session's way to a server.
pub(super) struct Way {
    pub group: Arc<Group>,
    pub conf: Arc<UpConf>,
    /// The default of `proxy_ssl_name`.
    pub host: String,
}

pub async fn serve(
    session: &mut Session,
    pass: &StreamPass,
    client: &dyn Stream,
    early: &[u8],
) -> u16 {
    session.received = early.len() as u64;
    let way = match way(session, pass).await {
        Ok(way) => way,
        Err(message) => {
            session.log(Level::Error, &message);
            return status::INTERNAL_SERVER_ERROR;
        }
    };
    let (server, chosen) = match connect::<Connections>(session, &way).await {
        Ok(connected) => connected,
        Err(status) => return status,
    };
    relay::copy(session, client, &*server, early, &chosen).await;
    finish_attempt(session);
    drop(chosen);
    status::OK
}

/// The means by which sessions reach servers.
pub(super) trait Transport {
    type Opened;

    async fn open(
        session: &mut Session,
        way: &Way,
        chosen: &Chosen,
    ) -> Result<Self::Opened, Failure>;
}

/// TCP, with TLS where it is configured.
struct Connections;

impl Transport for Connections {
    type Opened = Box<dyn Stream>;

    async fn open(
        session: &mut Session,
        way: &Way,
        chosen: &Chosen,
    ) -> Result<Box<dyn Stream>, Failure> {
        open(session, way, chosen).await
    }
}

pub(super) async fn way(session: &Session, pass: &StreamPass) -> Result<Way, String> {
    let balancers = &session.worker.shared.stream_balancers;
    let (group, host) = match (&pass.target, &pass.address) {
        (Target::Upstream(index), _) => (balancers.group(*index), pass.host.clone()),
        (Target::Variable, address) => {
            let value = address.as_ref().map(|a| template::eval(session, a));
            let text = String::from_utf8(value.unwrap_or_default());
            let text = text.map_err(|_| "invalid host in upstream".to_string())?;
            if text.is_empty() {
                return Err("no host in upstream \"\"".to_string());
            }
            let (_, group) = group_of(session, balancers, &text, 0).await?;
            let host = split_port(&text).map_or(text.as_str(), |(host, _)| host);
            (group, host.to_string())
        }
    };
    let conf = session.server.root.conf.proxy.clone().unwrap_or_default();
    Ok(Way { group, conf, host })
}

/// Connect to a server; after a failure, to the next one.
pub(super) async fn connect<T: Transport>(
    session: &mut Session,
    way: &Way,
) -> Result<(T::Opened, Chosen), u16> {
    let key = match &way.group.conf.balance {
        Balance::Hash { key, .. } => template::eval(session, key),
        _ => Vec::new(),
    };
    let hint = Hint {
        client: session.client(),
        key,
        ..Hint::default()
    };
    let goes_on = session.conf().next_upstream.unwrap_or(true);
    let limit = way.conf.next_upstream_tries.filter(|&n| n > 0);
    let limit = limit.unwrap_or(u64::MAX);
    let patience = way.conf.next_upstream_timeout.filter(|&ms| ms > 0);
    let (started, mut tries, mut tried) = (now_ms(), 0, Vec::new());
    loop {
        let Some(chosen) = way.group.choose(&hint, &mut tried) else {
            let all = tried.iter().filter(|t| **t).count() >= way.group.tries();
            if tries == 0 || !all {
                no_server(session, way);
            }
            return Err(status::BAD_GATEWAY);
        };
        tries += 1;
        session.attempts.push(Attempt {
            peer: chosen.name().clone(),
            began: now_ms(),
            ..Attempt::default()
        });
        let failure = match T::open(session, way, &chosen).await {
            Ok(server) => {
                chosen.succeeded();
                let connect_ms = session.attempts.last().and_then(|a| a.connect_ms);
                connect_ms.into_iter().for_each(|ms| chosen.connected(ms));
                return Ok((server, chosen));
            }
            Err(failure) => failure,
        };
        session.log(Level::Error, &failure.message);
        if failure.kind == 0 {
            finish_attempt(session);
            return Err(status::INTERNAL_SERVER_ERROR);
        }
        chosen.failed();
        drop(chosen);
        finish_attempt(session);
        let timed_out = patience.is_some_and(|ms| now_ms() - started >= ms);
        if !goes_on || tries >= limit || timed_out {
            return Err(status::BAD_GATEWAY);
        }
    }
}

fn no_server(session: &mut Session, way: &Way) {
    session.attempts.push(Attempt {
        peer: way.group.conf.name.as_str().into(),
        ..Attempt::default()
    });
    session.log(
        Level::Error,
        "no live upstreams while connecting to upstream",
    );
}

pub(super) fn finish_attempt(session: &mut Session) {
    if let Some(attempt) = session.attempts.last() {
        let times = &attempt.times;
        times.response_ms.set(Some(now_ms() - attempt.began));
    }
}

/// Open a connection for the session, with the PROXY protocol and TLS where they are configured.
pub(super) async fn open(
    session: &mut Session,
    way: &Way,
    chosen: &Chosen,
) -> Result<Box<dyn Stream>, Failure> {
    let began = now_ms();
    let sock = connect_to(session, &way.conf, chosen).await?;
    if let Some(attempt) = session.attempts.last_mut() {
        attempt.connect_ms = Some(now_ms() - began);
    }
    introduce(session, &sock).await?;
    if session.conf().proxy_ssl != Some(true) {
        return Ok(Box::new(sock));
    }
    let Some(names) = tls_names(session, &way.conf, &way.host) else {
        let message = "the certificate for upstream cannot be read".to_string();
        return Err(own_failure(message));
    };
    let worker = session.worker.clone();
    handshake(&worker, &way.conf, sock, names).await
}

/// The PROXY protocol header for the server; empty if it gets none.
pub(super) fn header(session: &Session, transport: HeaderTransport) -> Vec<u8> {
    let (source, destination) = session.ends();
    match session.conf().proxy_protocol {
        None | Some(SendProxy::Off) => Vec::new(),
        Some(SendProxy::V1) => write_v1(source, destination),
        Some(SendProxy::V2) => write_v2(source, destination, transport),
    }
}

/// Send the PROXY protocol header.
async fn introduce(session: &Session, sock: &Sock) -> Result<(), Failure> {
    let header = header(session, HeaderTransport::Stream);
    if header.is_empty() {
        return Ok(());
    }
    let patience = session.conf().timeout.unwrap_or(relay::TIMEOUT);
    match timeout(patience, sock.write_all(&header)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(own_failure(format!(
            "send() failed ({}) while sending PROXY protocol header to upstream",
            gallop_conf::parser::os_error(&e)
        ))),
        Err(_) => Err(own_failure(
            "upstream timed out (110: Connection timed out) while sending PROXY protocol header to \
             upstream"
                .to_string(),
        )),
    }
}

/// A failure after which no other server is tried.
fn own_failure(message: String) -> Failure {
    Failure {
        kind: 0,
        message,
        sent: false,
        stale: false,
    }
}
