//! Decoding of field sections.

use super::{huffman, integer, table, Error, FieldRing};

/// Decodes the field sections of one connection in order.
#[derive(Debug)]
pub struct Decoder {
    table: FieldRing,
    /// Our SETTINGS_HEADER_TABLE_SIZE.
    max_table: usize,
    name: Vec<u8>,
    value: Vec<u8>,
    generation: u64,
}

/// A string in the input, or decoded into a scratch buffer.
enum Text<'a> {
    Raw(&'a [u8]),
    Coded(&'a [u8]),
}

impl Decoder {
    /// A decoder whose table never exceeds `max_table` bytes (section 4.2).
    pub fn new(max_table: usize) -> Self {
        Self {
            table: FieldRing::new(max_table),
            max_table,
            name: Vec::new(),
            value: Vec::new(),
            generation: 0,
        }
    }

    /// A number that changes with the dynamic table. With equal generations, equal bytes decode to
    /// equal fields, so a caller may cache a section's meaning.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Decode a whole section and pass each field to `field`. All fields are decoded in any case,
    /// since the table must match the peer's.
    ///
    /// # Errors
    /// The section is malformed; no further section of the connection can be decoded.
    pub fn decode(
        &mut self,
        mut input: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        self.size_updates(&mut input)?;
        while let Some(&first) = input.first() {
            if first & 0x80 != 0 {
                let index = integer::decode(&mut input, 7)?;
                let (name, value) = lookup(&self.table, index)?;
                field(name, value);
            } else if first & 0x40 != 0 {
                let (name, value) = self.literal(&mut input, 6)?;
                field(name, value);
                self.remember();
            } else if first & 0x20 != 0 {
                return Err(Error::TableSize);
            } else {
                let (name, value) = self.literal(&mut input, 4)?;
                field(name, value);
            }
        }
        Ok(())
    }

    /// Process table size updates, which must come first in a section (section 4.2). Two suffice
    /// for any change; more are harmless, since each costs the sender a byte.
    fn size_updates(&mut self, input: &mut &[u8]) -> Result<(), Error> {
        while input.first().is_some_and(|first| first & 0xe0 == 0x20) {
            let size = integer::decode(input, 5)?;
            if size > self.max_table {
                return Err(Error::TableSize);
            }
            self.table.set_capacity(size);
            self.generation += 1;
        }
        Ok(())
    }

    /// Read a literal into the scratch buffers.
    fn literal(&mut self, input: &mut &[u8], bits: u32) -> Result<(&[u8], &[u8]), Error> {
        let index = integer::decode(input, bits)?;
        self.name.clear();
        self.value.clear();
        if index == 0 {
            string(input)?.append_to(&mut self.name)?;
        } else {
            self.name.extend_from_slice(lookup(&self.table, index)?.0);
        }
        string(input)?.append_to(&mut self.value)?;
        Ok((&self.name, &self.value))
    }

    fn remember(&mut self) {
        self.table.insert(&self.name, &self.value);
        self.generation += 1;
    }

    /// Free scratch memory after a long field, before the connection becomes idle.
    pub fn trim(&mut self) {
        self.name = Vec::new();
        self.value = Vec::new();
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &FieldRing {
        &self.table
    }
}

/// No index or length in a field section exceeds this.
const MAX_NUMBER: u64 = 1 << 21;

/// Check the start of a field block for errors that no further bytes could correct.
///
/// # Errors
/// An integer exceeds its limit.
pub fn check_start(mut block: &[u8]) -> Result<(), Error> {
    let more = |result: Result<(), Error>| match result {
        Err(Error::Truncated) => Ok(false),
        other => other.map(|()| true),
    };
    while !block.is_empty() && more(check_field(&mut block))? {}
    Ok(())
}

fn check_field(block: &mut &[u8]) -> Result<(), Error> {
    let first = block[0];
    let (bits, strings) = match first {
        0x80.. => (7, 0),
        0x40.. => (6, 1),
        0x20.. => (5, 0),
        _ => (4, 1),
    };
    let index = check_integer(block, bits)?;
    for _ in 0..strings + usize::from(strings > 0 && index == 0) {
        check_integer(&mut &**block, 7)?;
        string(block)?;
    }
    Ok(())
}

fn check_integer(block: &mut &[u8], bits: u32) -> Result<usize, Error> {
    let start = *block;
    match integer::decode(block, bits) {
        Err(Error::Truncated) if integer::is_above(start, bits, MAX_NUMBER) => Err(Error::Integer),
        result => result,
    }
}

#[inline]
fn lookup(table: &FieldRing, index: usize) -> Result<(&[u8], &[u8]), Error> {
    match index.checked_sub(table::LEN + 1) {
        Some(age) => table.newest(age),
        None => table::static_field(index),
    }
    .ok_or(Error::Index)
}

#[inline]
fn string<'a>(input: &mut &'a [u8]) -> Result<Text<'a>, Error> {
    let coded = input.first().ok_or(Error::Truncated)? & 0x80 != 0;
    let len = integer::decode(input, 7)?;
    let (text, rest) = input.split_at_checked(len).ok_or(Error::Truncated)?;
    *input = rest;
    Ok(if coded {
        Text::Coded(text)
    } else {
        Text::Raw(text)
    })
}

impl Text<'_> {
    fn append_to(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Text::Raw(text) => out.extend_from_slice(text),
            Text::Coded(text) => huffman::decode(text, out)?,
        }
        Ok(())
    }
}
