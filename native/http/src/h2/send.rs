//! The sending side of an HTTP/2 connection.

use super::connection::Handled;
use super::frame;
use super::streams::{Ended, Stream};
use super::{Connection, ErrorCode};
use crate::flood;
use crate::hpack::DYNAMIC_TABLE_OFF;
use std::time::Instant;

/// A DATA frame that is shorter than this because of a window counts as abuse of windows.
const TINY: usize = 64;

impl<T: Default> Connection<T> {
    /// The owner's data for a stream; `None` if the stream is gone.
    pub fn user_mut(&mut self, stream: u32) -> Option<&mut T> {
        Some(&mut self.streams.sending(stream)?.user)
    }

    /// Whether the stream's response is incomplete.
    pub fn is_open(&self, stream: u32) -> bool {
        self.streams.get(stream).is_some_and(|s| s.answered == 0)
    }

    /// Bytes for the peer. The owner removes the bytes that it has sent.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether there is output.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Send an interim response (1xx).
    pub fn send_interim(&mut self, stream: u32, block: &[u8]) {
        if self.streams.get(stream).is_some_and(|s| !s.head_sent) {
            self.push_section(stream, block, false);
        }
    }

    /// Send the head of a response, or with `end_stream` the whole response. `block` is a field
    /// section made with [`crate::hpack::encode_status`] and [`crate::hpack::encode_field`].
    /// `false` if the stream is gone.
    pub fn send_head(&mut self, stream: u32, block: &[u8], end_stream: bool) -> bool {
        let Some(s) = self.streams.sending(stream) else {
            return false;
        };
        s.head_sent = true;
        self.push_section(stream, block, end_stream);
        if end_stream {
            self.finish(stream);
        }
        true
    }

    /// Send trailers, which end the response.
    pub fn send_trailers(&mut self, stream: u32, block: &[u8]) {
        if self.is_open(stream) {
            self.push_section(stream, block, true);
            self.finish(stream);
        }
    }

