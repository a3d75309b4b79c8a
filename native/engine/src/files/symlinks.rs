//! `disable_symlinks`: opens a file without following the links that the directive forbids.

use crate::exchange::Exchange;
use crate::template;
use gallop_conf::model::SymlinkMode;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The treatment of links in the path of a file.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    mode: SymlinkMode,
    /// The number of leading path bytes in which links are still followed.
    trusted: usize,
}

impl Policy {
    /// The location's policy for a path; `None` if links are followed.
    pub fn of(ex: &Exchange, path: &Path) -> Option<Policy> {
        let conf = ex.loc.conf.disable_symlinks.as_ref()?;
        if conf.mode == SymlinkMode::Off {
            return None;
        }
        let bytes = path.as_os_str().as_bytes();
        let from = conf.from.as_ref().map(|t| template::eval(ex, t));
        let trusted = match from {
            Some(from) if !from.is_empty() && bytes.starts_with(&from) => {
                let whole = bytes.len() == from.len() || bytes[from.len()] == b'/';
                let slash = from.ends_with(b"/");
                if whole || slash {
                    from.len()
                } else {
                    0
                }
            }
            _ => 0,
        };
        Some(Policy {
            mode: conf.mode,
            trusted,
        })
    }
}

/// Walk to the file one name at a time.
pub fn walk(path: &Path, policy: Policy, flags: libc::c_int) -> io::Result<OwnedFd> {
    let bytes = path.as_os_str().as_bytes();
    let (start, rest) = bytes.split_at(policy.trusted);
    if rest.iter().all(|&c| c == b'/') && !start.is_empty() {
        let whole = CString::new(bytes)?;
        return open_at(libc::AT_FDCWD, &whole, flags);
    }
    let root = match (start.is_empty(), bytes.first()) {
        (false, _) => CString::new(start)?,
        (true, Some(b'/')) => c"/".into(),
        (true, _) => c".".into(),
    };
    let mut at = open_at(libc::AT_FDCWD, &root, libc::O_PATH | libc::O_DIRECTORY)?;
    let mut names = rest
        .split(|&c| c == b'/')
        .filter(|n| !n.is_empty())
        .peekable();
    let slash = rest.ends_with(b"/");
    while let Some(name) = names.next() {
        let last = names.peek().is_none();
        let wanted = match (last, slash) {
            (true, false) => flags,
            (true, true) => flags | libc::O_DIRECTORY,
            (false, _) => libc::O_PATH | libc::O_DIRECTORY,
        };
        at = step(&at, OsStr::from_bytes(name), policy.mode, wanted)?;
    }
    Ok(at)
}

fn step(at: &OwnedFd, name: &OsStr, mode: SymlinkMode, flags: libc::c_int) -> io::Result<OwnedFd> {
    let name = CString::new(name.as_bytes())?;
    if mode == SymlinkMode::On {
        return no_link(open_at(at.as_raw_fd(), &name, flags | libc::O_NOFOLLOW)?);
    }
    match open_at(at.as_raw_fd(), &name, flags | libc::O_NOFOLLOW).and_then(no_link) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ELOOP | libc::ENOTDIR)) => {}
        other => return other,
    }
    let link = File::from(open_at(
        at.as_raw_fd(),
        &name,
        libc::O_PATH | libc::O_NOFOLLOW,
    )?)
    .metadata()?;
    let target = open_at(at.as_raw_fd(), &name, flags)?;
    let file = File::from(target);
    if link.is_symlink() && file.metadata()?.uid() != link.uid() {
        return Err(io::Error::from_raw_os_error(libc::ELOOP));
    }
    Ok(file.into())
}

/// Reject a link: `O_PATH` with `O_NOFOLLOW` opens the link itself instead of failing.
fn no_link(fd: OwnedFd) -> io::Result<OwnedFd> {
    let file = File::from(fd);
    if file.metadata()?.is_symlink() {
        return Err(io::Error::from_raw_os_error(libc::ELOOP));
    }
    Ok(file.into())
}

fn open_at(at: RawFd, name: &CString, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: `name` ends in NUL and is valid during the call; nothing else owns the returned
    // descriptor.
    unsafe {
        let fd = libc::openat(at, name.as_ptr(), flags | libc::O_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_refused_below_the_part_that_is_trusted() {
        let folder = std::env::temp_dir().join(format!("gallop-links-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("dir")).expect("made");
        let real = folder.canonicalize().expect("exists");
        std::fs::write(real.join("dir/file"), "x").expect("written");
        symlink("dir", real.join("link")).expect("linked");
        let on = |trusted| Policy {
            mode: SymlinkMode::On,
            trusted,
        };
        let open = |path: &Path, policy| walk(path, policy, libc::O_RDONLY);
        let metadata = |path: &Path, policy| walk(path, policy, libc::O_PATH);
        assert!(open(&real.join("dir/file"), on(0)).is_ok());
        let through = real.join("link/file");
        let refused = open(&through, on(0)).expect_err("a link");
        assert!(matches!(
            refused.raw_os_error(),
            Some(libc::ELOOP | libc::ENOTDIR)
        ));
        assert!(metadata(&through, on(0)).is_err());
        assert!(metadata(&through, on(real.join("link").as_os_str().len())).is_ok());
        let owned = Policy {
            mode: SymlinkMode::IfNotOwner,
            trusted: 0,
        };
        assert!(open(&through, owned).is_ok(), "one owner has both");
        assert!(open(&real.join("dir/none"), on(0)).is_err());
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
