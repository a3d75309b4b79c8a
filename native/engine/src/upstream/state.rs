//! Choosing a server of a group (load balancing); shared by the threads.

use super::least_time::Times;
use super::marks::{Marks, SCALE};
use super::resolving;
use super::sessions::Key;
use crate::panics::lock_shared;
use crate::resolver::Located;
use crate::{metrics, random_number};
use gallop_conf::model::{Balance, LeastTime, Peer, PeerAddr, Until, Upstream};
use gallop_runtime::now_ms;
use md5::{Digest, Md5};
use std::cell::Cell;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The state of a server.
#[derive(Clone, Debug, Default)]
struct PeerState {
    current_weight: i64,
    effective_weight: i64,
    fails: u32,
    /// Times in milliseconds (monotonic clock): the last failure, and the last start of the fail
    /// timeout.
    accessed: u64,
    checked: u64,
    connections: u32,
    /// For `least_time`.
    times: Times,
    marks: Marks,
}

/// A group of servers.
pub struct Group {
    pub conf: Arc<Upstream>,
    /// The index of its first server among all counted ones; `None` for a group that serves one
    /// request.
    first: Option<usize>,
    peers: Mutex<Vec<PeerState>>,
    /// The servers' addresses as text.
    names: Vec<Arc<str>>,
    /// The servers' names for `sticky`; empty without it.
    sids: Vec<Arc<str>>,
    /// The points of the consistent hash: hash and peer, sorted.
    ring: Vec<(u32, usize)>,
    /// The units of a weight: more than one if servers start slowly.
    scale: i64,
}

pub struct Balancers {
    groups: Vec<Slot>,
    /// Whether a thread resolves the servers' names.
    looked_up: AtomicBool,
}

/// The current servers of a group.
enum Slot {
    Fixed(Arc<Group>),
    /// Their names are resolved periodically.
    Resolving(Mutex<Arc<Group>>),
}

impl Slot {
    fn get(&self) -> Arc<Group> {
        match self {
            Slot::Fixed(group) => group.clone(),
            Slot::Resolving(group) => lock_shared(group).clone(),
        }
    }
}

impl Balancers {
    /// `known`: the last known addresses of a name that is resolved periodically, by its key.
    pub fn new(
        upstreams: &[Arc<Upstream>],
        known: impl Fn(&str) -> Option<Vec<Located>>,
    ) -> Balancers {
        let mut next = 0;
        let slots = upstreams.iter().map(|conf| {
            let first = next;
            next += conf.peers.len() + conf.resolving.len();
            slot(conf, first, &known)
        });
        Balancers {
            groups: slots.collect(),
            looked_up: AtomicBool::new(false),
        }
    }

    /// The group with this index in the configuration.
    pub fn group(&self, index: usize) -> Arc<Group> {
        self.groups[index].get()
    }

    /// All groups in the order of the configuration.
    pub fn groups(&self) -> impl Iterator<Item = Arc<Group>> + '_ {
        self.groups.iter().map(Slot::get)
    }

    /// Claim the task to resolve the servers' names; `true` only for the first caller.
    pub(super) fn claim_lookups(&self) -> bool {
        !self.looked_up.swap(true, Ordering::Relaxed)
    }

    /// Replace the servers of a group; the state of remaining servers is kept.
    pub(super) fn replace(&self, index: usize, conf: Upstream) {
        let Slot::Resolving(slot) = &self.groups[index] else {
            return;
        };
        let mut slot = lock_shared(slot);
        let mut group = Group::new(Arc::new(conf));
        group.first = slot.first;
        group.take_over(&slot);
        *slot = Arc::new(group);
    }
}

/// Create the slot of a group. `first`: the index of its first server among all counted ones.
/// Changing names come after the others.
fn slot(conf: &Arc<Upstream>, first: usize, known: &impl Fn(&str) -> Option<Vec<Located>>) -> Slot {
    let group = Arc::new(Group {
        first: Some(first),
        ..Group::new(resolving::recall(conf, known))
    });
    if conf.resolving.is_empty() {
        Slot::Fixed(group)
    } else {
        Slot::Resolving(Mutex::new(group))
    }
}

