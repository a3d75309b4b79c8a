//! `Vary`: the request fields that a response depends on (RFC 9111, section 4.1).

use super::zone::Key;
use gallop_http::message::Head;
use md5::{Digest, Md5};

/// The hash of a main key and the request fields that `vary` names.
pub fn variant(main: &Key, vary: &[u8], request: &Head) -> Key {
    let mut hash = Md5::new();
    hash.update(main);
    let names = vary.split(|c| b", ".contains(c)).filter(|n| !n.is_empty());
    for name in names {
        let name = name.to_ascii_lowercase();
        hash.update(&name);
        hash.update(b":");
        let mut first = true;
        for (field, value) in request.iter() {
            if !field.eq_ignore_ascii_case(&name) {
                continue;
            }
            for part in parts(&name, value) {
                if !std::mem::take(&mut first) {
                    hash.update(b",");
                }
                hash.update(part);
            }
        }
        hash.update(b"\r\n");
    }
    hash.finalize().into()
}

/// The parts of a field value; lists of accepted values are compared without regard to spaces.
fn parts<'a>(name: &[u8], value: &'a [u8]) -> Vec<&'a [u8]> {
    match name {
        b"accept-charset" | b"accept-encoding" | b"accept-language" => value
            .split(|c| b", ".contains(c))
            .filter(|p| !p.is_empty())
            .collect(),
        _ => vec![value],
    }
}
