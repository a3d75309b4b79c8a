//! OCSP stapling (RFC 6066, section 8). Responses are fetched in the background; no handshake waits
//! for them. As in nginx, the first handshake after the start triggers the first request.

use super::answer::{read, Answer, Signers, Status, Trust};
use super::responder::{Failure, Responder};
use super::{check_file, now, told, Subject, RESOLVER_TIMEOUT};
use crate::tls::x509::Certificate;
use crate::tls::{Result, TlsError};
use gallop_conf::model::{ErrorLog, Level, ResolverConf};
use gallop_engine::log;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Seconds between requests: without a valid response, and the least and most with one.
const AGAIN: i64 = 300;
const AGAIN_AT_MOST: i64 = 3600;

/// The settings of `ssl_stapling` for a server block.
#[derive(Clone, Default)]
pub struct Stapler {
    /// `ssl_stapling_file`: a response in DER.
    pub file: Option<PathBuf>,
    /// `ssl_stapling_responder`; otherwise each certificate names its responder.
    pub responder: Option<String>,
    /// `ssl_stapling_verify`.
    pub verify: bool,
    /// The authorities among which issuers are looked up.
    pub trusted: Vec<CertificateDer<'static>>,
    pub resolver: Option<Arc<ResolverConf>>,
    /// `resolver_timeout` in milliseconds.
    pub resolver_timeout: Option<u64>,
    /// The error logs.
    pub logs: Arc<[ErrorLog]>,
}

/// The stapled response of a certificate.
pub struct Staple {
    /// The path of the certificate.
    name: String,
    /// The certificate and its key, without a response.
    plain: Arc<CertifiedKey>,
    issuer: CertificateDer<'static>,
    subject: Subject,
    trust: Trust,
    trusted: Vec<CertificateDer<'static>>,
    responder: Responder,
    logs: Arc<[ErrorLog]>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The pair with a response, and the end of its validity (seconds since 1970).
    stapled: Option<(Arc<CertifiedKey>, i64)>,
    /// The time of the next request, in seconds since 1970.
    refresh: i64,
    is_loading: bool,
}

impl std::fmt::Debug for Staple {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staple").field("name", &self.name).finish()
    }
}

/// The time of the next request for a response that is valid until `valid`: before that, within
/// limits.
fn refresh(valid: i64, now: i64) -> i64 {
    let before_end = valid.saturating_sub(AGAIN);
    before_end.min(now + AGAIN_AT_MOST).max(now + AGAIN)
}

impl Stapler {
    /// Staple the response of `ssl_stapling_file` to a certificate.
    ///
    /// # Errors
    /// The file cannot be read or holds no response.
    pub fn put_file(&self, pair: &mut CertifiedKey) -> Result<bool> {
        let Some(path) = &self.file else {
            return Ok(false);
        };
        let broken = |e: &dyn std::fmt::Display| {
            let path = path.display();
            TlsError(format!("cannot load ssl_stapling_file \"{path}\": {e}"))
        };
        let answer = std::fs::read(path).map_err(|e| broken(&e))?;
        check_file(&answer).map_err(|e| broken(&e))?;
        pair.ocsp = Some(answer);
        Ok(true)
    }

