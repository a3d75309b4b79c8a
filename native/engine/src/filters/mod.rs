//! The filters of every response, in nginx's order.

mod addition;
mod charset;
mod compress;
mod gunzip;
mod gzip;
mod headers;
mod not_modified;
mod range;
mod recode;
pub mod slice;
pub mod ssi;
mod sub;
mod transform;
pub mod userid;

use crate::exchange::{Exchange, Response};
use crate::phases::flow::Flow;
use gallop_conf::model::TypeSet;
use gallop_http::message::Version;

pub use compress::accepted as coding_accepted;
pub(crate) use gzip::may_compress;
pub use gzip::{accepted as gzip_accepted, lists_gzip};
pub use headers::trailers;
pub(crate) use headers::{apply as add_headers, is_usual as is_usual_status};
pub use range::{parse as parse_ranges, Parsed as Ranges};

/// Apply the filters. A status leads to the request's error page instead.
pub fn apply(ex: &mut Exchange) -> Flow {
    let flow = filtered(ex);
    if matches!(flow, Flow::Status(_)) {
        crate::upstream::abandon(ex);
    }
    flow
}

fn filtered(ex: &mut Exchange) -> Flow {
    if ex.error_status != 0 {
        ex.response.status = ex.error_status;
        ex.response.reason = None;
    }
    carry(ex);
    if ex.varies {
        ex.response.is_plain_file = false;
    }
    if slice::apply(ex).is_err() {
        return Flow::Close;
    }
    if let Some(status) = not_modified::check(ex) {
        // As in nginx, no header field of the response is sent with the error page.
        ex.response.headers.clear();
        return Flow::Status(status);
    }
    headers::apply(ex);
    userid::apply(ex);
    if !matches!(ex.response.status, 200 | 206 | 304) && !ex.response.is_dated {
        // The date would apply to the error page.
        ex.response.last_modified = None;
    }
    if ex.response.status != 304 {
        gunzip::apply(ex);
        let around = addition::announce(ex);
        sub::apply(ex);
        charset::apply(ex);
        ssi::apply(ex);
        if let Some(around) = around {
            addition::surround(ex, around);
        }
        if !ex.is_subrequest() {
            compress::apply(ex);
            gzip::apply(ex);
            if let Some(status) = range::apply(ex) {
                return Flow::Status(status);
            }
        }
    } else if ex.response.content_type.is_some() {
        // For a response that `return` created.
        charset::apply(ex);
    }
    if ex.response.gzip_vary && ex.loc.conf.gzip_vary == Some(true) {
        add_vary(ex);
    }
    type_nothing(ex);
    Flow::Done
}

/// Remove the type of a 204 response, except an upstream's over HTTP/1, as in nginx.
pub fn type_nothing(ex: &mut Exchange) {
    let is_passed_on = ex.response.reason.is_some() && ex.version() < Version::Http2;
    if ex.response.status == 204 && !is_passed_on {
        ex.response.content_type = None;
        ex.response.charset = None;
    }
}

/// Add the cookie of `sticky`, and the header fields of an upstream response with
/// `X-Accel-Redirect`.
fn carry(ex: &mut Exchange) {
    for (name, value) in std::mem::take(&mut ex.carried) {
        if !(ex.response.allow_ranges && name.eq_ignore_ascii_case(b"accept-ranges")) {
            ex.response.headers.push((name, value));
        }
    }
    if let Some(kind) = ex.carried_type.take() {
        ex.response.content_type = Some(kind);
    }
    if let Some(cookie) = ex.sticky_cookie.take() {
        let field = (b"Set-Cookie".to_vec(), cookie);
        ex.response.headers.insert(0, field);
    }
}

fn add_vary(ex: &mut Exchange) {
    let present = ex.response.headers.iter().any(|(n, v)| {
        n.eq_ignore_ascii_case(b"vary") && v.eq_ignore_ascii_case(b"accept-encoding")
    });
    if !present {
        ex.response
            .headers
            .insert(0, (b"Vary".to_vec(), b"Accept-Encoding".to_vec()));
    }
}

/// Whether the response's media type is in the filter's list; without a list, whether it is
/// text/html.
fn is_of_types(response: &Response, types: &Option<TypeSet>) -> bool {
    is_type_of(response.content_type.as_deref(), types)
}

fn is_type_of(kind: Option<&[u8]>, types: &Option<TypeSet>) -> bool {
    if matches!(types, Some(TypeSet::All)) {
        return true;
    }
    let Some(kind) = kind else {
        return false;
    };
    let bare = bare_type(kind);
    match types {
        Some(set) => set.contains(&bare),
        None => bare == b"text/html",
    }
}

/// A media type in lower case without parameters.
fn bare_type(kind: &[u8]) -> Vec<u8> {
    let bare = kind.split(|&c| c == b';').next().unwrap_or(kind);
    bare.trim_ascii().to_ascii_lowercase()
}

/// Weaken the entity tag, since a filter changes the body's bytes.
fn body_changes(r: &mut Response) {
    length_changes(r);
    weaken(r);
}

/// Remove the length and range support, since the length is unknown.
fn length_changes(r: &mut Response) {
    r.content_length = None;
    r.allow_ranges = false;
    r.remove_header("Accept-Ranges");
}

/// Remove date and entity tag, including an unreadable date, since the body is generated per
/// response.
fn forget_validators(r: &mut Response) {
    r.last_modified = None;
    r.etag = None;
    r.remove_header("Last-Modified");
}

fn weaken(r: &mut Response) {
    if let Some(etag) = &mut r.etag {
        if !etag.starts_with(b"W/") {
            etag.splice(..0, *b"W/");
        }
    }
}
