//! sub_filter: replaces texts in the body. At each place, the text that was configured first wins;
//! letters match in either case.

use super::transform::{Transform, Transformed};
use crate::exchange::Exchange;
use crate::template;
use gallop_conf::model::items;
use std::io;

pub fn apply(ex: &mut Exchange) {
    let loc = ex.loc.clone();
    let conf = &loc.conf;
    let r = &ex.response;
    if conf.sub_filter.is_none()
        || r.content_length == Some(0)
        || !super::is_of_types(r, &conf.sub_filter_types)
    {
        return;
    }
    let pairs: Vec<Pair> = items(&conf.sub_filter)
        .iter()
        .map(|p| Pair {
            from: template::eval(ex, &p.from).to_ascii_lowercase(),
            to: template::eval(ex, &p.to),
            used: false,
        })
        .filter(|p| !p.from.is_empty())
        .collect();
    if pairs.is_empty() {
        return;
    }
    super::body_changes(&mut ex.response);
    if conf.sub_filter_last_modified != Some(true) {
        super::forget_validators(&mut ex.response);
    }
    if ex.header_only {
        return;
    }
    let once = conf.sub_filter_once.unwrap_or(true);
    let inner = std::mem::take(&mut ex.response.body);
    ex.response.body = Transformed::body(inner, Sub::new(pairs, once));
}

struct Pair {
    /// The text to replace, in lower case.
    from: Vec<u8>,
    to: Vec<u8>,
    used: bool,
}

struct Sub {
    pairs: Vec<Pair>,
    once: bool,
    /// Bytes that may start a text.
    held: Vec<u8>,
    /// The first bytes of all texts.
    starts: [bool; 256],
}

enum Found {
    Pair(usize),
    /// More bytes are needed to decide.
    Unsure,
    None,
}

impl Sub {
    fn new(pairs: Vec<Pair>, once: bool) -> Sub {
        let mut sub = Sub {
            pairs,
            once,
            held: Vec::new(),
            starts: [false; 256],
        };
        sub.note_starts();
        sub
    }

    fn note_starts(&mut self) {
        self.starts = [false; 256];
        for pair in self.pairs.iter().filter(|p| !(self.once && p.used)) {
            let first = pair.from[0];
            self.starts[usize::from(first)] = true;
            self.starts[usize::from(first.to_ascii_uppercase())] = true;
        }
    }

    /// The text at the start of `input`; `ended`: no bytes follow.
    fn at(&self, input: &[u8], ended: bool) -> Found {
        for (i, pair) in self.pairs.iter().enumerate() {
            if self.once && pair.used {
                continue;
            }
            let n = pair.from.len().min(input.len());
            if !input[..n].eq_ignore_ascii_case(&pair.from[..n]) {
                continue;
            }
            if n == pair.from.len() {
                return Found::Pair(i);
            }
            if !ended {
                return Found::Unsure;
            }
        }
        Found::None
    }

    fn run(&mut self, input: &[u8], ended: bool, out: &mut Vec<u8>) {
        let mut at = 0;
        let mut copied = 0;
        while at < input.len() {
            if !self.starts[usize::from(input[at])] {
                at += 1;
                continue;
            }
            match self.at(&input[at..], ended) {
                Found::None => at += 1,
                Found::Unsure => break,
                Found::Pair(i) => {
                    out.extend_from_slice(&input[copied..at]);
                    let pair = &mut self.pairs[i];
                    out.extend_from_slice(&pair.to);
                    at += pair.from.len();
                    copied = at;
                    pair.used = true;
                    if self.once {
                        self.note_starts();
                    }
                }
            }
        }
        out.extend_from_slice(&input[copied..at]);
        self.held = input[at..].to_vec();
    }
}

impl Transform for Sub {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if self.held.is_empty() {
            self.run(data, false, out);
        } else {
            let mut input = std::mem::take(&mut self.held);
            input.extend_from_slice(data);
            self.run(&input, false, out);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let input = std::mem::take(&mut self.held);
        self.run(&input, true, out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(pairs: &[(&str, &str)], once: bool, pieces: &[&[u8]]) -> String {
        let pair = |(from, to): &(&str, &str)| Pair {
            from: from.to_ascii_lowercase().into(),
            to: (*to).into(),
            used: false,
        };
        let mut sub = Sub::new(pairs.iter().map(pair).collect(), once);
        let mut out = Vec::new();
        for piece in pieces {
            sub.push(piece, &mut out).expect("never fails");
        }
        sub.finish(&mut out).expect("never fails");
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn the_leftmost_text_is_replaced_and_of_two_the_first_declared() {
        assert_eq!(run(&[("foo", "bar")], true, &[b"FOOfoo"]), "barfoo");
        assert_eq!(run(&[("foo", "bar")], false, &[b"FOOfoo"]), "barbar");
        assert_eq!(
            run(&[("ab", "1"), ("abc", "2")], false, &[b"abc abc"]),
            "1c 1c"
        );
        assert_eq!(
            run(&[("abc", "2"), ("ab", "1")], false, &[b"abc abd"]),
            "2 1d"
        );
        assert_eq!(run(&[("aab", "x")], false, &[b"aaab"]), "ax");
        assert_eq!(run(&[("abc", "x")], false, &[b"ab"]), "ab");
    }

    proptest! {
        #[test]
        fn cuts_in_the_body_change_nothing(text in "[abc]{0,40}", cut in 0usize..40) {
            let pairs = [("abca", "<1>"), ("bc", "<2>"), ("aa", "<3>")];
            let whole = run(&pairs, false, &[text.as_bytes()]);
            let (a, z) = text.as_bytes().split_at(cut.min(text.len()));
            prop_assert_eq!(run(&pairs, false, &[a, z]), whole);
        }
    }
}
