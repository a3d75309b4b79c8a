//! OCSP (RFC 6960): responses that are stapled to the server's certificates (`ssl_stapling`), and
//! checks of client certificates (`ssl_ocsp`).

mod answer;
mod clients;
mod responder;
mod staple;

pub use answer::check_file;
pub use clients::{Cache, Inquiry};
pub use responder::Responder;
pub use staple::{Staple, Stapler};

use super::x509::der::{expect, written, INTEGER, NULL, OBJECT, OCTET_STRING, SEQUENCE};
use super::x509::Certificate;
use aws_lc_rs::digest::{digest, SHA1_FOR_LEGACY_USE_ONLY};
use responder::Failure;
use rustls::pki_types::UnixTime;

/// The default of `resolver_timeout` in milliseconds.
pub const RESOLVER_TIMEOUT: u64 = 30_000;

/// Seconds since 1970.
fn now() -> i64 {
    i64::try_from(UnixTime::now().as_secs()).unwrap_or(i64::MAX)
}

/// Word a failure as nginx does.
fn told(failure: &Failure, host: &str) -> String {
    let reason = &failure.reason;
    let peer = failure.peer.map(|peer| format!(", peer: {peer}"));
    let peer = peer.unwrap_or_default();
    format!("{reason} while requesting certificate status, responder: {host}{peer}")
}

/// id-sha1.
const SHA1: &[u8] = &[0x2b, 0x0e, 3, 2, 0x1a];

/// The certificate in a request (RFC 6960, section 4.1.1). The hashes use SHA-1, which every
/// responder supports; no security depends on them.
#[derive(Debug, PartialEq, Eq)]
struct Subject {
    issuer: Vec<u8>,
    issuer_key: Vec<u8>,
    serial: Vec<u8>,
}

fn sha1(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec()
}

impl Subject {
    fn new(certificate: &Certificate<'_>, issuer: &Certificate<'_>) -> Self {
        Self {
            issuer: sha1(&issuer.subject_der()),
            issuer_key: sha1(issuer.key),
            serial: certificate.serial.to_vec(),
        }
    }

    /// Parse the contents of a `CertID`; `None` if it is malformed or uses another hash.
    fn parse(mut id: &[u8]) -> Option<Self> {
        let mut hash = expect(&mut id, SEQUENCE)?;
        if expect(&mut hash, OBJECT)? != SHA1 {
            return None;
        }
        Some(Self {
            issuer: expect(&mut id, OCTET_STRING)?.to_vec(),
            issuer_key: expect(&mut id, OCTET_STRING)?.to_vec(),
            serial: expect(&mut id, INTEGER)?.to_vec(),
        })
    }

    /// Encode as DER.
    fn written(&self) -> Vec<u8> {
        let hash = written(SEQUENCE, &[&written(OBJECT, &[SHA1]), &written(NULL, &[])]);
        let issuer = written(OCTET_STRING, &[&self.issuer]);
        let key = written(OCTET_STRING, &[&self.issuer_key]);
        written(
            SEQUENCE,
            &[&hash, &issuer, &key, &written(INTEGER, &[&self.serial])],
        )
    }

    /// A request for this certificate alone.
    fn request(&self) -> Vec<u8> {
        let list = written(SEQUENCE, &[&written(SEQUENCE, &[&self.written()])]);
        written(SEQUENCE, &[&written(SEQUENCE, &[&list])])
    }
}
