//! OCSP checks of client certificates (`ssl_ocsp`), made while the client waits.

use super::answer::{read, Answer, Signers, Status, Trust};
use super::responder::{Failure, Responder};
use super::{now, told, Subject, RESOLVER_TIMEOUT};
use crate::tls::x509::Certificate;
use gallop_conf::model::{ErrorLog, Level, ResolverConf};
use gallop_engine::log;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The most certificates from a client's certificate to a root.
const MAX_PATH: usize = 10;
/// The value of `$ssl_client_verify` if the status is unknown.
const FAILED: &str = "certificate status request failed";

/// The settings of `ssl_ocsp` for a server block.
#[derive(Debug)]
pub struct Inquiry {
    /// Also check the authorities between the client's certificate and the root.
    pub whole: bool,
    /// `ssl_ocsp_responder`; otherwise each certificate names its responder.
    pub responder: Option<Responder>,
    pub cache: Option<Arc<Cache>>,
    /// The authorities among which issuers are looked up.
    pub trusted: Vec<CertificateDer<'static>>,
    pub resolver: Option<Arc<ResolverConf>>,
    /// `resolver_timeout` in milliseconds.
    pub resolver_timeout: Option<u64>,
    /// The error logs.
    pub logs: Arc<[ErrorLog]>,
}

/// Cached statuses that are still valid (`ssl_ocsp_cache`), by certificate id.
#[derive(Debug)]
pub struct Cache {
    most: usize,
    /// The end of validity of each, in seconds since 1970.
    answers: Mutex<HashMap<Vec<u8>, (Status, i64)>>,
}

impl Cache {
    /// The approximate size of a cached status in bytes.
    const ENTRY: u64 = 256;

    pub fn new(bytes: u64) -> Self {
        Self {
            most: usize::try_from(bytes / Self::ENTRY).unwrap_or(usize::MAX),
            answers: Mutex::default(),
        }
    }

    fn get(&self, subject: &[u8]) -> Option<Status> {
        let answers = self.answers.lock();
        let answers = answers.unwrap_or_else(PoisonError::into_inner);
        let (status, valid) = answers.get(subject)?;
        (*valid > now()).then_some(*status)
    }

    /// Cache a response that has an end of validity.
    fn put(&self, subject: Vec<u8>, answer: Answer) {
        if answer.valid == i64::MAX {
            return;
        }
        let answers = self.answers.lock();
        let mut answers = answers.unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= self.most {
            let now = now();
            answers.retain(|_, (_, valid)| *valid > now);
        }
        if answers.len() >= self.most {
            let first = answers.iter().min_by_key(|(_, (_, valid))| *valid);
            let first = first.map(|(subject, _)| subject.clone());
            first.map(|subject| answers.remove(&subject));
        }
        answers.insert(subject, (answer.status, answer.valid));
    }
}

impl Inquiry {
    /// Check the client's certificates, which are otherwise valid. Returns the reason for a
    /// rejection.
    pub async fn refuses(&self, shown: &[CertificateDer<'_>]) -> Option<&'static str> {
        let path = self.path(shown)?;
        let asked = match self.whole {
            true => path.len() - 1,
            false => 1,
        };
        for pair in path.windows(2).take(asked) {
            match self.status(&pair[0], &pair[1], &path).await {
                Some(Status::Good) => {}
                Some(Status::Revoked) => return Some("certificate revoked"),
                Some(Status::Unknown) => return Some("certificate status unknown"),
                None => return Some(FAILED),
            }
        }
        // Without an issuer there is no responder to ask.
        (path.len() == 1 && !is_root(&path[0])).then_some(FAILED)
    }

    /// The path from a client's certificate to the root, as far as it is known.
    fn path(&self, shown: &[CertificateDer<'_>]) -> Option<Vec<CertificateDer<'static>>> {
        let known = default_provider().signature_verification_algorithms;
        let shown: Vec<_> = shown.iter().map(|der| der.clone().into_owned()).collect();
        let (own, between) = shown.split_first()?;
        let mut path = vec![own.clone()];
        while path.len() < MAX_PATH && !is_root(&path[path.len() - 1]) {
            let last = Certificate::parse(&path[path.len() - 1])?;
            let mut all = self.trusted.iter().chain(between);
            let next = all.find(|der| {
                Certificate::parse(der)
                    .is_some_and(|c| c.subject == last.issuer && c.has_signed(&last, &known))
            });
            match next.cloned() {
                Some(next) => path.push(next),
                None => break,
            }
        }
        Some(path)
    }

    async fn status(
        &self,
        own: &CertificateDer<'static>,
        issuer: &CertificateDer<'static>,
        path: &[CertificateDer<'static>],
    ) -> Option<Status> {
        let (own, issuer) = (Certificate::parse(own)?, Certificate::parse(issuer)?);
        let subject = Subject::new(&own, &issuer);
        let key = subject.written();
        if let Some(known) = self.cache.as_ref().and_then(|cache| cache.get(&key)) {
            return Some(known);
        }
        let responder = self.responder(&own);
        let responder = responder.map_err(|reason| self.log(&reason)).ok()?;
        let host = responder.host.clone();
        let failed = |failure: Failure| self.log(&told(&failure, &host));
        let (body, peer) = responder.ask(&subject.request(), failed).await?;
        let signers = Signers {
            issuer: &issuer,
            chain: path,
            trusted: &self.trusted,
            trust: Trust::Issuer,
            known: &default_provider().signature_verification_algorithms,
        };
        let answer = read(&body, &subject, &signers, now());
        let failure = |reason| Failure {
            reason,
            peer: Some(peer),
        };
        let answer = answer.map_err(|reason| self.log(&told(&failure(reason), &host)));
        let answer = answer.ok()?;
        if let Some(cache) = &self.cache {
            cache.put(key, answer);
        }
        Some(answer.status)
    }

    fn responder(&self, own: &Certificate<'_>) -> Result<Responder, String> {
        if let Some(responder) = &self.responder {
            return Ok(responder.clone());
        }
        let address = own.ocsp_responder();
        let address = address.ok_or("no OCSP responder URL in certificate")?;
        let patience = self.resolver_timeout.unwrap_or(RESOLVER_TIMEOUT);
        Responder::of_client(address, self.resolver.clone(), patience)
            .map_err(|reason| format!("{reason} in OCSP responder \"{address}\" in certificate"))
    }

    fn log(&self, message: &str) {
        log::error_to(&self.logs, Level::Error, message);
    }
}

fn is_root(der: &CertificateDer<'_>) -> bool {
    Certificate::parse(der).is_some_and(|c| c.subject == c.issuer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_has_room_for_so_much() {
        let cache = Cache::new(2 * Cache::ENTRY);
        let answer = |valid| Answer {
            status: Status::Revoked,
            valid,
        };
        let later = now() + 1000;
        cache.put(b"endless".to_vec(), answer(i64::MAX));
        cache.put(b"old".to_vec(), answer(now() - 1));
        assert_eq!((cache.get(b"endless"), cache.get(b"old")), (None, None));
        cache.put(b"a".to_vec(), answer(later));
        cache.put(b"b".to_vec(), answer(later + 1));
        assert_eq!(cache.get(b"a"), Some(Status::Revoked));
        cache.put(b"c".to_vec(), answer(later + 2));
        assert_eq!(cache.get(b"a"), None);
        assert!(cache.get(b"b").is_some() && cache.get(b"c").is_some());
    }
}
