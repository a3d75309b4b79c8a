//! Transport parameters (RFC 9000, section 18).

use crate::cid::ConnectionId;
use crate::error::{Error, Reason};
use gallop_http::h3::varint;
use std::time::Duration;

const ORIGINAL_DESTINATION: u64 = 0x00;
const MAX_IDLE_TIMEOUT: u64 = 0x01;
const STATELESS_RESET_TOKEN: u64 = 0x02;
const MAX_UDP_PAYLOAD: u64 = 0x03;
const MAX_DATA: u64 = 0x04;
const MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
const MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
const MAX_STREAM_DATA_UNI: u64 = 0x07;
const MAX_STREAMS_BIDI: u64 = 0x08;
const MAX_STREAMS_UNI: u64 = 0x09;
const ACK_DELAY_EXPONENT: u64 = 0x0a;
const MAX_ACK_DELAY: u64 = 0x0b;
const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
const PREFERRED_ADDRESS: u64 = 0x0d;
const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
const INITIAL_SOURCE: u64 = 0x0f;
const RETRY_SOURCE: u64 = 0x10;

/// The most streams of a kind (RFC 9000, section 4.6).
pub const MAX_STREAMS: u64 = 1 << 60;

/// The limits that a client sets for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// `None` if the client has no idle timeout.
    pub idle: Option<Duration>,
    /// The size of the largest datagram that it accepts.
    pub max_udp_payload: u16,
    pub max_data: u64,
    /// For the streams that it opens.
    pub max_stream_data_bidi: u64,
    /// For our unidirectional streams.
    pub max_stream_data_uni: u64,
    pub max_streams_uni: u64,
    pub ack_delay_exponent: u8,
    pub max_ack_delay: Duration,
    pub active_ids: u64,
    pub source: ConnectionId,
}

/// The limits that we set for a client.
pub struct Own<'a> {
    pub original: &'a ConnectionId,
    pub source: &'a ConnectionId,
    /// The id that we chose in a Retry packet.
    pub retry_source: Option<&'a ConnectionId>,
    pub reset_token: &'a [u8; 16],
    pub idle: Duration,
    pub max_udp_payload: u64,
    pub max_data: u64,
    pub max_stream_data: u64,
    pub max_streams_bidi: u64,
    pub max_streams_uni: u64,
    pub active_ids: u64,
}

impl Own<'_> {
    /// Encode as in the TLS extension.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        let mut bytes = |id: u64, value: &[u8]| {
            varint::encode(&mut out, id);
            varint::encode(&mut out, value.len() as u64);
            out.extend_from_slice(value);
        };
        bytes(ORIGINAL_DESTINATION, self.original.as_slice());
        bytes(INITIAL_SOURCE, self.source.as_slice());
        if let Some(id) = self.retry_source {
            bytes(RETRY_SOURCE, id.as_slice());
        }
        bytes(STATELESS_RESET_TOKEN, self.reset_token);
        for (id, value) in [
            (MAX_IDLE_TIMEOUT, self.idle.as_millis() as u64),
            (MAX_UDP_PAYLOAD, self.max_udp_payload),
            (MAX_DATA, self.max_data),
            (MAX_STREAM_DATA_BIDI_LOCAL, self.max_stream_data),
            (MAX_STREAM_DATA_BIDI_REMOTE, self.max_stream_data),
            (MAX_STREAM_DATA_UNI, self.max_stream_data),
            (MAX_STREAMS_BIDI, self.max_streams_bidi),
            (MAX_STREAMS_UNI, self.max_streams_uni),
            (ACTIVE_CONNECTION_ID_LIMIT, self.active_ids),
        ] {
            let mut encoded = Vec::with_capacity(8);
            varint::encode(&mut encoded, value.min(varint::MAX));
            bytes(id, &encoded);
        }
        out
    }
}

fn bad(reason: &'static str) -> Error {
    Error::new(Reason::TransportParameter, reason)
}

fn number(mut value: &[u8]) -> Result<u64, Error> {
    match varint::decode(&mut value) {
        Some(number) if value.is_empty() => Ok(number),
        _ => Err(bad("a parameter is no integer")),
    }
}

