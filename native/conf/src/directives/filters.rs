//! Output filters: gzip, gunzip, charset.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::template::Template;
use crate::values::{parse_digits, parse_size};
use hashbrown::HashSet;
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    simple("gzip", HSLI, ONE, Setter::Flag(|b| &mut b.loc().gzip)),
    with("gzip_types", HSL, MORE, |b, d| {
        types(b, d, |l| &mut l.gzip_types, "text/html")
    }),
    simple(
        "gzip_min_length",
        HSL,
        ONE,
        Setter::Size(|b| &mut b.loc().gzip_min_length),
    ),
    with("gzip_comp_level", HSL, ONE, |b, d| {
        let n = parse_digits(&d.args()[0]).ok_or_else(|| invalid_number(d))?;
        if !(1..=9).contains(&n) {
            return Err(ConfError::new("value must be between 1 and 9"));
        }
        store(&mut b.loc().gzip_comp_level, n, d)
    }),
    simple(
        "gzip_vary",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().gzip_vary),
    ),
    with("gzip_proxied", HSL, MORE, |b, d| {
        let bits = bitmask(b, d, proxied::NAMES)?;
        add_bits(&mut b.loc().gzip_proxied, bits)
    }),
    with("gzip_http_version", HSL, ONE, |b, d| {
        let value = choice(d, &d.args()[0], &[("1.0", 1000), ("1.1", 1001)])?;
        store(&mut b.loc().gzip_http_version, value, d)
    }),
    with("gzip_disable", HSL, MORE, gzip_disable),
    simple(
        "gzip_buffers",
        HSL,
        TWO,
        Setter::Bufs(|b| &mut b.loc().gzip_buffers),
    ),
    with("gzip_window", HSL, ONE, |b, d| {
        let size =
            parse_size(&d.args()[0]).filter(|n| n.is_power_of_two() && (512..=32768).contains(n));
        let size = size.ok_or_else(|| must_be(d, "512, 1k, 2k, 4k, 8k, 16k, or 32k"))?;
        store(&mut b.loc().gzip_window, size, d)
    }),
    with("gzip_hash", HSL, ONE, |b, d| {
        let size =
            parse_size(&d.args()[0]).filter(|n| n.is_power_of_two() && (512..=131_072).contains(n));
        let size = size.ok_or_else(|| must_be(d, "512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, or 128k"))?;
        store(&mut b.loc().gzip_hash, size, d)
    }),
    simple("postpone_gzipping", HSL, ONE, Setter::Unused(Takes::Size)),
    simple(
        "gzip_no_buffer",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().gzip_no_buffer),
    ),
    with("gzip_static", HSL, ONE, |b, d| {
        let choices = &[
            ("off", GzipStatic::Off),
            ("on", GzipStatic::On),
            ("always", GzipStatic::Always),
        ];
        let value = choice(d, &d.args()[0], choices)?;
        store(&mut b.loc().gzip_static, value, d)
    }),
    with("charset", HSLI, ONE, charset),
    with("charset_types", HSL, MORE, |b, d| {
        types(b, d, |l| &mut l.charset_types, "text/html")
    }),
    with("source_charset", HSLI, ONE, |b, d| {
        // Only `charset` can be off: here, `off` is a name like any other.
        let value = CharsetName(Some(charset_template(b, d)?));
        store(&mut b.loc().source_charset, value, d)
    }),
    simple(
        "override_charset",
        HSLI,
        ONE,
        Setter::Flag(|b| &mut b.loc().override_charset),
    ),
    block("charset_map", HTTP, TWO, charset_map),
];

fn must_be(d: &Directive, sizes: &str) -> ConfError {
    match parse_size(&d.args()[0]) {
        Some(_) => ConfError::new(format!("\"{}\" directive must be {sizes}", d.name())),
        None => invalid_value(d),
    }
}

/// Collect media types. `always` is part of every such list; `*` means all types.
pub(super) fn types(
    b: &mut Builder,
    d: &Directive,
    get: fn(&mut LocConf) -> &mut Option<TypeSet>,
    always: &str,
) -> Result<()> {
    let own = get(b.loc()).take();
    let set = type_set(b, own, d, always);
    *get(b.loc()) = Some(set);
    Ok(())
}

