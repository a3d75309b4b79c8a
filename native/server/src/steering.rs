//! Which of the sockets of one address a QUIC datagram goes to: the one whose thread has the connection,
//! wherever the client is now, also while an older worker process ends after a reload.
//!
//! The kernel asks a program (`SO_ATTACH_REUSEPORT_CBPF`, which needs no privilege) for the place of a
//! socket among those that share the address. Our connection ids carry their socket's label; packets to
//! ids that clients chose go to the newest sockets, all of one connection to the same.

use gallop_quic::{LABEL_AT, LOCAL_LEN};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// A socket in the kernel's list of those that share an address, and the label of its connections' ids.
#[derive(Clone, Debug)]
pub struct Member {
    pub socket: Arc<OwnedFd>,
    /// `None` once a newer socket needed it: what comes for its connections goes to newer ones.
    pub label: Option<u8>,
    /// The newest worker process has it.
    pub current: bool,
}

/// Sockets that share an address, in the kernel's order: it appends, and puts the last one in the place
/// of one that is closed.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub members: Vec<Member>,
}

impl Group {
    /// Adds sockets that were just bound; those from before belong to workers that end.
    pub fn renew(&mut self, sockets: &[Arc<OwnedFd>]) {
        self.members.iter_mut().for_each(|m| m.current = false);
        for socket in sockets {
            let label = self.free_label();
            self.members.push(Member {
                socket: socket.clone(),
                label,
                current: true,
            });
        }
    }

    /// A label that no socket has, or that of the eldest: its worker was told long ago to end.
    fn free_label(&mut self) -> Option<u8> {
        let is_free = |label: &u8| self.members.iter().all(|m| m.label != Some(*label));
        (0..=u8::MAX).find(is_free).or_else(|| {
            let mut old = self.members.iter_mut().filter(|m| !m.current);
            old.find_map(|m| m.label.take())
        })
    }

    /// Closes the sockets of workers that have ended; whether there were any.
    pub fn forget_old(&mut self) -> bool {
        let before = self.members.len();
        while let Some(at) = self.members.iter().position(|m| !m.current) {
            self.members.swap_remove(at);
        }
        self.members.len() < before
    }

