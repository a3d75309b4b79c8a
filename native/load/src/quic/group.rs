//! The connections of one UDP socket.

use super::connection::{Asking, Connection};
use crate::options::Options;
use gallop_server::quic::{prepare, Datagram, Output, Receiver, Sender, Transmit};
use quinn_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
    MtuDiscoveryConfig, TransportConfig, VarInt,
};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The receive window of a connection.
const WINDOW: u32 = 16 << 20;
/// The most segments that the kernel accepts in one send with segmentation offload.
const MAX_SEGMENTS: usize = 10;

pub struct Group {
    socket: UdpSocket,
    endpoint: Endpoint,
    receiver: Receiver,
    sender: Sender,
    connections: HashMap<ConnectionHandle, Connection>,
    active: Vec<ConnectionHandle>,
    wanted: usize,
}

impl Group {
    /// A socket for `wanted` connections, which [`Group::connect`] opens.
    pub fn new(options: &Options, wanted: usize) -> io::Result<Self> {
        let any: IpAddr = match options.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        let marks = prepare(socket.as_raw_fd(), any)?;
        let mut config = EndpointConfig::default();
        config
            .max_udp_payload_size(options.mtu)
            .map_err(io::Error::other)?;
        Ok(Self {
            socket,
            endpoint: Endpoint::new(Arc::new(config), None, true, None),
            receiver: Receiver::default(),
            sender: Sender::marking(marks),
            connections: HashMap::new(),
            active: Vec::new(),
            wanted,
        })
    }

    pub fn raw(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Open the missing connections.
    ///
    /// # Errors
    /// The name is not valid in a TLS handshake.
    pub fn connect(
        &mut self,
        options: &Options,
        config: &ClientConfig,
        now: Instant,
    ) -> Result<(), String> {
        while self.connections.len() < self.wanted {
            let name = options.server_name();
            let (handle, quic) = self
                .endpoint
                .connect(now, config.clone(), options.address, name)
                .map_err(|e| e.to_string())?;
            self.connections.insert(handle, Connection::new(quic, now));
            self.active.push(handle);
        }
        Ok(())
    }

    /// Process received datagrams.
    pub fn receive(&mut self, now: Instant) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            let (endpoint, connections) = (&mut self.endpoint, &mut self.connections);
            let active = &mut self.active;
            let taken = self.receiver.receive(self.socket.as_raw_fd(), |datagram| {
                let Datagram {
                    remote,
                    local,
                    data,
                    ecn,
                } = datagram;
                let ecn = EcnCodepoint::from_bits(ecn as u8);
                let event = endpoint.handle(now, remote, local, ecn, data, &mut buffer);
                if let Some(DatagramEvent::ConnectionEvent(handle, event)) = event {
                    if let Some(connection) = connections.get_mut(&handle) {
                        connection.quic.handle_event(event);
                        if active.last() != Some(&handle) {
                            active.push(handle);
                        }
                    }
                }
            });
            match taken {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    /// Serve the connections with events, or (`all`) every one.
    pub fn go_on(&mut self, asking: &mut Asking<'_>, now: Instant, all: bool) -> io::Result<()> {
        let mut active = std::mem::take(&mut self.active);
        if all {
            active.extend(self.connections.keys());
        }
        active.sort_unstable();
        active.dedup();
        for handle in active {
            self.serve(handle, asking, now)?;
        }
        flush(&mut self.sender, self.socket.as_raw_fd())
    }

    fn serve(
        &mut self,
        handle: ConnectionHandle,
        asking: &mut Asking<'_>,
        now: Instant,
    ) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&handle) else {
            return Ok(());
        };
        connection.go_on(asking, now);
        loop {
            if self.sender.is_full() {
                flush(&mut self.sender, self.socket.as_raw_fd())?;
            }
            let buffer = self.sender.buffer();
            let Some(transmit) = connection.quic.poll_transmit(now, MAX_SEGMENTS, buffer) else {
                break;
            };
            self.sender.push(Transmit {
                remote: transmit.destination,
                local: transmit.src_ip,
                segment: transmit.segment_size,
                ecn: transmit.ecn.is_some(),
            });
        }
        while let Some(event) = connection.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.quic.handle_event(event);
            }
        }
        if connection.closed {
            self.connections.remove(&handle);
        }
        Ok(())
    }

    /// Run the timers that are due. Returns the time of the next one.
    pub fn handle_timeouts(&mut self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for (handle, connection) in &mut self.connections {
            let Some(due) = connection.quic.poll_timeout() else {
                continue;
            };
            if due <= now {
                connection.quic.handle_timeout(now);
                self.active.push(*handle);
            }
            let due = due.max(now);
            next = Some(next.map_or(due, |known: Instant| known.min(due)));
        }
        next
    }
}

/// Send the gathered datagrams, waiting while the socket is full.
fn flush(sender: &mut Sender, fd: RawFd) -> io::Result<()> {
    while !sender.is_empty() {
        match sender.flush(fd) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_micros(100));
            }
            other => other?,
        }
    }
    Ok(())
}

/// The transport settings.
pub fn transport(options: &Options) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(options.mtu);
    transport
        .max_concurrent_uni_streams(16u32.into())
        .stream_receive_window(WINDOW.into())
        .receive_window(VarInt::from(WINDOW))
        .max_idle_timeout(options.patience.try_into().ok())
        .mtu_discovery_config(Some(discovery))
        .datagram_receive_buffer_size(None);
    transport
}
