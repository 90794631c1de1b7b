//! Key names in the store.
//!
//! `sluicegate:{203.0.113.9}:per-client:tb` is the bucket of one client under the rule `per-client`. The
//! part in braces, the *hash tag*, is the request's key alone: a Redis Cluster assigns slots by it, so all
//! rules with the same key share a slot and can be decided in one call.
//!
//! External input is escaped: only letters, digits and a few safe characters are kept, so nothing in a key can
//! end the tag, and different keys, rules or layouts never share a name. A long tag is replaced by its digest.

use std::net::{Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::slot::slot_of;

/// Longer tags are replaced by digests.
const MAX_TAG_BYTES: usize = 100;

/// A key in the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoreKey(pub(crate) Bytes);

impl StoreKey {
    /// The key of a rule's limits for one request's key.
    ///
    /// `key` is the input that [`hash_key`](sluicegate_engine::rule::key::hash_key) feeds to its hasher, empty if
    /// the rule has no key; `shape` is that of the [encoded limits](crate::encoded_limits::EncodedLimits::shape).
    pub(crate) fn new(prefix: &str, rule: &str, key: &[u8], shape: &str) -> Self {
        let mut name = Vec::with_capacity(prefix.len() + rule.len() + key.len() + shape.len() + 8);
        for part in prefix.split(':') {
            push_escaped(&mut name, part.as_bytes());
            name.push(b':');
        }
        name.push(b'{');
        push_tag(&mut name, rule, key);
        name.extend_from_slice(b"}:");
        push_escaped(&mut name, rule.as_bytes());
        name.push(b':');
        push_escaped(&mut name, shape.as_bytes());
        Self(name.into())
    }

    /// Its Redis Cluster hash slot.
    pub(crate) fn slot(&self) -> u16 {
        slot_of(&self.0)
    }

    /// A secondary key in the same slot.
    pub(crate) fn secondary(&self, suffix: &str) -> Bytes {
        [&self.0, b":".as_slice(), suffix.as_bytes()].concat().into()
    }
}

/// Prefixes that no escaped text begins with, so that tags of different kinds differ.
const RULE_TAG_PREFIX: u8 = b'*';
const DIGEST_TAG_PREFIX: u8 = b'#';
const OPAQUE_TAG_PREFIX: u8 = b'?';

fn push_tag(name: &mut Vec<u8>, rule: &str, key: &[u8]) {
    let from = name.len();
    if key.is_empty() {
        name.push(RULE_TAG_PREFIX);
        push_escaped(name, rule.as_bytes());
    } else if push_parts(name, key).is_none() {
        // Not the engine's encoding: treated as opaque bytes.
        name.truncate(from);
        name.push(OPAQUE_TAG_PREFIX);
        push_escaped(name, key);
    }
    if name.len() - from > MAX_TAG_BYTES {
        let digest = Sha256::digest(&name[from..]);
        name.truncate(from);
        name.push(DIGEST_TAG_PREFIX);
        for byte in &digest[..16] {
            push_hex(name, *byte);
        }
    }
}

/// Each part of a key, separated by commas. The prefix before a text distinguishes it from an address with the
/// same characters.
fn push_parts(name: &mut Vec<u8>, mut key: &[u8]) -> Option<()> {
    let mut first = true;
    while let Some((kind, rest)) = key.split_first() {
        if !std::mem::take(&mut first) {
            name.push(b',');
        }
        match kind {
            b'4' => {
                let (octets, rest) = rest.split_first_chunk::<4>()?;
                name.extend_from_slice(Ipv4Addr::from(*octets).to_string().as_bytes());
                key = rest;
            }
            b'6' => {
                let (octets, rest) = rest.split_first_chunk::<16>()?;
                name.extend_from_slice(Ipv6Addr::from(*octets).to_string().as_bytes());
                key = rest;
            }
            b't' => {
                let (length, rest) = rest.split_first_chunk::<8>()?;
                let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
                let (text, rest) = rest.split_at_checked(length)?;
                name.push(b'=');
                push_escaped(name, text);
                key = rest;
            }
            _ => return None,
        }
    }
    Some(())
}

/// Percent-encodes a text. Own code, because stored keys have lower-case digits and `percent-encoding` writes upper case.
fn push_escaped(name: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'@' | b'/' | b'+' => {
                name.push(*byte);
            }
            _ => {
                name.push(b'%');
                push_hex(name, *byte);
            }
        }
    }
}

