//! The connection ids of both sides (RFC 9000, section 5.1).

use crate::cid::ConnectionId;
use crate::error::{Error, Reason};

/// Ids of the client that we keep at most, which it is told.
pub const ACTIVE: u64 = 4;
/// Ids of ours that a client gets at most.
const ISSUED: usize = 4;
/// Ids of the client that are given up and not yet told; who makes us keep more does nothing else.
const MAX_RETIRED: usize = 32;

/// An id, its number and its stateless reset token.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    pub sequence: u64,
    pub id: ConnectionId,
    pub token: Option<[u8; 16]>,
}

/// Those that the client writes to.
#[derive(Debug)]
pub struct Local {
    active: Vec<Numbered>,
    issued: u64,
    /// Numbers to be told.
    pub due: Vec<u64>,
    limit: usize,
    /// To be forgotten by the endpoint.
    pub gone: Vec<ConnectionId>,
}

impl Local {
    /// The one that the handshake has.
    pub fn new(first: ConnectionId) -> Self {
        Self {
            active: vec![Numbered {
                sequence: 0,
                id: first,
                token: None,
            }],
            issued: 1,
            due: Vec::new(),
            limit: 1,
            gone: Vec::new(),
        }
    }

    /// How many the client keeps, now that it may be given more.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = usize::try_from(limit).unwrap_or(ISSUED).min(ISSUED);
    }

    /// How many more it can be given.
    pub fn missing(&self) -> usize {
        self.limit.saturating_sub(self.active.len())
    }

    /// Another one, which the client is told.
    pub fn add(&mut self, id: ConnectionId, token: [u8; 16]) {
        let sequence = self.issued;
        self.issued += 1;
        self.active.push(Numbered {
            sequence,
            id,
            token: Some(token),
        });
        self.due.push(sequence);
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.active.iter().map(|numbered| numbered.id)
    }

    /// The first, which the client writes to during the handshake.
    pub fn first(&self) -> ConnectionId {
        self.active
            .first()
            .map_or(ConnectionId::local([0; 8]), |numbered| numbered.id)
    }

    /// The one with this number, if the client did not give it up.
    pub fn get(&self, sequence: u64) -> Option<&Numbered> {
        self.active
            .iter()
            .find(|numbered| numbered.sequence == sequence)
    }

    /// The client gave one up, in a packet to `used`.
    pub fn retire(&mut self, sequence: u64, used: ConnectionId) -> Result<(), Error> {
        let refuse = |reason| Err(Error::new(Reason::ProtocolViolation, reason));
        if sequence >= self.issued {
            return refuse("a connection id was retired that was never issued");
        }
        let Some(at) = self.active.iter().position(|n| n.sequence == sequence) else {
            return Ok(());
        };
        if self.active[at].id == used {
            return refuse("a connection id was retired that the packet goes to");
        }
        self.gone.push(self.active.remove(at).id);
        Ok(())
    }
}

/// Those that we write to.
#[derive(Debug)]
pub struct Remote {
    pub active: Numbered,
    spare: Vec<Numbered>,
    prior: u64,
    /// Numbers that are given up, to be told.
    pub due: Vec<u64>,
    /// Those under way count, too.
    retiring: usize,
}

impl Remote {
    /// The one that the handshake has.
    pub fn new(first: ConnectionId) -> Self {
        Self {
            active: Numbered {
                sequence: 0,
                id: first,
                token: None,
            },
            spare: Vec::new(),
            prior: 0,
            due: Vec::new(),
            retiring: 0,
        }
    }

    fn retire(&mut self, sequence: u64) -> Result<(), Error> {
        if self.retiring >= MAX_RETIRED {
            return Err(Error::new(
                Reason::ConnectionIdLimit,
                "too many connection ids given up",
            ));
        }
        self.retiring += 1;
        self.due.push(sequence);
        Ok(())
    }

    /// The client was told that one is given up.
    pub fn retired(&mut self) {
        self.retiring = self.retiring.saturating_sub(1);
    }

