//! Tables of samples: their times (`stts`), the key frames (`stss`), and the offsets of times (`ctts`).

use super::atom::{get32, put32, Error, Result, Table};
use super::track::{Side, Track};
use super::tree::units;
use super::Wanted;

impl Track {
    /// Find the sample of a time, and drop the rows of `stts` beyond it.
    pub fn cut_times(
        &mut self,
        stts: &mut Table,
        bytes: &mut [u8],
        wanted: &Wanted,
        side: Side,
    ) -> Result<()> {
        let time = match side {
            Side::Start => wanted.start,
            Side::End if wanted.length == 0 => return Ok(()),
            Side::End => wanted.length,
        };
        let mut time = units(time, self.timescale).wrapping_add(self.prefix);
        let mut sample = 0u64;
        for row in stts.offsets() {
            let (count, duration) = (get32(bytes, row), get32(bytes, row + 4));
            let all = u64::from(count) * u64::from(duration);
            if time < all {
                let rest = (time / u64::from(duration)) as u32;
                let sample = sample + u64::from(rest);
                if side == Side::Start {
                    return self.begin_at(sample, (row, rest), stts, bytes, wanted);
                }
                put32(bytes, row, rest);
                stts.rows.end = row + stts.width;
                self.end_sample = self.start_sample + sample;
                return Ok(());
            }
            sample += u64::from(count);
            time -= all;
        }
        if side == Side::Start {
            return Err(Error::within("start time is out mp4 stts samples"));
        }
        self.end_sample = self.start_sample + sample;
        Ok(())
    }

    /// Begin with this sample or with the key frame before it. `place` is the row of the sample and the
    /// samples of the row before it.
    fn begin_at(
        &mut self,
        sample: u64,
        place: (usize, u32),
        stts: &mut Table,
        bytes: &mut [u8],
        wanted: &Wanted,
    ) -> Result<()> {
        let (mut row, mut rest) = place;
        let mut before = match wanted.start_key_frame {
            true => self.after_key_frame(sample as u32, bytes)?,
            false => 0,
        };
        self.start_sample = sample - u64::from(before);
        while rest < before {
            // As in nginx, these products have 32 bits.
            let time = rest.wrapping_mul(get32(bytes, row + 4));
            self.prefix += u64::from(time);
            before -= rest;
            if row == stts.rows.start {
                return Err(Error::within("start time is out mp4 stts samples"));
            }
            row -= stts.width;
            rest = get32(bytes, row);
        }
        let time = before.wrapping_mul(get32(bytes, row + 4));
        self.prefix += u64::from(time);
        if let Some(mdhd) = &mut self.mdhd {
            mdhd.duration = mdhd.duration.wrapping_add(self.prefix);
        }
        let count = get32(bytes, row);
        put32(bytes, row, count - (rest - before));
        stts.rows.start = row;
        Ok(())
    }

    /// The number of samples from the key frame to this sample.
    fn after_key_frame(&self, sample: u32, bytes: &[u8]) -> Result<u32> {
        // `stss` counts from 1.
        let sample = sample.wrapping_add(1);
        let mut after = 0;
        for row in self.stss.iter().flat_map(Table::offsets) {
            let key_frame = get32(bytes, row);
            if key_frame == 0 {
                return Err(Error::within("zero sync sample"));
            }
            if key_frame > sample {
                break;
            }
            after = sample - key_frame;
        }
        Ok(after)
    }

    /// Drop the rows of `stss` outside the part, and count from its start.
    pub fn cut_key_frames(&mut self, bytes: &mut [u8], wanted: &Wanted) {
        let Some(stss) = &mut self.stss else {
            return;
        };
        let beyond = |stss: &Table, bytes: &[u8], sample: u64| {
            let first = (sample as u32).wrapping_add(1);
            let mut rows = stss.offsets();
            let found = rows.find(|&row| get32(bytes, row) >= first);
            found.unwrap_or(stss.rows.end)
        };
        stss.rows.start = beyond(stss, bytes, self.start_sample);
        if wanted.length != 0 {
            stss.rows.end = beyond(stss, bytes, self.end_sample);
        }
        for row in stss.offsets() {
            let sample = get32(bytes, row).wrapping_sub(self.start_sample as u32);
            put32(bytes, row, sample);
        }
    }

    /// Drop the rows of `ctts` outside the part; a table without rows is dropped as a whole.
    pub fn cut_time_offsets(&mut self, bytes: &mut [u8], wanted: &Wanted) {
        let Some(ctts) = &mut self.ctts else {
            return;
        };
        match row_of(ctts, bytes, self.start_sample as u32) {
            Some((row, before)) => {
                let count = get32(bytes, row);
                put32(bytes, row, count.wrapping_sub(before));
                ctts.rows.start = row;
            }
            None => ctts.rows.start = ctts.rows.end,
        }
        if wanted.length != 0 {
            let samples = (self.end_sample - self.start_sample) as u32;
            if let Some((row, before)) = row_of(ctts, bytes, samples) {
                put32(bytes, row, before);
                ctts.rows.end = row + ctts.width;
            }
        }
        if ctts.rows.is_empty() {
            self.ctts = None;
        }
    }
}

/// The row of `ctts` with this sample, and the samples of the row before it.
fn row_of(ctts: &Table, bytes: &[u8], sample: u32) -> Option<(usize, u32)> {
    let mut sample = sample.wrapping_add(1);
    for row in ctts.offsets() {
        let count = get32(bytes, row);
        if sample <= count {
            return Some((row, sample.wrapping_sub(1)));
        }
        sample -= count;
    }
    None
}