/// Add the types of another directive to those of the level.
pub(super) fn type_set(
    b: &mut Builder,
    own: Option<TypeSet>,
    d: &Directive,
    always: &str,
) -> TypeSet {
    let mut set = match own {
        Some(TypeSet::All) => return TypeSet::All,
        Some(TypeSet::Some(set)) => (*set).clone(),
        None => HashSet::from_iter([always.as_bytes().to_vec()]),
    };
    for word in d.args() {
        if word == "*" {
            return TypeSet::All;
        }
        if !set.insert(word.to_ascii_lowercase().into_bytes()) {
            b.warn(format!("duplicate MIME type \"{word}\""), &d.place);
        }
    }
    TypeSet::Some(Arc::new(set))
}

fn gzip_disable(b: &mut Builder, d: &Directive) -> Result<()> {
    for word in d.args() {
        // nginx's "msie6" stands for these browsers.
        let source = if word == "msie6" {
            r"MSIE [4-6]\.(?!.*SV1)"
        } else {
            word
        };
        let pattern = b.pattern(source, true, &d.place)?;
        push(&mut b.loc().gzip_disable, pattern);
    }
    Ok(())
}

fn charset(b: &mut Builder, d: &Directive) -> Result<()> {
    let value = charset_name(b, d)?;
    store(&mut b.loc().charset, value, d)
}

fn charset_name(b: &mut Builder, d: &Directive) -> Result<CharsetName> {
    if d.args()[0] == "off" {
        return Ok(CharsetName(None));
    }
    Ok(CharsetName(Some(charset_template(b, d)?)))
}

/// Parse a name or a single variable.
fn charset_template(b: &mut Builder, d: &Directive) -> Result<Template> {
    let word = &d.args()[0];
    match word.starts_with('$') {
        true => b.template(word, &d.place),
        false => Ok(Template::literal(word.as_bytes())),
    }
}

fn charset_map(b: &mut Builder, d: &Directive) -> Result<()> {
    let (from, to) = (
        d.args()[0].to_ascii_lowercase(),
        d.args()[1].to_ascii_lowercase(),
    );
    if from == to {
        let message = format!(
            "\"charset_map\" between the same charsets \"{}\" and \"{}\"",
            d.args()[0],
            d.args()[1]
        );
        return Err(ConfError::new(message));
    }
    if charset_route(&b.http().charset_maps, &from, &to).is_some() {
        return Err(ConfError::new(format!(
            "duplicate \"charset_map\" between \"{from}\" and \"{to}\""
        )));
    }
    let mut map = CharsetMap {
        from,
        to,
        forward: hashbrown::HashMap::new(),
    };
    for entry in d.block.iter().flatten() {
        charset_entry(&mut map, entry)?;
    }
    b.http().charset_maps.push(Arc::new(map));
    Ok(())
}

/// Parse `58 59;`, or for UTF-8 `80 E282AC;`.
fn charset_entry(map: &mut CharsetMap, entry: &Directive) -> Result<()> {
    let fail = |word: &str| ConfError::at(format!("invalid value \"{word}\""), &entry.place);
    let [to] = entry.args() else {
        return Err(ConfError::at("invalid parameters number", &entry.place));
    };
    let from = u8::from_str_radix(entry.name(), 16).map_err(|_| fail(entry.name()))?;
    let bytes = hex_bytes(to).ok_or_else(|| fail(to))?;
    let fits = if map.to_utf8() {
        std::str::from_utf8(&bytes).is_ok_and(|t| t.chars().count() == 1)
    } else {
        bytes.len() == 1
    };
    if !fits {
        return Err(fail(to));
    }
    map.forward.insert(from, bytes);
    Ok(())
}

fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let padded = if text.len() % 2 == 1 {
        format!("0{text}")
    } else {
        text.to_string()
    };
    let pair = |i: usize| u8::from_str_radix(padded.get(i..i + 2)?, 16).ok();
    (0..padded.len()).step_by(2).map(pair).collect()
}
