//! HTTP/2, the server's side (RFC 9113), without sockets.
//!
//! Bytes go in through [`Connection::receive`], which hands out one [`Event`] at a time; answers are
//! written into [`Connection::output`]. Request bodies are not buffered here: they are slices of
//! the input, and the windows that bound them open again when the owner says so with
//! [`Connection::release`]. Nor are response bodies: [`Connection::send_data`] takes what the
//! peer's windows allow, and [`Connection::next_ready`] says who may go on.
//!
//! Priorities (deprecated by section 5.3) are checked for form and ignored: streams take turns.
//!
//! Every resource a peer can make this code spend has a bound, see [`Config`] and [`crate::flood`].

mod connection;
mod control;
pub mod frame;
mod send;
mod streams;

pub use connection::{Connection, Event};
pub use frame::PREFACE;

use crate::head::HeadLimits;

/// SETTINGS_MAX_FRAME_SIZE's initial value.
pub const MAX_FRAME: usize = 16_384;
/// What a receive buffer must hold so that every frame fits.
pub const MIN_RECEIVE_BUFFER: usize = MAX_FRAME + frame::HEADER_LEN;
/// Largest value of a flow-control window (section 6.9.1).
const MAX_WINDOW: i64 = 0x7fff_ffff;
/// Initial value of all windows (section 6.9.2).
const INITIAL_WINDOW: i64 = 65_535;

/// Error codes (section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Graceful shutdown, or "no need to send the rest of the request".
    pub const NO_ERROR: Self = Self(0);
    /// Unspecific violation of the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// The fault is ours.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// A window was overrun or overflowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame on a stream that is closed.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame of the wrong length.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// Nothing was done with the stream: try again.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is not wanted any more.
    pub const CANCEL: Self = Self(8);
    /// The field compression state is lost.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The peer makes too much work.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
}

/// Why a connection ends. GOAWAY is already in the output; send it, then close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What the GOAWAY says.
    pub code: ErrorCode,
    /// For the error log.
    pub reason: &'static str,
}

impl Error {
    const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }

    const fn protocol(reason: &'static str) -> Self {
        Self::new(ErrorCode::PROTOCOL_ERROR, reason)
    }

    const fn frame_size(reason: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_SIZE_ERROR, reason)
    }

    const fn flow(reason: &'static str) -> Self {
        Self::new(ErrorCode::FLOW_CONTROL_ERROR, reason)
    }

    const fn flood(reason: &'static str) -> Self {
        Self::new(ErrorCode::ENHANCE_YOUR_CALM, reason)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (HTTP/2 error {})", self.reason, self.code.0)
    }
}

impl std::error::Error for Error {}

/// What a connection grants its peer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Streams open at once: `http2_max_concurrent_streams`.
    pub max_streams: usize,
    /// Body bytes a stream may send before any is released: `http2_body_preread_size`. At most
    /// 2^31 - 1.
    pub stream_window: u32,
    /// The same for all streams together; at least 65535, at most 2^31 - 1.
    pub connection_window: u32,
    /// Size of request heads once decoded.
    pub head: HeadLimits,
    /// Size of request heads as sent, over all their frames, in bytes.
    pub max_section: usize,
    /// Largest frame payload taken, 16384 to 2^24 - 1; the receive buffer must hold it with its header.
    pub max_frame: usize,
    /// Requests after which the connection is asked to end: `keepalive_requests`.
    pub max_requests: u64,
    /// Bytes in one of our DATA frames at most: `http2_chunk_size`.
    pub chunk: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_streams: 128,
            stream_window: 65_536,
            connection_window: 1 << 20,
            head: HeadLimits::default(),
            max_section: 32 * 1024,
            max_frame: MAX_FRAME,
            max_requests: 1000,
            chunk: 8192,
        }
    }
}

#[cfg(test)]
mod tests;
