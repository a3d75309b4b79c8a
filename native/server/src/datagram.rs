//! UDP listeners of `stream`: datagrams are told apart by the client's address and port, and by the
//! local address, and reach the session of these. On Unix sockets, the client's path counts.

mod unix;

use crate::idle::Idle;
use crate::quic::{Output, Receiver, Sender, Transmit};
use crate::reuse;
use crate::worker::ConnectionCount;
use gallop_conf::model::{Level, ListenAddr, Listener, Server, StreamHandler};
use gallop_engine::conn::Ends;
use gallop_engine::stream::datagram::{self, Client};
use gallop_engine::stream::{Inbox, Session};
use gallop_engine::{Conn, Worker};
use gallop_runtime::{now_ms, race, set_option, sleep, spawn, yield_now, Either, IoFd};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The default of `proxy_buffer_size`, the room for datagrams that wait for their session.
const BUFFER: u64 = 16 * 1024;
/// Milliseconds between two log lines about a lack of room, and after a failure to receive.
const COMPLAIN_EVERY: u64 = 1000;
const RETRY_MS: u64 = 500;

thread_local! {
    /// Memory for datagrams, which are passed on before the next ones are received.
    static RECEIVER: RefCell<Receiver> = RefCell::new(Receiver::default().taking_long());
    static SENDER: RefCell<Sender> = RefCell::default();
}

/// The sender of a datagram.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    /// The client's address, and the local one if the socket has several.
    Inet(SocketAddr, Option<IpAddr>),
    Unix(unix::Name),
}

/// A listening socket and its sessions.
struct Hub {
    idle: Rc<Idle>,
    worker: Rc<Worker>,
    listener: Listener,
    io: IoFd,
    /// The same socket if it is a Unix socket.
    unix: Option<UnixDatagram>,
    sessions: RefCell<HashMap<Key, Rc<Inbox>>>,
    /// Counts the batches of datagrams.
    turn: Cell<u64>,
    /// The time of the last log line about a lack of room.
    complained: Cell<Option<u64>>,
}

/// Serve a UDP socket until the worker shuts down. Its sessions go on by themselves.
pub async fn serve(idle: Rc<Idle>, listener: Listener, fd: OwnedFd) {
    let worker = idle.worker().clone();
    let (io, unix) = match prepare(fd, &listener) {
        Ok(prepared) => prepared,
        Err(e) => {
            let message = format!("cannot wait for datagrams ({e})");
            return worker.log(Level::Emerg, &message);
        }
    };
    io.set_readable();
    let hub = Rc::new(Hub {
        idle,
        worker,
        listener,
        io,
        unix,
        sessions: RefCell::default(),
        turn: Cell::new(0),
        complained: Cell::new(None),
    });
    loop {
        let shutdown = hub.worker.shutdown.wait();
        if let Either::First(()) = race(shutdown, hub.io.readable()).await {
            return;
        }
        match hub.receive() {
            // Sessions get their turn before the next batch.
            Ok(()) => yield_now().await,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => hub.io.clear_readable(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                let message = format!("recvmmsg() failed ({e})");
                hub.worker.log(Level::Alert, &message);
                sleep(RETRY_MS).await;
            }
        }
    }
}

/// Ask for the local address of each datagram where there are several.
fn prepare(fd: OwnedFd, listener: &Listener) -> io::Result<(IoFd, Option<UnixDatagram>)> {
    let info = match &listener.addr {
        ListenAddr::Inet(addr) if !addr.ip().is_unspecified() => None,
        ListenAddr::Inet(SocketAddr::V4(_)) => Some((libc::IPPROTO_IP, libc::IP_PKTINFO)),
        ListenAddr::Inet(SocketAddr::V6(_)) => Some((libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)),
        ListenAddr::Unix(_) => {
            let unix = UnixDatagram::from(fd.try_clone()?);
            return Ok((IoFd::reading(fd)?, Some(unix)));
        }
    };
    if let Some((level, name)) = info {
        set_option(fd.as_raw_fd(), level, name, 1)?;
    }
    Ok((IoFd::reading(fd)?, None))
}

impl Hub {
    /// Give a batch of datagrams to their sessions.
    fn receive(self: &Rc<Self>) -> io::Result<()> {
        self.turn.set(self.turn.get() + 1);
        if let Some(socket) = &self.unix {
            return unix::receive(socket, |name, data| self.take(Key::Unix(name), data));
        }
        RECEIVER.with_borrow_mut(|receiver| {
            let fd = self.io.raw();
            receiver.receive(fd, |datagram| {
                self.take(Key::Inet(datagram.remote, datagram.local), &datagram.data);
            })
        })?;
        Ok(())
    }

    fn take(self: &Rc<Self>, key: Key, data: &[u8]) {
        let known = self.sessions.borrow().get(&key).cloned();
        match known {
            // A datagram without room is lost, as on any full link.
            Some(inbox) => _ = inbox.push(data, self.turn.get()),
            None => return self.begin(key, data),
        }
        self.leave_full(&key);
    }

    /// Forget a session that has all datagrams it may have; the next one begins another.
    fn leave_full(&self, key: &Key) {
        let server = self.server(key);
        let most = server.stream.as_ref().and_then(|s| s.conf.requests);
        let Some(most) = most.filter(|&most| most > 0) else {
            return;
        };
        let mut sessions = self.sessions.borrow_mut();
        if sessions.get(key).is_some_and(|i| i.accepted() >= most) {
            sessions.remove(key);
        }
    }

