//! Files of certificates, keys, and revocation lists. Each is read once per configuration even if
//! many server blocks name it. Workers use what the master read, and a reload reads only changed
//! files (`ssl_object_cache_inheritable`), like nginx's object cache.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What tells whether a file is still the one that was read: device, inode, seconds of its change.
type Identity = (u64, u64, i64);

struct Kept {
    identity: Option<Identity>,
    /// The configuration that it was last read or looked at for.
    configuration: u64,
    bytes: Arc<[u8]>,
}

#[derive(Default)]
struct Files {
    configuration: u64,
    /// What the configuration before this one had read may be used again.
    inherits: bool,
    kept: HashMap<PathBuf, Kept>,
}

static FILES: Mutex<Option<Files>> = Mutex::new(None);

fn with<T>(f: impl FnOnce(&mut Files) -> T) -> T {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    f(files.get_or_insert_default())
}

/// Begin a new configuration; `inherits`: files unchanged since the previous one are not read
/// again.
pub fn begin_configuration(inherits: bool) {
    with(|files| {
        let last = files.configuration;
        files.kept.retain(|_, kept| kept.configuration == last);
        files.configuration += 1;
        files.inherits = inherits;
    });
}

/// The contents of a file.
///
/// # Errors
/// The file cannot be read.
pub fn read(path: &Path) -> io::Result<Arc<[u8]>> {
    with(|files| {
        let (configuration, inherits) = (files.configuration, files.inherits);
        if let Some(kept) = files.kept.get_mut(path) {
            let same = || inherits && kept.identity.is_some() && identity(path) == kept.identity;
            if kept.configuration == configuration || same() {
                kept.configuration = configuration;
                return Ok(kept.bytes.clone());
            }
        }
        let before = identity(path);
        let bytes: Arc<[u8]> = std::fs::read(path)?.into();
        let kept = Kept {
            identity: before,
            configuration,
            bytes: bytes.clone(),
        };
        files.kept.insert(path.to_path_buf(), kept);
        Ok(bytes)
    })
}

fn identity(path: &Path) -> Option<Identity> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.mtime()))
}
