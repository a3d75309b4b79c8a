//! Requests that were sent on to an upstream the quick way: they wait for the answer, as idle connections wait
//! for a request, without a task.

use crate::h1::passing::{self as line, Waiter};
use crate::idle::Idle;
use crate::mux::passing::{self as stream, Streamed};
use gallop_engine::upstream::quick::Flight;
use gallop_runtime::hang_up;
use std::cell::RefCell;
use std::rc::Rc;

/// A request that waits for an upstream's answer.
struct Waiting {
    client: Client,
    flight: Box<Flight>,
    /// Milliseconds (monotonic).
    due: u64,
}

/// Who is to have the answer.
pub enum Client {
    /// A connection of HTTP/1.1, and the number of its socket.
    Line(Waiter, usize),
    /// A stream of HTTP/2 or HTTP/3.
    Stream(Streamed),
}

/// A place for the request whose socket to the upstream has this number.
struct Place {
    waiting: Option<Waiting>,
    /// As for connections that are idle, see [`Idle`].
    armed: u64,
}

const NOBODY: u32 = u32::MAX;

/// The requests of one thread that wait for upstreams' answers.
#[derive(Default)]
pub struct Passing {
    places: RefCell<Vec<Place>>,
    /// By the number of the client's socket, that of the socket to the upstream.
    by_client: RefCell<Vec<u32>>,
}

/// Has a request of HTTP/1.1 wait.
pub fn hold_line(idle: &Rc<Idle>, client: Waiter, flight: Box<Flight>) {
    let slot = flight.wait();
    let own = idle.passing().watch(&client, slot as u32);
    hold(idle, Client::Line(client, own), flight, slot);
}

/// Has the request of a stream wait; its place.
pub fn hold_stream(idle: &Rc<Idle>, client: Streamed, flight: Box<Flight>) -> usize {
    let slot = flight.wait();
    hold(idle, Client::Stream(client), flight, slot);
    slot
}

fn hold(idle: &Rc<Idle>, client: Client, flight: Box<Flight>, slot: usize) {
    let due = flight.due();
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

    /// Has the thread told when the client leaves; the number of its socket.
    fn watch(&self, client: &Waiter, slot: u32) -> usize {
        let client = client.line.park();
        let mut by_client = self.by_client.borrow_mut();
        if by_client.len() <= client {
            by_client.resize(client + 1, NOBODY);
        }
        by_client[client] = slot;
        client
    }

    fn take(&self, slot: usize) -> Option<Waiting> {
        let waiting = self.places.borrow_mut().get_mut(slot)?.waiting.take()?;
        if let Client::Line(_, client) = &waiting.client {
            self.by_client.borrow_mut()[*client] = NOBODY;
        }
        Some(waiting)
    }

    /// Takes the request that a stream has at this place.
    pub fn take_stream(&self, slot: usize) -> Option<(Streamed, Box<Flight>)> {
        let mut places = self.places.borrow_mut();
        let place = &mut places.get_mut(slot)?.waiting;
        let waiting = place.take_if(|w| matches!(w.client, Client::Stream(_)))?;
        match waiting.client {
            Client::Stream(client) => Some((client, waiting.flight)),
            Client::Line(..) => None,
        }
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
        match passing.take(slot).map(|w| (w.client, w.flight)) {
            Some((Client::Line(client, _), flight)) => line::leave(idle, client, flight, None),
            Some((Client::Stream(client), flight)) => stream::leave(idle, client, flight, None),
            None => {}
        }
        Ok(())
    }

    /// Cuts the clients off: their requests end as if they had gone. Connections with streams have tasks,
    /// which are cut off by themselves.
    pub fn hang_up(&self) {
        let places = self.places.borrow();
        for waiting in places.iter().filter_map(|p| p.waiting.as_ref()) {
            if let Client::Line(client, _) = &waiting.client {
                hang_up(client.line.raw());
            }
        }
    }
}

/// Something happened to a socket of this number, which no idle connection has.
pub fn wake(idle: &Rc<Idle>, slot: usize) {
    let passing = idle.passing();
    if let Some(Waiting { client, flight, .. }) = passing.take(slot) {
        return match client {
            Client::Line(client, _) => line::heard(idle, client, flight),
            Client::Stream(client) => stream::heard(idle, client, flight),
        };
    }
    let upstream = passing.by_client.borrow().get(slot).copied();
    let Some(upstream) = upstream.filter(|&u| u != NOBODY) else {
        return;
    };
    let Some(waiting) = passing.take(upstream as usize) else {
        return;
    };
    if let Client::Line(client, _) = waiting.client {
        line::roused(idle, client, waiting.flight);
    }
}
