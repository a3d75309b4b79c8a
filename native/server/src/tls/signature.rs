//! Verification of handshake signatures, which prove possession of a certificate's key (RFC 8446,
//! section 4.4.3; RFC 5246, section 7.4.8). Unlike rustls, this also supports certificates of
//! version 1.

use super::x509::Certificate;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, SignatureScheme};

type Verified = std::result::Result<HandshakeSignatureValid, Error>;

/// Verify a TLS 1.2 signature, whose scheme leaves the curve open.
///
/// # Errors
/// The certificate is malformed, or its key did not make the signature.
pub fn verify_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    known: &WebPkiSupportedAlgorithms,
) -> Verified {
    verify(
        message,
        certificate,
        signed,
        of_scheme(known, signed.scheme),
    )
}

/// Verify a TLS 1.3 signature.
///
/// # Errors
/// As for TLS 1.2; also schemes that TLS 1.3 forbids (RFC 8446, section 4.2.3).
pub fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    known: &WebPkiSupportedAlgorithms,
) -> Verified {
    use SignatureScheme as S;
    let old = matches!(
        signed.scheme,
        S::RSA_PKCS1_SHA1
            | S::ECDSA_SHA1_Legacy
            | S::RSA_PKCS1_SHA256
            | S::RSA_PKCS1_SHA384
            | S::RSA_PKCS1_SHA512
    );
    if old {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    // The scheme names the curve, which only its first algorithm has.
    let algorithms = of_scheme(known, signed.scheme).get(..1);
    verify(message, certificate, signed, algorithms.unwrap_or_default())
}

fn of_scheme(
    known: &WebPkiSupportedAlgorithms,
    scheme: SignatureScheme,
) -> &'static [&'static dyn SignatureVerificationAlgorithm] {
    let mut mapping = known.mapping.iter();
    mapping
        .find(|(name, _)| *name == scheme)
        .map_or(&[], |(_, algorithms)| *algorithms)
}

fn verify(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &[&dyn SignatureVerificationAlgorithm],
) -> Verified {
    let certificate = Certificate::parse(certificate).ok_or(CertificateError::BadEncoding)?;
    if certificate.has_made(message, signed.signature(), algorithms) {
        return Ok(HandshakeSignatureValid::assertion());
    }
    Err(CertificateError::BadSignature.into())
}
