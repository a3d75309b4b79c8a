//! The TLS settings of a server block.

use super::certificates::{Choice, Source};
use super::named::{self, Named};
use super::ocsp::{Inquiry, Stapler};
use super::tickets::{Expiring, FileTickets};
use super::verify::{verifiers, AnyCertificate, Authorities, Client, Judge};
use super::{ciphers, error, Result, TlsError};
use gallop_engine::scope::Scope;
use rustls::crypto::CryptoProvider;
use rustls::server::{
    NoServerSessionStorage, ProducesTickets, ServerSessionMemoryCache, StoresServerSessions,
    WebPkiClientVerifier,
};
use rustls::ticketer::TicketRotator;
use rustls::{ServerConfig, SupportedProtocolVersion};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

/// The most seconds that an automatic key seals session tickets.
const MAX_TICKET_KEY_AGE: u32 = 6 * 3600;

/// The number of sessions stored for early data if `ssl_session_cache` sets no size.
const EARLY_SESSIONS: usize = 20_480;

/// The directives, resolved.
#[derive(Clone, Default)]
pub struct Settings {
    /// The pairs of `ssl_certificate` and `ssl_certificate_key`.
    pub pairs: Vec<(Source, Source)>,
    /// The certificates whose paths contain variables.
    pub named: Option<Arc<Named>>,
    /// The passwords of `ssl_password_file`.
    pub passwords: Vec<Vec<u8>>,
    /// `ssl_protocols`; empty means the default, TLS 1.2 and 1.3.
    pub protocols: Vec<String>,
    /// `ssl_ciphers`, in OpenSSL's syntax.
    pub ciphers: Option<String>,
    /// The TLS 1.3 suites (`ssl_conf_command Ciphersuites`).
    pub suites: Option<String>,
    /// `ssl_ecdh_curve`.
    pub curves: Option<String>,
    /// `ssl_prefer_server_ciphers`.
    pub prefer_server_ciphers: bool,
    /// `ssl_verify_client`.
    pub client: Client,
    /// The authorities that may sign client certificates.
    pub authorities: Authorities,
    /// `ssl_session_tickets`.
    pub tickets: bool,
    /// `ssl_session_ticket_key`; empty means automatic keys that rotate.
    pub ticket_keys: Vec<PathBuf>,
    /// The number of TLS 1.2 sessions to store; 0 for none (`ssl_session_cache`).
    pub session_cache: usize,
    /// `ssl_session_timeout` in seconds.
    pub session_timeout: u32,
    /// `ssl_stapling`, when it is on.
    pub stapling: Option<Stapler>,
    /// `ssl_ocsp`, when it is on.
    pub ocsp: Option<Arc<Inquiry>>,
    /// `ssl_early_data`.
    pub early_data: bool,
    /// `ssl_certificate_compression`.
    pub compression: bool,
    /// `ssl_alpn`.
    pub alpn: Vec<Vec<u8>>,
}

/// The application protocols of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 and HTTP/1.1.
    Http2,
    /// HTTP/3, over QUIC.
    Http3,
    /// The protocols of `ssl_alpn`, in `stream`.
    Stream,
}

impl Alpn {
    fn names(self, settings: &Settings) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            Alpn::Stream => return settings.alpn.clone(),
            Alpn::Http1 => &[b"http/1.1"],
            Alpn::Http2 => &[b"h2", b"http/1.1"],
            Alpn::Http3 => &[b"h3"],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

/// The TLS context of a server block.
#[derive(Clone)]
pub struct Context {
    config: Arc<ServerConfig>,
    /// Verifies client certificates after the handshake.
    pub judge: Option<Arc<Judge>>,
    named: Option<Arc<Named>>,
    /// Checks valid client certificates by OCSP.
    pub ocsp: Option<Arc<Inquiry>>,
}

impl Context {
    /// Create a context with loaded certificates.
    ///
    /// # Errors
    /// A file is missing or invalid, or the settings leave no usable protocol or suite.
    pub fn new(
        settings: &Settings,
        alpn: Alpn,
        pairs: Arc<Choice>,
        sessions: &Sessions,
    ) -> Result<Self> {
        let mut crypto = ciphers::crypto(settings.ciphers.as_deref(), settings.curves.as_deref())?;
        if let Some(list) = &settings.suites {
            ciphers::keep_suites(list, &mut crypto)?;
        }
        let versions = match alpn {
            Alpn::Http3 => quic_versions(settings, &mut crypto)?,
            _ => ciphers::versions(&settings.protocols)?,
        };
        let crypto = Arc::new(crypto);
        let (judge, asks) = client(settings, &crypto)?;
        let builder = ServerConfig::builder_with_provider(crypto)
            .with_protocol_versions(&versions)
            .map_err(|e| {
                TlsError(format!(
                    "ssl_protocols and ssl_ciphers do not go together: {e}"
                ))
            })?;
        let builder = match asks {
            Some(asks) => builder.with_client_cert_verifier(asks),
            None => builder.with_client_cert_verifier(WebPkiClientVerifier::no_client_auth()),
        };
        let mut config = builder.with_cert_resolver(pairs);
        config.alpn_protocols = alpn.names(settings);
        config.ignore_client_order = settings.prefer_server_ciphers;
        if !settings.compression {
            config.cert_compressors.clear();
        }
        config.max_early_data_size = early_data(settings, alpn);
        config.session_storage = sessions.storage.clone();
        if let Some(tickets) = &sessions.tickets {
            config.ticketer = tickets.clone();
        }
        Ok(Self {
            config: Arc::new(config),
            judge,
            named: settings.named.clone(),
            ocsp: settings.ocsp.clone(),
        })
    }