/// Values that the choice may depend on.
#[derive(Clone, Debug, Default)]
pub struct Hint {
    pub client: Option<IpAddr>,
    /// The evaluated key of `hash`.
    pub key: Vec<u8>,
    /// The name of the server that `sticky` binds the client to.
    pub server: Option<Vec<u8>>,
    /// The client's session for `sticky learn`.
    pub session: Option<Key>,
}

/// A chosen server; counts as a connection until it is dropped.
pub struct Chosen {
    pub group: Arc<Group>,
    pub index: usize,
    /// The start in milliseconds, for `least_time`.
    began: u64,
    /// The milliseconds until the connection was open (only in `stream`), and until the first byte
    /// of a response, or its head, came.
    connect_ms: Cell<Option<u64>>,
    header_ms: Cell<Option<u64>>,
    /// Whether it counts as a request without a response.
    is_inflight: Cell<bool>,
}

impl Chosen {
    fn new(group: &Arc<Group>, index: usize, began: u64, is_inflight: bool) -> Chosen {
        Chosen {
            group: group.clone(),
            index,
            began,
            connect_ms: Cell::new(None),
            header_ms: Cell::new(None),
            is_inflight: Cell::new(is_inflight),
        }
    }

    /// The server's name for `sticky`.
    pub fn sid(&self) -> &str {
        self.group.sid(self.index)
    }

    /// Record the time until a session of `stream` was connected to the server.
    pub fn connected(&self, ms: u64) {
        self.connect_ms.set(Some(ms));
        self.reached(Until::Connected, ms);
    }

    /// Record the time until the head of the response that the client gets, or in `stream` until
    /// its first byte.
    pub fn answered(&self, ms: u64) {
        self.header_ms.set(Some(ms));
        self.reached(Until::FirstByte, ms);
    }

    /// Stop counting the request as waiting if it waited for this.
    fn reached(&self, until: Until, ms: u64) {
        let rule = self.group.least_time();
        if rule.is_some_and(|rule| rule.inflight && rule.until == until) {
            let times = &mut self.group.lock()[self.index].times;
            times.add(until, ms);
            if self.is_inflight.replace(false) {
                times.end(now_ms(), ms);
            }
        }
    }

    pub fn peer(&self) -> &Peer {
        &self.group.conf.peers[self.index]
    }

    /// The server's address as text.
    pub fn name(&self) -> &Arc<str> {
        &self.group.names[self.index]
    }

    /// Record a failure of the server.
    pub fn failed(&self) {
        let peer = self.peer();
        let mut states = self.group.lock();
        let state = &mut states[self.index];
        let now = now_ms();
        state.fails += 1;
        state.accessed = now;
        state.checked = now;
        if let Some(step) = peer.weight.checked_div(peer.max_fails) {
            state.effective_weight -= i64::from(step);
            state.effective_weight = state.effective_weight.max(0);
        }
    }

    /// Record a response of the server.
    pub fn succeeded(&self) {
        let mut states = self.group.lock();
        let state = &mut states[self.index];
        if state.accessed < state.checked {
            let peer = self.peer();
            if peer.max_fails > 0 && state.fails >= peer.max_fails {
                state.marks.recovered(now_ms());
            }
            state.fails = 0;
        }
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        let mut states = self.group.lock();
        let state = &mut states[self.index];
        state.connections = state.connections.saturating_sub(1);
        let Some(rule) = self.group.least_time() else {
            return;
        };
        let now = now_ms();
        let lasted = now.saturating_sub(self.began);
        if self.is_inflight.get() {
            state.times.end(now, lasted);
        }
        let measured = [
            (Until::Connected, self.connect_ms.get()),
            (Until::FirstByte, self.header_ms.get()),
        ];
        // Only responses count, so that a failing server is not preferred.
        if measured.iter().any(|(_, ms)| ms.is_some()) {
            state.times.add(Until::LastByte, lasted);
        }
        for (until, ms) in measured {
            let is_counted = rule.inflight && rule.until == until;
            if let Some(ms) = ms.filter(|_| !is_counted) {
                state.times.add(until, ms);
            }
        }
    }
}

/// The points of a server with weight 1 on the consistent hash's ring.
const POINTS: u32 = 160;
/// The most weight of a server on the ring, which needs memory for each point, and of one that an
/// SRV record names.
const HEAVIEST: u32 = 100_000;
const HEAVIEST_OF_SERVICE: u32 = 100;

