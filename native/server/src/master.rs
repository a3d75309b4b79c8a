//! The master process: reads the configuration, binds the sockets, starts worker processes, and
//! handles signals.

use crate::cli::{Options, Signal, HELP, PID};
use crate::handover;
use crate::listen::{self, Bound};
use crate::preparing::{check_user, make_temp_folders, open_logs, unmade_folders, user};
use crate::process::{self, Fork, Ids, Pid};
use crate::statistics::Statistics;
use crate::{version, worker};
use gallop_conf::model::{Config, ErrorLog, Level, LogTarget, Workers};
use gallop_conf::parser::SourceFile;
use gallop_conf::Seen;
use gallop_engine::metrics::Generation;
use gallop_engine::{log, panics};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Carry out the command line.
pub fn run(options: Options) -> ExitCode {
    if options.version || options.long_version {
        eprintln!(
            "{}",
            if options.long_version {
                version::long()
            } else {
                version::short()
            }
        );
        if options.help {
            eprint!("{HELP}");
        }
        return ExitCode::SUCCESS;
    }
    let report = Reporter::new(&options);
    let mut seen = Seen::default();
    let loaded = load(&options, &mut seen);
    let config = match loaded {
        Ok(config) => config,
        Err(message) => {
            if !options.quiet {
                seen.warnings.iter().for_each(|w| report.line("warn", w));
            }
            report.emerg(&message);
            if options.test {
                eprintln!(
                    "gallop: configuration file {} test failed",
                    options.conf().display()
                );
            }
            return ExitCode::FAILURE;
        }
    };
    if !options.quiet {
        config.warnings.iter().for_each(|w| report.line("warn", w));
    }
    if options.test {
        if !options.quiet {
            let notices = config.notices.iter();
            notices.for_each(|n| report.line("notice", n));
        }
        return test(&options, config, &seen.files, &report);
    }
    if let Some(signal) = options.signal {
        return send_signal(&config, signal, &report);
    }
    match Master::start(options, config, &report) {
        Ok(master) => master.serve(),
        Err(message) => {
            report.emerg(&message);
            ExitCode::FAILURE
        }
    }
}

/// Reports errors to standard error and to the log of `-e` until the configured log is open.
struct Reporter {
    log: Vec<ErrorLog>,
}

impl Reporter {
    fn new(options: &Options) -> Reporter {
        Reporter {
            log: fallback_log(options),
        }
    }

    fn line(&self, level: &str, message: &str) {
        eprintln!("gallop: [{level}] {message}");
    }

    fn emerg(&self, message: &str) {
        self.fail(Level::Emerg, message);
    }

    fn fail(&self, level: Level, message: &str) {
        self.line(level.name(), message);
        log::error_to(&self.log, level, message);
    }
}

fn fallback_log(options: &Options) -> Vec<ErrorLog> {
    let target = options
        .error_log()
        .map_or(LogTarget::Stderr, LogTarget::File);
    vec![ErrorLog {
        target,
        level: Level::Error,
    }]
}

/// Load the configuration. With `-t`, also collect warnings.
fn load(options: &Options, seen: &mut Seen) -> Result<Config, String> {
    let (prefix, conf) = (options.prefix(), options.conf());
    let globals = options.globals.trim();
    if !options.test || options.quiet {
        return gallop_conf::load(&prefix, &conf, globals, seen).map_err(|e| e.to_string());
    }
    let (mut config, remarks) =
        gallop_conf::load_with_remarks(&prefix, &conf, globals, seen).map_err(|e| e.to_string())?;
    config.warnings.extend(remarks);
    Ok(config)
}

fn dump(files: &[SourceFile]) {
    let mut out = std::io::stdout().lock();
    for file in files {
        // A closed standard output does not change the result of the test.
        let _ = writeln!(out, "# configuration file {}:", file.path.display());
        let _ = out.write_all(&file.text);
        let _ = writeln!(out);
    }
}

fn pid_path(config: &Config) -> PathBuf {
    config
        .main
        .pid
        .clone()
        .unwrap_or_else(|| PathBuf::from(PID))
}

