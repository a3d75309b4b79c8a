//! Index files of folders.

use super::static_files::request_path;
use crate::exchange::Exchange;
use crate::phases::Flow;
use crate::symlinks::{self, Policy};
use crate::template;
use gallop_conf::model::{items, Level};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An internal redirect to the first index that exists.
pub fn find(ex: &mut Exchange) -> Flow {
    if !matches!(ex.method(), b"GET" | b"HEAD" | b"POST") {
        return Flow::Next;
    }
    let folder = match request_path(ex) {
        Ok(path) => path,
        Err(flow) => return flow,
    };
    let loc = ex.loc.clone();
    let mut names: Vec<Vec<u8>> = Vec::new();
    if loc.conf.index.is_some() {
        names.extend(items(&loc.conf.index).iter().map(|t| template::eval(ex, t)));
    } else {
        names.push(b"index.html".to_vec());
    }
    let mut folder_checked = false;
    for name in names
        .into_iter()
        .filter(|n| !n.is_empty() && !n.contains(&0))
    {
        if name.starts_with(b"/") {
            return redirect(ex, name);
        }
        // An alias may end without a slash: then the name is the end of the last folder's.
        let mut path = folder.clone().into_os_string();
        path.push(OsStr::from_bytes(&name));
        let path = PathBuf::from(path);
        match symlinks::metadata(&path, Policy::of(ex, &path)) {
            Ok(_) => {
                let mut uri = ex.uri.path.clone();
                uri.extend_from_slice(&name);
                return redirect(ex, uri);
            }
            Err(e) if e.raw_os_error() == Some(libc::ELOOP) => return Flow::Status(403),
            Err(e) if e.raw_os_error() == Some(libc::ENAMETOOLONG) => {
                return not_found(ex, &path, &e);
            }
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                ex.log(
                    Level::Error,
                    &format!(
                        "\"{}\" is forbidden (13: Permission denied)",
                        path.display()
                    ),
                );
                return Flow::Status(403);
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOTDIR) => {
                // Also where a link leads to the folder and none are followed.
                return not_found(ex, &path, &e);
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {
                if !folder_checked {
                    if let Some(flow) = check_folder(ex, &folder) {
                        return flow;
                    }
                    folder_checked = true;
                }
            }
            Err(e) => {
                ex.log(
                    Level::Crit,
                    &format!("stat() \"{}\" failed ({e})", path.display()),
                );
                return Flow::Status(500);
            }
        }
    }
    Flow::Next
}

fn redirect(ex: &Exchange, uri: Vec<u8>) -> Flow {
    Flow::Internal {
        uri,
        args: ex.uri.own_args(),
    }
}

fn not_found(ex: &Exchange, path: &Path, error: &std::io::Error) -> Flow {
    if ex.loc.conf.log_not_found.unwrap_or(true) {
        let words = gallop_conf::parser::os_error(error);
        let message = format!("\"{}\" is not found ({words})", path.display());
        ex.log(Level::Error, &message);
    }
    Flow::Status(404)
}

/// A folder that does not exist is 404, not a listing that is forbidden; one that only a link leads to is no folder
/// where links are not followed.
fn check_folder(ex: &Exchange, folder: &Path) -> Option<Flow> {
    let bytes = folder.as_os_str().as_bytes();
    let bare = bytes.strip_suffix(b"/").filter(|bare| !bare.is_empty());
    let bare = Path::new(OsStr::from_bytes(bare.unwrap_or(bytes)));
    match symlinks::metadata(bare, Policy::of(ex, bare)) {
        Ok(m) if m.is_dir() => None,
        Ok(_) => {
            ex.log(
                Level::Error,
                &format!("\"{}\" is not a directory", folder.display()),
            );
            Some(Flow::Status(500))
        }
        Err(e) if e.raw_os_error() == Some(libc::ELOOP) => Some(Flow::Status(403)),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => Some(Flow::Status(403)),
        Err(e) => Some(not_found(ex, &folder.join("index.html"), &e)),
    }
}
