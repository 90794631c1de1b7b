//! Allow and deny lists, checked before any rule.
//!
//! Entries are conditions. The allow list comes first and wins: it is for requests that must pass regardless of
//! rules and deny list, such as health checks and internal networks, like an nginx `geo` block before the limits.
//! So a broad deny entry can have exceptions.
//!
//! Lists can be long: blocked addresses, accounts. Networks go into a prefix trie, equalities into a hash table,
//! alternatives (`a || b`) are split into both; a hundred thousand of them cost one lookup. Only the other
//! conditions are evaluated one by one.
//!
//! ```
//! use sluicegate_engine::rule::{Expr, ListHit, ListIndex, Lists, Request};
//!
//! let lists = Lists {
//!     allow: vec![Expr::parse("client.ip in 10.1.0.0/16")?],
//!     deny: vec![Expr::parse("account == 'mallory'")?, Expr::parse("client.ip in 10.0.0.0/8")?],
//! };
//! let index = ListIndex::build(&lists);
//! let from = |ip: [u8; 4]| index.check(&Request::new("GET", "/").with_client_ip(ip));
//! assert_eq!(from([10, 1, 2, 3]), Some(ListHit::Allow(0)));
//! assert_eq!(from([10, 2, 2, 3]), Some(ListHit::Deny(1)));
//! assert_eq!(from([192, 0, 2, 1]), None);
//! # Ok::<(), sluicegate_engine::rule::ExprError>(())
//! ```

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;
use rapidhash::RapidHashMap;

use super::{Attribute, Expr, Params, Request};

/// Allow and deny lists, as data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Requests that match are admitted without limits.
    pub allow: Vec<Expr>,
    /// Requests that match are refused, unless allowed.
    pub deny: Vec<Expr>,
}

/// Matching entry, by its position in its list. If several match, the narrowest network is reported before an
/// equal value, and that before any other condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListHit {
    /// Admitted by this entry of the allow list.
    Allow(usize),
    /// Refused by this entry of the deny list.
    Deny(usize),
}

/// Index of the lists.
#[derive(Clone, Debug, Default)]
pub struct ListIndex {
    allow: ExprList,
    deny: ExprList,
}

impl ListIndex {
    /// Builds the index.
    pub fn build(lists: &Lists) -> Self {
        Self { allow: ExprList::build(&lists.allow), deny: ExprList::build(&lists.deny) }
    }

    /// Checks a request against the lists. Path parameters are not known here: an entry that uses one finds it
    /// absent.
    pub fn check(&self, request: &Request<'_>) -> Option<ListHit> {
        if self.allow.is_empty() && self.deny.is_empty() {
            return None;
        }
        let allow = self.allow.find(request).map(ListHit::Allow);
        allow.or_else(|| self.deny.find(request).map(ListHit::Deny))
    }
}

/// Index of one list.
#[derive(Clone, Debug, Default)]
struct ExprList {
    /// Values looked up by attribute.
    by_attribute: Vec<(Attribute, AttributeValues)>,
    /// Conditions evaluated one by one.
    conditions: Vec<(Expr, usize)>,
}

/// Values of one attribute, with the entry of each.
#[derive(Clone, Debug, Default)]
struct AttributeValues {
    v4: PrefixMap<Ipv4Net, usize>,
    v6: PrefixMap<Ipv6Net, usize>,
    texts: RapidHashMap<Box<str>, usize>,
}

impl ExprList {
    const fn is_empty(&self) -> bool {
        self.by_attribute.is_empty() && self.conditions.is_empty()
    }

    fn build(entries: &[Expr]) -> Self {
        let mut list = Self::default();
        for (position, entry) in entries.iter().enumerate() {
            list.add(entry, position);
        }
        list
    }