/// The pid file's path while another binary's master uses the usual file.
fn old_pid_path(config: &Config) -> PathBuf {
    let mut path = pid_path(config).into_os_string();
    path.push(".oldbin");
    path.into()
}

fn send_signal(config: &Config, signal: Signal, report: &Reporter) -> ExitCode {
    let path = pid_path(config);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) => {
            report.fail(Level::Error, &log::open_failed(&path, &e));
            return ExitCode::FAILURE;
        }
    };
    let Some(pid) = text.trim().parse::<Pid>().ok().filter(|p| *p > 0) else {
        let text = text.trim();
        let message = format!("invalid PID number \"{text}\" in \"{}\"", path.display());
        report.fail(Level::Error, &message);
        return ExitCode::FAILURE;
    };
    let number = match signal {
        Signal::Stop => libc::SIGTERM,
        Signal::Quit => libc::SIGQUIT,
        Signal::Reload => libc::SIGHUP,
        Signal::Reopen => libc::SIGUSR1,
    };
    match process::kill(pid, number) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let words = gallop_conf::parser::os_error(&e);
            let message = format!("kill({pid}, {number}) failed ({words})");
            report.fail(Level::Alert, &message);
            ExitCode::FAILURE
        }
    }
}

/// Check the files and addresses that a start would open, without taking over anything.
fn test(options: &Options, config: Config, files: &[SourceFile], report: &Reporter) -> ExitCode {
    let conf = options.conf();
    if !options.quiet {
        eprintln!(
            "gallop: the configuration file {} syntax is ok",
            conf.display()
        );
    }
    let tested = check_pid_file(&config)
        .and_then(|()| open_logs(options, &config))
        .and_then(|()| worker::check(&config))
        .and_then(|warnings| {
            if !options.quiet {
                let told = warnings.into_iter().chain(unmade_folders(&config));
                told.for_each(|w| report.line("warn", &w));
            }
            check_user(&config)
        });
    // The process ends here: freeing a large configuration would take a quarter of its time.
    std::mem::forget(config);
    match tested {
        Ok(()) => {
            if !options.quiet {
                eprintln!(
                    "gallop: configuration file {} test is successful",
                    conf.display()
                );
            }
            if options.dump {
                dump(files);
            }
            ExitCode::SUCCESS
        }
        Err(message) => {
            report.emerg(&message);
            eprintln!("gallop: configuration file {} test failed", conf.display());
            ExitCode::FAILURE
        }
    }
}

/// Check that the pid file can be written. Unlike nginx, the test creates no file.
fn check_pid_file(config: &Config) -> Result<(), String> {
    let path = pid_path(config);
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path);
    let found = match opened {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            process::may_write_in(path.parent().unwrap_or(&path))
        }
        opened => opened.map(drop),
    };
    found.map_err(|e| log::open_failed(&path, &e))
}

/// The error logs of the process.
fn error_logs(options: &Options, config: &Config) -> Vec<ErrorLog> {
    match &config.main.error_log {
        Some(logs) => logs.to_vec(),
        None => fallback_log(options),
    }
}

/// A running worker process.
struct Child {
    pid: Pid,
    /// Whether it serves the current configuration.
    current: bool,
    /// Its counters.
    counts: Arc<Generation>,
    started: Instant,
}

/// The shortest time between two starts of worker processes. A worker that ran longer is replaced
/// at once.
const RESTART: Duration = Duration::from_millis(crate::crew::RESTART_MS);

/// The message for USR2 while two masters run.
const ONE_AT_A_TIME: &str =
    "the changing binary signal is ignored: you should shutdown or terminate before \
    either old or new binary's process";

struct Master {
    options: Options,
    config: Arc<Config>,
    bound: Vec<Bound>,
    children: Vec<Child>,
    logs: Vec<ErrorLog>,
    ids: Option<Ids>,
    statistics: Statistics,
    /// Whether the process has no terminal. Only then does WINCH end the workers (with a terminal
    /// it reports a new window size).
    daemonized: bool,
    /// Whether the workers were told to end while the master continues.
    rests: bool,
    /// The time to start a worker process that replaces a failed one.
    restart_at: Option<Instant>,
    /// The new binary's master with the same sockets, from USR2 until it ends.
    successor: Option<Pid>,
    /// The old binary's master, which this one replaces, until it ends.
    predecessor: Option<Pid>,
}

