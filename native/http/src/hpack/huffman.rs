//! The Huffman code of RFC 7541, appendix B, for HPACK and QPACK.
//!
//! The code is canonical: codes of the same length are consecutive, in the order of their symbols.
//! So the lengths define it, and the compiler computes all tables here from them.

use super::Error;

/// The code length in bits of each byte, then of the end-of-string symbol.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13,23,28,28,28,28,28,28,28,24,30,28,28,30,28,28,28,28,28,28,28,28,30,28,28,28,28,28,28,28,28,28,
    6,10,10,12,13,6,8,11,10,10,8,11,8,6,6,6,5,5,5,6,6,6,6,6,6,6,7,8,15,6,12,10,
    13,6,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,8,7,8,13,19,13,14,6,
    15,5,6,5,6,5,6,6,6,5,7,7,6,6,6,5,6,7,6,5,5,6,7,7,7,7,7,15,11,14,13,28,
    20,22,20,20,22,22,22,23,22,23,23,23,23,23,24,23,24,24,22,23,24,23,23,23,23,21,22,23,22,23,23,24,
    22,21,20,22,22,23,23,21,23,22,22,24,21,22,23,23,21,21,22,21,23,22,23,23,20,22,22,22,23,22,22,23,
    26,26,20,19,22,23,22,25,26,26,26,27,27,26,24,25,19,21,26,27,27,26,27,24,21,21,26,26,28,27,27,27,
    20,24,20,21,22,21,21,23,22,22,25,25,24,24,26,23,26,27,26,26,27,27,27,27,27,28,27,27,27,27,27,26,
    30,
];

/// Section 5.2 allows 7 bits. Some encoders add a whole byte, and nginx accepts this; it makes no
/// string ambiguous.
const MAX_PADDING: u32 = 8;
const EOS: u16 = 256;
const LONGEST: usize = 30;
const SHORTEST: usize = 5;
/// The bits resolved by one lookup: enough for every printable ASCII character except six.
const FAST_BITS: u32 = 11;

/// The number of codes of each length.
const COUNTS: [u32; LONGEST + 1] = {
    let mut counts = [0; LONGEST + 1];
    let mut i = 0;
    while i < LENGTHS.len() {
        counts[LENGTHS[i] as usize] += 1;
        i += 1;
    }
    counts
};

/// The first code of each length.
const FIRST_CODE: [u32; LONGEST + 1] = {
    let mut first = [0; LONGEST + 1];
    let mut len = 1;
    while len <= LONGEST {
        first[len] = (first[len - 1] + COUNTS[len - 1]) << 1;
        len += 1;
    }
    first
};

/// The position in [`SYMBOLS`] of the first symbol with each length.
const FIRST_SYMBOL: [u32; LONGEST + 1] = {
    let mut first = [0; LONGEST + 1];
    let mut len = 1;
    while len <= LONGEST {
        first[len] = first[len - 1] + COUNTS[len - 1];
        len += 1;
    }
    first
};

/// The symbols in the order of their codes.
static SYMBOLS: [u16; 257] = {
    let mut symbols = [0; 257];
    let mut next = FIRST_SYMBOL;
    let mut i = 0;
    while i < LENGTHS.len() {
        let len = LENGTHS[i] as usize;
        symbols[next[len] as usize] = i as u16;
        next[len] += 1;
        i += 1;
    }
    symbols
};

/// The code of each symbol.
static CODES: [u32; 257] = {
    let mut codes = [0; 257];
    let mut i = 0;
    while i < 257 {
        let symbol = SYMBOLS[i] as usize;
        let len = LENGTHS[symbol] as usize;
        codes[symbol] = FIRST_CODE[len] + (i as u32 - FIRST_SYMBOL[len]);
        i += 1;
    }
    codes
};

