//! The rewrite module.

use crate::body::Body;
use crate::escape::{self, Use};
use crate::exchange::Exchange;
use crate::files::{self, FilePath, Refused};
use crate::phases::flow::Flow;
use crate::{template, vars};
use gallop_conf::model::{Cond, FileTest, Handler, Level, Location, Op, RewriteFlag};
use gallop_conf::template::{Part, Template};
use gallop_conf::values::parse_size;
use gallop_conf::vars::{Builtin, VarId, VarKind};
use std::sync::Arc;

pub enum Outcome {
    Continue { uri_changed: bool },
    Flow(Flow),
}

/// The effect of an instruction on those after it.
enum Next {
    Go,
    Stop,
    /// Stop and choose the location again.
    Last,
    Flow(Flow),
}

/// The state while the instructions of a level run.
struct Run {
    changed: bool,
    /// As in nginx, `set` escapes captures until a `rewrite` has matched.
    quotes: bool,
}

/// Run the instructions of a level.
pub async fn run(ex: &mut Exchange, location: &Arc<Location>) -> Outcome {
    let mut run = Run {
        changed: false,
        quotes: true,
    };
    match run_ops(ex, location, &location.ops, &mut run) {
        Next::Flow(flow) => Outcome::Flow(flow),
        Next::Stop => Outcome::Continue { uri_changed: false },
        Next::Go | Next::Last => Outcome::Continue {
            uri_changed: run.changed,
        },
    }
}

fn run_ops(ex: &mut Exchange, location: &Arc<Location>, ops: &[Op], run: &mut Run) -> Next {
    for op in ops {
        let next = match op {
            Op::Nop => Next::Go,
            Op::Break => {
                if run.changed {
                    ex.location_valid = false;
                }
                Next::Stop
            }
            Op::Set { var, value } => {
                let text = if run.quotes && (ex.uri.quoted || ex.uri.has_plus) {
                    with_quoted_captures(ex, value)
                } else {
                    template::eval(ex, value)
                };
                set(ex, *var, &text);
                Next::Go
            }
            Op::Return { status, text } => Next::Flow(ret(ex, *status, text.as_ref())),
            Op::If { cond, ops, conf } => {
                match holds(ex, cond) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(flow) => return Next::Flow(flow),
                }
                if let Some(inner) = conf.and_then(|i| location.ifs.get(i)) {
                    // As in nginx, the handler chosen by an earlier `if` stays, but a location
                    // without an upstream cannot pass the request on.
                    let passes = |l: &Location| l.handler.as_ref().is_some_and(Handler::passes);
                    ex.stranded = inner.handler.is_none() && (ex.stranded || passes(&ex.loc));
                    ex.loc = inner.clone();
                }
                run_ops(ex, location, ops, run)
            }
            Op::Rewrite { .. } => rewrite(ex, op, run),
        };
        if !matches!(next, Next::Go) {
            return next;
        }
    }
    Next::Go
}

/// Set a variable, including built-in ones with an effect.
pub fn set(ex: &mut Exchange, var: VarId, value: &[u8]) {
    let shared = ex.worker.shared.clone();
    match shared.config.vars.get(var).kind {
        VarKind::Builtin(Builtin::Args) => {
            ex.uri.set_args(Some(value.to_vec()));
            ex.uri_changed = true;
        }
        VarKind::Builtin(Builtin::LimitRate) => {
            let text = String::from_utf8_lossy(value);
            if let Some(rate) = parse_size(&text) {
                ex.limit_rate.set(Some(rate));
            }
        }
        VarKind::Builtin(Builtin::FastcgiPathInfo) => ex.fastcgi_path_info = Some(value.to_vec()),
        _ => ex.assign(var, value),
    }
}

