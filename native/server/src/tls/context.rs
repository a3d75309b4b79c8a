//! Everything TLS that a server block's directives amount to.

use super::certificates::{Choice, Source};
use super::named::{self, Named};
use super::ocsp::{Inquiry, Stapler};
use super::tickets::{Expiring, FileTickets};
use super::verify::{verifiers, AnyCertificate, Authorities, Client, Judge};
use super::{ciphers, error, Result, TlsError};
use gallop_engine::Exchange;
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

/// Seconds that a key of our own seals tickets at most.
const MAX_TICKET_KEY_AGE: u32 = 6 * 3600;

/// Sessions kept for early data where `ssl_session_cache` gives no size.
const EARLY_SESSIONS: usize = 20_480;

/// The directives, resolved.
#[derive(Clone, Default)]
pub struct Settings {
    /// `ssl_certificate` and `ssl_certificate_key`, pair by pair.
    pub pairs: Vec<(Source, Source)>,
    /// The certificates, where variables name them.
    pub named: Option<Arc<Named>>,
    /// `ssl_password_file`: words that may open the keys.
    pub passwords: Vec<Vec<u8>>,
    /// `ssl_protocols`; none means the default, 1.2 and 1.3.
    pub protocols: Vec<String>,
    /// `ssl_ciphers`, in OpenSSL's language.
    pub ciphers: Option<String>,
    /// The suites of TLS 1.3 (`ssl_conf_command Ciphersuites`).
    pub suites: Option<String>,
    /// `ssl_ecdh_curve`.
    pub curves: Option<String>,
    /// `ssl_prefer_server_ciphers`.
    pub prefer_server_ciphers: bool,
    /// `ssl_verify_client`.
    pub client: Client,
    /// Who signs good client certificates.
    pub authorities: Authorities,
    /// `ssl_session_tickets`.
    pub tickets: bool,
    /// `ssl_session_ticket_key`; none means keys of our own that change by themselves.
    pub ticket_keys: Vec<PathBuf>,
    /// Sessions of TLS 1.2 to remember, 0 for none (`ssl_session_cache`).
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
}

impl Settings {
    /// Leaves the protocols of which `is_kept` says so, by their names, which are in order.
    pub fn keep_protocols(&mut self, is_kept: impl Fn(&str) -> bool) {
        if self.protocols.is_empty() {
            self.protocols = ["TLSv1.2", "TLSv1.3"].map(String::from).to_vec();
        }
        self.protocols.retain(|name| is_kept(name));
        if self.protocols.is_empty() {
            // None at all, which is not the same as none that was named.
            self.protocols.push(String::new());
        }
    }
}

/// The protocols a listener speaks above TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 and HTTP/1.1.
    Http2,
    /// HTTP/3, over QUIC.
    Http3,
}

impl Alpn {
    fn names(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            Alpn::Http1 => &[b"http/1.1"],
            Alpn::Http2 => &[b"h2", b"http/1.1"],
            Alpn::Http3 => &[b"h3"],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

/// A server block's TLS.
#[derive(Clone)]
pub struct Context {
    config: Arc<ServerConfig>,
    /// Judges client certificates after the handshake.
    pub judge: Option<Arc<Judge>>,
    named: Option<Arc<Named>>,
    /// Asks authorities about client certificates that are good otherwise.
    pub ocsp: Option<Arc<Inquiry>>,
}

impl Context {
    /// Makes a context with certificates loaded before.
    ///
    /// # Errors
    /// A file is missing or wrong, or a setting leaves nothing to work with.
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
        config.alpn_protocols = alpn.names();
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

    /// This context with the certificates that variables name for a client. Where there are none the
    /// log says why, and the handshake fails.
    pub fn for_client(&self, client: impl FnOnce() -> Option<Box<Exchange>>) -> Cow<'_, Self> {
        let named = self.named.as_ref();
        let Some((named, client)) = named.and_then(|named| Some((named, client()?))) else {
            return Cow::Borrowed(self);
        };
        let choice = named.choice(&client);
        let Ok(choice) = choice.inspect_err(|error| named::log(&client, error)) else {
            return Cow::Borrowed(self);
        };
        let mut config = (*self.config).clone();
        config.cert_resolver = Arc::new(choice);
        Cow::Owned(Self {
            config: Arc::new(config),
            ..self.clone()
        })
    }

    /// For rustls.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }
}

/// QUIC is TLS 1.3 by definition (RFC 9001, section 4.2).
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

/// For QUIC the size is a flag that must have all bits set (RFC 9001, section 4.6.1).
fn early_data(settings: &Settings, alpn: Alpn) -> u32 {
    match (settings.early_data, alpn) {
        (false, _) => 0,
        (true, Alpn::Http3) => u32::MAX,
        (true, _) => 16_384,
    }
}

/// Where sessions are kept, and what seals their tickets.
#[derive(Clone)]
pub struct Sessions {
    storage: Arc<dyn StoresServerSessions>,
    tickets: Option<Arc<dyn ProducesTickets>>,
}

impl Sessions {
    /// # Errors
    /// A file of ticket keys is missing or wrong.
    pub fn new(settings: &Settings) -> Result<Self> {
        let resumable = settings.tickets || settings.session_cache > 0;
        // Early data can be replayed unless a session is good for one use only, which a ticket is not:
        // rustls takes none on tickets, so these sessions are kept here.
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
