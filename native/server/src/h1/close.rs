//! Closing a connection. The server reads for a while what the client still sends; otherwise the
//! client's system could discard the response.

use super::{End, Shared};
use crate::transport::Transport;
use gallop_conf::model::Lingering;
use gallop_engine::Exchange;
use gallop_runtime::{now_ms, timeout};
use std::future::poll_fn;

/// Read the rest of the request body; `true` if its end was reached.
pub async fn discard_body(ex: &mut Exchange) -> bool {
    let conf = &ex.loc.conf;
    let (idle, total) = (
        conf.lingering_timeout.unwrap_or(5000),
        conf.lingering_time.unwrap_or(30_000),
    );
    let limit = now_ms() + total;
    loop {
        match timeout(idle, poll_fn(|cx| ex.source.poll_data(cx))).await {
            Ok(Ok(Some(_))) if now_ms() < limit => {}
            Ok(Ok(None)) => return true,
            _ => return false,
        }
    }
}

/// How to close the connection: with lingering if the client may still be sending.
pub fn kind<T: Transport>(shared: &Shared<T>, ex: &Exchange) -> End {
    match ex.loc.conf.lingering_close.unwrap_or(Lingering::On) {
        Lingering::Off => End::Close,
        Lingering::Always => End::Linger,
        Lingering::On if !ex.source.is_ended() || shared.has_unread() => End::Linger,
        Lingering::On => End::Close,
    }
}

/// Shut down the sending side and read until the client closes or the time limit ends
/// (`lingering_close`).
pub async fn linger<T: Transport>(shared: &Shared<T>, ex: &Exchange) {
    let conf = &ex.loc.conf;
    let (idle, total) = (
        conf.lingering_timeout.unwrap_or(5000),
        conf.lingering_time.unwrap_or(30_000),
    );
    let limit = now_ms() + total;
    shared.io.close_write();
    let mut scratch = [0; 4096];
    while now_ms() < limit {
        match timeout(idle, poll_fn(|cx| shared.io.poll_read(cx, &mut scratch))).await {
            Ok(Ok(n)) if n > 0 => {}
            _ => return,
        }
    }
}
