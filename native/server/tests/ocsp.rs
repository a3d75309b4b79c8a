//! What an authority says of the server's certificates (`ssl_stapling`) and the clients' (`ssl_ocsp`), with OpenSSL's own authority,
//! responder and client.

use crate::common::Server;
use crate::h3::Client;
use crate::ports::free_port;
use crate::resolver::name_server;
use crate::site::{self, Folder};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

/// An authority of OpenSSL's `ca` program, in a folder of its own.
struct Authority {
    folder: Folder,
    /// Where the certificates say that its responder is.
    port: u16,
}

const CONF: &str = "
[req]
distinguished_name = name
x509_extensions = authority
[name]
[authority]
basicConstraints = critical,CA:TRUE
[ca]
default_ca = ours
[ours]
new_certs_dir = .
database = index
serial = serial
default_md = sha256
default_days = 2
policy = policy
unique_subject = no
copy_extensions = copy
[policy]
commonName = supplied
[site]
authorityInfoAccess = OCSP;URI:http://127.0.0.1:PORT
[silent]
basicConstraints = CA:FALSE
";

impl Authority {
    fn new() -> Self {
        let (folder, port) = (Folder::new(), free_port());
        folder.write("conf", &CONF.replace("PORT", &port.to_string()));
        folder.write("index", "");
        folder.write("serial", "1000");
        let new = Self { folder, port };
        new.openssl("req -x509 -config conf -newkey rsa:2048 -nodes -subj /CN=authority -keyout ca.key -out ca.pem");
        new
    }

    fn openssl(&self, args: &str) -> Output {
        let mut command = Command::new("openssl");
        command.args(args.split(' ')).current_dir(&self.folder.0);
        let out = command.output().expect("openssl runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "openssl {args}: {said}");
        out
    }

    /// `NAME.pem` (with the authority's behind it) and `NAME.key`; `section` of the configuration says
    /// what stands in it.
    fn issue(&self, name: &str, section: &str) {
        self.openssl(&format!(
            "req -config conf -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} \
             -addext subjectAltName=DNS:{name} -keyout {name}.key -out {name}.csr"
        ));
        self.openssl(&format!(
            "ca -batch -notext -config conf -extensions {section} -keyfile ca.key -cert ca.pem \
             -in {name}.csr -out {name}.own"
        ));
        let whole = self.read(&format!("{name}.own")) + &self.read("ca.pem");
        self.folder.write(&format!("{name}.pem"), &whole);
    }

    fn revoke(&self, name: &str) {
        self.openssl(&format!(
            "ca -config conf -keyfile ca.key -cert ca.pem -revoke {name}.own"
        ));
    }

    /// What the authority says of a certificate, in a file.
    fn answer(&self, name: &str, file: &str) {
        let own = format!("{name}.own");
        self.openssl(&format!(
            "ocsp -issuer ca.pem -cert {own} -reqout request.der"
        ));
        self.openssl(&format!(
            "ocsp -index index -CA ca.pem -rsigner ca.pem -rkey ca.key -ndays 1 -reqin request.der -respout {file}"
        ));
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.0.join(name)).expect("a file of the authority")
    }

    fn path(&self, name: &str) -> String {
        site::path(&self.folder.0.join(name)).to_string()
    }

    /// Starts its responder.
    fn respond(&self) -> Responder {
        let args = "-index index -CA ca.pem -rsigner ca.pem -rkey ca.key -ndays 1 -ignore_err";
        let mut child = Command::new("openssl")
            .args(["ocsp", "-port", &self.port.to_string()])
            .args(args.split(' '))
            .current_dir(&self.folder.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("openssl runs");
        // It hangs when a connection closes without a request: what it says is waited for instead.
        let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        while !line.contains("waiting for OCSP client connections") {
            line.clear();
            let read = said.read_line(&mut line).expect("what it says");
            assert!(read > 0, "the responder does not start");
        }
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Responder(child)
    }

    fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.read("ca.pem").as_bytes()).expect("a certificate")
    }

    /// `ssl_certificate` and its key.
    fn pair(&self, name: &str) -> String {
        let path = |ending| self.path(&format!("{name}.{ending}"));
        let (certificate, key) = (path("pem"), path("key"));
        format!("ssl_certificate {certificate}; ssl_certificate_key {key};")
    }
}

