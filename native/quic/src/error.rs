//! Errors that end a connection (RFC 9000, section 20).

use std::borrow::Cow;
use std::fmt;

/// The error codes of QUIC itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Reason {
    /// Closed without an error.
    NoError = 0x0,
    /// An internal error.
    Internal = 0x1,
    /// The server refuses the connection.
    Refused = 0x2,
    /// More bytes than the flow-control limits allow.
    FlowControl = 0x3,
    /// A stream id above the limit.
    StreamLimit = 0x4,
    /// A frame that the stream's state does not allow.
    StreamState = 0x5,
    /// A stream's final size changed or was exceeded.
    FinalSize = 0x6,
    /// A malformed frame.
    FrameEncoding = 0x7,
    /// Malformed transport parameters or invalid values.
    TransportParameter = 0x8,
    /// More connection ids than allowed.
    ConnectionIdLimit = 0x9,
    /// Any other violation of the protocol.
    ProtocolViolation = 0xa,
    /// An invalid token.
    InvalidToken = 0xb,
    /// The application closed the connection before its own codes could be sent.
    Application = 0xc,
    /// More handshake bytes than are buffered.
    CryptoBufferExceeded = 0xd,
    /// A forbidden key update.
    KeyUpdate = 0xe,
    /// Too many packets failed decryption.
    AeadLimitReached = 0xf,
}

/// A protocol error of the peer or of this endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The code for the peer.
    pub code: u64,
    /// The type of the frame that caused it, or 0.
    pub frame: u64,
    /// The reason for a log.
    pub reason: Cow<'static, str>,
}

impl Error {
    /// An error of QUIC itself.
    pub fn new(code: Reason, reason: &'static str) -> Self {
        Self {
            code: code as u64,
            frame: 0,
            reason: Cow::Borrowed(reason),
        }
    }

    /// An error from a TLS alert (RFC 9001, section 4.8).
    pub fn alert(description: u8, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: 0x100 + u64::from(description),
            frame: 0,
            reason: reason.into(),
        }
    }

    /// The same error with the type of the frame that caused it.
    pub(crate) fn in_frame(mut self, frame: u64) -> Self {
        self.frame = frame;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QUIC error {:#x}: {}", self.code, self.reason)
    }
}

impl std::error::Error for Error {}
