//! A client's datagrams at the server's QUIC endpoint: raw bytes, Initial packets with arbitrary
//! content under the correct keys, and a real client whose datagrams get lost, damaged, duplicated,
//! and reordered.

use arbitrary::{Arbitrary, Unstructured};
use bytes::{Bytes, BytesMut};
use gallop_quic::Fixed;
use gallop_server::quic::{Datagram, Ecn, Endpoint, Event, Options, Sender};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, ConnectionHandle, DatagramEvent, Dir, EndpointConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::quic::{Keys, Version};
use rustls::Side;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

#[derive(Arbitrary, Debug)]
enum Step {
    Raw(Vec<u8>),
    /// An Initial packet that decrypts to these frames.
    Initial(Vec<u8>),
    /// The client's next datagram, with one byte changed if the mask is not zero.
    Damaged {
        at: u16,
        mask: u8,
    },
    Lost,
    Doubled,
    Swapped,
    /// The server's datagrams reach the client.
    Answers,
    /// Bytes on a new stream of the client.
    Stream {
        uni: bool,
        data: Vec<u8>,
        fin: bool,
    },
    Wait(u16),
}

/// The most steps per input, and the most datagrams that the server may send per step; more would
/// be a loop.
const MAX_STEPS: usize = 64;
const MAX_DATAGRAMS: usize = 4096;

struct Setup {
    server: Arc<Fixed>,
    client: ClientConfig,
}

fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let own = rcgen::generate_simple_self_signed(vec!["example.org".to_string()])
            .expect("a certificate");
        let certificate: CertificateDer<'static> = own.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .expect("our own key");
        server.alpn_protocols = vec![b"h3".to_vec()];
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).expect("our own certificate");
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h3".to_vec()];
        let client = QuicClientConfig::try_from(client).expect("AES-128");
        Setup {
            server: Arc::new(Fixed::new(Arc::new(server)).expect("AES-128")),
            client: ClientConfig::new(Arc::new(client)),
        }
    })
}

struct World {
    server: Endpoint,
    out: Sender,
    endpoint: quinn_proto::Endpoint,
    handle: ConnectionHandle,
    client: quinn_proto::Connection,
    now: Instant,
    /// Datagrams from the client that are not delivered yet.
    pending: Vec<Vec<u8>>,
    /// Datagrams from the server that are not delivered yet.
    answers: Vec<Vec<u8>>,
    sent: usize,
}

