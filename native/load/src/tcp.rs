//! The TCP connections of one thread, with TLS or without, over one epoll instance.

use crate::asked::{self, Blocks};
use crate::options::{Options, Protocol};
use crate::plan::{Due, Plan};
use crate::worker::Transport;
use crate::{h1, h2, trust};
use gallop_runtime::{start_connect, ConnectTo, Epoll};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BUFFER: usize = 256 << 10;
/// The wait before another attempt after a connection failed.
const RETRY: Duration = Duration::from_millis(100);

/// The encoded requests for every connection, by protocol.
enum Asked {
    H1(Vec<asked::Head>),
    H2(Blocks),
}

enum Client {
    H1(h1::Client),
    H2(Box<h2::Client>),
}

struct Link {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    client: Client,
    out: Vec<u8>,
    /// The number of bytes of `out` that the kernel has taken.
    sent: usize,
    began: Instant,
    /// Whether the handshakes of TCP and TLS are complete.
    open: bool,
}

pub struct Tcp<'a> {
    options: &'a Options,
    asked: Asked,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    epoll: Epoll,
    events: Vec<libc::epoll_event>,
    links: Vec<Option<Link>>,
    /// Places without a connection, and the time of the next attempt.
    missing: Vec<(usize, Instant)>,
    buffer: Vec<u8>,
    /// The connection whose turn it is in an open loop.
    turn: usize,
}

impl<'a> Tcp<'a> {
    /// Prepare this number of connections.
    ///
    /// # Errors
    /// TLS cannot be set up, or the kernel provides no epoll instance.
    pub fn new(options: &'a Options, connections: usize, now: Instant) -> Result<Self, String> {
        let tls = if options.tls {
            let name = ServerName::try_from(options.server_name().to_string());
            let name = name.map_err(|e| format!("{}: {e}", options.host))?;
            Some((Arc::new(trust::tls(options.protocol)?), name))
        } else {
            None
        };
        Ok(Self {
            options,
            asked: match options.protocol {
                Protocol::H1 => Asked::H1(asked::h1(options)),
                _ => Asked::H2(asked::h2(options)),
            },
            tls,
            epoll: Epoll::new().map_err(|e| e.to_string())?,
            events: Vec::with_capacity(512),
            links: (0..connections).map(|_| None).collect(),
            missing: (0..connections).map(|place| (place, now)).collect(),
            buffer: vec![0; BUFFER],
            turn: 0,
        })
    }

    fn connect(&mut self, plan: &Plan, now: Instant) -> Result<(), String> {
        if self.missing.is_empty() || !plan.has_more(now) {
            return Ok(());
        }
        let due = std::mem::take(&mut self.missing);
        for (place, at) in due {
            if at > now {
                self.missing.push((place, at));
                continue;
            }
            let link = self.dial(now).map_err(|e| self.unreachable(&e))?;
            // Edge-triggered: after an event, read and write until nothing is left.
            let both = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
            let added = self
                .epoll
                .add(link.stream.as_raw_fd(), both as u32, place as u64);
            added.map_err(|e| e.to_string())?;
            self.links[place] = Some(link);
        }
        Ok(())
    }

    fn unreachable(&self, why: &dyn std::fmt::Display) -> String {
        format!("cannot connect to {}: {why}", self.options.address)
    }

    fn dial(&self, now: Instant) -> io::Result<Link> {
        let (fd, begun) = start_connect(&ConnectTo::Inet(self.options.address), None)?;
        begun.or_else(|e| match e.raw_os_error() {
            Some(libc::EINPROGRESS) => Ok(()),
            _ => Err(e),
        })?;
        let tls = match &self.tls {
            Some((config, name)) => {
                let tls = ClientConnection::new(config.clone(), name.clone());
                let mut tls = tls.map_err(io::Error::other)?;
                tls.set_buffer_limit(None);
                Some(Box::new(tls))
            }
            None => None,
        };
        let mut out = Vec::new();
        Ok(Link {
            stream: TcpStream::from(fd),
            tls,
            client: match self.asked {
                Asked::H1(_) => Client::H1(h1::Client::new()),
                Asked::H2(_) => Client::H2(Box::new(h2::Client::new(&mut out))),
            },
            out,
            sent: 0,
            began: now,
            open: false,
        })
    }

    /// Handle an event on a connection.
    fn serve(&mut self, place: usize, plan: &mut Plan) -> Result<(), String> {
        let Some(link) = &mut self.links[place] else {
            return Ok(());
        };
        let now = Instant::now();
        let goes_on = link.receive(&mut self.buffer, plan, now);
        if goes_on == Ok(true) {
            // In an open loop, requests go to the connections in turn.
            while self.options.rate.is_none() && link.ask(&self.asked, self.options, plan, now) {}
            if link.send().is_ok() && !link.is_over() {
                return Ok(());
            }
        }
        let opened = link.open;
        link.ended(plan, now);
        self.links[place] = None;
        match goes_on {
            // No connection ever succeeded, so more attempts are pointless.
            Err(why) if plan.connects == 0 => Err(self.unreachable(&why)),
            Err(why) if plan.latency.count() == 0 => {
                Err(format!("{}: {why}", self.options.address))
            }
            Ok(_) if !opened && plan.connects == 0 => {
                Err(self.unreachable(&"the server closed the connection at once"))
            }
            _ => {
                let at = if opened { now } else { now + RETRY };
                self.missing.push((place, at));
                Ok(())
            }
        }
    }

