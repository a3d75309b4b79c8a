//! TLS towards upstreams, with the real binary on both sides.

use crate::site::{self, Folder, Server};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// A folder with an authority, an upstream's certificate it signed, a client's, and a stranger's.
fn folder() -> Folder {
    let folder = Folder::new();
    let authority_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).expect("signed");
    folder.write("ca.crt", &authority.pem());
    let issuer = Issuer::new(params, authority_key);
    for (file, name) in [("up", "up.example"), ("client", "client.example")] {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_string()]).expect("parameters");
        let signed = params.signed_by(&key, &issuer).expect("signed");
        folder.write(&format!("{file}.crt"), &signed.pem());
        folder.write(&format!("{file}.key"), &key.serialize_pem());
    }
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["up.example".to_string()]).expect("parameters");
    folder.write(
        "stranger.crt",
        &params.self_signed(&key).expect("signed").pem(),
    );
    folder
}

/// An upstream over TLS that tells what it saw, and locations that ask it.
fn server(locations: &str) -> Server {
    let port = crate::ports::free_port();
    let http = format!(
        "server {{ listen 127.0.0.1:{port} ssl; ssl_certificate up.crt; ssl_certificate_key up.key;
             ssl_verify_client optional; ssl_client_certificate ca.crt; ssl_session_cache builtin;
             location / {{ return 200 \"sni=$ssl_server_name client=$ssl_client_verify reused=$ssl_session_reused \
                 protocol=$ssl_protocol cipher=$ssl_cipher curve=$ssl_curve\"; }} }}
         server {{ listen 127.0.0.1:{{port}}; {} }}",
        locations.replace("UP", &format!("https://127.0.0.1:{port}"))
    );
    Server::start_in(folder(), &http)
}

#[test]
fn upstream_certificate_is_verified_by_authority_and_name() {
    let server = server(
        "proxy_ssl_verify on; proxy_ssl_trusted_certificate ca.crt;
         location /right { proxy_pass UP; proxy_ssl_name up.example; }
         location /name { proxy_pass UP; proxy_ssl_name other.example; }
         location /address { proxy_pass UP; }
         location /authority { proxy_pass UP; proxy_ssl_name up.example;
             proxy_ssl_trusted_certificate stranger.crt; }
         location /unverified { proxy_pass UP; proxy_ssl_verify off; }",
    );
    assert!(server.get("/right", "").contains("200 OK"));
    assert!(server.get("/unverified", "").contains("200 OK"));
    for wrong in ["/name", "/address", "/authority"] {
        assert!(server.get(wrong, "").contains("502 Bad Gateway"), "{wrong}");
    }
    let log = server.log("error.log");
    assert!(log.contains("while SSL handshaking to upstream"), "{log}");
}

#[test]
fn upstream_server_name_is_sent_only_when_configured() {
    let server = server(
        "location /off { proxy_pass UP; proxy_ssl_name up.example; }
         location /on { proxy_pass UP; proxy_ssl_name up.example; proxy_ssl_server_name on; }
         location /port { proxy_pass UP; proxy_ssl_name $arg_name; proxy_ssl_server_name on; }",
    );
    let off = server.get("/off", "");
    assert!(off.contains("sni= "), "{off}{}", server.log("error.log"));
    let on = server.get("/on", "");
    assert!(
        on.contains("sni=up.example "),
        "{on}{}",
        server.log("error.log")
    );
    assert!(server.get("/port?name=a.b:123", "").contains("sni=a.b "));
}

#[test]
fn upstream_client_certificate_can_use_variables() {
    let server = server(
        "location /none { proxy_pass UP; }
         location /own { proxy_pass UP; proxy_ssl_certificate client.crt; proxy_ssl_certificate_key client.key; }
         location /named { proxy_pass UP; proxy_ssl_certificate $arg_c.crt; proxy_ssl_certificate_key $arg_c.key;
             proxy_ssl_certificate_cache max=2; }",
    );
    assert!(server.get("/none", "").contains("client=NONE"));
    assert!(server.get("/own", "").contains("client=SUCCESS"));
    assert!(server.get("/named?c=client", "").contains("client=SUCCESS"));
    assert!(server.get("/named?c=missing", "").contains("500 Internal"));
}

#[test]
fn upstream_tls_sessions_are_resumed_unless_disabled() {
    let server = server(
        "location /on { proxy_pass UP; }
         location /off { proxy_pass UP; proxy_ssl_session_reuse off; }
         location /old { proxy_pass UP; proxy_ssl_protocols TLSv1.2; }",
    );
    assert!(server.get("/on", "").contains("reused=. "));
    assert!(server.get("/on", "").contains("reused=r "));
    assert!(server.get("/off", "").contains("reused=. "));
    assert!(server.get("/off", "").contains("reused=. "));
    assert!(server.get("/old", "").contains("protocol=TLSv1.2"));
}

#[test]
fn commands_override_upstream_tls_directives() {
    let server = server(
        "proxy_ssl_session_reuse off;
         location /pair { proxy_pass UP; proxy_ssl_certificate $arg_c; proxy_ssl_certificate_key $arg_c;
             proxy_ssl_conf_command Certificate client.crt; proxy_ssl_conf_command PrivateKey client.key; }
         proxy_ssl_conf_command Certificate client.crt; proxy_ssl_conf_command PrivateKey client.key;
         location /inherited { proxy_pass UP; }
         location /old { proxy_pass UP; proxy_ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384;
             proxy_ssl_conf_command MaxProtocol TLSv1.2;
             proxy_ssl_conf_command CipherString ECDHE-ECDSA-CHACHA20-POLY1305; }
         location /new { proxy_pass UP; proxy_ssl_protocols TLSv1.2 TLSv1.3;
             proxy_ssl_conf_command MinProtocol TLSv1.3; proxy_ssl_conf_command Groups P-384;
             proxy_ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; }
         location /resumed { proxy_pass UP; proxy_ssl_session_reuse on; proxy_ssl_protocols TLSv1.2;
             proxy_ssl_conf_command Options KTLS,-SessionTicket,ServerPreference; }",
    );
    for (path, found) in [
        ("/pair", "client=SUCCESS"),
        ("/inherited", "client=SUCCESS"),
        (
            "/old",
            "protocol=TLSv1.2 cipher=ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        (
            "/new",
            "protocol=TLSv1.3 cipher=TLS_AES_128_GCM_SHA256 curve=secp384r1",
        ),
        ("/resumed", "reused=. protocol=TLSv1.2"),
        ("/resumed", "reused=r protocol=TLSv1.2"),
    ] {
        let response = server.get(path, "");
        assert!(response.contains(found), "{path}: {response}");
    }
}

#[test]
fn upstream_tls_commands_are_checked() {
    for (command, error) in [
        (
            "Nonsense x",
            "proxy_ssl_conf_command \"Nonsense x\" is not supported",
        ),
        (
            "Certificate a",
            "\"proxy_ssl_conf_command\" needs Certificate and PrivateKey together",
        ),
        ("CipherString NONE", "no cipher of \"NONE\" can be used"),
    ] {
        let text = format!(
            "events {{ }} http {{ access_log off; server {{ listen 127.0.0.1:1; location / {{
                 proxy_pass https://127.0.0.1:2; proxy_ssl_conf_command {command}; }} }} }}"
        );
        let (is_valid, said) = site::check(&text);
        assert!(!is_valid && said.contains(error), "{command}: {said}");
    }
}

#[test]
fn upstream_verification_requires_authority() {
    let text = site::configuration(
        "server { listen 127.0.0.1:1; location /a { proxy_pass https://127.0.0.1:2; proxy_ssl_verify on; } }",
    );
    let (accepted, said) = site::check(&text);
    assert!(!accepted);
    assert!(
        said.contains("no proxy_ssl_trusted_certificate for proxy_ssl_verify in location \"/a\""),
        "{said}"
    );
}
