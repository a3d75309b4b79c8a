//! Connection ids (RFC 9000, section 5.1).

use crate::token::random;
use std::fmt;

/// The length of the longest id (RFC 9000, section 17.2).
pub const MAX_LEN: usize = 20;
/// The length of our ids.
pub const LOCAL_LEN: usize = 8;
/// The position in our ids of two bytes whose exclusive or is the label of the endpoint that chose
/// them. Hash tables use the bytes before, which are random.
pub const LABEL_AT: usize = 6;

/// A connection id, ours or the client's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    len: u8,
    bytes: [u8; MAX_LEN],
}

impl ConnectionId {
    /// The id with these bytes; `None` if there are more than 20.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self {
            len: bytes.len() as u8,
            bytes: [0; MAX_LEN],
        };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }

    /// An id of ours.
    pub fn local(bytes: [u8; LOCAL_LEN]) -> Self {
        let mut id = Self {
            len: LOCAL_LEN as u8,
            bytes: [0; MAX_LEN],
        };
        id.bytes[..LOCAL_LEN].copy_from_slice(&bytes);
        id
    }

    /// A random id of ours for the endpoint with this label.
    pub fn random(label: u8) -> Self {
        let mut bytes = random::<LOCAL_LEN>();
        bytes[LABEL_AT + 1] = bytes[LABEL_AT] ^ label;
        Self::local(bytes)
    }

    /// The bytes of the id.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice()
            .iter()
            .try_for_each(|b| write!(f, "{b:02x}"))
    }
}
