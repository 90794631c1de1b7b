use proptest::prelude::*;
use sluicegate_config::settings::AccessLogFormat::{self, Common, Json};

use super::super::escape::MAX_VALUE_BYTES;
use super::super::{LogEntry, format};
use super::{full_entry, minimal_entry};

fn rendered(format: AccessLogFormat, entry: &LogEntry<'_>) -> String {
    let mut out = Vec::new();
    format::write_entry(format, &mut out, entry);
    assert!(out.pop() == Some(b'\n') && out.iter().all(|byte| (b' '..=b'~').contains(byte)), "{}", out.escape_ascii());
    String::from_utf8(out).unwrap()
}

/// True if `logged` is the value, possibly truncated.
fn is_from(logged: &[u8], value: &[u8], as_logged: impl Fn(&[u8]) -> Vec<u8>) -> bool {
    if value.len() <= MAX_VALUE_BYTES {
        return logged == as_logged(value);
    }
    let Some(beginning) = logged.strip_suffix(b"...") else { return false };
    (MAX_VALUE_BYTES - 3..=MAX_VALUE_BYTES).any(|end| beginning == as_logged(&value[..end]))
}

fn lossy(value: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(value).into_owned().into_bytes()
}

fn unescape(value: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), value.as_bytes());
    while let [first, behind @ ..] = rest {
        rest = match behind {
            [b'x', hex @ ..] if *first == b'\\' => {
                bytes.push(u8::from_str_radix(str::from_utf8(&hex[..2]).unwrap(), 16).unwrap());
                &hex[2..]
            }
            _ => {
                assert_ne!(*first, b'\\', "a backslash is always escaped");
                bytes.push(*first);
                behind
            }
        };
    }
    bytes
}

/// Hostile byte strings: arbitrary bytes, or mostly special ones.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let odd = prop::sample::select(b"\"\\\n\r\t\0\x1b\x7f\x80\xc2\x85\xe2\x80\xa8\xf0\x9f\x92\xa9\xff u'x".as_slice());
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        prop::collection::vec(any::<u8>(), MAX_VALUE_BYTES - 8..MAX_VALUE_BYTES + 8),
        prop::collection::vec(odd, 0..64),
        any::<String>().prop_map(String::into_bytes),
        (MAX_VALUE_BYTES - 8..MAX_VALUE_BYTES + 8, any::<char>()).prop_map(|(filled, char)| {
            let mut text = "a".repeat(filled);
            text.extend([char; 4]);
            text.into_bytes()
        }),
    ]
}

proptest! {
    #[test]
    fn json_values_round_trip(agent in hostile(), referer in hostile(), text in hostile()) {
        let text = String::from_utf8_lossy(&text);
        let entry = LogEntry {
            user_agent: Some(&agent), referer: Some(&referer),
            method: &text, target: &text, host: &text, request_id: &text, rule: Some(&text), shadow: Some(&text),
            ..full_entry()
        };
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&rendered(Json, &entry)).unwrap();
        let logged = |name: &str| object[name].as_str().unwrap().as_bytes();
        prop_assert!(is_from(logged("user_agent"), &agent, lossy));
        prop_assert!(is_from(logged("referer"), &referer, lossy));
        for name in ["method", "target", "host", "request_id", "rule", "shadow"] {
            let logged = logged(name);
            prop_assert!(is_from(logged, text.as_bytes(), <[u8]>::to_vec), "{name}: no character is split");
        }
        let plain: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&rendered(Json, &full_entry())).unwrap();
        prop_assert!(object.keys().eq(plain.keys()), "no member is forged");
    }

    #[test]
    fn common_values_round_trip(agent in hostile(), referer in hostile(), text in hostile()) {
        let text = String::from_utf8_lossy(&text);
        let entry = LogEntry {
            user_agent: Some(&agent), referer: Some(&referer), target: &text, rule: Some(&text),
            ..minimal_entry()
        };
        let line = rendered(Common, &entry);
        let parts: Vec<_> = line.split('"').collect();
        let [_, request, _, logged_referer, _, logged_agent, decided] = parts[..] else {
            panic!("a quote is forged: {line}")
        };
        prop_assert!(is_from(&unescape(logged_agent), &agent, <[u8]>::to_vec));
        prop_assert!(is_from(&unescape(logged_referer), &referer, <[u8]>::to_vec));
        let target = request.strip_prefix("GET ").unwrap().strip_suffix(" HTTP/1.1").unwrap();
        prop_assert!(is_from(&unescape(target), text.as_bytes(), <[u8]>::to_vec));
        let names: Vec<_> = decided.split_whitespace().map(|field| field.split_once('=').unwrap().0).collect();
        prop_assert_eq!(names, ["id", "verdict", "rule", "wait", "rt", "key", "upstream", "server", "ut"]);
        let rule = decided.split_whitespace().nth(2).unwrap().strip_prefix("rule=").unwrap();
        let expected = if text.is_empty() { b"-".as_slice() } else { text.as_bytes() };
        prop_assert!(is_from(&unescape(rule), expected, <[u8]>::to_vec));
    }
}

#[test]
fn line_ends_and_terminal_controls_are_escaped() {
    let agent = "a\"b\\c\nd\r\u{1b}[2Je\u{7f}f\u{85}g\u{2028}h\u{202e}\u{1f4a9}".as_bytes();
    let entry = LogEntry { user_agent: Some(agent), ..minimal_entry() };
    let expected = r#""user_agent":"a\"b\\c\u000Ad\u000D\u001B[2Je\u007Ff\u0085g\u2028h\u202E\uD83D\uDCA9","#;
    assert!(rendered(Json, &entry).contains(expected));
    let expected = r#""a\x22b\x5Cc\x0Ad\x0D\x1B[2Je\x7Ff\xC2\x85g\xE2\x80\xA8h\xE2\x80\xAE\xF0\x9F\x92\xA9""#;
    assert!(rendered(Common, &entry).contains(expected));
    let entry = LogEntry { user_agent: Some(b"caf\xe9 \xf0\x9f\x92"), ..minimal_entry() };
    assert!(rendered(Json, &entry).contains(r#""user_agent":"caf\uFFFD \uFFFD","#));
    assert!(rendered(Common, &entry).contains(r#""caf\xE9 \xF0\x9F\x92""#));
}
