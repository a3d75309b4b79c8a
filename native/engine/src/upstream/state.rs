//! Choosing a server of a group (load balancing); shared by the threads.

use super::resolving;
use crate::panics::lock_shared;
use crate::{metrics, random_number};
use gallop_conf::model::{Balance, Http, Peer, Upstream};
use gallop_runtime::now_ms;
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
    /// The points of the consistent hash: hash and peer, sorted.
    ring: Vec<(u32, usize)>,
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
    /// `known`: the last known addresses of a name that is resolved periodically, by group and
    /// name.
    pub fn new(http: Option<&Http>, known: impl Fn(&str) -> Option<Vec<IpAddr>>) -> Balancers {
        let upstreams = http.map_or(&[][..], |h| &h.upstreams);
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
fn slot(conf: &Arc<Upstream>, first: usize, known: &impl Fn(&str) -> Option<Vec<IpAddr>>) -> Slot {
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
}

/// A chosen server; counts as a connection until it is dropped.
pub struct Chosen {
    pub group: Arc<Group>,
    pub index: usize,
}

impl Chosen {
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
            state.fails = 0;
        }
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        let mut states = self.group.lock();
        let count = &mut states[self.index].connections;
        *count = count.saturating_sub(1);
    }
}

/// The points of a server with weight 1 on the consistent hash's ring.
const POINTS: u32 = 160;

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
        let (host, port) = match peer.name.strip_prefix("unix:") {
            Some(path) => (path, ""),
            None => peer.name.rsplit_once(':').unwrap_or((&peer.name, "")),
        };
        let base = [host.as_bytes(), b"\0", port.as_bytes()].concat();
        let mut previous = 0u32;
        for _ in 0..peer.weight * POINTS {
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
            ..PeerState::default()
        };
        let peers = conf.peers.iter().map(state).collect();
        let name = |p: &Peer| p.addr.to_string().into();
        Group {
            names: conf.peers.iter().map(name).collect(),
            ring: ring(&conf),
            first: None,
            peers: Mutex::new(peers),
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
                *state = PeerState {
                    connections: 0,
                    ..states[i].clone()
                };
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PeerState>> {
        lock_shared(&self.peers)
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
            state: match (peer.down, failing) {
                (true, _) => "down",
                (false, true) => "unavailable",
                (false, false) => "up",
            },
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
            .filter(|p| !p.backup && !p.down)
            .count();
        let backup = self
            .conf
            .peers
            .iter()
            .filter(|p| p.backup && !p.down)
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
        if self.conf.peers.len() == 1 {
            let peer = &self.conf.peers[0];
            let full = peer.max_conns > 0 && states[0].connections >= peer.max_conns;
            if tried[0] || peer.down || full {
                return None;
            }
            tried[0] = true;
            states[0].connections += 1;
            return Some(Chosen {
                group: self.clone(),
                index: 0,
            });
        }
        let index = self.by_method(hint, &mut states, tried);
        let index = index.or_else(|| self.round_robin(&mut states, tried, true, false))?;
        tried[index] = true;
        let (state, peer) = (&mut states[index], &self.conf.peers[index]);
        let now = now_ms();
        if now - state.checked > peer.fail_timeout {
            state.checked = now;
        }
        state.connections += 1;
        Some(Chosen {
            group: self.clone(),
            index,
        })
    }

    fn usable(&self, states: &[PeerState], tried: &[bool], i: usize, backup: bool) -> bool {
        let (peer, state) = (&self.conf.peers[i], &states[i]);
        let failing = is_failing(peer, state);
        let full = peer.max_conns > 0 && state.connections >= peer.max_conns;
        !tried[i] && !peer.down && peer.backup == backup && !failing && !full
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
        let mut candidates: Vec<usize> = (0..states.len())
            .filter(|&i| self.usable(states, tried, i, backup))
            .collect();
        if least_busy {
            let load = |i: usize| {
                // Compare fractions: connections by weight.
                (u64::from(states[i].connections) << 20) / u64::from(self.conf.peers[i].weight)
            };
            let least = candidates.iter().map(|&i| load(i)).min()?;
            candidates.retain(|&i| load(i) == least);
        }
        let mut total = 0;
        let mut best: Option<usize> = None;
        for i in candidates {
            let weight = i64::from(self.conf.peers[i].weight);
            let state = &mut states[i];
            state.current_weight += state.effective_weight;
            total += state.effective_weight;
            if state.effective_weight < weight {
                state.effective_weight += 1;
            }
            let current = state.current_weight;
            if best.is_none_or(|b| current > states[b].current_weight) {
                best = Some(i);
            }
        }
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
            let i = self.at_weight(hash % self.total_weight())?;
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
            let i = self.at_weight(hash % self.total_weight())?;
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
            let i = self.at_weight(random_number() % self.total_weight())?;
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
            max_conns: 0,
            backup: false,
            down: false,
            resolve: None,
        };
        Arc::new(Group::new(Arc::new(Upstream {
            name: "u".into(),
            port: None,
            explicit: true,
            peers: weights.iter().enumerate().map(peer).collect(),
            resolving: Vec::new(),
            resolver: None,
            resolver_timeout: None,
            balance,
            keepalive: 0,
            keepalive_local: true,
            keepalive_requests: 1000,
            keepalive_timeout: 60_000,
            keepalive_time: 60_000,
            zone: None,
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
                client: None,
                key: b"abc".to_vec(),
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
