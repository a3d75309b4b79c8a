//! The cache of upstream responses in files.

pub mod control;
pub mod disk;
pub mod manager;
pub mod vary;
mod zone;

pub use zone::{Cache, Caches, Key, Seen, Updating};
