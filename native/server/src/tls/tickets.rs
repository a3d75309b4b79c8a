//! Session tickets whose keys come from files (`ssl_session_ticket_key`), so that several servers
//! can share them, or are random. The first key seals; all keys open.

use super::{error, Result, TlsError};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::GetRandomFailed;
use rustls::pki_types::UnixTime;
use rustls::server::{ProducesTickets, StoresServerSessions};
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_256_GCM, NONCE_LEN};
use aws_lc_rs::digest::{digest, SHA256};

/// The length of the key name at the start of each ticket.
const NAME_LEN: usize = 16;
/// Sealed sessions are padded to a multiple of this length.
const PADDING: usize = 64;

struct Key {
    name: [u8; NAME_LEN],
    seal: LessSafeKey,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// Seals tickets with keys from files.
#[derive(Debug)]
pub struct FileTickets {
    keys: Vec<Key>,
    lifetime: u32,
}

impl FileTickets {
    /// Read keys of 48 or 80 bytes, as `openssl rand` makes them; `lifetime` in seconds.
    ///
    /// # Errors
    /// A file cannot be read or has another length.
    pub fn new(files: &[std::path::PathBuf], lifetime: u32) -> Result<Self> {
        let keys: Result<Vec<_>> = files.iter().map(|file| read_key(file)).collect();
        Ok(Self {
            keys: keys?,
            lifetime,
        })
    }

    /// A random key that no other server has.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn random() -> std::result::Result<Box<dyn ProducesTickets>, GetRandomFailed> {
        let mut bytes = [0; 48];
        default_provider().secure_random.fill(&mut bytes)?;
        let key = key(&bytes).map_err(|_| GetRandomFailed)?;
        Ok(Box::new(Self {
            keys: vec![key],
            lifetime: 0,
        }))
    }
}

/// The ticket key is a digest of the whole file: enough random bytes make a good key.
fn read_key(path: &Path) -> Result<Key> {
    let bytes = std::fs::read(path).map_err(|e| {
        TlsError(format!(
            "cannot read ticket key \"{}\": {e}",
            path.display()
        ))
    })?;
    if bytes.len() != 48 && bytes.len() != 80 {
        return error(format!(
            "ssl_session_ticket_key \"{}\" must be 48 or 80 bytes long, not {}",
            path.display(),
            bytes.len()
        ));
    }
    key(&bytes)
}

fn key(bytes: &[u8]) -> Result<Key> {
    let (name, _) = bytes.split_first_chunk().expect("at least 48 bytes");
    let secret = digest(&SHA256, bytes);
    let key = UnboundKey::new(&AES_256_GCM, secret.as_ref());
    let key = key.map_err(|_| TlsError("a ticket key was refused".to_string()))?;
    Ok(Key {
        name: *name,
        seal: LessSafeKey::new(key),
    })
}

/// Sessions that end after `ssl_session_timeout`: each is stored with its creation time.
#[derive(Debug)]
pub struct Expiring<T: ?Sized> {
    lifetime: u32,
    inner: Arc<T>,
}

impl<T: ?Sized> Expiring<T> {
    /// End the sessions of `inner` after `lifetime` seconds.
    pub fn new(inner: Arc<T>, lifetime: u32) -> Self {
        Self { lifetime, inner }
    }

    fn stamp(&self, session: &[u8]) -> Vec<u8> {
        [&UnixTime::now().as_secs().to_be_bytes(), session].concat()
    }

    fn fresh(&self, stamped: &[u8]) -> Option<Vec<u8>> {
        let (time, session) = stamped.split_first_chunk()?;
        let age = UnixTime::now()
            .as_secs()
            .checked_sub(u64::from_be_bytes(*time))?;
        (age <= u64::from(self.lifetime)).then(|| session.to_vec())
    }
}

impl<T: ProducesTickets + ?Sized> ProducesTickets for Expiring<T> {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.lifetime
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.inner.encrypt(&self.stamp(plain))
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.fresh(&self.inner.decrypt(ticket)?)
    }
}

impl<T: StoresServerSessions + ?Sized> StoresServerSessions for Expiring<T> {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.inner.put(key, self.stamp(&value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(&self.inner.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(&self.inner.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.inner.can_cache()
    }
}

impl ProducesTickets for FileTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.lifetime
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let key = self.keys.first()?;
        let mut nonce = [0; NONCE_LEN];
        default_provider().secure_random.fill(&mut nonce).ok()?;
        let mut sealed = padded(plain);
        let unique = Nonce::assume_unique_for_key(nonce);
        key.seal
            .seal_in_place_append_tag(unique, Aad::from(key.name), &mut sealed)
            .ok()?;
        Some([&key.name[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = self.keys.iter().find(|key| key.name == *name)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = key
            .seal
            .open_in_place(nonce, Aad::from(key.name), &mut sealed)
            .ok()?;
        unpadded(plain).map(<[u8]>::to_vec)
    }
}

/// Pad a session. Otherwise the ticket's length would reveal the lengths of names in it.
fn padded(plain: &[u8]) -> Vec<u8> {
    let mut out = [plain, &[1]].concat();
    out.resize(out.len().next_multiple_of(PADDING), 0);
    out
}

fn unpadded(padded: &[u8]) -> Option<&[u8]> {
    let end = padded.iter().rposition(|&c| c != 0)?;
    (padded[end] == 1).then_some(&padded[..end])
}
