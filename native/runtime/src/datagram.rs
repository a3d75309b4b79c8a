//! Datagram sockets with one peer.

use crate::address::{raw_inet, raw_unix};
use crate::io::IoFd;
use crate::socket::{bind_to, connect_now, family, new_socket, ConnectTo};
use crate::sys;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::task::{ready, Context, Poll};

/// A datagram socket that sends to one peer and receives only from this peer.
pub struct DatagramSock {
    io: IoFd,
}

impl DatagramSock {
    /// A socket for this peer; `bind` is the local address. Nothing is sent, so an absent peer is
    /// noticed later.
    ///
    /// # Errors
    /// No socket is available, there is no route to the peer, or `bind` is no address of this host.
    pub fn connect(to: &ConnectTo, bind: Option<SocketAddr>) -> io::Result<DatagramSock> {
        let (fd, address) = match to {
            ConnectTo::Inet(to) => (new_socket(family(to), libc::SOCK_DGRAM)?, raw_inet(to)),
            ConnectTo::Unix(path) => {
                let address = raw_unix(path)?;
                (new_socket(libc::AF_UNIX, libc::SOCK_DGRAM)?, address)
            }
        };
        if let Some(local) = bind.filter(|_| matches!(to, ConnectTo::Inet(_))) {
            if local.port() != 0 {
                // Sockets with different peers can share the port.
                sys::set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
            }
            bind_to(&fd, &local)?;
        }
        connect_now(&fd, &address)?;
        let io = IoFd::reading(fd)?;
        io.set_writable();
        Ok(DatagramSock { io })
    }

    pub fn raw(&self) -> RawFd {
        self.io.raw()
    }

    /// Receive one datagram. Bytes beyond `buf` are lost.
    ///
    /// # Errors
    /// The socket's error, such as a refusal by the peer's host, or that it was hung up.
    pub fn poll_receive(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_readable(cx));
            match sys::read(self.raw(), buf) {
                Ok(0) if self.io.is_hung_up() => return Poll::Ready(Err(ended())),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    // A send has already taken the error, and no further event comes.
                    if self.io.is_hung_up() {
                        return Poll::Ready(Err(ended()));
                    }
                    self.io.clear_readable();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// Send one datagram.
    ///
    /// # Errors
    /// The socket's error; one that an earlier datagram caused is told once.
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_writable(cx));
            match sys::write(self.raw(), buf, false) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.io.clear_writable(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    self.io.stop_writing();
                    return Poll::Ready(result);
                }
            }
        }
    }
}

fn ended() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use std::future::poll_fn;
    use std::net::UdpSocket;

    #[test]
    fn datagrams_are_received_one_by_one_and_empty_ones_too() {
        let peer = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let to = ConnectTo::Inet(peer.local_addr().expect("its address"));
        let runtime = Runtime::new().expect("a runtime");
        runtime.block_on(async move {
            let sock = DatagramSock::connect(&to, None).expect("a socket");
            let sent = poll_fn(|cx| sock.poll_send(cx, b"hello")).await;
            assert_eq!(sent.expect("sent"), 5);
            let (_, from) = peer.recv_from(&mut [0; 9]).expect("a datagram");
            let texts = [&b"one"[..], b"", b"three"];
            for text in texts {
                peer.send_to(text, from).expect("sent");
            }
            let mut buf = [0; 99];
            for text in texts {
                let n = poll_fn(|cx| sock.poll_receive(cx, &mut buf)).await;
                assert_eq!(&buf[..n.expect("received")], text);
            }
        });
    }

    #[test]
    fn refusals_and_a_hang_up_are_errors() {
        let peer = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let to = ConnectTo::Inet(peer.local_addr().expect("its address"));
        let runtime = Runtime::new().expect("a runtime");
        runtime.block_on(async move {
            let hung_up = DatagramSock::connect(&to, None).expect("a socket");
            crate::hang_up(hung_up.raw());
            let mut buf = [0; 9];
            let received = poll_fn(|cx| hung_up.poll_receive(cx, &mut buf)).await;
            assert!(received.is_err());
            drop(peer);
            let refused = DatagramSock::connect(&to, None).expect("a socket");
            let sent = poll_fn(|cx| refused.poll_send(cx, b"x")).await;
            assert_eq!(sent.expect("sent"), 1);
            let received = poll_fn(|cx| refused.poll_receive(cx, &mut buf)).await;
            let error = received.expect_err("nobody listens");
            assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
        });
    }
}
