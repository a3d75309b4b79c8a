//! Waiting for one another, within a thread.

use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::task::{Poll, Waker};

/// Wakes every task that waits, and lets later ones pass until it is reset.
#[derive(Default)]
pub struct Notify {
    set: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Notify {
    pub fn set(&self) {
        self.set.set(true);
        self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }

    pub fn reset(&self) {
        self.set.set(false);
    }

    pub fn is_set(&self) -> bool {
        self.set.get()
    }

    pub fn poll_set(&self, cx: &mut std::task::Context<'_>) -> Poll<()> {
        if self.set.get() {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|w| w.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    pub async fn wait(&self) {
        poll_fn(|cx| self.poll_set(cx)).await;
    }
}

pub enum Either<A, B> {
    First(A),
    Second(B),
}

/// Runs both until one is done; the other is dropped.
pub async fn race<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| {
        if let Poll::Ready(out) = a.as_mut().poll(cx) {
            return Poll::Ready(Either::First(out));
        }
        b.as_mut().poll(cx).map(Either::Second)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sleep, spawn, timeout, Runtime};
    use std::rc::Rc;

    #[test]
    fn tasks_timers_and_notices_work_together() {
        let runtime = Runtime::new().expect("epoll");
        let notify = Rc::new(Notify::default());
        let inner = notify.clone();
        let done = runtime.block_on(async move {
            let waker = inner.clone();
            spawn(async move {
                sleep(20).await;
                waker.set();
            });
            assert!(timeout(5, inner.wait()).await.is_err(), "too early");
            timeout(2000, inner.wait()).await.is_ok()
        });
        assert!(done);
    }

    #[test]
    fn the_first_of_two_wins() {
        let runtime = Runtime::new().expect("epoll");
        let first = runtime
            .block_on(async { matches!(race(sleep(5), sleep(5000)).await, Either::First(())) });
        assert!(first);
    }

    #[test]
    fn another_thread_can_wake_a_task() {
        let runtime = Runtime::new().expect("epoll");
        let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = flag.clone();
        runtime.block_on(poll_fn(move |cx| {
            if seen.load(std::sync::atomic::Ordering::SeqCst) {
                return Poll::Ready(());
            }
            let (waker, flag) = (cx.waker().clone(), flag.clone());
            std::thread::spawn(move || {
                flag.store(true, std::sync::atomic::Ordering::SeqCst);
                waker.wake();
            });
            Poll::Pending
        }));
    }
}
