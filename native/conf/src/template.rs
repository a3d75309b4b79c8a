//! Values that contain variables (nginx's "complex values").

use crate::error::{ConfError, Place, Result};
use crate::vars::{VarId, VarTable};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Lit(Box<[u8]>),
    Var(VarId),
    /// `$1` to `$9` of the last matching regular expression.
    Capture(u8),
}

/// Text with variables, evaluated per request.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Template {
    pub parts: Arc<[Part]>,
}

impl Template {
    pub fn literal(text: &[u8]) -> Template {
        let parts = if text.is_empty() {
            vec![]
        } else {
            vec![Part::Lit(text.into())]
        };
        Template {
            parts: parts.into(),
        }
    }

    pub fn parse(text: &str, vars: &mut VarTable, place: &Place) -> Result<Template> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            push_literal(&mut parts, &rest[..at]);
            let (name, after) = split_variable(&rest[at + 1..], place)?;
            parts.push(match name.as_bytes() {
                [d @ b'1'..=b'9'] => Part::Capture(d - b'0'),
                _ => Part::Var(vars.intern(name)),
            });
            rest = after;
        }
        push_literal(&mut parts, rest);
        Ok(Template {
            parts: parts.into(),
        })
    }

    /// The text if it contains no variables.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Lit(text)] => Some(text),
            _ => None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub fn has_captures(&self) -> bool {
        self.parts.iter().any(|p| matches!(p, Part::Capture(_)))
    }
}

fn push_literal(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Lit(text.as_bytes().into()));
    }
}

/// Split `name}rest` or `name rest` (after the `$`) at the end of the name.
fn split_variable<'a>(text: &'a str, place: &Place) -> Result<(&'a str, &'a str)> {
    if let Some(braced) = text.strip_prefix('{') {
        let Some(end) = braced.find(|c: char| !is_name_char(c)) else {
            let message = format!("the closing bracket in \"{braced}\" variable is missing");
            return Err(ConfError::at(message, place));
        };
        if !braced[end..].starts_with('}') {
            let message = format!(
                "the closing bracket in \"{}\" variable is missing",
                &braced[..end]
            );
            return Err(ConfError::at(message, place));
        }
        if end == 0 {
            return Err(ConfError::at("invalid variable name", place));
        }
        return Ok((&braced[..end], &braced[end + 1..]));
    }
    // A capture has one digit: "$10" is "$1" followed by "0".
    if text.starts_with(|c: char| ('1'..='9').contains(&c)) {
        return Ok((&text[..1], &text[1..]));
    }
    let end = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
    if end == 0 {
        return Err(ConfError::at("invalid variable name", place));
    }
    Ok((&text[..end], &text[end..]))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The variable in a word that must be exactly `$name`.
pub fn variable_name<'a>(word: &'a str, place: &Place) -> Result<&'a str> {
    match word.strip_prefix('$') {
        Some(name) if !name.is_empty() => Ok(name),
        _ => Err(ConfError::at(
            format!("invalid variable name \"{word}\""),
            place,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            file: "t".into(),
            line: 1,
        }
    }

    #[test]
    fn variables_captures_and_text_are_told_apart() {
        let mut vars = VarTable::default();
        let t = Template::parse("a$uri-${args}b$10", &mut vars, &place()).expect("parses");
        let (uri, args) = (vars.intern("uri"), vars.intern("args"));
        let lit = |s: &str| Part::Lit(s.as_bytes().into());
        let expected = [
            lit("a"),
            Part::Var(uri),
            lit("-"),
            Part::Var(args),
            lit("b"),
            Part::Capture(1),
            lit("0"),
        ];
        assert_eq!(&*t.parts, &expected);
    }

    #[test]
    fn a_lone_dollar_is_refused() {
        let mut vars = VarTable::default();
        let e = Template::parse("a$ b", &mut vars, &place()).expect_err("refused");
        assert_eq!(e.message, "invalid variable name");
    }

    #[test]
    fn unknown_variables_are_found_at_the_end() {
        let mut vars = VarTable::default();
        Template::parse("$nothing_sets_me", &mut vars, &place()).expect("parses");
        assert_eq!(
            vars.check().expect_err("refused").message,
            "unknown \"nothing_sets_me\" variable"
        );
    }
}
