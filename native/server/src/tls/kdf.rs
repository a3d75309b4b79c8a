//! The key schedule of TLS 1.3 (RFC 8446, section 7.1) with fewer hash operations than the one of
//! rustls for aws-lc. That one hashes a secret into the HMAC state for every derived key; this one
//! does it once per secret.

use aws_lc_rs::hmac;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::tls13::{Hkdf, HkdfExpander, OkmBlock, OutputLengthError};
use rustls::crypto::{hash, hmac::Tag, CipherSuiteCommon};
use rustls::{SupportedCipherSuite, Tls13CipherSuite};
use std::sync::OnceLock;

/// HKDF (RFC 5869) with one hash function.
struct Kdf {
    hash: hmac::Algorithm,
    /// The early secret without a pre-shared key, extracted from zeros.
    zero: OnceLock<hmac::Key>,
}

static SHA256: Kdf = Kdf::new(hmac::HMAC_SHA256);
static SHA384: Kdf = Kdf::new(hmac::HMAC_SHA384);

const ZEROS: [u8; OkmBlock::MAX_LEN] = [0; OkmBlock::MAX_LEN];

impl Kdf {
    const fn new(hash: hmac::Algorithm) -> Self {
        let zero = OnceLock::new();
        Self { hash, zero }
    }

    fn zeros(&self) -> &'static [u8] {
        &ZEROS[..self.hash.tag_len()]
    }

    fn extract(&self, salt: Option<&[u8]>, secret: &[u8]) -> hmac::Key {
        let salt = hmac::Key::new(self.hash, salt.unwrap_or(self.zeros()));
        hmac::Key::new(self.hash, hmac::sign(&salt, secret).as_ref())
    }
}

impl Hkdf for Kdf {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        let key = match salt {
            None => self
                .zero
                .get_or_init(|| self.extract(None, self.zeros()))
                .clone(),
            salt => self.extract(salt, self.zeros()),
        };
        Box::new(Expander(key))
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        Box::new(Expander(self.extract(salt, secret)))
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        Box::new(Expander(hmac::Key::new(self.hash, okm.as_ref())))
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> Tag {
        let key = hmac::Key::new(self.hash, key.as_ref());
        Tag::new(hmac::sign(&key, message).as_ref())
    }
}

/// A secret as HMAC state.
struct Expander(hmac::Key);

impl Expander {
    fn block(&self, before: &[u8], info: &[&[u8]], number: u8) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(before);
        info.iter().for_each(|piece| context.update(piece));
        context.update(&[number]);
        context.sign()
    }
}

impl HkdfExpander for Expander {
    fn expand_slice(&self, info: &[&[u8]], output: &mut [u8]) -> Result<(), OutputLengthError> {
        if output.len() > 255 * self.hash_len() {
            return Err(OutputLengthError);
        }
        let mut last: Option<hmac::Tag> = None;
        for (chunk, number) in output.chunks_mut(self.hash_len()).zip(1..) {
            let before = last.as_ref().map_or(&[][..], AsRef::as_ref);
            let tag = self.block(before, info, number);
            chunk.copy_from_slice(&tag.as_ref()[..chunk.len()]);
            last = Some(tag);
        }
        Ok(())
    }

    fn expand_block(&self, info: &[&[u8]]) -> OkmBlock {
        OkmBlock::new(self.block(&[], info, 1).as_ref())
    }

    fn hash_len(&self) -> usize {
        self.0.algorithm().tag_len()
    }
}

/// Replace the TLS 1.3 suites in `of` by suites with this module's key schedule.
pub fn suites(of: &[SupportedCipherSuite]) -> Vec<SupportedCipherSuite> {
    static SUITES: OnceLock<Vec<Tls13CipherSuite>> = OnceLock::new();
    let ours = SUITES.get_or_init(|| {
        let all = default_provider().cipher_suites;
        let modern = all.iter().filter_map(SupportedCipherSuite::tls13);
        modern.map(with_kdf).collect()
    });
    let found =
        |suite: &SupportedCipherSuite| ours.iter().find(|own| own.common.suite == suite.suite());
    of.iter()
        .map(|suite| found(suite).map_or(*suite, SupportedCipherSuite::from))
        .collect()
}

fn with_kdf(suite: &'static Tls13CipherSuite) -> Tls13CipherSuite {
    let common = &suite.common;
    Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: common.suite,
            hash_provider: common.hash_provider,
            confidentiality_limit: common.confidentiality_limit,
        },
        hkdf_provider: match common.hash_provider.algorithm() {
            hash::HashAlgorithm::SHA256 => &SHA256,
            hash::HashAlgorithm::SHA384 => &SHA384,
            _ => suite.hkdf_provider,
        },
        aead_alg: suite.aead_alg,
        quic: suite.quic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<_> = text.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect()
    }

    #[test]
    fn it_is_that_of_rfc_5869() {
        // Appendix A.2: longer than a block, with a salt.
        let secret: Vec<u8> = (0..0x50).collect();
        let (salt, info): (Vec<u8>, Vec<u8>) = ((0x60..0xb0).collect(), (0xb0..=0xff).collect());
        let mut out = [0; 82];
        let expander = SHA256.extract_from_secret(Some(&salt), &secret);
        expander
            .expand_slice(&[&info[..30], &info[30..]], &mut out)
            .unwrap();
        let wanted = hex(
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c
             59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71
             cc30c58179ec3e87c14c01d5c1f3434f1d87",
        );
        assert_eq!(out[..], wanted);
        assert!(expander
            .expand_slice(&[], &mut vec![0; 255 * 32 + 1])
            .is_err());
    }

    #[test]
    fn each_suite_derives_what_it_does_with_rustls_own() {
        let theirs = default_provider().cipher_suites;
        let ours = suites(&theirs);
        assert_eq!(theirs.len(), ours.len());
        let both = theirs
            .iter()
            .zip(&ours)
            .filter_map(|(a, b)| Some((a.tls13()?, b.tls13()?)));
        let mut count = 0;
        for (theirs, ours) in both {
            assert_eq!(theirs.common.suite, ours.common.suite);
            let made = [theirs, ours].map(|suite| {
                let kdf = suite.hkdf_provider;
                let early = kdf.extract_from_zero_ikm(None);
                let derived = early.expand_block(&[b"derived", b""]);
                let shared = kdf.extract_from_secret(Some(derived.as_ref()), b"shared secret");
                let salted = kdf
                    .extract_from_zero_ikm(Some(derived.as_ref()))
                    .expand_block(&[b"a"]);
                let mut long = [0; 100];
                let okm = kdf.expander_for_okm(&shared.expand_block(&[b"s"]));
                okm.expand_slice(&[b"la", b"bel"], &mut long).unwrap();
                let signed = kdf.hmac_sign(&derived, b"message");
                let blocks = [&derived, &salted].map(|block| block.as_ref().to_vec());
                (blocks, long, signed.as_ref().to_vec(), okm.hash_len())
            });
            assert!(made[0] == made[1], "{theirs:?}");
            count += 1;
        }
        assert_eq!(count, 3);
    }
}
