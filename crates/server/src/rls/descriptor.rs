//! Descriptors as engine requests.

use std::borrow::Cow;
use std::net::IpAddr;

use sluicegate_engine::rule::{Attribute, Attributes, Direction, Request};

use super::proto::Entry;

/// The entry key with the client address, set by Envoy.
const CLIENT_ADDRESS_KEY: &str = "remote_address";

/// The key attribute of rules from the ratelimit configuration.
const DESCRIPTOR_ATTRIBUTE: &str = "descriptor";

/// Descriptor entries by key. The first of several with the same key counts.
pub(super) struct DescriptorEntries<'a>(pub(super) &'a [Entry]);

impl DescriptorEntries<'_> {
    fn value(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    }

    /// The engine request described by these entries.
    pub(super) fn request<'a>(&'a self, domain: &'a str) -> Request<'a> {
        let client_ip = self.value(CLIENT_ADDRESS_KEY).and_then(|address| address.parse::<IpAddr>().ok());
        Request { client_ip, ..base_request(domain).with_attributes(self) }
    }
}

impl Attributes for DescriptorEntries<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        let Attribute::Descriptor(key) = attribute else { return None };
        self.value(key).map(Cow::Borrowed)
    }
}

/// The key under which a limit of the ratelimit configuration counts.
pub(super) struct DescriptorKey(pub(super) String);

impl DescriptorKey {
    /// The engine request counted under this key.
    pub(super) fn request<'a>(&'a self, domain: &'a str) -> Request<'a> {
        base_request(domain).with_attributes(self)
    }
}

impl Attributes for DescriptorKey {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        match attribute {
            Attribute::Custom(name) if name == DESCRIPTOR_ATTRIBUTE => Some(Cow::Borrowed(&self.0)),
            _ => None,
        }
    }
}

fn base_request(domain: &str) -> Request<'_> {
    Request::new("", "").with_direction(Direction::Descriptor).with_service(domain)
}

/// Counter key of a limit override: unique for each set of entries.
pub(super) fn counter_key(domain: &str, entries: &[Entry]) -> Vec<u8> {
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
        let entries = DescriptorEntries(&entries);
        let request = entries.request("edge");
        assert_eq!(request.client_ip, "10.0.0.1".parse().ok());
        assert_eq!((request.direction, request.service, request.cost), (Direction::Descriptor, "edge", 1));
        assert_eq!(entries.get(&Attribute::Descriptor("path".to_owned())).as_deref(), Some("/a"));
        assert_eq!(entries.get(&Attribute::Descriptor("host".to_owned())), None);
        assert_eq!(entries.get(&Attribute::header("path")), None);
    }

    #[test]
    fn an_invalid_address_is_not_a_client_ip() {
        for value in ["", "10.0.0.1:80", "10.0.0.0/8", "localhost"] {
            assert_eq!(
                DescriptorEntries(&entries(&[("remote_address", value)])).request("edge").client_ip,
                None,
                "{value}"
            );
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
        let keys: HashSet<_> = sets.iter().map(|(domain, pairs)| counter_key(domain, &entries(pairs))).collect();
        assert_eq!(keys.len(), sets.len());
    }
}
