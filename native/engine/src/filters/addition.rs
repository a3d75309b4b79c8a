//! add_before_body and add_after_body: subrequest responses around the body. They pass through the
//! subrequests' filters, not the request's.

use crate::body::{Body, BodyStream, Chunk};
use crate::exchange::Exchange;
use crate::subrequest::{self, Running};
use std::collections::VecDeque;
use std::io;
use std::task::{ready, Context, Poll};

/// The additions around the body; the head is already adjusted.
pub struct Around {
    before: Option<String>,
    after: Option<String>,
}

/// Adjust the head of a page with additions.
pub fn announce(ex: &mut Exchange) -> Option<Around> {
    let loc = ex.loc.clone();
    let conf = &loc.conf;
    let named = |uri: &Option<String>| uri.clone().filter(|u| !u.is_empty());
    let (before, after) = (named(&conf.add_before_body), named(&conf.add_after_body));
    if (before.is_none() && after.is_none())
        || ex.response.status != 200
        || ex.is_subrequest()
        || !super::is_of_types(&ex.response, &conf.addition_types)
    {
        return None;
    }
    super::body_changes(&mut ex.response);
    (!ex.header_only).then_some(Around { before, after })
}

/// Add the parts around the body. This runs after the filters that change the request's own body.
pub fn surround(ex: &mut Exchange, around: Around) {
    let inner = std::mem::take(&mut ex.response.body);
    let mut parts = VecDeque::new();
    let sub = |uri: String| Part::Waiting(subrequest::of_uri(ex, uri.as_bytes()));
    parts.extend(around.before.map(sub));
    parts.push_back(Part::Body(inner));
    parts.extend(around.after.map(sub));
    ex.response.body = Body::Stream(Box::new(Chain(parts)));
}

enum Part {
    Body(Body),
    /// A subrequest that has not started.
    Waiting(Box<Exchange>),
    Running(Running),
}

/// Bodies in sequence. A subrequest starts when its turn comes.
struct Chain(VecDeque<Part>);

impl BodyStream for Chain {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        loop {
            let next = match self.0.front_mut() {
                None => return Poll::Ready(None),
                Some(Part::Body(body)) => ready!(body.poll_next(cx)),
                Some(Part::Running(running)) => {
                    let body = ready!(running.poll_body(cx));
                    self.0[0] = Part::Body(body);
                    continue;
                }
                Some(Part::Waiting(_)) => {
                    if let Some(Part::Waiting(sub)) = self.0.pop_front() {
                        self.0.push_front(Part::Running(Running::new(sub)));
                    }
                    continue;
                }
            };
            match next {
                None => self.0.pop_front(),
                next => return Poll::Ready(next),
            };
        }
    }
}