struct Responder(Child);

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Verifies as usual, and keeps the answer that a certificate was shown with.
#[derive(Debug)]
struct Keeping {
    inner: Arc<WebPkiServerVerifier>,
    answer: Mutex<Option<Vec<u8>>>,
}

impl ServerCertVerifier for Keeping {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        answer: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.answer.lock().unwrap() = Some(answer.to_vec());
        self.inner
            .verify_server_cert(own, between, name, answer, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn client(authority: &Authority) -> (ClientConfig, Arc<Keeping>) {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let inner = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone());
    let keeping = Arc::new(Keeping {
        inner: inner.build().unwrap(),
        answer: Mutex::default(),
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(keeping.clone())
        .with_no_client_auth();
    (config, keeping)
}

/// Shakes hands with the server of that name; the answer that its certificate was shown with, empty for
/// none.
fn shown(authority: &Authority, port: u16, name: &str, alpn: &[u8]) -> Vec<u8> {
    let (mut config, keeping) = client(authority);
    config.alpn_protocols = vec![alpn.to_vec()];
    let name = ServerName::try_from(name.to_string()).unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut socket).expect("a handshake");
    }
    assert_eq!(tls.alpn_protocol(), Some(alpn));
    let answer = keeping.answer.lock().unwrap().take();
    answer.expect("a certificate")
}

fn shown_by_quic(authority: &Authority, port: u16, name: &str) -> Vec<u8> {
    let (config, keeping) = client(authority);
    let mut quic = Client::connect_with(port, config, name);
    quic.run("the handshake", |c| c.connected);
    let answer = keeping.answer.lock().unwrap().take();
    answer.expect("a certificate")
}

fn wait_for(what: &str, server: &Server, mut condition: impl FnMut() -> bool) {
    let limit = std::time::Instant::now() + crate::PATIENCE;
    while !condition() {
        let late = std::time::Instant::now() >= limit;
        assert!(!late, "{what} did not come; {}", server.errors());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A server with one block for each name; `more` goes into each.
fn serve(authority: &Authority, port: u16, names: &[&str], more: &str) -> Server {
    let mut blocks = String::from("ssl_stapling on;");
    for name in names {
        let pair = authority.pair(name);
        blocks += &format!(
            "server {{ listen 127.0.0.1:{port} ssl; listen 127.0.0.1:{port} quic; http2 on; \
             server_name {name}; {pair} {more} }}\n"
        );
    }
    Server::start(&blocks, |_| {})
}

#[test]
fn ocsp_staples_are_sent_over_every_http_version() {
    let authority = Authority::new();
    authority.issue("good.example", "site");
    authority.issue("revoked.example", "site");
    authority.revoke("revoked.example");
    let _responder = authority.respond();
    let port = free_port();
    let trusted = format!(
        "ssl_stapling_verify on; ssl_trusted_certificate {};",
        authority.path("ca.pem")
    );
    let names = ["good.example", "revoked.example"];
    let server = serve(&authority, port, &names, &trusted);
    let ask = |name: &str, alpn: &[u8]| shown(&authority, port, name, alpn);
    // Nobody waits for an answer; the first handshake begins to ask.
    assert!(ask("good.example", b"http/1.1").is_empty());
    assert!(ask("revoked.example", b"h2").is_empty());
    wait_for("an answer", &server, || {
        !ask("good.example", b"http/1.1").is_empty()
    });
    let answer = ask("good.example", b"h2");
    assert!(!answer.is_empty());
    assert_eq!(shown_by_quic(&authority, port, "good.example"), answer);
    for version in ["-tls1_2", "-tls1_3"] {
        let said = authority.openssl(&format!(
            "s_client -connect 127.0.0.1:{port} -servername good.example -status {version} -CAfile ca.pem -verify_return_error"
        ));
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains("Cert Status: good"), "{said}");
    }
    let reason = format!(
        "certificate status \"revoked\" in the OCSP response while requesting certificate status, \
         responder: 127.0.0.1, peer: 127.0.0.1:{}, certificate: \"{}\"",
        authority.port,
        authority.path("revoked.example.pem")
    );
    wait_for("the reason", &server, || server.errors().contains(&reason));
    assert!(ask("revoked.example", b"http/1.1").is_empty());
    assert!(shown_by_quic(&authority, port, "revoked.example").is_empty());
}

/// Asks for `/`, showing a certificate; what `$ssl_client_verify` says, or the error page.
fn verified(authority: &Authority, port: u16, name: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der()).unwrap();
    let chain = CertificateDer::from_pem_slice(authority.read(&format!("{name}.own")).as_bytes());
    let key = PrivateKeyDer::from_pem_slice(authority.read(&format!("{name}.key")).as_bytes());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![chain.unwrap()], key.unwrap())
        .unwrap();
    let server = ServerName::try_from("site.example").unwrap();
    let tls = ClientConnection::new(Arc::new(config), server).unwrap();
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
    let mut stream = StreamOwned::new(tls, socket);
    let request = "GET / HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A server that wants clients to show certificates; `more` goes into it.
fn verifying(authority: &Authority, port: u16, more: &str) -> Server {
    let (pair, trusted) = (authority.pair("site.example"), authority.path("ca.pem"));
    Server::start(
        &format!(
            "server {{ listen 127.0.0.1:{port} ssl; server_name site.example; {pair}
             ssl_verify_client on; ssl_client_certificate {trusted}; {more}
             add_header X-Verify [$ssl_client_verify] always;
             location / {{ return 200 served; }} }}"
        ),
        |_| {},
    )
}

