//! Client certificates (`ssl_verify_client`).
//!
//! As in nginx, an invalid certificate does not end the handshake: the server block responds with
//! 400, or continues if the certificate is optional. So rustls gets a verifier that only proves
//! possession of the key; the certificate itself is verified afterwards.

use super::certificates::{chain, Source};
use super::revoked::Revoked;
use super::sigalg::note_client;
use super::signature::{verify_tls12, verify_tls13};
use super::x509::{steps, Certificate};
use super::{error, Result, TlsError};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Whether clients must present a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Client {
    /// No certificate is requested.
    #[default]
    Off,
    /// A certificate of a known authority is required.
    On,
    /// A certificate is optional but must be valid if presented.
    Optional,
    /// A certificate is optional and may have any signer.
    OptionalNoCa,
}

/// The value of `$ssl_client_verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No certificate was presented.
    None,
    /// The certificate is valid.
    Success,
    /// The certificate is invalid, with the reason.
    Failed(String),
}

/// Requests a certificate and accepts any whose key the client holds.
#[derive(Debug)]
pub struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
    /// The authorities' names, for clients with several certificates.
    hints: Vec<DistinguishedName>,
}

/// The files that decide which certificates are valid.
#[derive(Clone, Debug, Default)]
pub struct Authorities {
    /// `ssl_client_certificate`; its names are sent to clients.
    pub client: Option<PathBuf>,
    /// `ssl_trusted_certificate`.
    pub trusted: Option<PathBuf>,
    /// `ssl_crl`.
    pub revoked: Option<PathBuf>,
    /// `ssl_verify_depth`: the most certificates between a client's certificate and a root.
    pub depth: usize,
}

/// Verifies certificates after the handshake.
#[derive(Debug)]
pub struct Judge {
    verifier: Arc<dyn ClientCertVerifier>,
    algorithms: WebPkiSupportedAlgorithms,
    /// All authorities, for certificates that `verifier` cannot check.
    authorities: Vec<CertificateDer<'static>>,
    revoked: Option<Revoked>,
    depth: usize,
}

/// Create the judge, if any authority is known, and the verifier for rustls.
///
/// # Errors
/// A file cannot be read, or the authority that `client` requires is missing.
pub fn verifiers(
    client: Client,
    authorities: &Authorities,
    crypto: &Arc<CryptoProvider>,
) -> Result<Verifiers> {
    let mut roots = RootCertStore::empty();
    let mut known = add_roots(&mut roots, authorities.client.as_ref())?;
    let hints = distinct(roots.subjects());
    known.extend(add_roots(&mut roots, authorities.trusted.as_ref())?);
    let algorithms = crypto.signature_verification_algorithms;
    let asks = Arc::new(AnyCertificate { algorithms, hints });
    if roots.is_empty() {
        if client == Client::OptionalNoCa {
            return Ok((None, asks));
        }
        return error("no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client");
    }
    let builder = WebPkiClientVerifier::builder_with_provider(roots.into(), crypto.clone());
    let revoked = authorities.revoked.as_deref().map(Revoked::load);
    let revoked = revoked.transpose()?;
    let builder = match revoked.as_ref().and_then(Revoked::for_webpki) {
        Some(lists) => builder.with_crls(lists).enforce_revocation_expiration(),
        None => builder,
    };
    let verifier = builder.build();
    let verifier = verifier.map_err(|e| TlsError(format!("client verification: {e}")))?;
    let judge = Judge {
        verifier,
        algorithms,
        authorities: known,
        revoked,
        depth: authorities.depth,
    };
    Ok((Some(Arc::new(judge)), asks))
}

/// Remove duplicate names: an authority may have several certificates.
fn distinct(names: Vec<DistinguishedName>) -> Vec<DistinguishedName> {
    let mut once: Vec<DistinguishedName> = Vec::new();
    for name in names {
        if !once.iter().any(|known| known.as_ref() == name.as_ref()) {
            once.push(name);
        }
    }
    once
}

/// The judge and the verifier for rustls.
pub type Verifiers = (Option<Arc<Judge>>, Arc<AnyCertificate>);

fn add_roots(
    roots: &mut RootCertStore,
    path: Option<&PathBuf>,
) -> Result<Vec<CertificateDer<'static>>> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let known = chain(&Source::File(path.clone()))?;
    for certificate in &known {
        roots.add(certificate.clone()).map_err(|e| {
            TlsError(format!(
                "cannot use certificate authority in \"{}\": {e}",
                path.display()
            ))
        })?;
    }
    Ok(known)
}

impl Judge {
    /// Verify the certificates that a client presented.
    pub fn verdict(&self, shown: Option<&[CertificateDer<'_>]>) -> Verdict {
        let Some((own, intermediates)) = shown.and_then(<[_]>::split_first) else {
            return Verdict::None;
        };
        match self.verify(own, intermediates, UnixTime::now()) {
            Ok(()) => Verdict::Success,
            Err(reason) => Verdict::Failed(reason),
        }
    }

    fn verify(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<(), String> {
        let parsed = Certificate::parse(own).ok_or("malformed certificate")?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let mut by_webpki = parsed.version > 1;
        if by_webpki {
            match self.verifier.verify_client_cert(own, intermediates, now) {
                Ok(_) => {}
                Err(e) if serves_itself(&e) => by_webpki = false,
                Err(e) => return Err(words(&e)),
            }
        }
        if !by_webpki {
            self.verify_direct(own, &parsed, seconds)?;
        }
        if steps(&parsed, intermediates, &self.authorities) > self.depth {
            return Err("certificate chain too long".into());
        }
        match &self.revoked {
            Some(lists) if !by_webpki || lists.for_webpki().is_none() => lists
                .check(
                    &parsed,
                    intermediates,
                    &self.authorities,
                    seconds,
                    &self.algorithms,
                )
                .map_err(String::from),
            _ => Ok(()),
        }
    }

    /// Verify certificates that webpki never accepts, those of version 1 and of authorities: they
    /// are valid if a known authority owns or signed them.
    fn verify_direct(
        &self,
        der: &CertificateDer<'_>,
        certificate: &Certificate<'_>,
        now: i64,
    ) -> std::result::Result<(), String> {
        if !certificate.is_valid_at(now) {
            return Err("certificate has expired or is not yet valid".into());
        }
        let signed = |authority: &CertificateDer<'_>| {
            Certificate::parse(authority).is_some_and(|a| {
                a.subject == certificate.issuer
                    && a.is_valid_at(now)
                    && a.has_signed(certificate, &self.algorithms)
            })
        };
        let known = |a: &CertificateDer<'_>| a.as_ref() == der.as_ref() || signed(a);
        if self.authorities.iter().any(known) {
            return Ok(());
        }
        Err("unable to verify the first certificate".into())
    }
}

/// Whether webpki rejected a certificate only because it belongs to an authority.
fn serves_itself(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) = error else {
        return false;
    };
    inner.to_string().contains("CaUsedAsEndEntity")
}

/// OpenSSL's words for what was found out about a certificate, where it is known by them.
fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Revoked) => "certificate revoked".into(),
        Error::InvalidCertificate(CertificateError::UnknownRevocationStatus) => {
            "unable to get certificate CRL".into()
        }
        Error::InvalidCertificate(
            CertificateError::ExpiredRevocationList
            | CertificateError::ExpiredRevocationListContext { .. },
        ) => "CRL has expired".into(),
        other => other.to_string(),
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        note_client(dss.scheme);
        verify_tls12(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        note_client(dss.scheme);
        verify_tls13(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
