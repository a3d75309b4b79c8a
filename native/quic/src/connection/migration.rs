//! Connection migration (RFC 9000, section 9).

use super::path::AMPLIFICATION;
use super::{Connection, From, Level, Path};
use crate::error::Error;
use std::time::{Duration, Instant};

/// The most PATH_CHALLENGE frames waiting for a response; further ones are ignored.
const MAX_RESPONSES: usize = 4;
/// The size of the smallest packet with a PATH_CHALLENGE or PATH_RESPONSE frame, with some margin.
pub(super) const MIN_PATH_PACKET: usize = 64;
/// The least time that a client has to validate a new path.
const MIN_WAIT: Duration = Duration::from_millis(1000);

impl Connection {
    /// Handle a PATH_CHALLENGE frame. Only one per datagram gets a response: each response may be
    /// three times as large as the datagram, whose source address may be forged (8.2.2, 9.3).
    pub(super) fn on_challenge(&mut self, data: [u8; 8], from: From) {
        let answered = std::mem::replace(&mut self.is_challenged, true);
        if !answered && self.responses.len() < MAX_RESPONSES {
            self.responses.push((data, from));
        }
    }

    /// The most bytes of the response to a challenge. Bytes to the address of the current path
    /// count against that path's limit.
    pub(super) fn response_room(&self, from: &From) -> usize {
        match from.remote == self.path.remote {
            true => self.path.allowance(),
            false => AMPLIFICATION as usize * from.bytes,
        }
    }

    /// Handle a PATH_RESPONSE frame.
    pub(super) fn on_response(&mut self, data: [u8; 8]) {
        if self.path.challenge.is_some_and(|(sent, _)| sent == data) {
            self.path.challenge = None;
            self.path.validated = true;
            self.previous = None;
            self.path_until = None;
        }
    }

    /// The client's packet with the highest number came from another address: it migrated.
    pub(super) fn migrate(
        &mut self,
        now: Instant,
        from: From,
        id_changed: bool,
    ) -> Result<(), Error> {
        let next = self.spaces[Level::Data as usize].sent.next();
        let mut path = match self.previous.take() {
            // The client is back, or another host copied its packets (9.3.2).
            Some(known) if known.remote == from.remote => known,
            known => {
                let mut path = Path::new(from.remote, from.local, self.config.mtu, self.config.ecn);
                if from.remote.ip() == self.path.remote.ip() {
                    // Only the port changed, so the path is the same (9.4).
                    path.rtt = self.path.rtt.clone();
                    path.cubic = self.path.cubic.clone();
                    path.mtu = self.path.mtu.clone();
                }
                path.first = next;
                self.previous = known;
                path
            }
        };
        path.local = from.local;
        path.on_received(from.bytes);
        let mut old = std::mem::replace(&mut self.path, path);
        if old.validated {
            // A client still on the old path answers by migrating back (9.3.3).
            old.ask();
            self.previous = Some(old);
        }
        if !self.path.validated {
            self.path.ask();
            let wait = (3 * self.probe_timeout()).max(MIN_WAIT);
            self.path_until = Some(now + wait);
        } else {
            self.path_until = None;
        }
        if id_changed && self.remote_ids.change()? {
            self.wish_reset_token();
        }
        Ok(())
    }

    /// The client did not validate the new path.
    pub(super) fn path_failed(&mut self) {
        self.path_until = None;
        self.path.challenge = None;
        match self.previous.take() {
            Some(mut path) => {
                path.challenge = None;
                self.path = path;
            }
            // No validated path is left (9.3.2).
            None if !self.path.validated => self.lose(),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cid::ConnectionId;
    use crate::connection::{Begin, Config};
    use crate::crypto::{Session, Tls};
    use crate::ecn::Ecn;
    use crate::streams::Limits;
    use bytes::BytesMut;
    use rustls::quic::{DirectionalKeys, KeyChange, Suite};
    use std::any::Any;
    use std::sync::Arc;

    struct NoTls;

    impl Tls for NoTls {
        fn suite(&self) -> Suite {
            let provider = rustls::crypto::aws_lc_rs::default_provider();
            let mut suites = provider.cipher_suites.iter();
            let suite = suites.find_map(|suite| suite.tls13()?.quic_suite());
            suite.expect("a suite for QUIC")
        }

        fn start(self: Arc<Self>, _params: Vec<u8>) -> Box<dyn Session> {
            Box::new(NoTls)
        }
    }

    impl Session for NoTls {
        fn read(&mut self, _bytes: &[u8]) -> Result<(), Error> {
            Ok(())
        }

        fn write(&mut self, _out: &mut Vec<u8>) -> Option<KeyChange> {
            None
        }

        fn early_keys(&self) -> Option<DirectionalKeys> {
            None
        }

        fn is_handshaking(&self) -> bool {
            true
        }

        fn params(&self) -> Option<&[u8]> {
            None
        }

        fn describe(&self) -> Option<Box<dyn Any>> {
            None
        }
    }

    fn from(port: u16, bytes: usize) -> From {
        From {
            remote: ([127, 0, 0, 1], port).into(),
            local: None,
            bytes,
            ecn: Ecn::None,
        }
    }

    fn connection() -> Connection {
        let id = ConnectionId::local([1; 8]);
        let begin = Begin {
            now: Instant::now(),
            from: from(1, 1200),
            destination: id,
            original: id,
            retried: false,
            validated: false,
            source: id,
            id,
            reset_token: [0; 16],
        };
        let config = Config {
            limits: Limits {
                max_bidi: 1,
                max_uni: 1,
                stream_window: 1000,
                window: 1000,
                send_window: 1000,
            },
            idle: Duration::from_secs(1),
            handshake: Duration::from_secs(1),
            max_udp_payload: 1200,
            mtu: 1200,
            gso: false,
            ecn: false,
            new_token: false,
        };
        Connection::new(config, Arc::new(NoTls), begin)
    }

    #[test]
    fn one_challenge_of_a_datagram_is_answered() {
        let mut connection = connection();
        for datagram in 1..=3 {
            let came = from(2, 1200);
            connection.packets(Instant::now(), came, BytesMut::new());
            for data in 0..4 {
                connection.on_challenge([data; 8], came);
            }
            assert_eq!(connection.responses.len(), datagram);
        }
    }

    #[test]
    fn responses_and_other_packets_share_the_allowance_of_an_address() {
        let mut connection = connection();
        connection.path.on_received(100);
        assert_eq!(connection.response_room(&from(1, 100)), 300);
        connection.path.on_sent(250);
        assert_eq!(connection.response_room(&from(1, 100)), 50);
        assert_eq!(connection.response_room(&from(2, 100)), 300);
        connection.path.validated = true;
        assert!(connection.response_room(&from(1, 100)) > 1200);
    }
}
