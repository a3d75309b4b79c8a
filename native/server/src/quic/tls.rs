//! TLS of QUIC connections (RFC 9001), as quinn-proto asks for it: rustls, set up by the server block
//! that the name in the client's hello chooses.

use crate::tls::{describe, Context, ContextsByName, TlsError};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig,
    Session as QuicSession, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::quic::{KeyChange, Secrets, ServerConnection, Version};
use rustls::server::Acceptor;
use rustls::AlertDescription;
use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

/// A hello larger than this is no client's: certificates and tickets in it stay far below.
const MAX_HELLO: usize = 64 * 1024;
/// What a TLS record holds at most (RFC 8446, section 5.1).
const MAX_RECORD: usize = 16 * 1024;

/// The TLS of a listener.
pub struct Tls {
    contexts: ContextsByName,
    /// Knows the keys of packets that come before a server block is chosen.
    initial: QuicServerConfig,
}

impl Tls {
    /// # Errors
    /// TLS 1.3 with AES-128 is switched off, without which there is no QUIC.
    pub fn new(contexts: ContextsByName) -> Result<Self, TlsError> {
        let initial = QuicServerConfig::try_from(contexts.any().config().clone());
        let initial = initial.map_err(|_| {
            TlsError("QUIC needs the cipher TLS_AES_128_GCM_SHA256 of TLS 1.3".to_string())
        })?;
        Ok(Self { contexts, initial })
    }
}

impl ServerConfig for Tls {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.initial.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.initial.retry_tag(version, id, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        params: &TransportParameters,
    ) -> Box<dyn QuicSession> {
        let mut own_params = Vec::new();
        params.write(&mut own_params);
        Box::new(Session {
            tls: self,
            version,
            own_params,
            state: State::Hello(Vec::new()),
            next: None,
        })
    }
}

enum State {
    /// What has come of the client's hello.
    Hello(Vec<u8>),
    Chosen(Box<ServerConnection>, Context),
}

struct Session {
    tls: Arc<Tls>,
    version: u32,
    own_params: Vec<u8>,
    state: State,
    /// For key updates.
    next: Option<Secrets>,
}

fn alert(description: AlertDescription, reason: impl Into<String>) -> TransportError {
    TransportError {
        code: TransportErrorCode::crypto(description.into()),
        frame: None,
        reason: reason.into(),
    }
}

/// The drafts that QuicServerConfig takes have salts of their own.
fn salts(version: u32) -> Version {
    match version {
        0xff00_001d..=0xff00_0020 => Version::V1Draft,
        _ => Version::V1,
    }
}

/// Whether the hello's message is there as long as it says to be.
fn is_whole(hello: &[u8]) -> bool {
    match hello {
        [_, a, b, c, rest @ ..] => rest.len() >= u32::from_be_bytes([0, *a, *b, *c]) as usize,
        _ => false,
    }
}

/// The name in a whole hello, lower case. What is wrong with a hello is found out by the connection
/// that is made for it.
fn server_name(hello: &[u8]) -> Option<String> {
    let mut acceptor = Acceptor::default();
    for piece in hello.chunks(MAX_RECORD) {
        let len = (piece.len() as u16).to_be_bytes();
        let record = [&[22, 3, 1, len[0], len[1]], piece].concat();
        let mut record = &record[..];
        while !record.is_empty() {
            acceptor.read_tls(&mut record).ok()?;
        }
    }
    let accepted = acceptor.accept().ok()??;
    let name = accepted.client_hello().server_name()?.to_ascii_lowercase();
    Some(name)
}

impl Session {
    /// Makes the connection once the hello is whole.
    fn choose(&mut self, more: &[u8]) -> Result<(), TransportError> {
        let State::Hello(hello) = &mut self.state else {
            return self.receive(more);
        };
        hello.extend_from_slice(more);
        if hello.len() > MAX_HELLO {
            return Err(alert(AlertDescription::DecodeError, "hello too long"));
        }
        if !is_whole(hello) {
            return Ok(());
        }
        let hello = std::mem::take(hello);
        let Some(context) = self.tls.contexts.choose(server_name(&hello).as_deref()) else {
            return Err(alert(AlertDescription::UnrecognisedName, "name rejected"));
        };
        let params = std::mem::take(&mut self.own_params);
        let session = ServerConnection::new(context.config().clone(), salts(self.version), params);
        let session = session.map_err(|e| alert(AlertDescription::InternalError, e.to_string()))?;
        self.state = State::Chosen(Box::new(session), context.clone());
        self.receive(&hello)
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        let State::Chosen(session, _) = &mut self.state else {
            return Ok(());
        };
        session.read_hs(bytes).map_err(|e| match session.alert() {
            Some(description) => alert(description, e.to_string()),
            None => alert(AlertDescription::InternalError, e.to_string()),
        })
    }

    fn chosen(&self) -> Option<(&ServerConnection, &Context)> {
        match &self.state {
            State::Hello(_) => None,
            State::Chosen(session, context) => Some((session, context)),
        }
    }
}

impl QuicSession for Session {
    fn initial_keys(&self, id: &ConnectionId, _: Side) -> Keys {
        let keys = self.tls.initial.initial_keys(self.version, id);
        keys.unwrap_or_else(|_| unreachable!("sessions are started for versions with keys"))
    }

    /// A `TlsInfo`.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let (session, context) = self.chosen()?;
        Some(Box::new(describe(session, session.server_name(), context)))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.chosen()?.0.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.chosen()
            .is_none_or(|(session, _)| session.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.choose(bytes).map(|()| false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let bytes = self
            .chosen()
            .and_then(|(session, _)| session.quic_transport_parameters());
        let Some(bytes) = bytes else { return Ok(None) };
        let params = TransportParameters::read(Side::Server, &mut Cursor::new(bytes))?;
        Ok(Some(params))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let State::Chosen(session, _) = &mut self.state else {
            return None;
        };
        let keys = match session.write_hs(out)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                keys
            }
        };
        Some(Keys {
            header: KeyPair {
                local: Box::new(keys.local.header),
                remote: Box::new(keys.remote.header),
            },
            packet: KeyPair {
                local: Box::new(keys.local.packet),
                remote: Box::new(keys.remote.packet),
            },
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair {
            local: Box::new(keys.local),
            remote: Box::new(keys.remote),
        })
    }

    /// Only clients get Retry packets.
    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    /// Nothing in HTTP/3 asks for any.
    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_whole_when_its_length_says_so() {
        assert!(!is_whole(&[]) && !is_whole(&[1, 0, 0]));
        assert!(!is_whole(&[1, 0, 0, 2, 9]) && is_whole(&[1, 0, 0, 2, 9, 9]));
    }

    #[test]
    fn what_is_no_hello_names_nobody() {
        assert_eq!(server_name(&[]), None);
        assert_eq!(server_name(&[1, 0, 0, 2, 9, 9]), None);
        assert_eq!(server_name(&[0xff; 40_000]), None);
    }
}
