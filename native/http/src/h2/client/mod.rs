//! The client side of an HTTP/2 connection (RFC 9113), without sockets. It has one request at a time, as
//! nginx's connections to upstreams do.
//!
//! [`Client::receive`] takes input and returns one [`Event`] at a time. Replies to the server's
//! control frames gather in the client until [`Client::take_output`]. Body bytes are slices of the
//! input, so the receive windows stay open: the owner limits its memory by what it reads.
//!
//! A hostile server can make the client keep one field section of limited size and 64 KB of
//! replies. Frames without effect cost points, see [`crate::flood`].

mod control;
mod fields;
#[cfg(test)]
mod tests;

use super::frame::{self, Header};
use super::{INITIAL_WINDOW, MAX_FRAME, MAX_WINDOW};
use crate::flood::{self, Meter};
use crate::hpack::{Decoder, DYNAMIC_TABLE_OFF};
use std::time::Instant;

pub use fields::Fields;

/// The largest id of a client's stream (section 5.1.1).
const MAX_STREAM: u32 = 0x7fff_ffff;
/// The most bytes of an encoded field section, whatever the owner asks for.
const MOST_LIMIT: usize = 1 << 24;
/// The most bytes of unsent replies to control frames.
const MAX_OUTPUT: usize = 64 * 1024;
/// Control frames of the server that each of our DATA frames allows.
const ALLOWED: u32 = 4;
/// The most control frames that the server may have in store.
const MOST_ALLOWED: u32 = 1000;
/// A DATA frame that is shorter than this because of a window allows no control frames.
const TINY: usize = 64;

/// The reason why a response cannot be read. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The server broke the protocol.
    Protocol(&'static str),
    /// The server reset the stream; with the error code.
    Rejected(u32),
    /// The server closes the connection and did not process the request; with the error code.
    GoAway(u32),
    /// A field section exceeds its limit.
    TooBig,
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::Protocol(what) => write!(f, "upstream sent {what}"),
            ClientError::Rejected(code) => {
                write!(f, "upstream rejected request with error {code}")
            }
            ClientError::GoAway(code) => write!(f, "upstream sent goaway with error {code}"),
            ClientError::TooBig => f.write_str("upstream sent too big header"),
        }
    }
}

impl std::error::Error for ClientError {}

type Result<T> = std::result::Result<T, ClientError>;

const fn protocol<T>(what: &'static str) -> Result<T> {
    Err(ClientError::Protocol(what))
}

/// A part of a response.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The head, or an interim one (1xx) before it.
    Head { status: u16, fields: Fields },
    /// A piece of the body.
    Data(&'a [u8]),
    /// The trailers, which end the response.
    Trailers(Fields),
}

/// The rest of a DATA frame.
#[derive(Debug)]
struct Data {
    left: usize,
    padding: usize,
    ends: bool,
}

/// An incomplete field section.
#[derive(Debug)]
struct Section {
    block: Vec<u8>,
    ends: bool,
}

