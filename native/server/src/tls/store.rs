//! The TLS contexts of all server blocks, created with the configuration while the keys can still
//! be read.

use super::certificates::{chain, passwords, Choice};
use super::ciphers;
use super::named::{client_by_name, Named};
use super::ocsp::{Cache, Inquiry, Responder, Stapler, RESOLVER_TIMEOUT};
use super::{
    error, Alpn, Authorities, Client, Context, Result, Sessions, Settings, Source, TlsError,
};
use gallop_conf::model::{
    items, Config, Endpoint, ErrorLog, Ocsp, Server, SessionCache, SrvConf, SslCommand,
    VerifyClient,
};
use gallop_conf::template::Template;
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// TLS 1.2 sessions per megabyte of cache, as nginx counts them.
const SESSIONS_PER_MB: u64 = 4000;
/// The sessions of a cache without a size.
const DEFAULT_SESSIONS: usize = 20_480;

/// The contexts of a server block.
#[derive(Clone)]
struct ServerTls {
    http1: Context,
    http2: Context,
    http3: Option<Context>,
}

/// All contexts, by server block.
#[derive(Default)]
pub struct Store {
    servers: HashMap<usize, ServerTls>,
    shared_sessions: HashMap<String, Sessions>,
    /// The OCSP caches by zone name.
    ocsp_caches: HashMap<String, Arc<Cache>>,
    logs: Arc<[ErrorLog]>,
    /// The folder at which relative certificate paths start.
    base: PathBuf,
    /// Warnings about settings that can be served nevertheless.
    pub warnings: Vec<String>,
}

fn key(server: &Arc<Server>) -> usize {
    Arc::as_ptr(server) as usize
}

impl Store {
    /// Create the contexts of every server block with a certificate. Later problems outside of
    /// connections go to `logs`.
    ///
    /// # Errors
    /// The problem and its place in the configuration.
    pub fn new(config: &Config, logs: &[ErrorLog]) -> std::result::Result<Self, String> {
        let mut store = Self {
            logs: logs.into(),
            base: config.conf_prefix.clone(),
            ..Self::default()
        };
        for server in config.servers() {
            // As in nginx, this is checked even if no listener uses TLS.
            let at = |e| format!("{e} in {}:{}", server.place.file, server.place.line);
            passwords(server.conf.ssl_password_file.as_deref()).map_err(at)?;
        }
        for listener in config.listeners() {
            let endpoint = &listener.endpoint;
            let specific = listener.specific.iter().map(|(_, endpoint)| endpoint);
            for endpoint in std::iter::once(endpoint).chain(specific) {
                if endpoint.ssl || endpoint.quic || listener.quic {
                    store.add_all(endpoint, listener.quic || endpoint.quic)?;
                }
            }
        }
        Ok(store)
    }

