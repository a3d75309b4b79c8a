//! Internal redirects: to a URI or a named location, with which the phases start over.

use super::location::update_location;
use crate::escape;
use crate::exchange::{Exchange, Response};
use gallop_conf::model::{Level, Location};
use std::sync::Arc;

/// The place where [`super::run`] starts a round.
pub(super) enum Start {
    Server,
    Named(Arc<Location>),
    Status(u16),
}

pub(super) fn internal(ex: &mut Exchange, uri: Vec<u8>, args: Option<Vec<u8>>) -> Start {
    ex.redirects_left -= 1;
    if ex.redirects_left == 0 {
        let shown = escape::Shown(&uri);
        ex.log(
            Level::Error,
            &format!(
                "rewrite or internal redirection cycle while internally redirecting to \"{shown}\""
            ),
        );
        ex.redirects_left = 1;
        ex.error_page = true;
        return Start::Status(500);
    }
    ex.uri.path = uri;
    ex.uri.set_args(args);
    ex.uri_changed = true;
    ex.internal = true;
    ex.location_valid = true;
    ex.add_uri_to_alias = false;
    keep_fields(ex);
    ex.loc = ex.server.root.clone();
    // As in nginx, the location also decides about the connection.
    update_location(ex);
    Start::Server
}

/// Keep the header fields that an error page takes over from the response it replaces.
fn keep_fields(ex: &mut Exchange) {
    let old = std::mem::take(&mut ex.response);
    ex.response = Response {
        location: old.location,
        headers: old.headers,
        ..Response::default()
    };
}

pub(super) fn named(ex: &mut Exchange, name: &str) -> Start {
    ex.redirects_left -= 1;
    if ex.redirects_left == 0 {
        let message = format!(
            "rewrite or internal redirection cycle while redirect to named location \"{name}\""
        );
        ex.log(Level::Error, &message);
        ex.redirects_left = 1;
        ex.error_page = true;
        return Start::Status(500);
    }
    ex.internal = true;
    keep_fields(ex);
    if ex.uri.path.is_empty() {
        // For a malformed target.
        let message = format!(
            "empty URI in redirect to named location \"{}\"",
            escape::Shown(name.as_bytes())
        );
        ex.log(Level::Error, &message);
        return Start::Status(500);
    }
    match ex.server.root.children.named(name) {
        Some(location) => Start::Named(location.clone()),
        None => {
            ex.log(
                Level::Error,
                &format!(
                    "could not find named location \"{}\"",
                    escape::Shown(name.as_bytes())
                ),
            );
            Start::Status(500)
        }
    }
}
