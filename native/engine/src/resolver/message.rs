//! DNS messages (RFC 1035, section 4; RFC 3596 for AAAA), as far as lookups need them.

use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    A,
    Aaaa,
    /// RFC 2782.
    Srv,
}

impl Kind {
    fn number(self) -> u16 {
        match self {
            Kind::A => 1,
            Kind::Aaaa => 28,
            Kind::Srv => 33,
        }
    }
}

const CNAME: u16 = 5;
const IN: u16 = 1;
/// The most pointers in a name; more indicate a loop.
const MAX_POINTERS: usize = 32;

/// An SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    pub target: String,
}

/// The result in a server's response.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The response did not fit into a datagram.
    Truncated,
    /// An error code of RFC 1035, section 4.1.1.
    Refused(u8),
    Found {
        addresses: Vec<IpAddr>,
        /// SRV records, if they were asked for.
        records: Vec<Record>,
        /// The target if the name is an alias.
        alias: Option<String>,
        /// Seconds that the response may be cached.
        ttl: u32,
    },
}

/// A query for a name; `None` if the name is invalid.
pub fn question(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(name.len() + 18);
    out.extend_from_slice(&id.to_be_bytes());
    // Recursion desired; one question.
    out.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() || name.len() > 255 {
        return None;
    }
    for label in name.split('.') {
        let len = u8::try_from(label.len())
            .ok()
            .filter(|n| (1..64).contains(n))?;
        out.push(len);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out.extend_from_slice(&kind.number().to_be_bytes());
    out.extend_from_slice(&IN.to_be_bytes());
    Some(out)
}

struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let bytes = self.message.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)
            .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// Read a name, in lower case with dots.
    fn name(&mut self) -> Option<String> {
        let mut out = String::new();
        let mut at = self.at;
        let mut after = None;
        let mut pointers = 0;
        loop {
            let len = *self.message.get(at)?;
            match len {
                0 => break,
                0xc0.. => {
                    let low = *self.message.get(at + 1)?;
                    after.get_or_insert(at + 2);
                    at = usize::from(len & 0x3f) << 8 | usize::from(low);
                    pointers += 1;
                    if pointers > MAX_POINTERS {
                        return None;
                    }
                }
                1..=63 => {
                    let label = self.message.get(at + 1..at + 1 + usize::from(len))?;
                    if !out.is_empty() {
                        out.push('.');
                    }
                    out.extend(label.iter().map(|c| char::from(c.to_ascii_lowercase())));
                    if out.len() > 1024 {
                        return None;
                    }
                    at += 1 + usize::from(len);
                }
                _ => return None,
            }
        }
        self.at = after.unwrap_or(at + 1);
        Some(out)
    }
}

/// Parse the response to a query; `None` if it is malformed or does not match.
pub fn parse(message: &[u8], id: u16, name: &str, kind: Kind) -> Option<Answer> {
    let mut r = Reader { message, at: 0 };
    let (got, flags) = (r.u16()?, r.u16()?);
    let (questions, answers) = (r.u16()?, r.u16()?);
    r.take(4)?;
    let is_answer = flags & 0x8000 != 0 && flags & 0x7800 == 0;
    if got != id || !is_answer || questions != 1 {
        return None;
    }
    let asked = name.strip_suffix('.').unwrap_or(name);
    let (owner, of_kind, class) = (r.name()?, r.u16()?, r.u16()?);
    if !owner.eq_ignore_ascii_case(asked) || of_kind != kind.number() || class != IN {
        return None;
    }
    if flags & 0x0200 != 0 {
        return Some(Answer::Truncated);
    }
    match (flags & 0xf) as u8 {
        0 => records(&mut r, answers, kind),
        // A server that returned a format error may accept the query later.
        1 => None,
        code => Some(Answer::Refused(code)),
    }
}

