//! TLS to clients and upstreams, with rustls on aws-lc-rs.
//!
//! Each server block has its own [`Context`], chosen by the name in the ClientHello. A setting that
//! rustls does not support is an error when the configuration is read; it is never ignored
//! silently.

mod certificates;
pub mod challenge;
mod ciphers;
mod client_settings;
mod context;
mod encrypted;
pub mod files;
mod info;
mod kdf;
mod named;
mod ocsp;
mod peer;
mod revoked;
mod sealed;
mod sigalg;
mod signature;
mod store;
mod stream;
mod tickets;
mod transport;
mod upstream;
mod verify;
mod x509;

pub use certificates::Source;
pub use context::{Alpn, Context, Sessions, Settings};
pub use info::{describe, session_id, Offered, SESSION_ID};
pub use named::{client, on_this_thread};
pub use ocsp::Inquiry;
pub use sealed::Sealed;
pub use sigalg::name as sigalg_name;
pub use store::{ContextsByName, Store};
pub use stream::{HandshakeError, Hello, TlsStream};
pub use transport::Secure;
pub use upstream::{UpstreamConnector, Upstreams};
pub use verify::{Authorities, Client, Judge, Verdict};

/// The reason why a context cannot be created, in nginx's words where it has some.
#[derive(Debug)]
pub struct TlsError(pub String);

impl std::fmt::Display for TlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

type Result<T> = std::result::Result<T, TlsError>;

fn error<T>(message: impl Into<String>) -> Result<T> {
    Err(TlsError(message.into()))
}

#[cfg(test)]
mod tests;
