//! MP4 files from one time to another, as nginx's ngx_http_mp4_module cuts them: a new `moov` atom with
//! shorter tables, then the part of the media data that the tables describe.
//!
//! This module reads bytes through a function that its caller gives, and plans a response; it knows
//! neither files nor requests. Numbers of a file are never trusted: reads of tables are within the bytes
//! that were read, and arithmetic wraps around where nginx's does.

mod atom;
mod chunks;
mod samples;
mod scan;
mod track;
mod tree;
mod write;

pub use atom::Error;

use std::io;

/// The number of atoms beside `moov` and `mdat`, and of tracks, that no real file reaches. nginx has no
/// limit, and takes several kilobytes for each track.
const MAX_ATOMS: usize = 1000;
const MAX_TRACKS: usize = 1000;

/// Times in milliseconds, and the settings of the location.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub start: u64,
    /// 0: up to the end of the file.
    pub length: u64,
    /// Begin with the key frame before `start`, and hide what precedes `start` by an edit list.
    pub start_key_frame: bool,
    pub buffer_size: u64,
    pub max_buffer_size: u64,
}

/// A response: bytes, then a part of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    pub head: Vec<u8>,
    /// The first byte of the part.
    pub from: u64,
    /// The byte after the part.
    pub to: u64,
}

/// Append bytes of the file: their offset, their number, and the buffer. Fewer bytes are an error.
pub type Read<'r> = dyn FnMut(u64, usize, &mut Vec<u8>) -> io::Result<()> + 'r;

/// Plan the response for a file of `size` bytes.
pub fn plan(size: u64, wanted: &Wanted, read: &mut Read<'_>) -> Result<Plan, Error> {
    let mut found = scan::scan(size, wanted, read)?;
    if found.movie.tracks.is_empty() {
        return Err(Error::within("no mp4 trak atoms were found"));
    }
    let Some(media_end) = found.media_end else {
        return Err(Error::within("no mp4 mdat atom was found"));
    };
    let bounds = track::Bounds {
        file: size,
        media: media_end,
    };
    let (mut from, mut to) = (size, 0);
    for track in &mut found.movie.tracks {
        track.cut(&mut found.bytes, wanted, bounds)?;
        from = from.min(track.start_offset);
        to = to.max(track.end_offset);
    }
    if to <= from {
        return Err(Error::within("no data between start time and end time"));
    }
    if from >= media_end {
        return Err(Error::within("start time is out mp4 mdat atom"));
    }
    let head = write::head(&found, from, to);
    Ok(Plan { head, from, to })
}
