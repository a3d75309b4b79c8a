//! A connection that became readable while it waited for its next request. Prepared responses are
//! sent directly; other requests get a task.

use super::{look, passing, serve, Asked, Client, Next, Start, BATCH, READ_SIZE};
use crate::idle::Idle;
use crate::session;
use crate::transport::{Line, Transport};
use gallop_engine::upstream::quick::Flight;
use gallop_runtime::{coarse_ms, spawn};
use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

thread_local! {
    /// The shared read buffer; a task copies the bytes that it needs.
    static INPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The next state of a connection.
enum Outcome {
    /// Wait for another request until this time.
    Waits(u64),
    Task(Start),
    Passed(Box<Flight>),
    /// The first bytes may be those of HTTP/2.
    Http2(Vec<u8>),
    Over,
}

/// Resume a connection whose time for sending a request ends at `due` (milliseconds, monotonic
/// clock).
pub fn take_up<T: Transport>(idle: &Rc<Idle>, client: Client<T>, due: u64) {
    let mut input = INPUT.take();
    let outcome = serve_ready(idle, &client, due, &mut input);
    input.clear();
    INPUT.set(input);
    match outcome {
        Outcome::Waits(until) => idle.park(client, until),
        Outcome::Task(start) => spawn(serve(idle.clone(), client, start)),
        Outcome::Passed(flight) => passing::wait(idle, client, flight),
        Outcome::Http2(early) => {
            let Client { conn, count, io } = client;
            if let Line::Plain(io) = io.into_line() {
                session::begin(idle, Client { conn, count, io }, early);
            }
        }
        Outcome::Over => {}
    }
}

fn serve_ready<T: Transport>(
    idle: &Rc<Idle>,
    client: &Client<T>,
    mut due: u64,
    input: &mut Vec<u8>,
) -> Outcome {
    let asked = Asked {
        worker: idle.worker(),
        conn: &client.conn,
        io: &client.io,
    };
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..BATCH {
        input.clear();
        match client.io.poll_read_more(&mut cx, input, READ_SIZE) {
            Poll::Pending => return Outcome::Waits(due),
            Poll::Ready(Ok(0) | Err(_)) => return Outcome::Over,
            Poll::Ready(Ok(_)) if session::begins_as_http2(&client.conn, input) => {
                return Outcome::Http2(input.clone());
            }
            Poll::Ready(Ok(_)) => {}
        }
        match answer_all(&asked, input, due) {
            Ok(wait) => due = coarse_ms() + wait + 1,
            Err(outcome) => return outcome,
        }
    }
    // Other connections get their turn before more is read.
    Outcome::Task(Start {
        wait: Some(due.saturating_sub(coarse_ms())),
        ..Start::default()
    })
}

/// Serve all requests in `input` from prepared responses. Returns the milliseconds to wait for the
/// next request, or the next state.
fn answer_all<T: Transport>(asked: &Asked<'_, T>, input: &[u8], due: u64) -> Result<u64, Outcome> {
    let before = asked.conn.requests.get();
    let mut left = (before > 0).then(|| due.saturating_sub(coarse_ms()));
    let mut rest = input;
    while !rest.is_empty() {
        let (next, used) = look(asked, rest, true);
        rest = &rest[used..];
        left = match next {
            Next::Answered { wait: None } => return Err(Outcome::Over),
            Next::Answered { wait } => wait,
            Next::Passed(flight) => return Err(Outcome::Passed(flight)),
            next => {
                return Err(Outcome::Task(Start {
                    early: rest.to_vec(),
                    next: Some(next),
                    wait: left,
                    pipelined: asked.conn.requests.get() > before,
                }))
            }
        };
    }
    Ok(left.unwrap_or(0))
}
