//! Certificates and keys from PEM files.

use super::ocsp::Staple;
use super::sigalg::Noting;
use super::x509::der::element;
use super::{encrypted, error, files, Result, Settings, TlsError};
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use rustls::SignatureScheme;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The label of an encrypted PKCS #8 key.
const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY-----";
const TRUSTED: &str = "TRUSTED CERTIFICATE-----";
const OLD_ENCRYPTION: &str = "Proc-Type: 4,ENCRYPTED";

/// The source of PEM text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, read once per configuration.
    File(PathBuf),
    /// A file whose name contains variables, read for each use.
    Fresh(PathBuf),
    /// The text itself (`data:`).
    Inline(String),
}

impl Source {
    /// Parse `data:...` or a path.
    pub fn new(text: &str) -> Self {
        match text.strip_prefix("data:") {
            Some(pem) => Source::Inline(pem.to_string()),
            None => Source::File(text.into()),
        }
    }

    /// Parse `data:...` or a path after its variables were expanded; relative paths start at
    /// `base`.
    pub fn fresh(text: &str, base: &Path) -> Self {
        match Self::new(text) {
            Source::File(path) => Source::Fresh(base.join(path)),
            other => other,
        }
    }

    fn read(&self, what: &str) -> Result<Arc<[u8]>> {
        let bytes = match self {
            Source::Inline(text) => Ok(text.as_bytes().into()),
            Source::File(path) => files::read(path),
            Source::Fresh(path) => std::fs::read(path).map(Into::into),
        };
        bytes.map_err(|e| TlsError(format!("cannot load {what} \"{self}\": {e}")))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::File(path) | Source::Fresh(path) => write!(f, "{}", path.display()),
            Source::Inline(_) => f.write_str("data:"),
        }
    }
}

/// All certificates of a PEM text, the server's own first.
pub fn chain(source: &Source) -> Result<Vec<CertificateDer<'static>>> {
    let pem = source.read("certificate")?;
    let pem = without_trust(&pem);
    let parsed: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match parsed {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => error(format!(
            "cannot load certificate \"{source}\": it holds no certificate"
        )),
        Err(e) => error(format!("cannot load certificate \"{source}\": {e}")),
    }
}

/// Remove the trust settings that OpenSSL's "trusted certificates" append to a certificate. Only
/// OpenSSL's own programs use them.
fn without_trust(pem: &[u8]) -> Cow<'_, [u8]> {
    if !has(pem, TRUSTED) {
        return Cow::Borrowed(pem);
    }
    let text = String::from_utf8_lossy(pem).replace(TRUSTED, "CERTIFICATE-----");
    let mut plain = Vec::new();
    for der in CertificateDer::pem_slice_iter(text.as_bytes()).flatten() {
        let mut rest = &der[..];
        let whole = rest.len();
        if element(&mut rest).is_some() {
            let body = STANDARD.encode(&der[..whole - rest.len()]);
            let lines = [
                "-----BEGIN CERTIFICATE-----",
                &body,
                "-----END CERTIFICATE-----",
                "",
            ];
            plain.extend_from_slice(lines.join("\n").as_bytes());
        }
    }
    Cow::Owned(plain)
}

/// The passwords of `ssl_password_file`, one per line.
///
/// # Errors
/// The file cannot be read.
pub fn passwords(path: Option<&Path>) -> Result<Vec<Vec<u8>>> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let text = files::read(path).map_err(|e| {
        TlsError(format!(
            "cannot load ssl_password_file \"{}\": {e}",
            path.display()
        ))
    })?;
    let lines = text.split(|&c| c == b'\n');
    let words = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let words = words.filter(|word| !word.is_empty());
    Ok(words.map(<[u8]>::to_vec).collect())
}

/// The first private key of a PEM text, and whether it was encrypted.
fn private_key(
    pem: &[u8],
    passwords: &[Vec<u8>],
) -> std::result::Result<(PrivateKeyDer<'static>, bool), String> {
    let plain = match PrivateKeyDer::from_pem_slice(pem) {
        Ok(PrivateKeyDer::Pkcs1(_) | PrivateKeyDer::Sec1(_)) if has(pem, OLD_ENCRYPTION) => {
            let hint =
                "its encryption is that of old OpenSSL: convert it with \"openssl pkcs8 -topk8\"";
            return Err(hint.into());
        }
        Ok(key) => return Ok((key, false)),
        Err(e) => e.to_string(),
    };
    // The parser knows only plain keys, but the lines between the labels are the same.
    let text = String::from_utf8_lossy(pem);
    if !text.contains(ENCRYPTED) {
        return Err(plain);
    }
    let relabelled = text.replace(ENCRYPTED, "PRIVATE KEY-----");
    let sealed = PrivatePkcs8KeyDer::from_pem_slice(relabelled.as_bytes());
    let sealed = sealed.map_err(|e| e.to_string())?;
    let opened = encrypted::open(sealed.secret_pkcs8_der(), passwords)?;
    Ok((PrivatePkcs8KeyDer::from(opened).into(), true))
}

