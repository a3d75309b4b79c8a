//! Log files, the error log, and the access log.

use crate::escape::{OneLine, Shown};
use crate::exchange::Exchange;
use crate::files::{self, FilePath};
use crate::scope::Scope;
use crate::worker::Worker;
use crate::{escape, log_cache, template, time};
use gallop_conf::model::{
    items, AccessLog, AccessTarget, ErrorLog, Escape, Level, Location, LogFormat, LogTarget, Syslog,
};
use gallop_conf::template::{Part, Template};
use gallop_conf::vars::{Builtin, Prefix, VarKind};
use hashbrown::HashMap;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

/// A log file that can be reopened under its name.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: RwLock<File>,
}

pub(crate) fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(crate::creating::FILE_MODE)
        .open(path)
}

impl LogFile {
    /// Write to the file. A failed write (disk full) cannot be reported anywhere.
    pub fn write(&self, text: &[u8]) {
        let file = self.file.read().unwrap_or_else(|e| e.into_inner());
        let _ = (&*file).write_all(text);
    }
}

type Files = Mutex<HashMap<PathBuf, Arc<LogFile>>>;

fn files() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    FILES.get_or_init(Files::default)
}

/// Open a log file, or return it if it is already open.
pub fn open(path: &Path) -> io::Result<Arc<LogFile>> {
    let mut files = files().lock().unwrap_or_else(|e| e.into_inner());
    if let Some(file) = files.get(path) {
        return Ok(file.clone());
    }
    let file = Arc::new(LogFile {
        path: path.into(),
        file: RwLock::new(open_append(path)?),
    });
    files.insert(path.into(), file.clone());
    Ok(file)
}

/// Reopen every log file (USR1). Files that cannot be reopened stay as they are; returns their
/// paths.
pub fn reopen_all() -> Vec<(PathBuf, io::Error)> {
    let files = files().lock().unwrap_or_else(|e| e.into_inner());
    let mut failed = Vec::new();
    for file in files.values() {
        match open_append(&file.path) {
            Ok(new) => *file.file.write().unwrap_or_else(|e| e.into_inner()) = new,
            Err(e) => failed.push((file.path.clone(), e)),
        }
    }
    failed
}

/// The paths of all open log files.
pub fn open_paths() -> Vec<PathBuf> {
    files()
        .lock()
        .unwrap_or_else(|e| e.into_inner())
        .keys()
        .cloned()
        .collect()
}

/// Write a line to the error logs whose level includes it.
pub fn error_to(logs: &[ErrorLog], level: Level, message: &str) {
    write_error(logs.iter().filter(|l| level <= l.level), level, message);
}

/// Write a line to the error logs regardless of their level.
pub fn error_to_all(logs: &[ErrorLog], level: Level, message: &str) {
    write_error(logs.iter(), level, message);
}

fn write_error<'a>(logs: impl Iterator<Item = &'a ErrorLog>, level: Level, message: &str) {
    let mut line: Option<String> = None;
    for log in logs {
        let line = line.get_or_insert_with(|| error_line(level, message));
        match &log.target {
            LogTarget::File(path) => {
                if let Ok(file) = open(path) {
                    file.write(line.as_bytes());
                }
            }
            LogTarget::Stderr => {
                let _ = io::stderr().write_all(line.as_bytes());
            }
            LogTarget::Syslog(conf) => {
                send_syslog(conf, level as u8 - 1, line.trim_end().as_bytes());
            }
            LogTarget::Memory => {}
        }
    }
}

fn error_line(level: Level, message: &str) -> String {
    let now = time_now();
    let (pid, tid) = ids();
    let date = time::error_date(now, time::zone_offset(now));
    let message = OneLine(message);
    format!("{date} [{}] {pid}#{tid}: {message}\n", level.name())
}

fn time_now() -> i64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs() as i64)
}

/// The ids of the process and thread for log lines.
fn ids() -> (u32, i64) {
    // SAFETY: gettid takes no arguments and cannot fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    (std::process::id(), tid)
}

