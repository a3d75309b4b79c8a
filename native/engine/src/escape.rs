//! Escaping as in nginx, for each use.

use std::fmt;

/// The context that the text becomes part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A path.
    Uri,
    /// The value of one argument.
    Args,
    /// A path segment: escapes `?`, `#`, `%`, and everything that a browser could misread.
    Component,
    /// HTML text that may be in an attribute.
    Html,
    /// A received `Location` value: escapes only bytes that break the header.
    Location,
    /// A `Refresh` value in HTML.
    Refresh,
    /// A key of memcached.
    Memcached,
}

fn needs(c: u8, use_: Use) -> bool {
    if use_ == Use::Memcached {
        return c <= 0x20 || c == b'%';
    }
    if c <= 0x20 || c >= 0x7f {
        return true;
    }
    match use_ {
        Use::Location | Use::Memcached => false,
        // As in nginx, `%` and `}` stay.
        Use::Refresh => b"\"'<>\\^`{|~".contains(&c),
        Use::Html => b"\"#%'<>\\^`{|}".contains(&c),
        Use::Uri => b"\"#%<>?\\^`{|}".contains(&c),
        Use::Args => b"\"#%&+;<>?\\^`{|}".contains(&c),
        Use::Component => !(c.is_ascii_alphanumeric() || b"-._~".contains(&c)),
    }
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

pub fn escape(text: &[u8], use_: Use, out: &mut Vec<u8>) {
    for &c in text {
        if needs(c, use_) {
            out.extend_from_slice(&[b'%', HEX[usize::from(c >> 4)], HEX[usize::from(c & 15)]]);
        } else {
            out.push(c);
        }
    }
}

pub fn escaped(text: &[u8], use_: Use) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    escape(text, use_, &mut out);
    out
}

/// Escape text for HTML.
pub fn html(text: &[u8], out: &mut Vec<u8>) {
    for &c in text {
        match c {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            _ => out.push(c),
        }
    }
}

/// Escape text for a JSON string.
pub fn json(text: &[u8], out: &mut Vec<u8>) {
    for &c in text {
        match c {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', c]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            c if c < 0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(c >> 4)], HEX[usize::from(c & 15)]]);
            }
            _ => out.push(c),
        }
    }
}

/// Escape text for an access log line: quotes, backslashes, and unprintable bytes become `\xHH`.
pub fn log(text: &[u8], out: &mut Vec<u8>) {
    for &c in text {
        if !(0x20..0x7f).contains(&c) || c == b'"' || c == b'\\' {
            out.extend_from_slice(&[
                b'\\',
                b'x',
                HEX[usize::from(c >> 4)],
                HEX[usize::from(c & 15)],
            ]);
        } else {
            out.push(c);
        }
    }
}

/// A client's text in a line of the error log: quotes, backslashes, and control characters become
/// `\xHH`, so that the text can neither end its quotes nor begin a line.
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&String::from_utf8_lossy(self.0), f, |c| {
            is_unprintable(c) || c == '"' || c == '\\'
        })
    }
}

/// A whole line of the error log: control characters become `\xHH`. Quotes stay, since the line has
/// its own.
pub struct OneLine<'a>(pub &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self.0, f, is_unprintable)
    }
}

/// Whether a character is a control character or a line separator for some log readers.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

fn show(text: &str, f: &mut fmt::Formatter<'_>, hidden: impl Fn(char) -> bool) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(&hidden) {
        f.write_str(&rest[..at])?;
        let c = rest[at..].chars().next().unwrap_or_default();
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            write!(f, "\\x{byte:02X}")?;
        }
        rest = &rest[at + c.len_utf8()..];
    }
    f.write_str(rest)
}

/// Escape a request line to an upstream: blanks and control characters, which would end the target
/// or the line, are percent-encoded. All else stays.
pub fn request_target(target: Vec<u8>) -> Vec<u8> {
    let breaks = |c: &u8| *c <= 0x20 || *c == 0x7f;
    if !target.iter().any(breaks) {
        return target;
    }
    let mut out = Vec::with_capacity(target.len() + 16);
    for c in target {
        match breaks(&c) {
            true => {
                out.extend_from_slice(&[b'%', HEX[usize::from(c >> 4)], HEX[usize::from(c & 15)]])
            }
            false => out.push(c),
        }
    }
    out
}

/// Decode percent-encoding; incomplete escapes stay as they are.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut i = 0;
    while i < text.len() {
        if text[i] == b'%' {
            if let Some(c) = hex_pair(&text[i + 1..]) {
                out.push(c);
                i += 3;
                continue;
            }
        }
        out.push(text[i]);
        i += 1;
    }
    out
}

/// The byte that two hexadecimal digits encode.
pub fn hex_pair(text: &[u8]) -> Option<u8> {
    let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    Some(digit(*text.first()?)? << 4 | digit(*text.get(1)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_use_escapes_what_it_must() {
        assert_eq!(escaped(b"/a b?c%", Use::Uri), b"/a%20b%3Fc%25");
        assert_eq!(escaped(b"a&b+c", Use::Args), b"a%26b%2Bc");
        assert_eq!(escaped(b"a/b", Use::Component), b"a%2Fb");
        let mut out = Vec::new();
        log(b"a\"\\\n\xff", &mut out);
        assert_eq!(out, b"a\\x22\\x5C\\x0A\\xFF");
    }

    proptest! {
        #[test]
        fn shown_text_stays_within_its_quotes_and_line(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            let shown = Shown(&text).to_string();
            prop_assert!(!shown.contains(|c: char| c.is_control() || c == '"'), "{shown:?}");
            let line = OneLine(&String::from_utf8_lossy(&text)).to_string();
            prop_assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
        }

        #[test]
        fn request_targets_are_one_word(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            let target = request_target(text.clone());
            prop_assert!(target.iter().all(|c| *c > 0x20 && *c != 0x7f));
            let plain = text.iter().all(|c| *c > 0x20 && *c != 0x7f);
            prop_assert_eq!(plain, target == text);
        }

        #[test]
        fn unescape_reverses_escaped(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            for use_ in [Use::Uri, Use::Args, Use::Component] {
                prop_assert_eq!(unescape(&escaped(&text, use_)), text.clone());
            }
        }
    }
}
