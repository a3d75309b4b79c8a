//! The connection of a client: its request bodies, and the time that it stays open.

use crate::builder::Builder;
use crate::error::Result;
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::values::{parse_msec, parse_sec};

pub const TABLE: &[Spec] = &[
    simple(
        "client_max_body_size",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().client_max_body_size),
    ),
    simple(
        "client_body_buffer_size",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().client_body_buffer_size),
    ),
    simple(
        "client_body_timeout",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().client_body_timeout),
    ),
    with("client_body_in_file_only", HSL, ONE, |b, d| {
        let choices = &[
            ("off", InFile::Off),
            ("on", InFile::On),
            ("clean", InFile::Clean),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.loc().client_body_in_file_only, value, d)
    }),
    simple(
        "client_body_in_single_buffer",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().client_body_in_single_buffer),
    ),
    simple(
        "client_body_temp_path",
        HSL,
        Arity(1, 4),
        Setter::TempPath(|b| &mut b.loc().client_body_temp_path),
    ),
    with("keepalive_timeout", HSL, Arity(1, 2), keepalive_timeout),
    simple(
        "keepalive_requests",
        HSL,
        ONE,
        Setter::Num(|b| &mut b.loc().keepalive_requests),
    ),
    simple(
        "keepalive_time",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().keepalive_time),
    ),
    simple(
        "keepalive_min_timeout",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().keepalive_min_timeout),
    ),
    with("keepalive_disable", HSL, Arity(1, 2), |b, d| {
        let bits = bitmask(b, d, &[("none", 0), ("msie6", 1), ("safari", 2)])?;
        store(&mut b.loc().keepalive_disable, bits, d)
    }),
    with("lingering_close", HSL, ONE, |b, d| {
        let choices = &[
            ("off", Lingering::Off),
            ("on", Lingering::On),
            ("always", Lingering::Always),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.loc().lingering_close, value, d)
    }),
    simple(
        "lingering_time",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().lingering_time),
    ),
    simple(
        "lingering_timeout",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().lingering_timeout),
    ),
    simple(
        "reset_timedout_connection",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().reset_timedout_connection),
    ),
];

fn keepalive_timeout(b: &mut Builder, d: &Directive) -> Result<()> {
    let args = d.args();
    let timeout = parse_msec(&args[0]).ok_or_else(|| invalid_value(d))?;
    store(&mut b.loc().keepalive_timeout, timeout, d)?;
    if let Some(word) = args.get(1) {
        let seconds = parse_sec(word).ok_or_else(|| invalid_value(d))?;
        // As in nginx, an unset value is inherited from the outer level.
        b.loc().keepalive_header = Some(seconds);
    }
    Ok(())
}
