//! Evaluation of templates for a request or a session.

use crate::scope::Scope;
use crate::vars;
use gallop_conf::template::Part;
pub use gallop_conf::template::Template;

/// Append the value.
pub fn eval_into<S: Scope + ?Sized>(scope: &S, template: &Template, out: &mut Vec<u8>) {
    for part in template.parts.iter() {
        match part {
            Part::Lit(text) => out.extend_from_slice(text),
            Part::Var(id) => {
                vars::eval(scope, *id, out);
            }
            Part::Capture(n) => capture(scope, *n, out),
        }
    }
}

pub fn eval<S: Scope + ?Sized>(scope: &S, template: &Template) -> Vec<u8> {
    if let Some(text) = template.as_literal() {
        return text.to_vec();
    }
    let mut out = Vec::new();
    eval_into(scope, template, &mut out);
    out
}

/// Append the value, passing each variable through `put` (`None` if it has no value).
pub fn eval_with<S: Scope + ?Sized>(
    scope: &S,
    template: &Template,
    out: &mut Vec<u8>,
    put: impl Fn(Option<&[u8]>, &mut Vec<u8>),
) {
    let mut value = Vec::new();
    for part in template.parts.iter() {
        match part {
            Part::Lit(text) => out.extend_from_slice(text),
            Part::Var(id) => {
                value.clear();
                let found = vars::eval(scope, *id, &mut value);
                put(found.then_some(&value), out);
            }
            Part::Capture(n) => {
                value.clear();
                capture(scope, *n, &mut value);
                put(Some(&value), out);
            }
        }
    }
}

/// Append a group of the last match.
pub fn capture<S: Scope + ?Sized>(scope: &S, n: u8, out: &mut Vec<u8>) {
    let captures = scope.captures().borrow();
    if let Some(Some((a, z))) = captures.1.get(usize::from(n)) {
        out.extend_from_slice(&captures.0[*a..*z]);
    }
}
