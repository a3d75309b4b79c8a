//! Processing of received datagrams (RFC 9000, section 12.2), packet by packet and frame by frame.

use super::close::State;
use super::ids::Numbered;
use super::{is_for_handshake, Connection, From, Level, MAX_EARLY_PACKETS};
use crate::cid::{ConnectionId, LOCAL_LEN};
use crate::error::{Error, Reason};
use crate::frame::{Frame, Frames};
use crate::keys::{self, Opened};
use crate::packet::{self, Header, Kind, Long};
use bytes::{Bytes, BytesMut};
use std::time::Instant;

/// A decrypted packet.
struct Packet {
    level: Level,
    early: bool,
    number: u64,
    first: u8,
    /// The id of ours to which it was sent.
    to: ConnectionId,
    whole: Bytes,
    payload_at: usize,
}

/// Properties of a packet's frames.
#[derive(Default)]
struct Seen {
    /// Whether a frame requires an acknowledgment.
    eliciting: bool,
    /// Whether there is a non-probing frame (RFC 9000, section 9.1).
    using: bool,
}

fn violation(reason: &'static str) -> Error {
    Error::new(Reason::ProtocolViolation, reason)
}

impl Connection {
    /// Process a datagram.
    pub fn receive(&mut self, now: Instant, from: From, datagram: BytesMut) {
        if matches!(self.state, State::Draining { .. } | State::Drained) {
            return;
        }
        if from.remote == self.path.remote {
            self.path.on_received(from.bytes);
        } else if !self.complete {
            // Clients do not migrate before the end of the handshake (RFC 9000, section 9).
            return;
        }
        self.packets(now, from, datagram);
    }

    /// Process the packets of a datagram.
    pub(super) fn packets(&mut self, now: Instant, from: From, mut rest: BytesMut) {
        self.is_challenged = false;
        while !rest.is_empty() {
            match packet::parse(&rest) {
                Some(Header::Short(to)) => return self.short(now, from, to, rest),
                Some(Header::Long(long)) => {
                    let packet = rest.split_to(long.end);
                    self.long(now, from, &long, packet);
                }
                // The rest is padding or unknown.
                Some(Header::OtherVersion { .. }) | None => return,
            }
        }
    }

    /// Process a packet with a short header, which ends the datagram.
    #[inline]
    fn short(&mut self, now: Instant, from: From, to: ConnectionId, mut packet: BytesMut) {
        if !self.complete {
            // 1-RTT packets must not be processed before the client's last handshake message (RFC
            // 9001, 5.7).
            if self.one_rtt.is_some() && self.held.len() < MAX_EARLY_PACKETS {
                // Copy the packet, since its memory belongs to the whole batch.
                self.held.push((from, BytesMut::from(&packet[..])));
            }
            return;
        }
        let is_reset = self.is_reset_by(&packet);
        let Some(keys) = &mut self.one_rtt else {
            return;
        };
        let number_at = 1 + LOCAL_LEN;
        let Some(opened) = keys.unprotect(&mut packet, number_at) else {
            return;
        };
        let space = &self.spaces[Level::Data as usize];
        let number = packet::expand_number(opened.number, opened.number_len, space.expected());
        if space.was_seen(number) {
            return;
        }
        let payload_at = number_at + opened.number_len;
        let (head, payload) = packet.split_at_mut(payload_at);
        let Some(len) = keys.open(number, head, payload) else {
            return self.unreadable(now, is_reset);
        };
        keys.forget_old(now, || 3 * self.path.rtt.probe_timeout());
        packet.truncate(payload_at + len);
        let packet = Packet {
            level: Level::Data,
            early: false,
            number,
            first: opened.first,
            to,
            whole: packet.freeze(),
            payload_at,
        };
        self.opened(now, from, &packet);
    }

    fn unreadable(&mut self, now: Instant, is_reset: bool) {
        if is_reset {
            // The client lost the connection's state (RFC 9000, section 10.3.1).
            return self.lose();
        }
        self.failures += 1;
        let limit = self
            .one_rtt
            .as_ref()
            .map_or(u64::MAX, |keys| keys.integrity_limit());
        if self.failures >= limit {
            let reason = "too many packets that cannot be opened";
            self.fail(now, Error::new(Reason::AeadLimitReached, reason));
        }
    }

    fn long(&mut self, now: Instant, from: From, long: &Long, mut packet: BytesMut) {
        let to = long.destination;
        let ours = to == self.initial_id || self.local_ids.all().any(|id| id == to);
        if !ours || !self.complete && long.source != self.remote_ids.active.id {
            return;
        }
        let (level, early) = match long.kind {
            Kind::Initial => (Level::Initial, false),
            Kind::Handshake => (Level::Handshake, false),
            Kind::ZeroRtt => (Level::Data, true),
            Kind::Retry => return,
        };
        let space = &self.spaces[level as usize];
        let keys = match &space.keys {
            _ if early => self.early.as_ref(),
            keys => keys.as_ref().map(|keys| &keys.remote),
        };
        let Some(keys) = keys else { return };
        let Some(opened) = keys::unprotect(&*keys.header, &mut packet, long.number_at) else {
            return;
        };
        let Opened {
            first,
            number,
            number_len,
        } = opened;
        let number = packet::expand_number(number, number_len, space.expected());
        if space.was_seen(number) {
            return;
        }
        let payload_at = long.number_at + number_len;
        let (head, payload) = packet.split_at_mut(payload_at);
        let Some(len) = keys::open(keys, number, head, payload) else {
            return;
        };
        packet.truncate(payload_at + len);
        let whole = packet.freeze();
        let packet = Packet {
            level,
            early,
            number,
            first,
            to,
            whole,
            payload_at,
        };
        self.opened(now, from, &packet);
    }

