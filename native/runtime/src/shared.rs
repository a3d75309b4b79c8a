//! Counters in memory that a process shares with its forks.

use std::io;
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

/// Cells that start at zero and are visible to this process and its children. Unused pages take no
/// memory.
#[derive(Debug)]
pub struct SharedCells {
    at: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: only atomics are shared, and the mapping exists until the last owner drops it.
unsafe impl Send for SharedCells {}
// SAFETY: as above.
unsafe impl Sync for SharedCells {}

impl SharedCells {
    /// # Errors
    /// The system has no memory for them.
    pub fn new(len: usize) -> io::Result<SharedCells> {
        let len = len.max(1);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let bytes = len * size_of::<AtomicU64>();
        // SAFETY: a new anonymous mapping at an address that the kernel chooses affects nothing
        // else.
        let at = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(at.cast()) {
            Some(at) => Ok(SharedCells { at, len }),
            None => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    pub fn cells(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has `len` aligned words, starts as zeros, which are valid atomics, is
        // only used as atomics, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    /// The cells for the rest of the process's life.
    pub fn leak(this: Arc<SharedCells>) -> &'static [AtomicU64] {
        Box::leak(Box::new(this)).cells()
    }
}

impl Drop for SharedCells {
    fn drop(&mut self) {
        // SAFETY: the mapping has this length, and no references to it remain.
        unsafe {
            libc::munmap(self.at.as_ptr().cast(), self.len * size_of::<AtomicU64>());
        }
    }
}
