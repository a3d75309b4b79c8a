//! The part of DER (ITU-T X.690) that certificates need.

pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const NULL: u8 = 0x05;
pub const OBJECT: u8 = 0x06;
pub const ENUMERATED: u8 = 0x0a;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;

/// Take one element (tag, contents) from the front of the input.
pub fn element<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut len = usize::from(first);
    if first >= 0x80 {
        let count = usize::from(first & 0x7f);
        if !(1..=3).contains(&count) {
            return None;
        }
        let (digits, after) = rest.split_at_checked(count)?;
        len = digits.iter().fold(0, |n, d| (n << 8) | usize::from(*d));
        rest = after;
    }
    let (contents, after) = rest.split_at_checked(len)?;
    *input = after;
    Some((tag, contents))
}

pub fn expect<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    element(input)
        .filter(|(found, _)| *found == tag)
        .map(|(_, contents)| contents)
}

/// The bits of a BIT STRING that consists of whole bytes.
pub fn bits<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    match expect(input, BIT_STRING)?.split_first()? {
        (0, bits) => Some(bits),
        _ => None,
    }
}

/// A UTCTime or GeneralizedTime in the only format that RFC 5280, section 4.1.2.5, allows.
pub fn time(input: &mut &[u8]) -> Option<i64> {
    let (tag, content) = element(input)?;
    let digits = content.strip_suffix(b"Z")?;
    let number = |text: &[u8]| {
        let digit = |n: i64, c: &u8| c.is_ascii_digit().then(|| n * 10 + i64::from(c - b'0'));
        text.iter().try_fold(0, digit)
    };
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year = number(year)?;
            (if year < 50 { 2000 } else { 1900 } + year, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (number(year)?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 {
        return None;
    }
    let part = |i: usize| number(&rest[2 * i..2 * i + 2]);
    let days = days_from_civil(year, part(0)?, part(1)?);
    Some(((days * 24 + part(2)?) * 60 + part(3)?) * 60 + part(4)?)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Count years from March, so that the leap day is the last.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
        - 719_468
}

/// Encode an element with this tag and the concatenated contents.
pub fn written(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let contents = contents.concat();
    let len = contents.len();
    let mut out = vec![tag];
    match len {
        0..=0x7f => out.push(len as u8),
        0x80..=0xff => out.extend([0x81, len as u8]),
        0x100..=0xffff => out.extend([0x82, (len >> 8) as u8, len as u8]),
        _ => out.extend([0x83, (len >> 16) as u8, (len >> 8) as u8, len as u8]),
    }
    out.extend(contents);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_from_1970() {
        let at = |text: &str, tag: u8| {
            let der = [&[tag, text.len() as u8], text.as_bytes()].concat();
            time(&mut &der[..])
        };
        assert_eq!(at("700101000000Z", UTC_TIME), Some(0));
        assert_eq!(at("20240229120000Z", GENERALIZED_TIME), Some(1_709_208_000));
        assert_eq!(at("240229120000", UTC_TIME), None);
    }

    #[test]
    fn what_is_written_is_read() {
        for len in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let contents = vec![7; len];
            let der = written(OCTET_STRING, &[&contents]);
            assert_eq!(expect(&mut &der[..], OCTET_STRING), Some(&contents[..]));
        }
    }

    #[test]
    fn days_follow_the_calendar() {
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((1969, 12, 31), -1),
            ((2000, 2, 29), 11_016),
            ((2100, 3, 1), 47_541),
        ] {
            assert_eq!(days_from_civil(date.0, date.1, date.2), days, "{date:?}");
        }
    }
}
