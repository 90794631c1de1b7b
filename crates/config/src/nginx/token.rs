//! Words and marks of an nginx file.
//!
//! Words end at white space, `;` and `{`; quotes count at a word's beginning only, `#` begins a comment
//! only there, and the brace of `${name}` belongs to its word.

/// A word, or one of the three marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// What is wrong with the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    #[error("the quote that begins here is never closed: add the closing quote")]
    OpenQuote,
    #[error("text follows directly on the closing quote: put a space or `;` between them")]
    AfterQuote,
    #[error("the block of Lua that begins here is never closed: add the closing brace")]
    OpenLua,
}

/// Takes one token after the other off a text.
pub(super) struct Tokens<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    /// The line that is read, from 1.
    pub(super) line: u32,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable(), line: 1 }
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.next();
        if c == Some('\n') {
            self.line = self.line.saturating_add(1);
        }
        c
    }

    /// The next token and the line it begins in; nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Token, u32)>, (TokenError, u32)> {
        loop {
            let line = self.line;
            let token = match self.take() {
                None => return Ok(None),
                Some(c) if c.is_ascii_whitespace() => continue,
                Some('#') => {
                    while self.take().is_some_and(|c| c != '\n') {}
                    continue;
                }
                Some(';') => Token::End,
                Some('{') => Token::Open,
                Some('}') => Token::Close,
                Some(quote @ ('"' | '\'')) => Token::Word(self.quoted(quote).map_err(|error| (error, line))?),
                Some(first) => Token::Word(self.word(first)),
            };
            return Ok(Some((token, line)));
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, TokenError> {
        let mut word = String::new();
        loop {
            match self.take().ok_or(TokenError::OpenQuote)? {
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
            let of_variable = c == '$';
            next = match self.rest.peek() {
                Some('{') if of_variable => self.take(),
                Some(c) if c.is_ascii_whitespace() || matches!(c, ';' | '{') => None,
                _ => self.take(),
            };
        }
        word
    }

    /// What follows a backslash. A backslash that escapes nothing stays, as patterns need it.
    fn escape(&mut self, word: &mut String) {
        match self.take() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c) => word.extend(['\\', c]),
            None => word.push('\\'),
        }
    }

    /// Passes over a block of Lua whose opening brace was just read.
    pub(super) fn skip_lua(&mut self) -> Result<(), TokenError> {
        let mut depth = 1_u32;
        while depth > 0 {
            match self.take().ok_or(TokenError::OpenLua)? {
                '{' => depth = depth.saturating_add(1),
                '}' => depth -= 1,
                quote @ ('"' | '\'') => self.skip_lua_text(quote),
                '-' if self.rest.peek() == Some(&'-') => while self.take().is_some_and(|c| c != '\n') {},
                _ => {}
            }
        }
        Ok(())
    }

    fn skip_lua_text(&mut self, quote: char) {
        while let Some(c) = self.take() {
            match c {
                '\\' => drop(self.take()),
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
        let mut tokens = Tokens::new(text);
        let mut words = Vec::new();
        while let Some((token, _)) = tokens.next().unwrap() {
            words.push(match token {
                Token::Word(word) => word,
                Token::End => ";".to_owned(),
                Token::Open => "{".to_owned(),
                Token::Close => "}".to_owned(),
            });
        }
        words
    }

    #[test]
    fn words_are_cut_as_nginx_cuts_them() {
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
    fn faults_are_found_where_they_begin() {
        for (text, error, line) in [("a\n 'b\n\n", TokenError::OpenQuote, 2), ("\n\n'a'b;", TokenError::AfterQuote, 3)]
        {
            let mut tokens = Tokens::new(text);
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
    fn braces_in_texts_and_comments_of_lua_do_not_count() {
        let mut tokens = Tokens::new("a = '}' -- }\n if x then { } end } rest");
        tokens.skip_lua().unwrap();
        assert_eq!(tokens.next().unwrap(), Some((Token::Word("rest".to_owned()), 2)));
        assert_eq!(Tokens::new("{ }").skip_lua(), Err(TokenError::OpenLua));
    }
}