fn has(pem: &[u8], words: &str) -> bool {
    pem.windows(words.len()).any(|w| w == words.as_bytes())
}

/// Load a chain and its key, and check that they belong together. Also returns whether a password
/// was needed.
///
/// # Errors
/// A file cannot be read or parsed, the key's kind cannot sign, or the key belongs to another
/// certificate.
pub fn load_pair(
    certificate: &Source,
    key: &Source,
    passwords: &[Vec<u8>],
) -> Result<(CertifiedKey, bool)> {
    let chain = chain(certificate)?;
    let broken =
        |e: &dyn std::fmt::Display| TlsError(format!("cannot load certificate key \"{key}\": {e}"));
    let pem = key.read("certificate key")?;
    let (der, encrypted) = private_key(&pem, passwords).map_err(|e| broken(&e))?;
    let signer = any_supported_type(&der).map_err(|e| broken(&e))?;
    let pair = CertifiedKey::new(chain, signer);
    match pair.keys_match() {
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => error(
            format!("certificate \"{certificate}\" and key \"{key}\" do not belong together"),
        ),
        // Any other error means that the two cannot be compared, as with certificates of version 1.
        _ => Ok((pair, encrypted)),
    }
}

/// A certificate with its key and the OCSP responses that are stapled to it.
#[derive(Debug)]
pub struct Pair {
    key: Arc<CertifiedKey>,
    staple: Option<Arc<Staple>>,
}

impl Pair {
    /// The pair with its current OCSP response.
    fn current(&self) -> Arc<CertifiedKey> {
        match &self.staple {
            Some(staple) => staple.current(),
            None => self.key.clone(),
        }
    }

    fn is_rsa(&self) -> bool {
        self.key.key.algorithm() == rustls::SignatureAlgorithm::RSA
    }
}

/// Add a pair. If several pairs have keys of the same kind, the last one counts, as with OpenSSL.
fn add_last<T>(list: &mut Vec<T>, entry: T, pair: impl Fn(&T) -> &Arc<CertifiedKey>) {
    let kind = |entry: &T| pair(entry).key.algorithm();
    match list
        .iter_mut()
        .find(|earlier| kind(earlier) == kind(&entry))
    {
        Some(earlier) => *earlier = entry,
        None => list.push(entry),
    }
}

/// The certificates of a server block; each client gets the first one that it can verify.
#[derive(Debug)]
pub struct Choice {
    pairs: Vec<Pair>,
}

impl Choice {
    /// Load the pairs of a server block and append warnings to `warnings`.
    ///
    /// # Errors
    /// A file is missing or invalid.
    pub fn load(settings: &Settings, warnings: &mut Vec<String>) -> Result<Self> {
        let mut loaded: Vec<(String, Arc<CertifiedKey>, bool)> = Vec::new();
        for (certificate, key) in &settings.pairs {
            let (mut pair, _) = load_pair(certificate, key, &settings.passwords)?;
            pair.key = Arc::new(Noting(pair.key));
            let stapling = settings.stapling.as_ref();
            let fixed = stapling.map_or(Ok(true), |stapler| stapler.put_file(&mut pair))?;
            let entry = (certificate.to_string(), Arc::new(pair), fixed);
            add_last(&mut loaded, entry, |(_, pair, _)| pair);
        }
        let mut pairs = Vec::new();
        for (name, key, fixed) in loaded {
            let stapler = settings.stapling.as_ref().filter(|_| !fixed);
            let staple = stapler.map(|stapler| stapler.staple(&name, &key));
            let staple = staple.transpose().unwrap_or_else(|warning| {
                warnings.push(warning);
                None
            });
            let staple = staple.map(Arc::new);
            pairs.push(Pair { key, staple });
        }
        Ok(Self { pairs })
    }

    /// Use loaded pairs without stapled responses.
    pub fn of(loaded: Vec<Arc<CertifiedKey>>) -> Self {
        let mut pairs = Vec::new();
        for key in loaded {
            add_last(&mut pairs, Pair { key, staple: None }, |pair| &pair.key);
        }
        Self { pairs }
    }

    /// The pair that can sign with one of these schemes; otherwise the first, so that the handshake
    /// fails with the correct alert.
    pub fn pick(&self, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let fits = |pair: &&Pair| pair.key.key.choose_scheme(schemes).is_some();
        // Signing with ECDSA is many times cheaper than with RSA.
        let cheap = |pair: &&Pair| fits(pair) && !pair.is_rsa();
        let mut pairs = self.pairs.iter();
        let found = pairs
            .clone()
            .find(cheap)
            .or_else(|| pairs.clone().find(fits));
        found.or_else(|| pairs.next()).map(Pair::current)
    }
}

impl rustls::server::ResolvesServerCert for Choice {
    fn resolve(&self, hello: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.pick(hello.signature_schemes())
    }
}
