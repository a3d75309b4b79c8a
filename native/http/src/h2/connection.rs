//! The receiving side of an HTTP/2 connection.

use super::frame::{self, Header};
use super::streams::{Ended, Stream, Streams};
use super::{Config, Error, ErrorCode, INITIAL_WINDOW, MAX_FRAME};
use crate::flood::{self, Meter};
use crate::head::{HeadBuilder, HeadError, RequestHead};
use crate::hpack::{self, Decoder};
use crate::section_cache::SectionCache;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

/// The size of the dynamic table for the peer's fields: the protocol's initial value.
pub(super) const TABLE_SIZE: usize = 4096;
/// The number of request heads cached per connection, as a power of two.
const CACHE_BITS: u32 = 3;
/// The most frames of a field section.
const MAX_SECTION_FRAMES: u32 = 64;
/// The most simultaneous streams that the stream table supports.
const MAX_STREAMS: usize = 32_768;
/// Input waits while more output than this is unsent.
const MAX_UNSENT: usize = 256 * 1024;

/// An event. Data borrows from the input.
#[derive(Debug)]
pub enum Event<'a, T> {
    /// A request. The stream exists until its response is complete or it is reset.
    Request {
        /// The stream of the request.
        stream: u32,
        /// The head; equal requests may share one.
        head: Rc<RequestHead>,
        /// Whether there is no body.
        end_stream: bool,
    },
    /// A request that must be rejected with 400. Its response is sent like any other; a reset
    /// follows automatically.
    Malformed {
        /// The stream of the request.
        stream: u32,
        /// The error for the log.
        error: HeadError,
    },
    /// A piece of a request body, to be returned with [`Connection::release`].
    Data {
        /// The stream of the request.
        stream: u32,
        /// The piece; empty only at the end.
        data: &'a [u8],
        /// Whether this is the last piece.
        end_stream: bool,
    },
    /// The body contradicts its head: respond with 400. A reset follows the response automatically.
    BadBody {
        /// The stream of the request.
        stream: u32,
    },
    /// The stream was reset: stop its work.
    Reset {
        /// The stream that was reset.
        stream: u32,
        /// The reason.
        code: ErrorCode,
        /// The owner's data for the stream.
        user: T,
    },
    /// The peer opens no more streams: close when the open ones are done.
    GoAway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Preface,
    Open,
    Closed,
}

/// A field section whose CONTINUATION frames are expected.
#[derive(Debug)]
struct Section {
    stream: u32,
    block: Vec<u8>,
    end_stream: bool,
    depends_on: Option<u32>,
    frames: u32,
}

/// An HTTP/2 connection; `T` is the owner's data for each stream.
#[derive(Debug)]
pub struct Connection<T> {
    pub(super) config: Config,
    state: State,
    decoder: Decoder,
    cache: SectionCache,
    pub(super) streams: Streams<T>,
    /// The highest stream id that the peer used.
    last_stream: u32,
    /// The highest stream id that was not refused, for GOAWAY.
    pub(super) last_taken: u32,
    pub(super) going_away: bool,
    section: Option<Section>,
    /// A stream whose head was late: the head is decoded only to keep the table correct.
    late: Option<u32>,
    /// The largest frame that the peer accepts.
    pub(super) peer_max_frame: usize,
    pub(super) send_window: i64,
    recv_window: i64,
    /// Whether the peer has acknowledged our settings.
    pub(super) acknowledged: bool,
    released: u32,
    pub(super) initial_send_window: i64,
    /// The peer lowered its table size: our next field section must acknowledge this.
    pub(super) table_off: bool,
    pub(super) ready: VecDeque<u32>,
    pub(super) out: Vec<u8>,
    pub(super) meter: Meter,
    /// The number of window updates that the peer has a reason for.
    pub(super) updates_due: u32,
    requests: u64,
    /// Streams whose response is complete but whose request is not.
    pub(super) unfinished: usize,
}

pub(super) type Handled<'a, T> = Result<Option<Event<'a, T>>, Error>;