fn push_hex(name: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    name.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;
    use crate::exact::tests::support::cluster_of_one;
    use crate::slot::hash_tag;

    fn text(text: &str) -> Vec<u8> {
        [b"t".as_slice(), &(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    }

    fn v4(octets: [u8; 4]) -> Vec<u8> {
        [b"4".as_slice(), &octets].concat()
    }

    fn v6(address: &str) -> Vec<u8> {
        [b"6".as_slice(), &address.parse::<Ipv6Addr>().unwrap().octets()].concat()
    }

    fn name(rule: &str, key: &[u8]) -> String {
        String::from_utf8(StoreKey::new("sluicegate", rule, key, "tb").0.to_vec()).unwrap()
    }

    #[test]
    fn names_are_readable() {
        let both = [v4([203, 0, 113, 9]), text("Zoë {x}")].concat();
        for (key, expected) in [
            (v4([203, 0, 113, 9]), "sluicegate:{203.0.113.9}:per-client:tb"),
            (v6("2001:db8::"), "sluicegate:{2001:db8::}:per-client:tb"),
            (text("alice@example.com"), "sluicegate:{=alice@example.com}:per-client:tb"),
            (both, "sluicegate:{203.0.113.9,=Zo%c3%ab%20%7bx%7d}:per-client:tb"),
            (vec![], "sluicegate:{*per-client}:per-client:tb"),
            (b"x}y".to_vec(), "sluicegate:{?x%7dy}:per-client:tb"),
        ] {
            assert_eq!(name("per-client", &key), expected);
        }
        assert_eq!(name("a b", &[]), "sluicegate:{*a%20b}:a%20b:tb");
        let long = name("r", &text(&"x".repeat(1 << 20)));
        assert_eq!(long.len(), "sluicegate:{#}:r:tb".len() + 32);
        let prefixed = StoreKey::new("app:{limits}", "r", &[], "tb");
        assert_eq!(prefixed.0, "app:%7blimits%7d:{*r}:r:tb");
        assert_eq!(prefixed.secondary("permits"), "app:%7blimits%7d:{*r}:r:tb:permits");
    }

    #[test]
    fn similar_keys_have_different_names() {
        let keys = [
            vec![],
            text(""),
            text("203.0.113.9"),
            v4([203, 0, 113, 9]),
            v6("::ffff:203.0.113.9"),
            text("a,=b"),
            [text("a"), text("b")].concat(),
            text("%2c"),
            text(","),
            text("*r"),
            b"t".to_vec(),
            b"tr".to_vec(),
            text("tr"),
        ];
        let mut names: Vec<String> = keys.iter().map(|key| name("r", key)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), keys.len());
    }

    /// Slots as computed by a Redis server.
    fn slots_of(names: &[Vec<u8>]) -> Vec<u16> {
        let server = cluster_of_one();
        let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        let mut slot =
            |name: &Vec<u8>| redis::cmd("CLUSTER").arg("KEYSLOT").arg(name).query::<u16>(&mut connection).unwrap();
        names.iter().map(&mut slot).collect()
    }

    #[test]
    fn slots_match_the_server() {
        let mut keys: Vec<StoreKey> = (0..300u32)
            .map(|index| {
                StoreKey::new("sluicegate", "rule", &text(&format!("user{index}{{}}:{}", index * index)), "tb")
            })
            .collect();
        keys.push(StoreKey::new("p", "rule", &[], "sw10x6000000"));
        keys.push(StoreKey(Bytes::from_static(b"no tag")));
        keys.push(StoreKey(Bytes::from_static(b"an{}empty one")));
        keys.push(StoreKey(Bytes::from_static(b"an open {one")));
        let names: Vec<Vec<u8>> = keys.iter().map(|key| key.0.to_vec()).collect();
        assert_eq!(keys.iter().map(StoreKey::slot).collect::<Vec<_>>(), slots_of(&names));
        // Rules with the same key share a slot, and secondary keys share that of the primary key.
        let other = StoreKey::new("sluicegate", "another", &text("user7{}:49"), "sl5");
        assert_eq!(other.slot(), keys[7].slot());
        assert_eq!(StoreKey(other.secondary("log0")).slot(), other.slot());
    }

    /// Parts in the engine's encoding, or any bytes.
    fn any_key() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            any::<[u8; 4]>().prop_map(v4),
            any::<[u8; 16]>().prop_map(|octets| [b"6".as_slice(), &octets].concat()),
            "[a{}:%,=*#?/0-9\0é]{0,6}".prop_map(|value| text(&value)),
            ".{0,200}".prop_map(|value| text(&value)),
        ];
        prop_oneof![
            4 => prop::collection::vec(part, 0..4).prop_map(|parts| parts.concat()),
            1 => prop::collection::vec(any::<u8>(), 0..20),
        ]
    }

    proptest! {
        #[test]
        fn store_keys_are_equal_only_if_all_parts_are(
            rules in ("[r:{}%]{0,3}", "[r:{}%]{0,3}"), keys in (any_key(), any_key()), shapes in ("[a+]{1,2}", "[a+]{1,2}"),
        ) {
            let first = StoreKey::new("p", &rules.0, &keys.0, &shapes.0);
            let second = StoreKey::new("p", &rules.1, &keys.1, &shapes.1);
            let same = rules.0 == rules.1 && keys.0 == keys.1 && shapes.0 == shapes.1;
            prop_assert_eq!(first == second, same);
        }

        #[test]
        fn nothing_breaks_out_of_the_braces(prefix in ".{0,9}", rule in ".{0,9}", key in any_key()) {
            let StoreKey(name) = StoreKey::new(&prefix, &rule, &key, "tb");
            prop_assert_eq!(name.iter().filter(|byte| **byte == b'{').count(), 1);
            prop_assert_eq!(name.iter().filter(|byte| **byte == b'}').count(), 1);
            prop_assert!(name.iter().all(|byte| byte.is_ascii_graphic()));
            let tag = hash_tag(&name).unwrap_or(&name);
            prop_assert!(!tag.is_empty() && tag.len() <= MAX_TAG_BYTES);
        }
    }
}
