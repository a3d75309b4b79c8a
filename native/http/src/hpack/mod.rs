//! HPACK, header compression for HTTP/2 (RFC 7541).
//!
//! The decoder is complete. The encoder uses only the static table: a response's field section has
//! the same bytes on every connection and can be stored with the file, and clients cannot make the
//! server keep tables.

mod decoder;
mod encoder;
pub mod huffman;
pub mod integer;
mod ring;
mod table;

pub use decoder::{check_start, Decoder};
pub use encoder::{encode_field, encode_plain_field, encode_status, DYNAMIC_TABLE_OFF};
pub use ring::FieldRing;
pub use table::static_field;

/// The bytes that each table entry counts for in addition to its name and value (section 4.1).
pub const ENTRY_OVERHEAD: usize = 32;

/// The reason why a field section cannot be decoded. The connection is lost: COMPRESSION_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The section ends inside of a field.
    Truncated,
    /// An integer exceeds every valid length and index (section 5.1).
    Integer,
    /// An index beyond both tables, or 0 (section 2.3.3).
    Index,
    /// A string is not valid Huffman code, or has wrong padding (section 5.2).
    Huffman,
    /// A table size exceeds the limit, or is not at the start of the section (section 4.2).
    TableSize,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Error::Truncated => "truncated field section",
            Error::Integer => "integer out of bounds in field section",
            Error::Index => "field section refers to an entry that is in no table",
            Error::Huffman => "invalid Huffman coded string in field section",
            Error::TableSize => "invalid dynamic table size update in field section",
        })
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests;
