//! The blocks `location` and `limit_except`.

use crate::builder::{Builder, LocNode};
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};

pub const TABLE: &[Spec] = &[
    block("location", SRV | LOC, Arity(1, 2), location),
    block("limit_except", LOC, MORE, limit_except),
    with("internal", LOC, NONE, |b, d| {
        store(&mut b.node().internal, true, d)
    }),
];

fn location(b: &mut Builder, d: &Directive) -> Result<()> {
    let (kind, name) = location_name(b, d)?;
    check_nesting(b, d, &kind, &name)?;
    check_duplicate(b, d, &kind, &name)?;
    let node = LocNode::new(&name, kind, &d.place);
    let node = b.read_location(node, LOC, d)?;
    b.node().children.push(node);
    Ok(())
}

fn location_name(b: &mut Builder, d: &Directive) -> Result<(LocKind, String)> {
    let args = d.args();
    if let [modifier, name] = args {
        return name_after(b, d, modifier, name);
    }
    let word = &args[0];
    Ok(if let Some(name) = word.strip_prefix('=') {
        (LocKind::Exact, name.into())
    } else if let Some(name) = word.strip_prefix("^~") {
        (prefix(true), name.into())
    } else if let Some(source) = word.strip_prefix("~*") {
        (
            LocKind::Regex(b.pattern(source, true, &d.place)?),
            source.into(),
        )
    } else if let Some(source) = word.strip_prefix('~') {
        (
            LocKind::Regex(b.pattern(source, false, &d.place)?),
            source.into(),
        )
    } else if word.starts_with('@') {
        (LocKind::Named, word.clone())
    } else {
        (prefix(false), word.clone())
    })
}

/// The kind and name of a location whose modifier is a word of its own.
fn name_after(
    b: &mut Builder,
    d: &Directive,
    modifier: &str,
    name: &str,
) -> Result<(LocKind, String)> {
    Ok(match modifier {
        "=" => (LocKind::Exact, name.into()),
        "^~" => (prefix(true), name.into()),
        "~" => (
            LocKind::Regex(b.pattern(name, false, &d.place)?),
            name.into(),
        ),
        "~*" => (
            LocKind::Regex(b.pattern(name, true, &d.place)?),
            name.into(),
        ),
        other => {
            return Err(ConfError::new(format!(
                "invalid location modifier \"{other}\""
            )));
        }
    })
}

fn prefix(no_regex: bool) -> LocKind {
    LocKind::Prefix { no_regex }
}

fn check_nesting(b: &mut Builder, d: &Directive, kind: &LocKind, name: &str) -> Result<()> {
    if b.ctx != LOC {
        return Ok(());
    }
    let outer = b.node();
    let message = match (&outer.kind, kind) {
        (LocKind::Exact, _) => {
            format!(
                "location \"{name}\" cannot be inside the exact location \"{}\"",
                outer.name
            )
        }
        (LocKind::Named, _) => {
            format!(
                "location \"{name}\" cannot be inside the named location \"{}\"",
                outer.name
            )
        }
        (_, LocKind::Named) => {
            format!("named location \"{name}\" can be on the server level only")
        }
        (LocKind::Prefix { .. }, LocKind::Prefix { .. } | LocKind::Exact)
            if !name.starts_with(&outer.name) =>
        {
            format!("location \"{name}\" is outside location \"{}\"", outer.name)
        }
        _ => return Ok(()),
    };
    Err(ConfError::at(message, &d.place))
}

fn check_duplicate(b: &mut Builder, d: &Directive, kind: &LocKind, name: &str) -> Result<()> {
    let same = |other: &LocKind| {
        matches!(
            (kind, other),
            (LocKind::Exact, LocKind::Exact)
                | (LocKind::Named, LocKind::Named)
                | (LocKind::Prefix { .. }, LocKind::Prefix { .. })
        )
    };
    if b.node()
        .children
        .iter()
        .any(|c| same(&c.kind) && c.name == name)
    {
        return Err(ConfError::at(
            format!("duplicate location \"{name}\""),
            &d.place,
        ));
    }
    Ok(())
}

const METHODS: &[&str] = &[
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "MKCOL",
    "COPY",
    "MOVE",
    "OPTIONS",
    "PROPFIND",
    "PROPPATCH",
    "LOCK",
    "UNLOCK",
    "PATCH",
];

fn limit_except(b: &mut Builder, d: &Directive) -> Result<()> {
    if b.node().limit_except.is_some() {
        return Err(duplicate(d));
    }
    let mut methods = Vec::new();
    for word in d.args() {
        let upper = word.to_ascii_uppercase();
        if !METHODS.contains(&upper.as_str()) {
            return Err(ConfError::new(format!("invalid method \"{word}\"")));
        }
        if upper == "GET" {
            methods.push("HEAD".to_string());
        }
        methods.push(upper);
    }
    let name = b.node().name.clone();
    let node = b.read_location(LocNode::new(&name, LocKind::Nameless, &d.place), LMT, d)?;
    b.node().limit_except = Some((methods, Box::new(node)));
    Ok(())
}
