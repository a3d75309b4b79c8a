//! Readiness of file descriptors, edge-triggered.

use crate::executor::{try_current, with_current};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The state of a descriptor and its waiting tasks. It is small, since each connection has one.
#[derive(Default)]
struct IoState {
    /// Counts the owners of the slot, so that a late event never reaches a new owner.
    generation: u32,
    used: bool,
    readable: bool,
    writable: bool,
    /// Whether the peer has closed or reset the connection.
    hung_up: bool,
    /// No task waits; events go to the thread's handler of parked descriptors.
    parked: bool,
    /// Present only after a task has waited; most descriptors are parked.
    wakers: Option<Box<Wakers>>,
}

#[derive(Default)]
struct Wakers {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl IoState {
    fn woken(&mut self, side: fn(&mut Wakers) -> &mut Option<Waker>) {
        if let Some(waker) = self.wakers.as_mut().and_then(|w| side(w).take()) {
            waker.wake();
        }
    }

    fn poll(
        &mut self,
        ready: bool,
        side: fn(&mut Wakers) -> &mut Option<Waker>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if ready {
            return Poll::Ready(());
        }
        // A single attempt registers no waker.
        if is_trial(cx) {
            return Poll::Pending;
        }
        let place = side(self.wakers.get_or_insert_default());
        match place {
            Some(w) if w.will_wake(cx.waker()) => {}
            _ => *place = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

/// Whether the context uses [`Waker::noop`]. `Waker::will_wake` may fail to detect this if the
/// waker's functions were compiled more than once; a task's waker always has data.
fn is_trial(cx: &Context<'_>) -> bool {
    cx.waker().data().is_null()
}

#[derive(Default)]
pub(crate) struct Ios {
    slots: Vec<IoState>,
    free: Vec<u32>,
    /// Parked descriptors with an event.
    pub(crate) unparked: Vec<u32>,
}

impl Ios {
    /// Add a descriptor. The returned key contains slot and generation.
    pub(crate) fn add(&mut self) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(IoState::default());
            (self.slots.len() - 1) as u32
        });
        let state = &mut self.slots[slot as usize];
        state.used = true;
        (u64::from(state.generation) << 32) | u64::from(slot)
    }

    pub(crate) fn remove(&mut self, key: u64) {
        let slot = key as u32;
        let old = std::mem::take(&mut self.slots[slot as usize]);
        // The top generation bit stays clear: u64::MAX is the key of the executor's own event.
        self.slots[slot as usize].generation = (old.generation + 1) & 0x7fff_ffff;
        self.free.push(slot);
    }

    pub(crate) fn ready(&mut self, key: u64, bits: u32) {
        let slot = key as u32;
        let state = &mut self.slots[slot as usize];
        if !state.used || u64::from(state.generation) != key >> 32 {
            return;
        }
        let has = |mask: i32| bits & mask as u32 != 0;
        if has(libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) {
            state.hung_up = true;
        }
        if has(libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) {
            state.readable = true;
            if std::mem::take(&mut state.parked) {
                self.unparked.push(slot);
            }
            state.woken(|w| &mut w.reader);
        }
        if has(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) {
            state.writable = true;
            state.woken(|w| &mut w.writer);
        }
    }

    fn state(&mut self, key: u64) -> &mut IoState {
        &mut self.slots[key as u32 as usize]
    }
}

/// A non-blocking descriptor registered with this thread's executor; closed on drop.
pub struct IoFd {
    fd: OwnedFd,
    key: u64,
    /// The events for which it is in the epoll set; 0 if it is not. With [`SHARED`] it must be
    /// removed explicitly.
    told: Cell<u32>,
    /// Ties the value to this thread, whose executor has its state.
    local: PhantomData<Rc<Cell<()>>>,
}

/// Readability, edge-triggered.
const READING: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
/// Both directions.
const BOTH_WAYS: u32 = READING | libc::EPOLLOUT as u32;

/// Other descriptors may refer to the socket, so closing this one does not remove it from the epoll
/// set (epoll(7)). This is none of epoll's own bits.
const SHARED: u32 = 1 << 26;
/// The events cannot be changed, since the registration is exclusive.
const AS_ADDED: u32 = u32::MAX;

impl IoFd {
    pub fn new(fd: OwnedFd) -> io::Result<IoFd> {
        Self::register(fd, BOTH_WAYS, BOTH_WAYS | SHARED)
    }

    /// Register a UDP socket. Writability events are enabled only while a task waits for them: each
    /// transmitted datagram would otherwise cause an event loop round.
    pub fn reading(fd: OwnedFd) -> io::Result<IoFd> {
        Self::register(fd, READING, READING | SHARED)
    }

    /// Register a socket that no other descriptor refers to.
    pub fn sole(fd: OwnedFd) -> io::Result<IoFd> {
        Self::register(fd, BOTH_WAYS, BOTH_WAYS)
    }

    /// Register a socket from which several threads accept: each connection wakes only one of them.
    pub fn exclusive(fd: OwnedFd) -> io::Result<IoFd> {
        let events = (libc::EPOLLIN | libc::EPOLLEXCLUSIVE) as u32;
        Self::register(fd, events, AS_ADDED)
    }

    fn register(fd: OwnedFd, events: u32, told: u32) -> io::Result<IoFd> {
        let key = with_current(|c| c.register(fd.as_raw_fd(), events))?;
        Ok(IoFd {
            fd,
            key,
            told: Cell::new(told),
            local: PhantomData,
        })
    }

