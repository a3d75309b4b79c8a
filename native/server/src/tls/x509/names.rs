//! A certificate as nginx's `$ssl_client_*` variables.

use super::der::{days_from_civil, element, expect, OBJECT, SEQUENCE, SET};
use super::Certificate;
use aws_lc_rs::digest::{digest, SHA1_FOR_LEGACY_USE_ONLY};
use std::fmt::Write;

impl Certificate<'_> {
    /// The values of nginx's `$ssl_client_*` variables about a certificate, by name without that
    /// prefix.
    pub fn variables(&self, der: &[u8], now: i64) -> Vec<(&'static str, Vec<u8>)> {
        let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), hex_byte);
        let serial = match self.serial {
            [0, rest @ ..] if !rest.is_empty() => rest,
            all => all,
        };
        let fingerprint = digest(&SHA1_FOR_LEGACY_USE_ONLY, der);
        let remain = (self.not_after - now).max(0) / 86_400;
        let texts = [
            ("fingerprint", hex(fingerprint.as_ref())),
            ("serial", hex(serial).to_uppercase()),
            ("i_dn", rfc2253(self.issuer)),
            ("s_dn", rfc2253(self.subject)),
            ("i_dn_legacy", one_line(self.issuer)),
            ("s_dn_legacy", one_line(self.subject)),
            ("v_start", print_time(self.not_before)),
            ("v_end", print_time(self.not_after)),
            ("v_remain", remain.to_string()),
        ];
        texts.map(|(name, text)| (name, text.into_bytes())).into()
    }
}

fn hex_byte(mut text: String, byte: &u8) -> String {
    // Writing to a String cannot fail.
    let _ = write!(text, "{byte:02x}");
    text
}

/// Format a time as OpenSSL does: `Jan
///
/// 2 03:04:05 2026 GMT`.
fn print_time(seconds: i64) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let mut year = 1970 + days.div_euclid(366);
    while days_from_civil(year + 1, 1, 1) <= days {
        year += 1;
    }
    let starts = |month: i64| days_from_civil(year, month, 1);
    let month = (1..=12).rev().find(|&m| starts(m) <= days).unwrap_or(1);
    let day = days - starts(month) + 1;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let name = MONTHS[month as usize - 1];
    let second = second % 60;
    format!("{name} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT")
}

/// An attribute of a name.
struct Attribute<'a> {
    kind: &'a [u8],
    tag: u8,
    value: &'a [u8],
    /// The value with its header.
    whole: &'a [u8],
}

/// The attributes of a name, as sets.
fn attributes(mut sets: &[u8]) -> Vec<Vec<Attribute<'_>>> {
    let mut names = Vec::new();
    while let Some(mut set) = expect(&mut sets, SET) {
        let mut parts = Vec::new();
        while let Some(mut pair) = expect(&mut set, SEQUENCE) {
            let kind = expect(&mut pair, OBJECT);
            let whole = pair;
            if let (Some(kind), Some((tag, value))) = (kind, element(&mut pair)) {
                let whole = &whole[..whole.len() - pair.len()];
                parts.push(Attribute {
                    kind,
                    tag,
                    value,
                    whole,
                });
            }
        }
        names.push(parts);
    }
    names
}

/// OpenSSL's short name for an attribute.
fn short_name(oid: &[u8]) -> Option<&'static str> {
    Some(match oid {
        [0x55, 4, 3] => "CN",
        [0x55, 4, 4] => "SN",
        [0x55, 4, 5] => "serialNumber",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 9] => "street",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        [0x55, 4, 12] => "title",
        [0x55, 4, 13] => "description",
        [0x55, 4, 17] => "postalCode",
        [0x55, 4, 42] => "GN",
        [0x55, 4, 43] => "initials",
        [0x55, 4, 46] => "dnQualifier",
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1] => "emailAddress",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1] => "UID",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25] => "DC",
        _ => return None,
    })
}