    /// The local address that a client sends to.
    fn local(&self, key: &Key) -> Option<SocketAddr> {
        match (&self.listener.addr, key) {
            (ListenAddr::Inet(addr), Key::Inet(_, local)) => {
                Some(SocketAddr::new(local.unwrap_or(addr.ip()), addr.port()))
            }
            _ => None,
        }
    }

    fn server(&self, key: &Key) -> &Server {
        let local = self.local(key).map(|local| local.ip());
        &self.listener.endpoint_for(local).hosts.default
    }

    fn begin(self: &Rc<Self>, key: Key, data: &[u8]) {
        let counters = &self.worker.shared.counters;
        counters.accepted.fetch_add(1, Ordering::Relaxed);
        if !self.has_room() {
            return self.complain();
        }
        counters.handled.fetch_add(1, Ordering::Relaxed);
        let server = self.server(&key);
        let room = server.root.conf.proxy.as_ref().and_then(|p| p.buffer_size);
        let inbox = Rc::new(Inbox::new(room.unwrap_or(BUFFER) as usize));
        inbox.push(data, self.turn.get());
        let handler = server.stream.as_ref().and_then(|s| s.handler.as_ref());
        // Each datagram gets the text of `return`.
        if matches!(handler, Some(StreamHandler::Proxy(_))) {
            self.sessions
                .borrow_mut()
                .insert(key.clone(), inbox.clone());
            self.leave_full(&key);
        }
        let peer = Peer::new(self.clone(), key, inbox, data.len());
        spawn(async move {
            let mut session = Session::new(peer.hub.worker.clone(), peer.conn());
            session.received = peer.first as u64;
            let status = match session.admit() {
                Ok(()) => datagram::serve(&mut session, &peer).await,
                Err(status) => status,
            };
            session.finish(status);
        });
    }

    /// The number of sessions is bounded, so that forged addresses leave room for connections of
    /// TCP.
    fn has_room(&self) -> bool {
        let most = reuse::limit(&self.idle);
        let worker = &self.worker;
        worker.connections.get() < most && worker.udp_sessions.get() < most.div_ceil(2)
    }

    fn complain(&self) {
        let now = now_ms();
        let last = self.complained.get();
        if last.is_none_or(|last| now.saturating_sub(last) >= COMPLAIN_EVERY) {
            self.complained.set(Some(now));
            let limit = reuse::limit(&self.idle);
            let message = format!("{limit} worker_connections are not enough for UDP sessions");
            self.worker.log(Level::Alert, &message);
        }
    }
}

/// The client of a session.
struct Peer {
    hub: Rc<Hub>,
    key: Key,
    inbox: Rc<Inbox>,
    /// The length of the first datagram.
    first: usize,
    _count: ConnectionCount,
}

impl Peer {
    fn new(hub: Rc<Hub>, key: Key, inbox: Rc<Inbox>, first: usize) -> Peer {
        let sessions = &hub.worker.udp_sessions;
        sessions.set(sessions.get() + 1);
        Peer {
            _count: ConnectionCount::new(hub.worker.clone()),
            hub,
            key,
            inbox,
            first,
        }
    }

    fn conn(&self) -> Conn {
        let local = self.hub.local(&self.key);
        let listener = &self.hub.listener;
        let endpoint = listener.endpoint_for(local.map(|l| l.ip())).clone();
        let id = &self.hub.worker.shared.next_connection;
        let (peer, unix) = match (&self.key, &listener.addr) {
            (Key::Inet(remote, _), _) => (Some(*remote), None),
            (Key::Unix(_), ListenAddr::Unix(path)) => (None, Some(path.as_path())),
            (Key::Unix(_), ListenAddr::Inet(_)) => (None, None),
        };
        let ends = Ends {
            peer,
            local,
            unix,
            socket: None,
        };
        Conn::new(id.fetch_add(1, Ordering::Relaxed), endpoint, ends)
    }
}

impl Client for Peer {
    fn send(&self, data: &[u8]) -> bool {
        let (remote, local) = match &self.key {
            Key::Inet(remote, local) => (*remote, *local),
            Key::Unix(name) => {
                let socket = self.hub.unix.as_ref();
                return socket.is_some_and(|socket| name.send(socket, data));
            }
        };
        SENDER.with_borrow_mut(|sender| {
            sender.buffer().extend_from_slice(data);
            sender.push(Transmit::unmarked(remote, local));
            let sent = sender.flush(self.hub.io.raw()).is_ok();
            if !sent {
                // The socket is full: the datagram is lost, as on any full link.
                sender.take();
            }
            sent
        })
    }

    fn inbox(&self) -> &Inbox {
        &self.inbox
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let sessions = &self.hub.worker.udp_sessions;
        sessions.set(sessions.get() - 1);
        let mut sessions = self.hub.sessions.borrow_mut();
        // After `proxy_requests` datagrams, another session has the place.
        let own = |inbox: &Rc<Inbox>| Rc::ptr_eq(inbox, &self.inbox);
        if sessions.get(&self.key).is_some_and(own) {
            sessions.remove(&self.key);
        }
    }
}
