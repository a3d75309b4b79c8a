//! Binding the listening sockets.

use crate::steering::Group;
use gallop_conf::model::{ListenAddr, Listener, SocketOptions};
use gallop_conf::parser::os_error;
use gallop_runtime::{check, raw_inet, raw_unix, set_option};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

/// A bound listener. With `reuseport`, and for QUIC, each thread has its own socket.
#[derive(Clone, Debug)]
pub struct Bound {
    pub addr: ListenAddr,
    pub quic: bool,
    /// UDP of `stream`. Each thread has its own socket: the kernel chooses it by both addresses, so
    /// that all datagrams of a client reach the same thread.
    pub udp: bool,
    pub sockets: Vec<Arc<OwnedFd>>,
    /// The group of QUIC sockets, including those of workers that have not ended; `None` if the
    /// kernel does not support steering.
    pub group: Option<Group>,
}

impl Bound {
    pub fn serves(&self, listener: &Listener) -> bool {
        let own = (&self.addr, self.quic, self.udp);
        own == (&listener.addr, listener.quic, listener.udp)
    }

    /// The label that connection ids must carry so that the kernel steers their packets to this
    /// socket.
    pub fn label(&self, socket: &Arc<OwnedFd>) -> Option<u8> {
        let members = self.group.iter().flat_map(|group| &group.members);
        let mut same = members.filter(|member| Arc::ptr_eq(&member.socket, socket));
        same.next().and_then(|member| member.label)
    }
}

/// Bind every listener, reusing sockets of the same address from `before`.
pub fn bind_all(
    listeners: &[&Listener],
    threads: usize,
    before: &[Bound],
) -> Result<Vec<Bound>, String> {
    let bind = |l: &&Listener| {
        let old = before.iter().find(|b| b.serves(l));
        if l.quic {
            bind_quic(l, threads, old)
        } else {
            bind_one(l, threads, old)
        }
    };
    listeners.iter().map(bind).collect()
}

/// Install the steering of QUIC packets to the sockets of the new workers.
pub fn steer(bound: &[Bound]) -> Result<(), String> {
    for bound in bound {
        if let Some(Err(e)) = bound.group.as_ref().map(Group::steer) {
            let words = os_error(&e);
            return Err(format!("setsockopt() {} failed ({words})", bound.addr));
        }
    }
    Ok(())
}

/// Drop the sockets of workers that have ended; `true` if there were any.
pub fn release_old(bound: &mut [Bound]) -> bool {
    let groups = bound.iter_mut().filter_map(|bound| bound.group.as_mut());
    groups.fold(false, |any, group| group.release() | any)
}

/// In a worker, close the sockets of other workers.
pub fn keep_own(bound: &mut [Bound]) {
    let groups = bound.iter_mut().filter_map(|bound| bound.group.as_mut());
    groups.for_each(Group::keep_newest);
}

/// Bind the sockets for QUIC. All datagrams of a connection must reach the same thread of the same
/// process.
fn bind_quic(l: &Listener, threads: usize, old: Option<&Bound>) -> Result<Bound, String> {
    let group = old.map_or(Some(Group::default()), |old| old.group.clone());
    let Some(mut group) = group else {
        return bind_one(l, threads, old);
    };
    let sockets = group.renew(threads, || open(l))?;
    for socket in &sockets {
        set_buffers(socket.as_raw_fd(), &l.socket)
            .map_err(|e| format!("setsockopt() {} failed ({})", l.addr, os_error(&e)))?;
    }
    // The previous sockets keep their own steering program until new workers begin.
    let steers = old.is_some() || group.steer().is_ok();
    Ok(Bound {
        addr: l.addr.clone(),
        quic: true,
        udp: false,
        sockets,
        group: steers.then_some(group),
    })
}

