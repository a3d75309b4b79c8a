//! Directives of the main context and of the events block.

use super::load_module::load_module;
use super::logs::error_log_target;
use crate::builder::{Builder, HttpNode, LocNode};
use crate::cidr::Cidr;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::values::parse_digits;
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    with("user", MAIN, Arity(1, 2), user),
    with("worker_processes", MAIN, ONE, worker_processes),
    with("pid", MAIN, ONE, pid),
    with("error_log", MAIN, Arity(1, 2), error_log),
    simple("daemon", MAIN, ONE, Setter::Flag(|b| &mut b.main.daemon)),
    simple(
        "master_process",
        MAIN,
        ONE,
        Setter::Flag(|b| &mut b.main.master_process),
    ),
    simple(
        "worker_rlimit_nofile",
        MAIN,
        ONE,
        Setter::Num(|b| &mut b.main.worker_rlimit_nofile),
    ),
    simple(
        "worker_rlimit_core",
        MAIN,
        ONE,
        Setter::Size(|b| &mut b.main.worker_rlimit_core),
    ),
    simple(
        "worker_shutdown_timeout",
        MAIN,
        ONE,
        Setter::Msec(|b| &mut b.main.worker_shutdown_timeout),
    ),
    simple(
        "prepared_responses_size",
        MAIN,
        ONE,
        Setter::Size(|b| &mut b.main.prepared_responses_size),
    ),
    simple(
        "prepared_responses_valid",
        MAIN,
        ONE,
        Setter::Msec(|b| &mut b.main.prepared_responses_valid),
    ),
    with("worker_priority", MAIN, ONE, worker_priority),
    with("worker_cpu_affinity", MAIN, MORE, cpu_affinity),
    simple(
        "working_directory",
        MAIN,
        ONE,
        Setter::TempPath(|b| &mut b.main.working_directory),
    ),
    with("env", MAIN, ONE, |b, d| {
        b.main.env.push(d.args()[0].clone());
        Ok(())
    }),
    with("load_module", MAIN, ONE, load_module),
    simple("lock_file", MAIN, ONE, Setter::Unused(Takes::Text)),
    with("debug_points", MAIN, ONE, debug_points),
    simple("timer_resolution", MAIN, ONE, Setter::Unused(Takes::Msec)),
    simple("pcre_jit", MAIN, ONE, Setter::Unused(Takes::Flag)),
    with("thread_pool", MAIN, Arity(2, 3), thread_pool),
    with("ssl_engine", MAIN, ONE, ssl_engine),
    simple(
        "ssl_object_cache_inheritable",
        MAIN,
        ONE,
        Setter::Flag(|b| &mut b.main.ssl_object_cache_inheritable),
    ),
    block("events", MAIN, NONE, events),
    simple(
        "worker_connections",
        EVENTS,
        ONE,
        Setter::Num(|b| &mut b.main.worker_connections),
    ),
    simple(
        "multi_accept",
        EVENTS,
        ONE,
        Setter::Flag(|b| &mut b.main.multi_accept),
    ),
    with("use", EVENTS, ONE, use_method),
    with("debug_connection", EVENTS, ONE, debug_connection),
    simple("accept_mutex", EVENTS, ONE, Setter::Unused(Takes::Flag)),
    simple(
        "accept_mutex_delay",
        EVENTS,
        ONE,
        Setter::Unused(Takes::Msec),
    ),
    simple(
        "worker_aio_requests",
        EVENTS,
        ONE,
        Setter::Unused(Takes::Num),
    ),
    block("http", MAIN, NONE, http),
];

fn user(b: &mut Builder, d: &Directive) -> Result<()> {
    let args = d.args();
    store(&mut b.main.user, (args[0].clone(), args.get(1).cloned()), d)
}

/// CPU masks, or `auto` with at most one mask: checked but without effect.
fn cpu_affinity(_: &mut Builder, d: &Directive) -> Result<()> {
    let masks = match d.args() {
        [auto] if auto == "auto" => return Ok(()),
        [auto, mask] if auto == "auto" => std::slice::from_ref(mask),
        masks => masks,
    };
    for mask in masks {
        if let Some(c) = mask.chars().rev().find(|c| !matches!(c, '0' | '1' | ' ')) {
            let message = format!("invalid character \"{c}\" in \"worker_cpu_affinity\"");
            return Err(ConfError::new(message));
        }
    }
    Ok(())
}

