//! The groups of servers of an `http` or `stream` block, and the replacement of servers whose
//! addresses change.

use super::resolving;
use super::state::Group;
use crate::panics::lock_shared;
use crate::resolver::Located;
use gallop_conf::model::Upstream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

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
    let mut group = Group::new(resolving::recall(conf, known));
    group.first = Some(first);
    let group = Arc::new(group);
    if conf.resolving.is_empty() {
        Slot::Fixed(group)
    } else {
        Slot::Resolving(Mutex::new(group))
    }
}
