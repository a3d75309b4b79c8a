//! UDP in batches: recvmmsg in, sendmmsg with segmentation offload out. The only unsafe code of the
//! QUIC side.

use bytes::BytesMut;
use gallop_quic::{Datagram, Ecn, Output, Transmit};
use gallop_runtime::write_inet;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::RawFd;
use std::ptr;

/// Datagrams taken or sent by one system call.
pub const BATCH: usize = 64;
/// Room for one datagram as networks carry them.
const DATAGRAM: usize = 2048;
/// Room for what a datagram over loopback has beyond that. Memory that is never used costs nothing.
const OVERFLOW: usize = 65_536 - DATAGRAM;
/// After so many datagrams none of which was longer than [`DATAGRAM`] no longer ones are made room for:
/// the second piece of memory costs the kernel time with each datagram.
const SHORT_RUN: usize = 1024;
/// Room for the control messages of one datagram, in words so that they are aligned.
const CONTROL_WORDS: usize = 12;

type Control = [u64; CONTROL_WORDS];

/// What a batched system call is told and tells, written anew for each datagram of each call.
struct Batch {
    names: [libc::sockaddr_storage; BATCH],
    iovs: [[libc::iovec; 2]; BATCH],
    controls: [Control; BATCH],
    messages: [libc::mmsghdr; BATCH],
}

impl Batch {
    fn new() -> Box<Self> {
        // SAFETY: all-zero values of these types are valid: null pointers with zero lengths.
        Box::new(unsafe { zeroed() })
    }

    /// Has message `i` point at its name and at the first `pieces` of its pieces of memory; its control memory is
    /// its own, too.
    fn message(&mut self, i: usize, pieces: usize) -> (&mut libc::msghdr, &mut Control) {
        let header = &mut self.messages[i].msg_hdr;
        header.msg_name = (&raw mut self.names[i]).cast();
        header.msg_iov = self.iovs[i].as_mut_ptr();
        header.msg_iovlen = pieces as _;
        (header, &mut self.controls[i])
    }
}

/// Memory for receiving, used again and again.
pub struct Receiver {
    arena: BytesMut,
    overflow: Vec<u8>,
    /// Datagrams since one that was longer than [`DATAGRAM`]. From [`SHORT_RUN`] on the next long one is
    /// lost, as what tries a path may be, and those that follow it are taken whole again.
    short_run: usize,
    batch: Box<Batch>,
    /// Which memory the messages point at, whether at the overflow, too, and how many the last call filled.
    described: (usize, bool),
    filled: usize,
}

impl Default for Receiver {
    fn default() -> Self {
        Self {
            arena: BytesMut::new(),
            overflow: Vec::with_capacity(BATCH * OVERFLOW),
            short_run: 0,
            batch: Batch::new(),
            described: (0, false),
            filled: 0,
        }
    }
}

impl Receiver {
    /// Takes up to [`BATCH`] datagrams that are there, handing each to `each`; how many.
    ///
    /// # Errors
    /// `WouldBlock` when there is none; anything else is the socket's.
    pub fn receive(&mut self, fd: RawFd, mut each: impl FnMut(Datagram)) -> io::Result<usize> {
        self.arena.clear();
        // Takes the old memory again once nobody reads from it any more.
        self.arena.reserve(BATCH * DATAGRAM);
        self.describe();
        let flags = libc::MSG_DONTWAIT as _;
        let messages = self.batch.messages.as_mut_ptr();
        // SAFETY: each message points at its own name, iovec and control memory, all of which live
        // through the call, with their true lengths.
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
            // kernel initialised up to `msg_len` of them; the part is cut to those before anyone
            // reads it.
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

    /// A datagram of which `more` bytes are in the overflow of message `i`.
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

    /// Has each message point at its memory. Most calls fill a few, and find the same memory free again: then only
    /// those few are told anew how much room they have.
    fn describe(&mut self) {
        let base: *mut u8 = self.arena.spare_capacity_mut().as_mut_ptr().cast();
        let overflow = self.overflow.as_mut_ptr();
        let takes_long = self.short_run < SHORT_RUN;
        let memory = (base.addr(), takes_long);
        let known = std::mem::replace(&mut self.described, memory) == memory;
        let batch = &mut *self.batch;
        for i in 0..if known { self.filled } else { BATCH } {
            let [start, rest] = &mut batch.iovs[i];
            start.iov_base = base.wrapping_add(i * DATAGRAM).cast();
            start.iov_len = DATAGRAM;
            if takes_long {
                rest.iov_base = overflow.wrapping_add(i * OVERFLOW).cast();
                rest.iov_len = OVERFLOW;
            }
            let (header, control) = batch.message(i, 1 + usize::from(takes_long));
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
    }
}

fn read_address(header: &libc::msghdr) -> Option<SocketAddr> {
    // SAFETY: msg_name points at a sockaddr_storage of ours that the kernel filled.
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

/// Which address of ours a datagram was sent to, if that is told, and how it is marked.
fn read_control(header: &libc::msghdr) -> (Option<IpAddr>, Ecn) {
    let (mut local, mut ecn) = (None, Ecn::None);
    // SAFETY: the header's control memory was filled by the kernel, which set its length.
    let mut cmsg = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !cmsg.is_null() {
        // SAFETY: not null, so it points at a whole control message header in that memory.
        let (level, kind) = unsafe { ((*cmsg).cmsg_level, (*cmsg).cmsg_type) };
        // SAFETY: the data follows the header.
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
        // SAFETY: header and message belong together.
        cmsg = unsafe { libc::CMSG_NXTHDR(header, cmsg) };
    }
    (local, ecn)
}

/// What is to be sent, gathered until there is a batch of it.
pub struct Sender {
    buffers: Vec<Vec<u8>>,
    queue: Vec<Transmit>,
    batch: Box<Batch>,
    /// The socket marks what is sent with ECT(0) where nothing else is said.
    marks: bool,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            buffers: Vec::new(),
            queue: Vec::new(),
            batch: Batch::new(),
            marks: false,
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
    /// One for a socket of which [`prepare`] said that it `marks`.
    pub fn marking(marks: bool) -> Self {
        Self {
            marks,
            ..Self::default()
        }
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes what is queued out as single datagrams, for who carries them without a socket.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        let queued = self.queue.drain(..).zip(&self.buffers);
        queued
            .flat_map(|(outgoing, buffer)| {
                let size = outgoing.segment.unwrap_or(buffer.len()).max(1);
                buffer.chunks(size).map(<[u8]>::to_vec)
            })
            .collect()
    }

    /// Sends what is queued. What the kernel refuses is dropped, as any network might: QUIC sends it
    /// again.
    ///
    /// # Errors
    /// `WouldBlock` when the socket is full; what was not sent stays queued.
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
                // A destination that cannot be reached, or a datagram above the path's MTU.
                Err(_) => done += 1,
            }
        }
        self.queue.drain(..done);
        let left = self.queue.len();
        self.buffers[..done + left].rotate_left(done);
        result
    }

