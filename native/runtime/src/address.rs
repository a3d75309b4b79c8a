//! Socket addresses in the kernel's format.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// An address and its length, as `bind` and `connect` expect them.
pub type RawAddress = (libc::sockaddr_storage, libc::socklen_t);

pub fn raw_inet(address: &SocketAddr) -> RawAddress {
    // SAFETY: an all-zero sockaddr_storage is valid.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let len = write_inet(&mut storage, address);
    (storage, len)
}

/// Write `address` over the beginning of `storage`; other bytes are kept. Returns the length.
#[inline]
pub fn write_inet(storage: &mut libc::sockaddr_storage, address: &SocketAddr) -> libc::socklen_t {
    let storage: *mut libc::sockaddr_storage = storage;
    let len = match address {
        SocketAddr::V4(v4) => {
            // SAFETY: sockaddr_storage is large and aligned enough for every socket address.
            let raw = unsafe { &mut *storage.cast::<libc::sockaddr_in>() };
            raw.sin_family = libc::AF_INET as _;
            raw.sin_port = v4.port().to_be();
            raw.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let raw = unsafe { &mut *storage.cast::<libc::sockaddr_in6>() };
            raw.sin6_family = libc::AF_INET6 as _;
            raw.sin6_port = v6.port().to_be();
            raw.sin6_addr.s6_addr = v6.ip().octets();
            raw.sin6_scope_id = v6.scope_id();
            size_of::<libc::sockaddr_in6>()
        }
    };
    len as libc::socklen_t
}

/// # Errors
/// `ENAMETOOLONG`: the kernel accepts paths of at most 107 bytes.
pub fn raw_unix(path: &Path) -> io::Result<RawAddress> {
    // SAFETY: an all-zero sockaddr_storage is valid.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    // SAFETY: sockaddr_storage is large and aligned enough for every socket address.
    let raw = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_un>() };
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.len() >= raw.sun_path.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    raw.sun_family = libc::AF_UNIX as _;
    for (to, from) in raw.sun_path.iter_mut().zip(bytes) {
        *to = *from as _;
    }
    Ok((storage, size_of::<libc::sockaddr_un>() as libc::socklen_t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_keeps_its_interface() {
        let (raw, len) = raw_inet(&"[fe80::1%3]:80".parse().unwrap());
        assert_eq!(len as usize, size_of::<libc::sockaddr_in6>());
        // SAFETY: the family is AF_INET6.
        let raw = unsafe { &*(&raw const raw).cast::<libc::sockaddr_in6>() };
        assert_eq!((raw.sin6_scope_id, raw.sin6_port), (3, 80u16.to_be()));
    }

    #[test]
    fn a_path_that_the_kernel_would_cut_is_refused() {
        assert!(raw_unix(Path::new(&"x".repeat(107))).is_ok());
        let refused = raw_unix(Path::new(&"x".repeat(108))).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENAMETOOLONG));
    }
}
