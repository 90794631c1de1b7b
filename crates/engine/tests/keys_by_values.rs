//! Keys addressed by their values: lookups and changes apply to the requests with these values.

use crate::support;

use std::net::IpAddr;

use proptest::prelude::*;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, AttributeMap, Ban, KeyPart, Request, Rule};
use sluicegate_engine::sluice::{ActiveBan, KeyError, KeyState};
use sluicegate_engine::{Limit, Rate, Sluice};
use support::*;

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap()
}

fn per_ip(limits: impl Into<Vec<Limit>>) -> Rule {
    Rule { key: vec![Attribute::ClientIp.into()], ..Rule::new("a", limits) }
}

fn from(ip: &str) -> Request<'static> {
    Request::new("GET", "/").with_client_ip(ip.parse::<IpAddr>().unwrap())
}

fn banning(lasting: std::time::Duration) -> Option<Ban> {
    Some(Ban { after: 3, within: secs(60), duration: lasting })
}

#[test]
fn a_key_lookup_reports_every_limit_and_takes_nothing() {
    let clock = ManualClock::new();
    let bucket = Limit::token_bucket(Rate::per_second(1).unwrap(), 2).unwrap();
    let inside = Limit::concurrency(3).unwrap();
    let sluice = sluice(&clock, [per_ip([bucket, inside])]);
    let peeked = || sluice.peek("a", &["203.0.113.9"]).unwrap();
    let fresh = peeked();
    assert_eq!((fresh.key.as_str(), fresh.banned, fresh.limits.len()), ("203.0.113.9", None, 2));
    assert_eq!((fresh.limits[0].limit, fresh.limits[0].remaining), (bucket, 2));
    let held = (sluice.decide(&from("203.0.113.9")), sluice.decide(&from("::ffff:203.0.113.9")));
    for _ in 0..3 {
        let [rate, permits] = peeked().limits.try_into().unwrap();
        assert_eq!((rate.remaining, rate.retry_after, rate.reset), (0, Some(secs(1)), secs(2)));
        assert_eq!((permits.limit, permits.remaining, permits.retry_after), (inside, 1, None));
    }
    assert_eq!(sluice.peek("a", &["203.0.113.8"]).unwrap().limits[0].remaining, 2);
    drop(held);
    assert_eq!(sluice.counts()[0].admitted, 2);
}

#[test]
fn a_reset_key_starts_fresh_but_keeps_permits_and_bans() {
    let clock = ManualClock::new();
    let limits = ["2/1h".parse().unwrap(), Limit::concurrency(2).unwrap()];
    let sluice = sluice(&clock, [Rule { ban: banning(secs(600)), ..per_ip(limits) }]);
    let held = sluice.decide(&from("203.0.113.9"));
    drop(sluice.decide(&from("203.0.113.9")));
    sluice.reset("a", &["203.0.113.9"]).unwrap();
    let [rate, permits] = sluice.peek("a", &["203.0.113.9"]).unwrap().limits.try_into().unwrap();
    assert_eq!((rate.remaining, permits.remaining), (2, 1));
    drop(held);
    sluice.ban("a", &["203.0.113.9"], None).unwrap();
    sluice.reset("a", &["203.0.113.9"]).unwrap();
    assert_eq!(sluice.peek("a", &["203.0.113.9"]).unwrap().banned, Some(secs(600)));
}

#[test]
fn a_manual_ban_behaves_like_any_other() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [Rule { ban: banning(secs(600)), ..per_ip(["2/1h".parse().unwrap()]) }]);
    let banned = |remaining| ActiveBan { rule: "a".to_owned(), key: "2001:db8::/64".to_owned(), remaining };
    assert_eq!(sluice.ban("a", &["2001:db8::1"], Some(secs(60))), Ok(banned(secs(60))));
    assert_eq!(sluice.bans(), [banned(secs(60))]);
    assert!(!sluice.decide(&from("2001:db8::2")).is_admitted(), "an address of the same network");
    assert!(sluice.decide(&from("2001:db8:1::")).is_admitted());
    clock.advance(secs(59));
    assert!(!sluice.decide(&from("2001:db8::2")).is_admitted());
    assert_eq!(sluice.counts()[0].banned, 2);
    clock.advance(secs(1));
    assert!(sluice.decide(&from("2001:db8::2")).is_admitted());

    assert_eq!(
        sluice.ban("a", &["2001:db8::/64"], Some(secs(9_999))),
        Ok(banned(secs(600))),
        "not longer than the rule's ban"
    );
    assert_eq!(sluice.ban("a", &["2001:db8::"], Some(secs(1))), Ok(banned(secs(600))), "the longer ban stays");
    assert!(sluice.lift_ban("a", "2001:db8::/64"));
    assert!(sluice.bans().is_empty());
    assert_eq!(sluice.ban("a", &["2001:db8::"], Some(secs(0))), Ok(banned(secs(0))));
    assert!(sluice.decide(&from("2001:db8::2")).is_admitted());
}

