//! What is done to every answer before it is sent, in nginx's order.

mod charset;
mod gzip;
mod headers;
mod not_modified;
mod range;

use crate::exchange::Exchange;
use crate::phases::Flow;

pub use gzip::{accepted as gzip_accepted, lists_gzip};
pub use range::{parse as parse_ranges, Parsed as Ranges};

/// Applies the filters; a status sends the request to its error page instead.
pub async fn apply(ex: &mut Exchange) -> Flow {
    if ex.error_status != 0 {
        ex.response.status = ex.error_status;
        ex.response.reason = None;
    }
    carry(ex);
    if let Some(status) = not_modified::check(ex) {
        return Flow::Status(status);
    }
    headers::apply(ex);
    if ex.response.status != 304 && !ex.is_subrequest() {
        charset::apply(ex);
        gzip::apply(ex);
        if let Some(status) = range::apply(ex) {
            return Flow::Status(status);
        }
    }
    if ex.response.gzip_vary && ex.loc.conf.gzip_vary == Some(true) {
        add_vary(ex);
    }
    Flow::Done
}

/// Fields of an upstream's answer that sent the request here with `X-Accel-Redirect`.
fn carry(ex: &mut Exchange) {
    for (name, value) in std::mem::take(&mut ex.carried) {
        if !(ex.response.allow_ranges && name.eq_ignore_ascii_case(b"accept-ranges")) {
            ex.response.headers.push((name, value));
        }
    }
    if let Some(kind) = ex.carried_type.take().filter(|_| ex.error_status == 0) {
        ex.response.content_type = Some(kind);
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
