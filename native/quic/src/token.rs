//! Stateless tokens: address validation tokens (RFC 9000, section 8.1) and stateless resets
//! (section 10.3).

use crate::cid::ConnectionId;
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, AES_256_GCM};
use aws_lc_rs::hmac;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The length of a stateless reset token.
pub const RESET_LEN: usize = 16;
/// The length of a packet's or token's authentication tag.
const TAG: usize = 16;
const NONCE: usize = aead::NONCE_LEN;
/// The validity of a Retry token: a few round trips.
const RETRY_LIFE: Duration = Duration::from_secs(15);
/// The validity of a token for a later connection.
const NEW_LIFE: Duration = Duration::from_secs(24 * 3600);
/// The number of used tokens that are stored to prevent reuse. With more, the oldest are dropped,
/// which section 8.1.4 allows.
const USED: usize = 4096;

const KIND_RETRY: u8 = 1;
const KIND_NEW: u8 = 2;

/// Random bytes.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without random numbers nothing about a connection is secure, including its TLS.
    aws_lc_rs::rand::fill(&mut bytes).expect("the system gives random numbers");
    bytes
}

/// The result of checking a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// A Retry token for a packet to this connection id.
    Retried(ConnectionId),
    /// A token from an earlier connection.
    Known,
    /// An unknown or expired token.
    Unknown,
    /// A Retry token for another address, or too old.
    Invalid,
}

/// Creates and checks tokens.
pub struct Tokens {
    seal: LessSafeKey,
    reset: hmac::Key,
    /// The creation time, also in milliseconds since 1970.
    start: Instant,
    unix_ms: u64,
    used: VecDeque<[u8; NONCE]>,
}

fn key<const N: usize>(algorithm: &'static aead::Algorithm, bytes: &[u8; N]) -> LessSafeKey {
    let key = UnboundKey::new(algorithm, bytes);
    LessSafeKey::new(key.expect("the key has the algorithm's length"))
}

/// The address as it is sealed in; a token for later connections omits the port.
fn address(remote: SocketAddr, with_port: bool) -> Vec<u8> {
    let mut bytes = match remote.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    if with_port {
        bytes.extend_from_slice(&remote.port().to_be_bytes());
    }
    bytes
}

/// The secret from the contents of a key file that several servers share.
pub fn secret_of(key: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key);
    let mut secret = [0; 32];
    secret.copy_from_slice(digest.as_ref());
    secret
}

impl Tokens {
    /// Derive the keys from `secret`. `resets`: also those of stateless resets, so that every
    /// server with the secret can reset the connections of all.
    pub fn new(secret: &[u8; 32], resets: bool, start: Instant, unix_ms: u64) -> Self {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let derived = |label: &[u8]| -> [u8; 32] {
            let tag = hmac::sign(&secret, label);
            let mut key = [0; 32];
            key.copy_from_slice(tag.as_ref());
            key
        };
        let reset = if resets {
            derived(b"stateless reset")
        } else {
            random()
        };
        Self {
            seal: key(&AES_256_GCM, &derived(b"address validation")),
            reset: hmac::Key::new(hmac::HMAC_SHA256, &reset),
            start,
            unix_ms,
            used: VecDeque::new(),
        }
    }

    /// Milliseconds since 1970.
    fn time(&self, now: Instant) -> u64 {
        self.unix_ms + now.saturating_duration_since(self.start).as_millis() as u64
    }

    fn make(&self, kind: u8, remote: SocketAddr, now: Instant, content: &[u8]) -> Vec<u8> {
        let nonce = random::<NONCE>();
        let mut sealed = self.time(now).to_be_bytes().to_vec();
        sealed.extend_from_slice(content);
        let aad = Aad::from(address(remote, kind == KIND_RETRY));
        let nonce_key = Nonce::assume_unique_for_key(nonce);
        let result = self
            .seal
            .seal_in_place_append_tag(nonce_key, aad, &mut sealed);
        result.expect("a token is short");
        let mut token = vec![kind];
        token.extend_from_slice(&nonce);
        token.extend_from_slice(&sealed);
        token
    }

    /// A token for a Retry packet that responds to a packet to the connection id `original`.
    pub fn retry(&self, remote: SocketAddr, now: Instant, original: &ConnectionId) -> Vec<u8> {
        self.make(KIND_RETRY, remote, now, original.as_slice())
    }

    /// A token for the client's next connections.
    pub fn for_later(&self, remote: SocketAddr, now: Instant) -> Vec<u8> {
        self.make(KIND_NEW, remote, now, &[])
    }

    /// Check a token from `remote`.
    pub fn judge(&mut self, token: &[u8], remote: SocketAddr, now: Instant) -> Judgement {
        let Some((&kind, rest)) = token.split_first() else {
            return Judgement::Unknown;
        };
        let Some((nonce, sealed)) = rest.split_first_chunk::<NONCE>() else {
            return Judgement::Unknown;
        };
        // Section 8.1.3: an invalid token that is not from a Retry packet is ignored.
        let (life, refusal) = match kind {
            KIND_RETRY => (RETRY_LIFE, Judgement::Invalid),
            KIND_NEW => (NEW_LIFE, Judgement::Unknown),
            _ => return Judgement::Unknown,
        };
        let aad = Aad::from(address(remote, kind == KIND_RETRY));
        let mut content = sealed.to_vec();
        let nonce_key = Nonce::assume_unique_for_key(*nonce);
        let Ok(opened) = self.seal.open_in_place(nonce_key, aad, &mut content) else {
            return refusal;
        };
        let Some((issued, original)) = opened.split_first_chunk::<8>() else {
            return refusal;
        };
        let age = self.time(now).saturating_sub(u64::from_be_bytes(*issued));
        if u128::from(age) > life.as_millis() {
            return refusal;
        }
        if kind == KIND_RETRY {
            return ConnectionId::new(original).map_or(refusal, Judgement::Retried);
        }
        if self.used.contains(nonce) {
            return refusal;
        }
        if self.used.len() == USED {
            self.used.pop_front();
        }
        self.used.push_back(*nonce);
        Judgement::Known
    }