    /// Prepare a socket that no other descriptor refers to and that may be closed before any task
    /// waits for it: it joins the epoll set only then, for the required events. Sockets are usually
    /// writable, and each writability event would cost an event loop round.
    pub fn later(fd: OwnedFd) -> IoFd {
        IoFd {
            fd,
            key: with_current(|c| c.ios.borrow_mut().add()),
            told: Cell::new(0),
            local: PhantomData,
        }
    }

    /// Enable these events; a current state is reported too.
    fn join(&self, events: u32) {
        let told = self.told.get();
        if told & events == events {
            return;
        }
        self.told.set(told | events);
        with_current(|c| {
            let joined = match told {
                0 => c.epoll.add(self.raw(), events, self.key),
                _ => c
                    .epoll
                    .modify(self.raw(), (told | events) & !SHARED, self.key),
            };
            // A socket that cannot be registered counts as closed by the peer.
            if joined.is_err() {
                c.ios.borrow_mut().ready(self.key, libc::EPOLLHUP as u32);
            }
        });
    }

    /// Disable writability events of a socket made with [`IoFd::reading`].
    pub fn stop_writing(&self) {
        let told = self.told.get();
        let left = told & !(libc::EPOLLOUT as u32);
        if told != left {
            self.told.set(left);
            // If this fails, there are superfluous events, which only cost time.
            let _ = with_current(|c| c.epoll.modify(self.raw(), left & !SHARED, self.key));
        }
    }

    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// A number that is unique among this thread's open descriptors; small numbers are used first.
    pub fn slot(&self) -> usize {
        self.key as u32 as usize
    }

    /// Let the handler of [`Runtime::on_unparked`](crate::Runtime::on_unparked) be called once when
    /// the descriptor becomes readable. The last read must have found nothing: an earlier event is
    /// not repeated.
    pub fn park(&self) {
        self.with(|state| {
            state.parked = true;
            state.wakers = None;
        });
        self.join(READING);
    }

    fn with<T>(&self, f: impl FnOnce(&mut IoState) -> T) -> T {
        with_current(|c| f(c.ios.borrow_mut().state(self.key)))
    }

    /// Assume that data may be available, for a new descriptor before its first event.
    pub fn set_readable(&self) {
        self.with(|state| state.readable = true);
    }

    pub fn set_writable(&self) {
        self.with(|state| state.writable = true);
    }

    /// Call this after a read returned nothing or fewer bytes than requested.
    pub fn clear_readable(&self) {
        // After a hang-up there are no further events; the next read must see the end.
        self.with(|state| state.readable = state.hung_up);
    }

    pub fn clear_writable(&self) {
        self.with(|state| state.writable = false);
    }

    pub fn is_readable(&self) -> bool {
        self.with(|state| state.readable)
    }

    pub fn is_hung_up(&self) -> bool {
        self.with(|state| state.hung_up)
    }

    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.with(|state| state.poll(state.readable, |w| &mut w.reader, cx));
        if polled.is_pending() {
            self.join(READING);
        }
        polled
    }

    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.with(|state| state.poll(state.writable, |w| &mut w.writer, cx));
        if polled.is_pending() {
            self.join(BOTH_WAYS);
        }
        polled
    }

    pub async fn readable(&self) {
        poll_fn(|cx| self.poll_readable(cx)).await;
    }

    pub async fn writable(&self) {
        poll_fn(|cx| self.poll_writable(cx)).await;
    }
}

impl Drop for IoFd {
    fn drop(&mut self) {
        try_current(|c| {
            if self.told.get() & SHARED != 0 {
                c.epoll.remove(self.fd.as_raw_fd());
            }
            c.ios.borrow_mut().remove(self.key);
        });
    }
}

/// Read up to `room` bytes and append them to `buf`, for a stream that can only read into
/// initialized memory.
pub fn read_behind(
    buf: &mut Vec<u8>,
    room: usize,
    read: impl FnOnce(&mut [u8]) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<usize>> {
    let len = buf.len();
    buf.resize(len + room, 0);
    let result = read(&mut buf[len..]);
    let taken = match &result {
        Poll::Ready(Ok(n)) => *n,
        _ => 0,
    };
    buf.truncate(len + taken);
    result
}

#[cfg(test)]
mod tests {
    use super::{is_trial, IoFd, IoState};
    use crate::Runtime;
    use std::sync::Arc;
    use std::task::{Context, Wake, Waker};

    struct Nothing;

    impl Wake for Nothing {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_trial_is_told_from_a_task() {
        assert!(is_trial(&Context::from_waker(Waker::noop())));
        let task = Waker::from(Arc::new(Nothing));
        assert!(!is_trial(&Context::from_waker(&task)));
    }

    #[test]
    fn a_udp_socket_is_told_of_room_to_write_while_somebody_waits_for_it() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let io = IoFd::reading(socket.into()).unwrap();
            let tells = |io: &IoFd| io.told.get() & libc::EPOLLOUT as u32 != 0;
            assert!(!tells(&io));
            for _ in 0..2 {
                io.writable().await;
                assert!(tells(&io));
                io.stop_writing();
                io.clear_writable();
                assert!(!tells(&io));
            }
        });
    }

    #[test]
    fn what_each_descriptor_costs_stays_small() {
        assert!(size_of::<IoState>() <= 24, "{}", size_of::<IoState>());
    }
}
