//! What a connection's bytes go through: a plain socket, or TLS over one.

use crate::tls::Secure;
use gallop_runtime::{read_behind, Sock};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::task::{Context, Poll};

/// A byte stream with a client. Reading and writing may be polled in turn by one task.
pub trait Transport: 'static {
    /// The end of a connection can be told in the segment of its last bytes, since nothing is to be said
    /// between the two.
    const ENDS_WITH_BYTES: bool = false;

    /// Ready when a read would find bytes, or the end.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()>;
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Reads up to `room` bytes behind what `buf` holds.
    fn poll_read_more(
        &self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        read_behind(buf, room, |free| self.poll_read(cx, free))
    }
    /// `more`: further bytes follow at once.
    fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8], more: bool) -> Poll<io::Result<usize>>;
    /// Sends a range of a file; bytes sent, 0 if the file ends early.
    fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        len: u64,
    ) -> Poll<io::Result<usize>>;
    /// Everything written has reached the socket.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Tells the client that nothing more will come.
    fn close_write(&self);
    fn is_hung_up(&self) -> bool;
    fn raw(&self) -> RawFd;
    /// Whether bytes have come, also those that no event has told of yet.
    fn has_come(&self) -> bool;
    /// Has the thread told when there is something to read, see [`IoFd::park`](gallop_runtime::IoFd::park);
    /// the number it is told by.
    fn park(&self) -> usize;
    /// Itself, as it waits for the next request.
    fn into_line(self) -> Line;
}

/// What an idle connection's bytes go through.
pub enum Line {
    Plain(Plain),
    Secure(Secure),
}

impl Line {
    /// See [`Transport::park`].
    pub fn park(&self) -> usize {
        match self {
            Line::Plain(io) => io.park(),
            Line::Secure(io) => io.park(),
        }
    }

    /// See [`Transport::is_hung_up`].
    pub fn is_hung_up(&self) -> bool {
        match self {
            Line::Plain(io) => io.is_hung_up(),
            Line::Secure(io) => io.is_hung_up(),
        }
    }

    /// See [`Transport::raw`].
    pub fn raw(&self) -> RawFd {
        match self {
            Line::Plain(io) => io.raw(),
            Line::Secure(io) => io.raw(),
        }
    }

    /// See [`Transport::has_come`].
    pub fn has_come(&self) -> bool {
        match self {
            Line::Plain(io) => io.has_come(),
            Line::Secure(io) => io.has_come(),
        }
    }
}

/// Cleartext.
pub struct Plain {
    sock: Sock,
}

impl Plain {
    pub fn new(sock: Sock) -> Plain {
        Plain { sock }
    }
}

impl Transport for Plain {
    const ENDS_WITH_BYTES: bool = true;

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.sock.io().poll_readable(cx)
    }

    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.sock.poll_read(cx, buf)
    }

    fn poll_read_more(
        &self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        self.sock.poll_read_more(cx, buf, room)
    }

    fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8], more: bool) -> Poll<io::Result<usize>> {
        self.sock.poll_write(cx, buf, more)
    }

    fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        len: u64,
    ) -> Poll<io::Result<usize>> {
        self.sock.poll_send_file(cx, file, offset, len)
    }

    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn close_write(&self) {
        self.sock.close_write();
    }

    fn is_hung_up(&self) -> bool {
        self.sock.io().is_hung_up()
    }

    fn raw(&self) -> RawFd {
        self.sock.raw()
    }

    fn has_come(&self) -> bool {
        self.sock.has_come()
    }

    fn park(&self) -> usize {
        self.sock.io().park();
        self.sock.io().slot()
    }

    fn into_line(self) -> Line {
        Line::Plain(self)
    }
}
