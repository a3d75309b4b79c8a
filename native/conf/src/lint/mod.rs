//! Warnings of `-t` about known mistakes in a valid configuration.
//!
//! Each check looks at the written directives and the blocks around them; none changes the server's
//! behavior. The texts follow well-known lists of common mistakes.

mod headers;
mod locations;
mod passes;
mod scope;
mod servers;
mod tls;

use crate::error::ConfError;
use crate::parser::Directive;
use scope::{Facts, Scope};

/// A mistake and its place.
type Remark = ConfError;

/// Collects the remarks.
#[derive(Default)]
struct Remarks(Vec<Remark>);

impl Remarks {
    fn add(&mut self, at: &Directive, message: impl Into<String>) {
        self.0.push(ConfError::at(message, &at.place));
    }
}

/// The mistakes of a configuration, in the order of the files.
pub fn remarks(directives: &[Directive]) -> Vec<String> {
    let mut out = Remarks::default();
    for http in directives.iter().filter(|d| d.name() == "http") {
        let items = http.block.as_deref().unwrap_or(&[]);
        let facts = Facts::new(items);
        let scope = Scope::top(http, &facts);
        servers::check(&scope, &mut out);
        scope
            .blocks(&["server"])
            .for_each(|inner| server(&inner, &mut out));
        tls::check(&scope, &mut out);
    }
    out.0.iter().map(ConfError::to_string).collect()
}

fn server(scope: &Scope<'_>, out: &mut Remarks) {
    locations::server(scope, out);
    block(scope, out);
}

/// Checks of every block from a server block down.
fn block(scope: &Scope<'_>, out: &mut Remarks) {
    headers::check(scope, out);
    tls::check(scope, out);
    passes::check(scope, out);
    locations::check(scope, out);
    scope
        .blocks(&["location", "if", "limit_except"])
        .for_each(|inner| block(&inner, out));
}

#[cfg(test)]
mod tests;
