//! Copying between the two connections of a session.

use super::rate::Rate;
use super::Session;
use crate::pipe::{Allowance, Pipe};
use crate::scope::Scope;
use crate::template::Template;
use crate::upstream::chosen::Chosen;
use crate::upstream::keepalive::Stream;
use gallop_conf::model::Level;
use gallop_runtime::{deadline, now_ms};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// The defaults of `proxy_timeout` in milliseconds, and of `proxy_buffer_size`.
pub const TIMEOUT: u64 = 600_000;
pub const BUFFER: u64 = 16 * 1024;

/// A direction.
struct Way {
    pipe: Pipe,
    rate: Rate,
    /// Whether the sink was told that no more bytes come.
    is_closed: bool,
}

impl Way {
    fn new(early: &[u8], size: usize, mut rate: Rate) -> Way {
        rate.took(early.len());
        Way {
            pipe: Pipe::new(early, size),
            rate,
            is_closed: false,
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &dyn Stream,
        sink: &dyn Stream,
    ) -> std::io::Result<bool> {
        self.pipe.poll(
            cx,
            &mut self.rate,
            |cx, buf| source.poll_read(cx, buf),
            |cx, buf| sink.poll_write(cx, buf),
        )
    }

    /// Whether the source has ended and the sink has everything.
    fn is_over(&self, is_flushed: bool) -> bool {
        self.pipe.is_ended() && self.pipe.is_drained() && is_flushed
    }
}

/// The reason for the end.
enum End {
    Client,
    Upstream,
    TimedOut,
}

/// Copy bytes until a side closes, fails, or both are silent for too long. With
/// `proxy_half_close`, a side may close alone.
pub async fn copy(
    session: &mut Session,
    client: &dyn Stream,
    server: &dyn Stream,
    early: &[u8],
    chosen: &Chosen,
) {
    let conf = session.conf().clone();
    let patience = conf.timeout.unwrap_or(TIMEOUT);
    let half_close = conf.half_close.unwrap_or(false);
    let rate = |value: &Option<Template>| Rate::of(session, value.as_ref());
    let settings = &session.server.root.conf.proxy;
    let size = settings.as_ref().and_then(|p| p.buffer_size);
    let size = size.unwrap_or(BUFFER) as usize;
    let mut up = Way::new(early, size, rate(&conf.upload_rate));
    let mut down = Way::new(&[], size, rate(&conf.download_rate));
    let idle = deadline();
    idle.set(patience);
    let began = session.attempts.last().map_or(0, |a| a.began);
    let mut first_byte = None;
    let mut was_delayed = false;
    let end = poll_fn(|cx| {
        let (Ok(moved_up), Ok(moved_down)) =
            (up.poll(cx, client, server), down.poll(cx, server, client))
        else {
            return Poll::Ready(match up.pipe.is_ended() {
                true => End::Client,
                false => End::Upstream,
            });
        };
        if first_byte.is_none() && down.pipe.taken() > 0 {
            let ms = now_ms().saturating_sub(began);
            chosen.answered(ms);
            first_byte = Some(ms);
        }
        let up_flushed = !matches!(server.poll_flush(cx), Poll::Pending);
        let down_flushed = !matches!(client.poll_flush(cx), Poll::Pending);
        let (up_over, down_over) = (up.is_over(up_flushed), down.is_over(down_flushed));
        if half_close {
            if up_over && down_over {
                return Poll::Ready(End::Client);
            }
            if up_over && !std::mem::replace(&mut up.is_closed, true) {
                server.close_write();
            }
            if down_over && !std::mem::replace(&mut down.is_closed, true) {
                client.close_write();
            }
        } else if up_over {
            return Poll::Ready(End::Client);
        } else if down_over {
            return Poll::Ready(End::Upstream);
        }
        let is_delayed = up.rate.is_delayed() || down.rate.is_delayed();
        let resumes = std::mem::replace(&mut was_delayed, is_delayed) && !is_delayed;
        if is_delayed {
            // As in nginx, a session that waits for its rate does not time out.
            idle.clear();
        } else if moved_up || moved_down || resumes {
            idle.set(patience);
        }
        idle.poll_over(cx).map(|()| End::TimedOut)
    })
    .await;
    session.received = up.pipe.taken();
    session.sent = down.pipe.total();
    if let Some(attempt) = session.attempts.last_mut() {
        attempt.header_ms = first_byte;
        attempt.times.received.set(down.pipe.taken());
        attempt.times.sent.set(up.pipe.total());
    }
    let message = match end {
        End::Client => "client disconnected",
        End::Upstream => "upstream disconnected",
        End::TimedOut => {
            "connection timed out (110: Connection timed out) while proxying connection"
        }
    };
    session.log(Level::Info, message);
}
