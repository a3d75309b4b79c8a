//! One thread: its share of the connections and requests, until nothing is left of them.

use crate::options::{Options, Protocol};
use crate::plan::{share, Plan};
use crate::quic::Quic;
use crate::tcp::Tcp;
use crate::usage::{Meter, Usage};
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// The longest wait: timers of a connection that just began are not known yet.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// The connections of a thread, whatever they run over.
pub trait Transport {
    /// Takes in what came and starts what is due; when to be called again at the latest.
    ///
    /// # Errors
    /// The run cannot go on.
    fn go_on(&mut self, plan: &mut Plan, now: Instant) -> Result<Option<Instant>, String>;

    /// What becomes readable when there is something to take in.
    fn fds(&self, fds: &mut Vec<RawFd>);

    /// Called when waiting is over, before the clock is looked at.
    fn gather(&mut self) {}
}

/// Runs thread number `thread`; what came of it, and what it used.
///
/// # Errors
/// The server cannot be reached, or broke off.
pub fn work(options: &Options, thread: usize, began: Instant) -> Result<(Plan, Usage), String> {
    let connections = share(options.connections as u64, thread, options.threads) as usize;
    let mut transport: Box<dyn Transport + '_> = match options.protocol {
        Protocol::H3 => Box::new(Quic::new(options, connections)?),
        _ => Box::new(Tcp::new(options, connections, began)?),
    };
    let mut plan = Plan::new(options, thread, began);
    if options.rate.is_some() {
        sleep_exactly();
    }
    let mut fds = Vec::new();
    transport.fds(&mut fds);
    let mut fds: Vec<libc::pollfd> = fds.into_iter().map(readable).collect();
    let meter = Meter::start();
    let mut now = Instant::now();
    let (mut progress, mut known) = (now, 0);
    // Later than single connections are given up, which others may replace.
    let stalled = options.patience * 3 / 2;
    while !plan.is_done(now) {
        let timer = transport.go_on(&mut plan, now)?;
        let paced = plan.next_due(now);
        wait(&mut fds, [timer, paced].into_iter().flatten().min()).map_err(|e| e.to_string())?;
        transport.gather();
        now = Instant::now();
        if std::mem::replace(&mut known, plan.progress()) != plan.progress() {
            progress = now;
        }
        if now - progress > stalled {
            if plan.has_more(now) || plan.answers() == 0 {
                return Err(format!(
                    "no answer for {} s; of {} requests {} were answered until then",
                    stalled.as_secs(),
                    plan.started,
                    plan.answers(),
                ));
            }
            // A few at the end are no reason to throw away what all the others told.
            plan.give_up();
        }
    }
    Ok((plan, meter.used()))
}

fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// The kernel may wake a thread 50 us late, to wake several at once: not one that is to send in time.
fn sleep_exactly() {
    // SAFETY: PR_SET_TIMERSLACK takes a number. Where it fails, sends are a little later.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Waits until something can be read, or the moment has come.
fn wait(fds: &mut [libc::pollfd], until: Option<Instant>) -> io::Result<()> {
    let left = until.map_or(MAX_WAIT, |due| {
        due.saturating_duration_since(Instant::now()).min(MAX_WAIT)
    });
    let timeout = libc::timespec {
        tv_sec: 0,
        tv_nsec: libc::c_long::from(left.subsec_nanos()),
    };
    let count = fds.len() as libc::nfds_t;
    // SAFETY: the array lives through the call, with its true length; no signal mask is given.
    let n = unsafe { libc::ppoll(fds.as_mut_ptr(), count, &timeout, std::ptr::null()) };
    match n {
        -1 if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => {
            Err(io::Error::last_os_error())
        }
        _ => Ok(()),
    }
}
