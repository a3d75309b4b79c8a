//! Certificates whose paths contain variables, such as `ssl_certificate $ssl_server_name.crt`. The
//! worker reads them when a handshake needs them, or keeps them for a time
//! (`ssl_certificate_cache`).

use super::certificates::{load_pair, Choice, Source};
use super::sigalg::Noting;
use super::{Result, TlsError};
use gallop_conf::model::{CertificateCache, Endpoint, Level, Server};
use gallop_conf::template::Template;
use gallop_engine::conn::{Conn, Ends};
use gallop_engine::exchange::TlsInfo;
use gallop_engine::scope::Scope;
use gallop_engine::stream::Session;
use gallop_engine::template::eval;
use gallop_engine::{Exchange, Worker};
use gallop_runtime::now_ms;
use rustls::sign::CertifiedKey;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};

/// A pair that was read earlier.
#[derive(Debug)]
struct Loaded {
    pair: Arc<CertifiedKey>,
    /// Milliseconds (monotonic).
    loaded: u64,
    used: u64,
}

/// The cached pairs, by certificate and key.
#[derive(Debug)]
pub struct Kept {
    /// The folder at which relative paths start.
    base: PathBuf,
    pairs: HashMap<(String, String), Loaded>,
}

impl Kept {
    pub fn new(base: &Path) -> Self {
        Self {
            base: base.to_path_buf(),
            pairs: HashMap::new(),
        }
    }

    /// The pair with these names, cached within `limits`. `load` also returns whether a password
    /// was needed: pairs with encrypted keys are not cached.
    ///
    /// # Errors
    /// The errors of `load`.
    pub fn pair(
        &mut self,
        limits: Option<&CertificateCache>,
        certificate: &str,
        key: &str,
        load: impl FnOnce(&Source, &Source) -> Result<(CertifiedKey, bool)>,
    ) -> Result<Arc<CertifiedKey>> {
        let source = |text| Source::fresh(text, &self.base);
        let (chain, secret) = (source(certificate), source(key));
        let Some(limits) = limits else {
            return load(&chain, &secret).map(|(pair, _)| Arc::new(pair));
        };
        let now = now_ms();
        // Whole seconds, as in nginx.
        let lasts = |since: u64, limit: u64| now / 1000 - since / 1000 <= limit / 1000;
        self.pairs
            .retain(|_, l| lasts(l.used, limits.inactive) && lasts(l.loaded, limits.valid));
        let name = (certificate.to_string(), key.to_string());
        if let Some(known) = self.pairs.get_mut(&name) {
            known.used = now;
            return Ok(known.pair.clone());
        }
        let (pair, is_locked) = load(&chain, &secret)?;
        let pair = Arc::new(pair);
        if is_locked {
            return Ok(pair);
        }
        // nginx counts certificates and keys separately.
        if 2 * self.pairs.len() as u64 + 2 > limits.max {
            let oldest = self.pairs.iter().min_by_key(|(_, l)| l.used);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.map(|name| self.pairs.remove(&name));
        }
        let entry = Loaded {
            pair: pair.clone(),
            loaded: now,
            used: now,
        };
        self.pairs.insert(name, entry);
        Ok(pair)
    }
}

/// The certificates of a server block if variables name at least one.
#[derive(Debug)]
pub struct Named {
    pairs: Vec<(Template, Template)>,
    passwords: Vec<Vec<u8>>,
    limits: Option<CertificateCache>,
    kept: Mutex<Kept>,
}

impl Named {
    pub fn new(
        pairs: Vec<(Template, Template)>,
        passwords: Vec<Vec<u8>>,
        limits: Option<CertificateCache>,
        base: &Path,
    ) -> Self {
        Self {
            pairs,
            passwords,
            limits,
            kept: Mutex::new(Kept::new(base)),
        }
    }

    /// The certificates for a client.
    ///
    /// # Errors
    /// A file is missing or invalid.
    pub fn choice(&self, client: &dyn Scope) -> Result<Choice> {
        let text = |template| String::from_utf8_lossy(&eval(client, template)).into_owned();
        let load = |chain: &Source, secret: &Source| {
            let (mut pair, is_locked) = load_pair(chain, secret, &self.passwords)?;
            pair.key = Arc::new(Noting(pair.key));
            Ok((pair, is_locked))
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = self.pairs.iter().map(|(certificate, key)| {
            let (certificate, key) = (text(certificate), text(key));
            kept.pair(self.limits.as_ref(), &certificate, &key, load)
        });
        pairs.collect::<Result<Vec<_>>>().map(Choice::of)
    }
}

thread_local! {
    static WORKER: RefCell<Weak<Worker>> = const { RefCell::new(Weak::new()) };
}

/// Set the worker whose handshakes run on this thread.
pub fn on_this_thread(worker: &Rc<Worker>) {
    WORKER.with(|known| *known.borrow_mut() = Rc::downgrade(worker));
}

/// A client during its handshake, for the evaluation of variables; `None` on a thread that serves
/// no clients.
pub fn client(conn: Conn, server: &Arc<Server>, tls: TlsInfo) -> Option<Box<dyn Scope>> {
    let worker = WORKER.with(|known| known.borrow().upgrade())?;
    let conn = conn.with_tls(tls, Some(server.clone()));
    if server.stream.is_some() {
        return Some(Box::new(Session::of(worker, conn, server.clone())));
    }
    let mut ex = Exchange::new(worker, Rc::new(conn));
    ex.server = server.clone();
    ex.loc = server.root.clone();
    Some(ex)
}

/// A client of which only the requested name is known.
pub fn client_by_name(
    endpoint: &Arc<Endpoint>,
    server: &Arc<Server>,
    name: Option<&str>,
) -> Option<Box<dyn Scope>> {
    let tls = TlsInfo {
        server_name: name.unwrap_or_default().to_string(),
        ..TlsInfo::default()
    };
    client(Conn::new(0, endpoint.clone(), Ends::default()), server, tls)
}

/// Write the reason for a missing certificate to the log of the client's server block.
pub fn log(client: &dyn Scope, error: &TlsError) {
    client.log(Level::Error, &format!("{error} while SSL handshaking"));
}