    /// Adds an entry, or a part of one. Of duplicates the first wins.
    fn add(&mut self, entry: &Expr, position: usize) {
        match entry {
            Expr::Any(alternatives) => alternatives.iter().for_each(|entry| self.add(entry, position)),
            Expr::InNetwork(attribute, networks) => {
                let values = self.values_of(attribute);
                for network in networks {
                    match network.trunc() {
                        IpNet::V4(network) => *values.v4.entry(network).or_insert(position),
                        IpNet::V6(network) => *values.v6.entry(network).or_insert(position),
                    };
                }
            }
            Expr::OneOf(attribute, texts) => {
                let values = self.values_of(attribute);
                for text in texts {
                    values.texts.entry(text.as_str().into()).or_insert(position);
                }
            }
            other => self.conditions.push((other.clone(), position)),
        }
    }

    fn values_of(&mut self, attribute: &Attribute) -> &mut AttributeValues {
        let known = self.by_attribute.iter().position(|(known, _)| known == attribute);
        let at = known.unwrap_or_else(|| {
            self.by_attribute.push((attribute.clone(), AttributeValues::default()));
            self.by_attribute.len() - 1
        });
        &mut self.by_attribute[at].1
    }

    fn find(&self, request: &Request<'_>) -> Option<usize> {
        let params = Params::new();
        let by_value = self.by_attribute.iter().find_map(|(attribute, values)| values.find(attribute, request));
        by_value.or_else(|| {
            self.conditions.iter().find(|(entry, _)| entry.holds(request, &params)).map(|(_, position)| *position)
        })
    }
}

impl AttributeValues {
    fn find(&self, attribute: &Attribute, request: &Request<'_>) -> Option<usize> {
        if *attribute == Attribute::ClientIp && self.texts.is_empty() {
            return self.find_address(request.canonical_ip()?);
        }
        let params = Params::new();
        let value = request.value(attribute, &params)?;
        let has_networks = !self.v4.is_empty() || !self.v6.is_empty();
        let address = value.parse::<IpAddr>().ok().filter(|_| has_networks);
        let network = address.and_then(|address| self.find_address(address.to_canonical()));
        network.or_else(|| self.texts.get(value.as_ref()).copied())
    }

