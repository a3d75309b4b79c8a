//! Frames (RFC 9000, section 19).

use crate::cid::ConnectionId;
use crate::ecn::Counts;
use crate::error::{Error, Reason};
use crate::ranges::Ranges;
use gallop_http::h3::varint;
use std::ops::Range;

pub const PING: u64 = 0x01;
pub const ACK: u64 = 0x02;
pub const ACK_ECN: u64 = 0x03;
pub const RESET_STREAM: u64 = 0x04;
pub const STOP_SENDING: u64 = 0x05;
pub const CRYPTO: u64 = 0x06;
pub const NEW_TOKEN: u64 = 0x07;
pub const STREAM: u64 = 0x08;
pub const STREAM_LAST: u64 = 0x0f;
pub const MAX_DATA: u64 = 0x10;
pub const MAX_STREAM_DATA: u64 = 0x11;
pub const MAX_STREAMS_BIDI: u64 = 0x12;
pub const MAX_STREAMS_UNI: u64 = 0x13;
pub const DATA_BLOCKED: u64 = 0x14;
pub const STREAM_DATA_BLOCKED: u64 = 0x15;
pub const STREAMS_BLOCKED_BIDI: u64 = 0x16;
pub const STREAMS_BLOCKED_UNI: u64 = 0x17;
pub const NEW_CONNECTION_ID: u64 = 0x18;
pub const RETIRE_CONNECTION_ID: u64 = 0x19;
pub const PATH_CHALLENGE: u64 = 0x1a;
pub const PATH_RESPONSE: u64 = 0x1b;
pub const CONNECTION_CLOSE: u64 = 0x1c;
pub const APPLICATION_CLOSE: u64 = 0x1d;
pub const HANDSHAKE_DONE: u64 = 0x1e;

/// The bits of a STREAM frame's type.
const FIN: u64 = 0x01;
const LEN: u64 = 0x02;
const OFF: u64 = 0x04;
/// The bytes that an ACK frame with one range may take.
pub const ACK_ROOM: usize = 64;
/// The largest number of streams of a kind.
const MAX_STREAMS: u64 = 1 << 60;

/// An acknowledgment whose ranges are encoded but validated.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    pub largest: u64,
    /// The encoded delay.
    pub delay: u64,
    /// The ECN counts, if present.
    pub marks: Option<Counts>,
    first: u64,
    rest: &'a [u8],
}

impl Ack<'_> {
    /// The acknowledged packets, highest first.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut next = Some((self.largest, self.first));
        let mut rest = self.rest;
        std::iter::from_fn(move || {
            let (largest, len) = next.take()?;
            let smallest = largest - len;
            if let Some(gap) = varint::decode(&mut rest) {
                next = varint::decode(&mut rest).map(|len| (smallest - gap - 2, len));
            }
            Some(smallest..largest + 1)
        })
    }
}

/// A received frame.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    Ping,
    Ack(Ack<'a>),
    ResetStream {
        id: u64,
        size: u64,
    },
    StopSending {
        id: u64,
        code: u64,
    },
    Crypto {
        offset: u64,
        data: &'a [u8],
    },
    NewToken,
    Stream {
        id: u64,
        offset: u64,
        fin: bool,
        data: &'a [u8],
    },
    MaxData(u64),
    MaxStreamData {
        id: u64,
        max: u64,
    },
    MaxStreams {
        uni: bool,
        max: u64,
    },
    DataBlocked,
    StreamDataBlocked {
        id: u64,
    },
    StreamsBlocked,
    NewConnectionId {
        sequence: u64,
        retire: u64,
        id: ConnectionId,
        token: [u8; 16],
    },
    RetireConnectionId(u64),
    PathChallenge([u8; 8]),
    PathResponse([u8; 8]),
    Close,
    HandshakeDone,
}

/// Iterates over the frames of a packet.
pub struct Frames<'a> {
    input: &'a [u8],
}

fn cut(input: &[u8], len: u64) -> Option<(&[u8], &[u8])> {
    input.split_at_checked(usize::try_from(len).ok()?)
}