/// Evaluate a condition; an error refuses the request.
fn holds(ex: &Exchange, cond: &Cond) -> Result<bool, Flow> {
    Ok(match cond {
        Cond::Var(var) => {
            let value = vars::value(ex, *var);
            !value.is_empty() && value != b"0"
        }
        Cond::Equals { var, value, negate } => {
            (vars::value(ex, *var) == template::eval(ex, value)) != *negate
        }
        Cond::Match {
            var,
            pattern,
            negate,
        } => {
            let subject = vars::value(ex, *var);
            let groups = pattern.captures(&subject);
            let hit = groups.is_some();
            match groups {
                Some(groups) => ex.set_captures(&subject, groups, pattern),
                None => ex.forget_captures(),
            }
            hit != *negate
        }
        Cond::File { path, test, negate } => {
            let path = match FilePath::of_template(ex, None, path) {
                Ok(path) => path,
                Err(Refused::Nul) => return Ok(*negate),
                Err(refused) => return Err(refused.into()),
            };
            let hit = match files::metadata(ex, &path) {
                Err(e) => match files::refuse_test(ex, &path, &e) {
                    Some(flow) => return Err(flow),
                    None => false,
                },
                Ok(m) => match test {
                    FileTest::File => m.is_file(),
                    FileTest::Dir => m.is_dir(),
                    FileTest::Exists => m.is_file() || m.is_dir(),
                    FileTest::Executable => {
                        std::os::unix::fs::PermissionsExt::mode(&m.permissions()) & 0o100 != 0
                    }
                },
            };
            hit != *negate
        }
    })
}

/// Carry out `return`: a redirect for redirect statuses, otherwise a response with the text as
/// body.
fn ret(ex: &mut Exchange, status: u16, text: Option<&Template>) -> Flow {
    let Some(text) = text else {
        if status >= 400 {
            return Flow::Status(status);
        }
        return direct(ex, status, Vec::new());
    };
    // The text may contain `$status`.
    ex.response.status = status;
    let value = template::eval(ex, text);
    direct(ex, status, value)
}

fn direct(ex: &mut Exchange, status: u16, value: Vec<u8>) -> Flow {
    if let Err(status) = ex.source.discard_ready() {
        return Flow::Status(status);
    }
    if matches!(status, 301 | 302 | 303 | 307 | 308) {
        ex.response.location = Some(value);
        return Flow::Status(status);
    }
    ex.response.status = status;
    ex.response.content_length = Some(value.len() as u64);
    ex.response.content_type = Some(crate::handlers::content_type(ex));
    ex.response.body = Body::bytes(value);
    ex.response.filterable = true;
    // Restrictions for 204 apply after the filters, since variables in `add_header` can use the
    // removed values.
    Flow::Done
}

fn rewrite(ex: &mut Exchange, op: &Op, run: &mut Run) -> Next {
    let Op::Rewrite {
        pattern,
        replacement,
        flag,
        add_args,
        ..
    } = op
    else {
        return Next::Go;
    };
    let Some(groups) = pattern.captures(&ex.uri.path) else {
        ex.forget_captures();
        return Next::Go;
    };
    run.quotes = false;
    let subject = ex.uri.path.clone();
    ex.set_captures(&subject, groups, pattern);
    if ex.loc.conf.rewrite_log == Some(true) {
        let message = format!(
            "\"{}\" matches \"{}\"",
            pattern.source(),
            String::from_utf8_lossy(&subject)
        );
        ex.log(Level::Notice, &message);
    }
    let redirect = matches!(flag, RewriteFlag::Redirect(_));
    let (mut path, args) = replace(ex, replacement, redirect);
    let mut args = args;
    let mut dropped = false;
    if *add_args && !ex.uri.args.is_empty() {
        match &mut args {
            Some(args) => {
                // As in nginx, this also applies after an empty variable.
                args.push(b'&');
                args.extend_from_slice(&ex.uri.args);
            }
            None => args = Some(ex.uri.args.clone()),
        }
    } else if !*add_args && args.is_none() {
        dropped = true;
    }
    if let RewriteFlag::Redirect(status) = flag {
        if let Some(args) = args {
            path.push(b'?');
            path.extend_from_slice(&args);
        }
        ex.response.location = Some(unescape_redirect(path));
        return Next::Flow(Flow::Status(*status));
    }
    ex.internal = true;
    ex.uri.path = path;
    match args {
        Some(args) => ex.uri.set_args(Some(args)),
        None if dropped => ex.uri.args.clear(),
        None => {}
    }
    if ex.uri.path.is_empty() {
        ex.log(Level::Error, "the rewritten URI has a zero length");
        return Next::Flow(Flow::Status(500));
    }
    ex.uri_changed = true;
    match flag {
        RewriteFlag::Break => {
            ex.location_valid = false;
            Next::Stop
        }
        RewriteFlag::Last => {
            run.changed = true;
            Next::Last
        }
        _ => {
            run.changed = true;
            Next::Go
        }
    }
}

