//! Stream sockets.

use crate::address::{raw_inet, raw_unix, RawAddress};
use crate::io::IoFd;
use crate::sys;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::task::{ready, Context, Poll};

/// A connected stream socket.
pub struct Sock {
    io: IoFd,
}

impl Sock {
    pub fn new(fd: OwnedFd) -> io::Result<Sock> {
        let io = IoFd::sole(fd)?;
        io.set_readable();
        io.set_writable();
        Ok(Sock { io })
    }

    pub fn raw(&self) -> RawFd {
        self.io.raw()
    }

    pub fn io(&self) -> &IoFd {
        &self.io
    }

    /// A socket that was just accepted. On busy servers, bytes have often arrived already, and some
    /// requests are served before any wait is needed.
    pub fn accepted(fd: OwnedFd) -> Sock {
        let io = IoFd::later(fd);
        io.set_readable();
        io.set_writable();
        Sock { io }
    }

    /// A socket that was just connected and not written to: there is nothing to read.
    pub fn connected(fd: OwnedFd) -> Sock {
        let io = IoFd::later(fd);
        io.set_writable();
        Sock { io }
    }

    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_in(cx, buf.len(), || sys::read(self.raw(), buf))
    }

    /// Read up to `room` bytes and append them to `buf`; the memory is not cleared first.
    pub fn poll_read_more(
        &self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_in(cx, room, || sys::read_more(self.raw(), buf, room))
    }

    fn poll_in(
        &self,
        cx: &mut Context<'_>,
        want: usize,
        mut op: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_readable(cx));
            match op() {
                Ok(n) => {
                    // Fewer bytes than requested: the socket is drained, and a new event will come.
                    if n < want && n > 0 {
                        self.io.clear_readable();
                    }
                    return Poll::Ready(Ok(n));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.io.clear_readable();
                    if self.io.is_hung_up() {
                        return Poll::Ready(Ok(0));
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }

    /// Read bytes; 0 means that the peer closed its side.
    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buf)).await
    }

    /// Wait until more than `known` bytes are readable, and read them without consuming any.
    pub async fn peek(&self, buf: &mut [u8], known: usize) -> io::Result<usize> {
        loop {
            self.io.readable().await;
            match sys::peek(self.raw(), buf) {
                Ok(n) if n > known || n == 0 || self.io.is_hung_up() => return Ok(n),
                Ok(_) => self.io.clear_readable(),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.io.clear_readable(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether bytes have arrived, including those without an event yet.
    pub fn has_come(&self) -> bool {
        let come = matches!(sys::peek(self.raw(), &mut [0]), Ok(n) if n > 0);
        if come {
            self.io.set_readable();
        }
        come
    }

    /// Read without waiting; `None` if no bytes are available.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        if !self.io.is_readable() {
            return Ok(None);
        }
        match self.poll_read(&mut cx, buf) {
            Poll::Ready(r) => r.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    pub fn poll_write(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        more: bool,
    ) -> Poll<io::Result<usize>> {
        self.poll_out(cx, || sys::write(self.raw(), buf, more))
    }

    pub fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        more: bool,
    ) -> Poll<io::Result<usize>> {
        self.poll_out(cx, || sys::write_vectored(self.raw(), bufs, more))
    }

    pub fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        len: u64,
    ) -> Poll<io::Result<usize>> {
        self.poll_out(cx, || sys::send_file(self.raw(), file, offset, len))
    }

    fn poll_out(
        &self,
        cx: &mut Context<'_>,
        mut op: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_writable(cx));
            match op() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.io.clear_writable(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// Write without waiting. Returns the bytes taken, 0 if there is no room.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        match sys::write(self.raw(), buf, false) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.io.clear_writable();
                Ok(0)
            }
            other => other,
        }
    }

    pub async fn write_all(&self, mut buf: &[u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let n = poll_fn(|cx| self.poll_write(cx, buf, false)).await?;
            buf = &buf[n..];
        }
        Ok(())
    }

    pub fn close_write(&self) {
        sys::close_write(self.raw());
    }

    /// Wait until the peer has closed or reset the connection.
    pub async fn hung_up(&self) {
        poll_fn(|cx| {
            if self.io.is_hung_up() {
                return Poll::Ready(());
            }
            // This uses the reader's place: a task that waits here does not read at the same time.
            self.io.clear_readable();
            let _ = self.io.poll_readable(cx);
            if self.io.is_hung_up() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// The destination of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConnectTo {
    Inet(SocketAddr),
    Unix(PathBuf),
}

/// Connect without blocking; `bind` is the local address.
pub async fn connect(to: &ConnectTo, bind: Option<SocketAddr>) -> io::Result<Sock> {
    let (fd, result) = start_connect(to, bind)?;
    let io = IoFd::sole(fd)?;
    match result {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {
            io.writable().await;
            sys::take_error(io.raw())?;
        }
        Err(e) => return Err(e),
    }
    io.set_writable();
    io.set_readable();
    Ok(Sock { io })
}

/// A socket, and the result of connecting: `EINPROGRESS` while it continues.
pub type Started = (OwnedFd, io::Result<()>);

/// Begin to connect, for callers that wait themselves.
///
/// # Errors
/// No socket is available, or `bind` is no address of this host.
pub fn start_connect(to: &ConnectTo, bind: Option<SocketAddr>) -> io::Result<Started> {
    match to {
        ConnectTo::Inet(address) => start_connect_inet(address, bind),
        ConnectTo::Unix(path) => start_connect_unix(path),
    }
}

/// Like [`start_connect`], to a Unix socket.
pub fn start_connect_unix(path: &Path) -> io::Result<Started> {
    let address = raw_unix(path)?;
    let fd = new_socket(libc::AF_UNIX, libc::SOCK_STREAM)?;
    let result = connect_now(&fd, &address);
    Ok((fd, result))
}

fn start_connect_inet(to: &SocketAddr, bind: Option<SocketAddr>) -> io::Result<Started> {
    let fd = new_socket(family(to), libc::SOCK_STREAM)?;
    if let Some(local) = bind {
        bind_to(&fd, &local)?;
    }
    let result = connect_now(&fd, &raw_inet(to));
    // Responses are written whole, so waiting for more data would only delay them.
    sys::set_option(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    Ok((fd, result))
}

pub(crate) fn family(address: &SocketAddr) -> i32 {
    match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    }
}

pub(crate) fn bind_to(fd: &OwnedFd, local: &SocketAddr) -> io::Result<()> {
    let (addr, len) = raw_inet(local);
    // SAFETY: `addr` holds `len` bytes of a socket address.
    sys::check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const addr).cast(), len) })?;
    Ok(())
}

