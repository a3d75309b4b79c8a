//! TLS to upstream servers (`proxy_pass https://`, `uwsgi_pass suwsgi://`, `grpc_pass grpcs://`).

use super::certificates::{load_pair, passwords, Source};
use super::client_settings::{has_variable_pair, ClientSettings};
use super::named::Kept;
use super::peer::{Judge, Upstream};
use super::sealed::Sealed;
use super::{ciphers, error, Result, TlsError, TlsStream};
use gallop_conf::model::{AppProtocol, Config, Handler, Location, UpConf};
use gallop_engine::upstream::keepalive::{Connector, Handshake, Stream, TlsRequest};
use gallop_runtime::Sock;
use rustls::client::{ResolvesClientCert, Resumption, Tls12Resumption};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, SignatureScheme};
use std::cell::RefCell;
use std::collections::hash_map::{Entry, HashMap};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The sessions stored for each place in the configuration.
const SESSIONS: usize = 256;

/// The TLS settings of every place that passes requests on, created while the keys can still be
/// read.
#[derive(Default)]
pub struct Upstreams {
    /// The folder at which relative certificate paths start.
    base: PathBuf,
    places: HashMap<usize, Place>,
}

struct Place {
    config: Arc<ClientConfig>,
    /// The words of `*_ssl_password_file`, for keys whose paths contain variables.
    passwords: Vec<Vec<u8>>,
}

/// Places that inherit settings share them, so the address of the settings is the key.
fn key(conf: &UpConf) -> usize {
    std::ptr::from_ref(conf) as usize
}

impl Upstreams {
    /// Create the TLS settings of every `proxy_pass` to an `https://` URL, every `uwsgi_pass` to a
    /// `suwsgi://` address, every `grpc_pass` to a `grpcs://` address, and those to addresses with
    /// variables.
    ///
    /// # Errors
    /// The problem in `proxy_ssl_*`, `uwsgi_ssl_*`, or `grpc_ssl_*` and its location.
    pub fn new(config: &Config) -> std::result::Result<Self, String> {
        let mut made = Self {
            base: config.conf_prefix.clone(),
            ..Self::default()
        };
        let mut failed = None;
        for server in config.http.iter().flat_map(|h| &h.servers) {
            crate::preparing::visit(&server.root, &mut |location| {
                let Some((conf, module)) = tls_settings(location) else {
                    return;
                };
                if let Err(e) = made.add(conf, module) {
                    let place = format!("{e} in location \"{}\"", location.name);
                    failed.get_or_insert(place);
                }
            });
        }
        for server in config.stream.iter().flat_map(|s| &s.servers) {
            let proxies = server.stream.as_ref();
            let is_secure = proxies.is_some_and(|s| s.conf.proxy_ssl == Some(true));
            if let Some(conf) = server.root.conf.proxy.as_ref().filter(|_| is_secure) {
                let place = &server.place;
                let at = |e| format!("{e} in {}:{}", place.file, place.line);
                made.add(conf, "proxy").map_err(at)?;
            }
        }
        failed.map_or(Ok(made), Err)
    }

    fn add(&mut self, conf: &Arc<UpConf>, module: &str) -> Result<()> {
        if let Entry::Vacant(place) = self.places.entry(key(conf)) {
            let passwords = passwords(conf.ssl_password_file.as_deref())?;
            let config = Arc::new(client_config(conf, module, &passwords)?);
            place.insert(Place { config, passwords });
        }
        Ok(())
    }
}

/// The TLS settings of a location that may connect to its upstream by TLS, and the prefix of their
/// directives.
fn tls_settings(location: &Location) -> Option<(&Arc<UpConf>, &'static str)> {
    let conf = &location.conf;
    match location.handler.as_ref()? {
        Handler::Proxy(pass) if pass.https || pass.url.is_some() => {
            Some((conf.proxy.as_ref()?, "proxy"))
        }
        Handler::Application(pass) => {
            let has_schemes = matches!(pass.protocol, AppProtocol::Uwsgi | AppProtocol::Grpc);
            let may_ask = has_schemes && pass.address.is_some();
            let own = conf.application(pass.protocol).as_ref();
            Some((own.filter(|_| pass.tls || may_ask)?, pass.protocol.name()))
        }
        _ => None,
    }
}

