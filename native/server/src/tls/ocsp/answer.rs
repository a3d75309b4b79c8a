//! OCSP responses (RFC 6960, section 4.2).

use super::{sha1, Subject};
use crate::tls::x509::der::{
    element, expect, time, ENUMERATED, GENERALIZED_TIME, OBJECT, OCTET_STRING, SEQUENCE,
};
use crate::tls::x509::{Certificate, Signed};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::CertificateDer;

/// id-pkix-ocsp-basic.
const BASIC: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 48, 1, 1];
/// `[0]` to `[2]`, EXPLICIT.
const TAGGED: [u8; 3] = [0xa0, 0xa1, 0xa2];
/// `good` is `[0] IMPLICIT NULL`; `revoked` is `[1] IMPLICIT` of a sequence.
const GOOD: u8 = 0x80;
const REVOKED: u8 = 0xa1;

/// The tolerated clock difference in seconds.
const SKEW: i64 = 300;
/// The most certificates between a signer and a root.
const MAX_STEPS: usize = 8;

/// The status of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Good,
    Revoked,
    Unknown,
}

impl Status {
    /// OpenSSL's name for the status.
    pub fn name(self) -> &'static str {
        match self {
            Status::Good => "good",
            Status::Revoked => "revoked",
            Status::Unknown => "unknown",
        }
    }
}

/// A status and the end of its validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    /// Seconds since 1970. Without `nextUpdate` the status has no end.
    pub valid: i64,
}

/// The certificates that may sign a response.
pub struct Signers<'a> {
    pub issuer: &'a Certificate<'a>,
    /// Known certificates besides those in the response.
    pub chain: &'a [CertificateDer<'static>],
    /// Trusted authorities.
    pub trusted: &'a [CertificateDer<'static>],
    pub trust: Trust,
    pub known: &'a WebPkiSupportedAlgorithms,
}

/// The required authority of a signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// A valid signature suffices: clients that receive the response verify the signer themselves.
    Anybody,
    /// A certificate of `chain`, or the rule below.
    ChainOrIssuer,
    /// The certificate's issuer or a delegate of it.
    Issuer,
}

type Result<T> = std::result::Result<T, String>;

/// The parts of a basic response.
struct Basic<'a> {
    signed: Signed<'a>,
    /// Tag and contents of the responder's name or key hash.
    responder: (u8, &'a [u8]),
    responses: &'a [u8],
}

/// The bytes of the basic response inside a response.
///
/// # Errors
/// The response is malformed or reports an error.
fn basic(der: &[u8]) -> Result<&[u8]> {
    let malformed = || "d2i_OCSP_RESPONSE() failed (malformed answer)".to_string();
    let mut outer = der;
    let mut whole = expect(&mut outer, SEQUENCE).ok_or_else(malformed)?;
    let status = expect(&mut whole, ENUMERATED).ok_or_else(malformed)?;
    if status != [0] {
        let number = status.first().copied().unwrap_or_default();
        let words = refusal(number);
        return Err(format!("OCSP response not successful ({number}: {words})"));
    }
    inside(whole).ok_or_else(|| "OCSP_response_get1_basic() failed (no basic answer)".into())
}

/// The basic response in the `responseBytes` field.
fn inside(mut rest: &[u8]) -> Option<&[u8]> {
    let mut explicit = expect(&mut rest, TAGGED[0])?;
    let mut bytes = expect(&mut explicit, SEQUENCE)?;
    let kind = expect(&mut bytes, OBJECT)?;
    (kind == BASIC).then(|| expect(&mut bytes, OCTET_STRING))?
}

/// The name of an error status (RFC 6960, section 4.2.1).
fn refusal(status: u8) -> &'static str {
    match status {
        1 => "malformedrequest",
        2 => "internalerror",
        3 => "trylater",
        5 => "sigrequired",
        6 => "unauthorized",
        _ => "(UNKNOWN)",
    }
}

/// Check that a file holds a response, with any status.
///
/// # Errors
/// It does not.
pub fn check_file(der: &[u8]) -> Result<()> {
    basic(der).map(drop)
}

impl<'a> Basic<'a> {
    fn parse(der: &'a [u8]) -> Option<Self> {
        let signed = Signed::open(der)?;
        let mut body = signed.body;
        let mut responder = element(&mut body)?;
        if responder.0 == TAGGED[0] {
            // Skip the version.
            responder = element(&mut body)?;
        }
        expect(&mut body, GENERALIZED_TIME)?;
        let responses = expect(&mut body, SEQUENCE)?;
        Some(Self {
            signed,
            responder,
            responses,
        })
    }

