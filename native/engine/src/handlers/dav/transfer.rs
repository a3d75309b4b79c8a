//! COPY and MOVE.

use super::{depth_of, failed, folder_access, has_body, is_folder_uri, refuse, remove};
use super::{Depth, Done};
use crate::escape::Shown;
use crate::exchange::Exchange;
use crate::files::{self, FilePath, Spot};
use crate::handlers::static_files::request_path;
use crate::host::validate_host;
use crate::phases::flow::Flow;
use crate::uri::{self, ParsedUri};
use gallop_conf::locations::Found;
use gallop_conf::model::Location;
use std::fs::Metadata;
use std::io;
use std::sync::Arc;

pub(super) fn copy_or_move(ex: &mut Exchange) -> Done {
    if has_body(ex) {
        return Err(refuse(ex, 415, "COPY and MOVE with body are unsupported"));
    }
    let target = destination(ex)?;
    if target.ends_with(b"/") != is_folder_uri(ex) {
        let reason = "URI and \"Destination\" should be either collections or non-collections";
        return Err(refuse(ex, 409, reason));
    }
    let is_move = ex.method() == b"MOVE";
    match depth_of(ex, false) {
        Some(Depth::Infinity) => {}
        Some(Depth::Zero) if !is_move => {}
        _ if is_move => return Err(refuse(ex, 400, "\"Depth\" header must be infinity")),
        _ => return Err(refuse(ex, 400, "\"Depth\" header must be 0 or infinity")),
    }
    let transfer = Transfer {
        overwrites: overwrites(ex)?,
        from: request_path(ex)?,
        to: path_of(ex, target)?,
        is_move,
    };
    transfer.run(ex)
}

/// The value of `Overwrite`, which is on by default.
fn overwrites(ex: &Exchange) -> Result<bool, Flow> {
    match ex.head.get("overwrite") {
        None | Some(b"T" | b"t") => Ok(true),
        Some(b"F" | b"f") => Ok(false),
        Some(other) => {
            let message = format!(
                "client sent invalid \"Overwrite\" header: \"{}\"",
                Shown(other)
            );
            Err(refuse(ex, 400, &message))
        }
    }
}

/// The path of `Destination`, in the form that a request for it would have.
fn destination(ex: &Exchange) -> Result<Vec<u8>, Flow> {
    let Some(value) = ex.head.get("destination") else {
        return Err(refuse(ex, 400, "client sent no \"Destination\" header"));
    };
    let invalid = || {
        let message = format!(
            "client sent invalid \"Destination\" header: \"{}\"",
            Shown(value)
        );
        refuse(ex, 400, &message)
    };
    let target = match value.first() {
        Some(b'/') => value,
        _ => own_target(ex, value).ok_or_else(invalid)?,
    };
    let mut parsed = ParsedUri::default();
    let merge = ex.server.conf.merge_slashes.unwrap_or(true);
    if !uri::parse(target, merge, &mut parsed) {
        return Err(invalid());
    }
    // Other locations may have other rules about access and handlers of their own.
    let [own, other] = [&ex.uri.path, &parsed.path].map(|path| location(ex, path).map(Arc::as_ptr));
    if own != other {
        let reason = "\"Destination\" belongs to another location than the request";
        return Err(refuse(ex, 403, reason));
    }
    Ok(parsed.path)
}

/// The target of a URL with the scheme and the host of this request.
fn own_target<'a>(ex: &Exchange, url: &'a [u8]) -> Option<&'a [u8]> {
    let scheme: &[u8] = if ex.tls { b"https://" } else { b"http://" };
    let rest = url.strip_prefix(scheme)?;
    let (authority, target) = rest.split_at(memchr::memchr(b'/', rest)?);
    let (host, _) = validate_host(authority)?;
    let is_own = host.eq_ignore_ascii_case(ex.host.as_bytes());
    (is_own && !ex.host.is_empty()).then_some(target)
}

/// The location that a path belongs to.
fn location<'a>(ex: &'a Exchange, path: &[u8]) -> Option<&'a Arc<Location>> {
    match ex.server.root.children.choose(path) {
        Found::Location { location, .. } | Found::AutoRedirect(location) => Some(location),
        Found::None => None,
    }
}

