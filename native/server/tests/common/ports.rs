//! Free ports on loopback, no two tests the same one, whichever process they run in.

use std::fs::{DirBuilder, File};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;

/// Below Linux's range for outgoing connections (32768 to 60999), any of which could take a port
/// between this and the server's own listening; and beside the range of tests/support/ports.py.
const FIRST: u32 = 12_000;
const COUNT: u32 = 8_000;

/// Claims, held for as long as the process lives.
static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A port that nothing listens on, for TCP and UDP alike, and that no other test has.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes begin at different places.
    let start = std::process::id().wrapping_mul(0x9e37_79b9) >> 8;
    for _ in 0..COUNT {
        let at = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = (FIRST + at) as u16;
        if is_free(port) && claim(port) {
            return port;
        }
    }
    panic!("no port from {FIRST} on is free");
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok()
}

/// The lock goes with the process, so that nothing has to be cleared away after a crash.
fn claim(port: u16) -> bool {
    // SAFETY: no arguments, no memory, never fails.
    let user = unsafe { libc::getuid() };
    let folder = std::env::temp_dir().join(format!("paddock-test-ports-{user}"));
    let made = DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(&folder);
    made.expect("a folder for claims");
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(folder.join(port.to_string()))
        .expect("a claim");
    // SAFETY: the descriptor is open for as long as `file` is.
    let is_ours = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
    if is_ours {
        HELD.lock().expect("the claims").push(file);
    }
    is_ours
}
