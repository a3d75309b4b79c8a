//! `fastcgi_*`, `uwsgi_*`, `scgi_*`, `memcached_*`, and `grpc_*`.

use super::upstream_conf::upstream_of;
use super::upstream_shared::{bind, connection, header, ignored_headers, set_header, shared, tls};
use super::{cache, ssl};
use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use std::sync::Arc;

pub const FASTCGI_CONNECTION: &[Spec] = connection!(fastcgi, "fastcgi_");
pub const FASTCGI: &[Spec] = shared!(
    fastcgi,
    "fastcgi_",
    [
        with("fastcgi_pass", LOC | LIF, ONE, |b, d| pass(
            b,
            d,
            AppProtocol::Fastcgi
        )),
        with("fastcgi_param", HSL, Arity(2, 3), |b, d| {
            let param = param(b, d)?;
            push(&mut b.fastcgi().params, param);
            Ok(())
        }),
        simple(
            "fastcgi_index",
            HSL,
            ONE,
            Setter::Str(|b| &mut b.fastcgi().index)
        ),
        with("fastcgi_split_path_info", HSL, ONE, split_path_info),
        simple(
            "fastcgi_keep_conn",
            HSL,
            ONE,
            Setter::Flag(|b| &mut b.fastcgi().keep_conn)
        ),
        simple(
            "fastcgi_catch_stderr",
            HSL,
            ONE,
            Setter::Strings(|b| &mut b.fastcgi().catch_stderr)
        ),
    ]
);

pub const UWSGI_CONNECTION: &[Spec] = connection!(uwsgi, "uwsgi_");
pub const UWSGI_TLS: &[Spec] = tls!(uwsgi, "uwsgi_ssl_", HSL);
pub const UWSGI: &[Spec] = shared!(
    uwsgi,
    "uwsgi_",
    [
        with("uwsgi_pass", LOC | LIF, ONE, |b, d| pass(
            b,
            d,
            AppProtocol::Uwsgi
        )),
        with("uwsgi_param", HSL, Arity(2, 3), |b, d| {
            let param = param(b, d)?;
            push(&mut b.uwsgi().params, param);
            Ok(())
        }),
        simple(
            "uwsgi_modifier1",
            HSL,
            ONE,
            Setter::Num(|b| &mut b.uwsgi().modifier1)
        ),
        simple(
            "uwsgi_modifier2",
            HSL,
            ONE,
            Setter::Num(|b| &mut b.uwsgi().modifier2)
        ),
        simple(
            "uwsgi_string",
            HSL,
            ONE,
            Setter::Str(|b| &mut b.uwsgi().uwsgi_string)
        ),
    ]
);

pub const SCGI_CONNECTION: &[Spec] = connection!(scgi, "scgi_");
pub const SCGI: &[Spec] = shared!(
    scgi,
    "scgi_",
    [
        with("scgi_pass", LOC | LIF, ONE, |b, d| pass(
            b,
            d,
            AppProtocol::Scgi
        )),
        with("scgi_param", HSL, Arity(2, 3), |b, d| {
            let param = param(b, d)?;
            push(&mut b.scgi().params, param);
            Ok(())
        }),
    ]
);

pub const MEMCACHED_CONNECTION: &[Spec] = connection!(memcached, "memcached_");
pub const MEMCACHED: &[Spec] = &[
    with("memcached_pass", LOC | LIF, ONE, |b, d| {
        pass(b, d, AppProtocol::Memcached)
    }),
    with("memcached_next_upstream", HSL, MORE, |b, d| {
        let bits = bitmask(b, d, next::MEMCACHED_NAMES)?;
        add_bits(&mut b.memcached().next_upstream, bits)
    }),
    simple(
        "memcached_gzip_flag",
        HSL,
        ONE,
        Setter::Num(|b| &mut b.memcached().gzip_flag),
    ),
];

