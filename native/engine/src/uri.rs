//! Parsing of request targets into the path for location matching.

use crate::escape::hex_pair;

/// A parsed request target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedUri {
    /// The decoded path without dot segments; always starts with a slash.
    pub path: Vec<u8>,
    pub args: Vec<u8>,
    /// Whether arguments were set, even to an empty value.
    pub has_args: bool,
    /// Whether the path contained escapes.
    pub quoted: bool,
    /// Whether the path contained a plus. With either, captures are escaped again when used in
    /// arguments.
    pub has_plus: bool,
}

impl ParsedUri {
    /// Replace the arguments; `None` for a URI without any.
    pub fn set_args(&mut self, args: Option<Vec<u8>>) {
        self.has_args = args.is_some();
        self.args = args.unwrap_or_default();
    }

    pub fn own_args(&self) -> Option<Vec<u8>> {
        self.has_args.then(|| self.args.clone())
    }
}

/// The arguments after the question mark. As in nginx, a lone question mark counts only if
/// something follows.
fn behind_mark(rest: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'#', rest).unwrap_or(rest.len());
    (!rest.is_empty()).then(|| &rest[..end])
}

/// The arguments of a target, as [`parse`] finds them.
pub fn arguments(target: &[u8]) -> Option<&[u8]> {
    let mark = memchr::memchr2(b'?', b'#', target)?;
    match target[mark] {
        b'?' => behind_mark(&target[mark + 1..]),
        _ => None,
    }
}

/// Decode and normalize `target` into `out`, reusing its buffers. `false` means that the request is
/// malformed or leaves the root.
pub fn parse(target: &[u8], merge_slashes: bool, out: &mut ParsedUri) -> bool {
    out.path.clear();
    out.args.clear();
    out.has_args = false;
    out.quoted = false;
    out.has_plus = false;
    if is_plain(target) {
        out.path.extend_from_slice(target);
        return true;
    }
    let mut i = 0;
    if target.first() != Some(&b'/') {
        out.path.push(b'/');
    }
    while i < target.len() {
        let c = target[i];
        i += 1;
        match c {
            b'?' => {
                if let Some(args) = behind_mark(&target[i..]) {
                    out.args.extend_from_slice(args);
                    out.has_args = true;
                }
                break;
            }
            b'#' => break,
            0 => return false,
            b'%' => {
                let Some(decoded) = hex_pair(&target[i..]) else {
                    return false;
                };
                i += 2;
                out.quoted = true;
                match decoded {
                    0 => return false,
                    // These characters lose their meaning when escaped.
                    b'%' | b'#' | b'?' => out.path.push(decoded),
                    b'/' => {
                        if !slash(&mut out.path, merge_slashes) {
                            return false;
                        }
                    }
                    c => out.path.push(c),
                }
            }
            b'/' => {
                if !slash(&mut out.path, merge_slashes) {
                    return false;
                }
            }
            b'+' => {
                out.has_plus = true;
                out.path.push(c);
            }
            c => out.path.push(c),
        }
    }
    end_segment(&mut out.path)
}

/// Whether nothing needs decoding: no escapes, no dots after a slash, no double slashes. This is
/// the most common case.
fn is_plain(target: &[u8]) -> bool {
    let mut before = 0;
    for &c in target {
        match c {
            0 | b'%' | b'?' | b'#' | b'+' => return false,
            b'/' | b'.' if before == b'/' => return false,
            _ => before = c,
        }
    }
    target.first() == Some(&b'/')
}

/// Handle a slash, which ends the segment before it.
fn slash(path: &mut Vec<u8>, merge: bool) -> bool {
    if path.is_empty() {
        path.push(b'/');
        return true;
    }
    let before = path.len();
    if !end_segment(path) {
        return false;
    }
    // With merge_slashes off, a double slash stays; a slash left by a dot segment is not doubled.
    let resolved = path.len() != before;
    if path.last() != Some(&b'/') || !(merge || resolved) {
        path.push(b'/');
    }
    true
}

/// Resolve `.` and `..` at the end of the path; `false` above the root.
fn end_segment(path: &mut Vec<u8>) -> bool {
    if path.ends_with(b"/..") {
        let parent = path.len() - 3;
        if parent == 0 {
            return false;
        }
        let cut = path[..parent].iter().rposition(|&c| c == b'/').unwrap_or(0);
        path.truncate(cut + 1);
    } else if path.ends_with(b"/.") {
        path.truncate(path.len() - 1);
    }
    true
}

/// The unescaped path and the arguments of a URI from a response; `None` if it leaves the root.
pub fn split_unsafe(uri: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let (path, args) = match memchr::memchr(b'?', uri) {
        Some(i) => (&uri[..i], Some(uri[i + 1..].to_vec())),
        None => (uri, None),
    };
    let path = crate::escape::unescape(path);
    (!path.is_empty() && !is_unsafe(&path)).then_some((path, args))
}

/// Whether a path from outside, such as `X-Accel-Redirect`, leaves its folder.
pub fn is_unsafe(path: &[u8]) -> bool {
    path.is_empty()
        || path.contains(&0)
        || path == b".."
        || path.starts_with(b"../")
        || path.windows(4).any(|w| w == b"/../")
        || path.ends_with(b"/..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(target: &str) -> Option<String> {
        let mut out = ParsedUri::default();
        parse(target.as_bytes(), true, &mut out)
            .then(|| String::from_utf8_lossy(&out.path).into_owned())
    }

    #[test]
    fn paths_are_decoded_and_normalised() {
        for (target, expected) in [
            ("/a/b", "/a/b"),
            ("/a//b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("/a/b/../", "/a/"),
            ("/a%2fb%2F..%2Fc", "/a/c"),
            ("/%2e%2e/a", "!"),
            ("/a/%2e%2e/%2e%2e/b", "!"),
            ("/..", "!"),
            ("/a%00", "!"),
            ("/a%zz", "!"),
            ("/a%", "!"),
            ("/a%3Fb?c", "/a?b"),
            ("/...", "/..."),
            ("/a/..b/.c", "/a/..b/.c"),
            ("?x", "/"),
            ("", "/"),
        ] {
            let got = path(target);
            assert_eq!(got.as_deref().unwrap_or("!"), expected, "{target}");
        }
    }

    #[test]
    fn a_nul_is_refused_as_such_and_escaped() {
        assert_eq!(path("/\0.."), None);
        assert_eq!(path("/a%00"), None);
    }

    #[test]
    fn arguments_end_at_the_fragment() {
        let mut out = ParsedUri::default();
        assert!(parse(b"/p?a=b%20#c", true, &mut out));
        assert_eq!((&*out.path, &*out.args), (&b"/p"[..], &b"a=b%20"[..]));
    }

    #[test]
    fn doubled_slashes_can_stay() {
        let mut out = ParsedUri::default();
        assert!(parse(b"/a//b///c", false, &mut out));
        assert_eq!(out.path, b"/a//b///c");
    }

    proptest! {
        #[test]
        fn no_target_leaves_the_root(target in "[/.a%2eE5cF?]{0,40}") {
            let mut out = ParsedUri::default();
            if parse(target.as_bytes(), true, &mut out) {
                prop_assert_eq!(out.path[0], b'/');
                prop_assert!(!is_unsafe(&out.path), "{:?}", String::from_utf8_lossy(&out.path));
            }
        }
    }
}
