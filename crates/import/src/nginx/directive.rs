//! Parser for nginx directives and blocks.

use std::fmt;
use std::sync::Arc;

use super::ImportError;
use super::note::SourceLocation;
use super::token::{Token, Tokenizer};

/// Maximum nesting of blocks.
const MAX_DEPTH: usize = 32;

/// Maximum length of a directive in a note.
const MAX_SHOWN_CHARS: usize = 80;

/// A directive: name, arguments and an optional block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
    pub(super) location: SourceLocation,
}

impl Directive {
    /// The directives of its block.
    pub(super) fn children(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Its first argument, or an empty string.
    pub(super) fn first_arg(&self) -> &str {
        self.args.first().map_or("", String::as_str)
    }

    /// True if its argument is `on`.
    pub(super) fn is_on(&self) -> bool {
        self.first_arg() == "on"
    }
}

/// Formats name and arguments on one line, truncated.
impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.name.clone();
        for arg in &self.args {
            text.push(' ');
            text.push_str(if arg.is_empty() { "\"\"" } else { arg });
            if text.len() > MAX_SHOWN_CHARS {
                break;
            }
        }
        let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_SHOWN_CHARS).collect();
        f.write_str(&shown)?;
        f.write_str(if shown.len() < text.len() { "..." } else { "" })
    }
}

/// Parses the directives of one file. `include` is not expanded.
pub(super) fn parse(file: &Arc<str>, text: &str) -> Result<Vec<Directive>, ImportError> {
    DirectiveParser { file, tokens: Tokenizer::new(text) }.block(0, 1)
}

struct DirectiveParser<'a> {
    file: &'a Arc<str>,
    tokens: Tokenizer<'a>,
}

impl DirectiveParser<'_> {
    fn error<T>(&self, line: u32, message: impl Into<String>) -> Result<T, ImportError> {
        Err(ImportError::Syntax {
            location: SourceLocation { file: Arc::clone(self.file), line },
            message: message.into(),
        })
    }

    /// Parses directives up to the closing brace, or to the end of the file at depth 0.
    fn block(&mut self, depth: usize, opened: u32) -> Result<Vec<Directive>, ImportError> {
        let mut directives = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut start_line = opened;
        loop {
            let (token, line) = match self.tokens.next() {
                Ok(Some(next)) => next,
                Ok(None) if !words.is_empty() => {
                    return self.error(start_line, format!("missing `;` after `{}`", words.join(" ")));
                }
                Ok(None) if depth > 0 => return self.error(opened, "unclosed block: add `}`"),
                Ok(None) => return Ok(directives),
                Err((error, line)) => return self.error(line, error.to_string()),
            };
            match token {
                Token::Word(word) => {
                    if words.is_empty() {
                        start_line = line;
                    }
                    words.push(word);
                }
                Token::CloseBrace if !words.is_empty() => {
                    return self.error(start_line, format!("missing `;` after `{}`, before the `}}`", words.join(" ")));
                }
                Token::CloseBrace if depth == 0 => {
                    return self.error(line, "unmatched `}`: remove it, or add the missing `{`");
                }
                Token::CloseBrace => return Ok(directives),
                Token::Semicolon | Token::OpenBrace if words.is_empty() => {
                    return self.error(line, "missing directive name before this character");
                }
                Token::Semicolon => directives.push(self.directive(&mut words, start_line, None)),
                Token::OpenBrace if depth == MAX_DEPTH => {
                    return self
                        .error(line, format!("blocks are nested deeper than {MAX_DEPTH} levels: reduce the nesting"));
                }
                Token::OpenBrace => {
                    let lua = words.first().is_some_and(|name| name.ends_with("_by_lua_block"));
                    let inner = if lua {
                        match self.tokens.skip_lua() {
                            Ok(()) => Vec::new(),
                            Err(error) => return self.error(start_line, error.to_string()),
                        }
                    } else {
                        self.block(depth + 1, start_line)?
                    };
                    directives.push(self.directive(&mut words, start_line, Some(inner)));
                }
            }
        }
    }

    fn directive(&self, words: &mut Vec<String>, line: u32, block: Option<Vec<Directive>>) -> Directive {
        let mut words = std::mem::take(words).into_iter();
        let name = words.next().unwrap_or_default();
        Directive { name, args: words.collect(), block, location: SourceLocation { file: Arc::clone(self.file), line } }
    }
}
