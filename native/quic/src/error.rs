//! Why a connection ends with an error of its own (RFC 9000, section 20).

use std::borrow::Cow;
use std::fmt;

/// The error codes of QUIC itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Reason {
    /// Closed without an error.
    NoError = 0x0,
    /// Something of ours does not work.
    Internal = 0x1,
    /// The server does not take the connection.
    Refused = 0x2,
    /// More bytes than were allowed.
    FlowControl = 0x3,
    /// A stream beyond the limit.
    StreamLimit = 0x4,
    /// A frame for a stream that cannot have it.
    StreamState = 0x5,
    /// A stream's final size was changed or gone beyond.
    FinalSize = 0x6,
    /// A frame that cannot be read.
    FrameEncoding = 0x7,
    /// Transport parameters that cannot be read or have impossible values.
    TransportParameter = 0x8,
    /// More connection ids than were allowed.
    ConnectionIdLimit = 0x9,
    /// Any other breach of the protocol.
    ProtocolViolation = 0xa,
    /// A token that is not one of ours.
    InvalidToken = 0xb,
    /// The application closed the connection before its own codes could be sent.
    Application = 0xc,
    /// More handshake bytes than are kept.
    CryptoBufferExceeded = 0xd,
    /// A key update that was not allowed.
    KeyUpdate = 0xe,
    /// Too many packets that could not be opened.
    AeadLimitReached = 0xf,
}

/// What the peer, or we, did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The code that the peer is told.
    pub code: u64,
    /// The type of the frame that caused it, or 0.
    pub frame: u64,
    /// For a person.
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

    /// A TLS alert (RFC 9001, section 4.8).
    pub fn alert(description: u8, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: 0x100 + u64::from(description),
            frame: 0,
            reason: reason.into(),
        }
    }

    /// The same error, caused by a frame of this type.
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
