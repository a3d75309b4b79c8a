//! Upgraded connections, such as WebSocket: bytes are copied in both directions.

use super::Shared;
use crate::transport::Transport;
use gallop_engine::exchange::Upgrade;
use gallop_engine::pipe::{Pipe, Unlimited};
use gallop_runtime::deadline;
use std::future::poll_fn;
use std::task::Poll;

/// The bytes that one direction buffers.
const BUFFER: usize = 16 * 1024;

/// Copy bytes until a side closes, fails, or is silent for too long. Returns the number of bytes
/// sent to the client.
pub async fn copy<T: Transport>(shared: &Shared<T>, upgrade: &Upgrade, early: &[u8]) -> u64 {
    let mut to_upstream = Pipe::new(early, BUFFER);
    let mut to_client = Pipe::new(&[], BUFFER);
    let idle = deadline();
    idle.set(upgrade.timeout);
    let (io, sock) = (&shared.io, &upgrade.stream);
    poll_fn(|cx| {
        let up = to_upstream.poll(
            cx,
            &mut Unlimited,
            |cx, b| io.poll_read(cx, b),
            |cx, b| sock.poll_write(cx, b),
        );
        let down = to_client.poll(
            cx,
            &mut Unlimited,
            |cx, b| sock.poll_read(cx, b),
            |cx, b| io.poll_write(cx, b, false),
        );
        let (Ok(up), Ok(down)) = (up, down) else {
            return Poll::Ready(());
        };
        if io.poll_flush(cx).is_ready() && (to_upstream.is_ended() || to_client.is_ended()) {
            return Poll::Ready(());
        }
        if up || down {
            idle.set(upgrade.timeout);
        }
        idle.poll_over(cx)
    })
    .await;
    to_client.total()
}
