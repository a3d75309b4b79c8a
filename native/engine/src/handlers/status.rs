//! status: the server's counters as JSON or for Prometheus.

use crate::body::Body;
use crate::exchange::Exchange;
use crate::metrics::{json, prometheus, Live, CONTENT_TYPE};
use crate::phases::flow::Flow;
use gallop_conf::model::StatusFormat;

pub fn status(ex: &mut Exchange, format: StatusFormat) -> Flow {
    if !matches!(ex.method(), b"GET" | b"HEAD") {
        return Flow::Status(405);
    }
    let live = Live::read(&ex.worker.shared);
    let (text, media_type) = match format {
        StatusFormat::Json => (json(&live), "application/json"),
        StatusFormat::Prometheus => (prometheus(&live), CONTENT_TYPE),
    };
    ex.response.status = 200;
    ex.response.content_type = Some(media_type.into());
    ex.response.content_length = Some(text.len() as u64);
    ex.response.add_header("Cache-Control", "no-store");
    ex.response.body = Body::bytes(text);
    ex.response.filterable = true;
    Flow::Done
}
