//! One lookup: questions to name servers, over UDP, and TCP where an answer is too long for it.

use super::message::{parse, question, Answer, Kind};
use super::Found;
use gallop_conf::model::ResolverConf;
use gallop_runtime::{connect, now_ms, timeout, ConnectTo, IoFd};
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Milliseconds after which a question is asked again, and of another server.
const RESEND: u64 = 5000;
/// Aliases followed.
const MAX_ALIASES: usize = 50;

/// Why a name has no address: an error of RFC 1035, section 4.1.1.
pub type Refusal = u8;

/// There is no such name.
pub const NO_NAME: Refusal = 3;

/// Looks a name up; gives up after `patience` milliseconds (`None`).
pub async fn run(
    conf: &ResolverConf,
    next: &Cell<usize>,
    name: &str,
    patience: u64,
) -> Option<Result<Found, Refusal>> {
    let until = now_ms().saturating_add(patience);
    let mut name = name.to_string();
    let mut ttl = u32::MAX;
    for _ in 0..MAX_ALIASES {
        match once(conf, next, &name, until).await? {
            Err(code) => return Some(Err(code)),
            Ok(step) => {
                ttl = ttl.min(step.ttl);
                if !step.addresses.is_empty() {
                    let addresses = step.addresses;
                    return Some(Ok(Found { addresses, ttl }));
                }
                match step.alias {
                    Some(alias) => name = alias,
                    None => return Some(Err(NO_NAME)),
                }
            }
        }
    }
    Some(Err(NO_NAME))
}

struct Step {
    addresses: Vec<IpAddr>,
    alias: Option<String>,
    ttl: u32,
}

/// Asks for one name until there is an answer for each kind of address.
async fn once(
    conf: &ResolverConf,
    next: &Cell<usize>,
    name: &str,
    until: u64,
) -> Option<Result<Step, Refusal>> {
    let mut open = Vec::new();
    if conf.ipv4 {
        open.push(Kind::A);
    }
    if conf.ipv6 {
        open.push(Kind::Aaaa);
    }
    let mut step = Step {
        addresses: Vec::new(),
        alias: None,
        ttl: u32::MAX,
    };
    let mut refusal = None;
    while !open.is_empty() {
        let left = until.checked_sub(now_ms()).filter(|&ms| ms > 0)?;
        let server = conf.servers[next.get() % conf.servers.len()];
        next.set(next.get().wrapping_add(1));
        let wait = left.min(RESEND);
        let began = now_ms();
        let mut take = |kind: Kind, answer: Answer| match answer {
            Answer::Refused(code) => refusal = Some(code),
            Answer::Found {
                addresses,
                alias,
                ttl,
            } => {
                step.ttl = step.ttl.min(ttl);
                match kind {
                    // Whichever answer comes first, IPv4 addresses are tried first.
                    Kind::A => step.addresses.splice(..0, addresses).for_each(drop),
                    Kind::Aaaa => step.addresses.extend(addresses),
                }
                step.alias = alias.or(step.alias.take());
            }
            Answer::Truncated => {}
        };
        let asked = timeout(wait, ask(server, name, &mut open, &mut take)).await;
        if let Ok(Err(_)) = asked {
            // The server cannot be reached: the others are, at the usual time.
            let rest = wait.saturating_sub(now_ms() - began);
            gallop_runtime::sleep(rest).await;
        }
    }
    if step.addresses.is_empty() && step.alias.is_none() {
        return Some(Err(refusal.unwrap_or(NO_NAME)));
    }
    Some(Ok(step))
}

/// Asks one server all that is open; takes answered questions off the list.
async fn ask(
    server: SocketAddr,
    name: &str,
    open: &mut Vec<Kind>,
    take: &mut impl FnMut(Kind, Answer),
) -> io::Result<()> {
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // A port and a number of its own for each question: who guesses both could answer in its stead.
    let socket = UdpSocket::bind(local)?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    let io = IoFd::new(socket.try_clone()?.into())?;
    io.set_readable();
    let mut asked = Vec::new();
    for &kind in open.iter() {
        let id = random();
        let message = question(id, name, kind).ok_or(io::ErrorKind::InvalidInput)?;
        socket.send(&message)?;
        asked.push((id, kind, message));
    }
    let mut buffer = [0; 4096];
    while !open.is_empty() {
        io.readable().await;
        let n = match socket.recv(&mut buffer) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                io.clear_readable();
                continue;
            }
            Err(e) => return Err(e),
        };
        let hit = asked
            .iter()
            .filter(|(_, kind, _)| open.contains(kind))
            .find_map(|(id, kind, m)| {
                Some((*kind, *id, m, parse(&buffer[..n], *id, name, *kind)?))
            });
        let Some((kind, id, message, answer)) = hit else {
            continue;
        };
        let answer = match answer {
            Answer::Truncated => over_tcp(server, message, id, name, kind).await?,
            answer => answer,
        };
        open.retain(|k| *k != kind);
        take(kind, answer);
    }
    Ok(())
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
