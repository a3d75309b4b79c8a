//! A track: its atoms, and the part of its samples that is sent.

use super::atom::{Error, Result, Table};
use super::Wanted;
use std::ops::Range;

/// An atom with a duration.
#[derive(Debug)]
pub struct Leaf {
    /// The atom without its header.
    pub data: Range<usize>,
    pub duration: u64,
    /// The place of the duration in the data, and whether it has 64 bits.
    pub duration_place: usize,
    pub is_long: bool,
}

/// The ends of the file and of its media data.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub file: u64,
    pub media: u64,
}

/// The side of the samples that is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Start,
    End,
}

/// A row of `stsc`: the first chunk of a run, the samples of each chunk, and their description.
pub type Run = [u32; 3];

#[derive(Debug, Default)]
pub struct Track {
    pub tkhd: Option<Leaf>,
    pub has_mdia: bool,
    pub mdhd: Option<Leaf>,
    pub hdlr: Option<Range<usize>>,
    pub has_minf: bool,
    pub vmhd: Option<Range<usize>>,
    pub smhd: Option<Range<usize>>,
    pub dinf: Option<Range<usize>>,
    pub has_stbl: bool,
    pub stsd: Option<Range<usize>>,
    pub stts: Option<Table>,
    pub stss: Option<Table>,
    pub ctts: Option<Table>,
    pub stsc: Option<Table>,
    pub stsz: Option<Table>,
    /// `stco` or `co64`.
    pub offsets: Option<Table>,

    /// Time units of a second.
    pub timescale: u32,
    /// The duration in units of the movie.
    pub movie_duration: u64,
    /// The time before the start that is sent to begin with a key frame.
    pub prefix: u64,
    pub start_sample: u64,
    /// The sample after the last one.
    pub end_sample: u64,
    pub start_chunk: u64,
    pub end_chunk: u64,
    /// The samples that precede the start in its chunk, and those that precede the end.
    pub start_chunk_samples: u32,
    pub end_chunk_samples: u32,
    /// Their bytes.
    pub start_chunk_size: u64,
    pub end_chunk_size: u64,
    /// Rows that go before and after those of `stsc`.
    pub first_run: Option<Run>,
    pub last_run: Option<Run>,
    /// The part of the file with the samples.
    pub start_offset: u64,
    pub end_offset: u64,
}

impl Track {
    /// Cut the tables to the wanted time. What their rows say is changed in `bytes`.
    pub fn cut(&mut self, bytes: &mut [u8], wanted: &Wanted, bounds: Bounds) -> Result<()> {
        let mut stts = taken(&mut self.stts, "stts")?;
        self.cut_times(&mut stts, bytes, wanted, Side::Start)?;
        self.cut_times(&mut stts, bytes, wanted, Side::End)?;
        self.stts = Some(stts);
        self.cut_key_frames(bytes, wanted);
        self.cut_time_offsets(bytes, wanted);
        let mut stsc = taken(&mut self.stsc, "stsc")?;
        self.cut_runs(&mut stsc, bytes, wanted)?;
        self.stsc = Some(stsc);
        self.cut_sizes(bytes, wanted, bounds)?;
        let mut offsets = taken(&mut self.offsets, "stco")?;
        self.cut_offsets(&mut offsets, bytes, wanted, bounds)?;
        self.offsets = Some(offsets);
        Ok(())
    }

    /// The number of chunks that have an offset in the whole file.
    pub fn chunks(&self) -> u32 {
        self.offsets.as_ref().map_or(0, |table| table.len() as u32)
    }
}

fn taken(table: &mut Option<Table>, name: &str) -> Result<Table> {
    let lacking = || Error::within(format!("no mp4 {name} atoms were found"));
    table.take().ok_or_else(lacking)
}
