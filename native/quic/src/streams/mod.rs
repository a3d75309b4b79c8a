//! The streams of a connection (RFC 9000, sections 2 to 4).

mod frames;
mod recv;
mod send;

pub use recv::Assembler;
pub use send::SendBuffer;

use crate::endpoint::Event;
use crate::error::{Error, Reason};
use crate::params::Params;
use bytes::Bytes;
use gallop_http::stream_table::StreamTable;
use std::collections::VecDeque;

/// The low bits of a stream's id (RFC 9000, section 2.1).
const OURS: u64 = 1;
const UNI: u64 = 2;
/// The most ended streams that are kept to reuse their memory.
const POOL: usize = 32;

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// More bytes may arrive.
    Open,
    /// All bytes were read.
    Finished,
    /// The client reset the stream.
    Reset,
}

/// The limits for a client.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_bidi: u64,
    pub max_uni: u64,
    /// The receive windows of a stream and of all streams together.
    pub stream_window: u64,
    pub window: u64,
    /// The most bytes in flight on all streams to the client.
    pub send_window: u64,
}

/// The receiving side of a stream.
#[derive(Debug, Default)]
struct Recv {
    open: bool,
    data: Assembler,
    /// The client's limit, and the bytes received.
    max: u64,
    highest: u64,
    size: Option<u64>,
    reset: bool,
    stopped: bool,
    /// Whether STOP_SENDING with this code, or MAX_STREAM_DATA, must be sent.
    stop_due: bool,
    stop_code: u64,
    max_due: bool,
    /// Whether the application knows that it can read.
    told: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Reset {
    #[default]
    No,
    Due,
    Sent,
}

/// The sending side of a stream.
#[derive(Debug, Default)]
struct Send {
    open: bool,
    data: SendBuffer,
    max: u64,
    fin: bool,
    fin_sent: bool,
    fin_acked: bool,
    reset: Reset,
    reset_code: u64,
    reset_size: u64,
    /// Whether the application wants to write more.
    blocked: bool,
    /// Whether it is in the list of streams with bytes to send.
    queued: bool,
}

impl Send {
    fn has_pending(&self) -> bool {
        self.data.has_pending() || self.fin && !self.fin_sent
    }
}

#[derive(Debug, Default)]
struct Stream {
    recv: Recv,
    send: Send,
    /// Whether it is in the list of streams with control frames to send.
    controlled: bool,
}

/// The client's streams of one kind.
#[derive(Debug)]
struct Theirs {
    /// The number that it has opened, and the number that it may open.
    opened: u64,
    max: u64,
    closed: u64,
    limit: u64,
    /// Whether MAX_STREAMS must be sent.
    due: bool,
}

impl Theirs {
    fn new(limit: u64) -> Self {
        Self {
            opened: 0,
            max: limit,
            closed: 0,
            limit,
            due: false,
        }
    }

    fn close(&mut self) {
        self.closed += 1;
        let max = self.closed + self.limit;
        // Send a frame for every half of the limit.
        self.due |= max - self.max >= self.limit.div_ceil(2);
    }
}

/// All streams of a connection.
#[derive(Debug)]
pub struct Streams {
    table: StreamTable<Box<Stream>>,
    #[allow(clippy::vec_box)] // Moved into and out of the table unchanged.
    pool: Vec<Box<Stream>>,
    bidi: Theirs,
    uni: Theirs,
    ours: u64,
    max_ours: u64,
    limits: Limits,
    /// For flow control: the bytes received, the bytes allowed, and the bytes processed.
    received: u64,
    max_received: u64,
    consumed: u64,
    max_data_due: bool,
    /// The bytes written, the bytes that the client allows, and the bytes not acknowledged.
    written: u64,
    max_written: u64,
    unacked: u64,
    /// The client's initial limits for its own streams and for ours.
    max_stream_bidi: u64,
    max_stream_uni: u64,
    ready: VecDeque<u64>,
    control: VecDeque<u64>,
    blocked: Vec<u64>,
    sending: usize,
    pub events: VecDeque<Event>,
}

impl Streams {
    /// An empty set of streams.
    pub fn new(limits: Limits) -> Self {
        Self {
            table: StreamTable::new(2),
            pool: Vec::new(),
            bidi: Theirs::new(limits.max_bidi),
            uni: Theirs::new(limits.max_uni),
            ours: 0,
            max_ours: 0,
            limits,
            received: 0,
            max_received: limits.window,
            consumed: 0,
            max_data_due: false,
            written: 0,
            max_written: 0,
            unacked: 0,
            max_stream_bidi: 0,
            max_stream_uni: 0,
            ready: VecDeque::new(),
            control: VecDeque::new(),
            blocked: Vec::new(),
            sending: 0,
            events: VecDeque::new(),
        }
    }

    /// Apply the client's transport parameters.
    pub fn set_params(&mut self, params: &Params) {
        self.max_ours = params.max_streams_uni;
        self.max_written = params.max_data;
        self.max_stream_bidi = params.max_stream_data_bidi;
        self.max_stream_uni = params.max_stream_data_uni;
    }

