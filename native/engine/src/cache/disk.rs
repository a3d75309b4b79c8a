//! The file of a cache entry: a head, then the response body. The layout is not nginx's.

use super::zone::Key;
use crate::upstream::answer::Head;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The prefix of incomplete files.
pub const TEMPORARY: &[u8] = b"temp-";
const MAGIC: &[u8; 8] = b"GALLOP\x00\x01";
/// The offset of the times, which are rewritten in place after a revalidation.
const TIMES_AT: u64 = 8;
/// The bytes before the parts of variable length.
const FIXED: usize = 84;
/// A longer head is invalid.
const MAX_HEAD: usize = 1 << 20;

/// The metadata of a cached response. Times are seconds since 1970, spans are seconds.
#[derive(Debug)]
pub struct Meta {
    /// The last second in which the response is fresh.
    pub valid: i64,
    /// Seconds after `valid` in which a stale response may be used during an update or after a
    /// failure.
    pub while_updating: i64,
    pub on_error: i64,
    /// The time when it was stored.
    pub date: i64,
    pub last_modified: Option<i64>,
    pub etag: Vec<u8>,
    /// `Vary`, and the hash of the request fields that it names.
    pub vary: Vec<u8>,
    pub variant: Key,
    pub key: Vec<u8>,
    pub head: Head,
}

/// A cache entry that was read.
#[derive(Debug)]
pub struct Entry {
    pub meta: Meta,
    pub file: Arc<File>,
    pub body_start: u64,
    /// The size of the file in bytes.
    pub size: u64,
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn encode_head(head: &Head) -> Vec<u8> {
    let mut out = head.status.to_le_bytes().to_vec();
    out.extend_from_slice(&head.content_length.unwrap_or(u64::MAX).to_le_bytes());
    out.push(u8::from(head.reason.is_some()));
    put(&mut out, head.reason.as_deref().unwrap_or_default());
    out.extend_from_slice(&(head.fields.len() as u32).to_le_bytes());
    for (name, value) in head.fields.iter() {
        put(&mut out, name);
        put(&mut out, value);
    }
    out
}

/// Takes numbers and texts from the front; `None` if there are too few bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let n = self.u32()? as usize;
        self.bytes(n).map(<[u8]>::to_vec)
    }
}

fn decode_head(bytes: &[u8]) -> Option<Head> {
    let mut r = Reader(bytes);
    let status = r.array().map(u16::from_le_bytes)?;
    let content_length = r.array().map(u64::from_le_bytes)?;
    let has_reason = r.array::<1>()? == [1];
    let reason = r.text()?;
    let mut fields = Vec::new();
    for _ in 0..r.u32()? {
        fields.push((r.text()?, r.text()?));
    }
    Some(Head {
        status,
        reason: has_reason.then_some(reason),
        fields: fields.into(),
        content_length: Some(content_length).filter(|&n| n != u64::MAX),
        ..Head::default()
    })
}

fn times(meta: &Meta) -> Vec<u8> {
    let last_modified = meta.last_modified.unwrap_or(i64::MIN);
    [
        meta.valid,
        meta.while_updating,
        meta.on_error,
        meta.date,
        last_modified,
    ]
    .map(i64::to_le_bytes)
    .concat()
}

/// Encode the head of an entry's file.
pub fn encode(meta: &Meta) -> Vec<u8> {
    let head = encode_head(&meta.head);
    let parts = [&meta.key, &meta.vary, &meta.etag, &head];
    let body = parts.map(|p| p.as_slice()).concat();
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&times(meta));
    out.extend_from_slice(&meta.variant);
    for part in parts {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
    }
    out.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    out.extend_from_slice(&body);
    out
}

fn broken() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}

