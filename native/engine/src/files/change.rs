//! Changes of files. A [`Spot`] is a name in an open folder: what others do to the path meanwhile
//! cannot lead a change to another place. Trees are walked without following links.

use super::symlinks::Policy;
use super::{confined, confinement, own_path, symlinks, FilePath};
use crate::exchange::Exchange;
use crate::upstream::saved::Temporary;
use std::ffi::OsString;
use std::fs::{DirBuilder, DirEntry, File, Metadata, OpenOptions};
use std::io::{self, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Folders nested more deeply are neither deleted nor copied.
const DEEPEST: u32 = 128;

/// The device and inode of a file.
type Id = (u64, u64);

fn id(meta: &Metadata) -> Id {
    (meta.dev(), meta.ino())
}

/// A file, a folder, or nothing, by its name in an open folder.
pub struct Spot {
    folder: OwnedFd,
    /// A path that leads through the open folder.
    path: PathBuf,
}

/// The spot of a path, whose folder must exist.
///
/// # Errors
/// As [`super::open`].
pub fn spot(ex: &Exchange, path: &FilePath) -> io::Result<Spot> {
    in_folder(path, |folder| open_folder(ex, folder))
}

/// The spot of a path; missing folders above it are created.
///
/// # Errors
/// As [`super::open`], and those of mkdir(2).
pub fn spot_in_new_folder(ex: &Exchange, path: &FilePath, mode: u32) -> io::Result<Spot> {
    in_folder(path, |folder| create_folders(ex, folder, mode))
}

fn in_folder(path: &FilePath, open: impl FnOnce(&Path) -> io::Result<OwnedFd>) -> io::Result<Spot> {
    let path = path.without_slash();
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    };
    let folder = open(parent)?;
    Ok(Spot {
        path: own_path(&folder).join(name),
        folder,
    })
}

const FOLDER: libc::c_int = libc::O_PATH | libc::O_DIRECTORY;

/// Open a folder by the rules of the request's location.
fn open_folder(ex: &Exchange, folder: &Path) -> io::Result<OwnedFd> {
    let policy = Policy::of(ex, folder);
    match (confinement(&ex.loc.conf), policy) {
        (None, None) => flagged(folder, FOLDER).map(OwnedFd::from),
        (None, Some(policy)) => symlinks::walk(folder, policy, FOLDER),
        (Some(folders), policy) => confined(folders, policy, folder, FOLDER),
    }
}

fn create_folders(ex: &Exchange, folder: &Path, mode: u32) -> io::Result<OwnedFd> {
    match open_folder(ex, folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let parent = create_folders(ex, parent, mode)?;
    match new_folder(&own_path(&parent).join(name), mode) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => open_folder(ex, folder),
    }
}

fn new_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)
}

fn flagged(path: &Path, flags: libc::c_int) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Open a folder for reading, but no link to one.
fn without_links(path: &Path) -> io::Result<File> {
    flagged(path, libc::O_DIRECTORY | libc::O_NOFOLLOW)
}

impl Spot {
    /// The metadata of what is there, of a link itself.
    pub fn metadata(&self) -> io::Result<Metadata> {
        std::fs::symlink_metadata(&self.path)
    }

    pub fn create_folder(&self, mode: u32) -> io::Result<()> {
        new_folder(&self.path, mode)
    }

    /// Remove a file or a link.
    pub fn remove_file(&self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }

    /// Remove a folder with everything in it. What can be removed is removed even after an error.
    pub fn remove_tree(&self) -> io::Result<()> {
        let emptied = empty(&without_links(&self.path)?, 0);
        emptied.and_then(|()| std::fs::remove_dir(&self.path))
    }

    /// Move another spot's file or folder here.
    pub fn take(&self, from: &Spot) -> io::Result<()> {
        std::fs::rename(&from.path, &self.path)
    }

    /// Move a file here, also from another file system.
    ///
    /// # Errors
    /// Those of rename(2) and of copying.
    pub fn take_file(&self, from: &Path, file: &File) -> io::Result<()> {
        match std::fs::rename(from, &self.path) {
            Err(e) if e.raw_os_error() == Some(libc::EXDEV) => {}
            other => return other,
        }
        self.copy_file(file)?;
        std::fs::remove_file(from)
    }

    /// Move another spot's file here, also from another file system.
    ///
    /// # Errors
    /// As [`Spot::take_file`].
    pub fn take_any(&self, from: &Spot) -> io::Result<()> {
        match self.take(from) {
            Err(e) if e.raw_os_error() == Some(libc::EXDEV) => {}
            other => return other,
        }
        let file = flagged(&from.path, libc::O_NOFOLLOW | libc::O_NONBLOCK)?;
        self.copy_file(&file)?;
        from.remove_file()
    }

