//! The end of a connection (RFC 9000, section 10).

use super::Connection;
use crate::endpoint::{Event, Transmit};
use crate::error::{Error, Reason};
use crate::frame;
use std::borrow::Cow;
use std::time::Instant;

/// Bytes of a reason that are sent.
const MAX_REASON: usize = 128;

/// Why it ends, as the client is told.
#[derive(Debug)]
pub struct Close {
    code: u64,
    /// The type of the frame that is to blame; `None`: the application ends it.
    frame: Option<u64>,
    reason: Cow<'static, str>,
}

/// Where in its life a connection is.
#[derive(Debug)]
pub enum State {
    Open,
    /// We end it: packets that come are answered with why.
    Closing {
        close: Close,
        until: Instant,
        /// It is to be said (again).
        due: bool,
        /// Packets that came since, and how many have to come until it is said again.
        came: u32,
        next: u32,
    },
    /// The client ended it: nothing is said any more.
    Draining {
        until: Instant,
    },
    Drained,
}

impl State {
    /// When the connection can be forgotten.
    pub fn until(&self) -> Option<Instant> {
        match self {
            Self::Closing { until, .. } | Self::Draining { until } => Some(*until),
            _ => None,
        }
    }

    /// Whether it can be forgotten.
    pub fn is_drained(&self) -> bool {
        matches!(self, Self::Drained)
    }
}

impl Close {
    /// Appends the frame; before the handshake's end the application's reasons stay secret (10.2.3).
    pub fn write(&self, out: &mut Vec<u8>, in_handshake: bool) {
        let reason = self.reason.as_bytes();
        let reason = &reason[..reason.len().min(MAX_REASON)];
        match self.frame {
            None if in_handshake => {
                frame::write_close(out, Reason::Application as u64, Some(0), b"");
            }
            frame => frame::write_close(out, self.code, frame, reason),
        }
    }
}

impl Connection {
    /// Whether it can be forgotten.
    pub fn is_drained(&self) -> bool {
        self.state.is_drained()
    }

    fn begin_close(&mut self, now: Instant, close: Close) {
        if !self.is_open() {
            return;
        }
        let until = now + 3 * (self.probe_timeout() + self.max_ack_delay());
        self.state = State::Closing {
            close,
            until,
            due: true,
            came: 0,
            next: 1,
        };
    }

    /// Ends it for the application.
    pub fn close(&mut self, now: Instant, code: u64, reason: &'static str) {
        let reason = Cow::Borrowed(reason);
        self.begin_close(
            now,
            Close {
                code,
                frame: None,
                reason,
            },
        );
    }

    /// Ends it for an error.
    pub(super) fn fail(&mut self, now: Instant, error: Error) {
        if self.is_open() {
            let Error {
                code,
                frame,
                reason,
            } = error;
            self.begin_close(
                now,
                Close {
                    code,
                    frame: Some(frame),
                    reason,
                },
            );
            self.tell_closed();
        }
    }

    /// Says why there is to be no connection, before anything is known of the client.
    pub fn refuse(
        &mut self,
        now: Instant,
        from: super::From,
        error: Error,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.path.on_received(from.bytes);
        self.fail(now, error);
        self.transmit(now, 1, None, out)
    }

    fn tell_closed(&mut self) {
        self.streams.events.clear();
        self.streams.events.push_back(Event::Closed);
    }

    /// The client ended it.
    pub(super) fn drain(&mut self, now: Instant) {
        if self.is_open() {
            self.tell_closed();
        }
        let until = now + 3 * (self.probe_timeout() + self.max_ack_delay());
        self.state = State::Draining { until };
    }

    /// It is gone without a word.
    pub fn lose(&mut self) {
        if self.is_open() {
            self.tell_closed();
        }
        self.state = State::Drained;
    }

    /// A packet came although the connection ends: it is said again, ever more seldom (10.2.1).
    pub(super) fn repeat_close(&mut self) {
        if let State::Closing {
            due, came, next, ..
        } = &mut self.state
        {
            *came += 1;
            if *came >= *next {
                *came = 0;
                *next = next.saturating_mul(2);
                *due = true;
            }
        }
    }
}
