//! The name servers, `resolver`.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::values::parse_msec;
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    with("resolver", HSL | UPS | STREAM | SSRV | SUPS, MORE, resolver),
    with(
        "resolver_timeout",
        HSL | UPS | STREAM | SSRV | SUPS,
        ONE,
        |b, d| {
            let ms = parse_msec(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
            match &mut b.upstream {
                Some(group) => store(&mut group.resolver_timeout, ms, d),
                None => store(&mut b.loc().resolver_timeout, ms, d),
            }
        },
    ),
];

fn resolver(b: &mut Builder, d: &Directive) -> Result<()> {
    let mut conf = ResolverConf {
        servers: Vec::new(),
        valid: None,
        ipv4: true,
        ipv6: true,
    };
    for word in d.args() {
        match word.split_once('=') {
            Some(("valid", time)) => {
                let ms = parse_msec(time)
                    .ok_or_else(|| ConfError::new(format!("invalid parameter: {word}")))?;
                conf.valid = Some(ms);
            }
            Some(("ipv6", v)) => conf.ipv6 = flag(d, v)?,
            Some(("ipv4", v)) => conf.ipv4 = flag(d, v)?,
            Some(("status_zone", _)) => {}
            _ => {
                let found = crate::listen::resolve(word, 53)
                    .map_err(|e| ConfError::new(format!("{e} in resolver \"{word}\"")))?;
                conf.servers.extend(found);
            }
        }
    }
    if !conf.ipv4 && !conf.ipv6 {
        return Err(ConfError::new(
            "\"ipv4\" and \"ipv6\" cannot both be \"off\"",
        ));
    }
    if conf.servers.is_empty() {
        return Err(ConfError::new("no name servers defined"));
    }
    match &mut b.upstream {
        Some(group) => store(&mut group.resolver, Arc::new(conf), d),
        None => store(&mut b.loc().resolver, Arc::new(conf), d),
    }
}
