//! Handshakes in memory with a rustls client.

use super::certificates::load_pair;
use super::tickets::FileTickets;
use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ProducesTickets;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// Each authority gets a unique name, since issuers are found by name.
static AUTHORITIES: AtomicUsize = AtomicUsize::new(0);

/// A folder that is removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gallop-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        let number = AUTHORITIES.fetch_add(1, Relaxed);
        params
            .distinguished_name
            .push(DnType::CommonName, format!("authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// Certificate and key as PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_string()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }
}

fn settings(pair: (String, String)) -> Settings {
    Settings {
        pairs: vec![(Source::Inline(pair.0), Source::Inline(pair.1))],
        tickets: true,
        ..Settings::default()
    }
}

fn context(settings: &Settings, alpn: Alpn) -> Result<Context> {
    let pairs = certificates::Choice::load(settings, &mut Vec::new())?;
    Context::new(settings, alpn, Arc::new(pairs), &Sessions::new(settings)?)
}

fn client(authority: &Authority, own: Option<(String, String)>, alpn: &[&[u8]]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}

/// Perform a handshake. Returns both sides or the error.
fn shake(
    context: &Context,
    config: ClientConfig,
) -> std::result::Result<(ServerConnection, ClientConnection), rustls::Error> {
    let name = ServerName::try_from("example.org").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name)?;
    let mut server = ServerConnection::new(context.config().clone())?;
    while client.is_handshaking() || server.is_handshaking() || server.wants_write() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut &wire[..]).unwrap();
        server.process_new_packets()?;
        let mut wire = Vec::new();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut &wire[..]).unwrap();
        client.process_new_packets()?;
    }
    Ok((server, client))
}

#[test]
fn http2_is_agreed_on_where_it_is_offered() {
    let authority = Authority::new();
    let settings = settings(authority.issue("example.org"));
    for (alpn, agreed) in [(Alpn::Http1, &b"http/1.1"[..]), (Alpn::Http2, b"h2")] {
        let context = context(&settings, alpn).unwrap();
        let (server, _) = shake(&context, client(&authority, None, &[b"h2", b"http/1.1"])).unwrap();
        assert_eq!(server.alpn_protocol(), Some(agreed));
    }
}

