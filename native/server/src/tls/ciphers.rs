//! Translates `ssl_ciphers`, `ssl_protocols`, and `ssl_ecdh_curve` from OpenSSL's words to rustls.

use super::{error, kdf, Result};
use rustls::crypto::{aws_lc_rs as provider, CryptoProvider, SupportedKxGroup};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};
use std::collections::BTreeSet;

/// A cipher suite of TLS 1.2: its OpenSSL name and the words of cipher strings that select it.
struct Suite {
    name: &'static str,
    standard: &'static str,
    words: &'static [&'static str],
}

/// The TLS 1.2 suites of rustls, strongest first. All have forward secrecy and authenticated
/// encryption.
const SUITES: [Suite; 6] = [
    Suite {
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        standard: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        words: &["aECDSA", "ECDSA", "AES256", "AESGCM", "SHA384"],
    },
    Suite {
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        standard: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        words: &["aRSA", "AES256", "AESGCM", "SHA384"],
    },
    Suite {
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        standard: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        words: &["aECDSA", "ECDSA", "CHACHA20"],
    },
    Suite {
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        standard: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        words: &["aRSA", "CHACHA20"],
    },
    Suite {
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        standard: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        words: &["aECDSA", "ECDSA", "AES128", "AESGCM", "SHA256"],
    },
    Suite {
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        standard: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        words: &["aRSA", "AES128", "AESGCM", "SHA256"],
    },
];

/// Words that select every suite.
const EVERY: [&str; 8] = [
    "ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2",
];

impl Suite {
    /// Whether a word of a `+`-joined selection matches this suite.
    fn is(&self, word: &str) -> bool {
        let aes = word == "AES" && self.words.contains(&"AESGCM");
        aes || word == self.name
            || word == self.standard
            || self.words.contains(&word)
            || EVERY.contains(&word)
    }
}

/// The suites that a cipher string selects, in its order: `+` joins words, `!` and `-` remove
/// suites, `+` before a word moves suites to the end, and `@STRENGTH` and `@SECLEVEL` change
/// nothing. Words for ciphers that rustls lacks select nothing.
pub fn suites(string: &str) -> Result<Vec<&'static str>> {
    let mut chosen: Vec<&Suite> = Vec::new();
    let mut killed = BTreeSet::new();
    for word in string.split([':', ',', ' ']).filter(|w| !w.is_empty()) {
        let (action, selection) = match word.as_bytes()[0] {
            c @ (b'!' | b'-' | b'+') => (c, &word[1..]),
            b'@' => continue,
            _ => (b'=', word),
        };
        let matches = |s: &&Suite| selection.split('+').all(|part| s.is(part));
        match action {
            b'!' => {
                killed.extend(SUITES.iter().filter(matches).map(|s| s.name));
                chosen.retain(|s| !matches(s));
            }
            b'-' => chosen.retain(|s| !matches(s)),
            b'+' => {
                let (moved, mut rest): (Vec<_>, Vec<_>) =
                    chosen.into_iter().partition(|s| matches(s));
                rest.extend(moved);
                chosen = rest;
            }
            _ => {
                for suite in SUITES.iter().filter(matches) {
                    if !killed.contains(suite.name) && !chosen.iter().any(|c| c.name == suite.name)
                    {
                        chosen.push(suite);
                    }
                }
            }
        }
    }
    if chosen.is_empty() {
        let names: Vec<_> = SUITES.iter().map(|s| s.name).collect();
        return error(format!(
            "no cipher of \"{string}\" can be used; TLS 1.2 has these here: {}",
            names.join(":")
        ));
    }
    Ok(chosen.iter().map(|s| s.standard).collect())
}

