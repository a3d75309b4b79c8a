//! Health checks of the servers of `stream`.

use super::proxy::{open, Way};
use super::relay::BUFFER;
use super::Session;
use crate::conn::Conn;
use crate::upstream::chosen::Chosen;
use crate::upstream::keepalive::write_all;
use crate::upstream::methods::Hint;
use crate::upstream::state::Group;
use crate::upstream::transfer::datagrams_to;
use crate::upstream::Attempt;
use crate::worker::Worker;
use gallop_conf::model::{CheckKind, Expect, HealthCheck, StreamHandler, Tests};
use gallop_conf::parser::os_error;
use gallop_runtime::{now_ms, timeout};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// The default of `health_check_timeout` in milliseconds.
const TIMEOUT: u64 = 5000;
/// The most bytes of a datagram.
const DATAGRAM: usize = 65_535;
/// What a UDP server is sent without `send`.
const GREETING: &[u8] = b"nginx health check";

const CONNECTING: &str = "connecting to upstream";
const SENDING: &str = "sending to upstream";
const RECEIVING: &str = "receiving from upstream";
const CHECKING: &str = "checking data";

/// A check under way.
struct Probe<'a> {
    session: Session,
    way: Way,
    send: Option<&'a [u8]>,
    expect: Option<&'a Expect>,
}

/// Check the only server of `group`. Returns what was done last.
///
/// # Errors
/// The reason, which ends with what was done meanwhile.
pub(crate) async fn check(
    worker: &Rc<Worker>,
    check: &HealthCheck,
    group: Arc<Group>,
) -> Result<&'static str, String> {
    let udp = matches!(check.conf.kind, CheckKind::Udp);
    let mut probe = Probe::new(worker, check, group, udp);
    let patience = probe.session.conf().health_check_timeout;
    let patience = patience.unwrap_or(TIMEOUT);
    let is_silence_fine = udp && probe.expect.is_none();
    let doing = Cell::new(CONNECTING);
    let done = match udp {
        true => timeout(patience, probe.datagrams(&doing)).await,
        false => timeout(patience, probe.connection(&doing)).await,
    };
    match done {
        Ok(result) => result.map(|()| doing.get()),
        Err(_) if is_silence_fine && doing.get() == RECEIVING => Ok(RECEIVING),
        Err(_) => Err(format!(
            "upstream timed out (110: Connection timed out) while {}",
            doing.get()
        )),
    }
}

impl<'a> Probe<'a> {
    fn new(worker: &Rc<Worker>, check: &'a HealthCheck, group: Arc<Group>, udp: bool) -> Self {
        let ids = &worker.shared.next_connection;
        let conn = Conn::own(ids.fetch_add(1, Ordering::Relaxed), &check.server, udp);
        let (send, expect) = match check.conf.tests.as_deref() {
            Some(Tests::Stream { send, expect }) => (send.as_deref(), expect.as_ref()),
            _ => (None, None),
        };
        let stream = check.server.stream.as_ref();
        let host = match stream.and_then(|stream| stream.handler.as_ref()) {
            Some(StreamHandler::Proxy(pass)) => pass.host.clone(),
            _ => String::new(),
        };
        let conf = check.location.conf.proxy.clone().unwrap_or_default();
        Probe {
            session: Session::of(worker.clone(), conn, check.server.clone()),
            way: Way { group, conf, host },
            send,
            expect,
        }
    }

    fn attempt(&mut self) -> Result<Chosen, String> {
        let chosen = self.way.group.choose(&Hint::default(), &mut Vec::new());
        let chosen = chosen.ok_or_else(|| format!("no server while {CONNECTING}"))?;
        self.session.attempts.push(Attempt {
            peer: chosen.name().clone(),
            began: now_ms(),
            ..Attempt::default()
        });
        Ok(chosen)
    }

    /// Connect; send and receive what the tests say.
    async fn connection(&mut self, doing: &Cell<&'static str>) -> Result<(), String> {
        let chosen = self.attempt()?;
        let opened = open(&mut self.session, &self.way, &chosen).await;
        let stream = opened.map_err(|failure| failure.message)?;
        if let Some(bytes) = self.send {
            doing.set(SENDING);
            write_all(&*stream, bytes)
                .await
                .map_err(|e| broken("send", &e, SENDING))?;
        }
        let Some(expect) = self.expect else {
            return Ok(());
        };
        doing.set(RECEIVING);
        let most = self.way.conf.buffer_size.unwrap_or(BUFFER) as usize;
        let mut data = Vec::new();
        while !is_met(expect, &data) {
            if data.len() >= most {
                return Err(format!(
                    "upstream sent other data than expected while {CHECKING}"
                ));
            }
            let room = most - data.len();
            match poll_fn(|cx| stream.poll_read_more(cx, &mut data, room)).await {
                Ok(0) => {
                    return Err(format!(
                        "upstream closed connection before the expected data while {CHECKING}"
                    ))
                }
                Ok(_) => {}
                Err(e) => return Err(broken("recv", &e, RECEIVING)),
            }
        }
        doing.set(CHECKING);
        Ok(())
    }

    /// Send a datagram; wait for the expected one, or for any if none is expected.
    async fn datagrams(&mut self, doing: &Cell<&'static str>) -> Result<(), String> {
        let chosen = self.attempt()?;
        let sock = datagrams_to(&self.session, &self.way.conf, &chosen);
        let sock = sock.map_err(|failure| failure.message)?;
        doing.set(SENDING);
        let bytes = self.send.unwrap_or(GREETING);
        let sent = poll_fn(|cx| sock.poll_send(cx, bytes)).await;
        sent.map_err(|e| broken("send", &e, SENDING))?;
        doing.set(RECEIVING);
        let mut buffer = vec![0; DATAGRAM];
        loop {
            let received = poll_fn(|cx| sock.poll_receive(cx, &mut buffer)).await;
            let n = received.map_err(|e| broken("recv", &e, RECEIVING))?;
            match self.expect {
                None => return Ok(()),
                Some(expect) if is_met(expect, &buffer[..n]) => {
                    doing.set(CHECKING);
                    return Ok(());
                }
                Some(_) => {}
            }
        }
    }
}

fn is_met(expect: &Expect, data: &[u8]) -> bool {
    match expect {
        Expect::Text(text) => memchr::memmem::find(data, text).is_some(),
        Expect::Regex(pattern) => pattern.is_match(data),
    }
}

fn broken(call: &str, e: &io::Error, doing: &str) -> String {
    format!("{call}() failed ({}) while {doing}", os_error(e))
}
