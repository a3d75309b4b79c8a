//! `confine_files`: the folders that a request's files must be in.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};

/// The folders of a `confine_files` directive; empty after `off`.
#[derive(Debug, Default)]
pub struct Confinement {
    pub folders: Vec<ConfinedFolder>,
}

/// A folder that is opened when the configuration is read.
#[derive(Debug)]
pub struct ConfinedFolder {
    /// The configured absolute path without `.`, double slashes, and a final slash.
    pub path: PathBuf,
    opened: RwLock<Option<Arc<OpenedFolder>>>,
    /// The time when the open folder was last compared with its path, in milliseconds (monotonic
    /// clock).
    pub checked: AtomicU64,
}

/// An open folder beneath which paths are resolved.
#[derive(Debug)]
pub struct OpenedFolder {
    /// Opened with `O_PATH`.
    pub folder: File,
    /// The resolved path of the folder when it was opened.
    pub real: PathBuf,
}

impl ConfinedFolder {
    /// Open the folder at an absolute path.
    ///
    /// # Errors
    /// The folder cannot be opened. The returned entry is still usable and contains no files.
    pub fn open(path: &Path) -> (ConfinedFolder, io::Result<()>) {
        let path: PathBuf = path
            .components()
            .filter(|part| *part != Component::CurDir)
            .collect();
        let (opened, result) = match open_folder(&path) {
            Ok(opened) => (Some(Arc::new(opened)), Ok(())),
            Err(e) => (None, Err(e)),
        };
        let folder = ConfinedFolder {
            path,
            opened: RwLock::new(opened),
            checked: AtomicU64::new(0),
        };
        (folder, result)
    }

    /// The open folder; `None` while it does not exist.
    pub fn opened(&self) -> Option<Arc<OpenedFolder>> {
        self.opened
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .clone()
    }

    /// Replace the open folder after its path has changed.
    pub fn replace(&self, opened: OpenedFolder) {
        *self.opened.write().unwrap_or_else(|e| e.into_inner()) = Some(Arc::new(opened));
    }
}

fn open_folder(path: &Path) -> io::Result<OpenedFolder> {
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(path)?;
    // Use the descriptor's own path, since the name may lead elsewhere by now.
    let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let real = std::fs::read_link(link).or_else(|_| path.canonicalize())?;
    Ok(OpenedFolder { folder, real })
}
