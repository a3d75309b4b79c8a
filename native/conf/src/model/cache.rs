//! Response caches.

use crate::template::Template;
use std::path::PathBuf;

/// `proxy_cache_path`: a folder of cached responses.
#[derive(Clone, Debug)]
pub struct CacheZone {
    pub name: String,
    pub path: PathBuf,
    /// The lengths of the folder names, outermost first.
    pub levels: Vec<usize>,
    /// The size of the keys zone in bytes, which limits the number of entries.
    pub keys_size: u64,
    /// Milliseconds without use after which an entry is removed.
    pub inactive: u64,
    /// The limit for all entries in bytes.
    pub max_size: Option<u64>,
    /// Bytes to leave free on the file system.
    pub min_free: u64,
    /// Entries removed at a time, and milliseconds of pause in between.
    pub manager_files: u64,
    pub manager_sleep: u64,
}

/// The cache that a location uses.
#[derive(Clone, Debug)]
pub enum CacheUse {
    Off,
    Zone(String),
    /// Evaluated per request; an empty name means no cache.
    Variable(Template),
}

/// `proxy_cache_valid`: the freshness of responses that do not state it themselves.
#[derive(Clone, Copy, Debug)]
pub struct CacheValid {
    /// `None` means any status.
    pub status: Option<u16>,
    pub seconds: u64,
}

/// Bits for the methods whose responses are cached.
pub mod cache_methods {
    pub const GET: u32 = 1;
    pub const HEAD: u32 = 1 << 1;
    pub const POST: u32 = 1 << 2;
    pub const NAMES: &[(&str, u32)] = &[("GET", GET), ("HEAD", HEAD), ("POST", POST)];

    /// The bit of a request's method.
    pub fn of(method: &[u8]) -> u32 {
        match method {
            b"GET" => GET,
            b"HEAD" => HEAD,
            b"POST" => POST,
            _ => 0,
        }
    }
}
