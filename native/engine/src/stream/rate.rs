//! `proxy_upload_rate` and `proxy_download_rate`.

use super::Session;
use crate::pipe::Allowance;
use crate::template::{self, Template};
use gallop_conf::values::parse_size;
use gallop_runtime::{coarse_ms, deadline, Deadline};
use std::task::{ready, Context, Poll};

/// A number of bytes for each second since the start; 0 is no limit.
pub struct Rate {
    bytes: u64,
    /// The start in milliseconds (monotonic clock).
    started: u64,
    delay: Deadline,
    is_delayed: bool,
}

impl Rate {
    pub fn new(bytes: u64) -> Rate {
        Rate {
            bytes,
            started: coarse_ms(),
            delay: deadline(),
            is_delayed: false,
        }
    }

    /// The rate that a session's directive gives.
    pub fn of(session: &Session, value: Option<&Template>) -> Rate {
        let text = value.map(|value| template::eval(session, value));
        let bytes = text.and_then(|text| parse_size(&String::from_utf8_lossy(&text)));
        Rate::new(bytes.unwrap_or(0))
    }

    /// Whether the source waits for its turn.
    pub fn is_delayed(&self) -> bool {
        self.is_delayed
    }

    fn wait(&mut self, ms: u64) {
        self.is_delayed = ms > 0;
        self.delay.set(ms);
    }
}

impl Allowance for Rate {
    fn poll_allowed(&mut self, cx: &mut Context<'_>, taken: u64) -> Poll<usize> {
        if self.bytes == 0 {
            return Poll::Ready(usize::MAX);
        }
        loop {
            if self.is_delayed {
                ready!(self.delay.poll_over(cx));
                self.is_delayed = false;
            }
            let seconds = coarse_ms().saturating_sub(self.started) / 1000 + 1;
            let allowed = self.bytes.saturating_mul(seconds);
            if taken < allowed {
                let left = allowed - taken;
                return Poll::Ready(usize::try_from(left).unwrap_or(usize::MAX));
            }
            let over = taken - allowed;
            self.wait(over.saturating_mul(1000) / self.bytes + 1);
        }
    }

    fn took(&mut self, bytes: usize) {
        if let Some(ms) = (bytes as u64 * 1000).checked_div(self.bytes) {
            self.wait(ms);
        }
    }
}
