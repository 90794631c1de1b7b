//! Rate limit key of a request.
//!
//! A rule's key is a list of attributes. It is hashed for the tables and formatted for display. Two requests have
//! the same key exactly if all parts are equal: parts are hashed with their lengths, so `["a", "bc"]` is not
//! `["ab", "c"]`, for any contents and lengths.
//!
//! A request that lacks a part has no key, and the rule does not count it.
//!
//! The client address is masked to the part's prefix: by default a whole IPv4 address and a /64 of IPv6. An
//! IPv4-mapped IPv6 address is an IPv4 address. Addresses in other attributes, such as headers, are texts.
//!
//! ```
//! use sluicegate_engine::rule::{Attribute, KeyPart, Params, Request, readable_key};
//!
//! let request = Request::new("GET", "/").with_client_ip([0x2001, 0xdb8, 0, 0, 1, 2, 3, 4]);
//! let by_ip = [KeyPart::from(Attribute::ClientIp)];
//! let key = readable_key(&by_ip, &request, &Params::new());
//! assert_eq!(key.as_deref(), Some("2001:db8::/64"));
//! ```

use std::fmt::{self, Write};
use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Attribute, KeyPart, Params, Request};

/// Maximum length of a key formatted by [`readable_key`], in characters. Longer keys end in `...`.
pub const MAX_READABLE_CHARS: usize = 200;

/// Feeds a request's key to a hasher. Returns false if the request lacks a part; the hash is invalid then.
pub fn hash_key(parts: &[KeyPart], request: &Request<'_>, params: &Params<'_>, hasher: &mut impl Hasher) -> bool {
    // Each part is prefixed with its kind and length, so no two lists of parts give the same bytes. The bytes are
    // the same on every machine, so that processes can share hashed keys. A hasher's cost per write exceeds its
    // cost per byte, so there are few writes.
    parts.iter().all(|part| {
        if part.attribute == Attribute::ClientIp {
            let Some(address) = request.canonical_ip() else { return false };
            hash_address(part, address, hasher);
        } else {
            let Some(text) = request.value(&part.attribute, params) else { return false };
            hasher.write(&tagged::<8, 9>(b't', (text.len() as u64).to_le_bytes()));
            hasher.write(text.as_bytes());
        }
        true
    })
}

/// Feeds the bytes that [`hash_key`] writes for the client address, which must be canonical.
#[inline]
pub(crate) fn hash_address(part: &KeyPart, client: IpAddr, hasher: &mut impl Hasher) {
    match masked(part, client) {
        IpAddr::V4(v4) => hasher.write(&tagged::<4, 5>(b'4', v4.octets())),
        IpAddr::V6(v6) => hasher.write(&tagged::<16, 17>(b'6', v6.octets())),
    }
}

/// Bytes prefixed with the letter of their kind.
#[inline]
fn tagged<const BYTES: usize, const TOTAL: usize>(kind: u8, bytes: [u8; BYTES]) -> [u8; TOTAL] {
    const { assert!(TOTAL == BYTES + 1) }
    let mut all = [kind; TOTAL];
    all[1..].copy_from_slice(&bytes);
    all
}

/// Feeds encoded bytes of [`hash_key`] in the same writes. Returns false if `hash_key` cannot have written them.
pub(crate) fn hash_encoded(mut bytes: &[u8], hasher: &mut impl Hasher) -> bool {
    while let Some((kind, rest)) = bytes.split_first() {
        let (piece, text) = match kind {
            b'4' => (5, None),
            b'6' => (17, None),
            b't' => match rest.first_chunk::<8>() {
                Some(length) => (9, Some(usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX))),
                None => return false,
            },
            _ => return false,
        };
        for length in [Some(piece), text].into_iter().flatten() {
            let Some((piece, after)) = bytes.split_at_checked(length) else { return false };
            hasher.write(piece);
            bytes = after;
        }
    }
    true
}