    /// Add the contexts of an endpoint. As in nginx, a server block other than the default one can
    /// lack a certificate: its handshakes use the default one's context, if that exists.
    fn add_all(&mut self, endpoint: &Endpoint, quic: bool) -> std::result::Result<(), String> {
        let default = &endpoint.hosts.default;
        self.add(default, quic)?;
        let covered = !items(&default.conf.ssl_certificate).is_empty();
        for server in endpoint.hosts.servers() {
            if !covered || !items(&server.conf.ssl_certificate).is_empty() {
                self.add(server, quic)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, server: &Arc<Server>, quic: bool) -> std::result::Result<(), String> {
        let known = self.servers.get(&key(server));
        if known.is_some_and(|tls| tls.http3.is_some() || !quic) {
            return Ok(());
        }
        let at = |e: TlsError| format!("{e} in {}:{}", server.place.file, server.place.line);
        if server.conf.ssl_reject_handshake == Some(true) {
            return Ok(());
        }
        if items(&server.conf.ssl_certificate).is_empty() {
            return Err(at(TlsError(
                "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive".into(),
            )));
        }
        let mut settings = settings(&server.conf, &self.base).map_err(at)?;
        let alpn = server
            .stream
            .as_ref()
            .and_then(|s| s.conf.ssl_alpn.as_ref());
        let alpn = alpn.map_or(&[][..], |names| names);
        settings.alpn = alpn.iter().map(|name| name.clone().into_bytes()).collect();
        settings.stapling = self.stapler(server).map_err(at)?;
        settings.ocsp = self.inquiry(server).map_err(at)?;
        let mut warnings = Vec::new();
        let pairs = Arc::new(Choice::load(&settings, &mut warnings).map_err(at)?);
        self.warnings.append(&mut warnings);
        let name = zone_and_certificates(&server.conf);
        let mut context = |alpn| {
            let sessions = self.sessions(&settings, name.as_deref(), alpn)?;
            Context::new(&settings, alpn, pairs.clone(), &sessions)
        };
        let mut context = |alpn| context(alpn).map_err(at);
        let (http1, http2) = match server.stream.is_some() {
            true => {
                let only = context(Alpn::Stream)?;
                (only.clone(), only)
            }
            false => (context(Alpn::Http1)?, context(Alpn::Http2)?),
        };
        let tls = ServerTls {
            http1,
            http2,
            http3: if quic {
                Some(context(Alpn::Http3)?)
            } else {
                None
            },
        };
        self.servers.insert(key(server), tls);
        Ok(())
    }

    /// As in nginx, server blocks with the same certificates and the same shared cache can resume
    /// each other's sessions.
    fn sessions(
        &mut self,
        settings: &Settings,
        name: Option<&str>,
        alpn: Alpn,
    ) -> Result<Sessions> {
        let Some(name) = name else {
            return Sessions::new(settings);
        };
        let (keys, timeout) = (&settings.ticket_keys, settings.session_timeout);
        let (tickets, early) = (settings.tickets, settings.early_data);
        let protocols = &settings.alpn;
        let name = format!("{name} {alpn:?} {protocols:?} {tickets} {keys:?} {timeout} {early}");
        if let Some(known) = self.shared_sessions.get(&name) {
            return Ok(known.clone());
        }
        let made = Sessions::new(settings)?;
        self.shared_sessions.insert(name, made.clone());
        Ok(made)
    }

    fn stapler(&self, server: &Server) -> Result<Option<Stapler>> {
        let conf = &server.conf;
        if conf.ssl_stapling != Some(true) {
            return Ok(None);
        }
        let trusted = authorities(conf)?;
        Ok(Some(Stapler {
            file: conf.ssl_stapling_file.clone(),
            responder: conf.ssl_stapling_responder.clone(),
            verify: conf.ssl_stapling_verify == Some(true),
            trusted,
            resolver: server.root.conf.resolver.clone(),
            resolver_timeout: server.root.conf.resolver_timeout,
            logs: self.logs.clone(),
        }))
    }

    fn inquiry(&mut self, server: &Server) -> Result<Option<Arc<Inquiry>>> {
        let conf = &server.conf;
        let asked = conf.ssl_ocsp.unwrap_or(Ocsp::Off);
        let verify = conf.ssl_verify_client.unwrap_or(VerifyClient::Off);
        if asked == Ocsp::Off || verify == VerifyClient::Off {
            return Ok(None);
        }
        if verify == VerifyClient::OptionalNoCa {
            return error("\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"");
        }
        let zone = conf.ssl_ocsp_cache.as_ref().and_then(Option::as_ref);
        let cache = zone.map(|(name, bytes)| {
            let known = self.ocsp_caches.entry(name.clone());
            known
                .or_insert_with(|| Arc::new(Cache::new(*bytes)))
                .clone()
        });
        Ok(Some(Arc::new(Inquiry {
            whole: asked == Ocsp::On,
            responder: responder(server)?,
            cache,
            trusted: authorities(conf)?,
            resolver: server.root.conf.resolver.clone(),
            resolver_timeout: server.root.conf.resolver_timeout,
            logs: self.logs.clone(),
        })))
    }

    /// The context for handshakes of a server block; `None` if it rejects them.
    pub fn context(
        &self,
        endpoint: &Endpoint,
        server: &Arc<Server>,
        alpn: Alpn,
    ) -> Option<&Context> {
        if server.conf.ssl_reject_handshake == Some(true) {
            return None;
        }
        let default = &endpoint.hosts.default;
        let own = self.servers.get(&key(server));
        let tls = own.or_else(|| self.servers.get(&key(default)))?;
        match alpn {
            Alpn::Http1 | Alpn::Stream => Some(&tls.http1),
            Alpn::Http2 => Some(&tls.http2),
            Alpn::Http3 => tls.http3.as_ref(),
        }
    }
}

impl Store {
    /// Whether a listener's client certificates may need an OCSP check.
    pub fn inquires(&self, endpoint: &Endpoint) -> bool {
        let servers = endpoint.hosts.servers();
        let mut contexts = servers
            .into_iter()
            .filter_map(|server| self.context(endpoint, server, Alpn::Http3));
        contexts.any(|context| context.ocsp.is_some())
    }

    /// The contexts of a QUIC listener.
    ///
    /// # Errors
    /// No server block has a certificate.
    pub fn quic_contexts(&self, endpoint: &Arc<Endpoint>) -> Result<ContextsByName> {
        let servers = endpoint.hosts.servers();
        let found = servers.into_iter().filter_map(|server| {
            let context = self.context(endpoint, server, Alpn::Http3)?;
            Some((key(server), context.clone()))
        });
        let contexts: HashMap<_, _> = found.collect();
        if contexts.is_empty() {
            return error("\"listen ... quic\" needs a server with \"ssl_certificate\"");
        }
        Ok(ContextsByName {
            endpoint: endpoint.clone(),
            contexts,
        })
    }
}

/// The contexts of a listener's server blocks. A block without one rejects handshakes.
pub struct ContextsByName {
    endpoint: Arc<Endpoint>,
    contexts: HashMap<usize, Context>,
}

impl ContextsByName {
    /// The context for a name in lower case, or for a client without SNI; `None` rejects the
    /// handshake.
    pub fn choose(&self, name: Option<&str>) -> Option<Context> {
        let hosts = &self.endpoint.hosts;
        let server = name.map_or(&hosts.default, |name| hosts.choose(name).server);
        let context = self.contexts.get(&key(server))?;
        let client = || client_by_name(&self.endpoint, server, name);
        Some(context.for_client(client).into_owned())
    }

    /// Any context, for settings that all share: the default server's if it has one.
    pub fn any(&self) -> &Context {
        let default = self.contexts.get(&key(&self.endpoint.hosts.default));
        let mut all = self.contexts.values();
        default
            .or_else(|| all.next())
            .expect("there is one, or this was not made")
    }
}

/// The responder of `ssl_ocsp_responder`.
fn responder(server: &Server) -> Result<Option<Responder>> {
    let Some(address) = &server.conf.ssl_ocsp_responder else {
        return Ok(None);
    };
    let conf = &server.root.conf;
    let patience = conf.resolver_timeout.unwrap_or(RESOLVER_TIMEOUT);
    match Responder::new(address, conf.resolver.clone(), patience) {
        Ok(responder) => Ok(Some(responder)),
        Err(reason) => error(format!(
            "{reason} in OCSP responder \"{address}\" in \"ssl_ocsp_responder\""
        )),
    }
}

/// All authorities that a server block knows.
fn authorities(conf: &SrvConf) -> Result<Vec<CertificateDer<'static>>> {
    let files = [&conf.ssl_client_certificate, &conf.ssl_trusted_certificate];
    let mut known = Vec::new();
    for path in files.into_iter().flatten() {
        known.extend(chain(&Source::File(path.clone()))?);
    }
    Ok(known)
}

/// The key under which server blocks share sessions, if their cache has a name.
fn zone_and_certificates(conf: &SrvConf) -> Option<String> {
    let Some(SessionCache::Shared {
        zone: Some((zone, _)),
        ..
    }) = &conf.ssl_session_cache
    else {
        return None;
    };
    let certificates = (
        items(&conf.ssl_certificate),
        items(&conf.ssl_certificate_key),
    );
    let clients = (&conf.ssl_verify_client, &conf.ssl_client_certificate);
    Some(format!("{zone} {certificates:?} {clients:?}"))
}

fn settings(conf: &SrvConf, base: &Path) -> Result<Settings> {
    let passwords = passwords(conf.ssl_password_file.as_deref())?;
    let pairs = pairs(conf)?;
    let fixed = pairs.iter().map(fixed).collect::<Option<Vec<_>>>();
    let limits = || conf.ssl_certificate_cache.clone().flatten();
    let named = || {
        let (pairs, passwords) = (pairs.clone(), passwords.clone());
        Arc::new(Named::new(pairs, passwords, limits(), base))
    };
    let mut settings = Settings {
        named: fixed.is_none().then(named),
        pairs: fixed.unwrap_or_default(),
        passwords,
        protocols: items(&conf.ssl_protocols).to_vec(),
        ciphers: conf.ssl_ciphers.clone(),
        curves: conf.ssl_ecdh_curve.clone(),
        suites: None,
        prefer_server_ciphers: conf.ssl_prefer_server_ciphers.unwrap_or(false),
        client: match conf.ssl_verify_client {
            None | Some(VerifyClient::Off) => Client::Off,
            Some(VerifyClient::On) => Client::On,
            Some(VerifyClient::Optional) => Client::Optional,
            Some(VerifyClient::OptionalNoCa) => Client::OptionalNoCa,
        },
        authorities: Authorities {
            client: conf.ssl_client_certificate.clone(),
            trusted: conf.ssl_trusted_certificate.clone(),
            revoked: conf.ssl_crl.clone(),
            depth: usize::try_from(conf.ssl_verify_depth.unwrap_or(1)).unwrap_or(usize::MAX),
        },
        tickets: conf.ssl_session_tickets.unwrap_or(true),
        ticket_keys: items(&conf.ssl_session_ticket_key).to_vec(),
        session_cache: match &conf.ssl_session_cache {
            None | Some(SessionCache::None | SessionCache::Off) => 0,
            Some(SessionCache::Shared {
                zone: Some((_, bytes)),
                ..
            }) if *bytes > 0 => ((bytes * SESSIONS_PER_MB) >> 20) as usize,
            Some(SessionCache::Shared { .. }) => DEFAULT_SESSIONS,
        },
        session_timeout: u32::try_from(conf.ssl_session_timeout.unwrap_or(300)).unwrap_or(u32::MAX),
        stapling: None,
        ocsp: None,
        early_data: conf.ssl_early_data.unwrap_or(false),
        compression: conf.ssl_certificate_compression.unwrap_or(false),
        alpn: Vec::new(),
    };
    commands(items(&conf.ssl_conf_command), &mut settings)?;
    Ok(settings)
}

/// Apply `ssl_conf_command`, which overrides other directives.
fn commands(commands: &[SslCommand], settings: &mut Settings) -> Result<()> {
    let (mut certificate, mut secret) = (None, None);
    for command in commands {
        match command {
            SslCommand::Certificate(path) => certificate = Some(Source::File(path.clone())),
            SslCommand::PrivateKey(path) => secret = Some(Source::File(path.clone())),
            SslCommand::Ciphers(list) => settings.ciphers = Some(list.clone()),
            SslCommand::Suites(list) => settings.suites = Some(list.clone()),
            SslCommand::Least(name) => {
                ciphers::keep_protocols(&mut settings.protocols, |v| v >= name.as_str())
            }
            SslCommand::Most(name) => {
                ciphers::keep_protocols(&mut settings.protocols, |v| v <= name.as_str())
            }
            SslCommand::Curves(list) => settings.curves = Some(list.clone()),
            SslCommand::Tickets(on) => settings.tickets = *on,
            SslCommand::ServerPreference(on) => settings.prefer_server_ciphers = *on,
        }
    }
    match (certificate, secret) {
        (Some(certificate), Some(secret)) => {
            settings.named = None;
            settings.pairs = vec![(certificate, secret)];
        }
        (None, None) => {}
        _ => return error("\"ssl_conf_command\" needs Certificate and PrivateKey together"),
    }
    Ok(())
}

/// The pairs of `ssl_certificate` and `ssl_certificate_key`.
fn pairs(conf: &SrvConf) -> Result<Vec<(Template, Template)>> {
    let certificates = items(&conf.ssl_certificate);
    let keys = items(&conf.ssl_certificate_key);
    if keys.len() < certificates.len() {
        let text = certificates[keys.len()].as_literal().unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        return error(format!(
            "no \"ssl_certificate_key\" is defined for certificate \"{text}\""
        ));
    }
    Ok(certificates
        .iter()
        .cloned()
        .zip(keys.iter().cloned())
        .collect())
}

/// The files of a pair without variables.
fn fixed((certificate, key): &(Template, Template)) -> Option<(Source, Source)> {
    let source = |t: &Template| Some(Source::new(&String::from_utf8_lossy(t.as_literal()?)));
    Some((source(certificate)?, source(key)?))
}
