//! Tasks, and the event loop that runs them.

use crate::io::Ios;
use crate::sys::{event_fd, Epoll};
use crate::timer::{now_ms, now_us, read_wall, Timers};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

type Task = Pin<Box<dyn Future<Output = ()>>>;
/// The handler for events of parked descriptors, by slot number.
type Unparked = Rc<dyn Fn(usize)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskId(usize);

/// State that other threads may access: tasks to wake, and the counter that ends the wait.
struct Remote {
    woken: Mutex<Vec<Arc<TaskWaker>>>,
    event: OwnedFd,
}

struct TaskWaker {
    slot: usize,
    generation: u64,
    queued: AtomicBool,
    remote: Arc<Remote>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        Self::wake_by_ref(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let local = CURRENT.with(|c| match &*c.borrow() {
            Some(inner) if Arc::ptr_eq(&inner.remote, &self.remote) => {
                inner.ready.borrow_mut().push_back(self.clone());
                true
            }
            _ => false,
        });
        if !local {
            let mut woken = self.remote.woken.lock().unwrap_or_else(|e| e.into_inner());
            woken.push(self.clone());
            drop(woken);
            raise(&self.remote.event);
        }
    }
}

fn raise(event: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight bytes are read from `one`. A saturated counter still wakes the loop.
    unsafe {
        libc::write(event.as_raw_fd(), one.as_ptr().cast(), one.len());
    }
}

struct Slot {
    generation: u64,
    task: Option<Task>,
    waker: Option<Arc<TaskWaker>>,
}

pub(crate) struct Inner {
    pub(crate) epoll: Epoll,
    pub(crate) ios: RefCell<Ios>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) now: Cell<u64>,
    pub(crate) now_us: Cell<u64>,
    pub(crate) wall: Cell<u64>,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<usize>>,
    ready: RefCell<VecDeque<Arc<TaskWaker>>>,
    remote: Arc<Remote>,
    tasks: Cell<usize>,
    before_wait: RefCell<Vec<Box<dyn Fn()>>>,
    on_unparked: RefCell<Option<Unparked>>,
}

/// Like [`with_current`], for destructors that may run after the executor is gone.
pub(crate) fn try_current(f: impl FnOnce(&Inner)) {
    // Thread-local values may already be destroyed at the thread's end.
    let _ = CURRENT.try_with(|c| {
        if let Ok(current) = c.try_borrow() {
            if let Some(inner) = current.as_ref() {
                f(inner);
            }
        }
    });
}

thread_local! {
    /// [`Runtime`]'s destructor drops the value. Without a destructor of its own, the thread-local
    /// needs no check on each access.
    static CURRENT: RefCell<Option<ManuallyDrop<Rc<Inner>>>> = const { RefCell::new(None) };
}

pub(crate) fn with_current<T>(f: impl FnOnce(&Inner) -> T) -> T {
    CURRENT.with(|c| {
        f(c.borrow()
            .as_ref()
            .expect("called on a thread that runs the executor"))
    })
}

/// Wakes the event loop of a runtime from another thread.
#[derive(Clone)]
pub struct Handle {
    remote: Arc<Remote>,
}

impl Handle {
    /// End the loop's current wait.
    pub fn wake(&self) {
        raise(&self.remote.event);
    }
}

/// The executor of the current thread.
pub struct Runtime {
    inner: Rc<Inner>,
}

const EVENT_KEY: u64 = u64::MAX;

impl Runtime {
    /// Create this thread's executor; a thread has one at a time.
    pub fn new() -> io::Result<Runtime> {
        let remote = Arc::new(Remote {
            woken: Mutex::new(Vec::new()),
            event: event_fd()?,
        });
        let epoll = Epoll::new()?;
        epoll.add(
            remote.event.as_raw_fd(),
            (libc::EPOLLIN | libc::EPOLLET) as u32,
            EVENT_KEY,
        )?;
        let inner = Rc::new(Inner {
            epoll,
            ios: RefCell::default(),
            timers: RefCell::default(),
            now: Cell::new(now_ms()),
            now_us: Cell::new(now_us()),
            wall: Cell::new(read_wall()),
            slots: RefCell::default(),
            free: RefCell::default(),
            ready: RefCell::default(),
            remote,
            tasks: Cell::new(0),
            before_wait: RefCell::default(),
            on_unparked: RefCell::default(),
        });
        CURRENT.with(|c| *c.borrow_mut() = Some(ManuallyDrop::new(inner.clone())));
        Ok(Runtime { inner })
    }

    pub fn handle(&self) -> Handle {
        Handle {
            remote: self.inner.remote.clone(),
        }
    }

    /// Call `f` each time before the loop waits, for example to flush data gathered in this round.
    pub fn before_wait(&self, f: impl Fn() + 'static) {
        self.inner.before_wait.borrow_mut().push(Box::new(f));
    }

    /// Call `f` with the slot of each parked descriptor that has an event.
    pub fn on_unparked(&self, f: impl Fn(usize) + 'static) {
        *self.inner.on_unparked.borrow_mut() = Some(Rc::new(f));
    }