    /// The client offers another one, and has all before `prior` given up. True when we write to
    /// another one from now on.
    pub fn offer(&mut self, new: Numbered, prior: u64) -> Result<bool, Error> {
        let violation = |reason| Err(Error::new(Reason::ProtocolViolation, reason));
        if self.active.id.is_empty() {
            return violation("a connection id from a client that uses none");
        }
        let is_same = |n: &&Numbered| n.sequence == new.sequence || n.id == new.id;
        let same = [&self.active]
            .into_iter()
            .chain(&self.spare)
            .find(is_same)
            .copied();
        if let Some(same) = same {
            let changed = same.sequence != new.sequence || same.id != new.id;
            if changed || same.token != new.token {
                return violation("a connection id was changed");
            }
            return Ok(false);
        }
        if new.sequence < self.prior {
            self.retire(new.sequence)?;
            return Ok(false);
        }
        self.spare.push(new);
        let mut moved = false;
        if prior > self.prior {
            self.prior = prior;
            let (old, kept) = self.spare.iter().partition(|n| n.sequence < prior);
            self.spare = kept;
            let old: Vec<Numbered> = old;
            for numbered in old {
                self.retire(numbered.sequence)?;
            }
            moved = self.active.sequence < prior && self.change()?;
        }
        if self.spare.len() as u64 + 1 > ACTIVE {
            return Err(Error::new(
                Reason::ConnectionIdLimit,
                "too many connection ids",
            ));
        }
        Ok(moved)
    }

    /// Writes to another one from now on, if there is one.
    pub fn change(&mut self) -> Result<bool, Error> {
        let next = self
            .spare
            .iter()
            .enumerate()
            .min_by_key(|(_, n)| n.sequence);
        let Some(at) = next.map(|(at, _)| at) else {
            return Ok(false);
        };
        let old = std::mem::replace(&mut self.active, self.spare.remove(at));
        self.retire(old.sequence)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(sequence: u64) -> Numbered {
        let id = ConnectionId::new(&[sequence as u8 + 1; 8]).unwrap();
        Numbered {
            sequence,
            id,
            token: Some([sequence as u8; 16]),
        }
    }

    #[test]
    fn a_client_offers_ids_and_takes_them_back() {
        let mut remote = Remote::new(numbered(0).id);
        for n in 1..4 {
            assert_eq!(remote.offer(numbered(n), 0), Ok(false));
        }
        assert_eq!(remote.offer(numbered(3), 0), Ok(false));
        assert!(remote
            .offer(
                Numbered {
                    sequence: 2,
                    ..numbered(7)
                },
                0
            )
            .is_err());
        assert_eq!(remote.offer(numbered(4), 3), Ok(true));
        assert_eq!(
            (remote.active.sequence, &remote.due[..]),
            (3, &[1, 2, 0][..])
        );
        assert_eq!(remote.offer(numbered(2), 0), Ok(false));
        assert_eq!(remote.due, [1, 2, 0, 2]);
        assert_eq!(remote.offer(numbered(5), 0), Ok(false));
        assert_eq!(remote.offer(numbered(6), 0), Ok(false));
        let error = remote.offer(numbered(7), 0).unwrap_err();
        assert_eq!(error.code, Reason::ConnectionIdLimit as u64);
    }

    #[test]
    fn taking_back_without_end_is_refused() {
        let mut remote = Remote::new(numbered(0).id);
        let results = (1..200).map(|n| remote.offer(numbered(n), n));
        let error = results.into_iter().find_map(Result::err).unwrap();
        assert_eq!(error.code, Reason::ConnectionIdLimit as u64);
    }

    #[test]
    fn ids_of_ours_are_retired_once() {
        let first = numbered(0).id;
        let mut local = Local::new(first);
        local.set_limit(8);
        assert_eq!(local.missing(), 3);
        local.add(numbered(1).id, [0; 16]);
        assert!(local.retire(2, first).is_err() && local.retire(0, first).is_err());
        assert_eq!(local.retire(1, first), Ok(()));
        assert_eq!(local.retire(1, first), Ok(()));
        assert_eq!((local.gone.len(), local.missing()), (1, 3));
    }
}
