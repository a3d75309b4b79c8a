//! A thread's share of the connections and requests.

use crate::options::{Options, Protocol};
use crate::plan::{share, Plan};
use crate::quic::Quic;
use crate::tcp::Tcp;
use crate::usage::{Meter, Usage};
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// The longest wait, since the timers of a new connection are not known yet.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// The connections of a thread over any transport.
pub trait Transport {
    /// Process received bytes and start due requests. Returns the latest time for the next call.
    ///
    /// # Errors
    /// The run cannot continue.
    fn go_on(&mut self, plan: &mut Plan, now: Instant) -> Result<Option<Instant>, String>;

    /// Append the descriptors that become readable when there is input.
    fn fds(&self, fds: &mut Vec<RawFd>);

    /// Called after a wait, before the clock is read.
    fn gather(&mut self) {}
}

/// Run thread number `thread`. Returns its results and its usage.
///
/// # Errors
/// The server is unreachable or ended the run.
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
    // Longer than the patience for single connections, which can be replaced.
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
            // A few missing responses at the end do not invalidate the results.
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

/// Ask the kernel for exact wake-ups. By default, it may wake a thread 50 us late to combine
/// wake-ups.
fn sleep_exactly() {
    // SAFETY: PR_SET_TIMERSLACK takes a number. If it fails, sends are slightly later.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Wait until a descriptor is readable or the time has come.
fn wait(fds: &mut [libc::pollfd], until: Option<Instant>) -> io::Result<()> {
    let left = until.map_or(MAX_WAIT, |due| {
        due.saturating_duration_since(Instant::now()).min(MAX_WAIT)
    });
    let timeout = libc::timespec {
        tv_sec: 0,
        tv_nsec: libc::c_long::from(left.subsec_nanos()),
    };
    let count = fds.len() as libc::nfds_t;
    // SAFETY: the array is valid during the call and has the given length; there is no signal mask.
    let n = unsafe { libc::ppoll(fds.as_mut_ptr(), count, &timeout, std::ptr::null()) };
    match n {
        -1 if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => {
            Err(io::Error::last_os_error())
        }
        _ => Ok(()),
    }
}
