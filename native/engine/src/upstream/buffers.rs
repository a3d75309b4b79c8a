//! Reusable buffers for upstream responses.

use std::cell::RefCell;

/// Bytes read at a time.
pub const SIZE: usize = 32 * 1024;
/// The most idle buffers that a thread keeps.
const SPARE: usize = 64;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Take an empty buffer with room for [`SIZE`] bytes.
pub fn take() -> Vec<u8> {
    let spare = BUFFERS.with_borrow_mut(Vec::pop);
    spare.unwrap_or_else(|| Vec::with_capacity(SIZE))
}

/// Return a buffer from [`take`]; its contents are discarded.
pub fn give(mut buffer: Vec<u8>) {
    buffer.clear();
    BUFFERS.with_borrow_mut(|buffers| {
        if buffer.capacity() == SIZE && buffers.len() < SPARE {
            buffers.push(buffer);
        }
    });
}
