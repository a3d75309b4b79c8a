//! TLS against the real binary, with rustls' client.

use crate::common::Server;
use crate::ports::free_port;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// Certificate and key as PEM.
    pub fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_string()]).unwrap();
        (
            params.signed_by(&key, &self.0).unwrap().pem(),
            key.serialize_pem(),
        )
    }
}

pub struct Site {
    pub server: Server,
    pub port: u16,
    pub authority: Authority,
}

impl Site {
    /// Two server blocks on a TLS port; `more` goes into the second.
    fn start(more: &str) -> Self {
        let block = |name: &str, more: &str| {
            format!(
                "server {{ listen 127.0.0.1:PORT ssl; server_name {name};\n\
                 ssl_certificate %%/{name}.pem; ssl_certificate_key %%/{name}.key;\n\
                 location / {{ return 200 \"{name} $ssl_protocol $ssl_client_verify\"; }} {more} }}\n"
            )
        };
        Self::of(&(block("one.example", "") + &block("two.example", more)))
    }

    /// An `http` block that finds certificates of `one.example` and `two.example` in its folder (`%%`).
    pub fn of(http: &str) -> Self {
        let port = free_port();
        let authority = Authority::new("authority");
        let server = Server::start(&http.replace("PORT", &port.to_string()), |folder| {
            for name in ["one.example", "two.example"] {
                let (certificate, key) = authority.issue(name);
                std::fs::write(folder.join(format!("{name}.pem")), certificate).unwrap();
                std::fs::write(folder.join(format!("{name}.key")), key).unwrap();
            }
            std::fs::write(folder.join("ca.pem"), authority.0.pem()).unwrap();
        });
        Self {
            server,
            port,
            authority,
        }
    }

    /// The answer to a request for `/`, the client showing `own`.
    pub fn get(&self, name: &str, own: Option<(String, String)>) -> std::io::Result<String> {
        self.get_host(name, name, own)
    }

