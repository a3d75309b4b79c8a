//! The client's streams of an HTTP/3 connection.

use super::control::{closed_critical_stream, Opened, UniStream};
use super::fields::{Fields, Shared};
use super::reader::{FrameReader, Piece};
use super::{kind, Config, Error, ErrorCode};
use crate::flood::{self, Meter};
use crate::head::{HeadError, RequestHead};
use crate::stream_table::StreamTable;
use std::rc::Rc;
use std::time::Instant;

/// An event. Data borrows from the input.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request on a new stream.
    Request {
        /// The stream of the request.
        stream: u64,
        /// The head; equal requests may share one.
        head: Rc<RequestHead>,
        /// Whether there is no body.
        end_stream: bool,
    },
    /// A request that must be rejected with 400 (431 for [`HeadError::TooLarge`]).
    Malformed {
        /// The stream of the request.
        stream: u64,
        /// The error for the log.
        error: HeadError,
        /// Whether there is no body to discard.
        end_stream: bool,
    },
    /// A piece of a request body; empty only at the end.
    Data {
        /// The stream of the request.
        stream: u64,
        /// The piece.
        data: &'a [u8],
        /// Whether this is the last piece.
        end_stream: bool,
    },
    /// The body contradicts its head: respond with 400. The stream has no more events.
    BadBody {
        /// The stream of the request.
        stream: u64,
        /// Whether the stream has ended.
        end_stream: bool,
    },
    /// A stream error of the client; the stream's state is removed. Reset the stream in both
    /// directions.
    StreamError {
        /// The stream with the error.
        stream: u64,
        /// The code for RESET_STREAM and STOP_SENDING.
        code: ErrorCode,
    },
    /// A field section refers to entries of the dynamic table that have not arrived. Keep the rest
    /// of the input, and pass it again when [`Connection::unblocked`] returns the stream.
    Blocked {
        /// The blocked stream.
        stream: u64,
    },
    /// A useless stream: send STOP_SENDING.
    Unwanted {
        /// The useless stream.
        stream: u64,
    },
    /// The client sends no more requests.
    GoAway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
    Trailers,
    /// The request is malformed: discard the rest.
    Discard,
}

#[derive(Debug)]
struct RequestStream {
    reader: FrameReader,
    /// The type of the current frame.
    kind: u64,
    phase: Phase,
    /// Whether the current section waits for the dynamic table.
    blocked: bool,
    /// A field section that arrives in pieces or waits.
    section: Vec<u8>,
    body_left: Option<u64>,
}

/// The HTTP/3 state of a QUIC connection.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    requests: StreamTable<RequestStream>,
    control: StreamTable<UniStream>,
    opened: Opened,
    fields: Fields,
    meter: Meter,
    taken: u64,
    /// Streams from this id on are rejected.
    next_stream: u64,
    going_away: Option<u64>,
}

type Handled<'a> = Result<Option<Event<'a>>, Error>;

