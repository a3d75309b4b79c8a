//! The server's counters, read by `status` and `status_socket`.
//!
//! Each thread counts in its own cells with plain loads and stores; a reader adds them up. The
//! master allocates the memory, so that the counts survive workers and reloads.

mod histogram;
mod json;
mod live;
mod prometheus;
mod snapshot;

use crate::exchange::Exchange;
use crate::upstream::found::Found;
use crate::upstream::sessions::Sessions;
use crate::upstream::verdicts::Verdicts;
use gallop_conf::model::{Config, Http};
use gallop_http::message::Version;
use gallop_runtime::SharedCells;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

pub use histogram::BUCKETS;
pub use json::json;
pub use live::{peer_key, CacheState, History, Live, PeerState};
pub use prometheus::{prometheus, CONTENT_TYPE};
pub use snapshot::Snapshot;

/// The cells of stub_status, which precede those of the threads.
pub const COUNTERS: usize = 7;

/// A category of counters, each with its own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Protocol,
    Quic,
    LimitReq,
    LimitConn,
    Cache,
    /// Upstream servers, named by group and address, or by a name that is resolved again.
    Peer,
    /// Status zones: the requests of server blocks.
    Zone,
}

pub const SECTIONS: [Section; 7] = [
    Section::Protocol,
    Section::Quic,
    Section::LimitReq,
    Section::LimitConn,
    Section::Cache,
    Section::Peer,
    Section::Zone,
];

/// Status classes: requests without a response, and 1xx to 5xx.
pub const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
pub const PROTOCOLS: [&str; 5] = ["HTTP/0.9", "HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/3.0"];
pub const LIMIT_REQ: [&str; 5] = [
    "PASSED",
    "DELAYED",
    "REJECTED",
    "DELAYED_DRY_RUN",
    "REJECTED_DRY_RUN",
];
pub const LIMIT_CONN: [&str; 3] = ["PASSED", "REJECTED", "REJECTED_DRY_RUN"];
pub const CACHE: [&str; 7] = [
    "HIT",
    "MISS",
    "EXPIRED",
    "STALE",
    "UPDATING",
    "REVALIDATED",
    "BYPASS",
];

/// The QUIC counters with their descriptions.
pub const QUIC: [(&str, &str); 8] = [
    ("connections", "QUIC connections accepted."),
    ("handshakes", "QUIC handshakes completed."),
    ("retries", "Retry packets sent to validate addresses."),
    ("early_data", "QUIC connections whose early data was taken."),
    (
        "migrations",
        "Changes of a client's address in a connection.",
    ),
    ("stateless_resets", "Stateless resets sent."),
    (
        "packets_sent",
        "QUIC packets sent by connections that ended.",
    ),
    (
        "packets_lost",
        "QUIC packets lost by connections that ended.",
    ),
];

/// The indexes of [`QUIC`].
#[derive(Clone, Copy, Debug)]
pub enum Quic {
    Connections,
    Handshakes,
    Retries,
    EarlyData,
    Migrations,
    StatelessResets,
    PacketsSent,
    PacketsLost,
}

/// Fields of a zone behind its status classes; its latencies' buckets follow.
pub mod zone {
    use super::CLASSES;
    pub const RECEIVED: usize = CLASSES.len();
    pub const SENT: usize = RECEIVED + 1;
    /// Microseconds of all requests together.
    pub const TIME: usize = SENT + 1;
    pub const LATENCIES: usize = TIME + 1;
}

/// Fields of an upstream's server behind its status classes.
pub mod peer {
    use super::CLASSES;
    pub const FAILS: usize = CLASSES.len();
    /// Milliseconds of all tries together.
    pub const TIME: usize = FAILS + 1;
}

impl Section {
    /// Cells of one name.
    pub const fn width(self) -> usize {
        match self {
            Section::Protocol => PROTOCOLS.len(),
            Section::Quic => QUIC.len(),
            Section::LimitReq => LIMIT_REQ.len(),
            Section::LimitConn => LIMIT_CONN.len(),
            Section::Cache => CACHE.len(),
            Section::Peer => peer::TIME + 1,
            Section::Zone => zone::LATENCIES + BUCKETS,
        }
    }
}

