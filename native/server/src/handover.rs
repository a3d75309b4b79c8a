//! Handing over the listening sockets to another binary while this one continues to serve (USR2),
//! as in nginx (https://nginx.org/en/docs/control.html#upgrade). The new master inherits them as
//! open descriptors, whose numbers are in its environment, in nginx's variable and format. An
//! unnamed file holds the rest: the old master's process id, the QUIC sockets that share an address
//! with their kernel order and connection id labels, and the key of address validation tokens.

use crate::listen::{self, Bound};
use crate::process::{self, Fork, Pid};
use crate::steering::{Group, Member, Reader};
use gallop_engine::escape::Shown;
use std::fmt::Write as _;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// The environment variable with the numbers of the listening sockets, each followed by a
/// semicolon.
const SOCKETS: &str = "NGINX";
/// The environment variable with the descriptor number of the handover file.
const FILE: &str = "GALLOP_HANDOVER";

/// The state that a process inherited.
pub struct Inherited {
    pub bound: Vec<Bound>,
    /// The process that handed it over.
    pub from: Pid,
}

/// Start the binary that is now at this binary's path, with the same arguments and the sockets of
/// `bound`.
///
/// # Errors
/// Fails if no process or file can be created. A binary that cannot be executed ends the new
/// process.
pub fn start(bound: &[Bound]) -> Result<Pid, String> {
    let failed = |e: std::io::Error| format!("cannot hand the sockets over ({e})");
    let mut file = process::nameless_file().map_err(failed)?;
    file.write_all(told(bound).as_bytes()).map_err(failed)?;
    file.rewind().map_err(failed)?;
    match process::fork() {
        Err(e) => Err(format!(
            "fork() failed while spawning \"new binary process\" ({e})"
        )),
        Ok(Fork::Parent(pid)) => Ok(pid),
        Ok(Fork::Child) => {
            let mut left = sockets(bound).map(|s| s.as_raw_fd()).collect::<Vec<_>>();
            left.push(file.as_raw_fd());
            let opened = left
                .iter()
                .try_for_each(|fd| process::leave_open(*fd, true));
            let e = opened.map_or_else(|e| e, |()| command(bound, file.as_raw_fd()).exec());
            eprintln!("gallop: [alert] execve() failed while executing new binary process ({e})");
            std::process::exit(1)
        }
    }
}

fn command(bound: &[Bound], file: RawFd) -> Command {
    let mut words = std::env::args_os();
    let mut command = Command::new(words.next().unwrap_or_default());
    let streams = bound.iter().filter(|b| !b.quic).flat_map(|b| &b.sockets);
    let mut numbers = String::new();
    for socket in streams {
        // Writing to a string cannot fail.
        let _ = write!(numbers, "{};", socket.as_raw_fd());
    }
    command.args(words).env(SOCKETS, numbers);
    command.env(FILE, file.to_string());
    command
}

/// All sockets to hand over, including the QUIC sockets of workers that have not ended.
fn sockets(bound: &[Bound]) -> impl Iterator<Item = &Arc<OwnedFd>> {
    bound.iter().flat_map(|bound| {
        let members = bound.group.iter().flat_map(|group| &group.members);
        let alone = bound.sockets.iter().filter(|_| bound.group.is_none());
        members.map(|member| &member.socket).chain(alone)
    })
}

fn told(bound: &[Bound]) -> String {
    let mut text = format!("from {}\nsecret ", std::process::id());
    for byte in crate::quic::secret() {
        let _ = write!(text, "{byte:02x}");
    }
    for bound in bound.iter().filter(|bound| bound.quic) {
        let Some(group) = &bound.group else {
            text.push_str("\nplain");
            for socket in &bound.sockets {
                let _ = write!(text, " {}", socket.as_raw_fd());
            }
            continue;
        };
        text.push_str("\nsteered");
        for member in &group.members {
            let label = member
                .label
                .map_or(String::new(), |label| label.to_string());
            let _ = write!(text, " {}:{label}", member.socket.as_raw_fd());
        }
    }
    text + "\n"
}

