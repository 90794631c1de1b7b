//! Tests of the JSON scanner, against serde_json and by hand where they may differ.

use proptest::prelude::*;
use serde_json::Value;

use super::json_field::JsonField;
use super::number::parse_cost;
use super::sse::{SseParser, SsePart};

fn field(path: &[&str]) -> JsonField {
    JsonField::new(path.iter().map(|&name| name.to_owned()).collect())
}

/// The value found if the text arrives in chunks of these lengths, repeated.
fn found(path: &[&str], text: &[u8], lengths: &[usize]) -> Option<u64> {
    let mut field = field(path);
    in_chunks(text, lengths, |piece| field.read(piece));
    field.value()
}

fn in_chunks(mut text: &[u8], lengths: &[usize], mut each: impl FnMut(&[u8])) {
    for length in lengths.iter().cycle() {
        if text.is_empty() {
            return;
        }
        let (piece, rest) = text.split_at((*length).clamp(1, text.len()));
        each(piece);
        text = rest;
    }
}

fn found_in_events(path: &[&str], text: &str, lengths: &[usize]) -> Option<u64> {
    let (mut field, mut events) = (field(path), SseParser::default());
    in_chunks(text.as_bytes(), lengths, |piece| {
        events.read(piece, |part| match part {
            SsePart::Data(data) => field.read(data),
            SsePart::End => field.next_document(),
        });
    });
    field.value()
}

#[test]
fn numbers_are_rounded_up_and_invalid_ones_ignored() {
    for (text, cost) in [
        ("0", Some(0)),
        ("-0", Some(0)),
        (" 42 ", Some(42)),
        ("3.0", Some(3)),
        ("3.01", Some(4)),
        ("1.5e3", Some(1_500)),
        ("1e-9", Some(1)),
        ("9007199254740992", Some(1 << 53)),
        ("9007199254740994", None),
        ("1e300", None),
        ("1e999", None),
        ("-1", None),
        ("-0.5", None),
        ("inf", None),
        ("NaN", None),
        ("", None),
        ("4k", None),
    ] {
        assert_eq!(parse_cost(text.as_bytes()), cost, "{text:?}");
    }
    assert_eq!(parse_cost(b"\xff"), None);
}

