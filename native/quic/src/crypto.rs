//! The interface between QUIC and TLS (RFC 9001), based on rustls.

use crate::error::Error;
use rustls::quic::{DirectionalKeys, KeyChange, ServerConnection, Suite, Version};
use rustls::{AlertDescription, CipherSuite, ServerConfig};
use std::any::Any;
use std::sync::Arc;

/// The TLS settings of a listener.
pub trait Tls: Send + Sync {
    /// AES-128-GCM, which protects Initial packets (RFC 9001, section 5).
    fn suite(&self) -> Suite;

    /// Start TLS for a new connection; `params` are our encoded transport parameters.
    fn start(self: Arc<Self>, params: Vec<u8>) -> Box<dyn Session>;
}

/// The TLS state of a connection.
pub trait Session {
    /// Process handshake bytes of the client.
    ///
    /// # Errors
    /// The alert that ends the handshake.
    fn read(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Append handshake bytes to send with the current keys, until the keys change or there are no
    /// more.
    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange>;

    /// The keys for 0-RTT packets, if the client may send them.
    fn early_keys(&self) -> Option<DirectionalKeys>;

    /// Whether the client's last handshake message is missing.
    fn is_handshaking(&self) -> bool;

    /// The client's encoded transport parameters, after its ClientHello was read.
    fn params(&self) -> Option<&[u8]>;

    /// A description of the handshake for the application.
    fn describe(&self) -> Option<Box<dyn Any>>;
}

/// The suite that protects Initial packets, if the settings include it.
pub fn initial_suite(config: &ServerConfig) -> Option<Suite> {
    let mut suites = config.crypto_provider().cipher_suites.iter();
    let aes = suites.find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256)?;
    aes.tls13()?.quic_suite()
}

/// Convert a TLS error to its QUIC error.
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

/// The same TLS settings for all clients.
pub struct Fixed {
    config: Arc<ServerConfig>,
    suite: Suite,
}

impl Fixed {
    /// Use these settings; `None` if they lack TLS_AES_128_GCM_SHA256, which QUIC requires, or are
    /// not for QUIC.
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
