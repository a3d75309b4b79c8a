//! The common part of HTTP/2 and HTTP/3: many requests at once on the streams of a connection. A
//! request has a task of its own unless a prepared response or an upstream can answer it without
//! one.

mod body;
mod fast;
pub mod passing;
mod serve;

pub use body::{Queue, QueuedBody};
pub use fast::{find, log};
pub use gallop_engine::section::Coding;
pub use serve::start;

use bytes::Bytes;
use gallop_runtime::Notify;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The connection as seen by the tasks of its requests.
pub trait Mux {
    /// The coding of field sections.
    fn coding(&self) -> Coding;

    /// Send the head of a response; `end`: it has no body. Does nothing if the stream is gone.
    fn send_head(&self, stream: u64, section: &[u8], end: bool);

    /// Whether the client's windows have room for a response with a body of this length.
    fn fits(&self, stream: u64, length: u64) -> bool;

    /// Whether the windows allow sending on this stream now, if this is known beforehand.
    fn has_window(&self, _stream: u64) -> bool {
        true
    }

    /// Send a whole response that [`Mux::fits`]; `body` is `None` if the response cannot have one.
    fn answer(&self, stream: u64, section: &[u8], body: Option<&[u8]>);

    /// Record that a request which waited for an upstream now has a task. Set `gone` when the
    /// stream is lost.
    fn landed(&self, stream: u64, gone: Rc<Notify>);

    /// Sends an interim response.
    fn send_interim(&self, stream: u64, section: &[u8]);

    /// Send `data` until it is empty, as far as windows and buffers allow; `end`: the response ends
    /// with it.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        stream: u64,
        data: &mut Bytes,
        end: bool,
    ) -> Poll<io::Result<()>>;

    /// Send the trailers, which end the response.
    fn send_trailers(&self, stream: u64, section: &[u8]);

    /// Set the most bytes of a stream's body per frame, if the protocol has that choice.
    fn set_chunk(&self, _stream: u64, _bytes: u64) {}

    /// Reset a stream because the response is unavailable or incomplete. `late`: the client was too
    /// slow.
    fn abort(&self, stream: u64, late: bool);

    /// Record that bytes of a request body were read, which opens the window.
    fn released(&self, stream: u64, len: usize);
}
