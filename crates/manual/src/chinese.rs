//! The reference of the rule file in Chinese.
//!
//! The English one is generated from the tables that the reader itself asks. The Chinese one is made out of that,
//! cell by cell: names, examples, numbers and whatever stands in backticks stay, and each phrase is exchanged for its
//! Chinese, which stands below it in `chinese/phrases.txt`. So the two pages have the same fields in the same order
//! with the same defaults, and a phrase that changes in English has no Chinese until somebody has looked at it.
//!
//! ```
//! let english = "### Queue\n\nHow long and how many may wait for their turn.\n\n\
//!     | field | takes | left out | example | what it is for |\n|---|---|---|---|---|\n\
//!     | `max_waiting` | number, 1 to 4294967295 | 1000 | `1000` | The most that wait on one key. |\n";
//! let chinese = sluicegate_manual::chinese::reference(english);
//! assert!(chinese.missing.is_empty());
//! assert!(chinese.page.contains("| `max_waiting` | 整数（1 到 4294967295） | 1000 | `1000` | 同一个键最多有多少个在等。 |"));
//! ```

use std::collections::{BTreeMap, BTreeSet};

const HEADER: &str = "| field | takes | left out | example | what it is for |";
const CHINESE_HEADER: &str = "| 字段 | 取值 | 省略时 | 例子 | 用途 |";

/// The page, and what there is to do about the phrases.
#[derive(Debug)]
pub struct Translation {
    /// The reference in Chinese; what has none stands there in English.
    pub page: String,
    /// What has no Chinese.
    pub missing: BTreeSet<String>,
    /// Phrases that the reference does not have.
    pub idle: BTreeSet<&'static str>,
}

/// The generated reference in Chinese.
pub fn reference(english: &str) -> Translation {
    let mut phrases = Phrases { known: phrases().collect(), used: BTreeSet::new(), missing: BTreeSet::new() };
    let lines: Vec<String> = english.lines().map(|line| phrases.line(line)).collect();
    let idle = phrases.known.keys().copied().filter(|phrase| !phrases.used.contains(phrase)).collect();
    Translation { page: lines.join("\n") + "\n", missing: phrases.missing, idle }
}

/// Each phrase with its Chinese.
pub fn phrases() -> impl Iterator<Item = (&'static str, &'static str)> {
    let blocks = include_str!("chinese/phrases.txt").split("\n\n").map(str::trim);
    blocks.filter(|block| !block.starts_with('#')).filter_map(|block| block.split_once('\n'))
}

struct Phrases {
    known: BTreeMap<&'static str, &'static str>,
    used: BTreeSet<&'static str>,
    missing: BTreeSet<String>,
}

impl Phrases {
    fn line(&mut self, line: &str) -> String {
        match line.split_once(' ') {
            _ if line == HEADER => CHINESE_HEADER.to_owned(),
            Some(("###", title)) => format!("### {}", self.section(&decapitalized(title))),
            Some(("|", row)) => self.row(row),
            Some(_) => self.phrase(line),
            None => line.to_owned(),
        }
    }

    /// `name`, what it takes, what holds when it is left out, an example, and what it is for.
    fn row(&mut self, row: &str) -> String {
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        let [name, takes, default, example, purpose] = cells[..] else {
            self.missing.insert(row.to_owned());
            return format!("| {row}");
        };
        let default = if is_literal(default) || takes.contains(&code(default)) || purpose.contains(&code(default)) {
            default.to_owned()
        } else {
            self.phrase(default)
        };
        format!("| {name} | {} | {default} | {example} | {} |", self.takes(takes), self.purpose(purpose))
    }

    /// What it is for, and what each of its words means.
    fn purpose(&mut self, purpose: &str) -> String {
        let mut parts = purpose.split("<br>");
        let mut chinese = self.phrase(parts.next().unwrap_or_default());
        for part in parts {
            let (word, meaning) = part.split_once(": ").unwrap_or((part, ""));
            chinese += &format!("<br>{word}：{}", self.phrase(meaning));
        }
        chinese
    }

    fn takes(&mut self, takes: &str) -> String {
        if self.known.contains_key(takes) {
            return self.phrase(takes);
        }
        let choices = choices(takes);
        if let [first, others @ ..] = &choices[..]
            && !others.is_empty()
        {
            let first = self.takes(first);
            return others.iter().fold(first, |all, other| beside(&beside(&all, "或"), &self.takes(other)));
        }
        if let Some(items) = takes.strip_prefix("list of: ") {
            return format!("列表（每项：{}）", self.takes(without_brackets(items)));
        }
        if let Some(values) = takes.strip_prefix("map of names to: ") {
            return format!("映射（名称到：{}）", self.takes(without_brackets(values)));
        }
        if let Some(section) = takes.strip_prefix("map: ") {
            return format!("映射（{}）", self.section(section));
        }
        if let Some(range) = takes.strip_prefix("number, ") {
            return format!("{}（{}）", self.phrase("number"), range.replace(" to ", " 到 "));
        }
        if let Some(least) = takes.strip_prefix("number from ") {
            return format!("{}（{least} 或更大）", self.phrase("number"));
        }
        if takes.starts_with('`') {
            return takes.replace("`, `", "`、`");
        }
        self.phrase(takes)
    }

    /// A section's name: a phrase if it has an article, otherwise the field's own name.
    fn section(&mut self, name: &str) -> String {
        let is_phrase = ["a ", "an ", "the ", "one "].iter().any(|article| name.starts_with(article));
        if is_phrase { self.phrase(name) } else { name.to_owned() }
    }

    fn phrase(&mut self, english: &str) -> String {
        if let Some((phrase, chinese)) = self.known.get_key_value(english) {
            self.used.insert(phrase);
            return (*chinese).to_owned();
        }
        self.missing.insert(english.to_owned());
        english.to_owned()
    }
}

/// What a field takes one of: parted by "or", but for what stands in brackets.
fn choices(takes: &str) -> Vec<&str> {
    let depth = |end: usize| takes[..end].matches('(').count() - takes[..end].matches(')').count();
    let parting = takes.match_indices(" or ").map(|(at, _)| at).filter(|at| depth(*at) == 0);
    let (mut parts, mut begin) = (Vec::new(), 0);
    for end in parting {
        parts.push(&takes[begin..end]);
        begin = end + " or ".len();
    }
    parts.push(&takes[begin..]);
    parts
}

fn without_brackets(text: &str) -> &str {
    text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(text)
}

/// Whether it reads the same in every language: nothing at all, or a number with its unit.
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

/// One after the other, with a space where Chinese meets what is not.
fn beside(one: &str, other: &str) -> String {
    let [left, right] = [one.chars().last(), other.chars().next()].map(|it| it.is_some_and(|it| it.is_ascii()));
    if left == right { format!("{one}{other}") } else { format!("{one} {other}") }
}
