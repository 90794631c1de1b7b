use std::collections::HashSet;
use std::thread;

use http::HeaderValue;

use super::super::request_id::{RequestId, RequestIdGenerator};

#[test]
fn ids_have_32_hex_digits_and_are_unique() {
    let ids = || {
        let ids = RequestIdGenerator::new();
        (0..20_000).map(|_| ids.next()).collect::<Vec<_>>()
    };
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(ids)).collect();
    let mut seen = HashSet::new();
    for id in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        assert!(id.as_str().len() == 32 && id.as_str().bytes().all(is_digit), "{}", id.as_str());
        assert_eq!(id.header(), id.as_str());
        assert!(seen.insert(id.as_str().to_owned()), "{} again", id.as_str());
    }
    assert_eq!(seen.len(), 80_000);
}

/// Each bit of an ID changes with probability one half from one ID to the next.
#[test]
fn ids_do_not_reveal_a_count() {
    const COUNT: usize = 20_000;
    let ids = RequestIdGenerator::new();
    let ids: Vec<_> = (0..COUNT).map(|_| u128::from_str_radix(ids.next().as_str(), 16).unwrap()).collect();
    for bit in 0..128 {
        let changes = ids.windows(2).filter(|pair| (pair[0] ^ pair[1]) >> bit & 1 == 1).count();
        // Ten standard deviations are 707, so this does not fail by chance.
        assert!(changes.abs_diff(COUNT / 2) < 1_000, "bit {bit} changed {changes} times");
    }
}

#[test]
fn valid_ids_of_proxies_are_accepted() {
    let max_length = "x".repeat(128);
    for valid in ["1", "abc-DEF", "0._9~+/=:-", "Root=1-67891233-abcdef012345678912345678", &max_length] {
        let given = HeaderValue::from_str(valid).unwrap();
        assert_eq!(RequestId::accept(&given).unwrap().as_str(), valid);
    }
    let too_long = "x".repeat(129);
    for invalid in ["", "a b", "a\tb", "a,b", "a\"b", "a;b", "<a>", "a\\b", "{a}", "a@b", &too_long] {
        assert_eq!(RequestId::accept(&HeaderValue::from_str(invalid).unwrap()), None, "{invalid}");
    }
    assert_eq!(RequestId::accept(&HeaderValue::from_bytes(b"caf\xc3\xa9").unwrap()), None);
}
