//! Panic handling: writes panics to the error log and protects the state that threads share.

use crate::log;
use gallop_conf::model::{ErrorLog, Level};
use std::backtrace::Backtrace;
use std::panic::PanicHookInfo;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The exit code of a worker process whose shared state may be inconsistent after a panic.
pub const BROKEN: i32 = 3;

/// The most backtrace frames to log.
const MAX_FRAMES: usize = 100;

static LOGS: Mutex<Vec<ErrorLog>> = Mutex::new(Vec::new());

/// Write panics of this process and of its forks to these logs.
pub fn log_to(logs: &[ErrorLog]) {
    *LOGS.lock().unwrap_or_else(PoisonError::into_inner) = logs.to_vec();
    std::panic::set_hook(Box::new(report));
}

/// Log a line with the message and the place, and a line per frame of the backtrace.
fn report(info: &PanicHookInfo<'_>) {
    let logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let alert = |text: &str| log::error_to(&logs, Level::Alert, &printable(text));
    let payload = info.payload();
    let message = match payload.downcast_ref::<&str>() {
        Some(text) => text,
        None => payload.downcast_ref::<String>().map_or("", |text| text),
    };
    let place = info.location().map_or(String::new(), |l| l.to_string());
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed").to_owned();
    alert(&format!("thread \"{name}\" panicked at {place}: {message}"));
    let trace = Backtrace::force_capture().to_string();
    for frame in frames(&trace).take(MAX_FRAMES) {
        alert(&format!("backtrace: {frame}"));
    }
}

/// The frames as lines; the standard library writes a function's place on a separate line.
fn frames(trace: &str) -> impl Iterator<Item = String> + '_ {
    let mut lines = trace.lines().map(str::trim).peekable();
    std::iter::from_fn(move || {
        let function = lines.next()?;
        match lines.next_if(|line| line.starts_with("at ")) {
            Some(place) => Some(format!("{function} {place}")),
            None => Some(function.to_owned()),
        }
    })
}

/// Escape control characters: a panic message may quote a client's bytes.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

/// Lock state that the worker's threads share. If a thread panicked while it changed the state, the
/// state may be inconsistent, so the process ends and the master starts another.
pub fn lock_shared<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|_| {
        let logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let message = "a panic left state that threads share half changed: the worker process ends";
        log::error_to(&logs, Level::Alert, message);
        std::process::exit(BROKEN)
    })
}

/// Deliberate failures for tests. Builds without debug assertions do not contain this code.
#[cfg(debug_assertions)]
pub mod fault {
    use std::sync::{Mutex, OnceLock};

    /// The variable that enables these failures.
    const VARIABLE: &str = "GALLOP_TEST_FAULTS";

    pub fn inject(uri: &[u8]) {
        static ON: OnceLock<bool> = OnceLock::new();
        static SHARED: Mutex<()> = Mutex::new(());
        if !uri.starts_with(b"/fault/") || !ON.get_or_init(|| std::env::var_os(VARIABLE).is_some())
        {
            return;
        }
        match uri {
            b"/fault/panic" => panic!("asked for by a test\r\n[alert] 1#1: forged"),
            b"/fault/locked" => {
                let _held = super::lock_shared(&SHARED);
                panic!("asked for by a test while state was locked");
            }
            b"/fault/abort" => std::process::abort(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backtrace_frame_is_one_line() {
        let trace = "   0: a::b\n             at ./x.rs:1:2\n   1: c\n";
        let lines: Vec<_> = frames(trace).collect();
        assert_eq!(lines, ["0: a::b at ./x.rs:1:2", "1: c"]);
    }

    #[test]
    fn panic_message_cannot_forge_log_lines() {
        assert_eq!(printable("a\nb\r\x1b[1m é"), "a\\nb\\r\\u{1b}[1m é");
    }
}
