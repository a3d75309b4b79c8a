//! Open access logs whose names contain variables (`open_log_file_cache`).

use gallop_conf::model::{Confinement, LogFileCache};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The log of one name.
struct Entry {
    /// `None` until the name was used often enough.
    file: Option<Arc<File>>,
    uses: u64,
    /// The last use in milliseconds (monotonic clock).
    used: u64,
    checked: u64,
    /// The sequence number of the last use, since many uses share a millisecond.
    turn: u64,
}

/// The rules under which a cache's files were opened.
#[derive(Clone)]
pub struct Rules {
    pub cache: Arc<LogFileCache>,
    /// The folders of `confine_files`.
    pub folders: Option<Arc<Confinement>>,
}

/// The open logs of an `open_log_file_cache` directive.
#[derive(Default)]
struct Cache {
    entries: HashMap<PathBuf, Entry>,
    /// The number of uses so far.
    turns: u64,
}

thread_local! {
    /// Caches by the addresses of the directive and of the confining folders. The values here keep
    /// the addresses unique.
    static CACHES: RefCell<HashMap<(usize, usize), (Rules, Cache)>> = RefCell::default();
}

/// Open a log, or return the cached file.
///
/// # Errors
/// The file cannot be opened.
pub fn open(
    rules: &Rules,
    path: &Path,
    now_ms: u64,
    open_append: impl FnOnce(&Path) -> io::Result<File>,
) -> io::Result<Arc<File>> {
    CACHES.with(|caches| {
        let mut caches = caches.borrow_mut();
        let folders = rules.folders.as_ref();
        let key = (
            Arc::as_ptr(&rules.cache) as usize,
            folders.map_or(0, |folders| Arc::as_ptr(folders) as usize),
        );
        let (_, cache) = caches
            .entry(key)
            .or_insert_with(|| (rules.clone(), Cache::default()));
        cache.open(&rules.cache, path, now_ms, open_append)
    })
}

impl Cache {
    fn open(
        &mut self,
        conf: &LogFileCache,
        path: &Path,
        now: u64,
        open_append: impl FnOnce(&Path) -> io::Result<File>,
    ) -> io::Result<Arc<File>> {
        self.turns += 1;
        self.entries
            .retain(|_, entry| now.saturating_sub(entry.used) < conf.inactive);
        if let Some(file) = self.known(conf, path, now) {
            return Ok(file);
        }
        // A name that cannot be opened replaces no other.
        let file = Arc::new(open_append(path)?);
        if !self.entries.contains_key(path) {
            self.make_room(conf.max);
        }
        let entry = self.entries.entry(path.into()).or_insert(Entry {
            file: None,
            uses: 1,
            used: now,
            checked: now,
            turn: self.turns,
        });
        entry.checked = now;
        if entry.uses >= conf.min_uses {
            entry.file = Some(file.clone());
        }
        Ok(file)
    }

    /// The cached file of a name, which counts as used.
    fn known(&mut self, conf: &LogFileCache, path: &Path, now: u64) -> Option<Arc<File>> {
        let entry = self.entries.get_mut(path)?;
        entry.uses += 1;
        entry.used = now;
        entry.turn = self.turns;
        let file = entry.file.take()?;
        if now.saturating_sub(entry.checked) >= conf.valid {
            if !is_at(&file, path) {
                return None;
            }
            entry.checked = now;
        }
        entry.file = Some(file.clone());
        Some(file)
    }

    /// Drop the least recently used name if there are `max`.
    fn make_room(&mut self, max: u64) {
        if (self.entries.len() as u64) < max {
            return;
        }
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.turn);
        if let Some(path) = oldest.map(|(path, _)| path.clone()) {
            self.entries.remove(&path);
        }
    }
}

/// Whether the name still refers to the open file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(max: u64) -> LogFileCache {
        LogFileCache {
            max,
            inactive: 1000,
            valid: 100,
            min_uses: 2,
        }
    }

    /// Use a name; `true` if the file had to be opened.
    fn opens(cache: &mut Cache, conf: &LogFileCache, path: &Path, now: u64) -> bool {
        let mut opened = false;
        cache
            .open(conf, path, now, |path| {
                opened = true;
                File::options().append(true).create(true).open(path)
            })
            .expect("opened");
        opened
    }

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn folder(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("gallop-logs-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    #[test]
    fn a_file_is_kept_from_its_second_use_until_it_is_idle() {
        let (folder, conf, mut cache) = (folder("uses"), conf(9), Cache::default());
        let path = folder.0.join("a");
        let seen: Vec<bool> = [0, 10, 20, 30, 1030]
            .map(|now| opens(&mut cache, &conf, &path, now))
            .into();
        assert_eq!(seen, [true, true, false, false, true]);
    }

    #[test]
    fn a_file_that_was_moved_away_is_noticed_when_it_is_checked() {
        let (folder, conf, mut cache) = (folder("moved"), conf(9), Cache::default());
        let path = folder.0.join("a");
        opens(&mut cache, &conf, &path, 0);
        opens(&mut cache, &conf, &path, 1);
        std::fs::rename(&path, folder.0.join("b")).expect("renamed");
        assert!(!opens(&mut cache, &conf, &path, 99));
        assert!(opens(&mut cache, &conf, &path, 101));
        assert!(!opens(&mut cache, &conf, &path, 102));
    }

    #[test]
    fn the_name_that_was_not_used_for_longest_makes_room() {
        let (folder, conf, mut cache) = (folder("room"), conf(2), Cache::default());
        let [a, b, c] = ["a", "b", "c"].map(|name| folder.0.join(name));
        for (now, path) in [(0, &a), (1, &a), (2, &b), (3, &b), (4, &c)] {
            opens(&mut cache, &conf, path, now);
        }
        assert!(!opens(&mut cache, &conf, &b, 5));
        assert!(opens(&mut cache, &conf, &a, 6));
        assert_eq!(cache.entries.len(), 2);
        let missing = folder.0.join("missing/d");
        let failed = cache.open(&conf, &missing, 7, |path| File::open(path));
        assert!(failed.is_err() && !opens(&mut cache, &conf, &b, 8));
    }

    #[test]
    fn uses_within_one_millisecond_are_told_apart() {
        let (folder, conf) = (folder("turns"), conf(3));
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| folder.0.join(name));
        // Repeat, since a hash map's order is random: a wrong choice of the oldest name could be
        // right by chance.
        for _ in 0..20 {
            let mut cache = Cache::default();
            for path in [&a, &a, &b, &b, &c, &c, &d] {
                opens(&mut cache, &conf, path, 0);
            }
            let kept = [&b, &c].map(|path| !opens(&mut cache, &conf, path, 0));
            assert_eq!(
                (kept, cache.entries.contains_key(&a)),
                ([true, true], false)
            );
        }
    }
}
