//! The server chosen for a request, and the record of its connections, failures, and times.

use super::methods::Hint;
use super::state::Group;
use gallop_conf::model::{Peer, Until};
use gallop_runtime::now_ms;
use std::cell::Cell;
use std::sync::Arc;

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

impl Group {
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
}

#[cfg(test)]
mod tests {
    use super::super::samples::{group, sequence};
    use super::*;
    use gallop_conf::model::Balance;

    #[test]
    fn failed_server_is_not_chosen() {
        let group = group(Balance::RoundRobin, &[1, 1]);
        group
            .choose(&Hint::default(), &mut Vec::new())
            .expect("a server")
            .failed();
        assert_eq!(sequence(&group, 3), [1, 1, 1]);
    }

    #[test]
    fn request_tries_each_server_once() {
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
