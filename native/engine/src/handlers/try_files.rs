//! try_files.

use crate::exchange::Exchange;
use crate::files::{self, FilePath, Refused};
use crate::phases::flow::Flow;
use crate::template;
use gallop_conf::model::{Alias, Fallback, TryFiles};
use gallop_conf::template::Part;
use gallop_conf::vars::{Builtin, VarKind};

/// Use the first existing path as the URI; otherwise use the fallback.
pub fn try_files(ex: &mut Exchange, rule: &TryFiles) -> Flow {
    if alias_len(ex).is_some() && !ex.location_valid {
        // It is unknown which part of the URI the alias stands for.
        ex.log_lost_alias();
        return Flow::Status(500);
    }
    for file in &rule.files {
        ex.varies |= !is_of_target(ex, &file.path);
        let name = template::eval(ex, &file.path);
        let path = match disk_path(ex, &name) {
            Ok(path) => path,
            Err(Refused::Nul) => continue,
            Err(refused) => return refused.into(),
        };
        let meta = match files::look(ex, &path) {
            Ok(meta) => meta,
            Err(e) => match files::refuse_test(ex, &path, &e) {
                Some(flow) => return flow,
                None => continue,
            },
        };
        if meta.is_dir() != file.test_dir {
            continue;
        }
        ex.add_uri_to_alias = alias_len(ex) == Some(0);
        // As in nginx, an upstream still gets the URI that the client sent.
        ex.uri.path = uri_of(ex, name);
        return Flow::Next;
    }
    match &rule.fallback {
        Fallback::Status(status) => match *status {
            0 => Flow::Status(404),
            status @ (201 | 204 | 300..) => Flow::Status(status),
            // As in nginx, such a code gets neither a page nor a response.
            _ => Flow::Close,
        },
        Fallback::Named(name) => Flow::Named(name.clone()),
        Fallback::Uri(target) => {
            let target = template::eval(ex, target);
            let (uri, args) = match memchr::memchr(b'?', &target) {
                Some(i) => (target[..i].to_vec(), target[i + 1..].to_vec()),
                None => (target, Vec::new()),
            };
            // As in nginx, the arguments are set even if they are empty.
            let args = Some(args);
            ex.args_fixed = true;
            Flow::Internal { uri, args }
        }
    }
}

/// Whether a template depends only on the request's path and host.
fn is_of_target(ex: &Exchange, path: &template::Template) -> bool {
    let vars = &ex.worker.shared.config.vars;
    path.parts.iter().all(|part| match part {
        Part::Lit(_) | Part::Capture(_) => true,
        Part::Var(id) => matches!(
            vars.get(*id).kind,
            VarKind::Builtin(Builtin::Uri | Builtin::DocumentUri)
        ),
    })
}

fn alias_len(ex: &Exchange) -> Option<usize> {
    match ex.loc.conf.root.as_ref()?.alias? {
        Alias::Prefix(n) => Some(n),
        Alias::Whole => Some(0),
    }
}

/// The path beneath the root; with an alias, the part that the location matched is removed from the
/// tried path.
fn disk_path(ex: &Exchange, name: &[u8]) -> Result<FilePath, Refused> {
    let below = match alias_len(ex) {
        // A path that is shorter than the location's name is removed completely.
        Some(n) if n > 0 && name.starts_with(&ex.uri.path[..n.min(ex.uri.path.len())]) => {
            name.get(n..).unwrap_or_default()
        }
        _ => name,
    };
    FilePath::beneath_root(ex, below)
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
