//! `$secure_link` and `$secure_link_expires`: links that contain a hash of a secret.

use crate::exchange::Exchange;
use crate::template;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::Engine;
use gallop_conf::values::parse_digits;
use md5::{Digest, Md5};

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The value of `$secure_link`; `None` if there is none.
pub fn value(ex: &Exchange) -> Option<Vec<u8>> {
    match ex.loc.conf.secure_link_secret.as_deref() {
        Some(secret) if !secret.is_empty() => old_form(ex.unparsed_uri(), secret.as_bytes()),
        _ => new_form(ex),
    }
}

/// Return the link in `/prefix/hash/link` if the hash matches the link and the secret.
fn old_form(uri: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let rest = uri.get(1..)?;
    let hash_at = memchr::memchr(b'/', rest)? + 1;
    let hash_end = hash_at + memchr::memchr(b'/', &rest[hash_at..])?;
    let (hash, link) = (&rest[hash_at..hash_end], &rest[hash_end + 1..]);
    let mut md5 = Md5::new();
    md5.update(link);
    md5.update(secret);
    let wanted: String = md5.finalize().iter().map(|b| format!("{b:02x}")).collect();
    hash.eq_ignore_ascii_case(wanted.as_bytes())
        .then(|| link.to_vec())
}

/// The hash, and the expiry as text.
fn parts(ex: &Exchange) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let link = ex.loc.conf.secure_link.as_ref()?;
    ex.loc.conf.secure_link_md5.as_ref()?;
    let mut hash = template::eval(ex, link);
    match memchr::memchr(b',', &hash) {
        Some(comma) => {
            let expires = hash.split_off(comma)[1..].to_vec();
            Some((hash, Some(expires)))
        }
        None => Some((hash, None)),
    }
}

fn seconds(text: &[u8]) -> Option<u64> {
    parse_digits(std::str::from_utf8(text).ok()?).filter(|&n| n > 0)
}

fn new_form(ex: &Exchange) -> Option<Vec<u8>> {
    let (hash, expires) = parts(ex)?;
    let expires = match expires {
        Some(text) => Some(seconds(&text)?),
        None => None,
    };
    // Sixteen bytes are 22 characters, or 24 with padding.
    let given = BASE64.decode(hash).ok().filter(|h| h.len() == 16)?;
    let text = template::eval(ex, ex.loc.conf.secure_link_md5.as_ref()?);
    if text.is_empty() || Md5::digest(text)[..] != given[..] {
        return None;
    }
    let now = gallop_runtime::unix_time() / 1000;
    let late = expires.is_some_and(|t| t < now);
    Some(if late { b"0" } else { b"1" }.to_vec())
}

/// The expiry in the link's URL.
pub fn expires(ex: &Exchange) -> Option<Vec<u8>> {
    let text = parts(ex)?.1?;
    seconds(&text).map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_form_finds_hash_and_link() {
        let hash: String = Md5::digest(b"test.htmlsecret")
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let link = |uri: String| old_form(uri.as_bytes(), b"secret");
        assert_eq!(
            link(format!("/p/{hash}/test.html")),
            Some(b"test.html".to_vec())
        );
        assert_eq!(link(format!("/p/{hash}/other.html")), None);
        assert_eq!(link(format!("/p/{hash}")), None);
        assert_eq!(link("/".into()), None);
    }
}
