//! The client side of an HTTP/2 connection (RFC 9113), without its socket.

use crate::asked::{Blocks, TABLE_SIZE};
use crate::plan::{Due, Plan};
use gallop_http::h2::frame::{self, Header};
use gallop_http::hpack::{self, Decoder};
use std::time::Instant;

/// The receive window of a stream and of the connection, as in h2load.
const WINDOW: u32 = (1 << 30) - 1;
/// The initial window of the connection (section 6.9.2).
const FIRST_WINDOW: u32 = 65_535;
/// The largest frame that the server may send by default (section 4.2).
const MAX_FRAME: usize = 16_384;
/// The largest stream id of a client (section 5.1.1).
const MAX_STREAM: u32 = (1 << 31) - 1;

struct Stream {
    id: u32,
    since: Instant,
    status: u16,
    /// Bytes received since the window was last opened.
    received: u32,
}

/// A DATA frame of which `left` bytes are still expected.
struct Data {
    stream: u32,
    left: usize,
    ends: bool,
}

/// An incomplete field section.
struct Section {
    stream: u32,
    ends: bool,
    block: Vec<u8>,
}

/// The state of the server's dynamic table for our requests.
enum Table {
    Empty,
    Filled,
    /// The table is smaller than the default; the value tells whether the server knows that it is
    /// unused.
    Off {
        told: bool,
    },
}

pub struct Client {
    decoder: Decoder,
    streams: Vec<Stream>,
    next: u32,
    /// The server's SETTINGS_MAX_CONCURRENT_STREAMS.
    allowed: usize,
    leaving: bool,
    rest: Vec<u8>,
    data: Option<Data>,
    section: Option<Section>,
    received: u32,
    table: Table,
}

impl Client {
    /// A new connection; its first bytes are written to `out`.
    pub fn new(out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(frame::PREFACE);
        let settings = [
            (frame::SETTINGS_ENABLE_PUSH, 0),
            (frame::SETTINGS_INITIAL_WINDOW_SIZE, WINDOW),
        ];
        frame::push_header(out, 6 * settings.len(), frame::SETTINGS, 0, 0);
        for (id, value) in settings {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
        frame::push_u32(out, frame::WINDOW_UPDATE, 0, WINDOW - FIRST_WINDOW);
        Self {
            decoder: Decoder::new(TABLE_SIZE),
            streams: Vec::new(),
            next: 1,
            allowed: usize::MAX,
            leaving: false,
            rest: Vec::new(),
            data: None,
            section: None,
            received: 0,
            table: Table::Empty,
        }
    }

    pub fn has_room(&self, streams: usize) -> bool {
        let exhausted = self.leaving || self.next > MAX_STREAM;
        !exhausted && self.streams.len() < streams.min(self.allowed)
    }

    pub fn is_over(&self) -> bool {
        (self.leaving || self.next > MAX_STREAM) && self.streams.is_empty()
    }

    pub fn ask(&mut self, blocks: &Blocks, due: Due, out: &mut Vec<u8>) {
        let kind = match self.table {
            Table::Empty => &blocks.first,
            Table::Filled => &blocks.again,
            Table::Off { .. } => &blocks.plain,
        };
        let block = &kind[due.number as usize % kind.len()];
        let update = matches!(self.table, Table::Off { told: false });
        let len = block.len() + usize::from(update);
        let flags = frame::END_STREAM | frame::END_HEADERS;
        frame::push_header(out, len, frame::HEADERS, flags, self.next);
        if update {
            out.push(hpack::DYNAMIC_TABLE_OFF);
        }
        out.extend_from_slice(block);
        self.table = match self.table {
            Table::Off { .. } => Table::Off { told: true },
            _ => Table::Filled,
        };
        self.streams.push(Stream {
            id: self.next,
            since: due.since,
            status: 0,
            received: 0,
        });
        self.next += 2;
    }

    /// Process received bytes; replies are written to `out`.
    ///
    /// # Errors
    /// The server violated the protocol, or ended the connection with an error.
    pub fn take(
        &mut self,
        input: &[u8],
        plan: &mut Plan,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let mut joined = std::mem::take(&mut self.rest);
        let mut input = input;
        if !joined.is_empty() {
            joined.extend_from_slice(input);
            input = &joined;
        }
        loop {
            if self.data.is_some() {
                input = self.take_data(input, plan, now, out);
                if self.data.is_some() {
                    return Ok(());
                }
            }
            let Some(header) = Header::parse(input) else {
                break;
            };
            if header.len > MAX_FRAME {
                return Err(format!(
                    "a frame of {} bytes is longer than allowed",
                    header.len
                ));
            }
            if header.kind == frame::DATA {
                input = &input[frame::HEADER_LEN..];
                self.data = Some(Data {
                    stream: header.stream,
                    left: header.len,
                    ends: header.has(frame::END_STREAM),
                });
                continue;
            }
            let end = frame::HEADER_LEN + header.len;
            if input.len() < end {
                break;
            }
            self.take_frame(&header, &input[frame::HEADER_LEN..end], plan, now, out)?;
            input = &input[end..];
        }
        self.rest = input.to_vec();
        Ok(())
    }

    /// Count a DATA frame's payload and discard it. Returns the bytes after it.
    fn take_data<'a>(
        &mut self,
        input: &'a [u8],
        plan: &mut Plan,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> &'a [u8] {
        let Some(data) = &mut self.data else {
            return input;
        };
        let n = data.left.min(input.len());
        data.left -= n;
        let (stream, ends, whole) = (data.stream, data.ends, data.left == 0);
        self.received += n as u32;
        reopen(&mut self.received, 0, out);
        if whole {
            self.data = None;
        }
        if whole && ends {
            self.finish(stream, true, plan, now);
        } else if let Some(stream) = self.streams.iter_mut().find(|s| s.id == stream) {
            stream.received += n as u32;
            reopen(&mut stream.received, stream.id, out);
        }
        &input[n..]
    }

