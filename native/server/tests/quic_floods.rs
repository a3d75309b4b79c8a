//! Floods of first packets: they cost little memory, count among the connections, and do not keep others out.

use crate::common::Server;
use crate::h3;
use crate::ports::free_port;
use crate::site::{self, Set};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, Endpoint, EndpointConfig};
use rustls::pki_types::CertificateDer;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Site {
    server: Server,
    port: u16,
    certificate: CertificateDer<'static>,
}

impl Site {
    fn start() -> Self {
        let port = free_port();
        let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
        let http = format!(
            "server {{ listen 127.0.0.1:{port} quic; ssl_certificate %%/cert.pem;\n\
             ssl_certificate_key %%/key.pem; location / {{ return 200 alive; }} }}"
        );
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let server = Server::start(&http, |folder| {
            std::fs::write(folder.join("cert.pem"), certificate).unwrap();
            std::fs::write(folder.join("key.pem"), key).unwrap();
        });
        Self {
            server,
            port,
            certificate: own.cert.der().clone(),
        }
    }

    fn memory(&self, field: &str) -> u64 {
        let status = format!("/proc/{}/status", self.server.worker());
        let status = std::fs::read_to_string(status).expect("the worker lives");
        let line = status.lines().find_map(|l| l.strip_prefix(field));
        let number = line.and_then(|l| l.trim().strip_suffix(" kB"));
        number.expect("a figure").parse().expect("a number")
    }

    /// Connects, asks and is answered; how long that took.
    fn visit(&self) -> Duration {
        let began = Instant::now();
        let mut client = h3::Client::connect(self.port, self.certificate.clone());
        client.run("the handshake", |client| client.connected);
        client.greet();
        let id = client.get("/");
        assert_eq!(client.answer(id).status, "200");
        began.elapsed()
    }
}

fn hellos(port: u16, certificate: CertificateDer<'static>) -> Hellos {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port)).unwrap();
    socket.set_nonblocking(true).unwrap();
    Hellos {
        config: ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap())),
        endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None),
        socket,
        retries: 0,
    }
}

/// Begins connections and goes on with none of them.
struct Hellos {
    config: ClientConfig,
    endpoint: Endpoint,
    socket: UdpSocket,
    retries: u64,
}

impl Hellos {
    fn send(&mut self) {
        let now = Instant::now();
        let remote = ([127, 0, 0, 1], 443).into();
        let connected = self
            .endpoint
            .connect(now, self.config.clone(), remote, "example.org");
        let (_, mut client) = connected.unwrap();
        let mut datagram = Vec::new();
        let sent = client.poll_transmit(now, 1, &mut datagram);
        datagram.truncate(sent.expect("a hello").size);
        let _ = self.socket.send(&datagram);
        let mut answer = [0; 65_536];
        while let Ok(n) = self.socket.recv(&mut answer) {
            // The type of a Retry packet (RFC 9000, section 17.2.5).
            self.retries += u64::from(n > 0 && answer[0] & 0xf0 == 0xf0);
        }
    }
}

/// Connections that are begun: far more than `worker_connections`, 8192, times 1200 bytes of the first packets.
const FLOOD: usize = 20_000;
/// Kilobytes they may cost: the first 1024, which are not asked to validate their addresses, take about 30 each.
const MOST_KB: u64 = 48 * 1024;

#[test]
fn flood_of_first_packets_costs_little_memory_and_others_are_served() {
    let site = Site::start();
    let quiet = (0..20).map(|_| site.visit()).max().unwrap();
    let before = site.memory("VmRSS:");
    let over = AtomicBool::new(false);
    let (visits, retries) = std::thread::scope(|scope| {
        let visitor = scope.spawn(|| {
            let mut visits = Vec::new();
            while !over.load(Ordering::Relaxed) || visits.len() < 20 {
                visits.push(site.visit());
                std::thread::sleep(Duration::from_millis(20));
            }
            visits
        });
        let _over = Set(&over);
        let mut hellos = hellos(site.port, site.certificate.clone());
        for n in 0..FLOOD {
            hellos.send();
            if n % 16 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        over.store(true, Ordering::Relaxed);
        (visitor.join().unwrap(), hellos.retries)
    });
    let peak = site.memory("VmHWM:");
    let worst = visits.iter().max().unwrap();
    println!(
        "{before} KB before, {peak} KB at the peak, {} KB after; {retries} Retry packets; \
         {} visits of at most {worst:?}, {quiet:?} without the flood",
        site.memory("VmRSS:"),
        visits.len()
    );
    assert!(retries > FLOOD as u64 / 4, "{retries} Retry packets");
    assert!(peak - before < MOST_KB, "{} KB more", peak - before);
}

#[test]
fn handshakes_count_as_connections() {
    let quic = free_port();
    let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()]).unwrap();
    let folder = site::Folder::new();
    folder.write("cert.pem", &own.cert.pem());
    folder.write("key.pem", &own.signing_key.serialize_pem());
    // No Retry, so that each first packet begins a connection. There may be 256 at once.
    let http = format!(
        "server {{ listen 127.0.0.1:{{port}}; listen 127.0.0.1:{quic} quic; quic_retry_above 100000;\n\
         ssl_certificate cert.pem; ssl_certificate_key key.pem; location / {{ return 200 alive; }} }}"
    );
    let server = site::Server::start_in(folder, &http);
    let is_alive = || server.get("/", "").ends_with("alive");
    assert!(is_alive());
    let mut hellos = hellos(quic, own.cert.der().clone());
    let began = Instant::now();
    let full = "256 worker_connections are not enough";
    while !server.log("error.log").contains(full) {
        assert!(
            began.elapsed() < crate::PATIENCE,
            "the limit is never reached"
        );
        (0..50).for_each(|_| hellos.send());
        std::thread::sleep(Duration::from_millis(10));
    }
    // There is no room for others, also over TCP.
    assert!(!is_alive());
    let complaints = server.log("error.log").matches(full).count() as u64;
    assert!(
        complaints <= 3 + began.elapsed().as_secs(),
        "{complaints} lines of the log"
    );
    // Handshakes that do not end are given up.
    server.wait_for("room for others", |_| is_alive());
    let mut client = h3::Client::connect(quic, own.cert.der().clone());
    client.run("the handshake", |client| client.connected);
}
