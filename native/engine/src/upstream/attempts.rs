//! The way of a request to an upstream: a cached response, otherwise one server after another.

use super::answer;
use super::cached::{self, Fetch, Looked};
use super::chosen::Chosen;
use super::response_body::UpstreamBody;
use super::sticky;
use super::transfer::{one, Failure, Plan, Protocol, Reply, Tried};
use super::Attempt;
use crate::exchange::Exchange;
use crate::phases::flow::Flow;
use crate::received;
use answer::Head;
use gallop_conf::model::{next, CacheUse, Level};
use gallop_runtime::now_ms;

pub async fn run(ex: &mut Exchange, mut plan: Plan<'_>) -> Flow {
    let buffered = plan.conf.request_buffering.unwrap_or(true)
        || ex.source.is_ended()
        || ex.chunked && plan.starts_with_length();
    if !ex.is_subrequest() {
        let read = if buffered {
            received::read(ex).await
        } else {
            received::read_ready(ex).await
        };
        if let Err(flow) = read {
            return flow;
        }
    }
    let abortable = ex.abortable.clone();
    let may_abort = !plan.conf.ignore_client_abort.unwrap_or(false) && !ex.is_subrequest();
    abortable.set(may_abort);
    let conf = plan.conf.clone();
    let looked = match conf.cache {
        None | Some(CacheUse::Off) => None,
        // Boxed, since most requests need neither a cache nor a new connection.
        Some(_) => Box::pin(cached::look(ex, &conf, std::mem::take(&mut plan.cache_key))).await,
    };
    let fetch = match looked {
        None => None,
        Some(Looked::Fetch(fetch)) => Some(fetch),
        Some(Looked::Flow(flow)) => {
            abortable.set(false);
            return flow;
        }
        Some(Looked::Answer(entry)) => {
            abortable.set(false);
            return answer::kept(ex, &plan, *entry);
        }
    };
    if let (Some(fetch), Protocol::Http(request)) = (&fetch, &mut plan.protocol) {
        request.as_get = ex.method() == b"HEAD" && conf.cache_convert_head != Some(false);
        // A response for the cache is fetched even if this client leaves.
        abortable.set(may_abort && !fetch.cacheable);
    }
    let mut way = Way {
        plan: &plan,
        fetch,
        // A body that arrived with the head can be sent again, too.
        replayable: buffered || ex.received.is_some(),
        started: now_ms(),
        tries: 0,
    };
    let flow = way.attempts(ex).await;
    abortable.set(false);
    flow
}

/// The next step after an attempt.
enum Step {
    Again(Option<Failure>),
    Flow(Flow),
}

struct Way<'a> {
    plan: &'a Plan<'a>,
    fetch: Option<Box<Fetch>>,
    /// Whether the request body is available for another attempt.
    replayable: bool,
    /// Start time in milliseconds (monotonic clock).
    started: u64,
    tries: u64,
}

