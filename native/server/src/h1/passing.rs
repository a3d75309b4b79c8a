//! Connections whose request was sent on to an upstream the quick way: they wait for the answer, as idle ones
//! wait for a request, without a task.

use super::fast::write_now;
use super::{serve, take_up, Asked, Client, Next, Start};
use crate::idle::Idle;
use crate::transport::{Line, Plain, Transport};
use gallop_engine::upstream::quick::{self, Asked as Sent, Flight, Heard};
use gallop_engine::Worker;
use gallop_http::message::Head;
use gallop_runtime::{coarse_ms, hang_up, spawn};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A connection that waits for an upstream's answer.
struct Waiting {
    client: Client<Plain>,
    flight: Box<Flight>,
    /// Milliseconds (monotonic).
    due: u64,
}

/// A place for the request whose socket to the upstream has this number.
struct Place {
    waiting: Option<Waiting>,
    /// As for connections that are idle, see [`Idle`].
    armed: u64,
}

const NOBODY: u32 = u32::MAX;

/// The connections of one thread that wait for upstreams' answers.
#[derive(Default)]
pub struct Passing {
    places: RefCell<Vec<Place>>,
    /// By the number of the client's socket, that of the socket to the upstream.
    by_client: RefCell<Vec<u32>>,
}

thread_local! {
    static OUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Sends a request on, if it is one for the quick way.
pub fn send<T: Transport>(asked: &Asked<'_, T>, head: &mut Head) -> Sent {
    // That a client has left is told once, and it was told of this one.
    if asked.worker.shutdown.is_set() || asked.io.is_hung_up() {
        return Sent::No;
    }
    quick::ask(asked.worker, asked.conn, head)
}

/// Has a connection wait for the answer to the request that was sent on.
pub fn wait<T: Transport>(idle: &Rc<Idle>, client: Client<T>, flight: Box<Flight>) {
    let Client { conn, count, io } = client;
    let counters = &idle.worker().shared.counters;
    counters.requests.fetch_add(1, Ordering::Relaxed);
    counters.writing.fetch_add(1, Ordering::Relaxed);
    conn.requests.set(conn.requests.get() + 1);
    match io.into_line() {
        Line::Plain(io) => hold(idle, Client { conn, count, io }, flight),
        Line::Secure(io) => leave(idle, Client { conn, count, io }, flight, None),
    }
}

fn hold(idle: &Rc<Idle>, client: Client<Plain>, flight: Box<Flight>) {
    let slot = flight.wait();
    let due = flight.due();
    idle.passing().watch(&client.io, slot as u32);
    let waiting = Waiting {
        client,
        flight,
        due,
    };
    if idle.passing().put(slot, waiting) {
        idle.arm_upstream(due, slot);
    }
}

impl Passing {
    /// Whether a new alarm is needed.
    fn put(&self, slot: usize, waiting: Waiting) -> bool {
        let mut places = self.places.borrow_mut();
        while places.len() <= slot {
            places.push(Place {
                waiting: None,
                armed: u64::MAX,
            });
        }
        let place = &mut places[slot];
        let sooner = waiting.due < place.armed;
        if sooner {
            place.armed = waiting.due;
        }
        place.waiting = Some(waiting);
        sooner
    }

    /// Has the thread told when the client leaves.
    fn watch(&self, io: &Plain, slot: u32) {
        let client = io.park();
        let mut by_client = self.by_client.borrow_mut();
        if by_client.len() <= client {
            by_client.resize(client + 1, NOBODY);
        }
        by_client[client] = slot;
    }

    fn take(&self, slot: usize) -> Option<Waiting> {
        let waiting = self.places.borrow_mut().get_mut(slot)?.waiting.take()?;
        self.by_client.borrow_mut()[waiting.client.io.slot()] = NOBODY;
        Some(waiting)
    }

    /// An alarm that was set for `at` went off. `Err`: set it for that time again.
    pub fn expire(idle: &Rc<Idle>, slot: usize, at: u64, now: u64) -> Result<(), u64> {
        let passing = idle.passing();
        {
            let mut places = passing.places.borrow_mut();
            let place = &mut places[slot];
            if place.armed != at {
                return Ok(());
            }
            place.armed = u64::MAX;
            match &place.waiting {
                Some(waiting) if waiting.due > now => {
                    place.armed = waiting.due;
                    return Err(waiting.due);
                }
                Some(_) => {}
                None => return Ok(()),
            }
        }
        if let Some(waiting) = passing.take(slot) {
            leave(idle, waiting.client, waiting.flight, None);
        }
        Ok(())
    }

    /// Cuts the clients off: their requests end as if they had gone.
    pub fn hang_up(&self) {
        let places = self.places.borrow();
        let waiting = places.iter().filter_map(|p| p.waiting.as_ref());
        waiting.for_each(|w| hang_up(w.client.io.raw()));
    }
}

/// Something happened to a socket of this number, which no idle connection has.
pub fn wake(idle: &Rc<Idle>, slot: usize) {
    let passing = idle.passing();
    if let Some(waiting) = passing.take(slot) {
        return heard(idle, waiting);
    }
    let upstream = passing.by_client.borrow().get(slot).copied();
    let Some(upstream) = upstream.filter(|&u| u != NOBODY) else {
        return;
    };
    let Some(waiting) = passing.take(upstream as usize) else {
        return;
    };
    if waiting.client.io.is_hung_up() {
        // Whether the answer is still wanted is decided as for any other request.
        return leave(idle, waiting.client, waiting.flight, None);
    }
    // The next request: it is read when this one is answered.
    hold(idle, waiting.client, waiting.flight);
}

fn heard(idle: &Rc<Idle>, waiting: Waiting) {
    let Waiting { client, flight, .. } = waiting;
    let worker = idle.worker();
    let mut out = OUT.take();
    match flight.hear(worker, &mut out) {
        Heard::Nothing(flight) => hold(idle, client, flight),
        Heard::Other { flight, came } => leave(idle, client, flight, Some(came)),
        Heard::Answer { flight, framed } => {
            let (wait, patience) = (flight.keepalive(), flight.send_timeout());
            let sent = write_now(&client.io, &out);
            flight.finish(worker, &client.conn, framed, out.len());
            uncount(worker);
            go_on(idle, client, &out, sent, wait, patience);
        }
    }
    OUT.set(out);
}

fn uncount(worker: &Worker) {
    let counters = &worker.shared.counters;
    counters.writing.fetch_sub(1, Ordering::Relaxed);
}

/// The connection after an answer of which `sent` bytes were taken; `None`: it broke.
fn go_on(
    idle: &Rc<Idle>,
    client: Client<Plain>,
    answer: &[u8],
    sent: Option<usize>,
    wait: u64,
    patience: u64,
) {
    match sent {
        None => {}
        Some(n) if n == answer.len() => take_up(idle, client, coarse_ms() + wait + 1),
        Some(n) => {
            let next = Next::Partly {
                rest: answer[n..].to_vec(),
                wait: Some(wait),
                patience,
            };
            let start = Start {
                next: Some(next),
                ..Start::default()
            };
            spawn(serve(idle.clone(), client, start));
        }
    }
}

/// Gives a request that needs more than the quick way a task, which goes on from where it stands.
fn leave<T: Transport>(
    idle: &Rc<Idle>,
    client: Client<T>,
    flight: Box<Flight>,
    came: Option<quick::Came>,
) {
    let worker = idle.worker();
    uncount(worker);
    // The task counts the request.
    let counters = &worker.shared.counters;
    counters.requests.fetch_sub(1, Ordering::Relaxed);
    client.conn.requests.set(client.conn.requests.get() - 1);
    let ex = flight.leave(worker, &client.conn, came);
    let early = ex.head.buf.clone();
    let start = Start {
        next: Some(Next::Request {
            len: early.len(),
            bad: None,
            ex,
        }),
        early,
        ..Start::default()
    };
    spawn(serve(idle.clone(), client, start));
}
