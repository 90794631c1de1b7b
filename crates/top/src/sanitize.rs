//! Sanitized text: escapes terminal control characters in untrusted text.
//!
//! Clients choose keys, so a key can contain an escape sequence, a line break, or bidirectional control
//! characters. All text from the server is stored as [`UntrustedText`], which is only displayed with such
//! characters escaped.

use std::fmt;

use unicode_width::UnicodeWidthChar;

/// Maximum number of characters shown.
const MAX_SHOWN_CHARS: usize = 512;

/// Text from the server. Displayed as a single line without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct UntrustedText(String);

impl UntrustedText {
    /// The unescaped text, to be sent back to the server; never display it.
    pub(super) fn raw(&self) -> &str {
        &self.0
    }
}

impl From<&str> for UntrustedText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for UntrustedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, character) in self.0.chars().enumerate() {
            if nth == MAX_SHOWN_CHARS {
                return f.write_str("…");
            }
            match character {
                '\n' | '\r' | '\t' => write!(f, "{}", character.escape_default())?,
                _ if is_control(character) => write!(f, "{}", character.escape_unicode())?,
                _ => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}

/// True if the character can control the terminal or the text direction.
fn is_control(character: char) -> bool {
    let changes_direction = matches!(character,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    character.is_control() || changes_direction
}

/// Truncates a text to this many columns, with an ellipsis.
pub(super) fn truncate(text: &str, columns: usize) -> String {
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
    fn control_characters_are_escaped() {
        let cases = [
            ("10.0.0.1", "10.0.0.1"),
            ("größe 日本", "größe 日本"),
            ("\u{1b}[2J\u{1b}]0;x\u{7}", "\\u{1b}[2J\\u{1b}]0;x\\u{7}"),
            ("a\r\nb\tc\0", "a\\r\\nb\\tc\\u{0}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("user\u{202e}nimda", "user\\u{202e}nimda"),
        ];
        for (raw, shown) in cases {
            assert_eq!(UntrustedText::from(raw).to_string(), shown);
            assert_eq!(UntrustedText::from(raw).raw(), raw);
        }
        let every: String = (0..=0x10_ffff_u32).filter_map(char::from_u32).collect();
        for part in every.chars().collect::<Vec<_>>().chunks(500) {
            let text = UntrustedText::from(part.iter().collect::<String>().as_str()).to_string();
            assert!(!text.chars().any(is_control));
        }
        assert_eq!(UntrustedText::from("x".repeat(10_000).as_str()).to_string().chars().count(), MAX_SHOWN_CHARS + 1);
    }

    #[test]
    fn texts_are_truncated_by_display_width() {
        let cases = [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
        ];
        for (text, columns, shown) in cases {
            assert_eq!(truncate(text, columns), shown, "{text} in {columns}");
        }
        assert_eq!(truncate("日", 1), "…");
        assert_eq!(truncate("abc", 0), "");
    }
}