/// Read an entry's file.
///
/// # Errors
/// The file is missing or incomplete.
pub fn read(path: &Path) -> io::Result<Entry> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    // One read gets the whole head in nearly every case.
    let mut bytes = vec![0; 4096.min(size as usize)];
    file.read_exact(&mut bytes)?;
    let lens = fixed(&bytes).ok_or_else(broken)?;
    let len: usize = lens.iter().map(|n| *n as usize).sum();
    if len > MAX_HEAD || (FIXED + len) as u64 > size {
        return Err(broken());
    }
    if FIXED + len > bytes.len() {
        bytes.resize(FIXED + len, 0);
        file.read_exact_at(&mut bytes, 0)?;
    }
    let meta = decode(&bytes, lens).ok_or_else(broken)?;
    Ok(Entry {
        meta,
        file: Arc::new(file),
        body_start: (FIXED + len) as u64,
        size,
    })
}

/// The lengths of key, vary, etag, and head.
fn fixed(bytes: &[u8]) -> Option<[u32; 4]> {
    let mut r = Reader(bytes.strip_prefix(MAGIC)?);
    r.bytes(56)?;
    Some([r.u32()?, r.u32()?, r.u32()?, r.u32()?])
}

fn decode(bytes: &[u8], lens: [u32; 4]) -> Option<Meta> {
    let mut r = Reader(&bytes[MAGIC.len()..]);
    let [valid, while_updating, on_error, date, last_modified] =
        [r.i64()?, r.i64()?, r.i64()?, r.i64()?, r.i64()?];
    let variant = r.array()?;
    r.bytes(16)?;
    let crc = r.u32()?;
    let len: usize = lens.iter().map(|n| *n as usize).sum();
    if crc32fast::hash(r.0.get(..len)?) != crc {
        return None;
    }
    let [key, vary, etag, head] = lens;
    let mut part = |n: u32| r.bytes(n as usize).map(<[u8]>::to_vec);
    Some(Meta {
        valid,
        while_updating,
        on_error,
        date,
        last_modified: Some(last_modified).filter(|&t| t != i64::MIN),
        variant,
        key: part(key)?,
        vary: part(vary)?,
        etag: part(etag)?,
        head: decode_head(&part(head)?)?,
    })
}

/// Write an encoded head at the start of a new file.
pub fn write_head(file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, 0)
}

/// Rewrite the times in an entry's file.
pub fn update_times(path: &Path, meta: &Meta) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    file.write_all_at(&times(meta), TIMES_AT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn meta() -> Meta {
        Meta {
            valid: 5,
            while_updating: 6,
            on_error: 7,
            date: 8,
            last_modified: None,
            etag: b"\"x\"".to_vec(),
            vary: b"Accept".to_vec(),
            variant: [9; 16],
            key: b"http://a/b".to_vec(),
            head: Head {
                status: 200,
                reason: Some(b"Fine".to_vec()),
                fields: vec![(b"A".to_vec(), b"b".to_vec())].into(),
                content_length: Some(3),
                ..Head::default()
            },
        }
    }

    #[test]
    fn read_returns_written_entry() {
        let path = std::env::temp_dir().join(format!("gallop-disk-{}", std::process::id()));
        let written = meta();
        std::fs::write(&path, [&encode(&written)[..], b"abc"].concat()).expect("written");
        let entry = read(&path).expect("read");
        assert_eq!(format!("{:?}", entry.meta), format!("{written:?}"));
        assert_eq!(entry.size - entry.body_start, 3);
        let later = Meta {
            valid: 50,
            ..meta()
        };
        update_times(&path, &later).expect("updated");
        assert_eq!(read(&path).expect("read").meta.valid, 50);
        std::fs::remove_file(&path).expect("removed");
    }

    proptest! {
        #[test]
        fn broken_heads_are_refused(at in 64usize..120, bit in 0u8..8, cut in 0usize..120) {
            let mut bytes = encode(&meta());
            let lens = fixed(&bytes).expect("whole");
            bytes[at] ^= 1 << bit;
            let decoded = fixed(&bytes).filter(|l| *l == lens).and_then(|l| decode(&bytes, l));
            prop_assert!(decoded.is_none());
            let bytes = &encode(&meta())[..cut];
            prop_assert!(fixed(bytes).and_then(|l| decode(bytes, l)).is_none());
        }
    }
}
