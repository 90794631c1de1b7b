//! Whatever a file holds and whatever a proxy sends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::collections::HashMap;

use proptest::prelude::*;
use sluicegate_config::Style;
use sluicegate_config::ratelimit::Domains;

/// Few words, so that they meet; and those in which joined words could be mistaken for others.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "a_b", "b_a", "a,b=a", "a\\", "=", ",", "\\,", "_", "a.b"])
            .prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => word(),
        1 => Just(String::new()),
        1 => prop::sample::select(vec!["*", "a*", "*a", "a*b", "a**b", "*_*"]).prop_map(str::to_owned),
    ]
}

#[derive(Clone, Debug)]
struct Written {
    key: String,
    value: String,
    shared: bool,
    limited: bool,
    below: Vec<Written>,
}

fn level(depth: u32) -> BoxedStrategy<Vec<Written>> {
    let below = if depth == 0 { Just(Vec::new()).boxed() } else { level(depth - 1) };
    let descriptor =
        (word(), value(), any::<bool>(), any::<bool>(), below).prop_map(|(key, value, shared, limited, below)| {
            Written { key: key.replace('*', "x") + "k", shared: shared && value.contains('*'), value, limited, below }
        });
    prop::collection::vec(descriptor, 0..4)
        .prop_map(|mut level| {
            let mut seen = std::collections::HashSet::new();
            level.retain(|it| seen.insert((it.key.clone(), it.value.clone())));
            level
        })
        .boxed()
}

fn yaml(level: &[Written]) -> String {
    let items: Vec<String> = level
        .iter()
        .map(|it| {
            let limit = if it.limited { r#", "rate_limit": { "unit": "day", "requests_per_unit": 1 }"# } else { "" };
            let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
            format!(
                r#"{{ "key": {}, "value": {}, "share_threshold": {}{limit}, "descriptors": {} }}"#,
                quoted(&it.key),
                quoted(&it.value),
                it.shared,
                yaml(&it.below)
            )
        })
        .collect();
    format!("[{}]", items.join(", "))
}

/// The same search as simply as it can be said: the descriptor found, and the entries counted apart.
fn expected<'w>(level: &'w [Written], entries: &[(String, String)]) -> Option<(*const Written, Vec<(String, String)>)> {
    let ((key, value), rest) = entries.split_first()?;
    let of_key = || level.iter().filter(|it| it.key == *key);
    let found: &'w Written = of_key()
        .find(|it| it.value == *value && !value.is_empty())
        .or_else(|| of_key().find(|it| it.value.contains('*') && fits(&it.value, value)))
        .or_else(|| of_key().find(|it| it.value.is_empty()))?;
    let varies = found.value.is_empty() || found.value.contains('*') && !found.shared;
    let mut apart = if varies { vec![(key.clone(), value.clone())] } else { Vec::new() };
    if rest.is_empty() {
        return found.limited.then_some((std::ptr::from_ref(found), apart));
    }
    let (limit, below) = expected(&found.below, rest)?;
    apart.extend(below);
    Some((limit, apart))
}

fn fits(pattern: &str, value: &str) -> bool {
    match pattern.chars().next() {
        None => value.is_empty(),
        Some('*') => {
            let rest = &pattern[1..];
            fits(rest, value) || value.char_indices().any(|(at, c)| fits(rest, &value[at + c.len_utf8()..]))
        }
        Some(c) => value.strip_prefix(c).is_some_and(|value| fits(&pattern[c.len_utf8()..], value)),
    }
}

/// The entries that a key is made of. As they can be read back, different entries never share a key.
fn read_back(key: &str) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    let mut within_value = false;
    let mut characters = key.chars();
    while let Some(c) = characters.next() {
        if entries.is_empty() {
            entries.push(Default::default());
        }
        let (key, value) = entries.last_mut().unwrap();
        let part = if within_value { value } else { key };
        match c {
            '\\' => part.extend(characters.next()),
            '=' => within_value = true,
            ',' => {
                entries.push(Default::default());
                within_value = false;
            }
            c => part.push(c),
        }
    }
    entries
}

fn request() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((word().prop_map(|key| key.replace('*', "x") + "k"), value()), 0..5)
}

/// A request along the way of the descriptors, so that something is found.
fn along(level: &[Written], choices: &[(prop::sample::Index, String, bool)]) -> Vec<(String, String)> {
    let Some(((index, value, as_written), rest)) = choices.split_first() else { return Vec::new() };
    if level.is_empty() {
        return Vec::new();
    }
    let chosen = index.get(level);
    let value = if *as_written { chosen.value.replace('*', value) } else { value.clone() };
    let mut entries = vec![(chosen.key.clone(), value)];
    entries.extend(along(&chosen.below, rest));
    entries
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_found_is_what_the_rules_of_matching_say(
        level in level(2),
        strangers in prop::collection::vec(request(), 0..8),
        ways in prop::collection::vec(
            prop::collection::vec((any::<prop::sample::Index>(), word(), any::<bool>()), 1..4), 0..24),
    ) {
        let text = format!("{{ \"domain\": d, \"descriptors\": {} }}", yaml(&level));
        // Some characters no quoted text may hold: such a file is refused, and that is all.
        let Ok(domains) = Domains::parse(&[("any".to_owned(), text)]) else { return Ok(()) };
        let mut keys = HashMap::new();
        for entries in strangers.into_iter().chain(ways.iter().map(|way| along(&level, way))) {
            let found = domains.find("d", entries.iter().map(|(key, value)| (&**key, &**value)));
            let wanted = expected(&level, &entries);
            prop_assert_eq!(found.is_some(), wanted.is_some(), "{:?}", entries);
            let (Some(found), Some((limit, apart))) = (found, wanted) else { continue };
            prop_assert_eq!(&read_back(&found.key), &apart);
            // The same rule and key exactly if it is the same limit and the same entries.
            let counted = (found.limit.rule.unwrap(), found.key);
            let meant = (limit, apart);
            prop_assert_eq!(keys.entry(counted).or_insert_with(|| meant.clone()), &meant);
        }
        let meant: std::collections::HashSet<_> = keys.values().collect();
        prop_assert_eq!(meant.len(), keys.len());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        refused_or_found(&text);
    }

    #[test]
    fn any_bytes_of_yaml_are_read_or_refused(text in "[-a-z0-9:{}\\[\\],&*!|>'\"%@`#?< \t\r\n\u{0}\u{e9}]{0,200}") {
        refused_or_found(&text);
    }

    /// A good file with a piece cut out, doubled or replaced.
    #[test]
    fn damaged_files_are_read_or_refused(
        start in 0usize..2600,
        len in 0usize..40,
        piece in "[-a-z0-9:{}\\[\\], \n/'\"<*&]{0,12}",
    ) {
        let good = include_str!("ratelimit/good/basic.yaml");
        let from = start.min(good.len());
        let to = (start + len).min(good.len());
        refused_or_found(&format!("{}{piece}{}", &good[..from], &good[to..]));
    }
}

fn refused_or_found(text: &str) {
    match Domains::parse(&[("any".to_owned(), text.to_owned())]) {
        Ok(domains) => {
            let names: std::collections::HashSet<_> = domains.rules().iter().map(|rule| &rule.name).collect();
            assert_eq!(names.len(), domains.rules().len());
            let _ = domains.find("basic", [("key1", "value1"), ("subkey1", "x")]);
        }
        Err(report) => assert!(!report.render(Style::Plain).is_empty()),
    }
}
