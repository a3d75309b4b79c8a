//! Encoding of the server's streams.

use super::{kind, setting, varint, Config};
use crate::qpack;

/// The start of our control stream: its type and SETTINGS.
pub fn control_stream(config: &Config) -> Vec<u8> {
    let mut settings = Vec::new();
    for (id, value) in [
        (
            setting::QPACK_MAX_TABLE_CAPACITY,
            qpack::MAX_CAPACITY as u64,
        ),
        (setting::MAX_FIELD_SECTION_SIZE, config.head.size as u64),
        (setting::QPACK_BLOCKED_STREAMS, config.max_streams as u64),
    ] {
        varint::encode(&mut settings, id);
        varint::encode(&mut settings, value);
    }
    let mut out = Vec::new();
    varint::encode(&mut out, kind::CONTROL_STREAM);
    push_frame(&mut out, kind::SETTINGS, &settings);
    out
}

/// The start of our QPACK decoder stream, which is opened when needed.
pub fn decoder_stream() -> Vec<u8> {
    vec![kind::DECODER_STREAM as u8]
}

fn push_frame(out: &mut Vec<u8>, kind: u64, payload: &[u8]) {
    varint::encode(out, kind);
    varint::encode(out, payload.len() as u64);
    out.extend_from_slice(payload);
}

/// Append a HEADERS frame: a response head, an interim one, or trailers. `section` is made with
/// [`crate::qpack::encode_prefix`] and related functions.
pub fn push_head(out: &mut Vec<u8>, section: &[u8]) {
    push_frame(out, kind::HEADERS, section);
}

/// Append the header of a DATA frame with `len` bytes of body.
pub fn push_data_header(out: &mut Vec<u8>, len: u64) {
    varint::encode(out, kind::DATA);
    varint::encode(out, len);
}

/// The id in the first GOAWAY of a connection whose open requests are all served (section 5.2).
pub const LAST_STREAM: u64 = (1 << 62) - 4;

/// Append GOAWAY: requests on streams from `stream` on are not served (section 5.2).
pub fn push_goaway(out: &mut Vec<u8>, stream: u64) {
    let mut id = Vec::new();
    varint::encode(&mut id, stream);
    push_frame(out, kind::GOAWAY, &id);
}
