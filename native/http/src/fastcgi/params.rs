//! Name-value pairs (section 3.4): lengths of one byte, or of four with the top bit set.

use super::Error;

/// Append a pair to `out`.
///
/// # Panics
/// If a length exceeds 31 bits, which no header within our own limits can.
pub fn encode_param(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(8 + name.len() + value.len());
    if name.len() < 0x80 && value.len() < 0x80 {
        out.extend_from_slice(&[name.len() as u8, value.len() as u8]);
    } else {
        encode_length(out, name.len());
        encode_length(out, value.len());
    }
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

fn encode_length(out: &mut Vec<u8>, len: usize) {
    if len < 0x80 {
        out.push(len as u8);
        return;
    }
    assert!(len < 1 << 31, "FastCGI pair of {len} bytes");
    out.extend_from_slice(&(len as u32 | 0x8000_0000).to_be_bytes());
}

/// Iterate over the pairs of a params stream without copying.
pub fn decode_params(stream: &[u8]) -> Params<'_> {
    Params { rest: stream }
}

/// The iterator of [`decode_params`]. It ends after the first error.
#[derive(Clone, Debug)]
pub struct Params<'a> {
    rest: &'a [u8],
}

impl<'a> Params<'a> {
    fn pair(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let name = self.length()?;
        let value = self.length()?;
        let name = self.take(name)?;
        Some((name, self.take(value)?))
    }

    fn length(&mut self) -> Option<usize> {
        let first = *self.rest.first()?;
        if first < 0x80 {
            self.rest = &self.rest[1..];
            return Some(usize::from(first));
        }
        let bytes = self.take(4)?;
        Some((u32::from_be_bytes(bytes.try_into().ok()?) & 0x7fff_ffff) as usize)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let pair = self.pair().ok_or(Error::Params);
        if pair.is_err() {
            self.rest = &[];
        }
        Some(pair)
    }
}
