//! The tests of `match` blocks on HTTP responses.

use crate::scope::Scope;
use crate::vars;
use gallop_conf::model::{FieldTest, Test};

/// The name and value of each field.
type Fields = [(Vec<u8>, Vec<u8>)];

/// A response for the tests.
pub struct Seen<'a> {
    pub status: u16,
    pub fields: &'a Fields,
    pub body: &'a [u8],
}

/// Whether a response without tests is that of a healthy server.
pub fn is_usual(status: u16) -> bool {
    (200..400).contains(&status)
}

/// Run the tests. Returns what was checked last, and whether all passed.
pub fn run<S: Scope + ?Sized>(scope: &S, tests: &[Test], seen: &Seen<'_>) -> (&'static str, bool) {
    let mut last = STATUS;
    for test in tests {
        last = match test {
            Test::Status { .. } => STATUS,
            Test::Header { .. } => "checking header",
            Test::Body { .. } => "checking body",
            Test::Require(_) => "checking variables",
        };
        if !passes(scope, test, seen) {
            return (last, false);
        }
    }
    (last, true)
}

/// The words for a check of the status.
pub const STATUS: &str = "checking status code";

fn passes<S: Scope + ?Sized>(scope: &S, test: &Test, seen: &Seen<'_>) -> bool {
    match test {
        Test::Status { negated, ranges } => {
            let is_in = |(from, to): &(u16, u16)| (*from..=*to).contains(&seen.status);
            ranges.iter().any(is_in) != *negated
        }
        Test::Header { name, test } => field(seen.fields, name, test),
        Test::Body { negated, pattern } => pattern.is_match(seen.body) != *negated,
        Test::Require(variables) => variables.iter().all(|id| {
            let value = vars::value(scope, *id);
            !value.is_empty() && value != b"0"
        }),
    }
}

/// The field must be there for a test of its value, also for a negated one.
fn field(fields: &Fields, name: &str, test: &FieldTest) -> bool {
    let named = |f: &&(Vec<u8>, Vec<u8>)| f.0.eq_ignore_ascii_case(name.as_bytes());
    let mut values = fields
        .iter()
        .filter(named)
        .map(|(_, value)| value)
        .peekable();
    let is_there = values.peek().is_some();
    match test {
        FieldTest::Present => is_there,
        FieldTest::Absent => !is_there,
        FieldTest::Equal { negated, value } => {
            is_there && values.any(|v| v == value.as_bytes()) != *negated
        }
        FieldTest::Matching { negated, pattern } => {
            is_there && values.any(|v| pattern.is_match(v)) != *negated
        }
    }
}
