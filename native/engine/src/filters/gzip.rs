//! Compression with gzip during sending.

use super::transform::{Transform, Transformed};
use crate::exchange::Exchange;
use flate2::write::GzEncoder;
use flate2::Compression;
use gallop_conf::model::{items, proxied, LocConf};
use gallop_http::message::Version;
use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;

/// Whether the client accepts gzip and the settings allow it.
pub fn accepted(ex: &Exchange) -> bool {
    let conf = &ex.loc.conf;
    if ex.is_subrequest() || !ex.head.get("accept-encoding").is_some_and(lists_gzip) {
        return false;
    }
    let minimum = if conf.gzip_http_version == Some(1000) {
        Version::Http10
    } else {
        Version::Http11
    };
    if ex.version() < minimum {
        return false;
    }
    if ex.head.get("via").is_some() && !allowed_for_proxies(ex) {
        return false;
    }
    let agent = ex.head.get("user-agent");
    !agent.is_some_and(|a| items(&conf.gzip_disable).iter().any(|p| p.is_match(a)))
}

/// Whether the accepted encodings include `gzip` without `q=0`.
pub fn lists_gzip(field: &[u8]) -> bool {
    lists(field, "gzip")
}

/// Whether the accepted encodings include a coding without `q=0`.
pub fn lists(field: &[u8], coding: &str) -> bool {
    field.split(|&c| c == b',').any(|item| {
        let mut parts = item.split(|&c| c == b';');
        let name = parts.next().unwrap_or(b"").trim_ascii();
        if !name.eq_ignore_ascii_case(coding.as_bytes()) {
            return false;
        }
        let quality = parts
            .map(<[u8]>::trim_ascii)
            .find_map(|p| p.strip_prefix(b"q=").or_else(|| p.strip_prefix(b"Q=")));
        quality.is_none_or(is_wanted)
    })
}

/// Whether a weight (RFC 9110, section 12.4.2) is valid and not zero.
fn is_wanted(weight: &[u8]) -> bool {
    match weight {
        b"1" => true,
        [b'0' | b'1', b'.', digits @ ..] => {
            let some = digits.iter().any(|d| *d != b'0');
            let whole = weight[0] == b'1';
            digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) && whole != some
        }
        _ => false,
    }
}

/// Evaluate `gzip_proxied` for the response's caching fields.
fn allowed_for_proxies(ex: &Exchange) -> bool {
    let bits = ex.loc.conf.gzip_proxied.unwrap_or(proxied::OFF);
    let has = |bit: u32| bits & bit != 0;
    let r = &ex.response;
    if has(proxied::ANY) || (has(proxied::AUTH) && ex.head.get("authorization").is_some()) {
        return true;
    }
    if has(proxied::EXPIRED) && r.header("expires").is_some() {
        return true;
    }
    let control = r
        .header("cache-control")
        .unwrap_or(b"")
        .to_ascii_lowercase();
    let says = |word: &[u8]| control.windows(word.len()).any(|w| w == word);
    (has(proxied::NO_CACHE) && says(b"no-cache"))
        || (has(proxied::NO_STORE) && says(b"no-store"))
        || (has(proxied::PRIVATE) && says(b"private"))
        || (has(proxied::NO_LM) && r.last_modified.is_none())
        || (has(proxied::NO_ETAG) && r.etag.is_none())
}

/// Whether a response with this status, length, and media type may be compressed, unless it is
/// already encoded.
pub fn may_compress(conf: &LocConf, status: u16, length: Option<u64>, kind: Option<&[u8]>) -> bool {
    let min = conf.gzip_min_length.unwrap_or(20);
    conf.gzip == Some(true)
        && matches!(status, 200 | 403 | 404)
        && length.is_none_or(|n| n >= min)
        && super::is_type_of(kind, &conf.gzip_types)
}

pub fn apply(ex: &mut Exchange) {
    let loc = ex.loc.clone();
    let conf = &loc.conf;
    let r = &ex.response;
    let kind = r.content_type.as_deref();
    if r.header("content-encoding").is_some()
        || !r.filterable
        || !may_compress(conf, r.status, r.content_length, kind)
    {
        return;
    }
    ex.response.gzip_vary = true;
    if !accepted(ex) {
        return;
    }
    if ex.header_only {
        // HEAD cannot tell the compressed length that GET would have.
        clear_length(ex);
        return;
    }
    let level = conf.gzip_comp_level.unwrap_or(1) as u32;
    let inner = std::mem::take(&mut ex.response.body);
    let counts = Rc::new(Cell::new((0, 0)));
    ex.gzip_ratio = Some(counts.clone());
    let gzip = Gzip {
        encoder: Some(GzEncoder::new(Vec::new(), Compression::new(level))),
        counts,
    };
    ex.response.body = Transformed::body(inner, gzip);
    clear_length(ex);
}

fn clear_length(ex: &mut Exchange) {
    super::body_changes(&mut ex.response);
    ex.response.add_header("Content-Encoding", "gzip");
}

/// Bytes before and after compression, for `$gzip_ratio`.
pub type Counts = Rc<Cell<(u64, u64)>>;

/// The least number of compressed bytes to send before more come.
const PIECE: usize = 4096;

struct Gzip {
    /// `None` after the trailer was written.
    encoder: Option<GzEncoder<Vec<u8>>>,
    counts: Counts,
}

impl Gzip {
    /// Move the output of the encoder to `out`.
    fn give(&mut self, out: &mut Vec<u8>, mut made: Vec<u8>) {
        let (from, to) = self.counts.get();
        self.counts.set((from, to + made.len() as u64));
        out.append(&mut made);
    }

    fn take_made(&mut self) -> Vec<u8> {
        let encoder = self.encoder.as_mut();
        encoder.map_or_else(Vec::new, |e| std::mem::take(e.get_mut()))
    }
}

impl Transform for Gzip {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let (from, to) = self.counts.get();
        self.counts.set((from + data.len() as u64, to));
        if let Some(encoder) = &mut self.encoder {
            encoder.write_all(data)?;
            if encoder.get_ref().len() >= PIECE {
                let made = self.take_made();
                self.give(out, made);
            }
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if let Some(encoder) = &mut self.encoder {
            encoder.flush()?;
        }
        let made = self.take_made();
        self.give(out, made);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if let Some(encoder) = self.encoder.take() {
            let made = encoder.finish()?;
            self.give(out, made);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::lists_gzip;

    #[test]
    fn gzip_with_quality_zero_is_refused() {
        for (field, expected) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("gzip;q=0.001", true),
            ("deflate", false),
            ("xgzip", false),
        ] {
            assert_eq!(lists_gzip(field.as_bytes()), expected, "{field}");
        }
    }
}
