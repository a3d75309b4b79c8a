//! Writing of outgoing datagrams.

use super::close::State;
use super::migration::MIN_PATH_PACKET;
use super::{Connection, Level, Path};
use crate::endpoint::Transmit;
use crate::error::{Error, Reason};
use crate::frame;
use crate::keys::{self, Positions};
use crate::packet::{self, Kind, FIXED, MAX_LONG, TAG};
use crate::recovery::Content;
use crate::token::random;
use std::time::Instant;

const LEVELS: [Level; 3] = [Level::Initial, Level::Handshake, Level::Data];
/// The least free bytes of a datagram to begin another packet in it.
const MIN_ROOM: usize = MAX_LONG + TAG + frame::ACK_ROOM;
/// The size of a datagram that starts a connection or validates a path (RFC 9000, sections 8.2.1
/// and 14.1).
const FULL: usize = 1200;
/// The default exponent: acknowledgment delays are in units of 8 microseconds (RFC 9000, section
/// 18.2).
const ACK_DELAY_EXPONENT: u32 = 3;
/// The most bytes of padding to make a datagram as long as the previous one. It covers longer
/// packet numbers and acknowledgments with more ranges.
const MAX_FILLING: usize = 8;
/// The least distance between skipped packet numbers.
const SKIP_EVERY: u64 = 128;

/// The first skipped packet number.
pub fn first_skip() -> u64 {
    16 + u64::from(random::<1>()[0])
}

impl Connection {
    /// Append up to `segments` datagrams of one size for one address to the empty `out`; `None` if
    /// there is nothing to send. `alike`: the length of the previous datagram to that address;
    /// datagrams of equal size can be sent by one system call.
    pub fn transmit(
        &mut self,
        now: Instant,
        segments: usize,
        alike: Option<usize>,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.alike = alike.filter(|_| self.config.gso);
        let result = match self.state {
            State::Open => self.transmit_open(now, segments, out),
            _ => Ok(None),
        };
        match result {
            Ok(Some(transmit)) => return Some(transmit),
            Ok(None) => {}
            Err(error) => {
                out.clear();
                self.fail(now, error);
            }
        }
        self.transmit_close(now, out)
    }

    fn to_client(&self, segment: Option<usize>) -> Transmit {
        Transmit {
            remote: self.path.remote,
            local: self.path.local,
            segment,
            ecn: self.marking,
        }
    }