fn bind_one(l: &Listener, threads: usize, old: Option<&Bound>) -> Result<Bound, String> {
    let mut sockets = old.map_or(Vec::new(), |o| o.sockets.clone());
    let is_unix = matches!(l.addr, ListenAddr::Unix(_));
    // A path belongs to one socket.
    let wanted = if (l.socket.reuseport || l.is_datagram()) && !is_unix {
        threads
    } else {
        1
    };
    if l.udp && !is_unix {
        for socket in &sockets {
            // One that another program opened may not share its address yet.
            set_option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)
                .and_then(|()| set_buffers(socket.as_raw_fd(), &l.socket))
                .map_err(|e| format!("setsockopt() {} failed ({})", l.addr, os_error(&e)))?;
        }
    }
    while sockets.len() < wanted {
        sockets.push(Arc::new(open(l)?));
    }
    for socket in &sockets {
        start_listening(socket.as_raw_fd(), l).map_err(|e| {
            let backlog = l.socket.backlog.unwrap_or(DEFAULT_BACKLOG);
            format!(
                "listen() to {}, backlog {backlog} failed ({})",
                l.addr,
                os_error(&e)
            )
        })?;
    }
    Ok(Bound {
        addr: l.addr.clone(),
        quic: l.quic,
        udp: l.udp,
        sockets,
        group: None,
    })
}

const DEFAULT_BACKLOG: i32 = 511;

fn start_listening(fd: RawFd, l: &Listener) -> io::Result<()> {
    if l.is_datagram() {
        return Ok(());
    }
    // SAFETY: listen takes no pointers. Calling it again only changes the backlog.
    if unsafe { libc::listen(fd, l.socket.backlog.unwrap_or(DEFAULT_BACKLOG)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    if matches!(l.addr, ListenAddr::Inet(_)) {
        // Connections inherit the option (tcp(7)). Responses are written whole, so waiting for more
        // data would only delay them.
        set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    }
    if l.socket.deferred {
        set_option(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 1)?;
    }
    Ok(())
}

fn open(l: &Listener) -> Result<OwnedFd, String> {
    let family = match &l.addr {
        ListenAddr::Inet(SocketAddr::V4(_)) => libc::AF_INET,
        ListenAddr::Inet(SocketAddr::V6(_)) => libc::AF_INET6,
        ListenAddr::Unix(_) => libc::AF_UNIX,
    };
    let kind = if l.is_datagram() {
        libc::SOCK_DGRAM
    } else {
        libc::SOCK_STREAM
    };
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes no pointers; nothing else owns the new descriptor.
    let fd = unsafe {
        let fd = libc::socket(family, kind, 0);
        if fd < 0 {
            let e = io::Error::last_os_error();
            return Err(format!("socket() {} failed ({})", l.addr, os_error(&e)));
        }
        OwnedFd::from_raw_fd(fd)
    };
    set_options(fd.as_raw_fd(), l)
        .map_err(|e| format!("setsockopt() {} failed ({})", l.addr, os_error(&e)))?;
    bind(fd.as_raw_fd(), &l.addr, l.socket.mode)
        .map_err(|e| format!("bind() to {} failed ({})", l.addr, os_error(&e)))?;
    Ok(fd)
}

fn set_options(fd: RawFd, l: &Listener) -> io::Result<()> {
    let ListenAddr::Inet(inet) = &l.addr else {
        return Ok(());
    };
    let o = &l.socket;
    if !l.udp {
        set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    }
    if o.reuseport || l.is_datagram() {
        set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    if inet.is_ipv6() {
        let only = i32::from(o.ipv6only.unwrap_or(true));
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, only)?;
    }
    set_buffers(fd, o)?;
    if let Some((on, idle, interval, count)) = o.keepalive {
        set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, i32::from(on))?;
        let times = [
            (libc::TCP_KEEPIDLE, idle),
            (libc::TCP_KEEPINTVL, interval),
            (libc::TCP_KEEPCNT, count),
        ];
        for (name, value) in times {
            if let Some(value) = value {
                set_option(fd, libc::IPPROTO_TCP, name, value as i32)?;
            }
        }
    }
    if let Some(queue) = o.fastopen {
        set_option(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, queue)?;
    }
    Ok(())
}

/// Set the buffer sizes, also for an inherited socket.
fn set_buffers(fd: RawFd, o: &SocketOptions) -> io::Result<()> {
    if let Some(size) = o.rcvbuf {
        set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, size as i32)?;
    }
    if let Some(size) = o.sndbuf {
        set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, size as i32)?;
    }
    Ok(())
}

