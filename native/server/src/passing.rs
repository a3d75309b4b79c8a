//! Requests that were passed to an upstream and wait for the response without a task, as idle
//! connections wait for requests.

use crate::h1::passing::{self as line, Waiter};
use crate::idle::Idle;
use crate::mux::passing::{self as stream, Streamed};
use gallop_engine::upstream::quick::Flight;
use gallop_runtime::hang_up;
use std::cell::RefCell;
use std::rc::Rc;

/// A request that waits for an upstream response.
struct Waiting {
    client: Client,
    flight: Box<Flight>,
    /// Milliseconds (monotonic).
    due: u64,
}

/// The receiver of the response.
pub enum Client {
    /// An HTTP/1.1 connection and the number of its socket.
    Line(Waiter, usize),
    /// A stream of HTTP/2 or HTTP/3.
    Stream(Streamed),
}

/// The slot for the request whose upstream socket has this number.
struct Place {
    waiting: Option<Waiting>,
    /// The time of the valid heap entry, as in [`Idle`].
    armed: u64,
}

const NOBODY: u32 = u32::MAX;

/// The requests of one thread that wait for upstream responses.
#[derive(Default)]
pub struct Passing {
    places: RefCell<Vec<Place>>,
    /// For each client socket number, the number of the upstream socket.
    by_client: RefCell<Vec<u32>>,
}

/// Let an HTTP/1.1 request wait.
pub fn hold_line(idle: &Rc<Idle>, client: Waiter, flight: Box<Flight>) {
    let slot = flight.wait();
    let own = idle.passing().watch(&client, slot as u32);
    hold(idle, Client::Line(client, own), flight, slot);
}

/// Let the request of a stream wait. Returns its place.
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
    /// Store a waiting request; `true` if it needs a new alarm.
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

    /// Watch for the client's disconnect. Returns the number of its socket.
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

    /// Remove the stream's request at this place.
    pub fn take_stream(&self, slot: usize) -> Option<(Streamed, Box<Flight>)> {
        let mut places = self.places.borrow_mut();
        let place = &mut places.get_mut(slot)?.waiting;
        let waiting = place.take_if(|w| matches!(w.client, Client::Stream(_)))?;
        match waiting.client {
            Client::Stream(client) => Some((client, waiting.flight)),
            Client::Line(..) => None,
        }
    }

    /// Handle the alarm that was set for `at`. `Err`: set it again for that time.
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

    /// Disconnect the clients: their requests end as if the clients had left. Connections with
    /// streams have tasks, which end by themselves.
    pub fn hang_up(&self) {
        let places = self.places.borrow();
        for waiting in places.iter().filter_map(|p| p.waiting.as_ref()) {
            if let Client::Line(client, _) = &waiting.client {
                hang_up(client.line.raw());
            }
        }
    }
}

/// Handle an event of a socket that belongs to no idle connection.
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
