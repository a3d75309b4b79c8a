//! rewrite, return, set, if, and break.

use crate::builder::{Builder, LocNode};
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::template::{variable_name, Template};
use crate::values::parse_digits;
use crate::vars::VarKind;

const REWRITE: u32 = SRV | SIF | LOC | LIF;

pub const TABLE: &[Spec] = &[
    with("rewrite", REWRITE, Arity(2, 3), rewrite),
    with("return", REWRITE, Arity(1, 2), ret),
    with("break", REWRITE, NONE, |b, _| {
        emit(b, Op::Break);
        Ok(())
    }),
    with("set", REWRITE, TWO, set),
    block("if", SRV | LOC, MORE, if_block),
    simple(
        "rewrite_log",
        HTTP | REWRITE,
        ONE,
        Setter::Flag(|b| &mut b.loc().rewrite_log),
    ),
    simple(
        "uninitialized_variable_warn",
        HTTP | REWRITE,
        ONE,
        Setter::Flag(|b| &mut b.loc().uninitialized_variable_warn),
    ),
];

fn emit(b: &mut Builder, op: Op) {
    match b.op_stack.last_mut() {
        Some(ops) => ops.push(op),
        None => b.node().ops.push(op),
    }
}

fn rewrite(b: &mut Builder, d: &Directive) -> Result<()> {
    let args = d.args();
    let pattern = b.pattern(&args[0], false, &d.place)?;
    if args[1].is_empty() {
        return Err(ConfError::new("empty replacement"));
    }
    let (text, add_args) = match args[1].strip_suffix('?') {
        Some(text) => (text, false),
        None => (args[1].as_str(), true),
    };
    let external = is_external(text);
    let flag = match args.get(2).map(String::as_str) {
        // A redirect ends the processing, so these flags have no further effect.
        None | Some("last" | "break") if external => RewriteFlag::Redirect(302),
        None => RewriteFlag::None,
        Some("last") => RewriteFlag::Last,
        Some("break") => RewriteFlag::Break,
        Some("redirect") => RewriteFlag::Redirect(302),
        Some("permanent") => RewriteFlag::Redirect(301),
        Some(other) => return Err(invalid_parameter(d, other)),
    };
    let replacement = b.template(text, &d.place)?;
    emit(
        b,
        Op::Rewrite {
            pattern,
            replacement,
            flag,
            add_args,
            place: d.place.clone(),
        },
    );
    Ok(())
}

fn is_external(target: &str) -> bool {
    let mut starts = ["http://", "https://", "$scheme"].iter();
    starts.any(|start| target.starts_with(start))
}

fn ret(b: &mut Builder, d: &Directive) -> Result<()> {
    let args = d.args();
    let code = parse_digits(&args[0]);
    let (status, text) = match (code, args.get(1)) {
        (Some(code), text) if code <= 999 => {
            let text = match text {
                Some(t) => Some(b.template(t, &d.place)?),
                None => None,
            };
            (code as u16, text)
        }
        (None, None) if is_external(&args[0]) => (302, Some(b.template(&args[0], &d.place)?)),
        _ => {
            return Err(ConfError::new(format!(
                "invalid return code \"{}\"",
                args[0]
            )))
        }
    };
    emit(b, Op::Return { status, text });
    Ok(())
}

fn set(b: &mut Builder, d: &Directive) -> Result<()> {
    let name = variable_name(&d.args()[0], &d.place)?;
    let var = b.vars.define(name, VarKind::Assigned, &d.place)?;
    let value = b.template(&d.args()[1], &d.place)?;
    emit(b, Op::Set { var, value });
    Ok(())
}

fn if_block(b: &mut Builder, d: &Directive) -> Result<()> {
    let cond = condition(b, d)?;
    b.op_stack.push(Vec::new());
    let in_location = b.ctx == LOC;
    let context = if in_location { LIF } else { SIF };
    let name = b.node().name.clone();
    let result = b.read_location(LocNode::new(&name, LocKind::Nameless, &d.place), context, d);
    let ops = b.op_stack.pop().expect("pushed above");
    let node = result?;
    let conf = if in_location {
        b.node().ifs.push(node);
        Some(b.node().ifs.len() - 1)
    } else {
        None
    };
    emit(b, Op::If { cond, ops, conf });
    Ok(())
}

fn condition(b: &mut Builder, d: &Directive) -> Result<Cond> {
    let words = strip_parentheses(d)?;
    let invalid = || ConfError::at(format!("invalid condition \"{}\"", words[0]), &d.place);
    let first = words[0].as_str();
    if first.starts_with('$') {
        let name = variable_name(first, &d.place)?;
        let var = b.vars.intern(name);
        return match &words[1..] {
            [] => Ok(Cond::Var(var)),
            [op, value] => comparison(b, d, var, op, value),
            _ => Err(invalid()),
        };
    }
    let (negate, test) = match first.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, first),
    };
    let test = match test {
        "-f" => FileTest::File,
        "-d" => FileTest::Dir,
        "-e" => FileTest::Exists,
        "-x" => FileTest::Executable,
        _ => return Err(invalid()),
    };
    let [_, path] = words.as_slice() else {
        return Err(invalid());
    };
    let base = b.prefix.clone();
    let path = b.path_template(path, &base, &d.place)?;
    Ok(Cond::File { path, test, negate })
}

fn comparison(
    b: &mut Builder,
    d: &Directive,
    var: crate::vars::VarId,
    op: &str,
    value: &str,
) -> Result<Cond> {
    let unexpected = || ConfError::at(format!("unexpected \"{op}\" in condition"), &d.place);
    Ok(match op {
        "=" | "!=" => {
            let value: Template = b.template(value, &d.place)?;
            Cond::Equals {
                var,
                value,
                negate: op == "!=",
            }
        }
        "~" | "~*" | "!~" | "!~*" => {
            let pattern = b.pattern(value, op.ends_with('*'), &d.place)?;
            Cond::Match {
                var,
                pattern,
                negate: op.starts_with('!'),
            }
        }
        _ => return Err(unexpected()),
    })
}

/// Split the words between `(` and `)`. The parentheses may be separate words or not.
fn strip_parentheses(d: &Directive) -> Result<Vec<String>> {
    let args = d.args();
    let invalid = |word: &str| ConfError::at(format!("invalid condition \"{word}\""), &d.place);
    let mut words: Vec<String> = args.to_vec();
    let Some(first) = args[0].strip_prefix('(') else {
        return Err(invalid(&args[0]));
    };
    words[0] = first.to_string();
    let last = words.last_mut().expect("at least one word");
    let Some(end) = last.strip_suffix(')') else {
        let word = last.clone();
        return Err(invalid(&word));
    };
    *last = end.to_string();
    if words.last().is_some_and(String::is_empty)
        && words.len() > 1
        && args.last().is_some_and(|w| w == ")")
    {
        words.pop();
    }
    if words.first().is_some_and(String::is_empty) && words.len() > 1 {
        words.remove(0);
    }
    if words[0].is_empty() {
        return Err(invalid(&args[0]));
    }
    Ok(words)
}