impl Params {
    /// Decode a client's parameters.
    ///
    /// # Errors
    /// They are malformed, duplicate, only for servers, or have invalid values.
    pub fn decode(mut input: &[u8]) -> Result<Self, Error> {
        let mut params = Self {
            idle: None,
            max_udp_payload: u16::MAX,
            max_data: 0,
            max_stream_data_bidi: 0,
            max_stream_data_uni: 0,
            max_streams_uni: 0,
            ack_delay_exponent: 3,
            max_ack_delay: Duration::from_millis(25),
            active_ids: 2,
            source: ConnectionId::local([0; 8]),
        };
        let (mut seen, mut named) = (0u32, false);
        while !input.is_empty() {
            let id = varint::decode(&mut input).ok_or_else(|| bad("a parameter ends early"))?;
            let len = varint::decode(&mut input).ok_or_else(|| bad("a parameter ends early"))?;
            let len = usize::try_from(len).map_err(|_| bad("a parameter is too long"))?;
            let Some((value, rest)) = input.split_at_checked(len) else {
                return Err(bad("a parameter ends early"));
            };
            input = rest;
            if id <= RETRY_SOURCE {
                if seen & 1 << id != 0 {
                    return Err(bad("a parameter is there twice"));
                }
                seen |= 1 << id;
            }
            named |= id == INITIAL_SOURCE;
            params.take(id, value)?;
        }
        if !named {
            return Err(bad("the client's connection id is missing"));
        }
        Ok(params)
    }

    fn take(&mut self, id: u64, value: &[u8]) -> Result<(), Error> {
        match id {
            ORIGINAL_DESTINATION | STATELESS_RESET_TOKEN | PREFERRED_ADDRESS | RETRY_SOURCE => {
                return Err(bad("a parameter that only servers have"));
            }
            MAX_IDLE_TIMEOUT => {
                let ms = number(value)?;
                self.idle = (ms > 0).then(|| Duration::from_millis(ms));
            }
            MAX_UDP_PAYLOAD => {
                let max = number(value)?;
                if max < 1200 {
                    return Err(bad("max_udp_payload_size is below 1200"));
                }
                self.max_udp_payload = u16::try_from(max).unwrap_or(u16::MAX);
            }
            MAX_DATA => self.max_data = number(value)?,
            MAX_STREAM_DATA_BIDI_LOCAL => self.max_stream_data_bidi = number(value)?,
            // We open no bidirectional streams.
            MAX_STREAM_DATA_BIDI_REMOTE => drop(number(value)?),
            MAX_STREAM_DATA_UNI => self.max_stream_data_uni = number(value)?,
            MAX_STREAMS_BIDI | MAX_STREAMS_UNI => {
                let max = number(value)?;
                if max > MAX_STREAMS {
                    return Err(bad("more streams than there can be"));
                }
                if id == MAX_STREAMS_UNI {
                    self.max_streams_uni = max;
                }
            }
            ACK_DELAY_EXPONENT => {
                let exponent = number(value)?;
                if exponent > 20 {
                    return Err(bad("ack_delay_exponent is above 20"));
                }
                self.ack_delay_exponent = exponent as u8;
            }
            MAX_ACK_DELAY => {
                let ms = number(value)?;
                if ms >= 1 << 14 {
                    return Err(bad("max_ack_delay is 2^14 or more"));
                }
                self.max_ack_delay = Duration::from_millis(ms);
            }
            DISABLE_ACTIVE_MIGRATION if !value.is_empty() => {
                return Err(bad("disable_active_migration has a value"));
            }
            ACTIVE_CONNECTION_ID_LIMIT => {
                self.active_ids = number(value)?;
                if self.active_ids < 2 {
                    return Err(bad("active_connection_id_limit is below 2"));
                }
            }
            INITIAL_SOURCE => {
                let id = ConnectionId::new(value);
                self.source = id.ok_or_else(|| bad("a connection id is too long"))?;
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(params: &[(u64, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (id, value) in params {
            varint::encode(&mut out, *id);
            varint::encode(&mut out, value.len() as u64);
            out.extend_from_slice(value);
        }
        out
    }

    #[test]
    fn a_clients_are_read() {
        let input = encoded(&[
            (0x0f, b"me"),
            (0x01, &[0x43, 0xe8]),
            (0x0e, &[4]),
            (0x7f, b"?"),
        ]);
        let params = Params::decode(&input).unwrap();
        assert_eq!(params.source.as_slice(), b"me");
        assert_eq!(params.idle, Some(Duration::from_secs(1)));
        assert_eq!((params.active_ids, params.max_data), (4, 0));
    }

    #[test]
    fn what_is_not_allowed_is_refused() {
        let me: (u64, &[u8]) = (0x0f, b"me");
        let bad: [&[(u64, &[u8])]; 12] = [
            &[],
            &[me, me],
            &[(0x0f, &[0; 21])],
            &[me, (0x00, b"id")],
            &[me, (0x02, &[0; 16])],
            &[me, (0x10, b"id")],
            &[me, (0x03, &[0x44, 0xaf])],
            &[me, (0x0a, &[21])],
            &[me, (0x0b, &[0x80, 0, 0x40, 0])],
            &[me, (0x0e, &[1])],
            &[me, (0x04, &[1, 2])],
            &[me, (0x09, &[0xd0, 0, 0, 0, 0, 0, 0, 1])],
        ];
        for params in bad {
            let error = Params::decode(&encoded(params)).unwrap_err();
            assert_eq!(error.code, Reason::TransportParameter as u64, "{params:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(input in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Params::decode(&input);
        }
    }
}
