//! Tests with OCSP responses that are signed by authorities of the tests.

use super::*;
use crate::tls::x509::der::{written, BIT_STRING};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SigningKey,
};

const NOW: i64 = 1_790_000_000;
/// ecdsa-with-SHA256.
const ALGORITHM: &[u8] = &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

struct Authority(CertifiedIssuer<'static, KeyPair>);

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// A certificate and its key.
    fn issue(&self, name: &str, purposes: &[ExtendedKeyUsagePurpose]) -> Signer {
        let mut params = named(name);
        params.extended_key_usages = purposes.to_vec();
        let key = KeyPair::generate().unwrap();
        let der = params.signed_by(&key, &self.0).unwrap().der().clone();
        Signer { der, key }
    }

    fn itself(&self) -> (CertificateDer<'static>, &KeyPair) {
        (self.der(), self.0.key())
    }
}

struct Signer {
    der: CertificateDer<'static>,
    key: KeyPair,
}

fn generalized(seconds: i64) -> Vec<u8> {
    let days = seconds.div_euclid(86_400);
    // 2026-09-21 is day 20717; all times in these tests are close to it.
    let day = 21 + days - 20_717;
    let rest = seconds.rem_euclid(86_400);
    let text = format!(
        "202609{day:02}{:02}{:02}{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    );
    written(GENERALIZED_TIME, &[text.as_bytes()])
}

/// The content of a response before it is signed.
struct Said {
    subject: Vec<u8>,
    status: Vec<u8>,
    this: i64,
    next: Option<i64>,
}

fn said(subject: &Subject, status: u8) -> Said {
    let contents: &[&[u8]] = match status {
        REVOKED => &[&generalized(NOW - 1000)],
        _ => &[],
    };
    Said {
        subject: subject.written(),
        status: written(status, contents),
        this: NOW - 60,
        next: Some(NOW + 600),
    }
}

/// Sign a response with a key and include a certificate.
fn signed(said: &Said, by: &CertificateDer<'_>, key: &KeyPair, send: bool) -> Vec<u8> {
    let signer = Certificate::parse(by).unwrap();
    let next = said.next.map(|at| written(TAGGED[0], &[&generalized(at)]));
    let parts = [
        said.subject.clone(),
        said.status.clone(),
        generalized(said.this),
        next.unwrap_or_default(),
    ];
    let single = written(SEQUENCE, &[&parts.concat()]);
    let data = written(
        SEQUENCE,
        &[
            &written(TAGGED[1], &[&signer.subject_der()]),
            &generalized(said.this),
            &written(SEQUENCE, &[&single]),
        ],
    );
    let signature = [vec![0], key.sign(&data).unwrap()].concat();
    let sent = written(TAGGED[0], &[&written(SEQUENCE, &[by])]);
    let basic = written(
        SEQUENCE,
        &[
            &data,
            &written(SEQUENCE, &[ALGORITHM]),
            &written(BIT_STRING, &[&signature]),
            if send { &sent } else { &[] },
        ],
    );
    let bytes = [written(OBJECT, &[BASIC]), written(OCTET_STRING, &[&basic])];
    let bytes = written(TAGGED[0], &[&written(SEQUENCE, &[&bytes.concat()])]);
    written(SEQUENCE, &[&written(ENUMERATED, &[&[0]]), &bytes])
}

struct Case {
    authority: Authority,
    own: Signer,
}

impl Case {
    fn new() -> Self {
        let authority = Authority::new("authority");
        let own = authority.issue("own", &[]);
        Self { authority, own }
    }

    fn subject(&self) -> Subject {
        let issuer = self.authority.der();
        Subject::new(
            &Certificate::parse(&self.own.der).unwrap(),
            &Certificate::parse(&issuer).unwrap(),
        )
    }

    fn read(&self, answer: &[u8], trust: Trust) -> Result<Answer> {
        let known = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        let issuer = self.authority.der();
        let signers = Signers {
            issuer: &Certificate::parse(&issuer).unwrap(),
            chain: &[],
            trusted: std::slice::from_ref(&issuer),
            trust,
            known: &known,
        };
        read(answer, &self.subject(), &signers, NOW)
    }

    fn by_authority(&self, said: &Said) -> Vec<u8> {
        let (der, key) = self.authority.itself();
        signed(said, &der, key, false)
    }
}

#[test]
fn what_the_issuer_says_is_believed() {
    let case = Case::new();
    for (tag, status) in [
        (GOOD, Status::Good),
        (REVOKED, Status::Revoked),
        (0x82, Status::Unknown),
    ] {
        let answer = case.by_authority(&said(&case.subject(), tag));
        let valid = NOW + 600;
        for trust in [Trust::Anybody, Trust::ChainOrIssuer] {
            assert_eq!(case.read(&answer, trust), Ok(Answer { status, valid }));
        }
    }
    let without_end = Said {
        next: None,
        ..said(&case.subject(), GOOD)
    };
    let answer = case.read(&case.by_authority(&without_end), Trust::ChainOrIssuer);
    assert_eq!(answer.map(|a| a.valid), Ok(i64::MAX));
}

#[test]
fn only_who_acts_for_the_issuer_is_believed_where_signers_are_judged() {
    let case = Case::new();
    let said = said(&case.subject(), GOOD);
    let purposes = [ExtendedKeyUsagePurpose::OcspSigning];
    let delegate = case.authority.issue("delegate", &purposes);
    let answer = signed(&said, &delegate.der, &delegate.key, true);
    assert!(case.read(&answer, Trust::ChainOrIssuer).is_ok());
    let colleague = case.authority.issue("colleague", &[]);
    let stranger = Authority::new("stranger");
    let (stranger, strange_key) = stranger.itself();
    for (der, key, reason) in [
        (&colleague.der, &colleague.key, "missing ocspsigning usage"),
        (&stranger, strange_key, "root ca not trusted"),
    ] {
        let answer = signed(&said, der, key, true);
        let refused = case.read(&answer, Trust::ChainOrIssuer).unwrap_err();
        assert_eq!(refused, format!("OCSP_basic_verify() failed ({reason})"));
        assert!(case.read(&answer, Trust::Anybody).is_ok());
    }
    let answer = signed(&said, &stranger, strange_key, false);
    let refused = case.read(&answer, Trust::Anybody).unwrap_err();
    assert!(
        refused.contains("signer certificate not found"),
        "{refused}"
    );
    // Signed by one delegate, with the name and certificate of the other.
    let answer = signed(&said, &delegate.der, &colleague.key, true);
    let refused = case.read(&answer, Trust::Anybody).unwrap_err();
    assert!(refused.contains("signature failure"), "{refused}");
}

#[test]
fn answers_of_other_times_and_certificates_are_refused() {
    let case = Case::new();
    let refused = |said: &Said| {
        let answer = case.by_authority(said);
        case.read(&answer, Trust::ChainOrIssuer).unwrap_err()
    };
    let good = || said(&case.subject(), GOOD);
    let mut late = good();
    (late.this, late.next) = (NOW - 1000, Some(NOW - SKEW - 1));
    assert!(refused(&late).contains("status expired"));
    let mut early = good();
    (early.this, early.next) = (NOW + SKEW + 1, None);
    assert!(refused(&early).contains("status not yet valid"));
    let mut other = case.subject();
    other.serial[0] ^= 1;
    assert!(refused(&said(&other, GOOD)).contains("certificate status not found"));
}

#[test]
fn no_part_and_no_damaged_copy_of_an_answer_is_one() {
    let case = Case::new();
    let answer = case.by_authority(&said(&case.subject(), GOOD));
    for end in 0..answer.len() {
        assert!(case.read(&answer[..end], Trust::Anybody).is_err());
    }
    let read = case.read(&answer, Trust::Anybody);
    for at in 0..answer.len() {
        let mut damaged = answer.clone();
        damaged[at] ^= 1;
        let found = case.read(&damaged, Trust::Anybody);
        assert!(found.is_err() || found == read, "byte {at}");
    }
    let refusal = written(SEQUENCE, &[&written(ENUMERATED, &[&[6]])]);
    let refused = case.read(&refusal, Trust::Anybody).unwrap_err();
    assert_eq!(refused, "OCSP response not successful (6: unauthorized)");
}
