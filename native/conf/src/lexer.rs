//! Splits configuration text into nginx's tokens: words, `;`, `{`, and `}`.

/// A token and the line on which it ends (nginx reports that line).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A word. `quoted` words may be empty and are never block marks.
    Word {
        text: String,
        quoted: bool,
    },
    Semicolon,
    Open,
    Close,
    End,
}

/// A lexical error; the caller adds file and line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LexError {
    /// A character in a place where it is not allowed, such as after a closing quote.
    Unexpected(char),
    /// The file ends inside of a word or a quoted string.
    UnexpectedEnd,
    NotUtf8,
}

pub struct Lexer<'a> {
    src: &'a [u8],
    pos: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    pub fn new(src: &'a [u8]) -> Self {
        // Skip a byte-order mark.
        let pos = if src.starts_with(b"\xef\xbb\xbf") {
            3
        } else {
            0
        };
        Lexer { src, pos, line: 1 }
    }

    /// The line of the last byte consumed, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    pub fn next_token(&mut self) -> Result<Token, LexError> {
        self.skip_blank();
        let Some(&first) = self.src.get(self.pos) else {
            return Ok(Token::End);
        };
        match first {
            b';' => self.single(Token::Semicolon),
            b'{' => self.single(Token::Open),
            b'}' => self.single(Token::Close),
            b'"' | b'\'' => self.quoted(first),
            _ => self.bare(),
        }
    }

    fn single(&mut self, token: Token) -> Result<Token, LexError> {
        self.pos += 1;
        Ok(token)
    }

    fn skip_blank(&mut self) {
        while let Some(&c) = self.src.get(self.pos) {
            match c {
                b'\n' => self.line += 1,
                b' ' | b'\t' | b'\r' => {}
                b'#' => {
                    let rest = &self.src[self.pos..];
                    self.pos += rest.iter().position(|&c| c == b'\n').unwrap_or(rest.len());
                    continue;
                }
                _ => return,
            }
            self.pos += 1;
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<Token, LexError> {
        self.pos += 1;
        let start = self.pos;
        loop {
            match self.src.get(self.pos) {
                None => return Err(LexError::UnexpectedEnd),
                Some(b'\\') => self.skip_escaped(),
                Some(&c) if c == quote => break,
                Some(&c) => self.step(c),
            }
        }
        let text = unescape(&self.src[start..self.pos])?;
        self.pos += 1;
        match self.src.get(self.pos) {
            None | Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' | b')') => {}
            Some(&c) => return Err(LexError::Unexpected(c as char)),
        }
        Ok(Token::Word { text, quoted: true })
    }

    fn bare(&mut self) -> Result<Token, LexError> {
        let start = self.pos;
        let mut after_dollar = false;
        loop {
            let Some(&c) = self.src.get(self.pos) else {
                return Err(LexError::UnexpectedEnd);
            };
            match c {
                b'\\' => {
                    self.skip_escaped();
                    after_dollar = false;
                    continue;
                }
                // "${name}" is a variable, not the start of a block.
                b'{' if after_dollar => {}
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' => break,
                _ => {}
            }
            after_dollar = c == b'$';
            self.step(c);
        }
        let text = unescape(&self.src[start..self.pos])?;
        Ok(Token::Word {
            text,
            quoted: false,
        })
    }

    fn step(&mut self, c: u8) {
        if c == b'\n' {
            self.line += 1;
        }
        self.pos += 1;
    }

    fn skip_escaped(&mut self) {
        self.pos += 1;
        if let Some(&c) = self.src.get(self.pos) {
            self.step(c);
        }
    }
}

/// Resolve `\"`, `\'`, `\\`, `\t`, `\r`, and `\n`; every other backslash stays for regular
/// expressions.
fn unescape(raw: &[u8]) -> Result<String, LexError> {
    let mut out = Vec::with_capacity(raw.len());
    let mut i = 0;
    while i < raw.len() {
        let replaced = match (raw[i], raw.get(i + 1)) {
            (b'\\', Some(&c @ (b'"' | b'\'' | b'\\'))) => Some(c),
            (b'\\', Some(b't')) => Some(b'\t'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(b'n')) => Some(b'\n'),
            _ => None,
        };
        out.push(replaced.unwrap_or(raw[i]));
        i += if replaced.is_some() { 2 } else { 1 };
    }
    String::from_utf8(out).map_err(|_| LexError::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(src: &str) -> Vec<Token> {
        let mut lexer = Lexer::new(src.as_bytes());
        let mut out = Vec::new();
        loop {
            match lexer.next_token().expect("lexes") {
                Token::End => return out,
                token => out.push(token),
            }
        }
    }

    fn word(text: &str) -> Token {
        Token::Word {
            text: text.into(),
            quoted: false,
        }
    }

    #[test]
    fn braces_of_a_variable_do_not_open_a_block() {
        assert_eq!(
            words("set $a ${b}c{ }"),
            vec![
                word("set"),
                word("$a"),
                word("${b}c"),
                Token::Open,
                Token::Close
            ]
        );
    }

    #[test]
    fn quotes_hold_blanks_and_escapes_are_undone_only_where_nginx_undoes_them() {
        let expected = Token::Word {
            text: "a \"b\" \\d\t".into(),
            quoted: true,
        };
        assert_eq!(
            words(r#""a \"b\" \d\t";"#),
            vec![expected, Token::Semicolon]
        );
    }

    #[test]
    fn text_right_after_a_quote_is_refused() {
        assert_eq!(
            Lexer::new(b"\"a\"b;").next_token(),
            Err(LexError::Unexpected('b'))
        );
    }

    #[test]
    fn comments_end_at_the_line_and_lines_are_counted() {
        let mut lexer = Lexer::new(b"# one; {\n\n a;");
        assert_eq!(lexer.next_token(), Ok(word("a")));
        assert_eq!(lexer.line(), 3);
    }

    proptest! {
        #[test]
        fn any_text_ends_without_a_panic(src in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut lexer = Lexer::new(&src);
            for _ in 0..=src.len() {
                match lexer.next_token() {
                    Ok(Token::End) | Err(_) => return Ok(()),
                    Ok(_) => {}
                }
            }
            prop_assert!(false, "more tokens than bytes");
        }
    }
}
