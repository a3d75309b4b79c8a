//! The forwarding loop: one thread carries packets between two tun interfaces through two pipes
//! until its input ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::time::Instant;

use crate::pipe::{Pipe, Shape};
use crate::tun::check;

const MAX_PACKET: usize = 1600;
/// The most packets read from one side before the other has its turn.
const BATCH: usize = 64;

struct Side {
    tun: File,
    /// The direction from here to the other side.
    pipe: Pipe,
}

pub struct Forwarder {
    sides: [Side; 2],
    spare: Vec<Vec<u8>>,
    began: Instant,
}

impl Forwarder {
    pub fn new(near: File, far: File, shape: &Shape) -> Forwarder {
        let side = |tun, seed| Side {
            tun,
            pipe: Pipe::new(shape.clone(), seed),
        };
        Forwarder {
            sides: [side(near, 0x5eed_0001), side(far, 0x5eed_0002)],
            spare: Vec::new(),
            began: Instant::now(),
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Run until standard input ends, which means that the parent has ended or wants no more.
    pub fn run(&mut self) -> io::Result<()> {
        loop {
            if self.wait()? {
                return Ok(());
            }
            for from in 0..2 {
                self.read(from)?;
            }
            for from in 0..2 {
                self.deliver(from)?;
            }
        }
    }

    /// Wait for a packet or a due time; `true` if the input has ended.
    fn wait(&self) -> io::Result<bool> {
        let entry = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut fds = [
            entry(self.sides[0].tun.as_raw_fd()),
            entry(self.sides[1].tun.as_raw_fd()),
            entry(0),
        ];
        let due = self
            .sides
            .iter()
            .filter_map(|side| side.pipe.next_due())
            .min();
        let left = due.map(|due| due.saturating_sub(self.now()));
        let limit = left.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the array and the time are valid during the call; there is no signal mask.
        let result = unsafe {
            libc::ppoll(
                fds.as_mut_ptr(),
                fds.len() as libc::nfds_t,
                limit,
                std::ptr::null(),
            )
        };
        match check(result) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
            Ok(_) => Ok(fds[2].revents != 0 && input_ended()),
        }
    }

    fn read(&mut self, from: usize) -> io::Result<()> {
        for _ in 0..BATCH {
            let mut packet = self
                .spare
                .pop()
                .unwrap_or_else(|| Vec::with_capacity(MAX_PACKET));
            packet.resize(MAX_PACKET, 0);
            match self.sides[from].tun.read(&mut packet) {
                Ok(length) => {
                    packet.truncate(length);
                    let now = self.now();
                    if let Some(dropped) = self.sides[from].pipe.offer(now, packet) {
                        self.spare.push(dropped);
                    }
                }
                Err(error) => {
                    self.spare.push(packet);
                    let again = matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    );
                    return if again { Ok(()) } else { Err(error) };
                }
            }
        }
        Ok(())
    }

    fn deliver(&mut self, from: usize) -> io::Result<()> {
        loop {
            let now = self.now();
            let Some(packet) = self.sides[from].pipe.take_due(now) else {
                return Ok(());
            };
            match self.sides[1 - from].tun.write(&packet) {
                Ok(_) => {}
                // Ignore packets that the kernel rejects, for example because the interface is
                // going down.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) if error.raw_os_error() == Some(libc::EIO) => {}
                Err(error) => return Err(error),
            }
            self.spare.push(packet);
        }
    }

    /// Format the counts as `{"forward": {"passed", "dropped_full", "dropped_loss"}, "backward":
    /// {...}}`.
    pub fn report(&self) -> String {
        let words = |side: &Side| {
            let counts = side.pipe.counts;
            format!(
                "{{\"passed\": {}, \"dropped_full\": {}, \"dropped_loss\": {}}}",
                counts.passed, counts.dropped_full, counts.dropped_loss
            )
        };
        format!(
            "{{\"forward\": {}, \"backward\": {}}}",
            words(&self.sides[0]),
            words(&self.sides[1])
        )
    }
}

fn input_ended() -> bool {
    let mut byte = [0u8; 64];
    // SAFETY: reads into an array with that length.
    let read = unsafe { libc::read(0, byte.as_mut_ptr().cast(), byte.len()) };
    read <= 0
}
