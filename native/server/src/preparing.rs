//! Work of the master, with its privileges, before the workers begin: opening logs, creating
//! folders, and looking up the workers' user.

use crate::cli::Options;
use crate::process::{self, Ids};
use gallop_conf::model::{
    items, AccessTarget, Config, ErrorLog, Handler, Level, LocConf, LogTarget, UpConf,
};
use gallop_engine::log;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn check_user(config: &Config) -> Result<(), String> {
    user(config).map(|_| ())
}

/// The user of the worker processes; `None` if the master may not change it. With `master_process
/// off`, workers keep the user that started the server, as in nginx.
pub fn user(config: &Config) -> Result<Option<Ids>, String> {
    if !process::is_root() || config.main.master_process == Some(false) {
        return Ok(None);
    }
    let (user, group) = match &config.main.user {
        Some((user, group)) => (user.as_str(), group.as_deref()),
        None => ("nobody", Some("nogroup")),
    };
    match process::lookup(user, group) {
        Ok(ids) => Ok(Some(ids)),
        // Without a `user` directive, accept a system that lacks the group nogroup.
        Err(_) if config.main.user.is_none() => process::lookup("nobody", None).map(Some),
        Err(message) => Err(message),
    }
}

/// Open every log file, so that errors appear now and the files get the master's permissions.
pub fn open_logs(options: &Options, config: &Config) -> Result<(), String> {
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
    let mut add_all = |conf: &LocConf| {
        items(&conf.error_log).iter().for_each(|l| add(&l.target));
        for access in items(&conf.access_log) {
            if let AccessTarget::Fixed(target) = &access.target {
                add(target);
            }
        }
    };
    if let Some(stream) = &config.stream {
        add_all(&stream.settings);
    }
    for server in config.servers() {
        visit(&server.root, &mut |loc| add_all(&loc.conf));
    }
    paths.sort();
    paths.dedup();
    for path in paths {
        log::open(&path).map_err(|e| log::open_failed(&path, &e))?;
    }
    Ok(())
}

/// The folders for temporary files and caches.
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
                Some(Handler::Application(pass)) => {
                    let own = of(conf.application(pass.protocol));
                    let folder = pass.protocol.temp_folder().map(default);
                    folders.extend(own.or(folder));
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

/// Warnings in nginx's words about folders that the start could not create.
pub fn unmade_folders(config: &Config) -> Vec<String> {
    let folders = temp_folders(config).into_iter();
    let failed = folders.filter_map(|folder| {
        // The start also creates missing parent folders.
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

/// Create the folders for temporary files and caches so that the workers can write to them.
pub fn make_temp_folders(config: &Config, ids: Option<&Ids>, logs: &[ErrorLog]) {
    for folder in temp_folders(config) {
        let made = gallop_engine::creating::make_private_folder(&folder);
        let owned = made.and_then(|()| match ids {
            Some(ids) => std::os::unix::fs::chown(&folder, Some(ids.uid), None),
            None => Ok(()),
        });
        if let Err(e) = owned {
            // Only requests that need a temporary file fail.
            log::error_to(logs, Level::Warn, &mkdir_failed(&folder, &e));
        }
    }
}

/// Call `f` for a location and all locations nested in it.
pub fn visit(
    loc: &gallop_conf::model::Location,
    f: &mut impl FnMut(&gallop_conf::model::Location),
) {
    f(loc);
    loc.ifs.iter().for_each(|l| visit(l, f));
    loc.limit_except.iter().for_each(|(_, l)| visit(l, f));
    loc.children.all().for_each(|l| visit(l, f));
}
