//! Requests on streams that were passed to an upstream without a task.

use super::serve::{count, resume};
use super::{Coding, Mux};
use crate::idle::Idle;
use crate::passing::hold_stream;
use gallop_engine::upstream::quick::{self, Arrived, Asked, Came, Flight, Heard};
use gallop_engine::{Conn, Exchange};
use gallop_http::head::RequestHead;
use gallop_http::message::{Head, Version};
use gallop_runtime::{spawn, Notify};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The stream of a request that waits for an upstream response.
pub struct Streamed {
    pub conn: Rc<Conn>,
    pub mux: Rc<dyn Mux>,
    pub stream: u64,
}

/// The result of passing a request on.
pub enum Passed {
    /// The request waits at this place.
    Waits(usize),
    /// The request has a task; set the value when the stream is lost.
    Started(Rc<Notify>),
}

thread_local! {
    static HEAD: RefCell<Head> = RefCell::default();
    static OUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The HTTP version of a coding.
pub fn version(coding: Coding) -> Version {
    match coding {
        Coding::Hpack => Version::Http2,
        Coding::Qpack => Version::Http3,
    }
}

/// Pass a request without a body to an upstream. `None`: the request needs a task.
pub fn send(idle: &Rc<Idle>, client: Streamed, head: &RequestHead) -> Option<Passed> {
    let worker = idle.worker();
    if worker.shutdown.is_set() {
        return None;
    }
    HEAD.with_borrow_mut(|common| {
        head.copy_to(common, version(client.mux.coding()));
        let arrived = Arrived {
            head: common,
            body: &[],
            size: head.size(),
        };
        match quick::ask(worker, &client.conn, arrived) {
            Asked::No => None,
            Asked::Sent(flight) => {
                count(worker, &client.conn);
                Some(Passed::Waits(hold_stream(idle, client, flight)))
            }
            Asked::Begun(begun) => {
                count(worker, &client.conn);
                let mut ex = Exchange::new(worker.clone(), client.conn);
                std::mem::swap(&mut ex.head, common);
                ex.request_length = head.size() as u64;
                ex.take_over(begun);
                Some(Passed::Started(resume(client.mux, client.stream, ex)))
            }
        }
    })
}

/// Handle an upstream that sent something or closed.
pub fn heard(idle: &Rc<Idle>, client: Streamed, flight: Box<Flight>) {
    let worker = idle.worker();
    let mut out = OUT.take();
    let fits = |length| client.mux.fits(client.stream, length);
    match flight.hear(worker, &mut out, fits) {
        Heard::Nothing(flight) => _ = hold_stream(idle, client, flight),
        Heard::Other { flight, came } => leave(idle, client, flight, Some(came)),
        Heard::Answer { flight, framed } => {
            let Streamed { conn, mux, stream } = client;
            if let Some(size) = flight.conf().http2_chunk_size {
                mux.set_chunk(stream, size);
            }
            let (section, body) = out.split_at(framed.body_at.unwrap_or(out.len()));
            mux.answer(stream, section, framed.body_at.map(|_| body));
            flight.finish(worker, &conn, framed, out.len());
        }
    }
    OUT.set(out);
}

/// Move a request to a task, which continues from the current state.
pub fn leave(idle: &Rc<Idle>, client: Streamed, flight: Box<Flight>, came: Option<Came>) {
    let Streamed { conn, mux, stream } = client;
    let (ex, _) = flight.leave(idle.worker(), &conn, came);
    let gone = resume(mux.clone(), stream, ex);
    mux.landed(stream, gone);
}

/// Handle the loss of the stream whose request waits at this place.
pub fn lost(idle: &Rc<Idle>, place: usize) {
    let Some((client, flight)) = idle.passing().take_stream(place) else {
        return;
    };
    let Streamed { conn, mux, stream } = client;
    let (ex, _) = flight.leave(idle.worker(), &conn, None);
    let gone = resume(mux, stream, ex);
    // The request adopts the connection attempt before it ends, and logs it.
    spawn(async move { gone.set() });
}