fn ssl_engine(_: &mut Builder, d: &Directive) -> Result<()> {
    Err(ConfError::new(format!(
        "ssl_engine is not supported: gallop does TLS with rustls and AWS-LC, which have no engines; remove \"{}\"",
        d.args()[0]
    )))
}

fn worker_processes(b: &mut Builder, d: &Directive) -> Result<()> {
    let value = match d.args()[0].as_str() {
        "auto" => Workers::Auto,
        word => match parse_digits(word).filter(|n| (1..=1024).contains(n)) {
            Some(n) => Workers::Count(n),
            None => return Err(invalid_value(d)),
        },
    };
    store(&mut b.main.worker_processes, value, d)
}

fn worker_priority(b: &mut Builder, d: &Directive) -> Result<()> {
    let nice: i32 = d.args()[0].parse().map_err(|_| invalid_number(d))?;
    store(&mut b.main.worker_priority, nice, d)
}

fn pid(b: &mut Builder, d: &Directive) -> Result<()> {
    // An empty name means the default.
    if d.args()[0].is_empty() {
        return Ok(());
    }
    let path = b.path(&d.args()[0]);
    store(&mut b.main.pid, path, d)
}

fn error_log(b: &mut Builder, d: &Directive) -> Result<()> {
    let log = error_log_target(b, d)?;
    Arc::make_mut(b.main.error_log.get_or_insert_with(Arc::default)).push(log);
    Ok(())
}

/// `name threads=N [max_queue=N]`: without effect.
fn thread_pool(_: &mut Builder, d: &Directive) -> Result<()> {
    let (name, parameters) = d.args().split_first().expect("arity checked");
    let mut threads = None;
    for word in parameters {
        let invalid = |what: &str| ConfError::new(format!("invalid {what} \"{word}\""));
        match word.split_once('=') {
            Some(("threads", n)) => {
                let n = parse_digits(n).filter(|&n| n > 0);
                threads = Some(n.ok_or_else(|| invalid("threads value"))?);
            }
            Some(("max_queue", n)) => {
                parse_digits(n).ok_or_else(|| invalid("max_queue value"))?;
            }
            _ => return Err(invalid("parameter")),
        }
    }
    if threads.is_none() {
        return Err(ConfError::new(format!(
            "\"{name}\" must have \"threads\" parameter"
        )));
    }
    Ok(())
}

/// `debug_points`: without effect, since gallop has no such checks.
fn debug_points(b: &mut Builder, d: &Directive) -> Result<()> {
    let word = choice(d, &d.args()[0], &[("stop", "stop"), ("abort", "abort")])?;
    store(&mut b.main.debug_points, word, d)
}

/// An address, a network, or a name, of which all addresses count.
fn debug_connection(b: &mut Builder, d: &Directive) -> Result<()> {
    let word = &d.args()[0];
    if let Some(net) = b.network(word, &d.place) {
        b.main.debug_connection.push(net);
        return Ok(());
    }
    let found = crate::listen::resolve(word, 80)
        .map_err(|e| ConfError::new(format!("{e} in debug_connection \"{word}\"")))?;
    let nets = found
        .iter()
        .filter_map(|addr| Cidr::parse(&addr.ip().to_string()));
    b.main.debug_connection.extend(nets);
    Ok(())
}

fn use_method(_: &mut Builder, d: &Directive) -> Result<()> {
    match d.args()[0].as_str() {
        "epoll" => Ok(()),
        other => Err(ConfError::new(format!("invalid event type \"{other}\""))),
    }
}

fn events(b: &mut Builder, d: &Directive) -> Result<()> {
    once(b, "events", d)?;
    b.apply_in(EVENTS, d)
}

pub(super) fn once(b: &mut Builder, name: &'static str, d: &Directive) -> Result<()> {
    if b.seen.contains(&name) {
        return Err(duplicate(d));
    }
    b.seen.push(name);
    Ok(())
}

fn http(b: &mut Builder, d: &Directive) -> Result<()> {
    once(b, "http", d)?;
    b.http = Some(HttpNode {
        log_formats: super::default_formats(&mut b.vars),
        ..HttpNode::default()
    });
    b.locs.push(LocNode::new("", LocKind::Server, &d.place));
    b.apply_in(HTTP, d)
}
