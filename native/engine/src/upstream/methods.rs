//! The methods by which a group chooses a server (load balancing).

use super::sessions::Key;
use super::state::{is_failing, Group, PeerState};
use crate::random_number;
use gallop_conf::model::{Balance, LeastTime};
use gallop_runtime::now_ms;
use std::net::IpAddr;

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

impl Group {
    /// Choose among the backup servers, or among the others.
    pub(super) fn select(
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
    pub(super) fn bound(
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
    use super::super::samples::{group, sequence};
    use super::*;

    #[test]
    fn round_robin_spreads_weights_smoothly() {
        let group = group(Balance::RoundRobin, &[5, 1, 1]);
        assert_eq!(sequence(&group, 7), [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn least_conn_chooses_the_idle_server() {
        let group = group(Balance::LeastConn, &[1, 1]);
        let held = group
            .choose(&Hint::default(), &mut Vec::new())
            .expect("a server");
        let others = sequence(&group, 3);
        assert!(others.iter().all(|&i| i != held.index), "{others:?}");
    }

    #[test]
    fn random_two_draws_two_different_servers() {
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
    fn hash_chooses_the_same_server_for_a_key() {
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
}
