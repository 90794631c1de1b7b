//! Property tests with arbitrary files and requests.

use std::collections::HashMap;

use proptest::prelude::*;
use sluicegate_config::RenderStyle;
use sluicegate_import::envoy_ratelimit::Domains;

/// Few words, so that they collide, including words that are ambiguous if joined.
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
struct DescriptorSpec {
    key: String,
    value: String,
    shared: bool,
    limited: bool,
    below: Vec<DescriptorSpec>,
}

fn level(depth: u32) -> BoxedStrategy<Vec<DescriptorSpec>> {
    let below = if depth == 0 { Just(Vec::new()).boxed() } else { level(depth - 1) };
    let descriptor =
        (word(), value(), any::<bool>(), any::<bool>(), below).prop_map(|(key, value, shared, limited, below)| {
            DescriptorSpec {
                key: key.replace('*', "x") + "k",
                shared: shared && value.contains('*'),
                value,
                limited,
                below,
            }
        });
    prop::collection::vec(descriptor, 0..4)
        .prop_map(|mut level| {
            let mut seen = std::collections::HashSet::new();
            level.retain(|it| seen.insert((it.key.clone(), it.value.clone())));
            level
        })
        .boxed()
}

fn yaml(level: &[DescriptorSpec]) -> String {
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

/// Reference model of the matching: the descriptor, and the entries of the counter key.
fn expected<'w>(
    level: &'w [DescriptorSpec],
    entries: &[(String, String)],
) -> Option<(*const DescriptorSpec, Vec<(String, String)>)> {
    let ((key, value), rest) = entries.split_first()?;
    let of_key = || level.iter().filter(|it| it.key == *key);
    let found: &'w DescriptorSpec = of_key()
        .find(|it| it.value == *value && !value.is_empty())
        .or_else(|| of_key().find(|it| it.value.contains('*') && wildcard_matches(&it.value, value)))
        .or_else(|| of_key().find(|it| it.value.is_empty()))?;
    let varies = found.value.is_empty() || found.value.contains('*') && !found.shared;
    let mut varying = if varies { vec![(key.clone(), value.clone())] } else { Vec::new() };
    if rest.is_empty() {
        return found.limited.then_some((std::ptr::from_ref(found), varying));
    }
    let (limit, below) = expected(&found.below, rest)?;
    varying.extend(below);
    Some((limit, varying))
}

fn wildcard_matches(pattern: &str, value: &str) -> bool {
    match pattern.chars().next() {
        None => value.is_empty(),
        Some('*') => {
            let rest = &pattern[1..];
            wildcard_matches(rest, value)
                || value.char_indices().any(|(at, c)| wildcard_matches(rest, &value[at + c.len_utf8()..]))
        }
        Some(c) => value.strip_prefix(c).is_some_and(|value| wildcard_matches(&pattern[c.len_utf8()..], value)),
    }
}

/// Parses a key back into entries, which proves that different entries never share a key.
fn parse_key(key: &str) -> Vec<(String, String)> {
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

/// A request that follows the descriptors, so that a limit is found.
fn matching_request(
    level: &[DescriptorSpec],
    choices: &[(prop::sample::Index, String, bool)],
) -> Vec<(String, String)> {
    let Some(((index, value, as_written), rest)) = choices.split_first() else { return Vec::new() };
    if level.is_empty() {
        return Vec::new();
    }
    let chosen = index.get(level);
    let value = if *as_written { chosen.value.replace('*', value) } else { value.clone() };
    let mut entries = vec![(chosen.key.clone(), value)];
    entries.extend(matching_request(&chosen.below, rest));
    entries
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn matching_agrees_with_the_reference_model(
        level in level(2),
        strangers in prop::collection::vec(request(), 0..8),
        ways in prop::collection::vec(
            prop::collection::vec((any::<prop::sample::Index>(), word(), any::<bool>()), 1..4), 0..24),
    ) {
        let text = format!("{{ \"domain\": d, \"descriptors\": {} }}", yaml(&level));
        // Some characters are not allowed in quoted text: such a file is refused.
        let Ok(domains) = Domains::parse(&[("any".to_owned(), text)]) else { return Ok(()) };
        let mut keys = HashMap::new();
        for entries in strangers.into_iter().chain(ways.iter().map(|way| matching_request(&level, way))) {
            let found = domains.find("d", entries.iter().map(|(key, value)| (&**key, &**value)));
            let wanted = expected(&level, &entries);
            prop_assert_eq!(found.is_some(), wanted.is_some(), "{:?}", entries);
            let (Some(found), Some((limit, varying))) = (found, wanted) else { continue };
            prop_assert_eq!(&parse_key(&found.key), &varying);
            // Rule and key are equal exactly if limit and entries are equal.
            let counted = (found.limit.rule.unwrap(), found.key);
            let expected_key = (limit, varying);
            prop_assert_eq!(keys.entry(counted).or_insert_with(|| expected_key.clone()), &expected_key);
        }
        let expected_key: std::collections::HashSet<_> = keys.values().collect();
        prop_assert_eq!(expected_key.len(), keys.len());
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,200}") {
        parse_and_query(&text);
    }

    #[test]
    fn any_yaml_like_text_is_parsed_or_refused(text in "[-a-z0-9:{}\\[\\],&*!|>'\"%@`#?< \t\r\n\u{0}\u{e9}]{0,200}") {
        parse_and_query(&text);
    }

    /// A valid file with a part removed, duplicated or replaced.
    #[test]
    fn damaged_files_are_parsed_or_refused(
        start in 0usize..2600,
        len in 0usize..40,
        piece in "[-a-z0-9:{}\\[\\], \n/'\"<*&]{0,12}",
    ) {
        let valid = include_str!("envoy_ratelimit/valid/basic.yaml");
        let from = start.min(valid.len());
        let to = (start + len).min(valid.len());
        parse_and_query(&format!("{}{piece}{}", &valid[..from], &valid[to..]));
    }
}

fn parse_and_query(text: &str) {
    match Domains::parse(&[("any".to_owned(), text.to_owned())]) {
        Ok(domains) => {
            let names: std::collections::HashSet<_> = domains.rules().iter().map(|rule| &rule.name).collect();
            assert_eq!(names.len(), domains.rules().len());
            let _ = domains.find("basic", [("key1", "value1"), ("subkey1", "x")]);
        }
        Err(report) => assert!(!report.render(RenderStyle::Plain).is_empty()),
    }
}
