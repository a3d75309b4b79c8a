//! Choosing the socket for a QUIC datagram among the sockets of one address: the one whose thread
//! has the connection, even if the client's address changes or an older worker process is ending
//! after a reload.
//!
//! The kernel runs a classic BPF program (`SO_ATTACH_REUSEPORT_CBPF`, which needs no privilege)
//! that returns the place of a socket. Our connection ids carry the label of their socket; packets
//! with ids that clients chose go to the newest sockets, all packets of a connection to the same
//! one.

use gallop_quic::{LABEL_AT, LOCAL_LEN};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// The worker process that reads a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Newest,
    /// A worker that was told to end.
    Ending,
    Nobody,
}

/// A socket in the kernel's list for an address, and the label in the ids of its connections.
#[derive(Clone, Debug)]
pub struct Member {
    pub socket: Arc<OwnedFd>,
    /// `None` if no worker reads the socket, or once a newer socket needed the label; packets for
    /// its connections then reach newer sockets.
    pub label: Option<u8>,
    pub reader: Reader,
}

/// The sockets that share an address, in the kernel's order. None is closed while others are in
/// use: the kernel would move the last one into its place, and packets would reach the wrong worker
/// until the program is replaced. Unused sockets are kept for the next workers.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub members: Vec<Member>,
}

impl Group {
    /// Return as many sockets as new workers have threads: unread ones first, then new ones from
    /// `open`. Sockets of previous workers stay with those until they end.
    ///
    /// # Errors
    /// The errors of `open`.
    pub fn renew<E>(
        &mut self,
        threads: usize,
        mut open: impl FnMut() -> Result<OwnedFd, E>,
    ) -> Result<Vec<Arc<OwnedFd>>, E> {
        let newest = |m: &&mut Member| m.reader == Reader::Newest;
        let before = self.members.iter_mut().filter(newest);
        before.for_each(|m| m.reader = Reader::Ending);
        for _ in 0..threads {
            let label = self.free_label();
            let waits = |m: &&mut Member| m.reader == Reader::Nobody;
            match self.members.iter_mut().find(waits) {
                Some(member) => {
                    member.label = label;
                    member.reader = Reader::Newest;
                }
                None => self.members.push(Member {
                    socket: Arc::new(open()?),
                    label,
                    reader: Reader::Newest,
                }),
            }
        }
        Ok(self.newest().map(|m| m.socket.clone()).collect())
    }