    fn find_address(&self, address: IpAddr) -> Option<usize> {
        match address {
            IpAddr::V4(v4) => self.v4.get_lpm(&Ipv4Net::from(v4)).map(|(_, position)| *position),
            IpAddr::V6(v6) => self.v6.get_lpm(&Ipv6Net::from(v6)).map(|(_, position)| *position),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rule::AttributeMap;

    fn exprs(texts: &[&str]) -> Vec<Expr> {
        texts.iter().map(|text| Expr::parse(text).unwrap()).collect()
    }

    #[test]
    fn the_matching_entry_is_reported() {
        let lists = Lists {
            allow: exprs(&["header['x-probe'] == 'health'", "client.ip in [10.1.0.0/16, ::1]"]),
            deny: exprs(&[
                "account == 'mallory' || client.ip in 192.0.2.0/24",
                "account in ['eve', 'mallory']",
                "path.startsWith('/admin') && !has(account)",
                "client.ip in 10.0.0.0/8",
                "client.ip in 10.2.0.0/16",
                "header['x-real-ip'] in 198.51.100.0/24",
            ]),
        };
        let index = ListIndex::build(&lists);
        for (path, ip, attributes, expected) in [
            ("/", "203.0.113.1", vec![], None),
            ("/", "10.1.2.3", vec![], Some(ListHit::Allow(1))),
            ("/", "::ffff:10.1.2.3", vec![], Some(ListHit::Allow(1))),
            ("/", "::1", vec![], Some(ListHit::Allow(1))),
            ("/", "10.2.0.1", vec![("header['x-probe']", "health")], Some(ListHit::Allow(0))),
            ("/", "10.2.0.1", vec![], Some(ListHit::Deny(4))),
            ("/", "10.3.0.1", vec![], Some(ListHit::Deny(3))),
            ("/", "192.0.2.7", vec![], Some(ListHit::Deny(0))),
            ("/", "203.0.113.1", vec![("account", "mallory")], Some(ListHit::Deny(0))),
            ("/", "203.0.113.1", vec![("account", "eve")], Some(ListHit::Deny(1))),
            ("/admin", "203.0.113.1", vec![], Some(ListHit::Deny(2))),
            ("/admin", "203.0.113.1", vec![("account", "bob")], None),
            ("/", "203.0.113.1", vec![("header['x-real-ip']", "198.51.100.7")], Some(ListHit::Deny(5))),
            ("/", "203.0.113.1", vec![("header['x-real-ip']", "nonsense")], None),
        ] {
            let attributes: AttributeMap =
                attributes.into_iter().map(|(name, value)| (name.parse().unwrap(), value)).collect();
            let request =
                Request::new("GET", path).with_client_ip(ip.parse::<IpAddr>().unwrap()).with_attributes(&attributes);
            assert_eq!(index.check(&request), expected, "{path} {ip} {attributes:?}");
        }
    }

    #[test]
    fn a_hundred_thousand_networks_share_one_trie() {
        let deny: Vec<Expr> = (0..100_000u32)
            .map(|i| {
                let network = Ipv4Net::new(std::net::Ipv4Addr::from_bits(i << 8), 24).unwrap();
                Expr::InNetwork(Attribute::ClientIp, vec![network.into()])
            })
            .collect();
        let index = ListIndex::build(&Lists { allow: vec![], deny });
        assert!(index.deny.conditions.is_empty());
        assert_eq!(index.deny.by_attribute.len(), 1);
        let from = |ip: u32| index.check(&Request::new("", "").with_client_ip(ip.to_be_bytes()));
        assert_eq!(from(77_777 << 8 | 9), Some(ListHit::Deny(77_777)));
        assert_eq!(from(100_000 << 8), None);
    }

    #[test]
    fn empty_lists_match_nothing() {
        assert_eq!(ListIndex::default().check(&Request::new("GET", "/")), None);
        let never = Lists { allow: vec![], deny: exprs(&["false"]) };
        assert_eq!(ListIndex::build(&never).check(&Request::new("GET", "/")), None);
        let always = Lists { allow: vec![], deny: exprs(&["true"]) };
        assert_eq!(ListIndex::build(&always).check(&Request::new("GET", "/")), Some(ListHit::Deny(0)));
    }

    proptest! {
        #[test]
        fn a_list_matches_exactly_if_an_entry_holds(
            entries in prop::collection::vec((any::<u32>(), 0..=6u8, any::<bool>()), 0..6),
            ip: u32,
            account in "[a-c]?",
        ) {
            let entries: Vec<Expr> = entries
                .into_iter()
                .map(|(bits, prefix, by_ip)| match by_ip {
                    true => Expr::InNetwork(
                        Attribute::ClientIp,
                        vec![IpNet::new(IpAddr::from(bits.to_be_bytes()), prefix).unwrap()],
                    ),
                    false => {
                        let names = ["a", "b", "c", "d"].map(String::from);
                        Expr::OneOf(Attribute::custom("account"), names[usize::from(prefix % 4)..][..1].to_vec())
                    }
                })
                .collect();
            let attributes = AttributeMap::new().with(Attribute::custom("account"), account);
            let request = Request::new("", "").with_client_ip(ip.to_be_bytes()).with_attributes(&attributes);
            let holding: Vec<usize> =
                (0..entries.len()).filter(|i| entries[*i].holds(&request, &Params::new())).collect();
            let hit = ListIndex::build(&Lists { allow: vec![], deny: entries }).check(&request);
            match hit {
                Some(ListHit::Deny(position)) => prop_assert!(holding.contains(&position)),
                other => prop_assert!(other.is_none() && holding.is_empty(), "{:?} {:?}", other, holding),
            }
        }
    }
}
