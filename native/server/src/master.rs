//! The master process: reads the configuration, binds the sockets, starts worker processes and
//! obeys signals.

use crate::cli::{Options, Signal, HELP, PID};
use crate::listen::{self, Bound};
use crate::process::{self, Fork, Ids, Pid};
use crate::statistics::Statistics;
use crate::{version, worker};
use gallop_conf::model::{
    AccessTarget, Config, ErrorLog, Handler, Level, LogTarget, UpConf, Workers,
};
use gallop_conf::parser::SourceFile;
use gallop_engine::log;
use gallop_engine::metrics::Generation;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Runs what the command line asks for.
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
    let mut files = Vec::new();
    let loaded = load(&options, &mut files);
    let config = match loaded {
        Ok(config) => config,
        Err(message) => {
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
        return test(&options, config, &files, &report);
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

/// Errors before the configured log is open go to stderr and to the log of `-e`.
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

/// The configuration; a test also tells its known mistakes.
fn load(options: &Options, files: &mut Vec<SourceFile>) -> Result<Config, String> {
    let (prefix, conf) = (options.prefix(), options.conf());
    let globals = options.globals.trim();
    if !options.test || options.quiet {
        return gallop_conf::load(&prefix, &conf, globals, files).map_err(|e| e.to_string());
    }
    let (mut config, remarks) = gallop_conf::load_with_remarks(&prefix, &conf, globals, files)
        .map_err(|e| e.to_string())?;
    config.warnings.extend(remarks);
    Ok(config)
}

fn dump(files: &[SourceFile]) {
    let mut out = std::io::stdout().lock();
    for file in files {
        // A reader that went away does not change the test's outcome.
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

/// Opens what the server would open, without taking anything over.
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
    // The process ends: taking a large configuration apart would be a quarter of its time.
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

/// Whether the pid file can be written. Unlike nginx's, the test makes none.
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

fn check_user(config: &Config) -> Result<(), String> {
    user(config).map(|_| ())
}

/// The user of worker processes; none when the master has no right to change it.
fn user(config: &Config) -> Result<Option<Ids>, String> {
    if !process::is_root() {
        return Ok(None);
    }
    let (user, group) = match &config.main.user {
        Some((user, group)) => (user.as_str(), group.as_deref()),
        None => ("nobody", Some("nogroup")),
    };
    match process::lookup(user, group) {
        Ok(ids) => Ok(Some(ids)),
        // Without a `user` directive a system that lacks nobody's usual group still works.
        Err(_) if config.main.user.is_none() => process::lookup("nobody", None).map(Some),
        Err(message) => Err(message),
    }
}

/// The error logs of the process.
fn error_logs(options: &Options, config: &Config) -> Vec<ErrorLog> {
    match &config.main.error_log {
        Some(logs) => logs.to_vec(),
        None => fallback_log(options),
    }
}

/// Opens every log file, so that errors show now and rights are those of the master.
fn open_logs(options: &Options, config: &Config) -> Result<(), String> {
    let mut paths = Vec::new();
    if let Some(path) = options.error_log() {
        if config.main.error_log.is_none() {
            paths.push(path);
        }
    }
    let mut add = |target: &LogTarget| {
        if let LogTarget::File(path) = target {
            paths.push(path.clone());
        }
    };
    config
        .main
        .error_log
        .iter()
        .flat_map(|l| l.iter())
        .for_each(|l| add(&l.target));
    for server in config.http.iter().flat_map(|h| &h.servers) {
        visit(&server.root, &mut |loc| {
            let conf = &loc.conf;
            conf.error_log
                .iter()
                .flat_map(|l| l.iter())
                .for_each(|l| add(&l.target));
            for access in conf.access_log.iter().flat_map(|l| l.iter()) {
                if let AccessTarget::Fixed(target) = &access.target {
                    add(target);
                }
            }
        });
    }
    paths.sort();
    paths.dedup();
    for path in paths {
        log::open(&path).map_err(|e| log::open_failed(&path, &e))?;
    }
    Ok(())
}

/// The folders of temporary files and of caches.
fn temp_folders(config: &Config) -> std::collections::BTreeSet<PathBuf> {
    let mut folders = std::collections::BTreeSet::new();
    for server in config.http.iter().flat_map(|h| &h.servers) {
        visit(&server.root, &mut |loc| {
            let conf = &loc.conf;
            let default = |name: &str| config.prefix.join(name);
            let body = conf.client_body_temp_path.clone();
            folders.insert(body.unwrap_or_else(|| default("client_body_temp")));
            let of = |up: &Option<Arc<UpConf>>| up.as_ref().and_then(|u| u.temp_path.clone());
            match &loc.handler {
                Some(Handler::Proxy(_)) => {
                    folders.insert(of(&conf.proxy).unwrap_or_else(|| default("proxy_temp")));
                }
                Some(Handler::Fastcgi(_)) => {
                    folders.insert(of(&conf.fastcgi).unwrap_or_else(|| default("fastcgi_temp")));
                }
                _ => {}
            }
        });
    }
    let caches = config.http.iter().flat_map(|h| &h.cache_zones);
    folders.extend(caches.map(|zone| zone.path.clone()));
    folders
}

fn mkdir_failed(folder: &Path, e: &std::io::Error) -> String {
    let words = gallop_conf::parser::os_error(e);
    format!("mkdir() \"{}\" failed ({words})", folder.display())
}

/// What the start will warn of: folders that cannot be made, in nginx's words.
fn unmade_folders(config: &Config) -> Vec<String> {
    let folders = temp_folders(config).into_iter();
    let failed = folders.filter_map(|folder| {
        // Folders above it are made, too.
        let mut above = folder.ancestors();
        let near = above.find(|f| std::fs::symlink_metadata(f).is_ok())?;
        let found = match near.is_dir() {
            true => process::may_write_in(near),
            false => Err(std::io::Error::from_raw_os_error(libc::ENOTDIR)),
        };
        found.err().map(|e| mkdir_failed(&folder, &e))
    });
    failed.collect()
}

/// Makes the folders of temporary files and of caches, for the workers to write to.
fn make_temp_folders(config: &Config, ids: Option<&Ids>, logs: &[ErrorLog]) {
    for folder in temp_folders(config) {
        let made = gallop_engine::creating::make_private_folder(&folder);
        let owned = made.and_then(|()| match ids {
            Some(ids) => std::os::unix::fs::chown(&folder, Some(ids.uid), None),
            None => Ok(()),
        });
        if let Err(e) = owned {
            // Only requests that need a temporary file suffer.
            log::error_to(logs, Level::Warn, &mkdir_failed(&folder, &e));
        }
    }
}

/// Calls `f` for a location and all below it.
pub fn visit(
    loc: &gallop_conf::model::Location,
    f: &mut impl FnMut(&gallop_conf::model::Location),
) {
    f(loc);
    loc.ifs.iter().for_each(|l| visit(l, f));
    loc.limit_except.iter().for_each(|(_, l)| visit(l, f));
    loc.children.all().for_each(|l| visit(l, f));
}

/// A running worker process.
struct Child {
    pid: Pid,
    /// Serves the current configuration.
    current: bool,
    /// Where it counts.
    counts: Arc<Generation>,
}

/// What USR2 is answered with.
const NO_UPGRADE: &str = "a running gallop cannot hand over to another binary (USR2): \
    end it with QUIT, which finishes its requests, and start the new one";

struct Master {
    options: Options,
    config: Arc<Config>,
    bound: Vec<Bound>,
    children: Vec<Child>,
    logs: Vec<ErrorLog>,
    ids: Option<Ids>,
    statistics: Statistics,
}

impl Master {
    fn start(options: Options, config: Config, report: &Reporter) -> Result<Master, String> {
        open_logs(&options, &config)?;
        let warnings = worker::check(&config)?;
        let ids = user(&config)?;
        let logs = error_logs(&options, &config);
        // Workers, also later ones, have it from here.
        crate::quic::secret();
        for warning in &warnings {
            report.line("warn", warning);
            log::error_to(&logs, Level::Warn, warning);
        }
        let bound = bind(&config, &[])?;
        make_temp_folders(&config, ids.as_ref(), &logs);
        if config.main.daemon.unwrap_or(true) {
            daemonize()?;
        }
        process::block_signals();
        if let Some(n) = config.main.worker_rlimit_nofile {
            // As in nginx: where the system forbids it the limit stays as it is.
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
        };
        master.write_pid()?;
        master.spawn()?;
        Ok(master)
    }

    fn log(&self, level: Level, message: &str) {
        log::error_to(&self.logs, level, message);
    }

    fn write_pid(&self) -> Result<(), String> {
        let path = pid_path(&self.config);
        let text = format!("{}\n", std::process::id());
        // Whoever could write it could have any process signalled by the next `-s stop`.
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
        match process::fork() {
            Err(e) => Err(format!(
                "fork() failed while spawning \"worker process\" ({e})"
            )),
            Ok(Fork::Parent(pid)) => {
                let counts = self.statistics.current().clone();
                self.children.push(Child {
                    pid,
                    current: true,
                    counts,
                });
                self.log(Level::Notice, &format!("start worker process {pid}"));
                Ok(())
            }
            Ok(Fork::Child) => {
                listen::forget_old(&mut self.bound);
                let code = worker::run(
                    self.config.clone(),
                    &self.bound,
                    self.ids.as_ref(),
                    &self.logs,
                    self.statistics.history(),
                );
                std::process::exit(code);
            }
        }
    }

    /// Waits for signals until the last worker is gone.
    fn serve(mut self) -> ExitCode {
        let mut ending = false;
        loop {
            let signal = process::wait_signal(None);
            match signal {
                Some(libc::SIGTERM | libc::SIGINT) => {
                    ending = true;
                    self.signal_all(libc::SIGTERM);
                }
                Some(libc::SIGQUIT) => {
                    ending = true;
                    self.signal_all(libc::SIGQUIT);
                }
                Some(libc::SIGHUP) if !ending => self.reload(),
                Some(libc::SIGUSR1) => self.reopen(),
                Some(libc::SIGWINCH) => self.signal_all(libc::SIGQUIT),
                Some(libc::SIGUSR2) => self.log(Level::Alert, NO_UPGRADE),
                _ => {}
            }
            self.reap(ending);
            if ending && self.children.is_empty() {
                return self.end();
            }
        }
    }

    fn signal_all(&self, signal: i32) {
        for child in &self.children {
            // A child that is gone already is reaped with the next signal.
            let _ = process::kill(child.pid, signal);
        }
    }

    fn reap(&mut self, ending: bool) {
        while let Some(ended) = process::reap() {
            let Some(i) = self.children.iter().position(|c| c.pid == ended.pid) else {
                continue;
            };
            let child = self.children.remove(i);
            let shares = |c: &Child| Arc::ptr_eq(&c.counts, &child.counts);
            if !self.children.iter().any(shares) {
                self.statistics.ended(&child.counts);
            }
            match (ended.signal, ended.code) {
                (Some(signal), _) => {
                    self.log(
                        Level::Alert,
                        &format!("worker process {} exited on signal {signal}", child.pid),
                    );
                }
                (None, code) => {
                    let code = code.unwrap_or(0);
                    self.log(
                        Level::Notice,
                        &format!("worker process {} exited with code {code}", child.pid),
                    );
                }
            }
            let failed_start = ended.code == Some(worker::FATAL);
            if failed_start {
                let message = "worker process cannot be started and is not started again";
                self.log(Level::Alert, message);
            } else if child.current && !ending {
                if let Err(message) = self.spawn() {
                    self.log(Level::Alert, &message);
                }
            }
        }
        if self.children.iter().all(|c| c.current) && listen::forget_old(&mut self.bound) {
            if let Err(message) = listen::steer(&self.bound) {
                self.log(Level::Alert, &message);
            }
        }
    }

    fn reload(&mut self) {
        self.log(Level::Notice, "reconfiguring");
        match self.try_reload() {
            Ok(()) => {}
            Err(message) => self.log(Level::Emerg, &message),
        }
    }

    /// The old workers go on until the new one runs; a configuration that is refused changes nothing.
    fn try_reload(&mut self) -> Result<(), String> {
        let mut files = Vec::new();
        let mut config = load(&self.options, &mut files)?;
        open_logs(&self.options, &config)?;
        config.warnings.extend(worker::check(&config)?);
        let ids = user(&config)?;
        let bound = bind(&config, &self.bound)?;
        let stale = listen::stale_unix(&self.bound, &bound);
        let old_pid = pid_path(&self.config);
        self.logs = error_logs(&self.options, &config);
        make_temp_folders(&config, ids.as_ref(), &self.logs);
        for warning in &config.warnings {
            self.log(Level::Warn, warning);
        }
        self.statistics.reload(&config)?;
        self.config = Arc::new(config);
        self.bound = bound;
        self.ids = ids;
        self.children.iter_mut().for_each(|c| c.current = false);
        listen::steer(&self.bound)?;
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

    fn reopen(&self) {
        self.log(Level::Notice, "reopening logs");
        for (path, e) in log::reopen_all() {
            self.log(Level::Emerg, &log::open_failed(&path, &e));
        }
        // Workers open the files with their own rights.
        if let Some(ids) = &self.ids {
            for path in log::open_paths() {
                let _ = std::os::unix::fs::chown(&path, Some(ids.uid), None);
            }
        }
        self.signal_all(libc::SIGUSR1);
    }

    fn end(&self) -> ExitCode {
        self.log(Level::Notice, "exit");
        for path in listen::stale_unix(&self.bound, &[]) {
            remove(&path);
        }
        remove(&pid_path(&self.config));
        ExitCode::SUCCESS
    }
}

/// What is gone already need not be removed.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

fn bind(config: &Config, before: &[Bound]) -> Result<Vec<Bound>, String> {
    let listeners = config.http.as_ref().map_or(&[][..], |h| &h.listeners);
    listen::bind_all(listeners, threads(config), before)
}

/// Threads of a worker process.
pub fn threads(config: &Config) -> usize {
    match config.main.worker_processes {
        None => 1,
        Some(Workers::Count(n)) => n as usize,
        Some(Workers::Auto) => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Goes on in a child without a terminal; the parent ends once the child has begun.
fn daemonize() -> Result<(), String> {
    match process::fork() {
        Err(e) => Err(format!("fork() failed ({e})")),
        Ok(Fork::Parent(_)) => std::process::exit(0),
        Ok(Fork::Child) => {
            process::detach().map_err(|e| format!("cannot detach from the terminal ({e})"))
        }
    }
}