#[test]
fn client_certificates_are_checked_by_ocsp() {
    let authority = Authority::new();
    for name in ["site.example", "good", "revoked", "kept"] {
        authority.issue(name, "site");
    }
    authority.revoke("revoked");
    let responder = authority.respond();
    let (port, keeping) = (free_port(), free_port());
    let server = verifying(&authority, port, "ssl_ocsp on;");
    let cache = "ssl_ocsp leaf; ssl_ocsp_cache shared:OCSP:1m;";
    let keeper = verifying(&authority, keeping, cache);
    let is_served = |port, name| {
        let answer = verified(&authority, port, name);
        let good = answer.contains("X-Verify: [SUCCESS]") && answer.ends_with("served");
        assert!(good || answer.starts_with("HTTP/1.1 400 "), "{answer}");
        (good, answer)
    };
    for (port, server) in [(port, &server), (keeping, &keeper)] {
        let (good, said) = is_served(port, "good");
        assert!(good, "{said} {}", server.errors());
        let (good, said) = is_served(port, "revoked");
        assert!(
            !good && said.contains("[FAILED:certificate revoked]"),
            "{said}"
        );
    }
    // Nobody answers any more: what is known is still good, what is not is refused.
    drop(responder);
    assert!(is_served(keeping, "good").0);
    for (port, name, server) in [(keeping, "kept", &keeper), (port, "good", &server)] {
        let (good, said) = is_served(port, name);
        assert!(
            !good && said.contains("[FAILED:certificate status request failed]"),
            "{said}"
        );
        let reason = format!(
            "connect() failed (111: Connection refused) while requesting certificate status, \
             responder: 127.0.0.1, peer: 127.0.0.1:{}",
            authority.port
        );
        assert!(server.errors().contains(&reason), "{}", server.errors());
    }
}

/// As [`verified`], over HTTP/3: status and body.
fn verified_by_quic(authority: &Authority, port: u16, name: &str) -> (String, String) {
    let chain = CertificateDer::from_pem_slice(authority.read(&format!("{name}.own")).as_bytes());
    let key = PrivateKeyDer::from_pem_slice(authority.read(&format!("{name}.key")).as_bytes());
    let own = Some((chain.unwrap(), key.unwrap()));
    let mut client = Client::connect_as(port, authority.der(), "example.org", own);
    client.run("the handshake", |client| client.connected);
    let id = client.get("/");
    let answer = client.answer(id);
    (
        answer.status.clone(),
        String::from_utf8(answer.body.clone()).unwrap(),
    )
}

#[test]
fn http3_requests_wait_for_ocsp_check() {
    let authority = Authority::new();
    for name in ["example.org", "good", "revoked"] {
        authority.issue(name, "site");
    }
    authority.revoke("revoked");
    let responder = authority.respond();
    let port = free_port();
    let (pair, trusted) = (authority.pair("example.org"), authority.path("ca.pem"));
    let server = Server::start(
        &format!(
            "server {{ listen 127.0.0.1:{port} quic; server_name example.org; {pair}
             ssl_verify_client on; ssl_client_certificate {trusted}; ssl_ocsp on;
             location / {{ return 200 $ssl_client_verify; }} }}"
        ),
        |_| {},
    );
    let is = |status: &str, body: &str| (status.to_string(), body.to_string());
    let good = verified_by_quic(&authority, port, "good");
    assert_eq!(good, is("200", "SUCCESS"), "{}", server.errors());
    assert_eq!(verified_by_quic(&authority, port, "revoked").0, "400");
    drop(responder);
    assert_eq!(verified_by_quic(&authority, port, "good").0, "400");
}

