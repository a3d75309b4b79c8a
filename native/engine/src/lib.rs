//! Request phases: choosing the server block and the location, handlers, and filters. This crate
//! handles requests and responses independently of the protocol version.

mod absolute;
mod access;
pub mod body;
pub mod cache;
pub mod conn;
pub mod creating;
mod crypt;
mod errors;
pub mod escape;
pub mod exchange;
pub mod fast;
pub mod files;
mod filters;
mod handlers;
pub mod health;
mod host;
mod limits;
pub mod log;
mod log_cache;
mod looks;
pub mod metrics;
mod mirror;
pub mod mp4;
pub mod panics;
mod phases;
pub mod pipe;
pub mod prepared;
mod realip;
mod received;
mod referer;
pub mod resolver;
mod rewrite;
pub mod scope;
pub mod section;
mod secure_link;
pub mod status;
pub mod stream;
mod subrequest;
pub mod template;
pub mod time;
pub mod upstream;
pub mod uri;
mod vars;
pub mod worker;

pub use absolute::absolute_location;
pub use body::{Body, BodyError, BodyStream, Chunk, RequestBody};
pub use conn::Conn;
pub use errors::product;
pub use exchange::{Exchange, Response};
pub use filters::trailers;
pub use mirror::settled;
pub use phases::begin::{begin, begin_refused, Begin};
pub use phases::end::{finish, settle};
pub use phases::run;
pub use upstream::balancers::Balancers;
pub use worker::{Shared, Worker};

/// Parsers of single header fields.
pub mod fields {
    pub use crate::filters::{lists_gzip, parse_ranges, Ranges};
    pub use crate::realip::last_untrusted;
}

/// The product name without a version, and with it.
pub const PRODUCT: &str = "gallop";
pub const PRODUCT_VERSION: &str = concat!("gallop/", env!("CARGO_PKG_VERSION"));

/// A number unique in the process, for boundaries and names of temporary files.
pub(crate) fn worker_unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A number to spread load, not for secrets (xorshift).
pub(crate) fn random_number() -> u64 {
    use std::cell::Cell;
    thread_local! {
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    STATE.with(|s| {
        let mut x = s.get();
        if x == 0 {
            x = gallop_runtime::now_ms() ^ 0x9e37_79b9_7f4a_7c15;
        }
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        s.set(x);
        x
    })
}
