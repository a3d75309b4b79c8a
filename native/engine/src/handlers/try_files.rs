//! try_files.

use crate::exchange::Exchange;
use crate::phases::Flow;
use crate::symlinks::{self, Policy};
use crate::template;
use gallop_conf::model::{Alias, Fallback, TryFiles};
use gallop_conf::template::Part;
use gallop_conf::vars::{Builtin, VarKind};
use std::path::PathBuf;

/// Takes the first path that exists as the URI; otherwise falls back.
pub fn try_files(ex: &mut Exchange, rule: &TryFiles) -> Flow {
    for file in &rule.files {
        ex.varies |= !is_of_target(ex, &file.path);
        let name = template::eval(ex, &file.path);
        let Some(path) = disk_path(ex, &name) else {
            continue;
        };
        let Ok(meta) = symlinks::metadata(&path, Policy::of(ex, &path)) else {
            continue;
        };
        if meta.is_dir() != file.test_dir {
            continue;
        }
        ex.add_uri_to_alias = alias_len(ex) == Some(0);
        // As in nginx an upstream is still asked for what the client wrote.
        ex.uri.path = uri_of(ex, name);
        return Flow::Next;
    }
    match &rule.fallback {
        Fallback::Status(status) => Flow::Status(*status),
        Fallback::Named(name) => Flow::Named(name.clone()),
        Fallback::Uri(target) => {
            let target = template::eval(ex, target);
            let (uri, args) = match memchr::memchr(b'?', &target) {
                Some(i) => (target[..i].to_vec(), target[i + 1..].to_vec()),
                None => (target, Vec::new()),
            };
            // As in nginx the arguments are a value, be it an empty one.
            let args = Some(args);
            Flow::Internal { uri, args }
        }
    }
}

/// Whether a template depends on nothing of the request but its target and host.
fn is_of_target(ex: &Exchange, path: &template::Template) -> bool {
    let vars = &ex.worker.shared.config.vars;
    path.parts.iter().all(|part| match part {
        Part::Lit(_) | Part::Capture(_) => true,
        Part::Var(id) => matches!(
            vars.get(*id).kind,
            VarKind::Builtin(
                Builtin::Uri
                    | Builtin::DocumentUri
                    | Builtin::RequestUri
                    | Builtin::Args
                    | Builtin::QueryString
                    | Builtin::IsArgs
            )
        ),
    })
}

fn alias_len(ex: &Exchange) -> Option<usize> {
    match ex.loc.conf.root.as_ref()?.alias? {
        Alias::Prefix(n) => Some(n),
        Alias::Whole => Some(0),
    }
}

/// Below the root; with an alias, the location's name is cut off the tried path.
fn disk_path(ex: &Exchange, name: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = match &ex.loc.conf.root {
        Some(root) => template::eval(ex, &root.path),
        None => ex
            .worker
            .shared
            .config
            .prefix
            .join("html")
            .into_os_string()
            .into_vec(),
    };
    let below = match alias_len(ex) {
        Some(n) if n > 0 && name.starts_with(&ex.uri.path[..n.min(ex.uri.path.len())]) => {
            &name[n..]
        }
        _ => name,
    };
    bytes.extend_from_slice(below);
    if bytes.contains(&0) {
        return None;
    }
    Some(std::ffi::OsString::from_vec(bytes).into())
}

fn uri_of(ex: &Exchange, name: Vec<u8>) -> Vec<u8> {
    let mut uri = name;
    if let Some(n) = alias_len(ex).filter(|&n| n > 0) {
        let prefix = &ex.uri.path[..n.min(ex.uri.path.len())];
        if !uri.starts_with(prefix) {
            uri = [prefix, &uri].concat();
        }
    }
    uri
}
