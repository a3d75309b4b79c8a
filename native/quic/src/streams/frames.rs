//! Stream frames: processing received ones, writing outgoing ones, and handling their
//! acknowledgments and losses.

use super::{Reset, Send, Stream, Streams};
use crate::endpoint::Event;
use crate::error::{Error, Reason};
use crate::frame;
use crate::recovery::{Content, SentPackets};
use bytes::Bytes;

/// The least room in a packet for a STREAM frame.
const MIN_ROOM: usize = 24;
/// The most bytes of a control frame: a type and three integers.
const MAX_CONTROL: usize = 1 + 3 * 8;

fn final_size(reason: &'static str) -> Error {
    Error::new(Reason::FinalSize, reason)
}

fn flow(reason: &'static str) -> Error {
    Error::new(Reason::FlowControl, reason)
}

impl Streams {
    /// Handle a STREAM frame.
    #[inline]
    pub fn on_stream(&mut self, id: u64, offset: u64, fin: bool, data: Bytes) -> Result<(), Error> {
        let (received, max_received) = (self.received, self.max_received);
        let Some(Stream { recv, .. }) = self.find(id, false)? else {
            return Ok(());
        };
        let end = offset + data.len() as u64;
        if recv
            .size
            .is_some_and(|size| end > size || fin && end != size)
            || fin && end < recv.highest
        {
            return Err(final_size("a stream's size changed"));
        }
        if end > recv.max {
            return Err(flow("more on a stream than is allowed"));
        }
        let new = end.saturating_sub(recv.highest);
        if received + new > max_received {
            return Err(flow("more on all streams than is allowed"));
        }
        recv.highest += new;
        if fin {
            recv.size = Some(end);
        }
        if !recv.open || recv.reset || recv.stopped {
            // A stopped stream is complete once its end is known.
            let ends = recv.open && recv.stopped && fin;
            recv.open &= !ends;
            self.received += new;
            self.consume(new);
            if ends {
                self.close_if_done(id);
            }
            return Ok(());
        }
        let more = recv.data.insert(offset, data)?;
        let whole = fin || recv.size.is_some();
        if (more || whole && recv.size == Some(recv.data.in_order())) && !recv.told {
            recv.told = true;
            self.events.push_back(Event::Readable(id));
        }
        self.received += new;
        Ok(())
    }

    /// Handle a RESET_STREAM frame.
    pub fn on_reset(&mut self, id: u64, size: u64) -> Result<(), Error> {
        let (received, max_received) = (self.received, self.max_received);
        let Some(Stream { recv, .. }) = self.find(id, false)? else {
            return Ok(());
        };
        if recv.size.is_some_and(|known| known != size) || size < recv.highest {
            return Err(final_size("a reset changed a stream's size"));
        }
        let new = size - recv.highest;
        if size > recv.max || received + new > max_received {
            return Err(flow("a reset stream had more than is allowed"));
        }
        recv.size = Some(size);
        recv.highest = size;
        // Unread data is dropped, even if all of it has arrived (section 3.2).
        if !recv.open || recv.reset {
            self.received += new;
            self.consume(new);
            return Ok(());
        }
        let left = size - recv.data.read_offset();
        recv.data.discard(size);
        recv.reset = true;
        if recv.stopped {
            recv.open = false;
        } else {
            self.events.push_back(Event::Readable(id));
        }
        self.received += new;
        self.consume(left);
        self.close_if_done(id);
        Ok(())
    }

    /// Handle a STOP_SENDING frame.
    pub fn on_stop(&mut self, id: u64, code: u64) -> Result<(), Error> {
        let Some(Stream { send, .. }) = self.find(id, true)? else {
            return Ok(());
        };
        if send.open && send.reset == Reset::No {
            // Section 3.5: the reset has the client's code.
            self.reset(id, code);
            self.events.push_back(Event::Stopped(id));
        }
        Ok(())
    }

