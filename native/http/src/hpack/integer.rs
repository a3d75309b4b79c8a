//! Integers with a prefix (RFC 7541, section 5.1), used by HPACK and QPACK.

use super::Error;

/// Larger than every length and index in use; far from an overflow.
const MAX: u64 = (1 << 32) - 1;

/// Take an integer whose first `bits` (1 to 8) bits are the low bits of the first byte.
///
/// # Errors
/// [`Error::Truncated`], or [`Error::Integer`] above 2^32 - 1 or with unnecessary continuation
/// bytes.
#[inline]
pub fn decode(input: &mut &[u8], bits: u32) -> Result<usize, Error> {
    let (&first, rest) = input.split_first().ok_or(Error::Truncated)?;
    let mask = (1u32 << bits) as u16 - 1;
    let value = u16::from(first) & mask;
    *input = rest;
    if value < mask {
        return Ok(usize::from(value));
    }
    decode_rest(input, u64::from(mask))
}

#[cold]
fn decode_rest(input: &mut &[u8], mut value: u64) -> Result<usize, Error> {
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, rest) = input.split_first().ok_or(Error::Truncated)?;
        *input = rest;
        value += u64::from(byte & 0x7f) << shift;
        if value > MAX {
            return Err(Error::Integer);
        }
        if byte & 0x80 == 0 {
            return Ok(value as usize);
        }
    }
    Err(Error::Integer)
}

/// Whether an incomplete integer exceeds `max` regardless of the bytes that follow.
pub fn is_above(input: &[u8], bits: u32, max: u64) -> bool {
    let mask = (1u64 << bits) - 1;
    let Some((&first, rest)) = input.split_first() else {
        return false;
    };
    if u64::from(first) & mask < mask {
        return false;
    }
    let shifted = |(i, &byte): (usize, &u8)| u64::from(byte & 0x7f) << (7 * i);
    let more: u64 = rest.iter().take(5).enumerate().map(shifted).sum();
    mask + more > max
}

/// Append `value` with a prefix of `bits` bits below the flags in `first`.
#[inline]
pub fn encode(out: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let mask = (1usize << bits) - 1;
    if value < mask {
        out.push(first | value as u8);
        return;
    }
    out.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
