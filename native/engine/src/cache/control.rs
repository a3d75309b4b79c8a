//! Caching rules in a response: `X-Accel-Expires`, `Cache-Control`, `Expires`, `Set-Cookie`, and
//! `Vary`, as nginx interprets them (and RFC 9111 where both agree).

use crate::time::parse_http_date;
use crate::upstream::answer::Head;
use gallop_conf::model::{items, UpConf};

/// Responses with a longer `Vary` are not cached.
const MAX_VARY: usize = 128;

/// The caching decision about a response. Times are seconds since 1970, spans are seconds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub refused: bool,
    /// 0 if the response does not say.
    pub valid: i64,
    pub while_updating: i64,
    pub on_error: i64,
    pub vary: Vec<u8>,
    no_cache: bool,
    expired: bool,
    accel: bool,
}

impl Verdict {
    /// Judge a response received at `now`.
    pub fn of(conf: &UpConf, head: &Head, now: i64) -> Verdict {
        let ignored = |name: &str| items(&conf.ignore_headers).iter().any(|n| n == name);
        let mut verdict = Verdict::default();
        let mut vary: Vec<&[u8]> = Vec::new();
        let mut seen_expires = false;
        for (name, value) in head.fields.iter() {
            let name = name.to_ascii_lowercase();
            let name = std::str::from_utf8(&name).unwrap_or_default();
            if ignored(name) {
                continue;
            }
            match name {
                "x-accel-expires" if !verdict.accel => verdict.accel_expires(value, now),
                "cache-control" => verdict.cache_control(value, now),
                "expires" if !std::mem::replace(&mut seen_expires, true) => {
                    verdict.expires(value, now);
                }
                "set-cookie" => verdict.refused = true,
                "vary" => vary.push(value),
                _ => {}
            }
        }
        verdict.vary = vary.join(&b", "[..]);
        verdict.refused |= verdict.no_cache
            || verdict.expired
            || verdict.vary.len() > MAX_VARY
            || vary.contains(&&b"*"[..]);
        verdict
    }

    fn accel_expires(&mut self, value: &[u8], now: i64) {
        self.accel = true;
        let (at, digits) = match value.strip_prefix(b"@") {
            Some(digits) => (true, digits),
            None => (false, value),
        };
        let Some(n) = number(digits).filter(|_| !digits.is_empty() && all_digits(digits)) else {
            return;
        };
        if n == 0 && !at {
            self.refused = true;
            return;
        }
        self.valid = if at { n } else { now.saturating_add(n) };
        self.no_cache = false;
        self.expired = false;
    }

    fn cache_control(&mut self, value: &[u8], now: i64) {
        let value = value.to_ascii_lowercase();
        let has = |word: &str| memchr::memmem::find(&value, word.as_bytes()).is_some();
        let after = |word: &str| {
            let at = memchr::memmem::find(&value, word.as_bytes())? + word.len();
            Some(seconds(&value[at..]))
        };
        if self.valid == 0 || !self.accel {
            if has("no-cache") || has("no-store") || has("private") {
                self.no_cache = true;
                return;
            }
            match after("s-maxage=").or_else(|| after("max-age=")) {
                None => {}
                Some(None) => self.refused = true,
                Some(Some(0)) => {
                    self.no_cache = true;
                    return;
                }
                Some(Some(n)) => {
                    self.valid = now.saturating_add(n);
                    self.expired = false;
                }
            }
        }
        if let Some(span) = after("stale-while-revalidate=") {
            self.refused |= span.is_none();
            self.while_updating = span.unwrap_or(0);
            self.on_error = self.while_updating;
        }
        if let Some(span) = after("stale-if-error=") {
            self.refused |= span.is_none();
            self.on_error = span.unwrap_or(0);
        }
    }

    fn expires(&mut self, value: &[u8], now: i64) {
        if self.valid != 0 {
            return;
        }
        match parse_http_date(value).filter(|&t| t >= now) {
            Some(t) => self.valid = t,
            None => self.expired = true,
        }
    }
}

fn all_digits(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_digit)
}

/// The number at the start; a number that is too large becomes the largest one.
fn number(text: &[u8]) -> Option<i64> {
    let digits = text.iter().take_while(|c| c.is_ascii_digit());
    digits.fold(None, |n: Option<i64>, c| {
        let n = n.unwrap_or(0).saturating_mul(10);
        Some(n.saturating_add(i64::from(c - b'0')))
    })
}

/// Delta seconds up to a comma, blank, or semicolon; `None` for any other text.
fn seconds(text: &[u8]) -> Option<i64> {
    let digits = text.iter().take_while(|c| c.is_ascii_digit()).count();
    let end = text.get(digits);
    if digits == 0 || end.is_some_and(|c| !b",; \t".contains(c)) {
        return None;
    }
    number(text)
}

/// The freshness in seconds of responses with this status that say nothing about it; 0 for none.
pub fn valid_for(conf: &UpConf, status: u16) -> i64 {
    let rules = items(&conf.cache_valid);
    let rule = rules
        .iter()
        .find(|r| r.status.is_none_or(|wanted| wanted == status));
    rule.map_or(0, |r| i64::try_from(r.seconds).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(fields: &[(&str, &str)]) -> Verdict {
        let bytes = |(n, v): &(&str, &str)| (n.as_bytes().to_vec(), v.as_bytes().to_vec());
        let head = Head {
            status: 200,
            fields: fields.iter().map(bytes).collect::<Vec<_>>().into(),
            ..Head::default()
        };
        Verdict::of(&UpConf::default(), &head, 1000)
    }

    #[test]
    fn the_strongest_word_on_freshness_counts() {
        let valid = |fields: &[(&str, &str)]| {
            let v = verdict(fields);
            (!v.refused).then_some(v.valid)
        };
        let old = ("Expires", "Thu, 01 Jan 1970 00:00:01 GMT");
        assert_eq!(valid(&[]), Some(0));
        assert_eq!(valid(&[("Cache-Control", "max-age=10")]), Some(1010));
        assert_eq!(
            valid(&[("Cache-Control", "max-age=10, s-maxage=20")]),
            Some(1020)
        );
        assert_eq!(valid(&[("Cache-Control", "private")]), None);
        assert_eq!(valid(&[("Cache-Control", "max-age=0")]), None);
        assert_eq!(valid(&[("Cache-Control", "max-age=x")]), None);
        assert_eq!(valid(&[old]), None);
        assert_eq!(valid(&[old, ("Cache-Control", "max-age=10")]), Some(1010));
        assert_eq!(
            valid(&[("Cache-Control", "no-cache"), ("X-Accel-Expires", "5")]),
            Some(1005)
        );
        assert_eq!(
            valid(&[("X-Accel-Expires", "@5"), ("Cache-Control", "no-cache")]),
            Some(5)
        );
        assert_eq!(valid(&[("X-Accel-Expires", "0")]), None);
        assert_eq!(valid(&[("Set-Cookie", "a=b")]), None);
        assert_eq!(valid(&[("Vary", "*")]), None);
    }

    #[test]
    fn stale_spans_are_read() {
        let v = verdict(&[(
            "Cache-Control",
            "max-age=1, stale-while-revalidate=3, stale-if-error=7",
        )]);
        assert_eq!((v.while_updating, v.on_error), (3, 7));
        let v = verdict(&[("Cache-Control", "max-age=1, stale-while-revalidate=3")]);
        assert_eq!((v.while_updating, v.on_error), (3, 3));
    }
}