/// Undo the escaping of captures and arguments that a redirect's path does not need.
fn unescape_redirect(text: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut i = 0;
    while i < text.len() {
        let c = text[i];
        if c == b'%' {
            if let Some(decoded) = escape::hex_pair(&text[i + 1..]) {
                if decoded > b'%' && decoded < 0x7f {
                    out.push(decoded);
                } else {
                    out.extend_from_slice(&text[i..i + 3]);
                }
                i += 3;
                if decoded == b'?' {
                    break;
                }
                continue;
            }
            // As in nginx, an incomplete escape sequence is dropped.
            let is_digit = text.get(i + 1).is_some_and(u8::is_ascii_hexdigit);
            out.extend(text.get(i + 1).filter(|_| !is_digit));
            i = text.len().min(i + if is_digit { 3 } else { 2 });
            continue;
        }
        out.push(c);
        i += 1;
        if c == b'?' {
            break;
        }
    }
    out.extend_from_slice(&text[i..]);
    out
}

/// A template's text with its captures escaped as in arguments.
fn with_quoted_captures(ex: &Exchange, value: &Template) -> Vec<u8> {
    let mut out = Vec::new();
    for part in value.parts.iter() {
        match part {
            Part::Lit(text) => out.extend_from_slice(text),
            Part::Var(id) => {
                vars::eval(ex, *id, &mut out);
            }
            Part::Capture(n) => {
                let mut text = Vec::new();
                template::capture(ex, *n, &mut text);
                escape::escape(&text, Use::Args, &mut out);
            }
        }
    }
    out
}

/// The path and arguments of a replacement. Captures are escaped in arguments and in redirects.
fn replace(ex: &Exchange, replacement: &Template, redirect: bool) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut out = Vec::new();
    let mut args_at = None;
    for part in replacement.parts.iter() {
        match part {
            Part::Lit(text) => {
                if args_at.is_none() {
                    if let Some(i) = memchr::memchr(b'?', text) {
                        args_at = Some(out.len() + i);
                    }
                }
                out.extend_from_slice(text);
            }
            Part::Var(id) => {
                vars::eval(ex, *id, &mut out);
            }
            Part::Capture(n) => {
                if (args_at.is_some() || redirect) && (ex.uri.quoted || ex.uri.has_plus) {
                    let mut text = Vec::new();
                    template::capture(ex, *n, &mut text);
                    escape::escape(&text, Use::Args, &mut out);
                } else {
                    template::capture(ex, *n, &mut out);
                }
            }
        }
    }
    match args_at {
        Some(at) => {
            let args = out.split_off(at);
            (out, Some(args[1..].to_vec()))
        }
        None => (out, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_drops_invalid_escapes() {
        for (text, expected) in [
            ("/%41%20", "/A%20"),
            ("/a%", "/a"),
            ("/a%zb", "/azb"),
            ("/a%4zb", "/ab"),
            ("/a%4", "/a"),
            ("/a?%zz%41", "/a?%zz%41"),
        ] {
            assert_eq!(unescape_redirect(text.into()), expected.as_bytes());
        }
    }
}
