//! Reads a configuration file and its includes into a tree of directives.

use crate::error::{ConfError, Place, Result, COMMAND_LINE};
use crate::lexer::{LexError, Lexer, Token};
use crate::table;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directive: its words (the name first), its place, and its contents if it is a block.
#[derive(Clone, Debug)]
pub struct Directive {
    pub words: Vec<String>,
    pub place: Place,
    pub block: Option<Vec<Directive>>,
}

impl Directive {
    pub fn name(&self) -> &str {
        &self.words[0]
    }

    pub fn args(&self) -> &[String] {
        &self.words[1..]
    }
}

/// A file that was read, in load order, as `-T` prints it.
#[derive(Clone, Debug)]
pub struct SourceFile {
    pub path: PathBuf,
    pub text: Vec<u8>,
}

/// The result of reading: the directives with includes expanded, and the files.
#[derive(Debug, Default)]
pub struct Source {
    pub directives: Vec<Directive>,
    pub files: Vec<SourceFile>,
}

/// Deeper includes indicate a file that includes itself.
const MAX_INCLUDE_DEPTH: u32 = 64;

/// Read `path`; relative includes start at `conf_prefix`, the folder of the main file.
pub fn parse_file(path: &Path, conf_prefix: &Path, source: &mut Source) -> Result<()> {
    let mut reader = Reader {
        conf_prefix,
        files: &mut source.files,
    };
    let text = reader.load(path, None)?;
    source.directives = reader.parse_text(path, &text, 0)?;
    Ok(())
}

/// Parse text that is not in a file, such as the argument of `-g`.
pub fn parse_text(label: &str, text: &str, conf_prefix: &Path) -> Result<Vec<Directive>> {
    let mut files = Vec::new();
    let mut reader = Reader {
        conf_prefix,
        files: &mut files,
    };
    reader.parse_text(Path::new(label), text.as_bytes(), 0)
}

struct Reader<'a> {
    conf_prefix: &'a Path,
    files: &'a mut Vec<SourceFile>,
}

/// The read position: a lexer over one file.
struct Cursor<'a> {
    lexer: Lexer<'a>,
    file: Arc<str>,
    include_depth: u32,
}

impl Cursor<'_> {
    fn place(&self) -> Place {
        Place {
            file: self.file.clone(),
            line: self.lexer.line(),
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(ConfError::at(message, &self.place()))
    }

    fn is_parameter(&self) -> bool {
        &*self.file == COMMAND_LINE
    }

    /// The message for text that ends too early.
    fn cut(&self, in_directive: bool) -> &'static str {
        match (self.is_parameter(), in_directive) {
            (true, _) => "unexpected end of parameter, expecting \";\"",
            (false, true) => "unexpected end of file, expecting \";\" or \"}\"",
            (false, false) => "unexpected end of file, expecting \"}\"",
        }
    }

    fn token(&mut self, in_directive: bool) -> Result<Token> {
        self.lexer.next_token().map_err(|e| {
            let message = match e {
                LexError::Unexpected(c) => format!("unexpected \"{c}\""),
                LexError::UnexpectedEnd => self.cut(in_directive).to_string(),
                LexError::NotUtf8 => "the text is not valid UTF-8".to_string(),
            };
            ConfError::at(message, &self.place())
        })
    }
}

impl Reader<'_> {
    fn load(&mut self, path: &Path, from: Option<&Place>) -> Result<Vec<u8>> {
        let text = std::fs::read(path).map_err(|e| {
            let message = format!("open() \"{}\" failed ({})", path.display(), os_error(&e));
            ConfError {
                message,
                place: from.cloned(),
            }
        })?;
        if !self.files.iter().any(|f| f.path == path) {
            self.files.push(SourceFile {
                path: path.to_path_buf(),
                text: text.clone(),
            });
        }
        Ok(text)
    }

    fn parse_text(&mut self, path: &Path, text: &[u8], depth: u32) -> Result<Vec<Directive>> {
        let file: Arc<str> = path.to_string_lossy().into();
        let mut cursor = Cursor {
            lexer: Lexer::new(text),
            file,
            include_depth: depth,
        };
        self.block(&mut cursor, None)
    }

    /// Read directives up to the closing brace of the block called `around`, or to the end of the
    /// file.
    fn block(&mut self, cursor: &mut Cursor<'_>, around: Option<&str>) -> Result<Vec<Directive>> {
        let mut out = Vec::new();
        loop {
            match cursor.token(false)? {
                Token::End if around.is_some() => {
                    return cursor.fail(cursor.cut(false));
                }
                Token::Close if around.is_none() => return cursor.fail("unexpected \"}\""),
                Token::End | Token::Close => return Ok(out),
                Token::Semicolon => return cursor.fail("unexpected \";\""),
                Token::Open => return cursor.fail("unexpected \"{\""),
                Token::Word { text, .. } => {
                    let directive = self.directive(cursor, text, around)?;
                    self.add(cursor, directive, &mut out)?;
                }
            }
        }
    }

    fn directive(
        &mut self,
        cursor: &mut Cursor<'_>,
        name: String,
        around: Option<&str>,
    ) -> Result<Directive> {
        let mut words = vec![name];
        loop {
            match cursor.token(true)? {
                Token::Word { text, .. } => words.push(text),
                Token::Semicolon => {
                    return Ok(Directive {
                        words,
                        place: cursor.place(),
                        block: None,
                    });
                }
                Token::Open if cursor.is_parameter() => {
                    return cursor.fail("block directives are not supported in -g option");
                }
                Token::Open => {
                    let place = cursor.place();
                    if let Some(message) = table::wrong_opening(&words[0], around) {
                        return Err(ConfError::at(message, &place));
                    }
                    let block = Some(self.block(cursor, Some(&words[0]))?);
                    return Ok(Directive {
                        words,
                        place,
                        block,
                    });
                }
                Token::Close => return cursor.fail("unexpected \"}\""),
                Token::End => return cursor.fail(cursor.cut(true)),
            }
        }
    }

    fn add(
        &mut self,
        cursor: &Cursor<'_>,
        directive: Directive,
        out: &mut Vec<Directive>,
    ) -> Result<()> {
        if directive.name() != "include" || directive.block.is_some() {
            out.push(directive);
            return Ok(());
        }
        if directive.words.len() != 2 {
            return Err(ConfError::at(
                "invalid number of arguments in \"include\" directive",
                &directive.place,
            ));
        }
        if cursor.include_depth >= MAX_INCLUDE_DEPTH {
            return Err(ConfError::at(
                "includes are nested too deeply",
                &directive.place,
            ));
        }
        for path in self.include_paths(&directive.words[1]) {
            let text = self.load(&path, Some(&directive.place))?;
            out.extend(self.parse_text(&path, &text, cursor.include_depth + 1)?);
        }
        Ok(())
    }

    /// The included files. A pattern may match nothing; a plain name must exist, otherwise opening
    /// it fails.
    fn include_paths(&self, name: &str) -> Vec<PathBuf> {
        let full = self.conf_prefix.join(name);
        if name.contains(['*', '?', '[']) {
            glob_paths(&full)
        } else {
            vec![full]
        }
    }
}

