//! The functions that fuzz targets run on an input. Each panics if its parser breaks a promise; the
//! parser may reject any input.

mod fields;
mod messages;
mod movies;
mod multiplexed;
mod quic;
#[cfg(test)]
mod replay;

pub use fields::{fields, range};
pub use messages::{configuration, fastcgi, http1};
pub use movies::mp4;
pub use multiplexed::{h2, h2_client, h3, hpack, qpack};
pub use quic::quic;

/// Runs one input.
pub type Entry = fn(&[u8]);

/// Every entry with the name of its target and corpus.
pub const ENTRIES: &[(&str, Entry)] = &[
    ("configuration", configuration),
    ("fastcgi", fastcgi),
    ("fields", fields),
    ("h2", h2),
    ("h2_client", h2_client),
    ("h3", h3),
    ("hpack", hpack),
    ("http1", http1),
    ("mp4", mp4),
    ("qpack", qpack),
    ("quic", quic),
    ("range", range),
];
