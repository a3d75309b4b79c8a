//! Datagrams of clients on Unix sockets.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The most datagrams before other tasks get their turn.
const BATCH: usize = 64;
/// The longest datagram; longer ones are dropped, since no UDP server could be told of them.
const LONGEST: usize = 65_536;

thread_local! {
    /// Datagrams are passed on before the next one is received.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; LONGEST + 1]);
}

/// The path that a client's socket is bound to. An abstract name begins with NUL; without a name,
/// the client cannot be answered, and shares a session with others of this kind.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    fn new(address: &SocketAddr) -> Name {
        if let Some(path) = address.as_pathname() {
            return Name(path.as_os_str().as_bytes().into());
        }
        let name = address.as_abstract_name();
        Name(name.map_or_else(Box::default, |name| [b"\0", name].concat().into()))
    }

    fn address(&self) -> io::Result<SocketAddr> {
        match &*self.0 {
            [] => Err(io::ErrorKind::AddrNotAvailable.into()),
            [0, name @ ..] => SocketAddr::from_abstract_name(name),
            path => SocketAddr::from_pathname(OsStr::from_bytes(path)),
        }
    }

    /// Send a datagram to the client. Returns whether it was sent.
    pub fn send(&self, socket: &UnixDatagram, data: &[u8]) -> bool {
        let sent = self.address().and_then(|to| socket.send_to_addr(data, &to));
        sent.is_ok()
    }
}

/// Receive a batch of waiting datagrams and pass each to `each`.
///
/// # Errors
/// `WouldBlock` if none waits; any other error is the socket's.
pub fn receive(socket: &UnixDatagram, mut each: impl FnMut(Name, &[u8])) -> io::Result<()> {
    BUFFER.with_borrow_mut(|buffer| {
        for _ in 0..BATCH {
            let (n, from) = socket.recv_from(buffer)?;
            if n <= LONGEST {
                each(Name::new(&from), &buffer[..n]);
            }
        }
        Ok(())
    })
}
