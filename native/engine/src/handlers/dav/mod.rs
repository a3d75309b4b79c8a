//! `dav_methods`: PUT, DELETE, MKCOL, COPY, and MOVE (RFC 4918) as nginx has them.

mod transfer;

use super::static_files::request_path;
use crate::escape::{escaped, Use};
use crate::exchange::Exchange;
use crate::files::{self, FilePath, Spot};
use crate::phases::flow::Flow;
use crate::received;
use crate::time::parse_http_date;
use gallop_conf::model::{dav, Level};
use gallop_conf::parser::os_error;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

/// Whether the location changes files by the request's method.
pub fn is_wanted(ex: &Exchange) -> bool {
    let methods = ex.loc.conf.dav_methods.unwrap_or(dav::OFF);
    methods & bit(ex.method()) != 0
}

fn bit(method: &[u8]) -> u32 {
    match method {
        b"PUT" => dav::PUT,
        b"DELETE" => dav::DELETE,
        b"MKCOL" => dav::MKCOL,
        b"COPY" => dav::COPY,
        b"MOVE" => dav::MOVE,
        _ => 0,
    }
}

pub async fn serve(ex: &mut Exchange) -> Flow {
    let done = match ex.method() {
        b"PUT" => put(ex).await,
        b"DELETE" => delete(ex),
        b"MKCOL" => create_folder(ex),
        _ => transfer::copy_or_move(ex),
    };
    match done {
        Ok(status) => {
            ex.response.status = status;
            ex.response.content_length = (status == 201).then_some(0);
            Flow::Done
        }
        Err(flow) => flow,
    }
}

/// A status without a body, or the flow that ends the request.
type Done = Result<u16, Flow>;

/// Log the reason for a refusal and return its status.
fn refuse(ex: &Exchange, status: u16, reason: &str) -> Flow {
    ex.log(Level::Error, reason);
    Flow::Status(status)
}

/// Log an error of the file system and return its status; `missing` is that of a missing file.
fn failed(ex: &Exchange, what: &str, path: &FilePath, e: &io::Error, missing: u16) -> Flow {
    let (status, level) = match e.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG) => (missing, Level::Error),
        Some(libc::EACCES | libc::EPERM | libc::ELOOP | libc::EMLINK) => (403, Level::Error),
        Some(libc::EEXIST) => (405, Level::Error),
        Some(libc::ENOSPC | libc::EDQUOT) => (507, Level::Crit),
        _ if files::leads_outside(e) => (403, Level::Error),
        _ => (500, Level::Crit),
    };
    let message = format!("{what} \"{}\" failed ({})", path.display(), os_error(e));
    ex.log(level, &message);
    Flow::Status(status)
}

fn has_body(ex: &Exchange) -> bool {
    ex.content_length.unwrap_or(0) > 0 || ex.chunked
}

fn is_folder_uri(ex: &Exchange) -> bool {
    ex.uri.path.ends_with(b"/")
}

/// The permissions of new files.
fn access(ex: &Exchange) -> u32 {
    ex.loc.conf.dav_access.unwrap_or(0o600)
}

/// The permissions of new folders: who may read may also enter.
fn folder_access(ex: &Exchange) -> u32 {
    let access = access(ex);
    access | (access & 0o444) >> 2
}

/// Tell the client the address of what it has created.
fn locate(ex: &mut Exchange) {
    ex.response.location = Some(escaped(&ex.uri.path, Use::Uri));
}

async fn put(ex: &mut Exchange) -> Done {
    if is_folder_uri(ex) {
        return Err(refuse(ex, 409, "cannot PUT to a collection"));
    }
    if ex.head.get("content-range").is_some() {
        return Err(refuse(ex, 501, "PUT with range is unsupported"));
    }
    if ex.content_length.is_none() && !ex.chunked {
        return Err(refuse(ex, 411, "PUT without a request body"));
    }
    let (file, temporary) = received::read_to_file(ex).await?;
    let path = request_path(ex)?;
    if files::metadata(ex, &path).is_ok_and(|meta| meta.is_dir()) {
        let e = io::Error::from_raw_os_error(libc::EISDIR);
        let message = format!(
            "\"{}\" could not be created ({})",
            path.display(),
            os_error(&e)
        );
        return Err(refuse(ex, 409, &message));
    }
    let made = match ex.loc.conf.create_full_put_path {
        Some(true) => files::spot_in_new_folder(ex, &path, folder_access(ex)),
        _ => files::spot(ex, &path),
    };
    let spot = made.map_err(|e| failed(ex, "open() of the folder of", &path, &e, 409))?;
    let is_new = spot.metadata().is_err();
    let date = ex.head.get("date").and_then(parse_http_date);
    let date = date.and_then(|date| u64::try_from(date).ok());
    let placed = file
        .set_permissions(Permissions::from_mode(access(ex)))
        .and_then(|()| match date {
            None => Ok(()),
            Some(date) => file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(date)),
        })
        .and_then(|()| spot.take_file(&temporary, &file));
    placed.map_err(|e| failed(ex, "rename() to", &path, &e, 409))?;
    if !is_new {
        return Ok(204);
    }
    locate(ex);
    Ok(201)
}

