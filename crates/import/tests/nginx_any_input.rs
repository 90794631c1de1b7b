//! Property tests: the importer never panics, and its output is a valid rule file.

use proptest::prelude::*;
use sluicegate_config::parse;
use sluicegate_import::nginx::convert;

const SAMPLES: [&str; 6] = [
    include_str!("nginx/idiom.conf"),
    include_str!("nginx/cases.conf"),
    include_str!("nginx/keys.conf"),
    include_str!("nginx/hosts.conf"),
    include_str!("nginx/real/conf.d/10-limits.conf"),
    include_str!("nginx/real/conf.d/20-shop.conf"),
];

/// Asserts that the generated rule file, if any, is valid.
fn assert_valid(text: &str) {
    if let Ok(imported) = convert("nginx.conf", text)
        && let Err(report) = parse("rules.yaml", &imported.yaml)
    {
        panic!("{report}\n{}\n{text}", imported.yaml);
    }
}

/// Regression: an empty gateway section was written and then refused.
#[test]
fn a_server_without_supported_directives_makes_no_gateway() {
    assert_valid("server { listen unix:/run/nginx.sock; }");
    assert_valid("server { listen 443 ssl; }");
}

/// nginx words, and some unexpected ones.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(SAMPLES.concat().split_whitespace().map(str::to_owned).collect::<Vec<_>>()),
        prop::sample::select(vec!["$", "${", "0", "-1", "18446744073709551615", "''", "\"\\n\"", "*", "é", "\u{feff}"])
            .prop_map(str::to_owned),
        "\\PC{0,8}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_valid(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_words(words in prop::collection::vec(prop_oneof![4 => word(), 1 => "[;{}]"], 0..80)) {
        assert_valid(&words.join(" "));
    }

    #[test]
    fn mutated_sample_files(
        file in prop::sample::select(SAMPLES.to_vec()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), word(), 0..4_u8), 1..8),
    ) {
        let mut words: Vec<String> = file.split_inclusive([' ', ';', '\n']).map(str::to_owned).collect();
        for (at, word, change) in changes {
            let at = at.index(words.len());
            let end = words[at].chars().last().map(String::from).unwrap_or_default();
            match change {
                0 => words[at] = word + &end,
                1 => words.insert(at, word + " "),
                2 if words.len() > 1 => drop(words.remove(at)),
                _ => {
                    let other = words[at].clone();
                    words.push(other);
                }
            }
        }
        assert_valid(&words.concat());
    }
}
