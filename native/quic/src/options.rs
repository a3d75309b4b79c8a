//! The settings of an endpoint.

use crate::token::random;
use std::time::Duration;

/// The options of connections.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most simultaneous requests.
    pub max_streams: u32,
    /// The receive window of a stream in bytes.
    pub stream_window: u32,
    /// The time without packets after which a connection ends.
    pub idle: Duration,
    /// The time limit for a handshake.
    pub handshake: Duration,
    /// Whether addresses are always validated by Retry before any state is stored.
    pub retry: bool,
    /// The number of handshakes under way from which addresses are validated. Four times this
    /// number is the limit.
    pub retry_above: usize,
    /// Whether datagrams of equal size are sent in batches.
    pub gso: bool,
    /// Whether datagrams can be sent with ECT(0), as [`Transmit::ecn`] says.
    pub ecn: bool,
    /// The label in all connection ids of the endpoint, by which packets are steered to it.
    pub label: u8,
    /// The key of tokens. Endpoints with the same secret accept each other's tokens.
    pub secret: [u8; 32],
    /// Whether packets with unknown ids belong to no endpoint with the same secret, so that all
    /// their clients may get stateless resets. Otherwise only this endpoint's clients do.
    pub steered: bool,
    /// Milliseconds since 1970, for the validity of tokens.
    pub unix_ms: u64,
}

impl Default for Options {
    /// 128 streams with windows of 64 KB, an idle timeout of 75 seconds, and a random secret.
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
