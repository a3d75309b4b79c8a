//! Tables of chunks: the samples in each (`stsc`), the sizes of samples (`stsz`), and the places of chunks
//! (`stco`, `co64`).

use super::atom::{get32, get64, put32, put64, Error, Result, Table};
use super::track::{Bounds, Side, Track};
use super::Wanted;

/// The run of chunks with a sample.
struct Place {
    row: usize,
    chunk: u32,
    /// The first chunk of the next run.
    next_chunk: u32,
    /// The samples of each chunk.
    samples: u32,
    description: u32,
    /// The number of the sample in the run.
    sample: u32,
    /// The samples of each chunk in the run before.
    samples_before: u32,
}

impl Track {
    pub fn cut_runs(&mut self, stsc: &mut Table, bytes: &mut [u8], wanted: &Wanted) -> Result<()> {
        if stsc.rows.is_empty() {
            return Err(Error::within("zero number of entries in stsc atom"));
        }
        let place = self.place(stsc, bytes, self.start_sample as u32, Side::Start)?;
        self.begin_runs(stsc, bytes, &place);
        if wanted.length != 0 {
            let mut samples = (self.end_sample - self.start_sample) as u32;
            if let Some(first) = &mut self.first_run {
                first[1] = first[1].min(samples);
                samples -= first[1];
            }
            let place = self.place(stsc, bytes, samples, Side::End)?;
            self.end_runs(stsc, bytes, &place);
        }
        for row in stsc.offsets() {
            let chunk = get32(bytes, row).wrapping_sub(self.start_chunk as u32);
            put32(bytes, row, chunk);
        }
        Ok(())
    }

    fn place(&self, stsc: &Table, bytes: &[u8], sample: u32, side: Side) -> Result<Place> {
        let mut place = self.run(stsc, bytes, sample, side)?;
        if place.samples == 0 {
            return Err(Error::within("zero number of samples"));
        }
        if place.chunk == 0 {
            return Err(Error::within("zero chunk"));
        }
        place.description = get32(bytes, place.row + 8);
        Ok(place)
    }

    fn run(&self, stsc: &Table, bytes: &[u8], mut sample: u32, side: Side) -> Result<Place> {
        let mut samples_before = 0;
        for row in stsc.offsets() {
            let (chunk, samples) = (get32(bytes, row), get32(bytes, row + 4));
            let next = row + stsc.width;
            let is_last = next == stsc.rows.end;
            let next_chunk = match is_last {
                true => self.chunks().wrapping_add(1),
                false => get32(bytes, next),
            };
            let Some(chunks) = next_chunk.checked_sub(chunk) else {
                return Err(Error::within("unordered mp4 stsc chunks"));
            };
            let all = u64::from(chunks) * u64::from(samples);
            if is_last && u64::from(sample) > all {
                let side = if side == Side::Start { "start" } else { "end" };
                return Err(Error::within(format!("{side} time is out mp4 stsc chunks")));
            }
            if is_last || u64::from(sample) < all {
                return Ok(Place {
                    row,
                    chunk,
                    next_chunk,
                    samples,
                    description: 0,
                    sample,
                    samples_before,
                });
            }
            sample -= all as u32;
            if chunks > 0 {
                samples_before = samples;
            }
        }
        Err(Error::within("zero number of entries in stsc atom"))
    }

    fn begin_runs(&mut self, stsc: &mut Table, bytes: &mut [u8], place: &Place) {
        let before = place.sample % place.samples;
        stsc.rows.start = place.row;
        self.start_chunk = place.target();
        self.start_chunk_samples = before;
        put32(bytes, place.row, (self.start_chunk + 1) as u32);
        if before == 0 {
            return;
        }
        let samples = place.samples - before;
        if place.is_in_last_chunk(place.next_chunk) {
            put32(bytes, place.row + 4, samples);
        } else {
            self.first_run = Some([1, samples, place.description]);
            put32(bytes, place.row, (self.start_chunk + 2) as u32);
        }
    }

    fn end_runs(&mut self, stsc: &mut Table, bytes: &mut [u8], place: &Place) {
        let samples = place.sample % place.samples;
        let is_in_run = place.sample != 0;
        stsc.rows.end = place.row + if is_in_run { stsc.width } else { 0 };
        self.end_chunk = place.target();
        self.end_chunk_samples = match is_in_run {
            true => place.samples,
            false => place.samples_before,
        };
        if samples == 0 {
            return;
        }
        self.end_chunk += 1;
        self.end_chunk_samples = samples;
        if place.is_in_last_chunk(place.chunk.wrapping_add(1)) {
            put32(bytes, place.row + 4, samples);
        } else {
            let chunk = self.end_chunk.wrapping_sub(self.start_chunk) as u32;
            self.last_run = Some([chunk, samples, place.description]);
        }
    }

