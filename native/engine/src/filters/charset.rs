//! The charset of the content type, and conversion from another charset.

use super::recode::Recode;
use super::transform::{Transform, Transformed};
use crate::body::{read_range, Body, Chunk};
use crate::exchange::Exchange;
use crate::template;
use gallop_conf::model::{charset_route, CharsetName, Level, TypeSet};
use std::collections::VecDeque;
use std::io;

/// The types that get a charset by default (`charset_types`).
const TYPES: [&[u8]; 6] = [
    b"text/html",
    b"text/xml",
    b"text/plain",
    b"text/vnd.wap.wml",
    b"application/javascript",
    b"application/rss+xml",
];

pub fn apply(ex: &mut Exchange) {
    let wanted = match ex.is_subrequest() {
        // The body becomes part of a response with this charset.
        true => ex.main_charset.clone(),
        false => destination(ex),
    };
    let Some(wanted) = wanted else {
        return;
    };
    let source = source(ex);
    match source {
        None => name(ex, wanted),
        Some(source) if source.eq_ignore_ascii_case(&wanted) => name(ex, wanted),
        Some(source) => convert(ex, &source, wanted),
    }
}

/// Add the charset to `Content-Type`, except on redirects.
fn name(ex: &mut Exchange, wanted: Vec<u8>) {
    if ex.is_subrequest() {
        return;
    }
    ex.response.typed = None;
    let is_redirect = matches!(ex.response.status, 301 | 302);
    ex.response.charset = (!is_redirect).then_some(wanted);
}

fn name_of(ex: &Exchange, name: &Option<CharsetName>) -> Option<Vec<u8>> {
    let value = template::eval(ex, name.as_ref()?.0.as_ref()?);
    (!value.is_empty() && value != b"off").then_some(value)
}

/// The charset of the response, if this server decides it.
fn destination(ex: &Exchange) -> Option<Vec<u8>> {
    let conf = &ex.loc.conf;
    let r = &ex.response;
    let kind = r.content_type.as_ref().filter(|kind| !kind.is_empty())?;
    if r.override_charset.is_some() {
        return r.override_charset.clone();
    }
    let has_charset = r.charset.is_some() || charset_at(kind).is_some();
    if has_charset && conf.override_charset != Some(true) {
        return None;
    }
    if !has_charset && !is_included(&conf.charset_types, kind) {
        return None;
    }
    name_of(ex, &conf.charset)
}

fn is_included(types: &Option<TypeSet>, kind: &[u8]) -> bool {
    let bare = super::bare_type(kind);
    match types {
        Some(set) => set.contains(&bare),
        None => TYPES.contains(&&*bare),
    }
}

/// The charset of the body; `None` if no conversion is needed.
fn source(ex: &Exchange) -> Option<Vec<u8>> {
    let r = &ex.response;
    // As in nginx, a charset before other parameters has their text in its name.
    let within = || {
        let kind = r.content_type.as_ref()?;
        charset_at(kind).map(|at| kind[at..].to_vec())
    };
    let own = r.charset.clone().or_else(within);
    own.or_else(|| name_of(ex, &ex.loc.conf.source_charset))
}

/// The position behind `charset=` in a content type.
fn charset_at(kind: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"charset=";
    let mut places = kind.windows(NAME.len());
    let at = places.position(|w| w.eq_ignore_ascii_case(NAME))?;
    Some(at + NAME.len())
}

fn convert(ex: &mut Exchange, source: &[u8], wanted: Vec<u8>) {
    if ex.response.header("content-encoding").is_some() {
        return;
    }
    let (from, to) = (
        String::from_utf8_lossy(source).into_owned(),
        String::from_utf8_lossy(&wanted).into_owned(),
    );
    let worker = ex.worker.clone();
    let Some((map, backwards)) = charset_route(&worker.http().charset_maps, &from, &to) else {
        let message = format!("no \"charset_map\" between the charsets \"{from}\" and \"{to}\"");
        ex.log(Level::Error, &message);
        return;
    };
    let recode = Recode::new(map, backwards);
    if recode.changes_length() {
        super::length_changes(&mut ex.response);
    }
    name(ex, wanted);
    ex.response.is_plain_file = false;
    if !ex.header_only {
        recode_body(ex, recode);
    }
}

/// Longer bodies are converted while they are sent; several ranges are possible only for shorter
/// ones.
const AT_ONCE: u64 = 64 * 1024;

fn recode_body(ex: &mut Exchange, mut recode: Recode) {
    ex.response.body = match std::mem::take(&mut ex.response.body) {
        Body::Pieces(pieces) if pieces.iter().map(Chunk::len).sum::<u64>() <= AT_ONCE => {
            match at_once(&pieces, &mut recode) {
                Ok(out) => Body::bytes(out),
                // Reading the original reports the error again.
                Err(_) => Body::Pieces(pieces),
            }
        }
        inner => Transformed::body(inner, recode),
    };
}

fn at_once(pieces: &VecDeque<Chunk>, recode: &mut Recode) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Chunk::Data(data) => recode.push(data, &mut out)?,
            Chunk::File { file, offset, len } => {
                let mut data = Vec::new();
                read_range(file, *offset, *len, &mut data)?;
                recode.push(&data, &mut out)?;
            }
            Chunk::Flush => {}
        }
    }
    recode.finish(&mut out)?;
    Ok(out)
}
