//! The signature schemes of a handshake (`$ssl_sigalg`, `$ssl_client_sigalg`). rustls does not
//! report them, so the signing key and the verifier record them, each on the thread that does the
//! handshake.

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use std::cell::Cell;
use std::sync::Arc;

/// The signature schemes of the server and of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    pub own: Option<SignatureScheme>,
    pub client: Option<SignatureScheme>,
}

thread_local! {
    static NOTED: Cell<Noted> = const { Cell::new(Noted { own: None, client: None }) };
}

impl Noted {
    /// Take the schemes recorded since the last call.
    pub fn take() -> Self {
        NOTED.take()
    }

    /// Discard the recorded schemes.
    pub fn forget() {
        NOTED.set(Self::default());
    }

    /// Add schemes recorded later in the handshake.
    pub fn add(&mut self, later: Self) {
        self.own = later.own.or(self.own);
        self.client = later.client.or(self.client);
    }
}

/// Record the scheme of a client's signature.
pub fn note_client(scheme: SignatureScheme) {
    let client = Some(scheme);
    NOTED.set(Noted {
        client,
        ..NOTED.get()
    });
}

/// A signing key that records its scheme.
#[derive(Debug)]
pub struct Noting(pub Arc<dyn SigningKey>);

#[derive(Debug)]
struct NotingSigner(Box<dyn Signer>);

impl SigningKey for Noting {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = self.0.choose_scheme(offered)?;
        Some(Box::new(NotingSigner(signer)))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl Signer for NotingSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let own = Some(self.0.scheme());
        NOTED.set(Noted { own, ..NOTED.get() });
        self.0.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}

/// OpenSSL's name for a scheme (RFC 8446, section 4.2.3); empty for none.
pub fn name(scheme: Option<SignatureScheme>) -> &'static str {
    use SignatureScheme as S;
    match scheme {
        Some(S::RSA_PKCS1_SHA1) => "rsa_pkcs1_sha1",
        Some(S::ECDSA_SHA1_Legacy) => "ecdsa_sha1",
        Some(S::RSA_PKCS1_SHA256) => "rsa_pkcs1_sha256",
        Some(S::RSA_PKCS1_SHA384) => "rsa_pkcs1_sha384",
        Some(S::RSA_PKCS1_SHA512) => "rsa_pkcs1_sha512",
        Some(S::RSA_PSS_SHA256) => "rsa_pss_rsae_sha256",
        Some(S::RSA_PSS_SHA384) => "rsa_pss_rsae_sha384",
        Some(S::RSA_PSS_SHA512) => "rsa_pss_rsae_sha512",
        Some(S::ECDSA_NISTP256_SHA256) => "ecdsa_secp256r1_sha256",
        Some(S::ECDSA_NISTP384_SHA384) => "ecdsa_secp384r1_sha384",
        Some(S::ECDSA_NISTP521_SHA512) => "ecdsa_secp521r1_sha512",
        Some(S::ED25519) => "ed25519",
        Some(S::ED448) => "ed448",
        _ => "",
    }
}