    /// The certificates in the response.
    fn certificates(&self) -> Vec<CertificateDer<'a>> {
        let mut rest = self.signed.rest;
        let mut explicit = expect(&mut rest, TAGGED[0]).unwrap_or_default();
        let mut list = expect(&mut explicit, SEQUENCE).unwrap_or_default();
        let mut found = Vec::new();
        loop {
            let before = list;
            if expect(&mut list, SEQUENCE).is_none() {
                return found;
            }
            found.push(CertificateDer::from(&before[..before.len() - list.len()]));
        }
    }

    fn is_by(&self, certificate: &Certificate<'_>) -> bool {
        let (tag, mut contents) = self.responder;
        if tag == TAGGED[1] {
            return expect(&mut contents, SEQUENCE) == Some(certificate.subject);
        }
        tag == TAGGED[2] && expect(&mut contents, OCTET_STRING) == Some(&sha1(certificate.key))
    }

    /// The status of the wanted certificate.
    fn find(&self, wanted: &Subject) -> Option<(Status, i64, Option<i64>)> {
        let mut responses = self.responses;
        while let Some(mut single) = expect(&mut responses, SEQUENCE) {
            let id = expect(&mut single, SEQUENCE)?;
            if Subject::parse(id).as_ref() != Some(wanted) {
                continue;
            }
            let status = match element(&mut single)? {
                (GOOD, _) => Status::Good,
                (REVOKED, _) => Status::Revoked,
                _ => Status::Unknown,
            };
            let this = time(&mut single)?;
            let next = expect(&mut single, TAGGED[0]);
            let next = next.map(|mut next| time(&mut next).ok_or(()));
            return Some((status, this, next.transpose().ok()?));
        }
        None
    }
}

/// Read the status of a certificate and verify the response at this time, in seconds since 1970.
///
/// # Errors
/// The reason for rejecting the response, in nginx's words where it has some.
pub fn read(der: &[u8], subject: &Subject, signers: &Signers<'_>, now: i64) -> Result<Answer> {
    let basic = Basic::parse(basic(der)?)
        .ok_or("OCSP_response_get1_basic() failed (malformed basic answer)")?;
    signers
        .verify(&basic, now)
        .map_err(|reason| format!("OCSP_basic_verify() failed ({reason})"))?;
    let (status, this, next) = basic
        .find(subject)
        .ok_or("certificate status not found in the OCSP response")?;
    let unfit = |reason| Err(format!("OCSP_check_validity() failed ({reason})"));
    if this > now + SKEW {
        return unfit("status not yet valid");
    }
    if next.is_some_and(|next| next < now - SKEW) {
        return unfit("status expired");
    }
    if next.is_some_and(|next| next < this) {
        return unfit("nextupdate before thisupdate");
    }
    let valid = next.unwrap_or(i64::MAX);
    Ok(Answer { status, valid })
}

impl Signers<'_> {
    fn verify(&self, basic: &Basic<'_>, now: i64) -> std::result::Result<(), &'static str> {
        let sent = basic.certificates();
        let ours = self.chain.iter().filter_map(|c| Certificate::parse(c));
        let ours: Vec<_> = ours.filter(|c| basic.is_by(c)).collect();
        let mut theirs = sent.iter().filter_map(|c| Certificate::parse(c));
        let theirs = theirs.find(|c| basic.is_by(c));
        let issuer = Some(self.issuer).filter(|c| basic.is_by(c));
        let signer = ours.first().or(issuer).or(theirs.as_ref());
        let signer = signer.ok_or("signer certificate not found")?;
        if !basic.signed.is_by(signer, self.known) {
            return Err("signature failure");
        }
        let is_free = match self.trust {
            Trust::Anybody => true,
            Trust::ChainOrIssuer => !ours.is_empty(),
            Trust::Issuer => false,
        };
        if is_free {
            return Ok(());
        }
        self.verify_signer(signer, &sent, now)
    }

    /// Check that the signer is the certificate's issuer or its delegate (RFC 6960, section
    /// 4.2.2.2).
    fn verify_signer(
        &self,
        signer: &Certificate<'_>,
        sent: &[CertificateDer<'_>],
        now: i64,
    ) -> std::result::Result<(), &'static str> {
        let is_issuer = signer.key == self.issuer.key && signer.subject == self.issuer.subject;
        if !is_issuer {
            if signer.issuer != self.issuer.subject || !self.issuer.has_signed(signer, self.known) {
                return Err("root ca not trusted");
            }
            if !signer.may_sign_ocsp() {
                return Err("missing ocspsigning usage");
            }
            if !signer.is_valid_at(now) {
                return Err("certificate has expired");
            }
        }
        if self.leads_to_root(signer, sent, now) {
            return Ok(());
        }
        Err("certificate verify error: unable to get issuer certificate")
    }

    fn leads_to_root(
        &self,
        signer: &Certificate<'_>,
        sent: &[CertificateDer<'_>],
        now: i64,
    ) -> bool {
        let parse = |der| Certificate::parse(der);
        let trusted: Vec<_> = self.trusted.iter().filter_map(|c| parse(c)).collect();
        let between = self.chain.iter().chain(sent).filter_map(|c| parse(c));
        let between: Vec<_> = between.collect();
        let mut at = signer;
        for _ in 0..MAX_STEPS {
            let mut parents = trusted.iter().filter(|c| {
                c.subject == at.issuer && c.is_valid_at(now) && c.has_signed(at, self.known)
            });
            if parents.clone().any(|c| c.issuer == c.subject) {
                return true;
            }
            let mut untrusted = between.iter().filter(|c| {
                c.subject == at.issuer
                    && c.issuer != c.subject
                    && c.is_valid_at(now)
                    && c.has_signed(at, self.known)
            });
            match parents.next().or_else(|| untrusted.next()) {
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
