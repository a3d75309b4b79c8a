//! One round of a request through its phases, from rewrite rules to content.

use super::content;
use super::flow::Flow;
use super::location::{choose_location, update_location};
use crate::exchange::Exchange;
use crate::{access, escape, handlers, limits, mirror, realip, rewrite};
use gallop_conf::model::Level;

/// Continue from the server block's rewrite rules.
pub(super) async fn from_server(ex: &mut Exchange) -> Flow {
    let root = ex.server.root.clone();
    if !root.ops.is_empty() {
        match rewrite::run(ex, &root).await {
            rewrite::Outcome::Continue { .. } => {}
            rewrite::Outcome::Flow(flow) => return flow,
        }
    }
    located(ex).await
}

/// Continue from the choice of a location; its rewrite rules may repeat the choice.
async fn located(ex: &mut Exchange) -> Flow {
    let root = ex.server.root.clone();
    loop {
        if let Some(flow) = choose_location(ex) {
            return flow;
        }
        let location = ex.loc.clone();
        if location.ops.is_empty() || std::ptr::eq(&*location, &*root) {
            break;
        }
        match rewrite::run(ex, &location).await {
            rewrite::Outcome::Flow(flow) => return flow,
            rewrite::Outcome::Continue { uri_changed: false } => break,
            rewrite::Outcome::Continue { uri_changed: true } => {
                if let Some(flow) = rewritten(ex) {
                    return flow;
                }
            }
        }
    }
    after_rewrite(ex).await
}

/// Handle a URI change by a location's rules: has this request had too many?
fn rewritten(ex: &mut Exchange) -> Option<Flow> {
    ex.redirects_left -= 1;
    if ex.redirects_left == 0 {
        let uri = escape::Shown(&ex.uri.path).to_string();
        let message = "rewrite or internal redirection cycle while processing";
        ex.log(Level::Error, &format!("{message} \"{uri}\""));
        ex.redirects_left = 1;
        ex.error_page = true;
        return Some(Flow::Status(500));
    }
    ex.loc = ex.server.root.clone();
    None
}

/// Continue from the rewrite rules of a given location.
pub(super) async fn from_location(ex: &mut Exchange) -> Flow {
    update_location(ex);
    let location = ex.loc.clone();
    if !location.ops.is_empty() {
        match rewrite::run(ex, &location).await {
            rewrite::Outcome::Flow(flow) => return flow,
            rewrite::Outcome::Continue { uri_changed: false } => {}
            rewrite::Outcome::Continue { uri_changed: true } => {
                return match rewritten(ex) {
                    Some(flow) => flow,
                    None => located(ex).await,
                };
            }
        }
    }
    after_rewrite(ex).await
}

async fn after_rewrite(ex: &mut Exchange) -> Flow {
    update_location(ex);
    let location = ex.loc.clone();
    realip::apply(ex, &location);
    match limits::apply(ex).await {
        Flow::Next => {}
        flow => return flow,
    }
    if !ex.is_subrequest() {
        match access::check(ex).await {
            Flow::Next => {}
            flow => return flow,
        }
    }
    if let Some(rule) = ex.loc.try_files.clone() {
        match handlers::try_files(ex, &rule) {
            Flow::Next => {}
            flow => return flow,
        }
    }
    match mirror::start(ex).await {
        Flow::Next => {}
        flow => return flow,
    }
    content::serve(ex).await
}