pub const GRPC_CONNECTION: &[Spec] = connection!(grpc, "grpc_");
pub const GRPC_TLS: &[Spec] = tls!(grpc, "grpc_ssl_", HSL);
pub const GRPC: &[Spec] = &[
    with("grpc_pass", LOC | LIF, ONE, |b, d| {
        pass(b, d, AppProtocol::Grpc)
    }),
    with("grpc_set_header", HSL, TWO, |b, d| {
        let header = header(b, d)?;
        set_header(b.grpc(), header);
        Ok(())
    }),
    simple(
        "grpc_pass_header",
        HSL,
        ONE,
        Setter::Strings(|b| &mut b.grpc().pass_headers),
    ),
    simple(
        "grpc_hide_header",
        HSL,
        ONE,
        Setter::Strings(|b| &mut b.grpc().hide_headers),
    ),
    with("grpc_ignore_headers", HSL, MORE, |b, d| {
        let names = ignored_headers(b, d)?;
        names
            .into_iter()
            .for_each(|name| push(&mut b.grpc().ignore_headers, name));
        Ok(())
    }),
    simple(
        "grpc_intercept_errors",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.grpc().intercept_errors),
    ),
    with("grpc_next_upstream", HSL, MORE, |b, d| {
        let bits = bitmask(b, d, next::GRPC_NAMES)?;
        add_bits(&mut b.grpc().next_upstream, bits)
    }),
];

fn param(b: &mut Builder, d: &Directive) -> Result<Param> {
    let value = b.template(&d.args()[1], &d.place)?;
    let if_not_empty = match d.args().get(2).map(String::as_str) {
        None => false,
        Some("if_not_empty") => true,
        Some(other) => return Err(invalid_parameter(d, other)),
    };
    Ok(Param {
        name: d.args()[0].clone(),
        value,
        if_not_empty,
    })
}

fn split_path_info(b: &mut Builder, d: &Directive) -> Result<()> {
    let pattern = b.pattern(&d.args()[0], false, &d.place)?;
    if pattern.groups() != 2 {
        return Err(ConfError::new(format!(
            "pattern \"{}\" must have 2 captures",
            d.args()[0]
        )));
    }
    store(&mut b.fastcgi().split_path_info, pattern, d)
}

/// Split an address into whether it asks for TLS and the part after the scheme, which only uwsgi
/// and gRPC addresses may have.
pub fn split_scheme(protocol: AppProtocol, address: &str) -> (bool, &str) {
    let after = |scheme: &str| {
        let (start, rest) = address.split_at_checked(scheme.len())?;
        let fits = start.eq_ignore_ascii_case(scheme) && !rest.is_empty();
        fits.then_some(rest)
    };
    match protocol {
        AppProtocol::Uwsgi | AppProtocol::Grpc => {
            let schemes = match protocol {
                AppProtocol::Grpc => ["grpc://", "grpcs://"],
                _ => ["uwsgi://", "suwsgi://"],
            };
            match schemes.map(after) {
                [Some(rest), _] => (false, rest),
                [_, Some(rest)] => (true, rest),
                _ => (false, address),
            }
        }
        AppProtocol::Fastcgi | AppProtocol::Scgi | AppProtocol::Memcached => (false, address),
    }
}

fn pass(b: &mut Builder, d: &Directive, protocol: AppProtocol) -> Result<()> {
    if b.node().handler.is_some() {
        return Err(duplicate(d));
    }
    let word = d.args()[0].as_str();
    let mut pass = AppPass {
        protocol,
        target: Target::Variable,
        address: None,
        tls: false,
        host: String::new(),
        key: None,
    };
    if protocol == AppProtocol::Memcached {
        pass.key = Some(b.template("$memcached_key", &d.place)?);
    }
    if word.contains('$') && protocol != AppProtocol::Memcached {
        pass.address = Some(b.template(word, &d.place)?);
    } else {
        let (tls, authority) = split_scheme(protocol, word);
        pass.target = Target::Upstream(upstream_of(b, d, authority, 0)?);
        (pass.tls, pass.host) = (tls, authority.to_owned());
    }
    b.node().handler = Some(Handler::Application(Arc::new(pass)));
    Ok(())
}
