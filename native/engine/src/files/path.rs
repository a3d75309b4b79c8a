//! File paths of requests, and the rejection of paths that ascend by `..`.

use crate::escape::Shown;
use crate::exchange::Exchange;
use crate::phases::flow::Flow;
use crate::scope::Scope;
use crate::{template, vars};
use gallop_conf::model::{Alias, Level};
use gallop_conf::template::{Part, Template};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A file path whose `..` segments, if any, come from the configuration.
///
/// A `..` from a URI, a capture, or a variable could lead to any file of the host, so such a path
/// is rejected. nginx serves such paths.
#[derive(Clone, Debug, Default)]
pub struct FilePath {
    bytes: Vec<u8>,
    /// The number of bytes at the start that the configuration wrote.
    lead: usize,
    /// Other parts that the configuration wrote.
    configured: Vec<Range<usize>>,
}

/// The reason for rejecting a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The path contains a NUL byte.
    Nul,
    /// The path contains a `..` segment that is not from the configuration.
    Ascends,
}

impl From<Refused> for Flow {
    fn from(refused: Refused) -> Flow {
        Flow::Status(match refused {
            Refused::Nul => 404,
            Refused::Ascends => 403,
        })
    }
}

impl FilePath {
    /// `root` or `alias` of the request's location, if the location is still known.
    fn root(ex: &Exchange) -> FilePath {
        let mut path = FilePath::default();
        match &ex.loc.conf.root {
            Some(root) => path.push_template(ex, &root.path),
            None => {
                let html = ex.worker.shared.config.prefix.join("html");
                path.push_configured(html.as_os_str().as_bytes());
            }
        }
        path
    }

    /// The unchecked path of the request's URI; empty if an alias has lost its location.
    fn unchecked(ex: &Exchange) -> FilePath {
        let alias = ex.loc.conf.root.as_ref().and_then(|root| root.alias);
        if alias.is_some() && !ex.location_valid {
            return FilePath::default();
        }
        let mut path = FilePath::root(ex);
        path.bytes.extend_from_slice(match alias {
            None => &ex.uri.path,
            Some(Alias::Prefix(n)) => ex.uri.path.get(n..).unwrap_or(b""),
            Some(Alias::Whole) if ex.add_uri_to_alias => &ex.uri.path,
            Some(Alias::Whole) => b"",
        });
        path
    }

    /// The path of the request's URI; empty if an alias has lost its location.
    ///
    /// # Errors
    /// The path was rejected, and the error log says so.
    pub fn of_request(ex: &Exchange) -> Result<FilePath, Refused> {
        FilePath::unchecked(ex).checked(ex)
    }

    /// The path of `name` beneath the location's root or alias.
    ///
    /// # Errors
    /// The path was rejected, and the error log says so.
    pub fn beneath_root(ex: &Exchange, name: &[u8]) -> Result<FilePath, Refused> {
        let mut path = FilePath::root(ex);
        path.bytes.extend_from_slice(name);
        path.checked(ex)
    }

    /// The value of a template, beneath `base` if it is relative.
    ///
    /// # Errors
    /// The path was rejected, and the error log says so.
    pub fn of_template<S: Scope + ?Sized>(
        ex: &S,
        base: Option<&Path>,
        template: &Template,
    ) -> Result<FilePath, Refused> {
        let mut path = FilePath::default();
        path.push_template(ex, template);
        if let Some(base) = base.filter(|_| !path.bytes.starts_with(b"/")) {
            let mut whole = FilePath::default();
            whole.push_configured(base.as_os_str().as_bytes());
            whole.push_configured(b"/");
            whole.push_template(ex, template);
            path = whole;
        }
        path.checked(ex)
    }

    /// Whether [`FilePath::of_template`] returns a path.
    pub fn is_allowed(ex: &Exchange, template: &Template) -> bool {
        let mut path = FilePath::default();
        path.push_template(ex, template);
        path.refusal().is_none()
    }

    /// This path with appended bytes from the request.
    ///
    /// # Errors
    /// The path was rejected, and the error log says so.
    pub fn with(&self, ex: &Exchange, more: &[u8]) -> Result<FilePath, Refused> {
        let mut path = self.clone();
        path.bytes.extend_from_slice(more);
        path.checked(ex)
    }

    /// The path of a neighboring file with an extension such as `.gz`.
    pub fn with_extension(&self, extension: &str) -> FilePath {
        debug_assert!(extension.len() > 1 && !extension.contains('/'));
        let mut path = self.clone();
        path.bytes.extend_from_slice(extension.as_bytes());
        path
    }