    /// Run until `future` is done; other tasks also run meanwhile.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let place = result.clone();
        spawn(async move {
            let value = future.await;
            *place.borrow_mut() = Some(value);
        });
        let mut events = Vec::with_capacity(256);
        loop {
            self.run_ready();
            if let Some(value) = result.borrow_mut().take() {
                return value;
            }
            self.turn(&mut events);
        }
    }

    fn turn(&self, events: &mut Vec<libc::epoll_event>) {
        let inner = &self.inner;
        inner.before_wait.borrow().iter().for_each(|f| f());
        let is_idle = inner.ready.borrow().is_empty() && inner.ios.borrow().unparked.is_empty();
        let timeout = if is_idle {
            let next = inner.timers.borrow().next_in(now_ms());
            next.map_or(-1, |ms| ms.min(60_000) as i32)
        } else {
            0
        };
        inner.epoll.wait(events, timeout);
        inner.now_us.set(now_us());
        inner.now.set(inner.now_us.get() / 1000);
        inner.wall.set(read_wall());
        for event in events.iter() {
            let (key, bits) = (event.u64, event.events);
            if key == EVENT_KEY {
                self.take_remote();
            } else {
                inner.ios.borrow_mut().ready(key, bits);
            }
        }
        inner.timers.borrow_mut().fire(inner.now.get());
        self.tell_unparked();
    }

    fn tell_unparked(&self) {
        let mut unparked = std::mem::take(&mut self.inner.ios.borrow_mut().unparked);
        let handler = self.inner.on_unparked.borrow().clone();
        for slot in unparked.drain(..) {
            if let Some(handler) = &handler {
                handler(slot as usize);
            }
        }
        // Events added meanwhile are handled in the next round; the memory is kept.
        let mut ios = self.inner.ios.borrow_mut();
        unparked.append(&mut ios.unparked);
        ios.unparked = unparked;
    }

    fn take_remote(&self) {
        let mut counter = [0u8; 8];
        let fd = self.inner.remote.event.as_raw_fd();
        // SAFETY: eight bytes are written to `counter`. An error means that it was already read.
        unsafe {
            libc::read(fd, counter.as_mut_ptr().cast(), counter.len());
        }
        let mut woken = self
            .inner
            .remote
            .woken
            .lock()
            .unwrap_or_else(|e| e.into_inner());
        self.inner.ready.borrow_mut().extend(woken.drain(..));
    }

    /// Poll the tasks that are ready now; those woken meanwhile are polled in the next round.
    fn run_ready(&self) {
        let count = self.inner.ready.borrow().len();
        for _ in 0..count {
            let Some(waker) = self.inner.ready.borrow_mut().pop_front() else {
                return;
            };
            self.poll_task(&waker);
        }
    }

    fn poll_task(&self, waker: &Arc<TaskWaker>) {
        waker.queued.store(false, Ordering::Release);
        let task = {
            let mut slots = self.inner.slots.borrow_mut();
            let slot = &mut slots[waker.slot];
            if slot.generation != waker.generation {
                return;
            }
            slot.task.take()
        };
        let Some(mut task) = task else { return };
        // The waker is stored in its slot, so that a poll needs no clone.
        let std_waker = Waker::from(waker.clone());
        let mut cx = Context::from_waker(&std_waker);
        let done = task.as_mut().poll(&mut cx).is_ready();
        let mut slots = self.inner.slots.borrow_mut();
        let slot = &mut slots[waker.slot];
        if !done {
            slot.task = Some(task);
            return;
        }
        slot.generation += 1;
        slot.waker = None;
        drop(slots);
        self.inner.free.borrow_mut().push(waker.slot);
        self.inner.tasks.set(self.inner.tasks.get() - 1);
        drop(task);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Tasks own values that refer to the executor, so drop them first.
        let tasks: Vec<_> = self.inner.slots.borrow_mut().drain(..).collect();
        drop(tasks);
        let hooks: Vec<_> = self.inner.before_wait.borrow_mut().drain(..).collect();
        drop(hooks);
        let handler = self.inner.on_unparked.borrow_mut().take();
        drop(handler);
        let last = CURRENT.with(|c| c.borrow_mut().take());
        drop(last.map(ManuallyDrop::into_inner));
    }
}

/// Start a task on this thread.
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    let task: Task = Box::pin(future);
    with_current(|inner| {
        let mut slots = inner.slots.borrow_mut();
        let slot = inner.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(Slot {
                generation: 0,
                task: None,
                waker: None,
            });
            slots.len() - 1
        });
        let waker = Arc::new(TaskWaker {
            slot,
            generation: slots[slot].generation,
            queued: AtomicBool::new(true),
            remote: inner.remote.clone(),
        });
        slots[slot].task = Some(task);
        slots[slot].waker = Some(waker.clone());
        inner.ready.borrow_mut().push_back(waker);
        inner.tasks.set(inner.tasks.get() + 1);
    });
}

/// Let the other ready tasks run first.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Inner {
    pub(crate) fn register(&self, fd: i32, events: u32) -> io::Result<u64> {
        let key = self.ios.borrow_mut().add();
        match self.epoll.add(fd, events, key) {
            Ok(()) => Ok(key),
            Err(e) => {
                self.ios.borrow_mut().remove(key);
                Err(e)
            }
        }
    }
}
