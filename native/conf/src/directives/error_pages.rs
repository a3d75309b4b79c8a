//! Error pages.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::values::parse_digits;

pub const TABLE: &[Spec] = &[
    with("error_page", HSLI, TWO_OR_MORE, error_page),
    simple(
        "recursive_error_pages",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().recursive_error_pages),
    ),
    simple(
        "msie_padding",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().msie_padding),
    ),
    simple(
        "msie_refresh",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().msie_refresh),
    ),
];

fn error_page(b: &mut Builder, d: &Directive) -> Result<()> {
    let (last, rest) = d.args().split_last().expect("arity checked");
    let (overwrite, codes) = match rest.split_last() {
        Some((word, codes)) if word.starts_with('=') => (Some(overwriting_status(word)?), codes),
        _ => (None, rest),
    };
    if codes.is_empty() {
        return Err(ConfError::new(format!("invalid value \"{}\"", d.args()[0])));
    }
    let mut statuses = Vec::new();
    for word in codes {
        statuses.push(error_status(word)?);
    }
    let target = b.template(last, &d.place)?;
    push(
        &mut b.loc().error_pages,
        ErrorPage {
            statuses,
            overwrite,
            target,
        },
    );
    Ok(())
}

/// The status in a word such as `=404`; 0 if it is the page's own.
fn overwriting_status(word: &str) -> Result<u16> {
    let status = match &word[1..] {
        "" => Some(0),
        digits => parse_digits(digits),
    };
    match status {
        Some(s @ 0..=999) => Ok(s as u16),
        // nginx accepts such values and then sends heads that no client can read.
        Some(_) => Err(ConfError::new(format!(
            "value \"{word}\" must be between =0 and =999: a status has three digits"
        ))),
        None => Err(ConfError::new(format!("invalid value \"{word}\""))),
    }
}

/// The status of a response that gets an error page.
fn error_status(word: &str) -> Result<u16> {
    let status = parse_digits(word);
    let Some(status) = status.filter(|s| (300..=599).contains(s) && *s != 499) else {
        let why = if status == Some(499) || status.is_none() {
            format!("invalid value \"{word}\"")
        } else {
            format!("value \"{word}\" must be between 300 and 599")
        };
        return Err(ConfError::new(why));
    };
    Ok(status as u16)
}
