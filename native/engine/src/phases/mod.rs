//! The phases of a request: server rewrite, location, rewrite, limits, access, try_files, and
//! content. Internal redirects start over.

pub(crate) mod begin;
pub(crate) mod content;
pub(crate) mod end;
pub(crate) mod fields;
pub(crate) mod flow;
mod location;
mod redirect;
mod round;
pub(crate) mod server;

use crate::exchange::{Exchange, Response};
use crate::{errors, filters, realip};
use flow::Flow;
use redirect::{internal, named, Start};
use round::{from_location, from_server};
use std::ops::ControlFlow::{self, Break, Continue};

/// Process the request until its response is complete in `ex.response`. `false` means: close
/// without a response.
pub async fn run(ex: &mut Exchange, refused: Option<u16>) -> bool {
    #[cfg(debug_assertions)]
    crate::panics::fault::inject(&ex.uri.path);
    let mut start = match refused {
        Some(status) => Start::Status(status),
        None => {
            let root = ex.server.root.clone();
            realip::apply(ex, &root);
            Start::Server
        }
    };
    loop {
        let flow = match start {
            Start::Status(status) => Flow::Status(status),
            Start::Server => from_server(ex).await,
            Start::Named(location) => {
                ex.varies = true;
                ex.loc = location;
                from_location(ex).await
            }
        };
        match after_round(ex, flow) {
            Continue(next) => start = next,
            Break(result) => return result,
        }
    }
}

/// Where a request goes on after a round, or the result of [`run`].
fn after_round(ex: &mut Exchange, flow: Flow) -> ControlFlow<bool, Start> {
    Continue(match flow {
        Flow::Close => return Break(false),
        Flow::Next => Start::Status(404),
        Flow::Done => match ex.source.discard_ready() {
            Err(status) => {
                ex.response = Response::default();
                Start::Status(status)
            }
            Ok(()) => match filters::apply(ex) {
                Flow::Done => return Break(true),
                Flow::Status(status) => Start::Status(status),
                _ => return Break(false),
            },
        },
        Flow::Status(status) => match errors::page(ex, status) {
            errors::Page::Answered => {
                // The request is already refused, so an error in its body does not matter.
                ex.keepalive &= ex.source.discard_ready().is_ok();
                match filters::apply(ex) {
                    Flow::Done => return Break(true),
                    // A page with a refresh is a 200 response to which conditions apply.
                    Flow::Status(status) => Start::Status(status),
                    _ => return Break(false),
                }
            }
            errors::Page::Close => return Break(false),
            errors::Page::Internal { uri, args } => internal(ex, uri, args),
            errors::Page::Named(name) => named(ex, &name),
        },
        Flow::Internal { uri, args } => internal(ex, uri, args),
        Flow::Named(name) => named(ex, &name),
    })
}
