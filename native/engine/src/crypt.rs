//! Password files, and the formats of stored passwords: crypt(3), apr1, {SHA}, {SSHA}, {PLAIN}.

use base64::Engine;
use md5::{Digest, Md5};
use sha1::Sha1;
use std::ffi::{CStr, CString};

/// The stored password of a user in a password file.
pub fn find<'a>(file: &'a [u8], user: &[u8]) -> Option<&'a [u8]> {
    file.split(|&c| c == b'\n').find_map(|line| {
        if line.first() == Some(&b'#') {
            return None;
        }
        let rest = line.strip_prefix(user)?.strip_prefix(b":")?;
        // A third field and the end of the line do not belong to the password.
        let end = rest
            .iter()
            .position(|c| matches!(c, b':' | b'\r' | b' ' | b'\t'));
        let plain = rest.starts_with(b"{PLAIN}");
        let end = if plain {
            rest.iter().position(|c| matches!(c, b':' | b'\r'))
        } else {
            end
        };
        Some(&rest[..end.unwrap_or(rest.len())])
    })
}

pub fn verify(stored: &[u8], given: &[u8]) -> bool {
    if let Some(plain) = stored.strip_prefix(b"{PLAIN}") {
        return same(plain, given);
    }
    if let Some(encoded) = stored.strip_prefix(b"{SHA}") {
        return salted_sha(encoded, given, true);
    }
    if let Some(encoded) = stored.strip_prefix(b"{SSHA}") {
        return salted_sha(encoded, given, false);
    }
    if let Some(rest) = stored.strip_prefix(b"$apr1$") {
        let salt = &rest[..rest
            .iter()
            .position(|&c| c == b'$')
            .unwrap_or(rest.len())
            .min(8)];
        return same(&apr1(given, salt), stored);
    }
    system_crypt(given, stored).is_some_and(|hash| same(&hash, stored))
}

/// Compare in a time that does not depend on the place of the first difference.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}

fn salted_sha(encoded: &[u8], given: &[u8], unsalted: bool) -> bool {
    let Ok(decoded) = base64::engine::general_purpose::STANDARD.decode(encoded) else {
        return false;
    };
    let Some((digest, salt)) = decoded.split_at_checked(20) else {
        return false;
    };
    if unsalted && !salt.is_empty() {
        return false;
    }
    let mut sha = Sha1::new();
    sha.update(given);
    sha.update(salt);
    same(&sha.finalize(), digest)
}

/// Apache's variant of the MD5 crypt.
fn apr1(password: &[u8], salt: &[u8]) -> Vec<u8> {
    let md5 = |parts: &[&[u8]]| {
        let mut h = Md5::new();
        parts.iter().for_each(|p| h.update(p));
        h.finalize()
    };
    let inner = md5(&[password, salt, password]);
    let mut ctx = Md5::new();
    ctx.update(password);
    ctx.update(b"$apr1$");
    ctx.update(salt);
    let mut left = password.len();
    while left > 0 {
        let n = left.min(16);
        ctx.update(&inner[..n]);
        left -= n;
    }
    let mut bits = password.len();
    while bits > 0 {
        ctx.update(if bits & 1 == 1 {
            &[0][..]
        } else {
            &password[..1]
        });
        bits >>= 1;
    }
    let mut hash = ctx.finalize();
    for round in 0..1000 {
        let mut h = Md5::new();
        h.update(if round & 1 == 1 { password } else { &hash[..] });
        if round % 3 != 0 {
            h.update(salt);
        }
        if round % 7 != 0 {
            h.update(password);
        }
        h.update(if round & 1 == 1 { &hash[..] } else { password });
        hash = h.finalize();
    }
    let mut out = b"$apr1$".to_vec();
    out.extend_from_slice(salt);
    out.push(b'$');
    let triple = |a: usize, b: usize, c: usize| {
        (u32::from(hash[a]) << 16) | (u32::from(hash[b]) << 8) | u32::from(hash[c])
    };
    for (a, b, c) in [(0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5)] {
        to64(triple(a, b, c), 4, &mut out);
    }
    to64(u32::from(hash[11]), 2, &mut out);
    out
}

fn to64(mut v: u32, n: usize, out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for _ in 0..n {
        out.push(ALPHABET[(v & 63) as usize]);
        v >>= 6;
    }
}

/// The size of glibc's and libxcrypt's `struct crypt_data`.
const CRYPT_DATA: usize = 131_232;

#[link(name = "crypt")]
extern "C" {
    fn crypt_r(
        key: *const libc::c_char,
        salt: *const libc::c_char,
        data: *mut libc::c_void,
    ) -> *mut libc::c_char;
}

/// crypt(3) with every method of the system's library (DES, MD5, SHA-2, bcrypt, yescrypt).
fn system_crypt(password: &[u8], setting: &[u8]) -> Option<Vec<u8>> {
    let (key, salt) = (CString::new(password).ok()?, CString::new(setting).ok()?);
    // Words, so that the area is aligned for every field.
    let mut data = vec![0u64; CRYPT_DATA / 8 + 1];
    // SAFETY: both strings end in NUL and are valid during the call; `data` is a zeroed area at
    // least as large as crypt_data, as the first use of crypt_r requires. The result points into
    // `data`.
    let hash = unsafe {
        let result = crypt_r(key.as_ptr(), salt.as_ptr(), data.as_mut_ptr().cast());
        if result.is_null() {
            return None;
        }
        CStr::from_ptr(result).to_bytes().to_vec()
    };
    // A hash that starts with an asterisk also means failure.
    (!hash.starts_with(b"*")).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let file = b"# a:x\nab:1\na:2:comment\r\n";
        assert_eq!(find(file, b"a"), Some(&b"2"[..]));
        assert_eq!(find(file, b"b"), None);
        assert_eq!(find(file, b""), None);
    }

    #[test]
    fn every_form_is_verified() {
        // Created with htpasswd and openssl passwd from the password "password".
        for stored in [
            "{PLAIN}password",
            "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
            "$apr1$salt$Xxd1irWT9ycqoYxGFn4cb.",
            "$1$salt$qJH7.N4xYta3aEG/dfqo/0",
            "saG6Q2uoPk6kk",
        ] {
            let plain = stored.strip_prefix("sa").is_none();
            if plain {
                assert!(verify(stored.as_bytes(), b"password"), "{stored}");
            }
            assert!(!verify(stored.as_bytes(), b"passwore"), "{stored}");
        }
    }
}
