//! Character classes of RFC 9110 for all protocol versions.

/// Whether `byte` is allowed in a token (RFC 9110, section 5.6.2): a field name or a method.
#[inline]
pub fn is_tchar(byte: u8) -> bool {
    TCHAR[usize::from(byte)]
}

/// Whether a field name, in any case, equals this lower-case name. Fast for names that are known at
/// compile time, since all bytes are compared at once.
#[inline(always)]
pub fn is_name<const N: usize>(name: &[u8], lower: &[u8; N]) -> bool {
    let Ok(name) = <&[u8; N]>::try_from(name) else {
        return false;
    };
    let differs = |at: usize| {
        let case = if lower[at].is_ascii_lowercase() {
            0x20
        } else {
            0
        };
        (name[at] | case) ^ lower[at]
    };
    (0..N).fold(0, |all, at| all | differs(at)) == 0
}

const TCHAR: [bool; 256] = alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// A table by byte: true for ASCII letters, digits, and these marks.
pub const fn alphanumeric_and(marks: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::is_name;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_are_the_same_in_any_case(
            name in proptest::sample::select(vec!["content-length", "Content-Length", "CONTENT-LENGTH"]),
            at in 0usize..14,
            byte in any::<u8>(),
        ) {
            let mut name = name.as_bytes().to_vec();
            name[at] = byte;
            let same = name.eq_ignore_ascii_case(b"content-length");
            prop_assert_eq!(is_name(&name, b"content-length"), same);
            prop_assert!(!is_name(&name[1..], b"content-length"));
        }
    }
}