    /// Replace what is here by a copy of a file with its permissions and time. Others see the old
    /// file or the whole new one.
    pub fn copy_file(&self, from: &File) -> io::Result<()> {
        let meta = from.metadata()?;
        let temporary = Temporary::new(&own_path(&self.folder), meta.mode() & 0o777)?;
        copy_content(from, &meta, &temporary.file)?;
        temporary.place(&self.path)
    }

    /// Copy a folder here with everything in it except links and special files.
    pub fn copy_tree(&self, from: &Spot) -> io::Result<()> {
        let source = without_links(&from.path)?;
        let meta = source.metadata()?;
        new_folder(&self.path, meta.mode() & 0o777)?;
        let target = without_links(&self.path)?;
        let skipped = id(&target.metadata()?);
        copy_entries(&source, &target, skipped, 0)?;
        target.set_modified(meta.modified()?)
    }

    /// Whether both spots are the same name in the same folder.
    pub fn is_same(&self, other: &Spot) -> io::Result<bool> {
        let [own, others] = [self, other].map(|spot| -> io::Result<Id> {
            let folder = flagged(&own_path(&spot.folder), FOLDER)?;
            Ok(id(&folder.metadata()?))
        });
        Ok(own? == others? && self.path.file_name() == other.path.file_name())
    }

    /// Whether the spot's folder is the other spot's folder or lies within it.
    pub fn lies_within(&self, other: &Spot) -> io::Result<bool> {
        let wanted = match other.metadata() {
            Ok(meta) => id(&meta),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        let mut at = flagged(&own_path(&self.folder), FOLDER)?;
        loop {
            let own = id(&at.metadata()?);
            if own == wanted {
                return Ok(true);
            }
            let above = flagged(&own_path(&at).join(".."), FOLDER)?;
            if id(&above.metadata()?) == own {
                return Ok(false);
            }
            at = above;
        }
    }
}

fn too_deep() -> io::Error {
    io::Error::other(format!("folders are nested more than {DEEPEST} deep"))
}

/// The entries of a folder that are folders, after `each` has had the others. The list of entries
/// is closed then, so that a walk needs one descriptor for each level.
fn folders_of(
    folder: &File,
    mut each: impl FnMut(&DirEntry) -> io::Result<()>,
) -> io::Result<Vec<OsString>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(own_path(folder))? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => folders.push(entry.file_name()),
            false => each(&entry)?,
        }
    }
    Ok(folders)
}

fn empty(folder: &File, depth: u32) -> io::Result<()> {
    if depth == DEEPEST {
        return Err(too_deep());
    }
    let mut first = Ok(());
    let mut note = |removed: io::Result<()>| {
        if first.is_ok() {
            first = removed;
        }
    };
    let folders = folders_of(folder, |entry| {
        note(std::fs::remove_file(entry.path()));
        Ok(())
    })?;
    for name in folders {
        let path = own_path(folder).join(name);
        let emptied = without_links(&path).and_then(|inner| empty(&inner, depth + 1));
        note(emptied.and_then(|()| std::fs::remove_dir(&path)));
    }
    first
}

fn copy_entries(from: &File, to: &File, skipped: Id, depth: u32) -> io::Result<()> {
    if depth == DEEPEST {
        return Err(too_deep());
    }
    let folders = folders_of(from, |entry| {
        if !entry.file_type()?.is_file() {
            return Ok(());
        }
        let source = flagged(&entry.path(), libc::O_NOFOLLOW | libc::O_NONBLOCK)?;
        let meta = source.metadata()?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let options = options.mode(meta.mode() & 0o777);
        let target = options.open(own_path(to).join(entry.file_name()))?;
        copy_content(&source, &meta, &target)
    })?;
    for name in folders {
        let inner = without_links(&own_path(from).join(&name))?;
        let meta = inner.metadata()?;
        if id(&meta) == skipped {
            continue;
        }
        let path = own_path(to).join(&name);
        new_folder(&path, meta.mode() & 0o777)?;
        let target = without_links(&path)?;
        copy_entries(&inner, &target, skipped, depth + 1)?;
        target.set_modified(meta.modified()?)?;
    }
    Ok(())
}

fn copy_content(mut from: &File, meta: &Metadata, mut to: &File) -> io::Result<()> {
    from.rewind()?;
    io::copy(&mut from, &mut to)?;
    to.set_modified(meta.modified()?)
}
