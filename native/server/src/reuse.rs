//! Room for new connections. When few of `worker_connections` are free, the connections that have
//! been idle longest are closed, as in nginx.

use crate::idle::Idle;
use gallop_conf::model::Level;
use gallop_runtime::{coarse_ms, hang_up, Notify};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};

/// The most connections that are closed for one new connection.
const MOST: usize = 32;

/// The current time as idle connections store it: milliseconds, which start again after 49 days.
pub fn moment() -> u32 {
    coarse_ms() as u32
}

/// A connection with a task, which may be closed while it waits for a request.
pub struct Reusable {
    /// The start of the wait; `None` while the connection is busy.
    since: Cell<Option<u32>>,
    /// Set to tell the task to end the connection.
    pub closing: Notify,
    /// The socket, if closing it is sufficient.
    socket: Option<RawFd>,
}

impl Reusable {
    /// Note that the connection waits for a request from now on.
    pub fn waits(&self) {
        self.since.set(Some(moment()));
    }

    pub fn is_waiting(&self) -> bool {
        self.since.get().is_some()
    }

    pub fn is_busy(&self) {
        self.since.set(None);
    }

    fn close(&self) {
        self.is_busy();
        match self.socket {
            Some(socket) => hang_up(socket),
            None => self.closing.set(),
        }
    }
}

/// Connections that one task serves together, such as those of a QUIC socket.
pub trait Waiting {
    /// The waiting connections: the start of their wait, and their numbers.
    fn waiting(&self) -> Vec<(u32, usize)>;

    fn close(&self, number: usize);
}

/// The connections of one thread that may be closed, besides the idle ones without a task.
#[derive(Default)]
pub struct Reuse {
    tasks: RefCell<Vec<Weak<Reusable>>>,
    groups: RefCell<Vec<Weak<dyn Waiting>>>,
    /// The second of the last warning.
    warned: Cell<u64>,
}

impl Reuse {
    /// Register a connection until the returned value is dropped. `socket`: closing it is
    /// sufficient.
    pub fn add(&self, socket: Option<RawFd>) -> Rc<Reusable> {
        let reusable = Rc::new(Reusable {
            since: Cell::new(None),
            closing: Notify::default(),
            socket,
        });
        let mut tasks = self.tasks.borrow_mut();
        if tasks.len() == tasks.capacity() {
            tasks.retain(|task| task.strong_count() > 0);
        }
        tasks.push(Rc::downgrade(&reusable));
        reusable
    }

    pub fn add_group(&self, group: Weak<dyn Waiting>) {
        self.groups.borrow_mut().push(group);
    }

    fn found(&self, found: &mut Vec<Candidate>) {
        for task in self.tasks.borrow().iter().filter_map(Weak::upgrade) {
            if let Some(since) = task.since.get() {
                found.push(Candidate {
                    since,
                    what: What::Task(task),
                });
            }
        }
        for group in self.groups.borrow().iter().filter_map(Weak::upgrade) {
            found.extend(
                group
                    .waiting()
                    .into_iter()
                    .map(|(since, number)| Candidate {
                        since,
                        what: What::Member(group.clone(), number),
                    }),
            );
        }
    }
}

struct Candidate {
    since: u32,
    what: What,
}

enum What {
    Parked(usize),
    Task(Rc<Reusable>),
    Member(Rc<dyn Waiting>, usize),
}

/// Close idle connections when few places are free. Returns their number. Connections with tasks
/// end a moment later.
pub fn make_room(idle: &Idle) -> usize {
    let worker = idle.worker();
    let limit = limit(idle);
    let free = limit.saturating_sub(worker.connections.get());
    if free > limit / 16 {
        return 0;
    }
    let parked = idle.parked().into_iter();
    let mut found: Vec<Candidate> = parked
        .map(|(since, slot)| Candidate {
            since,
            what: What::Parked(slot),
        })
        .collect();
    idle.reuse().found(&mut found);
    if found.is_empty() {
        return 0;
    }
    warn(idle, limit);
    let count = (found.len() / 8).clamp(1, MOST);
    let now = moment();
    let waited = |candidate: &Candidate| now.wrapping_sub(candidate.since);
    found.select_nth_unstable_by_key(count - 1, |candidate| Reverse(waited(candidate)));
    found.truncate(count);
    found.into_iter().filter(|c| close(idle, &c.what)).count()
}

/// The value of `worker_connections`.
pub fn limit(idle: &Idle) -> usize {
    idle.worker()
        .shared
        .config
        .main
        .worker_connections
        .unwrap_or(512) as usize
}

fn warn(idle: &Idle, limit: usize) {
    let second = coarse_ms() / 1000;
    if idle.reuse().warned.replace(second) != second {
        let message = format!("{limit} worker_connections are not enough, reusing connections");
        idle.worker().log(Level::Warn, &message);
    }
}

fn close(idle: &Idle, what: &What) -> bool {
    match what {
        What::Parked(slot) => return idle.close_parked(*slot),
        What::Task(task) => task.close(),
        What::Member(group, number) => group.close(*number),
    }
    true
}