impl<T: Default> Connection<T> {
    /// A connection that expects the client's preface. The server's preface is already in the
    /// output.
    pub fn new(mut config: Config) -> Self {
        config.max_streams = config.max_streams.min(MAX_STREAMS);
        let mut connection = Self {
            config,
            state: State::Preface,
            decoder: Decoder::new(TABLE_SIZE),
            cache: SectionCache::new(CACHE_BITS),
            streams: Streams::new(),
            last_stream: 0,
            last_taken: 0,
            going_away: false,
            section: None,
            late: None,
            peer_max_frame: MAX_FRAME,
            send_window: INITIAL_WINDOW,
            recv_window: INITIAL_WINDOW,
            acknowledged: false,
            released: 0,
            initial_send_window: INITIAL_WINDOW,
            table_off: false,
            ready: VecDeque::new(),
            out: Vec::new(),
            meter: Meter::default(),
            updates_due: 16,
            requests: 0,
            unfinished: 0,
        };
        connection.greet();
        connection
    }

    fn greet(&mut self) {
        let settings = [
            (
                frame::SETTINGS_MAX_CONCURRENT_STREAMS,
                self.config.max_streams as u32,
            ),
            (
                frame::SETTINGS_INITIAL_WINDOW_SIZE,
                self.config.stream_window,
            ),
            (frame::SETTINGS_MAX_FRAME_SIZE, self.config.max_frame as u32),
            (
                frame::SETTINGS_MAX_HEADER_LIST_SIZE,
                self.config.head.size as u32,
            ),
        ];
        frame::push_header(&mut self.out, settings.len() * 6, frame::SETTINGS, 0, 0);
        for (id, value) in settings {
            self.out.extend_from_slice(&id.to_be_bytes());
            self.out.extend_from_slice(&value.to_be_bytes());
        }
        let more = i64::from(self.config.connection_window) - INITIAL_WINDOW;
        if more > 0 {
            frame::push_u32(&mut self.out, frame::WINDOW_UPDATE, 0, more as u32);
            self.recv_window += more;
        }
    }

