//! Responses on the streams of a connection.

use super::{Connection, ErrorCode, MAX_QUEUED};
use crate::mux::{Coding, Mux};
use bytes::Bytes;
use gallop_http::h3::send;
use gallop_runtime::Notify;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The most bytes of a response in one DATA frame.
const MAX_DATA: usize = 64 * 1024;

impl Connection {
    /// Continue writing after QUIC accepted no more bytes before.
    pub(super) fn write_on(&self, stream: u64) {
        let Some(Ok(())) = self.push(stream) else {
            return;
        };
        let mut streams = self.streams.borrow_mut();
        let Some(state) = streams.get_mut(stream) else {
            return;
        };
        match state.writer.take() {
            Some(writer) => writer.wake(),
            None if state.ends => {
                drop(streams);
                self.finish(stream);
            }
            None => {}
        }
    }

    /// Pass pending bytes to QUIC: `Ok` when all are accepted, `None` when it accepts no more now.
    fn push(&self, stream: u64) -> Option<io::Result<()>> {
        let mut streams = self.streams.borrow_mut();
        let Some(state) = streams.get_mut(stream) else {
            return Some(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let mut endpoint = self.hub.endpoint.borrow_mut();
        while !state.pending.is_empty() {
            let chunks = state.pending.make_contiguous();
            match endpoint.write(self.key, stream, chunks) {
                None => return Some(Err(io::ErrorKind::BrokenPipe.into())),
                Some(0) => return None,
                Some(_) => state.pending.retain(|chunk| !chunk.is_empty()),
            }
        }
        Some(Ok(()))
    }

    /// Mark the response as complete.
    fn finish(&self, stream: u64) {
        let Some(state) = self.streams.borrow_mut().remove(stream) else {
            return;
        };
        let mut endpoint = self.hub.endpoint.borrow_mut();
        endpoint.finish(self.key, stream);
        if !state.received {
            endpoint.stop(self.key, stream, ErrorCode::NO_ERROR.0);
        }
        drop(endpoint);
        let mut h3 = self.h3.borrow_mut();
        h3.forget(stream);
        h3.request_done();
    }

    fn queue(&self, stream: u64, bytes: Bytes, ends: bool) {
        if let Some(state) = self.streams.borrow_mut().get_mut(stream) {
            state.pending.push_back(bytes);
            state.ends = ends;
        }
    }

    fn send_section(&self, stream: u64, section: &[u8], end: bool) {
        let mut frame = Vec::with_capacity(section.len() + 4);
        send::push_head(&mut frame, section);
        self.send_frames(stream, frame, end);
    }

    fn send_frames(&self, stream: u64, frames: Vec<u8>, end: bool) {
        self.queue(stream, frames.into(), end);
        if matches!(self.push(stream), Some(Ok(()))) && end {
            self.finish(stream);
        }
        self.hub.touch(self.key);
    }
}

impl Mux for Connection {
    fn coding(&self) -> Coding {
        Coding::Qpack
    }

    fn send_head(&self, stream: u64, section: &[u8], end: bool) {
        self.send_section(stream, section, end);
    }

    fn fits(&self, stream: u64, _length: u64) -> bool {
        // Bytes that QUIC does not accept now are kept with the stream.
        self.streams.borrow().get(stream).is_some()
    }

    fn answer(&self, stream: u64, section: &[u8], body: Option<&[u8]>) {
        let Some(body) = body else {
            return self.send_section(stream, section, true);
        };
        let mut frames = Vec::with_capacity(section.len() + body.len() + 16);
        send::push_head(&mut frames, section);
        send::push_data_header(&mut frames, body.len() as u64);
        frames.extend_from_slice(body);
        self.send_frames(stream, frames, true);
    }

    fn landed(&self, stream: u64, gone: Rc<Notify>) {
        match self.streams.borrow_mut().get_mut(stream) {
            Some(state) => {
                state.place = None;
                state.gone = Some(gone);
            }
            None => gone.set(),
        }
    }

    fn send_interim(&self, stream: u64, section: &[u8]) {
        self.send_section(stream, section, false);
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        stream: u64,
        data: &mut Bytes,
        end: bool,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.push(stream) {
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(())) if data.is_empty() => {
                    if end {
                        self.finish(stream);
                    }
                    self.hub.touch(self.key);
                    return Poll::Ready(Ok(()));
                }
                Some(Ok(())) => {
                    let piece = data.split_to(data.len().min(MAX_DATA));
                    let mut header = Vec::with_capacity(8);
                    send::push_data_header(&mut header, piece.len() as u64);
                    self.queue(stream, header.into(), false);
                    self.queue(stream, piece, false);
                }
                None => break,
            }
        }
        if let Some(state) = self.streams.borrow_mut().get_mut(stream) {
            state.writer = Some(cx.waker().clone());
        }
        self.hub.touch(self.key);
        Poll::Pending
    }

    fn send_trailers(&self, stream: u64, section: &[u8]) {
        self.send_section(stream, section, true);
    }

    fn abort(&self, stream: u64, _late: bool) {
        // The caller is the stream's task, which ends by itself.
        drop(self.streams.borrow_mut().remove(stream));
        self.h3.borrow_mut().forget(stream);
        let mut endpoint = self.hub.endpoint.borrow_mut();
        endpoint.reset(self.key, stream, ErrorCode::INTERNAL_ERROR.0);
        endpoint.stop(self.key, stream, ErrorCode::INTERNAL_ERROR.0);
        drop(endpoint);
        self.hub.touch(self.key);
    }

    fn released(&self, stream: u64, len: usize) {
        let mut streams = self.streams.borrow_mut();
        let Some(state) = streams.get_mut(stream) else {
            return;
        };
        state.queued = state.queued.saturating_sub(len);
        if state.queued < MAX_QUEUED && std::mem::take(&mut state.unread) {
            self.resumed.borrow_mut().push(stream);
            drop(streams);
            self.hub.touch(self.key);
        }
    }
}
