//! FastCGI 1.0 for web servers: requests out, responses in.
//!
//! Source: FastCGI Specification 1.0 (Open Market, 1996). A connection carries one request at a
//! time (request id 1), as every responder in use expects; [`Begin::keep_connection`] keeps it
//! open. The peer cannot cause large allocations: records are parsed in pieces as they arrive,
//! whatever their announced length.

mod params;
mod reader;
mod response;
mod writer;

pub use params::{decode_params, encode_param, Params};
pub use reader::{is_ended, Event, ProtocolStatus, RecordReader};
pub use response::{parse_status, HeadError, ResponseHead, ResponseHeadParser};
pub use writer::{record_header, Begin, RequestWriter, Role, MAX_CONTENT};

/// The only version.
pub const VERSION: u8 = 1;
/// Length of a record header in bytes (section 3.3).
pub const HEADER_LEN: usize = 8;
/// The id of all our requests.
pub const REQUEST_ID: u16 = 1;

/// Record types (section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordType {
    /// Starts a request.
    BeginRequest = 1,
    /// Cancels a request.
    AbortRequest = 2,
    /// Ends a request; sent by the application.
    EndRequest = 3,
    /// A stream of name-value pairs.
    Params = 4,
    /// Stream of the request's body.
    Stdin = 5,
    /// Stream of the response.
    Stdout = 6,
    /// Stream of error messages.
    Stderr = 7,
    /// The second input stream of filters.
    Data = 8,
    /// Management query.
    GetValues = 9,
    /// The response to a management query.
    GetValuesResult = 10,
    /// The response to an unknown management record.
    UnknownType = 11,
}

impl RecordType {
    /// The record type with this number, if the specification defines one.
    pub fn from_u8(value: u8) -> Option<Self> {
        use RecordType::*;
        const ALL: [RecordType; 11] = [
            BeginRequest,
            AbortRequest,
            EndRequest,
            Params,
            Stdin,
            Stdout,
            Stderr,
            Data,
            GetValues,
            GetValuesResult,
            UnknownType,
        ];
        ALL.get(usize::from(value).wrapping_sub(1)).copied()
    }
}

/// A protocol error of an application. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The version byte is not 1.
    Version(u8),
    /// A record type that an application must not send.
    Type(u8),
    /// A record for an unknown request.
    RequestId(u16),
    /// A record after the end of the request.
    AfterEnd,
    /// A name-value pair that exceeds its stream.
    Params,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Version(v) => {
                write!(f, "upstream sent unsupported FastCGI protocol version: {v}")
            }
            Error::Type(t) => write!(f, "upstream sent unexpected FastCGI record type: {t}"),
            Error::RequestId(id) => {
                write!(f, "upstream sent unexpected FastCGI request id: {id}")
            }
            Error::AfterEnd => f.write_str("upstream sent FastCGI records after the request's end"),
            Error::Params => f.write_str("truncated FastCGI name-value pair"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests;
