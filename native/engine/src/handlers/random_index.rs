//! random_index: a random file of the folder serves as its index.

use super::static_files::{open_status, request_path};
use crate::exchange::Exchange;
use crate::files;
use crate::phases::flow::Flow;
use gallop_conf::parser::os_error;

/// Redirect internally to a random file of the folder, except hidden ones.
pub fn find(ex: &mut Exchange) -> Flow {
    if ex.loc.conf.random_index != Some(true) || !matches!(ex.method(), b"GET" | b"HEAD" | b"POST")
    {
        return Flow::Next;
    }
    let folder = match request_path(ex) {
        Ok(path) => path,
        Err(flow) => return flow,
    };
    let entries = match files::list(ex, &folder) {
        Ok(entries) => entries,
        Err(e) => {
            let (status, level) = open_status(&e);
            ex.log(
                level,
                &format!(
                    "opendir() \"{}\" failed ({})",
                    folder.display(),
                    os_error(&e)
                ),
            );
            return Flow::Status(status);
        }
    };
    let is_file = |entry: &files::Entry| entry.meta.is_file();
    let names: Vec<Vec<u8>> = entries
        .into_iter()
        .filter(is_file)
        .map(|e| e.name)
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