    /// The number of streams with unacknowledged bytes or room to write.
    pub fn sending(&self) -> usize {
        self.sending
    }

    fn insert(&mut self, id: u64) {
        let mut stream = self.pool.pop().unwrap_or_default();
        if id & OURS == 0 {
            stream.recv.open = true;
            stream.recv.max = self.limits.stream_window;
        }
        if id & UNI == 0 || id & OURS != 0 {
            stream.send.open = true;
            stream.send.max = match id & UNI {
                0 => self.max_stream_bidi,
                _ => self.max_stream_uni,
            };
            self.sending += 1;
        }
        self.table.insert(id, stream);
    }

    /// Find a stream that a frame names, opening it and all before it if necessary; `sends`: the
    /// frame concerns our sending side.
    ///
    /// # Errors
    /// The stream cannot exist.
    #[inline]
    fn find(&mut self, id: u64, sends: bool) -> Result<Option<&mut Stream>, Error> {
        let state = |reason| Err(Error::new(Reason::StreamState, reason));
        if id & OURS != 0 {
            if id & UNI == 0 || id >> 2 >= self.ours {
                return state("a frame for a stream that was never opened");
            }
            if !sends {
                return state("data on a stream that only we send on");
            }
            return Ok(self.table.get_mut(id).map(|stream| &mut **stream));
        }
        if sends && id & UNI != 0 {
            return state("a frame for a stream that only the client sends on");
        }
        let theirs = if id & UNI == 0 {
            &mut self.bidi
        } else {
            &mut self.uni
        };
        let number = id >> 2;
        if number >= theirs.max {
            return Err(Error::new(
                Reason::StreamLimit,
                "more streams than are allowed",
            ));
        }
        let from = theirs.opened;
        if number >= from {
            theirs.opened = number + 1;
            (from..=number).for_each(|n| self.insert(n << 2 | id & UNI));
        }
        Ok(self.table.get_mut(id).map(|stream| &mut **stream))
    }

    /// Remove a stream whose sides are both complete.
    fn close_if_done(&mut self, id: u64) {
        let stream = self.table.get(id);
        if !stream.is_some_and(|stream| !stream.recv.open && !stream.send.open) {
            return;
        }
        let Some(mut stream) = self.table.remove(id) else {
            return;
        };
        match id & (OURS | UNI) {
            0 => self.bidi.close(),
            UNI => self.uni.close(),
            _ => {}
        }
        if self.pool.len() < POOL && !stream.send.queued && !stream.controlled {
            stream.restart();
            self.pool.push(stream);
        }
    }

    fn control(control: &mut VecDeque<u64>, stream: &mut Stream, id: u64) {
        if !std::mem::replace(&mut stream.controlled, true) {
            control.push_back(id);
        }
    }

    fn make_ready(ready: &mut VecDeque<u64>, send: &mut Send, id: u64) {
        if send.has_pending() && !std::mem::replace(&mut send.queued, true) {
            ready.push_back(id);
        }
    }

    /// Record processed bytes: the client may send as many more and gets a window update from time
    /// to time.
    fn consume(&mut self, bytes: u64) {
        self.consumed += bytes;
        let max = self.consumed + self.limits.window;
        self.max_data_due |= max - self.max_received >= self.limits.window / 4;
    }

    /// Read received bytes in order, up to about `limit`. Reading stops after a piece for which
    /// `stop` returns true, before the stream's end.
    pub fn read(
        &mut self,
        id: u64,
        limit: usize,
        chunks: &mut Vec<Bytes>,
        stop: impl Fn(&[u8]) -> bool,
    ) -> End {
        let Some(stream) = self
            .table
            .get_mut(id)
            .filter(|s| s.recv.open && !s.recv.stopped)
        else {
            return End::Open;
        };
        let recv = &mut stream.recv;
        recv.told = false;
        if recv.reset {
            recv.open = false;
            self.close_if_done(id);
            return End::Reset;
        }
        let (mut taken, mut stopped) = (0, false);
        while taken < limit && !stopped {
            let Some(piece) = recv.data.next() else { break };
            taken += piece.len();
            stopped = stop(&piece);
            chunks.push(piece);
        }
        let finished = !stopped && recv.size == Some(recv.data.read_offset());
        let window = self.limits.stream_window;
        let max = recv.data.read_offset() + window;
        if finished {
            recv.open = false;
        } else if recv.size.is_none() && max - recv.max >= window / 4 {
            recv.max_due = true;
            Self::control(&mut self.control, stream, id);
        }
        self.consume(taken as u64);
        if finished {
            self.close_if_done(id);
            return End::Finished;
        }
        End::Open
    }

    /// Whether the client reset a stream that is not being read; `true` only once.
    pub fn was_reset(&mut self, id: u64) -> bool {
        let Some(stream) = self.table.get_mut(id) else {
            return false;
        };
        let reset = stream.recv.open && stream.recv.reset;
        if reset {
            stream.recv.open = false;
            self.close_if_done(id);
        }
        reset
    }

