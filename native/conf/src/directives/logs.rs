//! Logs: error_log, access_log, log_format, and the requests that they record.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::values::{parse_digits, parse_msec, parse_size};
use crate::vars::VarTable;
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    with("error_log", HSL | STREAM | SSRV, Arity(1, 2), |b, d| {
        let log = error_log_target(b, d)?;
        push(&mut b.loc().error_log, log);
        Ok(())
    }),
    with("access_log", HSLI | LMT | STREAM | SSRV, MORE, access_log),
    with("log_format", HTTP | STREAM, TWO_OR_MORE, log_format),
    with(
        "open_log_file_cache",
        HSL | STREAM | SSRV,
        Arity(1, 4),
        open_log_file_cache,
    ),
    simple(
        "log_not_found",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().log_not_found),
    ),
    simple(
        "log_subrequest",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().log_subrequest),
    ),
];

fn open_log_file_cache(b: &mut Builder, d: &Directive) -> Result<()> {
    let mut cache = LogFileCache {
        max: 0,
        inactive: 10_000,
        valid: 60_000,
        min_uses: 1,
    };
    let mut off = false;
    for word in d.args() {
        let invalid = || {
            let message = format!("invalid \"open_log_file_cache\" parameter \"{word}\"");
            ConfError::at(message, &d.place)
        };
        let number = |n| parse_digits(n).filter(|&n| n > 0).ok_or_else(invalid);
        // nginx counts these times in seconds.
        let time = |t| {
            parse_msec(t)
                .filter(|ms| ms % 1000 == 0)
                .ok_or_else(invalid)
        };
        match word.split_once('=') {
            Some(("max", n)) => cache.max = number(n)?,
            Some(("min_uses", n)) => cache.min_uses = number(n)?,
            Some(("inactive", t)) => cache.inactive = time(t)?,
            Some(("valid", t)) => cache.valid = time(t)?,
            None if word == "off" => off = true,
            _ => return Err(invalid()),
        }
    }
    if off {
        return store(&mut b.loc().open_log_file_cache, None, d);
    }
    if cache.max == 0 {
        let message = "\"open_log_file_cache\" must have \"max\" parameter";
        return Err(ConfError::at(message, &d.place));
    }
    store(&mut b.loc().open_log_file_cache, Some(Arc::new(cache)), d)
}

pub const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
                            $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

/// The predefined formats.
pub fn default_formats(vars: &mut VarTable) -> Vec<LogFormat> {
    let place = crate::Place {
        file: "built-in".into(),
        line: 0,
    };
    let template = crate::template::Template::parse(COMBINED, vars, &place)
        .expect("the built-in format is valid");
    vec![LogFormat {
        name: "combined".into(),
        escape: Escape::Default,
        template,
    }]
}

/// The target and level of an `error_log`.
pub fn error_log_target(b: &Builder, d: &Directive) -> Result<ErrorLog> {
    let args = d.args();
    let level = match args.get(1) {
        None => Level::Error,
        Some(word) => Level::parse(word)
            .ok_or_else(|| ConfError::new(format!("invalid log level \"{word}\"")))?,
    };
    let target = match args[0].as_str() {
        "stderr" | "" => LogTarget::Stderr,
        word if word.starts_with("memory:") => {
            parse_size(&word[7..])
                .filter(|&n| n > 0)
                .ok_or_else(|| ConfError::new(format!("invalid buffer size \"{}\"", &word[7..])))?;
            LogTarget::Memory
        }
        word => file_or_syslog(b, word)?,
    };
    Ok(ErrorLog { target, level })
}

fn file_or_syslog(b: &Builder, word: &str) -> Result<LogTarget> {
    match word.strip_prefix("syslog:") {
        Some(rest) => Ok(LogTarget::Syslog(Arc::new(syslog(rest)?))),
        None if word.is_empty() => Ok(LogTarget::Stderr),
        None => Ok(LogTarget::File(b.path(word))),
    }
}

const FACILITIES: &[&str] = &[
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv",
    "ftp", "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];
const SEVERITIES: &[&str] = &[
    "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
];

fn syslog(text: &str) -> Result<Syslog> {
    let mut conf = Syslog {
        server: String::new(),
        facility: 23,
        severity: 6,
        tag: "nginx".into(),
        nohostname: false,
    };
    for part in text.split(',') {
        let unknown = || ConfError::new(format!("unknown syslog parameter \"{part}\""));
        match part.split_once('=').unwrap_or((part, "")) {
            ("server", s) if !s.is_empty() => conf.server = s.into(),
            ("facility", f) => {
                let found = FACILITIES.iter().position(|n| *n == f);
                conf.facility = found
                    .ok_or_else(|| ConfError::new(format!("unknown syslog facility \"{f}\"")))?
                    as u8;
            }
            ("severity", s) => {
                let found = SEVERITIES.iter().position(|n| *n == s);
                conf.severity = found
                    .ok_or_else(|| ConfError::new(format!("unknown syslog severity \"{s}\"")))?
                    as u8;
            }
            ("tag", t) => {
                if t.is_empty() || t.len() > 32 {
                    return Err(ConfError::new("syslog tag length exceeds 32"));
                }
                if !t.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') {
                    return Err(ConfError::new(
                        "syslog \"tag\" only allows alphanumeric characters and underscore",
                    ));
                }
                conf.tag = t.into();
            }
            ("nohostname", "") => conf.nohostname = true,
            _ => return Err(unknown()),
        }
    }
    if conf.server.is_empty() {
        return Err(ConfError::new("no syslog server specified"));
    }
    Ok(conf)
}

