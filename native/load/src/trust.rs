//! TLS that accepts any certificate, since measured servers use their own.

use crate::options::Protocol;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

#[derive(Debug)]
struct TakeAny(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for TakeAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// A client's TLS configuration with the ALPN name of `protocol`.
///
/// # Errors
/// The required TLS versions are unavailable.
pub fn tls(protocol: Protocol) -> Result<ClientConfig, String> {
    let versions: &[&rustls::SupportedProtocolVersion] = match protocol {
        Protocol::H3 => &[&rustls::version::TLS13],
        _ => rustls::ALL_VERSIONS,
    };
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let verifier = Arc::new(TakeAny(provider.signature_verification_algorithms));
    let mut tls = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    tls.alpn_protocols = vec![protocol.alpn().as_bytes().to_vec()];
    Ok(tls)
}
