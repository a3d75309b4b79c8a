//! Prebuilt answers for small files that are asked for again and again. An entry is only used for a
//! short time before the file is looked at anew, so that a change shows at once to a person.

use crate::conn::Conn;
use crate::uri::ParsedUri;
use gallop_conf::model::{Location, Server, VerifyClient};
use hashbrown::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Milliseconds an entry is used without looking at the file.
const VALID_MS: u64 = 50;
/// Larger bodies gain nothing from being copied.
pub const MAX_BODY: u64 = 64 * 1024;
/// Entries of one thread; the cache starts anew when it is full.
const MAX_ENTRIES: usize = 4096;

/// What identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMark {
    dev: u64,
    inode: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl FileMark {
    pub fn of(m: &Metadata) -> FileMark {
        FileMark {
            dev: m.dev(),
            inode: m.ino(),
            size: m.size(),
            mtime: (m.mtime(), m.mtime_nsec()),
            ctime: (m.ctime(), m.ctime_nsec()),
        }
    }
}

/// An answer ready to be sent but for its date.
pub struct Prebuilt {
    pub server: Arc<Server>,
    pub location: Arc<Location>,
    /// Head and body as HTTP/1.1 with keep-alive sends them.
    pub bytes: Vec<u8>,
    /// Where the 29 bytes of the date stand.
    pub date_at: usize,
    pub head_len: usize,
    pub path: PathBuf,
    pub mark: FileMark,
    /// Host and URI of the request, for the log.
    pub host: String,
    pub uri: ParsedUri,
    checked: u64,
    date: u64,
}

#[derive(Default)]
pub struct FastCache {
    /// By listening endpoint, host and target: their bytes with separators.
    entries: HashMap<Vec<u8>, Prebuilt>,
}

/// Where a request came in: the listening address, and the server block that its TLS chose, which
/// serves unknown hosts. Zero: there was no such choice.
pub type Origin = (usize, usize);

/// The origin of a connection's requests.
pub fn origin(conn: &Conn) -> Origin {
    let sni = conn
        .sni_server()
        .map_or(0, |server| Arc::as_ptr(server) as usize);
    (Arc::as_ptr(&conn.endpoint) as usize, sni)
}

/// The key of a request: everything its answer depends on.
pub fn key((endpoint, sni): Origin, host: &[u8], target: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&endpoint.to_ne_bytes());
    out.extend_from_slice(&sni.to_ne_bytes());
    out.extend_from_slice(host);
    out.push(0);
    out.extend_from_slice(target);
}

impl FastCache {
    /// No request can be answered from it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The answer, if its file is unchanged; `date` is written into it once a second.
    pub fn get(&mut self, key: &[u8], now_ms: u64, now: u64, date: &[u8]) -> Option<&Prebuilt> {
        let known = self.entries.get(key)?;
        if now_ms.saturating_sub(known.checked) > VALID_MS {
            let unchanged =
                std::fs::metadata(&known.path).is_ok_and(|m| FileMark::of(&m) == known.mark);
            if !unchanged {
                self.entries.remove(key);
                return None;
            }
        }
        let entry = self.entries.get_mut(key)?;
        if now_ms.saturating_sub(entry.checked) > VALID_MS {
            entry.checked = now_ms;
        }
        if entry.date != now {
            let at = entry.date_at;
            entry.bytes[at..at + date.len()].copy_from_slice(date);
            entry.date = now;
        }
        Some(entry)
    }

    pub fn put(&mut self, key: Vec<u8>, entry: NewEntry, now_ms: u64) {
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.clear();
        }
        let NewEntry {
            server,
            location,
            bytes,
            date_at,
            head_len,
            path,
            mark,
            host,
            uri,
        } = entry;
        self.entries.insert(
            key,
            Prebuilt {
                server,
                location,
                bytes,
                date_at,
                head_len,
                path,
                mark,
                host,
                uri,
                checked: now_ms,
                date: u64::MAX,
            },
        );
    }
}

/// What a driver hands in.
pub struct NewEntry {
    pub server: Arc<Server>,
    pub location: Arc<Location>,
    pub bytes: Vec<u8>,
    pub date_at: usize,
    pub head_len: usize,
    pub path: PathBuf,
    pub mark: FileMark,
    pub host: String,
    pub uri: ParsedUri,
}

/// Whether answers of a location depend on nothing but host and target.
pub fn is_plain(server: &Server, location: &Location) -> bool {
    let conf = &location.conf;
    let literal = |t: &gallop_conf::template::Template| t.as_literal().is_some();
    is_straight(server, location)
        && location.handler.is_none()
        && conf.root.as_ref().is_none_or(|r| literal(&r.path))
        && gallop_conf::model::items(&conf.index).iter().all(literal)
        && conf.random_index != Some(true)
        && conf
            .charset
            .as_ref()
            .is_none_or(|c| c.0.as_ref().is_none_or(literal))
}

/// Whether requests go straight to a location's handler, and its answers to the client, with nothing on
/// the way that asks for more than host and target or changes the body.
pub(crate) fn is_straight(server: &Server, location: &Location) -> bool {
    let conf = &location.conf;
    let literal = |t: &gallop_conf::template::Template| t.as_literal().is_some();
    // Whoever must show a certificate is looked at with each request.
    matches!(
        server.conf.ssl_verify_client,
        None | Some(VerifyClient::Off)
    ) && server.root.ops.is_empty()
        && location.ops.is_empty()
        && location.limit_except.is_none()
        && conf.access.is_none()
        && conf.auth_basic.is_none()
        && !matches!(conf.auth_request, Some(Some(_)))
        && conf.limit_req.is_none()
        && conf.limit_conn.is_none()
        && conf.limit_rate.is_none()
        && conf.set_real_ip_from.is_none()
        && conf.expires.is_none()
        && gallop_conf::model::items(&conf.add_header)
            .iter()
            .all(|h| literal(&h.value))
        && conf.add_trailer.is_none()
        && conf.gzip_static.is_none()
        && conf.disable_symlinks.is_none()
        && conf.mirror.is_none()
        && conf.ssi.is_none()
        && conf.gunzip.is_none()
        && conf.brotli.is_none()
        && conf.zstd.is_none()
        && conf.add_before_body.is_none()
        && conf.add_after_body.is_none()
        && conf.sub_filter.is_none()
        && conf.source_charset.is_none()
        && conf.keepalive_disable.is_none()
}