    /// Give due requests to connections with room, in turn.
    fn spread(&mut self, plan: &mut Plan, now: Instant) -> Result<(), String> {
        let count = self.links.len();
        for _ in 0..count {
            if !plan.is_due(now) {
                break;
            }
            let place = self.turn % count;
            self.turn = (place + 1) % count;
            let Some(link) = &mut self.links[place] else {
                continue;
            };
            if link.ask(&self.asked, self.options, plan, now) && link.send().is_err() {
                self.serve(place, plan)?;
            }
        }
        Ok(())
    }
}

impl Transport for Tcp<'_> {
    fn go_on(&mut self, plan: &mut Plan, now: Instant) -> Result<Option<Instant>, String> {
        self.connect(plan, now)?;
        for index in 0..self.events.len() {
            let place = self.events[index].u64 as usize;
            self.serve(place, plan)?;
        }
        if self.options.rate.is_some() {
            while plan.is_due(now) {
                let before = plan.started;
                self.spread(plan, now)?;
                if plan.started == before {
                    break;
                }
            }
        }
        let retry = self.missing.iter().map(|(_, at)| *at).min();
        Ok(retry.filter(|_| plan.has_more(now)))
    }

    fn fds(&self, fds: &mut Vec<RawFd>) {
        fds.push(self.epoll.as_raw_fd());
    }

    fn gather(&mut self) {
        self.epoll.wait(&mut self.events, 0);
    }
}

impl Link {
    /// Process all received bytes; `true` if the connection continues.
    fn receive(
        &mut self,
        buffer: &mut [u8],
        plan: &mut Plan,
        now: Instant,
    ) -> Result<bool, String> {
        loop {
            let n = match self.stream.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::NotConnected => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) if self.open => return Ok(false),
                Err(e) => return Err(e.to_string()),
            };
            plan.bytes += n as u64;
            self.take(&buffer[..n], plan, now)?;
            if n < buffer.len() {
                break;
            }
        }
        let connected = self.open || self.stream.peer_addr().is_ok();
        let secure = self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking());
        if !self.open && connected && secure {
            self.check_protocol()?;
            self.open = true;
            plan.connected(self.began, now);
        }
        if !connected {
            // The kernel reports the reason once (SO_ERROR).
            if let Ok(Some(e)) = self.stream.take_error() {
                return Err(e.to_string());
            }
        }
        Ok(true)
    }

    fn take(&mut self, input: &[u8], plan: &mut Plan, now: Instant) -> Result<(), String> {
        let Self {
            tls, client, out, ..
        } = self;
        let Some(tls) = tls else {
            return client.take(input, plan, now, out);
        };
        let mut input = input;
        while !input.is_empty() {
            tls.read_tls(&mut input).map_err(|e| e.to_string())?;
            tls.process_new_packets().map_err(|e| format!("TLS: {e}"))?;
            loop {
                let mut reader = tls.reader();
                let plain = match reader.fill_buf() {
                    Ok([]) => break,
                    Ok(plain) => plain,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e.to_string()),
                };
                let len = plain.len();
                client.take(plain, plan, now, out)?;
                reader.consume(len);
            }
        }
        Ok(())
    }

    /// HTTP/2 requires that the server selected it by ALPN; HTTP/1.1 does not.
    fn check_protocol(&self) -> Result<(), String> {
        let Some(tls) = &self.tls else {
            return Ok(());
        };
        match (&self.client, tls.alpn_protocol()) {
            (Client::H2(_), Some(b"h2")) | (Client::H1(_), None | Some(b"http/1.1")) => Ok(()),
            (_, Some(other)) => Err(format!(
                "the server chose {} by ALPN",
                String::from_utf8_lossy(other)
            )),
            (_, None) => Err("the server speaks no HTTP/2: it chose nothing by ALPN".into()),
        }
    }

    /// Start a request; `false` if none is due or possible.
    fn ask(&mut self, asked: &Asked, options: &Options, plan: &mut Plan, now: Instant) -> bool {
        let room = match &self.client {
            Client::H1(client) => client.has_room(options.streams),
            Client::H2(client) => client.has_room(options.streams),
        };
        if !self.open || !room {
            return false;
        }
        let Some(due) = plan.start(now) else {
            return false;
        };
        self.client.ask(asked, due, &mut self.out);
        true
    }

    /// Send as many pending bytes as the kernel takes.
    fn send(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            if !self.out.is_empty() {
                tls.writer().write_all(&self.out)?;
                self.out.clear();
            }
            while tls.wants_write() {
                match tls.write_tls(&mut self.stream) {
                    Err(e) if is_later(&e) => return Ok(()),
                    other => drop(other?),
                }
            }
            return Ok(());
        }
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Err(e) if is_later(&e) => return Ok(()),
                other => self.sent += other?,
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    fn is_over(&self) -> bool {
        match &self.client {
            Client::H1(client) => client.is_over(),
            Client::H2(client) => client.is_over(),
        }
    }

    fn ended(&mut self, plan: &mut Plan, now: Instant) {
        match &mut self.client {
            Client::H1(client) => client.ended(plan, now),
            Client::H2(client) => client.ended(plan),
        }
    }
}

/// The socket is not connected yet, or the kernel's buffer is full: an event will come.
fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::NotConnected
    ) || error.raw_os_error() == Some(libc::EAGAIN)
}

impl Client {
    fn take(
        &mut self,
        input: &[u8],
        plan: &mut Plan,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match self {
            Self::H1(client) => client.take(input, plan, now),
            Self::H2(client) => client.take(input, plan, now, out),
        }
    }

    fn ask(&mut self, asked: &Asked, due: Due, out: &mut Vec<u8>) {
        match (self, asked) {
            (Self::H1(client), Asked::H1(requests)) => client.ask(requests, due, out),
            (Self::H2(client), Asked::H2(blocks)) => client.ask(blocks, due, out),
            _ => unreachable!("clients are made for what is asked"),
        }
    }
}
