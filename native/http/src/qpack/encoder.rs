//! Encoding of response field sections without a dynamic table.

use super::table;
use crate::hpack::{huffman, integer};
use crate::message::status_digits;

/// Append the prefix of a section without references to the dynamic table.
pub fn encode_prefix(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Append `:status` with three digits for any value: see [`status_digits`].
pub fn encode_status(out: &mut Vec<u8>, status: u16) {
    encode_field(out, b":status", &status_digits(status));
}

/// Append a field; `name` may be in any case.
pub fn encode_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let mut lower = [0; 64];
    let name = match lower.get_mut(..name.len()) {
        Some(lower) => {
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            &*lower
        }
        None => &name.to_ascii_lowercase()[..],
    };
    match table::find(name, value) {
        Some(Ok(index)) => return integer::encode(out, 0xc0, 6, index),
        Some(Err(index)) => integer::encode(out, 0x50, 4, index),
        None => encode_string(out, 0x20, 3, name),
    }
    encode_string(out, 0, 7, value);
}

/// Append a field whose value is stored as plain bytes, so that a value with the same length, such
/// as a date, can replace it in place. `name` must be in lower case. Returns the position of the
/// value.
pub fn encode_plain_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> usize {
    match table::find(name, b"") {
        Some(Ok(index) | Err(index)) => integer::encode(out, 0x50, 4, index),
        None => encode_string(out, 0x20, 3, name),
    }
    integer::encode(out, 0, 7, value.len());
    out.extend_from_slice(value);
    out.len() - value.len()
}

fn encode_string(out: &mut Vec<u8>, flags: u8, bits: u32, text: &[u8]) {
    let coded = huffman::encoded_len(text);
    if coded < text.len() {
        integer::encode(out, flags | 1 << bits, bits, coded);
        huffman::encode(text, out);
    } else {
        integer::encode(out, flags, bits, text.len());
        out.extend_from_slice(text);
    }
}