    fn send(&mut self, fd: RawFd, from: usize) -> io::Result<usize> {
        let batch = &mut *self.batch;
        let count = self.queue.len() - from;
        let waiting = self.queue[from..].iter().zip(&mut self.buffers[from..]);
        for (i, (outgoing, buffer)) in waiting.enumerate() {
            let whole = &mut batch.iovs[i][0];
            whole.iov_base = buffer.as_mut_ptr().cast();
            whole.iov_len = buffer.len();
            let named = write_inet(&mut batch.names[i], &outgoing.remote);
            let (header, control) = batch.message(i, 1);
            header.msg_namelen = named;
            write_control(header, control, outgoing, self.marks);
        }
        let (messages, flags) = (batch.messages.as_mut_ptr(), libc::MSG_DONTWAIT as _);
        // SAFETY: the first `count` messages point at names, iovecs, buffers and control memory that
        // live through the call, with their true lengths.
        let n = unsafe { libc::sendmmsg(fd, messages, count as u32, flags) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(n as usize)
    }
}

/// Appends the control messages a datagram needs: its source address, its segment size, and that it has no mark
/// where the socket `marks`.
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
    // SAFETY: these two only compute.
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
    // SAFETY: the assertion left room for header and value at `at`, which is aligned as CMSG_SPACE
    // keeps it; the value is written unaligned.
    unsafe {
        (*cmsg).cmsg_level = level;
        (*cmsg).cmsg_type = kind;
        (*cmsg).cmsg_len = len as _;
        ptr::write_unaligned(libc::CMSG_DATA(cmsg).cast::<T>(), value);
    }
    at + space
}

/// Prepares a UDP socket bound to `ip`: no fragmentation, large buffers, ECN, and our own address with each
/// datagram where there are several. True when what is sent is marked with ECT(0) where nothing else is said.
///
/// # Errors
/// The kernel refuses an option that QUIC cannot do without.
pub fn prepare(fd: RawFd, ip: IpAddr) -> io::Result<bool> {
    // The kernel gives no more than net.core.rmem_max allows; less is no error.
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
    // What a socket of one address sends is from there anyway; asking costs some for each datagram.
    set(fd, level, info, ip.is_unspecified().into())?;
    set(fd, level, discover, probe)?;
    Ok(mark(fd, ip))
}