/// Run the steps that an input decodes to.
pub fn quic(bytes: &[u8]) {
    let Ok((retry, steps)) = <(bool, Vec<Step>)>::arbitrary_take_rest(Unstructured::new(bytes))
    else {
        return;
    };
    let mut world = World::new(retry);
    for step in steps.into_iter().take(MAX_STEPS) {
        world.step(step);
        world.serve();
    }
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl World {
    fn new(retry: bool) -> Self {
        let options = Options {
            max_streams: 8,
            stream_window: 4096,
            idle: Duration::from_secs(5),
            retry,
            gso: true,
            ..Options::default()
        };
        let now = Instant::now();
        let server = Endpoint::new(setup().server.clone(), &options, now);
        let config = Arc::new(EndpointConfig::default());
        let mut endpoint = quinn_proto::Endpoint::new(config, None, true, None);
        let (handle, client) = endpoint
            .connect(now, setup().client.clone(), address(443), "example.org")
            .expect("a client");
        World {
            server,
            out: Sender::default(),
            endpoint,
            handle,
            client,
            now,
            pending: Vec::new(),
            answers: Vec::new(),
            sent: 0,
        }
    }

    fn step(&mut self, step: Step) {
        self.collect();
        match step {
            Step::Raw(data) => self.deliver(&data),
            Step::Initial(frames) => self.deliver(&initial(&frames)),
            Step::Damaged { at, mask } => {
                if let Some(mut data) = self.next() {
                    let at = usize::from(at) % data.len();
                    data[at] ^= mask;
                    self.deliver(&data);
                }
            }
            Step::Lost => drop(self.next()),
            Step::Doubled => {
                if let Some(data) = self.next() {
                    self.deliver(&data);
                    self.deliver(&data);
                }
            }
            Step::Swapped => self.pending.reverse(),
            Step::Answers => self.answer(),
            Step::Stream { uni, data, fin } => {
                let dir = if uni { Dir::Uni } else { Dir::Bi };
                if let Some(id) = self.client.streams().open(dir) {
                    let mut stream = self.client.send_stream(id);
                    // Fails if the window is used up or the connection is gone.
                    let _ = stream.write(&data);
                    if fin {
                        let _ = stream.finish();
                    }
                }
            }
            Step::Wait(ms) => {
                self.now += Duration::from_millis(ms.into());
                self.server.handle_timeouts(self.now);
                self.client.handle_timeout(self.now);
            }
        }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        (!self.pending.is_empty()).then(|| self.pending.remove(0))
    }

    /// Take the datagrams that the client wants to send.
    fn collect(&mut self) {
        let mut buffer = Vec::new();
        while let Some(transmit) = self.client.poll_transmit(self.now, 1, &mut buffer) {
            self.pending.push(buffer[..transmit.size].to_vec());
            buffer.clear();
        }
    }

    fn deliver(&mut self, data: &[u8]) {
        let datagram = Datagram {
            remote: address(4433),
            local: None,
            data: BytesMut::from(data),
            // Any mark that is the same in each replay of the input.
            ecn: Ecn::of(data.last().copied().unwrap_or_default()),
        };
        self.server.receive(self.now, datagram, &mut self.out);
        self.take_sent();
    }

    /// Act as the HTTP/3 driver: read every stream and echo its bytes.
    fn serve(&mut self) {
        while let Some(key) = self.server.next_active() {
            while let Some(event) = self.server.poll(key) {
                let Event::Readable(stream) = event else {
                    continue;
                };
                let mut chunks: Vec<Bytes> = Vec::new();
                self.server
                    .read(key, stream, 65_536, &mut chunks, |_| false);
                if stream & 2 == 0 {
                    let _ = self.server.write(key, stream, &mut chunks);
                    self.server.finish(key, stream);
                }
            }
            while !self.server.transmit(key, self.now, &mut self.out) {
                self.take_sent();
            }
            self.take_sent();
        }
    }

    fn take_sent(&mut self) {
        let taken = self.out.take();
        self.sent += taken.len();
        assert!(self.sent <= MAX_DATAGRAMS, "the server sends without end");
        self.answers.extend(taken);
    }

    fn answer(&mut self) {
        let mut buffer = Vec::new();
        for data in std::mem::take(&mut self.answers) {
            let data = BytesMut::from(&data[..]);
            let from = address(443);
            let event = self
                .endpoint
                .handle(self.now, from, None, None, data, &mut buffer);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.client.handle_event(event);
            }
            while let Some(event) = self.client.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                    self.client.handle_event(event);
                }
            }
            while self.client.poll().is_some() {}
        }
    }
}

/// A client's first packet (RFC 9000, section 17.2.2) with these frames, padded as section 14.1
/// requires.
fn initial(frames: &[u8]) -> Vec<u8> {
    const ID: [u8; 8] = *b"fuzzfuzz";
    const NUMBER: usize = 4;
    const TAG: usize = 16;
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let rustls::SupportedCipherSuite::Tls13(suite) = suite else {
        unreachable!("a suite of TLS 1.3");
    };
    let quic = suite.quic.expect("QUIC with AWS-LC");
    let keys = Keys::initial(Version::V1, suite, quic, &ID, Side::Client);
    let mut payload = frames[..frames.len().min(8000)].to_vec();
    payload.resize(payload.len().max(1200), 0);
    let mut packet = vec![0xc3, 0, 0, 0, 1, ID.len() as u8];
    packet.extend_from_slice(&ID);
    packet.extend_from_slice(&[0, 0]);
    let length = (NUMBER + payload.len() + TAG) as u16;
    packet.extend_from_slice(&(length | 0x4000).to_be_bytes());
    let number_at = packet.len();
    packet.extend_from_slice(&[0; NUMBER]);
    let tag = keys.local.packet.encrypt_in_place(0, &packet, &mut payload);
    packet.extend_from_slice(&payload);
    packet.extend_from_slice(tag.expect("room for the tag").as_ref());
    let sample_at = number_at + 4;
    let (head, rest) = packet.split_at_mut(sample_at);
    let (first, number) = head.split_at_mut(number_at);
    let sample = &rest[..keys.local.header.sample_len()];
    keys.local
        .header
        .encrypt_in_place(sample, &mut first[0], number)
        .expect("a sample of the right length");
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_initial_packets_are_understood() {
        let mut world = World::new(false);
        // PING, then CONNECTION_CLOSE with an empty reason: the server responds to an Initial that
        // it can read.
        world.deliver(&initial(&[1]));
        world.serve();
        assert!(!world.answers.is_empty());
    }

    #[test]
    fn a_client_that_nothing_happens_to_is_served() {
        let mut world = World::new(true);
        for _ in 0..20 {
            world.step(Step::Answers);
            world.collect();
            while let Some(data) = world.next() {
                world.deliver(&data);
                world.serve();
            }
        }
        assert!(!world.client.is_handshaking() && !world.client.is_closed());
    }
}
