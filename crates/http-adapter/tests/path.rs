//! Tests of path normalization.

use std::borrow::Cow;

use proptest::prelude::*;
use sluicegate_engine::rule::PathPattern;
use sluicegate_http_adapter::normalize_path;

#[test]
fn equivalent_spellings_normalize_equally() {
    for (raw, normal) in [
        // Already normalized.
        ("/", "/"),
        ("/api/orders", "/api/orders"),
        ("/api/orders/", "/api/orders/"),
        ("/.well-known/x", "/.well-known/x"),
        ("/a/..b/...", "/a/..b/..."),
        ("/a.b./c..", "/a.b./c.."),
        ("/API", "/API"),
        ("/caf\u{e9}", "/caf\u{e9}"),
        // Slashes.
        ("//api//orders", "/api/orders"),
        ("/api/orders//", "/api/orders/"),
        ("////", "/"),
        // Dot segments.
        ("/.", "/"),
        ("/..", "/"),
        ("/../../etc", "/etc"),
        ("/api/./orders", "/api/orders"),
        ("/api/x/../orders", "/api/orders"),
        ("/api/x/y/../../orders", "/api/orders"),
        ("/api/orders/.", "/api/orders/"),
        ("/api/orders/x/..", "/api/orders/"),
        ("/a//../b", "/b"),
        ("/a/.//./b", "/a/b"),
        ("/./../.", "/"),
        // Escapes of characters allowed in a path.
        ("/%61pi/orders", "/api/orders"),
        ("/%2e%2E/etc", "/etc"),
        ("/a/%2e/b", "/a/b"),
        ("/a/.%2e/b", "/b"),
        ("/%7Ejoe/%2D%5f%2e", "/~joe/-_."),
        ("/%40me/a%3Ab%3bc%2C", "/@me/a:b;c,"),
        ("/caf%C3%A9/caf%c3%a9", "/caf\u{e9}/caf\u{e9}"),
        ("/%E4%B8%AD/%F0%9F%98%80", "/\u{4e2d}/\u{1f600}"),
        // Escapes of characters not allowed in a path.
        ("/a%2fb", "/a%2Fb"),
        ("/a/..%2fb", "/a/..%2Fb"),
        ("/a%3fq%23x", "/a%3Fq%23x"),
        ("/100%25", "/100%25"),
        ("/%2561", "/%2561"),
        ("/%252e%252e/x", "/%252e%252e/x"),
        ("/a%20b", "/a%20b"),
        ("/%00%0d%0A%7f", "/%00%0D%0A%7F"),
        ("/%C2%80%c2%a0%e3%80%80", "/%C2%80%C2%A0%E3%80%80"),
        // Invalid UTF-8: stray, truncated, overlong, surrogate, too large.
        ("/%ff%C3", "/%FF%C3"),
        ("/%c3x%a9", "/%C3x%A9"),
        ("/%c0%af", "/%C0%AF"),
        ("/%ed%a0%80", "/%ED%A0%80"),
        ("/%f4%90%80%80", "/%F4%90%80%80"),
        // Invalid escapes.
        ("/%", "/%"),
        ("/%4", "/%4"),
        ("/%zz/%g1", "/%zz/%g1"),
        ("/%+1", "/%+1"),
        ("/%u0061", "/%u0061"),
        ("/%\u{e9}a", "/%\u{e9}a"),
        ("/%%36%31", "/%%361"),
        ("/%4%31", "/%4%31"),
        // Query and fragment.
        ("/api?x=/../y", "/api"),
        ("/api#x", "/api"),
        ("/api/..?x", "/"),
        ("?x", "/"),
        // Other forms of the request target.
        ("", "/"),
        ("*", "*"),
        ("/*", "/*"),
        ("shop.example:443", "/"),
        ("[::1]:443", "/"),
        ("http://shop.example", "/"),
        ("http://shop.example?x=/y", "/"),
        ("http://shop.example/%61pi//x", "/api/x"),
        ("HTTPS://u:p@shop.example:443/../x", "/x"),
        ("no/slash/../first", "/no/first"),
        ("../x", "/x"),
        ("://", "/"),
    ] {
        assert_eq!(normalize_path(raw), normal, "{raw}");
    }
}

#[test]
fn a_normalized_path_is_borrowed() {
    for raw in ["/", "/api/orders", "/a.b/.c/..d/", "*", "/caf\u{e9}"] {
        assert!(matches!(normalize_path(raw), Cow::Borrowed(same) if same == raw), "{raw}");
    }
}

#[test]
fn no_spelling_bypasses_a_pattern() {
    let pattern = PathPattern::parse("/api/orders/{id}").unwrap();
    for raw in [
        "/api/orders/7",
        "/api/orders/7/",
        "//api/orders/7",
        "/api//orders///7",
        "/./api/orders/./7",
        "/x/../api/orders/7",
        "/%61%70%69/%6Frders/%37",
        "/api/x/%2e%2e/orders/7",
        "/api/orders/7?x=1",
        "/api/orders/7#x",
        "http://shop.example/api/orders/7",
    ] {
        assert!(pattern.matches(&normalize_path(raw)), "{raw}");
    }
    for raw in ["/api/orders", "/api%2Forders/7", "/api/orders/7/x", "/API/orders/7"] {
        assert!(!pattern.matches(&normalize_path(raw)), "{raw}");
    }
}

fn targets() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("/".to_owned()),
        Just(".".to_owned()),
        Just("%".to_owned()),
        Just("..".to_owned()),
        "[a-fA-F0-9]",
        "%[0-9a-fA-F]{2}",
        "%(2[eEfF5]|3[0-9]|6[1-6]|C3%A9)",
        "[?#*:@]",
        "\\PC",
        Just("://".to_owned()),
    ];
    prop_oneof![
        prop::collection::vec(piece.clone(), 0..24).prop_map(|pieces| pieces.concat()),
        prop::collection::vec(piece, 0..24).prop_map(|pieces| format!("/{}", pieces.concat())),
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn normalization_is_idempotent(raw in targets()) {
        let normal = normalize_path(&raw).into_owned();
        prop_assert_eq!(&normalize_path(&normal), &normal);
        prop_assert!(matches!(normalize_path(&normal), Cow::Borrowed(_)) || normal.contains('%'));
    }

    #[test]
    fn a_normalized_path_starts_with_a_slash(raw in targets()) {
        let normal = normalize_path(&raw);
        prop_assert!(normal.len() <= raw.len() + 1);
        prop_assert!(normal.starts_with('/') || normal == "*");
        prop_assert!(!normal.contains("//") && !normal.contains(['?', '#']));
        prop_assert!(normal.split('/').all(|segment| segment != "." && segment != ".."));
    }

    #[test]
    fn percent_encoding_does_not_change_the_normal_path(
        path in "(/[a-z0-9._~@:!\u{e9}\u{4e2d}-]{1,6}){1,4}",
        escaped in prop::collection::vec(any::<bool>(), 64),
        lower in any::<bool>(),
    ) {
        let spelt: String = path.chars().zip(escaped.iter().cycle()).map(|(character, escape)| {
            if *escape && character != '/' {
                let escapes = character.to_string().bytes().map(|b| format!("%{b:02X}")).collect::<String>();
                if lower { escapes.to_ascii_lowercase() } else { escapes }
            } else {
                character.to_string()
            }
        }).collect();
        prop_assert_eq!(normalize_path(&spelt), normalize_path(&path));
    }
}