    /// Handle a MAX_STREAM_DATA frame.
    pub fn on_max_stream_data(&mut self, id: u64, max: u64) -> Result<(), Error> {
        let Some(Stream { send, .. }) = self.find(id, true)? else {
            return Ok(());
        };
        send.max = send.max.max(max);
        if send.blocked {
            self.unblock();
        }
        Ok(())
    }

    /// Handle a STREAM_DATA_BLOCKED frame, which contains nothing new.
    pub fn on_stream_data_blocked(&mut self, id: u64) -> Result<(), Error> {
        self.find(id, false).map(drop)
    }

    /// Handle a MAX_DATA frame.
    pub fn on_max_data(&mut self, max: u64) {
        self.max_written = self.max_written.max(max);
        self.unblock();
    }

    /// Handle a MAX_STREAMS frame for unidirectional streams.
    pub fn on_max_streams(&mut self, max: u64) {
        self.max_ours = self.max_ours.max(max);
    }

    /// Handle the acknowledgment of a packet's content.
    #[inline]
    pub fn acked(&mut self, content: Content) {
        match content {
            Content::Stream {
                id,
                offset,
                len,
                fin,
            } => {
                let Some(stream) = self.table.get_mut(id) else {
                    return;
                };
                let send = &mut stream.send;
                self.unacked -= send.data.acked(offset..offset + u64::from(len));
                send.fin_acked |= fin;
                if send.fin_acked && send.data.is_done() {
                    self.end_send(id);
                }
            }
            Content::ResetStream(id) => self.end_send(id),
            _ => {}
        }
    }

    /// Call this after a series of [`Streams::acked`].
    pub fn acked_all(&mut self) {
        self.unblock();
    }

    fn end_send(&mut self, id: u64) {
        if let Some(stream) = self.table.get_mut(id).filter(|stream| stream.send.open) {
            stream.send.open = false;
            self.sending -= 1;
            self.close_if_done(id);
        }
    }

    /// Handle the loss of a packet's content, or queue it again for a probe.
    pub fn lost(&mut self, content: Content) {
        match content {
            Content::Stream {
                id,
                offset,
                len,
                fin,
            } => {
                let Some(stream) = self.table.get_mut(id) else {
                    return;
                };
                let send = &mut stream.send;
                if send.reset == Reset::No && send.open {
                    send.data.lost(offset..offset + u64::from(len));
                    if fin && !send.fin_acked {
                        send.fin_sent = false;
                    }
                    Self::make_ready(&mut self.ready, send, id);
                }
            }
            Content::MaxData => self.max_data_due = true,
            Content::MaxStreams { uni: true } => self.uni.due = true,
            Content::MaxStreams { uni: false } => self.bidi.due = true,
            Content::ResetStream(id) | Content::StopSending(id) | Content::MaxStreamData(id) => {
                self.control_lost(id, content);
            }
            _ => {}
        }
    }