/// Where each thread's cells are.
#[derive(Debug, Default)]
pub struct Layout {
    names: [Vec<String>; SECTIONS.len()],
    offsets: [usize; SECTIONS.len()],
    /// Cells that say by bits which zones were ever counted in; nobody reads the others.
    used: usize,
    /// Cells of one thread.
    stride: usize,
}

impl Layout {
    /// The layout of a configuration; empty when nothing shows what would be counted.
    pub fn new(config: &Config) -> Layout {
        let mut layout = Layout::default();
        let Some(http) = config.http.as_ref().filter(|http| http.is_metered) else {
            return layout;
        };
        layout.names = names(http);
        let mut at = 0;
        for section in SECTIONS {
            layout.offsets[section as usize] = at;
            at += layout.names[section as usize].len() * section.width();
        }
        layout.used = at;
        layout.stride = at + layout.names[Section::Zone as usize].len().div_ceil(64);
        layout
    }

    fn names(&self, section: Section) -> &[String] {
        &self.names[section as usize]
    }

    fn at(&self, section: Section, index: usize) -> usize {
        self.offsets[section as usize] + index * section.width()
    }
}

fn names(http: &Http) -> [Vec<String>; SECTIONS.len()] {
    let one = || vec![String::new()];
    let limits = |zones: &[gallop_conf::model::LimitZone]| {
        zones.iter().map(|z| z.name.clone()).collect::<Vec<_>>()
    };
    let peers = http.upstreams.iter().flat_map(|group| {
        let all = group.peers.iter().chain(&group.resolving);
        all.map(|p| peer_key(group, p))
    });
    [
        one(),
        one(),
        limits(&http.limit_req_zones),
        limits(&http.limit_conn_zones),
        http.cache_zones.iter().map(|z| z.name.clone()).collect(),
        peers.collect(),
        http.status_zones.clone(),
    ]
}

/// The counts of one configuration: by one worker process, or by those that followed on a crash.
#[derive(Debug)]
pub struct Generation {
    layout: Arc<Layout>,
    threads: usize,
    cells: Arc<SharedCells>,
    /// What its servers' names stand for.
    pub found: Found,
    /// What health checks found of its servers.
    pub verdicts: Verdicts,
    /// The sessions of `sticky learn`.
    pub sessions: Sessions,
}

impl Generation {
    /// Allocate the cells for a configuration and its `threads` threads. The sessions of `before`
    /// are kept.
    ///
    /// # Errors
    /// The system has no memory to share.
    pub fn new(
        config: &Config,
        threads: usize,
        before: Option<&Generation>,
    ) -> io::Result<Generation> {
        let layout = Layout::new(config);
        Ok(Generation {
            cells: Arc::new(SharedCells::new(COUNTERS + threads * layout.stride)?),
            layout: Arc::new(layout),
            threads,
            found: Found::new(config)?,
            verdicts: Verdicts::new(config)?,
            sessions: Sessions::new(config, before.map(|before| &before.sessions))?,
        })
    }

    /// The cells of stub_status.
    pub fn counters(&self) -> &'static [AtomicU64; COUNTERS] {
        let cells = SharedCells::leak(self.cells.clone());
        cells.first_chunk().expect("they are always there")
    }

    /// The cells of a thread; none when nothing is counted.
    pub fn meter(&self, thread: usize) -> Option<Meter> {
        let stride = self.layout.stride;
        let cells = SharedCells::leak(self.cells.clone()).get(COUNTERS + thread * stride..)?;
        (stride > 0).then(|| Meter {
            cells: &cells[..stride],
            layout: self.layout.clone(),
        })
    }

    /// What a worker that is gone left open is closed.
    pub fn clear_gauges(&self) {
        let gauges = &self.cells.cells()[3..COUNTERS];
        gauges.iter().for_each(|c| c.store(0, Ordering::Relaxed));
    }
}

/// The cells of one thread, which alone writes to them.
pub struct Meter {
    cells: &'static [AtomicU64],
    layout: Arc<Layout>,
}

