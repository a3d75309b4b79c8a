//! The connection ids of both sides (RFC 9000, section 5.1).

use crate::cid::ConnectionId;
use crate::error::{Error, Reason};

/// The most client ids that we store; announced to the client.
pub const ACTIVE: u64 = 4;
/// The most ids that we issue to a client.
const ISSUED: usize = 4;
/// The most client ids whose retirement is not acknowledged; only an abusive client causes more.
const MAX_RETIRED: usize = 32;

/// An id with its sequence number and stateless reset token.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    pub sequence: u64,
    pub id: ConnectionId,
    pub token: Option<[u8; 16]>,
}

/// The ids that the client uses.
#[derive(Debug)]
pub struct Local {
    active: Vec<Numbered>,
    issued: u64,
    /// Sequence numbers to announce.
    pub due: Vec<u64>,
    limit: usize,
    /// Ids that the endpoint must remove.
    pub gone: Vec<ConnectionId>,
}

impl Local {
    /// Start with the id of the handshake.
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

    /// Set the number of ids that the client stores, once it may be given more.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = usize::try_from(limit).unwrap_or(ISSUED).min(ISSUED);
    }

    /// The number of further ids that may be issued.
    pub fn missing(&self) -> usize {
        self.limit.saturating_sub(self.active.len())
    }

    /// Add an id, to be announced to the client.
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

    /// The first id, which the client uses during the handshake.
    pub fn first(&self) -> ConnectionId {
        self.active
            .first()
            .map_or(ConnectionId::local([0; 8]), |numbered| numbered.id)
    }

    /// The id with this sequence number, unless the client retired it.
    pub fn get(&self, sequence: u64) -> Option<&Numbered> {
        self.active
            .iter()
            .find(|numbered| numbered.sequence == sequence)
    }

    /// Handle the retirement of an id, in a packet to `used`.
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

/// The ids that we use.
#[derive(Debug)]
pub struct Remote {
    pub active: Numbered,
    spare: Vec<Numbered>,
    prior: u64,
    /// Sequence numbers of retired ids, to be announced.
    pub due: Vec<u64>,
    /// The number of retirements without acknowledgment, including those under way.
    retiring: usize,
}

impl Remote {
    /// Start with the id of the handshake.
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

    /// A retirement was acknowledged.
    pub fn retired(&mut self) {
        self.retiring = self.retiring.saturating_sub(1);
    }

    /// Handle a new id from the client, which retires all ids before `prior`. `true` if we use
    /// another id from now on.
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

    /// Use another id from now on, if there is one.
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
