//! MaxMind databases (`geoip2`). A file is read into memory, which the worker processes share until
//! it is read again.

use maxminddb::{PathElement, Reader};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// A database and its file.
pub struct Database {
    pub path: PathBuf,
    /// `auto_reload`: the seconds between two looks at the file; `None` for none.
    interval: Option<u64>,
    content: RwLock<Arc<Content>>,
    /// Seconds since 1970.
    checked: AtomicU64,
    is_busy: AtomicBool,
}

struct Content {
    reader: Reader<Vec<u8>>,
    stamp: Stamp,
}

/// The values by which a changed file is noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Result<Stamp, String> {
        let found = std::fs::metadata(path).map_err(|e| crate::parser::os_error(&e))?;
        if !found.is_file() {
            return Err("not a file".to_string());
        }
        Ok(Stamp {
            inode: found.ino(),
            length: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }
}

/// A value about the database itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    BuildEpoch,
    LastCheck,
    LastChange,
}

/// A step on the way to a value. Decimal digits select an element of an array, if it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    key: String,
    index: Option<usize>,
}

impl Step {
    pub fn new(word: &str) -> Step {
        Step {
            key: word.to_string(),
            index: word.parse().ok(),
        }
    }
}

impl Database {
    /// # Errors
    /// The file cannot be read, or is no database.
    pub fn open(path: &Path, interval: Option<u64>) -> Result<Database, String> {
        Ok(Database {
            path: path.to_path_buf(),
            interval,
            content: RwLock::new(Arc::new(read(path)?)),
            checked: AtomicU64::new(now()),
            is_busy: AtomicBool::new(false),
        })
    }

    fn content(&self) -> Arc<Content> {
        let content = self.content.read().unwrap_or_else(PoisonError::into_inner);
        content.clone()
    }

    /// The value for an address; `None` if there is none, or if it is a map or an array.
    pub fn value(&self, address: IpAddr, path: &[Step]) -> Option<Vec<u8>> {
        let content = self.content();
        let found = content.reader.lookup(address).ok()?;
        let indexed: Vec<_> = path.iter().map(|s| element(s, s.index)).collect();
        let keyed: Vec<_> = path.iter().map(|s| element(s, None)).collect();
        let at = |path: &[PathElement<'_>]| found.decode_path::<Scalar>(path).ok().flatten();
        at(&indexed).or_else(|| at(&keyed)).map(|value| value.0)
    }

    pub fn metadata(&self, what: Metadata) -> u64 {
        let content = self.content();
        match what {
            Metadata::BuildEpoch => content.reader.metadata().build_epoch,
            Metadata::LastCheck => self.checked.load(Ordering::Relaxed),
            Metadata::LastChange => u64::try_from(content.stamp.modified.0).unwrap_or(0),
        }
    }

    /// Claim the next look at the file; `true` if it is due and nobody else looks. The caller then
    /// calls [`Database::refresh`].
    pub fn claim(&self) -> bool {
        let Some(interval) = self.interval else {
            return false;
        };
        let due = self
            .checked
            .load(Ordering::Relaxed)
            .saturating_add(interval);
        now() >= due && !self.is_busy.swap(true, Ordering::Acquire)
    }

    /// Read the file again if it has changed; `true` if so. This takes as long as the disk does.
    ///
    /// # Errors
    /// The file cannot be read, or is no database; the former content is kept.
    pub fn refresh(&self) -> Result<bool, String> {
        let result = self.reread();
        self.end_look();
        result
    }

    /// End a claimed look at the file.
    pub fn end_look(&self) {
        self.checked.store(now(), Ordering::Relaxed);
        self.is_busy.store(false, Ordering::Release);
    }

    fn reread(&self) -> Result<bool, String> {
        if Stamp::of(&self.path)? == self.content().stamp {
            return Ok(false);
        }
        let new = Arc::new(read(&self.path)?);
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        *content = new;
        Ok(true)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.path).finish()
    }
}

fn element<'a>(step: &'a Step, index: Option<usize>) -> PathElement<'a> {
    match index {
        Some(index) => PathElement::Index(index),
        None => PathElement::Key(&step.key),
    }
}

fn read(path: &Path) -> Result<Content, String> {
    let stamp = Stamp::of(path)?;
    let bytes = std::fs::read(path).map_err(|e| crate::parser::os_error(&e))?;
    let reader = Reader::from_source(bytes).map_err(|e| e.to_string())?;
    Ok(Content { reader, stamp })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A value as text.
struct Scalar(Vec<u8>);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a single value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(text.into()))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Scalar, E> {
        Ok(Scalar(bytes.into()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
        self.visit_u64(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string().into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string().into()))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Scalar, E> {
        Ok(Scalar(format!("0x{value:032x}").into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar(format!("{value:.5}").into()))
    }
}
