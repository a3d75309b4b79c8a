//! Reads an upstream response ahead of the client: bytes that a slow client has not taken are kept
//! in memory, then in a temporary file, so that the upstream is released early.

use super::response_body::UpstreamBody;
use crate::body::{BodyStream, Chunk};
use bytes::Bytes;
use gallop_conf::model::{Config, UpConf};
use gallop_runtime::{race, spawn, Either, Notify};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{ready, Context, Poll, Waker};

/// Shorter responses fit into the socket's buffer and need no task.
const INLINE: u64 = 32 * 1024;

/// A temporary file; the bytes between the two offsets are unread.
struct Temp {
    file: Arc<File>,
    read: u64,
    written: u64,
}

/// The state shared by the reading task and the client's side.
struct Shared {
    memory: RefCell<VecDeque<Bytes>>,
    held: Cell<usize>,
    temp: RefCell<Option<Temp>>,
    ended: RefCell<Option<io::Result<()>>>,
    trailers: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    reader: RefCell<Option<Waker>>,
    /// Set when room was made.
    drained: Notify,
    /// Set when the client's side has ended.
    dropped: Notify,
}

/// The limits of unread data in bytes.
#[derive(Clone)]
struct Limits {
    memory: usize,
    file: u64,
    conf: Arc<UpConf>,
    folder: Folder,
}

/// The default folder for temporary files.
#[derive(Clone)]
pub struct Folder {
    pub config: Arc<Config>,
    pub name: &'static str,
}

impl Limits {
    fn folder(&self) -> PathBuf {
        let own = self.conf.temp_path.clone();
        own.unwrap_or_else(|| self.folder.config.prefix.join(self.folder.name))
    }
}

enum State {
    Inline {
        body: Box<UpstreamBody>,
        passed: u64,
    },
    Ahead(Rc<Shared>),
    Ended,
}

/// The body for the client.
pub struct Spooled {
    state: State,
    /// Known after the end of the body.
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
    limits: Limits,
}

impl Spooled {
    pub fn new(body: Box<UpstreamBody>, conf: Arc<UpConf>, folder: Folder) -> Spooled {
        let (count, size) = conf.buffers.unwrap_or((8, 4096));
        let limits = Limits {
            memory: count.saturating_mul(size) as usize,
            file: conf.max_temp_file_size.unwrap_or(1 << 30),
            conf,
            folder,
        };
        Spooled {
            trailers: Vec::new(),
            state: State::Inline { body, passed: 0 },
            limits,
        }
    }
}

impl BodyStream for Spooled {
    fn trailers(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        std::mem::take(&mut self.trailers)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        match &mut self.state {
            State::Ended => return Poll::Ready(None),
            State::Inline { body, passed } if *passed < INLINE => {
                let next = ready!(body.poll_next(cx));
                if let Some(Ok(chunk)) = &next {
                    *passed += chunk.len();
                } else {
                    self.trailers = body.trailers();
                }
                return Poll::Ready(next);
            }
            State::Inline { .. } => {
                let shared = Rc::new(Shared {
                    memory: RefCell::default(),
                    held: Cell::new(0),
                    temp: RefCell::new(None),
                    ended: RefCell::new(None),
                    trailers: RefCell::default(),
                    reader: RefCell::new(None),
                    drained: Notify::default(),
                    dropped: Notify::default(),
                });
                let state = std::mem::replace(&mut self.state, State::Ahead(shared.clone()));
                if let State::Inline { body, .. } = state {
                    spawn(read_ahead(*body, shared, self.limits.clone()));
                }
            }
            State::Ahead(_) => {}
        }
        let State::Ahead(shared) = &self.state else {
            return Poll::Ready(None);
        };
        let next = ready!(shared.poll_take(cx));
        if !matches!(next, Some(Ok(_))) {
            self.trailers = shared.trailers.take();
            self.state = State::Ended;
        }
        Poll::Ready(next)
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        if let State::Ahead(shared) = &self.state {
            shared.dropped.set();
        }
    }
}

impl Shared {
    fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        if let Some(data) = self.memory.borrow_mut().pop_front() {
            self.held.set(self.held.get() - data.len());
            self.drained.set();
            return Poll::Ready(Some(Ok(Chunk::Data(data))));
        }
        if let Some(temp) = &mut *self.temp.borrow_mut() {
            let len = temp.written - temp.read;
            if len > 0 {
                let chunk = Chunk::File {
                    file: temp.file.clone(),
                    offset: temp.read,
                    len,
                };
                temp.read = temp.written;
                self.drained.set();
                return Poll::Ready(Some(Ok(chunk)));
            }
        }
        if let Some(result) = self.ended.borrow_mut().take() {
            return Poll::Ready(result.err().map(Err));
        }
        *self.reader.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    fn wake(&self) {
        if let Some(waker) = self.reader.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Whether unread bytes are in the file, so that later ones must follow them.
    fn in_file(&self) -> bool {
        self.temp
            .borrow()
            .as_ref()
            .is_some_and(|t| t.read < t.written)
    }

    /// Store a piece; `false` if there is no room.
    fn put(&self, data: &Bytes, limits: &Limits) -> io::Result<bool> {
        let fits = self.held.get() == 0 || self.held.get() + data.len() <= limits.memory;
        if !self.in_file() && fits {
            self.held.set(self.held.get() + data.len());
            self.memory.borrow_mut().push_back(data.clone());
            return Ok(true);
        }
        let mut temp = self.temp.borrow_mut();
        let used = temp.as_ref().map_or(0, |t| t.written);
        if used + data.len() as u64 > limits.file {
            return Ok(false);
        }
        if temp.is_none() {
            // Without a temporary file, the upstream waits for the client.
            let Ok(file) = unnamed_file(limits) else {
                return Ok(false);
            };
            *temp = Some(Temp {
                file: Arc::new(file),
                read: 0,
                written: 0,
            });
        }
        if let Some(temp) = &mut *temp {
            temp.file.write_all_at(data, temp.written)?;
            temp.written += data.len() as u64;
        }
        Ok(true)
    }
}

/// An unnamed file that is deleted when closed.
fn unnamed_file(limits: &Limits) -> io::Result<File> {
    let folder = limits.folder();
    crate::creating::make_private_folder(&folder)?;
    let name = format!("{:010}-{}", crate::worker_unique(), std::process::id());
    let path = folder.join(name);
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Read the upstream response to its end, as far as there is room.
async fn read_ahead(mut body: UpstreamBody, shared: Rc<Shared>, limits: Limits) {
    let result = loop {
        let next = poll_fn(|cx| body.poll_next(cx));
        let next = match race(shared.dropped.wait(), next).await {
            Either::First(()) => return,
            Either::Second(next) => next,
        };
        match next {
            None => break Ok(()),
            Some(Err(e)) => break Err(e),
            Some(Ok(Chunk::Data(data))) => match keep(&shared, &data, &limits).await {
                Ok(true) => shared.wake(),
                Ok(false) => return,
                Err(e) => break Err(e),
            },
            Some(Ok(_)) => {}
        }
    };
    *shared.trailers.borrow_mut() = body.trailers();
    *shared.ended.borrow_mut() = Some(result);
    shared.wake();
}

/// Store a piece, waiting for room; `false` if the client's side has ended.
async fn keep(shared: &Shared, data: &Bytes, limits: &Limits) -> io::Result<bool> {
    loop {
        shared.drained.reset();
        if shared.put(data, limits)? {
            return Ok(true);
        }
        if let Either::First(()) = race(shared.dropped.wait(), shared.drained.wait()).await {
            return Ok(false);
        }
    }
}