impl Connection {
    /// A new connection. Send the bytes of [`super::send::control_stream`] at once.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            requests: StreamTable::new(2),
            control: StreamTable::new(2),
            opened: Opened::default(),
            fields: Fields::new(config.head, config.max_field),
            meter: Meter::default(),
            taken: 0,
            next_stream: 0,
            going_away: None,
        }
    }

    /// Take the next event from the bytes of a client's stream, in order; `None` when `input` is
    /// consumed. `fin`: the stream ends after `input`; the end is reported by the last event, or by
    /// an empty last piece of the body. After an event with `end_stream`, or a stream error, do not
    /// pass bytes of the stream again.
    ///
    /// # Errors
    /// The connection is lost: close it.
    pub fn receive<'a>(
        &mut self,
        shared: &mut Shared,
        stream: u64,
        input: &mut &'a [u8],
        fin: bool,
        now: Instant,
    ) -> Handled<'a> {
        match stream & 3 {
            0 => self.receive_request(shared, stream, input, fin, now),
            2 => self.receive_control(stream, input, fin, now),
            _ => Err(Error::new(
                ErrorCode::STREAM_CREATION_ERROR,
                "stream of our own",
            )),
        }
    }

    fn receive_control<'a>(
        &mut self,
        id: u64,
        input: &mut &'a [u8],
        fin: bool,
        now: Instant,
    ) -> Handled<'a> {
        if self.control.get(id).is_none() {
            if self.control.len() >= self.config.max_streams {
                return Err(excessive_load());
            }
            self.charge(flood::IDLE_FRAME, now)?;
            self.control.insert(id, UniStream::Type(Vec::new()));
        }
        let Some(stream) = self.control.get_mut(id) else {
            return Ok(None);
        };
        let outcome = stream.receive(
            std::mem::take(input),
            fin,
            &mut self.opened,
            &mut self.fields.table,
        )?;
        if fin {
            self.control.remove(id);
        }
        self.charge(outcome.idle_frames * flood::IDLE_FRAME, now)?;
        if outcome.stop {
            return Ok(Some(Event::Unwanted { stream: id }));
        }
        Ok(outcome.goaway.then_some(Event::GoAway))
    }

    fn charge(&mut self, points: u32, now: Instant) -> Result<(), Error> {
        if self.meter.charge(points, now) {
            return Ok(());
        }
        Err(excessive_load())
    }

    fn receive_request<'a>(
        &mut self,
        shared: &mut Shared,
        id: u64,
        input: &mut &'a [u8],
        fin: bool,
        now: Instant,
    ) -> Handled<'a> {
        let mut stream = match self.requests.remove(id) {
            Some(stream) => stream,
            None if self.going_away.is_some_and(|first| id >= first) => {
                *input = &[];
                self.fields.cancel(id);
                let code = ErrorCode::REQUEST_REJECTED;
                return Ok(Some(Event::StreamError { stream: id, code }));
            }
            None if self.requests.len() >= self.config.max_streams => return Err(excessive_load()),
            None => RequestStream::new(),
        };
        let event = self.read_request(shared, &mut stream, id, input, fin, now)?;
        let over = match event {
            Some(
                Event::Request { end_stream, .. }
                | Event::Data { end_stream, .. }
                | Event::Malformed { end_stream, .. }
                | Event::BadBody { end_stream, .. },
            ) => end_stream,
            Some(Event::StreamError { .. }) => true,
            Some(Event::Blocked { .. }) => false,
            _ => fin && input.is_empty(),
        };
        if !over {
            self.requests.insert(id, stream);
        }
        Ok(event)
    }

    fn read_request<'a>(
        &mut self,
        shared: &mut Shared,
        stream: &mut RequestStream,
        id: u64,
        input: &mut &'a [u8],
        fin: bool,
        now: Instant,
    ) -> Handled<'a> {
        if std::mem::take(&mut stream.blocked) {
            let last = fin && input.is_empty();
            let event = if stream.phase == Phase::Head {
                self.head(shared, stream, id, Section::Collected, last)?
            } else {
                self.trailers(shared, stream, id, Section::Collected, input, now)?
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        while let Some(piece) = stream.reader.next(input) {
            let last = fin && input.is_empty();
            let step = match piece {
                Piece::Start { kind, len } => stream.start(kind, len, self.config.max_section)?,
                Piece::Payload { data, last: whole } => stream.payload(data, whole, last),
            };
            match step {
                Step::Nothing => {}
                Step::Idle => self.charge(flood::IDLE_FRAME, now)?,
                Step::Data(data) => {
                    let data = Event::Data {
                        stream: id,
                        data,
                        end_stream: last,
                    };
                    return Ok(Some(data));
                }
                Step::TooLarge => {
                    self.take(id);
                    self.fields.cancel(id);
                    let end_stream = last;
                    let error = HeadError::TooLarge;
                    return Ok(Some(Event::Malformed {
                        stream: id,
                        error,
                        end_stream,
                    }));
                }
                Step::BadBody => {
                    let end_stream = last;
                    return Ok(Some(Event::BadBody {
                        stream: id,
                        end_stream,
                    }));
                }
                Step::Head(section) => return self.head(shared, stream, id, section, last),
                Step::Trailers(section) => {
                    let event = self.trailers(shared, stream, id, section, input, now)?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
            }
        }
        if fin {
            return self.end(stream, id, now);
        }
        Ok(None)
    }

    /// Report the end of the stream, unless its last bytes did so.
    fn end<'a>(&mut self, stream: &RequestStream, id: u64, now: Instant) -> Handled<'a> {
        if stream.phase == Phase::Discard {
            return Ok(None);
        }
        if !stream.reader.at_boundary() {
            return Err(Error::frame(
                "client closed a stream in the middle of a frame",
            ));
        }
        match (stream.phase, stream.body_left) {
            (Phase::Head, _) => {
                self.stream_error(id, ErrorCode::REQUEST_INCOMPLETE, &mut &[][..], now)
            }
            (_, Some(1..)) => Ok(Some(Event::BadBody {
                stream: id,
                end_stream: true,
            })),
            _ => Ok(Some(Event::Data {
                stream: id,
                data: &[],
                end_stream: true,
            })),
        }
    }

    fn stream_error<'a>(
        &mut self,
        stream: u64,
        code: ErrorCode,
        input: &mut &'a [u8],
        now: Instant,
    ) -> Handled<'a> {
        *input = &[];
        self.fields.cancel(stream);
        self.charge(flood::RESET, now)?;
        Ok(Some(Event::StreamError { stream, code }))
    }

    /// Note that a request is served.
    fn take(&mut self, id: u64) {
        self.taken += 1;
        self.next_stream = self.next_stream.max(id + 4);
    }

    fn head<'a>(
        &mut self,
        shared: &mut Shared,
        stream: &mut RequestStream,
        id: u64,
        section: Section<'_>,
        end_stream: bool,
    ) -> Handled<'a> {
        let bytes = section.bytes(&stream.section);
        let Some(head) = self.fields.head(shared, id, bytes)? else {
            return Ok(Some(stream.wait(id, section)));
        };
        self.take(id);
        stream.section = Vec::new();
        let head = head.and_then(|head| match head.content_length() {
            Some(1..) if end_stream => Err(HeadError::ContentLength),
            _ => Ok(head),
        });
        Ok(Some(match head {
            Ok(head) => {
                stream.phase = Phase::Body;
                stream.body_left = head.content_length();
                Event::Request {
                    stream: id,
                    head,
                    end_stream,
                }
            }
            Err(error) => {
                stream.phase = Phase::Discard;
                Event::Malformed {
                    stream: id,
                    error,
                    end_stream,
                }
            }
        }))
    }

    /// Validate trailers and drop them.
    fn trailers<'a>(
        &mut self,
        shared: &mut Shared,
        stream: &mut RequestStream,
        id: u64,
        section: Section<'_>,
        input: &mut &'a [u8],
        now: Instant,
    ) -> Handled<'a> {
        let bytes = section.bytes(&stream.section);
        let Some(trailers) = self.fields.decode(shared, id, bytes)? else {
            return Ok(Some(stream.wait(id, section)));
        };
        stream.section = Vec::new();
        stream.phase = Phase::Trailers;
        if trailers.finish_trailers().is_err() || stream.body_left.unwrap_or(0) > 0 {
            return self.stream_error(id, ErrorCode::MESSAGE_ERROR, input, now);
        }
        Ok(None)
    }

    /// Whether a request that begins with these bytes must wait for the dynamic table. Leave the
    /// end of its stream unread then: transports report no reset after it.
    pub fn would_wait(&self, mut data: &[u8]) -> bool {
        let found = super::varint::decode(&mut data);
        let len = super::varint::decode(&mut data);
        found == Some(kind::HEADERS) && len.is_some() && self.fields.waits(data)
    }

    /// A stream that no longer needs to wait for the dynamic table.
    pub fn unblocked(&mut self) -> Option<u64> {
        self.fields.unblocked()
    }

    /// The bytes to send on our QPACK decoder stream, after [`super::send::decoder_stream`].
    pub fn take_instructions(&mut self) -> Option<Vec<u8>> {
        self.fields.take_instructions()
    }

    /// Whether a request's head is incomplete.
    pub fn awaits_head(&self, stream: u64) -> bool {
        let known = self.requests.get(stream);
        known.is_some_and(|stream| stream.phase == Phase::Head)
    }

    /// Handle the client's RESET_STREAM or STOP_SENDING before the response was complete. `true` if
    /// the head had arrived and waited for the dynamic table.
    ///
    /// # Errors
    /// The client does this too often, or the stream must stay open: close the connection.
    pub fn peer_reset(&mut self, stream: u64, now: Instant) -> Result<bool, Error> {
        let control = self.control.remove(stream);
        if control.is_some_and(|stream| stream.is_critical()) {
            return Err(closed_critical_stream());
        }
        let unread = self.requests.remove(stream).is_some();
        let waited = unread && self.fields.cancel(stream);
        self.charge(flood::RESET, now)?;
        Ok(waited)
    }

    /// Remove a stream's state after STOP_SENDING was sent.
    pub fn forget(&mut self, stream: u64) {
        if self.requests.remove(stream).is_some() {
            self.fields.cancel(stream);
        }
    }

    /// Note that a response was sent completely.
    pub fn request_done(&mut self) {
        self.meter.credit(flood::REQUEST_DONE);
    }

    /// Accept no further requests: [`Connection::is_used_up`] becomes true.
    pub fn use_up(&mut self) {
        self.config.max_requests = self.taken;
    }

    /// Whether the connection has served as many requests as allowed.
    pub fn is_used_up(&self) -> bool {
        self.taken >= self.config.max_requests
    }

    /// Whether a request has arrived.
    pub fn has_served(&self) -> bool {
        self.taken > 0
    }

    /// Accept no more requests. Returns the id for [`super::send::push_goaway`].
    pub fn shutdown(&mut self) -> u64 {
        *self.going_away.get_or_insert(self.next_stream)
    }

    /// Whether [`Connection::shutdown`] was called.
    pub fn is_going_away(&self) -> bool {
        self.going_away.is_some()
    }

    /// The number of incomplete requests.
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }
}

