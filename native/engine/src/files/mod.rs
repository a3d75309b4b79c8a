//! The files of requests: their paths, and functions that open, check, and list them.
//!
//! Every file of a request is accessed through this module, so that `confine_files`,
//! `disable_symlinks`, and the rejection of `..` apply to all of them.

mod change;
mod confine;
mod path;
mod symlinks;

pub use change::{spot, spot_in_new_folder, Spot};
pub use path::{push_request_path, FilePath, Refused};

use crate::exchange::Exchange;
use crate::looks;
use crate::phases::flow::Flow;
use gallop_conf::model::{Confinement, Level, LocConf};
use gallop_conf::parser::os_error;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use symlinks::Policy;

/// Do not wait for a writer if the path is a named pipe.
const READ: libc::c_int = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;

/// The location's `confine_files`, unless it is off.
fn confinement(conf: &LocConf) -> Option<&Confinement> {
    conf.confine_files
        .as_deref()
        .filter(|c| !c.folders.is_empty())
}

pub fn is_confined(conf: &LocConf) -> bool {
    confinement(conf).is_some()
}

/// Open a file for reading.
///
/// # Errors
/// The errors of open(2); [`leads_outside`] recognizes a file outside of the `confine_files`
/// folders.
pub fn open(ex: &Exchange, path: &FilePath) -> io::Result<(File, Metadata)> {
    let policy = Policy::of(ex, path);
    let file = match (confinement(&ex.loc.conf), policy) {
        (None, None) => OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?,
        (None, Some(policy)) => symlinks::walk(path, policy, READ)?.into(),
        (Some(folders), policy) => confined(folders, policy, path, READ)?.into(),
    };
    let meta = file.metadata()?;
    Ok((file, meta))
}

/// The metadata of a file, which is not opened for reading.
///
/// # Errors
/// As [`open`].
pub fn metadata(ex: &Exchange, path: &FilePath) -> io::Result<Metadata> {
    let policy = Policy::of(ex, path);
    match (confinement(&ex.loc.conf), policy) {
        (None, None) => std::fs::metadata(path),
        (None, Some(policy)) => File::from(symlinks::walk(path, policy, libc::O_PATH)?).metadata(),
        (Some(folders), policy) => {
            File::from(confined(folders, policy, path, libc::O_PATH)?).metadata()
        }
    }
}

/// Like [`metadata`], but note the result as a dependency of a prepared response.
///
/// # Errors
/// As [`open`].
pub fn look(ex: &mut Exchange, path: &FilePath) -> io::Result<Metadata> {
    let looked = metadata(ex, path);
    looks::note(ex, path, looked.as_ref().map_err(looks::copy));
    looked
}

/// Like [`metadata`], for a file that was opened earlier under a location's settings.
///
/// # Errors
/// As [`open`].
pub fn look_again(conf: &LocConf, path: &Path) -> io::Result<Metadata> {
    match confinement(conf) {
        None => std::fs::metadata(path),
        Some(folders) => File::from(confine::open(folders, path, libc::O_PATH, 0)?).metadata(),
    }
}

/// Open a file beneath the folders, subject to the link policy if there is one.
fn confined(
    folders: &Confinement,
    policy: Option<Policy>,
    path: &Path,
    flags: libc::c_int,
) -> io::Result<OwnedFd> {
    let opened = confine::open(folders, path, flags, 0)?;
    let Some(policy) = policy else {
        return Ok(opened);
    };
    // Both rules hold if both ways lead to the same file.
    let file = File::from(opened);
    let other = File::from(symlinks::walk(path, policy, libc::O_PATH)?).metadata()?;
    let meta = file.metadata()?;
    if (meta.dev(), meta.ino()) != (other.dev(), other.ino()) {
        return Err(io::Error::from_raw_os_error(libc::ELOOP));
    }
    Ok(file.into())
}

/// A folder entry with its metadata: for a link, those of its target if they are accessible.
pub struct Entry {
    pub name: Vec<u8>,
    pub meta: Metadata,
}

