//! ssi, referer, secure_link, random_index, mirror, addition, sub, and disable_symlinks.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::names::ServerName;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    with("valid_referers", SRV | LOC, MORE, valid_referers),
    simple(
        "referer_hash_max_size",
        SRV | LOC,
        ONE,
        Setter::Unused(Takes::Num),
    ),
    simple(
        "referer_hash_bucket_size",
        SRV | LOC,
        ONE,
        Setter::Unused(Takes::Num),
    ),
    simple(
        "secure_link",
        HSL,
        ONE,
        Setter::Tmpl(|b| &mut b.loc().secure_link),
    ),
    simple(
        "secure_link_md5",
        HSL,
        ONE,
        Setter::Tmpl(|b| &mut b.loc().secure_link_md5),
    ),
    simple(
        "secure_link_secret",
        HSL,
        ONE,
        Setter::Str(|b| &mut b.loc().secure_link_secret),
    ),
    simple(
        "random_index",
        LOC,
        ONE,
        Setter::Flag(|b| &mut b.loc().random_index),
    ),
    with("mirror", HSL, ONE, mirror),
    simple(
        "mirror_request_body",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().mirror_request_body),
    ),
    with("add_before_body", HSL, ONE, |b, d| {
        store(&mut b.loc().add_before_body, d.args()[0].clone(), d)
    }),
    with("add_after_body", HSL, ONE, |b, d| {
        store(&mut b.loc().add_after_body, d.args()[0].clone(), d)
    }),
    with("addition_types", HSL, MORE, |b, d| {
        super::filters::types(b, d, |l| &mut l.addition_types, "text/html")
    }),
    with("sub_filter", HSL, TWO, sub_filter),
    with("sub_filter_types", HSL, MORE, |b, d| {
        super::filters::types(b, d, |l| &mut l.sub_filter_types, "text/html")
    }),
    simple(
        "sub_filter_once",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().sub_filter_once),
    ),
    simple(
        "sub_filter_last_modified",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().sub_filter_last_modified),
    ),
    simple("gunzip", HSL, ONE, Setter::Flag(|b| &mut b.loc().gunzip)),
    simple("slice", HSL, ONE, Setter::Size(|b| &mut b.loc().slice)),
    simple("ssi", HSLI, ONE, Setter::Flag(|b| &mut b.loc().ssi)),
    simple(
        "ssi_silent_errors",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().ssi_silent_errors),
    ),
    simple(
        "ssi_last_modified",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().ssi_last_modified),
    ),
    with("ssi_types", HSL, MORE, |b, d| {
        super::filters::types(b, d, |l| &mut l.ssi_types, "text/html")
    }),
    simple("ssi_min_file_chunk", HSL, ONE, Setter::Unused(Takes::Size)),
    simple("ssi_value_length", HSL, ONE, Setter::Unused(Takes::Size)),
    simple(
        "ssi_ignore_recycled_buffers",
        HSL,
        ONE,
        Setter::Unused(Takes::Flag),
    ),
    simple("gunzip_buffers", HSL, TWO, Setter::Unused(Takes::Bufs)),
    with("disable_symlinks", HSL, Arity(1, 2), disable_symlinks),
];

fn valid_referers(b: &mut Builder, d: &Directive) -> Result<()> {
    for word in d.args() {
        let mut own = b.loc().valid_referers.take().unwrap_or_default();
        let referers = Arc::make_mut(&mut own);
        match word.as_str() {
            "" => return Err(ConfError::new("invalid referer \"\"")),
            "none" => referers.none = true,
            "blocked" => referers.blocked = true,
            "server_names" => referers.server_names = true,
            _ => referer(b, d, referers, word)?,
        }
        b.loc().valid_referers = Some(own);
    }
    Ok(())
}

fn referer(b: &mut Builder, d: &Directive, referers: &mut Referers, word: &str) -> Result<()> {
    if let Some(source) = word.strip_prefix('~') {
        if source.is_empty() {
            return Err(ConfError::new(format!("empty regex in \"{word}\"")));
        }
        referers.patterns.push(b.pattern(source, true, &d.place)?);
        return Ok(());
    }
    let (host, path) = match word.find('/') {
        Some(i) => (&word[..i], Some(word[i..].to_string())),
        None => (word, None),
    };
    let invalid = || ConfError::new(format!("invalid hostname or wildcard \"{host}\""));
    if host.is_empty() {
        return Err(invalid());
    }
    let name = ServerName::parse(host, &mut b.vars, &d.place).map_err(|_| invalid())?;
    if !referers.names.add(&name, &path) {
        let message = format!("conflicting parameter \"{host}\"");
        return Err(ConfError::new(message));
    }
    Ok(())
}

fn mirror(b: &mut Builder, d: &Directive) -> Result<()> {
    let word = &d.args()[0];
    let off = |list: &List<String>| list.as_ref().is_some_and(|l| l.is_empty());
    if word == "off" {
        return store(&mut b.loc().mirror, Arc::default(), d);
    }
    if off(&b.loc().mirror) {
        return Err(duplicate(d));
    }
    push(&mut b.loc().mirror, word.clone());
    Ok(())
}

fn sub_filter(b: &mut Builder, d: &Directive) -> Result<()> {
    let [from, to] = d.args() else {
        return Err(invalid_value(d));
    };
    if from.is_empty() {
        return Err(ConfError::new("empty search pattern"));
    }
    let pair = SubPair {
        from: b.template(from, &d.place)?,
        to: b.template(to, &d.place)?,
    };
    push(&mut b.loc().sub_filter, pair);
    Ok(())
}

fn disable_symlinks(b: &mut Builder, d: &Directive) -> Result<()> {
    let mut mode = None;
    let mut from = None;
    for word in d.args() {
        match word.as_str() {
            "off" => mode = Some(SymlinkMode::Off),
            "on" => mode = Some(SymlinkMode::On),
            "if_not_owner" => mode = Some(SymlinkMode::IfNotOwner),
            other => {
                let part = other
                    .strip_prefix("from=")
                    .ok_or_else(|| invalid_parameter(d, word))?;
                from = Some(b.template(part, &d.place)?);
            }
        }
    }
    let Some(mode) = mode else {
        return Err(ConfError::new(format!(
            "\"{}\" must have \"off\", \"on\" or \"if_not_owner\" parameter",
            d.name()
        )));
    };
    if d.args().len() == 2 && (mode == SymlinkMode::Off || from.is_none()) {
        return Err(ConfError::new(format!(
            "duplicate parameters \"{} {}\"",
            d.args()[0],
            d.args()[1]
        )));
    }
    store(&mut b.loc().disable_symlinks, Symlinks { mode, from }, d)
}
