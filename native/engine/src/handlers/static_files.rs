//! Static files and their precompressed versions.

use crate::body::{Body, Chunk};
use crate::escape::{escaped, Use};
use crate::exchange::Exchange;
use crate::files::{self, FilePath};
use crate::filters;
use crate::looks;
use crate::phases::flow::Flow;
use gallop_conf::model::{Coding, GzipStatic, Level};
use gallop_conf::parser::os_error;
use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// The file path of the request's URI.
pub fn request_path(ex: &Exchange) -> Result<FilePath, Flow> {
    let path = FilePath::of_request(ex)?;
    if path.is_empty() {
        ex.log_lost_alias();
        return Err(Flow::Status(500));
    }
    Ok(path)
}

/// The status for a file that cannot be opened, and the level of the log entry.
pub fn open_status(e: &io::Error) -> (u16, Level) {
    match e.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG) => (404, Level::Error),
        Some(libc::EACCES | libc::ELOOP | libc::EMLINK) => (403, Level::Error),
        _ if files::leads_outside(e) => (403, Level::Error),
        _ => (500, Level::Crit),
    }
}

pub fn serve(ex: &mut Exchange) -> Flow {
    if !matches!(ex.method(), b"GET" | b"HEAD" | b"POST") {
        return Flow::Status(405);
    }
    let path = match request_path(ex) {
        Ok(path) => path,
        Err(flow) => return flow,
    };
    if ex.method() != b"POST" {
        if let Some(flow) = precompressed(ex, &path) {
            return flow;
        }
    }
    let (file, meta) = match open(ex, &path) {
        Ok(opened) => opened,
        Err(flow) => return flow,
    };
    if meta.is_dir() {
        return folder_redirect(ex);
    }
    if !meta.is_file() {
        ex.log(
            Level::Crit,
            &format!("\"{}\" is not a regular file", path.display()),
        );
        return Flow::Status(404);
    }
    if ex.method() == b"POST" {
        return Flow::Status(405);
    }
    send(ex, file, &meta);
    ex.response.allow_ranges = true;
    // A prepared response would leave no debug log.
    let debugged = !ex.worker.shared.config.main.debug_connection.is_empty();
    ex.response.is_plain_file = !debugged;
    looks::note(ex, &path, Ok(&meta));
    Flow::Done
}

/// The regular file that a GET or HEAD request asks for, for the handlers of videos. [`Flow::Next`]
/// if the path is that of a folder.
pub fn requested_file(ex: &Exchange) -> Result<(FilePath, File, Metadata), Flow> {
    if !matches!(ex.method(), b"GET" | b"HEAD") {
        return Err(Flow::Status(405));
    }
    if ex.uri.path.ends_with(b"/") {
        return Err(Flow::Next);
    }
    let path = request_path(ex)?;
    let (file, meta) = open(ex, &path)?;
    if !meta.is_file() {
        return Err(Flow::Next);
    }
    Ok((path, file, meta))
}

/// Open the file of a request.
fn open(ex: &Exchange, path: &FilePath) -> Result<(File, Metadata), Flow> {
    files::open(ex, path).map_err(|e| {
        let (status, level) = open_status(&e);
        if status != 404 || ex.loc.conf.log_not_found.unwrap_or(true) {
            ex.log(level, &crate::log::open_failed(path, &e));
        }
        Flow::Status(status)
    })
}

pub fn send(ex: &mut Exchange, file: impl Into<Arc<File>>, meta: &Metadata) {
    let r = &mut ex.response;
    r.status = 200;
    r.content_length = Some(meta.size());
    r.last_modified = Some(meta.mtime());
    r.etag = Some(etag(meta.mtime(), meta.size()));
    r.filterable = true;
    r.body = Body::file(file.into(), 0, meta.size());
    let kind = content_type(ex);
    ex.response.content_type = Some(kind);
    if ex.loc.conf.etag == Some(false) {
        ex.response.etag = None;
    }
}

