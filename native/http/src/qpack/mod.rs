//! QPACK, field compression for HTTP/3 (RFC 9204), with a dynamic table of capacity 0.
//!
//! Without a dynamic table a section means the same on every connection: what it decodes to can be
//! remembered by its bytes for a whole worker, a response's section can be kept with the file it
//! describes, no stream ever waits for another, and there is nothing a peer could make us store.
//! See docs/decisions/0101.

mod decoder;
mod encoder;
mod streams;
mod table;

pub use decoder::decode;
pub use encoder::{encode_field, encode_plain_field, encode_prefix, encode_status};
pub use streams::{DecoderStream, EncoderStream};
pub use table::{static_field, LEN as STATIC_LEN};

/// Why a section or an instruction cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The section ends in the middle of a field.
    Truncated,
    /// An integer longer than any length or index may be.
    Integer,
    /// A string that is no Huffman code, or is padded wrongly.
    Huffman,
    /// An index beyond the static table.
    StaticIndex,
    /// A reference to the dynamic table, which has no entries.
    DynamicReference,
    /// An instruction that changes the dynamic table, or acknowledges what was never sent.
    Instruction,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Error::Truncated => "truncated field section",
            Error::Integer => "integer out of bounds in field section",
            Error::Huffman => "invalid Huffman coded string in field section",
            Error::StaticIndex => "field section refers beyond the static table",
            Error::DynamicReference => "field section refers to the dynamic table, which is empty",
            Error::Instruction => "QPACK instruction for a dynamic table of capacity 0",
        })
    }
}

impl std::error::Error for Error {}

impl From<crate::hpack::Error> for Error {
    fn from(error: crate::hpack::Error) -> Self {
        match error {
            crate::hpack::Error::Truncated => Error::Truncated,
            crate::hpack::Error::Huffman => Error::Huffman,
            crate::hpack::Error::Integer
            | crate::hpack::Error::Index
            | crate::hpack::Error::TableSize => Error::Integer,
        }
    }
}

#[cfg(test)]
mod tests;
