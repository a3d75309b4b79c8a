//! The end of a connection (RFC 9000, section 10).

use super::Connection;
use crate::endpoint::{Event, Transmit};
use crate::error::{Error, Reason};
use crate::frame;
use std::borrow::Cow;
use std::time::Instant;

/// The most bytes of a reason that are sent.
const MAX_REASON: usize = 128;

/// The reason for the end, as sent to the client.
#[derive(Debug)]
pub struct Close {
    code: u64,
    /// The type of the frame that caused the error; `None` if the application closes.
    frame: Option<u64>,
    reason: Cow<'static, str>,
}

/// The state of a connection.
#[derive(Debug)]
pub enum State {
    Open,
    /// We close it: received packets are answered with CONNECTION_CLOSE.
    Closing {
        close: Close,
        until: Instant,
        /// Whether CONNECTION_CLOSE must be sent (again).
        due: bool,
        /// Packets received since the last CONNECTION_CLOSE, and the number after which it is
        /// repeated.
        came: u32,
        next: u32,
    },
    /// The client closed it: nothing is sent anymore.
    Draining {
        until: Instant,
    },
    Drained,
}

impl State {
    /// The time when the connection can be removed.
    pub fn until(&self) -> Option<Instant> {
        match self {
            Self::Closing { until, .. } | Self::Draining { until } => Some(*until),
            _ => None,
        }
    }

    /// Whether the connection can be removed.
    pub fn is_drained(&self) -> bool {
        matches!(self, Self::Drained)
    }
}

impl Close {
    /// Append the frame. During the handshake, application reasons are not revealed (10.2.3).
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
    /// Whether the connection can be removed.
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

    /// Close the connection for the application.
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

    /// Close the connection because of an error.
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

    /// Refuse a connection before the client is known.
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

    /// Handle the client's close.
    pub(super) fn drain(&mut self, now: Instant) {
        if self.is_open() {
            self.tell_closed();
        }
        let until = now + 3 * (self.probe_timeout() + self.max_ack_delay());
        self.state = State::Draining { until };
    }

    /// Drop the connection without sending anything.
    pub fn lose(&mut self) {
        if self.is_open() {
            self.tell_closed();
        }
        self.state = State::Drained;
    }

    /// Repeat CONNECTION_CLOSE for a packet on a closing connection, with decreasing frequency
    /// (10.2.1).
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