#[test]
fn protocols_and_ciphers_are_kept_to() {
    let authority = Authority::new();
    let mut settings = settings(authority.issue("example.org"));
    settings.protocols = vec!["TLSv1".into(), "TLSv1.2".into()];
    settings.ciphers = Some("ECDHE+CHACHA20:!aNULL".into());
    let context = context(&settings, Alpn::Http1).unwrap();
    let (server, _) = shake(&context, client(&authority, None, &[])).unwrap();
    assert_eq!(
        server.protocol_version(),
        Some(rustls::ProtocolVersion::TLSv1_2)
    );
    let suite = format!("{:?}", server.negotiated_cipher_suite().unwrap().suite());
    assert_eq!(suite, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
}

#[test]
fn cipher_strings_mean_what_they_mean_to_openssl() {
    let names = |string: &str| {
        ciphers::suites(string)
            .unwrap()
            .join(" ")
            .replace("TLS_ECDHE_", "")
    };
    assert_eq!(ciphers::suites("HIGH:!aNULL:!MD5").unwrap().len(), 6);
    assert_eq!(
        names("AES256-SHA:ECDHE-RSA-AES128-GCM-SHA256"),
        "RSA_WITH_AES_128_GCM_SHA256"
    );
    let chacha = "ECDSA_WITH_CHACHA20_POLY1305_SHA256 RSA_WITH_CHACHA20_POLY1305_SHA256";
    assert_eq!(names("ALL:!AESGCM:@STRENGTH"), chacha);
    let rsa = "RSA_WITH_AES_128_GCM_SHA256 RSA_WITH_AES_256_GCM_SHA384";
    assert_eq!(names("aRSA+AESGCM:+AES256"), rsa);
    assert_eq!(
        names("aRSA+AESGCM:-AES256:ECDHE-RSA-AES256-GCM-SHA384"),
        rsa
    );
    assert_eq!(
        names("!AES256:aRSA+AESGCM:AES256"),
        "RSA_WITH_AES_128_GCM_SHA256"
    );
}

#[test]
fn what_leaves_nothing_is_an_error() {
    let authority = Authority::new();
    let good = settings(authority.issue("example.org"));
    let refuse = |change: &dyn Fn(&mut Settings), words: &str| {
        let mut settings = good.clone();
        change(&mut settings);
        let message = context(&settings, Alpn::Http2)
            .err()
            .expect(words)
            .to_string();
        assert!(message.contains(words), "{message}");
    };
    refuse(
        &|s| s.protocols = vec!["TLSv1.1".into()],
        "leaves no protocol",
    );
    refuse(
        &|s| s.ciphers = Some("RC4-SHA".into()),
        "no cipher of \"RC4-SHA\"",
    );
    refuse(&|s| s.curves = Some("sect163k1".into()), "no curve");
    refuse(&|s| s.client = Client::On, "ssl_client_certificate");
    refuse(
        &|s| {
            s.stapling = Some(ocsp::Stapler {
                file: Some("/nonexistent".into()),
                ..ocsp::Stapler::default()
            });
        },
        "ssl_stapling_file \"/nonexistent\"",
    );
    refuse(
        &|s| s.ticket_keys = vec!["/nonexistent".into()],
        "ticket key",
    );
    let mut settings = good.clone();
    settings.protocols = vec!["TLSv1.2".into()];
    let message = context(&settings, Alpn::Http3).err().unwrap().to_string();
    assert!(message.contains("QUIC needs"), "{message}");
}

#[test]
fn files_that_do_not_fit_are_named() {
    let folder = Folder::new("files");
    let authority = Authority::new();
    let ((one, one_key), (_, other_key)) = (authority.issue("a"), authority.issue("b"));
    let certificate = Source::File(folder.write("one.pem", &one));
    let load = |key: &str| {
        let key = Source::Fresh(folder.write("key.pem", key));
        load_pair(&certificate, &key, &[])
            .map(|(pair, _)| pair)
            .map(drop)
            .map_err(|e| e.to_string())
    };
    assert_eq!(load(&one_key), Ok(()));
    assert!(load(&other_key)
        .unwrap_err()
        .contains("do not belong together"));
    assert!(load("nothing").unwrap_err().contains("key.pem"));
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    assert!(load(encrypted).unwrap_err().contains("not PBES2"));
    let old = one_key.replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\n");
    assert!(load(&old).is_err());
    let empty = Source::File(folder.write("empty.pem", ""));
    assert!(load_pair(&empty, &empty, &[])
        .unwrap_err()
        .to_string()
        .contains("holds no certificate"));
}

#[test]
fn client_certificates_are_judged_after_the_handshake() {
    let folder = Folder::new("clients");
    let (authority, stranger) = (Authority::new(), Authority::new());
    let mut settings = settings(authority.issue("example.org"));
    settings.client = Client::Optional;
    settings.authorities.client = Some(folder.write("ca.pem", authority.pem()));
    let context = context(&settings, Alpn::Http1).unwrap();
    let verdict = |own| {
        let (server, _) = shake(&context, client(&authority, own, &[])).unwrap();
        let judge = context.judge.as_deref().unwrap();
        judge.verdict(server.peer_certificates())
    };
    assert_eq!(verdict(None), Verdict::None);
    assert_eq!(verdict(Some(authority.issue("friend"))), Verdict::Success);
    let Verdict::Failed(reason) = verdict(Some(stranger.issue("stranger"))) else {
        panic!("a stranger's certificate was taken");
    };
    assert!(reason.contains("UnknownIssuer"), "{reason}");
}

#[test]
fn any_certificate_will_do_without_authorities() {
    let authority = Authority::new();
    let mut settings = settings(authority.issue("example.org"));
    settings.client = Client::OptionalNoCa;
    let context = context(&settings, Alpn::Http1).unwrap();
    let own = Authority::new().issue("anyone");
    let (server, _) = shake(&context, client(&authority, Some(own), &[])).unwrap();
    assert_eq!(server.peer_certificates().map(<[_]>::len), Some(1));
    assert!(context.judge.is_none());
}

#[test]
fn sessions_are_resumed_by_tickets_from_shared_keys() {
    let folder = Folder::new("tickets");
    let authority = Authority::new();
    let mut settings = settings(authority.issue("example.org"));
    settings.ticket_keys = vec![folder.write("a.key", [1; 80])];
    settings.session_timeout = 300;
    let config = client(&authority, None, &[]);
    let first = context(&settings, Alpn::Http1).unwrap();
    let (server, _) = shake(&first, config.clone()).unwrap();
    assert_eq!(server.handshake_kind(), Some(rustls::HandshakeKind::Full));
    settings.ticket_keys = vec![
        folder.write("b.key", [2; 48]),
        folder.write("a.key", [1; 80]),
    ];
    let second = context(&settings, Alpn::Http1).unwrap();
    let (server, _) = shake(&second, config).unwrap();
    assert_eq!(
        server.handshake_kind(),
        Some(rustls::HandshakeKind::Resumed)
    );
}

#[test]
fn tickets_cannot_be_forged() {
    let folder = Folder::new("forge");
    let tickets = FileTickets::new(&[folder.write("a.key", [1; 80])], 60).unwrap();
    let ticket = tickets.encrypt(b"session").unwrap();
    assert_eq!(tickets.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
    for at in 0..ticket.len() {
        let mut forged = ticket.clone();
        forged[at] ^= 1;
        assert_eq!(tickets.decrypt(&forged), None, "byte {at}");
    }
    assert_eq!(tickets.decrypt(&ticket[..20]), None);
    let short = folder.write("short.key", [1; 47]);
    assert!(FileTickets::new(&[short], 60)
        .unwrap_err()
        .to_string()
        .contains("48 or 80 bytes"));
}

#[test]
fn a_file_is_read_once_for_a_configuration_and_again_when_it_changed() {
    let folder = Folder::new("cache");
    let path = folder.write("a.pem", "first");
    let read = || String::from_utf8(files::read(&path).unwrap().to_vec()).unwrap();
    assert_eq!(read(), "first");
    // Replace the file in place with an unchanged modification time.
    let times = std::fs::FileTimes::new()
        .set_modified(std::fs::metadata(&path).unwrap().modified().unwrap());
    folder.write("a.pem", "second");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_times(times).unwrap();
    assert_eq!(read(), "first");
    files::begin_configuration(true);
    assert_eq!(read(), "first");
    folder.write("b.pem", "third");
    std::fs::rename(folder.0.join("b.pem"), &path).unwrap();
    files::begin_configuration(true);
    assert_eq!(read(), "third");
    folder.write("a.pem", "fourth");
    files::begin_configuration(false);
    assert_eq!(read(), "fourth");
}

#[test]
fn of_two_certificates_with_keys_of_one_kind_the_last_is_shown() {
    let folder = Folder::new("twice");
    let authority = Authority::new();
    let mut settings = Settings::default();
    for name in ["first.example", "second.example"] {
        let (certificate, key) = authority.issue(name);
        settings.pairs.push((
            Source::File(folder.write(&format!("{name}.pem"), certificate)),
            Source::File(folder.write(&format!("{name}.key"), key)),
        ));
    }
    let pairs = certificates::Choice::load(&settings, &mut Vec::new()).unwrap();
    let schemes = [rustls::SignatureScheme::ECDSA_NISTP256_SHA256];
    let shown = pairs.pick(&schemes).unwrap();
    assert!(shown.cert[0].windows(14).any(|w| w == b"second.example"));
}
