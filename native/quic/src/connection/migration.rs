//! Clients that move, or seem to (RFC 9000, section 9).

use super::{Connection, From, Level, Path};
use crate::error::Error;
use std::time::{Duration, Instant};

/// PATH_CHALLENGE frames that wait for an answer; more are not answered.
const MAX_RESPONSES: usize = 4;
/// How long a client that moved has at least to show that it did.
const MIN_WAIT: Duration = Duration::from_millis(1000);

impl Connection {
    /// A PATH_CHALLENGE frame came.
    pub(super) fn on_challenge(&mut self, data: [u8; 8], from: From) {
        if self.responses.len() < MAX_RESPONSES {
            self.responses.push((data, from));
        }
    }

    /// A PATH_RESPONSE frame came.
    pub(super) fn on_response(&mut self, data: [u8; 8]) {
        if self.path.challenge.is_some_and(|(sent, _)| sent == data) {
            self.path.challenge = None;
            self.path.validated = true;
            self.previous = None;
            self.path_until = None;
        }
    }

    /// The client's highest packet came from another address: it moved.
    pub(super) fn migrate(
        &mut self,
        now: Instant,
        from: From,
        id_changed: bool,
    ) -> Result<(), Error> {
        let next = self.spaces[Level::Data as usize].sent.next();
        let mut path = match self.previous.take() {
            // It is back, or was never gone: another one sent copies of its packets (9.3.2).
            Some(known) if known.remote == from.remote => known,
            known => {
                let mut path = Path::new(from.remote, from.local, self.config.mtu, self.config.ecn);
                if from.remote.ip() == self.path.remote.ip() {
                    // Only the port changed: the way is the same (9.4).
                    path.rtt = self.path.rtt.clone();
                    path.cubic = self.path.cubic.clone();
                    path.mtu = self.path.mtu.clone();
                }
                path.first = next;
                self.previous = known;
                path
            }
        };
        path.local = from.local;
        path.on_received(from.bytes);
        let mut old = std::mem::replace(&mut self.path, path);
        if old.validated {
            // Who is still there says so by moving back (9.3.3).
            old.ask();
            self.previous = Some(old);
        }
        if !self.path.validated {
            self.path.ask();
            let wait = (3 * self.probe_timeout()).max(MIN_WAIT);
            self.path_until = Some(now + wait);
        } else {
            self.path_until = None;
        }
        if id_changed && self.remote_ids.change()? {
            self.wish_reset_token();
        }
        Ok(())
    }

    /// The client did not show that the new address is its own.
    pub(super) fn path_failed(&mut self) {
        self.path_until = None;
        self.path.challenge = None;
        match self.previous.take() {
            Some(mut path) => {
                path.challenge = None;
                self.path = path;
            }
            // There is nowhere to write to (9.3.2).
            None if !self.path.validated => self.lose(),
            None => {}
        }
    }
}
