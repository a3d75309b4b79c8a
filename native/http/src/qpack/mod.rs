//! QPACK, field compression for HTTP/3 (RFC 9204).
//!
//! The decoder has a dynamic table of the size that browsers expect. The encoder uses only the
//! static table: a response's section has the same bytes on every connection and can be stored with
//! the file. See docs/decisions/0101.

mod decoder;
mod dynamic;
mod encoder;
mod streams;
mod table;

pub use decoder::{decode, waits};
pub use dynamic::{Table, MAX_CAPACITY};
pub use encoder::{encode_field, encode_plain_field, encode_prefix, encode_status};
pub use streams::{push_acknowledgement, push_cancellation, push_increment, DecoderStream};
pub use table::{static_field, LEN as STATIC_LEN};

/// The reason why a section or an instruction cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The section ends inside of a field.
    Truncated,
    /// An integer exceeds every valid length and index.
    Integer,
    /// A string is not valid Huffman code, or has wrong padding.
    Huffman,
    /// An index exceeds the static table.
    StaticIndex,
    /// A reference to an entry that is not in the dynamic table.
    DynamicReference,
    /// An invalid instruction, or an acknowledgment of a section that was never sent.
    Instruction,
    /// The section refers to entries that have not arrived: it can be decoded after this number of
    /// insertions.
    Blocked(u64),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Error::Truncated => "truncated field section",
            Error::Integer => "integer out of bounds in field section",
            Error::Huffman => "invalid Huffman coded string in field section",
            Error::StaticIndex => "reference beyond the static table",
            Error::DynamicReference => "reference to an entry that is not in the dynamic table",
            Error::Instruction => "QPACK instruction that cannot be followed",
            Error::Blocked(_) => "field section refers to entries that have not come yet",
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
