//! The bytes that move in one direction between two connections.

use std::io;
use std::task::{ready, Context, Poll};

/// The most reads before other tasks get their turn.
const ROUNDS: u32 = 16;

pub struct Pipe {
    buf: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    taken: u64,
    total: u64,
}

/// The most bytes that the source may give now; pending until it may give some.
pub trait Allowance {
    fn poll_allowed(&mut self, cx: &mut Context<'_>, taken: u64) -> Poll<usize>;
    /// Note that bytes were taken.
    fn took(&mut self, bytes: usize);
}

/// No limit.
pub struct Unlimited;

impl Allowance for Unlimited {
    fn poll_allowed(&mut self, _: &mut Context<'_>, _: u64) -> Poll<usize> {
        Poll::Ready(usize::MAX)
    }

    fn took(&mut self, _: usize) {}
}

impl Pipe {
    /// A pipe with a buffer of that size. `early`: bytes that the source has already given.
    pub fn new(early: &[u8], size: usize) -> Pipe {
        let mut buf = early.to_vec();
        buf.resize(early.len().max(size), 0);
        Pipe {
            buf,
            start: 0,
            end: early.len(),
            ended: false,
            taken: early.len() as u64,
            total: 0,
        }
    }

    /// Whether the source has ended.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether the sink has taken everything that came.
    pub fn is_drained(&self) -> bool {
        self.start == self.end
    }

    /// The bytes that the source gave.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The bytes that the sink took.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Move bytes until the source has no more or the sink takes no more; `true` if any moved.
    ///
    /// # Errors
    /// The sink failed. A source that fails has ended.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        allowance: &mut impl Allowance,
        mut read: impl FnMut(&mut Context<'_>, &mut [u8]) -> Poll<io::Result<usize>>,
        mut write: impl FnMut(&mut Context<'_>, &[u8]) -> Poll<io::Result<usize>>,
    ) -> io::Result<bool> {
        let mut moved = false;
        for _ in 0..ROUNDS {
            while self.start < self.end {
                match write(cx, &self.buf[self.start..self.end]) {
                    Poll::Ready(n) => {
                        let n = n?;
                        self.start += n;
                        self.total += n as u64;
                        moved = true;
                    }
                    Poll::Pending => return Ok(moved),
                }
            }
            if self.ended {
                return Ok(moved);
            }
            match self.poll_fill(cx, allowance, &mut read) {
                Poll::Ready(()) => moved = true,
                Poll::Pending => return Ok(moved),
            }
        }
        cx.waker().wake_by_ref();
        Ok(moved)
    }

    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        allowance: &mut impl Allowance,
        read: &mut impl FnMut(&mut Context<'_>, &mut [u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<()> {
        let room = ready!(allowance.poll_allowed(cx, self.taken)).min(self.buf.len());
        let n = ready!(read(cx, &mut self.buf[..room])).unwrap_or(0);
        (self.start, self.end) = (0, n);
        self.taken += n as u64;
        self.ended = n == 0;
        allowance.took(n);
        Poll::Ready(())
    }
}
