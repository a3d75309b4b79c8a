//! Connections that wait for a request. A thread may have very many, so each is stored as little
//! more than its socket and its addresses: no task, no buffers, no timer.

use crate::h1::{self, Client};
use crate::passing::{self, Passing};
use crate::reuse::{moment, Reuse};
use crate::transport::{Line, Transport};
use crate::worker::ConnectionCount;
use gallop_engine::{Conn, Worker};
use gallop_runtime::{coarse_ms, deadline, Deadline};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

/// An idle connection.
struct Parked {
    conn: Rc<Conn>,
    count: ConnectionCount,
    line: Line,
    /// Milliseconds (monotonic).
    due: u64,
}

/// The slot for the connection whose socket has this number.
struct Slot {
    parked: Option<Parked>,
    /// The time of this slot's valid heap entry; `u64::MAX` if there is none. Moving a deadline
    /// costs nothing until that entry comes up.
    armed: u64,
}

/// Milliseconds that clients have to send another request during a graceful shutdown. A request may
/// already be on its way; its response closes the connection. Closing at once would lose that
/// request.
const GRACE_MS: u64 = 250;

/// Marks alarms that belong to upstream sockets.
const UPSTREAM: usize = 1 << 31;

/// The idle connections of one thread.
pub struct Idle {
    worker: Rc<Worker>,
    slots: RefCell<Vec<Slot>>,
    passing: Passing,
    heap: RefCell<BinaryHeap<Reverse<(u64, u32)>>>,
    /// The next time to check the heap, and the task that does it.
    alarm: Deadline,
    alarm_at: Cell<u64>,
    watcher: RefCell<Option<Waker>>,
    closed: Cell<bool>,
    reuse: Reuse,
}

impl Idle {
    pub fn new(worker: Rc<Worker>) -> Idle {
        Idle {
            worker,
            slots: RefCell::default(),
            passing: Passing::default(),
            heap: RefCell::default(),
            alarm: deadline(),
            alarm_at: Cell::new(u64::MAX),
            watcher: RefCell::default(),
            closed: Cell::new(false),
            reuse: Reuse::default(),
        }
    }

