//! A response that is written to a file while it arrives. The client's side reads from the file, so
//! that neither side waits for the other.

use super::response_body::UpstreamBody;
use crate::body::{Body, BodyStream, Chunk};
use std::cell::{Cell, RefCell};
use std::fs::{File, OpenOptions};
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A new file beside its final path; removed unless it is moved there.
pub struct Temporary {
    pub file: Arc<File>,
    path: Option<PathBuf>,
}

impl Temporary {
    /// Create the file and its missing parent folders.
    pub fn new(folder: &Path, mode: u32) -> io::Result<Temporary> {
        let prefix = std::str::from_utf8(crate::cache::disk::TEMPORARY).unwrap_or_default();
        let name = format!("{prefix}{}-{}", std::process::id(), crate::worker_unique());
        let path = folder.join(name);
        let open = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(&path)
        };
        let file = match open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                use std::os::unix::fs::DirBuilderExt;
                std::fs::DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(folder)?;
                open()?
            }
            other => other?,
        };
        Ok(Temporary {
            file: Arc::new(file),
            path: Some(path),
        })
    }

    /// Move the file to its final path.
    pub fn place(mut self, to: &Path) -> io::Result<()> {
        match &self.path {
            Some(path) => std::fs::rename(path, to)?,
            None => return Ok(()),
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // A file that cannot be removed is left behind.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Called with a complete response: its file and its size.
pub type Finish = Box<dyn FnOnce(Temporary, u64)>;

/// The state shared by the writing task and the client's side.
struct Progress {
    file: Arc<File>,
    /// The number of bytes written to the file.
    written: Cell<u64>,
    ended: RefCell<Option<io::Result<()>>>,
    reader: RefCell<Option<Waker>>,
}

/// The body for the client, read from the file.
struct Saved {
    progress: Rc<Progress>,
    read: u64,
    over: bool,
}

/// Start writing `body` after the `start` bytes of the file. Writing continues after the client has
/// left, until `abandoned`.
pub fn save(
    body: UpstreamBody,
    temp: Temporary,
    start: u64,
    abandoned: Rc<Cell<bool>>,
    finish: Finish,
) -> Body {
    let progress = Rc::new(Progress {
        file: temp.file.clone(),
        written: Cell::new(start),
        ended: RefCell::new(None),
        reader: RefCell::new(None),
    });
    let shared = progress.clone();
    gallop_runtime::spawn(async move {
        write(body, temp, &shared, abandoned, finish).await;
        shared.wake();
    });
    Body::Stream(Box::new(Saved {
        progress,
        read: start,
        over: false,
    }))
}

async fn write(
    mut body: UpstreamBody,
    temp: Temporary,
    progress: &Progress,
    abandoned: Rc<Cell<bool>>,
    finish: Finish,
) {
    let result = loop {
        if abandoned.get() {
            return;
        }
        match poll_fn(|cx| body.poll_next(cx)).await {
            None => break Ok(()),
            Some(Err(e)) => break Err(e),
            Some(Ok(Chunk::Data(data))) => {
                let at = progress.written.get();
                if let Err(e) = temp.file.write_all_at(&data, at) {
                    break Err(e);
                }
                progress.written.set(at + data.len() as u64);
                progress.wake();
            }
            Some(Ok(_)) => {}
        }
    };
    if result.is_ok() {
        finish(temp, progress.written.get());
    }
    *progress.ended.borrow_mut() = Some(result);
}

impl Progress {
    fn wake(&self) {
        if let Some(waker) = self.reader.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl BodyStream for Saved {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        let written = self.progress.written.get();
        if written > self.read {
            let chunk = Chunk::File {
                file: self.progress.file.clone(),
                offset: self.read,
                len: written - self.read,
            };
            self.read = written;
            return Poll::Ready(Some(Ok(chunk)));
        }
        if self.over {
            return Poll::Ready(None);
        }
        if let Some(result) = self.progress.ended.borrow_mut().take() {
            self.over = true;
            return Poll::Ready(result.err().map(Err));
        }
        *self.progress.reader.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}
