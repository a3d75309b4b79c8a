//! Integers of 1, 2, 4, or 8 bytes (RFC 9000, section 16).

/// The largest value: 2^62 - 1.
pub const MAX: u64 = (1 << 62) - 1;

/// The length in bytes of an integer with this first byte.
pub fn len(first: u8) -> usize {
    1 << (first >> 6)
}

/// Take an integer; `None`, without consuming bytes, if it is incomplete.
#[inline]
pub fn decode(input: &mut &[u8]) -> Option<u64> {
    let first = *input.first()?;
    let (bytes, rest) = input.split_at_checked(len(first))?;
    *input = rest;
    let start = u64::from(first & 0x3f);
    Some(bytes[1..].iter().fold(start, |n, &b| n << 8 | u64::from(b)))
}

/// Append `value` in its shortest form.
///
/// # Panics
/// Above [`MAX`].
pub fn encode(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=0x3f => out.push(value as u8),
        0x40..=0x3fff => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..=0x3fff_ffff => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => {
            assert!(value <= MAX, "integer above 2^62 - 1");
            out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes());
        }
    }
}