/// An operating system error in nginx's format: `2: No such file or directory`.
pub fn os_error(e: &std::io::Error) -> String {
    let text = e.to_string();
    match e.raw_os_error() {
        Some(code) => {
            let suffix = format!(" (os error {code})");
            format!("{code}: {}", text.strip_suffix(&suffix).unwrap_or(&text))
        }
        None => text,
    }
}

/// The paths that match a shell pattern, sorted; as in glob(3), a leading dot must be matched
/// explicitly.
fn glob_paths(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let text = part.as_os_str().to_string_lossy();
        found = if text.contains(['*', '?', '[']) {
            found
                .iter()
                .flat_map(|dir| matching_entries(dir, &text))
                .collect()
        } else {
            found.into_iter().map(|dir| dir.join(part)).collect()
        };
    }
    found.retain(|p| p.exists());
    found.sort();
    found
}

fn matching_entries(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|e| e.file_name());
    names
        .filter(|n| {
            let n = n.to_string_lossy();
            (pattern.starts_with('.') || !n.starts_with('.'))
                && glob_match(pattern.as_bytes(), n.as_bytes())
        })
        .map(|n| dir.join(n))
        .collect()
}

/// Match `*`, `?`, `[...]`, and `[!...]` within one path component.
pub fn glob_match(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.first() {
        None => name.is_empty(),
        Some(b'*') => (0..=name.len()).any(|i| glob_match(&pattern[1..], &name[i..])),
        Some(b'?') => !name.is_empty() && glob_match(&pattern[1..], &name[1..]),
        Some(b'[') => match (class_match(pattern, name.first()), name.is_empty()) {
            (Some((true, rest)), false) => glob_match(&pattern[rest..], &name[1..]),
            (Some(_), _) => false,
            (None, _) => name.first() == Some(&b'[') && glob_match(&pattern[1..], &name[1..]),
        },
        Some(c) => name.first() == Some(c) && glob_match(&pattern[1..], &name[1..]),
    }
}

/// Whether the class at the start of `pattern` contains `c`, and the class's end; `None` if it is
/// not closed.
fn class_match(pattern: &[u8], c: Option<&u8>) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = if negated { 2 } else { 1 };
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|&c| c == b']')?;
    let (set, c) = (&pattern[start..end], *c?);
    let mut i = 0;
    let mut hit = false;
    while i < set.len() {
        if i + 2 < set.len() && set[i + 1] == b'-' {
            hit |= (set[i]..=set[i + 2]).contains(&c);
            i += 3;
        } else {
            hit |= set[i] == c;
            i += 1;
        }
    }
    Some((hit != negated, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse_text("x.conf", text, Path::new("/"))
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn errors_are_worded_as_nginx_words_them() {
        assert_eq!(
            error("http {\n"),
            "unexpected end of file, expecting \"}\" in x.conf:2"
        );
        assert_eq!(
            error("a b\n"),
            "unexpected end of file, expecting \";\" or \"}\" in x.conf:2"
        );
        assert_eq!(error("a;\n}"), "unexpected \"}\" in x.conf:2");
        assert_eq!(error(";"), "unexpected \";\" in x.conf:1");
    }

    #[test]
    fn globs_match_as_the_shell_does() {
        assert!(glob_match(b"*.conf", b"a.conf"));
        assert!(!glob_match(b"*.conf", b"a.conf.disabled"));
        assert!(glob_match(b"[a-c]?.x", b"bz.x"));
        assert!(!glob_match(b"[!a-c]?.x", b"bz.x"));
    }

    #[test]
    fn an_include_that_includes_itself_is_refused() {
        let dir = std::env::temp_dir().join(format!("gallop-include-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temp folder");
        let file = dir.join("a.conf");
        std::fs::write(&file, "include a.conf;").expect("write");
        let mut source = Source::default();
        let e = parse_file(&file, &dir, &mut source).expect_err("refused");
        assert!(e.message.contains("nested too deeply"), "{e}");
        std::fs::remove_dir_all(&dir).expect("clean up");
    }
}