fn ring(conf: &Upstream) -> Vec<(u32, usize)> {
    if !matches!(
        conf.balance,
        Balance::Hash {
            consistent: true,
            ..
        }
    ) {
        return Vec::new();
    }
    let mut points = Vec::new();
    for (i, peer) in conf.peers.iter().enumerate() {
        let address = peer.addr.to_string();
        let service = peer.resolve.as_ref().and_then(|r| r.service.as_ref());
        // Servers of a service share its name, and whoever answers for it sets the weights.
        let (name, weight) = match service {
            Some(_) => (&address, peer.weight.min(HEAVIEST_OF_SERVICE)),
            None => (&peer.name, peer.weight.min(HEAVIEST)),
        };
        let (host, port) = match name.strip_prefix("unix:") {
            Some(path) => (path, ""),
            None => name.rsplit_once(':').unwrap_or((name, "")),
        };
        let base = [host.as_bytes(), b"\0", port.as_bytes()].concat();
        let mut previous = 0u32;
        for _ in 0..weight * POINTS {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&base);
            hasher.update(&previous.to_le_bytes());
            previous = hasher.finalize();
            points.push((previous, i));
        }
    }
    points.sort_unstable();
    points.dedup_by_key(|p| p.0);
    points
}

/// The names of servers for `sticky`: their routes, or the hashes of their addresses as nginx has
/// them.
fn sids(conf: &Upstream) -> Vec<Arc<str>> {
    if conf.sticky.is_none() {
        return Vec::new();
    }
    let sid = |peer: &Peer| -> Arc<str> {
        match &peer.route {
            Some(route) => route.as_str().into(),
            None => hash(&peer.addr).into(),
        }
    };
    conf.peers.iter().map(sid).collect()
}

