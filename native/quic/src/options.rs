//! The settings of an endpoint.

use crate::token::random;
use std::time::Duration;

/// How connections are.
#[derive(Clone, Debug)]
pub struct Options {
    /// Streams of requests at once.
    pub max_streams: u32,
    /// Bytes that one stream may have under way to us.
    pub stream_window: u32,
    /// Without a packet for this long a connection ends.
    pub idle: Duration,
    /// A handshake that takes longer is given up.
    pub handshake: Duration,
    /// Addresses are validated before anything is kept for them.
    pub retry: bool,
    /// So are they while as many handshakes are under way as this. Four times as many are the most there can be.
    pub retry_above: usize,
    /// Datagrams go out in batches of a size.
    pub gso: bool,
    /// Datagrams can go out marked with ECT(0), as their [`Transmit::ecn`] says.
    pub ecn: bool,
    /// In all connection ids of the endpoint, so that what comes for them can be led to it.
    pub label: u8,
    /// What tokens are made from. Endpoints with the same one take each other's tokens for addresses.
    pub secret: [u8; 32],
    /// What comes for ids that are not known is for nobody, as far as endpoints with the same secret go: they all
    /// can be told that. Otherwise only clients of this endpoint are.
    pub steered: bool,
    /// Milliseconds since 1970: tokens are good for a time, also elsewhere and later.
    pub unix_ms: u64,
}

impl Default for Options {
    /// 128 streams with windows of 64 KB, kept for 75 seconds without packets; a secret of its own.
    fn default() -> Self {
        Self {
            max_streams: 128,
            stream_window: 65_536,
            idle: Duration::from_secs(75),
            handshake: Duration::from_secs(10),
            retry: false,
            retry_above: 1024,
            gso: true,
            ecn: true,
            label: 0,
            secret: random(),
            steered: false,
            unix_ms: 0,
        }
    }
}
