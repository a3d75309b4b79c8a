//! Values and conditions in SSI commands.

use super::Shared;
use crate::exchange::Exchange;
use crate::{template, vars};
use gallop_conf::pattern::Pattern;

/// Append the value of a variable: one of `set`, a capture, or a server variable.
pub fn variable(ex: &Exchange, shared: &Shared, name: &[u8], out: &mut Vec<u8>) -> bool {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    if let Some(value) = shared.vars.borrow().get(&name) {
        out.extend_from_slice(value);
        return true;
    }
    if let [digit @ b'0'..=b'9'] = name.as_bytes() {
        let before = out.len();
        template::capture(ex, digit - b'0', out);
        return out.len() > before;
    }
    vars::by_name(ex, &name, out)
}

fn is_name(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

/// Replace the variables in a text; `None` if a `${` is not closed.
pub fn evaluate(ex: &Exchange, shared: &Shared, text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut i = 0;
    while i < text.len() {
        match text[i] {
            b'\\' if i + 1 < text.len() => {
                i += 1;
                if !matches!(text[i], b'\\' | b'\'' | b'"' | b'$') {
                    out.push(b'\\');
                }
                out.push(text[i]);
                i += 1;
            }
            b'$' => {
                let (name, after) = name_at(&text[i + 1..])?;
                variable(ex, shared, name, &mut out);
                i += 1 + after;
            }
            c => {
                out.push(c);
                i += 1;
            }
        }
    }
    Some(out)
}

/// The name after a dollar sign, and the number of bytes that it takes.
fn name_at(text: &[u8]) -> Option<(&[u8], usize)> {
    let braced = text.first() == Some(&b'{');
    let start = usize::from(braced);
    let len = text[start..].iter().take_while(|c| is_name(**c)).count();
    let end = start + len;
    if len == 0 || (braced && text.get(end) != Some(&b'}')) {
        return None;
    }
    Some((&text[start..end], end + usize::from(braced)))
}

/// Evaluate `$a`, `$a = text`, `$a != text`, or `$a = /expression/`; `None` for any other form.
pub fn holds(ex: &Exchange, shared: &Shared, text: &[u8]) -> Option<bool> {
    let Some(equals) = memchr::memchr(b'=', text) else {
        return evaluate(ex, shared, text).map(|v| !v.is_empty());
    };
    let negated = text[..equals].ends_with(b"!");
    let left = text[..equals - usize::from(negated)].trim_ascii_end();
    let right = text[equals + 1..].trim_ascii_start();
    if left.is_empty() {
        return None;
    }
    let left = evaluate(ex, shared, left)?;
    let same = match right.strip_prefix(b"/") {
        Some(rest) => matches(ex, shared, rest.strip_suffix(b"/")?, &left)?,
        None => evaluate(ex, shared, right)? == left,
    };
    Some(same != negated)
}

fn matches(ex: &Exchange, shared: &Shared, source: &[u8], subject: &[u8]) -> Option<bool> {
    let pattern = Pattern::dynamic(std::str::from_utf8(source).ok()?)?;
    let Some(groups) = pattern.captures(subject) else {
        return Some(false);
    };
    let mut vars = shared.vars.borrow_mut();
    for (group, name) in pattern.names() {
        if let Some((a, z)) = groups.get(*group).copied().flatten() {
            vars.insert(name.to_ascii_lowercase(), subject[a..z].to_vec());
        }
    }
    drop(vars);
    ex.set_captures(subject, groups, &pattern);
    Some(true)
}
