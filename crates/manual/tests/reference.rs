//! The reference of the rule file says the same in Chinese as in English. `INSTA_UPDATE=always` writes it anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use std::fs;
use std::path::{Path, PathBuf};

use sluicegate_manual::chinese::{phrases, reference};

/// What comes after this in both pages is generated.
const MARK: &str = "<!-- reference -->\n";

/// The guide of a page, and its reference.
fn halves(page: &Path) -> (String, String) {
    let text = fs::read_to_string(page).unwrap();
    let (guide, reference) = text.split_once(MARK).unwrap_or_else(|| panic!("{} has no mark", page.display()));
    (guide.to_owned(), reference.trim().to_owned())
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// That the English half is what the reader's tables say is held by the command's own tests.
#[test]
fn the_chinese_reference_has_every_field_of_the_english_one() {
    let (_, english) = halves(&docs().join("rules.md"));
    let made = reference(&english);
    let missing: Vec<String> = made.missing.into_iter().collect();
    assert!(missing.is_empty(), "without Chinese in crates/manual/src/chinese/phrases.txt:\n{}", missing.join("\n"));
    let page = docs().join("zh/rules.md");
    let (guide, chinese) = halves(&page);
    if std::env::var("INSTA_UPDATE").is_ok_and(|mode| mode == "always") {
        fs::write(page, format!("{guide}{MARK}\n{}\n", made.page.trim())).unwrap();
        return;
    }
    assert_eq!(chinese, made.page.trim(), "docs/zh/rules.md is out of step");
}

#[test]
fn no_phrase_is_left_over_or_there_twice() {
    let (_, english) = halves(&docs().join("rules.md"));
    assert!(reference(&english).idle.is_empty(), "not in the reference: {:?}", reference(&english).idle);
    let mut english: Vec<&str> = phrases().map(|(phrase, _)| phrase).collect();
    english.sort_unstable();
    let twice: Vec<_> = english.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    assert!(twice.is_empty(), "more than once: {twice:?}");
}

/// A translation loses no number and nothing in backticks, and puts none in.
#[test]
fn a_phrase_keeps_its_code_and_its_numbers() {
    for (english, chinese) in phrases() {
        let [one, other] = [english, chinese].map(|text| {
            let mut code: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
            code.sort_unstable();
            code
        });
        assert_eq!(one, other, "{english}\n{chinese}");
        let [one, other] = [english, chinese].map(|text| {
            let words = text.split(|it: char| !it.is_ascii_alphanumeric());
            let mut numbers: Vec<&str> = words.filter(|it| it.starts_with(|it: char| it.is_ascii_digit())).collect();
            numbers.sort_unstable();
            numbers
        });
        assert_eq!(one, other, "{english}\n{chinese}");
    }
}

#[test]
fn what_is_not_translated_is_told() {
    let row = "| `speed` | warp | 9.5 | `9` | How fast.<br>`slow`: not fast |";
    let missing = reference(row).missing;
    assert_eq!(missing.into_iter().collect::<Vec<_>>(), ["How fast.", "not fast", "warp"]);
}
