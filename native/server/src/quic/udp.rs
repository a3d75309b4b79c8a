//! UDP in batches: recvmmsg for input, sendmmsg with segmentation offload for output. The only
//! unsafe code of the QUIC side.

use bytes::BytesMut;
use gallop_quic::{Datagram, Ecn, Output, Transmit};
use gallop_runtime::write_inet;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr;

/// The most datagrams of one system call.
pub const BATCH: usize = 64;
/// Room for one datagram of usual size.
const DATAGRAM: usize = 2048;
/// Room for the rest of a large datagram over loopback. Unused memory costs nothing.
const OVERFLOW: usize = 65_536 - DATAGRAM;
/// After this many datagrams of at most [`DATAGRAM`] bytes, no room for longer ones is offered: the
/// second piece of memory costs the kernel time for each datagram.
const SHORT_RUN: usize = 1024;
/// Room for the control messages of one datagram, in words for alignment.
const CONTROL_WORDS: usize = 12;

type Control = [u64; CONTROL_WORDS];

/// The size that every path carries (RFC 9000, section 14): datagrams up to it can be sent as one
/// message.
const CARRIED: usize = 1200;

/// The parameters of a batched system call, filled for each datagram of each call.
struct Batch {
    names: [libc::sockaddr_storage; BATCH],
    iovs: [libc::iovec; 2 * BATCH],
    controls: [Control; BATCH],
    messages: [libc::mmsghdr; BATCH],
}

impl Batch {
    fn new() -> Box<Self> {
        // SAFETY: all-zero values of these types are valid: null pointers with zero lengths.
        Box::new(unsafe { zeroed() })
    }

    /// Point message `i` at its name, its control memory, and these pieces of memory.
    fn message(&mut self, i: usize, pieces: Range<usize>) -> (&mut libc::msghdr, &mut Control) {
        let header = &mut self.messages[i].msg_hdr;
        header.msg_name = (&raw mut self.names[i]).cast();
        header.msg_iovlen = pieces.len() as _;
        header.msg_iov = self.iovs[pieces].as_mut_ptr();
        (header, &mut self.controls[i])
    }
}

/// Reusable memory for receiving.
pub struct Receiver {
    arena: BytesMut,
    overflow: Vec<u8>,
    /// Datagrams since the last one that was longer than [`DATAGRAM`]. From [`SHORT_RUN`] on, the
    /// next long one is dropped (it may be an MTU probe); the long ones after it are received
    /// completely again.
    short_run: usize,
    /// No datagram may be dropped for its length.
    takes_long: bool,
    batch: Box<Batch>,
    /// The memory that the messages point at, whether this includes the overflow, and how many
    /// messages the last call filled.
    described: (usize, bool),
    filled: usize,
}

impl Default for Receiver {
    fn default() -> Self {
        Self {
            arena: BytesMut::new(),
            overflow: Vec::with_capacity(BATCH * OVERFLOW),
            short_run: 0,
            takes_long: false,
            batch: Batch::new(),
            described: (0, false),
            filled: 0,
        }
    }
}

impl Receiver {
    /// Offer room for long datagrams always.
    pub fn taking_long(self) -> Self {
        Self {
            takes_long: true,
            ..self
        }
    }

    /// Receive up to [`BATCH`] waiting datagrams and pass each to `each`. Returns their number.
    ///
    /// # Errors
    /// `WouldBlock` if none waits; any other error is the socket's.
    pub fn receive(&mut self, fd: RawFd, mut each: impl FnMut(Datagram)) -> io::Result<usize> {
        self.arena.clear();
        // Reuse the old memory once nothing reads from it.
        self.arena.reserve(BATCH * DATAGRAM);
        self.describe();
        let flags = libc::MSG_DONTWAIT as _;
        let messages = self.batch.messages.as_mut_ptr();
        // SAFETY: each message points at its own name, iovec, and control memory, which are valid
        // during the call and have the given lengths.
        let n = unsafe { libc::recvmmsg(fd, messages, BATCH as u32, flags, ptr::null_mut()) };
        if n < 0 {
            self.filled = 0;
            return Err(io::Error::last_os_error());
        }
        self.filled = n as usize;
        for i in 0..n as usize {
            let message = &self.batch.messages[i];
            let len = message.msg_len as usize;
            let is_cut = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            let remote = read_address(&message.msg_hdr);
            let (local, ecn) = read_control(&message.msg_hdr);
            // SAFETY: this datagram's part is the next DATAGRAM bytes of the arena's capacity. The
            // kernel initialized up to `msg_len` of them; the part is shortened to those before it
            // is read.
            unsafe { self.arena.set_len(DATAGRAM) };
            let mut part = self.arena.split_to(DATAGRAM);
            part.truncate(len);
            self.short_run = match len > DATAGRAM || is_cut {
                true => 0,
                false => self.short_run.saturating_add(1),
            };
            if is_cut {
                continue;
            }
            if len > DATAGRAM {
                part = self.join(&part, i, len - DATAGRAM);
            }
            let Some(remote) = remote else { continue };
            each(Datagram {
                remote,
                local,
                data: part,
                ecn,
            });
        }
        Ok(n as usize)
    }

