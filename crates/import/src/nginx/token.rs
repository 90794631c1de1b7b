//! Tokenizer for nginx files.
//!
//! Words end at whitespace, `;` and `{`. Quotes and `#` are special only at the start of a word, and the brace
//! of `${name}` is part of its word.

/// A word, or one of the three punctuation marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    /// `;`
    Semicolon,
    /// `{`
    OpenBrace,
    /// `}`
    CloseBrace,
}

/// A lexical error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    #[error("unclosed quote: add the closing quote")]
    OpenQuote,
    #[error("text directly after a closing quote: add a space or `;`")]
    AfterQuote,
    #[error("unclosed Lua block: add the closing brace")]
    OpenLua,
}

/// Reads tokens from a text.
pub(super) struct Tokenizer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    /// Current line, from 1.
    pub(super) line: u32,
}

impl<'a> Tokenizer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable(), line: 1 }
    }

    fn next_char(&mut self) -> Option<char> {
        let c = self.rest.next();
        if c == Some('\n') {
            self.line = self.line.saturating_add(1);
        }
        c
    }

    /// Returns the next token and its first line; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Token, u32)>, (TokenError, u32)> {
        loop {
            let line = self.line;
            let token = match self.next_char() {
                None => return Ok(None),
                Some(c) if c.is_ascii_whitespace() => continue,
                Some('#') => {
                    while self.next_char().is_some_and(|c| c != '\n') {}
                    continue;
                }
                Some(';') => Token::Semicolon,
                Some('{') => Token::OpenBrace,
                Some('}') => Token::CloseBrace,
                Some(quote @ ('"' | '\'')) => Token::Word(self.quoted(quote).map_err(|error| (error, line))?),
                Some(first) => Token::Word(self.word(first)),
            };
            return Ok(Some((token, line)));
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, TokenError> {
        let mut word = String::new();
        loop {
            match self.next_char().ok_or(TokenError::OpenQuote)? {
                '\\' => self.escape(&mut word),
                c if c == quote => break,
                c => word.push(c),
            }
        }
        match self.rest.peek() {
            Some(c) if !c.is_ascii_whitespace() && !matches!(c, ';' | '{' | '}' | ')') => Err(TokenError::AfterQuote),
            _ => Ok(word),
        }
    }

    fn word(&mut self, first: char) -> String {
        let mut word = String::new();
        let mut next = Some(first);
        while let Some(c) = next {
            match c {
                '\\' => self.escape(&mut word),
                c => word.push(c),
            }
            let is_variable = c == '$';
            next = match self.rest.peek() {
                Some('{') if is_variable => self.next_char(),
                Some(c) if c.is_ascii_whitespace() || matches!(c, ';' | '{') => None,
                _ => self.next_char(),
            };
        }
        word
    }

    /// Handles the character after a backslash. A backslash that escapes nothing is kept for regular expressions.
    fn escape(&mut self, word: &mut String) {
        match self.next_char() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c) => word.extend(['\\', c]),
            None => word.push('\\'),
        }
    }

    /// Skips a Lua block after its opening brace.
    pub(super) fn skip_lua(&mut self) -> Result<(), TokenError> {
        let mut depth = 1_u32;
        while depth > 0 {
            match self.next_char().ok_or(TokenError::OpenLua)? {
                '{' => depth = depth.saturating_add(1),
                '}' => depth -= 1,
                quote @ ('"' | '\'') => self.skip_lua_text(quote),
                '-' if self.rest.peek() == Some(&'-') => while self.next_char().is_some_and(|c| c != '\n') {},
                _ => {}
            }
        }
        Ok(())
    }

    fn skip_lua_text(&mut self, quote: char) {
        while let Some(c) = self.next_char() {
            match c {
                '\\' => drop(self.next_char()),
                '\n' => return,
                c if c == quote => return,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut tokens = Tokenizer::new(text);
        let mut words = Vec::new();
        while let Some((token, _)) = tokens.next().unwrap() {
            words.push(match token {
                Token::Word(word) => word,
                Token::Semicolon => ";".to_owned(),
                Token::OpenBrace => "{".to_owned(),
                Token::CloseBrace => "}".to_owned(),
            });
        }
        words
    }

    #[test]
    fn words_are_split_like_nginx() {
        for (text, expected) in [
            ("a b;c", vec!["a", "b", ";", "c"]),
            ("a{b}", vec!["a", "{", "b}"]),
            ("a { b; }", vec!["a", "{", "b", ";", "}"]),
            ("\"${a}b\" ${c}d;", vec!["${a}b", "${c}d", ";"]),
            ("a#b # c\nd", vec!["a#b", "d"]),
            ("'' \"a b\";", vec!["", "a b", ";"]),
            (r#"\.php$ "a\"b" a\ b"#, vec![r"\.php$", "a\"b", r"a\ b"]),
            ("\u{feff}a", vec!["a"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn errors_have_their_start_line() {
        for (text, error, line) in [("a\n 'b\n\n", TokenError::OpenQuote, 2), ("\n\n'a'b;", TokenError::AfterQuote, 3)]
        {
            let mut tokens = Tokenizer::new(text);
            let found = loop {
                match tokens.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            };
            assert_eq!(found, Some((error, line)), "{text}");
        }
    }

    #[test]
    fn lua_braces_in_strings_and_comments_are_ignored() {
        let mut tokens = Tokenizer::new("a = '}' -- }\n if x then { } end } rest");
        tokens.skip_lua().unwrap();
        assert_eq!(tokens.next().unwrap(), Some((Token::Word("rest".to_owned()), 2)));
        assert_eq!(Tokenizer::new("{ }").skip_lua(), Err(TokenError::OpenLua));
    }
}