    pub fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Keep a connection until its client sends something or until `due` (milliseconds, monotonic
    /// clock). The caller's last read must have found nothing.
    pub fn park<T: Transport>(&self, client: Client<T>, mut due: u64) {
        let Client { conn, count, io } = client;
        // A connection without a first request may still send it.
        if self.worker.shutdown.is_set() && conn.requests.get() > 0 {
            due = due.min(coarse_ms() + GRACE_MS);
        }
        conn.waits_since.set(moment());
        let slot = io.park();
        let mut slots = self.slots.borrow_mut();
        while slots.len() <= slot {
            slots.push(Slot {
                parked: None,
                armed: u64::MAX,
            });
        }
        let place = &mut slots[slot];
        place.parked = Some(Parked {
            conn,
            count,
            line: io.into_line(),
            due,
        });
        self.waiting().fetch_add(1, Ordering::Relaxed);
        if due < place.armed {
            place.armed = due;
            drop(slots);
            self.arm(due, slot);
        }
    }

    /// Connections with tasks that may be closed to make room.
    pub fn reuse(&self) -> &Reuse {
        &self.reuse
    }

    /// The idle connections: the start of their wait, and their slots.
    pub fn parked(&self) -> Vec<(u32, usize)> {
        let slots = self.slots.borrow();
        let parked = slots.iter().enumerate();
        parked
            .filter_map(|(slot, place)| Some((place.parked.as_ref()?.conn.waits_since.get(), slot)))
            .collect()
    }

    /// Close an idle connection unless a request has arrived meanwhile.
    pub fn close_parked(&self, slot: usize) -> bool {
        let has_come = |place: &Slot| place.parked.as_ref().is_some_and(|p| p.line.has_come());
        if self.slots.borrow().get(slot).is_none_or(has_come) {
            return false;
        }
        self.take(slot).is_some()
    }

    /// The requests that wait for an upstream.
    pub fn passing(&self) -> &Passing {
        &self.passing
    }

    /// Set an alarm for the request whose upstream socket has this number.
    pub fn arm_upstream(&self, at: u64, slot: usize) {
        self.arm(at, slot | UPSTREAM);
    }

    fn waiting(&self) -> &std::sync::atomic::AtomicU64 {
        self.worker.shared.counters.waiting
    }

    fn arm(&self, at: u64, slot: usize) {
        self.heap.borrow_mut().push(Reverse((at, slot as u32)));
        if at < self.alarm_at.get() {
            if let Some(watcher) = self.watcher.borrow_mut().take() {
                watcher.wake();
            }
        }
    }

    fn take(&self, slot: usize) -> Option<Parked> {
        let parked = self.slots.borrow_mut().get_mut(slot)?.parked.take()?;
        self.waiting().fetch_sub(1, Ordering::Relaxed);
        Some(parked)
    }

    /// Handle an event of the socket with this number.
    pub fn wake(self: &Rc<Self>, slot: usize) {
        let Some(parked) = self.take(slot) else {
            return passing::wake(self, slot);
        };
        let Parked {
            conn,
            count,
            line,
            due,
        } = parked;
        match line {
            Line::Plain(io) => h1::take_up(self, Client { conn, count, io }, due),
            Line::Secure(io) => h1::take_up(self, Client { conn, count, io }, due),
        }
    }

    /// Close connections whose time is up. Never returns.
    pub async fn watch(self: Rc<Self>) {
        poll_fn(|cx| {
            self.expire();
            let next = self.heap.borrow().peek().map(|Reverse((at, _))| *at);
            *self.watcher.borrow_mut() = Some(cx.waker().clone());
            self.alarm_at.set(next.unwrap_or(u64::MAX));
            match next {
                Some(at) => self.alarm.set(at.saturating_sub(coarse_ms())),
                None => self.alarm.clear(),
            }
            let _ = self.alarm.poll_over(cx);
            Poll::<()>::Pending
        })
        .await;
    }

    fn expire(self: &Rc<Self>) {
        let now = coarse_ms();
        loop {
            let mut heap = self.heap.borrow_mut();
            let Some(&Reverse((at, slot))) = heap.peek() else {
                return;
            };
            if at > now {
                return;
            }
            heap.pop();
            drop(heap);
            if slot as usize & UPSTREAM != 0 {
                let upstream = slot as usize & !UPSTREAM;
                if let Err(later) = Passing::expire(self, upstream, at, now) {
                    self.heap.borrow_mut().push(Reverse((later, slot)));
                }
                continue;
            }
            let mut slots = self.slots.borrow_mut();
            let place = &mut slots[slot as usize];
            if place.armed != at {
                continue;
            }
            place.armed = u64::MAX;
            match &place.parked {
                Some(parked) if parked.due > now => {
                    place.armed = parked.due;
                    let due = parked.due;
                    drop(slots);
                    self.heap.borrow_mut().push(Reverse((due, slot)));
                }
                // A request that arrived in the last moment is in time.
                Some(parked) if parked.line.has_come() => {
                    drop(slots);
                    self.wake(slot as usize);
                }
                Some(_) => {
                    drop(slots);
                    drop(self.take(slot as usize));
                }
                None => {}
            }
        }
    }

    /// Close connections that had a request as soon as they pass `GRACE_MS` without another.
    pub fn close_soon(&self) {
        let due = coarse_ms() + GRACE_MS;
        let count = self.slots.borrow().len();
        for slot in 0..count {
            let mut slots = self.slots.borrow_mut();
            let place = &mut slots[slot];
            let Some(parked) = &mut place.parked else {
                continue;
            };
            if parked.conn.requests.get() > 0 && due < parked.due {
                parked.due = due;
                if due < place.armed {
                    place.armed = due;
                    drop(slots);
                    self.arm(due, slot);
                }
            }
        }
    }

    /// Whether the worker is closing its last connections.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Close all connections at once.
    pub fn close(&self) {
        self.closed.set(true);
        self.passing.hang_up();
        let count = self.slots.borrow().len();
        for slot in 0..count {
            drop(self.take(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An idle connection costs the socket's state in the runtime (24 bytes), its addresses (96),
    /// and the heap entry (16).
    #[test]
    fn a_connection_that_waits_costs_little() {
        assert!(size_of::<Slot>() <= 48, "{} bytes", size_of::<Slot>());
    }
}