    /// Join the start of a datagram with the `more` bytes in the overflow of message `i`.
    fn join(&self, start: &[u8], i: usize, more: usize) -> BytesMut {
        let more = more.min(OVERFLOW);
        // SAFETY: message `i` wrote `more` bytes at its place in the overflow memory.
        let rest =
            unsafe { std::slice::from_raw_parts(self.overflow.as_ptr().add(i * OVERFLOW), more) };
        let mut whole = BytesMut::with_capacity(start.len() + more);
        whole.extend_from_slice(start);
        whole.extend_from_slice(rest);
        whole
    }

    /// Point each message at its memory. Most calls fill few messages and find the same memory free
    /// again; then only the lengths of those few are reset.
    fn describe(&mut self) {
        let base: *mut u8 = self.arena.spare_capacity_mut().as_mut_ptr().cast();
        let overflow = self.overflow.as_mut_ptr();
        let takes_long = self.takes_long || self.short_run < SHORT_RUN;
        let memory = (base.addr(), takes_long);
        let known = std::mem::replace(&mut self.described, memory) == memory;
        let batch = &mut *self.batch;
        for i in 0..if known { self.filled } else { BATCH } {
            let first = 2 * i;
            batch.iovs[first] = libc::iovec {
                iov_base: base.wrapping_add(i * DATAGRAM).cast(),
                iov_len: DATAGRAM,
            };
            batch.iovs[first + 1] = libc::iovec {
                iov_base: overflow.wrapping_add(i * OVERFLOW).cast(),
                iov_len: OVERFLOW,
            };
            let pieces = 1 + usize::from(takes_long);
            let (header, control) = batch.message(i, first..first + pieces);
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
    }
}

fn read_address(header: &libc::msghdr) -> Option<SocketAddr> {
    // SAFETY: msg_name points at our sockaddr_storage, which the kernel filled.
    let storage = unsafe { &*header.msg_name.cast::<libc::sockaddr_storage>() };
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is a sockaddr_in, and the storage is large enough.
            let raw = unsafe { &*header.msg_name.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is a sockaddr_in6, and the storage is large enough.
            let raw = unsafe { &*header.msg_name.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            let port = u16::from_be(raw.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, raw.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Read the local address of a datagram, if present, and its ECN mark.
fn read_control(header: &libc::msghdr) -> (Option<IpAddr>, Ecn) {
    let (mut local, mut ecn) = (None, Ecn::None);
    // SAFETY: the kernel filled the header's control memory and set its length.
    let mut cmsg = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !cmsg.is_null() {
        // SAFETY: the pointer is not null, so it points at a complete control message header in
        // that memory.
        let (level, kind) = unsafe { ((*cmsg).cmsg_level, (*cmsg).cmsg_type) };
        // SAFETY: the data follow the header.
        let data = unsafe { libc::CMSG_DATA(cmsg) };
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                // SAFETY: this kind of message holds a byte.
                ecn = Ecn::of(unsafe { *data });
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // SAFETY: this kind of message holds an int; it need not be aligned.
                ecn = Ecn::of(unsafe { ptr::read_unaligned(data.cast::<i32>()) } as u8);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // SAFETY: this kind of message holds an in_pktinfo; it need not be aligned.
                let info = unsafe { ptr::read_unaligned(data.cast::<libc::in_pktinfo>()) };
                local = Some(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: this kind of message holds an in6_pktinfo; it need not be aligned.
                let info = unsafe { ptr::read_unaligned(data.cast::<libc::in6_pktinfo>()) };
                local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
            }
            _ => {}
        }
        // SAFETY: the header and the message belong together.
        cmsg = unsafe { libc::CMSG_NXTHDR(header, cmsg) };
    }
    (local, ecn)
}

/// Outgoing datagrams, gathered into batches.
pub struct Sender {
    buffers: Vec<Vec<u8>>,
    queue: Vec<Transmit>,
    batch: Box<Batch>,
    /// The socket marks datagrams with ECT(0) unless they say otherwise.
    marks: bool,
    /// Consecutive datagrams for one address are passed to the kernel as one message.
    joins: bool,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            buffers: Vec::new(),
            queue: Vec::new(),
            batch: Batch::new(),
            marks: false,
            joins: false,
        }
    }
}

impl Output for Sender {
    fn buffer(&mut self) -> &mut Vec<u8> {
        let next = self.queue.len();
        if next == self.buffers.len() {
            self.buffers.push(Vec::new());
        }
        let buffer = &mut self.buffers[next];
        buffer.clear();
        buffer
    }

    fn push(&mut self, transmit: Transmit) {
        self.queue.push(transmit);
    }

    fn is_full(&self) -> bool {
        self.queue.len() == BATCH
    }
}

impl Sender {
    /// Create a sender for a socket for which [`prepare`] returned that it `marks`.
    pub fn marking(marks: bool) -> Self {
        Self {
            marks,
            ..Self::default()
        }
    }

    /// Send consecutive datagrams for one address as one message with segmentation offload, even if
    /// they belong to different connections: several connections of a client may share its socket.
    pub fn joining(self, joins: bool) -> Self {
        Self { joins, ..self }
    }

    /// Whether no datagram is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Remove the queued datagrams, for callers that deliver them without a socket.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        let queued = self.queue.drain(..).zip(&self.buffers);
        queued
            .flat_map(|(outgoing, buffer)| {
                let size = outgoing.segment.unwrap_or(buffer.len()).max(1);
                buffer.chunks(size).map(<[u8]>::to_vec)
            })
            .collect()
    }

    /// Send the queued datagrams. Datagrams that the kernel refuses are dropped, as on any network:
    /// QUIC sends their content again.
    ///
    /// # Errors
    /// `WouldBlock` if the socket is full; unsent datagrams stay queued.
    pub fn flush(&mut self, fd: RawFd) -> io::Result<()> {
        let mut done = 0;
        let mut result = Ok(());
        while done < self.queue.len() {
            match self.send(fd, done) {
                Ok(n) => done += n.max(1),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    result = Err(e);
                    break;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The destination is unreachable, a datagram exceeds the path's MTU, or a device
                // does not support segmentation.
                Err(_) => done += self.send_apart(fd, done),
            }
        }
        self.queue.drain(..done);
        let left = self.queue.len();
        self.buffers[..done + left].rotate_left(done);
        result
    }

    /// The number of datagrams from `at` on that form one message: all but the last have the same
    /// size.
    #[inline]
    fn run(&self, at: usize) -> usize {
        let (first, size) = (self.queue[at], self.buffers[at].len());
        if !self.joins || first.segment.is_some() || size > CARRIED {
            return 1;
        }
        let rest = self.queue[at..].iter().zip(&self.buffers[at..]).skip(1);
        let mut run = 1;
        for (next, buffer) in rest {
            if *next != first || buffer.len() > size {
                break;
            }
            run += 1;
            if buffer.len() < size {
                break;
            }
        }
        run
    }

    /// Send messages from `from` on. Returns the number of queued datagrams in them.
    fn send(&mut self, fd: RawFd, from: usize) -> io::Result<usize> {
        let (mut at, mut count) = (from, 0);
        while at < self.queue.len() {
            let run = self.run(at);
            self.describe(count, at..at + run);
            at += run;
            count += 1;
        }
        let messages = &mut self.batch.messages[..count];
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: these messages point at names, iovecs, buffers, and control memory that are valid
        // during the call and have the given lengths.
        let n = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count as u32, flags) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        let sent = &messages[..n as usize];
        Ok(sent.iter().map(|m| m.msg_hdr.msg_iovlen).sum())
    }

