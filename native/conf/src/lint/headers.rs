//! Checks for response header fields that get lost and for fields that a client can forge.

use super::scope::{listed, place, Scope};
use super::Remarks;
use crate::parser::Directive;

pub fn check(scope: &Scope<'_>, out: &mut Remarks) {
    lost(scope, out);
    for d in scope.items() {
        let value = match (d.name(), d.args()) {
            ("add_header", [_, value, ..]) => value,
            ("return", [status, value]) if status.starts_with('3') => value,
            ("return", [value]) if value.contains("://") => value,
            _ => continue,
        };
        if let Some(variable) = decoded(value) {
            out.add(d, format!(
                "\"{}\" sends {variable}, which is decoded: %0d%0a in the address becomes a line break \
                 in the answer; use $request_uri",
                d.name()
            ));
        }
    }
}

/// `add_header` of an outer level is not inherited if a level has its own.
fn lost(scope: &Scope<'_>, out: &mut Remarks) {
    let own: Vec<&Directive> = scope.own("add_header").collect();
    let Some(first) = own.first() else { return };
    let inherit = scope
        .chain()
        .find_map(|s| s.own("add_header_inherit").next());
    if inherit.is_some_and(|d| d.args().first().is_some_and(|word| word != "on")) {
        return;
    }
    let around = scope
        .chain()
        .skip(1)
        .find(|outer| outer.has(&["add_header"]));
    let Some(outer) = around else { return };
    let is_set = |name: &str| {
        let named = |d: &&Directive| {
            d.args()
                .first()
                .is_some_and(|n| n.eq_ignore_ascii_case(name))
        };
        own.iter().any(named)
    };
    let names = outer.own("add_header").filter_map(|d| d.args().first());
    let gone = listed(names.map(String::as_str).filter(|name| !is_set(name)));
    let Some(theirs) = outer.own("add_header").next() else {
        return;
    };
    if !gone.is_empty() {
        out.add(first, format!(
            "\"add_header\" here drops those of {}: {gone}; repeat them, or set \"add_header_inherit merge\"",
            place(theirs)
        ));
    }
}

/// A variable in the text that contains a decoded part of the URI.
fn decoded(text: &str) -> Option<&'static str> {
    ["$uri", "${uri}", "$document_uri", "${document_uri}"]
        .into_iter()
        .find(|name| {
            text.match_indices(name).any(|(at, _)| {
                let next = text[at + name.len()..].chars().next();
                name.ends_with('}') || !next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
            })
        })
}
