//! Numbers and headers of atoms, and the errors of a file.

use std::borrow::Cow;
use std::fmt::Display;
use std::io;
use std::ops::Range;

/// The reason why no part of a file is sent.
#[derive(Debug)]
pub enum Error {
    /// The client wants all of a file whose `moov` atom precedes its media data: send it unchanged.
    Whole,
    /// The track has nothing at the wanted time.
    Skip,
    /// A fault, said of the file: `"PATH" TEXT`.
    Of(Cow<'static, str>),
    /// A fault, found in the file: `TEXT in "PATH"`.
    In(Cow<'static, str>),
    Read(io::Error),
}

impl Error {
    pub fn of(text: impl Into<Cow<'static, str>>) -> Error {
        Error::Of(text.into())
    }

    pub fn within(text: impl Into<Cow<'static, str>>) -> Error {
        Error::In(text.into())
    }

    /// nginx's text for the error log.
    pub fn text(&self, path: &dyn Display) -> String {
        match self {
            Error::Whole | Error::Skip => format!("\"{path}\" mp4 file needs no change"),
            Error::Of(text) => format!("\"{path}\" {text}"),
            Error::In(text) => format!("{text} in \"{path}\""),
            Error::Read(e) => {
                let reason = gallop_conf::parser::os_error(e);
                format!("pread() \"{path}\" failed ({reason})")
            }
        }
    }
}

pub type Result<T> = std::result::Result<T, Error>;

/// The number at `at`, which the caller knows to be inside.
pub fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub fn get64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

pub fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

/// The header of an atom.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub name: [u8; 4],
    /// The length of the header: 8, or 16 with a size of 64 bits.
    pub len: u64,
    /// The size of the atom with its header.
    pub size: u64,
}

/// The first bytes of an atom; those that were not asked for are 0.
pub type Start = [u8; 16];

/// The first `n` of these bytes, which must be as many.
pub fn start(bytes: &[u8], n: usize) -> Option<Start> {
    let mut start = Start::default();
    start[..n].copy_from_slice(bytes.get(..n)?);
    Some(start)
}

/// Read the header of an atom that must end at `end`; `None` if its size of 0 ends the list of atoms.
/// `have` returns as many bytes from `offset` on as it is asked for.
pub fn header(
    offset: u64,
    end: u64,
    mut have: impl FnMut(usize) -> Result<Start>,
) -> Result<Option<Header>> {
    let mut size = u64::from(get32(&have(4)?, 0));
    let mut len = 8;
    if size == 0 {
        return Ok(None);
    }
    if size == 1 {
        size = get64(&have(16)?, 8);
        len = 16;
    }
    if size < len {
        return Err(Error::of(format!("mp4 atom is too small:{size}")));
    }
    let bytes = have(8)?;
    let name = [bytes[4], bytes[5], bytes[6], bytes[7]];
    if size > (i64::MAX as u64).saturating_sub(offset) || offset + size > end {
        return Err(Error::of(format!("mp4 atom too large:{size}")));
    }
    Ok(Some(Header { name, len, size }))
}

/// The rows of a table, without the fields before them.
#[derive(Clone, Debug)]
pub struct Table {
    /// The first byte after the atom's header: the version and the flags.
    pub at: usize,
    pub rows: Range<usize>,
    /// Bytes of a row.
    pub width: usize,
    /// Whether this is a `stsz` of samples of one size.
    pub is_uniform: bool,
}

impl Table {
    pub fn len(&self) -> u64 {
        (self.rows.len() / self.width) as u64
    }

    /// The offsets of the rows.
    pub fn offsets(&self) -> impl Iterator<Item = usize> {
        self.rows.clone().step_by(self.width)
    }
}
