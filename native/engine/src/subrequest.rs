//! Subrequests: requests that the server makes on behalf of a client's request.

use crate::body::{Body, BodyStream, Chunk};
use crate::exchange::Exchange;
use crate::phases::{self, end};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The deepest nesting of subrequests.
pub const MAX_DEPTH: u8 = 50;

/// A request for `uri` that shares the parent's connection, header fields, variables, and received
/// body.
pub fn child(parent: &Exchange, uri: Vec<u8>, args: Option<Vec<u8>>) -> Box<Exchange> {
    let mut sub = Exchange::new(parent.worker.clone(), parent.conn.clone());
    sub.head = parent.head.clone();
    sub.server = parent.server.clone();
    sub.loc = parent.server.root.clone();
    sub.host.clone_from(&parent.host);
    sub.host_port = parent.host_port;
    sub.tls = parent.tls;
    sub.client = parent.client;
    sub.client_port = parent.client_port;
    sub.received.clone_from(&parent.received);
    sub.remote_user.clone_from(&parent.remote_user);
    sub.vars = parent.vars.clone();
    crate::vars::fix_request_id(parent);
    sub.request_id = parent.request_id.clone();
    crate::filters::userid::fix(parent);
    sub.user_id = parent.user_id.clone();
    sub.ssi.clone_from(&parent.ssi);
    sub.main_charset.clone_from(&parent.main_charset);
    if !parent.is_subrequest() && parent.response.charset.is_some() {
        sub.main_charset.clone_from(&parent.response.charset);
    }
    sub.in_memory = parent.in_memory;
    sub.time_format.clone_from(&parent.time_format);
    sub.started = parent.started;
    sub.started_wall = parent.started_wall;
    sub.depth = parent.depth + 1;
    sub.internal = true;
    sub.limited = parent.limited.clone();
    sub.uri.path = uri;
    sub.uri.set_args(args);
    sub.uri_changed = true;
    let method = sub.head.store(b"GET");
    sub.head.method = method;
    sub
}

/// A copy of the request in the same location.
pub fn same(parent: &Exchange) -> Box<Exchange> {
    let mut sub = child(parent, Vec::new(), None);
    sub.head.method = parent.head.method;
    sub.loc = parent.loc.clone();
    sub.uri = parent.uri.clone();
    sub.uri_changed = parent.uri_changed;
    sub.internal = parent.internal;
    sub.location_valid = parent.location_valid;
    *sub.captures.borrow_mut() = parent.captures.borrow().clone();
    sub
}

/// Like [`child`], for a URI that may contain arguments.
pub fn of_uri(parent: &Exchange, uri: &[u8]) -> Box<Exchange> {
    let (path, args) = match memchr::memchr(b'?', uri) {
        Some(i) => (&uri[..i], Some(uri[i + 1..].to_vec())),
        None => (uri, None),
    };
    child(parent, path.to_vec(), args)
}

/// Run a subrequest and return it with its unsent response.
pub async fn run(parent: &Exchange, uri: Vec<u8>, args: Option<Vec<u8>>) -> Box<Exchange> {
    let mut sub = child(parent, uri, args);
    Box::pin(phases::run(&mut sub, None)).await;
    sub
}

/// A running subrequest.
pub struct Running(Pin<Box<dyn Future<Output = Box<Exchange>>>>);

impl Running {
    pub fn new(mut sub: Box<Exchange>) -> Running {
        Running(Box::pin(async move {
            phases::run(&mut sub, None).await;
            sub
        }))
    }

    /// Ready when the response head is complete.
    pub fn poll_exchange(&mut self, cx: &mut Context<'_>) -> Poll<Box<Exchange>> {
        self.0.as_mut().poll(cx)
    }

    /// The body; the subrequest ends with it.
    pub fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Body> {
        self.poll_exchange(cx)
            .map(|sub| Body::Stream(Box::new(SubBody::new(sub))))
    }
}

/// The body of a subrequest, whose resources are released at its end.
pub struct SubBody(Option<Box<Exchange>>);

impl SubBody {
    pub fn new(sub: Box<Exchange>) -> SubBody {
        SubBody(Some(sub))
    }
}

impl BodyStream for SubBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        let Some(sub) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let next = std::task::ready!(sub.response.body.poll_next(cx));
        if let Some(Ok(chunk)) = &next {
            sub.bytes_sent += chunk.len();
            sub.body_sent += chunk.len();
        } else if let Some(mut sub) = self.0.take() {
            sub.complete = next.is_none();
            end::finish(&mut sub);
        }
        Poll::Ready(next)
    }
}

impl Drop for SubBody {
    fn drop(&mut self) {
        if let Some(mut sub) = self.0.take() {
            end::finish(&mut sub);
        }
    }
}

/// Run a subrequest to its end for its effects and ignore its response.
pub async fn to_end(mut sub: Box<Exchange>) {
    if phases::run(&mut sub, None).await {
        while let Some(Ok(_)) = sub.response.body.next().await {}
    }
    end::finish(&mut sub);
}