/// `module`: the prefix of the directives.
fn client_config(conf: &UpConf, module: &str, passwords: &[Vec<u8>]) -> Result<ClientConfig> {
    let settings = ClientSettings::new(conf, module)?;
    let crypto = Arc::new(settings.crypto()?);
    let versions = ciphers::versions(&settings.protocols)?;
    let judge = match (conf.ssl_verify, &conf.ssl_trusted_certificate) {
        (Some(true), Some(trusted)) => {
            let depth = conf.ssl_verify_depth.unwrap_or(1);
            Some(Judge::new(trusted, conf.ssl_crl.as_ref(), depth, &crypto)?)
        }
        (Some(true), None) => {
            let message = format!("no {module}_ssl_trusted_certificate for {module}_ssl_verify");
            return error(message);
        }
        _ => None,
    };
    let verifier = Arc::new(Upstream::new(judge, &crypto));
    let mut config = ClientConfig::builder_with_provider(crypto)
        .with_protocol_versions(&versions)
        .map_err(|e| {
            TlsError(format!(
                "{module}_ssl_protocols and {module}_ssl_ciphers: {e}"
            ))
        })?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    if let Some((certificate, key)) = &settings.pair {
        let (pair, _) = load_pair(certificate, key, passwords)?;
        config.client_auth_cert_resolver = Arc::new(Own(Arc::new(pair)));
    }
    if module == "grpc" || conf.http_version == Some(2000) {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    config.enable_sni = conf.ssl_server_name == Some(true);
    config.resumption = if conf.ssl_session_reuse == Some(false) {
        Resumption::disabled()
    } else {
        let sessions = Resumption::in_memory_sessions(SESSIONS);
        sessions.tls12_resumption(match settings.tickets {
            true => Tls12Resumption::SessionIdOrTickets,
            false => Tls12Resumption::SessionIdOnly,
        })
    };
    Ok(config)
}

/// Always presents the same certificate.
#[derive(Debug)]
struct Own(Arc<CertifiedKey>);

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.key.choose_scheme(schemes)?;
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Creates the TLS connections of one thread.
pub struct UpstreamConnector {
    shared: Arc<Upstreams>,
    /// Certificates whose paths contain variables, by place.
    kept: RefCell<HashMap<usize, Kept>>,
}

impl UpstreamConnector {
    pub fn new(shared: Arc<Upstreams>) -> Self {
        Self {
            shared,
            kept: RefCell::default(),
        }
    }

    fn place(&self, conf: &UpConf) -> Result<&Place> {
        let message = "no TLS was made ready for this location";
        let place = self.shared.places.get(&key(conf));
        place.ok_or_else(|| TlsError(message.into()))
    }

    fn config(&self, request: &TlsRequest<'_>) -> Result<Arc<ClientConfig>> {
        let place = self.place(request.conf)?;
        let mut config = place.config.clone();
        if let Some(protocols) = &request.protocols {
            Arc::make_mut(&mut config).alpn_protocols = protocols.clone();
        }
        if !has_variable_pair(request.conf) {
            return Ok(config);
        }
        let mut config = Arc::unwrap_or_clone(config);
        if let Some((certificate, own_key)) = &request.certificate {
            if !certificate.is_empty() {
                let pair = self.pair(request.conf, certificate, own_key)?;
                config.client_auth_cert_resolver = Arc::new(Own(pair));
            }
        }
        // A session would belong to the certificate that began it.
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// The pair whose paths contain variables, cached as `*_ssl_certificate_cache` says.
    fn pair(&self, conf: &UpConf, certificate: &str, own_key: &str) -> Result<Arc<CertifiedKey>> {
        let words = &self.place(conf)?.passwords;
        let limits = conf.ssl_certificate_cache.as_ref().and_then(Option::as_ref);
        let mut kept = self.kept.borrow_mut();
        let load = |chain: &Source, secret: &Source| load_pair(chain, secret, words);
        let own = kept.entry(key(conf));
        let own = own.or_insert_with(|| Kept::new(&self.shared.base));
        own.pair(limits, certificate, own_key, load)
    }
}

/// The name to send as SNI: without the port; an address if it is no DNS name.
fn server_name(name: &str) -> ServerName<'static> {
    let bare = match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|c| c.is_ascii_digit()) => host,
        _ => name,
    };
    let bare = bare.trim_start_matches('[').trim_end_matches(']');
    let unnamed = ServerName::IpAddress(IpAddr::from([0, 0, 0, 0]).into());
    ServerName::try_from(bare.to_string()).unwrap_or(unnamed)
}

impl Connector for UpstreamConnector {
    fn connect(&self, sock: Sock, request: &TlsRequest<'_>) -> Handshake {
        let config = self.config(request);
        let name = server_name(request.name);
        Box::pin(async move {
            let other = |e: &dyn std::fmt::Display| io::Error::other(e.to_string());
            // Another server of the upstream would have the same problem.
            let local = |e: TlsError| io::Error::new(io::ErrorKind::InvalidInput, e.to_string());
            let config = config.map_err(local)?;
            let session = ClientConnection::new(config, name).map_err(|e| other(&e))?;
            let stream = TlsStream::handshake(sock, session).await;
            let stream = stream.map_err(|e| other(&e))?;
            Ok(Box::new(Sealed::new(stream)) as Box<dyn Stream>)
        })
    }
}
