//! `confine_files`: opens files only beneath the configured folders.
//!
//! The kernel's openat2(2) with RESOLVE_BENEATH does this for paths whose links stay inside as
//! text. Other paths are walked one name at a time, since an absolute link may lead back into one
//! of the folders. The same happens if the kernel lacks openat2 or a seccomp filter blocks it.

use gallop_conf::model::{ConfinedFolder, Confinement, OpenedFolder};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// The error for a path that leads outside of all folders.
#[derive(Debug)]
pub struct Outside;

impl std::fmt::Display for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it leads outside the folders of \"confine_files\"")
    }
}

impl std::error::Error for Outside {}

fn outside() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, Outside)
}

/// Open a path, following all links, if its target lies beneath one of the folders.
///
/// # Errors
/// [`Outside`], or the errors of open(2).
pub fn open(
    folders: &Confinement,
    path: &Path,
    flags: libc::c_int,
    mode: u32,
) -> io::Result<OwnedFd> {
    let names = path.as_os_str().as_bytes();
    let place = place(folders, names)?;
    let open = Open { flags, mode };
    match open_beneath(place.folder.folder.as_fd(), &place.rest, open) {
        // A link leaves the folder, a rename interfered, or the system call is missing.
        Err(e) if must_walk(&e) => Walk::start(folders, place, open).run(),
        result => result,
    }
}

fn must_walk(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::EXDEV | libc::EAGAIN | libc::ENOSYS | libc::EPERM)
    )
}

#[derive(Clone, Copy)]
struct Open {
    flags: libc::c_int,
    mode: u32,
}

/// A path beneath an open folder.
struct Place {
    folder: Arc<OpenedFolder>,
    /// Never empty; ends with a slash if the path does.
    rest: CString,
}

/// The first folder that contains an absolute path by its text.
fn place(folders: &Confinement, path: &[u8]) -> io::Result<Place> {
    let mut prefix: Vec<&[u8]> = Vec::new();
    let mut rest = path;
    loop {
        for folder in &folders.folders {
            if let Some(opened) = matching(folder, &prefix) {
                let names = rest.iter().position(|&c| c != b'/');
                let rest = names.map_or(&b"."[..], |at| &rest[at..]);
                return Ok(Place {
                    folder: opened,
                    rest: CString::new(rest)?,
                });
            }
        }
        let start = rest.iter().position(|&c| c != b'/').ok_or_else(outside)?;
        let name = &rest[start..];
        let end = memchr::memchr(b'/', name).unwrap_or(name.len());
        rest = &name[end..];
        match &name[..end] {
            b"." => {}
            b".." => _ = prefix.pop(),
            name => prefix.push(name),
        }
    }
}

fn matching(folder: &ConfinedFolder, prefix: &[&[u8]]) -> Option<Arc<OpenedFolder>> {
    if is_at(&folder.path, prefix) {
        return current(folder);
    }
    let opened = folder.opened()?;
    is_at(&opened.real, prefix)
        .then(|| current(folder))
        .flatten()
}

fn is_at(path: &Path, names: &[&[u8]]) -> bool {
    let own = path.as_os_str().as_bytes().split(|&c| c == b'/');
    own.filter(|name| !name.is_empty())
        .eq(names.iter().copied())
}

/// Milliseconds between checks of the folder's path.
const LOOK_AGAIN: u64 = 1000;

/// The open folder. A folder that was created or replaced after the configuration was read is
/// reopened, unless the path is a link: an account that can write to the parent folder could create
/// that link.
fn current(folder: &ConfinedFolder) -> Option<Arc<OpenedFolder>> {
    let now = gallop_runtime::coarse_ms();
    let opened = folder.opened();
    if now.saturating_sub(folder.checked.load(Relaxed)) < LOOK_AGAIN {
        return opened;
    }
    folder.checked.store(now, Relaxed);
    let path = match &opened {
        Some(opened) => opened.real.clone(),
        None => folder.path.clone(),
    };
    let Ok(found) = open_without_links(&path).map(File::from) else {
        return opened;
    };
    if let Some(opened) = &opened {
        if is_same(&opened.folder, &found) {
            return Some(opened.clone());
        }
    }
    folder.replace(OpenedFolder {
        folder: found,
        real: path,
    });
    folder.opened()
}

fn is_same(a: &File, b: &File) -> bool {
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

const FOLDER: libc::c_int = libc::O_PATH | libc::O_DIRECTORY;

fn open_without_links(path: &Path) -> io::Result<OwnedFd> {
    let whole = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: AT_FDCWD is a constant and never closed.
    let here = unsafe { BorrowedFd::borrow_raw(libc::AT_FDCWD) };
    let open = Open {
        flags: FOLDER,
        mode: 0,
    };
    match openat2(here, &whole, open, RESOLVE_NO_SYMLINKS) {
        Err(e) if must_walk(&e) => {}
        result => return result,
    }
    let names = path.as_os_str().as_bytes().split(|&c| c == b'/');
    let mut at = openat(here, c"/", open)?;
    for name in names.filter(|name| !name.is_empty()) {
        let name = CString::new(name)?;
        at = openat(at.as_fd(), &name, open.and(libc::O_NOFOLLOW))?;
    }
    Ok(at)
}

impl Open {
    fn and(self, flags: libc::c_int) -> Open {
        Open {
            flags: self.flags | flags,
            ..self
        }
    }
}

/// A walk along a path, one name at a time, that resolves links itself.
struct Walk<'a> {
    folders: &'a Confinement,
    /// The folder that currently contains the walk.
    base: Arc<OpenedFolder>,
    /// The folders between the base and the current place.
    inner: Vec<OwnedFd>,
    /// The remaining names, with the next one last. An empty name stands for a final slash.
    names: Vec<Vec<u8>>,
    links: u32,
    open: Open,
}

