//! The rest of a request that is sent while its response arrives (HTTP/2).

use super::keepalive::Stream;
use super::outgoing::{Outgoing, Stop, Supply};
use crate::body::{BodyError, NoBody, RequestBody};
use crate::exchange::Exchange;
use crate::phases::flow::Flow;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A request body that two sides read: the upload while it lasts, afterwards the request's owner.
#[derive(Clone)]
struct Handed {
    source: Rc<RefCell<Box<dyn RequestBody>>>,
    /// Whether the upload reads.
    is_uploaded: Rc<Cell<bool>>,
    /// Bytes that the upload has taken.
    uploaded: Rc<Cell<u64>>,
}

impl RequestBody for Handed {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        self.source.borrow_mut().poll_data(cx)
    }

    fn consumed(&self) -> u64 {
        self.source.borrow().consumed()
    }

    fn is_ended(&self) -> bool {
        self.source.borrow().is_ended()
    }

    fn discard_ready(&mut self) -> Result<(), u16> {
        match self.is_uploaded.get() {
            true => Ok(()),
            false => self.source.borrow_mut().discard_ready(),
        }
    }

    fn uncounted(&self) -> u64 {
        self.uploaded.get()
    }
}

/// The client's side of an upload.
struct FromClient {
    handed: Handed,
    /// The most bytes of a body whose length was not announced; 0 for no limit.
    most: u64,
}

impl Supply for FromClient {
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let handed = &mut self.handed;
        let before = handed.consumed();
        let polled = handed.poll_data(cx);
        let taken = handed.consumed() - before;
        handed.uploaded.set(handed.uploaded.get() + taken);
        polled
    }

    fn check_size(&mut self, total: u64) -> Result<(), Flow> {
        match self.most != 0 && total > self.most {
            true => Err(Flow::Status(413)),
            false => Ok(()),
        }
    }

    fn refuse(&mut self, _: BodyError) -> Flow {
        Flow::Close
    }
}

impl Drop for FromClient {
    fn drop(&mut self) {
        self.handed.is_uploaded.set(false);
    }
}

pub struct Upload {
    out: Outgoing,
    client: FromClient,
}

impl Upload {
    /// Go on with a request. The exchange keeps access to the rest of its body.
    pub fn new(ex: &mut Exchange, out: Outgoing) -> Upload {
        let is_needed = out.needs_client();
        let source: Box<dyn RequestBody> = match is_needed {
            true => std::mem::replace(&mut ex.source, Box::new(NoBody)),
            false => Box::new(NoBody),
        };
        let handed = Handed {
            source: Rc::new(RefCell::new(source)),
            is_uploaded: Rc::new(Cell::new(true)),
            uploaded: Rc::default(),
        };
        if is_needed {
            ex.source = Box::new(handed.clone());
        }
        let most = match ex.content_length {
            Some(_) => 0,
            None => ex.loc.conf.client_max_body_size.unwrap_or(1 << 20),
        };
        Upload {
            out,
            client: FromClient { handed, most },
        }
    }

    /// Send what can be sent now; the number of bytes sent in all.
    ///
    /// # Errors
    /// The client's body cannot be read.
    pub fn poll_write(&mut self, stream: &dyn Stream, cx: &mut Context<'_>) -> io::Result<u64> {
        let mut progress = false;
        let wrote = self
            .out
            .poll_write(stream, &mut self.client, cx, &mut progress);
        match wrote {
            // What the server sent before it closed the connection can still be read.
            Ok(_) | Err(Stop::Broken(_)) => {}
            Err(Stop::Flow(Flow::Status(413))) => {
                let message = "client intended to send too large body";
                return Err(io::Error::other(message));
            }
            Err(Stop::Flow(_)) => {
                let message = "client's request body ended early";
                return Err(io::Error::other(message));
            }
        }
        // Errors of the socket show when it is read.
        let _ = stream.poll_flush(cx);
        Ok(self.out.total)
    }

    /// Whether the whole request was sent.
    pub fn is_done(&self) -> bool {
        self.out.is_done()
    }
}
