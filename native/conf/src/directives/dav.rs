//! dav_methods and the directives about files that clients change.

use super::cache::access_mode;
use crate::model::dav;
use crate::table::{ctx::HSL, *};

pub const TABLE: &[Spec] = &[
    with("dav_methods", HSL, MORE, |b, d| {
        let bits = bitmask(b, d, dav::NAMES)?;
        add_bits(&mut b.loc().dav_methods, bits)
    }),
    with("dav_access", HSL, Arity(1, 3), |b, d| {
        let mode = access_mode(d)?;
        store(&mut b.loc().dav_access, mode, d)
    }),
    simple(
        "create_full_put_path",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().create_full_put_path),
    ),
    simple(
        "min_delete_depth",
        HSL,
        ONE,
        Setter::Num(|b| &mut b.loc().min_delete_depth),
    ),
];