#[derive(Debug)]
pub struct Client {
    decoder: Decoder,
    /// Unsent preface and replies.
    out: Vec<u8>,
    /// The stream of the request; 0 before the first.
    stream: u32,
    /// The most bytes of an encoded field section.
    limit: usize,
    /// Bytes that may be sent: on the connection, on the stream, and at first on a new stream.
    send_window: i64,
    stream_window: i64,
    initial_window: i64,
    /// Bytes that the server may send: on the connection and on the stream.
    receive_window: i64,
    stream_receive_window: i64,
    section: Option<Section>,
    data: Option<Data>,
    head_seen: bool,
    /// Whether the response is complete, and whether the request is.
    response_ended: bool,
    request_ended: bool,
    /// Whether the server has reset the stream after its response.
    is_reset: bool,
    /// Whether the server accepts no more requests.
    is_leaving: bool,
    accepts_streams: bool,
    /// Whether the next field section must start with a table size update.
    table_off: bool,
    meter: Meter,
    /// Control frames that cost the server nothing.
    allowed: u32,
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// A connection whose preface is in its output.
    pub fn new() -> Self {
        let mut out = frame::PREFACE.to_vec();
        let settings = [
            (frame::SETTINGS_HEADER_TABLE_SIZE, 0),
            (frame::SETTINGS_ENABLE_PUSH, 0),
            (frame::SETTINGS_INITIAL_WINDOW_SIZE, MAX_WINDOW as u32),
        ];
        frame::push_header(&mut out, 6 * settings.len(), frame::SETTINGS, 0, 0);
        for (id, value) in settings {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
        let more = (MAX_WINDOW - INITIAL_WINDOW) as u32;
        frame::push_u32(&mut out, frame::WINDOW_UPDATE, 0, more);
        Self {
            decoder: Decoder::new(0),
            out,
            stream: 0,
            limit: 0,
            send_window: INITIAL_WINDOW,
            stream_window: INITIAL_WINDOW,
            initial_window: INITIAL_WINDOW,
            receive_window: MAX_WINDOW,
            stream_receive_window: MAX_WINDOW,
            section: None,
            data: None,
            head_seen: false,
            response_ended: true,
            request_ended: true,
            is_reset: false,
            is_leaving: false,
            accepts_streams: true,
            table_off: false,
            meter: Meter::default(),
            allowed: 0,
        }
    }

    /// Start a request. `block`: its field section, made with [`crate::hpack::encode_field`];
    /// `ends`: it has no body; `limit`: the most bytes of the response's head. The connection
    /// must be new or [`Client::is_reusable`].
    pub fn start(&mut self, block: &[u8], ends: bool, limit: usize) {
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        self.limit = limit.min(MOST_LIMIT);
        self.stream_window = self.initial_window;
        self.stream_receive_window = MAX_WINDOW;
        (self.head_seen, self.is_reset) = (false, false);
        (self.response_ended, self.request_ended) = (false, ends);
        let update: &[u8] = match std::mem::take(&mut self.table_off) {
            true => &[DYNAMIC_TABLE_OFF],
            false => &[],
        };
        let (first, mut rest) = block.split_at(block.len().min(MAX_FRAME - update.len()));
        let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
        let flags = flag(rest.is_empty(), frame::END_HEADERS) | flag(ends, frame::END_STREAM);
        let len = update.len() + first.len();
        frame::push_header(&mut self.out, len, frame::HEADERS, flags, self.stream);
        self.out.extend_from_slice(update);
        self.out.extend_from_slice(first);
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.len().min(MAX_FRAME));
            let flags = flag(more.is_empty(), frame::END_HEADERS);
            let len = piece.len();
            frame::push_header(&mut self.out, len, frame::CONTINUATION, flags, self.stream);
            self.out.extend_from_slice(piece);
            rest = more;
        }
    }

    /// Append DATA frames to `out` as far as the windows allow. Returns the number of bytes taken.
    /// With `ends`, the request is complete once all bytes are taken.
    pub fn send_data(&mut self, data: &[u8], ends: bool, out: &mut Vec<u8>) -> usize {
        if self.request_ended || self.is_reset {
            return data.len();
        }
        let window = self.stream_window.min(self.send_window).max(0) as usize;
        let taken = data.len().min(window);
        let ends = ends && taken == data.len();
        if taken == 0 && !ends {
            return 0;
        }
        self.stream_window -= taken as i64;
        self.send_window -= taken as i64;
        let mut rest = &data[..taken];
        loop {
            let (piece, more) = rest.split_at(rest.len().min(MAX_FRAME));
            let is_last = more.is_empty();
            let flags = if ends && is_last {
                frame::END_STREAM
            } else {
                0
            };
            frame::push_header(out, piece.len(), frame::DATA, flags, self.stream);
            out.extend_from_slice(piece);
            if taken == data.len() || piece.len() >= TINY {
                self.allowed = (self.allowed + ALLOWED).min(MOST_ALLOWED);
            }
            if is_last {
                break;
            }
            rest = more;
        }
        self.request_ended = ends;
        taken
    }

    /// Move the unsent preface, head, and replies to `out`.
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.out);
    }

    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether the whole response was received.
    pub fn is_ended(&self) -> bool {
        self.response_ended
    }

    /// Whether the server wants no more of the request's body.
    pub fn is_reset(&self) -> bool {
        self.is_reset
    }

    /// Whether the connection can carry another request.
    pub fn is_reusable(&self) -> bool {
        let is_idle = self.response_ended && self.request_ended && self.data.is_none();
        let is_open = !self.is_leaving && self.accepts_streams && self.stream < MAX_STREAM - 1;
        is_idle && is_open && self.out.is_empty()
    }

    /// Take the next part of the response from the start of `input`; `None` if more bytes are
    /// needed.
    ///
    /// # Errors
    /// The server broke the protocol or rejected the request.
    pub fn receive<'a>(&mut self, input: &mut &'a [u8], now: Instant) -> Result<Option<Event<'a>>> {
        loop {
            if let Some(piece) = self.take_data(input) {
                return Ok(Some(Event::Data(piece)));
            }
            if self.data.is_some() {
                return Ok(None);
            }
            let Some(header) = Header::parse(input) else {
                return Ok(None);
            };
            if header.len > MAX_FRAME {
                return protocol("too large http2 frame");
            }
            self.check_order(&header)?;
            if header.kind == frame::DATA {
                if !self.start_data(&header, input, now)? {
                    return Ok(None);
                }
                continue;
            }
            if header.kind == frame::HEADERS && header.len > self.limit + MAX_PADDING {
                return Err(ClientError::TooBig);
            }
            let Some(payload) = input.get(frame::HEADER_LEN..frame::HEADER_LEN + header.len) else {
                return Ok(None);
            };
            *input = &input[frame::HEADER_LEN + header.len..];
            if let Some(event) = self.on_frame(&header, payload, now)? {
                return Ok(Some(event));
            }
        }
    }

    /// Check that a frame may come now and on its stream.
    fn check_order(&self, header: &Header) -> Result<()> {
        let continues = header.kind == frame::CONTINUATION;
        if continues != self.section.is_some() {
            return protocol("unexpected http2 frame");
        }
        if header.kind == frame::PUSH_PROMISE {
            return protocol("unexpected push promise frame");
        }
        let (id, kind) = (header.stream, header.kind);
        if id == 0 {
            let needs_stream = matches!(kind, frame::DATA | frame::HEADERS | frame::RST_STREAM);
            return match needs_stream || continues {
                true => protocol("http2 frame without stream"),
                false => Ok(()),
            };
        }
        let is_late = matches!(
            kind,
            frame::RST_STREAM | frame::WINDOW_UPDATE | frame::PRIORITY
        );
        if id != self.stream {
            // A frame about the previous request may have crossed this one's head.
            let is_old = id < self.stream && id % 2 == 1 && is_late;
            return match is_old {
                true => Ok(()),
                false => protocol("frame for unknown stream"),
            };
        }
        if kind == frame::DATA && !self.head_seen {
            return protocol("unexpected http2 frame");
        }
        match self.response_ended && !is_late {
            true => protocol("frame for closed stream"),
            false => Ok(()),
        }
    }

    /// Read the start of a DATA frame; `false` if more bytes are needed.
    fn start_data(&mut self, header: &Header, input: &mut &[u8], now: Instant) -> Result<bool> {
        let mut rest = &input[frame::HEADER_LEN..];
        let mut data = Data {
            left: header.len,
            padding: 0,
            ends: header.has(frame::END_STREAM),
        };
        if header.has(frame::PADDED) {
            if header.len == 0 {
                return protocol("too short http2 frame");
            }
            let Some((&padding, more)) = rest.split_first() else {
                return Ok(false);
            };
            rest = more;
            data.padding = usize::from(padding);
            match (header.len - 1).checked_sub(data.padding) {
                Some(left) => data.left = left,
                None => return protocol("http2 frame with too long padding"),
            }
        }
        self.count_received(header.len as i64)?;
        if data.left == 0 && !data.ends {
            self.charge(flood::IDLE_FRAME, now)?;
        }
        *input = rest;
        self.data = Some(data);
        Ok(true)
    }

    /// Take what has arrived of a DATA frame; `None` if no body bytes have.
    fn take_data<'a>(&mut self, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        let data = self.data.as_mut()?;
        let (piece, rest) = input.split_at(data.left.min(input.len()));
        data.left -= piece.len();
        let skipped = match data.left {
            0 => data.padding.min(rest.len()),
            _ => 0,
        };
        data.padding -= skipped;
        *input = &rest[skipped..];
        if data.left == 0 && data.padding == 0 {
            self.response_ended = data.ends;
            self.data = None;
        }
        (!piece.is_empty()).then_some(piece)
    }

    /// Charge points for a frame that costs work.
    fn charge(&mut self, points: u32, now: Instant) -> Result<()> {
        if self.out.len() > MAX_OUTPUT || !self.meter.charge(points, now) {
            return protocol("too many http2 frames without effect");
        }
        Ok(())
    }
}

/// The most bytes of a HEADERS frame that are no fields: padding and priority.
const MAX_PADDING: usize = 1 + 255 + 5;
