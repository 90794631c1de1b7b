//! A descriptor as a request of the engine.

use std::borrow::Cow;
use std::net::IpAddr;

use sluicegate_engine::rule::{Attribute, Attributes, Request, Side};

use super::proto::Entry;

/// The entry in which Envoy says who the client is.
const CLIENT: &str = "remote_address";

/// The attribute that rules of the reference's files count by.
const COUNTED: &str = "descriptor";

/// Entries, looked up by their keys. Of several with the same key, the first.
pub(super) struct Entries<'a>(pub(super) &'a [Entry]);

impl Entries<'_> {
    fn value(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    }

    /// The request that these entries describe.
    pub(super) fn request<'a>(&'a self, domain: &'a str) -> Request<'a> {
        let client_ip = self.value(CLIENT).and_then(|address| address.parse::<IpAddr>().ok());
        Request { client_ip, ..described(domain).with_attributes(self) }
    }
}

impl Attributes for Entries<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        let Attribute::Descriptor(key) = attribute else { return None };
        self.value(key).map(Cow::Borrowed)
    }
}

/// What one limit of the reference's files counts apart.
pub(super) struct Counted(pub(super) String);

impl Counted {
    /// The request that is counted under it.
    pub(super) fn request<'a>(&'a self, domain: &'a str) -> Request<'a> {
        described(domain).with_attributes(self)
    }
}

impl Attributes for Counted {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        match attribute {
            Attribute::Custom(name) if name == COUNTED => Some(Cow::Borrowed(&self.0)),
            _ => None,
        }
    }
}

fn described(domain: &str) -> Request<'_> {
    Request::new("", "").with_side(Side::Descriptor).with_service(domain)
}

/// A key for the counter of a limit that came with the descriptor: no two sets of entries have the same.
pub(super) fn counter(domain: &str, entries: &[Entry]) -> Vec<u8> {
    let texts = || entries.iter().flat_map(|entry| [entry.key.as_str(), entry.value.as_str()]);
    let mut key = Vec::with_capacity(domain.len() + 8 + texts().map(|text| text.len() + 8).sum::<usize>());
    for text in [domain].into_iter().chain(texts()) {
        key.extend_from_slice(&(text.len() as u64).to_le_bytes());
        key.extend_from_slice(text.as_bytes());
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn entries(pairs: &[(&str, &str)]) -> Vec<Entry> {
        pairs.iter().map(|(key, value)| Entry { key: (*key).to_owned(), value: (*value).to_owned() }).collect()
    }

    #[test]
    fn entries_are_found_by_their_keys() {
        let entries = entries(&[("remote_address", "10.0.0.1"), ("path", "/a"), ("path", "/b")]);
        let entries = Entries(&entries);
        let request = entries.request("edge");
        assert_eq!(request.client_ip, "10.0.0.1".parse().ok());
        assert_eq!((request.side, request.service, request.cost), (Side::Descriptor, "edge", 1));
        assert_eq!(entries.get(&Attribute::Descriptor("path".to_owned())).as_deref(), Some("/a"));
        assert_eq!(entries.get(&Attribute::Descriptor("host".to_owned())), None);
        assert_eq!(entries.get(&Attribute::header("path")), None);
    }

    #[test]
    fn what_is_no_address_is_no_client() {
        for value in ["", "10.0.0.1:80", "10.0.0.0/8", "localhost"] {
            assert_eq!(Entries(&entries(&[("remote_address", value)])).request("edge").client_ip, None, "{value}");
        }
    }

    #[test]
    fn no_two_sets_of_entries_share_a_counter() {
        let sets: [(&str, &[(&str, &str)]); 6] = [
            ("d", &[("a", "b")]),
            ("d", &[("ab", "")]),
            ("d", &[("a", "b"), ("c", "")]),
            ("d", &[("a", "bc")]),
            ("da", &[("", "b")]),
            ("d", &[("a", ""), ("b", "c")]),
        ];
        let keys: HashSet<_> = sets.iter().map(|(domain, pairs)| counter(domain, &entries(pairs))).collect();
        assert_eq!(keys.len(), sets.len());
    }
}
