//! Certificates that variables name.

use crate::h3::Client;
use crate::tls::{Authority, Site};

/// One server block for all names; `more` goes before it.
fn site(more: &str) -> Site {
    Site::of(&format!(
        "{more} map $ssl_server_name $file {{ default $ssl_server_name; other.example two.example; }}
         server {{ listen 127.0.0.1:PORT ssl; listen 127.0.0.1:PORT quic;
             ssl_certificate $file.pem; ssl_certificate_key $file.key;
             location / {{ return 200 \"$ssl_server_name $ssl_protocol\"; }} }}"
    ))
}

/// Puts a certificate and key of another authority in the place of a name's.
fn replace(site: &Site, name: &str) {
    let (certificate, key) = Authority::new("another").issue(name);
    let folder = &site.server.folder;
    folder.write(&format!("{name}.pem"), &certificate);
    folder.write(&format!("{name}.key"), &key);
}

#[test]
fn each_server_name_gets_its_certificate() {
    let site = site("");
    for name in ["one.example", "two.example", "one.example"] {
        let answer = site.get(name, None).unwrap();
        assert!(answer.ends_with(&format!("{name} TLSv1.3")), "{answer}");
        let mut quic = Client::connect_as(site.port, site.authority.der(), name, None);
        quic.run("the handshake", |client| client.connected);
    }
    // Another one's certificate is not for this name, though its files are there.
    assert!(site.get("other.example", None).is_err());
    assert!(site
        .server
        .errors()
        .lines()
        .all(|line| !line.contains("cannot load")));
}

#[test]
fn missing_certificate_fails_its_handshake_and_is_logged() {
    let site = site("");
    assert!(site.get("three.example", None).is_err());
    let mut quic = Client::connect_as(site.port, site.authority.der(), "four.example", None);
    quic.run("the alert", |client| client.closed.is_some());
    let said = site.server.errors();
    for name in ["three", "four"] {
        let path = site.server.folder.0.join(format!("{name}.example.pem"));
        let reason = format!("cannot load certificate \"{}\": ", path.display());
        let is_told = |line: &&str| line.contains("[error]") && line.contains(&reason);
        let line = said.lines().find(is_told);
        let line = line.unwrap_or_else(|| panic!("{reason} is not in {said}"));
        assert!(line.contains("while SSL handshaking, client: "), "{line}");
    }
    assert!(site.get("one.example", None).is_ok());
}

#[test]
fn certificate_cache_settings_are_followed() {
    let fresh = site("");
    assert!(fresh.get("one.example", None).is_ok());
    replace(&fresh, "one.example");
    assert!(fresh.get("one.example", None).is_err());

    let kept = site("ssl_certificate_cache max=10 inactive=1h valid=1h;");
    assert!(kept.get("one.example", None).is_ok());
    replace(&kept, "one.example");
    replace(&kept, "two.example");
    assert!(kept.get("one.example", None).is_ok());
    assert!(kept.get("two.example", None).is_err());

    // Room for one certificate and its key.
    let small = site("ssl_certificate_cache max=2 inactive=1h valid=1h;");
    assert!(small.get("one.example", None).is_ok());
    replace(&small, "one.example");
    assert!(small.get("one.example", None).is_ok());
    assert!(small.get("two.example", None).is_ok());
    assert!(small.get("one.example", None).is_err());
}

#[test]
fn certificate_cache_requires_size() {
    let check = |cache: &str| {
        let http = format!("ssl_certificate_cache {cache}; server {{ listen 127.0.0.1:1; }}");
        crate::site::check(&crate::site::configuration(&http))
    };
    for cache in ["off", "max=1", "max=10 inactive=20s valid=1m"] {
        let (good, said) = check(cache);
        assert!(good, "{cache}: {said}");
    }
    for (cache, reason) in [
        (
            "valid=1m",
            "\"ssl_certificate_cache\" must have the \"max\" parameter",
        ),
        ("max=0", "invalid parameter \"max=0\""),
        ("max=1 valid=x", "invalid parameter \"valid=x\""),
    ] {
        let (good, said) = check(cache);
        assert!(!good && said.contains(reason), "{cache}: {said}");
    }
}