    /// Send STOP_SENDING.
    pub fn stop(&mut self, id: u64, code: u64) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let recv = &mut stream.recv;
        if !recv.open || recv.stopped {
            return;
        }
        let left = recv.highest - recv.data.read_offset();
        let credited = if recv.reset { 0 } else { left };
        recv.data.discard(recv.highest);
        (recv.stopped, recv.stop_code) = (true, code);
        if recv.size.is_some() {
            recv.open = false;
        } else {
            recv.stop_due = true;
            Self::control(&mut self.control, stream, id);
        }
        self.consume(credited);
        self.close_if_done(id);
    }

    /// Open a unidirectional stream if the client allows another.
    pub fn open_uni(&mut self) -> Option<u64> {
        if self.ours >= self.max_ours {
            return None;
        }
        let id = self.ours << 2 | UNI | OURS;
        self.ours += 1;
        self.insert(id);
        Some(id)
    }

    /// The bytes that can be written on a stream now.
    fn room(&self, send: &Send) -> u64 {
        let stream = send.max.saturating_sub(send.data.written());
        let connection = self.max_written.saturating_sub(self.written);
        let memory = self.limits.send_window.saturating_sub(self.unacked);
        stream.min(connection).min(memory)
    }

    /// Queue bytes. Returns the number taken, or `None` if the stream is gone.
    pub fn write(&mut self, id: u64, chunks: &mut [Bytes]) -> Option<usize> {
        let stream = self.table.get(id)?;
        let send = &stream.send;
        if !send.open || send.fin || send.reset != Reset::No {
            return None;
        }
        let mut room = usize::try_from(self.room(send)).unwrap_or(usize::MAX);
        let send = &mut self.table.get_mut(id)?.send;
        let mut taken = 0;
        for chunk in chunks {
            if chunk.len() > room {
                if !std::mem::replace(&mut send.blocked, true) {
                    self.blocked.push(id);
                }
                if room > 0 {
                    send.data.write(chunk.split_to(room));
                }
                taken += room;
                break;
            }
            room -= chunk.len();
            taken += chunk.len();
            send.data.write(std::mem::take(chunk));
        }
        Self::make_ready(&mut self.ready, send, id);
        self.written += taken as u64;
        self.unacked += taken as u64;
        Some(taken)
    }

    /// End a stream after its queued bytes.
    pub fn finish(&mut self, id: u64) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let send = &mut stream.send;
        if send.open && send.reset == Reset::No {
            send.fin = true;
            Self::make_ready(&mut self.ready, send, id);
        }
    }

    /// Reset the sending side of a stream.
    pub fn reset(&mut self, id: u64, code: u64) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let send = &mut stream.send;
        if !send.open || send.reset != Reset::No {
            return;
        }
        send.reset_size = send.data.sent();
        self.written -= send.data.written() - send.reset_size;
        self.unacked -= send.data.discard();
        (send.reset, send.reset_code) = (Reset::Due, code);
        Self::control(&mut self.control, stream, id);
        self.unblock();
    }

    /// Tell the application which streams have room to write.
    fn unblock(&mut self) {
        let memory = self.limits.send_window - self.limits.send_window / 8;
        if self.blocked.is_empty() || self.unacked > memory || self.written >= self.max_written {
            return;
        }
        let mut blocked = std::mem::take(&mut self.blocked);
        blocked.retain(|&id| {
            let Some(stream) = self.table.get(id).filter(|s| s.send.blocked) else {
                return false;
            };
            let writable = self.room(&stream.send) > 0 || stream.send.reset != Reset::No;
            if writable {
                self.events.push_back(Event::Writable(id));
            }
            !writable
        });
        for event in &self.events {
            if let Event::Writable(id) = event {
                if let Some(stream) = self.table.get_mut(*id) {
                    stream.send.blocked = false;
                }
            }
        }
        self.blocked = blocked;
    }
}

impl Recv {
    /// Reset for reuse, keeping memory.
    fn restart(&mut self) {
        let Self {
            open,
            data,
            max,
            highest,
            size,
            reset,
            stopped,
            stop_due,
            stop_code,
            max_due,
            told,
        } = self;
        data.restart();
        (*open, *reset, *stopped, *told) = (false, false, false, false);
        (*stop_due, *stop_code, *max_due) = (false, 0, false);
        (*max, *highest, *size) = (0, 0, None);
    }
}

impl Send {
    /// Reset for reuse, keeping memory.
    fn restart(&mut self) {
        let Self {
            open,
            data,
            max,
            fin,
            fin_sent,
            fin_acked,
            reset,
            reset_code,
            reset_size,
            blocked,
            queued,
        } = self;
        data.restart();
        (*open, *blocked, *queued) = (false, false, false);
        (*max, *fin, *fin_sent, *fin_acked) = (0, false, false, false);
        (*reset, *reset_code, *reset_size) = (Reset::No, 0, 0);
    }
}

impl Stream {
    /// Reset for reuse, field by field: creating and dropping a value costs more than processing a
    /// packet's frames.
    fn restart(&mut self) {
        let Self {
            recv,
            send,
            controlled,
        } = self;
        recv.restart();
        send.restart();
        *controlled = false;
    }
}
