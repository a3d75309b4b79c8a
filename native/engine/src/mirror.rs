//! mirror: sends copies of a request and ignores the responses.

use crate::exchange::{Exchange, Received};
use crate::phases::flow::Flow;
use crate::{received, subrequest};
use bytes::Bytes;
use gallop_conf::model::items;

pub async fn start(ex: &mut Exchange) -> Flow {
    let loc = ex.loc.clone();
    let targets = items(&loc.conf.mirror);
    if targets.is_empty() || ex.is_subrequest() {
        return Flow::Next;
    }
    let with_body = loc.conf.mirror_request_body.unwrap_or(true);
    if with_body {
        if let Err(flow) = received::read(ex).await {
            return flow;
        }
    }
    for target in targets {
        let mut sub = subrequest::child(ex, target.as_bytes().to_vec(), ex.uri.own_args());
        let method = sub.head.store(ex.method());
        sub.head.method = method;
        sub.header_only = true;
        sub.content_length = ex.content_length.filter(|_| with_body);
        if !with_body {
            sub.received = Some(Received::Memory(Bytes::new()));
        }
        gallop_runtime::spawn(subrequest::to_end(sub));
        ex.has_copies = true;
    }
    Flow::Next
}

/// Start the copies after the request's own limits are known, since its log shows those.
pub async fn settled(ex: &Exchange) {
    if ex.has_copies {
        gallop_runtime::yield_now().await;
    }
}
