//! Parsing of X.509 certificates (RFC 5280, section 4.1). rustls rejects version 1, which has no
//! extensions, and ignores common names. Servers inside networks still use both, and OpenSSL
//! accepts them.

mod crl;
pub mod der;
mod names;

pub use crl::{check as check_revocation, RevocationList};

use der::{bits, element, expect, time, written, INTEGER, OBJECT, SEQUENCE, SET};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm};

/// The parts of a certificate as slices of its DER.
#[derive(Debug)]
pub struct Certificate<'a> {
    /// The signed bytes.
    signed: &'a [u8],
    /// The version, 1 to 3.
    pub version: u8,
    pub serial: &'a [u8],
    /// The contents of the names, each a SEQUENCE.
    pub issuer: &'a [u8],
    pub subject: &'a [u8],
    /// Seconds since 1970.
    pub not_before: i64,
    pub not_after: i64,
    key_algorithm: &'a [u8],
    /// The bits of the public key.
    pub key: &'a [u8],
    extensions: &'a [u8],
    signature_algorithm: &'a [u8],
    signature: &'a [u8],
}

/// `[0] EXPLICIT`, the version; `[3] EXPLICIT`, the extensions.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// `dNSName` among the general names.
const DNS_NAME: u8 = 0x82;

/// `uniformResourceIdentifier` among the general names.
const URI: u8 = 0x86;

/// id-at-commonName; id-ce-subjectAltName and -extKeyUsage; id-pe-authorityInfoAccess.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 29, 17];
const EXT_KEY_USAGE: &[u8] = &[0x55, 29, 37];
const AUTHORITY_INFO_ACCESS: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 1];
/// id-ad-ocsp; id-kp-OCSPSigning (RFC 6960, sections 3.1 and 4.2.2.2).
const OCSP: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 48, 1];
const OCSP_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 9];

/// The version, 1 to 3; certificates of version 1 omit it.
fn version(body: &mut &[u8]) -> Option<u8> {
    if body.first() != Some(&VERSION) {
        return Some(1);
    }
    let (_, mut explicit) = element(body)?;
    expect(&mut explicit, INTEGER)?.last()?.checked_add(1)
}

/// The extensions after the key; empty if there are none.
fn extensions(mut rest: &[u8]) -> Option<&[u8]> {
    let mut found: &[u8] = &[];
    while !rest.is_empty() {
        let (tag, mut contents) = element(&mut rest)?;
        if tag == EXTENSIONS {
            found = expect(&mut contents, SEQUENCE)?;
        }
    }
    Some(found)
}

/// The outer structure of certificates, revocation lists (RFC 5280, sections 4.1 and 5.1), and OCSP
/// responses (RFC 6960, section 4.2.1).
pub struct Signed<'a> {
    /// The signed bytes: `body` with its tag and length.
    signed: &'a [u8],
    pub body: &'a [u8],
    signature_algorithm: &'a [u8],
    signature: &'a [u8],
    /// The bytes that follow the signature.
    pub rest: &'a [u8],
}

impl<'a> Signed<'a> {
    /// Parse the structure; `None` if it is malformed.
    pub fn open(der: &'a [u8]) -> Option<Self> {
        let mut outer = der;
        let mut whole = expect(&mut outer, SEQUENCE)?;
        let before = whole;
        let body = expect(&mut whole, SEQUENCE)?;
        Some(Self {
            signed: &before[..before.len() - whole.len()],
            body,
            signature_algorithm: expect(&mut whole, SEQUENCE)?,
            signature: bits(&mut whole)?,
            rest: whole,
        })
    }

    /// Whether this certificate's key made the signature.
    pub fn is_by(&self, signer: &Certificate<'_>, known: &WebPkiSupportedAlgorithms) -> bool {
        signer.has_signed_bytes(self.signature_algorithm, self.signed, self.signature, known)
    }
}