    /// Drop the sizes outside the part, and add up those in cut chunks.
    pub fn cut_sizes(&mut self, bytes: &[u8], wanted: &Wanted, bounds: Bounds) -> Result<()> {
        let Some(stsz) = self.stsz.as_mut().filter(|table| !table.is_uniform) else {
            return Ok(());
        };
        let out = |side: &str| Error::within(format!("{side} time is out mp4 stsz samples"));
        let large = |side: &str| Error::within(format!("too large mp4 {side} samples size"));
        let first = stsz.rows.start;
        let sum = |end: usize, samples: u32| {
            let start = end.checked_sub(samples as usize * 4)?;
            let sizes = (start..end)
                .step_by(4)
                .map(|at| u64::from(get32(bytes, at)));
            (start >= first).then(|| sizes.sum::<u64>())
        };
        if self.start_sample >= stsz.len() {
            return Err(out("start"));
        }
        stsz.rows.start += self.start_sample as usize * 4;
        let size = sum(stsz.rows.start, self.start_chunk_samples);
        self.start_chunk_size = size.ok_or_else(|| out("start"))?;
        if self.start_chunk_size > bounds.file {
            return Err(large("start"));
        }
        if wanted.length != 0 {
            let samples = self.end_sample - self.start_sample;
            if samples > stsz.len() {
                return Err(out("end"));
            }
            stsz.rows.end = stsz.rows.start + samples as usize * 4;
            let size = sum(stsz.rows.end, self.end_chunk_samples);
            self.end_chunk_size = size.ok_or_else(|| out("end"))?;
            if self.end_chunk_size > bounds.file {
                return Err(large("end"));
            }
        }
        Ok(())
    }

    /// Drop the chunks outside the part, and find its place in the file.
    pub fn cut_offsets(
        &mut self,
        table: &mut Table,
        bytes: &mut [u8],
        wanted: &Wanted,
        bounds: Bounds,
    ) -> Result<()> {
        let kind = if table.width == 8 { "co64" } else { "stco" };
        let out = |side: &str| Error::within(format!("{side} time is out mp4 {kind} chunks"));
        let chunks = table.len();
        if self.start_chunk >= chunks {
            return Err(out("start"));
        }
        table.rows.start += self.start_chunk as usize * table.width;
        let first = table.rows.start;
        self.start_offset = offset(table, bytes, first, self.start_chunk_size, bounds)?;
        match table.width {
            8 => put64(bytes, first, self.start_offset),
            _ => put32(bytes, first, self.start_offset as u32),
        }
        if wanted.length == 0 {
            self.end_offset = bounds.media;
            return Ok(());
        }
        let left = self.end_chunk.checked_sub(self.start_chunk);
        let left = left.filter(|_| self.end_chunk <= chunks);
        table.rows.end = first + left.ok_or_else(|| out("end"))? as usize * table.width;
        if table.rows.is_empty() {
            self.start_offset = bounds.file;
            self.end_offset = 0;
            return Ok(());
        }
        let last = table.rows.end - table.width;
        self.end_offset = offset(table, bytes, last, self.end_chunk_size, bounds)?;
        Ok(())
    }
}

impl Place {
    /// The chunk of the sample, counted from 0.
    fn target(&self) -> u64 {
        u64::from(self.chunk - 1) + u64::from(self.sample / self.samples)
    }

    /// Whether the next run begins after the chunk of the sample.
    fn is_in_last_chunk(&self, next_chunk: u32) -> bool {
        u64::from(next_chunk) == self.target() + 2
    }
}

/// The place of bytes in a chunk.
fn offset(table: &Table, bytes: &[u8], row: usize, size: u64, bounds: Bounds) -> Result<u64> {
    let chunk = match table.width {
        8 => get64(bytes, row),
        _ => u64::from(get32(bytes, row)),
    };
    let is_inside = chunk <= bounds.file - size;
    if !is_inside || (table.width == 4 && chunk + size > u64::from(u32::MAX)) {
        return Err(Error::within("too large chunk offset"));
    }
    Ok(chunk + size)
}
