//! Settings of the process.

use super::{Http, Listener, Stream};
use crate::cidr::Cidr;
use crate::parser::SourceFile;
use crate::vars::VarTable;
use std::path::PathBuf;
use std::sync::Arc;

/// A complete and checked configuration.
#[derive(Debug)]
pub struct Config {
    pub main: Main,
    pub http: Option<Http>,
    pub stream: Option<Stream>,
    pub vars: VarTable,
    pub files: Vec<SourceFile>,
    /// `-p`: the base of relative paths for logs, the pid file, and document roots.
    pub prefix: PathBuf,
    /// The configuration file's folder: the base of relative paths for includes, certificates, and
    /// passwords.
    pub conf_prefix: PathBuf,
    /// Warnings that do not stop the server, like nginx's `[warn]`.
    pub warnings: Vec<String>,
    /// Notes for the error log, like nginx's `[notice]`.
    pub notices: Vec<String>,
}

impl Config {
    /// The listeners of all blocks.
    pub fn listeners(&self) -> impl Iterator<Item = &Listener> {
        let of_http = self.http.iter().flat_map(|http| &http.listeners);
        let of_stream = self.stream.iter().flat_map(|stream| &stream.listeners);
        of_http.chain(of_stream)
    }

    /// The server blocks of `http` and `stream`.
    pub fn servers(&self) -> impl Iterator<Item = &std::sync::Arc<super::Server>> {
        let of_http = self.http.iter().flat_map(|http| &http.servers);
        let of_stream = self.stream.iter().flat_map(|stream| &stream.servers);
        of_http.chain(of_stream)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Emerg = 1,
    Alert,
    Crit,
    Error,
    Warn,
    Notice,
    Info,
    Debug,
}

impl Level {
    const NAMES: [&'static str; 8] = [
        "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
    ];
    const ALL: [Level; 8] = [
        Level::Emerg,
        Level::Alert,
        Level::Crit,
        Level::Error,
        Level::Warn,
        Level::Notice,
        Level::Info,
        Level::Debug,
    ];

    pub fn parse(name: &str) -> Option<Level> {
        Self::NAMES
            .iter()
            .position(|n| *n == name)
            .map(|i| Self::ALL[i])
    }

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize - 1]
    }
}

/// `syslog:server=...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syslog {
    /// `unix:/path`, or host and port.
    pub server: String,
    pub facility: u8,
    pub severity: u8,
    pub tag: String,
    pub nohostname: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    File(PathBuf),
    Stderr,
    Syslog(Arc<Syslog>),
    /// Kept in memory for debuggers only.
    Memory,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLog {
    pub target: LogTarget,
    pub level: Level,
}

#[derive(Clone, Debug, Default)]
pub struct Main {
    pub user: Option<(String, Option<String>)>,
    /// The number of threads of the worker process; `auto` is the inner `None`.
    pub worker_processes: Option<Workers>,
    pub worker_connections: Option<u64>,
    pub pid: Option<PathBuf>,
    pub error_log: Option<Arc<Vec<ErrorLog>>>,
    pub daemon: Option<bool>,
    pub master_process: Option<bool>,
    pub worker_rlimit_nofile: Option<u64>,
    pub worker_rlimit_core: Option<u64>,
    pub worker_priority: Option<i32>,
    /// Milliseconds.
    pub worker_shutdown_timeout: Option<u64>,
    pub working_directory: Option<PathBuf>,
    pub multi_accept: Option<bool>,
    pub ssl_object_cache_inheritable: Option<bool>,
    /// Clients whose requests are logged at debug level.
    pub debug_connection: Vec<Cidr>,
    pub debug_points: Option<&'static str>,
    pub env: Vec<String>,
    /// The most bytes of a worker's prepared responses; 0 disables them.
    pub prepared_responses_size: Option<u64>,
    /// Milliseconds for which a prepared response is sent without checking its files.
    pub prepared_responses_valid: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    Auto,
    Count(u64),
}
