//! Conditional requests (RFC 9110, section 13) as nginx evaluates them.

use crate::body::Body;
use crate::exchange::Exchange;
use crate::time::parse_http_date;
use gallop_conf::model::IfModifiedSince;

/// Change the response to 304, or return the status of a failed precondition.
pub fn check(ex: &mut Exchange) -> Option<u16> {
    let status = evaluate(ex);
    if status.is_some() {
        // Drop the redirect target of an error page.
        ex.response.location = None;
    }
    status
}

fn evaluate(ex: &mut Exchange) -> Option<u16> {
    let r = &ex.response;
    if r.status != 200 || r.judged || ex.is_subrequest() {
        return None;
    }
    if let Some(since) = ex.head.get("if-unmodified-since") {
        let limit = parse_http_date(since);
        let modified = ex.response.last_modified;
        let newer = matches!((limit, modified), (Some(l), Some(m)) if m > l);
        if newer {
            return Some(412);
        }
    }
    if let Some(list) = ex.head.get("if-match") {
        if !matches(ex, list, false) {
            return Some(412);
        }
    }
    let since = ex.head.get("if-modified-since").map(<[u8]>::to_vec);
    let none_match = ex.head.get("if-none-match").map(<[u8]>::to_vec);
    if since.is_none() && none_match.is_none() {
        return None;
    }
    if since.is_some_and(|s| modified_since(ex, &s)) {
        return None;
    }
    if none_match.is_some_and(|list| !matches(ex, &list, true)) {
        return None;
    }
    let r = &mut ex.response;
    r.status = 304;
    r.reason = None;
    r.content_type = None;
    r.content_length = None;
    r.remove_header("Content-Encoding");
    r.allow_ranges = false;
    r.body = Body::Empty;
    r.filterable = false;
    None
}

fn modified_since(ex: &Exchange, text: &[u8]) -> bool {
    let Some(modified) = ex.response.last_modified else {
        return true;
    };
    let mode = ex
        .loc
        .conf
        .if_modified_since
        .unwrap_or(IfModifiedSince::Exact);
    if mode == IfModifiedSince::Off {
        return true;
    }
    match parse_http_date(text) {
        Some(since) if since == modified => false,
        Some(since) => mode == IfModifiedSince::Exact || since < modified,
        None => true,
    }
}

fn matches(ex: &Exchange, list: &[u8], weak: bool) -> bool {
    if list == b"*" {
        return true;
    }
    let Some(etag) = &ex.response.etag else {
        return false;
    };
    let own = if weak {
        etag.strip_prefix(b"W/").unwrap_or(etag)
    } else {
        etag
    };
    list.split(|&c| c == b',').any(|item| {
        let item = item.trim_ascii();
        let item = if weak {
            item.strip_prefix(b"W/").unwrap_or(item)
        } else {
            item
        };
        item == own
    })
}
