//! TLS-ALPN-01 challenges (RFC 8737), as a certificate authority checks them: with OpenSSL's client.

use crate::tls::Site;
use aws_lc_rs::digest::{digest, SHA256};
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::Engine;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const PROOF: &str =
    "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI";

/// `one.example` has a certificate, `two.example` rejects handshakes, `plain.example` knows no
/// challenges. The challenges of all names are waiting.
fn site() -> Site {
    let block = |name: &str, more: &str| {
        format!(
            "server {{ listen 127.0.0.1:PORT ssl; server_name {name}; {more}
               location / {{ return 200 \"{name}\"; }} }}\n"
        )
    };
    let pair = "ssl_certificate %%/one.example.pem; ssl_certificate_key %%/one.example.key;";
    let challenges = "acme_tls_challenges %%;";
    let rejects = "ssl_reject_handshake on;";
    let site = Site::of(
        &(block("plain.example", pair)
            + &block("one.example 127.0.0.1", &format!("{pair} {challenges}"))
            + &block("two.example", &format!("{rejects} {challenges}"))),
    );
    for name in [
        "plain.example",
        "one.example",
        "two.example",
        "1.0.0.127.in-addr.arpa",
    ] {
        std::fs::write(file(&site, name), PROOF).unwrap();
    }
    site
}

fn file(site: &Site, name: &str) -> PathBuf {
    let file_name = URL_SAFE_NO_PAD.encode(digest(&SHA256, name.as_bytes()));
    site.server.folder.0.join(file_name)
}

fn handshake(site: &Site, name: &str, more: &[&str]) -> Output {
    let address = format!("127.0.0.1:{}", site.port);
    Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            &address,
            "-servername",
            name,
            "-showcerts",
        ])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .expect("openssl runs")
}

/// The certificate that a handshake showed, if it succeeded.
fn shown(out: &Output) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let (_, rest) = text.split_once("-----BEGIN CERTIFICATE-----")?;
    let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
    STANDARD.decode(body.replace('\n', "")).ok()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The extension of RFC 8737, section 3: its identifier, critical, and the digest as an octet
/// string in an octet string.
fn identifier() -> Vec<u8> {
    let mut wanted = vec![6, 8, 43, 6, 1, 5, 5, 7, 1, 31, 1, 1, 0xFF, 4, 34, 4, 32];
    wanted.extend_from_slice(digest(&SHA256, PROOF.as_bytes()).as_ref());
    wanted
}

#[test]
fn authority_sees_challenge_in_both_tls_versions_with_and_without_certificate() {
    let site = site();
    for name in ["one.example", "two.example"] {
        for version in ["-tls1_2", "-tls1_3"] {
            let out = handshake(&site, name, &["-alpn", "acme-tls/1", version]);
            let text = String::from_utf8_lossy(&out.stdout);
            assert!(
                text.contains("ALPN protocol: acme-tls/1"),
                "{name} {version}: {out:?}"
            );
            let der = shown(&out).expect("a certificate");
            assert!(has(&der, &identifier()), "{name} {version}");
            assert!(has(&der, name.as_bytes()), "{name} {version}");
        }
    }
    assert!(site
        .server
        .errors()
        .contains("ACME challenge of \"two.example\" shown"));
}

#[test]
fn challenge_of_address_names_address_in_certificate() {
    let out = handshake(&site(), "1.0.0.127.in-addr.arpa", &["-alpn", "acme-tls/1"]);
    let der = shown(&out).expect("a certificate");
    assert!(has(&der, &identifier()));
    assert!(
        has(&der, &[0x87, 4, 127, 0, 0, 1]),
        "an iPAddress of the alternative names"
    );
}

#[test]
fn handshakes_of_visitors_are_as_before() {
    let site = site();
    let answer = site.get("one.example", None).unwrap();
    assert!(answer.ends_with("one.example 127.0.0.1"), "{answer}");
    let error = site.get("two.example", None).unwrap_err().to_string();
    assert!(error.contains("UnrecognisedName"), "{error}");
    for offered in ["http/1.1,acme-tls/1", "acme-tls/1,h2"] {
        let out = handshake(&site, "one.example", &["-alpn", offered]);
        assert!(
            !shown(&out).is_some_and(|der| has(&der, &identifier())),
            "{offered}"
        );
    }
}

#[test]
fn names_without_challenge_get_alert() {
    let site = site();
    for name in ["plain.example", "other.example"] {
        let out = handshake(&site, name, &["-alpn", "acme-tls/1"]);
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(text.contains("no application protocol"), "{name}: {text}");
    }
    std::fs::remove_file(file(&site, "two.example")).unwrap();
    let out = handshake(&site, "two.example", &["-alpn", "acme-tls/1"]);
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("unrecognized name"), "{text}");
}
