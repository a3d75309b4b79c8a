//! With which permissions files and folders are made. A daemon's umask is 0 and takes nothing away.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Of files that others may read and only their owner may write.
pub const FILE_MODE: u32 = 0o644;

/// A folder for what the server alone reads and writes, and the folders above it.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made,
    }
}
