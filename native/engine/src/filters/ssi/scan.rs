//! Finds SSI commands in text that arrives in pieces.

use std::collections::VecDeque;

/// Longer commands are rejected, since commands are held in memory.
const MAX_COMMAND: usize = 16 * 1024;
const START: &[u8] = b"<!--#";
const END: &[u8] = b"-->";

#[derive(Debug, PartialEq, Eq)]
pub enum Token {
    Text(Vec<u8>),
    Command(Command),
    /// Text that starts like a command but is invalid.
    Invalid,
}

/// A name in lower case and a value.
type Param = (String, Vec<u8>);

#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    pub name: String,
    pub params: Vec<Param>,
    /// The original text.
    pub raw: Vec<u8>,
}

impl Command {
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let named = |p: &&Param| p.0 == name;
        self.params.iter().find(named).map(|p| p.1.as_slice())
    }
}

#[derive(Default)]
pub struct Scanner {
    held: Vec<u8>,
    /// Whether the scanner is inside a rejected command.
    skipping: bool,
}

impl Scanner {
    pub fn push(&mut self, data: &[u8], out: &mut VecDeque<Token>) {
        self.held.extend_from_slice(data);
        while self.step(out) {}
    }

    /// Handle the end of the text.
    pub fn finish(&mut self, out: &mut VecDeque<Token>) {
        let rest = std::mem::take(&mut self.held);
        if rest.starts_with(START) {
            out.push_back(Token::Invalid);
        } else if !rest.is_empty() && !self.skipping {
            out.push_back(Token::Text(rest));
        }
    }

    /// Take one token; `false` if more text is needed.
    fn step(&mut self, out: &mut VecDeque<Token>) -> bool {
        if self.skipping {
            let Some(end) = memchr::memmem::find(&self.held, END) else {
                let keep = self.held.len().min(END.len() - 1);
                self.held.drain(..self.held.len() - keep);
                return false;
            };
            self.held.drain(..end + END.len());
            self.skipping = false;
        }
        let Some(at) = memchr::memmem::find(&self.held, START) else {
            let text = self.held.len() - partial(&self.held);
            if text > 0 {
                out.push_back(Token::Text(self.held.drain(..text).collect()));
            }
            return false;
        };
        if at > 0 {
            out.push_back(Token::Text(self.held.drain(..at).collect()));
        }
        let Some(end) = command_end(&self.held[START.len()..]) else {
            if self.held.len() > MAX_COMMAND {
                out.push_back(Token::Invalid);
                self.held.clear();
                self.skipping = true;
            }
            return false;
        };
        let raw: Vec<u8> = self.held.drain(..START.len() + end + END.len()).collect();
        out.push_back(parse(&raw[START.len()..START.len() + end], &raw));
        true
    }
}

/// The number of bytes at the end that may start a command.
fn partial(text: &[u8]) -> usize {
    let longest = START.len().min(text.len() + 1) - 1;
    let fits = |n: &usize| text.ends_with(&START[..*n]);
    (1..=longest).rev().find(fits).unwrap_or(0)
}

/// The position of the command's end outside of quotes.
fn command_end(text: &[u8]) -> Option<usize> {
    let mut quote = None;
    let mut i = 0;
    while i < text.len() {
        match (quote, text[i]) {
            (None, c @ (b'"' | b'\'')) => quote = Some(c),
            (None, b'-') if text[i..].starts_with(END) => return Some(i),
            (Some(_), b'\\') => i += 1,
            (Some(q), c) if q == c => quote = None,
            _ => {}
        }
        i += 1;
    }
    None
}

fn parse(text: &[u8], raw: &[u8]) -> Token {
    let mut rest = text.trim_ascii();
    let end = rest.iter().position(u8::is_ascii_whitespace);
    let name = &rest[..end.unwrap_or(rest.len())];
    rest = rest[name.len()..].trim_ascii_start();
    if name.is_empty() || !name.iter().all(u8::is_ascii_alphabetic) {
        return Token::Invalid;
    }
    let mut params = Vec::new();
    while !rest.is_empty() {
        let Some((param, after)) = parameter(rest) else {
            return Token::Invalid;
        };
        params.push(param);
        rest = after.trim_ascii_start();
    }
    Token::Command(Command {
        name: String::from_utf8_lossy(name).to_ascii_lowercase(),
        params,
        raw: raw.to_vec(),
    })
}

/// Parse `name="value"`; a backslash escapes a quote inside the value.
fn parameter(text: &[u8]) -> Option<(Param, &[u8])> {
    let equals = memchr::memchr(b'=', text)?;
    let name = text[..equals].trim_ascii();
    if name.is_empty() || name.iter().any(u8::is_ascii_whitespace) {
        return None;
    }
    let rest = text[equals + 1..].trim_ascii_start();
    let quote = *rest.first().filter(|c| matches!(c, b'"' | b'\''))?;
    let mut end = 1;
    while *rest.get(end)? != quote {
        end += if rest[end] == b'\\' { 2 } else { 1 };
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    Some(((name, rest[1..end].to_vec()), &rest[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scan(pieces: &[&[u8]]) -> Vec<Token> {
        let mut scanner = Scanner::default();
        let mut out = VecDeque::new();
        pieces.iter().for_each(|p| scanner.push(p, &mut out));
        scanner.finish(&mut out);
        out.into()
    }

    #[test]
    fn commands_are_found_between_texts() {
        let tokens = scan(&[br#"a<!--# echo var="x" default='-->' -->b<!-"#]);
        let Token::Command(command) = &tokens[1] else {
            panic!("{tokens:?}")
        };
        assert_eq!(command.name, "echo");
        assert_eq!(command.get("var"), Some(&b"x"[..]));
        assert_eq!(command.get("default"), Some(&b"-->"[..]));
        assert_eq!(tokens[0], Token::Text(b"a".to_vec()));
        assert_eq!(
            tokens[2..],
            [Token::Text(b"b".to_vec()), Token::Text(b"<!-".to_vec())]
        );
    }

    #[test]
    fn malformed_commands_are_invalid() {
        for text in [
            "<!--# -->",
            "<!--#echo var=x -->",
            "<!--#echo var -->",
            "<!--#a b=\"c",
        ] {
            assert_eq!(scan(&[text.as_bytes()]), [Token::Invalid], "{text}");
        }
        let long = format!("<!--#{}-->x", "y".repeat(MAX_COMMAND));
        let tokens = scan(&[long.as_bytes()]);
        assert!(tokens.len() <= 2, "{} tokens", tokens.len());
        let (start, end) = long.split_at(MAX_COMMAND + 1);
        let tokens = scan(&[start.as_bytes(), end.as_bytes()]);
        assert_eq!(tokens, [Token::Invalid, Token::Text(b"x".to_vec())]);
    }

    proptest! {
        #[test]
        fn cuts_in_the_text_change_nothing(text in "[<!\\-#>a\"= ]{0,40}", cut in 0usize..40) {
            let (a, z) = text.as_bytes().split_at(cut.min(text.len()));
            let joined = |tokens: Vec<Token>| -> Vec<Token> {
                let mut out: Vec<Token> = Vec::new();
                for token in tokens {
                    match (out.last_mut(), token) {
                        (Some(Token::Text(last)), Token::Text(more)) => last.extend(more),
                        (_, token) => out.push(token),
                    }
                }
                out
            };
            prop_assert_eq!(joined(scan(&[a, z])), joined(scan(&[text.as_bytes()])));
        }
    }
}
