//! What a request found on the disk on its way to a response: a prepared response holds only as long as
//! every file and folder that led to it, also those that were absent, is as it was.

use crate::exchange::Exchange;
use crate::files;
use gallop_conf::model::Location;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What identifies a version of a file.
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
    /// What changes in a folder does not count, but which folder it is and who may enter it.
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

/// A path that was looked at, and what was there.
#[derive(Clone, Debug)]
pub struct Look {
    path: PathBuf,
    /// Its settings say where files may lie.
    location: Arc<Location>,
    found: Found,
}

/// Milliseconds in which a file may change twice and have the same times: the system's clock for files
/// advances in steps.
const CLOCK_STEP_MS: i64 = 20;

impl Look {
    /// Whether a look would find the same now.
    pub fn holds(&self) -> bool {
        let looked = files::look_again(&self.location.conf, &self.path);
        self.found == Found::of(looked.as_ref().map_err(copy))
    }

    /// Whether a change of the file from now on is sure to change its times; `now`: milliseconds since 1970.
    pub fn is_settled(&self, now: u64) -> bool {
        let Found::Other(mark) = self.found else {
            return true;
        };
        let (seconds, nanoseconds) = mark.ctime.max(mark.mtime);
        let changed = seconds.saturating_mul(1000) + nanoseconds / 1_000_000;
        changed.saturating_add(CLOCK_STEP_MS) < now as i64
    }

    /// Bytes it takes in memory.
    pub fn size(&self) -> usize {
        size_of::<Look>() + self.path.as_os_str().len()
    }
}

/// An error of the same number.
pub fn copy(error: &io::Error) -> io::Error {
    io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0))
}

/// Notes what a look found.
pub fn note(ex: &mut Exchange, path: &Path, looked: io::Result<&Metadata>) {
    ex.looks.push(Look {
        path: path.to_path_buf(),
        location: ex.loc.clone(),
        found: Found::of(looked),
    });
}