    /// The path in the format of the error log.
    pub fn display(&self) -> Shown<'_> {
        Shown(&self.bytes)
    }

    /// The path of a folder without its final slash.
    pub fn without_slash(&self) -> FilePath {
        let mut path = self.clone();
        if path.bytes.len() > 1 && path.bytes.ends_with(b"/") {
            path.bytes.pop();
        }
        path
    }

    /// The path of this folder's default index.
    pub fn with_index(&self) -> FilePath {
        let mut path = self.clone();
        if !path.ends_in_slash() {
            path.bytes.push(b'/');
        }
        path.bytes.extend_from_slice(b"index.html");
        path
    }

    pub fn ends_in_slash(&self) -> bool {
        self.bytes.ends_with(b"/")
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn push_configured(&mut self, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        if start == self.lead {
            self.lead = self.bytes.len();
        } else {
            self.configured.push(start..self.bytes.len());
        }
    }

    fn push_template<S: Scope + ?Sized>(&mut self, ex: &S, template: &Template) {
        for part in template.parts.iter() {
            match part {
                Part::Lit(text) => self.push_configured(text),
                Part::Var(id) => {
                    vars::eval(ex, *id, &mut self.bytes);
                }
                Part::Capture(n) => template::capture(ex, *n, &mut self.bytes),
            }
        }
    }

    fn checked<S: Scope + ?Sized>(self, ex: &S) -> Result<FilePath, Refused> {
        let Some(refused) = self.refusal() else {
            return Ok(self);
        };
        if refused == Refused::Ascends {
            let message = format!(
                "path \"{}\" is refused: its \"..\" comes from the request, not from the configuration",
                self.display()
            );
            ex.log(Level::Error, &message);
        }
        Err(refused)
    }

    fn refusal(&self) -> Option<Refused> {
        if self.bytes.contains(&0) {
            return Some(Refused::Nul);
        }
        self.ascends().then_some(Refused::Ascends)
    }

    /// Whether any `..` segment is not completely from the configuration.
    fn ascends(&self) -> bool {
        if memchr::memmem::find(&self.bytes, b"..").is_none() {
            return false;
        }
        let mut start = 0;
        self.bytes.split(|&c| c == b'/').any(|segment| {
            let range = start..start + segment.len();
            start = range.end + 1;
            segment == b".." && !self.wrote(&range)
        })
    }

    fn wrote(&self, range: &Range<usize>) -> bool {
        let within = |part: &Range<usize>| part.start <= range.start && range.end <= part.end;
        range.end <= self.lead || self.configured.iter().any(within)
    }
}

impl std::ops::Deref for FilePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes))
    }
}

impl AsRef<Path> for FilePath {
    fn as_ref(&self) -> &Path {
        self
    }
}

/// Append the path of the request's URI, for variables; it may contain `..`.
pub fn push_request_path(ex: &Exchange, out: &mut Vec<u8>) {
    out.extend_from_slice(&FilePath::unchecked(ex).bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A path of parts, each with whether the configuration wrote it.
    fn path(parts: &[(bool, &str)]) -> FilePath {
        let mut path = FilePath::default();
        for (configured, text) in parts {
            if *configured {
                path.push_configured(text.as_bytes());
            } else {
                path.bytes.extend_from_slice(text.as_bytes());
            }
        }
        path
    }

    #[test]
    fn only_dots_of_the_configuration_ascend() {
        for (parts, ascends) in [
            (&[(true, "/srv/../x"), (false, "/a")][..], false),
            (&[(true, "/srv/x"), (false, "/../a")], true),
            (&[(true, "/srv/x/"), (false, "../a")], true),
            (&[(true, "/srv/x/."), (false, "./a")], true),
            (&[(true, "/srv/x"), (false, "../a")], false),
            (&[(true, "/srv/"), (false, "a"), (true, "/../b")], false),
            (&[(true, "/srv/"), (false, "."), (true, "./b")], true),
            (&[(false, ".."), (true, "/b")], true),
            (&[(true, "/srv/x"), (false, "/..")], true),
            (&[(true, "/srv/x"), (false, "/...")], false),
            (&[(true, "/srv/x"), (false, "/a..")], false),
            (&[(true, "/srv/x"), (false, "/.")], false),
            (&[(true, ".."), (false, "/a")], false),
        ] {
            assert_eq!(path(parts).ascends(), ascends, "{parts:?}");
        }
    }

    proptest! {
        /// Compare with a simple rule: mark every byte, and look for `..` segments with a byte from
        /// the request.
        #[test]
        fn every_ascending_segment_is_found(parts in prop::collection::vec((any::<bool>(), "[/.a]{0,4}"), 0..6)) {
            let borrowed: Vec<(bool, &str)> = parts.iter().map(|(c, t)| (*c, &**t)).collect();
            let marked: Vec<(u8, bool)> = parts.iter().flat_map(|(c, t)| t.bytes().map(|b| (b, *c))).collect();
            let expected = marked
                .split(|(b, _)| *b == b'/')
                .any(|s| s.len() == 2 && s.iter().all(|(b, _)| *b == b'.') && s.iter().any(|(_, c)| !c));
            let found = path(&borrowed).ascends();
            // A segment that two parts of the configuration form together counts as the request's.
            prop_assert!(found || !expected);
            if borrowed.len() < 2 { prop_assert_eq!(found, expected); }
        }
    }
}
