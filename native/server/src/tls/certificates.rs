//! Certificates and keys from PEM files.

use super::{error, Result, TlsError};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::SignatureScheme;
use std::path::PathBuf;
use std::sync::Arc;

/// Where PEM text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// The text itself (`data:`).
    Inline(String),
}

impl Source {
    /// Reads `data:...` or a path.
    pub fn new(text: &str) -> Self {
        match text.strip_prefix("data:") {
            Some(pem) => Source::Inline(pem.to_string()),
            None => Source::File(text.into()),
        }
    }

    fn read(&self, what: &str) -> Result<Vec<u8>> {
        match self {
            Source::Inline(text) => Ok(text.clone().into_bytes()),
            Source::File(path) => std::fs::read(path)
                .map_err(|e| TlsError(format!("cannot load {what} \"{}\": {e}", path.display()))),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Inline(_) => f.write_str("data:"),
        }
    }
}

/// All certificates of a PEM text, the server's own first.
pub fn chain(source: &Source) -> Result<Vec<CertificateDer<'static>>> {
    let pem = source.read("certificate")?;
    let parsed: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match parsed {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => error(format!(
            "cannot load certificate \"{source}\": it holds no certificate"
        )),
        Err(e) => error(format!("cannot load certificate \"{source}\": {e}")),
    }
}

/// Loads a chain and its key, and makes sure that they belong together.
///
/// # Errors
/// A file cannot be read or parsed, the key is of a kind that cannot sign, or of another
/// certificate.
pub fn load_pair(certificate: &Source, key: &Source) -> Result<CertifiedKey> {
    let chain = chain(certificate)?;
    let pem = key.read("certificate key")?;
    let der = PrivateKeyDer::from_pem_slice(&pem).map_err(|e| {
        let hint = if pem.windows(9).any(|w| w == b"ENCRYPTED") {
            " (encrypted keys are not supported: decrypt it with \"openssl pkey\")"
        } else {
            ""
        };
        TlsError(format!("cannot load certificate key \"{key}\": {e}{hint}"))
    })?;
    let signer = any_supported_type(&der)
        .map_err(|e| TlsError(format!("cannot load certificate key \"{key}\": {e}")))?;
    let pair = CertifiedKey::new(chain, signer);
    match pair.keys_match() {
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => error(
            format!("certificate \"{certificate}\" and key \"{key}\" do not belong together"),
        ),
        // Anything else means that they cannot be compared, as with certificates of version 1.
        _ => Ok(pair),
    }
}

/// The certificates of one server block, of which each client gets the first it can check.
#[derive(Debug)]
pub struct Choice {
    pairs: Vec<Arc<CertifiedKey>>,
}

impl Choice {
    pub fn new(pairs: Vec<Arc<CertifiedKey>>) -> Self {
        Self { pairs }
    }

    /// The pair that can sign with one of these schemes; else the first, so that the handshake
    /// fails with the right alert.
    pub fn pick(&self, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let fits = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(schemes).is_some();
        // ECDSA is many times cheaper to sign with than RSA.
        let cheap = |pair: &&Arc<CertifiedKey>| {
            fits(pair) && pair.key.algorithm() != rustls::SignatureAlgorithm::RSA
        };
        let mut pairs = self.pairs.iter();
        let found = pairs
            .clone()
            .find(cheap)
            .or_else(|| pairs.clone().find(fits));
        found.or_else(|| pairs.next()).cloned()
    }
}

impl rustls::server::ResolvesServerCert for Choice {
    fn resolve(&self, hello: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.pick(hello.signature_schemes())
    }
}
