//! Connections whose request was sent on to an upstream the quick way: they wait for the answer, as idle ones
//! wait for a request, without a task.

use super::fast::{write_now, Wrote};
use super::{serve, take_up, Asked, Client, Next, Start};
use crate::idle::Idle;
use crate::transport::{Line, Transport};
use crate::worker::ConnectionCount;
use gallop_engine::upstream::quick::{self, Asked as Sent, Flight, Heard};
use gallop_engine::{Conn, Worker};
use gallop_http::message::Head;
use gallop_runtime::{coarse_ms, hang_up, spawn};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A connection that waits for an upstream's answer.
struct Waiting {
    client: Waiter,
    /// The number of the client's socket.
    slot: usize,
    flight: Box<Flight>,
    /// Milliseconds (monotonic).
    due: u64,
}

/// The client of it, whatever its bytes go through.
struct Waiter {
    conn: Rc<Conn>,
    count: ConnectionCount,
    line: Line,
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

/// Sends a request on, if it is one for the quick way. `body`: all that came behind its head.
pub fn send<T: Transport>(asked: &Asked<'_, T>, head: &mut Head, body: &[u8]) -> Sent {
    // That a client has left is told once, and it was told of this one.
    if asked.worker.shutdown.is_set() || asked.io.is_hung_up() {
        return Sent::No;
    }
    quick::ask(asked.worker, asked.conn, head, body)
}

/// Has a connection wait for the answer to the request that was sent on.
pub fn wait<T: Transport>(idle: &Rc<Idle>, client: Client<T>, flight: Box<Flight>) {
    let Client { conn, count, io } = client;
    let counters = &idle.worker().shared.counters;
    counters.requests.fetch_add(1, Ordering::Relaxed);
    counters.writing.fetch_add(1, Ordering::Relaxed);
    conn.requests.set(conn.requests.get() + 1);
    let line = io.into_line();
    hold(idle, Waiter { conn, count, line }, flight);
}

fn hold(idle: &Rc<Idle>, client: Waiter, flight: Box<Flight>) {
    let slot = flight.wait();
    let due = flight.due();
    let waiting = Waiting {
        slot: idle.passing().watch(&client.line, slot as u32),
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

    /// Has the thread told when the client leaves; the number of its socket.
    fn watch(&self, line: &Line, slot: u32) -> usize {
        let client = line.park();
        let mut by_client = self.by_client.borrow_mut();
        if by_client.len() <= client {
            by_client.resize(client + 1, NOBODY);
        }
        by_client[client] = slot;
        client
    }

    fn take(&self, slot: usize) -> Option<Waiting> {
        let waiting = self.places.borrow_mut().get_mut(slot)?.waiting.take()?;
        self.by_client.borrow_mut()[waiting.slot] = NOBODY;
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
        waiting.for_each(|w| hang_up(w.client.line.raw()));
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
    if waiting.client.line.is_hung_up() {
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
            let Waiter { conn, count, line } = client;
            let finish = |flight: Box<Flight>| flight.finish(worker, &conn, framed, out.len());
            match line {
                Line::Plain(io) => {
                    let conn = conn.clone();
                    answered(idle, Client { conn, count, io }, flight, &out, finish);
                }
                Line::Secure(io) => {
                    let conn = conn.clone();
                    answered(idle, Client { conn, count, io }, flight, &out, finish);
                }
            }
        }
    }
    OUT.set(out);
}

fn uncount(worker: &Worker) {
    let counters = &worker.shared.counters;
    counters.writing.fetch_sub(1, Ordering::Relaxed);
}

/// Sends the answer, and has the connection go on. `finish` counts and logs the request.
fn answered<T: Transport>(
    idle: &Rc<Idle>,
    client: Client<T>,
    flight: Box<Flight>,
    answer: &[u8],
    finish: impl FnOnce(Box<Flight>),
) {
    let (wait, patience) = (flight.keepalive(), flight.send_timeout());
    let wrote = write_now(&client.io, answer);
    finish(flight);
    uncount(idle.worker());
    match wrote {
        Wrote::Nothing => {}
        Wrote::All => take_up(idle, client, coarse_ms() + wait + 1),
        Wrote::Part(n) => {
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
fn leave(idle: &Rc<Idle>, client: Waiter, flight: Box<Flight>, came: Option<quick::Came>) {
    let worker = idle.worker();
    uncount(worker);
    // The task counts the request.
    let counters = &worker.shared.counters;
    counters.requests.fetch_sub(1, Ordering::Relaxed);
    let Waiter { conn, count, line } = client;
    conn.requests.set(conn.requests.get() - 1);
    let (ex, body) = flight.leave(worker, &conn, came);
    let mut early = ex.head.buf.clone();
    let len = early.len();
    early.extend_from_slice(&body);
    let start = Start {
        next: Some(Next::Request { len, bad: None, ex }),
        early,
        ..Start::default()
    };
    match line {
        Line::Plain(io) => spawn(serve(idle.clone(), Client { conn, count, io }, start)),
        Line::Secure(io) => spawn(serve(idle.clone(), Client { conn, count, io }, start)),
    }
}