fn access_log(b: &mut Builder, d: &Directive) -> Result<()> {
    let args = d.args();
    if args[0] == "off" {
        b.loc().access_log.get_or_insert_with(Arc::default);
        return args.get(1).map_or(Ok(()), |w| Err(invalid_parameter(d, w)));
    }
    let target = if args[0].contains('$') && !args[0].starts_with("syslog:") {
        let base = b.prefix.clone();
        AccessTarget::Variable(b.path_template(&args[0], &base, &d.place)?)
    } else {
        AccessTarget::Fixed(file_or_syslog(b, &args[0])?)
    };
    if args.len() == 1 && b.is_in_stream() {
        return Err(ConfError::new("log format is not specified"));
    }
    let name = args.get(1).map_or("combined", String::as_str);
    let mut formats = b.http().log_formats.iter();
    let format = formats.position(|f| f.name.eq_ignore_ascii_case(name));
    let format = format.ok_or_else(|| ConfError::new(format!("unknown log format \"{name}\"")))?;
    let mut log = AccessLog {
        target,
        format,
        condition: None,
        buffer: None,
        flush: None,
        gzip: None,
    };
    for word in args.iter().skip(2) {
        access_option(b, d, &mut log, word)?;
    }
    if log.flush.is_some() && log.buffer.is_none() {
        return Err(ConfError::new(format!(
            "no buffer is defined for access_log \"{}\"",
            args[0]
        )));
    }
    if log.buffer.is_some() {
        buffered(&log)?;
    }
    push(&mut b.loc().access_log, log);
    Ok(())
}

fn buffered(log: &AccessLog) -> Result<()> {
    let problem = match &log.target {
        AccessTarget::Variable(_) => "buffered logs cannot have variables in name",
        AccessTarget::Fixed(LogTarget::Syslog(_)) => "logs to syslog cannot be buffered",
        AccessTarget::Fixed(_) => return Ok(()),
    };
    Err(ConfError::new(problem))
}

fn access_option(b: &mut Builder, d: &Directive, log: &mut AccessLog, word: &str) -> Result<()> {
    let invalid = |what: &str, v: &str| ConfError::at(format!("invalid {what} \"{v}\""), &d.place);
    match word.split_once('=').unwrap_or((word, "")) {
        ("buffer", v) => {
            let size = parse_size(v).filter(|&n| n > 0);
            log.buffer = Some(size.ok_or_else(|| invalid("buffer size", v))?);
        }
        ("flush", v) => {
            let ms = parse_msec(v).filter(|&n| n > 0);
            log.flush = Some(ms.ok_or_else(|| invalid("flush time", v))?);
        }
        ("gzip", v) => {
            let level = if v.is_empty() {
                Some(1)
            } else {
                parse_digits(v)
            };
            let level = level.filter(|n| (1..=9).contains(n));
            log.gzip = Some(level.ok_or_else(|| invalid("compression level", v))? as u32);
            log.buffer.get_or_insert(64 * 1024);
        }
        ("if", v) => log.condition = Some(b.template(v, &d.place)?),
        _ => return Err(invalid_parameter(d, word)),
    }
    Ok(())
}

fn log_format(b: &mut Builder, d: &Directive) -> Result<()> {
    let name = &d.args()[0];
    let (escape, words) = match d.args()[1].strip_prefix("escape=") {
        None => (Escape::Default, &d.args()[1..]),
        Some("default") => (Escape::Default, &d.args()[2..]),
        Some("json") => (Escape::Json, &d.args()[2..]),
        Some("none") => (Escape::None, &d.args()[2..]),
        Some(other) => {
            return Err(ConfError::new(format!(
                "unknown log format escaping \"{other}\""
            )));
        }
    };
    if b.http().log_formats.iter().any(|f| f.name == *name) {
        return Err(ConfError::new(format!(
            "duplicate \"log_format\" name \"{name}\""
        )));
    }
    let template = b.template(&words.concat(), &d.place)?;
    b.http().log_formats.push(LogFormat {
        name: name.clone(),
        escape,
        template,
    });
    Ok(())
}
