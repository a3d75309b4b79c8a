//! Index files of folders.

use super::static_files::request_path;
use crate::exchange::Exchange;
use crate::files::{self, FilePath};
use crate::phases::flow::Flow;
use crate::template;
use gallop_conf::model::{items, Level};
use gallop_conf::parser::os_error;
use std::io::ErrorKind;

/// Redirect internally to the first index file that exists.
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
        // An alias may end without a slash; the name is then appended to the last folder's name.
        let path = match folder.with(ex, &name) {
            Ok(path) => path,
            Err(refused) => return refused.into(),
        };
        match files::look(ex, &path) {
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
                    &format!("\"{}\" is forbidden ({})", path.display(), os_error(&e)),
                );
                return Flow::Status(403);
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOTDIR) => {
                // This also applies to a link to the folder if links are not followed.
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

fn not_found(ex: &Exchange, path: &FilePath, error: &std::io::Error) -> Flow {
    if ex.loc.conf.log_not_found.unwrap_or(true) {
        let message = format!("\"{}\" is not found ({})", path.display(), os_error(error));
        ex.log(Level::Error, &message);
    }
    Flow::Status(404)
}

/// Check that the folder exists: a missing folder is 404, not a forbidden listing. A link to a
/// folder does not count if links are not followed.
fn check_folder(ex: &mut Exchange, folder: &FilePath) -> Option<Flow> {
    match files::look(ex, &folder.without_slash()) {
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
        Err(e) => Some(not_found(ex, &folder.with_index(), &e)),
    }
}
