//! The heads of responses: redirects, conditions, ranges, and the name of the server.

use crate::error::Result;
use crate::model::*;
use crate::table::{ctx::*, *};
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    simple(
        "absolute_redirect",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().absolute_redirect),
    ),
    simple(
        "server_name_in_redirect",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().server_name_in_redirect),
    ),
    simple(
        "port_in_redirect",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().port_in_redirect),
    ),
    simple(
        "chunked_transfer_encoding",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().chunked_transfer_encoding),
    ),
    simple("etag", HSL, ONE, Setter::Flag(|b| &mut b.loc().etag)),
    with("if_modified_since", HSL, ONE, |b, d| {
        let choices = &[
            ("off", IfModifiedSince::Off),
            ("exact", IfModifiedSince::Exact),
            ("before", IfModifiedSince::Before),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.loc().if_modified_since, value, d)
    }),
    simple(
        "max_ranges",
        HSL,
        ONE,
        Setter::Num(|b| &mut b.loc().max_ranges),
    ),
    with("server_tokens", HSL, ONE, |b, d| {
        let choices = &[
            ("on", Tokens::On),
            ("off", Tokens::Off),
            ("build", Tokens::Build),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.loc().server_tokens, value, d)
    }),
    // An extension of gallop: the product name in `Server` and on error pages, such as
    // `nginx/1.31.4`.
    with("server_product", HSL, ONE, |b, d| {
        let value: Arc<[u8]> = d.args()[0].as_bytes().into();
        if value.iter().any(|&c| c < 0x20 || c == 0x7f) {
            return Err(invalid_value(d));
        }
        store(&mut b.loc().server_header, value, d)
    }),
    with("early_hints", HSL, MORE, |b, d| {
        let values: Result<Vec<_>> = d.args().iter().map(|a| b.template(a, &d.place)).collect();
        add_values(&mut b.loc().early_hints, &values?)
    }),
];
