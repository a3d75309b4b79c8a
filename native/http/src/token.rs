//! Character classes of RFC 9110 that every protocol version shares.

/// Whether `byte` may stand in a token (RFC 9110, section 5.6.2): a field name or a method.
#[inline]
pub fn is_tchar(byte: u8) -> bool {
    TCHAR[usize::from(byte)]
}

const TCHAR: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    table
};