fn records(r: &mut Reader<'_>, count: u16, kind: Kind) -> Option<Answer> {
    let (mut addresses, mut records) = (Vec::new(), Vec::new());
    let mut alias = None;
    let mut lowest = i32::MAX as u32;
    for _ in 0..count {
        r.name()?;
        let (of_kind, class, ttl) = (r.u16()?, r.u16()?, r.u32()?);
        let len = usize::from(r.u16()?);
        let start = r.at;
        let data = r.take(len)?;
        if class != IN {
            continue;
        }
        let mut inner = Reader {
            message: r.message,
            at: start,
        };
        if of_kind == CNAME {
            alias = Some(inner.name()?);
        } else if of_kind == kind.number() {
            match kind {
                Kind::A => addresses.push(IpAddr::from(<[u8; 4]>::try_from(data).ok()?)),
                Kind::Aaaa => addresses.push(IpAddr::from(<[u8; 16]>::try_from(data).ok()?)),
                Kind::Srv => records.push(Record {
                    priority: inner.u16()?,
                    weight: inner.u16()?,
                    port: inner.u16()?,
                    target: inner.name()?,
                }),
            }
        } else {
            continue;
        }
        // RFC 2181, section 8: a TTL with the highest bit set counts as zero.
        lowest = lowest.min(if ttl > i32::MAX as u32 { 0 } else { ttl });
    }
    Some(Answer::Found {
        addresses,
        records,
        alias,
        ttl: lowest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer(records: &[u8], count: u8) -> Vec<u8> {
        let mut message = question(7, "A.example", Kind::A).expect("a name");
        message[2] = 0x81;
        message[7] = count;
        message.extend_from_slice(records);
        message
    }

    const ALIAS: &[u8] = b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x05\x00\x04\x01b\xc0\x0e";
    const ADDRESS: &[u8] = b"\x01x\x00\x00\x01\x00\x01\x00\x00\x00\x09\x00\x04\x7f\x00\x00\x01";

    #[test]
    fn addresses_and_aliases_are_read() {
        let message = answer(&[ALIAS, ADDRESS].concat(), 2);
        let found = Answer::Found {
            addresses: vec![IpAddr::from([127, 0, 0, 1])],
            records: Vec::new(),
            alias: Some("b.example".into()),
            ttl: 5,
        };
        assert_eq!(parse(&message, 7, "a.EXAMPLE.", Kind::A), Some(found));
        assert_eq!(parse(&message, 8, "a.example", Kind::A), None);
        assert_eq!(parse(&message, 7, "b.example", Kind::A), None);
        assert_eq!(parse(&message, 7, "a.example", Kind::Aaaa), None);
    }

    #[test]
    fn service_records_are_read() {
        let mut message = question(7, "_http._tcp.a.example", Kind::Srv).expect("a name");
        (message[2], message[7]) = (0x81, 1);
        let record = b"\xc0\x0c\x00\x21\x00\x01\x00\x00\x00\x05\x00\x0a";
        message.extend_from_slice(record);
        message.extend_from_slice(b"\x00\x01\x00\x02\x1f\x90\x01b\xc0\x17");
        let record = Record {
            priority: 1,
            weight: 2,
            port: 8080,
            target: "b.a.example".into(),
        };
        let found = Answer::Found {
            addresses: Vec::new(),
            records: vec![record],
            alias: None,
            ttl: 5,
        };
        let parsed = parse(&message, 7, "_http._tcp.a.example", Kind::Srv);
        assert_eq!(parsed, Some(found));
        message.truncate(message.len() - 3);
        assert_eq!(parse(&message, 7, "_http._tcp.a.example", Kind::Srv), None);
    }

    #[test]
    fn refusals_and_truncation_are_told_apart() {
        let mut message = answer(&[], 0);
        message[3] = 3;
        let of = |m: &[u8]| parse(m, 7, "a.example", Kind::A);
        assert_eq!(of(&message), Some(Answer::Refused(3)));
        message[2] |= 2;
        assert_eq!(of(&message), Some(Answer::Truncated));
    }

    #[test]
    fn invalid_name_makes_no_question() {
        for name in ["", ".", "a..b", &"x".repeat(64), &"x.".repeat(129)] {
            assert_eq!(question(1, name, Kind::A), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(
            records in proptest::collection::vec(any::<u8>(), 0..80), count in 0u8..9
        ) {
            for kind in [Kind::A, Kind::Srv] {
                let mut message = answer(&records, count);
                message[24] = kind.number() as u8;
                let _ = parse(&message, 7, "a.example", kind);
            }
        }
    }
}