impl Master {
    fn start(options: Options, config: Config, report: &Reporter) -> Result<Master, String> {
        open_logs(&options, &config)?;
        let warnings = worker::check(&config)?;
        let ids = user(&config)?;
        let logs = error_logs(&options, &config);
        panics::log_to(&logs);
        let mut problems = Vec::new();
        let inherited = handover::taken(&mut problems);
        for problem in &problems {
            report.line("alert", problem);
            log::error_to(&logs, Level::Alert, problem);
        }
        // All workers, including later ones, inherit the secret from here.
        crate::quic::secret();
        for warning in &warnings {
            report.line("warn", warning);
            log::error_to(&logs, Level::Warn, warning);
        }
        for notice in &config.notices {
            log::error_to(&logs, Level::Notice, notice);
        }
        let predecessor = inherited.as_ref().map(|inherited| inherited.from);
        let before = inherited.map_or(Vec::new(), |inherited| inherited.bound);
        let bound = bind(&config, &before)?;
        // Close the listeners that are no longer configured.
        drop(before);
        make_temp_folders(&config, ids.as_ref(), &logs);
        let daemonized = config.main.daemon.unwrap_or(true);
        if daemonized && predecessor.is_none() {
            daemonize()?;
        }
        process::block_signals();
        if let Some(n) = config.main.worker_rlimit_nofile {
            // As in nginx, a system that refuses a higher limit keeps the old one.
            if let Err(e) = process::limit_files(n) {
                let message = format!("setrlimit(RLIMIT_NOFILE, {n}) failed ({e})");
                log::error_to(&logs, Level::Alert, &message);
            }
        }
        let mut master = Master {
            statistics: Statistics::new(&config)?,
            options,
            config: Arc::new(config),
            bound,
            children: Vec::new(),
            logs,
            ids,
            daemonized: daemonized || predecessor.is_some(),
            rests: false,
            restart_at: None,
            successor: None,
            predecessor,
        };
        master.write_pid()?;
        if let Some(predecessor) = predecessor {
            process::when_parent_dies(predecessor, libc::SIGALRM);
            listen::steer(&master.bound)?;
        }
        master.spawn()?;
        Ok(master)
    }

    fn log(&self, level: Level, message: &str) {
        log::error_to(&self.logs, level, message);
    }