/// The file path of another URI in the request's location.
fn path_of(ex: &mut Exchange, target: Vec<u8>) -> Result<FilePath, Flow> {
    let own = std::mem::replace(&mut ex.uri.path, target);
    let path = request_path(ex);
    ex.uri.path = own;
    path
}

struct Transfer {
    from: FilePath,
    to: FilePath,
    is_move: bool,
    overwrites: bool,
}

impl Transfer {
    fn run(&self, ex: &Exchange) -> Done {
        let source = files::spot(ex, &self.from);
        let source = source.and_then(|spot| Ok((spot.metadata()?, spot)));
        let (meta, source) = source.map_err(|e| failed(ex, "lstat()", &self.from, &e, 404))?;
        if meta.is_dir() && !is_folder_uri(ex) {
            let message = format!("\"{}\" is collection", Shown(&ex.uri.path));
            return Err(refuse(ex, 400, &message));
        }
        if !meta.is_dir() && is_folder_uri(ex) {
            let message = format!("\"{}\" is no folder", self.from.display());
            return Err(refuse(ex, 404, &message));
        }
        let made = match self.is_move && !meta.is_dir() {
            true => files::spot_in_new_folder(ex, &self.to, folder_access(ex)),
            false => files::spot(ex, &self.to),
        };
        let target = made.map_err(|e| failed(ex, "open() of the folder of", &self.to, &e, 409))?;
        self.check_places(ex, &source, &target)?;
        let there = self.check_target(ex, &target)?;
        let done = match meta.is_dir() {
            true => self.folder(&source, &target, there),
            false => self.file(ex, &source, &target),
        };
        let what = if self.is_move {
            "moving to"
        } else {
            "copying to"
        };
        done.map_err(|e| failed(ex, what, &self.to, &e, 409))?;
        Ok(if meta.is_dir() { 201 } else { 204 })
    }

    /// Reject a transfer of a folder into itself, and one that would delete its own source.
    fn check_places(&self, ex: &Exchange, source: &Spot, target: &Spot) -> Result<(), Flow> {
        let is_same = source.is_same(target);
        let overlap = is_same.and_then(|same| {
            Ok(same || target.lies_within(source)? || source.lies_within(target)?)
        });
        match overlap {
            Ok(false) => Ok(()),
            Ok(true) => {
                let message = format!(
                    "\"{}\" and \"{}\" are the same or one contains the other",
                    self.from.display(),
                    self.to.display()
                );
                Err(refuse(ex, 403, &message))
            }
            Err(e) => Err(failed(ex, "lstat()", &self.to, &e, 409)),
        }
    }

    /// What is at the target, if it may be replaced.
    fn check_target(&self, ex: &Exchange, target: &Spot) -> Result<Option<Metadata>, Flow> {
        let meta = match target.metadata() {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(ex, "lstat()", &self.to, &e, 404)),
        };
        if meta.is_dir() && !is_folder_uri(ex) {
            let message = format!("\"{}\" is a collection", self.to.display());
            return Err(refuse(ex, 409, &message));
        }
        if !self.overwrites {
            let message = format!("\"{}\" could not be created: it exists", self.to.display());
            return Err(refuse(ex, 412, &message));
        }
        Ok(Some(meta))
    }

    fn folder(&self, source: &Spot, target: &Spot, there: Option<Metadata>) -> io::Result<()> {
        if let Some(meta) = there {
            remove(target, meta.is_dir())?;
        }
        if self.is_move && target.take(source).is_ok() {
            return Ok(());
        }
        target.copy_tree(source)?;
        match self.is_move {
            true => source.remove_tree(),
            false => Ok(()),
        }
    }

    fn file(&self, ex: &Exchange, source: &Spot, target: &Spot) -> io::Result<()> {
        if self.is_move {
            return target.take_any(source);
        }
        let (file, meta) = files::open(ex, &self.from)?;
        if !meta.is_file() {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        target.copy_file(&file)
    }
}