    /// Fill message `i` with the queued datagrams at these places.
    fn describe(&mut self, i: usize, queued: Range<usize>) {
        let batch = &mut *self.batch;
        let mut outgoing = self.queue[queued.start];
        if queued.len() > 1 {
            outgoing.segment = Some(self.buffers[queued.start].len());
        }
        for (at, buffer) in queued.clone().zip(&mut self.buffers[queued.clone()]) {
            batch.iovs[at] = libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            };
        }
        let named = write_inet(&mut batch.names[i], &outgoing.remote);
        let (header, control) = batch.message(i, queued);
        header.msg_namelen = named;
        write_control(header, control, &outgoing, self.marks);
    }

    /// Send the datagrams of the refused message at `at` one by one. Returns the number of queued
    /// datagrams in it. Datagrams that are refused again are dropped.
    fn send_apart(&mut self, fd: RawFd, at: usize) -> usize {
        let run = self.run(at);
        let mut taken = false;
        for place in at..at + run {
            let Transmit { segment, .. } = self.queue[place];
            if run == 1 && segment.is_none() {
                return run;
            }
            self.queue[place].segment = None;
            self.describe(0, place..place + 1);
            let whole = self.batch.iovs[place];
            let size = segment.unwrap_or(whole.iov_len).max(1);
            for start in (0..whole.iov_len).step_by(size) {
                self.batch.iovs[place] = libc::iovec {
                    iov_base: whole.iov_base.wrapping_byte_add(start),
                    iov_len: size.min(whole.iov_len - start),
                };
                let header = &self.batch.messages[0].msg_hdr;
                // SAFETY: the message points at its name, iovec, and control memory; the iovec
                // points at a queued part of the buffer. All are valid during the call.
                let sent = unsafe { libc::sendmsg(fd, header, libc::MSG_DONTWAIT) };
                taken |= sent >= 0;
            }
        }
        // The kernel refused the segmentation, not the destination.
        self.joins &= !taken;
        run
    }
}

