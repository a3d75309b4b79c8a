//! The media types of files.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use std::sync::Arc;

pub const TABLE: &[Spec] = &[
    block("types", HSL, NONE, types),
    with("default_type", HSL, ONE, |b, d| {
        let value: Arc<[u8]> = d.args()[0].as_bytes().into();
        store(&mut b.loc().default_type, value, d)
    }),
];

fn types(b: &mut Builder, d: &Directive) -> Result<()> {
    let mut map = b
        .loc()
        .types
        .take()
        .map(|t| (*t).clone())
        .unwrap_or_default();
    for entry in d.block.iter().flatten() {
        let value: Arc<[u8]> = entry.name().as_bytes().into();
        if entry.block.is_some() {
            return Err(ConfError::at("unexpected \"{\"", &entry.place));
        }
        for extension in entry.args() {
            let key = extension.to_ascii_lowercase().as_bytes().into();
            let Some(old) = map.insert(key, value.clone()) else {
                continue;
            };
            let message = format!(
                "duplicate extension \"{extension}\", content type: \"{}\", previous content type: \"{}\"",
                entry.name(),
                String::from_utf8_lossy(&old)
            );
            b.warn(message, &entry.place);
        }
    }
    b.loc().types = Some(Arc::new(map));
    Ok(())
}

/// The media types that apply without a `types` block, as in nginx.
pub(crate) fn default_types() -> TypesMap {
    let known: [(&str, &str); 3] = [
        ("html", "text/html"),
        ("gif", "image/gif"),
        ("jpg", "image/jpeg"),
    ];
    known
        .iter()
        .map(|(e, t)| (e.as_bytes().into(), t.as_bytes().into()))
        .collect()
}
