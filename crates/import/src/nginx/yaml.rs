//! YAML writer whose output parses back to the same values.

use std::fmt::Write;

/// Words that YAML does not read as text.
const RESERVED_WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];

/// A YAML scalar, quoted if necessary.
pub(super) fn text(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_./-*".contains(&b);
    let starts_plain = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'/');
    let is_plain = !text.contains("  ") && !text.ends_with(' ') && text.bytes().all(|b| plain(b) || b == b' ');
    if starts_plain && is_plain && !RESERVED_WORDS.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return text.to_owned();
    }
    quoted(text)
}

/// A double-quoted scalar.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A flow list of YAML items.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

/// A flow map of names and YAML values.
pub(super) fn map<'a>(entries: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let entries: Vec<String> = entries.into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("{{ {} }}", entries.join(", "))
}

/// A one-line comment.
pub(super) fn comment(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() || c == '\u{feff}' { ' ' } else { c }).collect();
    format!("# {text}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn written_text_reads_back(written in "\\PC*|[\\x00-\\x7f]*|[a-z *./-]+") {
            let file = format!("{}\nrules: [{}]", comment(&written), map([("name", text(&written))]));
            let (tree, findings) = sluicegate_config::document::parse_tree(&file);
            prop_assert!(!findings.has_errors(), "{file}");
            let shown = format!("{tree:?}");
            prop_assert!(shown.contains(&format!("{written:?}")), "{file}\n{shown}");
        }
    }
}
