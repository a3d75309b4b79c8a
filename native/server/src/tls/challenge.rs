//! TLS-ALPN-01 challenges of certificate authorities (RFC 8737), answered from files
//! (`acme_tls_challenges`).
//!
//! The file for a name contains its key authorization (RFC 8555, section 8.1), which is no secret.
//! The certificate that proves the name is created for each handshake, so no private key is stored.

use super::{ciphers, Result, TlsError};
use aws_lc_rs::digest::{digest, SHA256};
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine;
use rcgen::{CertificateParams, CustomExtension, KeyPair, SanType};
use rustls::crypto::aws_lc_rs::sign::any_ecdsa_type;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::ServerConfig;
use std::borrow::Cow;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// The application protocol of a challenge (RFC 8737, section 6.2).
pub const PROTOCOL: &[u8] = b"acme-tls/1";

/// The most bytes read from a file. A key authorization has fewer than 100.
const MAX_LEN: u64 = 512;

/// The key authorization for a name in lower case; `None` if no challenge of the name is waiting.
/// The file's name is the SHA-256 of the name in base64url.
pub fn key_authorization(folder: &Path, name: &str) -> Option<Vec<u8>> {
    let file_name = URL_SAFE_NO_PAD.encode(digest(&SHA256, name.as_bytes()));
    let file = File::open(folder.join(file_name)).ok()?;
    let mut text = Vec::new();
    file.take(MAX_LEN).read_to_end(&mut text).ok()?;
    Some(text.trim_ascii().to_vec())
}

/// The name by which server blocks serve what a challenge names: the challenge of an address has
/// its name for reverse lookups (RFC 8738, section 6).
pub fn served_name(name: &str) -> Cow<'_, str> {
    match reversed_address(name) {
        Some(IpAddr::V4(address)) => address.to_string().into(),
        Some(IpAddr::V6(address)) => format!("[{address}]").into(),
        None => name.into(),
    }
}

/// The TLS configuration that proves the control over a name (RFC 8737, section 3).
///
/// # Errors
/// The name cannot be part of a certificate.
pub fn config(name: &str, key_authorization: &[u8]) -> Result<Arc<ServerConfig>> {
    let failed = |e: Box<dyn Error>| TlsError(format!("ACME challenge of \"{name}\": {e}"));
    let pair = certificate(name, key_authorization).map_err(failed)?;
    let crypto = Arc::new(ciphers::crypto(None, None)?);
    let mut config = ServerConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .map_err(|e| failed(e.into()))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// A self-signed certificate for the name with the digest of the key authorization.
fn certificate(
    name: &str,
    key_authorization: &[u8],
) -> std::result::Result<CertifiedKey, Box<dyn Error>> {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![match reversed_address(name) {
        Some(address) => SanType::IpAddress(address),
        None => SanType::DnsName(name.try_into()?),
    }];
    let hash = digest(&SHA256, key_authorization);
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(hash.as_ref())];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let key = any_ecdsa_type(&PrivatePkcs8KeyDer::from(key.serialize_der()).into())?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

/// The address of a name for reverse lookups.
fn reversed_address(name: &str) -> Option<IpAddr> {
    if let Some(parts) = name.strip_suffix(".in-addr.arpa") {
        let parts: Vec<_> = parts.rsplit('.').collect();
        return parts.join(".").parse().ok().map(IpAddr::V4);
    }
    let digits: String = name.strip_suffix(".ip6.arpa")?.rsplit('.').collect();
    let bits = u128::from_str_radix(&digits, 16).ok()?;
    (digits.len() == 32).then(|| IpAddr::V6(bits.into()))
}

#[cfg(test)]
mod tests {
    use super::served_name;

    #[test]
    fn reverse_names_stand_for_addresses() {
        assert_eq!(served_name("1.2.0.192.in-addr.arpa"), "192.0.2.1");
        let name = format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa", "0.".repeat(23));
        assert_eq!(served_name(&name), "[2001:db8::1]");
        for name in [
            "one.example",
            "2.0.192.in-addr.arpa",
            "1.ip6.arpa",
            "ip6.arpa",
        ] {
            assert_eq!(served_name(name), name);
        }
    }
}