    /// A connection to `name`.
    fn connect(
        &self,
        name: &str,
        own: Option<(String, String)>,
    ) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let server_name = ServerName::try_from(name.to_string()).unwrap();
        let tls = ClientConnection::new(Arc::new(config), server_name).unwrap();
        let socket = TcpStream::connect(("127.0.0.1", self.port))?;
        socket.set_read_timeout(Some(crate::PATIENCE))?;
        Ok(StreamOwned::new(tls, socket))
    }

    /// The answer for `host` on a connection that was made to `name`.
    fn get_host(
        &self,
        name: &str,
        host: &str,
        own: Option<(String, String)>,
    ) -> std::io::Result<String> {
        let mut stream = self.connect(name, own)?;
        write!(
            stream,
            "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

#[test]
fn server_name_selects_certificate_and_server() {
    let site = Site::start("");
    for name in ["one.example", "two.example"] {
        let answer = site.get(name, None).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(
            answer.ends_with(&format!("{name} TLSv1.3 NONE")),
            "{answer}"
        );
    }
    // The default server's certificate is not for this name.
    assert!(site.get("three.example", None).is_err());
}

#[test]
fn bad_and_missing_client_certificates_get_400() {
    let more = "ssl_verify_client on; ssl_client_certificate %%/ca.pem;";
    let site = Site::start(more);
    let friend = site.authority.issue("friend");
    let stranger = Authority::new("another").issue("stranger");
    let good = site.get("two.example", Some(friend)).unwrap();
    assert!(good.ends_with("two.example TLSv1.3 SUCCESS"), "{good}");
    let missing = site.get("two.example", None).unwrap();
    assert!(
        missing.contains("400 No required SSL certificate was sent"),
        "{missing}"
    );
    let bad = site.get("two.example", Some(stranger)).unwrap();
    assert!(bad.contains("400 The SSL certificate error"), "{bad}");
    assert!(site
        .get("one.example", None)
        .unwrap()
        .starts_with("HTTP/1.1 200"));
}

#[test]
fn signature_algorithms_of_both_sides_are_variables() {
    let more = "ssl_verify_client optional; ssl_client_certificate %%/ca.pem;
        add_header X-Signed \"[$ssl_sigalg:$ssl_client_sigalg]\";";
    let site = Site::start(more);
    let both = "[ecdsa_secp256r1_sha256:ecdsa_secp256r1_sha256]";
    let friend = site.get("two.example", Some(site.authority.issue("friend")));
    assert!(friend.unwrap().contains(both));
    let alone = site.get("two.example", None).unwrap();
    assert!(alone.contains("[ecdsa_secp256r1_sha256:]"), "{alone}");
}

#[test]
fn verifying_server_is_not_reached_by_handshake_of_another() {
    let site = Site::start("ssl_verify_client optional_no_ca;");
    let host = |name, host| site.get_host(name, host, None).unwrap();
    let misdirected = host("one.example", "two.example");
    assert!(misdirected.starts_with("HTTP/1.1 421"), "{misdirected}");
    let back = host("two.example", "one.example");
    assert!(back.starts_with("HTTP/1.1 200"), "{back}");
}

#[test]
fn parked_tls_connection_continues() {
    let site = Site::start("");
    let mut stream = site.connect("two.example", None).unwrap();
    for pieces in [["GET / HTTP/1.1\r\nHo", "st: two.example\r\n\r\n"]; 3] {
        for piece in pieces {
            // Two records: the first wakes the connection without a whole request.
            stream.write_all(piece.as_bytes()).unwrap();
            stream.flush().unwrap();
        }
        let mut answer = Vec::new();
        while !answer.ends_with(b"two.example TLSv1.3 NONE") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
    }
}

#[test]
fn rejected_server_name_gets_tls_alert() {
    let site = Site::start("ssl_reject_handshake on;");
    let error = site.get("two.example", None).unwrap_err().to_string();
    assert!(error.contains("UnrecognisedName"), "{error}");
    assert!(site.get("one.example", None).is_ok());
}

/// Over TLS 1.2; the client gives up when it hears so, and the connection with it.
#[test]
fn renegotiation_is_rejected_at_once() {
    let site = Site::start("");
    let mut client = std::process::Command::new("openssl")
        .args([
            "s_client",
            "-tls1_2",
            "-connect",
            &format!("127.0.0.1:{}", site.port),
        ])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("openssl runs");
    let mut input = client.stdin.take().expect("a pipe");
    input.write_all(b"R\n").expect("sent");
    let (said_it, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || said_it.send(client.wait_with_output()));
    let out = heard.recv_timeout(std::time::Duration::from_secs(20));
    let out = out.expect("an end in time").expect("openssl ran");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("no renegotiation"), "{said}");
}

#[test]
fn plain_http_on_tls_port_gets_400() {
    let site = Site::start("");
    let mut socket = TcpStream::connect(("127.0.0.1", site.port)).unwrap();
    socket
        .write_all(b"GET / HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(
        answer.contains("The plain HTTP request was sent to HTTPS port"),
        "{answer}"
    );
    assert!(!site.server.errors().contains("[alert]"));
}

#[test]
fn openssl_commands_override_directives() {
    let site = Site::start(
        "ssl_conf_command Certificate %%/one.example.pem;
         ssl_conf_command PrivateKey %%/one.example.key;",
    );
    assert!(site.get("one.example", None).is_ok());
    // Its certificate is the other one's now.
    let error = site.get("two.example", None).unwrap_err().to_string();
    assert!(
        error.contains("NotValidForName") || error.contains("not valid for name"),
        "{error}"
    );
}

#[test]
fn openssl_commands_choose_versions_and_suites() {
    let block = |name: &str, commands: &str| {
        format!(
            "server {{ listen 127.0.0.1:PORT ssl; server_name {name}; {commands}
             ssl_certificate %%/{name}.pem; ssl_certificate_key %%/{name}.key;
             return 200 \"$ssl_protocol $ssl_cipher\"; }}\n"
        )
    };
    let suite = "ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_CCM_SHA256;
                 ssl_conf_command MinProtocol TLSv1.3; ssl_conf_command Options KTLS;";
    let old = "ssl_conf_command MaxProtocol TLSv1.2;";
    let site = Site::of(&(block("one.example", suite) + &block("two.example", old)));
    let first = site.get("one.example", None).unwrap();
    assert!(
        first.ends_with("TLSv1.3 TLS_CHACHA20_POLY1305_SHA256"),
        "{first}"
    );
    let second = site.get("two.example", None).unwrap();
    assert!(second.contains("\r\n\r\nTLSv1.2 "), "{second}");
    for (command, said) in [
        ("Ciphersuites NONE", "no suite of \"NONE\" can be used"),
        ("MinProtocol TLSv9", "is not supported"),
        ("MaxProtocol TLSv1.1", "leaves no protocol"),
    ] {
        let text = format!(
            "events {{}} http {{ access_log off; server {{ listen 127.0.0.1:1 ssl; ssl_conf_command {command};
             ssl_certificate {0}/one.example.pem; ssl_certificate_key {0}/one.example.key; }} }}",
            site.server.folder.0.display()
        );
        let (accepted, words) = crate::site::check(&format!("pid p; {text}"));
        assert!(!accepted && words.contains(said), "{words}");
    }
}