#[test]
fn invalid_lookups_are_rejected() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [per_ip(["2/1h".parse().unwrap()]), Rule::new("empty", [])]);
    let ip = ["203.0.113.9"];
    assert_eq!(sluice.peek("b", &ip), Err(KeyError::NoRule));
    assert_eq!(sluice.reset("a", &[]), Err(KeyError::Parts { expected: 1, given: 0 }));
    assert_eq!(sluice.ban("a", &ip, None), Err(KeyError::NoBan));
    let not_an_address = sluice.peek("a", &["alice"]).unwrap_err();
    assert_eq!(not_an_address.to_string(), "value 1 of the key must be an address, such as 203.0.113.9 or 2001:db8::1");
    assert!(matches!(sluice.peek("a", &[&"x".repeat(1 << 20)]), Err(KeyError::TooLong { .. })));
    let nothing = KeyState { key: String::new(), banned: None, limits: vec![] };
    assert_eq!(sluice.peek("empty", &[]), Ok(nothing));
}

/// Possible key parts, each with a value that a path can hold.
fn parts() -> impl Strategy<Value = Vec<(KeyPart, String)>> {
    let address = prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u16; 8]>().prop_map(IpAddr::from)];
    let ip = (address, 0..=40u8, 0..=130u8).prop_map(|(ip, v4, v6)| {
        (KeyPart { attribute: Attribute::ClientIp, ipv4_prefix: v4, ipv6_prefix: v6 }, ip.to_string())
    });
    let names =
        ["service", "host", "param['id']", "header['x']", "query['q']", "cookie['c']", "descriptor['d']", "account"];
    // A bare port, such as `:80`, is not a host.
    let text = (prop::sample::select(names.to_vec()), "[a-zA-Z0-9]([a-zA-Z0-9.:]{0,2}[a-zA-Z0-9])?");
    let text = text.prop_map(|(name, value)| (name.parse::<Attribute>().unwrap().into(), value));
    prop::collection::vec(prop_oneof![1 => ip, 3 => text], 0..5).prop_map(|mut parts| {
        let mut seen = Vec::new();
        parts.retain(|(part, _)| {
            let new = !seen.contains(&part.attribute);
            seen.push(part.attribute.clone());
            new
        });
        parts
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn values_and_requests_give_the_same_key(parts in parts()) {
        let clock = ManualClock::new();
        let (key, values): (Vec<KeyPart>, Vec<String>) = parts.into_iter().unzip();
        let mut rule = Rule { key: key.clone(), ban: banning(secs(60)), ..Rule::new("a", ["9/1h".parse().unwrap()]) };
        rule.target = "/{id}".parse().unwrap();
        let sluice = sluice(&clock, [rule]);

        let (mut path, mut attributes) = ("/none".to_owned(), AttributeMap::new());
        let mut request = Request::new("GET", "");
        for (part, value) in key.iter().zip(&values) {
            match &part.attribute {
                Attribute::ClientIp => request.client_ip = Some(value.parse().unwrap()),
                Attribute::Service => request.service = value,
                Attribute::Host => request.host = value,
                Attribute::Param(_) => path = format!("/{value}"),
                other => attributes.insert(other.clone(), value),
            }
        }
        let request = Request { path: &path, ..request }.with_attributes(&attributes);
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let left = || sluice.peek("a", &values).map(|state| state.limits[0].remaining);

        prop_assert_eq!(left(), Ok(9));
        prop_assert!(sluice.decide(&request).is_admitted());
        prop_assert_eq!(left(), Ok(8));
        let explained = sluice.explain(&request).rules.remove(0).key;
        prop_assert_eq!(sluice.peek("a", &values).map(|state| state.key).ok(), explained);
        sluice.reset("a", &values).unwrap();
        prop_assert_eq!(left(), Ok(9));
        sluice.ban("a", &values, None).unwrap();
        prop_assert!(!sluice.decide(&request).is_admitted());
        prop_assert_eq!(left(), Ok(9));
    }
}
