//! The state of one thread, and the state that all threads share.

use crate::cache::Caches;
use crate::limits::Zones;
use crate::metrics::{History, Meter, COUNTERS};
use crate::prepared::Prepared;
use crate::resolver::Resolver;
use crate::upstream::balancers::Balancers;
use crate::upstream::keepalive::{Pool, SharedConnector};
use crate::upstream::quick::Desk;
use crate::upstream::verdicts;
use gallop_conf::model::{Config, ErrorLog, Http, Level, Stream};
use gallop_runtime::Notify;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

/// The counters of stub_status, over all threads. They are in the cells of a [`Generation`].
#[derive(Debug)]
pub struct Counters {
    pub accepted: &'static AtomicU64,
    pub handled: &'static AtomicU64,
    pub requests: &'static AtomicU64,
    pub active: &'static AtomicU64,
    pub reading: &'static AtomicU64,
    pub writing: &'static AtomicU64,
    pub waiting: &'static AtomicU64,
}

impl Counters {
    fn new(cells: &'static [AtomicU64; COUNTERS]) -> Counters {
        let [accepted, handled, requests, active, reading, writing, waiting] = cells;
        Counters {
            accepted,
            handled,
            requests,
            active,
            reading,
            writing,
            waiting,
        }
    }
}

/// The state that the threads of a worker process share.
pub struct Shared {
    pub config: Arc<Config>,
    pub zones: Zones,
    pub balancers: Balancers,
    /// The same for `stream`, which has zones and groups of its own.
    pub stream_zones: Zones,
    pub stream_balancers: Balancers,
    /// Whether a thread carries out the health checks.
    pub(crate) is_checking: AtomicBool,
    pub caches: Caches,
    pub counters: Counters,
    pub history: History,
    pub next_connection: AtomicU64,
    pub next_temp: AtomicU64,
    /// Set when the process should end after its requests.
    pub quitting: AtomicBool,
    pub error_log: Vec<ErrorLog>,
}

impl Shared {
    pub fn new(config: Arc<Config>, error_log: Vec<ErrorLog>, history: History) -> Shared {
        let http = config.http.as_ref();
        let (mut zones, mut groups) = (Zones::default(), &[][..]);
        if let Some(http) = http {
            zones = Zones::new(&http.limit_req_zones, &http.limit_conn_zones);
            groups = &http.upstreams;
        }
        let (mut stream_zones, mut stream_groups) = (Zones::default(), &[][..]);
        if let Some(stream) = &config.stream {
            stream_zones = Zones::new(&[], &stream.limit_conn_zones);
            stream_groups = &stream.upstreams;
        }
        let balancers = Balancers::new(groups, |name| history.found(name));
        let stream_balancers = Balancers::new(stream_groups, |name| history.found(name));
        for all in [&balancers, &stream_balancers] {
            let known = |key| history.verdicts(key);
            verdicts::recall(all, &history.current.verdicts, known);
        }
        Shared {
            zones,
            balancers,
            stream_zones,
            stream_balancers,
            is_checking: AtomicBool::new(false),
            caches: Caches::new(http),
            counters: Counters::new(history.current.counters()),
            history,
            next_connection: AtomicU64::new(1),
            next_temp: AtomicU64::new(0),
            quitting: AtomicBool::new(false),
            config,
            error_log,
        }
    }
}

/// The state of a thread.
pub struct Worker {
    pub shared: Arc<Shared>,
    /// Counts requests, if a directive shows counters.
    pub meter: Option<Meter>,
    pub prepared: RefCell<Prepared>,
    pub pool: Pool,
    pub desk: Desk,
    pub(crate) resolver: Resolver,
    /// Creates TLS connections to upstreams.
    pub connector: SharedConnector,
    /// Set when idle connections should close, and busy ones after their response.
    pub shutdown: Notify,
    pub connections: Cell<usize>,
    /// The sessions of UDP among the connections.
    pub udp_sessions: Cell<usize>,
    /// The descriptors of the clients' connections.
    pub sockets: RefCell<HashSet<RawFd>>,
    date: RefCell<(u64, Vec<u8>)>,
}

impl Worker {
    /// The state of thread number `index`.
    pub fn new(shared: Arc<Shared>, index: usize) -> Worker {
        Worker {
            meter: shared.history.current.meter(index),
            prepared: RefCell::new(Prepared::new(&shared.config.main)),
            shared,
            pool: Pool::default(),
            desk: Desk::default(),
            resolver: Resolver::default(),
            connector: RefCell::default(),
            shutdown: Notify::default(),
            connections: Cell::new(0),
            udp_sessions: Cell::new(0),
            sockets: RefCell::default(),
            date: RefCell::new((u64::MAX, Vec::new())),
        }
    }

    pub fn http(&self) -> &Http {
        self.shared
            .config
            .http
            .as_ref()
            .expect("requests only come where http is configured")
    }

    pub fn stream(&self) -> &Stream {
        self.shared
            .config
            .stream
            .as_ref()
            .expect("sessions only come where stream is configured")
    }

    /// The most simultaneous connections (`worker_connections`).
    pub fn connection_limit(&self) -> usize {
        self.shared.config.main.worker_connections.unwrap_or(512) as usize
    }

    /// The `Date` of this second.
    pub fn with_date<T>(&self, f: impl FnOnce(&[u8]) -> T) -> T {
        let now = gallop_runtime::unix_time() / 1000;
        let mut date = self.date.borrow_mut();
        if date.0 != now {
            *date = (now, crate::time::http_date(now as i64).into_bytes());
        }
        f(&date.1)
    }

    /// Write a message without a request to the log.
    pub fn log(&self, level: Level, message: &str) {
        crate::log::error_to(&self.shared.error_log, level, message);
    }
}

/// The host's name.
pub fn hostname() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        text.trim().to_ascii_lowercase()
    })
}
