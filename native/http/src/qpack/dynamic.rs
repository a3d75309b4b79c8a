//! The dynamic table that the peer's encoder fills (RFC 9204, sections 3.2 and 4.3).

use super::{table, Error};
use crate::hpack::{huffman, integer, FieldRing, ENTRY_OVERHEAD};

/// The most bytes of the table, as the protocol counts them: our SETTINGS_QPACK_MAX_TABLE_CAPACITY.
pub const MAX_CAPACITY: usize = 4096;
/// The most entries that fit: MaxEntries of section 4.5.1.1.
const MAX_ENTRIES: u64 = (MAX_CAPACITY / ENTRY_OVERHEAD) as u64;
/// The longest useful instruction: the shortest code of a byte has five bits, the longest thirty.
const MAX_INSTRUCTION: usize = 4 * MAX_CAPACITY + 16;

/// The table, and the received part of an incomplete instruction.
#[derive(Debug)]
pub struct Table {
    ring: FieldRing,
    /// The most bytes of a name or value.
    max_field: usize,
    partial: Vec<u8>,
    name: Vec<u8>,
    value: Vec<u8>,
    generation: u64,
}

/// A string in its encoded form.
struct Text<'a> {
    coded: bool,
    bytes: &'a [u8],
}

/// A complete instruction.
enum Instruction<'a> {
    Capacity(usize),
    StaticName(usize, Text<'a>),
    DynamicName(usize, Text<'a>),
    Literal(Text<'a>, Text<'a>),
    Duplicate(usize),
}

impl Table {
    /// An empty table with capacity 0, which the peer can raise up to [`MAX_CAPACITY`]. No name or
    /// value may exceed `max_field` bytes.
    pub fn new(max_field: usize) -> Self {
        Self {
            ring: FieldRing::new(0),
            max_field,
            partial: Vec::new(),
            name: Vec::new(),
            value: Vec::new(),
            generation: 0,
        }
    }

    /// The number of entries ever inserted.
    pub fn inserted(&self) -> u64 {
        self.ring.inserted()
    }

    /// A number that changes with the table: with equal generations, equal sections mean equal
    /// fields.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Process bytes of the peer's encoder stream.
    ///
    /// # Errors
    /// QPACK_ENCODER_STREAM_ERROR: an invalid instruction.
    pub fn receive(&mut self, input: &[u8]) -> Result<(), Error> {
        if self.partial.is_empty() {
            let used = self.follow_all(input)?;
            self.partial.extend_from_slice(&input[used..]);
        } else {
            let mut bytes = std::mem::take(&mut self.partial);
            bytes.extend_from_slice(input);
            let used = self.follow_all(&bytes)?;
            bytes.drain(..used);
            if !bytes.is_empty() {
                self.partial = bytes;
            }
        }
        if self.partial.len() > MAX_INSTRUCTION {
            return Err(Error::Instruction);
        }
        Ok(())
    }

    /// Process the complete instructions at the start of `input`. Returns the number of their
    /// bytes.
    fn follow_all(&mut self, input: &[u8]) -> Result<usize, Error> {
        let mut rest = input;
        loop {
            let mut ahead = rest;
            match instruction(&mut ahead) {
                Ok(Some(instruction)) => self.follow(instruction)?,
                Ok(None) | Err(Error::Truncated) => return Ok(input.len() - rest.len()),
                Err(error) => return Err(error),
            }
            rest = ahead;
        }
    }

    fn follow(&mut self, instruction: Instruction<'_>) -> Result<(), Error> {
        self.generation += 1;
        self.name.clear();
        self.value.clear();
        match instruction {
            Instruction::Capacity(bytes) if bytes > MAX_CAPACITY => return Err(Error::Instruction),
            Instruction::Capacity(bytes) => {
                self.ring.set_capacity(bytes);
                return Ok(());
            }
            Instruction::StaticName(index, value) => {
                let (name, _) = table::static_field(index).ok_or(Error::StaticIndex)?;
                self.name.extend_from_slice(name);
                value.append_to(&mut self.value)?;
            }
            Instruction::DynamicName(age, value) => {
                let (name, _) = self.ring.newest(age).ok_or(Error::DynamicReference)?;
                self.name.extend_from_slice(name);
                value.append_to(&mut self.value)?;
            }
            Instruction::Literal(name, value) => {
                name.append_to(&mut self.name)?;
                value.append_to(&mut self.value)?;
            }
            Instruction::Duplicate(age) => {
                let (name, value) = self.ring.newest(age).ok_or(Error::DynamicReference)?;
                self.name.extend_from_slice(name);
                self.value.extend_from_slice(value);
            }
        }
        self.insert()
    }

    /// Insert an entry. One that does not fit is the peer's error (section 3.2.2).
    fn insert(&mut self) -> Result<(), Error> {
        let long = self.name.len().max(self.value.len()) > self.max_field;
        if long || !self.ring.insert(&self.name, &self.value) {
            return Err(Error::Instruction);
        }
        Ok(())
    }

    /// The entry with this index, counted from the first ever inserted.
    #[inline]
    pub(super) fn absolute(&self, index: u64) -> Result<(&[u8], &[u8]), Error> {
        let age = self.ring.inserted().checked_sub(index + 1);
        age.and_then(|age| self.ring.newest(usize::try_from(age).ok()?))
            .ok_or(Error::DynamicReference)
    }

    /// Decode the Required Insert Count (section 4.5.1.1).
    pub(super) fn required(&self, encoded: u64) -> Result<u64, Error> {
        const FULL_RANGE: u64 = 2 * MAX_ENTRIES;
        if encoded == 0 {
            return Ok(0);
        }
        if encoded > FULL_RANGE {
            return Err(Error::DynamicReference);
        }
        let max = self.inserted() + MAX_ENTRIES;
        let mut required = max / FULL_RANGE * FULL_RANGE + encoded - 1;
        if required > max {
            required = required
                .checked_sub(FULL_RANGE)
                .ok_or(Error::DynamicReference)?;
        }
        match required {
            0 => Err(Error::DynamicReference),
            count => Ok(count),
        }
    }
}

/// Take an instruction; `None` at the end of the input.
fn instruction<'a>(input: &mut &'a [u8]) -> Result<Option<Instruction<'a>>, Error> {
    let Some(&first) = input.first() else {
        return Ok(None);
    };
    Ok(Some(if first & 0x80 != 0 {
        let index = integer::decode(input, 6)?;
        let value = text(input, 7)?;
        if first & 0x40 != 0 {
            Instruction::StaticName(index, value)
        } else {
            Instruction::DynamicName(index, value)
        }
    } else if first & 0x40 != 0 {
        Instruction::Literal(text(input, 5)?, text(input, 7)?)
    } else if first & 0x20 != 0 {
        Instruction::Capacity(integer::decode(input, 5)?)
    } else {
        Instruction::Duplicate(integer::decode(input, 5)?)
    }))
}

/// Take a string whose length has `bits` bits in its first byte, below the Huffman flag. A string
/// that is too long is rejected before it has arrived.
fn text<'a>(input: &mut &'a [u8], bits: u32) -> Result<Text<'a>, Error> {
    let coded = input.first().ok_or(Error::Truncated)? & (1 << bits) != 0;
    let len = integer::decode(input, bits)?;
    if len > MAX_INSTRUCTION {
        return Err(Error::Instruction);
    }
    let (bytes, rest) = input.split_at_checked(len).ok_or(Error::Truncated)?;
    *input = rest;
    Ok(Text { coded, bytes })
}

impl Text<'_> {
    fn append_to(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.coded {
            huffman::decode(self.bytes, out)?;
        } else {
            out.extend_from_slice(self.bytes);
        }
        Ok(())
    }
}
