//! `userid_*`: cookies that tell visitors apart.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::values::parse_sec;
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    with("userid", HSL, ONE, |b, d| {
        let mode = choice(d, &d.args()[0], MODES)?;
        store(&mut userid(b).mode, mode, d)
    }),
    simple(
        "userid_service",
        HSL,
        ONE,
        Setter::Num(|b| &mut userid(b).service),
    ),
    simple(
        "userid_name",
        HSL,
        ONE,
        Setter::Str(|b| &mut userid(b).name),
    ),
    with("userid_domain", HSL, ONE, |b, d| {
        let value = unless_none(d);
        store(&mut userid(b).domain, value, d)
    }),
    simple(
        "userid_path",
        HSL,
        ONE,
        Setter::Str(|b| &mut userid(b).path),
    ),
    with("userid_expires", HSL, ONE, |b, d| {
        let expires = match d.args()[0].as_str() {
            "off" => UserIdExpires::Off,
            "max" => UserIdExpires::Max,
            time => UserIdExpires::After(parse_sec(time).ok_or_else(|| invalid_value(d))?),
        };
        store(&mut userid(b).expires, expires, d)
    }),
    with("userid_flags", HSL, Arity(1, 3), |b, d| {
        let bits = bitmask(b, d, user_id_flags::NAMES)?;
        add_bits(&mut userid(b).flags, bits)
    }),
    with("userid_p3p", HSL, ONE, |b, d| {
        let value = unless_none(d);
        store(&mut userid(b).p3p, value, d)
    }),
    with("userid_mark", HSL, ONE, |b, d| {
        let mark = mark(d)?;
        store(&mut userid(b).mark, mark, d)
    }),
];

const MODES: &[(&str, UserIdMode)] = &[
    ("off", UserIdMode::Off),
    ("log", UserIdMode::Log),
    ("v1", UserIdMode::V1),
    ("on", UserIdMode::On),
];

fn userid(b: &mut Builder) -> &mut UserIdConf {
    Arc::make_mut(b.loc().userid.get_or_insert_with(Arc::default))
}

/// The argument; `None` for "none".
fn unless_none(d: &Directive) -> Option<String> {
    Some(d.args()[0].clone()).filter(|word| word != "none")
}

/// The letter that marks cookies; `None` for "off".
fn mark(d: &Directive) -> Result<Option<u8>> {
    match d.args()[0].as_bytes() {
        b"off" => Ok(None),
        [c] if c.is_ascii_alphanumeric() || *c == b'=' => Ok(Some(*c)),
        _ => Err(ConfError::new(
            "value must be \"off\" or a single letter, digit or \"=\"",
        )),
    }
}
