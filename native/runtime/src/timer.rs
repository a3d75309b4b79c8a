//! Timers. Moving a deadline, such as that of an idle connection, costs one store; the heap is used
//! only when an entry is due and its deadline has moved.

use crate::executor::{try_current, with_current};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{SystemTime, UNIX_EPOCH};

/// A deadline, shared by its owner and the heap.
pub(crate) struct Entry {
    /// The due time; `u64::MAX` if it is not set.
    due: Cell<u64>,
    /// The time of its heap entry; `u64::MAX` if there is none.
    armed: Cell<u64>,
    waker: Cell<Option<Waker>>,
}

#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    entries: Vec<Option<Rc<Entry>>>,
    free: Vec<usize>,
    /// Entries of dropped deadlines that may still be in the heap. A new deadline with a later time
    /// reuses such an entry without changing the heap, so short deadlines do not accumulate in it.
    spare: Vec<Rc<Entry>>,
}

/// The most spare entries per thread.
const MAX_SPARE: usize = 4096;

impl Timers {
    fn arm(&mut self, entry: &Rc<Entry>, at: u64) {
        entry.armed.set(at);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot] = Some(entry.clone());
                slot
            }
            None => {
                self.entries.push(Some(entry.clone()));
                self.entries.len() - 1
            }
        };
        self.heap.push(Reverse((at, slot)));
    }

    /// Milliseconds until the next entry, if any.
    pub(crate) fn next_in(&self, now: u64) -> Option<u64> {
        self.heap
            .peek()
            .map(|Reverse((at, _))| at.saturating_sub(now))
    }

    /// Wake the tasks whose deadline has passed.
    pub(crate) fn fire(&mut self, now: u64) {
        while let Some(&Reverse((at, slot))) = self.heap.peek() {
            if at > now {
                return;
            }
            self.heap.pop();
            let entry = self.entries[slot]
                .take()
                .expect("armed entries stay until they fire");
            self.free.push(slot);
            if entry.armed.get() != at {
                continue;
            }
            entry.armed.set(u64::MAX);
            let due = entry.due.get();
            if due == u64::MAX || Rc::strong_count(&entry) == 1 {
                continue;
            }
            if due > now {
                self.arm(&entry, due);
            } else if let Some(waker) = entry.waker.take() {
                waker.wake();
            }
        }
    }
}

/// A point in time that can be moved; its owner polls it.
pub struct Deadline {
    entry: Rc<Entry>,
}

/// A deadline that is not set.
pub fn deadline() -> Deadline {
    let mut spare = None;
    try_current(|c| spare = c.timers.borrow_mut().spare.pop());
    if let Some(entry) = spare {
        return Deadline { entry };
    }
    let entry = Entry {
        due: Cell::new(u64::MAX),
        armed: Cell::new(u64::MAX),
        waker: Cell::new(None),
    };
    Deadline {
        entry: Rc::new(entry),
    }
}

impl Deadline {
    /// Set the deadline to `ms` milliseconds from now.
    pub fn set(&self, ms: u64) {
        self.entry
            .due
            .set(coarse_ms().saturating_add(ms).saturating_add(1));
    }

    pub fn clear(&self) {
        self.entry.due.set(u64::MAX);
    }

    pub fn is_over(&self) -> bool {
        self.entry.due.get() <= coarse_ms()
    }

    /// Ready once the deadline has passed; otherwise wake the task then.
    pub fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.entry.due.get();
        if due == u64::MAX {
            return Poll::Pending;
        }
        if due <= coarse_ms() {
            return Poll::Ready(());
        }
        let waker = match self.entry.waker.take() {
            Some(old) if old.will_wake(cx.waker()) => old,
            _ => cx.waker().clone(),
        };
        self.entry.waker.set(Some(waker));
        if due < self.entry.armed.get() {
            with_current(|c| c.timers.borrow_mut().arm(&self.entry, due));
        }
        Poll::Pending
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.entry.due.set(u64::MAX);
        self.entry.waker.set(None);
        try_current(|c| {
            let mut timers = c.timers.borrow_mut();
            if timers.spare.len() < MAX_SPARE {
                timers.spare.push(self.entry.clone());
            }
        });
    }
}

pub struct Sleep(Deadline);

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_over(cx)
    }
}

pub fn sleep(ms: u64) -> Sleep {
    let deadline = deadline();
    deadline.set(ms);
    Sleep(deadline)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

/// Run `future` for at most `ms` milliseconds.
pub async fn timeout<F: Future>(ms: u64, future: F) -> Result<F::Output, TimedOut> {
    let mut future = std::pin::pin!(future);
    let deadline = deadline();
    deadline.set(ms);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(out) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(out));
        }
        deadline.poll_over(cx).map(|()| Err(TimedOut))
    })
    .await
}

/// The current milliseconds of the monotonic clock.
pub fn now_ms() -> u64 {
    now_us() / 1000
}

fn monotonic() -> libc::timespec {
    // SAFETY: an all-zero timespec is valid, and the call overwrites it.
    let mut ts: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `ts` is valid during the call.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts);
    }
    ts
}

/// The time of [`now_ms`] when this event loop round began.
pub fn coarse_ms() -> u64 {
    with_current(|c| c.now.get())
}

/// Like [`now_ms`], in microseconds.
pub fn now_us() -> u64 {
    let ts = monotonic();
    ts.tv_sec as u64 * 1_000_000 + ts.tv_nsec as u64 / 1000
}

/// Like [`coarse_ms`], in microseconds.
pub fn coarse_us() -> u64 {
    with_current(|c| c.now_us.get())
}

/// The time since 1970 when this event loop round began, in milliseconds.
pub fn unix_time() -> u64 {
    with_current(|c| c.wall.get())
}

pub(crate) fn read_wall() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use std::future::poll_fn;

    #[test]
    fn deadlines_in_quick_succession_do_not_pile_up() {
        let runtime = Runtime::new().expect("epoll");
        runtime.block_on(async {
            for _ in 0..10_000 {
                let done = timeout(60_000, async {
                    let pause = deadline();
                    pause.set(30_000);
                    // Both are in the heap after they were waited for.
                    poll_fn(|cx| {
                        let _ = pause.poll_over(cx);
                        Poll::Ready(())
                    })
                    .await;
                });
                done.await.expect("in time");
            }
            let entries = with_current(|c| c.timers.borrow().heap.len());
            assert!(entries < 10, "{entries}");
            // A deadline with a reused entry ends at its own time.
            sleep(5).await;
        });
    }
}
