//! `sticky`: the way that requests of a client are kept at one server of a group.

use crate::template::Template;
use crate::vars::VarId;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Sticky {
    /// A cookie of this server names the upstream server.
    Cookie(StickyCookie),
    /// The first of the variables with a value is the `route` of the upstream server.
    Route(Vec<VarId>),
    /// The upstream servers create sessions, which this server remembers.
    Learn(Arc<StickyLearn>),
}

#[derive(Clone, Debug)]
pub struct StickyCookie {
    pub name: String,
    /// The variable with the client's cookie.
    pub lookup: VarId,
    pub expires: Option<StickyExpires>,
    pub domain: Option<Template>,
    pub path: Option<String>,
    pub samesite: Option<Template>,
    pub httponly: bool,
    pub secure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StickyExpires {
    Max,
    /// Seconds after the response.
    After(u64),
}

#[derive(Clone, Debug)]
pub struct StickyLearn {
    pub zone: String,
    /// Bytes of the table of sessions.
    pub size: u64,
    /// Milliseconds after its last use when a session ends.
    pub timeout: u64,
    /// Variables with the session of a request, and with the session that a response creates.
    pub lookup: Vec<VarId>,
    pub create: Vec<VarId>,
    /// Whether a session is stored when the head of the response has come, not at its end.
    pub at_header: bool,
}

/// The values of `samesite`.
pub const SAME_SITE: [&str; 3] = ["strict", "lax", "none"];

/// The longest `route` of a server, in bytes.
pub const LONGEST_ROUTE: usize = 32;
