//! Acknowledgments, losses, and probes (RFC 9002).

use super::{Connection, Level};
use crate::ecn::Report;
use crate::error::{Error, Reason};
use crate::frame::Ack;
use crate::recovery::{Content, Outcome};
use std::time::{Duration, Instant};

const LEVELS: [Level; 3] = [Level::Initial, Level::Handshake, Level::Data];
/// A probe timeout grows to at most 2^this times the first.
const MAX_BACKOFF: u32 = 16;
/// Packets per probe timeout, so that one loss does not double the wait (RFC 9002, 6.2.4).
const PROBES: u8 = 2;

impl Connection {
    /// Handle an ACK frame.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        level: Level,
        ack: &Ack<'_>,
    ) -> Result<(), Error> {
        if level != Level::Data && self.spaces[level as usize].keys.is_none() {
            // The packet itself ended the handshake.
            return Ok(());
        }
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.clear();
        let result = self.take_ack(now, level, ack, &mut outcome);
        self.outcome = outcome;
        result
    }

    fn take_ack(
        &mut self,
        now: Instant,
        level: Level,
        ack: &Ack<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let space = &mut self.spaces[level as usize];
        for range in ack.ranges() {
            if space.sent.acked(range, outcome).is_err() {
                let reason = "a packet was acknowledged that was never sent";
                return Err(Error::new(Reason::ProtocolViolation, reason));
            }
        }
        let is_news = space.largest_acked < Some(ack.largest);
        space.largest_acked = space.largest_acked.max(Some(ack.largest));
        if outcome.packets.is_empty() && outcome.contents.is_empty() {
            return Ok(());
        }
        if is_news {
            self.judge_marks(now, level, ack, outcome);
        }
        let newest = outcome
            .packets
            .iter()
            .find(|(number, ..)| *number == ack.largest);
        if let Some((number, at, _)) = newest {
            self.measure(now, level, *number, *at, ack.delay);
        }
        self.probe_timeouts = 0;
        for &(number, at, size) in &outcome.packets {
            self.in_flight -= u64::from(size);
            if level == Level::Data {
                self.arrived(now, number, at, size);
            }
        }
        for content in &outcome.contents {
            self.content_arrived(level, *content);
        }
        self.streams.acked_all();
        outcome.clear();
        self.losses(now, level, outcome);
        Ok(())
    }

    /// Evaluate the ECN counts of an acknowledgment that is not outdated (RFC 9002, appendix B.7).
    fn judge_marks(&mut self, now: Instant, level: Level, ack: &Ack<'_>, outcome: &Outcome) {
        let marked = &mut self.spaces[level as usize].marked;
        let report = marked.judge(ack.marks, outcome.marked);
        if level == Level::Data && ack.largest < self.path.first {
            // The counts belong to the client's previous path.
            return;
        }
        self.path.marking.reported(report);
        let newest = outcome.packets.iter().map(|(_, at, _)| *at).max();
        if let (Report::Arrive { ce: true }, Some(newest)) = (report, newest) {
            self.path.cubic.lost(now, newest);
        }
    }

    fn measure(&mut self, now: Instant, level: Level, number: u64, at: Instant, delay: u64) {
        if level == Level::Data && number < self.path.first {
            return;
        }
        let mut waited = Duration::ZERO;
        if let Some(params) = self.params.as_ref().filter(|_| level == Level::Data) {
            let micros = delay.saturating_mul(1 << params.ack_delay_exponent);
            waited = Duration::from_micros(micros).min(params.max_ack_delay);
        }
        self.path
            .rtt
            .update(waited, now.saturating_duration_since(at));
    }

    fn arrived(&mut self, now: Instant, number: u64, at: Instant, size: u16) {
        if let Some(keys) = &mut self.one_rtt {
            keys.acked(number);
        }
        let path = &mut self.path;
        if number < path.first {
            return;
        }
        if path.mtu.acked(number, size) {
            path.cubic.set_mtu(path.mtu.current().into());
        }
        let rtt = path.rtt.get();
        path.cubic
            .acked(now, at, size.into(), self.app_limited, rtt);
    }

    #[inline]
    fn content_arrived(&mut self, level: Level, content: Content) {
        let space = &mut self.spaces[level as usize];
        match content {
            Content::Ack(largest) => space.ack_arrived(largest),
            Content::Crypto { offset, len } => {
                space.crypto_out.acked(offset..offset + u64::from(len));
            }
            Content::RetireId(_) => self.remote_ids.retired(),
            content => self.streams.acked(content),
        }
    }

    /// The time when a packet counts as lost unless it is acknowledged.
    pub(super) fn loss_at(&self) -> Option<Instant> {
        self.spaces.iter().filter_map(|space| space.loss_at).min()
    }

    /// Detect losses in all spaces.
    pub(super) fn find_losses(&mut self, now: Instant) {
        let mut outcome = std::mem::take(&mut self.outcome);
        for level in LEVELS {
            outcome.clear();
            if self.spaces[level as usize]
                .loss_at
                .is_some_and(|at| at <= now)
            {
                self.losses(now, level, &mut outcome);
            }
        }
        self.outcome = outcome;
    }

    fn losses(&mut self, now: Instant, level: Level, outcome: &mut Outcome) {
        let delay = self.path.rtt.loss_delay();
        let (rtt, max_ack_delay) = (&self.path.rtt, self.max_ack_delay());
        let long = || {
            // RFC 9002, section 7.6.1.
            let known = rtt.is_known();
            known.then(|| 3 * (rtt.probe_timeout() + max_ack_delay))
        };
        let space = &mut self.spaces[level as usize];
        let Some(acked) = space.largest_acked else {
            return;
        };
        space.loss_at = space.sent.detect(now, acked, delay, long, outcome);
        if outcome.packets.is_empty() {
            return;
        }
        self.congestion(now, level, outcome);
        for index in 0..outcome.contents.len() {
            self.content_lost(level, outcome.contents[index]);
        }
    }

    fn congestion(&mut self, now: Instant, level: Level, outcome: &Outcome) {
        let (mut newest, mut largest) = (None, 0);
        for &(number, at, size) in &outcome.packets {
            self.in_flight -= u64::from(size);
            self.lost_packets += 1;
            if level == Level::Data && self.path.mtu.is_probe(number) {
                // The probe exceeded the path's MTU (RFC 9000, section 14.4).
                self.path.mtu.probe_lost();
            } else if level != Level::Data || number >= self.path.first {
                newest = newest.max(Some(at));
                largest = largest.max(size);
            }
        }
        let Some(newest) = newest else { return };
        let path = &mut self.path;
        path.marking.lost(outcome.marked);
        path.cubic.lost(now, newest);
        if outcome.persistent {
            path.cubic.collapse();
        }
        if path.mtu.lost(now, largest) {
            path.cubic.set_mtu(path.mtu.current().into());
        }
    }

    /// Queue lost content for retransmission.
    fn content_lost(&mut self, level: Level, content: Content) {
        match content {
            Content::Crypto { offset, len } => {
                let space = &mut self.spaces[level as usize];
                space.crypto_out.lost(offset..offset + u64::from(len));
            }
            Content::HandshakeDone => self.handshake_done_due = true,
            Content::NewToken => self.new_token_due = true,
            Content::NewId(sequence) => {
                if self.local_ids.get(sequence).is_some() {
                    self.local_ids.due.push(sequence);
                }
            }
            Content::RetireId(sequence) => self.remote_ids.due.push(sequence),
            Content::Ack(_) => {}
            content => self.streams.lost(content),
        }
    }

    /// The next probe timeout and its space (RFC 9002, appendix A.8).
    pub(super) fn probe_at(&self) -> Option<(Instant, Level)> {
        if self.path.allowance() == 0 {
            // Nothing can be sent now; the next received packet restarts the timer.
            return None;
        }
        let base = self.probe_timeout();
        let backoff = 1 << self.probe_timeouts.min(MAX_BACKOFF);
        let mut earliest: Option<(Instant, Level)> = None;
        for level in LEVELS {
            let space = &self.spaces[level as usize];
            if !space.sent.any_in_flight() || level == Level::Data && !self.complete {
                continue;
            }
            let Some(at) = space.eliciting_at else {
                continue;
            };
            let wait = match level {
                Level::Data => base + self.max_ack_delay(),
                _ => base,
            };
            let due = match self.probe_timeouts {
                0 => at + wait,
                _ => at + wait * backoff,
            };
            if earliest.is_none_or(|(first, _)| due < first) {
                earliest = Some((due, level));
            }
        }
        earliest
    }

    /// Send a probe after a long time without acknowledgments, preferably with content that may be
    /// lost.
    pub(super) fn probe(&mut self, level: Level) {
        self.probe_timeouts += 1;
        self.path.marking.pause();
        let space = &mut self.spaces[level as usize];
        space.probes = PROBES;
        let wanted: fn(&Content) -> bool = match level {
            // Session tickets and similar are repeated only after a detected loss: a slow client
            // would get them twice (RFC 9002, section 6.2.4).
            Level::Data => |content| matches!(content, Content::Stream { .. }),
            _ => |content| matches!(content, Content::Crypto { .. }),
        };
        if let Some((_, due)) = &mut self.path.challenge {
            *due = true;
        }
        for content in space.sent.oldest(wanted) {
            self.content_lost(level, content);
        }
    }
}
