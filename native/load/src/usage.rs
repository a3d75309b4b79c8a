//! The resources used by the load generator, so that it can report when it was the bottleneck.

use std::time::{Duration, Instant};

/// From this fraction of CPU time on, a thread had no time left to send more.
const BUSY: f64 = 0.90;

/// The usage of one thread over its run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub wall: Duration,
    pub cpu: Duration,
    /// The time that the thread was ready while other threads used the CPUs.
    pub waited: Duration,
}

/// Measures from its creation on, for the current thread.
pub struct Meter {
    began: Instant,
    cpu: Duration,
    waited: Duration,
}

impl Meter {
    pub fn start() -> Self {
        Self {
            began: Instant::now(),
            cpu: cpu(),
            waited: waited(),
        }
    }

    pub fn used(&self) -> Usage {
        Usage {
            wall: self.began.elapsed(),
            cpu: cpu().saturating_sub(self.cpu),
            waited: waited().saturating_sub(self.waited),
        }
    }
}

impl Usage {
    pub fn cpu_share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }

    pub fn waited_share(&self) -> f64 {
        self.waited.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }

    /// Whether the measured speed is the load generator's rather than the server's.
    pub fn is_bound(&self) -> bool {
        self.cpu_share() + self.waited_share() > BUSY
    }
}

fn cpu() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec, which is valid during the call.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    match done {
        0 => Duration::new(time.tv_sec as u64, time.tv_nsec as u32),
        _ => Duration::ZERO,
    }
}

/// The time spent waiting on a run queue (proc(5), schedstat); zero if the kernel does not report
/// it.
fn waited() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split_ascii_whitespace().nth(1);
    Duration::from_nanos(ns.and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_only_sleeps_is_not_the_bottleneck() {
        let ms = Duration::from_millis;
        let usage = |cpu, waited| Usage {
            wall: ms(1000),
            cpu: ms(cpu),
            waited: ms(waited),
        };
        assert!(!usage(890, 0).is_bound());
        assert!(usage(950, 0).is_bound() && usage(500, 450).is_bound());
        let meter = Meter::start();
        std::thread::sleep(ms(20));
        let used = meter.used();
        assert!(used.wall >= ms(20) && used.cpu < used.wall);
    }
}
