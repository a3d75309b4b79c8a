//! The output of a connection on its way to the socket.

use crate::transport::Transport;
use std::io;
use std::task::{Context, Poll};

/// A flushed buffer larger than this is freed.
const KEPT: usize = 64 * 1024;

/// The bytes being written and the number already written.
#[derive(Default)]
pub struct Sending {
    bytes: Vec<u8>,
    pos: usize,
}

impl Sending {
    /// Whether all bytes were written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Write output until the socket accepts no more; `refill` replaces the empty buffer by the
    /// next output. Returns whether anything was written; `false` means that all output is sent.
    pub fn poll<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        io: &T,
        mut refill: impl FnMut(&mut Vec<u8>),
    ) -> Poll<io::Result<bool>> {
        let mut written = false;
        loop {
            if self.pos == self.bytes.len() {
                self.bytes.clear();
                self.pos = 0;
                if self.bytes.capacity() > KEPT {
                    self.bytes = Vec::new();
                }
                refill(&mut self.bytes);
                if self.bytes.is_empty() {
                    return match io.poll_flush(cx)? {
                        // Streams may wait for the room that was made, so report progress even if
                        // the socket is full.
                        Poll::Pending if !written => Poll::Pending,
                        _ => Poll::Ready(Ok(written)),
                    };
                }
            }
            match io.poll_write(cx, &self.bytes[self.pos..], false) {
                Poll::Ready(Ok(n)) => {
                    self.pos += n;
                    written = true;
                }
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending if written => return Poll::Ready(Ok(true)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Line;
    use std::cell::Cell;
    use std::fs::File;
    use std::os::fd::RawFd;
    use std::task::Waker;

    /// A test double for TLS over a socket that is full or not: written bytes wait inside it.
    #[derive(Default)]
    struct Secured {
        room: Cell<usize>,
        is_full: Cell<bool>,
    }

    impl Transport for Secured {
        fn poll_write(&self, _: &mut Context<'_>, buf: &[u8], _: bool) -> Poll<io::Result<usize>> {
            let taken = buf.len().min(self.room.get());
            self.room.set(self.room.get() - taken);
            match taken {
                0 => Poll::Pending,
                _ => Poll::Ready(Ok(taken)),
            }
        }

        fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            match self.is_full.get() {
                true => Poll::Pending,
                false => Poll::Ready(Ok(())),
            }
        }

        fn poll_readable(&self, _: &mut Context<'_>) -> Poll<()> {
            unreachable!("only written to")
        }

        fn poll_read(&self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
            unreachable!("only written to")
        }

        fn poll_send_file(
            &self,
            _: &mut Context<'_>,
            _: &File,
            _: u64,
            _: u64,
        ) -> Poll<io::Result<usize>> {
            unreachable!("no files by HTTP/2")
        }

        fn close_write(&self) {}

        fn is_hung_up(&self) -> bool {
            false
        }

        fn raw(&self) -> RawFd {
            unreachable!("no socket")
        }

        fn has_come(&self) -> bool {
            unreachable!("it does not wait for requests")
        }

        fn park(&self) -> usize {
            unreachable!("no socket")
        }

        fn into_line(self) -> Line {
            unreachable!("never idle")
        }
    }

    /// The result of a poll while `output` waits.
    fn poll(sending: &mut Sending, io: &Secured, output: &[u8]) -> Poll<bool> {
        let mut output = output.to_vec();
        let refill = |bytes: &mut Vec<u8>| std::mem::swap(bytes, &mut output);
        let mut cx = Context::from_waker(Waker::noop());
        sending.poll(&mut cx, io, refill).map(Result::unwrap)
    }

    #[test]
    fn room_that_was_made_is_told_though_the_socket_is_full() {
        let (mut sending, io) = (Sending::default(), Secured::default());
        io.room.set(10);
        io.is_full.set(true);
        assert_eq!(poll(&mut sending, &io, b"12345"), Poll::Ready(true));
        assert_eq!(poll(&mut sending, &io, b""), Poll::Pending);
        io.is_full.set(false);
        assert_eq!(poll(&mut sending, &io, b""), Poll::Ready(false));
    }

    #[test]
    fn what_is_not_taken_is_written_later() {
        let (mut sending, io) = (Sending::default(), Secured::default());
        assert_eq!(poll(&mut sending, &io, b"12345"), Poll::Pending);
        io.room.set(3);
        assert_eq!(poll(&mut sending, &io, b""), Poll::Ready(true));
        assert!(!sending.is_empty());
        io.room.set(10);
        assert_eq!(poll(&mut sending, &io, b""), Poll::Ready(true));
        assert!(sending.is_empty());
        assert_eq!(io.room.get(), 8);
    }
}
