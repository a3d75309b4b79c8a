//! userid: a cookie that tells visitors apart, in the format of mod_uid.

use crate::exchange::Exchange;
use crate::time::cookie_date;
use crate::vars;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::Engine;
use gallop_conf::model::{user_id_flags, Level, UserIdConf, UserIdExpires, UserIdMode};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

/// The bytes of an id.
type Id = [u8; 16];

/// The characters of an id in a cookie, without padding.
const LETTERS: usize = 22;

/// Reads ids of other servers, whose last bits may be anything.
const CODE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The ids of a request.
#[derive(Clone, Debug, Default)]
pub struct UserId {
    cookie: Vec<u8>,
    got: Option<Id>,
    set: Option<Id>,
    is_reset: bool,
}

/// Whether the last number of an id is not 0, as in every valid id.
fn is_valid(id: &Id) -> bool {
    id[12..] != [0; 4]
}

fn settings(ex: &Exchange, least: UserIdMode) -> Option<std::sync::Arc<UserIdConf>> {
    let conf = ex.loc.conf.userid.as_ref()?;
    (conf.mode.unwrap_or(UserIdMode::Off) >= least).then(|| conf.clone())
}

/// The text of `$uid_got`.
pub fn got(ex: &Exchange) -> Option<String> {
    let conf = settings(ex, UserIdMode::Log)?;
    read(ex, &conf);
    let ids = ex.user_id.borrow();
    ids.as_ref()?.got.map(|id| shown(conf.cookie_name(), &id))
}

/// The text of `$uid_set`.
pub fn set(ex: &Exchange) -> Option<String> {
    let conf = settings(ex, UserIdMode::V1)?;
    create(ex, &conf);
    let ids = ex.user_id.borrow();
    ids.as_ref()?.set.map(|id| shown(conf.cookie_name(), &id))
}

/// Choose the ids now, so that subrequests get the same.
pub fn fix(ex: &Exchange) {
    if let Some(conf) = settings(ex, UserIdMode::V1) {
        create(ex, &conf);
    }
}

/// An id as variables and the log show it: four numbers of this machine.
fn shown(name: &str, id: &Id) -> String {
    let number = |at: usize| u32::from_le_bytes([id[at], id[at + 1], id[at + 2], id[at + 3]]);
    let [a, b, c, d] = [0, 4, 8, 12].map(number);
    format!("{name}={a:08X}{b:08X}{c:08X}{d:08X}")
}

/// Read the client's cookie, once for each request.
fn read(ex: &Exchange, conf: &UserIdConf) {
    if ex.user_id.borrow().is_some() {
        return;
    }
    let mut ids = UserId::default();
    let name = conf.cookie_name();
    let mut fields = ex.head.get_all("cookie");
    let found = fields.find_map(|field| Some((field, vars::cookie(field, name)?)));
    if let Some((field, cookie)) = found {
        let failed = |what: &str| {
            let field = crate::escape::Shown(field);
            let message = format!("client sent {what} userid cookie \"{field}\"");
            ex.log(Level::Error, &message);
        };
        ids.cookie = cookie.to_vec();
        match cookie.get(..LETTERS) {
            None => failed("too short"),
            Some(letters) => match decode(letters) {
                Some(id) => ids.got = Some(id).filter(is_valid),
                None => failed("invalid"),
            },
        }
    }
    *ex.user_id.borrow_mut() = Some(Box::new(ids));
}

/// The id in a cookie; missing bytes are 0.
fn decode(letters: &[u8]) -> Option<Id> {
    let letters = letters.split(|&c| c == b'=').next().unwrap_or_default();
    let bytes = CODE.decode(letters).ok()?;
    let mut id = Id::default();
    id.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(id)
}

/// Choose the id for the client, if it needs one.
fn create(ex: &Exchange, conf: &UserIdConf) {
    read(ex, conf);
    let Some(mut ids) = ex.user_id.borrow().clone() else {
        return;
    };
    if ids.set.is_some() {
        return;
    }
    if let Some(id) = ids.got {
        let mut reset = Vec::new();
        vars::by_name(ex, "uid_reset", &mut reset);
        if reset.is_empty() || reset == b"0" {
            if conf
                .mark
                .flatten()
                .is_some_and(|mark| !is_marked(&ids.cookie, mark))
            {
                ids.set = Some(id);
                *ex.user_id.borrow_mut() = Some(ids);
            }
            return;
        }
        ids.is_reset = true;
        if reset == b"log" {
            let id = shown(conf.cookie_name(), &id);
            ex.log(Level::Notice, &format!("userid cookie \"{id}\" was reset"));
        }
    }
    ids.set = Some(new_id(ex, conf));
    *ex.user_id.borrow_mut() = Some(ids);
}

fn is_marked(cookie: &[u8], mark: u8) -> bool {
    cookie.get(LETTERS..LETTERS + 2) == Some(&[mark, b'='])
}