    fn newest(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|m| m.reader == Reader::Newest)
    }

    /// A free label, or the label of the oldest socket, whose worker was told to end long ago.
    fn free_label(&mut self) -> Option<u8> {
        let is_free = |label: &u8| self.members.iter().all(|m| m.label != Some(*label));
        (0..=u8::MAX).find(is_free).or_else(|| {
            let ends = |m: &&mut Member| m.reader == Reader::Ending;
            let mut old = self.members.iter_mut().filter(ends);
            old.find_map(|m| m.label.take())
        })
    }

    /// Note that the previous workers have ended; `true` if they had sockets.
    pub fn release(&mut self) -> bool {
        let ends = |m: &&mut Member| m.reader == Reader::Ending;
        let mut any = false;
        for member in self.members.iter_mut().filter(ends) {
            member.reader = Reader::Nobody;
            member.label = None;
            any = true;
        }
        any
    }

    /// In a worker, close all sockets except those of the newest workers.
    pub fn keep_newest(&mut self) {
        self.members.retain(|m| m.reader == Reader::Newest);
    }

    /// Install the program in the kernel.
    ///
    /// # Errors
    /// The kernel does not accept such a program; it then chooses by addresses alone.
    pub fn steer(&self) -> io::Result<()> {
        let Some(first) = self.members.first() else {
            return Ok(());
        };
        let mut code = self.program();
        let program = libc::sock_fprog {
            len: code.len() as u16,
            filter: code.as_mut_ptr(),
        };
        // SAFETY: the program is valid during the call and has the given length; the kernel copies
        // it.
        let result = unsafe {
            libc::setsockopt(
                first.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_REUSEPORT_CBPF,
                (&raw const program).cast(),
                size_of::<libc::sock_fprog>() as u32,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn program(&self) -> Vec<libc::sock_filter> {
        let places = |newest: bool| -> Vec<(u32, u32)> {
            let all = self.members.iter().enumerate();
            let wanted = all.filter(|(_, m)| m.reader == Reader::Newest || !newest);
            let named = wanted.filter_map(|(at, m)| Some((m.label?.into(), at as u32)));
            named.collect()
        };
        let (newest, all) = (places(true), places(false));
        let short = look_up(SHORT_ID, &all, &newest);
        let handshake = look_up(LONG_ID, &all, &newest);
        // Initial and 0-RTT packets usually carry an id of the client's choice, which may look like
        // that of an old socket.
        let initial = look_up(LONG_ID, &newest, &newest);
        // A conditional jump has eight bits; longer distances need an unconditional jump.
        let mut code = vec![
            load_byte(0),
            jump_if(libc::BPF_JSET, LONG_HEADER, 0, 1),
            skip(short.len()),
        ];
        code.extend(short);
        code.push(statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, KIND));
        code.push(jump_if(libc::BPF_JEQ, KIND_HANDSHAKE, 1, 0));
        code.push(skip(handshake.len()));
        code.extend(handshake);
        code.extend(initial);
        code
    }
}

/// The bits of a packet's first byte (RFC 9000, section 17.2).
const LONG_HEADER: u32 = 0x80;
const KIND: u32 = 0x30;
const KIND_HANDSHAKE: u32 = 0x20;
/// The position of the connection id in packets with short and long headers (RFC 9000, section 17).
const SHORT_ID: usize = 1;
const LONG_ID: usize = 6;

/// Return the place of the socket whose label is in the id at `id`, by `known`; otherwise a place
/// from `newest`.
fn look_up(id: usize, known: &[(u32, u32)], newest: &[(u32, u32)]) -> Vec<libc::sock_filter> {
    const { assert!(LABEL_AT + 2 == LOCAL_LEN) };
    let mut code = vec![
        load_byte(id + LABEL_AT),
        statement(libc::BPF_MISC | libc::BPF_TAX, 0),
        load_byte(id + LABEL_AT + 1),
        statement(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0),
    ];
    for (label, place) in known {
        code.push(jump_if(libc::BPF_JEQ, *label, 0, 1));
        code.push(statement(libc::BPF_RET | libc::BPF_K, *place));
    }
    let count = newest.len() as u32;
    code.push(statement(
        libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K,
        count.max(1),
    ));
    for (n, (_, place)) in newest.iter().enumerate() {
        code.push(jump_if(libc::BPF_JEQ, n as u32, 0, 1));
        code.push(statement(libc::BPF_RET | libc::BPF_K, *place));
    }
    // Let the kernel choose by addresses, as without a program.
    code.push(statement(libc::BPF_RET | libc::BPF_K, u32::MAX));
    code
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Load a byte of the datagram's content; a datagram that is too short goes to the first socket.
fn load_byte(at: usize) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, at as u32)
}

fn jump_if(condition: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: (libc::BPF_JMP | condition | libc::BPF_K) as u16,
        jt: yes,
        jf: no,
        k,
    }
}

