//! Upgraded connections, such as WebSocket: bytes are copied in both directions.

use super::Shared;
use crate::transport::Transport;
use gallop_engine::exchange::Upgrade;
use gallop_runtime::deadline;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

/// The bytes that move in one direction.
struct Pipe {
    buf: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    total: u64,
}

impl Pipe {
    fn new(early: &[u8]) -> Pipe {
        let mut buf = early.to_vec();
        buf.resize(early.len().max(16 * 1024), 0);
        Pipe {
            buf,
            start: 0,
            end: early.len(),
            ended: false,
            total: 0,
        }
    }

    /// Move bytes until the source has no more or the sink takes no more; `true` if any moved.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut read: impl FnMut(&mut Context<'_>, &mut [u8]) -> Poll<io::Result<usize>>,
        mut write: impl FnMut(&mut Context<'_>, &[u8]) -> Poll<io::Result<usize>>,
    ) -> io::Result<bool> {
        let mut moved = false;
        loop {
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
            match read(cx, &mut self.buf) {
                Poll::Ready(n) => {
                    let n = n?;
                    (self.start, self.end) = (0, n);
                    self.ended = n == 0;
                    moved = true;
                }
                Poll::Pending => return Ok(moved),
            }
        }
    }
}

/// Copy bytes until a side closes, fails, or is silent for too long. Returns the number of bytes
/// sent to the client.
pub async fn copy<T: Transport>(shared: &Shared<T>, upgrade: &Upgrade, early: &[u8]) -> u64 {
    let mut to_upstream = Pipe::new(early);
    let mut to_client = Pipe::new(&[]);
    let idle = deadline();
    idle.set(upgrade.timeout);
    let (io, sock) = (&shared.io, &upgrade.stream);
    poll_fn(|cx| {
        let up = to_upstream.poll(
            cx,
            |cx, b| io.poll_read(cx, b),
            |cx, b| sock.poll_write(cx, b),
        );
        let down = to_client.poll(
            cx,
            |cx, b| sock.poll_read(cx, b),
            |cx, b| io.poll_write(cx, b, false),
        );
        let (Ok(up), Ok(down)) = (up, down) else {
            return Poll::Ready(());
        };
        if io.poll_flush(cx).is_ready() && (to_upstream.ended || to_client.ended) {
            return Poll::Ready(());
        }
        if up || down {
            idle.set(upgrade.timeout);
        }
        idle.poll_over(cx)
    })
    .await;
    to_client.total
}
