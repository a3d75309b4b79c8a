//! Private keys protected by a password (`ssl_password_file`): PKCS #8 with PBES2 (RFC 8018,
//! section 6.2), the format of OpenSSL since version 3.

use super::x509::der::{expect, INTEGER, OBJECT, OCTET_STRING, SEQUENCE};
use aws_lc_rs::cipher::{
    Algorithm, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey, AES_128, AES_192,
    AES_256,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use std::num::NonZeroU32;

/// id-PBES2 and id-PBKDF2 (RFC 8018, appendix A).
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 13];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 12];
/// 1.2.840.113549.2: id-hmacWithSHA1 is number 7, SHA-256 to SHA-512 are 9 to 11.
const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2];
/// 2.16.840.1.101.3.4.1: AES in CBC mode is number 2, 22, and 42, by key length.
const AES: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 3, 4, 1];
/// The most rounds. More would delay the start; OpenSSL's default is 2048.
const MAX_ROUNDS: u32 = 10_000_000;

/// The protection of a key.
struct Protection<'a> {
    salt: &'a [u8],
    rounds: NonZeroU32,
    digest: pbkdf2::Algorithm,
    cipher: &'static Algorithm,
    key_len: usize,
    iv: [u8; 16],
    sealed: &'a [u8],
}

/// Decrypt an EncryptedPrivateKeyInfo. Returns the PKCS #8 key.
///
/// # Errors
/// It is malformed, uses an unsupported scheme, or none of the passwords fits.
pub fn open(der: &[u8], passwords: &[Vec<u8>]) -> Result<Vec<u8>, &'static str> {
    let protection = Protection::parse(der).ok_or(
        "its encryption is not PBES2 with AES: convert it with \"openssl pkcs8 -topk8 -v2 aes256\"",
    )?;
    if passwords.is_empty() {
        return Err("it is encrypted and no password is known");
    }
    let mut opened = passwords.iter().filter_map(|word| protection.open(word));
    opened.next().ok_or("none of the passwords fits")
}

impl<'a> Protection<'a> {
    fn parse(mut der: &'a [u8]) -> Option<Self> {
        let mut info = expect(&mut der, SEQUENCE)?;
        let mut scheme = expect(&mut info, SEQUENCE)?;
        let sealed = expect(&mut info, OCTET_STRING)?;
        if expect(&mut scheme, OBJECT)? != PBES2 {
            return None;
        }
        let mut scheme = expect(&mut scheme, SEQUENCE)?;
        let mut derivation = expect(&mut scheme, SEQUENCE)?;
        let mut encryption = expect(&mut scheme, SEQUENCE)?;
        if expect(&mut derivation, OBJECT)? != PBKDF2 {
            return None;
        }
        let mut derivation = expect(&mut derivation, SEQUENCE)?;
        let salt = expect(&mut derivation, OCTET_STRING)?;
        let rounds = number(expect(&mut derivation, INTEGER)?)?;
        let mut rest = derivation;
        if expect(&mut rest, INTEGER).is_some() {
            // The key length; the cipher implies the same value.
            derivation = rest;
        }
        let (cipher, key_len) = cipher(expect(&mut encryption, OBJECT)?)?;
        Some(Self {
            salt,
            rounds: NonZeroU32::new(rounds).filter(|n| n.get() <= MAX_ROUNDS)?,
            digest: digest(derivation)?,
            cipher,
            key_len,
            iv: expect(&mut encryption, OCTET_STRING)?.try_into().ok()?,
            sealed,
        })
    }

