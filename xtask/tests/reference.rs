//! Checks that the Chinese rule reference matches the English one. `INSTA_UPDATE=always` rewrites it.

use std::fs;
use std::path::{Path, PathBuf};

use xtask::chinese::{phrases, reference};

/// Everything after this mark is generated, in both pages.
const REFERENCE_MARK: &str = "<!-- reference -->\n";

/// Splits a page into its introduction and its reference.
fn split_page(page: &Path) -> (String, String) {
    let text = fs::read_to_string(page).unwrap();
    let (introduction, reference) =
        text.split_once(REFERENCE_MARK).unwrap_or_else(|| panic!("{} has no mark", page.display()));
    (introduction.to_owned(), reference.trim().to_owned())
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The CLI tests check that the English reference matches the parser's tables.
#[test]
fn the_chinese_reference_has_every_field_of_the_english_one() {
    let (_, english) = split_page(&docs().join("rule-reference.md"));
    let translation = reference(&english);
    let missing: Vec<String> = translation.missing.into_iter().collect();
    assert!(missing.is_empty(), "no translation in xtask/src/chinese/phrases.txt:\n{}", missing.join("\n"));
    let page = docs().join("zh/rule-reference.md");
    let (introduction, chinese) = split_page(&page);
    if std::env::var("INSTA_UPDATE").is_ok_and(|mode| mode == "always") {
        fs::write(page, format!("{introduction}{REFERENCE_MARK}\n{}\n", translation.page.trim())).unwrap();
        return;
    }
    assert_eq!(chinese, translation.page.trim(), "docs/zh/rule-reference.md is out of date");
}

#[test]
fn no_phrase_is_unused_or_duplicated() {
    let (_, english) = split_page(&docs().join("rule-reference.md"));
    assert!(reference(&english).unused.is_empty(), "not in the reference: {:?}", reference(&english).unused);
    let mut english: Vec<&str> = phrases().map(|(phrase, _)| phrase).collect();
    english.sort_unstable();
    let duplicates: Vec<_> = english.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    assert!(duplicates.is_empty(), "more than once: {duplicates:?}");
}

/// Code and numbers are the same in both languages; ordinals count as numbers (`90th` is 90).
#[test]
fn a_translation_keeps_code_and_numbers() {
    for (english, chinese) in phrases() {
        let [one, other] = [english, chinese].map(|text| {
            let mut code: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
            code.sort_unstable();
            code
        });
        assert_eq!(one, other, "{english}\n{chinese}");
        let [one, other] = [english, chinese].map(|text| {
            let words = text.split(|it: char| !it.is_ascii_alphanumeric());
            let numbers = words.filter(|it| it.starts_with(|it: char| it.is_ascii_digit()));
            let mut numbers: Vec<&str> = numbers.map(|it| it.trim_end_matches("th")).collect();
            numbers.sort_unstable();
            numbers
        });
        assert_eq!(one, other, "{english}\n{chinese}");
    }
}

#[test]
fn untranslated_phrases_are_reported() {
    let row = "| `speed` | warp | 9.5 | `9` | Speed.<br>`slow`: not fast |";
    let missing = reference(row).missing;
    assert_eq!(missing.into_iter().collect::<Vec<_>>(), ["Speed.", "not fast", "warp"]);
}
