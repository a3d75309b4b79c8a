//! The choice of the location, and its settings for the request's body and connection.

use super::flow::Flow;
use crate::escape;
use crate::exchange::{Exchange, Received};
use bytes::Bytes;
use gallop_conf::locations::Found;
use gallop_conf::model::Level;

pub(super) fn choose_location(ex: &mut Exchange) -> Option<Flow> {
    let server = ex.server.clone();
    ex.stranded = false;
    let mut lacks_slash = false;
    match server.root.children.choose(&ex.uri.path) {
        Found::Location { location, matched } => {
            ex.loc = location.clone();
            for (pattern, groups) in matched.with_groups {
                ex.set_captures(&ex.uri.path, groups, pattern);
            }
            if matched.ends_plain {
                ex.forget_captures();
            }
        }
        Found::AutoRedirect(location) => {
            // The redirect gets the location's header fields and times.
            ex.loc = location.clone();
            lacks_slash = true;
        }
        Found::None => ex.loc = server.root.clone(),
    }
    ex.debug(|| format!("using configuration \"{}\"", ex.loc.name));
    ex.varies |= !crate::fast::is_plain(&ex.server, &ex.loc);
    if ex.loc.internal && !ex.internal {
        return Some(Flow::Status(404));
    }
    update_location(ex);
    if is_too_large(ex) {
        return Some(Flow::Status(413));
    }
    lacks_slash.then(|| to_slash(ex))
}

/// Whether the announced body exceeds the location's limit. The error page may be anywhere, and the
/// body is no longer accepted.
fn is_too_large(ex: &mut Exchange) -> bool {
    let limit = ex.loc.conf.client_max_body_size.unwrap_or(1 << 20);
    let Some(length) = ex.content_length.filter(|&n| limit != 0 && n > limit) else {
        return false;
    };
    if ex.is_subrequest() || ex.refused_body {
        return false;
    }
    let message = format!("client intended to send too large body: {length} bytes");
    ex.log(Level::Error, &message);
    ex.refused_body = true;
    ex.received = Some(Received::Memory(Bytes::new()));
    ex.keepalive = false;
    ex.expect_continue = false;
    true
}

/// Redirect with 301 to the location's name, whose final slash the path lacks.
fn to_slash(ex: &mut Exchange) -> Flow {
    let mut target = escape::escaped(ex.loc.name.as_bytes(), escape::Use::Uri);
    if !ex.uri.args.is_empty() {
        target.push(b'?');
        target.extend_from_slice(&ex.uri.args);
    }
    ex.response.location = Some(target);
    Flow::Status(301)
}

/// Apply the chosen location: `limit_except` for the method, and the settings for the connection.
pub(super) fn update_location(ex: &mut Exchange) {
    // This precedes the rewrite rules, which do not apply to methods that `limit_except` restricts.
    if let Some((methods, limited)) = &ex.loc.limit_except {
        if !methods.iter().any(|m| m.as_bytes() == ex.head.method()) {
            ex.loc = limited.clone();
        }
    }
    let conf = &ex.loc.conf;
    let timeout = conf.keepalive_timeout.unwrap_or(75_000);
    let requests = conf.keepalive_requests.unwrap_or(1000);
    let time = conf.keepalive_time.unwrap_or(3_600_000);
    if timeout == 0
        || ex.conn.requests.get() >= requests
        || ex.started.saturating_sub(ex.conn.started) > time
    {
        ex.keepalive = false;
    }
    // Old browsers lose responses on kept connections; the default is msie6.
    let disable = conf.keepalive_disable.unwrap_or(1);
    let mut agents = ex.head.get_all("user-agent").peekable();
    if agents.peek().is_none() {
        return;
    }
    let agent = agents.collect::<Vec<_>>().concat();
    let has = |needle: &str| memchr::memmem::find(&agent, needle.as_bytes()).is_some();
    let msie6 = disable & 1 != 0
        && ex.head.method() == b"POST"
        && ["MSIE 4.", "MSIE 5.", "MSIE 6."].iter().any(|n| has(n))
        && !has("SV1");
    let safari = disable & 2 != 0 && has("Mac OS X") && has("Safari/") && !has("Chrome/");
    if msie6 || safari {
        ex.keepalive = false;
    }
}