impl<'a> Frames<'a> {
    /// The frames of a packet's payload.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { input: payload }
    }

    /// The next frame and its type; PADDING is skipped.
    ///
    /// # Errors
    /// The frame is malformed.
    #[inline]
    pub fn next(&mut self) -> Result<Option<(u64, Frame<'a>)>, Error> {
        self.skip_padding();
        if self.input.is_empty() {
            return Ok(None);
        }
        // All known types have one byte, and longer encodings than necessary are forbidden.
        let kind = u64::from(self.input[0]);
        if kind > HANDSHAKE_DONE {
            return Err(Error::new(Reason::FrameEncoding, "an unknown frame").in_frame(kind));
        }
        self.input = &self.input[1..];
        let malformed = || Error::new(Reason::FrameEncoding, "a frame ends early").in_frame(kind);
        let frame = self.body(kind).ok_or_else(malformed)?;
        Ok(Some((kind, frame)))
    }

    fn skip_padding(&mut self) {
        if self.input.first() != Some(&0) {
            return;
        }
        const RUN: [u8; 64] = [0; 64];
        while let Some((run, rest)) = self.input.split_first_chunk::<64>() {
            if *run != RUN {
                break;
            }
            self.input = rest;
        }
        let end = self.input.iter().position(|b| *b != 0);
        self.input = &self.input[end.unwrap_or(self.input.len())..];
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        varint::decode(&mut self.input)
    }

    fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = cut(self.input, len)?;
        self.input = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.input.split_first_chunk()?;
        self.input = rest;
        Some(*bytes)
    }

    #[inline]
    fn body(&mut self, kind: u64) -> Option<Frame<'a>> {
        Some(match kind {
            STREAM..=STREAM_LAST => return self.stream(kind),
            ACK | ACK_ECN => return self.ack(kind == ACK_ECN),
            PING => Frame::Ping,
            CRYPTO => {
                let (offset, len) = (self.number()?, self.number()?);
                if offset + len > varint::MAX {
                    return None;
                }
                Frame::Crypto {
                    offset,
                    data: self.bytes(len)?,
                }
            }
            _ => return self.control(kind),
        })
    }

    #[inline]
    fn stream(&mut self, kind: u64) -> Option<Frame<'a>> {
        let id = self.number()?;
        let offset = if kind & OFF != 0 { self.number()? } else { 0 };
        let len = match kind & LEN {
            0 => self.input.len() as u64,
            _ => self.number()?,
        };
        if offset + len > varint::MAX {
            return None;
        }
        let data = self.bytes(len)?;
        let fin = kind & FIN != 0;
        Some(Frame::Stream {
            id,
            offset,
            fin,
            data,
        })
    }

    fn ack(&mut self, ecn: bool) -> Option<Frame<'a>> {
        let (largest, delay) = (self.number()?, self.number()?);
        let (count, first) = (self.number()?, self.number()?);
        let mut smallest = largest.checked_sub(first)?;
        let start = self.input;
        for _ in 0..count {
            let (gap, len) = (self.number()?, self.number()?);
            smallest = smallest.checked_sub(gap + 2)?.checked_sub(len)?;
        }
        let rest = &start[..start.len() - self.input.len()];
        let marks = match ecn {
            true => Some(Counts {
                ect0: self.number()?,
                ect1: self.number()?,
                ce: self.number()?,
            }),
            false => None,
        };
        Some(Frame::Ack(Ack {
            largest,
            delay,
            marks,
            first,
            rest,
        }))
    }

    fn control(&mut self, kind: u64) -> Option<Frame<'a>> {
        Some(match kind {
            RESET_STREAM => {
                let (id, _code, size) = (self.number()?, self.number()?, self.number()?);
                Frame::ResetStream { id, size }
            }
            STOP_SENDING => Frame::StopSending {
                id: self.number()?,
                code: self.number()?,
            },
            NEW_TOKEN => {
                let len = self.number()?;
                self.bytes(len).filter(|token| !token.is_empty())?;
                Frame::NewToken
            }
            MAX_DATA => Frame::MaxData(self.number()?),
            MAX_STREAM_DATA => Frame::MaxStreamData {
                id: self.number()?,
                max: self.number()?,
            },
            MAX_STREAMS_BIDI | MAX_STREAMS_UNI => {
                let max = self.number().filter(|max| *max <= MAX_STREAMS)?;
                Frame::MaxStreams {
                    uni: kind == MAX_STREAMS_UNI,
                    max,
                }
            }
            DATA_BLOCKED => {
                self.number()?;
                Frame::DataBlocked
            }
            STREAM_DATA_BLOCKED => {
                let id = self.number()?;
                self.number()?;
                Frame::StreamDataBlocked { id }
            }
            STREAMS_BLOCKED_BIDI | STREAMS_BLOCKED_UNI => {
                self.number().filter(|max| *max <= MAX_STREAMS)?;
                Frame::StreamsBlocked
            }
            PATH_CHALLENGE => Frame::PathChallenge(self.array()?),
            PATH_RESPONSE => Frame::PathResponse(self.array()?),
            RETIRE_CONNECTION_ID => Frame::RetireConnectionId(self.number()?),
            NEW_CONNECTION_ID => return self.new_connection_id(),
            CONNECTION_CLOSE | APPLICATION_CLOSE => {
                self.number()?;
                if kind == CONNECTION_CLOSE {
                    self.number()?;
                }
                let len = self.number()?;
                self.bytes(len)?;
                Frame::Close
            }
            HANDSHAKE_DONE => Frame::HandshakeDone,
            _ => return None,
        })
    }

    fn new_connection_id(&mut self) -> Option<Frame<'a>> {
        let (sequence, retire) = (self.number()?, self.number()?);
        let len = self.array::<1>()?[0];
        let id = self.bytes(len.into()).filter(|id| !id.is_empty())?;
        let id = ConnectionId::new(id)?;
        let token = self.array()?;
        (retire <= sequence).then_some(Frame::NewConnectionId {
            sequence,
            retire,
            id,
            token,
        })
    }
}

