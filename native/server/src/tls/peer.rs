//! Verification of upstream certificates (`proxy_ssl_verify`).

use super::certificates::{chain, Source};
use super::revoked::Revoked;
use super::signature::{verify_tls12, verify_tls13};
use super::x509::{steps, Certificate};
use super::{Result, TlsError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Verifies certificates against trusted ones.
#[derive(Debug)]
pub struct Judge {
    chains: Arc<WebPkiServerVerifier>,
    /// The trusted certificates themselves.
    roots: Vec<CertificateDer<'static>>,
    /// The most certificates between an upstream's certificate and a trusted one.
    depth: usize,
    revoked: Option<Revoked>,
}

/// Verifies that an upstream holds its certificate's key, and lets the judge verify the
/// certificate.
#[derive(Debug)]
pub struct Upstream {
    algorithms: WebPkiSupportedAlgorithms,
    /// `None` accepts every certificate, which is nginx's default.
    judge: Option<Judge>,
}

impl Judge {
    /// Trust the certificates of `trusted` and those that they sign, except revoked ones.
    ///
    /// # Errors
    /// A file cannot be read or holds nothing usable.
    pub fn new(
        trusted: &Path,
        revoked: Option<&PathBuf>,
        depth: u64,
        crypto: &Arc<CryptoProvider>,
    ) -> Result<Self> {
        let roots = chain(&Source::File(trusted.to_path_buf()))?;
        let mut store = RootCertStore::empty();
        for root in &roots {
            store.add(root.clone()).map_err(|e| {
                TlsError(format!(
                    "cannot use certificate authority in \"{}\": {e}",
                    trusted.display()
                ))
            })?;
        }
        let builder = WebPkiServerVerifier::builder_with_provider(store.into(), crypto.clone());
        let revoked = revoked.map(|path| Revoked::load(path)).transpose()?;
        let builder = match revoked.as_ref().and_then(Revoked::for_webpki) {
            Some(lists) => builder.with_crls(lists).enforce_revocation_expiration(),
            None => builder,
        };
        let chains = builder
            .build()
            .map_err(|e| TlsError(format!("upstream verification: {e}")))?;
        Ok(Self {
            chains,
            roots,
            depth: usize::try_from(depth).unwrap_or(usize::MAX),
            revoked,
        })
    }

    fn check(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        algorithms: &WebPkiSupportedAlgorithms,
        now: UnixTime,
    ) -> std::result::Result<(), Error> {
        let parsed = Certificate::parse(own).ok_or(CertificateError::BadEncoding)?;
        let judged = self
            .chains
            .verify_server_cert(own, intermediates, name, &[], now);
        let mut by_webpki = true;
        match judged {
            Ok(_) => {}
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => check_name(&parsed, name)?,
            Err(e) => {
                // webpki rejects version 1 and authorities used as server certificates.
                let lists = self.roots.iter().any(|root| root == own);
                if !lists && !self.is_signed_by_root(&parsed, algorithms) {
                    return Err(e);
                }
                check_time(&parsed, now)?;
                check_name(&parsed, name)?;
                by_webpki = false;
            }
        }
        if steps(&parsed, intermediates, &self.roots) > self.depth {
            return Err(Error::General("certificate chain too long".into()));
        }
        match &self.revoked {
            Some(lists) if !by_webpki || lists.for_webpki().is_none() => {
                let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
                lists
                    .check(&parsed, intermediates, &self.roots, now, algorithms)
                    .map_err(|reason| Error::General(reason.into()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a trusted certificate signed it.
    fn is_signed_by_root(&self, own: &Certificate<'_>, known: &WebPkiSupportedAlgorithms) -> bool {
        let roots = self.roots.iter().filter_map(|r| Certificate::parse(r));
        let mut issuers = roots.filter(|root| root.subject == own.issuer);
        issuers.any(|root| root.has_signed(own, known))
    }
}

fn check_time(own: &Certificate<'_>, now: UnixTime) -> std::result::Result<(), Error> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < own.not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > own.not_after {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

fn check_name(own: &Certificate<'_>, name: &ServerName<'_>) -> std::result::Result<(), Error> {
    if own.is_for(&name.to_str()) {
        return Ok(());
    }
    Err(CertificateError::NotValidForName.into())
}

impl Upstream {
    pub fn new(judge: Option<Judge>, crypto: &CryptoProvider) -> Self {
        let algorithms = crypto.signature_verification_algorithms;
        Self { algorithms, judge }
    }
}

impl ServerCertVerifier for Upstream {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        if let Some(judge) = &self.judge {
            judge.check(own, intermediates, name, &self.algorithms, now)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls12(message, own, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls13(message, own, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
