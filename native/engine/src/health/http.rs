//! Checks with a request of the location's protocol.

use super::grpc;
use super::rules::{self, Seen, STATUS};
use super::{Outcome, Watch};
use crate::conn::Conn;
use crate::exchange::{Exchange, Received};
use crate::upstream::keepalive::UpstreamConn;
use crate::upstream::probe::{ask, Answer, Ask};
use crate::upstream::state::Group;
use crate::worker::Worker;
use gallop_conf::model::{items, push, CheckKind, Handler, HealthCheck, Param, Tests, UpConf};
use gallop_conf::template::Template;
use gallop_runtime::{now_ms, timeout};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// As in nginx, the tests see so many bytes of a body.
const MOST_BODY: usize = 256 * 1024;

/// Checks one server.
pub struct Prober {
    worker: Rc<Worker>,
    check: Arc<HealthCheck>,
    group: Arc<Group>,
    conf: Arc<UpConf>,
    conn: Option<UpstreamConn>,
}

impl Prober {
    /// `group`: the server alone.
    pub fn new(watch: &Watch, group: Arc<Group>) -> Prober {
        Prober {
            worker: watch.worker.clone(),
            check: watch.check.clone(),
            conf: watch.settings.clone(),
            group,
            conn: None,
        }
    }

    /// Send the request and test the response, within the location's timeouts together.
    pub async fn check(&mut self) -> Outcome {
        let limit = self.conf.connect_ms();
        let limit = limit.saturating_add(self.conf.send_ms());
        let limit = limit.saturating_add(self.conf.read_ms());
        let timed_out = "upstream timed out (110: Connection timed out) while reading upstream";
        match timeout(limit, self.run()).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(message)) => Outcome::broken(message),
            Err(_) => Outcome::broken(timed_out.into()),
        }
    }

    async fn run(&mut self) -> Result<Outcome, String> {
        let check = self.check.clone();
        let Some(handler) = check.handler() else {
            return Err("nothing is passed on while connecting to upstream".into());
        };
        let keep_ms = check.conf.keepalive_time;
        let is_grpc = matches!(check.conf.kind, CheckKind::Grpc { .. });
        let wants_body = check.needs_body() || keep_ms > 0 || is_grpc;
        let request = Ask {
            group: self.group.clone(),
            handler,
            location: of_location(&check),
            conf: self.conf.clone(),
            keeps: keep_ms > 0,
            body: wants_body.then_some(MOST_BODY),
        };
        let young = |conn: &UpstreamConn| now_ms().saturating_sub(conn.opened) < keep_ms;
        let kept = self.conn.take().filter(young);
        let mut ex = self.exchange();
        let mut answer = ask(&mut ex, &request, kept).await?;
        self.conn = answer.conn.take();
        Ok(judge(&check, &ex, &answer))
    }

    /// The request, with the settings of the location.
    fn exchange(&self) -> Box<Exchange> {
        let check = &self.check;
        let id = &self.worker.shared.next_connection;
        let conn = Conn::own(id.fetch_add(1, Ordering::Relaxed), &check.server, false);
        let mut ex = Exchange::new(self.worker.clone(), Rc::new(conn));
        ex.server = check.server.clone();
        ex.loc = check.location.clone();
        ex.is_passed = true;
        let (method, uri, body) = match &check.conf.kind {
            CheckKind::Grpc { service, .. } => {
                ex.head.push_header(b"content-type", b"application/grpc");
                ex.head.push_header(b"te", b"trailers");
                ("POST", grpc::PATH, grpc::request(service))
            }
            CheckKind::Http { uri } => ("GET", uri.as_str(), Vec::new()),
            CheckKind::Tcp | CheckKind::Udp => ("GET", "/", Vec::new()),
        };
        ex.received = Some(Received::Memory(body.into()));
        ex.head.method = ex.head.store(method.as_bytes());
        ex.head.target = ex.head.store(uri.as_bytes());
        ex.head.path = ex.head.target;
        let (path, args) = uri
            .split_once('?')
            .map_or((uri, None), |(p, a)| (p, Some(a)));
        ex.uri.path = path.into();
        ex.uri.set_args(args.map(Into::into));
        ex
    }
}

/// The location's settings for its upstream.
fn of_location(check: &HealthCheck) -> Arc<UpConf> {
    let loc = &check.location.conf;
    let conf = match check.handler() {
        Some(Handler::Application(pass)) => loc.application(pass.protocol),
        _ => &loc.proxy,
    };
    conf.clone().unwrap_or_default()
}

/// The location's settings, changed where a check is no client's request.
pub fn settings(check: &HealthCheck) -> UpConf {
    let mut conf = UpConf::clone(&of_location(check));
    let is_proxy = matches!(check.handler(), Some(Handler::Proxy(_)));
    if matches!(check.conf.kind, CheckKind::Grpc { .. }) {
        conf.pass_request_headers = Some(true);
        conf.pass_request_body = Some(true);
    }
    let set = items(&conf.set_headers);
    let is_connection = |param: &Param| param.name.eq_ignore_ascii_case("connection");
    let keeps = check.conf.keepalive_time > 0;
    let value = match (keeps, conf.http_version) {
        (false, _) => "close",
        (true, Some(1000)) => "keep-alive",
        (true, _) => "",
    };
    if is_proxy && !value.is_empty() && !set.iter().any(is_connection) {
        let param = Param {
            name: "Connection".into(),
            value: Template::literal(value.as_bytes()),
            if_not_empty: false,
        };
        push(&mut conf.set_headers, param);
    }
    conf.keep_conn = conf.keep_conn.filter(|_| keeps);
    conf
}

fn judge(check: &HealthCheck, ex: &Exchange, answer: &Answer) -> Outcome {
    let fields = ex.attempts.last().map(|attempt| attempt.headers.clone());
    let fields = fields.unwrap_or_default();
    let (doing, passed) = match (&check.conf.kind, check.conf.tests.as_deref()) {
        (CheckKind::Grpc { status, .. }, _) => {
            let found = grpc::status(answer.trailers.iter().chain(fields.iter()));
            let serves = found == Some(0) && grpc::is_serving(&answer.body);
            let is_told = status.is_some() && found == *status;
            (
                "checking grpc status",
                answer.status == 200 && (serves || is_told),
            )
        }
        (_, Some(Tests::Http(tests))) => {
            let seen = Seen {
                status: answer.status,
                fields: &fields,
                body: &answer.body,
            };
            rules::run(ex, tests, &seen)
        }
        _ => (STATUS, rules::is_usual(answer.status)),
    };
    Outcome {
        passed,
        doing: doing.into(),
        reason: None,
    }
}
