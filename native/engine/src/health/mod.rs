//! Active health checks of upstream servers (`health_check`). One thread of a worker process carries
//! out all of them, as tasks beside its connections: one for each check and server.
//!
//! The marks of a server ([`crate::upstream::marks`]) tell the balancer whether it may get requests.

mod grpc;
mod http;
mod places;
mod rules;

use crate::stream::probe as stream_probe;
use crate::upstream::balancers::Balancers;
use crate::upstream::marks::Marks;
use crate::upstream::state::Group;
use crate::upstream::verdicts;
use crate::worker::{Shared, Worker};
use crate::{log, random_number};
use gallop_conf::model::{CheckKind, HealthCheck, Level, Peer, PeerAddr, UpConf, Upstream};
use gallop_runtime::{now_ms, race, sleep, spawn};
use places::Places;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// The most milliseconds until a server whose name is resolved gets its first check.
const LOOK_MS: u64 = 1000;

/// The balancers of a block.
type Balancing = fn(&Shared) -> &Balancers;

/// The outcome of a check: what was done last, and the reason for a failure of the connection.
struct Outcome {
    passed: bool,
    doing: String,
    /// A line for the error log.
    reason: Option<String>,
}

impl Outcome {
    /// A failure whose text ends with what was done meanwhile.
    fn broken(message: String) -> Outcome {
        let doing = message.rsplit_once(" while ").map(|(_, doing)| doing);
        let doing = doing.unwrap_or("connecting to upstream");
        Outcome {
            passed: false,
            doing: doing.to_string(),
            reason: Some(message),
        }
    }
}

/// The thread that carries out the checks; another one may when this is dropped.
struct Claim(Arc<Shared>);

impl Claim {
    fn take(shared: &Arc<Shared>) -> Option<Claim> {
        let taken = shared.is_checking.swap(true, Ordering::SeqCst);
        (!taken).then(|| Claim(shared.clone()))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.is_checking.store(false, Ordering::SeqCst);
    }
}

/// A check of a group.
struct Watch {
    worker: Rc<Worker>,
    balancers: Balancing,
    /// The group's index in the configuration, and the check's index in the group.
    group: usize,
    index: usize,
    check: Arc<HealthCheck>,
    /// The settings of requests, for http.
    settings: Arc<UpConf>,
    /// The servers that have a task.
    running: RefCell<Vec<(String, PeerAddr)>>,
    places: Rc<Places>,
    _claim: Rc<Claim>,
}

/// Carry out the checks while this thread runs, unless another thread does.
pub fn start(worker: &Rc<Worker>) {
    let config = &worker.shared.config;
    let mut all: Vec<(&[Arc<Upstream>], Balancing)> = Vec::new();
    if let Some(http) = &config.http {
        all.push((&http.upstreams, |shared| &shared.balancers));
    }
    if let Some(stream) = &config.stream {
        all.push((&stream.upstreams, |shared| &shared.stream_balancers));
    }
    let is_checked = |group: &Arc<Upstream>| !group.checks.is_empty();
    if !all.iter().any(|(groups, _)| groups.iter().any(is_checked)) {
        return;
    }
    let Some(claim) = Claim::take(&worker.shared).map(Rc::new) else {
        return;
    };
    let places = Rc::new(Places::new(worker.connection_limit()));
    for (groups, balancers) in all {
        for (group, conf) in groups.iter().enumerate() {
            for (index, check) in conf.checks.iter().enumerate() {
                let watch = Rc::new(Watch {
                    worker: worker.clone(),
                    balancers,
                    group,
                    index,
                    check: check.clone(),
                    settings: Arc::new(http::settings(check)),
                    running: RefCell::default(),
                    places: places.clone(),
                    _claim: claim.clone(),
                });
                spawn(watch.servers());
            }
        }
    }
}

fn same(a: &Peer, name: &str, addr: &PeerAddr) -> bool {
    a.name == name && a.addr == *addr
}

impl Watch {
    fn group(&self) -> Arc<Group> {
        (self.balancers)(&self.worker.shared).group(self.group)
    }

    /// Start a task for each server; servers whose names are resolved may come later.
    async fn servers(self: Rc<Self>) {
        loop {
            let group = self.group();
            for peer in group.conf.peers.iter().filter(|peer| !peer.down) {
                let known = |(name, addr): &(String, PeerAddr)| same(peer, name, addr);
                if self.running.borrow().iter().any(known) {
                    continue;
                }
                let entry = (peer.name.clone(), peer.addr.clone());
                self.running.borrow_mut().push(entry);
                spawn(self.clone().until_shutdown(peer.clone()));
            }
            if group.conf.resolving.is_empty() {
                return;
            }
            let pause = sleep(self.check.conf.interval.min(LOOK_MS));
            race(self.worker.shutdown.wait(), pause).await;
            if self.worker.shutdown.is_set() {
                return;
            }
        }
    }