/// The number of bytes of an integer.
#[inline]
pub fn size(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Write a frame that consists of integers.
pub fn write(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| varint::encode(out, *value));
}

/// Write an ACK frame with as many ranges as fit into `room` bytes, highest first, and the ECN
/// counts.
pub fn write_ack(out: &mut Vec<u8>, ranges: &Ranges, delay: u64, marks: &Counts, room: usize) {
    let mut all = ranges.iter().rev();
    let Some(top) = all.next() else { return };
    let kind = if marks.any() { ACK_ECN } else { ACK };
    write(out, &[kind, top.end - 1, delay]);
    let fits = room.saturating_sub(ACK_ROOM) / 16;
    let count = all.len().min(fits);
    write(out, &[count as u64, top.end - 1 - top.start]);
    let mut smallest = top.start;
    for range in all.take(count) {
        write(
            out,
            &[smallest - range.end - 1, range.end - 1 - range.start],
        );
        smallest = range.start;
    }
    if kind == ACK_ECN {
        write(out, &[marks.ect0, marks.ect1, marks.ce]);
    }
}

/// The number of bytes of a STREAM frame before its data, with a length field.
#[inline]
pub fn stream_header(id: u64, offset: u64, len: usize) -> usize {
    let offset = if offset == 0 { 0 } else { size(offset) };
    1 + size(id) + offset + size(len as u64)
}

/// Write a STREAM frame up to its data. `len`: `None` if the data ends the packet.
#[inline]
pub fn write_stream(out: &mut Vec<u8>, id: u64, offset: u64, len: Option<usize>, fin: bool) {
    let mut kind = STREAM;
    kind |= if fin { FIN } else { 0 };
    kind |= if offset > 0 { OFF } else { 0 };
    kind |= if len.is_some() { LEN } else { 0 };
    out.push(kind as u8);
    varint::encode(out, id);
    if offset > 0 {
        varint::encode(out, offset);
    }
    if let Some(len) = len {
        varint::encode(out, len as u64);
    }
}

/// Write a NEW_CONNECTION_ID frame.
pub fn write_new_id(
    out: &mut Vec<u8>,
    sequence: u64,
    retire: u64,
    id: &ConnectionId,
    token: &[u8; 16],
) {
    write(out, &[NEW_CONNECTION_ID, sequence, retire]);
    out.push(id.len() as u8);
    out.extend_from_slice(id.as_slice());
    out.extend_from_slice(token);
}

