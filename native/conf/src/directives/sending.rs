//! The sending of responses: timeouts, reading of files, buffers, and rates.

use crate::builder::Builder;
use crate::error::Result;
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::template::Template;
use crate::values::parse_size;

pub const TABLE: &[Spec] = &[
    simple(
        "send_timeout",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().send_timeout),
    ),
    with("send_lowat", HSL, ONE, send_lowat),
    with("proxy_send_lowat", HSL, ONE, send_lowat),
    with("fastcgi_send_lowat", HSL, ONE, send_lowat),
    simple(
        "sendfile",
        HSLI,
        ONE,
        Setter::Flag(|b| &mut b.loc().sendfile),
    ),
    simple(
        "sendfile_max_chunk",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().sendfile_max_chunk),
    ),
    simple(
        "tcp_nopush",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().tcp_nopush),
    ),
    simple(
        "tcp_nodelay",
        HSL | STREAM | SSRV,
        ONE,
        Setter::Flag(|b| &mut b.loc().tcp_nodelay),
    ),
    with("aio", HSL, ONE, |b, d| {
        let word = &d.args()[0];
        let is_pool = word.strip_prefix("threads=").is_some_and(|p| !p.is_empty());
        if !is_pool && !matches!(word.as_str(), "on" | "off" | "threads") {
            return Err(invalid_value(d));
        }
        store(&mut b.loc().aio, word.clone(), d)
    }),
    simple(
        "aio_write",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().aio_write),
    ),
    with("directio", HSL, ONE, |b, d| {
        let word = &d.args()[0];
        let size = if word == "off" {
            Some(u64::MAX)
        } else {
            parse_size(word)
        };
        store(
            &mut b.loc().directio,
            size.ok_or_else(|| invalid_value(d))?,
            d,
        )
    }),
    simple(
        "directio_alignment",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().directio_alignment),
    ),
    simple(
        "read_ahead",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().read_ahead),
    ),
    simple(
        "output_buffers",
        HSL,
        TWO,
        Setter::Bufs(|b| &mut b.loc().output_buffers),
    ),
    simple(
        "postpone_output",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().postpone_output),
    ),
    with("limit_rate", HSLI, ONE, |b, d| {
        rate(b, d, |l| &mut l.limit_rate)
    }),
    with("limit_rate_after", HSLI, ONE, |b, d| {
        rate(b, d, |l| &mut l.limit_rate_after)
    }),
    simple(
        "subrequest_output_buffer_size",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().subrequest_output_buffer_size),
    ),
];

fn rate(
    b: &mut Builder,
    d: &Directive,
    get: fn(&mut LocConf) -> &mut Option<Template>,
) -> Result<()> {
    let value = rate_value(b, d)?;
    store(get(b.loc()), value, d)
}

/// Bytes per second, constant or evaluated per request.
pub(super) fn rate_value(b: &mut Builder, d: &Directive) -> Result<Template> {
    let value = b.template(&d.args()[0], &d.place)?;
    if let Some(text) = value.as_literal() {
        parse_size(&String::from_utf8_lossy(text)).ok_or_else(|| invalid_value(d))?;
    }
    Ok(value)
}

/// `send_lowat` has no effect on Linux.
fn send_lowat(b: &mut Builder, d: &Directive) -> Result<()> {
    parse_size(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
    let message = format!("\"{}\" is not supported, ignored", d.name());
    b.warn(message, &d.place);
    Ok(())
}