/// A number that differs between workers.
fn start_value() -> u32 {
    static START: OnceLock<u32> = OnceLock::new();
    *START.get_or_init(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let micros = now.map_or(0, |now| now.subsec_micros());
        ((micros / 20) << 16) | (std::process::id() & 0xffff)
    })
}

/// An id that no other request gets: service or address, time, worker, and a sequence number.
fn new_id(ex: &Exchange, conf: &UserIdConf) -> Id {
    static FIRST: AtomicU32 = AtomicU32::new(1);
    static SECOND: AtomicU32 = AtomicU32::new(LEAST);
    // The version of ids in their lowest byte, and the other bytes of their first number.
    const LEAST: u32 = 0x0303_0302;
    let now = (gallop_runtime::unix_time() / 1000) as u32;
    let service = conf.service.map(|service| service as u32);
    if conf.mode == Some(UserIdMode::V1) {
        let number = FIRST.fetch_add(0x100, Ordering::Relaxed);
        let numbers = [service.unwrap_or(0), now, start_value(), number];
        return joined(numbers.map(u32::to_le_bytes));
    }
    let next = |number: u32| Some(number.wrapping_add(0x100).max(LEAST));
    let number = SECOND.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    let address = match ex.conn.local().map(|local| local.ip()) {
        Some(IpAddr::V4(ip)) => ip.octets(),
        Some(IpAddr::V6(ip)) => ip.octets().last_chunk().copied().unwrap_or_default(),
        None => [0; 4],
    };
    let number = number.unwrap_or(LEAST);
    joined([
        service.map_or(address, u32::to_be_bytes),
        now.to_be_bytes(),
        start_value().to_be_bytes(),
        number.to_be_bytes(),
    ])
}

fn joined(numbers: [[u8; 4]; 4]) -> Id {
    let mut id = Id::default();
    id.copy_from_slice(numbers.as_flattened());
    id
}

/// Send the client its id.
pub fn apply(ex: &mut Exchange) {
    let Some(conf) = settings(ex, UserIdMode::V1).filter(|_| !ex.is_subrequest()) else {
        return;
    };
    create(ex, &conf);
    let ids = ex.user_id.borrow().clone();
    let Some((ids, set)) = ids.and_then(|ids| ids.set.map(|set| (ids, set))) else {
        return;
    };
    let value = cookie(&conf, &ids, &set);
    ex.response.add_header("Set-Cookie", value);
    if let Some(p3p) = conf.p3p.as_ref().and_then(Option::as_ref) {
        ex.response.add_header("P3P", p3p.clone());
    }
}

fn cookie(conf: &UserIdConf, ids: &UserId, set: &Id) -> Vec<u8> {
    let mark = conf.mark.flatten();
    let mut out = format!("{}=", conf.cookie_name()).into_bytes();
    if ids.got.is_none() || ids.is_reset {
        let mut letters = CODE.encode(set).into_bytes();
        if let Some(mark) = mark {
            letters[LETTERS] = mark;
        }
        out.extend_from_slice(&letters);
    } else {
        out.extend_from_slice(&ids.cookie[..LETTERS]);
        out.extend_from_slice(&[mark.unwrap_or(b'='), b'=']);
    }
    match conf.expires.unwrap_or(UserIdExpires::Off) {
        UserIdExpires::Off => {}
        UserIdExpires::Max => out.extend_from_slice(b"; expires=Thu, 31-Dec-37 23:55:55 GMT"),
        UserIdExpires::After(seconds) => {
            let now = (gallop_runtime::unix_time() / 1000) as i64;
            let date = cookie_date(now.saturating_add_unsigned(seconds.min(1 << 40)));
            out.extend_from_slice(format!("; expires={date}").as_bytes());
        }
    }
    if let Some(domain) = conf.domain.as_ref().and_then(Option::as_ref) {
        out.extend_from_slice(format!("; domain={domain}").as_bytes());
    }
    let path = conf.path.as_deref().unwrap_or("/");
    out.extend_from_slice(format!("; path={path}").as_bytes());
    let flags = conf.flags.unwrap_or(0);
    for (name, bit) in user_id_flags::NAMES {
        if flags & bit != 0 && *bit != user_id_flags::OFF {
            out.extend_from_slice(format!("; {name}").as_bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_written() {
        let id: Id = std::array::from_fn(|i| i as u8 * 7);
        let letters = CODE.encode(id);
        assert_eq!(decode(&letters.as_bytes()[..LETTERS]), Some(id));
        // The last four bits belong to no byte.
        assert_eq!(decode(b"AAAAAAAAAAAAAAAAAAAAAB").map(|id| id[15]), Some(0));
        assert_eq!(decode(b"AQ====================").map(|id| id[0]), Some(1));
        for invalid in [
            &b"A====================="[..],
            b"!AAAAAAAAAAAAAAAAAAAAA",
            b"AAAAA",
        ] {
            assert_eq!(decode(invalid), None, "{invalid:?}");
        }
    }
}
