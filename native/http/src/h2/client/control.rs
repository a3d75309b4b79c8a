//! Frames about the connection: settings, pings, windows, and resets.

use super::{protocol, Client, ClientError, Event, Result, MAX_WINDOW};
use crate::flood;
use crate::h2::frame::{self, Header};
use std::time::Instant;

/// The size of the dynamic table before any setting (RFC 7541, section 4.2).
const TABLE_SIZE: u32 = 4096;
/// A window is opened again once it is smaller than this.
const LOW_WINDOW: i64 = MAX_WINDOW / 4;

impl Client {
    pub(super) fn on_frame(
        &mut self,
        header: &Header,
        payload: &[u8],
        now: Instant,
    ) -> Result<Option<Event<'static>>> {
        match header.kind {
            frame::HEADERS | frame::CONTINUATION => return self.on_section(header, payload, now),
            frame::RST_STREAM => self.on_reset(header, payload, now)?,
            frame::SETTINGS => self.on_settings(header, payload, now)?,
            frame::PING => self.on_ping(header, payload, now)?,
            frame::GOAWAY => self.on_goaway(header, payload, now)?,
            frame::WINDOW_UPDATE => self.on_window_update(header, payload, now)?,
            _ => self.charge(flood::IDLE_FRAME, now)?,
        }
        Ok(None)
    }

    /// Charge for a control frame, unless our own frames allow it.
    fn charge_control(&mut self, points: u32, now: Instant) -> Result<()> {
        match self.allowed.checked_sub(points) {
            Some(left) => self.allowed = left,
            None => return self.charge(points, now),
        }
        self.charge(0, now)
    }

    fn on_reset(&mut self, header: &Header, payload: &[u8], now: Instant) -> Result<()> {
        let Some(code) = number(payload) else {
            return protocol("rst stream frame with invalid length");
        };
        self.charge(flood::IDLE_FRAME, now)?;
        if header.stream != self.stream {
            return Ok(());
        }
        if code != 0 || !self.response_ended {
            return Err(ClientError::Rejected(code));
        }
        match std::mem::replace(&mut self.is_reset, true) {
            true => protocol("frame for closed stream"),
            false => Ok(()),
        }
    }

    fn on_settings(&mut self, header: &Header, payload: &[u8], now: Instant) -> Result<()> {
        if header.stream != 0 {
            return protocol("settings frame with non-zero stream id");
        }
        if header.has(frame::ACK) {
            return match payload.is_empty() {
                true => self.charge_control(flood::IDLE_FRAME, now),
                false => protocol("settings frame with ack flag and non-zero length"),
            };
        }
        let Ok(settings) = frame::settings(payload) else {
            return protocol("settings frame with invalid length");
        };
        for (id, value) in settings {
            self.setting(id, value)?;
        }
        frame::push_header(&mut self.out, 0, frame::SETTINGS, frame::ACK, 0);
        self.charge_control(flood::IDLE_FRAME * (1 + header.len as u32 / 60), now)
    }

    fn setting(&mut self, id: u16, value: u32) -> Result<()> {
        match id {
            frame::SETTINGS_HEADER_TABLE_SIZE if value < TABLE_SIZE => self.table_off = true,
            frame::SETTINGS_MAX_CONCURRENT_STREAMS => self.accepts_streams = value > 0,
            frame::SETTINGS_INITIAL_WINDOW_SIZE => {
                let value = i64::from(value);
                if value > MAX_WINDOW {
                    return protocol("settings frame with too large initial window size");
                }
                self.stream_window += value - self.initial_window;
                self.initial_window = value;
                if self.stream_window > MAX_WINDOW {
                    return protocol("settings frame that overflows a window");
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn on_ping(&mut self, header: &Header, payload: &[u8], now: Instant) -> Result<()> {
        if header.stream != 0 {
            return protocol("ping frame with non-zero stream id");
        }
        if header.len != 8 {
            return protocol("ping frame with invalid length");
        }
        if header.has(frame::ACK) {
            return protocol("ping frame with ack flag");
        }
        frame::push_header(&mut self.out, 8, frame::PING, frame::ACK, 0);
        self.out.extend_from_slice(payload);
        self.charge_control(flood::IDLE_FRAME, now)
    }

    fn on_goaway(&mut self, header: &Header, payload: &[u8], now: Instant) -> Result<()> {
        if header.stream != 0 {
            return protocol("goaway frame with non-zero stream id");
        }
        let (Some(last), Some(code)) = (
            number(payload.get(..4).unwrap_or_default()),
            number(payload.get(4..8).unwrap_or_default()),
        ) else {
            return protocol("goaway frame with invalid length");
        };
        if last & 0x7fff_ffff < self.stream {
            return Err(ClientError::GoAway(code));
        }
        self.is_leaving = true;
        self.charge(flood::IDLE_FRAME, now)
    }

    fn on_window_update(&mut self, header: &Header, payload: &[u8], now: Instant) -> Result<()> {
        let Some(increment) = number(payload) else {
            return protocol("window update frame with invalid length");
        };
        let increment = i64::from(increment & 0x7fff_ffff);
        if increment == 0 {
            return protocol("zero window update");
        }
        let window = match header.stream {
            0 => &mut self.send_window,
            id if id == self.stream => &mut self.stream_window,
            _ => return self.charge_control(flood::IDLE_FRAME, now),
        };
        *window += increment;
        if *window > MAX_WINDOW {
            return protocol("too large window update");
        }
        self.charge_control(flood::IDLE_FRAME, now)
    }

    /// Count the bytes of a DATA frame, and open the windows again when they are low.
    pub(super) fn count_received(&mut self, len: i64) -> Result<()> {
        if len > self.stream_receive_window {
            return protocol("more data than the stream's window allows");
        }
        if len > self.receive_window {
            return protocol("more data than the connection's window allows");
        }
        let stream = self.stream;
        let windows = [
            (&mut self.receive_window, 0),
            (&mut self.stream_receive_window, stream),
        ];
        for (window, id) in windows {
            *window -= len;
            if *window < LOW_WINDOW {
                let more = (MAX_WINDOW - *window) as u32;
                frame::push_u32(&mut self.out, frame::WINDOW_UPDATE, id, more);
                *window = MAX_WINDOW;
            }
        }
        Ok(())
    }
}

/// A payload that is one number.
fn number(payload: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*payload.first_chunk::<4>()?)).filter(|_| payload.len() == 4)
}
