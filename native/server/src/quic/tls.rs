//! TLS of QUIC connections (RFC 9001): rustls with the settings of the server block that the name
//! in the ClientHello selects.

use crate::tls::{describe, session_id, Context, ContextsByName, Inquiry, Offered, TlsError};
use gallop_engine::exchange::TlsInfo;
use gallop_quic::{alert, initial_suite, Error};
use rustls::pki_types::CertificateDer;
use rustls::quic::{DirectionalKeys, KeyChange, ServerConnection, Suite, Version};
use rustls::server::Acceptor;
use rustls::AlertDescription;
use std::any::Any;
use std::sync::Arc;

/// The most bytes of a ClientHello. Those of real clients, with certificates and tickets, are far
/// smaller.
const MAX_HELLO: usize = 64 * 1024;
/// The most bytes in a TLS record (RFC 8446, section 5.1).
const MAX_RECORD: usize = 16 * 1024;

/// The TLS contexts of a listener.
pub struct Tls {
    contexts: ContextsByName,
    /// Protects the packets before a server block is chosen.
    suite: Suite,
}

impl Tls {
    /// # Errors
    /// TLS 1.3 with AES-128, which QUIC requires, is switched off.
    pub fn new(contexts: ContextsByName) -> Result<Self, TlsError> {
        let config = contexts.any().config();
        let usable = ServerConnection::new(config.clone(), Version::V1, Vec::new()).is_ok();
        let suite = initial_suite(config).filter(|_| usable).ok_or_else(|| {
            TlsError("QUIC needs the cipher TLS_AES_128_GCM_SHA256 of TLS 1.3".to_string())
        })?;
        Ok(Self { contexts, suite })
    }
}

impl gallop_quic::Tls for Tls {
    fn suite(&self) -> Suite {
        self.suite
    }

    fn start(self: Arc<Self>, params: Vec<u8>) -> Box<dyn gallop_quic::Session> {
        Box::new(Session {
            tls: self,
            params,
            state: State::Hello(Vec::new()),
            offered: Offered::default(),
            id: gallop_quic::random(),
        })
    }
}

/// The result of a handshake.
pub struct Handshake {
    pub info: TlsInfo,
    /// The OCSP check for the client's certificates, which are otherwise valid.
    pub inquiry: Option<(Arc<Inquiry>, Vec<CertificateDer<'static>>)>,
}

enum State {
    /// The received part of the ClientHello.
    Hello(Vec<u8>),
    Chosen(Box<ServerConnection>, Context),
}

struct Session {
    tls: Arc<Tls>,
    params: Vec<u8>,
    state: State,
    offered: Offered,
    /// The value of `$ssl_session_id`: QUIC sessions export no secrets.
    id: [u8; 32],
}

/// Whether the message is complete according to its length field.
fn is_whole(hello: &[u8]) -> bool {
    match hello {
        [_, a, b, c, rest @ ..] => rest.len() >= u32::from_be_bytes([0, *a, *b, *c]) as usize,
        _ => false,
    }
}

/// The name in a complete ClientHello in lower case, and the client's offer. The TLS connection
/// that is created afterwards reports errors in the message.
fn read_hello(hello: &[u8]) -> Option<(Option<String>, Offered)> {
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
    let hello = accepted.client_hello();
    let name = hello.server_name().map(str::to_ascii_lowercase);
    Some((name, Offered::new(&hello)))
}

impl Session {
    fn chosen(&self) -> Option<(&ServerConnection, &Context)> {
        match &self.state {
            State::Hello(_) => None,
            State::Chosen(session, context) => Some((session, context)),
        }
    }
}

impl gallop_quic::Session for Session {
    /// Create the TLS connection once the ClientHello is complete.
    fn read(&mut self, more: &[u8]) -> Result<(), Error> {
        let hello = match &mut self.state {
            State::Chosen(session, _) => return session.read(more),
            State::Hello(hello) => hello,
        };
        hello.extend_from_slice(more);
        if hello.len() > MAX_HELLO {
            return Err(alert(AlertDescription::DecodeError, "hello too long"));
        }
        if !is_whole(hello) {
            return Ok(());
        }
        let hello = std::mem::take(hello);
        let (name, offered) = read_hello(&hello).unwrap_or_default();
        self.offered = offered;
        let Some(context) = self.tls.contexts.choose(name.as_deref()) else {
            return Err(alert(AlertDescription::UnrecognisedName, "name rejected"));
        };
        let params = std::mem::take(&mut self.params);
        let session = ServerConnection::new(context.config().clone(), Version::V1, params);
        let mut session =
            session.map_err(|e| alert(AlertDescription::InternalError, e.to_string()))?;
        let result = session.read(&hello);
        self.state = State::Chosen(Box::new(session), context.clone());
        result
    }

    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        match &mut self.state {
            State::Hello(_) => None,
            State::Chosen(session, _) => session.write(out),
        }
    }

    fn early_keys(&self) -> Option<DirectionalKeys> {
        self.chosen()?.0.early_keys()
    }

    fn is_handshaking(&self) -> bool {
        self.chosen()
            .is_none_or(|(session, _)| session.is_handshaking())
    }

    fn params(&self) -> Option<&[u8]> {
        self.chosen()?.0.params()
    }

    /// Returns a [`Handshake`].
    fn describe(&self) -> Option<Box<dyn Any>> {
        let (session, context) = self.chosen()?;
        let mut info = describe(session, session.server_name(), context);
        self.offered.clone().put(&mut info);
        info.session_id = session_id(self.id);
        let inquiry = context.ocsp.clone();
        let shown = session.peer_certificates();
        let shown = shown.filter(|_| info.client_verify == "SUCCESS");
        let inquiry = inquiry.zip(shown.map(|all| {
            let owned = all.iter().map(|der| der.clone().into_owned());
            owned.collect()
        }));
        Some(Box::new(Handshake { info, inquiry }))
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
        assert!(read_hello(&[]).is_none());
        assert!(read_hello(&[1, 0, 0, 2, 9, 9]).is_none());
        assert!(read_hello(&[0xff; 40_000]).is_none());
    }
}
