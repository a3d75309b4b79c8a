//! Regular expressions as in nginx: PCRE on bytes, where named groups set variables.

use crate::error::{ConfError, Place, Result};
use crate::vars::{VarId, VarKind, VarTable};
use std::sync::Arc;

/// The position of each group in the subject; group 0 is the whole match.
pub type Groups = Vec<Option<(usize, usize)>>;

#[derive(Clone)]
pub struct Pattern {
    inner: Arc<Inner>,
}

struct Inner {
    source: Box<str>,
    regex: pcre2::bytes::Regex,
    named: Vec<(usize, VarId)>,
    /// The names of groups without a variable in the configuration.
    names: Vec<(usize, Box<str>)>,
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}/", self.inner.source)
    }
}

/// nginx's message for an invalid regular expression; `offset` is the place in it.
fn refused(source: &str, error: &str, offset: Option<usize>) -> String {
    // The library's own message follows the place.
    let words = error.rsplit(": ").next().unwrap_or(error);
    let rest = offset.and_then(|at| source.get(at..));
    let at = match rest.filter(|rest| !rest.is_empty()) {
        Some(rest) => format!(" at \"{rest}\""),
        None => String::new(),
    };
    format!("pcre2_compile() failed: {words} in \"{source}\"{at}")
}

impl Pattern {
    pub fn compile(
        source: &str,
        caseless: bool,
        vars: &mut VarTable,
        place: &Place,
    ) -> Result<Pattern> {
        let regex = pcre2::bytes::RegexBuilder::new()
            .caseless(caseless)
            .jit_if_available(true)
            .build(source)
            .map_err(|e| {
                let message = refused(source, &e.to_string(), e.offset());
                ConfError::at(message, place)
            })?;
        let mut named = Vec::new();
        for (i, name) in regex.capture_names().iter().enumerate() {
            if let Some(name) = name {
                named.push((i, vars.define(name, VarKind::Assigned, place)?));
            }
        }
        Ok(Pattern {
            inner: Arc::new(Inner {
                source: source.into(),
                regex,
                named,
                names: Vec::new(),
            }),
        })
    }

    /// A regular expression from a request, such as in SSI; `None` if it is invalid.
    pub fn dynamic(source: &str) -> Option<Pattern> {
        let regex = pcre2::bytes::Regex::new(source).ok()?;
        let names = regex.capture_names().iter().enumerate();
        let names = names
            .filter_map(|(i, name)| Some((i, name.as_deref()?.into())))
            .collect();
        Some(Pattern {
            inner: Arc::new(Inner {
                source: source.into(),
                regex,
                named: Vec::new(),
                names,
            }),
        })
    }

    /// The named groups of a [`dynamic`](Self::dynamic) expression.
    pub fn names(&self) -> &[(usize, Box<str>)] {
        &self.inner.names
    }

    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// The groups that set a variable after a match.
    pub fn named(&self) -> &[(usize, VarId)] {
        &self.inner.named
    }

    pub fn groups(&self) -> usize {
        self.inner.regex.captures_len() - 1
    }

    pub fn has_groups(&self) -> bool {
        self.groups() > 0
    }

    /// Matching errors, such as PCRE's backtracking limit, count as no match.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        self.inner.regex.is_match(subject).unwrap_or(false)
    }

    pub fn captures(&self, subject: &[u8]) -> Option<Groups> {
        let caps = self.inner.regex.captures(subject).ok()??;
        Some(
            (0..caps.len())
                .map(|i| caps.get(i).map(|m| (m.start(), m.end())))
                .collect(),
        )
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}
