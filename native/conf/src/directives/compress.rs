//! brotli and zstd, with the directives of their nginx modules.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::values::{parse_digits, parse_size};
use std::sync::Arc;

fn brotli(b: &mut Builder) -> &mut CodingConf {
    Arc::make_mut(b.loc().brotli.get_or_insert_with(Arc::default))
}

fn zstd(b: &mut Builder) -> &mut CodingConf {
    Arc::make_mut(b.loc().zstd.get_or_insert_with(Arc::default))
}

/// The directives of one coding.
macro_rules! coding {
    ($conf:ident, $prefix:literal, $levels:expr $(, $more:expr)*) => {
        &[
            simple($prefix, HSLI, ONE, Setter::Flag(|b| &mut $conf(b).on)),
            with(concat!($prefix, "_types"), HSL, MORE, |b, d| {
                let own = $conf(b).types.take();
                let types = super::filters::type_set(b, own, d, "text/html");
                $conf(b).types = Some(types);
                Ok(())
            }),
            simple(
                concat!($prefix, "_min_length"),
                HSL,
                ONE,
                Setter::Size(|b| &mut $conf(b).min_length),
            ),
            with(concat!($prefix, "_comp_level"), HSL, ONE, |b, d| {
                let level = level(d, $levels)?;
                store(&mut $conf(b).level, level, d)
            }),
            with(concat!($prefix, "_static"), HSL, ONE, |b, d| {
                let value = choice(d, &d.args()[0], FIXED)?;
                store(&mut $conf(b).fixed, value, d)
            }),
            simple(
                concat!($prefix, "_buffers"),
                HSL,
                TWO,
                Setter::Unused(Takes::Bufs),
            ),
            $($more),*
        ]
    };
}

const FIXED: &[(&str, GzipStatic)] = &[
    ("off", GzipStatic::Off),
    ("on", GzipStatic::On),
    ("always", GzipStatic::Always),
];

pub const BROTLI: &[Spec] = coding!(
    brotli,
    "brotli",
    0..=11,
    with("brotli_window", HSL, ONE, |b, d| {
        let bits = window_bits(d)?;
        store(&mut brotli(b).window, bits, d)
    })
);
pub const ZSTD: &[Spec] = coding!(zstd, "zstd", 1..=22);

fn level(d: &Directive, levels: std::ops::RangeInclusive<u64>) -> Result<u64> {
    let level = parse_digits(&d.args()[0]).ok_or_else(|| invalid_number(d))?;
    if !levels.contains(&level) {
        return Err(ConfError::new(format!(
            "value must be between {} and {}",
            levels.start(),
            levels.end()
        )));
    }
    Ok(level)
}

/// The binary logarithm of a size, as the encoder needs it.
fn window_bits(d: &Directive) -> Result<u64> {
    let size = parse_size(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
    let bits = u64::from(size.trailing_zeros());
    if !size.is_power_of_two() || !(10..=24).contains(&bits) {
        let message =
            "must be 1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, 256k, 512k, 1m, 2m, 4m, 8m or 16m";
        return Err(ConfError::new(format!(
            "\"{}\" directive {message}",
            d.name()
        )));
    }
    Ok(bits)
}
