//! Caches of upstreams' answers.

use crate::template::Template;
use std::path::PathBuf;

/// `proxy_cache_path`: where answers are kept.
#[derive(Clone, Debug)]
pub struct CacheZone {
    pub name: String,
    pub path: PathBuf,
    /// Characters of the folders' names, outermost first.
    pub levels: Vec<usize>,
    /// Bytes; bounds the number of entries.
    pub keys_size: u64,
    /// Milliseconds without use after which an entry goes.
    pub inactive: u64,
    /// Bytes of all entries together.
    pub max_size: Option<u64>,
    /// Bytes to leave free on the file system.
    pub min_free: u64,
    /// Entries removed at a time, and milliseconds of rest between.
    pub manager_files: u64,
    pub manager_sleep: u64,
}

/// Which cache a location uses.
#[derive(Clone, Debug)]
pub enum CacheUse {
    Off,
    Zone(String),
    /// Named per request; an empty name is none.
    Variable(Template),
}

/// `proxy_cache_valid`: how long answers of a status are fresh that do not say so themselves.
#[derive(Clone, Copy, Debug)]
pub struct CacheValid {
    /// `None`: any.
    pub status: Option<u16>,
    pub seconds: u64,
}

/// Methods whose answers are kept, as bits.
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