#[test]
fn client_certificates_without_responder_are_rejected() {
    let authority = Authority::new();
    for name in ["site.example", "silent"] {
        authority.issue(name, "silent");
    }
    let _responder = authority.respond();
    let (port, named) = (free_port(), free_port());
    let server = verifying(&authority, port, "ssl_ocsp leaf;");
    let said = verified(&authority, port, "silent");
    assert!(
        said.contains("[FAILED:certificate status request failed]"),
        "{said}"
    );
    assert!(server
        .errors()
        .contains("no OCSP responder URL in certificate"));
    let more = format!(
        "ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:{};",
        authority.port
    );
    let server = verifying(&authority, named, &more);
    let said = verified(&authority, named, "silent");
    assert!(said.ends_with("served"), "{said} {}", server.errors());
}

#[test]
fn invalid_responder_is_a_configuration_error() {
    let authority = Authority::new();
    authority.issue("site.example", "site");
    let (pair, trusted) = (authority.pair("site.example"), authority.path("ca.pem"));
    for (listen, more, reason) in [
        ("ssl", "ssl_ocsp maybe;", "invalid value \"maybe\""),
        (
            "ssl",
            "ssl_ocsp on; ssl_ocsp_cache shared:A:1k;",
            "OCSP cache \"shared:A:1k\" is too small",
        ),
        (
            "ssl",
            "ssl_ocsp on; ssl_ocsp_cache A:1m;",
            "invalid OCSP cache \"A:1m\"",
        ),
        (
            "ssl",
            "ssl_ocsp on; ssl_ocsp_responder https://127.0.0.1;",
            "invalid URL prefix in OCSP responder \"https://127.0.0.1\" in \"ssl_ocsp_responder\"",
        ),
        (
            "ssl",
            "ssl_ocsp leaf; ssl_verify_client optional_no_ca;",
            "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"",
        ),
    ] {
        let verify = match more.contains("ssl_verify_client") {
            true => "",
            false => "ssl_verify_client on;",
        };
        let http = format!(
            "server {{ listen 127.0.0.1:1 {listen}; {pair} ssl_client_certificate {trusted}; {verify} {more} }}"
        );
        let (good, said) = site::check(&site::configuration(&http));
        assert!(!good && said.contains(reason), "{more}: {said}");
    }
}

#[test]
fn failing_responders_do_not_delay_handshakes() {
    let authority = Authority::new();
    authority.issue("good.example", "site");
    let _responder = authority.respond();
    let (dns, _asked) = name_server();
    let port = free_port();
    let named = format!(
        "resolver 127.0.0.1:{dns}; ssl_stapling_responder http://known.example:{};",
        authority.port
    );
    let server = serve(&authority, port, &["good.example"], &named);
    let ask = |port| shown(&authority, port, "good.example", b"http/1.1");
    wait_for("an answer", &server, || !ask(port).is_empty());

    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let unnamed = named.replace("known.example", "unknown.example");
    let silence = silent.local_addr().expect("its address");
    for (more, reason) in [
        (
            unnamed,
            "unknown.example could not be resolved (3: Host not found)",
        ),
        (
            "ssl_stapling_responder http://127.0.0.1:1/;".into(),
            "connect() failed (111: Connection refused) while requesting certificate status, \
             responder: 127.0.0.1, peer: 127.0.0.1:1, certificate: ",
        ),
        (format!("ssl_stapling_responder http://{silence}/;"), ""),
    ] {
        let port = free_port();
        let server = serve(&authority, port, &["good.example"], &more);
        for _ in 0..3 {
            assert!(ask(port).is_empty());
        }
        wait_for("the reason", &server, || server.errors().contains(reason));
    }
    // Who was asked and says nothing has been asked once.
    silent.set_nonblocking(true).expect("set");
    assert!(silent.accept().is_ok() && silent.accept().is_err());
}