fn create_folder(ex: &mut Exchange) -> Done {
    if has_body(ex) {
        return Err(refuse(ex, 415, "MKCOL with body is unsupported"));
    }
    if !is_folder_uri(ex) {
        return Err(refuse(ex, 409, "MKCOL can create a collection only"));
    }
    let path = request_path(ex)?;
    let made = files::spot(ex, &path).and_then(|spot| spot.create_folder(folder_access(ex)));
    made.map_err(|e| failed(ex, "mkdir()", &path, &e, 409))?;
    locate(ex);
    Ok(201)
}

fn delete(ex: &mut Exchange) -> Done {
    if has_body(ex) {
        return Err(refuse(ex, 415, "DELETE with body is unsupported"));
    }
    let least = ex.loc.conf.min_delete_depth.unwrap_or(0);
    let (depth, is_enough) = uri_depth(&ex.uri.path, least);
    if !is_enough {
        let message = format!("insufficient URI depth:{depth} to DELETE");
        return Err(refuse(ex, 409, &message));
    }
    let path = request_path(ex)?;
    let looked = files::spot(ex, &path).and_then(|spot| Ok((spot.metadata()?, spot)));
    let (meta, spot) = looked.map_err(|e| {
        let missing = match e.raw_os_error() {
            Some(libc::ENOTDIR) => 409,
            _ => 404,
        };
        failed(ex, "lstat()", &path, &e, missing)
    })?;
    if meta.is_dir() != is_folder_uri(ex) {
        let kind = if meta.is_dir() { "a" } else { "no" };
        let message = format!("DELETE \"{}\" failed: it is {kind} folder", path.display());
        return Err(refuse(ex, 409, &message));
    }
    match (meta.is_dir(), depth_of(ex, !meta.is_dir())) {
        (_, Some(Depth::Infinity)) | (false, Some(Depth::Zero)) => {}
        (true, _) => return Err(refuse(ex, 400, "\"Depth\" header must be infinity")),
        (false, _) => return Err(refuse(ex, 400, "\"Depth\" header must be 0 or infinity")),
    }
    remove(&spot, meta.is_dir()).map_err(|e| failed(ex, "deleting", &path, &e, 404))?;
    Ok(204)
}

/// The number of slashes in a path up to the required one, and whether something follows that one.
fn uri_depth(path: &[u8], least: u64) -> (u64, bool) {
    if least == 0 {
        return (0, true);
    }
    let mut depth = 0;
    for (i, _) in path.iter().enumerate().filter(|(_, c)| **c == b'/') {
        depth += 1;
        if depth >= least && i + 1 < path.len() {
            return (depth, true);
        }
    }
    (depth, false)
}

fn remove(spot: &Spot, is_folder: bool) -> io::Result<()> {
    match is_folder {
        true => spot.remove_tree(),
        false => spot.remove_file(),
    }
}

/// The value of a `Depth` field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Zero,
    One,
    Infinity,
}

/// The depth that a request asks for; `None` if it is invalid.
fn depth_of(ex: &Exchange, zero_by_default: bool) -> Option<Depth> {
    match ex.head.get("depth") {
        None if zero_by_default => Some(Depth::Zero),
        None | Some(b"infinity") => Some(Depth::Infinity),
        Some(b"0") => Some(Depth::Zero),
        Some(b"1") => Some(Depth::One),
        Some(other) => {
            let shown = crate::escape::Shown(other);
            let message = format!("client sent invalid \"Depth\" header: \"{shown}\"");
            ex.log(Level::Error, &message);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::uri_depth;

    #[test]
    fn uri_depth_counts_names() {
        for (path, least, enough) in [
            ("/", 0, true),
            ("/", 1, false),
            ("/a", 1, true),
            ("/a", 2, false),
            ("/a/", 2, false),
            ("/a/b", 2, true),
            ("/a/b/c/d", 3, true),
        ] {
            assert_eq!(
                uri_depth(path.as_bytes(), least).1,
                enough,
                "{path} {least}"
            );
        }
    }
}
