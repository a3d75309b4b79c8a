//! Processes: daemon, signals, users.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

pub type Pid = libc::pid_t;

/// The two results of a fork.
pub enum Fork {
    Child,
    Parent(Pid),
}

/// Fork the process. Call this only while the process has one thread.
pub fn fork() -> io::Result<Fork> {
    // SAFETY: the process has a single thread, so the child's memory is consistent.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

pub fn kill(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes no pointers.
    if unsafe { libc::kill(pid, signal) } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Signals that both processes handle.
pub const HANDLED: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCHLD,
    libc::SIGALRM,
];

fn signal_set() -> libc::sigset_t {
    // SAFETY: sigemptyset initializes the set; sigaddset gets valid signals.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        HANDLED.iter().for_each(|s| {
            libc::sigaddset(&mut set, *s);
        });
        set
    }
}

/// Block the handled signals until `wait_signal` takes them; threads that start later inherit this.
pub fn block_signals() {
    let set = signal_set();
    // SAFETY: `set` is valid during the call; a null old set is allowed.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// Wait for the next signal; `None` if `ms` milliseconds passed without one.
pub fn wait_signal(ms: Option<u64>) -> Option<i32> {
    let set = signal_set();
    let ms = ms.unwrap_or(3_600_000);
    let timeout = libc::timespec {
        tv_sec: (ms / 1000) as libc::time_t,
        tv_nsec: (ms % 1000 * 1_000_000) as _,
    };
    // SAFETY: `set` and `timeout` are valid during the call; a null info is allowed.
    let signal = unsafe { libc::sigtimedwait(&set, std::ptr::null_mut(), &timeout) };
    (signal > 0).then_some(signal)
}

/// A child process that ended, with its exit status.
pub struct Ended {
    pub pid: Pid,
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

/// Reap one child that has ended, if any.
pub fn reap() -> Option<Ended> {
    let mut status = 0;
    // SAFETY: `status` is valid during the call.
    let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    if pid <= 0 {
        return None;
    }
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    Some(Ended { pid, code, signal })
}

/// Leave the terminal: start a session and connect standard input and output to /dev/null.
pub fn detach() -> io::Result<()> {
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    // SAFETY: setsid and dup2 take no pointers; replacing the descriptors 0 to 2 is intended.
    unsafe {
        libc::setsid();
        libc::umask(0);
        for fd in 0..3 {
            if libc::dup2(null.as_raw_fd(), fd) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// Set whether a program that this process executes inherits the descriptor.
pub fn leave_open(fd: RawFd, left: bool) -> io::Result<()> {
    let flags = if left { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: fcntl with F_SETFD takes only an integer.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, flags) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Take ownership of a descriptor that the previous process left open. Call this once per
/// descriptor.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    leave_open(fd, false)?;
    // SAFETY: the descriptor is open and was handed over to this process.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Create an unnamed file in memory that no other process can open by a path.
pub fn nameless_file() -> io::Result<File> {
    // SAFETY: the name ends in NUL; nothing else owns the new descriptor.
    unsafe {
        let fd = libc::memfd_create(c"handover".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(File::from_raw_fd(fd))
    }
}

/// The id of this process.
pub fn own() -> Pid {
    // SAFETY: getpid takes no arguments and cannot fail.
    unsafe { libc::getpid() }
}

pub fn parent() -> Pid {
    // SAFETY: getppid takes no arguments and cannot fail.
    unsafe { libc::getppid() }
}

#[derive(Clone, Debug)]
pub struct Ids {
    pub user: CString,
    pub uid: libc::uid_t,
    pub gid: libc::gid_t,
}

/// Look up a user and a group. Errors use nginx's words.
pub fn lookup(user: &str, group: Option<&str>) -> Result<Ids, String> {
    let name = CString::new(user).map_err(|_| format!("getpwnam(\"{user}\") failed"))?;
    // SAFETY: `name` ends in NUL. The result points to static storage and is read at once, while
    // the process has one thread.
    let (uid, mut gid) = unsafe {
        let entry = libc::getpwnam(name.as_ptr());
        if entry.is_null() {
            return Err(format!("getpwnam(\"{user}\") failed"));
        }
        ((*entry).pw_uid, (*entry).pw_gid)
    };
    // Without a group, nginx uses the group with the user's name.
    let group_name = group.unwrap_or(user);
    let c_group =
        CString::new(group_name).map_err(|_| format!("getgrnam(\"{group_name}\") failed"))?;
    // SAFETY: as above.
    unsafe {
        let entry = libc::getgrnam(c_group.as_ptr());
        if !entry.is_null() {
            gid = (*entry).gr_gid;
        } else if group.is_some() {
            return Err(format!("getgrnam(\"{group_name}\") failed"));
        }
    }
    Ok(Ids {
        user: name,
        uid,
        gid,
    })
}

/// Check that files can be created in a folder; otherwise the error of such an attempt.
pub fn may_write_in(folder: &std::path::Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let path = match folder.as_os_str().as_bytes() {
        b"" => c".".to_owned(),
        bytes => CString::new(bytes)?,
    };
    // SAFETY: `path` ends in NUL and is valid during the call.
    match unsafe {
        libc::faccessat(
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::W_OK | libc::X_OK,
            libc::AT_EACCESS,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn is_root() -> bool {
    // SAFETY: geteuid takes no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Drop root privileges permanently: first the groups, then the user.
pub fn drop_privileges(ids: &Ids) -> io::Result<()> {
    // SAFETY: `ids.user` ends in NUL; the calls change only this process's credentials.
    unsafe {
        if libc::initgroups(ids.user.as_ptr(), ids.gid) < 0
            || libc::setgid(ids.gid) < 0
            || libc::setuid(ids.uid) < 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Send this signal to the process when `parent` dies, or now if it is no longer the parent.
pub fn when_parent_dies(parent: Pid, signal: i32) {
    // SAFETY: prctl with PR_SET_PDEATHSIG takes only an integer.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, signal);
    }
    if self::parent() != parent {
        let _ = kill(own(), signal);
    }
}

/// Raise the limit of open descriptors of this process.
pub fn limit_files(n: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: n,
        rlim_max: n,
    };
    // SAFETY: `limit` is valid during the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

pub fn set_priority(nice: i32) -> io::Result<()> {
    // SAFETY: setpriority takes no pointers.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