    fn take_frame(
        &mut self,
        header: &Header,
        payload: &[u8],
        plan: &mut Plan,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let malformed = |_| "the server sent a malformed frame".to_string();
        match header.kind {
            frame::HEADERS => {
                let (_, block) = frame::field_block(header, payload).map_err(malformed)?;
                self.take_fields(header, block, header.has(frame::END_STREAM), plan, now)?;
            }
            frame::CONTINUATION => {
                let section = self.section.take();
                let mut section = section
                    .filter(|section| section.stream == header.stream)
                    .ok_or("CONTINUATION follows nothing")?;
                section.block.extend_from_slice(payload);
                self.take_fields(header, &section.block, section.ends, plan, now)?;
            }
            frame::RST_STREAM => self.finish(header.stream, false, plan, now),
            frame::SETTINGS if !header.has(frame::ACK) => {
                for (id, value) in frame::settings(payload).map_err(malformed)? {
                    self.set(id, value);
                }
                frame::push_header(out, 0, frame::SETTINGS, frame::ACK, 0);
            }
            frame::PING if !header.has(frame::ACK) => {
                frame::push_header(out, payload.len(), frame::PING, frame::ACK, 0);
                out.extend_from_slice(payload);
            }
            frame::GOAWAY => self.take_goaway(payload, plan)?,
            frame::PUSH_PROMISE => {
                return Err("the server pushes, though it was told not to".into())
            }
            _ => {}
        }
        Ok(())
    }

    fn set(&mut self, id: u16, value: u32) {
        match id {
            frame::SETTINGS_MAX_CONCURRENT_STREAMS => self.allowed = value as usize,
            frame::SETTINGS_HEADER_TABLE_SIZE if (value as usize) < TABLE_SIZE => {
                self.table = Table::Off { told: false };
            }
            _ => {}
        }
    }

    /// Process a field block or a part of one.
    fn take_fields(
        &mut self,
        header: &Header,
        block: &[u8],
        ends: bool,
        plan: &mut Plan,
        now: Instant,
    ) -> Result<(), String> {
        if !header.has(frame::END_HEADERS) {
            self.section = Some(Section {
                stream: header.stream,
                ends,
                block: block.to_vec(),
            });
            return Ok(());
        }
        let mut status = 0;
        let decoded = self.decoder.decode(block, |name, value| {
            if name == b":status" {
                let text = std::str::from_utf8(value).unwrap_or_default();
                status = text.parse().unwrap_or(0);
            }
        });
        decoded.map_err(|_| "the server sent fields that cannot be decoded")?;
        let found = self.streams.iter_mut().find(|s| s.id == header.stream);
        if let Some(stream) = found.filter(|_| status >= 200) {
            stream.status = status;
        }
        if ends {
            self.finish(header.stream, true, plan, now);
        }
        Ok(())
    }

    fn take_goaway(&mut self, payload: &[u8], plan: &mut Plan) -> Result<(), String> {
        let (last, rest) = payload.split_first_chunk().ok_or("GOAWAY is too short")?;
        let last = u32::from_be_bytes(*last) & MAX_STREAM;
        let code = rest
            .first_chunk()
            .map_or(0, |code| u32::from_be_bytes(*code));
        if code != 0 {
            return Err(format!(
                "the server ended the connection with error {code:#x}"
            ));
        }
        self.leaving = true;
        self.streams.retain(|stream| {
            let kept = stream.id <= last;
            if !kept {
                // The request was not processed: another connection may repeat it (RFC 9113,
                // section 6.8).
                plan.put_back();
            }
            kept
        });
        Ok(())
    }

    fn finish(&mut self, id: u32, whole: bool, plan: &mut Plan, now: Instant) {
        let Some(index) = self.streams.iter().position(|s| s.id == id) else {
            return;
        };
        let stream = self.streams.swap_remove(index);
        if whole && stream.status != 0 {
            plan.answered(stream.status, stream.since, now);
        } else {
            plan.lost();
        }
    }

    /// Handle the end of the connection.
    pub fn ended(&mut self, plan: &mut Plan) {
        self.streams.drain(..).for_each(|_| plan.lost());
    }
}

/// Open a window again when half of it is used.
fn reopen(received: &mut u32, stream: u32, out: &mut Vec<u8>) {
    if *received > WINDOW / 2 {
        frame::push_u32(out, frame::WINDOW_UPDATE, stream, *received);
        *received = 0;
    }
}

#[cfg(test)]
mod tests;