/// Has a socket tell and set the ECN field of IP headers. A socket of IPv6 may have clients of IPv4, too.
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
    // SAFETY: the value lives through the call, which reads its four bytes.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    fn socket(address: &str) -> UdpSocket {
        let socket = UdpSocket::bind(address).unwrap();
        prepare(socket.as_raw_fd(), socket.local_addr().unwrap().ip()).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        socket
    }

    /// Takes as many datagrams as are awaited: address of ours, length and first byte of each.
    fn take(
        receiver: &mut Receiver,
        ours: &UdpSocket,
        from: SocketAddr,
        count: usize,
    ) -> Vec<(Option<IpAddr>, usize, u8)> {
        let mut seen = Vec::new();
        while seen.len() < count {
            let result = receiver.receive(ours.as_raw_fd(), |datagram| {
                assert_eq!(datagram.remote, from);
                seen.push((datagram.local, datagram.data.len(), datagram.data[0]));
            });
            assert!(result.unwrap() <= BATCH);
        }
        let nothing = receiver.receive(ours.as_raw_fd(), |_| {});
        assert_eq!(nothing.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        seen
    }

    #[test]
    fn datagrams_come_with_their_addresses() {
        for (bound, ip, told) in [
            ("127.0.0.1:0", "127.0.0.1", false),
            ("0.0.0.0:0", "127.0.0.1", true),
            ("[::1]:0", "::1", false),
            ("[::]:0", "::1", true),
        ] {
            let ip: IpAddr = ip.parse().unwrap();
            let (ours, theirs) = (socket(bound), UdpSocket::bind((ip, 0)).unwrap());
            let to = (ip, ours.local_addr().unwrap().port());
            for n in 0..100u8 {
                theirs.send_to(&[n; 1200], to).unwrap();
            }
            let from = theirs.local_addr().unwrap();
            let seen = take(&mut Receiver::default(), &ours, from, 100);
            let want: Vec<_> = (0..100).map(|n| (told.then_some(ip), 1200, n)).collect();
            assert_eq!(seen, want);
        }
    }

    #[test]
    fn long_datagrams_are_taken_whole_unless_there_were_none_for_long() {
        let (ours, theirs) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let from = theirs.local_addr().unwrap();
        let send = |len, byte| {
            theirs
                .send_to(&vec![byte; len], ours.local_addr().unwrap())
                .unwrap()
        };
        let mut receiver = Receiver::default();
        send(60_000, 1);
        assert_eq!(take(&mut receiver, &ours, from, 1), [(None, 60_000, 1)]);
        for _ in 0..SHORT_RUN {
            send(100, 2);
            take(&mut receiver, &ours, from, 1);
        }
        send(60_000, 3);
        let cut = receiver.receive(ours.as_raw_fd(), |_| panic!("it was cut"));
        assert_eq!(cut.unwrap(), 1);
        send(60_000, 4);
        send(2048, 5);
        assert_eq!(
            take(&mut receiver, &ours, from, 2),
            [(None, 60_000, 4), (None, 2048, 5)]
        );
    }

    #[test]
    fn one_call_sends_many_datagrams_in_segments() {
        let (ours, theirs) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let mut sender = Sender::default();
        for n in 0..10u8 {
            sender.buffer().resize(2500, n);
            let local = Some(ours.local_addr().unwrap().ip());
            let remote = theirs.local_addr().unwrap();
            sender.push(Transmit {
                segment: Some(1000),
                ..Transmit::unmarked(remote, local)
            });
        }
        sender.flush(ours.as_raw_fd()).unwrap();
        assert!(sender.is_empty());
        let mut buffer = [0; 4000];
        for n in 0..10u8 {
            for want in [1000, 1000, 500] {
                let len = theirs.recv(&mut buffer).unwrap();
                assert_eq!((len, buffer[0]), (want, n));
            }
        }
    }

    #[test]
    fn datagrams_are_marked_unless_they_shall_not_be() {
        for (bound, ip) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("0.0.0.0:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("[::]:0", "::1"),
            ("[::]:0", "::ffff:127.0.0.1"),
        ] {
            let ours = socket(bound);
            let ip: IpAddr = ip.parse().unwrap();
            let theirs = socket(&SocketAddr::new(ip.to_canonical(), 0).to_string());
            let mut sender = Sender::marking(true);
            let remote = (ip, theirs.local_addr().unwrap().port()).into();
            for ecn in [true, false, true] {
                sender.buffer().push(u8::from(ecn));
                let transmit = Transmit::unmarked(remote, Some(ip));
                sender.push(Transmit { ecn, ..transmit });
            }
            sender.buffer().resize(2500, 0);
            sender.push(Transmit {
                segment: Some(1000),
                ..Transmit::unmarked(remote, Some(ip))
            });
            sender.flush(ours.as_raw_fd()).unwrap();
            let mut seen = Vec::new();
            while seen.len() < 6 {
                let taken = Receiver::default().receive(theirs.as_raw_fd(), |datagram| {
                    seen.push((datagram.data.len(), datagram.ecn));
                });
                taken.unwrap();
            }
            let (marked, unmarked) = ((1, Ecn::Ect0), |len| (len, Ecn::None));
            let cut = [unmarked(1000), unmarked(1000), unmarked(500)];
            let wanted = [[marked, unmarked(1), marked], cut].concat();
            assert_eq!(seen, wanted, "{bound} to {ip}");
        }
    }

    #[test]
    fn an_unreachable_destination_does_not_hold_up_the_others() {
        let (ours, theirs) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let mut sender = Sender::default();
        let bad: SocketAddr = "255.255.255.255:9".parse().unwrap();
        for remote in [bad, theirs.local_addr().unwrap()] {
            sender.buffer().extend_from_slice(b"hello");
            sender.push(Transmit::unmarked(remote, None));
        }
        sender.flush(ours.as_raw_fd()).unwrap();
        let mut buffer = [0; 100];
        assert_eq!(theirs.recv(&mut buffer).unwrap(), 5);
    }
}