pub(crate) fn new_socket(family: i32, kind: i32) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes no pointers; nothing else owns the new descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(sys::check(libc::socket(family, kind, 0))?) })
}

pub(crate) fn connect_now(fd: &OwnedFd, (addr, len): &RawAddress) -> io::Result<()> {
    let addr: *const libc::sockaddr_storage = addr;
    // SAFETY: `addr` holds `len` bytes of a socket address.
    sys::check(unsafe { libc::connect(fd.as_raw_fd(), addr.cast(), *len) })?;
    Ok(())
}
/// The kernel's data about a TCP connection: times in microseconds, a window in segments, and free
/// space in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_cwnd: u32,
    pub rcv_space: u32,
}

/// The data; `None` if the descriptor is no TCP socket.
pub fn tcp_info(fd: RawFd) -> Option<TcpInfo> {
    // SAFETY: the type contains only numbers, for which all zeros is valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`; an invalid descriptor is an error.
    let got = unsafe {
        let place = (&raw mut info).cast();
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &raw mut len)
    };
    (got == 0).then_some(TcpInfo {
        rtt: info.tcpi_rtt,
        rttvar: info.tcpi_rttvar,
        snd_cwnd: info.tcpi_snd_cwnd,
        rcv_space: info.tcpi_rcv_space,
    })
}
