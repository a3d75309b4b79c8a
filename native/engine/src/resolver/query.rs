//! A lookup: queries to name servers over UDP, and over TCP if a response is too long.

pub use super::message::Record;
use super::message::{parse, question, Answer, Kind};
use super::Found;
use gallop_conf::model::ResolverConf;
use gallop_runtime::{connect, now_ms, timeout, ConnectTo, IoFd};
use std::cell::Cell;
use std::future::{poll_fn, Future};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::task::Poll;

/// Milliseconds after which a query is repeated with another server.
const RESEND: u64 = 5000;
/// The most aliases to follow.
const MAX_ALIASES: usize = 50;
/// The most SRV records that are used; those of the lowest priority values.
const MAX_RECORDS: usize = 64;

/// The error code for a name without address (RFC 1035, section 4.1.1).
pub type Refusal = u8;

/// The name does not exist.
pub const NO_NAME: Refusal = 3;
const SERVER_FAILURE: Refusal = 2;

/// Look up a name; `None` after `patience` milliseconds.
pub async fn run(
    conf: &ResolverConf,
    next: &Cell<usize>,
    name: &str,
    patience: u64,
) -> Option<Result<Found, Refusal>> {
    let first = next.get();
    next.set(first.wrapping_add(1));
    let lookup = Lookup {
        conf,
        first,
        until: now_ms().saturating_add(patience),
    };
    let mut name = name.to_string();
    let mut ttl = u32::MAX;
    for _ in 0..MAX_ALIASES {
        let step = match lookup.step(&name).await? {
            Ok(step) => step,
            Err(code) => return Some(Err(code)),
        };
        ttl = ttl.min(step.ttl);
        match step.alias {
            _ if !step.addresses.is_empty() => {
                let addresses = step.addresses;
                return Some(Ok(Found { addresses, ttl }));
            }
            Some(alias) => name = alias,
            None => return Some(Err(NO_NAME)),
        }
    }
    Some(Err(NO_NAME))
}

/// Look up the SRV records of a name, and the seconds that they may be cached; `None` after
/// `patience` milliseconds.
pub async fn records(
    conf: &ResolverConf,
    next: &Cell<usize>,
    name: &str,
    patience: u64,
) -> Option<Result<(Vec<Record>, u32), Refusal>> {
    let first = next.get();
    next.set(first.wrapping_add(1));
    let lookup = Lookup {
        conf,
        first,
        until: now_ms().saturating_add(patience),
    };
    let mut name = name.to_string();
    let mut lowest = u32::MAX;
    for _ in 0..MAX_ALIASES {
        let (mut records, alias, ttl) = match lookup.once(&name, Kind::Srv).await? {
            Answer::Found {
                records,
                alias,
                ttl,
                ..
            } => (records, alias, ttl),
            Answer::Refused(code) => return Some(Err(code)),
            Answer::Truncated => return Some(Err(SERVER_FAILURE)),
        };
        lowest = lowest.min(ttl);
        if !records.is_empty() {
            records.sort_by_key(|r| r.priority);
            records.truncate(MAX_RECORDS);
            return Some(Ok((records, lowest)));
        }
        match alias {
            Some(alias) => name = alias,
            None => break,
        }
    }
    Some(Err(NO_NAME))
}

