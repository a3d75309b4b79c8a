//! The file lookups of a request. A prepared response is valid only while every file and folder
//! that led to it, also each absent one, is unchanged.

use crate::exchange::Exchange;
use crate::files;
use gallop_conf::model::Location;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileMark {
    dev: u64,
    inode: u64,
    mode: u32,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// The system's error number.
    Error(i32),
    /// A folder by its identity and permissions. Changes of its entries do not count.
    Folder {
        dev: u64,
        inode: u64,
        mode: u32,
        owner: (u32, u32),
    },
    Other(FileMark),
}

impl Found {
    fn of(looked: io::Result<&Metadata>) -> Found {
        match looked {
            Err(e) => Found::Error(e.raw_os_error().unwrap_or(0)),
            Ok(m) if m.is_dir() => Found::Folder {
                dev: m.dev(),
                inode: m.ino(),
                mode: m.mode(),
                owner: (m.uid(), m.gid()),
            },
            Ok(m) => Found::Other(FileMark {
                dev: m.dev(),
                inode: m.ino(),
                mode: m.mode(),
                size: m.size(),
                mtime: (m.mtime(), m.mtime_nsec()),
                ctime: (m.ctime(), m.ctime_nsec()),
            }),
        }
    }
}

/// A path and the result of looking it up.
#[derive(Clone, Debug)]
pub struct Look {
    path: PathBuf,
    /// The location whose settings restrict the path.
    location: Arc<Location>,
    found: Found,
}

/// Milliseconds in which a file may change twice with equal times, since the system's file clock
/// advances in steps.
const CLOCK_STEP_MS: i64 = 20;

impl Look {
    /// Whether a new lookup would have the same result.
    pub fn holds(&self) -> bool {
        let looked = files::look_again(&self.location.conf, &self.path);
        self.found == Found::of(looked.as_ref().map_err(copy))
    }

    /// Whether any later change of the file will change its times; `now`: milliseconds since 1970.
    pub fn is_settled(&self, now: u64) -> bool {
        let Found::Other(mark) = self.found else {
            return true;
        };
        let (seconds, nanoseconds) = mark.ctime.max(mark.mtime);
        let changed = seconds.saturating_mul(1000) + nanoseconds / 1_000_000;
        changed.saturating_add(CLOCK_STEP_MS) < now as i64
    }

    /// The memory that it takes, in bytes.
    pub fn size(&self) -> usize {
        size_of::<Look>() + self.path.as_os_str().len()
    }
}

/// A copy of an error, with the same number.
pub fn copy(error: &io::Error) -> io::Error {
    io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0))
}

/// Record the result of a lookup.
pub fn note(ex: &mut Exchange, path: &Path, looked: io::Result<&Metadata>) {
    ex.looks.push(Look {
        path: path.to_path_buf(),
        location: ex.loc.clone(),
        found: Found::of(looked),
    });
}