impl<'a> Certificate<'a> {
    /// Parse a certificate; `None` if it is malformed.
    pub fn parse(der: &'a [u8]) -> Option<Certificate<'a>> {
        let Signed {
            signed,
            mut body,
            signature_algorithm,
            signature,
            ..
        } = Signed::open(der)?;
        let version = version(&mut body)?;
        let serial = expect(&mut body, INTEGER)?;
        // Skip the signature algorithm.
        expect(&mut body, SEQUENCE)?;
        let issuer = expect(&mut body, SEQUENCE)?;
        let mut validity = expect(&mut body, SEQUENCE)?;
        let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
        let subject = expect(&mut body, SEQUENCE)?;
        let mut key_info = expect(&mut body, SEQUENCE)?;
        let key_algorithm = expect(&mut key_info, SEQUENCE)?;
        let key = bits(&mut key_info)?;
        Some(Certificate {
            signed,
            version,
            serial,
            issuer,
            subject,
            not_before,
            not_after,
            key_algorithm,
            key,
            extensions: extensions(body)?,
            signature_algorithm,
            signature,
        })
    }

    /// Whether the certificate is valid at this time, in seconds since 1970.
    pub fn is_valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// The contents of an extension.
    fn extension(&self, wanted: &[u8]) -> Option<&'a [u8]> {
        let mut extensions = self.extensions;
        while let Some(mut extension) = expect(&mut extensions, SEQUENCE) {
            if expect(&mut extension, OBJECT) != Some(wanted) {
                continue;
            }
            let mut last = None;
            while let Some((_, contents)) = element(&mut extension) {
                last = Some(contents);
            }
            return last;
        }
        None
    }

    /// The `dNSName`s of the subject alternative names.
    pub fn dns_names(&self) -> Vec<&'a [u8]> {
        let mut names = Vec::new();
        let mut list = self.extension(SUBJECT_ALT_NAME).unwrap_or_default();
        let mut list = expect(&mut list, SEQUENCE).unwrap_or_default();
        while let Some((tag, name)) = element(&mut list) {
            if tag == DNS_NAME {
                names.push(name);
            }
        }
        names
    }

    /// The first OCSP responder URL (RFC 5280, section 4.2.2.1).
    pub fn ocsp_responder(&self) -> Option<&'a str> {
        let mut list = self.extension(AUTHORITY_INFO_ACCESS)?;
        let mut list = expect(&mut list, SEQUENCE)?;
        while let Some(mut access) = expect(&mut list, SEQUENCE) {
            let method = expect(&mut access, OBJECT)?;
            if let (OCSP, Some((URI, address))) = (method, element(&mut access)) {
                return std::str::from_utf8(address).ok();
            }
        }
        None
    }

    /// Whether the certificate may sign OCSP responses.
    pub fn may_sign_ocsp(&self) -> bool {
        let Some(mut list) = self.extension(EXT_KEY_USAGE) else {
            return false;
        };
        let mut purposes = expect(&mut list, SEQUENCE).unwrap_or_default();
        std::iter::from_fn(|| expect(&mut purposes, OBJECT)).any(|p| p == OCSP_SIGNING)
    }

    /// The subject as DER.
    pub fn subject_der(&self) -> Vec<u8> {
        written(SEQUENCE, &[self.subject])
    }

    /// The subject's common names.
    pub fn common_names(&self) -> Vec<&'a [u8]> {
        let mut names = Vec::new();
        let mut parts = self.subject;
        while let Some(mut set) = expect(&mut parts, SET) {
            while let Some(mut attribute) = expect(&mut set, SEQUENCE) {
                if expect(&mut attribute, OBJECT) == Some(COMMON_NAME) {
                    names.extend(element(&mut attribute).map(|(_, text)| text));
                }
            }
        }
        names
    }

    /// Whether the certificate is valid for this host, as OpenSSL decides: by the alternative names
    /// if there are any, otherwise by the common names.
    pub fn is_for(&self, host: &str) -> bool {
        let names = self.dns_names();
        let names = if names.is_empty() {
            self.common_names()
        } else {
            names
        };
        names.iter().any(|name| matches(name, host.as_bytes()))
    }

    /// Whether this certificate's key signed `other`.
    pub fn has_signed(&self, other: &Certificate<'_>, known: &WebPkiSupportedAlgorithms) -> bool {
        self.has_signed_bytes(
            other.signature_algorithm,
            other.signed,
            other.signature,
            known,
        )
    }

    fn has_signed_bytes(
        &self,
        algorithm: &[u8],
        signed: &[u8],
        signature: &[u8],
        known: &WebPkiSupportedAlgorithms,
    ) -> bool {
        let fits = |a: &&&dyn SignatureVerificationAlgorithm| {
            a.signature_alg_id().as_ref() == algorithm
                && a.public_key_alg_id().as_ref() == self.key_algorithm
        };
        let mut algorithms = known.all.iter().filter(fits);
        algorithms.any(|a| a.verify_signature(self.key, signed, signature).is_ok())
    }

    /// Whether this certificate's key made a handshake's signature with one of `algorithms`.
    pub fn has_made(
        &self,
        message: &[u8],
        signature: &[u8],
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> bool {
        algorithms
            .iter()
            .filter(|a| a.public_key_alg_id().as_ref() == self.key_algorithm)
            .any(|a| a.verify_signature(self.key, message, signature).is_ok())
    }
}

