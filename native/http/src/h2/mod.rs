//! HTTP/2 for servers (RFC 9113), without sockets.
//!
//! [`Connection::receive`] takes input and returns one [`Event`] at a time; responses are written
//! to [`Connection::output`]. Request bodies are not buffered here: they are slices of the input,
//! and the windows that limit them open when the owner calls [`Connection::release`]. Response
//! bodies are not buffered either: [`Connection::send_data`] takes what the peer's windows allow,
//! and [`Connection::next_ready`] names the streams that may continue.
//!
//! Priorities (deprecated by section 5.3) are validated and ignored: streams take turns.
//!
//! Every resource that a peer can consume is limited, see [`Config`] and [`crate::flood`].

pub mod client;
mod connection;
mod control;
pub mod frame;
mod send;
mod streams;

pub use connection::{Connection, Event};
pub use frame::PREFACE;

use crate::head::HeadLimits;

/// The initial value of SETTINGS_MAX_FRAME_SIZE.
pub const MAX_FRAME: usize = 16_384;
/// The least size of a receive buffer, so that every frame fits.
pub const MIN_RECEIVE_BUFFER: usize = MAX_FRAME + frame::HEADER_LEN;
/// The largest value of a flow-control window (section 6.9.1).
const MAX_WINDOW: i64 = 0x7fff_ffff;
/// The initial value of all windows (section 6.9.2).
const INITIAL_WINDOW: i64 = 65_535;

/// Error codes (section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Graceful shutdown, or the rest of the request is not needed.
    pub const NO_ERROR: Self = Self(0);
    /// A violation of the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// An error of this server.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// A window was exceeded or overflowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame on a closed stream.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame with a wrong length.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The stream was not processed: retry.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(8);
    /// The field compression state is lost.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The peer causes too much work.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
}

/// The reason for the end of a connection. GOAWAY is already in the output; send it, then close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The error code in the GOAWAY.
    pub code: ErrorCode,
    /// The reason for the error log.
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

/// The limits that a connection sets for its peer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The most open streams: `http2_max_concurrent_streams`.
    pub max_streams: usize,
    /// Body bytes that a stream may send before any are released: `http2_body_preread_size`. At
    /// most 2^31 - 1.
    pub stream_window: u32,
    /// The same for all streams together; at least 65535, at most 2^31 - 1.
    pub connection_window: u32,
    /// The most bytes of a decoded request head.
    pub head: HeadLimits,
    /// The most bytes of an encoded request head over all its frames.
    pub max_section: usize,
    /// The largest accepted frame payload, 16384 to 2^24 - 1; the receive buffer must hold it with
    /// its header.
    pub max_frame: usize,
    /// Requests after which the connection is asked to end: `keepalive_requests`.
    pub max_requests: u64,
    /// The most bytes in a DATA frame: `http2_chunk_size`.
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
