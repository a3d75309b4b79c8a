//! Decoding of field sections (RFC 9204, section 4.5).

use super::table::static_field;
use super::{Error, Table};
use crate::hpack::{huffman, integer};

/// Decode a whole section and pass each field to `field`. Returns the Required Insert Count, which
/// is 0 without references to the dynamic table. `scratch` is reusable memory for names and values
/// that are not in the section in plain form.
///
/// # Errors
/// [`Error::Blocked`], before the first field, if entries have not arrived yet. Any other error
/// means that the section is malformed: QPACK_DECOMPRESSION_FAILED, the connection is lost.
pub fn decode(
    mut input: &[u8],
    table: &Table,
    scratch: &mut Vec<u8>,
    mut field: impl FnMut(&[u8], &[u8]),
) -> Result<u64, Error> {
    let prefix = Prefix::take(&mut input, table)?;
    if prefix.required > table.inserted() {
        return Err(Error::Blocked(prefix.required));
    }
    while let Some(&first) = input.first() {
        if first & 0x80 != 0 {
            let (name, value) = prefix.indexed(&mut input, first, table)?;
            field(name, value);
        } else if first & 0x20 != 0 && first & 0x40 == 0 {
            scratch.clear();
            let name = string(&mut input, 3, scratch)?;
            let value = string(&mut input, 7, scratch)?;
            field(name.resolve(scratch), value.resolve(scratch));
        } else if first & 0xf0 == 0x10 {
            let index = integer::decode(&mut input, 4)?;
            let (name, value) = prefix.post_base(index, table)?;
            field(name, value);
        } else {
            let name = prefix.name_reference(&mut input, first, table)?;
            scratch.clear();
            let value = string(&mut input, 7, scratch)?;
            field(name, value.resolve(scratch));
        }
    }
    Ok(prefix.required)
}

/// Whether the section that begins with these bytes would be [`Error::Blocked`].
pub fn waits(mut input: &[u8], table: &Table) -> bool {
    let encoded = integer::decode(&mut input, 8).unwrap_or(0) as u64;
    table
        .required(encoded)
        .is_ok_and(|required| required > table.inserted())
}

/// The base of a section's references (section 4.5.1).
#[derive(Clone, Copy)]
struct Prefix {
    required: u64,
    base: u64,
}

impl Prefix {
    fn take(input: &mut &[u8], table: &Table) -> Result<Self, Error> {
        let required = table.required(integer::decode(input, 8)? as u64)?;
        let negative = input.first().ok_or(Error::Truncated)? & 0x80 != 0;
        let delta = integer::decode(input, 7)? as u64;
        let base = if negative {
            required.checked_sub(delta + 1)
        } else {
            Some(required + delta)
        };
        let base = base.ok_or(Error::DynamicReference)?;
        Ok(Self { required, base })
    }

    /// The entry with an absolute index, which must be below the section's Required Insert Count
    /// (section 2.2.3).
    #[inline]
    fn entry(self, index: Option<u64>, table: &Table) -> Result<(&[u8], &[u8]), Error> {
        let index = index.filter(|&index| index < self.required);
        table.absolute(index.ok_or(Error::DynamicReference)?)
    }

    #[inline]
    fn relative(self, index: usize, table: &Table) -> Result<(&[u8], &[u8]), Error> {
        self.entry(self.base.checked_sub(index as u64 + 1), table)
    }

    fn post_base(self, index: usize, table: &Table) -> Result<(&[u8], &[u8]), Error> {
        self.entry(self.base.checked_add(index as u64), table)
    }

    #[inline]
    fn indexed<'t>(
        self,
        input: &mut &[u8],
        first: u8,
        table: &'t Table,
    ) -> Result<(&'t [u8], &'t [u8]), Error> {
        let index = integer::decode(input, 6)?;
        if first & 0x40 == 0 {
            return self.relative(index, table);
        }
        static_field(index).ok_or(Error::StaticIndex)
    }

    fn name_reference<'t>(
        self,
        input: &mut &[u8],
        first: u8,
        table: &'t Table,
    ) -> Result<&'t [u8], Error> {
        if first & 0x40 == 0 {
            let index = integer::decode(input, 3)?;
            return Ok(self.post_base(index, table)?.0);
        }
        let index = integer::decode(input, 4)?;
        if first & 0x10 == 0 {
            return Ok(self.relative(index, table)?.0);
        }
        Ok(static_field(index).ok_or(Error::StaticIndex)?.0)
    }
}

/// A string in the section, or in the scratch memory.
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

/// Take a string whose length has `bits` bits in its first byte, below the Huffman flag.
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
