//! The charset of the content type.

use crate::exchange::Exchange;
use crate::template;

/// Types that get a charset when `charset_types` says nothing.
const TYPES: [&[u8]; 6] = [
    b"text/html",
    b"text/xml",
    b"text/plain",
    b"text/vnd.wap.wml",
    b"application/javascript",
    b"application/rss+xml",
];

pub fn apply(ex: &mut Exchange) {
    let loc = ex.loc.clone();
    let Some(charset) = loc.conf.charset.as_ref().and_then(|c| c.0.as_ref()) else {
        return;
    };
    let r = &ex.response;
    if r.charset.is_some() || matches!(r.status, 301 | 302) {
        return;
    }
    let Some(kind) = &r.content_type else { return };
    if kind.windows(8).any(|w| w.eq_ignore_ascii_case(b"charset=")) {
        return;
    }
    let bare = kind
        .split(|&c| c == b';')
        .next()
        .unwrap_or(kind)
        .trim_ascii()
        .to_ascii_lowercase();
    let included = match &loc.conf.charset_types {
        Some(set) => set.contains(&bare),
        None => TYPES.contains(&&*bare),
    };
    if included {
        let name = template::eval(ex, charset);
        if !name.is_empty() && name != b"off" {
            ex.response.charset = Some(name);
        }
    }
}
