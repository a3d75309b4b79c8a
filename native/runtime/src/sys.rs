//! The system calls of the executor.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Convert a system call's result, using errno.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: epoll_create1 takes no pointers; nothing else owns the descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Epoll { fd })
    }

    pub fn add(&self, fd: RawFd, events: u32, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, key)
    }

    /// Change the events of a registered descriptor.
    pub fn modify(&self, fd: RawFd, events: u32, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, key)
    }

    fn control(&self, what: i32, fd: RawFd, events: u32, key: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: key };
        // SAFETY: `event` is valid during the call; the kernel copies it.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd, &mut event) })?;
        Ok(())
    }

    pub fn remove(&self, fd: RawFd) {
        // SAFETY: the event pointer may be null for EPOLL_CTL_DEL. An error means that it was
        // already removed.
        unsafe {
            libc::epoll_ctl(
                self.fd.as_raw_fd(),
                libc::EPOLL_CTL_DEL,
                fd,
                std::ptr::null_mut(),
            );
        }
    }

    /// Wait up to `timeout_ms` (-1: forever) and fill `events`. Returns their number.
    pub fn wait(&self, events: &mut Vec<libc::epoll_event>, timeout_ms: i32) -> usize {
        events.clear();
        let capacity = events.capacity() as libc::c_int;
        // SAFETY: the kernel writes at most `capacity` entries into the spare capacity.
        let n = unsafe {
            libc::epoll_wait(
                self.fd.as_raw_fd(),
                events.as_mut_ptr(),
                capacity,
                timeout_ms,
            )
        };
        let n = n.max(0) as usize;
        // SAFETY: the kernel initialized the first `n` entries, and n <= capacity.
        unsafe { events.set_len(n) };
        n
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// A counter that another thread increments to wake this one.
pub fn event_fd() -> io::Result<OwnedFd> {
    // SAFETY: eventfd takes no pointers; nothing else owns the descriptor.
    unsafe {
        Ok(OwnedFd::from_raw_fd(check(libc::eventfd(
            0,
            libc::EFD_CLOEXEC | libc::EFD_NONBLOCK,
        ))?))
    }
}

/// `recv` as a direct system call. The C library's function is a cancellation point, which costs
/// two atomic operations per call in a process with threads; threads are never canceled here.
fn receive(fd: RawFd, buf: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let none = std::ptr::null_mut::<u8>();
    let (at, len) = (buf.as_mut_ptr(), buf.len());
    // SAFETY: the kernel writes at most `len` bytes at `at`, and no address is requested.
    let n = unsafe { libc::syscall(libc::SYS_recvfrom, fd, at, len, 0, none, none) };
    counted(n)
}

fn counted(n: libc::c_long) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

pub fn read(fd: RawFd, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: initialized bytes may be overwritten, and only initialized bytes are written.
    let buf = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
    receive(fd, buf)
}

/// Read up to `room` bytes and append them to `buf`; the memory is not cleared first.
pub fn read_more(fd: RawFd, buf: &mut Vec<u8>, room: usize) -> io::Result<usize> {
    buf.reserve(room);
    let n = receive(fd, &mut buf.spare_capacity_mut()[..room])?;
    // SAFETY: the kernel initialized these bytes, which are within the capacity.
    unsafe { buf.set_len(buf.len() + n) };
    Ok(n)
}

/// Read the next bytes without consuming them.
pub fn peek(fd: RawFd, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most buf.len() bytes into `buf`.
    let n = unsafe { libc::recv(fd, buf.as_mut_ptr().cast(), buf.len(), libc::MSG_PEEK) };
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(n as usize)
    }
}

/// `send` as a direct system call, see [`receive`].
pub fn write(fd: RawFd, buf: &[u8], more: bool) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
    let none = std::ptr::null::<u8>();
    let (at, len) = (buf.as_ptr(), buf.len());
    // SAFETY: the kernel reads at most `len` bytes at `at`, and no address is passed.
    let n = unsafe { libc::syscall(libc::SYS_sendto, fd, at, len, flags, none, 0) };
    counted(n)
}