    /// Tells the kernel.
    ///
    /// # Errors
    /// It takes no such program; it then goes by addresses alone.
    pub fn steer(&self) -> io::Result<()> {
        let Some(first) = self.members.first() else {
            return Ok(());
        };
        let mut code = self.program();
        let program = libc::sock_fprog {
            len: code.len() as u16,
            filter: code.as_mut_ptr(),
        };
        // SAFETY: the program lives through the call, with its true length; the kernel copies it.
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
        let places = |current: bool| -> Vec<(u32, u32)> {
            let all = self.members.iter().enumerate();
            let wanted = all.filter(|(_, m)| m.current || !current);
            let named = wanted.filter_map(|(at, m)| Some((m.label?.into(), at as u32)));
            named.collect()
        };
        let (newest, all) = (places(true), places(false));
        let short = look_up(SHORT_ID, &all, &newest);
        let handshake = look_up(LONG_ID, &all, &newest);
        // What an Initial or 0-RTT packet goes to is mostly an id of the client's choice, which may look
        // like one of an old socket.
        let initial = look_up(LONG_ID, &newest, &newest);
        // Over what is longer than a condition's eight bits jumps only a jump without one.
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

/// Bits of a packet's first byte (RFC 9000, section 17.2).
const LONG_HEADER: u32 = 0x80;
const KIND: u32 = 0x30;
const KIND_HANDSHAKE: u32 = 0x20;
/// Where connection ids are in packets with short and long headers (RFC 9000, section 17).
const SHORT_ID: usize = 1;
const LONG_ID: usize = 6;

/// Returns the place of the socket that the id at `id` names in `known`; of an id that names none, one of
/// `newest`.
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
    // By addresses, as without a program.
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

/// Loads a byte of the datagram's content; a datagram that is too short goes to the first socket.
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

    /// A socket among those that share an address; the first one (`port` 0) chooses it.
    fn bound(port: u16) -> (UdpSocket, Arc<OwnedFd>) {
        // SAFETY: socket takes no pointers; the new descriptor is owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)) };
        let raw = fd.as_raw_fd();
        gallop_runtime::set_option(raw, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1).unwrap();
        // SAFETY: an all-zero sockaddr_in is valid.
        let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        address.sin_family = libc::AF_INET as _;
        address.sin_port = port.to_be();
        address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let len = size_of::<libc::sockaddr_in>() as u32;
        // SAFETY: the address lives through the call, with its true length.
        let result = unsafe { libc::bind(raw, (&raw const address).cast(), len) };
        assert_eq!(result, 0);
        let socket = UdpSocket::from(fd.try_clone().unwrap());
        socket.set_nonblocking(true).unwrap();
        (socket, Arc::new(fd))
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

    /// Which of the sockets gets a datagram that is sent from anywhere.
    fn receiver(sockets: &[&UdpSocket], to: SocketAddr, datagram: &[u8]) -> Option<usize> {
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
        let (first, first_fd) = bound(0);
        let to = first.local_addr().unwrap();
        let (second, second_fd) = bound(to.port());
        let mut group = Group::default();
        group.renew(&[first_fd, second_fd]);
        group.steer().unwrap();
        for _ in 0..8 {
            for label in [0, 1] {
                let id = ConnectionId::random(label);
                for datagram in [short(&id), long(0, id.as_slice()), long(2, id.as_slice())] {
                    let got = receiver(&[&first, &second], to, &datagram);
                    assert_eq!(got, Some(usize::from(label)));
                }
            }
        }
        // All packets of a new connection go to one thread, and those of all to all.
        let places: Vec<_> = (0..64u8)
            .map(|n| {
                let datagram = long(0, &[n, 1, 2, 3, 4, 5, n.wrapping_mul(37), 200]);
                let place = receiver(&[&first, &second], to, &datagram);
                assert_eq!(receiver(&[&first, &second], to, &datagram), place);
                place.unwrap()
            })
            .collect();
        assert!(places.contains(&0) && places.contains(&1));
    }

    #[test]
    fn workers_that_end_keep_their_connections_and_get_no_new_ones() {
        let (old, old_fd) = bound(0);
        let to = old.local_addr().unwrap();
        let mut group = Group::default();
        group.renew(&[old_fd]);
        let (new, new_fd) = bound(to.port());
        let (other, other_fd) = bound(to.port());
        group.renew(&[new_fd, other_fd]);
        group.steer().unwrap();
        let all = [&old, &new, &other];
        let ids = [0, 1, 2].map(ConnectionId::random);
        for (place, id) in ids.iter().enumerate() {
            assert_eq!(receiver(&all, to, &short(id)), Some(place));
            assert_eq!(receiver(&all, to, &long(2, id.as_slice())), Some(place));
        }
        for n in 0..64u8 {
            // Also where the client's choice looks like an id of the old socket.
            let datagram = long(n & 1, &[n, 1, 2, 3, 4, 5, n, n ^ (n % 3)]);
            assert_ne!(receiver(&all, to, &datagram), Some(0));
        }
        let all = [&new, &other];
        drop(old);
        assert!(group.forget_old() && !group.forget_old());
        group.steer().unwrap();
        for (place, id) in ids.iter().enumerate().skip(1) {
            assert_eq!(receiver(&all, to, &short(id)), Some(place - 1));
        }
        // What is left of the old one's clients is told so by a new one.
        assert!(receiver(&all, to, &short(&ids[0])).is_some());
    }

    #[test]
    fn workers_that_never_end_do_not_use_labels_up() {
        let (_, fd) = bound(0);
        let mut group = Group::default();
        for _ in 0..5 {
            group.renew(&vec![fd.clone(); 60]);
        }
        let labels: Vec<_> = group.members.iter().map(|m| m.label).collect();
        let current = labels[240..]
            .iter()
            .flatten()
            .collect::<std::collections::BTreeSet<_>>();
        assert_eq!(current.len(), 60);
        assert_eq!(labels.iter().flatten().count(), 256);
        group.steer().unwrap();
    }
}