    fn control_lost(&mut self, id: u64, content: Content) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        match content {
            Content::ResetStream(_) if stream.send.open => stream.send.reset = Reset::Due,
            Content::StopSending(_) => stream.recv.stop_due = stream.recv.open,
            Content::MaxStreamData(_) => stream.recv.max_due = stream.recv.size.is_none(),
            _ => return,
        }
        Self::control(&mut self.control, stream, id);
    }

    /// Whether there is content to send.
    #[inline]
    pub fn has_pending(&self) -> bool {
        !self.ready.is_empty() || self.has_control()
    }

    fn has_control(&self) -> bool {
        !self.control.is_empty() || self.max_data_due || self.bidi.due || self.uni.due
    }

    /// Write control frames; `out` grows to at most `end` bytes.
    pub fn write_control(&mut self, out: &mut Vec<u8>, end: usize, sent: &mut SentPackets) {
        if !self.has_control() {
            return;
        }
        let fits = |out: &Vec<u8>| out.len() + MAX_CONTROL <= end;
        if self.max_data_due && fits(out) {
            self.max_data_due = false;
            self.max_received = self.consumed + self.limits.window;
            frame::write(out, &[frame::MAX_DATA, self.max_received]);
            sent.carry(Content::MaxData);
        }
        let kinds = [
            (&mut self.bidi, frame::MAX_STREAMS_BIDI, false),
            (&mut self.uni, frame::MAX_STREAMS_UNI, true),
        ];
        for (theirs, kind, uni) in kinds {
            if theirs.due && fits(out) {
                theirs.due = false;
                theirs.max = theirs.closed + theirs.limit;
                frame::write(out, &[kind, theirs.max]);
                sent.carry(Content::MaxStreams { uni });
            }
        }
        while let Some(&id) = self.control.front() {
            if out.len() + 3 * MAX_CONTROL > end {
                return;
            }
            self.control.pop_front();
            if let Some(stream) = self.table.get_mut(id) {
                stream.controlled = false;
                let window = self.limits.stream_window;
                write_stream_control(stream, id, window, out, sent);
            }
        }
    }

    /// Write STREAM frames; `out` grows to at most `end` bytes.
    #[inline]
    pub fn write_streams(&mut self, out: &mut Vec<u8>, end: usize, sent: &mut SentPackets) {
        while let Some(&id) = self.ready.front() {
            if out.len() + MIN_ROOM > end {
                return;
            }
            self.ready.pop_front();
            let Some(stream) = self.table.get_mut(id) else {
                continue;
            };
            let send = &mut stream.send;
            while send.has_pending() && out.len() + MIN_ROOM <= end {
                write_frame(send, id, out, end, sent);
            }
            // The other streams come first in the next packet.
            send.queued = send.has_pending();
            if send.queued {
                self.ready.push_back(id);
            }
        }
    }
}

fn write_stream_control(
    stream: &mut Stream,
    id: u64,
    window: u64,
    out: &mut Vec<u8>,
    sent: &mut SentPackets,
) {
    let (recv, send) = (&mut stream.recv, &mut stream.send);
    if send.reset == Reset::Due {
        send.reset = Reset::Sent;
        let frame = [frame::RESET_STREAM, id, send.reset_code, send.reset_size];
        frame::write(out, &frame);
        sent.carry(Content::ResetStream(id));
    }
    if std::mem::take(&mut recv.stop_due) && recv.open {
        frame::write(out, &[frame::STOP_SENDING, id, recv.stop_code]);
        sent.carry(Content::StopSending(id));
    }
    if std::mem::take(&mut recv.max_due) && recv.open && !recv.stopped && recv.size.is_none() {
        recv.max = recv.data.read_offset() + window;
        frame::write(out, &[frame::MAX_STREAM_DATA, id, recv.max]);
        sent.carry(Content::MaxStreamData(id));
    }
}

#[inline]
fn write_frame(send: &mut Send, id: u64, out: &mut Vec<u8>, end: usize, sent: &mut SentPackets) {
    let room = end - out.len();
    let range = send
        .data
        .peek()
        .unwrap_or(send.data.written()..send.data.written());
    let (offset, waiting) = (range.start, range.end - range.start);
    let bare = frame::stream_header(id, offset, 0) - 1;
    let fills = waiting >= (room - bare) as u64;
    let len = if fills {
        room - bare
    } else {
        let header = frame::stream_header(id, offset, waiting as usize);
        (waiting as usize).min(room - header)
    };
    let behind = offset + len as u64;
    let fin = send.fin && behind == send.data.written();
    frame::write_stream(out, id, offset, (!fills).then_some(len), fin);
    if let Some(range) = send.data.next(len as u64).filter(|_| len > 0) {
        send.data.copy(range, out);
    }
    send.fin_sent |= fin;
    let len = len as u32;
    sent.carry(Content::Stream {
        id,
        offset,
        len,
        fin,
    });
}
