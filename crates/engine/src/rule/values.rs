//! A key given by its values, for whoever has those and no request.
//!
//! The values are put where a request has them, and the key is made from that request: so it is the same as
//! that of any request with these values, because the same code makes it.

use std::net::IpAddr;

use super::request::canonical_host;
use super::{Attribute, AttributeMap, KeyPart, Params, Request};

/// How many bytes the values of one key may have together.
pub(crate) const LONGEST_VALUES: usize = 64 << 10;

/// Why values make no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueError {
    /// There is not one for each part.
    Count { expected: usize, given: usize },
    /// No request can have this one.
    Value { part: usize, expected: &'static str },
    /// They have more than [`LONGEST_VALUES`] bytes.
    TooLong,
}

/// Shows a request that has these values, one for each part of a key.
pub(crate) fn with_values<R>(
    parts: &[KeyPart],
    values: &[&str],
    look: impl FnOnce(&Request<'_>, &Params<'_>) -> R,
) -> Result<R, ValueError> {
    if parts.len() != values.len() {
        return Err(ValueError::Count { expected: parts.len(), given: values.len() });
    }
    if values.iter().map(|value| value.len()).sum::<usize>() > LONGEST_VALUES {
        return Err(ValueError::TooLong);
    }
    let mut request = Request::new("", "");
    let mut params = Params::new();
    let mut attributes = AttributeMap::new();
    for (position, (part, value)) in parts.iter().zip(values.iter().copied()).enumerate() {
        let wrong = |expected| ValueError::Value { part: position, expected };
        if value.is_empty() {
            return Err(wrong("a text that is not empty: a request without it has no key"));
        }
        let mut before = parts.iter().zip(values).take(position);
        if before.any(|(known, other)| known.attribute == part.attribute && *other != value) {
            return Err(wrong("the same as where the key names the same attribute before"));
        }
        match &part.attribute {
            Attribute::ClientIp => request.client_ip = Some(read_address(part, value).map_err(wrong)?),
            Attribute::Service => request.service = value,
            Attribute::Method => request.method = value,
            Attribute::Host if canonical_host(value).is_empty() => return Err(wrong("a host")),
            Attribute::Host => request.host = value,
            Attribute::Path => request.path = value,
            Attribute::Param(name) => params.push(name, value),
            attribute => attributes.insert(attribute.clone(), value),
        }
    }
    let request = request.with_attributes(&attributes);
    Ok(look(&request, &params))
}

/// An address, or a network of just the size the part cuts addresses to: so are keys written for people.
fn read_address(part: &KeyPart, text: &str) -> Result<IpAddr, &'static str> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| "an address, such as 203.0.113.9 or 2001:db8::1")?;
    let own = match address.to_canonical() {
        IpAddr::V4(_) => part.ipv4_prefix,
        IpAddr::V6(_) => part.ipv6_prefix,
    };
    match prefix {
        Some(prefix) if prefix.parse() != Ok(own) => Err("an address, or a network of the size the rule counts by"),
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

    fn read(parts: &[&str], values: &[&str]) -> Result<String, ValueError> {
        let parts: Vec<KeyPart> = parts.iter().map(|text| part(text)).collect();
        with_values(&parts, values, |request, params| readable_key(&parts, request, params).unwrap())
    }

    #[test]
    fn values_are_read_as_a_requests_would_be() {
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
            assert_eq!(read(&[name], &[value]).as_deref(), Ok(key), "{name} {value}");
        }
        assert_eq!(read(&[], &[]).as_deref(), Ok(""));
        assert_eq!(read(&["account", "account"], &["a", "a"]).as_deref(), Ok("account=a, account=a"));
    }

    #[test]
    fn what_no_request_can_have_is_refused() {
        let long = "x".repeat(LONGEST_VALUES + 1);
        assert_eq!(read(&["account"], &[]), Err(ValueError::Count { expected: 1, given: 0 }));
        assert_eq!(read(&[], &["a"]), Err(ValueError::Count { expected: 0, given: 1 }));
        assert_eq!(read(&["account"], &[&long]), Err(ValueError::TooLong));
        for (name, value) in [
            ("client.ip", "alice"),
            ("client.ip", "203.0.113.9/24"),
            ("client.ip", "2001:db8::/48"),
            ("client.ip", "2001:db8::/"),
            ("client.ip", "203.0.113.9 "),
            ("account", ""),
            ("host", ":80"),
        ] {
            let refused = read(&["method", name], &["GET", value]);
            assert!(matches!(refused, Err(ValueError::Value { part: 1, .. })), "{name} {value}: {refused:?}");
        }
        let refused = read(&["account", "account"], &["a", "b"]);
        assert!(matches!(refused, Err(ValueError::Value { part: 1, .. })));
    }
}