fn dotted(oid: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0u64;
    for &byte in oid {
        number = number.wrapping_shl(7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(std::mem::take(&mut number));
        }
    }
    let Some((first, rest)) = numbers.split_first() else {
        return String::new();
    };
    let root = (first / 40).min(2);
    let text = format!("{root}.{}", first - root * 40);
    rest.iter().fold(text, |text, n| format!("{text}.{n}"))
}

/// The text of a value in UTF-8; BMPString (tag 30) has two bytes per character.
fn utf8(value: &Attribute<'_>) -> String {
    const BMP_STRING: u8 = 30;
    if value.tag == BMP_STRING {
        let (pairs, _) = value.value.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().map(|&pair| u16::from_be_bytes(pair)).collect();
        return String::from_utf16_lossy(&units);
    }
    String::from_utf8_lossy(value.value).into_owned()
}

/// Format a name as RFC 2253 does, with the last part first.
fn rfc2253(name: &[u8]) -> String {
    let one = |part: &Attribute<'_>| match short_name(part.kind) {
        Some(key) => format!("{key}={}", escape_2253(&utf8(part))),
        None => {
            let bytes = part.whole.iter().fold(String::new(), hex_byte);
            format!("{}=#{}", dotted(part.kind), bytes.to_uppercase())
        }
    };
    let parts = attributes(name).into_iter().rev();
    let parts = parts.map(|set| set.iter().map(one).collect::<Vec<_>>().join("+"));
    parts.collect::<Vec<_>>().join(",")
}

fn escape_2253(text: &str) -> String {
    let mut out = String::new();
    let last = text.len().saturating_sub(1);
    for (at, c) in text.char_indices() {
        match c {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => out.extend(['\\', c]),
            '#' | ' ' if at == 0 => out.extend(['\\', c]),
            ' ' if at == last => out.extend(['\\', c]),
            c if (' '..='~').contains(&c) => out.push(c),
            c => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "\\{byte:02X}");
                }
            }
        }
    }
    out
}

/// Format a name as old versions of OpenSSL did: `/C=XX/CN=name`.
fn one_line(name: &[u8]) -> String {
    let mut out = String::new();
    for part in attributes(name).into_iter().flatten() {
        let key = short_name(part.kind).map_or_else(|| dotted(part.kind), String::from);
        let _ = write!(out, "/{key}=");
        for &byte in part.value {
            match byte {
                b' '..=b'~' => out.push(char::from(byte)),
                _ => {
                    let _ = write!(out, "\\x{byte:02X}");
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    pub fn made() -> Vec<u8> {
        let mut params = CertificateParams::new(vec![]).unwrap();
        let name = &mut params.distinguished_name;
        *name = rcgen::DistinguishedName::new();
        name.push(DnType::CountryName, "XX");
        name.push(DnType::OrganizationName, "A, \u{e9} & sons");
        name.push(DnType::CommonName, "name");
        params.not_before = rcgen::date_time_ymd(2026, 3, 1);
        params.not_after = rcgen::date_time_ymd(2060, 2, 29);
        params.serial_number = Some(vec![0x0a, 0xbc].into());
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn variables_have_the_words_of_openssl() {
        let der = made();
        let certificate = Certificate::parse(&der).unwrap();
        let day = days_from_civil(2060, 2, 29) * 86_400;
        let variables = certificate.variables(&der, day - 3 * 86_400 + 1);
        let get = |name| {
            let found = variables.iter().find(|(n, _)| *n == name).unwrap();
            String::from_utf8(found.1.clone()).unwrap()
        };
        assert_eq!(get("s_dn"), "CN=name,O=A\\, \\C3\\A9 & sons,C=XX");
        assert_eq!(get("i_dn_legacy"), "/C=XX/O=A, \\xC3\\xA9 & sons/CN=name");
        assert_eq!(get("serial"), "0ABC");
        assert_eq!(get("v_start"), "Mar  1 00:00:00 2026 GMT");
        assert_eq!(get("v_end"), "Feb 29 00:00:00 2060 GMT");
        assert_eq!(get("v_remain"), "2");
        assert_eq!(get("fingerprint").len(), 40);
    }
}