    /// Take the next event from the front of `input`, consuming complete frames. `None` if the rest
    /// of `input` is an incomplete frame, or if output must be sent first (see
    /// [`Connection::wants_drain`]). After an error, all input is consumed unread.
    ///
    /// # Errors
    /// The connection is lost; the output contains the GOAWAY.
    pub fn receive<'a>(
        &mut self,
        input: &mut &'a [u8],
        now: Instant,
    ) -> Result<Option<Event<'a, T>>, Error> {
        let result = self.receive_frames(input, now);
        if let Err(error) = &result {
            frame::push_goaway(&mut self.out, self.last_taken, error.code);
            self.state = State::Closed;
        }
        result
    }

    fn receive_frames<'a>(&mut self, input: &mut &'a [u8], now: Instant) -> Handled<'a, T> {
        if self.state == State::Preface && !self.preface(input)? {
            return Ok(None);
        }
        loop {
            if self.state == State::Closed {
                *input = &[];
            }
            if self.wants_drain() {
                return Ok(None);
            }
            let Some(header) = Header::parse(input) else {
                return Ok(None);
            };
            if header.len > self.config.max_frame {
                return Err(Error::frame_size("client sent too large frame"));
            }
            let Some(payload) = input.get(frame::HEADER_LEN..frame::HEADER_LEN + header.len) else {
                check_partial(&header, &input[frame::HEADER_LEN..])?;
                return Ok(None);
            };
            *input = &input[frame::HEADER_LEN + header.len..];
            if let Some(event) = self.frame(header, payload, now)? {
                return Ok(Some(event));
            }
        }
    }

    fn preface(&mut self, input: &mut &[u8]) -> Result<bool, Error> {
        let len = input.len().min(frame::PREFACE.len());
        if input[..len] != frame::PREFACE[..len] {
            return Err(Error::protocol("client sent invalid HTTP/2 preface"));
        }
        if len < frame::PREFACE.len() {
            return Ok(false);
        }
        *input = &input[len..];
        self.state = State::Open;
        Ok(true)
    }

    fn frame<'a>(&mut self, header: Header, payload: &'a [u8], now: Instant) -> Handled<'a, T> {
        if self.section.is_some() != (header.kind == frame::CONTINUATION) {
            return Err(Error::protocol(
                "client sent inappropriate frame in a field section",
            ));
        }
        match header.kind {
            frame::DATA => self.on_data(header, payload, now),
            frame::HEADERS => self.on_headers(header, payload, now),
            frame::PRIORITY => self.on_priority(header, payload, now),
            frame::RST_STREAM => self.on_reset(header, payload, now),
            frame::SETTINGS => self.on_settings(header, payload, now),
            frame::PUSH_PROMISE => Err(Error::protocol("client sent PUSH_PROMISE frame")),
            frame::PING => self.on_ping(header, payload, now),
            frame::GOAWAY => self.on_goaway(header, payload, now),
            frame::WINDOW_UPDATE => self.on_window_update(header, payload, now),
            frame::CONTINUATION => self.on_continuation(header, payload, now),
            _ => self.charge(flood::IDLE_FRAME, now),
        }
    }

    pub(super) fn charge<'a>(&mut self, points: u32, now: Instant) -> Handled<'a, T> {
        if self.meter.charge(points, now) {
            return Ok(None);
        }
        Err(Error::flood("http2 flood detected"))
    }

    /// Check a stream id in a frame that requires one.
    pub(super) fn is_idle(&self, id: u32) -> bool {
        id > self.last_stream || id.is_multiple_of(2)
    }

    /// End a stream with a stream error that the peer caused.
    pub(super) fn stream_error<'a>(
        &mut self,
        stream: u32,
        code: ErrorCode,
        now: Instant,
    ) -> Handled<'a, T> {
        frame::push_u32(&mut self.out, frame::RST_STREAM, stream, code.0);
        let removed = self.remove(stream, Ended::Reset { body_left: None });
        if removed.is_none() {
            self.streams
                .remember(stream, Ended::Reset { body_left: None });
        }
        self.charge(flood::RESET, now)?;
        // The owner has no data for a stream whose response is complete.
        let removed = removed.filter(|s| s.answered == 0);
        Ok(removed.map(|s| Event::Reset {
            stream,
            code,
            user: s.user,
        }))
    }

    pub(super) fn remove(&mut self, stream: u32, how: Ended) -> Option<Stream<T>> {
        let removed = self.streams.remove(stream, how)?;
        self.unfinished -= usize::from(removed.answered > 0);
        // Return bytes that were handed out but never released to the connection's window.
        let held = i64::from(removed.window) - removed.recv_window;
        self.release_connection((held - i64::from(removed.released)).max(0) as u32);
        Some(removed)
    }

    fn on_headers<'a>(
        &mut self,
        header: Header,
        payload: &'a [u8],
        now: Instant,
    ) -> Handled<'a, T> {
        if header.stream.is_multiple_of(2) {
            return Err(Error::protocol(
                "client sent HEADERS frame with incorrect stream id",
            ));
        }
        let (depends_on, block) = frame::field_block(&header, payload)?;
        let end_stream = header.has(frame::END_STREAM);
        if header.has(frame::END_HEADERS) {
            return self.on_section(header.stream, block, end_stream, depends_on, now);
        }
        self.check_section(block.len())?;
        self.section = Some(Section {
            stream: header.stream,
            block: block.to_vec(),
            end_stream,
            depends_on,
            frames: 1,
        });
        Ok(None)
    }

    fn check_section(&self, len: usize) -> Result<(), Error> {
        if len > self.config.max_section {
            return Err(Error::flood("client sent too large field section"));
        }
        Ok(())
    }

    fn on_continuation<'a>(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Instant,
    ) -> Handled<'a, T> {
        self.charge(flood::CONTINUATION, now)?;
        let Some(mut section) = self.section.take() else {
            return Err(Error::protocol("client sent unexpected CONTINUATION frame"));
        };
        if section.stream != header.stream {
            return Err(Error::protocol(
                "client sent CONTINUATION frame of another stream",
            ));
        }
        section.frames += 1;
        if section.frames > MAX_SECTION_FRAMES {
            return Err(Error::flood("client sent too many CONTINUATION frames"));
        }
        self.check_section(section.block.len() + payload.len())?;
        section.block.extend_from_slice(payload);
        if header.has(frame::END_HEADERS) {
            let Section {
                stream,
                block,
                end_stream,
                depends_on,
                ..
            } = section;
            return self.on_section(stream, &block, end_stream, depends_on, now);
        }
        self.section = Some(section);
        Ok(None)
    }

    /// Handle a complete field section: a request, trailers, or neither.
    fn on_section<'a>(
        &mut self,
        stream: u32,
        block: &[u8],
        end_stream: bool,
        depends_on: Option<u32>,
        now: Instant,
    ) -> Handled<'a, T> {
        if stream <= self.last_stream {
            return self.on_trailers(stream, block, end_stream, now);
        }
        self.last_stream = stream;
        if self.going_away {
            self.streams
                .remember(stream, Ended::Reset { body_left: None });
            self.skip_section(block)?;
            return self.charge(flood::IDLE_FRAME, now);
        }
        if self.late.take() == Some(stream) {
            self.skip_section(block)?;
            return self.charge(flood::RESET, now);
        }
        // The body may already be on its way, sent before the client knew our smaller windows; the
        // client can retry.
        let small = i64::from(self.config.stream_window) < INITIAL_WINDOW;
        let unaware = small && !self.acknowledged && !end_stream;
        if unaware || self.streams.len() >= self.config.max_streams {
            self.skip_section(block)?;
            return self.stream_error(stream, ErrorCode::REFUSED_STREAM, now);
        }
        self.last_taken = stream;
        let head = self.decode_head(block)?;
        if matches!(head, Err(HeadError::TooLarge)) {
            return Err(Error::flood("client sent too large field section"));
        }
        if depends_on == Some(stream) {
            return self.stream_error(stream, ErrorCode::PROTOCOL_ERROR, now);
        }
        Ok(Some(self.open(stream, head, end_stream)))
    }

    /// Give up on an incomplete head whose time is up: its stream is reset. `rest` is the input
    /// that [`Connection::receive`] left. `false` if there is none, or on a second time.
    pub fn expire_head(&mut self, rest: &[u8]) -> bool {
        let stream = match (&self.section, Header::parse(rest)) {
            (Some(section), _) => section.stream,
            (None, Some(header)) if header.kind == frame::HEADERS => header.stream,
            _ => return false,
        };
        if stream <= self.last_stream || stream.is_multiple_of(2) || self.late.is_some() {
            return false;
        }
        self.late = Some(stream);
        let code = ErrorCode::PROTOCOL_ERROR;
        frame::push_u32(&mut self.out, frame::RST_STREAM, stream, code.0);
        self.streams
            .remember(stream, Ended::Reset { body_left: None });
        true
    }

    /// Whether [`Connection::expire_head`] gave up on a head whose rest has not arrived.
    pub fn head_is_late(&self) -> bool {
        self.late.is_some()
    }

    /// Whether a head is incomplete; `rest` is the input that [`Connection::receive`] left.
    pub fn awaits_head(&self, rest: &[u8]) -> bool {
        self.section.is_some() || rest.get(3) == Some(&frame::HEADERS)
    }

    fn decode_head(&mut self, block: &[u8]) -> Result<Result<Rc<RequestHead>, HeadError>, Error> {
        if let Some(head) = self.cache.get(self.decoder.generation(), block) {
            return Ok(Ok(Rc::clone(head)));
        }
        let before = self.decoder.generation();
        let head = self.decode(block)?.finish(block.len()).map(Rc::new);
        if let (Ok(head), true) = (&head, before == self.decoder.generation()) {
            self.cache.put(before, block, head);
        }
        Ok(head)
    }

    fn decode(&mut self, block: &[u8]) -> Result<HeadBuilder, Error> {
        let mut builder = HeadBuilder::new(self.config.head);
        let decoded = self
            .decoder
            .decode(block, |name, value| builder.field(name, value));
        decoded.map_err(field_error)?;
        Ok(builder)
    }

    fn skip_section(&mut self, block: &[u8]) -> Result<(), Error> {
        let decoded = self.decoder.decode(block, |_, _| {});
        decoded.map_err(field_error)
    }

    fn open<'a>(
        &mut self,
        stream: u32,
        head: Result<Rc<RequestHead>, HeadError>,
        end_stream: bool,
    ) -> Event<'a, T> {
        let head = head.and_then(|head| match head.content_length() {
            Some(1..) if end_stream => Err(HeadError::ContentLength),
            _ => Ok(head),
        });
        self.streams.insert(Stream {
            id: stream,
            send_window: self.initial_send_window,
            recv_window: i64::from(self.config.stream_window),
            window: self.config.stream_window,
            chunk: self.config.chunk,
            released: 0,
            body_left: head.as_ref().ok().and_then(|head| head.content_length()),
            remote_done: end_stream,
            head_sent: false,
            blocked: false,
            queued: false,
            answered: 0,
            malformed: head.as_ref().err().map(|_| ErrorCode::PROTOCOL_ERROR),
            user: T::default(),
        });
        self.requests += 1;
        if self.requests >= self.config.max_requests {
            self.shutdown();
        }
        match head {
            Ok(head) => Event::Request {
                stream,
                head,
                end_stream,
            },
            Err(error) => Event::Malformed { stream, error },
        }
    }

    fn on_trailers<'a>(
        &mut self,
        id: u32,
        block: &[u8],
        end_stream: bool,
        now: Instant,
    ) -> Handled<'a, T> {
        let trailers = self.decode(block)?.finish_trailers();
        let Some(stream) = self.streams.get_mut(id) else {
            return match self.streams.how_ended(id) {
                Some(Ended::Reset { .. }) if !end_stream || trailers.is_err() => {
                    self.stream_error(id, ErrorCode::PROTOCOL_ERROR, now)
                }
                Some(Ended::Reset { .. }) => self.charge(flood::IDLE_FRAME, now),
                Some(Ended::Closed) => {
                    let reason = "client sent HEADERS frame for a closed stream";
                    Err(Error::protocol(reason))
                }
                None => Err(Error::protocol(
                    "client sent HEADERS frame with a lower stream id",
                )),
            };
        };
        if stream.remote_done {
            return self.stream_error(id, ErrorCode::STREAM_CLOSED, now);
        }
        if !end_stream || trailers.is_err() || stream.body_left.is_some_and(|left| left > 0) {
            return self.stream_error(id, ErrorCode::PROTOCOL_ERROR, now);
        }
        stream.remote_done = true;
        if stream.answered > 0 {
            return self.end_answered(id, now);
        }
        if stream.malformed.is_some() {
            return Ok(None);
        }
        Ok(Some(Event::Data {
            stream: id,
            data: &[],
            end_stream: true,
        }))
    }

    fn on_data<'a>(&mut self, header: Header, payload: &'a [u8], now: Instant) -> Handled<'a, T> {
        let id = header.stream;
        if self.is_idle(id) {
            return Err(Error::protocol(
                "client sent DATA frame with incorrect stream id",
            ));
        }
        let len = header.len as i64;
        if len > self.recv_window {
            return Err(Error::flow("client violated connection flow control"));
        }
        let data = frame::unpad(&header, payload)?;
        self.recv_window -= len;
        let Some(stream) = self.streams.get_mut(id) else {
            self.release_connection(header.len as u32);
            return self.on_late_data(id, data.len(), header.has(frame::END_STREAM), now);
        };
        let end_stream = header.has(frame::END_STREAM);
        match take_data(stream, len, data.len(), end_stream) {
            Ok(()) => {}
            Err(ErrorCode::PROTOCOL_ERROR) if !stream.head_sent => {
                stream.spoil(len, end_stream);
                self.release(id, header.len);
                return Ok(Some(Event::BadBody { stream: id }));
            }
            Err(code) => {
                self.release_connection(header.len as u32);
                return self.stream_error(id, code, now);
            }
        }
        if stream.answered > 0 {
            return self.end_answered(id, now);
        }
        let discard = stream.malformed.is_some();
        let unused = if discard {
            header.len
        } else {
            header.len - data.len()
        };
        self.release(id, unused);
        if data.is_empty() && !end_stream {
            return self.charge(flood::IDLE_FRAME, now);
        }
        Ok((!discard).then_some(Event::Data {
            stream: id,
            data,
            end_stream,
        }))
    }

    /// Handle DATA for a stream that has ended.
    fn on_late_data<'a>(
        &mut self,
        id: u32,
        len: usize,
        end_stream: bool,
        now: Instant,
    ) -> Handled<'a, T> {
        let Some(Ended::Reset { body_left }) = self.streams.how_ended(id) else {
            return self.stream_error(id, ErrorCode::STREAM_CLOSED, now);
        };
        if count_body(body_left, len, end_stream).is_err() {
            return self.stream_error(id, ErrorCode::PROTOCOL_ERROR, now);
        }
        self.charge(flood::IDLE_FRAME, now)
    }

    /// Open the windows again by `len` processed bytes of a stream's body.
    pub fn release(&mut self, id: u32, len: usize) {
        let len = len as u32;
        let Some(stream) = self.streams.get_mut(id) else {
            // The bytes were released when the stream was removed.
            return;
        };
        stream.released += len;
        if !stream.remote_done && stream.released >= stream.window / 2 {
            let mut more = std::mem::take(&mut stream.released);
            // A body that is read as it arrives gets a larger window.
            let grown = stream.window.saturating_mul(2);
            if grown <= self.config.connection_window / 4 {
                more += grown - stream.window;
                stream.window = grown;
            }
            stream.recv_window += i64::from(more);
            if more > 0 {
                frame::push_u32(&mut self.out, frame::WINDOW_UPDATE, id, more);
            }
        }
        self.release_connection(len);
    }

    fn release_connection(&mut self, len: u32) {
        self.released += len;
        if self.released >= self.config.connection_window / 2 {
            let released = std::mem::take(&mut self.released);
            self.recv_window += i64::from(released);
            frame::push_u32(&mut self.out, frame::WINDOW_UPDATE, 0, released);
        }
    }

    /// Whether output must be sent before more input is taken. This bounds the memory for a peer
    /// that sends but never reads.
    pub fn wants_drain(&self) -> bool {
        self.out.len() > MAX_UNSENT
    }

    /// Whether the connection has ended: send the output, then close.
    pub fn is_finished(&self) -> bool {
        self.state == State::Closed || (self.going_away && self.streams.len() == 0)
    }

    /// The number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Release memory that an idle connection does not need.
    pub fn trim(&mut self) {
        self.decoder.trim();
        self.cache.clear();
        self.streams.trim();
        self.ready = VecDeque::new();
        if self.out.is_empty() {
            self.out = Vec::new();
        }
    }
}

