//! Attacks on QUIC itself, some with packets made by hand (RFC 9000, section 17.2.2).

use crate::common::Server;
use crate::h3;
use crate::ports::free_port;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, Endpoint, EndpointConfig};
use rustls::pki_types::CertificateDer;
use rustls::quic::{Keys, Version};
use rustls::Side;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a client's first datagrams must have.
const DATAGRAM: usize = 1200;
const ID: [u8; 8] = *b"attacker";

struct Site {
    _server: Server,
    port: u16,
    certificate: CertificateDer<'static>,
}

impl Site {
    /// A server whose certificate has these names.
    fn start(names: Vec<String>) -> Self {
        let port = free_port();
        let own = rcgen::generate_simple_self_signed(names).unwrap();
        let http = format!(
            "server {{ listen 127.0.0.1:{port} quic; ssl_certificate %%/cert.pem;\n\
             ssl_certificate_key %%/key.pem; location / {{ return 204; }} }}"
        );
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let server = Server::start(&http, |folder| {
            std::fs::write(folder.join("cert.pem"), certificate).unwrap();
            std::fs::write(folder.join("key.pem"), key).unwrap();
        });
        Self {
            _server: server,
            port,
            certificate: own.cert.der().clone(),
        }
    }

    fn socket(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", self.port)).unwrap();
        socket
    }

    fn serves_others(&self) -> bool {
        let mut client = h3::Client::connect(self.port, self.certificate.clone());
        client.run("the handshake", |client| client.connected);
        client.greet();
        let id = client.get("/");
        client.answer(id).status == "204"
    }
}

fn keys() -> Keys {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let aes = rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
    let suites = &provider.cipher_suites;
    let suite = suites.iter().find(|suite| suite.suite() == aes).unwrap();
    let suite = suite.tls13().unwrap().quic_suite().unwrap();
    suite.keys(&ID, Side::Client, Version::V1)
}

/// An Initial packet with these frames and padding, the datagram whole.
fn initial(keys: &Keys, number: u32, frames: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc3, 0, 0, 0, 1];
    for id in [ID, ID] {
        packet.push(id.len() as u8);
        packet.extend(id);
    }
    packet.push(0);
    let rest = DATAGRAM - packet.len() - 2;
    packet.extend((rest as u16 | 0x4000).to_be_bytes());
    let at = packet.len();
    packet.extend(number.to_be_bytes());
    let mut payload = frames.to_vec();
    payload.resize(DATAGRAM - packet.len() - keys.local.packet.tag_len(), 0);
    let sealed = keys
        .local
        .packet
        .encrypt_in_place(number.into(), &packet, &mut payload);
    let tag = sealed.unwrap();
    packet.extend(payload);
    packet.extend(tag.as_ref());
    let sample = packet[at + 4..at + 20].to_vec();
    let (first, rest) = packet.split_at_mut(1);
    let number = &mut rest[at - 1..at + 3];
    let header = &keys.local.header;
    header
        .encrypt_in_place(&sample, &mut first[0], number)
        .unwrap();
    packet
}

/// The frames in the server's first packet of a datagram, which must be an Initial one.
fn open(keys: &Keys, mut datagram: Vec<u8>) -> Vec<u8> {
    let mut at = 5;
    for _ in 0..2 {
        at += 1 + usize::from(datagram[at]);
    }
    assert_eq!(datagram[at], 0, "a token");
    at += 1;
    let bytes = 1 << (datagram[at] >> 6);
    let value = |value: usize, byte: &u8| value << 8 | usize::from(*byte);
    let length = datagram[at..at + bytes].iter().fold(0, value) & ((1 << (8 * bytes - 2)) - 1);
    at += bytes;
    let sample = datagram[at + 4..at + 20].to_vec();
    let (first, rest) = datagram.split_at_mut(1);
    let number = &mut rest[at - 1..at + 3];
    let header = &keys.remote.header;
    header
        .decrypt_in_place(&sample, &mut first[0], number)
        .unwrap();
    let end = at + usize::from(datagram[0] & 3) + 1;
    let number = datagram[at..end].iter().fold(0, value);
    let (head, payload) = datagram[..at + length].split_at_mut(end);
    let opened = keys
        .remote
        .packet
        .decrypt_in_place(number as u64, head, payload);
    opened.unwrap().to_vec()
}

#[test]
fn ack_of_unsent_packet_ends_the_connection() {
    let site = Site::start(vec!["example.org".to_string()]);
    let (keys, socket) = (keys(), site.socket());
    socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
    // An ACK frame of packet 1000.
    socket
        .send(&initial(&keys, 0, &[0x02, 0x43, 0xe8, 0, 0, 0]))
        .unwrap();
    let mut answer = vec![0; 2048];
    let len = socket.recv(&mut answer).expect("an answer");
    answer.truncate(len);
    let frames = open(&keys, answer);
    // CONNECTION_CLOSE with PROTOCOL_VIOLATION.
    let close = [0x1c, 0x0a];
    assert!(frames.windows(2).any(|w| w == close), "{frames:02x?}");
    assert!(site.serves_others());
}

#[test]
fn garbage_datagrams_are_ignored() {
    let site = Site::start(vec!["example.org".to_string()]);
    let (keys, socket) = (keys(), site.socket());
    for n in 0..2000u32 {
        let mut datagram = initial(&keys, n, &[]);
        datagram[40] ^= n as u8 | 1;
        datagram.truncate(DATAGRAM - n as usize % 900);
        // The server's buffer may be full: that is its answer, too.
        let _ = socket.send(&datagram);
    }
    assert!(site.serves_others());
}

/// Who does not show that the address is its own gets at most three times what it sent (RFC 9000,
/// section 8.1), whatever the size of the certificate and however often it is sent anew.
#[test]
fn unvalidated_address_gets_at_most_three_times_its_bytes() {
    let mut names: Vec<String> = (0..400u32)
        .map(|n| format!("n{:08x}.example.org", n.wrapping_mul(2_654_435_761)))
        .collect();
    names.push("example.org".to_string());
    let site = Site::start(names);
    assert!(site.certificate.len() > 5 * DATAGRAM, "too small to tell");
    let hello = hello(site.certificate.clone());
    let socket = site.socket();
    socket.set_read_timeout(Some(crate::PATIENCE)).unwrap();
    socket.send(&hello).unwrap();
    let mut buffer = [0; 65_536];
    let mut got = socket.recv(&mut buffer).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(1500)))
        .unwrap();
    while let Ok(len) = socket.recv(&mut buffer) {
        got += len;
    }
    assert!(got > DATAGRAM, "{got} bytes");
    assert!(got <= 3 * hello.len(), "{got} bytes for {}", hello.len());
    assert!(site.serves_others());
}

/// The first datagram of an honest client.
fn hello(authority: CertificateDer<'static>) -> Vec<u8> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
    let remote = ([127, 0, 0, 1], 443).into();
    let now = Instant::now();
    let connected = endpoint.connect(now, config, remote, "example.org");
    let (_, mut client) = connected.unwrap();
    let mut datagram = Vec::new();
    let sent = client.poll_transmit(now, 1, &mut datagram);
    datagram.truncate(sent.expect("a hello").size);
    datagram
}