impl Way<'_> {
    async fn attempts(&mut self, ex: &mut Exchange) -> Flow {
        let plan = self.plan;
        let mut tried = Vec::new();
        let mut group_start = !ex.attempts.is_empty();
        let mut last: Option<Failure> = None;
        let mut begun = ex.begun_attempt.take();
        loop {
            let (chosen, started) = match begun.take() {
                Some(begun) => {
                    tried.resize(plan.group.conf.peers.len(), false);
                    tried[begun.chosen.index] = true;
                    (Some(begun.chosen), begun.started)
                }
                None => (plan.group.choose(&plan.hint, &mut tried), None),
            };
            let Some(chosen) = chosen else {
                let all_tried = tried.iter().filter(|t| **t).count() >= plan.group.tries();
                return self.no_server(ex, last.filter(|_| all_tried));
            };
            self.tries += 1;
            sticky::bind(ex, &chosen);
            let began = started.as_ref().map_or_else(now_ms, |s| s.began);
            ex.attempts.push(attempt(plan, &chosen, began, group_start));
            group_start = false;
            ex.debug(|| format!("connecting to upstream server {}", chosen.peer().addr));
            let index = chosen.index;
            let step = match one(ex, plan, &chosen, started).await {
                Tried::Flow(flow) => return flow,
                Tried::Answer(reply) => {
                    let left = tried.iter().filter(|t| **t).count() < plan.group.tries();
                    self.answered(ex, *reply, chosen, began, left).await
                }
                Tried::Failed(failure) => {
                    if failure.stale {
                        tried[index] = false;
                    }
                    self.failed(ex, failure, chosen, began)
                }
            };
            match step {
                Step::Flow(flow) => return flow,
                Step::Again(failure) => last = failure,
            }
        }
    }

    fn limit(&self) -> u64 {
        let tries = self.plan.conf.next_upstream_tries;
        tries.filter(|&n| n > 0).unwrap_or(u64::MAX)
    }

    /// Whether another server may be tried after an error of this kind.
    fn may_go_on(&self, ex: &Exchange, kind: u32, sent: bool) -> bool {
        let conf = &self.plan.conf;
        let mask = conf.next_servers();
        let timed_out = conf
            .next_upstream_timeout
            .is_some_and(|ms| ms > 0 && now_ms() - self.started >= ms);
        let non_idempotent = sent && matches!(ex.method(), b"POST" | b"LOCK" | b"PATCH");
        mask & kind != 0
            && mask & next::OFF == 0
            && (!non_idempotent || mask & next::NON_IDEMPOTENT != 0)
            && (self.replayable || !sent)
            && self.tries < self.limit()
            && !timed_out
    }

    /// Handle a response head; `left`: there are servers that were not tried.
    async fn answered(
        &mut self,
        ex: &mut Exchange,
        reply: Reply,
        chosen: Chosen,
        began: u64,
        left: bool,
    ) -> Step {
        let plan = self.plan;
        note_head(ex, &reply.head, began);
        let status = reply.head.status;
        let bit = next::of_status(status);
        let missing = matches!(status, 403 | 404);
        if bit != 0 && left && self.may_go_on(ex, bit, true) {
            if !missing {
                chosen.failed();
            }
            finish_attempt(ex, began);
            return Step::Again(None);
        }
        if bit & plan.conf.next_servers() != 0 && !missing {
            chosen.failed();
        } else {
            chosen.succeeded();
        }
        chosen.answered(now_ms() - began);
        let learned = sticky::learn(ex, &plan.hint, &chosen);
        let (head, body) = UpstreamBody::new(ex, plan, reply, chosen);
        let body = body.since(began).learning(learned);
        if let Some(fetch) = &mut self.fetch {
            let old = match fetch.instead(ex, &plan.conf, bit) {
                None => fetch.confirmed(ex, &plan.conf, &head),
                entry => entry,
            };
            if let Some(entry) = old {
                body.discard();
                return Step::Flow(answer::kept(ex, plan, *entry));
            }
        }
        Step::Flow(answer::apply(ex, plan, head, body, self.fetch.take()).await)
    }

    fn failed(&mut self, ex: &mut Exchange, failure: Failure, chosen: Chosen, began: u64) -> Step {
        ex.log(Level::Error, &failure.message);
        if failure.stale {
            self.tries -= 1;
        } else if failure.kind != 0 {
            chosen.failed();
        }
        drop(chosen);
        finish_attempt(ex, began);
        let status = failure.status();
        if let Some(a) = ex.attempts.last_mut() {
            a.status = status;
        }
        if self.may_go_on(ex, failure.kind, failure.sent) {
            return Step::Again(Some(failure));
        }
        Step::Flow(self.give_up(ex, status, failure.kind))
    }

    /// End without a server's response: use a stale response if possible, otherwise the error.
    fn give_up(&mut self, ex: &mut Exchange, status: u16, kind: u32) -> Flow {
        let conf = &self.plan.conf;
        if let Some(fetch) = &mut self.fetch {
            if let Some(entry) = fetch.after_failure(ex, conf, kind) {
                return answer::kept(ex, self.plan, *entry);
            }
            fetch.failed(conf, status, 0);
        }
        Flow::Status(status)
    }

    /// Handle the lack of a usable server; `last`: the failure of the last one.
    fn no_server(&mut self, ex: &mut Exchange, last: Option<Failure>) -> Flow {
        if let Some(failure) = last {
            return self.give_up(ex, failure.status(), failure.kind);
        }
        let plan = self.plan;
        ex.attempts.push(Attempt {
            peer: plan.group.conf.name.as_str().into(),
            scheme: plan.scheme,
            uri: plan.uri.clone(),
            status: 502,
            ..Attempt::default()
        });
        ex.log(
            Level::Error,
            "no live upstreams while connecting to upstream",
        );
        self.give_up(ex, 502, next::ERROR)
    }
}

fn attempt(plan: &Plan<'_>, chosen: &Chosen, began: u64, new_group: bool) -> Attempt {
    Attempt {
        meter: chosen.group.meter(chosen.index),
        peer: chosen.name().clone(),
        scheme: plan.scheme,
        uri: plan.uri.clone(),
        new_group,
        began,
        ..Attempt::default()
    }
}

fn note_head(ex: &mut Exchange, head: &Head, started: u64) {
    if let Some(a) = ex.attempts.last_mut() {
        a.status = head.status;
        a.header_ms = Some(now_ms() - started);
        a.headers = head.fields.clone();
    }
}

fn finish_attempt(ex: &mut Exchange, started: u64) {
    if let Some(a) = ex.attempts.last() {
        a.times.response_ms.set(Some(now_ms() - started));
    }
}
