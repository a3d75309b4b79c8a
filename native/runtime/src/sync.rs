//! Synchronization of tasks in a thread.

use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Wakes every waiting task, and lets later ones pass until it is reset.
#[derive(Default)]
pub struct Notify {
    set: Cell<bool>,
    waiting: RefCell<Places>,
}

#[derive(Default)]
struct Places {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Notify {
    pub fn set(&self) {
        self.set.set(true);
        let wakers: Vec<Waker> = {
            let mut places = self.waiting.borrow_mut();
            places.wakers.iter_mut().filter_map(Option::take).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub fn reset(&self) {
        self.set.set(false);
    }

    pub fn is_set(&self) -> bool {
        self.set.get()
    }

    /// A place to wait for tasks that also wait for other events.
    pub fn watch(&self) -> Watch<'_> {
        Watch {
            notify: self,
            place: None,
        }
    }

    pub async fn wait(&self) {
        let mut watch = self.watch();
        poll_fn(|cx| watch.poll_set(cx)).await;
    }
}

/// The place of a waiting task; released on drop.
pub struct Watch<'a> {
    notify: &'a Notify,
    place: Option<usize>,
}

impl Watch<'_> {
    pub fn poll_set(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.notify.set.get() {
            return Poll::Ready(());
        }
        let mut places = self.notify.waiting.borrow_mut();
        let place = *self.place.get_or_insert_with(|| {
            places.free.pop().unwrap_or_else(|| {
                places.wakers.push(None);
                places.wakers.len() - 1
            })
        });
        match &places.wakers[place] {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => places.wakers[place] = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let mut places = self.notify.waiting.borrow_mut();
            places.wakers[place] = None;
            places.free.push(place);
        }
    }
}

pub enum Either<A, B> {
    First(A),
    Second(B),
}

/// Run both futures until one is done; the other is dropped.
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
    fn who_no_longer_waits_leaves_nothing_behind() {
        let notify = Notify::default();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..1000 {
            let (mut a, mut b) = (notify.watch(), notify.watch());
            assert!(a.poll_set(&mut cx).is_pending() && b.poll_set(&mut cx).is_pending());
        }
        assert_eq!(notify.waiting.borrow().wakers.len(), 2);
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
