//! The sizes of nginx's hash tables, which have no effect.

use crate::table::{ctx::*, *};

pub const TABLE: &[Spec] = &[
    simple(
        "types_hash_max_size",
        HSL,
        ONE,
        Setter::Num(|b| &mut b.loc().types_hash_max_size),
    ),
    simple(
        "types_hash_bucket_size",
        HSL,
        ONE,
        Setter::Num(|b| &mut b.loc().types_hash_bucket_size),
    ),
    simple(
        "variables_hash_max_size",
        HTTP | STREAM,
        ONE,
        Setter::Num(|b| &mut b.loc().variables_hash_max_size),
    ),
    simple(
        "variables_hash_bucket_size",
        HTTP | STREAM,
        ONE,
        Setter::Num(|b| &mut b.loc().variables_hash_bucket_size),
    ),
    simple(
        "server_names_hash_max_size",
        HTTP | STREAM,
        ONE,
        Setter::Num(|b| &mut b.loc().server_names_hash_max_size),
    ),
    simple(
        "server_names_hash_bucket_size",
        HTTP | STREAM,
        ONE,
        Setter::Num(|b| &mut b.loc().server_names_hash_bucket_size),
    ),
];
