//! Certificate revocation lists (RFC 5280, section 5) of versions 1 and 2: `openssl ca -gencrl`
//! creates version 1 by default.

use super::der::{element, expect, time, INTEGER, SEQUENCE};
use super::{Certificate, Signed};
use rustls::crypto::WebPkiSupportedAlgorithms;

/// The parts of a list as slices of its DER.
#[derive(Debug)]
pub struct RevocationList<'a> {
    /// The signed bytes.
    signed: &'a [u8],
    /// 1 or 2.
    pub version: u8,
    issuer: &'a [u8],
    /// Seconds since 1970.
    next_update: Option<i64>,
    /// The entries, each starting with a serial number.
    revoked: &'a [u8],
    has_extensions: bool,
    /// Whether an extension or entry limits the use of the list.
    critical: bool,
    signature_algorithm: &'a [u8],
    signature: &'a [u8],
}

/// `[0] EXPLICIT`, the extensions; a BOOLEAN in an extension marks it as critical.
const EXTENSIONS: u8 = 0xa0;
const BOOLEAN: u8 = 0x01;

impl<'a> RevocationList<'a> {
    /// Parse a list; `None` if it is malformed.
    pub fn parse(der: &'a [u8]) -> Option<Self> {
        let Signed {
            signed,
            mut body,
            signature_algorithm,
            signature,
            ..
        } = Signed::open(der)?;
        let version = match body.first() {
            Some(&INTEGER) => expect(&mut body, INTEGER)?.last()?.checked_add(1)?,
            _ => 1,
        };
        // Skip the signature algorithm.
        expect(&mut body, SEQUENCE)?;
        let issuer = expect(&mut body, SEQUENCE)?;
        // Skip thisUpdate.
        time(&mut body)?;
        let mut rest = body;
        let next_update = time(&mut rest).inspect(|_| body = rest);
        let mut rest = body;
        let revoked = expect(&mut rest, SEQUENCE).inspect(|_| body = rest);
        Some(Self {
            signed,
            version,
            issuer,
            next_update,
            revoked: revoked.unwrap_or_default(),
            has_extensions: body.first() == Some(&EXTENSIONS),
            critical: has_critical(body)?,
            signature_algorithm,
            signature,
        })
    }

    /// Whether the list covers all certificates of its issuer: a list with a critical extension may
    /// not (RFC 5280, section 5.2).
    pub fn is_whole(&self) -> bool {
        !self.critical
    }

    /// Whether webpki accepts the list: it wants version 2 with extensions and a next update, as RFC
    /// 5280 (5.1.2.1, 5.1.2.5, 5.2) does; OpenSSL, and so nginx, needs none of these.
    pub fn is_for_webpki(&self) -> bool {
        self.version > 1 && self.has_extensions && self.next_update.is_some()
    }

    fn revokes(&self, serial: &[u8]) -> bool {
        let mut entries = self.revoked;
        while let Some(mut entry) = expect(&mut entries, SEQUENCE) {
            if expect(&mut entry, INTEGER) == Some(serial) {
                return true;
            }
        }
        false
    }
}

/// Whether any extension of the list is critical.
fn has_critical(mut rest: &[u8]) -> Option<bool> {
    while !rest.is_empty() {
        let (tag, mut contents) = element(&mut rest)?;
        if tag != EXTENSIONS {
            continue;
        }
        let mut extensions = expect(&mut contents, SEQUENCE)?;
        while let Some(mut extension) = expect(&mut extensions, SEQUENCE) {
            element(&mut extension)?;
            if extension.first() == Some(&BOOLEAN) {
                return Some(true);
            }
        }
    }
    Some(false)
}

