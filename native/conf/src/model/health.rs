//! Active health checks of upstream servers (`health_check`) and their tests (`match`).

use super::{Handler, Location, Server};
use crate::error::Place;
use crate::pattern::Pattern;
use crate::vars::VarId;
use std::sync::Arc;

/// The most health checks of one group: each has a bit in the state of a server.
pub const MOST_CHECKS: usize = 64;

/// The parameters of a `health_check` directive. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct CheckConf {
    pub interval: u64,
    /// The most that each check is delayed by chance.
    pub jitter: u64,
    /// Failures in a row after which a server is unhealthy, and passes after which it is healthy.
    pub fails: u32,
    pub passes: u32,
    /// Whether a server gets no requests until its first check has passed.
    pub mandatory: bool,
    /// Whether a server that was healthy before a reload is healthy after it.
    pub persistent: bool,
    /// The port to check instead of the server's own.
    pub port: Option<u16>,
    /// How long a connection may serve checks; 0 for one check.
    pub keepalive_time: u64,
    pub kind: CheckKind,
    /// The name of the match block; empty without one.
    pub match_name: String,
    /// The tests of the match block, once the whole block around it is read.
    pub tests: Option<Arc<Tests>>,
    pub place: Place,
}

/// The request that a check sends.
#[derive(Clone, Debug)]
pub enum CheckKind {
    /// A request of the location's protocol for this URI.
    Http {
        uri: String,
    },
    /// A call of `grpc.health.v1.Health/Check`.
    Grpc {
        service: String,
        /// The status that counts as healthy besides a server that says it serves.
        status: Option<u32>,
    },
    Tcp,
    Udp,
}

/// A health check and the place whose settings it uses.
#[derive(Debug)]
pub struct HealthCheck {
    pub conf: CheckConf,
    pub server: Arc<Server>,
    /// The location, or the server block's root in `stream`.
    pub location: Arc<Location>,
}

/// The tests of a `match` block. A check passes if all do.
#[derive(Clone, Debug)]
pub enum Tests {
    Http(Vec<Test>),
    Stream {
        send: Option<Vec<u8>>,
        expect: Option<Expect>,
    },
}

/// A test of an HTTP response.
#[derive(Clone, Debug)]
pub enum Test {
    /// Ranges of statuses, both ends included.
    Status {
        negated: bool,
        ranges: Vec<(u16, u16)>,
    },
    Header {
        name: String,
        test: FieldTest,
    },
    Body {
        negated: bool,
        pattern: Pattern,
    },
    /// Variables that must be neither empty nor 0.
    Require(Vec<VarId>),
}

/// A test of a header field.
#[derive(Clone, Debug)]
pub enum FieldTest {
    Present,
    Absent,
    Equal { negated: bool, value: String },
    Matching { negated: bool, pattern: Pattern },
}

/// What a server of `stream` must send.
#[derive(Clone, Debug)]
pub enum Expect {
    Text(Vec<u8>),
    Regex(Pattern),
}

impl HealthCheck {
    /// Whether a test needs the response's body.
    pub fn needs_body(&self) -> bool {
        let is_body = |test: &Test| matches!(test, Test::Body { .. });
        match self.conf.tests.as_deref() {
            Some(Tests::Http(tests)) => tests.iter().any(is_body),
            _ => false,
        }
    }

    /// The handler of the location.
    pub fn handler(&self) -> Option<&Handler> {
        self.location.handler.as_ref()
    }
}
