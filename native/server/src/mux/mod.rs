//! What HTTP/2 and HTTP/3 connections do alike: requests that come at once on streams of one
//! connection, each answered by a task of its own, or without one: at once when the answer is prebuilt, or when
//! an upstream has given it.

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

/// The connection as the tasks of its requests see it.
pub trait Mux {
    /// How field sections are written.
    fn coding(&self) -> Coding;

    /// Sends a response's head; `end`: it has no body. Nothing happens when the stream is gone.
    fn send_head(&self, stream: u64, section: &[u8], end: bool);

    /// Whether the client takes an answer with a body of so many bytes at once.
    fn fits(&self, stream: u64, length: u64) -> bool;

    /// Whether the windows let bytes of a stream go now, where that is known before they are handed over.
    fn has_window(&self, _stream: u64) -> bool {
        true
    }

    /// Sends a whole answer that [`Mux::fits`]; `body`: `None` where it can have none.
    fn answer(&self, stream: u64, section: &[u8], body: Option<&[u8]>);

    /// A request that waited for an upstream without a task has one now; to be set when the stream is lost.
    fn landed(&self, stream: u64, gone: Rc<Notify>);

    /// Sends an interim response.
    fn send_interim(&self, stream: u64, section: &[u8]);

    /// Sends `data` until it is empty, as far as windows and buffers allow; `end`: the response
    /// ends with it.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        stream: u64,
        data: &mut Bytes,
        end: bool,
    ) -> Poll<io::Result<()>>;

    /// Sends trailers, which end the response.
    fn send_trailers(&self, stream: u64, section: &[u8]);

    /// Sets how many bytes of a stream's body go into one frame at most, where that is a choice.
    fn set_chunk(&self, _stream: u64, _bytes: u64) {}

    /// Gives a stream up: the answer cannot be had or completed. `late`: the client was too slow.
    fn abort(&self, stream: u64, late: bool);

    /// Bytes of a request's body were taken out of its queue.
    fn released(&self, stream: u64, len: usize);
}