    fn write_pid(&self) -> Result<(), String> {
        let path = pid_path(&self.config);
        let text = format!("{}\n", std::process::id());
        // An account that could write the file could make the next `-s stop` signal any process.
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(gallop_engine::creating::FILE_MODE)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|e| log::open_failed(&path, &e))
    }

    fn spawn(&mut self) -> Result<(), String> {
        self.restart_at = None;
        let master = process::own();
        match process::fork() {
            Err(e) => {
                self.restart_at = Some(Instant::now() + RESTART);
                Err(format!(
                    "fork() failed while spawning \"worker process\" ({e})"
                ))
            }
            Ok(Fork::Parent(pid)) => {
                let counts = self.statistics.current().clone();
                self.children.push(Child {
                    pid,
                    current: true,
                    counts,
                    started: Instant::now(),
                });
                self.log(Level::Notice, &format!("start worker process {pid}"));
                Ok(())
            }
            Ok(Fork::Child) => {
                listen::keep_own(&mut self.bound);
                let code = worker::run(
                    self.config.clone(),
                    &self.bound,
                    master,
                    self.ids.as_ref(),
                    &self.logs,
                    self.statistics.history(),
                );
                std::process::exit(code);
            }
        }
    }

    /// Wait for signals until the last worker has ended.
    fn serve(mut self) -> ExitCode {
        let mut ending = false;
        loop {
            self.part_from_predecessor();
            self.reap(ending);
            if ending && self.children.is_empty() {
                return self.end();
            }
            if ending {
                self.restart_at = None;
            }
            match process::wait_signal(self.restart_if_due()) {
                Some(libc::SIGTERM | libc::SIGINT) => {
                    ending = true;
                    self.signal_all(libc::SIGTERM);
                }
                Some(libc::SIGQUIT) => {
                    ending = true;
                    self.signal_all(libc::SIGQUIT);
                }
                Some(libc::SIGHUP) if !ending && self.successor.is_some() => self.work_again(),
                Some(libc::SIGHUP) if !ending => self.reload(),
                Some(libc::SIGUSR1) => self.reopen(),
                Some(libc::SIGWINCH) if self.daemonized && !ending => self.rest(),
                Some(libc::SIGUSR2) if !ending => self.upgrade(),
                _ => {}
            }
        }
    }

    /// Start a worker process if its time has come; otherwise the milliseconds until then.
    fn restart_if_due(&mut self) -> Option<u64> {
        let left = self.restart_at?.saturating_duration_since(Instant::now());
        if left.is_zero() {
            if let Err(message) = self.spawn() {
                self.log(Level::Alert, &message);
            }
            return self.restart_at.map(|_| RESTART.as_millis() as u64);
        }
        Some(left.as_millis() as u64 + 1)
    }

    fn signal_all(&self, signal: i32) {
        for child in &self.children {
            // A child that has already ended is reaped with the next signal.
            let _ = process::kill(child.pid, signal);
        }
    }

    fn reap(&mut self, ending: bool) {
        while let Some(ended) = process::reap() {
            if self.successor == Some(ended.pid) {
                self.log_end("new binary", &ended);
                self.successor_ended(ending);
                continue;
            }
            let Some(i) = self.children.iter().position(|c| c.pid == ended.pid) else {
                continue;
            };
            let child = self.children.remove(i);
            let shares = |c: &Child| Arc::ptr_eq(&c.counts, &child.counts);
            if !self.children.iter().any(shares) {
                self.statistics.ended(&child.counts);
            }
            self.log_end("worker", &ended);
            let failed_start = ended.code == Some(worker::FATAL);
            if failed_start {
                let message = "worker process cannot be started and is not started again";
                self.log(Level::Alert, message);
            } else if child.current && !ending {
                self.restart_at = Some(child.started + RESTART);
            }
        }
        // Sockets that another master also has keep their place in the kernel's list.
        let alone = self.successor.is_none() && self.predecessor.is_none();
        let all_current = self.children.iter().all(|c| c.current);
        if alone && all_current && listen::release_old(&mut self.bound) {
            self.steer();
        }
    }

    fn steer(&self) {
        if let Err(message) = listen::steer(&self.bound) {
            self.log(Level::Alert, &message);
        }
    }

    fn log_end(&self, what: &str, ended: &process::Ended) {
        let (level, how) = match (ended.signal, ended.code) {
            (Some(signal), _) => (Level::Alert, format!("on signal {signal}")),
            (None, Some(code @ 1..)) => (Level::Alert, format!("with code {code}")),
            (None, code) => (Level::Notice, format!("with code {}", code.unwrap_or(0))),
        };
        self.log(level, &format!("{what} process {} exited {how}", ended.pid));
    }

    fn reload(&mut self) {
        self.log(Level::Notice, "reconfiguring");
        match self.try_reload() {
            Ok(()) => {}
            Err(message) => self.log(Level::Emerg, &message),
        }
    }

    /// Reload. The old workers continue until the new one runs; a rejected configuration changes
    /// nothing.
    fn try_reload(&mut self) -> Result<(), String> {
        let mut config = load(&self.options, &mut Seen::default())?;
        open_logs(&self.options, &config)?;
        config.warnings.extend(worker::check(&config)?);
        let ids = user(&config)?;
        let bound = bind(&config, &self.bound)?;
        let stale = listen::stale_unix(&self.bound, &bound);
        let old_pid = pid_path(&self.config);
        self.logs = error_logs(&self.options, &config);
        panics::log_to(&self.logs);
        make_temp_folders(&config, ids.as_ref(), &self.logs);
        for warning in &config.warnings {
            self.log(Level::Warn, warning);
        }
        for notice in &config.notices {
            self.log(Level::Notice, notice);
        }
        self.statistics.reload(&config)?;
        self.config = Arc::new(config);
        self.bound = bound;
        self.ids = ids;
        self.children.iter_mut().for_each(|c| c.current = false);
        listen::steer(&self.bound)?;
        self.rests = false;
        self.spawn()?;
        if pid_path(&self.config) != old_pid {
            self.write_pid()?;
            remove(&old_pid);
        }
        stale.iter().for_each(|p| remove(p));
        for child in self.children.iter().filter(|c| !c.current) {
            let _ = process::kill(child.pid, libc::SIGQUIT);
        }
        Ok(())
    }

    /// Start the binary that is now at this binary's path. Both serve until one is told to end.
    fn upgrade(&mut self) {
        if self.successor.is_some() || self.predecessor.is_some() {
            return self.log(Level::Alert, ONE_AT_A_TIME);
        }
        let pid = pid_path(&self.config);
        if let Err(e) = std::fs::rename(&pid, old_pid_path(&self.config)) {
            let words = gallop_conf::parser::os_error(&e);
            let message = format!("rename() \"{}\" failed ({words})", pid.display());
            return self.log(Level::Alert, &message);
        }
        match handover::start(&self.bound) {
            Ok(pid) => {
                self.log(Level::Notice, &format!("start new binary process {pid}"));
                self.successor = Some(pid);
            }
            Err(message) => {
                self.log(Level::Alert, &message);
                self.take_pid_file_back();
            }
        }
    }

    fn take_pid_file_back(&self) {
        let (old, new) = (old_pid_path(&self.config), pid_path(&self.config));
        if let Err(e) = std::fs::rename(&old, new) {
            let words = gallop_conf::parser::os_error(&e);
            let message = format!("rename() \"{}\" failed ({words})", old.display());
            self.log(Level::Alert, &message);
        }
    }

    /// Return to the state before USR2.
    fn successor_ended(&mut self, ending: bool) {
        self.take_pid_file_back();
        self.successor = None;
        self.steer();
        if !ending {
            self.work_again();
        }
    }

    /// End the workers. The master continues and can start new ones.
    fn rest(&mut self) {
        self.rests = true;
        self.restart_at = None;
        self.children.iter_mut().for_each(|c| c.current = false);
        self.signal_all(libc::SIGQUIT);
    }

    fn work_again(&mut self) {
        if !std::mem::take(&mut self.rests) {
            return;
        }
        if let Err(message) = self.spawn() {
            self.log(Level::Alert, &message);
        }
    }

    /// After the old master has ended, release what only its workers used.
    fn part_from_predecessor(&mut self) {
        self.predecessor = self.predecessor.filter(|pid| *pid == process::parent());
    }

    fn reopen(&self) {
        self.log(Level::Notice, "reopening logs");
        for (path, e) in log::reopen_all() {
            self.log(Level::Emerg, &log::open_failed(&path, &e));
        }
        // Workers open the log files with their own privileges.
        if let Some(ids) = &self.ids {
            for path in log::open_paths() {
                let _ = std::os::unix::fs::chown(&path, Some(ids.uid), None);
            }
        }
        self.signal_all(libc::SIGUSR1);
    }

    fn end(&self) -> ExitCode {
        self.log(Level::Notice, "exit");
        if self.successor.is_none() && self.predecessor.is_none() {
            for path in listen::stale_unix(&self.bound, &[]) {
                remove(&path);
            }
        }
        remove(&match self.successor {
            Some(_) => old_pid_path(&self.config),
            None => pid_path(&self.config),
        });
        ExitCode::SUCCESS
    }
}

/// Remove a file. A missing file is no error.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

fn bind(config: &Config, before: &[Bound]) -> Result<Vec<Bound>, String> {
    let listeners: Vec<_> = config.listeners().collect();
    listen::bind_all(&listeners, threads(config), before)
}

/// The number of threads of a worker process.
pub fn threads(config: &Config) -> usize {
    match config.main.worker_processes {
        None => 1,
        Some(Workers::Count(n)) => n as usize,
        Some(Workers::Auto) => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Continue in a child process without a terminal; the parent ends once the child has started.
fn daemonize() -> Result<(), String> {
    match process::fork() {
        Err(e) => Err(format!("fork() failed ({e})")),
        Ok(Fork::Parent(_)) => std::process::exit(0),
        Ok(Fork::Child) => {
            process::detach().map_err(|e| format!("cannot detach from the terminal ({e})"))
        }
    }
}
