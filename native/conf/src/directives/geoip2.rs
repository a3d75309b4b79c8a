//! `geoip2` of the module ngx_http_geoip2_module and its sibling for `stream`.

use super::maps::network;
use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::mmdb::{Database, Metadata, Step};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::template::{variable_name, Template};
use crate::values::parse_sec;
use crate::vars::VarKind;
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    block("geoip2", HTTP | STREAM, ONE, geoip2),
    with("geoip2_proxy", HTTP, ONE, |b, d| {
        let net = network(b, &d.args()[0], d)?;
        push(&mut b.loc().geoip2_proxy, net);
        Ok(())
    }),
    simple(
        "geoip2_proxy_recursive",
        HTTP,
        ONE,
        Setter::Flag(|b| &mut b.loc().geoip2_proxy_recursive),
    ),
];

fn geoip2(b: &mut Builder, d: &Directive) -> Result<()> {
    let path = b.conf_path(&d.args()[0]);
    let known = &mut b.http().geoip2_files;
    if known.contains(&path) {
        let message = format!("duplicate GeoIP2 database \"{}\"", path.display());
        return Err(ConfError::at(message, &d.place));
    }
    known.push(path.clone());
    let database = Database::open(&path, interval(d)?).map_err(|e| {
        let message = format!("MMDB_open(\"{}\") failed - {e}", path.display());
        ConfError::at(message, &d.place)
    })?;
    let database = Arc::new(database);
    for entry in d.block.iter().flatten() {
        if entry.block.is_some() {
            return Err(ConfError::at("unexpected \"{\"", &entry.place));
        }
        if entry.name() == "auto_reload" {
            continue;
        }
        let name = variable_name(entry.name(), &entry.place)?.to_string();
        let lookup = lookup(b, entry, database.clone())?;
        let kind = VarKind::Geoip2(Arc::new(lookup));
        b.vars.define(&name, kind, &entry.place)?;
    }
    Ok(())
}

/// The value of `auto_reload` in seconds.
fn interval(d: &Directive) -> Result<Option<u64>> {
    let mut found = None;
    let all = d.block.iter().flatten();
    for entry in all.filter(|entry| entry.name() == "auto_reload") {
        let [word] = entry.args() else {
            let message = "invalid number of arguments for auto_reload";
            return Err(ConfError::at(message, &entry.place));
        };
        let seconds = parse_sec(word).ok_or_else(|| {
            let message = format!("invalid interval for auto_reload \"{word}\"");
            ConfError::at(message, &entry.place)
        })?;
        found = Some(seconds);
    }
    Ok(found.filter(|&seconds| seconds > 0))
}

fn lookup(b: &mut Builder, entry: &Directive, database: Arc<Database>) -> Result<Geoip2> {
    let fault = |text: String| ConfError::at(text, &entry.place);
    if let [word, rest @ ..] = entry.args() {
        if word == "metadata" {
            let datum = Datum::Metadata(metadata(rest, entry)?);
            return Ok(Geoip2::new(database, datum));
        }
    }
    let (mut default, mut source) = (None, None);
    let mut words = entry.args();
    while let [word, rest @ ..] = words {
        match word.split_once('=') {
            None => break,
            Some(("default", value)) if !value.is_empty() && default.is_none() => {
                default = Some(Arc::from(value.as_bytes()));
            }
            Some(("source", value)) if source.is_none() => {
                variable_name(value, &entry.place)?;
                source = Some(b.template(value, &entry.place)?);
            }
            Some(_) => {
                let name = entry.name();
                return Err(fault(format!("invalid setting \"{word}\" for \"{name}\"")));
            }
        }
        words = rest;
    }
    if words.is_empty() {
        let name = entry.name();
        return Err(fault(format!("no path to a value for \"{name}\"")));
    }
    let steps = words.iter().map(|word| Step::new(word)).collect();
    Ok(Geoip2 {
        default,
        source,
        ..Geoip2::new(database, Datum::Field(steps))
    })
}

fn metadata(words: &[String], entry: &Directive) -> Result<Metadata> {
    let [word] = words else {
        let message = "invalid number of arguments for metadata";
        return Err(ConfError::at(message, &entry.place));
    };
    let choices = [
        ("build_epoch", Metadata::BuildEpoch),
        ("last_check", Metadata::LastCheck),
        ("last_change", Metadata::LastChange),
    ];
    let found = choices.iter().find(|(name, _)| name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let message = format!("invalid metadata field \"{word}\"");
        ConfError::at(message, &entry.place)
    })
}

impl Geoip2 {
    fn new(database: Arc<Database>, datum: Datum) -> Geoip2 {
        Geoip2 {
            database,
            datum,
            source: None::<Template>,
            default: None,
        }
    }
}