    fn transmit_open(
        &mut self,
        now: Instant,
        segments: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Transmit>, Error> {
        self.marking = false;
        if let Some(transmit) = self.transmit_path(now, out)? {
            return Ok(Some(transmit));
        }
        if self.spaces[Level::Data as usize].sent.is_full() {
            let reason = "too many packets without an acknowledgement";
            return Err(Error::new(Reason::ProtocolViolation, reason));
        }
        if let Some(keys) = &mut self.one_rtt {
            keys.renew();
        }
        self.marking = self.path.marking.is_on();
        let mtu = self.mtu();
        let segments = if self.config.gso { segments } else { 1 };
        let mut count = 0;
        while count < segments {
            let start = out.len();
            let limit = mtu.min(self.path.allowance());
            self.datagram(now, out, limit)?;
            let written = out.len() - start;
            if written == 0 {
                break;
            }
            self.path.on_sent(written);
            count += 1;
            if written < mtu {
                break;
            }
        }
        match count {
            0 => self.transmit_probe(now, out),
            1 => Ok(Some(self.to_client(None))),
            _ => Ok(Some(self.to_client(Some(mtu)))),
        }
    }

    /// Whether there may be more to send after a datagram. Usually there is not, and
    /// [`Connection::transmit`] need not be called again.
    #[inline]
    pub fn may_send_more(&self, now: Instant) -> bool {
        let has_keys = |level: Level| self.spaces[level as usize].keys.is_some();
        !self.is_open()
            || !self.complete
            || has_keys(Level::Initial)
            || has_keys(Level::Handshake)
            || self.has_data()
            || self.must_send(Level::Data)
            || !self.responses.is_empty()
            || self.path.challenge.is_some()
            || self.previous.is_some()
            || self.path.mtu.may_be_due(now)
    }

    /// Whether the congestion window or the pacer delays `bytes`.
    fn is_held_up(&mut self, now: Instant, bytes: usize) -> bool {
        let path = &mut self.path;
        let (window, bytes) = (path.cubic.window(), bytes as u64);
        if self.in_flight + bytes > window {
            self.app_limited = false;
            return true;
        }
        let mtu = path.mtu.current().into();
        self.paced_until = path.pacer.delay(now, bytes, mtu, window, path.rtt.get());
        if self.paced_until.is_some() {
            self.app_limited = false;
        }
        self.paced_until.is_some()
    }

    #[inline]
    fn has_data(&self) -> bool {
        self.streams.has_pending()
            || self.handshake_done_due
            || self.new_token_due
            || self.spaces[Level::Data as usize].crypto_out.has_pending()
            || self.complete && !self.local_ids.due.is_empty()
            || !self.remote_ids.due.is_empty()
    }

    fn has_pending(&self, level: Level) -> bool {
        let space = &self.spaces[level as usize];
        match level {
            Level::Data => self.one_rtt.is_some() && self.has_data(),
            _ => space.keys.is_some() && space.crypto_out.has_pending(),
        }
    }

    /// Whether a packet of this level must be sent even without new data.
    fn must_send(&self, level: Level) -> bool {
        let space = &self.spaces[level as usize];
        let has_keys = match level {
            Level::Data => self.one_rtt.is_some(),
            _ => space.keys.is_some(),
        };
        has_keys && (space.ack_now || space.probes > 0)
    }

    /// Append a datagram of up to `limit` bytes, if there is something to send.
    #[inline]
    fn datagram(&mut self, now: Instant, out: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
        let start = out.len();
        let end = start + limit;
        let mut held_up = None;
        let mut pad = false;
        let mut wants = [false; 3];
        for level in LEVELS {
            let pending = self.has_pending(level);
            let held = pending && *held_up.get_or_insert_with(|| self.is_held_up(now, limit));
            wants[level as usize] = pending && !held || self.must_send(level);
        }
        for level in LEVELS {
            if !wants[level as usize] {
                continue;
            }
            if end - out.len() < MIN_ROOM {
                break;
            }
            let last = !wants[level as usize + 1..].contains(&true);
            let held = held_up == Some(true);
            self.packet(
                now,
                level,
                out,
                Bounds {
                    start,
                    end,
                    last,
                    held,
                },
                &mut pad,
            )?;
        }
        if wants[2] && held_up != Some(true) && !self.has_data() {
            self.app_limited = true;
        }
        Ok(())
    }

    /// Write a header. Returns the positions of its parts and of its length field.
    fn header(&mut self, now: Instant, level: Level, out: &mut Vec<u8>) -> (Positions, usize, u64) {
        let start = out.len();
        let space = &mut self.spaces[level as usize];
        let mut number = space.sent.next();
        if level == Level::Data && number == self.skip {
            space.sent.skip(now);
            self.skip = number + SKIP_EVERY + 4 * u64::from(random::<1>()[0]);
            number += 1;
        }
        let len = packet::number_len(number, space.largest_acked);
        let destination = &self.remote_ids.active.id;
        let long = match level {
            Level::Initial => Some(Kind::Initial),
            Level::Handshake => Some(Kind::Handshake),
            Level::Data => None,
        };
        let length_at = if let Some(kind) = long {
            let source = self.local_ids.first();
            packet::write_long(out, kind, len, destination, &source)
        } else {
            let phase = self.one_rtt.as_ref().map_or(0, |keys| keys.phase_bit());
            out.push(FIXED | phase | (len as u8 - 1));
            out.extend_from_slice(destination.as_slice());
            0
        };
        let number_at = out.len();
        packet::write_number(out, number, len);
        let at = Positions {
            start,
            number: number_at,
            payload: out.len(),
        };
        (at, length_at, number)
    }

    /// Append a packet if there is content for it.
    #[inline]
    fn packet(
        &mut self,
        now: Instant,
        level: Level,
        out: &mut Vec<u8>,
        bounds: Bounds,
        pad: &mut bool,
    ) -> Result<(), Error> {
        let (at, length_at, number) = self.header(now, level, out);
        let end = bounds.end - TAG;
        let space = &mut self.spaces[level as usize];
        if space.wants_ack() {
            let delay = space.ack_delay(now).as_micros() as u64 >> ACK_DELAY_EXPONENT;
            frame::write_ack(out, &space.received, delay, &space.marks, end - out.len());
            let largest = space.ack_sent();
            space.sent.carry(Content::Ack(largest));
        }
        let acked = out.len();
        let probing = space.probes > 0;
        if !bounds.held || probing {
            self.write_crypto(level, out, end);
            if level == Level::Data {
                self.write_frames(out, end);
            }
        }
        let space = &mut self.spaces[level as usize];
        if probing {
            space.probes -= 1;
            if out.len() == acked {
                frame::write(out, &[frame::PING]);
            }
        }
        if out.len() == at.payload {
            out.truncate(at.start);
            return Ok(());
        }
        let mut eliciting = out.len() > acked;
        *pad |= level == Level::Initial && eliciting;
        if *pad && (bounds.last || end.saturating_sub(out.len()) < MIN_ROOM) {
            let full = (bounds.start + FULL - TAG).min(end);
            eliciting |= out.len() < full;
            out.resize(out.len().max(full), 0);
        }
        if let Some(alike) = self.alike.filter(|_| eliciting && level == Level::Data) {
            let full = (bounds.start + alike).min(bounds.end).saturating_sub(TAG);
            if full.saturating_sub(out.len()) <= MAX_FILLING {
                out.resize(out.len().max(full), 0);
            }
        }
        self.seal(now, level, out, (at, length_at, number), eliciting)
    }

    /// Complete a packet: encrypt it and record it as sent.
    #[inline]
    fn seal(
        &mut self,
        now: Instant,
        level: Level,
        out: &mut Vec<u8>,
        (at, length_at, number): (Positions, usize, u64),
        in_flight: bool,
    ) -> Result<(), Error> {
        // The sample for header protection must exist (RFC 9001, section 5.4.2).
        let least = at.number + 4;
        if out.len() < least {
            out.resize(least, 0);
        }
        if length_at > 0 {
            let length = out.len() - at.number + TAG;
            packet::set_length(out, length_at, length);
        }
        let space = &mut self.spaces[level as usize];
        match (level, &mut self.one_rtt, &space.keys) {
            (Level::Data, Some(keys), _) => keys.seal(out, at, number)?,
            (_, _, Some(keys)) => {
                keys::seal(&*keys.local.packet, &*keys.local.header, out, at, number)?;
            }
            _ => unreachable!("packets are only begun with keys"),
        }
        let size = out.len() - at.start;
        space.sent.push(now, size as u16, in_flight, self.marking);
        space.marked.sent += u64::from(self.marking);
        self.sent_packets += 1;
        if in_flight {
            space.eliciting_at = Some(now);
            self.in_flight += size as u64;
            self.path.pacer.sent(size as u64);
            if self.marking {
                self.path.marking.sent();
            }
            if !std::mem::replace(&mut self.idle_extended, true) {
                self.extend_idle(now);
            }
        }
        Ok(())
    }

    fn write_crypto(&mut self, level: Level, out: &mut Vec<u8>, end: usize) {
        let space = &mut self.spaces[level as usize];
        while let Some(waiting) = space.crypto_out.peek() {
            let header = 1 + frame::size(waiting.start) + 2;
            let room = end.saturating_sub(out.len() + header);
            // The largest length that fits into two bytes.
            let room = (room as u64).min(16_383);
            if room < 16 {
                return;
            }
            let Some(range) = space.crypto_out.next(room) else {
                return;
            };
            let len = range.end - range.start;
            frame::write(out, &[frame::CRYPTO, range.start, len]);
            let content = Content::Crypto {
                offset: range.start,
                len: len as u32,
            };
            space.crypto_out.copy(range, out);
            space.sent.carry(content);
        }
    }

    /// Write the frames that only 1-RTT packets have.
    #[inline]
    fn write_frames(&mut self, out: &mut Vec<u8>, end: usize) {
        let sent = &mut self.spaces[Level::Data as usize].sent;
        if self.handshake_done_due && out.len() < end {
            self.handshake_done_due = false;
            frame::write(out, &[frame::HANDSHAKE_DONE]);
            sent.carry(Content::HandshakeDone);
        }
        if self.new_token_due && out.len() + 4 + self.new_token.len() <= end {
            self.new_token_due = false;
            frame::write(out, &[frame::NEW_TOKEN, self.new_token.len() as u64]);
            out.extend_from_slice(&self.new_token);
            sent.carry(Content::NewToken);
        }
        while self.complete && out.len() + 64 <= end {
            let Some(sequence) = self.local_ids.due.pop() else {
                break;
            };
            let Some(numbered) = self.local_ids.get(sequence) else {
                continue;
            };
            let token = numbered.token.unwrap_or_default();
            frame::write_new_id(out, sequence, 0, &numbered.id, &token);
            sent.carry(Content::NewId(sequence));
        }
        while out.len() + 9 <= end {
            let Some(sequence) = self.remote_ids.due.pop() else {
                break;
            };
            frame::write(out, &[frame::RETIRE_CONNECTION_ID, sequence]);
            sent.carry(Content::RetireId(sequence));
        }
        self.streams.write_control(out, end, sent);
        self.streams.write_streams(out, end, sent);
    }

    /// Send an MTU probe for the path.
    fn transmit_probe(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Option<Transmit>, Error> {
        if !self.complete || !self.path.validated || self.previous.is_some() {
            return Ok(None);
        }
        let Some(size) = self.path.mtu.due(now) else {
            return Ok(None);
        };
        let window = self.path.cubic.window().max(2 * u64::from(size));
        if self.in_flight + u64::from(size) > window {
            return Ok(None);
        }
        let parts = self.header(now, Level::Data, out);
        frame::write(out, &[frame::PING]);
        out.resize(usize::from(size) - TAG, 0);
        self.seal(now, Level::Data, out, parts, true)?;
        self.path.mtu.sent(parts.2, size);
        self.path.on_sent(out.len());
        Ok(Some(self.to_client(None)))
    }

    /// Send frames that belong to a certain path (RFC 9000, section 8.2).
    fn transmit_path(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Option<Transmit>, Error> {
        if self.responses.is_empty() && self.path.challenge.is_none() && self.previous.is_none() {
            return Ok(None);
        }
        if !self.complete {
            return Ok(None);
        }
        if let Some((data, from)) = self.responses.pop() {
            let room = self.response_room(&from);
            if room < MIN_PATH_PACKET {
                return Ok(None);
            }
            let full = FULL.min(room);
            self.path_packet(now, out, frame::PATH_RESPONSE, data, full)?;
            if from.remote == self.path.remote {
                self.path.on_sent(out.len());
            }
            return Ok(Some(Transmit::unmarked(from.remote, from.local)));
        }
        let Some((data, path)) = self.due_challenge() else {
            return Ok(None);
        };
        let full = FULL.min(path.allowance());
        path.on_sent(full);
        let transmit = Transmit::unmarked(path.remote, path.local);
        self.path_packet(now, out, frame::PATH_CHALLENGE, data, full)?;
        Ok(Some(transmit))
    }

    /// A path that needs a PATH_CHALLENGE and may send one.
    fn due_challenge(&mut self) -> Option<([u8; 8], &mut Path)> {
        let paths = [Some(&mut self.path), self.previous.as_mut()];
        paths.into_iter().flatten().find_map(|path| {
            let (data, due) = path.challenge?;
            if !due || path.allowance() < MIN_PATH_PACKET {
                return None;
            }
            path.challenge = Some((data, false));
            Some((data, path))
        })
    }

    fn path_packet(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        kind: u64,
        data: [u8; 8],
        full: usize,
    ) -> Result<(), Error> {
        let parts = self.header(now, Level::Data, out);
        frame::write(out, &[kind]);
        out.extend_from_slice(&data);
        out.resize(out.len().max(full.saturating_sub(TAG)), 0);
        self.seal(now, Level::Data, out, parts, true)
    }

    /// Write CONNECTION_CLOSE in all packets that the client may be able to decrypt (10.2.3).
    fn transmit_close(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let State::Closing { due, .. } = &mut self.state else {
            return None;
        };
        if !std::mem::take(due) || self.path.allowance() < FULL {
            return None;
        }
        self.marking = false;
        for level in LEVELS {
            let has_keys = match level {
                Level::Data => self.one_rtt.is_some(),
                _ => self.spaces[level as usize].keys.is_some(),
            };
            if !has_keys {
                continue;
            }
            let start = out.len();
            let parts = self.header(now, level, out);
            let State::Closing { close, .. } = &self.state else {
                return None;
            };
            close.write(out, level != Level::Data);
            if self.seal(now, level, out, parts, false).is_err() {
                out.truncate(start);
            }
        }
        self.path.on_sent(out.len());
        (!out.is_empty()).then(|| self.to_client(None))
    }
}

/// The place for a packet.
#[derive(Clone, Copy)]
struct Bounds {
    /// The start and the largest end of the datagram.
    start: usize,
    end: usize,
    /// Whether no other packet follows in the datagram.
    last: bool,
    /// Whether only acknowledgments and probes may be sent.
    held: bool,
}