fn bind(fd: RawFd, addr: &ListenAddr, mode: Option<u32>) -> io::Result<()> {
    match addr {
        ListenAddr::Inet(inet) => {
            let (raw, len) = raw_inet(inet);
            // SAFETY: `raw` holds `len` bytes of a socket address and lives through the call.
            check(unsafe { libc::bind(fd, (&raw const raw).cast(), len) })?;
            Ok(())
        }
        ListenAddr::Unix(path) => {
            let (raw, len) = raw_unix(path)?;
            if let Some(mode) = mode {
                // The file gets the permissions of the descriptor, so it is never open to others.
                // SAFETY: fchmod takes no pointers.
                check(unsafe { libc::fchmod(fd, mode) })?;
            }
            // SAFETY: `raw` lives through the call.
            check(unsafe { libc::bind(fd, (&raw const raw).cast(), len) })?;
            // Workers without privileges and clients of other users must be able to connect.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode.unwrap_or(0o666));
            std::fs::set_permissions(path, mode)
        }
    }
}

/// The internet address in a raw socket address; `None` for Unix sockets.
pub fn inet_of(raw: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(raw.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family tells which type the storage holds.
            let v4 = unsafe { &*(&raw const *raw).cast::<libc::sockaddr_in>() };
            let ip = v4.sin_addr.s_addr.to_ne_bytes();
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family tells which type the storage holds.
            let v6 = unsafe { &*(&raw const *raw).cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::new(
                v6.sin6_addr.s6_addr.into(),
                u16::from_be(v6.sin6_port),
            ))
        }
        _ => None,
    }
}

/// The local address of a connection.
pub fn local_addr(fd: RawFd) -> Option<SocketAddr> {
    // SAFETY: an all-zero sockaddr_storage is valid.
    let mut raw: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: both pointers are valid during the call and `len` is the size.
    let result = unsafe { libc::getsockname(fd, (&raw mut raw).cast(), &mut len) };
    if result < 0 {
        None
    } else {
        inet_of(&raw)
    }
}

/// The address that a socket is bound to; `None` for an address that `listen` cannot express.
pub fn address_of(socket: &OwnedFd) -> Option<ListenAddr> {
    if let Some(inet) = local_addr(socket.as_raw_fd()) {
        return Some(ListenAddr::Inet(inet));
    }
    let unix = UnixListener::from(socket.try_clone().ok()?).local_addr();
    let path = unix.ok()?.as_pathname()?.to_path_buf();
    Some(ListenAddr::Unix(path))
}

/// Whether a socket receives datagrams.
pub fn is_datagram(socket: &OwnedFd) -> bool {
    let mut kind: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: both pointers are valid during the call and `len` is the size.
    let result = unsafe {
        let place = (&raw mut kind).cast();
        let fd = socket.as_raw_fd();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, place, &mut len)
    };
    result == 0 && kind == libc::SOCK_DGRAM
}

/// The paths of Unix sockets without a listener.
pub fn stale_unix(before: &[Bound], now: &[Bound]) -> Vec<PathBuf> {
    let kept = |path: &PathBuf| now.iter().any(|b| b.addr == ListenAddr::Unix(path.clone()));
    before
        .iter()
        .filter_map(|b| match &b.addr {
            ListenAddr::Unix(path) if !kept(path) => Some(path.clone()),
            _ => None,
        })
        .collect()
}
