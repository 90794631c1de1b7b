//! Whatever is given to the importer, it does not panic, and what it makes is a rule file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use proptest::prelude::*;
use sluicegate_config::nginx::convert;
use sluicegate_config::parse;

const REAL: [&str; 6] = [
    include_str!("nginx/idiom.conf"),
    include_str!("nginx/cases.conf"),
    include_str!("nginx/keys.conf"),
    include_str!("nginx/hosts.conf"),
    include_str!("nginx/real/conf.d/10-limits.conf"),
    include_str!("nginx/real/conf.d/20-shop.conf"),
];

/// The rule file that is made of it, if one is, is one.
fn is_sound(text: &str) {
    if let Ok(imported) = convert("nginx.conf", text)
        && let Err(report) = parse("rules.yaml", &imported.yaml)
    {
        panic!("{report}\n{}\n{text}", imported.yaml);
    }
}

/// A gateway about which nothing could be said was written all the same, and refused.
#[test]
fn a_server_of_which_nothing_is_left_makes_no_gateway() {
    is_sound("server { listen unix:/run/nginx.sock; }");
    is_sound("server { listen 443 ssl; }");
}

/// Words of nginx's, and some that nobody expects.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(REAL.concat().split_whitespace().map(str::to_owned).collect::<Vec<_>>()),
        prop::sample::select(vec!["$", "${", "0", "-1", "18446744073709551615", "''", "\"\\n\"", "*", "é", "\u{feff}"])
            .prop_map(str::to_owned),
        "\\PC{0,8}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        is_sound(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_words(words in prop::collection::vec(prop_oneof![4 => word(), 1 => "[;{}]"], 0..80)) {
        is_sound(&words.join(" "));
    }

    #[test]
    fn mangled_words_of_real_files(
        file in prop::sample::select(REAL.to_vec()),
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
        is_sound(&words.concat());
    }
}
