//! The atoms of a whole file: `ftyp`, `moov`, and `mdat` in any order.

use super::atom::{self, Error, Header, Result, Start};
use super::tree::{self, Movie};
use super::{Read, Wanted, MAX_ATOMS};

/// The number of bytes that are read at a time after a `moov` atom.
const EXCESS: u64 = 4096;
/// The longest header of an atom.
const HEADER: u64 = 16;
/// The longest contents of `ftyp`.
const MAX_FILE_TYPE: u64 = 1024;

/// The parts of a file.
#[derive(Debug, Default)]
pub struct Found {
    /// The contents of the `ftyp` atom.
    pub file_type: Option<Vec<u8>>,
    /// Bytes with the `moov` atom, into which `movie` points.
    pub bytes: Vec<u8>,
    pub movie: Movie,
    has_movie: bool,
    /// The byte after the media data.
    pub media_end: Option<u64>,
}

struct Scan<'s, 'r> {
    wanted: &'s Wanted,
    read: &'s mut Read<'r>,
    end: u64,
    offset: u64,
    /// The number of bytes to read at a time.
    buffer_size: u64,
    /// Bytes of the file from `at` on.
    window: Vec<u8>,
    at: u64,
    found: Found,
}

/// Find the parts of a file of `end` bytes.
pub fn scan(end: u64, wanted: &Wanted, read: &mut Read<'_>) -> Result<Found> {
    let mut scan = Scan {
        wanted,
        read,
        end,
        offset: 0,
        buffer_size: wanted.buffer_size,
        window: Vec::new(),
        at: 0,
        found: Found::default(),
    };
    let mut atoms = 0;
    while scan.offset < end {
        let Some(header) = atom::header(scan.offset, end, |n| scan.start(n))? else {
            break;
        };
        atoms += 1;
        if atoms > MAX_ATOMS {
            return Err(Error::of("mp4 file has too many atoms"));
        }
        scan.atom(&header)?;
    }
    Ok(scan.found)
}

impl Scan<'_, '_> {
    /// The bytes of the window from the offset on.
    fn ahead(&self) -> &[u8] {
        let skipped = usize::try_from(self.offset - self.at).unwrap_or(usize::MAX);
        self.window.get(skipped..).unwrap_or_default()
    }

    fn start(&mut self, n: usize) -> Result<Start> {
        self.fill(n as u64)?;
        Ok(atom::start(self.ahead(), n).expect("the window was filled"))
    }

    /// Have the window contain at least `n` bytes from the offset on.
    fn fill(&mut self, n: u64) -> Result<()> {
        if self.ahead().len() as u64 >= n {
            return Ok(());
        }
        self.buffer_size = self.buffer_size.min(self.end - self.offset);
        if self.buffer_size < n {
            return Err(Error::of("mp4 file truncated"));
        }
        self.window.clear();
        self.at = self.offset;
        (self.read)(self.at, self.buffer_size as usize, &mut self.window).map_err(Error::Read)
    }

    fn atom(&mut self, header: &Header) -> Result<()> {
        let size = header.size - header.len;
        self.offset += header.len;
        match &header.name {
            b"ftyp" => self.file_type(size)?,
            b"moov" => return self.movie(size),
            b"mdat" => return self.media(size),
            _ => {}
        }
        self.offset += size;
        Ok(())
    }

    fn file_type(&mut self, size: u64) -> Result<()> {
        let data = self.ahead().get(..size as usize);
        let Some(data) = data.filter(|_| size <= MAX_FILE_TYPE) else {
            return Err(Error::of(format!("mp4 ftyp atom is too large:{size}")));
        };
        let data = data.to_vec();
        match self.found.file_type.replace(data) {
            Some(_) => Err(Error::within("duplicate mp4 ftyp atom")),
            None => Ok(()),
        }
    }

    fn movie(&mut self, size: u64) -> Result<()> {
        let media_follows = self.found.media_end.is_none();
        if media_follows && self.wanted.start == 0 && self.wanted.length == 0 {
            return Err(Error::Whole);
        }
        if self.found.has_movie {
            return Err(Error::within("duplicate mp4 moov atom"));
        }
        if size > self.wanted.buffer_size && size > self.wanted.max_buffer_size {
            return Err(Error::of(format!(
                "mp4 moov atom is too large:{size}, you may want to increase mp4_max_buffer_size"
            )));
        }
        // A header that its list cuts short is read past the end of the atom, as nginx does.
        let whole = size + HEADER.min(self.end - self.offset - size);
        if whole > self.buffer_size {
            self.window = Vec::new();
            self.buffer_size = size + if media_follows { EXCESS } else { HEADER };
        }
        self.fill(whole)?;
        let from = (self.offset - self.at) as usize;
        let (movie, to) = tree::movie(
            &self.window,
            self.at,
            from..from + size as usize,
            self.wanted,
        )?;
        self.found.movie = movie;
        self.found.has_movie = true;
        self.found.bytes = std::mem::take(&mut self.window);
        self.offset = if media_follows {
            self.at + to as u64
        } else {
            self.end
        };
        self.buffer_size = EXCESS;
        Ok(())
    }

    fn media(&mut self, size: u64) -> Result<()> {
        let end = self.offset + size;
        if self.found.media_end.replace(end).is_some() {
            return Err(Error::within("duplicate mp4 mdat atom"));
        }
        // What follows both is of no interest.
        let is_complete = !self.found.movie.tracks.is_empty();
        self.offset = if is_complete { self.end } else { end };
        Ok(())
    }
}
