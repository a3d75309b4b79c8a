//! Frames about the connection: settings, pings, windows, and resets.

use super::connection::{Event, Handled, TABLE_SIZE};
use super::frame::{self, Header};
use super::streams::Ended;
use super::{Connection, Error, ErrorCode, MAX_FRAME, MAX_WINDOW};
use crate::flood;
use std::time::Instant;

impl<T: Default> Connection<T> {
    pub(super) fn on_priority<'a>(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Instant,
    ) -> Handled<'a, T> {
        if header.stream == 0 {
            return Err(Error::protocol(
                "client sent PRIORITY frame with incorrect stream id",
            ));
        }
        let priority = payload.first_chunk::<5>().filter(|_| payload.len() == 5);
        let code = match priority {
            None => ErrorCode::FRAME_SIZE_ERROR,
            Some(p) if frame::depends_on(p) == header.stream => ErrorCode::PROTOCOL_ERROR,
            Some(_) => return self.charge(flood::IDLE_FRAME, now),
        };
        if self.is_idle(header.stream) {
            return Err(Error::new(code, "client sent invalid PRIORITY frame"));
        }
        self.stream_error(header.stream, code, now)
    }

    pub(super) fn on_reset<'a>(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Instant,
    ) -> Handled<'a, T> {
        let stream = header.stream;
        let code = frame::number(
            payload,
            "client sent RST_STREAM frame with incorrect length",
        )?;
        if self.is_idle(stream) {
            return Err(Error::protocol(
                "client sent RST_STREAM frame with incorrect stream id",
            ));
        }
        let Some(removed) = self.remove(stream, Ended::Closed) else {
            if let Some(how) = self.streams.how_ended(stream) {
                // The peer knows of the end, so no more frames can be on their way.
                *how = Ended::Closed;
            }
            return self.charge(flood::IDLE_FRAME, now);
        };
        self.charge(flood::RESET, now)?;
        if removed.answered > 0 {
            return Ok(None);
        }
        let code = ErrorCode(code);
        Ok(Some(Event::Reset {
            stream,
            code,
            user: removed.user,
        }))
    }

    pub(super) fn on_settings<'a>(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Instant,
    ) -> Handled<'a, T> {
        if header.stream != 0 {
            return Err(Error::protocol(
                "client sent SETTINGS frame with incorrect stream id",
            ));
        }
        if header.has(frame::ACK) {
            if header.len != 0 {
                return Err(Error::frame_size("client sent SETTINGS ack with a payload"));
            }
            self.acknowledged = true;
            return self.charge(flood::IDLE_FRAME, now);
        }
        let mut window = self.initial_send_window;
        for (id, value) in frame::settings(payload)? {
            self.setting(id, value, &mut window)?;
        }
        self.change_windows(window)?;
        frame::push_header(&mut self.out, 0, frame::SETTINGS, frame::ACK, 0);
        self.charge(flood::IDLE_FRAME * (1 + header.len as u32 / 60), now)
    }

    fn setting(&mut self, id: u16, value: u32, window: &mut i64) -> Result<(), Error> {
        match id {
            frame::SETTINGS_HEADER_TABLE_SIZE if (value as usize) < TABLE_SIZE => {
                self.table_off = true;
            }
            frame::SETTINGS_ENABLE_PUSH if value > 1 => {
                return Err(Error::protocol("client sent invalid ENABLE_PUSH"));
            }
            frame::SETTINGS_INITIAL_WINDOW_SIZE if i64::from(value) > MAX_WINDOW => {
                return Err(Error::flow("client sent invalid INITIAL_WINDOW_SIZE"));
            }
            frame::SETTINGS_INITIAL_WINDOW_SIZE => *window = i64::from(value),
            frame::SETTINGS_MAX_FRAME_SIZE if !(MAX_FRAME as u32..1 << 24).contains(&value) => {
                return Err(Error::protocol("client sent invalid MAX_FRAME_SIZE"));
            }
            frame::SETTINGS_MAX_FRAME_SIZE => self.peer_max_frame = value as usize,
            _ => {}
        }
        Ok(())
    }

    /// Apply a new initial window to all streams (section 6.9.2), once per frame.
    fn change_windows(&mut self, window: i64) -> Result<(), Error> {
        let change = window - self.initial_send_window;
        self.initial_send_window = window;
        if change == 0 {
            return Ok(());
        }
        for stream in self.streams.iter_mut() {
            stream.send_window += change;
            if stream.send_window > MAX_WINDOW {
                return Err(Error::flow(
                    "client sent INITIAL_WINDOW_SIZE that overflows a window",
                ));
            }
        }
        self.wake_all();
        Ok(())
    }

    pub(super) fn on_ping<'a>(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Instant,
    ) -> Handled<'a, T> {
        if header.stream != 0 {
            return Err(Error::protocol(
                "client sent PING frame with incorrect stream id",
            ));
        }
        if header.len != 8 {
            return Err(Error::frame_size(
                "client sent PING frame with incorrect length",
            ));
        }
        if !header.has(frame::ACK) {
            frame::push_header(&mut self.out, 8, frame::PING, frame::ACK, 0);
            self.out.extend_from_slice(payload);
        }
        self.charge(flood::IDLE_FRAME, now)
    }

    pub(super) fn on_goaway<'a>(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Instant,
    ) -> Handled<'a, T> {
        if header.stream != 0 {
            return Err(Error::protocol(
                "client sent GOAWAY frame with incorrect stream id",
            ));
        }
        if payload.len() < 8 {
            return Err(Error::frame_size(
                "client sent GOAWAY frame with incorrect length",
            ));
        }
        self.charge(flood::IDLE_FRAME, now)?;
        Ok(Some(Event::GoAway))
    }

    pub(super) fn on_window_update<'a>(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Instant,
    ) -> Handled<'a, T> {
        let id = header.stream;
        let increment = frame::number(
            payload,
            "client sent WINDOW_UPDATE frame with incorrect length",
        )?;
        let increment = i64::from(increment & 0x7fff_ffff);
        match self.updates_due.checked_sub(1) {
            Some(due) => self.updates_due = due,
            None => _ = self.charge(flood::IDLE_FRAME, now)?,
        }
        if id == 0 {
            return self.open_connection(increment);
        }
        if self.is_idle(id) {
            return Err(Error::protocol(
                "client sent WINDOW_UPDATE frame with incorrect stream id",
            ));
        }
        if increment == 0 {
            return self.stream_error(id, ErrorCode::PROTOCOL_ERROR, now);
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        stream.send_window += increment;
        if stream.send_window > MAX_WINDOW {
            return self.stream_error(id, ErrorCode::FLOW_CONTROL_ERROR, now);
        }
        if stream.blocked && stream.send_window > 0 && self.send_window > 0 {
            self.mark_ready(id);
        }
        Ok(None)
    }

    fn open_connection<'a>(&mut self, increment: i64) -> Handled<'a, T> {
        if increment == 0 {
            return Err(Error::protocol(
                "client sent WINDOW_UPDATE frame with increment 0",
            ));
        }
        self.send_window += increment;
        if self.send_window > MAX_WINDOW {
            return Err(Error::flow(
                "client sent WINDOW_UPDATE frame that overflows the window",
            ));
        }
        self.wake_all();
        Ok(None)
    }
}