enum SyslogSocket {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

thread_local! {
    static SYSLOG: RefCell<HashMap<String, SyslogSocket>> = RefCell::default();
    static BUFFERS: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Send a message (RFC 3164). A daemon that does not run loses it; the request is not affected.
pub fn send_syslog(conf: &Syslog, severity: u8, text: &[u8]) {
    let now = time_now();
    let c = time::civil(now + time::zone_offset(now));
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut line = format!(
        "<{}>{} {:2} {:02}:{:02}:{:02} ",
        u32::from(conf.facility) * 8 + u32::from(severity),
        MONTHS[c.month],
        c.day,
        c.hour,
        c.minute,
        c.second
    )
    .into_bytes();
    if !conf.nohostname {
        line.extend_from_slice(crate::worker::hostname().as_bytes());
        line.push(b' ');
    }
    line.extend_from_slice(conf.tag.as_bytes());
    line.extend_from_slice(b": ");
    line.extend_from_slice(text);
    SYSLOG.with(|sockets| {
        let mut sockets = sockets.borrow_mut();
        if !sockets.contains_key(&conf.server) {
            let Some(socket) = syslog_socket(&conf.server) else {
                return;
            };
            sockets.insert(conf.server.clone(), socket);
        }
        let sent = match &sockets[&conf.server] {
            SyslogSocket::Udp(s) => s.send(&line),
            SyslogSocket::Unix(s) => s.send(&line),
        };
        if sent.is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock) {
            sockets.remove(&conf.server);
        }
    });
}

fn syslog_socket(server: &str) -> Option<SyslogSocket> {
    if let Some(path) = server.strip_prefix("unix:") {
        let socket = UnixDatagram::unbound().ok()?;
        socket.connect(path).ok()?;
        socket.set_nonblocking(true).ok()?;
        return Some(SyslogSocket::Unix(socket));
    }
    let has_port = server
        .rsplit_once(':')
        .is_some_and(|(h, p)| !h.ends_with(':') && !p.contains(']'));
    let target = if has_port {
        server.to_string()
    } else {
        format!("{server}:514")
    };
    let any = if target.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(SyslogSocket::Udp(socket))
}

/// The buffered lines for a file on this thread.
struct Buffer {
    file: Arc<LogFile>,
    text: Vec<u8>,
    /// Bytes to buffer before writing; without `buffer=`, the lines of one event loop round are
    /// buffered.
    limit: Option<usize>,
    /// The latest time to write the text, in milliseconds (monotonic clock).
    due: Option<u64>,
    gzip: Option<u32>,
}

impl Buffer {
    fn flush(&mut self) {
        if self.text.is_empty() {
            return;
        }
        match self.gzip {
            None => self.file.write(&self.text),
            Some(level) => {
                let level = flate2::Compression::new(level);
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                // Writing to memory cannot fail.
                let _ = encoder.write_all(&self.text);
                self.file.write(&encoder.finish().unwrap_or_default());
            }
        }
        self.text.clear();
        self.due = None;
    }
}

/// Write the lines of this event loop round, and buffers whose time has come.
pub fn flush_turn() {
    BUFFERS.with(|buffers| {
        for b in buffers
            .borrow_mut()
            .iter_mut()
            .filter(|b| !b.text.is_empty())
        {
            let due = b.due.is_some_and(|d| d <= gallop_runtime::coarse_ms());
            if b.limit.is_none() || due {
                b.flush();
            }
        }
    });
}

/// Write all buffered lines of this thread.
pub fn flush_all() {
    BUFFERS.with(|buffers| buffers.borrow_mut().iter_mut().for_each(Buffer::flush));
}

/// Write the access log lines of a completed request.
pub fn access(ex: &Exchange) {
    let loc = ex.loc.clone();
    let Some(logs) = &loc.conf.access_log else {
        return;
    };
    if ex.is_subrequest() && !loc.conf.log_subrequest.unwrap_or(false) {
        return;
    }
    write_lines(ex, logs, &ex.worker.http().log_formats);
}

/// Write a line to each log whose condition holds.
pub fn write_lines<S: Scope + ?Sized>(scope: &S, logs: &[AccessLog], formats: &[LogFormat]) {
    for log in logs {
        if let Some(condition) = &log.condition {
            let value = template::eval(scope, condition);
            if value.is_empty() || value == b"0" {
                continue;
            }
        }
        let format = &formats[log.format];
        LINE.with(|line| {
            let mut line = line.borrow_mut();
            line.clear();
            template::eval_with(scope, &format.template, &mut line, |v, out| {
                match format.escape {
                    Escape::Default => match v {
                        Some(v) => escape::log(v, out),
                        None => out.push(b'-'),
                    },
                    Escape::Json => escape::json(v.unwrap_or(b""), out),
                    Escape::None => out.extend_from_slice(v.unwrap_or(b"")),
                }
            });
            write_line(scope, log, &mut line);
        });
    }
}

/// Whether log lines of a location contain values that a request with a prepared response lacks:
/// response fields, captures, or variables set on the way.
pub fn tells_of_answer(worker: &Worker, location: &Location) -> bool {
    let formats = &worker.http().log_formats;
    let told = |t: &Template| is_of_answer(worker, t, 8);
    items(&location.conf.access_log).iter().any(|log| {
        let name = match &log.target {
            AccessTarget::Fixed(_) => None,
            AccessTarget::Variable(name) => Some(name),
        };
        let format = &formats[log.format].template;
        told(format) || log.condition.as_ref().is_some_and(told) || name.is_some_and(told)
    })
}

/// `depth`: the nesting of maps that refer to maps.
fn is_of_answer(worker: &Worker, template: &Template, depth: u8) -> bool {
    use Builtin as B;
    let source = |t: &Template| depth == 0 || is_of_answer(worker, t, depth - 1);
    template.parts.iter().any(|part| match part {
        Part::Lit(_) => false,
        Part::Capture(_) => true,
        Part::Var(id) => match &worker.shared.config.vars.get(*id).kind {
            VarKind::Undefined => false,
            VarKind::Assigned => true,
            VarKind::Builtin(b) => matches!(
                b,
                B::SentHttpCacheControl
                    | B::SentHttpConnection
                    | B::SentHttpContentType
                    | B::SentHttpKeepAlive
                    | B::SentHttpLastModified
                    | B::SentHttpLink
                    | B::SentHttpLocation
                    | B::SentHttpTransferEncoding
            ),
            VarKind::Prefixed(prefix, _) => {
                matches!(prefix, Prefix::SentHttp | Prefix::SentTrailer)
            }
            VarKind::Map(map) => map.computed || source(&map.source),
            VarKind::Geo(geo) => geo.source.as_ref().is_some_and(source),
            VarKind::Geoip2(lookup) => lookup.source.as_ref().is_some_and(source),
            VarKind::SplitClients(split) => {
                source(&split.source) || split.parts.iter().any(|(_, t)| source(t))
            }
        },
    })
}

fn write_line<S: Scope + ?Sized>(scope: &S, log: &AccessLog, line: &mut Vec<u8>) {
    let path = match &log.target {
        AccessTarget::Variable(t) => return write_named(scope, t, line),
        AccessTarget::Fixed(LogTarget::Syslog(conf)) => {
            return send_syslog(conf, conf.severity, line)
        }
        AccessTarget::Fixed(LogTarget::Stderr) => {
            line.push(b'\n');
            // A failed write cannot be reported anywhere.
            let _ = io::stderr().write_all(line);
            return;
        }
        AccessTarget::Fixed(LogTarget::File(path)) => path.clone(),
        AccessTarget::Fixed(_) => return,
    };
    line.push(b'\n');
    BUFFERS.with(|buffers| {
        let mut buffers = buffers.borrow_mut();
        let limit = log.buffer.map(|b| b as usize);
        let i = buffers
            .iter()
            .position(|b| b.file.path == path && b.limit == limit);
        let i = match i {
            Some(i) => i,
            None => match open(&path) {
                Ok(file) => {
                    buffers.push(Buffer {
                        file,
                        text: Vec::new(),
                        limit,
                        due: None,
                        gzip: log.gzip,
                    });
                    buffers.len() - 1
                }
                Err(_) => return,
            },
        };
        let b = &mut buffers[i];
        if b.limit
            .is_some_and(|limit| b.text.len() + line.len() > limit)
        {
            b.flush();
        }
        b.text.extend_from_slice(line);
        if let (None, Some(ms)) = (b.due, log.flush) {
            b.due = Some(gallop_runtime::coarse_ms() + ms);
        }
        // Limit the buffer in a round with very many log lines.
        if b.text.len() > b.limit.unwrap_or(256 * 1024) {
            b.flush();
        }
    });
}

/// Write to a log whose name contains variables.
fn write_named<S: Scope + ?Sized>(scope: &S, name: &Template, line: &mut Vec<u8>) {
    // The error log reports a rejected path.
    let Ok(path) = FilePath::of_template(scope, None, name) else {
        return;
    };
    if path.is_empty() {
        return;
    }
    line.push(b'\n');
    match open_named(scope, &path) {
        // A failed write cannot be reported anywhere.
        Ok(file) => _ = (&*file).write_all(line),
        Err(e) => scope.log(Level::Crit, &open_failed(&path, &e)),
    }
}

/// Open a log whose name contains variables, each time unless `open_log_file_cache` is on.
fn open_named<S: Scope + ?Sized>(scope: &S, path: &Path) -> io::Result<Arc<File>> {
    let conf = scope.settings();
    let open = |path: &Path| files::append(conf, path);
    match &conf.open_log_file_cache {
        Some(Some(cache)) => {
            let rules = log_cache::Rules {
                cache: cache.clone(),
                folders: conf.confine_files.clone(),
            };
            log_cache::open(&rules, path, gallop_runtime::coarse_ms(), open)
        }
        _ => open(path).map(Arc::new),
    }
}

/// nginx's message for a file that cannot be opened.
pub fn open_failed(path: &Path, e: &io::Error) -> String {
    format!(
        "open() \"{}\" failed ({})",
        Shown(path.as_os_str().as_encoded_bytes()),
        gallop_conf::parser::os_error(e)
    )
}