    /// The token that resets the connection with this id of ours.
    pub fn reset(&self, id: &ConnectionId) -> [u8; RESET_LEN] {
        let tag = hmac::sign(&self.reset, id.as_slice());
        let mut token = [0; RESET_LEN];
        token.copy_from_slice(&tag.as_ref()[..RESET_LEN]);
        token
    }
}

/// The tag at the end of a Retry packet (RFC 9001, section 5.8).
pub fn retry_tag(original: &ConnectionId, packet: &[u8]) -> [u8; TAG] {
    const KEY: [u8; 16] = [
        0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8,
        0x4e,
    ];
    const RETRY_NONCE: [u8; NONCE] = [
        0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
    ];
    let mut pseudo = vec![original.len() as u8];
    pseudo.extend_from_slice(original.as_slice());
    pseudo.extend_from_slice(packet);
    let nonce = Nonce::assume_unique_for_key(RETRY_NONCE);
    let sealed =
        key(&AES_128_GCM, &KEY).seal_in_place_separate_tag(nonce, Aad::from(pseudo), &mut []);
    let mut tag = [0; TAG];
    tag.copy_from_slice(sealed.expect("nothing is short").as_ref());
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    #[test]
    fn tokens_are_good_for_their_address_and_time() {
        let now = Instant::now();
        let mut tokens = Tokens::new(&[7; 32], false, now, 1_000_000);
        let id = ConnectionId::new(b"original").unwrap();
        let token = tokens.retry(remote(1), now, &id);
        assert_eq!(tokens.judge(&token, remote(1), now), Judgement::Retried(id));
        assert_eq!(tokens.judge(&token, remote(2), now), Judgement::Invalid);
        let later = now + RETRY_LIFE + Duration::from_secs(1);
        assert_eq!(tokens.judge(&token, remote(1), later), Judgement::Invalid);
        assert_eq!(tokens.judge(&[], remote(1), now), Judgement::Unknown);
        assert_eq!(tokens.judge(&[9; 40], remote(1), now), Judgement::Unknown);
        assert_eq!(tokens.judge(&[1; 40], remote(1), now), Judgement::Invalid);
    }

    #[test]
    fn a_token_for_later_is_good_once_from_any_port() {
        let now = Instant::now();
        let mut tokens = Tokens::new(&[7; 32], false, now, 1_000_000);
        let token = tokens.for_later(remote(1), now);
        assert_eq!(tokens.judge(&token, remote(2), now), Judgement::Known);
        assert_eq!(tokens.judge(&token, remote(2), now), Judgement::Unknown);
        let other = tokens.for_later(remote(1), now);
        let elsewhere = ([192, 0, 2, 9], 1).into();
        assert_eq!(tokens.judge(&other, elsewhere, now), Judgement::Unknown);
        let late = now + NEW_LIFE + Duration::from_secs(1);
        assert_eq!(tokens.judge(&other, remote(1), late), Judgement::Unknown);
    }

    #[test]
    fn who_has_the_secret_knows_the_tokens_of_others() {
        let now = Instant::now();
        let id = ConnectionId::new(b"original").unwrap();
        let made = |secret: u8, resets, unix_ms| Tokens::new(&[secret; 32], resets, now, unix_ms);
        let ours = made(7, true, 1_000_000);
        let token = ours.for_later(remote(1), now);
        let hour = 3_600_000;
        assert_eq!(
            made(7, true, 1_000_000 + hour).judge(&token, remote(1), now),
            Judgement::Known
        );
        assert_eq!(
            made(7, true, 1_000_000 + 25 * hour).judge(&token, remote(1), now),
            Judgement::Unknown
        );
        assert_eq!(
            made(8, true, 1_000_000).judge(&token, remote(1), now),
            Judgement::Unknown
        );
        assert_eq!(made(7, true, 0).reset(&id), ours.reset(&id));
        assert_ne!(made(8, true, 0).reset(&id), ours.reset(&id));
        // An endpoint that may see packets of other endpoints' connections must not reset them.
        assert_ne!(made(7, false, 0).reset(&id), ours.reset(&id));
    }

    /// RFC 9001, appendix A.4.
    #[test]
    fn the_rfcs_retry_packet() {
        let id = ConnectionId::new(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]).unwrap();
        let packet = b"\xff\x00\x00\x00\x01\x00\x08\xf0\x67\xa5\x50\x2a\x42\x62\xb5token";
        let tag = b"\x04\xa2\x65\xba\x2e\xff\x4d\x82\x90\x58\xfb\x3f\x0f\x24\x96\xba";
        assert_eq!(&retry_tag(&id, packet), tag);
    }
}
