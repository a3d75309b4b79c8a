//! Readiness of file descriptors, edge-triggered.

use crate::executor::{try_current, with_current};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What is known of a descriptor, and who waits for it.
#[derive(Default)]
pub(crate) struct IoState {
    readable: Cell<bool>,
    writable: Cell<bool>,
    /// The peer has closed or reset the connection.
    hung_up: Cell<bool>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
}

#[derive(Default)]
pub(crate) struct Ios {
    slots: Vec<(u32, Option<Rc<IoState>>)>,
    free: Vec<u32>,
}

impl Ios {
    /// The key holds slot and generation, so that a late event never reaches a new owner.
    pub(crate) fn add(&mut self) -> (u64, Rc<IoState>) {
        let state = Rc::new(IoState::default());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let entry = &mut self.slots[slot as usize];
        entry.1 = Some(state.clone());
        ((u64::from(entry.0) << 32) | u64::from(slot), state)
    }

    pub(crate) fn remove(&mut self, key: u64) {
        let slot = key as u32;
        let entry = &mut self.slots[slot as usize];
        // The top generation bit stays clear: u64::MAX is the key of the executor's own event.
        entry.0 = (entry.0 + 1) & 0x7fff_ffff;
        entry.1 = None;
        self.free.push(slot);
    }

    pub(crate) fn ready(&self, key: u64, bits: u32) {
        let (generation, state) = &self.slots[key as u32 as usize];
        let Some(state) = state
            .as_ref()
            .filter(|_| u64::from(*generation) == key >> 32)
        else {
            return;
        };
        let has = |mask: i32| bits & mask as u32 != 0;
        if has(libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) {
            state.hung_up.set(true);
        }
        if has(libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) {
            state.readable.set(true);
            if let Some(w) = state.reader.borrow_mut().take() {
                w.wake();
            }
        }
        if has(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) {
            state.writable.set(true);
            if let Some(w) = state.writer.borrow_mut().take() {
                w.wake();
            }
        }
    }
}

/// A non-blocking descriptor known to this thread's executor; closed on drop.
pub struct IoFd {
    fd: OwnedFd,
    key: u64,
    state: Rc<IoState>,
    /// No other descriptor names the socket: its close takes it out of the epoll set (epoll(7)).
    sole: bool,
}

/// Both directions, told once for each change.
const BOTH_WAYS: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

impl IoFd {
    pub fn new(fd: OwnedFd) -> io::Result<IoFd> {
        Self::register(fd, BOTH_WAYS, false)
    }

    /// For a socket that no other descriptor names.
    pub fn sole(fd: OwnedFd) -> io::Result<IoFd> {
        Self::register(fd, BOTH_WAYS, true)
    }

    /// For sockets that several threads accept from: only one of them is woken for each connection.
    pub fn exclusive(fd: OwnedFd) -> io::Result<IoFd> {
        Self::register(fd, (libc::EPOLLIN | libc::EPOLLEXCLUSIVE) as u32, false)
    }

    fn register(fd: OwnedFd, events: u32, sole: bool) -> io::Result<IoFd> {
        let (key, state) = with_current(|c| c.register(fd.as_raw_fd(), events))?;
        Ok(IoFd {
            fd,
            key,
            state,
            sole,
        })
    }

    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Assume data may be there: for a descriptor just made, before any event came.
    pub fn set_readable(&self) {
        self.state.readable.set(true);
    }

    pub fn set_writable(&self) {
        self.state.writable.set(true);
    }

    /// Call after a read found nothing, or less than it asked for.
    pub fn clear_readable(&self) {
        // After a hang-up no further event comes; the next read must see the end.
        if !self.state.hung_up.get() {
            self.state.readable.set(false);
        }
    }

    pub fn clear_writable(&self) {
        self.state.writable.set(false);
    }

    pub fn is_readable(&self) -> bool {
        self.state.readable.get()
    }

    pub fn is_hung_up(&self) -> bool {
        self.state.hung_up.get()
    }

    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.state.readable.get() {
            return Poll::Ready(());
        }
        store(&self.state.reader, cx);
        Poll::Pending
    }

    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.state.writable.get() {
            return Poll::Ready(());
        }
        store(&self.state.writer, cx);
        Poll::Pending
    }

    pub async fn readable(&self) {
        poll_fn(|cx| self.poll_readable(cx)).await;
    }

    pub async fn writable(&self) {
        poll_fn(|cx| self.poll_writable(cx)).await;
    }
}

fn store(place: &RefCell<Option<Waker>>, cx: &mut Context<'_>) {
    let mut place = place.borrow_mut();
    match &*place {
        Some(w) if w.will_wake(cx.waker()) => {}
        _ => *place = Some(cx.waker().clone()),
    }
}

impl Drop for IoFd {
    fn drop(&mut self) {
        try_current(|c| {
            if !self.sole {
                c.epoll.remove(self.fd.as_raw_fd());
            }
            c.ios.borrow_mut().remove(self.key);
        });
    }
}