/// For the next [`FAST_BITS`] bits: the symbol and length of the code at their start, or length 0.
static FAST: [(u8, u8); 1 << FAST_BITS] = {
    let mut fast = [(0, 0); 1 << FAST_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let len = LENGTHS[symbol] as u32;
        if len <= FAST_BITS {
            let spare = FAST_BITS - len;
            let start = (CODES[symbol] as usize) << spare;
            let mut i = 0;
            while i < 1 << spare {
                fast[start + i] = (symbol as u8, len as u8);
                i += 1;
            }
        }
        symbol += 1;
    }
    fast
};

/// The bits that are not decoded yet, left-aligned.
struct Bits<'a> {
    rest: &'a [u8],
    acc: u64,
    have: u32,
}

impl Bits<'_> {
    #[inline]
    fn refill(&mut self) {
        if let Some((word, _)) = self.rest.split_first_chunk::<8>() {
            self.acc |= u64::from_be_bytes(*word) >> self.have;
            let taken = (63 - self.have) / 8;
            self.rest = &self.rest[taken as usize..];
            self.have += taken * 8;
            return;
        }
        while self.have <= 56 {
            let Some((&byte, rest)) = self.rest.split_first() else {
                return;
            };
            self.acc |= u64::from(byte) << (56 - self.have);
            self.have += 8;
            self.rest = rest;
        }
    }

    #[inline]
    fn consume(&mut self, len: u32) {
        self.acc <<= len;
        self.have -= len;
    }
}

/// Append the decoded string to `out`. The result has at most 8/5 of the input's length.
///
/// # Errors
/// [`Error::Huffman`] for the end-of-string symbol, for more than a byte of padding, and for
/// padding that is not a prefix of that symbol (section 5.2).
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    out.reserve(input.len() * 8 / SHORTEST);
    let mut bits = Bits {
        rest: input,
        acc: 0,
        have: 0,
    };
    loop {
        bits.refill();
        if bits.have == 0 {
            return Ok(());
        }
        let (symbol, len) = FAST[(bits.acc >> (64 - FAST_BITS)) as usize];
        let len = u32::from(len);
        if len != 0 && len <= bits.have {
            out.push(symbol);
            bits.consume(len);
        } else if bits.have <= MAX_PADDING && is_padding(&bits) {
            return Ok(());
        } else {
            let (symbol, len) = decode_long(&bits)?;
            out.push(symbol);
            bits.consume(len);
        }
    }
}

/// Whether all remaining bits are ones: a prefix of the end-of-string symbol.
fn is_padding(bits: &Bits<'_>) -> bool {
    bits.acc >> (64 - bits.have) == (1 << bits.have) - 1
}

#[cold]
fn decode_long(bits: &Bits<'_>) -> Result<(u8, u32), Error> {
    for len in SHORTEST..=LONGEST.min(bits.have as usize) {
        let code = (bits.acc >> (64 - len)) as u32;
        let offset = code.wrapping_sub(FIRST_CODE[len]);
        if offset < COUNTS[len] {
            let symbol = SYMBOLS[(FIRST_SYMBOL[len] + offset) as usize];
            if symbol == EOS {
                return Err(Error::Huffman);
            }
            return Ok((symbol as u8, len as u32));
        }
    }
    Err(Error::Huffman)
}

/// The length of the encoded `text` in bytes.
pub fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text
        .iter()
        .map(|&b| usize::from(LENGTHS[usize::from(b)]))
        .sum();
    bits.div_ceil(8)
}

/// Append the encoded `text`.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut acc, mut have) = (0u64, 0u32);
    for &byte in text {
        let len = u32::from(LENGTHS[usize::from(byte)]);
        acc = acc << len | u64::from(CODES[usize::from(byte)]);
        have += len;
        while have >= 8 {
            have -= 8;
            out.push((acc >> have) as u8);
        }
    }
    if have > 0 {
        let padding = 8 - have;
        out.push((acc << padding) as u8 | ((1u16 << padding) - 1) as u8);
    }
}