pub fn write_vectored(fd: RawFd, bufs: &[io::IoSlice<'_>], more: bool) -> io::Result<usize> {
    // SAFETY: an all-zero msghdr is valid: null pointers with zero lengths.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    // IoSlice is guaranteed to have the layout of iovec.
    msg.msg_iov = bufs.as_ptr().cast_mut().cast();
    msg.msg_iovlen = bufs.len() as _;
    let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
    // SAFETY: msg points at `bufs`, which are valid during the call and only read.
    let n = unsafe { libc::sendmsg(fd, &msg, flags) };
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(n as usize)
    }
}

/// Copy a file range to a socket in the kernel. Returns the bytes sent, 0 at the file's end.
pub fn send_file(socket: RawFd, file: &File, offset: u64, len: u64) -> io::Result<usize> {
    let mut offset = offset as libc::off_t;
    let len = len.min(0x7fff_f000) as usize;
    // SAFETY: `offset` is valid during the call; both descriptors are open.
    let n = unsafe { libc::sendfile(socket, file.as_raw_fd(), &mut offset, len) };
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(n as usize)
    }
}

/// Append `len` bytes of a file from `offset` on; the memory is not cleared first.
pub fn append_file(file: &File, mut offset: u64, len: usize, out: &mut Vec<u8>) -> io::Result<()> {
    let end = out.len() + len;
    out.reserve(len);
    while out.len() < end {
        let left = end - out.len();
        let room = out.spare_capacity_mut().as_mut_ptr();
        // SAFETY: `reserve` made room for all remaining bytes, and the kernel writes no more.
        let n = unsafe { libc::pread(file.as_raw_fd(), room.cast(), left, offset as libc::off_t) };
        match n {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n if n < 0 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            n => {
                // SAFETY: the kernel initialized these bytes, which are within the capacity.
                unsafe { out.set_len(out.len() + n as usize) };
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// Shut down a connection in both directions; its user sees that the peer closed it.
pub fn hang_up(fd: RawFd) {
    // SAFETY: shutdown takes no pointers. An error means that the connection has already ended.
    unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
}

pub fn close_write(fd: RawFd) {
    // SAFETY: shutdown takes no pointers; an error means that the peer has already left.
    unsafe {
        libc::shutdown(fd, libc::SHUT_WR);
    }
}

/// Sets an integer socket option.
pub fn set_option(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: `value` is valid during the call and its size is given.
    check(unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as u32,
        )
    })?;
    Ok(())
}

/// The pending error of a socket, such as after a connect.
pub fn take_error(fd: RawFd) -> io::Result<()> {
    let mut error: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: both pointers are valid during the call and `len` is the size.
    check(unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut error).cast(),
            &mut len,
        )
    })?;
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

/// A listening socket.
pub trait Listening {
    fn raw(&self) -> RawFd;

    /// Accept a connection, non-blocking and close-on-exec, with its peer's raw address.
    fn accept(&self) -> io::Result<(OwnedFd, libc::sockaddr_storage, u32)> {
        // SAFETY: an all-zero sockaddr_storage is valid.
        let mut addr: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: `addr` and `len` are valid during the call and belong together; nothing else owns
        // the new descriptor.
        let fd = unsafe {
            let fd = libc::accept4(self.raw(), (&raw mut addr).cast(), &mut len, flags);
            OwnedFd::from_raw_fd(check(fd)?)
        };
        Ok((fd, addr, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_file_is_appended_or_nothing_is_made_up() {
        let path = std::env::temp_dir().join(format!("gallop-sys-{}", std::process::id()));
        std::fs::write(&path, b"0123456789").expect("a file");
        let file = File::open(&path).expect("the file");
        let mut out = b"x".to_vec();
        append_file(&file, 2, 3, &mut out).expect("a part");
        assert_eq!(out, b"x234");
        let error = append_file(&file, 8, 3, &mut out).expect_err("too short");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        std::fs::remove_file(&path).expect("the file is ours");
    }
}
