//! QUIC for servers (RFC 9000, 9001, 9002), without sockets and clocks. The caller passes datagrams
//! and the time, and takes datagrams and the time of the next timer. TLS is that of rustls, behind
//! [`Tls`].
//!
//! An [`Endpoint`] has all connections of one UDP socket. It reports [`Event`]s; streams are
//! identified by their ids.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cid;
mod connection;
mod crypto;
mod cubic;
mod ecn;
mod endpoint;
mod error;
mod frame;
mod keys;
mod mtu;
mod options;
mod pacer;
mod packet;
mod params;
mod ranges;
mod recovery;
mod rtt;
mod streams;
mod token;

pub use cid::{ConnectionId, LABEL_AT, LOCAL_LEN};
pub use crypto::{alert, initial_suite, Fixed, Session, Tls};
pub use ecn::Ecn;
pub use endpoint::{Counts, Datagram, Endpoint, Event, Key, Output, Transmit};
pub use error::{Error, Reason};
pub use options::Options;
pub use streams::End;
pub use token::{random, secret_of};
