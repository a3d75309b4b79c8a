//! HTTP/1.1 connections whose request was passed to an upstream without a task of its own.

use super::fast::{write_now, Wrote};
use super::{serve, take_up, Asked, Client, Next, Start};
use crate::idle::Idle;
use crate::passing::hold_line;
use crate::transport::{Line, Transport};
use crate::worker::ConnectionCount;
use gallop_engine::upstream::quick::{self, Arrived, Asked as Sent, Flight, Heard};
use gallop_engine::{Conn, Worker};
use gallop_http::message::Head;
use gallop_runtime::{coarse_ms, spawn};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A connection that waits for an upstream response, over any transport.
pub struct Waiter {
    conn: Rc<Conn>,
    count: ConnectionCount,
    pub line: Line,
}

thread_local! {
    static OUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Pass the request to an upstream if it needs no task. `body`: all bytes that followed its head.
pub fn send<T: Transport>(asked: &Asked<'_, T>, head: &mut Head, body: &[u8]) -> Sent {
    // A hang-up is reported once, and this connection has already received it.
    if asked.worker.shutdown.is_set() || asked.io.is_hung_up() {
        return Sent::No;
    }
    let size = head.buf.len() + body.len();
    quick::ask(asked.worker, asked.conn, Arrived { head, body, size })
}

/// Let a connection wait for the upstream's response.
pub fn wait<T: Transport>(idle: &Rc<Idle>, client: Client<T>, flight: Box<Flight>) {
    let Client { conn, count, io } = client;
    let counters = &idle.worker().shared.counters;
    counters.requests.fetch_add(1, Ordering::Relaxed);
    counters.writing.fetch_add(1, Ordering::Relaxed);
    conn.requests.set(conn.requests.get() + 1);
    let line = io.into_line();
    hold_line(idle, Waiter { conn, count, line }, flight);
}

/// Handle a client that sent something or closed while the upstream works.
pub fn roused(idle: &Rc<Idle>, client: Waiter, flight: Box<Flight>) {
    if client.line.is_hung_up() {
        // The usual rules (`proxy_ignore_client_abort`) decide whether the response is still
        // needed.
        return leave(idle, client, flight, None);
    }
    // The next request waits until this response is sent.
    hold_line(idle, client, flight);
}

/// Handle an upstream that sent something or closed.
pub fn heard(idle: &Rc<Idle>, client: Waiter, flight: Box<Flight>) {
    let worker = idle.worker();
    let mut out = OUT.take();
    match flight.hear(worker, &mut out, |_| true) {
        Heard::Nothing(flight) => hold_line(idle, client, flight),
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

/// Send the response and continue with the connection. `finish` counts and logs the request.
fn answered<T: Transport>(
    idle: &Rc<Idle>,
    client: Client<T>,
    flight: Box<Flight>,
    answer: &[u8],
    finish: impl FnOnce(Box<Flight>),
) {
    let conf = flight.conf();
    let wait = conf.keepalive_timeout.unwrap_or(75_000);
    let patience = conf.send_timeout.unwrap_or(60_000);
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

/// Move the request to a task, which continues from the current state.
pub fn leave(idle: &Rc<Idle>, client: Waiter, flight: Box<Flight>, came: Option<quick::Came>) {
    let worker = idle.worker();
    uncount(worker);
    // The task will count the request.
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
