//! HTTP/1: request heads, body framing, and chunked bodies (RFC 9112), as strict as nginx.

mod chunked;
mod field;
mod framing;
mod request;
mod response;

pub use chunked::{ChunkDecoder, ChunkError, Decoded};
pub use framing::{body_framing, parse_length, BodyFraming};
pub use request::{parse, HeadError, Limits, Parsed};
pub use response::{parse_response, ResponseError, ResponseHead, Sender};
