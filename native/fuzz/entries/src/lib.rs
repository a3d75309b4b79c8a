//! What the fuzz targets do with an input. Each function panics when a promise of the parser it
//! exercises is broken; what the parser refuses is fine.

mod fields;
mod messages;
mod multiplexed;
mod quic;
#[cfg(test)]
mod replay;

pub use fields::{fields, range};
pub use messages::{configuration, fastcgi, http1};
pub use multiplexed::{h2, h3, hpack, qpack};
pub use quic::quic;

/// Runs one input.
pub type Entry = fn(&[u8]);

/// Every entry by the name of its target and its corpus.
pub const ENTRIES: &[(&str, Entry)] = &[
    ("configuration", configuration),
    ("fastcgi", fastcgi),
    ("fields", fields),
    ("h2", h2),
    ("h3", h3),
    ("hpack", hpack),
    ("http1", http1),
    ("qpack", qpack),
    ("quic", quic),
    ("range", range),
];