fn skip(count: usize) -> libc::sock_filter {
    statement(libc::BPF_JMP | libc::BPF_JA, count as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gallop_quic::ConnectionId;
    use std::net::{SocketAddr, UdpSocket};
    use std::os::fd::FromRawFd;

    /// A test socket that shares its address with others; the first one (`port` 0) chooses the
    /// address.
    fn bound(port: u16) -> OwnedFd {
        // SAFETY: socket takes no pointers; nothing else owns the new descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)) };
        let raw = fd.as_raw_fd();
        gallop_runtime::set_option(raw, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1).unwrap();
        // SAFETY: an all-zero sockaddr_in is valid.
        let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        address.sin_family = libc::AF_INET as _;
        address.sin_port = port.to_be();
        address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let len = size_of::<libc::sockaddr_in>() as u32;
        // SAFETY: the address is valid during the call and has the given length.
        let result = unsafe { libc::bind(raw, (&raw const address).cast(), len) };
        assert_eq!(result, 0);
        fd
    }

    /// A group whose first workers have this many threads, and its address.
    fn group(threads: usize) -> (Group, SocketAddr) {
        let mut group = Group::default();
        let port = std::cell::Cell::new(0);
        let open = || {
            let socket = UdpSocket::from(bound(port.get()));
            port.set(socket.local_addr().unwrap().port());
            Ok::<OwnedFd, ()>(socket.into())
        };
        group.renew(threads, open).unwrap();
        group.steer().unwrap();
        (group, SocketAddr::from(([127, 0, 0, 1], port.get())))
    }

    /// Renew the group as a reload does.
    fn renew(group: &mut Group, threads: usize, to: SocketAddr) {
        group
            .renew(threads, || Ok::<_, ()>(bound(to.port())))
            .unwrap();
        group.steer().unwrap();
    }

    /// The sockets of the group in the kernel's order.
    fn sockets(group: &Group) -> Vec<UdpSocket> {
        let copy = |m: &Member| UdpSocket::from(m.socket.try_clone().unwrap());
        let all: Vec<_> = group.members.iter().map(copy).collect();
        all.iter().for_each(|s| s.set_nonblocking(true).unwrap());
        all
    }

    fn short(id: &ConnectionId) -> Vec<u8> {
        [&[0x40][..], id.as_slice(), &[0; 20]].concat()
    }

    fn long(kind: u8, id: &[u8]) -> Vec<u8> {
        [
            &[0xc0 | kind << 4, 0, 0, 0, 1, id.len() as u8][..],
            id,
            &[0; 20],
        ]
        .concat()
    }

    /// The index of the socket that receives a datagram from a new source.
    fn receiver(sockets: &[UdpSocket], to: SocketAddr, datagram: &[u8]) -> Option<usize> {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(datagram, to).unwrap();
        // Loopback delivers within the call.
        let mut buffer = [0; 100];
        sockets
            .iter()
            .position(|socket| socket.recv(&mut buffer).is_ok())
    }

    #[test]
    fn packets_reach_the_socket_that_their_id_names() {
        let (group, to) = group(2);
        let all = sockets(&group);
        for _ in 0..8 {
            for label in [0, 1] {
                let id = ConnectionId::random(label);
                for datagram in [short(&id), long(0, id.as_slice()), long(2, id.as_slice())] {
                    let got = receiver(&all, to, &datagram);
                    assert_eq!(got, Some(usize::from(label)));
                }
            }
        }
        // All packets of a new connection go to one thread; all threads get connections.
        let places: Vec<_> = (0..64u8)
            .map(|n| {
                let datagram = long(0, &[n, 1, 2, 3, 4, 5, n.wrapping_mul(37), 200]);
                let place = receiver(&all, to, &datagram);
                assert_eq!(receiver(&all, to, &datagram), place);
                place.unwrap()
            })
            .collect();
        assert!(places.contains(&0) && places.contains(&1));
    }

    #[test]
    fn workers_that_end_keep_their_connections_and_get_no_new_ones() {
        let (mut group, to) = group(1);
        renew(&mut group, 2, to);
        let all = sockets(&group);
        let ids = [0, 1, 2].map(ConnectionId::random);
        for (place, id) in ids.iter().enumerate() {
            assert_eq!(receiver(&all, to, &short(id)), Some(place));
            assert_eq!(receiver(&all, to, &long(2, id.as_slice())), Some(place));
        }
        for n in 0..64u8 {
            // This also holds if the client's id looks like one of the old socket.
            let datagram = long(n & 1, &[n, 1, 2, 3, 4, 5, n, n ^ (n % 3)]);
            assert_ne!(receiver(&all, to, &datagram), Some(0));
        }
    }

    /// No datagram is misdirected meanwhile, since no socket changes its place.
    #[test]
    fn sockets_of_workers_that_ended_wait_for_the_next_ones() {
        let (mut group, to) = group(1);
        renew(&mut group, 2, to);
        let all = sockets(&group);
        let ids = [0, 1, 2].map(ConnectionId::random);
        assert!(group.release() && !group.release());
        for steered in [false, true] {
            for (place, id) in ids.iter().enumerate().skip(1) {
                assert_eq!(receiver(&all, to, &short(id)), Some(place));
            }
            if !steered {
                group.steer().unwrap();
            }
        }
        // A new worker tells the old worker's remaining clients.
        assert_ne!(receiver(&all, to, &short(&ids[0])), Some(0));
        renew(&mut group, 2, to);
        assert_eq!(group.members.len(), 4);
        let all = sockets(&group);
        assert_eq!(receiver(&all, to, &short(&ids[0])), Some(0));
        assert_eq!(receiver(&all, to, &short(&ids[2])), Some(2));
    }

    #[test]
    fn workers_that_never_end_do_not_use_labels_up() {
        let (mut group, to) = group(60);
        for _ in 0..4 {
            renew(&mut group, 60, to);
        }
        let labels: Vec<_> = group.members.iter().map(|m| m.label).collect();
        let current = labels[240..]
            .iter()
            .flatten()
            .collect::<std::collections::BTreeSet<_>>();
        assert_eq!(current.len(), 60);
        assert_eq!(labels.iter().flatten().count(), 256);
    }
}