/// By tickets, by what the server remembers, or not at all; keys in a file hold on other servers, too.
#[test]
fn session_resumption_follows_configuration() {
    let site = Site::start("");
    let folder = site.server.folder.0.display().to_string();
    std::fs::write(format!("{folder}/ticket.key"), [7; 48]).unwrap();
    let file = "ssl_session_ticket_key %%/ticket.key;";
    let places = [
        ("", [true, true]),
        (
            "ssl_session_tickets off; ssl_session_cache shared:S:1m;",
            [true, true],
        ),
        (
            "ssl_session_tickets off; ssl_session_cache off;",
            [false, false],
        ),
        (file, [true, true]),
        (file, [true, true]),
    ];
    let ports: Vec<u16> = places.iter().map(|_| free_port()).collect();
    let block = |(port, (more, _)): (&u16, &(&str, _))| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; server_name one.example; {more}
             ssl_certificate %%/one.example.pem; ssl_certificate_key %%/one.example.key;
             return 200 $ssl_session_reused; }}\n"
        )
    };
    let http: String = ports.iter().zip(&places).map(block).collect();
    let start = || Server::start(&http.replace("%%", &folder), |_| {});
    let server = start();
    let mut roots = RootCertStore::empty();
    roots.add(site.authority.der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = |version| {
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots.clone());
        Arc::new(config.with_no_client_auth())
    };
    let is_resumed = |config: &Arc<ClientConfig>, port: u16| {
        let name = ServerName::try_from("one.example").unwrap();
        let tls = ClientConnection::new(config.clone(), name).unwrap();
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
        let mut stream = StreamOwned::new(tls, socket);
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.ends_with("\r\n\r\nr") || answer.ends_with("\r\n\r\n."),
            "{answer}"
        );
        answer.ends_with('r')
    };
    let versions = [&rustls::version::TLS12, &rustls::version::TLS13];
    for (port, (more, expected)) in ports.iter().zip(&places) {
        let resumed = versions.map(|version| {
            let config = client(version);
            assert!(!is_resumed(&config, *port), "{more}");
            is_resumed(&config, *port)
        });
        assert_eq!(resumed, *expected, "{more}");
    }
    // Where the keys are the same, by the other one's tickets, and after another start.
    let config = client(&rustls::version::TLS13);
    assert!(!is_resumed(&config, ports[3]) && is_resumed(&config, ports[4]));
    drop(server);
    let _server = start();
    assert!(is_resumed(&config, ports[3]));
}

#[test]
fn early_data_gets_response() {
    let site = Site::start("");
    let port = free_port();
    let http = format!(
        "server {{ listen 127.0.0.1:{port} ssl; ssl_early_data on; server_name one.example;
         ssl_certificate {0}/one.example.pem; ssl_certificate_key {0}/one.example.key;
         location / {{ return 200 \"$ssl_session_reused early=$ssl_early_data\"; }} }}",
        site.server.folder.0.display()
    );
    let _server = Server::start(&http, |_| {});
    let mut roots = RootCertStore::empty();
    roots.add(site.authority.0.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.enable_early_data = true;
    let config = Arc::new(config);
    let request = b"GET / HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\n\r\n";
    let ask = || {
        let name = ServerName::try_from("one.example").unwrap();
        let mut tls = ClientConnection::new(config.clone(), name).unwrap();
        let early = match tls.early_data() {
            Some(mut early) => early.write(request).unwrap() == request.len(),
            None => false,
        };
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
        let mut stream = StreamOwned::new(tls, socket);
        if !early {
            stream.write_all(request).unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(early, stream.conn.is_early_data_accepted());
        (early, answer)
    };
    let (early, first) = ask();
    assert!(!early && first.ends_with(". early="), "{first}");
    // Answered once the handshake is whole: what is answered is no replay.
    let (early, second) = ask();
    assert!(early && second.ends_with("r early="), "{second}");
}
