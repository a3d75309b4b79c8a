//! nginx's sizes and times.

/// Bytes: a number with an optional `k`, `m`, or `g` in either case.
pub fn parse_size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        b'g' | b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let n = parse_digits(digits)?.checked_mul(factor)?;
    (n <= i64::MAX as u64).then_some(n)
}

/// Milliseconds: numbers with units from large to small (`1d 12h`); a last number without unit is
/// in seconds.
pub fn parse_msec(text: &str) -> Option<u64> {
    parse_time(text, true)
}

/// Seconds; `ms` is not allowed.
pub fn parse_sec(text: &str) -> Option<u64> {
    parse_time(text, false).map(|ms| ms / 1000)
}

fn parse_time(text: &str, allow_ms: bool) -> Option<u64> {
    let bytes = text.as_bytes();
    let (mut i, mut total, mut last_rank) = (0, 0u64, 0);
    if bytes.is_empty() {
        return None;
    }
    while i < bytes.len() {
        let start = i;
        while i < bytes.len() && bytes[i].is_ascii_digit() {
            i += 1;
        }
        let n = parse_digits(&text[start..i])?;
        let (rank, unit, len) = match (bytes.get(i), bytes.get(i + 1)) {
            (Some(b'y'), _) => (1, 365 * 86_400_000, 1),
            (Some(b'M'), _) => (2, 30 * 86_400_000, 1),
            (Some(b'w'), _) => (3, 7 * 86_400_000, 1),
            (Some(b'd'), _) => (4, 86_400_000, 1),
            (Some(b'h'), _) => (5, 3_600_000, 1),
            (Some(b'm'), Some(b's')) if allow_ms => (8, 1, 2),
            (Some(b'm'), next) if next != Some(&b's') => (6, 60_000, 1),
            (Some(b's'), _) => (7, 1000, 1),
            (Some(b' '), _) | (None, _) => (9, 1000, 0),
            _ => return None,
        };
        if rank <= last_rank {
            return None;
        }
        last_rank = rank;
        total = total.checked_add(n.checked_mul(unit)?)?;
        i += len;
        while bytes.get(i) == Some(&b' ') {
            i += 1;
        }
    }
    (total <= i64::MAX as u64).then_some(total)
}

/// A non-negative decimal number.
pub fn parse_digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("8k"), Some(8192));
        assert_eq!(parse_size("1M"), Some(1 << 20));
        assert_eq!(parse_size("2g"), Some(2 << 30));
        assert_eq!(parse_size("k"), None);
        assert_eq!(parse_size("1kb"), None);
        assert_eq!(parse_size("99999999999999999999g"), None);
    }

    #[test]
    fn times() {
        assert_eq!(parse_msec("30"), Some(30_000));
        assert_eq!(parse_msec("100ms"), Some(100));
        assert_eq!(parse_msec("1d12h"), Some(129_600_000));
        assert_eq!(parse_msec("1m30s"), Some(90_000));
        assert_eq!(parse_msec("1s1m"), None, "units must go down");
        assert_eq!(parse_sec("1h"), Some(3600));
        assert_eq!(parse_sec("5ms"), None);
        assert_eq!(parse_msec(""), None);
    }
}
