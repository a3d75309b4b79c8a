//! Certificate revocation lists (`ssl_crl`, `proxy_ssl_crl`).

use super::files;
use super::x509::{check_revocation, Certificate, RevocationList};
use super::{error, Result, TlsError};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use std::path::Path;

/// The lists of one file.
#[derive(Debug)]
pub struct Revoked {
    lists: Vec<CertificateRevocationListDer<'static>>,
    /// A list is one that webpki does not accept.
    own_check: bool,
}

impl Revoked {
    /// Read a PEM file.
    ///
    /// # Errors
    /// The file cannot be read or holds an unusable list.
    pub fn load(path: &Path) -> Result<Self> {
        let broken = |e: &dyn std::fmt::Display| {
            TlsError(format!("cannot load CRL \"{}\": {e}", path.display()))
        };
        let pem = files::read(path).map_err(|e| broken(&e))?;
        let lists: std::result::Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_slice_iter(&pem).collect();
        let lists = lists.map_err(|e| broken(&e))?;
        if lists.is_empty() {
            return Err(broken(&"it holds no list"));
        }
        let mut own_check = false;
        let mut whole = true;
        for list in &lists {
            let parsed = RevocationList::parse(list).ok_or_else(|| broken(&"malformed"))?;
            own_check |= !parsed.is_for_webpki();
            whole &= parsed.is_whole();
        }
        if own_check && !whole {
            return error(format!(
                "\"{}\" mixes lists without extensions or a next update with lists for some certificates only",
                path.display()
            ));
        }
        Ok(Self { lists, own_check })
    }

    /// The lists, if webpki takes all of them; else ask [`Revoked::check`].
    pub fn for_webpki(&self) -> Option<Vec<CertificateRevocationListDer<'static>>> {
        (!self.own_check).then(|| self.lists.clone())
    }

    /// Look up a certificate and its issuers; `now` in seconds since 1970.
    ///
    /// # Errors
    /// The reason for rejecting the certificate, in OpenSSL's words.
    pub fn check(
        &self,
        own: &Certificate<'_>,
        between: &[CertificateDer<'_>],
        trusted: &[CertificateDer<'_>],
        now: i64,
        known: &WebPkiSupportedAlgorithms,
    ) -> std::result::Result<(), &'static str> {
        let between: Vec<_> = between
            .iter()
            .filter_map(|c| Certificate::parse(c))
            .collect();
        let trusted: Vec<_> = trusted
            .iter()
            .filter_map(|c| Certificate::parse(c))
            .collect();
        let lists = self.lists.iter().filter_map(|l| RevocationList::parse(l));
        let lists: Vec<_> = lists.collect();
        check_revocation(own, &between, &trusted, &lists, now, known)
    }
}