/// The limit of the kernel.
const MAX_LINKS: u32 = 40;

impl<'a> Walk<'a> {
    fn start(folders: &'a Confinement, place: Place, open: Open) -> Walk<'a> {
        let mut walk = Walk {
            folders,
            base: place.folder,
            inner: Vec::new(),
            names: Vec::new(),
            links: 0,
            open,
        };
        walk.put(place.rest.as_bytes());
        walk
    }

    /// Insert the names of a path before the remaining names.
    fn put(&mut self, path: &[u8]) {
        if path.ends_with(b"/") && self.names.is_empty() {
            self.names.push(Vec::new());
        }
        let names = path.rsplit(|&c| c == b'/').filter(|name| !name.is_empty());
        self.names.extend(names.map(<[u8]>::to_vec));
    }

    fn here(&self) -> BorrowedFd<'_> {
        match self.inner.last() {
            Some(inner) => inner.as_fd(),
            None => self.base.folder.as_fd(),
        }
    }

    fn run(mut self) -> io::Result<OwnedFd> {
        while let Some(name) = self.names.pop() {
            match &name[..] {
                b"" | b"." => {}
                b".." => self.ascend()?,
                _ => {
                    if let Some(opened) = self.step(&name)? {
                        return Ok(opened);
                    }
                }
            }
        }
        openat(self.here(), c".", self.open.and(libc::O_DIRECTORY))
    }

    fn ascend(&mut self) -> io::Result<()> {
        if self.inner.pop().is_some() {
            return Ok(());
        }
        // The path leaves this folder and may enter another one.
        let parent = self.base.real.parent().ok_or_else(outside)?;
        let parent = parent.as_os_str().as_bytes().to_vec();
        self.jump(&parent)
    }

    /// Continue at an absolute path, followed by the remaining names.
    fn jump(&mut self, path: &[u8]) -> io::Result<()> {
        let mut whole = path.to_vec();
        for name in self.names.drain(..).rev() {
            whole.push(b'/');
            whole.extend_from_slice(&name);
        }
        let place = place(self.folders, &whole)?;
        self.base = place.folder;
        self.inner.clear();
        self.put(place.rest.as_bytes());
        Ok(())
    }

    /// Advance by one name. Returns the file if it was the last.
    fn step(&mut self, name: &[u8]) -> io::Result<Option<OwnedFd>> {
        let name = CString::new(name)?;
        let look = Open {
            flags: libc::O_PATH | libc::O_NOFOLLOW,
            mode: 0,
        };
        let is_last = self.names.is_empty();
        let found = match openat(self.here(), &name, look) {
            Err(e) if is_last && self.creates() && e.kind() == io::ErrorKind::NotFound => {
                return self.open_last(&name).map(Some);
            }
            found => File::from(found?),
        };
        let meta = found.metadata()?;
        if meta.is_symlink() {
            self.follow(&found)?;
            return Ok(None);
        }
        if is_last {
            return self.open_last(&name).map(Some);
        }
        if !meta.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        self.inner.push(found.into());
        Ok(None)
    }

    fn creates(&self) -> bool {
        self.open.flags & libc::O_CREAT != 0
    }

    /// Open the last name, which was no link a moment ago; a link now is an error.
    fn open_last(&self, name: &CStr) -> io::Result<OwnedFd> {
        let opened = openat(self.here(), name, self.open.and(libc::O_NOFOLLOW))?;
        if self.open.flags & libc::O_PATH == 0 {
            return Ok(opened);
        }
        // With O_PATH, a link itself is opened.
        let file = File::from(opened);
        if file.metadata()?.is_symlink() {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        Ok(file.into())
    }

    fn follow(&mut self, link: &File) -> io::Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = read_link(link)?;
        if target.starts_with(b"/") {
            return self.jump(&target);
        }
        self.put(&target);
        Ok(())
    }
}

/// The target of an open link.
fn read_link(link: &File) -> io::Result<Vec<u8>> {
    let mut target = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the empty path refers to the descriptor itself; the buffer has the given length.
    let length = unsafe {
        libc::readlinkat(
            link.as_raw_fd(),
            c"".as_ptr(),
            target.as_mut_ptr().cast(),
            target.len(),
        )
    };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    target.truncate(length);
    Ok(target)
}

const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
const RESOLVE_NO_SYMLINKS: u64 = 0x04;
const RESOLVE_BENEATH: u64 = 0x08;

/// The kernel's `struct open_how`.
#[repr(C)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

fn open_beneath(folder: BorrowedFd<'_>, path: &CStr, open: Open) -> io::Result<OwnedFd> {
    openat2(folder, path, open, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
}

fn openat2(at: BorrowedFd<'_>, path: &CStr, open: Open, resolve: u64) -> io::Result<OwnedFd> {
    let how = How {
        flags: (open.flags | libc::O_CLOEXEC) as u64,
        mode: u64::from(open.mode),
        resolve,
    };
    // SAFETY: `path` ends in NUL, and it and `how` are valid during the call; nothing else owns the
    // returned descriptor.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_openat2,
            at.as_raw_fd(),
            path.as_ptr(),
            &how,
            size_of::<How>(),
        );
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd as libc::c_int))
    }
}

fn openat(at: BorrowedFd<'_>, path: &CStr, open: Open) -> io::Result<OwnedFd> {
    // SAFETY: `path` ends in NUL and is valid during the call; nothing else owns the returned
    // descriptor.
    unsafe {
        let flags = open.flags | libc::O_CLOEXEC;
        let fd = libc::openat(at.as_raw_fd(), path.as_ptr(), flags, open.mode);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}
