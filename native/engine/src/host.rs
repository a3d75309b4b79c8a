//! The name and port of a host, as in the `Host` field and in URLs.

/// The bytes allowed in a host name.
const HOST: [bool; 256] = gallop_http::token::alphanumeric_and(b"-._~!$&'()*+,;=%");

/// Split a host into its name, without a final dot, and its port; `None` if it is malformed.
pub(crate) fn validate_host(text: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let is_literal = text.first() == Some(&b'[');
    let end = match is_literal {
        true => memchr::memchr(b']', text)? + 1,
        false => {
            let other = text.iter().position(|&c| !HOST[c as usize]);
            other.unwrap_or(text.len())
        }
    };
    let (name, rest) = text.split_at(end);
    let port = if rest.is_empty() { None } else { port(rest)? };
    if is_literal {
        let mut inner = name[1..end - 1].iter();
        if !inner.all(|&c| c == b':' || c != b'%' && HOST[c as usize]) {
            return None;
        }
    }
    if name.windows(2).any(|w| w == b"..") {
        return None;
    }
    let name = name.strip_suffix(b".").unwrap_or(name);
    (!name.is_empty()).then_some((name, port))
}

/// The port after a host, including the colon; digits are optional.
fn port(text: &[u8]) -> Option<Option<u16>> {
    let digits = text.strip_prefix(b":")?;
    let mut number = 0u32;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        number = number.saturating_mul(10).saturating_add(digit.into());
        if digit > 9 {
            return None;
        }
    }
    let number = u16::try_from(number).ok()?;
    Some((!digits.is_empty()).then_some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_split_from_its_port_and_refused_if_malformed() {
        let host = |t: &'static str| validate_host(t.as_bytes());
        assert_eq!(
            host("Example.COM.:80"),
            Some((&b"Example.COM"[..], Some(80)))
        );
        assert_eq!(host("[::1]:8080"), Some((&b"[::1]"[..], Some(8080))));
        assert_eq!(host("a"), Some((&b"a"[..], None)));
        assert_eq!(host("a:"), Some((&b"a"[..], None)));
        assert_eq!(host("a%b:00080"), Some((&b"a%b"[..], Some(80))));
        for bad in [
            "a..b",
            "a/b",
            "a b",
            "a:x",
            "a:99999",
            "",
            "[::1",
            "a@b",
            ":80",
            "a\0",
            "a:+80",
            "a:4294967376",
            "[a%b]",
            "[::1]x",
            ".",
        ] {
            assert_eq!(host(bad), None, "{bad:?}");
        }
    }
}