/// The inherited state, if a previous process left any.
///
/// As in nginx, an unreadable entry and all entries after it are skipped; `problems` receives the
/// reasons.
pub fn taken(problems: &mut Vec<String>) -> Option<Inherited> {
    let variable = |name| Some(std::env::var_os(name)?.to_string_lossy().into_owned());
    let (sockets, file) = (variable(SOCKETS), variable(FILE));
    // Neither programs that this process starts nor the next binary may inherit the variables.
    std::env::remove_var(SOCKETS);
    std::env::remove_var(FILE);
    let sockets = sockets?;
    let mut inherited = Inherited {
        bound: Vec::new(),
        from: process::parent(),
    };
    for number in sockets.split_terminator([';', ':']) {
        let known = owned(number).and_then(|s| Some((listen::address_of(&s)?, s)));
        let Some((addr, socket)) = known else {
            problems.push(format!(
                "invalid socket number \"{}\" in the {SOCKETS} environment variable, ignoring the rest of the variable",
                Shown(number.as_bytes())
            ));
            break;
        };
        let udp = listen::is_datagram(&socket);
        let same = |bound: &&mut Bound| bound.addr == addr && bound.udp == udp;
        match inherited.bound.iter_mut().find(same) {
            Some(bound) => bound.sockets.push(Arc::new(socket)),
            None => inherited.bound.push(Bound {
                addr,
                quic: false,
                udp,
                sockets: vec![Arc::new(socket)],
                group: None,
            }),
        }
    }
    if let Err(problem) = file.map_or(Ok(()), |number| read_file(&mut inherited, &number)) {
        problems.push(problem);
    }
    // Without sockets, this is a normal start.
    (!inherited.bound.is_empty()).then_some(inherited)
}

/// Read the file that the previous process left.
fn read_file(inherited: &mut Inherited, number: &str) -> Result<(), String> {
    let invalid = |what: &str| {
        let what = Shown(what.as_bytes());
        format!("invalid \"{what}\" in the {FILE} environment variable, ignoring the rest")
    };
    let mut text = String::new();
    let file = owned(number).ok_or_else(|| invalid(number))?;
    let read = std::fs::File::from(file).read_to_string(&mut text);
    read.map_err(|e| format!("cannot read what was handed over ({e})"))?;
    let mut lines = text.lines();
    lines.try_for_each(|line| take(inherited, line).ok_or_else(|| invalid(line)))
}

/// Parse one line of the file; `None` if it is invalid.
fn take(inherited: &mut Inherited, line: &str) -> Option<()> {
    let (what, rest) = line.split_once(' ')?;
    let mut group = (what == "steered").then(Group::default);
    let mut sockets = Vec::new();
    match what {
        "from" => inherited.from = rest.parse().ok()?,
        "secret" => crate::quic::keep_secret(bytes(rest)?),
        "steered" | "plain" => {
            for word in rest.split(' ') {
                let (number, label) = word.split_once(':').unwrap_or((word, ""));
                let socket = Arc::new(owned(number)?);
                let label = (!label.is_empty()).then(|| label.parse()).transpose();
                let member = Member {
                    socket: socket.clone(),
                    label: label.ok()?,
                    // Sockets without a reader have no label, but some sockets with a reader have
                    // none either.
                    reader: Reader::Newest,
                };
                group
                    .iter_mut()
                    .for_each(|g| g.members.push(member.clone()));
                sockets.push(socket);
            }
            inherited.bound.push(Bound {
                addr: listen::address_of(sockets.first()?)?,
                quic: true,
                udp: false,
                sockets,
                group,
            });
        }
        _ => return None,
    }
    Some(())
}

fn bytes(hex: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(out)
}

/// Take over the descriptor with this number and set close-on-exec.
fn owned(number: &str) -> Option<OwnedFd> {
    process::inherited(number.parse().ok().filter(|fd| *fd > 2)?).ok()
}