impl Meter {
    fn add_at(&self, at: usize, n: u64) {
        // Nothing else writes here: no locked instruction is needed.
        if let Some(cell) = self.cells.get(at) {
            cell.store(cell.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        }
    }

    pub fn add(&self, section: Section, index: usize, field: usize, n: u64) {
        if index < self.layout.names(section).len() {
            self.add_at(self.layout.at(section, index) + field, n);
        }
    }

    /// `field`: an index of [`QUIC`].
    pub fn quic(&self, field: usize, n: u64) {
        self.add(Section::Quic, 0, field, n);
    }

    /// One outcome of a limit's zone, as its variable names it.
    pub fn limited(&self, section: Section, zone: usize, outcome: &str) {
        let outcomes: &[&str] = match section {
            Section::LimitReq => &LIMIT_REQ,
            _ => &LIMIT_CONN,
        };
        if let Some(field) = outcomes.iter().position(|o| *o == outcome) {
            self.add(section, zone, field, 1);
        }
    }

    /// A request of a status zone was answered. `since`: when it began, by [`gallop_runtime::coarse_us`].
    pub fn request(&self, done: Done) {
        // Requests to the server's own pages are not those of any site.
        let Some(index) = done.zone else { return };
        self.add(Section::Protocol, 0, protocol(done.version), 1);
        let at = self.layout.at(Section::Zone, index);
        let lasted = gallop_runtime::now_us().saturating_sub(done.since);
        self.mark(index);
        // Statuses such as 444, which end a connection without an answer, are the log's alone.
        let class = if done.sent == 0 {
            0
        } else {
            class(done.status)
        };
        self.add_at(at + class, 1);
        self.add_at(at + zone::RECEIVED, done.received);
        self.add_at(at + zone::SENT, done.sent);
        self.add_at(at + zone::TIME, lasted);
        self.add_at(at + zone::LATENCIES + histogram::bucket(lasted), 1);
    }

    fn mark(&self, zone: usize) {
        if let Some(cell) = self.cells.get(self.layout.used + zone / 64) {
            let bits = cell.load(Ordering::Relaxed);
            let mine = 1 << (zone % 64);
            if bits & mine == 0 {
                cell.store(bits | mine, Ordering::Relaxed);
            }
        }
    }

    /// Counts a request that went through the phases, with its cache and upstreams.
    pub fn exchange(&self, ex: &Exchange) {
        if !ex.is_subrequest() {
            self.request(Done {
                zone: ex.server.zone,
                version: ex.version(),
                status: ex.response.status,
                received: ex.request_length,
                sent: ex.bytes_sent,
                since: ex.begun,
            });
        }
        if let Some(note) = &ex.cached {
            let field = CACHE.iter().position(|s| *s == note.status);
            if let (Some(zone), Some(field)) = (note.zone, field) {
                self.add(Section::Cache, zone, field, 1);
            }
        }
        for attempt in &ex.attempts {
            let Some(peer) = attempt.meter else { continue };
            let failed = attempt.header_ms.is_none() && attempt.status >= 500;
            let lasted = attempt.times.response_ms.get().unwrap_or(0);
            self.attempt(peer, attempt.status, failed, lasted);
        }
    }

    /// A server of a group was asked. `lasted`: milliseconds.
    pub fn attempt(&self, peer: usize, status: u16, failed: bool, lasted: u64) {
        self.add(Section::Peer, peer, class(status), 1);
        self.add(Section::Peer, peer, peer::FAILS, u64::from(failed));
        self.add(Section::Peer, peer, peer::TIME, lasted);
    }
}

/// A request that was answered.
pub struct Done {
    pub zone: Option<usize>,
    pub version: Version,
    pub status: u16,
    /// Bytes.
    pub received: u64,
    pub sent: u64,
    /// When it began, in microseconds of [`gallop_runtime::coarse_us`].
    pub since: u64,
}

fn class(status: u16) -> usize {
    match status / 100 {
        class @ 1..=5 => usize::from(class),
        _ => 0,
    }
}

fn protocol(version: Version) -> usize {
    match version {
        Version::Http09 => 0,
        Version::Http10 => 1,
        Version::Http11 => 2,
        Version::Http2 => 3,
        Version::Http3 => 4,
    }
}
