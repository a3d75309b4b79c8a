//! The end of a request: its background work, count, and log entry.

use crate::body::Body;
use crate::exchange::Exchange;

/// Wait for background work of the request, as nginx does before it closes a connection.
pub async fn settle(ex: &mut Exchange) {
    const LONGEST: u64 = 60_000;
    for done in std::mem::take(&mut ex.background) {
        if gallop_runtime::timeout(LONGEST, done.wait()).await.is_err() {
            return;
        }
    }
}

/// Count and log a completed request, and release its resources.
pub fn finish(ex: &mut Exchange) {
    ex.request_length += ex.source.uncounted();
    if let Some(last) = ex
        .attempts
        .last()
        .filter(|a| a.times.response_ms.get().is_none())
    {
        let lasted = gallop_runtime::now_ms().saturating_sub(last.began);
        last.times.response_ms.set(Some(lasted));
    }
    ex.debug(|| format!("http request finished: {}", ex.response.status));
    if let Some(meter) = &ex.worker.meter {
        meter.exchange(ex);
    }
    crate::log::access(ex);
    crate::log::flush_turn();
    ex.guards.clear();
    ex.response.body = Body::Empty;
}