    #[inline]
    fn opened(&mut self, now: Instant, from: From, packet: &Packet) {
        if !self.is_open() {
            return self.closing(now, packet);
        }
        match self.take(now, from, packet) {
            Ok(()) => {
                self.idle_extended = false;
                self.extend_idle(now);
            }
            Err(error) => self.fail(now, error),
        }
    }

    /// Process a packet on a closing connection: the client may have closed it too.
    fn closing(&mut self, now: Instant, packet: &Packet) {
        let mut frames = Frames::new(&packet.whole[packet.payload_at..]);
        while let Ok(Some((_, frame))) = frames.next() {
            if let Frame::Close = frame {
                return self.drain(now);
            }
        }
        self.repeat_close();
    }

    fn take(&mut self, now: Instant, from: From, packet: &Packet) -> Result<(), Error> {
        if keys::reserved(packet.first) != 0 {
            return Err(violation("reserved bits are set"));
        }
        if packet.level == Level::Handshake {
            // Only a client that can read our Initial packets has these keys (RFC 9000, section
            // 8.1).
            self.path.validated = true;
            self.drop_space(Level::Initial);
        }
        let seen = self.frames(now, from, packet)?;
        let at_once = packet.level != Level::Data;
        let space = &mut self.spaces[packet.level as usize];
        let highest = space.on_received(now, packet.number, from.ecn, seen.eliciting, at_once);
        if packet.level != Level::Data || packet.early || !self.is_open() {
            return Ok(());
        }
        let id_changed = std::mem::replace(&mut self.used_id, packet.to) != packet.to;
        if highest && seen.using && from.remote != self.path.remote {
            self.migrate(now, from, id_changed)?;
        }
        Ok(())
    }

    #[inline]
    fn frames(&mut self, now: Instant, from: From, packet: &Packet) -> Result<Seen, Error> {
        let payload = &packet.whole[packet.payload_at..];
        if payload.is_empty() {
            return Err(violation("a packet without frames"));
        }
        let mut frames = Frames::new(payload);
        let mut seen = Seen::default();
        while let Some((kind, frame)) = frames.next()? {
            if packet.level != Level::Data && !is_for_handshake(kind) {
                return Err(violation("a frame that the handshake does not have").in_frame(kind));
            }
            let quiet = matches!(frame, Frame::Ack(_) | Frame::Close);
            seen.eliciting |= !quiet;
            seen.using |= !matches!(
                frame,
                Frame::PathChallenge(_) | Frame::PathResponse(_) | Frame::NewConnectionId { .. }
            );
            if let Frame::Stream {
                id,
                offset,
                fin,
                data,
            } = frame
            {
                let data = packet.whole.slice_ref(data);
                self.streams
                    .on_stream(id, offset, fin, data)
                    .map_err(|e| e.in_frame(kind))?;
                continue;
            }
            self.frame(now, from, packet, frame)
                .map_err(|e| match e.frame {
                    0 => e.in_frame(kind),
                    _ => e,
                })?;
            if !self.is_open() {
                break;
            }
        }
        Ok(seen)
    }

    fn frame(
        &mut self,
        now: Instant,
        from: From,
        packet: &Packet,
        frame: Frame<'_>,
    ) -> Result<(), Error> {
        let early = packet.early;
        match frame {
            Frame::Ping | Frame::DataBlocked | Frame::StreamsBlocked => {}
            Frame::Ack(ack) if !early => self.on_ack(now, packet.level, &ack)?,
            Frame::Crypto { offset, data } if !early => {
                let data = packet.whole.slice_ref(data);
                self.on_crypto(now, packet.level, offset, data)?;
            }
            Frame::ResetStream { id, size } => self.streams.on_reset(id, size)?,
            Frame::StopSending { id, code } => self.streams.on_stop(id, code)?,
            Frame::MaxData(max) => self.streams.on_max_data(max),
            Frame::MaxStreamData { id, max } => self.streams.on_max_stream_data(id, max)?,
            Frame::MaxStreams { uni: true, max } => self.streams.on_max_streams(max),
            Frame::MaxStreams { uni: false, .. } => {}
            Frame::StreamDataBlocked { id } => self.streams.on_stream_data_blocked(id)?,
            Frame::NewConnectionId {
                sequence,
                retire,
                id,
                token,
            } => {
                let new = Numbered {
                    sequence,
                    id,
                    token: Some(token),
                };
                if self.remote_ids.offer(new, retire)? {
                    self.wish_reset_token();
                }
            }
            Frame::RetireConnectionId(sequence) if !early => {
                self.local_ids.retire(sequence, packet.to)?;
                self.wishes.any = true;
            }
            Frame::PathChallenge(data) => self.on_challenge(data, from),
            Frame::PathResponse(data) if !early => self.on_response(data),
            Frame::Close => self.drain(now),
            _ => return Err(violation("a frame that a client does not send here")),
        }
        Ok(())
    }

    /// Restart the idle timeout after a received packet, or the first packet sent after one.
    pub(super) fn extend_idle(&mut self, now: Instant) {
        // The timeout allows for repeated losses (RFC 9000, section 10.1). These times are usually
        // much shorter, so comparing whole seconds suffices.
        let probe = self.path.rtt.probe_timeout();
        let wait = if probe.as_secs() == 0 && self.idle.as_secs() >= 3 {
            self.idle
        } else {
            self.idle.max(3 * probe)
        };
        self.idle_at = Some(now + wait);
    }
}
