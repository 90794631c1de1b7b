//! Keys from attribute values, without a request.
//!
//! The values are put into a request, and the key is computed from it by the same code. So it equals the key of
//! any request with these values.

use std::net::IpAddr;

use super::request::canonical_host;
use super::{Attribute, AttributeMap, KeyPart, Params, Request};

/// Maximum total size of the values of one key, in bytes.
pub(crate) const MAX_VALUES_BYTES: usize = 64 << 10;

/// Error of values that make no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueError {
    /// Wrong number of values.
    Count { expected: usize, given: usize },
    /// Value that no request can have.
    Value { part: usize, expected: &'static str },
    /// More than [`MAX_VALUES_BYTES`] bytes.
    TooLong,
}

/// Calls `with_request` with a request that has these values, one for each part of a key.
pub(crate) fn with_values<R>(
    parts: &[KeyPart],
    values: &[&str],
    with_request: impl FnOnce(&Request<'_>, &Params<'_>) -> R,
) -> Result<R, ValueError> {
    if parts.len() != values.len() {
        return Err(ValueError::Count { expected: parts.len(), given: values.len() });
    }
    if values.iter().map(|value| value.len()).sum::<usize>() > MAX_VALUES_BYTES {
        return Err(ValueError::TooLong);
    }
    let mut request = Request::new("", "");
    let mut params = Params::new();
    let mut attributes = AttributeMap::new();
    for (position, (part, value)) in parts.iter().zip(values.iter().copied()).enumerate() {
        let wrong = |expected| ValueError::Value { part: position, expected };
        if value.is_empty() {
            return Err(wrong("a non-empty string: a request without it has no key"));
        }
        let mut before = parts.iter().zip(values).take(position);
        if before.any(|(known, other)| known.attribute == part.attribute && *other != value) {
            return Err(wrong("equal to the earlier value of the same attribute"));
        }
        match &part.attribute {
            Attribute::ClientIp => request.client_ip = Some(parse_address(part, value).map_err(wrong)?),
            Attribute::Service => request.service = value,
            Attribute::Method => request.method = value,
            Attribute::Host if canonical_host(value).is_empty() => return Err(wrong("a host name")),
            Attribute::Host => request.host = value,
            Attribute::Path => request.path = value,
            Attribute::Param(name) => params.push(name, value),
            attribute => attributes.insert(attribute.clone(), value),
        }
    }
    let request = request.with_attributes(&attributes);
    Ok(with_request(&request, &params))
}

/// Parses an address, or a network of exactly the part's prefix length, as in readable keys.
fn parse_address(part: &KeyPart, text: &str) -> Result<IpAddr, &'static str> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| "an address, such as 203.0.113.9 or 2001:db8::1")?;
    let prefix_len = match address.to_canonical() {
        IpAddr::V4(_) => part.ipv4_prefix,
        IpAddr::V6(_) => part.ipv6_prefix,
    };
    match prefix {
        Some(prefix) if prefix.parse() != Ok(prefix_len) => {
            Err("an address, or a network with the prefix length of the rule's key")
        }
        _ => Ok(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::key::readable_key;

    fn part(text: &str) -> KeyPart {
        text.parse::<Attribute>().unwrap().into()
    }

    fn key_of(parts: &[&str], values: &[&str]) -> Result<String, ValueError> {
        let parts: Vec<KeyPart> = parts.iter().map(|text| part(text)).collect();
        with_values(&parts, values, |request, params| readable_key(&parts, request, params).unwrap())
    }

    #[test]
    fn values_give_the_key_of_a_request() {
        for (name, value, key) in [
            ("client.ip", "203.0.113.9", "203.0.113.9"),
            ("client.ip", "203.0.113.9/32", "203.0.113.9"),
            ("client.ip", "::ffff:203.0.113.9", "203.0.113.9"),
            ("client.ip", "2001:db8::9", "2001:db8::/64"),
            ("client.ip", "2001:db8::/64", "2001:db8::/64"),
            ("host", "Shop.example:80", "host=shop.example"),
            ("param['id']", "7", "param['id']=7"),
            ("header['x-tier']", "vip", "header['x-tier']=vip"),
            ("account", "a, b", "account=a, b"),
            ("path", "/x", "path=/x"),
        ] {
            assert_eq!(key_of(&[name], &[value]).as_deref(), Ok(key), "{name} {value}");
        }
        assert_eq!(key_of(&[], &[]).as_deref(), Ok(""));
        assert_eq!(key_of(&["account", "account"], &["a", "a"]).as_deref(), Ok("account=a, account=a"));
    }

    #[test]
    fn impossible_values_are_rejected() {
        let long = "x".repeat(MAX_VALUES_BYTES + 1);
        assert_eq!(key_of(&["account"], &[]), Err(ValueError::Count { expected: 1, given: 0 }));
        assert_eq!(key_of(&[], &["a"]), Err(ValueError::Count { expected: 0, given: 1 }));
        assert_eq!(key_of(&["account"], &[&long]), Err(ValueError::TooLong));
        for (name, value) in [
            ("client.ip", "alice"),
            ("client.ip", "203.0.113.9/24"),
            ("client.ip", "2001:db8::/48"),
            ("client.ip", "2001:db8::/"),
            ("client.ip", "203.0.113.9 "),
            ("account", ""),
            ("host", ":80"),
        ] {
            let refused = key_of(&["method", name], &["GET", value]);
            assert!(matches!(refused, Err(ValueError::Value { part: 1, .. })), "{name} {value}: {refused:?}");
        }
        let refused = key_of(&["account", "account"], &["a", "b"]);
        assert!(matches!(refused, Err(ValueError::Value { part: 1, .. })));
    }
}
