//! Field sections in (RFC 9204, section 4.5).

use super::{table, Error};
use crate::hpack::{huffman, integer};

/// Decodes a whole section, handing each field to `field`. `scratch` is reused memory for names and
/// values that do not lie in the section as they are.
///
/// # Errors
/// The section is malformed: QPACK_DECOMPRESSION_FAILED, the connection is lost.
pub fn decode(
    mut input: &[u8],
    scratch: &mut Vec<u8>,
    mut field: impl FnMut(&[u8], &[u8]),
) -> Result<(), Error> {
    prefix(&mut input)?;
    while let Some(&first) = input.first() {
        if first & 0x80 != 0 {
            let (name, value) = indexed(&mut input, first)?;
            field(name, value);
        } else if first & 0x40 != 0 {
            let name = name_reference(&mut input, first)?;
            scratch.clear();
            let value = string(&mut input, 7, scratch)?;
            field(name, value.resolve(scratch));
        } else if first & 0x20 != 0 {
            scratch.clear();
            let name = string(&mut input, 3, scratch)?;
            let value = string(&mut input, 7, scratch)?;
            field(name.resolve(scratch), value.resolve(scratch));
        } else {
            // Post-base references, indexed or by name, are to the dynamic table always.
            return Err(Error::DynamicReference);
        }
    }
    Ok(())
}

/// Required Insert Count and Base, which without a table can only be 0 (section 4.5.1).
fn prefix(input: &mut &[u8]) -> Result<(), Error> {
    if integer::decode(input, 8)? != 0 {
        return Err(Error::DynamicReference);
    }
    let sign = input.first().ok_or(Error::Truncated)? & 0x80 != 0;
    integer::decode(input, 7)?;
    // A negative Base is an error (section 4.5.1.2): Required Insert Count - Delta Base - 1 < 0.
    if sign {
        return Err(Error::DynamicReference);
    }
    Ok(())
}

#[inline]
fn indexed(input: &mut &[u8], first: u8) -> Result<(&'static [u8], &'static [u8]), Error> {
    if first & 0x40 == 0 {
        return Err(Error::DynamicReference);
    }
    let index = integer::decode(input, 6)?;
    table::static_field(index).ok_or(Error::StaticIndex)
}

fn name_reference(input: &mut &[u8], first: u8) -> Result<&'static [u8], Error> {
    if first & 0x10 == 0 {
        return Err(Error::DynamicReference);
    }
    let index = integer::decode(input, 4)?;
    Ok(table::static_field(index).ok_or(Error::StaticIndex)?.0)
}

/// A string that lies in the section, or at a place in the scratch memory.
enum Text<'a> {
    Raw(&'a [u8]),
    Decoded(usize, usize),
}

impl<'a> Text<'a> {
    fn resolve(self, scratch: &'a [u8]) -> &'a [u8] {
        match self {
            Text::Raw(text) => text,
            Text::Decoded(start, end) => &scratch[start..end],
        }
    }
}

/// Takes a string whose length has `bits` bits in its first byte, below the Huffman flag.
fn string<'a>(input: &mut &'a [u8], bits: u32, scratch: &mut Vec<u8>) -> Result<Text<'a>, Error> {
    let coded = input.first().ok_or(Error::Truncated)? & (1 << bits) != 0;
    let len = integer::decode(input, bits)?;
    let (text, rest) = input.split_at_checked(len).ok_or(Error::Truncated)?;
    *input = rest;
    if !coded {
        return Ok(Text::Raw(text));
    }
    let start = scratch.len();
    huffman::decode(text, scratch)?;
    Ok(Text::Decoded(start, scratch.len()))
}
