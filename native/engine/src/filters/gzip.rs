//! gzip and gunzip while the answer is sent.

use crate::body::{read_range, Body, BodyStream, Chunk};
use crate::exchange::Exchange;
use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::Compression;
use gallop_conf::model::{items, proxied};
use gallop_http::message::Version;
use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;
use std::task::{ready, Context, Poll};

/// Whether the client takes gzip, and the settings let it have it.
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

/// `gzip` without `q=0` among the accepted encodings.
pub fn lists_gzip(field: &[u8]) -> bool {
    field.split(|&c| c == b',').any(|item| {
        let mut parts = item.split(|&c| c == b';');
        let name = parts.next().unwrap_or(b"").trim_ascii();
        if !name.eq_ignore_ascii_case(b"gzip") {
            return false;
        }
        let quality = parts
            .map(<[u8]>::trim_ascii)
            .find_map(|p| p.strip_prefix(b"q=").or_else(|| p.strip_prefix(b"Q=")));
        quality.is_none_or(|q| q.iter().any(|c| (b'1'..=b'9').contains(c)))
    })
}

/// `gzip_proxied`, by what the answer says of being stored.
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

pub fn apply(ex: &mut Exchange) {
    let loc = ex.loc.clone();
    let conf = &loc.conf;
    let r = &ex.response;
    let min = conf.gzip_min_length.unwrap_or(20);
    if conf.gzip != Some(true)
        || !matches!(r.status, 200 | 403 | 404)
        || r.header("content-encoding").is_some()
        || r.content_length.is_some_and(|n| n < min)
        || !r.filterable
    {
        return;
    }
    let Some(kind) = &r.content_type else { return };
    let bare = kind
        .split(|&c| c == b';')
        .next()
        .unwrap_or(kind)
        .trim_ascii()
        .to_ascii_lowercase();
    let included = match &conf.gzip_types {
        Some(set) => set.contains(&bare),
        None => bare == b"text/html",
    };
    if !included || matches!(r.body, Body::Empty) && !ex.header_only {
        return;
    }
    ex.response.gzip_vary = true;
    if !accepted(ex) {
        return;
    }
    if ex.header_only {
        // The length of what GET would get is not known.
        clear_length(ex);
        return;
    }
    let level = conf.gzip_comp_level.unwrap_or(1) as u32;
    let inner = std::mem::take(&mut ex.response.body);
    let counts = Rc::new(Cell::new((0, 0)));
    ex.guards.push(Box::new(counts.clone()));
    ex.response.body = Body::Stream(Box::new(GzipStream {
        inner,
        encoder: Some(GzEncoder::new(Vec::new(), Compression::new(level))),
        counts,
        pending: None,
    }));
    clear_length(ex);
}

fn clear_length(ex: &mut Exchange) {
    let r = &mut ex.response;
    r.content_length = None;
    r.allow_ranges = false;
    r.remove_header("Accept-Ranges");
    r.add_header("Content-Encoding", "gzip");
    if let Some(etag) = r.etag.take() {
        let weak = etag.starts_with(b"W/");
        r.etag = Some(if weak {
            etag
        } else {
            [b"W/", &etag[..]].concat()
        });
    }
}

/// Bytes before and after, for `$gzip_ratio`.
pub type Counts = Rc<Cell<(u64, u64)>>;

struct GzipStream {
    inner: Body,
    /// Gone once the trailer was written.
    encoder: Option<GzEncoder<Vec<u8>>>,
    counts: Counts,
    /// A file range of which a part was read.
    pending: Option<Chunk>,
}

/// Compressed bytes that are worth sending before more come.
const PIECE: usize = 4096;

/// Bytes of a file that are compressed at a time.
const FILE_STEP: u64 = 64 * 1024;

impl GzipStream {
    fn input(&mut self, data: &[u8]) -> io::Result<()> {
        let (from, to) = self.counts.get();
        self.counts.set((from + data.len() as u64, to));
        match &mut self.encoder {
            Some(encoder) => encoder.write_all(data),
            None => Ok(()),
        }
    }

    fn output(&mut self) -> Option<Chunk> {
        let out = std::mem::take(self.encoder.as_mut()?.get_mut());
        self.give(out)
    }

    fn give(&mut self, out: Vec<u8>) -> Option<Chunk> {
        let (from, to) = self.counts.get();
        self.counts.set((from, to + out.len() as u64));
        (!out.is_empty()).then(|| Chunk::Data(Bytes::from(out)))
    }

    fn take(&mut self, chunk: Chunk) -> io::Result<Option<Chunk>> {
        let flush = matches!(chunk, Chunk::Flush);
        match chunk {
            Chunk::Data(data) => self.input(&data)?,
            Chunk::Flush => {
                if let Some(encoder) = &mut self.encoder {
                    encoder.flush()?;
                }
            }
            Chunk::File { file, offset, len } => {
                let step = len.min(FILE_STEP);
                let mut data = Vec::new();
                read_range(&file, offset, step, &mut data)?;
                self.input(&data)?;
                if step < len {
                    self.pending = Some(Chunk::File {
                        file,
                        offset: offset + step,
                        len: len - step,
                    });
                }
            }
        }
        let ready = self.encoder.as_ref().map_or(0, |e| e.get_ref().len());
        Ok((flush || ready >= PIECE).then(|| self.output()).flatten())
    }
}

impl BodyStream for GzipStream {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        loop {
            if self.encoder.is_none() {
                return Poll::Ready(None);
            }
            let next = match self.pending.take() {
                Some(chunk) => Some(Ok(chunk)),
                None => ready!(self.inner.poll_next(cx)),
            };
            let result = match next {
                Some(Ok(chunk)) => self.take(chunk),
                Some(Err(e)) => Err(e),
                None => {
                    let encoder = self.encoder.take().expect("checked above");
                    match encoder.finish() {
                        Ok(out) => Ok(self.give(out)),
                        Err(e) => Err(e),
                    }
                }
            };
            match result {
                Ok(None) => {}
                Ok(Some(chunk)) => return Poll::Ready(Some(Ok(chunk))),
                Err(e) => return Poll::Ready(Some(Err(e))),
            }
        }
    }

    fn trailers(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.inner.trailers()
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
