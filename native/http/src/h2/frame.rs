//! Encoding of frames (RFC 9113, sections 4.1 and 6).

use super::{Error, ErrorCode};

/// The first bytes of a client (section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame header in bytes.
pub const HEADER_LEN: usize = 9;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 0x1;
pub const ACK: u8 = 0x1;
pub const END_HEADERS: u8 = 0x4;
pub const PADDED: u8 = 0x8;
const PRIORITY_FLAG: u8 = 0x20;

pub const SETTINGS_HEADER_TABLE_SIZE: u16 = 1;
pub const SETTINGS_ENABLE_PUSH: u16 = 2;
pub const SETTINGS_MAX_CONCURRENT_STREAMS: u16 = 3;
pub const SETTINGS_INITIAL_WINDOW_SIZE: u16 = 4;
pub const SETTINGS_MAX_FRAME_SIZE: u16 = 5;
pub const SETTINGS_MAX_HEADER_LIST_SIZE: u16 = 6;

/// A frame header.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub len: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Header {
    #[inline]
    pub fn parse(input: &[u8]) -> Option<Self> {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *input.first_chunk()?;
        Some(Self {
            len: u32::from_be_bytes([0, l0, l1, l2]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff,
        })
    }

    /// Whether the payload of a HEADERS frame consists only of fields.
    pub fn is_plain(&self) -> bool {
        self.flags & (PADDED | PRIORITY_FLAG) == 0
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Append a frame header.
#[inline]
pub fn push_header(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    let [_, l0, l1, l2] = (len as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    out.extend_from_slice(&[l0, l1, l2, kind, flags, s0, s1, s2, s3]);
}

/// Append a frame whose payload is one number.
pub fn push_u32(out: &mut Vec<u8>, kind: u8, stream: u32, value: u32) {
    push_header(out, 4, kind, 0, stream);
    out.extend_from_slice(&value.to_be_bytes());
}

/// Remove the padding from a DATA or HEADERS payload (section 6.1).
pub fn unpad<'a>(header: &Header, payload: &'a [u8]) -> Result<&'a [u8], Error> {
    if !header.has(PADDED) {
        return Ok(payload);
    }
    let short = Error::frame_size("client sent padded frame without padding length");
    let (&padding, rest) = payload.split_first().ok_or(short)?;
    let len = rest.len().checked_sub(usize::from(padding));
    let len = len.ok_or(Error::protocol("client sent padding longer than its frame"))?;
    Ok(&rest[..len])
}

/// Split a HEADERS payload. Returns the field block, and the stream dependency if present (section
/// 6.2).
pub fn field_block<'a>(
    header: &Header,
    payload: &'a [u8],
) -> Result<(Option<u32>, &'a [u8]), Error> {
    let payload = unpad(header, payload)?;
    if !header.has(PRIORITY_FLAG) {
        return Ok((None, payload));
    }
    let short = Error::frame_size("client sent HEADERS frame with truncated priority");
    let (priority, block) = payload.split_first_chunk::<5>().ok_or(short)?;
    Ok((Some(depends_on(priority)), block))
}

/// The stream dependency of a priority.
pub fn depends_on(priority: &[u8; 5]) -> u32 {
    u32::from_be_bytes([priority[0], priority[1], priority[2], priority[3]]) & 0x7fff_ffff
}

/// Parse a payload that is one number.
pub fn number(payload: &[u8], reason: &'static str) -> Result<u32, Error> {
    match *payload {
        [a, b, c, d] => Ok(u32::from_be_bytes([a, b, c, d])),
        _ => Err(Error::frame_size(reason)),
    }
}

/// Parse the settings of a SETTINGS payload.
pub fn settings(payload: &[u8]) -> Result<impl Iterator<Item = (u16, u32)> + '_, Error> {
    if !payload.len().is_multiple_of(6) {
        return Err(Error::frame_size(
            "client sent SETTINGS frame with incorrect length",
        ));
    }
    Ok(payload.chunks_exact(6).map(|s| {
        let id = u16::from_be_bytes([s[0], s[1]]);
        (id, u32::from_be_bytes([s[2], s[3], s[4], s[5]]))
    }))
}

/// Append GOAWAY (section 6.8).
pub fn push_goaway(out: &mut Vec<u8>, last: u32, code: ErrorCode) {
    push_header(out, 8, GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}