/// Convert a decoding error. As in nginx, a truncated section and an invalid one differ.
fn field_error(error: hpack::Error) -> Error {
    let code = match error {
        hpack::Error::Truncated => ErrorCode::FRAME_SIZE_ERROR,
        _ => ErrorCode::COMPRESSION_ERROR,
    };
    Error::new(code, "client sent invalid field section")
}

/// Bytes at the start of a field block that are checked before the frame is complete.
const LOOK_AHEAD: usize = 64;

/// Reject at once what no further byte of the frame could correct.
fn check_partial(header: &Header, payload: &[u8]) -> Result<(), Error> {
    match header.kind {
        frame::PUSH_PROMISE => Err(Error::protocol("client sent PUSH_PROMISE frame")),
        frame::HEADERS if header.is_plain() => {
            let start = &payload[..payload.len().min(LOOK_AHEAD)];
            hpack::check_start(start).map_err(field_error)
        }
        _ => Ok(()),
    }
}

/// Account for a DATA frame of `len` bytes with the content `data`; returns nothing for a rejected
/// frame.
fn take_data<T>(
    stream: &mut Stream<T>,
    len: i64,
    data: usize,
    end_stream: bool,
) -> Result<(), ErrorCode> {
    if stream.remote_done {
        return Err(ErrorCode::STREAM_CLOSED);
    }
    if len > stream.recv_window {
        return Err(ErrorCode::FLOW_CONTROL_ERROR);
    }
    count_body(&mut stream.body_left, data, end_stream)?;
    stream.recv_window -= len;
    stream.remote_done = end_stream;
    Ok(())
}

/// Compare a body with its content-length (section 8.1.1).
fn count_body(left: &mut Option<u64>, len: usize, end_stream: bool) -> Result<(), ErrorCode> {
    let Some(left) = left else {
        return Ok(());
    };
    let rest = left.checked_sub(len as u64);
    let rest = rest.filter(|&rest| rest == 0 || !end_stream);
    *left = rest.ok_or(ErrorCode::PROTOCOL_ERROR)?;
    Ok(())
}
