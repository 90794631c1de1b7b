//! Chinese rule file reference, generated from the English one.
//!
//! The English reference is generated from the parser's own tables. The Chinese one is translated from it cell by
//! cell: names, examples, numbers and code in backticks stay, and each phrase is replaced by the Chinese line
//! below it in `chinese/phrases.txt`. Both pages therefore have the same fields, in the same order, with the same
//! defaults. A test reports a phrase without a translation.
//!
//! ```
//! let english = "### `queue`\n\nBounds of the wait queue.\n\n\
//!     | field | type | default | example | description |\n|---|---|---|---|---|\n\
//!     | `max_waiting` | integer (1 to 4294967295) | 1000 | `1000` | Maximum number of waiting requests per key. |\n";
//! let chinese = xtask::chinese::reference(english);
//! assert!(chinese.missing.is_empty());
//! assert!(chinese.page.contains("| `max_waiting` | 整数（1 到 4294967295） | 1000 | `1000` | 每个键排队请求数的上限。 |"));
//! ```

use std::collections::{BTreeMap, BTreeSet};

const HEADER: &str = "| field | type | default | example | description |";
const CHINESE_HEADER: &str = "| 字段 | 类型 | 默认值 | 示例 | 说明 |";

/// A translated page, with its missing and unused phrases.
#[derive(Debug)]
pub struct Translation {
    /// The reference in Chinese; phrases without a translation stay in English.
    pub page: String,
    /// Phrases without a translation.
    pub missing: BTreeSet<String>,
    /// Translated phrases that do not occur in the reference.
    pub unused: BTreeSet<&'static str>,
}

/// Translates the generated reference into Chinese.
pub fn reference(english: &str) -> Translation {
    let mut phrases = Translator { known: phrases().collect(), used: BTreeSet::new(), missing: BTreeSet::new() };
    let lines: Vec<String> = english.lines().map(|line| phrases.translate_line(line)).collect();
    let unused = phrases.known.keys().copied().filter(|phrase| !phrases.used.contains(phrase)).collect();
    Translation { page: lines.join("\n") + "\n", missing: phrases.missing, unused }
}

/// All phrases with their translations.
pub fn phrases() -> impl Iterator<Item = (&'static str, &'static str)> {
    let blocks = include_str!("chinese/phrases.txt").split("\n\n").map(str::trim);
    blocks.filter(|block| !block.starts_with('#')).filter_map(|block| block.split_once('\n'))
}

struct Translator {
    known: BTreeMap<&'static str, &'static str>,
    used: BTreeSet<&'static str>,
    missing: BTreeSet<String>,
}

impl Translator {
    fn translate_line(&mut self, line: &str) -> String {
        match line.split_once(' ') {
            _ if line == HEADER => CHINESE_HEADER.to_owned(),
            Some(("###", title)) => format!("### {}", self.translate_section(&decapitalized(title))),
            Some(("|", row)) => self.translate_row(row),
            Some(_) => self.translate_phrase(line),
            None => line.to_owned(),
        }
    }

    /// Translates a table row: name, type, default, example, description.
    fn translate_row(&mut self, row: &str) -> String {
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        let [name, kind, default, example, description] = cells[..] else {
            self.missing.insert(row.to_owned());
            return format!("| {row}");
        };
        let default = if is_literal(default) || kind.contains(&code(default)) || description.contains(&code(default)) {
            default.to_owned()
        } else {
            self.translate_phrase(default)
        };
        format!(
            "| {name} | {} | {default} | {example} | {} |",
            self.translate_type(kind),
            self.translate_description(description)
        )
    }

    /// Translates the description of a field and the meaning of each of its keywords.
    fn translate_description(&mut self, description: &str) -> String {
        let mut parts = description.split("<br>");
        let mut chinese = self.translate_phrase(parts.next().unwrap_or_default());
        for part in parts {
            let (word, meaning) = part.split_once(": ").unwrap_or((part, ""));
            chinese += &format!("<br>{word}：{}", self.translate_phrase(meaning));
        }
        chinese
    }

    fn translate_type(&mut self, kind: &str) -> String {
        if self.known.contains_key(kind) {
            return self.translate_phrase(kind);
        }
        let choices = split_alternatives(kind);
        if let [first, others @ ..] = &choices[..]
            && !others.is_empty()
        {
            let first = self.translate_type(first);
            return others
                .iter()
                .fold(first, |all, other| join_spaced(&join_spaced(&all, "或"), &self.translate_type(other)));
        }
        if let Some(items) = kind.strip_prefix("list of ") {
            let item = without_brackets(items).unwrap_or_else(|| items.trim_end_matches('s'));
            return format!("列表（每项：{}）", self.translate_type(item));
        }
        if let Some(values) = kind.strip_prefix("map of names to ") {
            return format!("映射（名称到：{}）", self.translate_type(without_brackets(values).unwrap_or(values)));
        }
        if let Some(section) = kind.strip_prefix("map: ") {
            return format!("映射（{}）", self.translate_section(section));
        }
        if let Some(range) = kind.strip_prefix("integer ").and_then(without_brackets) {
            let range = range.replace("at least ", "至少 ").replace(" to ", " 到 ");
            return format!("{}（{range}）", self.translate_phrase("integer"));
        }
        if kind.starts_with('`') {
            return kind.replace("`, `", "`、`");
        }
        self.translate_phrase(kind)
    }

    /// Translates a section title; a field name in backticks stays.
    fn translate_section(&mut self, name: &str) -> String {
        let is_field_name = name.starts_with('`') && !name.contains(' ');
        if is_field_name { name.to_owned() } else { self.translate_phrase(name) }
    }

    fn translate_phrase(&mut self, english: &str) -> String {
        if let Some((phrase, chinese)) = self.known.get_key_value(english) {
            self.used.insert(phrase);
            return (*chinese).to_owned();
        }
        self.missing.insert(english.to_owned());
        english.to_owned()
    }
}

/// Splits a type at "or", except inside brackets.
fn split_alternatives(kind: &str) -> Vec<&str> {
    let depth = |end: usize| kind[..end].matches('(').count() - kind[..end].matches(')').count();
    let separators = kind.match_indices(" or ").map(|(at, _)| at).filter(|at| depth(*at) == 0);
    let (mut parts, mut start) = (Vec::new(), 0);
    for end in separators {
        parts.push(&kind[start..end]);
        start = end + " or ".len();
    }
    parts.push(&kind[start..]);
    parts
}

fn without_brackets(text: &str) -> Option<&str> {
    text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
}

/// True if the text is the same in every language: empty, or a number with its unit.
fn is_literal(text: &str) -> bool {
    text.is_empty() || (text.starts_with(|it: char| it.is_ascii_digit()) && !text.contains(' '))
}

fn code(word: &str) -> String {
    format!("`{word}`")
}

fn decapitalized(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Joins two texts, with a space between Chinese and other characters.
fn join_spaced(one: &str, other: &str) -> String {
    let [left, right] = [one.chars().last(), other.chars().next()].map(|it| it.is_some_and(|it| it.is_ascii()));
    if left == right { format!("{one}{other}") } else { format!("{one} {other}") }
}