/// Send another body than the whole file; as in nginx, the tag has its length.
pub fn send_instead(ex: &mut Exchange, pieces: impl Into<VecDeque<Chunk>>, meta: &Metadata) {
    let pieces = pieces.into();
    let length = pieces.iter().map(Chunk::len).sum();
    let r = &mut ex.response;
    r.content_length = Some(length);
    r.etag = r.etag.take().map(|_| etag(meta.mtime(), length));
    r.body = Body::Pieces(pieces);
}

/// `"mtime-size"` in hexadecimal.
pub fn etag(mtime: i64, size: u64) -> Vec<u8> {
    format!("\"{mtime:x}-{size:x}\"").into_bytes()
}

fn folder_redirect(ex: &mut Exchange) -> Flow {
    let mut target = escaped(&ex.uri.path, Use::Uri);
    target.push(b'/');
    if !ex.uri.args.is_empty() {
        target.push(b'?');
        target.extend_from_slice(&ex.uri.args);
    }
    ex.response.location = Some(target);
    Flow::Status(301)
}

/// A precompressed neighbor of the file (`gzip_static` and similar), for clients that accept its
/// coding.
fn precompressed(ex: &mut Exchange, path: &FilePath) -> Option<Flow> {
    let loc = ex.loc.clone();
    for coding in Coding::ALL {
        let conf = match coding {
            Coding::Brotli => &loc.conf.brotli,
            Coding::Zstd => &loc.conf.zstd,
        };
        let Some(mode) = conf.as_ref().and_then(|c| c.fixed) else {
            continue;
        };
        let accepted = filters::coding_accepted(ex, coding);
        let file = Precompressed {
            name: coding.name(),
            extension: coding.extension(),
            mode,
            accepted,
        };
        if let Some(flow) = file.serve(ex, path) {
            return Some(flow);
        }
    }
    let mode = loc.conf.gzip_static.unwrap_or(GzipStatic::Off);
    let file = Precompressed {
        name: "gzip",
        extension: ".gz",
        mode,
        accepted: mode != GzipStatic::Off && filters::gzip_accepted(ex),
    };
    file.serve(ex, path)
}

struct Precompressed {
    name: &'static str,
    extension: &'static str,
    mode: GzipStatic,
    accepted: bool,
}

impl Precompressed {
    fn serve(&self, ex: &mut Exchange, path: &FilePath) -> Option<Flow> {
        let always = self.mode == GzipStatic::Always;
        let varies = ex.loc.conf.gzip_vary == Some(true);
        if self.mode == GzipStatic::Off || !(always || self.accepted || varies) {
            return None;
        }
        let name = path.with_extension(self.extension);
        let (file, meta) = match files::open(ex, &name) {
            Ok(opened) => opened,
            Err(e) => {
                let (status, level) = open_status(&e);
                if status != 404 {
                    ex.log(
                        level,
                        &format!("open() \"{}\" failed ({})", name.display(), os_error(&e)),
                    );
                }
                return None;
            }
        };
        if !meta.is_file() {
            return None;
        }
        ex.response.gzip_vary |= !always;
        if !always && !self.accepted {
            return None;
        }
        send(ex, file, &meta);
        ex.response.filterable = false;
        ex.response.allow_ranges = true;
        ex.response.add_header("Content-Encoding", self.name);
        Some(Flow::Done)
    }
}

/// The media type for the extension of the name.
pub fn content_type(ex: &Exchange) -> Vec<u8> {
    let conf = &ex.loc.conf;
    let path = &ex.uri.path;
    let start = path.iter().rposition(|&c| c == b'/').map_or(0, |i| i + 1);
    // As in nginx, the second byte never starts an extension; this matters after a rewrite to a
    // name without a slash.
    let extension = path[start..]
        .iter()
        .rposition(|&c| c == b'.')
        .map(|i| start + i)
        .filter(|&dot| dot > start.max(1))
        .map(|dot| &path[dot + 1..]);
    if let (Some(types), Some(extension)) = (&conf.types, extension) {
        let lower = extension.to_ascii_lowercase();
        if let Some(kind) = types.get(&*lower) {
            return kind.to_vec();
        }
    }
    conf.default_type
        .as_deref()
        .unwrap_or(b"text/plain")
        .to_vec()
}
