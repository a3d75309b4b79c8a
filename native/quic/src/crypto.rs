//! What QUIC needs of TLS (RFC 9001), as rustls offers it.

use crate::error::Error;
use rustls::quic::{DirectionalKeys, KeyChange, ServerConnection, Suite, Version};
use rustls::{AlertDescription, CipherSuite, ServerConfig};
use std::any::Any;
use std::sync::Arc;

/// The TLS of a listener.
pub trait Tls: Send + Sync {
    /// AES-128-GCM, with which Initial packets are protected (RFC 9001, section 5).
    fn suite(&self) -> Suite;

    /// The TLS of a new connection; `params` are our transport parameters, encoded.
    fn start(self: Arc<Self>, params: Vec<u8>) -> Box<dyn Session>;
}

/// The TLS of a connection.
pub trait Session {
    /// Takes handshake bytes of the client.
    ///
    /// # Errors
    /// The alert that ends the handshake.
    fn read(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Appends what is to be sent with the keys in use, until they change or it is all there is.
    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange>;

    /// For 0-RTT packets, when the client may send them.
    fn early_keys(&self) -> Option<DirectionalKeys>;

    /// Whether the client's last message is still missing.
    fn is_handshaking(&self) -> bool;

    /// The client's transport parameters, encoded, once its hello was read.
    fn params(&self) -> Option<&[u8]>;

    /// What the application is told about the handshake.
    fn describe(&self) -> Option<Box<dyn Any>>;
}

/// The suite that protects Initial packets, if these settings have it.
pub fn initial_suite(config: &ServerConfig) -> Option<Suite> {
    let mut suites = config.crypto_provider().cipher_suites.iter();
    let aes = suites.find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256)?;
    aes.tls13()?.quic_suite()
}

/// An error that a TLS connection met, as QUIC tells it.
pub fn alert(description: AlertDescription, reason: impl Into<String>) -> Error {
    Error::alert(description.into(), reason.into())
}

impl Session for ServerConnection {
    fn read(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.read_hs(bytes).map_err(|e| {
            let description = self.alert().unwrap_or(AlertDescription::InternalError);
            alert(description, e.to_string())
        })
    }

    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        self.write_hs(out)
    }

    fn early_keys(&self) -> Option<DirectionalKeys> {
        self.zero_rtt_keys()
    }

    fn is_handshaking(&self) -> bool {
        let tls: &rustls::CommonState = self;
        tls.is_handshaking()
    }

    fn params(&self) -> Option<&[u8]> {
        self.quic_transport_parameters()
    }

    fn describe(&self) -> Option<Box<dyn Any>> {
        None
    }
}

/// The same TLS for all clients.
pub struct Fixed {
    config: Arc<ServerConfig>,
    suite: Suite,
}

impl Fixed {
    /// With these settings; `None` when TLS_AES_128_GCM_SHA256 is missing, without which there is no
    /// QUIC, or they are not for QUIC.
    pub fn new(config: Arc<ServerConfig>) -> Option<Self> {
        let suite = initial_suite(&config)?;
        ServerConnection::new(config.clone(), Version::V1, Vec::new()).ok()?;
        Some(Self { config, suite })
    }
}

impl Tls for Fixed {
    fn suite(&self) -> Suite {
        self.suite
    }

    fn start(self: Arc<Self>, params: Vec<u8>) -> Box<dyn Session> {
        let session = ServerConnection::new(self.config.clone(), Version::V1, params);
        Box::new(session.expect("settings that were tried"))
    }
}
