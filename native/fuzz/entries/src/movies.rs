//! MP4 files of which a client wants a part.

use gallop_engine::mp4::{plan, Plan, Wanted};
use std::io;

/// Flags, start and length in tenths of a second, and a file. A part lies within the file, its head is
/// a sound one, and no read is larger than the settings allow.
pub fn mp4(bytes: &[u8]) {
    let Some((&[flags, a, b, c, d], file)) = bytes.split_first_chunk() else {
        return;
    };
    let wanted = Wanted {
        start: u64::from(u16::from_be_bytes([a, b])) * 100,
        length: u64::from(u16::from_be_bytes([c, d])) * 100,
        start_key_frame: flags & 1 != 0,
        buffer_size: if flags & 2 != 0 { 40 } else { 512 << 10 },
        max_buffer_size: if flags & 4 != 0 { 1000 } else { 10 << 20 },
    };
    let most = wanted.buffer_size.max(wanted.max_buffer_size + 4096 + 16) as usize;
    let mut reads = 0;
    let mut read = |offset: u64, len: usize, out: &mut Vec<u8>| {
        reads += 1;
        assert!(len <= most && reads < 3000);
        let start = offset as usize;
        let part = file.get(start..start + len);
        out.extend_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    };
    if let Ok(plan) = plan(file.len() as u64, &wanted, &mut read) {
        assert!(plan.from < plan.to && plan.to <= file.len() as u64);
        assert!(plan.head.len() <= file.len() * 2 + 1200);
        check(&plan);
    }
}

/// The atoms of a head fill it, and the last one announces the part of the file.
fn check(plan: &Plan) {
    let mut rest = &plan.head[..];
    let mut names = Vec::new();
    while let Some((name, size)) = header(rest) {
        names.push(name);
        if &name == b"mdat" {
            assert_eq!(size, rest.len() as u64 + plan.to - plan.from);
            rest = &[];
            break;
        }
        let (atom, after) = rest.split_at(size as usize);
        if &name == b"moov" {
            tree(&atom[8..]);
        }
        rest = after;
    }
    assert!(rest.is_empty());
    assert!(names == [*b"moov", *b"mdat"] || names == [*b"ftyp", *b"moov", *b"mdat"]);
}

fn tree(mut bytes: &[u8]) {
    while let Some((name, size)) = header(bytes) {
        let (atom, after) = bytes.split_at(size as usize);
        if matches!(&name, b"trak" | b"mdia" | b"minf" | b"stbl" | b"edts") {
            tree(&atom[8..]);
        }
        bytes = after;
    }
    assert!(bytes.is_empty());
}

/// The name and the size of the first atom.
fn header(bytes: &[u8]) -> Option<([u8; 4], u64)> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_first_chunk::<4>()?;
    let size = match u32::from_be_bytes(*size) {
        1 => u64::from_be_bytes(*rest.first_chunk()?),
        size => u64::from(size),
    };
    Some((*name, size))
}

#[cfg(test)]
mod tests {
    use super::mp4;

    /// Parts of a movie with both kinds of tracks and all tables.
    const SEED: &[u8] = include_bytes!("../../corpus/mp4/part");

    #[test]
    fn mp4_cut_off_anywhere_breaks_nothing() {
        for end in 0..SEED.len() {
            mp4(&SEED[..end]);
        }
    }

    #[test]
    fn mp4_with_any_changed_number_breaks_nothing() {
        let values = [
            0,
            1,
            2,
            7,
            8,
            15,
            16,
            1 << 16,
            1 << 31,
            (1 << 31) - 1,
            u32::MAX,
        ];
        for at in 0..SEED.len() - 4 {
            let mut bytes = SEED.to_vec();
            for value in values {
                bytes[at..at + 4].copy_from_slice(&u32::to_be_bytes(value));
                mp4(&bytes);
            }
        }
    }
}