/// Run all futures to their ends.
pub async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut slots: Vec<_> = futures.map(|f| (Box::pin(f), None)).collect();
    poll_fn(|cx| {
        for (future, outcome) in slots.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
            if let Poll::Ready(out) = future.as_mut().poll(cx) {
                *outcome = Some(out);
            }
        }
        match slots.iter().all(|(_, outcome)| outcome.is_some()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    slots
        .into_iter()
        .filter_map(|(_, outcome)| outcome)
        .collect()
}

/// The servers' result for one name.
struct Step {
    addresses: Vec<IpAddr>,
    alias: Option<String>,
    ttl: u32,
}

impl Step {
    fn of(answer: Option<Answer>) -> Result<Step, Refusal> {
        match answer {
            // A record of another kind.
            None => Ok(Step {
                addresses: Vec::new(),
                alias: None,
                ttl: u32::MAX,
            }),
            Some(Answer::Found {
                addresses,
                alias,
                ttl,
                ..
            }) => Ok(Step {
                addresses,
                alias,
                ttl,
            }),
            Some(Answer::Refused(code)) => Err(code),
            Some(Answer::Truncated) => Err(SERVER_FAILURE),
        }
    }
}

/// Run both futures to their ends.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(|cx| {
        if first.is_none() {
            if let Poll::Ready(out) = a.as_mut().poll(cx) {
                first = Some(out);
            }
        }
        if second.is_none() {
            if let Poll::Ready(out) = b.as_mut().poll(cx) {
                second = Some(out);
            }
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (one, other) => {
                (first, second) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}

struct Lookup<'a> {
    conf: &'a ResolverConf,
    /// The server to ask first.
    first: usize,
    /// The time limit in milliseconds (monotonic clock).
    until: u64,
}

impl Lookup<'_> {
    /// Query both kinds of address at once. Half a result is not used: the other half might be the
    /// one that works.
    async fn step(&self, name: &str) -> Option<Result<Step, Refusal>> {
        let of_kind = async |kind, wanted| match wanted {
            true => self.once(name, kind).await.map(Some),
            false => Some(None),
        };
        let four = of_kind(Kind::A, self.conf.ipv4);
        let six = of_kind(Kind::Aaaa, self.conf.ipv6);
        let (four, six) = both(four, six).await;
        let (four, six) = match (Step::of(four?), Step::of(six?)) {
            (Ok(four), Ok(six)) => (four, six),
            (Err(code), _) | (_, Err(code)) => return Some(Err(code)),
        };
        // As in nginx, the response to the last query determines the alias.
        let alias = if self.conf.ipv6 {
            six.alias
        } else {
            four.alias
        };
        Some(Ok(Step {
            addresses: [four.addresses, six.addresses].concat(),
            alias,
            ttl: four.ttl.min(six.ttl),
        }))
    }

    /// Ask the servers in turn until one responds.
    async fn once(&self, name: &str, kind: Kind) -> Option<Answer> {
        let servers = &self.conf.servers;
        let mut turn = self.first;
        loop {
            let left = self.until.checked_sub(now_ms()).filter(|&ms| ms > 0)?;
            let server = servers[turn % servers.len()];
            turn = turn.wrapping_add(1);
            let wait = left.min(RESEND);
            let began = now_ms();
            match timeout(wait, ask(server, name, kind)).await {
                Ok(Ok(answer)) => return Some(answer),
                // The server is unreachable: the next one is asked at the usual time.
                Ok(Err(_)) => {
                    let rest = wait.saturating_sub(now_ms() - began);
                    gallop_runtime::sleep(rest).await;
                }
                Err(_) => {}
            }
        }
    }
}

/// Send one query to one server.
async fn ask(server: SocketAddr, name: &str, kind: Kind) -> io::Result<Answer> {
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // Each query uses a new port and id: an attacker who guesses both could forge the response.
    let socket = UdpSocket::bind(local)?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    let io = IoFd::new(socket.try_clone()?.into())?;
    io.set_readable();
    let id = random();
    let message = question(id, name, kind).ok_or(io::ErrorKind::InvalidInput)?;
    socket.send(&message)?;
    let mut buffer = [0; 4096];
    loop {
        io.readable().await;
        let n = match socket.recv(&mut buffer) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                io.clear_readable();
                continue;
            }
            Err(e) => return Err(e),
        };
        match parse(&buffer[..n], id, name, kind) {
            Some(Answer::Truncated) => return over_tcp(server, &message, id, name, kind).await,
            Some(answer) => return Ok(answer),
            None => {}
        }
    }
}

fn random() -> u16 {
    RandomState::new().hash_one(0) as u16
}

async fn over_tcp(
    server: SocketAddr,
    message: &[u8],
    id: u16,
    name: &str,
    kind: Kind,
) -> io::Result<Answer> {
    let sock = connect(&ConnectTo::Inet(server), None).await?;
    let len = (message.len() as u16).to_be_bytes();
    sock.write_all(&[&len, message].concat()).await?;
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let whole = match input.first_chunk::<2>() {
            Some(len) => input.len() >= 2 + usize::from(u16::from_be_bytes(*len)),
            None => false,
        };
        if whole {
            let bad = || io::Error::from(io::ErrorKind::InvalidData);
            return parse(&input[2..], id, name, kind).ok_or_else(bad);
        }
        match sock.read(&mut buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => input.extend_from_slice(&buffer[..n]),
        }
    }
}
