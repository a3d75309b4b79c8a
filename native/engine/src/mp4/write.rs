//! The bytes of a response that precede the media data.

use super::atom::{get32, get64, put32, put64, Table};
use super::scan::Found;
use super::track::{Leaf, Track};
use std::ops::Range;

/// `edts` with its `elst`.
const EDIT_LIST: usize = 8 + 36;
/// Two rows of `stsc`.
const RUNS: usize = 24;

struct Writer<'w> {
    /// The file's bytes with the `moov` atom.
    bytes: &'w [u8],
    out: Vec<u8>,
    /// The places of the offsets of chunks.
    offsets: Vec<Table>,
}

/// Write `ftyp`, `moov`, and the header of `mdat`, for the file's bytes `from..to`.
pub fn head(found: &Found, from: u64, to: u64) -> Vec<u8> {
    let room = found.bytes.len() + found.movie.tracks.len() * (EDIT_LIST + RUNS) + 1200;
    let mut writer = Writer {
        bytes: &found.bytes,
        out: Vec::with_capacity(room),
        offsets: Vec::new(),
    };
    if let Some(data) = &found.file_type {
        let atom = writer.open(b"ftyp");
        writer.out.extend_from_slice(data);
        writer.close(atom);
    }
    let movie = writer.open(b"moov");
    writer.leaf(b"mvhd", found.movie.header.as_ref());
    for track in &found.movie.tracks {
        writer.track(track);
    }
    writer.close(movie);
    let media = media_header(to - from);
    let moved = ((writer.out.len() + media.len()) as u64).wrapping_sub(from);
    writer.move_chunks(moved);
    writer.out.extend_from_slice(&media);
    writer.out.shrink_to_fit();
    writer.out
}

/// The header of a `mdat` atom.
fn media_header(size: u64) -> Vec<u8> {
    match u32::try_from(size + 8) {
        Ok(size) => [&size.to_be_bytes()[..], b"mdat"].concat(),
        Err(_) => [&[0, 0, 0, 1], &b"mdat"[..], &(size + 16).to_be_bytes()].concat(),
    }
}

impl Writer<'_> {
    fn open(&mut self, name: &[u8; 4]) -> usize {
        let at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(name);
        at
    }

    fn close(&mut self, atom: usize) {
        let size = self.out.len() - atom;
        put32(&mut self.out, atom, size as u32);
    }

    fn copy(&mut self, range: &Range<usize>) {
        self.out.extend_from_slice(&self.bytes[range.clone()]);
    }

    fn put(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    fn plain(&mut self, name: &[u8; 4], data: Option<&Range<usize>>) {
        if let Some(data) = data {
            let atom = self.open(name);
            self.copy(data);
            self.close(atom);
        }
    }

    fn leaf(&mut self, name: &[u8; 4], leaf: Option<&Leaf>) {
        let Some(leaf) = leaf else {
            return;
        };
        let atom = self.open(name);
        self.copy(&leaf.data);
        self.close(atom);
        let at = atom + 8 + leaf.duration_place;
        match leaf.is_long {
            true => put64(&mut self.out, at, leaf.duration),
            false => put32(&mut self.out, at, leaf.duration as u32),
        }
    }

    fn track(&mut self, track: &Track) {
        let trak = self.open(b"trak");
        self.leaf(b"tkhd", track.tkhd.as_ref());
        if track.prefix != 0 {
            self.edit_list(track);
        }
        let mdia = self.open(b"mdia");
        self.leaf(b"mdhd", track.mdhd.as_ref());
        self.plain(b"hdlr", track.hdlr.as_ref());
        let minf = self.open(b"minf");
        self.plain(b"vmhd", track.vmhd.as_ref());
        self.plain(b"smhd", track.smhd.as_ref());
        self.plain(b"dinf", track.dinf.as_ref());
        let stbl = self.open(b"stbl");
        self.tables(track);
        for atom in [stbl, minf, mdia, trak] {
            self.close(atom);
        }
    }

    /// Hide what precedes the start.
    fn edit_list(&mut self, track: &Track) {
        let edts = self.open(b"edts");
        let elst = self.open(b"elst");
        self.out.extend_from_slice(&[1, 0, 0, 0]);
        self.put(1);
        self.out
            .extend_from_slice(&track.movie_duration.to_be_bytes());
        self.out.extend_from_slice(&track.prefix.to_be_bytes());
        self.out.extend_from_slice(&[0, 1, 0, 0]);
        self.close(elst);
        self.close(edts);
    }

    fn tables(&mut self, track: &Track) {
        self.plain(b"stsd", track.stsd.as_ref());
        self.table(b"stts", track.stts.as_ref());
        self.table(b"stss", track.stss.as_ref());
        self.table(b"ctts", track.ctts.as_ref());
        self.runs(track);
        match &track.stsz {
            Some(table) if table.is_uniform => {
                self.plain(b"stsz", Some(&(table.at..table.at + 12)))
            }
            table => self.table(b"stsz", table.as_ref()),
        }
        let Some(table) = &track.offsets else {
            return;
        };
        self.table(
            if table.width == 8 { b"co64" } else { b"stco" },
            Some(table),
        );
        let end = self.out.len();
        self.offsets.push(Table {
            rows: end - table.rows.len()..end,
            ..table.clone()
        });
    }

    fn table(&mut self, name: &[u8; 4], table: Option<&Table>) {
        let Some(table) = table else {
            return;
        };
        let atom = self.open(name);
        let fields = if name == b"stsz" { 8 } else { 4 };
        self.copy(&(table.at..table.at + fields));
        self.put(table.len() as u32);
        self.copy(&table.rows);
        self.close(atom);
    }

    /// Write `stsc` with the rows for cut chunks.
    fn runs(&mut self, track: &Track) {
        let Some(table) = &track.stsc else {
            return;
        };
        let more = usize::from(track.first_run.is_some()) + usize::from(track.last_run.is_some());
        let atom = self.open(b"stsc");
        self.copy(&(table.at..table.at + 4));
        self.put((table.len() + more as u64) as u32);
        for value in track.first_run.iter().flatten() {
            self.put(*value);
        }
        self.copy(&table.rows);
        for value in track.last_run.iter().flatten() {
            self.put(*value);
        }
        self.close(atom);
    }

    /// Add to the offsets of all chunks.
    fn move_chunks(&mut self, distance: u64) {
        for table in &self.offsets {
            for at in table.offsets() {
                if table.width == 8 {
                    let offset = get64(&self.out, at).wrapping_add(distance);
                    put64(&mut self.out, at, offset);
                } else {
                    let offset = get32(&self.out, at).wrapping_add(distance as u32);
                    put32(&mut self.out, at, offset);
                }
            }
        }
    }
}
