//! Encoding of response field sections without a dynamic table.

use super::{huffman, integer, table};
use crate::message::status_digits;

/// A dynamic table size update to 0, which starts the next section after the peer lowered
/// SETTINGS_HEADER_TABLE_SIZE (RFC 7541, section 4.2).
pub const DYNAMIC_TABLE_OFF: u8 = 0x20;

/// Append `:status` with three digits for any value: see [`status_digits`].
pub fn encode_status(out: &mut Vec<u8>, status: u16) {
    let indexed = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => 0,
    };
    if indexed != 0 {
        out.push(0x80 | indexed);
        return;
    }
    let digits = status_digits(status);
    out.extend_from_slice(&[0x08, 3, digits[0], digits[1], digits[2]]);
}

/// Append a field as a literal without indexing; `name` may be in any case.
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
    match table::response_name(name) {
        Some(index) => integer::encode(out, 0, 4, index),
        None => {
            out.push(0);
            encode_string(out, name);
        }
    }
    encode_string(out, value);
}

/// Append a field whose value is stored as plain bytes, so that a value with the same length, such
/// as a date, can replace it in place. `name` must be in lower case. Returns the position of the
/// value.
pub fn encode_plain_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> usize {
    match table::response_name(name) {
        Some(index) => integer::encode(out, 0, 4, index),
        None => {
            out.push(0);
            encode_string(out, name);
        }
    }
    integer::encode(out, 0, 7, value.len());
    out.extend_from_slice(value);
    out.len() - value.len()
}

/// Encode with Huffman if that is shorter; for short strings of digits it often is not.
fn encode_string(out: &mut Vec<u8>, text: &[u8]) {
    let coded = huffman::encoded_len(text);
    if coded < text.len() {
        integer::encode(out, 0x80, 7, coded);
        huffman::encode(text, out);
    } else {
        integer::encode(out, 0, 7, text.len());
        out.extend_from_slice(text);
    }
}