fn hash(address: &PeerAddr) -> String {
    let hash = Md5::digest(address.to_string());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a server has failed too often to be chosen now.
fn is_failing(peer: &Peer, state: &PeerState) -> bool {
    peer.max_fails > 0
        && state.fails >= peer.max_fails
        && now_ms() - state.checked <= peer.fail_timeout
}

impl Group {
    pub fn new(conf: Arc<Upstream>) -> Group {
        let state = |p: &Peer| PeerState {
            effective_weight: p.weight.into(),
            marks: Marks::new(&conf),
            ..PeerState::default()
        };
        let starts_slowly = conf.peers.iter().any(|p| p.slow_start > 0);
        let peers = conf.peers.iter().map(state).collect();
        let name = |p: &Peer| p.addr.to_string().into();
        Group {
            names: conf.peers.iter().map(name).collect(),
            sids: sids(&conf),
            ring: ring(&conf),
            first: None,
            peers: Mutex::new(peers),
            scale: if starts_slowly { SCALE } else { 1 },
            conf,
        }
    }

    /// Copy the state of servers that `old` also has. Their open connections stay counted in `old`,
    /// where they are released.
    fn take_over(&self, old: &Group) {
        let (mut own, states) = (self.lock(), old.lock());
        for (peer, state) in self.conf.peers.iter().zip(own.iter_mut()) {
            let same = |p: &Peer| p.name == peer.name && p.addr == peer.addr;
            if let Some(i) = old.conf.peers.iter().position(same) {
                let heaviest = i64::from(peer.weight);
                *state = PeerState {
                    effective_weight: states[i].effective_weight.min(heaviest),
                    connections: 0,
                    times: states[i].times.without_requests(),
                    ..states[i].clone()
                };
            }
        }
    }

    /// The name of a server for `sticky`; empty without it.
    pub fn sid(&self, index: usize) -> &str {
        self.sids.get(index).map_or("", |sid| sid)
    }

    fn least_time(&self) -> Option<LeastTime> {
        match self.conf.balance {
            Balance::LeastTime(rule) => Some(rule),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PeerState>> {
        lock_shared(&self.peers)
    }

    /// Read or change what the health checks of a server found.
    pub(crate) fn with_marks<T>(&self, index: usize, f: impl FnOnce(&mut Marks) -> T) -> T {
        f(&mut self.lock()[index].marks)
    }

    /// The units of a weight that a server has now: fewer than the others' while it starts slowly.
    fn share(&self, i: usize, state: &PeerState) -> i64 {
        match self.scale {
            1 => 1,
            _ => state.marks.share(self.conf.peers[i].slow_start, now_ms()),
        }
    }

    /// The index of a server among all counted ones: that of its name if its address was resolved.
    pub fn meter(&self, index: usize) -> Option<usize> {
        let peer = &self.conf.peers[index];
        let place = match &peer.resolve {
            None => index,
            Some(_) => {
                let fixed = |p: &&Peer| p.resolve.is_none();
                let same = |p: &Peer| p.name == peer.name;
                let name = self.conf.resolving.iter().position(same)?;
                self.conf.peers.iter().take_while(fixed).count() + name
            }
        };
        Some(self.first? + place)
    }

    /// The state of its servers, and its names without an address.
    pub fn states(&self) -> Vec<metrics::PeerState> {
        let states = self.lock();
        let peers = self.conf.peers.iter().zip(states.iter());
        let lost = self.conf.resolving.iter().filter(|name| {
            let mut peers = self.conf.peers.iter();
            !peers.any(|p| p.resolve.is_some() && p.name == name.name)
        });
        let lost = lost.map(|peer| metrics::PeerState {
            state: if peer.down { "down" } else { "unavailable" },
            ..self.shown(peer, &PeerState::default())
        });
        let shown = peers.map(|(peer, state)| self.shown(peer, state));
        shown.chain(lost).collect()
    }

    fn shown(&self, peer: &Peer, state: &PeerState) -> metrics::PeerState {
        let failing = self.conf.peers.len() > 1 && is_failing(peer, state);
        metrics::PeerState {
            key: metrics::peer_key(&self.conf, peer),
            state: match (peer.down, state.marks.word(), failing) {
                (true, _, _) => "down",
                (false, Some(word), _) => word,
                (false, None, true) => "unavailable",
                (false, None, false) => "up",
            },
            checks: (!self.conf.checks.is_empty()).then_some(state.marks.counts),
            backup: peer.backup,
            weight: peer.weight,
            active: state.connections,
        }
    }

    /// The number of servers that a request may try.
    pub fn tries(&self) -> usize {
        let main = self
            .conf
            .peers
            .iter()
            .filter(|p| !p.backup && !p.down && !p.draining)
            .count();
        let backup = self
            .conf
            .peers
            .iter()
            .filter(|p| p.backup && !p.down && !p.draining)
            .count();
        main + backup
    }

    /// Choose a server that was not tried yet, and mark it in `tried`.
    pub fn choose(self: &Arc<Self>, hint: &Hint, tried: &mut Vec<bool>) -> Option<Chosen> {
        tried.resize(self.conf.peers.len(), false);
        if tried.is_empty() {
            // No name has an address now.
            return None;
        }
        let mut states = self.lock();
        let now = now_ms();
        if self.conf.peers.len() == 1 {
            let peer = &self.conf.peers[0];
            let full = peer.max_conns > 0 && states[0].connections >= peer.max_conns;
            let drains = peer.draining && self.bound(hint, &states, tried, peer.backup).is_none();
            if tried[0] || peer.down || full || drains || !states[0].marks.is_usable() {
                return None;
            }
            tried[0] = true;
            states[0].connections += 1;
            return Some(Chosen::new(self, 0, now, false));
        }
        let index = self.select(hint, &mut states, tried, false);
        let index = index.or_else(|| self.select(hint, &mut states, tried, true))?;
        tried[index] = true;
        let (state, peer) = (&mut states[index], &self.conf.peers[index]);
        if now - state.checked > peer.fail_timeout {
            state.checked = now;
        }
        state.connections += 1;
        let is_inflight = self.least_time().is_some_and(|rule| rule.inflight);
        if is_inflight {
            state.times.begin(now);
        }
        Some(Chosen::new(self, index, now, is_inflight))
    }

    /// Choose among the backup servers, or among the others.
    fn select(
        &self,
        hint: &Hint,
        states: &mut [PeerState],
        tried: &[bool],
        backup: bool,
    ) -> Option<usize> {
        if let Some(bound) = self.bound(hint, states, tried, backup) {
            if matches!(self.conf.balance, Balance::RoundRobin) {
                self.account(bound, states, tried, backup);
            }
            return Some(bound);
        }
        match (&self.conf.balance, backup) {
            (Balance::LeastTime(rule), _) => self.by_time(*rule, states, tried, backup),
            (_, true) => self.round_robin(states, tried, true, false),
            (_, false) => self.by_method(hint, states, tried),
        }
    }

    /// The server that `sticky` binds the client to, if it can be used.
    fn bound(
        &self,
        hint: &Hint,
        states: &[PeerState],
        tried: &[bool],
        backup: bool,
    ) -> Option<usize> {
        let server = hint.server.as_deref()?;
        let mut names = self.sids.iter().zip(&self.conf.peers);
        let index = names.position(|(sid, p)| p.backup == backup && sid.as_bytes() == server)?;
        self.takes_bound(states, tried, index).then_some(index)
    }

    /// Count a request of a bound client in the round robin: the server gets fewer of the others.
    fn account(&self, bound: usize, states: &mut [PeerState], tried: &[bool], backup: bool) {
        let group = self.conf.peers.iter().filter(|p| p.backup == backup);
        let total: i64 = group.map(|p| i64::from(p.weight)).sum();
        let others = (total - i64::from(self.conf.peers[bound].weight)) * self.scale;
        // As in nginx, one request in advance counts.
        if states[bound].current_weight > -others {
            let candidates = self.candidates(states, tried, backup);
            let (_, added) = self.weigh(states, &candidates);
            states[bound].current_weight -= added;
        }
    }

    fn candidates(&self, states: &[PeerState], tried: &[bool], backup: bool) -> Vec<usize> {
        (0..states.len())
            .filter(|&i| self.usable(states, tried, i, backup))
            .collect()
    }

    fn usable(&self, states: &[PeerState], tried: &[bool], i: usize, backup: bool) -> bool {
        let peer = &self.conf.peers[i];
        peer.backup == backup && !peer.draining && self.takes_bound(states, tried, i)
    }

    /// Whether a server takes requests of clients that are bound to it.
    fn takes_bound(&self, states: &[PeerState], tried: &[bool], i: usize) -> bool {
        let (peer, state) = (&self.conf.peers[i], &states[i]);
        let full = peer.max_conns > 0 && state.connections >= peer.max_conns;
        !tried[i] && !peer.down && state.marks.is_usable() && !is_failing(peer, state) && !full
    }

    fn by_method(&self, hint: &Hint, states: &mut [PeerState], tried: &[bool]) -> Option<usize> {
        match &self.conf.balance {
            Balance::RoundRobin => self.round_robin(states, tried, false, false),
            Balance::LeastConn => self.round_robin(states, tried, false, true),
            Balance::IpHash => self.ip_hash(hint, states, tried),
            Balance::Hash { .. } if hint.key.is_empty() => None,
            Balance::Hash {
                consistent: true, ..
            } => self.on_ring(hint, states, tried),
            Balance::Hash { .. } => self.by_key(hint, states, tried),
            Balance::Random { two, .. } => self.random(*two, states, tried),
            Balance::LeastTime(rule) => self.by_time(*rule, states, tried, false),
        }
        .or_else(|| self.round_robin(states, tried, false, false))
    }

    /// nginx's smooth weighted round robin; with `least_conn`, among the least busy servers.
    fn round_robin(
        &self,
        states: &mut [PeerState],
        tried: &[bool],
        backup: bool,
        least_busy: bool,
    ) -> Option<usize> {
        let mut candidates = self.candidates(states, tried, backup);
        if least_busy {
            let load = |i: usize| {
                // Compare fractions: connections by weight.
                let weight = u64::from(self.conf.peers[i].weight);
                let share = self.share(i, &states[i]).max(1) as u64;
                (u64::from(states[i].connections) << 20) * self.scale as u64 / (weight * share)
            };
            let least = candidates.iter().map(|&i| load(i)).min()?;
            candidates.retain(|&i| load(i) == least);
        }
        let (best, total) = self.weigh(states, &candidates);
        states[best?].current_weight -= total;
        best
    }

    /// Add the weights of the candidates; the one with most, and the sum of what was added.
    fn weigh(&self, states: &mut [PeerState], candidates: &[usize]) -> (Option<usize>, i64) {
        let mut total = 0;
        let mut best: Option<usize> = None;
        for &i in candidates {
            let weight = i64::from(self.conf.peers[i].weight);
            let share = self.share(i, &states[i]);
            let state = &mut states[i];
            let added = state.effective_weight * share;
            state.current_weight += added;
            total += added;
            if state.effective_weight < weight {
                state.effective_weight += 1;
            }
            let current = state.current_weight;
            if best.is_none_or(|b| current > states[b].current_weight) {
                best = Some(i);
            }
        }
        (best, total)
    }

    /// The server that needs the least time; several such servers take turns.
    fn by_time(
        &self,
        rule: LeastTime,
        states: &mut [PeerState],
        tried: &[bool],
        backup: bool,
    ) -> Option<usize> {
        let now = now_ms();
        let mut candidates = self.candidates(states, tried, backup);
        let mut estimates = vec![0u128; states.len()];
        for &i in &candidates {
            let (peer, state) = (&self.conf.peers[i], &mut states[i]);
            state.times.watch(now);
            let age = now.saturating_sub(state.checked);
            let time = state
                .times
                .estimate(rule, age, peer.fail_timeout, state.connections);
            estimates[i] = time.into();
        }
        // Compare fractions: times by weight.
        let heft = |i: usize| {
            let share = self.share(i, &states[i]).max(1) as u128;
            u128::from(self.conf.peers[i].weight) * share
        };
        let hefts: Vec<u128> = (0..states.len()).map(heft).collect();
        let share = |i: usize, other: usize| estimates[i] * hefts[other];
        let least = |a: &usize, b: &usize| share(*a, *b).cmp(&share(*b, *a));
        let best = candidates.iter().copied().min_by(least)?;
        candidates.retain(|&i| share(i, best) == share(best, i));
        if candidates.len() == 1 {
            return Some(best);
        }
        let (best, total) = self.weigh(states, &candidates);
        states[best?].current_weight -= total;
        best
    }

    fn total_weight(&self) -> u64 {
        self.conf
            .peers
            .iter()
            .filter(|p| !p.backup)
            .map(|p| u64::from(p.weight))
            .sum()
    }

    /// The server for a hash value.
    fn at_weight(&self, mut point: u64) -> Option<usize> {
        for (i, peer) in self
            .conf
            .peers
            .iter()
            .enumerate()
            .filter(|(_, p)| !p.backup)
        {
            if point < u64::from(peer.weight) {
                return Some(i);
            }
            point -= u64::from(peer.weight);
        }
        None
    }

    fn ip_hash(&self, hint: &Hint, states: &[PeerState], tried: &[bool]) -> Option<usize> {
        let octets = match hint.client {
            Some(IpAddr::V4(v4)) => v4.octets()[..3].to_vec(),
            Some(IpAddr::V6(v6)) => v6.octets().to_vec(),
            None => vec![0; 3],
        };
        let mut hash = 89u64;
        // nginx makes as many new attempts before it takes any server.
        for _ in 0..20 {
            for octet in &octets {
                hash = (hash * 113 + u64::from(*octet)) % 6271;
            }
            let i = self.at_weight(hash % self.total_weight().max(1))?;
            if self.usable(states, tried, i, false) {
                return Some(i);
            }
        }
        None
    }

    fn by_key(&self, hint: &Hint, states: &[PeerState], tried: &[bool]) -> Option<usize> {
        let mut hash = 0u64;
        for round in 0..20u32 {
            let mut hasher = crc32fast::Hasher::new();
            if round > 0 {
                hasher.update(round.to_string().as_bytes());
            }
            hasher.update(&hint.key);
            hash += u64::from((hasher.finalize() >> 16) & 0x7fff);
            let i = self.at_weight(hash % self.total_weight().max(1))?;
            if self.usable(states, tried, i, false) {
                return Some(i);
            }
        }
        None
    }

    fn on_ring(&self, hint: &Hint, states: &[PeerState], tried: &[bool]) -> Option<usize> {
        let hash = crc32fast::hash(&hint.key);
        let start = self.ring.partition_point(|(h, _)| *h < hash);
        let n = self.ring.len();
        (0..n)
            .map(|k| self.ring[(start + k) % n].1)
            .find(|&i| self.usable(states, tried, i, false))
    }

    /// Draw a server by weight. With `two`, draw two different ones and choose the one with fewer
    /// connections for its weight.
    fn random(&self, two: bool, states: &[PeerState], tried: &[bool]) -> Option<usize> {
        let load = |of: usize, other: usize| {
            u64::from(states[of].connections) * u64::from(self.conf.peers[other].weight)
        };
        let mut first = None;
        // nginx makes as many draws before it uses round robin.
        for _ in 0..21 {
            let i = self.at_weight(random_number() % self.total_weight().max(1))?;
            if first == Some(i) || !self.usable(states, tried, i, false) {
                continue;
            }
            match first {
                Some(other) if load(i, other) > load(other, i) => return Some(other),
                None if two => first = Some(i),
                _ => return Some(i),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gallop_conf::model::PeerAddr;

    fn group(balance: Balance, weights: &[u32]) -> Arc<Group> {
        let peer = |(i, w): (usize, &u32)| Peer {
            name: format!("127.0.0.1:{}", 8000 + i),
            addr: PeerAddr::Unix(format!("/{i}").into()),
            weight: *w,
            max_fails: 1,
            fail_timeout: 10_000,
            slow_start: 0,
            max_conns: 0,
            backup: false,
            down: false,
            draining: false,
            route: None,
            resolve: None,
        };
        Arc::new(Group::new(Arc::new(Upstream {
            name: "u".into(),
            port: None,
            explicit: true,
            in_stream: false,
            peers: weights.iter().enumerate().map(peer).collect(),
            resolving: Vec::new(),
            resolver: None,
            resolver_timeout: None,
            balance,
            sticky: None,
            keepalive: 0,
            keepalive_local: true,
            keepalive_requests: 1000,
            keepalive_timeout: 60_000,
            keepalive_time: 60_000,
            zone: None,
            checks: Vec::new(),
            place: None,
        })))
    }

    fn sequence(group: &Arc<Group>, n: usize) -> Vec<usize> {
        (0..n)
            .map(|_| {
                group
                    .choose(&Hint::default(), &mut Vec::new())
                    .expect("a server")
                    .index
            })
            .collect()
    }

    #[test]
    fn weights_are_spread_smoothly() {
        let group = group(Balance::RoundRobin, &[5, 1, 1]);
        assert_eq!(sequence(&group, 7), [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn a_failed_server_is_left_out() {
        let group = group(Balance::RoundRobin, &[1, 1]);
        group
            .choose(&Hint::default(), &mut Vec::new())
            .expect("a server")
            .failed();
        assert_eq!(sequence(&group, 3), [1, 1, 1]);
    }

    #[test]
    fn least_conn_takes_the_idle_one() {
        let group = group(Balance::LeastConn, &[1, 1]);
        let held = group
            .choose(&Hint::default(), &mut Vec::new())
            .expect("a server");
        let others = sequence(&group, 3);
        assert!(others.iter().all(|&i| i != held.index), "{others:?}");
    }

    #[test]
    fn two_that_are_drawn_are_never_the_same() {
        let drawn = Balance::Random {
            two: true,
            least_conn: true,
        };
        let group = group(drawn, &[1, 1]);
        let busy = group.choose(&Hint::default(), &mut Vec::new()).unwrap();
        let next = sequence(&group, 100);
        assert_eq!(next, [1 - busy.index; 100]);
    }

    #[test]
    fn a_key_always_meets_the_same_server() {
        for consistent in [false, true] {
            let balance = Balance::Hash {
                key: Default::default(),
                consistent,
            };
            let group = group(balance, &[1, 1, 1]);
            let hint = Hint {
                key: b"abc".to_vec(),
                ..Hint::default()
            };
            let pick = || {
                group
                    .choose(&hint, &mut Vec::new())
                    .expect("a server")
                    .index
            };
            let first = pick();
            assert!((0..5).all(|_| pick() == first));
        }
    }

    #[test]
    fn each_try_meets_another_server_until_none_is_left() {
        let group = group(Balance::RoundRobin, &[1, 1]);
        let mut tried = Vec::new();
        let a = group
            .choose(&Hint::default(), &mut tried)
            .expect("first")
            .index;
        let b = group
            .choose(&Hint::default(), &mut tried)
            .expect("second")
            .index;
        assert_ne!(a, b);
        assert!(group.choose(&Hint::default(), &mut tried).is_none());
    }
}