/// Formats a request's key for display: `203.0.113.9`, `2001:db8::/64`, `account=alice`, several parts separated
/// by commas. `None` if the request lacks a part; empty if there are no parts.
///
/// Characters that could break a line or reorder text are escaped, and the length is bounded. So two long keys
/// may format the same: use [`hash_key`] to distinguish them.
pub fn readable_key(parts: &[KeyPart], request: &Request<'_>, params: &Params<'_>) -> Option<String> {
    let mut line = BoundedLine::default();
    let mut absent = false;
    let mut write_parts = || -> fmt::Result {
        for (position, part) in parts.iter().enumerate() {
            if position > 0 {
                line.write_str(", ")?;
            }
            if part.attribute == Attribute::ClientIp {
                match request.canonical_ip() {
                    Some(client) => write_address(&mut line, masked(part, client), part)?,
                    None => absent = true,
                }
            } else {
                match request.value(&part.attribute, params) {
                    Some(text) => write!(line, "{}={text}", part.attribute)?,
                    None => absent = true,
                }
            }
        }
        Ok(())
    };
    // Writing fails only if the line is full; the remaining parts are omitted then.
    let full = write_parts().is_err();
    if full {
        line.text.push_str("...");
        // Parts beyond the end may still be absent.
        absent |= parts.iter().any(|part| match part.attribute {
            Attribute::ClientIp => request.client_ip.is_none(),
            ref attribute => request.value(attribute, params).is_none(),
        });
    }
    (!absent).then_some(line.text)
}

/// Client address masked to the part's prefix.
#[inline]
fn masked(part: &KeyPart, client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(v4) => {
            let host_bits = 32u32.saturating_sub(part.ipv4_prefix.into());
            IpAddr::V4(Ipv4Addr::from(v4.to_bits() & u32::MAX.checked_shl(host_bits).unwrap_or(0)))
        }
        IpAddr::V6(v6) => {
            let host_bits = 128u32.saturating_sub(part.ipv6_prefix.into());
            IpAddr::V6(Ipv6Addr::from(v6.to_bits() & u128::MAX.checked_shl(host_bits).unwrap_or(0)))
        }
    }
}

fn write_address(line: &mut BoundedLine, address: IpAddr, part: &KeyPart) -> fmt::Result {
    let (prefix, whole) = match address {
        IpAddr::V4(_) => (part.ipv4_prefix, 32),
        IpAddr::V6(_) => (part.ipv6_prefix, 128),
    };
    if prefix >= whole { write!(line, "{address}") } else { write!(line, "{address}/{prefix}") }
}

/// Writer for a single line of bounded length.
#[derive(Default)]
struct BoundedLine {
    text: String,
    chars: usize,
}

impl Write for BoundedLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| self.write_char(c))
    }

    fn write_char(&mut self, c: char) -> fmt::Result {
        let escaped = c.escape_default();
        let chars = if needs_escape(c) { escaped.len() } else { 1 };
        if self.chars + chars > MAX_READABLE_CHARS - "...".len() {
            return Err(fmt::Error);
        }
        self.chars += chars;
        if needs_escape(c) {
            self.text.extend(escaped);
        } else {
            self.text.push(c);
        }
        Ok(())
    }
}