/// A field section, complete in the input or collected in its stream.
#[derive(Clone, Copy)]
enum Section<'a> {
    Input(&'a [u8]),
    Collected,
}

impl<'a> Section<'a> {
    fn bytes(self, collected: &'a [u8]) -> &'a [u8] {
        match self {
            Section::Input(bytes) => bytes,
            Section::Collected => collected,
        }
    }
}

/// The result of a piece of a request stream.
enum Step<'a> {
    Nothing,
    /// A useless frame.
    Idle,
    Data(&'a [u8]),
    Head(Section<'a>),
    Trailers(Section<'a>),
    TooLarge,
    BadBody,
}

impl RequestStream {
    fn new() -> Self {
        Self {
            reader: FrameReader::default(),
            kind: 0,
            phase: Phase::Head,
            blocked: false,
            section: Vec::new(),
            body_left: None,
        }
    }

    /// Begin a frame (section 4.1 for the order, 7.2.8 for unknown types).
    fn start<'a>(&mut self, kind: u64, len: u64, max_section: usize) -> Result<Step<'a>, Error> {
        self.kind = kind;
        if self.phase == Phase::Discard {
            return Ok(Step::Nothing);
        }
        let unexpected = Err(Error::unexpected(
            "client sent unexpected frame on a request stream",
        ));
        match kind {
            kind::HEADERS if self.phase == Phase::Trailers => unexpected,
            kind::HEADERS if len > max_section as u64 => {
                self.phase = Phase::Discard;
                Ok(Step::TooLarge)
            }
            kind::DATA if self.phase != Phase::Body => unexpected,
            kind::DATA => Ok(self.start_data(len)),
            kind::HEADERS => Ok(Step::Nothing),
            kind::CANCEL_PUSH
            | kind::SETTINGS
            | kind::PUSH_PROMISE
            | kind::GOAWAY
            | kind::MAX_PUSH_ID => unexpected,
            _ if kind::is_http2(kind) => unexpected,
            _ => Ok(Step::Idle),
        }
    }

    /// Compare a DATA frame with content-length before passing on any of it.
    fn start_data<'a>(&mut self, len: u64) -> Step<'a> {
        if let Some(left) = &mut self.body_left {
            match left.checked_sub(len) {
                Some(rest) => *left = rest,
                None => return self.spoil(),
            }
        }
        if len == 0 {
            return Step::Idle;
        }
        Step::Nothing
    }

    /// Mark the body as invalid; the rest is discarded.
    fn spoil<'a>(&mut self) -> Step<'a> {
        self.phase = Phase::Discard;
        Step::BadBody
    }

    /// Handle a piece of the frame's payload; `whole`: the frame ends with it; `last`: the stream
    /// ends too.
    fn payload<'a>(&mut self, data: &'a [u8], whole: bool, last: bool) -> Step<'a> {
        if self.phase == Phase::Discard {
            return Step::Nothing;
        }
        match self.kind {
            kind::DATA if last && !whole => Step::Nothing,
            kind::DATA if last && self.body_left.is_some_and(|left| left > 0) => self.spoil(),
            kind::DATA if data.is_empty() => Step::Nothing,
            kind::DATA => Step::Data(data),
            kind::HEADERS => self.section(data, whole),
            _ => Step::Nothing,
        }
    }

    fn section<'a>(&mut self, data: &'a [u8], whole: bool) -> Step<'a> {
        let section = if whole && self.section.is_empty() {
            Section::Input(data)
        } else {
            self.section.extend_from_slice(data);
            Section::Collected
        };
        match (whole, self.phase) {
            (false, _) => Step::Nothing,
            (true, Phase::Head) => Step::Head(section),
            (true, _) => Step::Trailers(section),
        }
    }

    /// Keep a section that waits for the dynamic table.
    fn wait<'a>(&mut self, id: u64, section: Section<'_>) -> Event<'a> {
        if let Section::Input(bytes) = section {
            self.section = bytes.to_vec();
        }
        self.blocked = true;
        Event::Blocked { stream: id }
    }
}

fn excessive_load() -> Error {
    Error::new(ErrorCode::EXCESSIVE_LOAD, "http3 flood detected")
}