/// The entries of a folder, without hidden ones.
///
/// # Errors
/// As [`open`].
pub fn list(ex: &Exchange, path: &FilePath) -> io::Result<Vec<Entry>> {
    let folders = confinement(&ex.loc.conf);
    let opened = match folders {
        None => None,
        Some(folders) => Some(confine::open(folders, path, READ | libc::O_DIRECTORY, 0)?),
    };
    let named = opened.as_ref().map(own_path);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(named.as_deref().unwrap_or(path))? {
        let entry = entry?;
        let name = entry.file_name().into_vec();
        if name.starts_with(b".") {
            continue;
        }
        let followed = match folders {
            None => std::fs::metadata(entry.path()),
            Some(folders) => confine::open(folders, &path.join(entry.file_name()), libc::O_PATH, 0)
                .and_then(|fd| File::from(fd).metadata()),
        };
        // A dangling link, or one that leads outside, shows its own metadata.
        let Ok(meta) = followed.or_else(|_| entry.metadata()) else {
            continue;
        };
        entries.push(Entry { name, meta });
    }
    Ok(entries)
}

/// A path to the open file of a descriptor, independent of the file's name.
fn own_path(fd: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

/// Read a file that the configuration names, possibly with variables. A file with a constant name
/// belongs to the configuration and may be anywhere.
///
/// # Errors
/// As [`open`].
pub fn read_named(conf: &LocConf, path: &FilePath, is_constant: bool) -> io::Result<Vec<u8>> {
    match confinement(conf).filter(|_| !is_constant) {
        None => std::fs::read(path),
        Some(folders) => {
            let mut text = Vec::new();
            let mut file = File::from(confine::open(folders, path, READ, 0)?);
            io::Read::read_to_end(&mut file, &mut text)?;
            Ok(text)
        }
    }
}

/// Open a log whose name has variables for appending.
///
/// # Errors
/// As [`open`].
pub fn append(conf: &LocConf, path: &Path) -> io::Result<File> {
    const APPEND: libc::c_int = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT;
    match confinement(conf) {
        None => crate::log::open_append(path),
        Some(folders) => {
            confine::open(folders, path, APPEND, crate::creating::FILE_MODE).map(File::from)
        }
    }
}

/// A folder for saved files, created if missing.
pub struct Saving {
    /// The folder's path; valid while the value exists.
    pub path: PathBuf,
    _folder: Option<OwnedFd>,
}

/// The folder of a path, to save a file in.
///
/// # Errors
/// As [`open`], and the errors of mkdir(2).
pub fn folder_to_save(conf: &LocConf, folder: &Path) -> io::Result<Saving> {
    let Some(folders) = confinement(conf) else {
        return Ok(Saving {
            path: folder.into(),
            _folder: None,
        });
    };
    let fd = confined_folder(folders, folder)?;
    Ok(Saving {
        path: own_path(&fd),
        _folder: Some(fd),
    })
}

fn confined_folder(folders: &Confinement, path: &Path) -> io::Result<OwnedFd> {
    const FOLDER: libc::c_int = libc::O_PATH | libc::O_DIRECTORY;
    match confine::open(folders, path, FOLDER, 0) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let parent = confined_folder(folders, parent)?;
    let made = std::fs::DirBuilder::new()
        .mode(0o700)
        .create(own_path(&parent).join(name));
    match made {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => confine::open(folders, path, FOLDER, 0),
    }
}

/// Whether the error means that a file lies outside of the `confine_files` folders.
pub fn leads_outside(e: &io::Error) -> bool {
    e.get_ref()
        .is_some_and(|inner| inner.is::<confine::Outside>())
}

/// Refuse a request whose file check leads outside; `None` for every other error.
pub fn refuse_test(ex: &Exchange, path: &FilePath, e: &io::Error) -> Option<Flow> {
    if !leads_outside(e) {
        return None;
    }
    let message = format!("\"{}\" is forbidden ({})", path.display(), os_error(e));
    ex.log(Level::Error, &message);
    Some(Flow::Status(403))
}
