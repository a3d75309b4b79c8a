//! An HTTP/3 connection of the load generator.

use crate::plan::Plan;
use gallop_http::h3::{FrameReader, Piece};
use gallop_http::qpack;
use quinn_proto::{Dir, Event, ReadError, StreamEvent, StreamId};
use std::time::Instant;

/// The frame type of a field section (RFC 9114, section 7.2.2).
const HEADERS: u64 = 1;
/// The code for a stream whose request the server did not process (RFC 9114, sections 4.1.1 and
/// 8.1).
const H3_REQUEST_REJECTED: u64 = 0x10b;
/// Our control stream: its type, and empty SETTINGS.
const GREETING: [u8; 3] = [0, 4, 0];

/// A request under way.
struct Request {
    stream: StreamId,
    since: Instant,
    reader: FrameReader,
    kind: u64,
    section: Vec<u8>,
    status: u16,
}

pub struct Connection {
    pub quic: quinn_proto::Connection,
    pub began: Instant,
    pub connected: bool,
    /// Whether the connection has ended and must be replaced if requests are left.
    pub closed: bool,
    /// Whether the server accepts no further requests on this connection.
    leaving: bool,
    requests: Vec<Request>,
    /// The last field section and its status: most are identical.
    known: (Vec<u8>, u16),
}

/// State that the connections share.
pub struct Asking<'a> {
    pub plan: &'a mut Plan,
    /// The HEADERS frames of the requests.
    pub frames: &'a [Vec<u8>],
    pub streams: usize,
}

impl Connection {
    pub fn new(quic: quinn_proto::Connection, now: Instant) -> Self {
        Self {
            quic,
            began: now,
            connected: false,
            closed: false,
            leaving: false,
            requests: Vec::new(),
            known: (Vec::new(), 0),
        }
    }

    /// Handle events, and start requests that are due.
    pub fn go_on(&mut self, asking: &mut Asking<'_>, now: Instant) {
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.connected(asking.plan, now),
                Event::ConnectionLost { .. } => return self.lost(asking.plan),
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, asking.plan, now),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = self.quic.streams().accept(dir) {
                        self.read(id, asking.plan, now);
                    }
                }
                _ => {}
            }
        }
        while self.connected && !self.leaving && self.requests.len() < asking.streams {
            if !self.ask(asking, now) {
                break;
            }
        }
        if self.leaving && self.requests.is_empty() {
            self.quic.close(now, 0x100u32.into(), bytes::Bytes::new());
            self.closed = true;
        }
    }

    fn connected(&mut self, plan: &mut Plan, now: Instant) {
        self.connected = true;
        plan.connected(self.began, now);
        if let Some(control) = self.quic.streams().open(Dir::Uni) {
            // Three bytes always fit into a window that admits a handshake.
            let _ = self.quic.send_stream(control).write(&GREETING);
        }
    }

    /// Start a request; `false` if none is due or possible.
    fn ask(&mut self, asking: &mut Asking<'_>, now: Instant) -> bool {
        let Some(due) = asking.plan.start(now) else {
            return false;
        };
        let Some(stream) = self.quic.streams().open(Dir::Bi) else {
            asking.plan.put_back();
            return false;
        };
        let frame = &asking.frames[due.number as usize % asking.frames.len()];
        let mut sending = self.quic.send_stream(stream);
        let sent = sending.write(frame).is_ok_and(|n| n == frame.len());
        if !sent || sending.finish().is_err() {
            asking.plan.lost();
            return true;
        }
        self.requests.push(Request {
            stream,
            since: due.since,
            reader: FrameReader::default(),
            kind: 0,
            section: Vec::new(),
            status: 0,
        });
        true
    }

    fn read(&mut self, stream: StreamId, plan: &mut Plan, now: Instant) {
        let index = self.requests.iter().position(|r| r.stream == stream);
        let mut receiving = self.quic.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else {
            return;
        };
        let mut ended = None;
        let mut rejected = false;
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    match index {
                        Some(index) => {
                            plan.bytes += chunk.bytes.len() as u64;
                            self.requests[index].take(&chunk.bytes, &mut self.known);
                        }
                        // A GOAWAY on the control stream; its other frames do not matter.
                        None => self.leaving |= chunk.bytes.first() == Some(&7),
                    }
                }
                Ok(None) => break ended = Some(true),
                Err(ReadError::Reset(code)) => {
                    rejected = code.into_inner() == H3_REQUEST_REJECTED;
                    break ended = Some(false);
                }
                Err(ReadError::Blocked) => break,
            }
        }
        let _ = chunks.finalize();
        if let (Some(index), Some(whole)) = (index, ended) {
            let request = self.requests.swap_remove(index);
            if whole && request.status != 0 && request.reader.at_boundary() {
                plan.answered(request.status, request.since, now);
            } else if rejected {
                // Treat the request as unsent: the server is shutting down, and another connection
                // may repeat it.
                self.leaving = true;
                plan.put_back();
            } else {
                plan.lost();
            }
        }
    }

    fn lost(&mut self, plan: &mut Plan) {
        self.closed = true;
        self.requests.drain(..).for_each(|_| plan.lost());
    }
}

impl Request {
    fn take(&mut self, mut input: &[u8], known: &mut (Vec<u8>, u16)) {
        while let Some(piece) = self.reader.next(&mut input) {
            match piece {
                Piece::Start { kind, .. } => self.kind = kind,
                Piece::Payload { data, last } if self.kind == HEADERS && self.status < 200 => {
                    self.section.extend_from_slice(data);
                    if last {
                        self.status = status(&self.section, known);
                        self.section.clear();
                    }
                }
                Piece::Payload { .. } => {}
            }
        }
    }
}

/// The status in a field section; 0 if there is no readable one.
fn status(section: &[u8], known: &mut (Vec<u8>, u16)) -> u16 {
    if known.0 != section {
        let mut status = 0;
        // Our settings allow the server no dynamic table.
        let table = qpack::Table::new(0);
        let decoded = qpack::decode(section, &table, &mut Vec::new(), |name, value| {
            if name == b":status" {
                let text = std::str::from_utf8(value).unwrap_or_default();
                status = text.parse().unwrap_or(0);
            }
        });
        *known = (section.to_vec(), if decoded.is_ok() { status } else { 0 });
    }
    known.1
}
