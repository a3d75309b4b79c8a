//! Permissions of new files and folders. The umask of a daemon is 0 and removes nothing.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// The mode of files that others may read and only their owner may write.
pub const FILE_MODE: u32 = 0o644;

/// Create a folder that only the server reads and writes, and its missing parents.
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
