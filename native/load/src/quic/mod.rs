//! HTTP/3 connections of a thread, spread over a few UDP sockets, with batched datagrams.

mod connection;
mod group;

use crate::options::{Options, Protocol};
use crate::plan::{share, Plan};
use crate::worker::Transport;
use crate::{asked, trust};
use connection::Asking;
use group::{transport, Group};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::ClientConfig;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

/// A server assigns each client address to one of its threads, so the connections use several.
const MAX_SOCKETS: usize = 8;

pub struct Quic<'a> {
    options: &'a Options,
    config: ClientConfig,
    frames: Vec<Vec<u8>>,
    groups: Vec<Group>,
}

impl<'a> Quic<'a> {
    /// Prepare this number of connections.
    ///
    /// # Errors
    /// TLS cannot be set up, or no socket is available.
    pub fn new(options: &'a Options, connections: usize) -> Result<Self, String> {
        let tls = QuicClientConfig::try_from(trust::tls(Protocol::H3)?);
        let mut config = ClientConfig::new(Arc::new(tls.map_err(|e| e.to_string())?));
        config.transport_config(Arc::new(transport(options)));
        let sockets = connections.min(MAX_SOCKETS);
        let groups = (0..sockets)
            .map(|socket| Group::new(options, share(connections as u64, socket, sockets) as usize))
            .collect::<io::Result<_>>();
        Ok(Self {
            options,
            config,
            frames: asked::h3(options),
            groups: groups.map_err(|e| e.to_string())?,
        })
    }
}

impl Transport for Quic<'_> {
    fn go_on(&mut self, plan: &mut Plan, now: Instant) -> Result<Option<Instant>, String> {
        let text = |e: io::Error| e.to_string();
        let mut next = None;
        for group in &mut self.groups {
            group.connect(self.options, &self.config, now)?;
            group.receive(now).map_err(text)?;
            let due = group.handle_timeouts(now);
            next = [next, due].into_iter().flatten().min();
            let all = self.options.rate.is_some() && plan.is_due(now);
            let mut asking = Asking {
                plan,
                frames: &self.frames,
                streams: self.options.streams,
            };
            group.go_on(&mut asking, now, all).map_err(text)?;
        }
        Ok(next)
    }

    fn fds(&self, fds: &mut Vec<RawFd>) {
        fds.extend(self.groups.iter().map(Group::raw));
    }
}