/// Append the control messages of a datagram: its source address, its segment size, and the absence
/// of a mark if the socket `marks`.
fn write_control(
    header: &mut libc::msghdr,
    control: &mut Control,
    outgoing: &Transmit,
    marks: bool,
) {
    let unmarked = marks && !outgoing.ecn;
    if outgoing.local.is_none() && outgoing.segment.is_none() && !unmarked {
        header.msg_control = ptr::null_mut();
        header.msg_controllen = 0;
        return;
    }
    header.msg_control = control.as_mut_ptr().cast();
    let mut at = 0;
    match outgoing.local {
        Some(IpAddr::V4(ip)) => {
            // SAFETY: an all-zero in_pktinfo is valid.
            let mut info = unsafe { zeroed::<libc::in_pktinfo>() };
            info.ipi_spec_dst.s_addr = u32::from_ne_bytes(ip.octets());
            at = push_control(control, at, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        Some(IpAddr::V6(ip)) => {
            // SAFETY: an all-zero in6_pktinfo is valid.
            let mut info = unsafe { zeroed::<libc::in6_pktinfo>() };
            info.ipi6_addr.s6_addr = ip.octets();
            at = push_control(control, at, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
        None => {}
    }
    if let Some(segment) = outgoing.segment {
        at = push_control(
            control,
            at,
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            segment as u16,
        );
    }
    if unmarked {
        let (level, kind) = match outgoing.remote.ip().to_canonical() {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        at = push_control(control, at, level, kind, 0i32);
    }
    header.msg_controllen = at as _;
}

fn push_control<T: Copy>(
    control: &mut Control,
    at: usize,
    level: i32,
    kind: i32,
    value: T,
) -> usize {
    // SAFETY: these two functions only compute.
    let (space, len) = unsafe {
        (
            libc::CMSG_SPACE(size_of::<T>() as u32) as usize,
            libc::CMSG_LEN(size_of::<T>() as u32) as usize,
        )
    };
    assert!(at + space <= size_of::<Control>(), "control messages fit");
    let cmsg = control
        .as_mut_ptr()
        .cast::<u8>()
        .wrapping_add(at)
        .cast::<libc::cmsghdr>();
    // SAFETY: the assertion leaves room for header and value at `at`, which is aligned as
    // CMSG_SPACE requires; the value is written unaligned.
    unsafe {
        (*cmsg).cmsg_level = level;
        (*cmsg).cmsg_type = kind;
        (*cmsg).cmsg_len = len as _;
        ptr::write_unaligned(libc::CMSG_DATA(cmsg).cast::<T>(), value);
    }
    at + space
}

/// Prepare a UDP socket bound to `ip`: no fragmentation, large buffers, ECN, and the local address
/// of each datagram if there are several. Returns `true` if the socket marks datagrams with ECT(0)
/// by default.
///
/// # Errors
/// The kernel refuses an option that QUIC requires.
pub fn prepare(fd: RawFd, ip: IpAddr) -> io::Result<bool> {
    // The kernel limits the size to net.core.rmem_max; less is no error.
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, 8 << 20);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 8 << 20);
    let (level, info, discover, probe) = match ip {
        IpAddr::V4(_) => (
            libc::IPPROTO_IP,
            libc::IP_PKTINFO,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        ),
        IpAddr::V6(_) => (
            libc::IPPROTO_IPV6,
            libc::IPV6_RECVPKTINFO,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        ),
    };
    // A socket with one address always sends from it; asking for the address of each datagram has a
    // price.
    set(fd, level, info, ip.is_unspecified().into())?;
    set(fd, level, discover, probe)?;
    Ok(mark(fd, ip))
}

/// Let a socket report and set the ECN field of IP headers. An IPv6 socket may also have IPv4
/// clients.
fn mark(fd: RawFd, ip: IpAddr) -> bool {
    let ect0 = Ecn::Ect0 as i32;
    let four = set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)
        .and_then(|()| set(fd, libc::IPPROTO_IP, libc::IP_TOS, ect0));
    if ip.is_ipv4() {
        return four.is_ok();
    }
    set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)
        .and_then(|()| set(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, ect0))
        .and(four)
        .is_ok()
}

fn set(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = size_of::<i32>() as u32;
    // SAFETY: the value is valid during the call, which reads its four bytes.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
