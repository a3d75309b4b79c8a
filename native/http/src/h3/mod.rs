//! HTTP/3 for servers (RFC 9114), above any QUIC implementation.
//!
//! The owner of the QUIC connection passes the bytes of each client stream to
//! [`Connection::receive`] and sends the bytes of [`send`]. Only field sections that arrive in
//! pieces are buffered here, up to [`Config::max_section`] for each open stream.

mod connection;
mod control;
mod fields;
mod reader;
pub mod send;
pub mod varint;

pub use connection::{Connection, Event};
pub use fields::Shared;
pub use reader::{FrameReader, Piece};

use crate::head::HeadLimits;

/// Error codes (RFC 9114, section 8.1; RFC 9204, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u64);

impl ErrorCode {
    /// No error: the connection or stream is no longer needed.
    pub const NO_ERROR: Self = Self(0x100);
    /// A violation of the protocol.
    pub const GENERAL_PROTOCOL_ERROR: Self = Self(0x101);
    /// An error of this server.
    pub const INTERNAL_ERROR: Self = Self(0x102);
    /// A stream that the peer must not open.
    pub const STREAM_CREATION_ERROR: Self = Self(0x103);
    /// A required stream was closed.
    pub const CLOSED_CRITICAL_STREAM: Self = Self(0x104);
    /// A frame in a wrong place.
    pub const FRAME_UNEXPECTED: Self = Self(0x105);
    /// A frame whose content does not match its length.
    pub const FRAME_ERROR: Self = Self(0x106);
    /// The peer causes too much work.
    pub const EXCESSIVE_LOAD: Self = Self(0x107);
    /// An invalid push or stream id.
    pub const ID_ERROR: Self = Self(0x108);
    /// Invalid settings.
    pub const SETTINGS_ERROR: Self = Self(0x109);
    /// The control stream does not start with SETTINGS.
    pub const MISSING_SETTINGS: Self = Self(0x10a);
    /// The request was not processed: retry.
    pub const REQUEST_REJECTED: Self = Self(0x10b);
    /// The request or its response is no longer needed.
    pub const REQUEST_CANCELLED: Self = Self(0x10c);
    /// The stream ended before the request did.
    pub const REQUEST_INCOMPLETE: Self = Self(0x10d);
    /// A malformed request.
    pub const MESSAGE_ERROR: Self = Self(0x10e);
    /// A field section that cannot be decoded.
    pub const QPACK_DECOMPRESSION_FAILED: Self = Self(0x200);
    /// An invalid instruction on the encoder stream.
    pub const QPACK_ENCODER_STREAM_ERROR: Self = Self(0x201);
    /// An invalid instruction on the decoder stream.
    pub const QPACK_DECODER_STREAM_ERROR: Self = Self(0x202);
}

/// The reason for the end of a connection: close it with this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The code for CONNECTION_CLOSE.
    pub code: ErrorCode,
    /// The reason for the error log.
    pub reason: &'static str,
}

impl Error {
    const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }

    const fn unexpected(reason: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_UNEXPECTED, reason)
    }

    const fn frame(reason: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_ERROR, reason)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (HTTP/3 error {:#x})", self.reason, self.code.0)
    }
}

impl std::error::Error for Error {}

/// The limits that a connection sets for its peer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The limits for a decoded request head.
    pub head: HeadLimits,
    /// The most bytes of an encoded request head.
    pub max_section: usize,
    /// The most bytes of a name or value in the dynamic table.
    pub max_field: usize,
    /// Requests after which the connection is asked to end: `keepalive_requests`.
    pub max_requests: u64,
    /// The most open streams, for a QUIC implementation that does not enforce its own limit.
    pub max_streams: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            head: HeadLimits::default(),
            max_section: 32 * 1024,
            max_field: 8 * 1024,
            max_requests: 1000,
            max_streams: 128,
        }
    }
}

/// Frame and stream types (sections 6.2 and 7.2).
mod kind {
    pub const DATA: u64 = 0x0;
    pub const HEADERS: u64 = 0x1;
    pub const CANCEL_PUSH: u64 = 0x3;
    pub const SETTINGS: u64 = 0x4;
    pub const PUSH_PROMISE: u64 = 0x5;
    pub const GOAWAY: u64 = 0x7;
    pub const MAX_PUSH_ID: u64 = 0xd;

    pub const CONTROL_STREAM: u64 = 0x0;
    pub const PUSH_STREAM: u64 = 0x1;
    pub const ENCODER_STREAM: u64 = 0x2;
    pub const DECODER_STREAM: u64 = 0x3;

    /// Frame types of HTTP/2 without an equivalent; they are reserved.
    pub fn is_http2(kind: u64) -> bool {
        matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// SETTINGS identifiers (section 7.2.4.1; RFC 9204, section 5).
mod setting {
    pub const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
    pub const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
    pub const QPACK_BLOCKED_STREAMS: u64 = 0x7;

    /// Settings of HTTP/2 without an equivalent: a connection error.
    pub fn is_http2(id: u64) -> bool {
        matches!(id, 0x0 | 0x2..=0x5)
    }
}

#[cfg(test)]
mod tests;
