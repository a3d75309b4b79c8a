//! The handshake (RFC 9001, section 4).

use super::{ids, Connection, Level, State};
use crate::endpoint::Event;
use crate::error::{Error, Reason};
use crate::keys::OneRtt;
use crate::params::Params;
use bytes::Bytes;
use rustls::quic::KeyChange;
use std::time::Instant;

/// The most bytes of out-of-order handshake data (RFC 9000, section 7.5).
const MAX_WAITING: u64 = 64 * 1024;

impl Connection {
    /// Handle a CRYPTO frame.
    pub(super) fn on_crypto(
        &mut self,
        now: Instant,
        level: Level,
        offset: u64,
        data: Bytes,
    ) -> Result<(), Error> {
        let space = &mut self.spaces[level as usize];
        let end = offset + data.len() as u64;
        if end > space.crypto_in.read_offset() + MAX_WAITING {
            let reason = "too much of the handshake at once";
            return Err(Error::new(Reason::CryptoBufferExceeded, reason));
        }
        if !space.crypto_in.insert(offset, data)? {
            return Ok(());
        }
        while let Some(piece) = self.spaces[level as usize].crypto_in.next() {
            self.session.read(&piece)?;
        }
        self.take_params()?;
        self.write_handshake();
        if !self.complete && !self.session.is_handshaking() {
            self.complete(now)?;
        }
        Ok(())
    }

    /// Read the client's transport parameters when they are available.
    fn take_params(&mut self) -> Result<(), Error> {
        if self.params.is_some() {
            return Ok(());
        }
        let Some(params) = self.session.params() else {
            return Ok(());
        };
        let params = Params::decode(params)?;
        if params.source != self.remote_ids.active.id {
            let reason = "the client's connection id is another one";
            return Err(Error::new(Reason::TransportParameter, reason));
        }
        self.streams.set_params(&params);
        if let Some(idle) = params.idle {
            self.idle = self.idle.min(idle);
        }
        let mtu = self.config.mtu.min(params.max_udp_payload);
        self.config.mtu = mtu;
        self.path.mtu = crate::mtu::Mtu::new(mtu);
        self.params = Some(params);
        Ok(())
    }

    /// Take TLS messages to send, and new keys.
    fn write_handshake(&mut self) {
        loop {
            let mut out = Vec::new();
            let change = self.session.write(&mut out);
            let nothing = out.is_empty();
            let space = &mut self.spaces[self.write_level as usize];
            space.crypto_out.write(out.into());
            match change {
                Some(KeyChange::Handshake { keys }) => {
                    self.spaces[Level::Handshake as usize].keys = Some(keys);
                    self.write_level = Level::Handshake;
                    self.early = self.session.early_keys();
                }
                Some(KeyChange::OneRtt { keys, next }) => {
                    self.one_rtt = Some(OneRtt::new(keys, next));
                    self.write_level = Level::Data;
                }
                None if nothing => return,
                None => {}
            }
        }
    }

    /// Handle the client's last handshake message.
    fn complete(&mut self, now: Instant) -> Result<(), Error> {
        self.complete = true;
        self.handshake_until = None;
        let Some(params) = &self.params else {
            // TLS alert missing_extension (RFC 9001, section 8.2).
            return Err(Error::alert(109, "the client sent no transport parameters"));
        };
        if !self.remote_ids.active.id.is_empty() || params.active_ids > 0 {
            self.local_ids.set_limit(params.active_ids);
        }
        self.handshake_done_due = true;
        self.streams.events.push_back(Event::Connected);
        self.wishes.any = true;
        self.wishes.token = self.config.new_token;
        self.drop_space(Level::Initial);
        self.drop_space(Level::Handshake);
        for (from, packet) in std::mem::take(&mut self.held) {
            if matches!(self.state, State::Open) {
                self.packets(now, from, packet);
            }
        }
        Ok(())
    }

    /// Drop a packet number space whose keys are no longer used (RFC 9001, section 4.9).
    pub(super) fn drop_space(&mut self, level: Level) {
        let space = &mut self.spaces[level as usize];
        if space.keys.is_none() {
            return;
        }
        self.in_flight -= space.sent.abandon();
        *space = super::Space::default();
        self.probe_timeouts = 0;
    }

    /// Ask the endpoint for a stateless reset token.
    pub(super) fn wish_reset_token(&mut self) {
        let ids::Numbered { token, .. } = self.remote_ids.active;
        self.wishes.reset_token = token;
        self.wishes.any = true;
    }
}