/// The number of certificates between `own` and a self-signed root. As in OpenSSL, certificates of
/// `trusted` that are not self-signed count too.
pub fn steps(
    own: &Certificate<'_>,
    between: &[CertificateDer<'_>],
    trusted: &[CertificateDer<'_>],
) -> usize {
    let all: Vec<_> = trusted
        .iter()
        .chain(between)
        .filter_map(|c| Certificate::parse(c))
        .collect();
    let (mut issuer, mut steps) = (own.issuer, 0);
    if own.subject == issuer {
        return 0;
    }
    while steps <= all.len() {
        match all.iter().find(|c| c.subject == issuer) {
            Some(next) if next.issuer != issuer => issuer = next.issuer,
            _ => return steps,
        }
        steps += 1;
    }
    steps
}

/// Whether a name of a certificate, possibly with a wildcard as first label, matches a host.
fn matches(name: &[u8], host: &[u8]) -> bool {
    if name.eq_ignore_ascii_case(host) {
        return !name.is_empty();
    }
    let Some(parent) = name.strip_prefix(b"*.") else {
        return false;
    };
    let dot = host.iter().position(|&c| c == b'.');
    // The wildcard matches a single label, but not directly below a top-level domain.
    dot.is_some_and(|i| i > 0 && host[i + 1..].eq_ignore_ascii_case(parent))
        && parent.contains(&b'.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn certificate(common: &str, names: &[&str]) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(|n| n.to_string()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, common);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("signed").der().to_vec()
    }

    #[test]
    fn alternative_names_count_before_common_names() {
        let der = certificate("cn.example", &["a.example", "*.b.example"]);
        let parsed = Certificate::parse(&der).expect("parsed");
        for (host, expected) in [
            ("a.example", true),
            ("A.EXAMPLE", true),
            ("x.b.example", true),
            ("x.y.b.example", false),
            ("b.example", false),
            ("cn.example", false),
        ] {
            assert_eq!(parsed.is_for(host), expected, "{host}");
        }
        let der = certificate("cn.example", &[]);
        let parsed = Certificate::parse(&der).expect("parsed");
        assert!(parsed.is_for("cn.example") && !parsed.is_for("a.example"));
    }

    #[test]
    fn a_certificate_signed_by_itself_verifies_until_a_byte_is_changed() {
        let known = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        let der = certificate("a", &["a.example"]);
        let parsed = Certificate::parse(&der).expect("parsed");
        assert!(parsed.has_signed(&parsed, &known));
        let mut broken = der.clone();
        let at = der
            .windows(9)
            .position(|w| w == b"a.example")
            .expect("name");
        broken[at] = b'b';
        let broken = Certificate::parse(&broken).expect("parsed");
        assert!(!parsed.has_signed(&broken, &known));
    }

    #[test]
    fn no_prefix_of_a_certificate_is_one() {
        let der = certificate("a", &["a.example"]);
        assert!((0..der.len()).all(|n| Certificate::parse(&der[..n]).is_none()));
    }

    #[test]
    fn validity_ends_with_its_last_second() {
        let der = certificate("a", &[]);
        let own = Certificate::parse(&der).expect("parsed");
        assert!(own.is_valid_at(own.not_before) && own.is_valid_at(own.not_after));
        assert!(!own.is_valid_at(own.not_before - 1) && !own.is_valid_at(own.not_after + 1));
        assert_eq!(own.version, 3);
    }
}