/// Write a CONNECTION_CLOSE frame; `frame`: the type that caused it, `None` for the application.
pub fn write_close(out: &mut Vec<u8>, code: u64, frame: Option<u64>, reason: &[u8]) {
    match frame {
        Some(frame) => write(out, &[CONNECTION_CLOSE, code, frame]),
        None => write(out, &[APPLICATION_CLOSE, code]),
    }
    write(out, &[reason.len() as u64]);
    out.extend_from_slice(reason);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(payload: &[u8]) -> Result<Vec<String>, Error> {
        let mut frames = Frames::new(payload);
        let mut seen = Vec::new();
        while let Some((_, frame)) = frames.next()? {
            if let Frame::Ack(ack) = frame {
                seen.push(format!("{:?}", ack.ranges().collect::<Vec<_>>()));
            } else {
                seen.push(format!("{frame:?}"));
            }
        }
        Ok(seen)
    }

    proptest! {
        #[test]
        fn any_payload_is_read_or_refused(payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = all(&payload);
        }

        #[test]
        fn acknowledgements_survive(
            ranges in prop::collection::vec((0u64..1 << 40, 1u64..100), 1..40), delay in 0u64..1 << 20,
            ect0 in 0u64..1 << 30,
        ) {
            let mut set = Ranges::default();
            for (start, len) in ranges {
                set.insert(start..start + len);
            }
            let mut out = Vec::new();
            let marks = Counts { ect0, ect1: 0, ce: ect0 / 2 };
            write_ack(&mut out, &set, delay, &marks, 2000);
            let mut frames = Frames::new(&out);
            let Ok(Some((_, Frame::Ack(ack)))) = frames.next() else {
                return Err(TestCaseError::fail("not read"));
            };
            let read: Vec<_> = ack.ranges().collect();
            let wanted: Vec<_> = set.iter().rev().cloned().collect();
            let told = Some(marks).filter(Counts::any);
            prop_assert_eq!((read, ack.delay, ack.marks), (wanted, delay, told));
            prop_assert!(frames.next().unwrap().is_none());
        }

        #[test]
        fn stream_frames_survive(
            id in 0u64..1 << 50, offset in 0u64..1 << 50, fin in any::<bool>(),
            data in prop::collection::vec(any::<u8>(), 0..100), with_len in any::<bool>(),
        ) {
            let mut out = vec![0; 70];
            let len = with_len.then_some(data.len());
            write_stream(&mut out, id, offset, len, fin);
            if with_len {
                prop_assert_eq!(out.len(), 70 + stream_header(id, offset, data.len()));
            }
            out.extend_from_slice(&data);
            if with_len {
                out.push(1);
            }
            let frame = format!("{:?}", Frame::Stream { id, offset, fin, data: &data });
            let mut wanted = vec![frame];
            if with_len {
                wanted.push("Ping".to_string());
            }
            prop_assert_eq!(all(&out).unwrap(), wanted);
        }

        #[test]
        fn frames_of_integers_survive(a in 0u64..1 << 60, b in 0u64..1 << 60, c in 0u64..1 << 60) {
            let mut out = Vec::new();
            write(&mut out, &[RESET_STREAM, a, b, c]);
            write(&mut out, &[STOP_SENDING, a, b]);
            write(&mut out, &[MAX_DATA, c]);
            write(&mut out, &[MAX_STREAM_DATA, a, c]);
            write(&mut out, &[MAX_STREAMS_UNI, b]);
            write(&mut out, &[RETIRE_CONNECTION_ID, b]);
            let frames = [
                Frame::ResetStream { id: a, size: c },
                Frame::StopSending { id: a, code: b },
                Frame::MaxData(c),
                Frame::MaxStreamData { id: a, max: c },
                Frame::MaxStreams { uni: true, max: b },
                Frame::RetireConnectionId(b),
            ];
            let wanted: Vec<_> = frames.iter().map(|frame| format!("{frame:?}")).collect();
            prop_assert_eq!(all(&out).unwrap(), wanted);
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        // A type in a long encoding, an unknown type, an ACK below 0, too many streams, and an
        // empty id.
        let bad: [&[u8]; 6] = [
            &[0x40, 0x01],
            &[0x21],
            &[2, 5, 0, 0, 6],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[
                0x18, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ],
            &[0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0],
        ];
        for payload in bad {
            let error = all(payload).unwrap_err();
            assert_eq!(error.code, Reason::FrameEncoding as u64, "{payload:?}");
        }
    }

    #[test]
    fn a_short_room_takes_the_highest_ranges() {
        let mut set = Ranges::default();
        for n in 0..100 {
            set.insert(2 * n..2 * n + 1);
        }
        let mut out = Vec::new();
        write_ack(&mut out, &set, 0, &Counts::default(), 124);
        assert!(out.len() <= 100);
        assert!(all(&out).unwrap()[0].starts_with("[198..199, 196..197"));
    }
}