    fn push_section(&mut self, stream: u32, block: &[u8], end_stream: bool) {
        let update: &[u8] = if std::mem::take(&mut self.table_off) {
            &[DYNAMIC_TABLE_OFF]
        } else {
            &[]
        };
        let (first, mut rest) = block.split_at(block.len().min(self.peer_max_frame - update.len()));
        let end = |last: bool| if last { frame::END_HEADERS } else { 0 };
        let flags = end(rest.is_empty()) | if end_stream { frame::END_STREAM } else { 0 };
        let len = update.len() + first.len();
        frame::push_header(&mut self.out, len, frame::HEADERS, flags, stream);
        self.out.extend_from_slice(update);
        self.out.extend_from_slice(first);
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.len().min(self.peer_max_frame));
            let flags = end(more.is_empty());
            frame::push_header(
                &mut self.out,
                piece.len(),
                frame::CONTINUATION,
                flags,
                stream,
            );
            self.out.extend_from_slice(piece);
            rest = more;
        }
    }

    /// The number of body bytes that the peer would accept now.
    pub fn capacity(&self, stream: u32) -> usize {
        let window = self.streams.get(stream).map_or(0, |s| s.send_window);
        window.min(self.send_window).max(0) as usize
    }

    /// Send a piece of a response body, as far as the windows allow. Returns the number of bytes
    /// taken. With `end_stream`, the response is complete once all bytes are taken. Otherwise
    /// [`Connection::next_ready`] returns the stream once it may continue.
    pub fn send_data(&mut self, stream: u32, data: &[u8], end_stream: bool) -> usize {
        let Some(s) = self.streams.sending(stream) else {
            return 0;
        };
        let window = s.send_window.min(self.send_window).max(0) as usize;
        let taken = data.len().min(window);
        let whole = taken == data.len();
        s.blocked = !whole;
        if taken == 0 && !(whole && end_stream) {
            return 0;
        }
        s.send_window -= taken as i64;
        self.send_window -= taken as i64;
        let chunk = s.chunk.min(self.peer_max_frame);
        self.push_data(stream, &data[..taken], chunk, whole && end_stream);
        if !whole && taken < TINY {
            // The connection cannot fail here; the next received frame reports the error.
            self.updates_due = 0;
            self.meter.debit(flood::TINY_WINDOW);
        }
        if whole && end_stream {
            self.finish(stream);
        }
        taken
    }

    /// Set the most bytes of a stream's DATA frames.
    pub fn set_chunk(&mut self, stream: u32, bytes: usize) {
        if let Some(s) = self.streams.get_mut(stream) {
            s.chunk = bytes.max(1);
        }
    }

    fn push_data(&mut self, stream: u32, data: &[u8], chunk: usize, end_stream: bool) {
        self.out
            .reserve(data.len() + frame::HEADER_LEN * (1 + data.len() / chunk));
        let end = |last: bool| {
            if last && end_stream {
                frame::END_STREAM
            } else {
                0
            }
        };
        if data.is_empty() {
            frame::push_header(&mut self.out, 0, frame::DATA, end(true), stream);
        }
        let mut rest = data;
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.len().min(chunk));
            frame::push_header(
                &mut self.out,
                piece.len(),
                frame::DATA,
                end(more.is_empty()),
                stream,
            );
            self.out.extend_from_slice(piece);
            self.updates_due = (self.updates_due + 2).min(1000);
            rest = more;
        }
    }

    /// Complete our side of the stream. If the peer's side is incomplete, the peer need not
    /// continue (section 8.1). It is told at once if a part of the body has arrived; otherwise it
    /// gets time to finish what it sends with the head, see [`Connection::end_unfinished`].
    fn finish(&mut self, stream: u32) {
        let Some(s) = self.streams.sending(stream) else {
            return;
        };
        let begun = s.recv_window < i64::from(s.window);
        if !(s.remote_done || s.malformed.is_some() || begun) {
            s.answered = 1;
            s.user = T::default();
            self.unfinished += 1;
            return;
        }
        let code = match s.malformed {
            Some(code) => Some(code),
            None => (!s.remote_done).then_some(ErrorCode::NO_ERROR),
        };
        match code {
            Some(code) => {
                frame::push_u32(&mut self.out, frame::RST_STREAM, stream, code.0);
                let body_left = s.body_left;
                self.remove(stream, Ended::Reset { body_left });
                if code != ErrorCode::NO_ERROR {
                    self.meter.debit(flood::RESET);
                }
            }
            None => {
                self.remove(stream, Ended::Closed);
                self.meter.credit(flood::REQUEST_DONE);
            }
        }
    }

    /// Handle a frame for a stream whose response is complete.
    pub(super) fn end_answered<'a>(&mut self, stream: u32, now: Instant) -> Handled<'a, T> {
        match self.streams.get(stream) {
            Some(s) if s.remote_done => _ = self.remove(stream, Ended::Closed),
            _ => drop(self.reset(stream, ErrorCode::NO_ERROR)),
        }
        self.charge(flood::IDLE_FRAME, now)
    }

    /// Whether there are streams whose response is complete but whose request is not.
    pub fn has_unfinished(&self) -> bool {
        self.unfinished > 0
    }

    /// Reset (with NO_ERROR) the streams with a complete response that already waited for the rest
    /// of their request at the previous call. Call this periodically while
    /// [`Connection::has_unfinished`].
    pub fn end_unfinished(&mut self) {
        let waited = self.streams.iter().filter(|s| s.answered > 1);
        let waited: Vec<u32> = waited.map(|s| s.id).collect();
        for id in waited {
            self.reset(id, ErrorCode::NO_ERROR);
        }
        for stream in self.streams.iter_mut().filter(|s| s.answered == 1) {
            stream.answered = 2;
        }
    }

    /// Reset a stream. Returns the owner's data for it.
    pub fn reset(&mut self, stream: u32, code: ErrorCode) -> Option<T> {
        let body_left = self.streams.get(stream)?.body_left;
        let removed = self.remove(stream, Ended::Reset { body_left })?;
        frame::push_u32(&mut self.out, frame::RST_STREAM, stream, code.0);
        Some(removed.user)
    }

    /// Remove all streams after the loss of the connection. Returns the owner's data for them.
    pub fn take_all(&mut self) -> Vec<T> {
        let users = self
            .streams
            .iter_mut()
            .map(|stream| std::mem::take(&mut stream.user));
        let users = users.collect();
        self.streams.clear();
        self.unfinished = 0;
        users
    }

    /// Accept no more requests; the open ones continue (GOAWAY with NO_ERROR).
    pub fn shutdown(&mut self) {
        if !std::mem::replace(&mut self.going_away, true) {
            frame::push_goaway(&mut self.out, self.last_taken, ErrorCode::NO_ERROR);
        }
    }

    /// The next stream whose window opened or that its owner marked; the streams take turns.
    pub fn next_ready(&mut self) -> Option<u32> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.queued = false;
                return Some(id);
            }
        }
        None
    }

    /// Append a stream to the queue of [`Connection::next_ready`].
    pub fn mark_ready(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(id) {
            if !std::mem::replace(&mut stream.queued, true) {
                self.ready.push_back(id);
            }
        }
    }

    /// Queue every stream whose window has opened.
    pub(super) fn wake_all(&mut self) {
        if self.send_window <= 0 {
            return;
        }
        let may_go_on = |s: &&mut Stream<T>| s.blocked && !s.queued && s.send_window > 0;
        for stream in self.streams.iter_mut().filter(may_go_on) {
            stream.queued = true;
            self.ready.push_back(stream.id);
        }
    }
}
