//! The cache manager thread: finds existing files at the start, and removes files that are unused
//! for too long or exceed the limits.

use super::{disk, Cache, Key};
use crate::worker::Shared;
use std::ffi::CString;
use std::fs::DirEntry;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// The pause between two rounds, in steps after which the process can end.
const ROUND: u32 = 50;
const STEP: Duration = Duration::from_millis(100);
/// The most files loaded before a short pause for other users of the disk.
const LOAD: usize = 1000;
const LOAD_REST: Duration = Duration::from_millis(20);
/// A temporary file older than this belongs to a process that died.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// Run until the process ends; return at once if there is no cache.
pub fn run(shared: &Arc<Shared>) {
    let caches = shared.caches.all();
    if caches.is_empty() {
        return;
    }
    for cache in caches {
        load(cache);
        cache.loaded();
    }
    while !shared.quitting.load(Ordering::Relaxed) {
        caches.iter().for_each(tidy);
        for _ in 0..ROUND {
            std::thread::sleep(STEP);
            if shared.quitting.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// The key that a file name encodes.
fn key_of(name: &[u8]) -> Option<Key> {
    if name.len() != 32 {
        return None;
    }
    let text = std::str::from_utf8(name).ok()?;
    let mut key = Key::default();
    for (i, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(key)
}

/// Call `f` with every file that is `depth` folders below a folder.
fn walk(folder: &Path, depth: usize, f: &mut impl FnMut(&DirEntry)) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => walk(&entry.path(), depth - 1, f),
            Ok(kind) if kind.is_file() && depth == 0 => f(&entry),
            _ => {}
        }
    }
}

fn load(cache: &Arc<Cache>) {
    let mut seen = 0;
    walk(&cache.conf.path, cache.conf.levels.len(), &mut |entry| {
        let Ok(meta) = entry.metadata() else { return };
        match key_of(&entry.file_name().into_vec()) {
            Some(key) => cache.found(&key, meta.len()),
            None if is_abandoned(entry, &meta) => drop(std::fs::remove_file(entry.path())),
            None => {}
        }
        seen += 1;
        if seen % LOAD == 0 {
            std::thread::sleep(LOAD_REST);
        }
    });
}

fn is_abandoned(entry: &DirEntry, meta: &std::fs::Metadata) -> bool {
    let ours = entry.file_name().as_bytes().starts_with(disk::TEMPORARY);
    let age = meta.modified().ok().and_then(|t| t.elapsed().ok());
    ours && age.is_some_and(|age| age > ABANDONED)
}

fn tidy(cache: &Arc<Cache>) {
    purge(cache);
    let conf = &cache.conf;
    loop {
        let mut removed = 0;
        while removed < conf.manager_files {
            let max_size = if is_short_of_space(cache) {
                0
            } else {
                conf.max_size.unwrap_or(u64::MAX)
            };
            // Keep some room for new entries.
            let room = cache.capacity() - cache.capacity() / 8;
            let Some(key) = cache.next_to_remove(max_size, room) else {
                return;
            };
            cache.delete(&key);
            removed += 1;
        }
        std::thread::sleep(Duration::from_millis(conf.manager_sleep));
    }
}

fn is_short_of_space(cache: &Cache) -> bool {
    let min = cache.conf.min_free;
    min > 0 && free_space(&cache.conf.path).is_some_and(|free| free < min)
}

/// The free bytes on a path's file system.
fn free_space(path: &Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: `path` ends in NUL; `stat` is read only if the call returned zero, after the kernel
    // filled it.
    unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut stat) == 0).then(|| stat.f_bavail * stat.f_frsize)
    }
}

/// Remove the files whose keys start with a purged prefix.
fn purge(cache: &Arc<Cache>) {
    let purges = cache.purges();
    if purges.is_empty() {
        return;
    }
    walk(&cache.conf.path, cache.conf.levels.len(), &mut |entry| {
        let Some(key) = key_of(&entry.file_name().into_vec()) else {
            return;
        };
        let Ok(found) = disk::read(&entry.path()) else {
            return;
        };
        let meta = &found.meta;
        let hit = |(prefix, at): &(Vec<u8>, i64)| meta.key.starts_with(prefix) && meta.date <= *at;
        if purges.iter().any(hit) {
            cache.remove(&key);
        }
    });
    cache.purges_done(&purges);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_entries_are_keys() {
        assert_eq!(key_of("0f".repeat(16).as_bytes()), Some([15; 16]));
        assert_eq!(key_of(b"0f"), None);
        assert_eq!(key_of("0g".repeat(16).as_bytes()), None);
    }
}