#[test]
fn mismatched_ocsp_responses_are_not_stapled() {
    let authority = Authority::new();
    authority.issue("good.example", "site");
    authority.issue("other.example", "site");
    authority.answer("other.example", "other.der");
    let other = std::fs::read(authority.folder.0.join("other.der")).expect("an answer");
    let head = |kind: &str, len: usize| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\r\n")
    };
    let kind = "application/ocsp-response";
    let whole = [head(kind, other.len()).as_bytes(), &other].concat();
    let cases: [(Vec<u8>, &str); 6] = [
        (
            whole.clone(),
            "certificate status not found in the OCSP response",
        ),
        (
            whole[..whole.len() - 1].to_vec(),
            "prematurely closed connection",
        ),
        (
            head("text/html", 0).into(),
            "sent invalid \"Content-Type\" header: \"text/html\"",
        ),
        (head(kind, 0).into(), "d2i_OCSP_RESPONSE() failed"),
        (
            b"HTTP/1.0 503 No\r\n\r\n".to_vec(),
            "answered with status 503",
        ),
        (
            b"hello\r\n\r\n".to_vec(),
            "OCSP responder sent invalid response",
        ),
    ];
    for (answer, reason) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let answering = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = listener.accept().expect("a request");
            let mut request = Vec::new();
            let mut buffer = [0; 1024];
            while !request.ends_with(b"\r\n\r\n") {
                let n = stream.read(&mut buffer).expect("more of it");
                assert!(n > 0, "the request ends early");
                request.extend_from_slice(&buffer[..n]);
            }
            stream.write_all(&answer).expect("sent");
            String::from_utf8(request).expect("text")
        });
        let port = free_port();
        let more = format!("ssl_stapling_responder http://{address}/a;");
        let server = serve(&authority, port, &["good.example"], &more);
        let ask = || shown(&authority, port, "good.example", b"http/1.1");
        assert!(ask().is_empty());
        wait_for(reason, &server, || server.errors().contains(reason));
        assert!(ask().is_empty());
        let request = answering.join().expect("the responder's request");
        assert!(request.starts_with("GET /a/"), "{request}");
    }
}

#[test]
fn ocsp_response_can_come_from_file() {
    let authority = Authority::new();
    authority.issue("good.example", "silent");
    authority.answer("good.example", "answer.der");
    let port = free_port();
    let file = format!("ssl_stapling_file {};", authority.path("answer.der"));
    let _server = serve(&authority, port, &["good.example"], &file);
    let answer = std::fs::read(authority.folder.0.join("answer.der")).expect("an answer");
    let ask = |port| shown(&authority, port, "good.example", b"http/1.1");
    assert_eq!(ask(port), answer);
    assert_eq!(shown_by_quic(&authority, port, "good.example"), answer);
    let port = free_port();
    let off = format!("{file} ssl_stapling off;");
    let _server = serve(&authority, port, &["good.example"], &off);
    assert!(ask(port).is_empty());
}

#[test]
fn configuration_test_explains_missing_staples() {
    let authority = Authority::new();
    authority.issue("silent.example", "silent");
    authority.issue("good.example", "site");
    let alone = authority.read("good.example.own");
    authority.folder.write("alone.pem", &alone);
    std::fs::copy(
        authority.folder.0.join("good.example.key"),
        authority.folder.0.join("alone.key"),
    )
    .expect("copied");
    let check = |name: &str, more: &str| {
        let pair = authority.pair(name);
        site::check(&site::configuration(&format!(
            "ssl_stapling on; server {{ listen 127.0.0.1:1 ssl; {pair} {more} }}"
        )))
    };
    let path = |name: &str| authority.path(name);
    for (name, more, reason) in [
        (
            "silent.example",
            "",
            "no OCSP responder URL in the certificate",
        ),
        ("alone", "", "issuer certificate not found for certificate"),
        (
            "good.example",
            "ssl_stapling_responder https://127.0.0.1/;",
            "invalid URL prefix in OCSP responder \"https://127.0.0.1/\" in the certificate",
        ),
    ] {
        let (good, said) = check(name, more);
        let file = path(&format!("{name}.pem"));
        let warning = format!("[warn] \"ssl_stapling\" ignored, {reason} \"{file}\"");
        assert!(good && said.contains(&warning), "{said}");
    }
    let trusted = format!("ssl_trusted_certificate {};", path("ca.pem"));
    let (good, said) = check("alone", &trusted);
    assert!(good && !said.contains("ssl_stapling"), "{said}");
    let file = format!("ssl_stapling_file {};", path("ca.pem"));
    let (good, said) = check("good.example", &file);
    let reason = format!("cannot load ssl_stapling_file \"{}\"", path("ca.pem"));
    assert!(!good && said.contains(&reason), "{said}");
}
