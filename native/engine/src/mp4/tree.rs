//! The atoms inside `moov`.

use super::atom::{self, get32, get64, Error, Result, Table};
use super::track::{Leaf, Track};
use super::{Wanted, MAX_TRACKS};
use std::ops::Range;

/// The contents of `moov`.
#[derive(Debug, Default)]
pub struct Movie {
    /// Time units of a second.
    timescale: u32,
    pub header: Option<Leaf>,
    pub tracks: Vec<Track>,
}

/// The atom whose atoms are read.
#[derive(Clone, Copy)]
enum Inside {
    Moov,
    Trak,
    Mdia,
    Minf,
    Stbl,
}

struct Tree<'t> {
    bytes: &'t [u8],
    /// The offset of the bytes in the file.
    base: u64,
    at: usize,
    wanted: &'t Wanted,
    movie: Movie,
}

/// Read the atoms in `range`. Returns the place where they end.
pub fn movie(
    bytes: &[u8],
    base: u64,
    range: Range<usize>,
    wanted: &Wanted,
) -> Result<(Movie, usize)> {
    let mut tree = Tree {
        bytes,
        base,
        at: range.start,
        wanted,
        movie: Movie::default(),
    };
    tree.atoms(Inside::Moov, range.end)?;
    Ok((tree.movie, tree.at))
}

impl Tree<'_> {
    fn atoms(&mut self, inside: Inside, end: usize) -> Result<()> {
        while self.at < end {
            let ahead = &self.bytes[self.at..];
            let have = |n| atom::start(ahead, n).ok_or_else(|| Error::of("mp4 file truncated"));
            let (offset, file_end) = (self.base + self.at as u64, self.base + end as u64);
            let Some(header) = atom::header(offset, file_end, have)? else {
                return Ok(());
            };
            self.at += header.len as usize;
            let data = self.at..self.at + (header.size - header.len) as usize;
            self.atom(inside, &header.name, data)?;
        }
        Ok(())
    }

    /// Read an atom and go on behind it.
    fn atom(&mut self, inside: Inside, name: &[u8; 4], data: Range<usize>) -> Result<()> {
        let end = data.end;
        let deeper = match (inside, name) {
            (Inside::Moov, b"trak") => return self.track(end),
            (Inside::Trak, b"mdia") => Some((Inside::Mdia, &mut self.track_now()?.has_mdia)),
            (Inside::Mdia, b"minf") => Some((Inside::Minf, &mut self.track_now()?.has_minf)),
            (Inside::Minf, b"stbl") => Some((Inside::Stbl, &mut self.track_now()?.has_stbl)),
            _ => None,
        };
        if let Some((inside, seen)) = deeper {
            if std::mem::replace(seen, true) {
                return Err(duplicate(name));
            }
            return self.atoms(inside, end);
        }
        match inside {
            Inside::Moov => self.in_movie(name, data)?,
            Inside::Trak | Inside::Mdia | Inside::Minf => self.in_track(inside, name, data)?,
            Inside::Stbl => self.in_tables(name, data)?,
        }
        self.at = end;
        Ok(())
    }

    fn track_now(&mut self) -> Result<&mut Track> {
        self.movie.tracks.last_mut().ok_or(Error::Skip)
    }

    fn track(&mut self, end: usize) -> Result<()> {
        if self.movie.tracks.len() == MAX_TRACKS {
            return Err(Error::of("mp4 moov atom has too many tracks"));
        }
        self.movie.tracks.push(Track::default());
        match self.atoms(Inside::Trak, end) {
            Err(Error::Skip) => {
                self.movie.tracks.pop();
                self.at = end;
                Ok(())
            }
            result => result,
        }
    }

    fn in_movie(&mut self, name: &[u8; 4], data: Range<usize>) -> Result<()> {
        match name {
            b"mvhd" if self.movie.header.is_some() => Err(duplicate(name)),
            b"mvhd" => {
                let times = self.times(name, &data, &MOVIE_TIMES)?;
                self.movie.timescale = times.timescale;
                let late = || Error::of("mp4 start time exceeds file duration");
                let left = times.left(self.wanted, times.timescale).ok_or_else(late)?;
                self.movie.header = Some(times.leaf(data, left));
                Ok(())
            }
            b"cmov" => Err(Error::of(
                "mp4 compressed moov atom (cmov) is not supported",
            )),
            _ => Ok(()),
        }
    }

    fn in_track(&mut self, inside: Inside, name: &[u8; 4], data: Range<usize>) -> Result<()> {
        match (inside, name) {
            (Inside::Trak, b"tkhd") => {
                let times = self.times(name, &data, &TRACK_TIMES)?;
                let scale = self.movie.timescale;
                let duration = times.left_in_track(self.wanted, scale)?;
                let track = self.track_now()?;
                track.movie_duration = duration;
                set(&mut track.tkhd, times.leaf(data, duration), name)
            }
            (Inside::Mdia, b"mdhd") => {
                let times = self.times(name, &data, &MEDIA_TIMES)?;
                let duration = times.left_in_track(self.wanted, times.timescale)?;
                let track = self.track_now()?;
                track.timescale = times.timescale;
                set(&mut track.mdhd, times.leaf(data, duration), name)
            }
            (Inside::Mdia, b"hdlr") => set(&mut self.track_now()?.hdlr, data, name),
            (Inside::Minf, b"vmhd" | b"smhd") => {
                let track = self.track_now()?;
                if track.vmhd.is_some() || track.smhd.is_some() {
                    return Err(Error::within("duplicate mp4 vmhd/smhd atom"));
                }
                let is_video = name == b"vmhd";
                let place = if is_video {
                    &mut track.vmhd
                } else {
                    &mut track.smhd
                };
                set(place, data, name)
            }
            (Inside::Minf, b"dinf") => set(&mut self.track_now()?.dinf, data, name),
            _ => Ok(()),
        }
    }

    fn in_tables(&mut self, name: &[u8; 4], data: Range<usize>) -> Result<()> {
        let width = match name {
            b"stsd" if data.len() < 16 => return Err(too_small(name)),
            b"stsd" => return set(&mut self.track_now()?.stsd, data, name),
            b"stts" | b"ctts" | b"co64" => 8,
            b"stss" | b"stco" | b"stsz" => 4,
            b"stsc" => 12,
            _ => return Ok(()),
        };
        // As in nginx, these duplicates are found before their rows are counted.
        let is_early = matches!(name, b"stss" | b"ctts" | b"stsz");
        let fields = if name == b"stsz" { 12 } else { 8 };
        if is_early && data.len() >= fields && self.place(name)?.is_some() {
            return Err(duplicate(name));
        }
        let table = self.table(name, data, width)?;
        let place = self.place(name)?;
        if place.is_some() && matches!(name, b"stco" | b"co64") {
            return Err(Error::within("duplicate mp4 stco/co64 atom"));
        }
        set(place, table, name)
    }

    /// The place of a table in the last track.
    fn place(&mut self, name: &[u8; 4]) -> Result<&mut Option<Table>> {
        let track = self.track_now()?;
        Ok(match name {
            b"stts" => &mut track.stts,
            b"ctts" => &mut track.ctts,
            b"stss" => &mut track.stss,
            b"stsz" => &mut track.stsz,
            b"stsc" => &mut track.stsc,
            _ => &mut track.offsets,
        })
    }

    fn table(&self, name: &[u8; 4], data: Range<usize>, width: usize) -> Result<Table> {
        let before = if name == b"stsz" { 12 } else { 8 };
        if data.len() < before {
            return Err(too_small(name));
        }
        let first = data.start + before;
        // Samples of one size have no table.
        let is_uniform = before == 12 && get32(self.bytes, data.start + 4) != 0;
        let entries = match is_uniform {
            true => 0,
            false => u64::from(get32(self.bytes, first - 4)),
        };
        if entries * width as u64 > (data.end - first) as u64 {
            return Err(too_small(name));
        }
        Ok(Table {
            at: data.start,
            rows: first..first + entries as usize * width,
            width,
            is_uniform,
        })
    }

    fn times(&self, name: &[u8; 4], data: &Range<usize>, layouts: &[Layout; 2]) -> Result<Times> {
        if data.len() < layouts[0].size {
            return Err(too_small(name));
        }
        let is_long = self.bytes[data.start] != 0;
        let layout = layouts[usize::from(is_long)];
        if data.len() < layout.size {
            return Err(too_small(name));
        }
        let duration_at = data.start + layout.duration;
        Ok(Times {
            timescale: get32(self.bytes, data.start + layout.timescale),
            duration: match is_long {
                true => get64(self.bytes, duration_at),
                false => u64::from(get32(self.bytes, duration_at)),
            },
            duration_place: layout.duration,
            is_long,
        })
    }
}

