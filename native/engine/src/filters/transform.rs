//! Body filters that change bytes as they pass through.

use crate::body::{read_range, Body, BodyStream, Chunk};
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::task::{ready, Context, Poll};

/// Bytes of a file that are transformed at a time.
const FILE_STEP: u64 = 64 * 1024;

/// The transformation of a body's bytes, in order.
pub trait Transform {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()>;

    /// Produce the output for all input so far, as far as possible.
    fn flush(&mut self, _out: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }

    /// Handle the end of the body.
    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()>;
}

/// A body with a [`Transform`] applied.
pub struct Transformed<T> {
    inner: Body,
    /// `None` after the end of the body.
    transform: Option<T>,
    /// A file range that was partly read, or a flush that follows data.
    pending: VecDeque<Chunk>,
}

impl<T: Transform + 'static> Transformed<T> {
    /// Apply `transform` to `inner`.
    pub fn body(inner: Body, transform: T) -> Body {
        Body::Stream(Box::new(Transformed {
            inner,
            transform: Some(transform),
            pending: VecDeque::new(),
        }))
    }
}

impl<T: Transform> Transformed<T> {
    fn take(&mut self, chunk: Chunk) -> io::Result<Option<Chunk>> {
        let mut out = Vec::new();
        let Some(transform) = &mut self.transform else {
            return Ok(None);
        };
        match chunk {
            Chunk::Data(data) => transform.push(&data, &mut out)?,
            Chunk::Flush => {
                transform.flush(&mut out)?;
                if out.is_empty() {
                    return Ok(Some(Chunk::Flush));
                }
                self.pending.push_front(Chunk::Flush);
                // The flush itself is passed on without another check.
                return Ok(Some(Chunk::Data(Bytes::from(out))));
            }
            Chunk::File { file, offset, len } => {
                let step = len.min(FILE_STEP);
                let mut data = Vec::new();
                read_range(&file, offset, step, &mut data)?;
                transform.push(&data, &mut out)?;
                if step < len {
                    self.pending.push_front(Chunk::File {
                        file,
                        offset: offset + step,
                        len: len - step,
                    });
                }
            }
        }
        Ok((!out.is_empty()).then(|| Chunk::Data(Bytes::from(out))))
    }

    fn end(&mut self) -> io::Result<Option<Chunk>> {
        let mut out = Vec::new();
        if let Some(mut transform) = self.transform.take() {
            transform.finish(&mut out)?;
        }
        Ok((!out.is_empty()).then(|| Chunk::Data(Bytes::from(out))))
    }
}

impl<T: Transform> BodyStream for Transformed<T> {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        loop {
            if self.transform.is_none() {
                return Poll::Ready(None);
            }
            let next = match self.pending.pop_front() {
                Some(Chunk::Flush) => return Poll::Ready(Some(Ok(Chunk::Flush))),
                Some(chunk) => Some(Ok(chunk)),
                None => ready!(self.inner.poll_next(cx)),
            };
            let result = match next {
                Some(Ok(chunk)) => self.take(chunk),
                Some(Err(e)) => Err(e),
                None => self.end(),
            };
            match result {
                Ok(None) => {}
                Ok(Some(chunk)) => return Poll::Ready(Some(Ok(chunk))),
                Err(e) => return Poll::Ready(Some(Err(e))),
            }
        }
    }

    fn trailers(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.inner.trailers()
    }
}