/// Look up a certificate and all its issuers in `lists`.
///
/// # Errors
/// The reason for a rejection, in OpenSSL's words and for the highest certificate that fails: it is
/// revoked, or its list is missing, out of date, or not signed by the issuer.
pub fn check(
    own: &Certificate<'_>,
    between: &[Certificate<'_>],
    trusted: &[Certificate<'_>],
    lists: &[RevocationList<'_>],
    now: i64,
    known: &WebPkiSupportedAlgorithms,
) -> Result<(), &'static str> {
    let mut outcome = Ok(());
    let mut current = own;
    let mut anchored = false;
    for _ in 0..=between.len() + trusted.len() {
        if current.issuer == current.subject {
            return outcome;
        }
        let issued =
            |c: &&Certificate<'_>| c.subject == current.issuer && c.has_signed(current, known);
        let root = trusted.iter().find(issued);
        let Some(issuer) = root.or_else(|| between.iter().find(issued)) else {
            // A trusted certificate needs no issuer.
            return if anchored {
                outcome
            } else {
                Err("unable to get issuer certificate")
            };
        };
        if let Err(reason) = look_up(current.serial, issuer, lists, now, known) {
            outcome = Err(reason);
        }
        anchored |= root.is_some();
        current = issuer;
    }
    outcome
}

/// Look up a serial number in the lists of its issuer.
fn look_up(
    serial: &[u8],
    issuer: &Certificate<'_>,
    lists: &[RevocationList<'_>],
    now: i64,
    known: &WebPkiSupportedAlgorithms,
) -> Result<(), &'static str> {
    let mut outcome = Err("unable to get certificate CRL");
    for list in lists.iter().filter(|list| list.issuer == issuer.subject) {
        let (algorithm, signature) = (list.signature_algorithm, list.signature);
        if !issuer.has_signed_bytes(algorithm, list.signed, signature, known) {
            outcome = outcome.or(Err("CRL signature failure"));
        } else if list.revokes(serial) {
            return Err("certificate revoked");
        } else if list.next_update.is_some_and(|next| next < now) {
            outcome = outcome.or(Err("CRL has expired"));
        } else {
            outcome = Ok(());
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::super::der::{written as der, SET};
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
    use rcgen::{SerialNumber, SigningKey};
    use rustls::crypto::aws_lc_rs::default_provider;

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn params(name: &str, serial: u64) -> CertificateParams {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(serial));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    fn root() -> Authority {
        CertifiedIssuer::self_signed(params("root", 1), KeyPair::generate().unwrap()).unwrap()
    }

    fn below(name: &str, serial: u64, above: &Authority) -> Authority {
        let key = KeyPair::generate().unwrap();
        CertifiedIssuer::signed_by(params(name, serial), key, above).unwrap()
    }

    /// A list of version 1 as `openssl ca -gencrl` creates it.
    fn list(issuer: &str, key: &KeyPair, serials: &[u8], until: &str) -> Vec<u8> {
        let ecdsa_sha256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
        let algorithm = der(SEQUENCE, &[&der(OBJECT_ID, &[ecdsa_sha256])]);
        let common = der(OBJECT_ID, &[&[0x55, 4, 3]]);
        let name = der(SEQUENCE, &[&common, &der(0x0c, &[issuer.as_bytes()])]);
        let name = der(SEQUENCE, &[&der(SET, &[&name])]);
        let time = |text: &str| der(0x17, &[text.as_bytes()]);
        let entry = |serial: &u8| {
            der(
                SEQUENCE,
                &[&der(INTEGER, &[&[*serial]]), &time("240101000000Z")],
            )
        };
        let entries: Vec<Vec<u8>> = serials.iter().map(entry).collect();
        let revoked = match entries.is_empty() {
            true => Vec::new(),
            false => der(SEQUENCE, &[&entries.concat()]),
        };
        let times = [time("240101000000Z"), time(until)].concat();
        let body = der(SEQUENCE, &[&algorithm, &name, &times, &revoked]);
        let signature = key.sign(&body).unwrap();
        der(
            SEQUENCE,
            &[&body, &algorithm, &der(0x03, &[&[0], &signature])],
        )
    }

    const OBJECT_ID: u8 = 0x06;
    /// The year 2030; the end of validity of the lists below, and one in the past.
    const NOW: i64 = 1_893_456_000;
    const LATER: &str = "400101000000Z";
    const OVER: &str = "250101000000Z";

    fn judge(own: &Authority, trusted: &[&Authority], lists: &[&[u8]]) -> Result<(), &'static str> {
        let known = default_provider().signature_verification_algorithms;
        let own = Certificate::parse(own.der()).unwrap();
        let trusted: Vec<_> = trusted
            .iter()
            .map(|a| Certificate::parse(a.der()).unwrap())
            .collect();
        let lists: Vec<_> = lists
            .iter()
            .map(|l| RevocationList::parse(l).unwrap())
            .collect();
        assert!(lists.iter().all(|l| l.version == 1 && l.is_whole()));
        check(&own, &[], &trusted, &lists, NOW, &known)
    }

    #[test]
    fn a_certificate_is_looked_for_in_the_list_of_each_issuer() {
        let root = root();
        let middle = below("middle", 5, &root);
        let leaf = below("leaf", 9, &middle);
        let all = [&root, &middle];
        let empty = list("root", root.key(), &[], LATER);
        let revoking = list("root", root.key(), &[4, 5], LATER);
        let of_middle = list("middle", middle.key(), &[], LATER);
        assert_eq!(judge(&middle, &[&root], &[&empty]), Ok(()));
        assert_eq!(
            judge(&middle, &[&root], &[&revoking]),
            Err("certificate revoked")
        );
        assert_eq!(judge(&leaf, &all, &[&empty, &of_middle]), Ok(()));
        let missing = Err("unable to get certificate CRL");
        assert_eq!(judge(&leaf, &all, &[&empty]), missing);
        // The highest certificate that fails decides.
        assert_eq!(judge(&leaf, &all, &[&revoking]), Err("certificate revoked"));
    }

    #[test]
    fn a_list_must_be_signed_by_its_issuer_and_up_to_date() {
        let root = root();
        let leaf = below("leaf", 9, &root);
        let forged = list("root", &KeyPair::generate().unwrap(), &[], LATER);
        let old = list("root", root.key(), &[], OVER);
        let good = list("root", root.key(), &[], LATER);
        assert!(judge(&leaf, &[&root], &[&forged]).is_err());
        assert!(judge(&leaf, &[&root], &[&old]).is_err());
        assert_eq!(judge(&leaf, &[&root], &[&forged, &old, &good]), Ok(()));
    }

    #[test]
    fn no_prefix_of_a_list_is_one() {
        let root = root();
        let whole = list("root", root.key(), &[1, 2], LATER);
        assert!((0..whole.len()).all(|n| RevocationList::parse(&whole[..n]).is_none()));
    }
}
