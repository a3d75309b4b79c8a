//! `health_check` and the tests of `match` blocks.

use crate::builder::Builder;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::pattern::Pattern;
use crate::table::{ctx::*, *};
use crate::template::variable_name;
use crate::values::{parse_digits, parse_msec};
use std::sync::Arc;

/// The default milliseconds between two checks.
const INTERVAL: u64 = 5000;

pub const TABLE: &[Spec] = &[
    with(
        "health_check",
        LOC | SSRV,
        Arity(0, usize::MAX),
        health_check,
    ),
    simple(
        "health_check_timeout",
        STREAM | SSRV,
        ONE,
        Setter::Msec(|b| &mut b.stream().health_check_timeout),
    ),
    block("match", HTTP | STREAM, ONE, matching),
    with("status", MATCH, MORE, status),
    with("header", MATCH, Arity(1, 3), header),
    with("body", MATCH, TWO, body),
    with("require", MATCH, MORE, require),
    with("send", SMATCH, ONE, |b, d| {
        let bytes = unescaped(&d.args()[0]).ok_or_else(|| invalid_value(d))?;
        let (send, _) = exchange(b);
        store(send, bytes, d)
    }),
    with("expect", SMATCH, Arity(1, 2), expect),
];

fn health_check(b: &mut Builder, d: &Directive) -> Result<()> {
    let in_stream = b.is_in_stream();
    let mut conf = CheckConf {
        interval: INTERVAL,
        jitter: 0,
        fails: 1,
        passes: 1,
        mandatory: false,
        persistent: false,
        port: None,
        keepalive_time: 0,
        kind: match in_stream {
            true => CheckKind::Tcp,
            false => CheckKind::Http { uri: "/".into() },
        },
        match_name: String::new(),
        tests: None,
        place: d.place.clone(),
    };
    for word in d.args() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let is_known = match (key, in_stream) {
            // As in nginx, nothing else may follow `type=grpc`.
            _ if matches!(conf.kind, CheckKind::Grpc { .. }) => of_grpc(&mut conf, key, value),
            ("udp", true) if word == "udp" => {
                conf.kind = CheckKind::Udp;
                Some(())
            }
            ("uri" | "type" | "keepalive_time", false) => of_http(&mut conf, key, value),
            _ => common(&mut conf, key, value, word.contains('=')),
        };
        is_known.ok_or_else(|| invalid_parameter(d, word))?;
    }
    match in_stream {
        true => super::server::current(b).stream.checks.push(conf),
        false => b.node().checks.push(conf),
    }
    Ok(())
}

/// Set a parameter that http and `stream` have; `None` if it is invalid.
fn common(conf: &mut CheckConf, key: &str, value: &str, has_value: bool) -> Option<()> {
    let number = || {
        let number = parse_digits(value).filter(|&n| n > 0)?;
        u32::try_from(number).ok()
    };
    match (key, has_value) {
        ("interval", true) => conf.interval = parse_msec(value).filter(|&ms| ms > 0)?,
        ("jitter", true) => conf.jitter = parse_msec(value)?,
        ("fails", true) => conf.fails = number()?,
        ("passes", true) => conf.passes = number()?,
        ("port", true) => conf.port = Some(value.parse().ok().filter(|&port| port > 0)?),
        ("match", true) if !value.is_empty() => conf.match_name = value.to_string(),
        ("mandatory", false) => conf.mandatory = true,
        ("persistent", false) if conf.mandatory => conf.persistent = true,
        _ => return None,
    }
    Some(())
}

fn of_http(conf: &mut CheckConf, key: &str, value: &str) -> Option<()> {
    match (key, value) {
        ("keepalive_time", time) => conf.keepalive_time = parse_msec(time)?,
        ("uri", uri) if is_uri(uri) => conf.kind = CheckKind::Http { uri: uri.into() },
        // A gRPC check has a URI and tests of its own.
        ("type", "grpc") if conf.match_name.is_empty() && asks_default(conf) => {
            conf.kind = CheckKind::Grpc {
                service: String::new(),
                status: None,
            };
        }
        _ => return None,
    }
    Some(())
}

fn asks_default(conf: &CheckConf) -> bool {
    matches!(&conf.kind, CheckKind::Http { uri } if uri == "/")
}

/// Whether the text can stand in a request line.
fn is_uri(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|c| c.is_ascii_graphic())
}

fn of_grpc(conf: &mut CheckConf, key: &str, value: &str) -> Option<()> {
    let CheckKind::Grpc { service, status } = &mut conf.kind else {
        return None;
    };
    match key {
        "grpc_service" if !value.is_empty() => *service = value.into(),
        "grpc_status" => *status = Some(value.parse().ok()?),
        _ => return None,
    }
    Some(())
}

