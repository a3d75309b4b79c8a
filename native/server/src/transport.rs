//! The transport of a connection: a plain socket, or TLS over one.

use crate::tls::Secure;
use gallop_runtime::{read_behind, Sock};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::task::{Context, Poll};

/// A byte stream to a client. One task may poll reads and writes in turn.
pub trait Transport: 'static {
    /// Whether the end of the connection can share the segment of the last bytes because no
    /// protocol message comes between them.
    const ENDS_WITH_BYTES: bool = false;

    /// Ready when a read would return bytes or the end of the stream.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()>;
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Read up to `room` bytes and append them to `buf`.
    fn poll_read_more(
        &self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        read_behind(buf, room, |free| self.poll_read(cx, free))
    }
    /// Write bytes. `more`: further bytes follow at once.
    fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8], more: bool) -> Poll<io::Result<usize>>;
    /// Send a range of a file. Returns the number of bytes sent; 0 if the file ends early.
    fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        len: u64,
    ) -> Poll<io::Result<usize>>;
    /// Ready when all written bytes have reached the socket.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Shut down the sending side.
    fn close_write(&self);
    fn is_hung_up(&self) -> bool;
    fn raw(&self) -> RawFd;
    /// Whether bytes have arrived, including those without an event yet.
    fn has_come(&self) -> bool;
    /// Register for an event when the connection becomes readable, see
    /// [`IoFd::park`](gallop_runtime::IoFd::park). Returns the number that the event carries.
    fn park(&self) -> usize;
    /// Convert to the form for idle connections.
    fn into_line(self) -> Line;
}

/// The transport of an idle connection.
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

/// A connection without TLS.
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