    /// Replace the certificates by those that variables name for this client. If there are none,
    /// the log tells why and the handshake fails.
    pub fn for_client(&self, client: impl FnOnce() -> Option<Box<dyn Scope>>) -> Cow<'_, Self> {
        let named = self.named.as_ref();
        let Some((named, client)) = named.and_then(|named| Some((named, client()?))) else {
            return Cow::Borrowed(self);
        };
        let choice = named.choice(&*client);
        let Ok(choice) = choice.inspect_err(|error| named::log(&*client, error)) else {
            return Cow::Borrowed(self);
        };
        let mut config = (*self.config).clone();
        config.cert_resolver = Arc::new(choice);
        Cow::Owned(Self {
            config: Arc::new(config),
            ..self.clone()
        })
    }

    /// The configuration for rustls.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }
}

/// The versions for QUIC, which always uses TLS 1.3 (RFC 9001, section 4.2).
fn quic_versions(
    settings: &Settings,
    crypto: &mut CryptoProvider,
) -> Result<Vec<&'static SupportedProtocolVersion>> {
    let versions = ciphers::versions(&settings.protocols)?;
    if !versions.contains(&&rustls::version::TLS13) {
        return error("QUIC needs \"ssl_protocols TLSv1.3\"");
    }
    crypto.cipher_suites.retain(|suite| suite.tls13().is_some());
    Ok(vec![&rustls::version::TLS13])
}

type Clients = (Option<Arc<Judge>>, Option<Arc<AnyCertificate>>);

fn client(settings: &Settings, crypto: &Arc<CryptoProvider>) -> Result<Clients> {
    if settings.client == Client::Off {
        return Ok((None, None));
    }
    let (judge, asks) = verifiers(settings.client, &settings.authorities, crypto)?;
    Ok((judge, Some(asks)))
}

/// The early data size. For QUIC, it is a flag with all bits set (RFC 9001, section 4.6.1).
fn early_data(settings: &Settings, alpn: Alpn) -> u32 {
    match (settings.early_data, alpn) {
        (false, _) => 0,
        (true, Alpn::Http3) => u32::MAX,
        (true, _) => 16_384,
    }
}

/// The session store and the keys that seal session tickets.
#[derive(Clone)]
pub struct Sessions {
    storage: Arc<dyn StoresServerSessions>,
    tickets: Option<Arc<dyn ProducesTickets>>,
}

impl Sessions {
    /// # Errors
    /// A file with ticket keys is missing or invalid.
    pub fn new(settings: &Settings) -> Result<Self> {
        let resumable = settings.tickets || settings.session_cache > 0;
        // Early data can be replayed unless a session is usable only once. Tickets cannot ensure
        // that, and rustls accepts no early data with them, so these sessions are stored on the
        // server.
        let kept_here = settings.early_data && resumable;
        let storage: Arc<dyn StoresServerSessions> = match settings.session_cache {
            0 if kept_here => ServerSessionMemoryCache::new(EARLY_SESSIONS),
            0 => Arc::new(NoServerSessionStorage {}),
            size => ServerSessionMemoryCache::new(size),
        };
        let lifetime = settings.session_timeout;
        Ok(Self {
            storage: Arc::new(Expiring::new(storage, lifetime)),
            tickets: match settings.tickets && !kept_here {
                true => Some(Arc::new(Expiring::new(ticketer(settings)?, lifetime))),
                false => None,
            },
        })
    }
}

fn ticketer(settings: &Settings) -> Result<Arc<dyn ProducesTickets>> {
    let lifetime = settings.session_timeout;
    if !settings.ticket_keys.is_empty() {
        return Ok(Arc::new(FileTickets::new(&settings.ticket_keys, lifetime)?));
    }
    let rotator = TicketRotator::new(lifetime.clamp(1, MAX_TICKET_KEY_AGE), FileTickets::random);
    let rotator = rotator.map_err(|e| TlsError(format!("session tickets: {e}")))?;
    Ok(Arc::new(rotator))
}
