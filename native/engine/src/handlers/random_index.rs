//! random_index: a folder's index is any of its files.

use super::static_files::request_path;
use crate::exchange::Exchange;
use crate::phases::Flow;
use gallop_conf::model::Level;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;

/// An internal redirect to one of the folder's files; hidden ones are left out.
pub fn find(ex: &mut Exchange) -> Flow {
    if ex.loc.conf.random_index != Some(true) || !matches!(ex.method(), b"GET" | b"HEAD" | b"POST")
    {
        return Flow::Next;
    }
    let folder = match request_path(ex) {
        Ok(path) => path,
        Err(flow) => return flow,
    };
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(e) => {
            let (status, level) = match e.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => (404, Level::Error),
                ErrorKind::PermissionDenied => (403, Level::Error),
                _ => (500, Level::Crit),
            };
            ex.log(
                level,
                &format!("opendir() \"{}\" failed ({e})", folder.display()),
            );
            return Flow::Status(status);
        }
    };
    let is_file = |e: &std::fs::DirEntry| std::fs::metadata(e.path()).is_ok_and(|m| m.is_file());
    let names: Vec<Vec<u8>> = entries
        .filter_map(Result::ok)
        .filter(is_file)
        .map(|e| e.file_name().into_vec())
        .filter(|n| !n.starts_with(b"."))
        .collect();
    if names.is_empty() {
        return Flow::Next;
    }
    let chosen = crate::random_number() % names.len() as u64;
    let mut uri = ex.uri.path.clone();
    uri.extend_from_slice(&names[chosen as usize]);
    Flow::Internal {
        uri,
        args: ex.uri.own_args(),
    }
}