#[test]
fn the_field_is_found_at_any_position() {
    let path = ["usage", "total"];
    for (text, cost) in [
        (r#"{"usage":{"total":7}}"#, Some(7)),
        (r#" { "usage" : { "prompt" : 3 , "total" : 7 } , "more" : [ ] } "#, Some(7)),
        (r#"{"choices":[{"usage":{"total":1}}],"usage":{"total":7}}"#, Some(7)),
        (r#"{"text":"\"usage\":{\"total\":9}","usage":{"total":7}}"#, Some(7)),
        (r#"{"usage":{"deep":{"total":1}},"total":2}"#, None),
        (r#"{"usage":[{"total":7}]}"#, None),
        (r#"{"usage":7}"#, None),
        (r#"{"usage":{"total":"7"}}"#, None),
        (r#"{"usage":{"total":null}}"#, None),
        (r#"{"usage":{"total":-7}}"#, None),
        (r#"{"usage":{"total":{"total":7}}}"#, None),
        (r#"{"usage":{}}"#, None),
        (r#"{}"#, None),
        (r#"[{"usage":{"total":7}}]"#, None),
        (r#""usage""#, None),
        // The last of repeated names wins.
        (r#"{"usage":{"total":1,"total":7}}"#, Some(7)),
        (r#"{"usage":{"total":1},"usage":{"total":7}}"#, Some(7)),
        (r#"{"usage":{"total":7},"usage":{}}"#, None),
        (r#"{"usage":{"total":7,"total":null}}"#, None),
        // Escaped names are equal.
        (r#"{"\u0075s\u0061ge":{"tot\u0061l":7}}"#, Some(7)),
        (r#"{"usage\u0000":{"total":7}}"#, None),
        // Consecutive documents: the last one with the field wins.
        ("{\"usage\":{\"total\":1}}\n{\"usage\":{\"total\":7}}\n{\"done\":true}\n", Some(7)),
        // Truncated documents keep a value that is complete.
        (r#"{"usage":{"total":7},"mo"#, Some(7)),
        (r#"{"usage":{"total":7"#, None),
        // After invalid JSON, nothing more is found.
        (r#"{usage:{"total":7}}"#, None),
        (r#"{"usage" {"total":7}}"#, None),
        (r#"{"usage":{"total":7},}{"usage":{"total":8}}"#, Some(7)),
        ("<html>{\"usage\":{\"total\":7}}", None),
    ] {
        for lengths in [[usize::MAX], [1], [3]] {
            assert_eq!(found(&path, text.as_bytes(), &lengths), cost, "{text}");
        }
    }
}

#[test]
fn non_ascii_names_match_escaped_or_not() {
    for text in [r#"{"größe😀":7}"#, r#"{"gr\u00f6\u00dfe\ud83d\ude00":7}"#, r#"{"gr\u00F6ße\uD83D\uDE00":7}"#] {
        assert_eq!(found(&["größe😀"], text.as_bytes(), &[1]), Some(7), "{text}");
    }
    for text in [r#"{"\ud83d":7}"#, r#"{"\ude00\ud83d":7}"#, r#"{"\ud83dx":7}"#, r#"{"\ud83d\ud83d\ude00":7}"#] {
        assert_eq!(found(&["😀"], text.as_bytes(), &[1]), None, "{text}");
    }
    assert_eq!(found(&[], b"7", &[1]), Some(7));
    assert_eq!(found(&[""], br#"{"":7}"#, &[1]), Some(7));
}

#[test]
fn deep_and_long_documents_use_constant_memory() {
    let deep = format!(r#"{{"a":{}{},"n":7}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(found(&["n"], deep.as_bytes(), &[4_096]), Some(7));
    let long = format!(r#"{{"n":{},"m":7}}"#, "1".repeat(100_000));
    assert_eq!(found(&["n"], long.as_bytes(), &[4_096]), None);
    assert_eq!(found(&["m"], long.as_bytes(), &[4_096]), Some(7));
}

#[test]
fn the_last_event_with_the_field_wins() {
    let path = ["usage", "total"];
    for (text, cost) in [
        ("data: {\"usage\":{\"total\":7}}\n\n", Some(7)),
        ("data:{\"usage\":{\"total\":7}}\r\n\r\n", Some(7)),
        ("data: {\"usage\":{\"total\":7}}\r\rdata: [DONE]\r\r", Some(7)),
        ("data: {\"usage\":{\"total\":1}}\n\ndata: {\"usage\":{\"total\":7}}\n\ndata: {\"usage\":null}\n\n", Some(7)),
        ("event: x\nid: 3\ndata: {\"usage\":\ndata: {\"total\":7}}\nretry: 5\n\n: bye\n\n", Some(7)),
        // An invalid event does not affect the next one.
        ("data: {oops\n\ndata: {\"usage\":{\"total\":7}}\n\n", Some(7)),
        ("data: {\"usage\":\n\ndata: {\"total\":7}}\n\n", None),
        ("datum: {\"usage\":{\"total\":7}}\n\n", None),
        ("{\"usage\":{\"total\":7}}\n\n", None),
        ("data\ndata: {\"usage\":{\"total\":7}}", Some(7)),
    ] {
        for lengths in [[usize::MAX], [1], [5]] {
            assert_eq!(found_in_events(&path, text, &lengths), cost, "{text}");
        }
    }
}

/// Names with all escapable characters, few enough to collide.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "", "ab", "\"", "\\", "\n", "ä", "😀", "a/b", "\u{1}"]).prop_map(str::to_owned)
}

/// A JSON string, plain or with every character escaped.
fn json_string(text: &str, plain: bool) -> String {
    if plain {
        return serde_json::to_string(text).unwrap_or_default();
    }
    let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    format!("\"{escaped}\"")
}

/// Arbitrary JSON text, with repeated names and whitespace.
fn document() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|it| it.to_string()),
        any::<i32>().prop_map(|it| it.to_string()),
        (0_u32..100_000).prop_map(|it| it.to_string()),
        (0.0..1e6).prop_map(|it: f64| format!("{it:?}")),
        (0_u32..99, 0_u32..5).prop_map(|(it, power)| format!("{it}.25E+{power}")),
        (name(), any::<bool>()).prop_map(|(text, plain)| json_string(&text, plain)),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let space = || prop::sample::select(vec!["", " ", "\n\t", "\r\n"]);
        let pair = (name(), any::<bool>(), space(), inner.clone(), space());
        let pair = pair.prop_map(|(name, plain, before, value, after)| {
            format!("{before}{}{after}:{before}{value}{after}", json_string(&name, plain))
        });
        prop_oneof![
            4 => prop::collection::vec(pair, 0..5).prop_map(|pairs| format!("{{{}}}", pairs.join(","))),
            1 => prop::collection::vec(inner, 0..4).prop_map(|items| format!("[ {} ]", items.join(" , "))),
        ]
    })
}

/// The value according to serde_json.
fn reference_value(document: &Value, path: &[String]) -> Option<u64> {
    let value = path.iter().try_fold(document, |value, name| value.as_object()?.get(name))?;
    parse_cost(value.as_number()?.to_string().as_bytes())
}

/// A path to a value that is not an object, or is an empty one.
fn path_to_leaf(document: &Value, choices: &[prop::sample::Index]) -> Vec<String> {
    let (mut path, mut at) = (Vec::new(), document);
    for choice in choices {
        let Some(names) = at.as_object().filter(|names| !names.is_empty()) else { break };
        let name = names.keys().nth(choice.index(names.len())).expect("within the length");
        path.push(name.clone());
        at = &names[name];
    }
    path
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_scanner_agrees_with_serde_json(
        document in document(),
        path in prop::collection::vec(name(), 0..4),
        choices in prop::option::of(prop::collection::vec(any::<prop::sample::Index>(), 6)),
        lengths in prop::collection::vec(1_usize..9, 1..6),
    ) {
        let value: Value = serde_json::from_str(&document).expect("the strategy generates valid JSON");
        let path = choices.map_or(path, |choices| path_to_leaf(&value, &choices));
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let expected = reference_value(&value, &path);
        prop_assert_eq!(found(&names, document.as_bytes(), &lengths), expected);
        // The same document as an event, each line as a data line.
        let lines: Vec<String> = document.split(['\r', '\n']).map(|line| format!("data: {line}\n")).collect();
        prop_assert_eq!(found_in_events(&names, &format!("{}\n", lines.concat()), &lengths), expected);
    }

    #[test]
    fn garbage_does_not_panic_and_chunking_does_not_matter(
        garbage in prop::collection::vec(prop::sample::select(b"{}[]\":,\\u0a1 -.e\n\rdt\xff".to_vec()), 0..200),
        lengths in prop::collection::vec(1_usize..9, 1..6),
    ) {
        let whole = found(&["a"], &garbage, &[usize::MAX]);
        prop_assert_eq!(found(&["a"], &garbage, &lengths), whole);
        let mut events = SseParser::default();
        in_chunks(&garbage, &lengths, |piece| events.read(piece, |_| {}));
    }
}
