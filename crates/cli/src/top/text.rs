//! Texts of others: nothing in them may steer the terminal.
//!
//! Keys are what clients send, so a key can be an escape sequence, a line break, or characters that turn the
//! direction of writing. Whatever the server says is kept in a [`Text`], and that is only ever shown with
//! such characters written out.

use std::fmt;

use unicode_width::UnicodeWidthChar;

/// The most of a text that is shown.
const MOST_SHOWN: usize = 512;

/// A text from elsewhere. Shown, it is a single line without anything that a terminal obeys.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Text(String);

impl Text {
    /// As it came, to be sent back. Not to be shown.
    pub(super) fn raw(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, character) in self.0.chars().enumerate() {
            if nth == MOST_SHOWN {
                return f.write_str("…");
            }
            match character {
                '\n' | '\r' | '\t' => write!(f, "{}", character.escape_default())?,
                _ if steers(character) => write!(f, "{}", character.escape_unicode())?,
                _ => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}

/// Whether a terminal, or the order of what is shown, could obey it.
fn steers(character: char) -> bool {
    let turns = matches!(character,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    character.is_control() || turns
}

/// As much of a text as fits into so many columns, with a mark if that is not all.
pub(super) fn fitted(text: &str, columns: usize) -> String {
    let mut shown = String::new();
    let mut used = 0;
    for character in text.chars() {
        let width = character.width().unwrap_or(0);
        if used + width > columns {
            while used + 1 > columns {
                let Some(last) = shown.pop() else { return shown };
                used -= last.width().unwrap_or(0);
            }
            shown.push('…');
            return shown;
        }
        used += width;
        shown.push(character);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_is_shown() {
        let cases = [
            ("10.0.0.1", "10.0.0.1"),
            ("größe 日本", "größe 日本"),
            ("\u{1b}[2J\u{1b}]0;x\u{7}", "\\u{1b}[2J\\u{1b}]0;x\\u{7}"),
            ("a\r\nb\tc\0", "a\\r\\nb\\tc\\u{0}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("user\u{202e}nimda", "user\\u{202e}nimda"),
        ];
        for (raw, shown) in cases {
            assert_eq!(Text::from(raw).to_string(), shown);
            assert_eq!(Text::from(raw).raw(), raw);
        }
        let every: String = (0..=0x10_ffff_u32).filter_map(char::from_u32).collect();
        for part in every.chars().collect::<Vec<_>>().chunks(500) {
            let text = Text::from(part.iter().collect::<String>().as_str()).to_string();
            assert!(!text.chars().any(steers));
        }
        assert_eq!(Text::from("x".repeat(10_000).as_str()).to_string().chars().count(), MOST_SHOWN + 1);
    }

    #[test]
    fn texts_are_fitted_by_their_width() {
        let cases = [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
        ];
        for (text, columns, shown) in cases {
            assert_eq!(fitted(text, columns), shown, "{text} in {columns}");
        }
        assert_eq!(fitted("日", 1), "…");
        assert_eq!(fitted("abc", 0), "");
    }
}