    /// Decrypt with this password; `None` if it is wrong.
    fn open(&self, password: &[u8]) -> Option<Vec<u8>> {
        let mut key = vec![0; self.key_len];
        pbkdf2::derive(self.digest, self.rounds, self.salt, password, &mut key);
        let key = UnboundCipherKey::new(self.cipher, &key).ok()?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        let mut text = self.sealed.to_vec();
        let context = DecryptionContext::Iv128(FixedLength::from(self.iv));
        let opened = key.decrypt(&mut text, context).ok()?;
        // A wrong password sometimes leaves valid padding, so check the structure too.
        let mut check: &[u8] = opened;
        let mut fields = expect(&mut check, SEQUENCE)?;
        expect(&mut fields, INTEGER)?;
        Some(opened.to_vec())
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    let shift = |n: u32, d: &u8| n.checked_mul(256)?.checked_add(u32::from(*d));
    digits.iter().try_fold(0, shift)
}

fn digest(mut derivation: &[u8]) -> Option<pbkdf2::Algorithm> {
    let Some(mut function) = expect(&mut derivation, SEQUENCE) else {
        return Some(pbkdf2::PBKDF2_HMAC_SHA1);
    };
    match expect(&mut function, OBJECT)?.strip_prefix(HMAC)? {
        [7] => Some(pbkdf2::PBKDF2_HMAC_SHA1),
        [9] => Some(pbkdf2::PBKDF2_HMAC_SHA256),
        [10] => Some(pbkdf2::PBKDF2_HMAC_SHA384),
        [11] => Some(pbkdf2::PBKDF2_HMAC_SHA512),
        _ => None,
    }
}

fn cipher(name: &[u8]) -> Option<(&'static Algorithm, usize)> {
    match name.strip_prefix(AES)? {
        [2] => Some((&AES_128, 16)),
        [22] => Some((&AES_192, 24)),
        [42] => Some((&AES_256, 32)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::x509::der::written as der;
    use aws_lc_rs::cipher::{EncryptionContext, PaddedBlockEncryptingKey};

    /// Encrypt as `openssl pkcs8 -topk8 -v2 aes-256-cbc` does, with few rounds.
    fn seal(plain: &[u8], password: &[u8]) -> Vec<u8> {
        let (salt, iv) = ([7; 16], [9; 16]);
        let mut key = [0; 32];
        let rounds = NonZeroU32::new(300).unwrap();
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            rounds,
            &salt,
            password,
            &mut key,
        );
        let key = UnboundCipherKey::new(&AES_256, &key).unwrap();
        let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).unwrap();
        let mut sealed = plain.to_vec();
        let context = EncryptionContext::Iv128(FixedLength::from(iv));
        key.less_safe_encrypt(&mut sealed, context).unwrap();
        let oid = |prefix: &[u8], last: u8| der(OBJECT, &[prefix, &[last]]);
        let function = der(SEQUENCE, &[&oid(HMAC, 9), &[5, 0]]);
        let rounds = der(INTEGER, &[&[1, 44]]);
        let salt = der(OCTET_STRING, &[&salt]);
        let derivation = der(SEQUENCE, &[&salt, &rounds, &function]);
        let derivation = der(SEQUENCE, &[&der(OBJECT, &[PBKDF2]), &derivation]);
        let encryption = der(SEQUENCE, &[&oid(AES, 42), &der(OCTET_STRING, &[&iv])]);
        let scheme = der(SEQUENCE, &[&derivation, &encryption]);
        let scheme = der(SEQUENCE, &[&der(OBJECT, &[PBES2]), &scheme]);
        der(SEQUENCE, &[&scheme, &der(OCTET_STRING, &[&sealed])])
    }

    #[test]
    fn one_of_the_passwords_opens_a_key() {
        let plain = rcgen::KeyPair::generate().unwrap().serialize_der();
        let sealed = seal(&plain, b"secret");
        let words = |words: &[&str]| -> Vec<Vec<u8>> {
            words.iter().map(|w| w.as_bytes().to_vec()).collect()
        };
        assert_eq!(open(&sealed, &words(&["wrong", "secret"])), Ok(plain));
        let wrong = open(&sealed, &words(&["wrong", "Secret", ""]));
        assert_eq!(wrong, Err("none of the passwords fits"));
        assert_eq!(
            open(&sealed, &[]),
            Err("it is encrypted and no password is known")
        );
    }

    #[test]
    fn what_is_cut_short_or_asks_for_too_many_rounds_is_refused() {
        let sealed = seal(&[0x30, 3, 2, 1, 0], b"secret");
        let passwords = [b"secret".to_vec()];
        for n in 0..sealed.len() {
            assert!(open(&sealed[..n], &passwords).is_err(), "{n}");
        }
        let rounds: &[u8] = &[2, 2, 1, 44];
        let at = sealed.windows(4).position(|w| w == rounds).unwrap();
        let mut slow = sealed.clone();
        slow[at..at + 4].copy_from_slice(&[2, 2, 0, 0]);
        assert!(open(&slow, &passwords).unwrap_err().contains("not PBES2"));
    }
}