    /// Prepare the requests for the certificate with this name.
    ///
    /// # Errors
    /// The reason why there will be no stapling: a warning in nginx's words.
    pub fn staple(
        &self,
        name: &str,
        plain: &Arc<CertifiedKey>,
    ) -> std::result::Result<Staple, String> {
        let ignored = |reason: &str| format!("\"ssl_stapling\" ignored, {reason}");
        let own = plain.cert.first();
        let own = own.and_then(|der| Certificate::parse(der));
        let own = own.ok_or_else(|| ignored(&format!("malformed certificate \"{name}\"")))?;
        let known = default_provider().signature_verification_algorithms;
        let issued = |der: &&CertificateDer<'static>| {
            Certificate::parse(der)
                .is_some_and(|c| c.subject == own.issuer && c.has_signed(&own, &known))
        };
        let mut candidates = plain.cert[1..].iter().chain(&self.trusted);
        let issuer = candidates.find(issued).ok_or_else(|| {
            ignored(&format!(
                "issuer certificate not found for certificate \"{name}\""
            ))
        })?;
        let address = self.responder.as_deref().or_else(|| own.ocsp_responder());
        let address = address.ok_or_else(|| {
            ignored(&format!(
                "no OCSP responder URL in the certificate \"{name}\""
            ))
        })?;
        let patience = self.resolver_timeout.unwrap_or(RESOLVER_TIMEOUT);
        let responder = Responder::new(address, self.resolver.clone(), patience);
        let responder = responder.map_err(|reason| {
            ignored(&format!(
                "{reason} in OCSP responder \"{address}\" in the certificate \"{name}\""
            ))
        })?;
        let parsed = Certificate::parse(issuer).expect("parsed above");
        Ok(Staple {
            name: name.to_string(),
            subject: Subject::new(&own, &parsed),
            plain: plain.clone(),
            issuer: issuer.clone(),
            trust: if self.verify {
                Trust::ChainOrIssuer
            } else {
                Trust::Anybody
            },
            trusted: self.trusted.clone(),
            responder,
            logs: self.logs.clone(),
            state: Mutex::default(),
        })
    }
}

impl Staple {
    fn with_state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The pair to present now. If it is time, the responder is asked in the background.
    pub fn current(self: &Arc<Self>) -> Arc<CertifiedKey> {
        let now = now();
        let (shown, due) = self.with_state(|state| {
            let due = !state.is_loading && state.refresh < now;
            state.is_loading |= due;
            let stapled = state.stapled.as_ref().filter(|(_, valid)| *valid >= now);
            (stapled.map(|(pair, _)| pair.clone()), due)
        });
        if due {
            let staple = self.clone();
            gallop_runtime::spawn(async move { staple.load().await });
        }
        shown.unwrap_or_else(|| self.plain.clone())
    }

    async fn load(&self) {
        let request = self.subject.request();
        let asked = self.responder.ask(&request, |failure| self.log(&failure));
        let got = asked.await.and_then(|(body, peer)| {
            let answer = self.judge(&body, peer)?;
            Some((body, answer))
        });
        let now = now();
        self.with_state(|state| {
            state.is_loading = false;
            state.refresh = now + AGAIN;
            if let Some((body, answer)) = got {
                let mut pair = (*self.plain).clone();
                pair.ocsp = Some(body);
                state.stapled = Some((Arc::new(pair), answer.valid));
                state.refresh = refresh(answer.valid, now);
            }
        });
    }

    /// The response's status, if it may be stapled.
    fn judge(&self, body: &[u8], peer: SocketAddr) -> Option<Answer> {
        let issuer = Certificate::parse(&self.issuer)?;
        let signers = Signers {
            issuer: &issuer,
            chain: &self.plain.cert[1..],
            trusted: &self.trusted,
            trust: self.trust,
            known: &default_provider().signature_verification_algorithms,
        };
        let reason = match read(body, &self.subject, &signers, now()) {
            Ok(answer) if answer.status == Status::Good => return Some(answer),
            Ok(answer) => {
                let status = answer.status.name();
                format!("certificate status \"{status}\" in the OCSP response")
            }
            Err(reason) => reason,
        };
        let peer = Some(peer);
        self.log(&Failure { reason, peer });
        None
    }

    fn log(&self, failure: &Failure) {
        let (what, name) = (told(failure, &self.responder.host), &self.name);
        let message = format!("{what}, certificate: \"{name}\"");
        log::error_to(&self.logs, Level::Error, &message);
    }
}

#[cfg(test)]
mod tests {
    use super::refresh;

    #[test]
    fn answers_are_renewed_before_they_end() {
        assert_eq!(refresh(i64::MAX, 1000), 1000 + 3600);
        assert_eq!(refresh(3000, 1000), 2700);
        assert_eq!(refresh(1100, 1000), 1300);
    }
}