fn matching(b: &mut Builder, d: &Directive) -> Result<()> {
    let name = &d.args()[0];
    let in_stream = b.is_in_stream();
    b.tests = Some(match in_stream {
        true => Tests::Stream {
            send: None,
            expect: None,
        },
        false => Tests::Http(Vec::new()),
    });
    let result = b.apply_in(if in_stream { SMATCH } else { MATCH }, d);
    let tests = b.tests.take().expect("the tests set above");
    result?;
    match b.http().matches.insert(name.clone(), Arc::new(tests)) {
        None => Ok(()),
        Some(_) => Err(ConfError::new(format!("duplicate match \"{name}\""))),
    }
}

/// Add a test of an HTTP response.
fn add(b: &mut Builder, test: Test) {
    if let Some(Tests::Http(tests)) = &mut b.tests {
        tests.push(test);
    }
}

/// `send` and `expect` of the match block in `stream`.
fn exchange(b: &mut Builder) -> (&mut Option<Vec<u8>>, &mut Option<Expect>) {
    match &mut b.tests {
        Some(Tests::Stream { send, expect }) => (send, expect),
        _ => unreachable!("only allowed inside match of stream"),
    }
}

fn status(b: &mut Builder, d: &Directive) -> Result<()> {
    let (negated, words) = match d.args() {
        [not, words @ ..] if not == "!" => (true, words),
        words => (false, words),
    };
    if words.is_empty() {
        return Err(invalid_value(d));
    }
    let code = |text: &str| {
        let code = parse_digits(text).filter(|code| (100..1000).contains(code))?;
        u16::try_from(code).ok()
    };
    let range = |word: &String| {
        let (from, to) = word.split_once('-').unwrap_or((word, word));
        let range = code(from).zip(code(to)).filter(|(from, to)| from <= to);
        range.ok_or_else(|| ConfError::at(format!("invalid status \"{word}\""), &d.place))
    };
    let ranges = words.iter().map(range).collect::<Result<_>>()?;
    add(b, Test::Status { negated, ranges });
    Ok(())
}

fn header(b: &mut Builder, d: &Directive) -> Result<()> {
    let words: Vec<&str> = d.args().iter().map(String::as_str).collect();
    let (name, test) = match words[..] {
        ["!", name] => (name, FieldTest::Absent),
        [name] if name != "!" => (name, FieldTest::Present),
        [name, sign @ ("=" | "!="), value] => {
            let (negated, value) = (sign == "!=", value.to_string());
            (name, FieldTest::Equal { negated, value })
        }
        [name, sign, source] => {
            let (negated, pattern) = regex(b, d, sign, source)?;
            (name, FieldTest::Matching { negated, pattern })
        }
        _ => return Err(invalid_value(d)),
    };
    let name = name.to_string();
    add(b, Test::Header { name, test });
    Ok(())
}

fn body(b: &mut Builder, d: &Directive) -> Result<()> {
    let (negated, pattern) = regex(b, d, &d.args()[0], &d.args()[1])?;
    add(b, Test::Body { negated, pattern });
    Ok(())
}

/// A regular expression after its sign, and whether it must not match.
fn regex(b: &mut Builder, d: &Directive, sign: &str, source: &str) -> Result<(bool, Pattern)> {
    let (negated, caseless) = match sign {
        "~" => (false, false),
        "~*" => (false, true),
        "!~" => (true, false),
        "!~*" => (true, true),
        _ => return Err(invalid_parameter(d, sign)),
    };
    Ok((negated, b.pattern(source, caseless, &d.place)?))
}

fn require(b: &mut Builder, d: &Directive) -> Result<()> {
    let mut variables = Vec::new();
    for word in d.args() {
        let name = variable_name(word, &d.place)?;
        variables.push(b.vars.intern(name));
    }
    add(b, Test::Require(variables));
    Ok(())
}

fn expect(b: &mut Builder, d: &Directive) -> Result<()> {
    let value = match d.args() {
        [text] => {
            let bytes = unescaped(text).filter(|bytes| !bytes.is_empty());
            Expect::Text(bytes.ok_or_else(|| invalid_value(d))?)
        }
        [sign, source] if sign.starts_with('~') => Expect::Regex(regex(b, d, sign, source)?.1),
        _ => return Err(invalid_value(d)),
    };
    let (_, expect) = exchange(b);
    store(expect, value, d)
}

/// The bytes of a text with hexadecimal literals such as `\x0d`; `None` if one is incomplete.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut pieces = text.split("\\x");
    let mut out = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2)?;
        let is_hex = digits.bytes().all(|c| c.is_ascii_hexdigit());
        out.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        out.extend_from_slice(&piece.as_bytes()[2..]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::unescaped;

    #[test]
    fn hexadecimal_literals_become_bytes() {
        assert_eq!(unescaped("a\\x0d\\x0Ab"), Some(b"a\r\nb".to_vec()));
        assert_eq!(unescaped("a\\n"), Some(b"a\\n".to_vec()));
        assert_eq!(unescaped("\\x0"), None);
        assert_eq!(unescaped("\\x+1"), None);
    }
}
