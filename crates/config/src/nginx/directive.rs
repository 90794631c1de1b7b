//! Directives and their blocks.

use std::fmt;
use std::sync::Arc;

use super::ImportError;
use super::remark::Place;
use super::token::{Token, Tokens};

/// How deep blocks nest.
const DEEPEST: usize = 32;

/// The longest text of a directive that is shown.
const LONGEST_SHOWN: usize = 80;

/// A directive: a name, what follows it, and perhaps a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
    pub(super) place: Place,
}

impl Directive {
    /// What is in its block.
    pub(super) fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Its first argument, or nothing.
    pub(super) fn first(&self) -> &str {
        self.args.first().map_or("", String::as_str)
    }

    /// Whether it says `on`.
    pub(super) fn is_on(&self) -> bool {
        self.first() == "on"
    }
}

/// Name and arguments on one line, cut where it gets long.
impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.name.clone();
        for arg in &self.args {
            text.push(' ');
            text.push_str(if arg.is_empty() { "\"\"" } else { arg });
            if text.len() > LONGEST_SHOWN {
                break;
            }
        }
        let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_SHOWN).collect();
        f.write_str(&shown)?;
        f.write_str(if shown.len() < text.len() { "..." } else { "" })
    }
}

/// Reads the directives of one file. `include` stays as it is.
pub(super) fn parse(file: &Arc<str>, text: &str) -> Result<Vec<Directive>, ImportError> {
    Parser { file, tokens: Tokens::new(text) }.block(0, 1)
}

struct Parser<'a> {
    file: &'a Arc<str>,
    tokens: Tokens<'a>,
}

impl Parser<'_> {
    fn fault<T>(&self, line: u32, what: impl Into<String>) -> Result<T, ImportError> {
        Err(ImportError::Syntax { place: Place { file: Arc::clone(self.file), line }, what: what.into() })
    }

    /// Directives up to the closing brace, or to the end of the file at depth 0.
    fn block(&mut self, depth: usize, opened: u32) -> Result<Vec<Directive>, ImportError> {
        let mut directives = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut began = opened;
        loop {
            let (token, line) = match self.tokens.next() {
                Ok(Some(next)) => next,
                Ok(None) if !words.is_empty() => {
                    return self.fault(began, format!("`{}` has no end: add `;`", words.join(" ")));
                }
                Ok(None) if depth > 0 => return self.fault(opened, "this block is never closed: add `}`"),
                Ok(None) => return Ok(directives),
                Err((error, line)) => return self.fault(line, error.to_string()),
            };
            match token {
                Token::Word(word) => {
                    if words.is_empty() {
                        began = line;
                    }
                    words.push(word);
                }
                Token::Close if !words.is_empty() => {
                    return self.fault(began, format!("`{}` has no end: add `;` before the `}}`", words.join(" ")));
                }
                Token::Close if depth == 0 => {
                    return self.fault(line, "this `}` closes nothing: remove it, or add the `{` it belongs to");
                }
                Token::Close => return Ok(directives),
                Token::End | Token::Open if words.is_empty() => {
                    return self.fault(line, "a directive's name is missing before this mark");
                }
                Token::End => directives.push(self.directive(&mut words, began, None)),
                Token::Open if depth == DEEPEST => {
                    return self.fault(line, format!("blocks nest deeper than {DEEPEST}: take some of them apart"));
                }
                Token::Open => {
                    let lua = words.first().is_some_and(|name| name.ends_with("_by_lua_block"));
                    let inner = if lua {
                        match self.tokens.skip_lua() {
                            Ok(()) => Vec::new(),
                            Err(error) => return self.fault(began, error.to_string()),
                        }
                    } else {
                        self.block(depth + 1, began)?
                    };
                    directives.push(self.directive(&mut words, began, Some(inner)));
                }
            }
        }
    }

    fn directive(&self, words: &mut Vec<String>, line: u32, block: Option<Vec<Directive>>) -> Directive {
        let mut words = std::mem::take(words).into_iter();
        let name = words.next().unwrap_or_default();
        Directive { name, args: words.collect(), block, place: Place { file: Arc::clone(self.file), line } }
    }
}