    async fn until_shutdown(self: Rc<Self>, peer: Peer) {
        race(self.worker.shutdown.wait(), self.follow(&peer)).await;
        let mut running = self.running.borrow_mut();
        running.retain(|(name, addr)| !same(&peer, name, addr));
    }

    /// Check a server again and again while the group has it.
    async fn follow(&self, peer: &Peer) {
        let conf = &self.check.conf;
        let alone = Arc::new(Group::new(Arc::new(self.alone(peer))));
        let mut http = http::Prober::new(self, alone.clone());
        // The passes or failures in a row.
        let mut row = (true, 0);
        loop {
            if conf.jitter > 0 {
                sleep(random_number() % (conf.jitter + 1)).await;
            }
            let place = self.places.take().await;
            let outcome = match conf.kind {
                CheckKind::Tcp | CheckKind::Udp => self.stream(alone.clone()).await,
                CheckKind::Http { .. } | CheckKind::Grpc { .. } => Box::pin(http.check()).await,
            };
            drop(place);
            row = match row {
                (passed, n) if passed == outcome.passed => (passed, n + 1),
                _ => (outcome.passed, 1),
            };
            if !self.record(peer, &outcome, row.1) {
                return;
            }
            sleep(conf.interval).await;
        }
    }

    async fn stream(&self, group: Arc<Group>) -> Outcome {
        match Box::pin(stream_probe::check(&self.worker, &self.check, group)).await {
            Ok(doing) => Outcome {
                passed: true,
                doing: doing.into(),
                reason: None,
            },
            Err(message) => Outcome::broken(message),
        }
    }

    /// A group of this server alone, at the port of the check.
    fn alone(&self, peer: &Peer) -> Upstream {
        let mut peer = Peer {
            max_conns: 0,
            backup: false,
            draining: false,
            slow_start: 0,
            ..peer.clone()
        };
        if let (Some(port), PeerAddr::Inet(addr)) = (self.check.conf.port, &mut peer.addr) {
            addr.set_port(port);
        }
        Upstream {
            peers: vec![peer],
            resolving: Vec::new(),
            balance: gallop_conf::model::Balance::RoundRobin,
            sticky: None,
            checks: Vec::new(),
            ..Upstream::clone(&self.group().conf)
        }
    }

    /// Record an outcome, the `row`th of its kind. Returns whether the group still has the server.
    fn record(&self, peer: &Peer, outcome: &Outcome, row: u32) -> bool {
        let group = self.group();
        // A server may be listed several times.
        let listed = group.conf.peers.iter().enumerate();
        let listed = listed.filter(|(_, p)| same(p, &peer.name, &peer.addr));
        let marked =
            listed.map(|(at, _)| group.with_marks(at, |marks| self.mark(marks, outcome, row)));
        let Some((is_new, verdict)) = marked.reduce(|first, _| first) else {
            return false;
        };
        if let Some(reason) = &outcome.reason {
            self.log(Level::Error, reason, peer);
        }
        if let Some(is_healthy) = verdict {
            let key = verdicts::key(&group.conf, peer);
            let current = &self.worker.shared.history.current;
            current.verdicts.put(key, is_healthy);
        }
        if is_new {
            let (level, word) = match outcome.passed {
                true => (Level::Notice, "healthy"),
                false => (Level::Warn, "unhealthy"),
            };
            let message = format!("peer is {word} while {}", outcome.doing);
            self.log(level, &message, peer);
        }
        true
    }

    /// Returns whether this outcome changed the server's state, and the verdict of all checks.
    fn mark(&self, marks: &mut Marks, outcome: &Outcome, row: u32) -> (bool, Option<bool>) {
        let conf = &self.check.conf;
        let is_new = match outcome.passed {
            true => marks.passed(self.index, row >= conf.passes, now_ms()),
            false => marks.failed(self.index, row >= conf.fails),
        };
        (is_new, marks.verdict())
    }

    fn log(&self, level: Level, message: &str, peer: &Peer) {
        let conf = &self.check.conf;
        let (name, addr, group) = (&conf.match_name, &peer.addr, &self.group().conf.name);
        let mut line =
            format!("{message}, health check \"{name}\" of peer {addr} in upstream \"{group}\"");
        if let Some(port) = conf.port {
            line += &format!(", port {port}");
        }
        let own = self.check.location.conf.error_log.as_ref();
        let logs = own.map_or(&self.worker.shared.error_log, |own| own.as_ref());
        log::error_to(logs, level, &line);
    }
}