/// The places of fields in an atom after its header, and the smallest size without the header.
#[derive(Clone, Copy)]
struct Layout {
    size: usize,
    timescale: usize,
    duration: usize,
}

const fn layout(size: usize, timescale: usize, duration: usize) -> Layout {
    Layout {
        size,
        timescale,
        duration,
    }
}

/// By version: 0 has durations of 32 bits, and 1 of 64.
const MOVIE_TIMES: [Layout; 2] = [layout(100, 12, 16), layout(112, 20, 24)];
const MEDIA_TIMES: [Layout; 2] = [layout(24, 12, 16), layout(36, 20, 24)];
/// These have no time scale of their own.
const TRACK_TIMES: [Layout; 2] = [layout(84, 0, 20), layout(96, 0, 28)];

struct Times {
    timescale: u32,
    duration: u64,
    duration_place: usize,
    is_long: bool,
}

impl Times {
    /// The duration from the start on, up to the wanted length; `None` if the start is later.
    fn left(&self, wanted: &Wanted, timescale: u32) -> Option<u64> {
        let left = self.duration.checked_sub(units(wanted.start, timescale))?;
        Some(match wanted.length {
            0 => left,
            length => left.min(units(length, timescale)),
        })
    }

    /// The same for a track, which is left out if it ends at the start.
    fn left_in_track(&self, wanted: &Wanted, timescale: u32) -> Result<u64> {
        if self.duration <= units(wanted.start, timescale) {
            return Err(Error::Skip);
        }
        self.left(wanted, timescale).ok_or(Error::Skip)
    }

    fn leaf(&self, data: Range<usize>, duration: u64) -> Leaf {
        Leaf {
            data,
            duration,
            duration_place: self.duration_place,
            is_long: self.is_long,
        }
    }
}

/// Milliseconds in the units of a time scale; as in nginx, an absurd time wraps around.
pub fn units(milliseconds: u64, timescale: u32) -> u64 {
    milliseconds.wrapping_mul(u64::from(timescale)) / 1000
}

fn set<T>(place: &mut Option<T>, value: T, name: &[u8; 4]) -> Result<()> {
    match place.replace(value) {
        Some(_) => Err(duplicate(name)),
        None => Ok(()),
    }
}

fn duplicate(name: &[u8; 4]) -> Error {
    let name = String::from_utf8_lossy(name);
    Error::within(format!("duplicate mp4 {name} atom"))
}

fn too_small(name: &[u8; 4]) -> Error {
    let name = String::from_utf8_lossy(name);
    Error::of(format!("mp4 {name} atom too small"))
}
