//! TLS as a transport for HTTP/1 and HTTP/2.

use super::TlsStream;
use crate::transport::{Line, Transport};
use gallop_runtime::append_file;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::task::{Context, Poll};

/// Bytes of a file that are sealed at a time: four full records.
const FILE_PIECE: usize = 64 * 1024;

thread_local! {
    /// A reusable buffer for a piece of a file.
    static PIECE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A TLS stream after its handshake.
pub struct Secure {
    /// Boxed because the stream is large and moves with its connection.
    stream: Box<RefCell<TlsStream>>,
}

impl Secure {
    /// Wrap a stream.
    pub fn new(stream: TlsStream) -> Self {
        Self {
            stream: Box::new(RefCell::new(stream)),
        }
    }

    /// Send sealed bytes as far as the socket accepts them now; the rest is sent by the next write.
    fn send_some(stream: &mut TlsStream, cx: &mut Context<'_>) -> io::Result<()> {
        match stream.poll_flush(cx) {
            Poll::Ready(result) => result,
            Poll::Pending => Ok(()),
        }
    }
}

impl Transport for Secure {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut stream = self.stream.borrow_mut();
        if stream.has_buffered() {
            return Poll::Ready(());
        }
        stream.sock().io().poll_readable(cx)
    }

    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.stream.borrow_mut().poll_read(cx, buf)
    }

    fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8], more: bool) -> Poll<io::Result<usize>> {
        let mut stream = self.stream.borrow_mut();
        let written = std::task::ready!(stream.poll_write(cx, buf))?;
        if !more {
            Self::send_some(&mut stream, cx)?;
        }
        Poll::Ready(Ok(written))
    }

    fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        len: u64,
    ) -> Poll<io::Result<usize>> {
        let mut stream = self.stream.borrow_mut();
        // Flush earlier bytes first; otherwise a slow client would make them pile up here.
        std::task::ready!(stream.poll_flush(cx))?;
        let mut piece = PIECE.take();
        piece.clear();
        let want = FILE_PIECE.min(len as usize);
        let read = append_file(file, offset, want, &mut piece);
        if read
            .as_ref()
            .is_err_and(|e| e.kind() != io::ErrorKind::UnexpectedEof)
        {
            read?;
        }
        let n = piece.len();
        let mut sealed = 0;
        while sealed < n {
            match stream.poll_write(cx, &piece[sealed..n])? {
                Poll::Ready(m) => sealed += m,
                Poll::Pending => break,
            }
        }
        PIECE.set(piece);
        Self::send_some(&mut stream, cx)?;
        if sealed == 0 && n > 0 {
            return Poll::Pending;
        }
        Poll::Ready(Ok(sealed))
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.borrow_mut().poll_flush(cx)
    }

    fn close_write(&self) {
        let mut stream = self.stream.borrow_mut();
        stream.close();
        stream.sock().close_write();
    }

    fn is_hung_up(&self) -> bool {
        self.stream.borrow().sock().io().is_hung_up()
    }

    fn raw(&self) -> RawFd {
        self.stream.borrow().sock().raw()
    }

    fn has_come(&self) -> bool {
        self.stream.borrow().sock().has_come()
    }

    fn park(&self) -> usize {
        let stream = self.stream.borrow();
        stream.sock().io().park();
        stream.sock().io().slot()
    }

    fn into_line(self) -> Line {
        Line::Secure(self)
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.stream.borrow_mut().close();
    }
}