/// Control characters, line separators, bidirectional controls and invisible characters. The backslash is
/// included so that escapes are unambiguous.
fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\\' | '\u{2028}' | '\u{2029}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{061c}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;
    use std::slice;

    use proptest::prelude::*;

    use super::*;
    use crate::rule::AttributeMap;
    use crate::table::KeyHasher;

    /// Hasher that records the bytes.
    #[derive(Default, PartialEq, Eq, Debug)]
    struct RecordingHasher(Vec<u8>);

    impl Hasher for RecordingHasher {
        fn write(&mut self, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }

        fn finish(&self) -> u64 {
            self.0.len() as u64
        }
    }

    fn ip(text: &str, v4: u8, v6: u8) -> (Option<RecordingHasher>, Option<String>) {
        let parts = [KeyPart { attribute: Attribute::ClientIp, ipv4_prefix: v4, ipv6_prefix: v6 }];
        let request = Request::new("", "").with_client_ip(text.parse::<IpAddr>().unwrap());
        let mut bytes = RecordingHasher::default();
        let complete = hash_key(&parts, &request, &Params::new(), &mut bytes);
        (complete.then_some(bytes), readable_key(&parts, &request, &Params::new()))
    }

    fn keys(values: &[&str]) -> (Option<RecordingHasher>, Option<String>) {
        let attribute = |i| Attribute::custom(format!("a{i}"));
        let attributes: AttributeMap = values.iter().enumerate().map(|(i, value)| (attribute(i), *value)).collect();
        let parts: Vec<KeyPart> = (0..values.len()).map(|i| KeyPart::from(attribute(i))).collect();
        let request = Request::new("", "").with_attributes(&attributes);
        let mut bytes = RecordingHasher::default();
        let complete = hash_key(&parts, &request, &Params::new(), &mut bytes);
        (complete.then_some(bytes), readable_key(&parts, &request, &Params::new()))
    }

    #[test]
    fn addresses_are_masked_and_canonical() {
        assert_eq!(ip("203.0.113.9", 32, 64), ip("::ffff:203.0.113.9", 32, 64));
        assert_eq!(ip("2001:db8::1", 32, 64), ip("2001:db8::ffff:2", 32, 64));
        assert_ne!(ip("2001:db8::1", 32, 128).0, ip("2001:db8::2", 32, 128).0);
        assert_ne!(ip("0.0.0.0", 32, 64).0, ip("::", 32, 64).0);
        for (text, v4, v6, expected) in [
            ("203.0.113.9", 32, 64, "203.0.113.9"),
            ("203.0.113.9", 24, 64, "203.0.113.0/24"),
            ("203.0.113.9", 0, 0, "0.0.0.0/0"),
            ("203.0.113.9", 255, 255, "203.0.113.9"),
            ("2001:db8::1", 32, 64, "2001:db8::/64"),
            ("2001:db8::1", 32, 0, "::/0"),
            ("2001:db8::1", 32, 128, "2001:db8::1"),
        ] {
            assert_eq!(ip(text, v4, v6).1.as_deref(), Some(expected));
        }
    }

    #[test]
    fn part_boundaries_are_hashed() {
        assert_ne!(keys(&["a", "bc"]).0, keys(&["ab", "c"]).0);
        assert_ne!(keys(&["abc"]).0, keys(&["a", "bc"]).0);
        assert_ne!(keys(&["a\0"]).0, keys(&["a"]).0);
    }

    #[test]
    fn a_request_missing_a_part_has_no_key() {
        assert_eq!(keys(&["a", ""]), (None, None));
        let long = "x".repeat(1 << 20);
        assert_eq!(keys(&[&long, ""]), (None, None));
        let parts = [KeyPart::from(Attribute::ClientIp)];
        let request = Request::new("", "");
        assert!(!hash_key(&parts, &request, &Params::new(), &mut DefaultHasher::new()));
        assert_eq!(readable_key(&parts, &request, &Params::new()), None);
        assert!(hash_key(&[], &request, &Params::new(), &mut DefaultHasher::new()));
        assert_eq!(readable_key(&[], &request, &Params::new()).as_deref(), Some(""));
    }

    #[test]
    fn a_readable_key_escapes_line_breaks() {
        assert_eq!(keys(&["alice", "{b}"]).1.as_deref(), Some("a0=alice, a1={b}"));
        assert_eq!(keys(&["a\r\n\0\u{1b}[0m\u{202e}\\"]).1.as_deref(), Some(r"a0=a\r\n\u{0}\u{1b}[0m\u{202e}\\"));
        let long = keys(&[&"\u{e9}".repeat(1 << 20)]).1.unwrap();
        assert_eq!(long.chars().count(), MAX_READABLE_CHARS);
        assert!(long.ends_with("..."));
    }

    /// A ban replicated from another process must apply to the same key here.
    #[test]
    fn an_encoded_key_hashes_the_same() {
        let attributes = AttributeMap::new().with(Attribute::custom("account"), "alice");
        let (ip, account) = (KeyPart::from(Attribute::ClientIp), KeyPart::from(Attribute::custom("account")));
        for client in ["203.0.113.9", "2001:db8::1"] {
            let request = Request::new("", "").with_client_ip(client.parse::<IpAddr>().unwrap());
            let request = request.with_attributes(&attributes);
            let several = [ip.clone(), account.clone(), ip.clone()];
            for parts in [&[][..], slice::from_ref(&ip), slice::from_ref(&account), &several] {
                let (mut bytes, mut hasher, mut again) =
                    (RecordingHasher::default(), KeyHasher::new(7), KeyHasher::new(7));
                assert!(hash_key(parts, &request, &Params::new(), &mut bytes));
                assert!(hash_key(parts, &request, &Params::new(), &mut hasher));
                assert!(hash_encoded(&bytes.0, &mut again));
                assert_eq!(hasher.key(), again.key(), "{parts:?}");
                let cut = bytes.0.split_last().is_some_and(|(_, rest)| hash_encoded(rest, &mut again));
                assert!(!cut, "{parts:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn keys_are_equal_only_if_their_parts_are(
            a in prop::collection::vec("[ab\0]{1,3}", 1..4), b in prop::collection::vec("[ab\0]{1,3}", 1..4),
        ) {
            let borrowed = |values: &[String]| keys(&values.iter().map(String::as_str).collect::<Vec<_>>()).0;
            prop_assert_eq!(a == b, borrowed(&a) == borrowed(&b));
        }

        #[test]
        fn readable_keys_are_single_line_and_bounded(value: String, other in ".{0,300}") {
            if let Some(line) = keys(&[&value, &other]).1 {
                prop_assert!(line.chars().count() <= MAX_READABLE_CHARS);
                prop_assert!(!line.chars().any(char::is_control));
            }
        }
    }
}