/// The protocol versions to offer. Versions before 1.2 are not supported.
pub fn versions(names: &[String]) -> Result<Vec<&'static SupportedProtocolVersion>> {
    let has = |name: &str| names.iter().any(|n| n == name);
    let mut versions = Vec::new();
    if names.is_empty() || has("TLSv1.3") {
        versions.push(&rustls::version::TLS13);
    }
    if names.is_empty() || has("TLSv1.2") {
        versions.push(&rustls::version::TLS12);
    }
    if versions.is_empty() {
        return error(format!(
            "\"ssl_protocols {}\" leaves no protocol: TLSv1.2 and TLSv1.3 are available",
            names.join(" ")
        ));
    }
    Ok(versions)
}

/// Keep only the protocols that `is_kept` accepts, by name and in order. An empty list means the
/// default.
pub fn keep_protocols(names: &mut Vec<String>, is_kept: impl Fn(&str) -> bool) {
    if names.is_empty() {
        *names = ["TLSv1.2", "TLSv1.3"].map(String::from).to_vec();
    }
    names.retain(|name| is_kept(name));
    if names.is_empty() {
        // No protocol at all differs from an empty list.
        names.push(String::new());
    }
}

/// The groups of `ssl_ecdh_curve` in their order; groups that rustls lacks are skipped.
fn groups(list: &str) -> Result<Vec<&'static dyn SupportedKxGroup>> {
    use provider::kx_group::{SECP256R1, SECP384R1, X25519, X25519MLKEM768};
    let mut groups = Vec::new();
    for name in list.split(':') {
        groups.push(match name {
            "X25519" | "x25519" => X25519,
            "prime256v1" | "P-256" | "secp256r1" => SECP256R1,
            "secp384r1" | "P-384" => SECP384R1,
            "X25519MLKEM768" => X25519MLKEM768,
            _ => continue,
        });
    }
    if groups.is_empty() {
        return error(format!(
            "no curve of \"{list}\" can be used; there are X25519MLKEM768, X25519, prime256v1 and secp384r1"
        ));
    }
    Ok(groups)
}

/// Keep only the TLS 1.3 suites in `list`, in its order.
pub fn keep_suites(list: &str, crypto: &mut CryptoProvider) -> Result<()> {
    let (tls13, others): (Vec<_>, Vec<_>) = std::mem::take(&mut crypto.cipher_suites)
        .into_iter()
        .partition(|s: &SupportedCipherSuite| s.tls13().is_some());
    let named = |name: &str| {
        let is = |s: &&SupportedCipherSuite| {
            let own = format!("{:?}", s.suite());
            own.strip_prefix("TLS13_") == name.strip_prefix("TLS_")
        };
        tls13.iter().find(is).copied()
    };
    crypto.cipher_suites = list.split(':').filter_map(named).collect();
    if crypto.cipher_suites.is_empty() {
        return error(format!(
            "no suite of \"{list}\" can be used; TLS 1.3 has these here: TLS_AES_256_GCM_SHA384:\
             TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
        ));
    }
    crypto.cipher_suites.extend(others);
    Ok(())
}

/// The cryptography of rustls, limited to the configured suites and groups. As with OpenSSL, the
/// TLS 1.3 suites always stay.
pub fn crypto(ciphers: Option<&str>, curves: Option<&str>) -> Result<CryptoProvider> {
    let mut crypto = provider::default_provider();
    crypto.cipher_suites = kdf::suites(&crypto.cipher_suites);
    if let Some(string) = ciphers {
        let names = suites(string)?;
        let (mut allowed, tls12): (Vec<SupportedCipherSuite>, Vec<_>) = crypto
            .cipher_suites
            .into_iter()
            .partition(|s| s.tls13().is_some());
        for name in names {
            let named = |s: &&SupportedCipherSuite| format!("{:?}", s.suite()) == name;
            allowed.extend(tls12.iter().find(named).copied());
        }
        crypto.cipher_suites = allowed;
    }
    if let Some(list) = curves.filter(|list| *list != "auto") {
        crypto.kx_groups = groups(list)?;
    }
    Ok(crypto)
}
