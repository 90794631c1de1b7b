//! Request description that rules are matched against.
//!
//! An adapter fills a [`Request`] with borrowed data and provides all other attributes through [`Attributes`]:
//! headers and cookies are looked up only if a rule uses them.
//!
//! An attribute with an empty value counts as absent, in keys, conditions and lists. nginx and Envoy do the same:
//! an empty key is not limited. Otherwise all clients that send an empty `x-account` would be counted as one
//! account.
//!
//! ```
//! use sluicegate_engine::rule::{Attribute, AttributeMap, Params, Request};
//!
//! let attributes = AttributeMap::new().with(Attribute::header("X-Tier"), "vip");
//! let request = Request::new("GET", "/items")
//!     .with_client_ip("::ffff:203.0.113.9".parse::<std::net::IpAddr>()?)
//!     .with_attributes(&attributes);
//!
//! let value = |name: &str| request.value(&name.parse().unwrap(), &Params::new()).map(|v| v.into_owned());
//! assert_eq!(value("header['x-tier']").as_deref(), Some("vip"));
//! assert_eq!(value("client.ip").as_deref(), Some("203.0.113.9")); // IPv4-mapped IPv6 becomes IPv4
//! assert_eq!(value("host"), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use super::{Attribute, Params};

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// Request from a client to us.
    #[default]
    Inbound,
    /// Request from us to another service.
    Outbound,
    /// Request described by descriptor entries, as from Envoy's rate limit filter. Rules of the other sides never
    /// match it: one request may be described several times.
    Descriptor,
}

/// Lookup of further request attributes: headers, query, cookies and custom attributes of an adapter.
pub trait Attributes {
    /// Value of an attribute, if the request has it.
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>>;
}

/// A request, with borrowed data.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Direction.
    pub direction: Direction,
    /// Called service.
    pub service: &'a str,
    /// The method.
    pub method: &'a str,
    /// Host of the request.
    pub host: &'a str,
    /// The path, without the query.
    pub path: &'a str,
    /// Client address.
    pub client_ip: Option<IpAddr>,
    /// Cost of the request, before multiplication by a rule's cost.
    pub cost: u64,
    /// Further attributes.
    pub attributes: &'a dyn Attributes,
}

impl<'a> Request<'a> {
    /// Creates an inbound request of cost 1 without further data.
    pub fn new(method: &'a str, path: &'a str) -> Self {
        Self {
            direction: Direction::Inbound,
            service: "",
            method,
            host: "",
            path,
            client_ip: None,
            cost: 1,
            attributes: &NoAttributes,
        }
    }

    /// Sets the direction.
    pub fn with_direction(self, direction: Direction) -> Self {
        Self { direction, ..self }
    }

    /// Sets the called service.
    pub fn with_service(self, service: &'a str) -> Self {
        Self { service, ..self }
    }

    /// Sets the host.
    pub fn with_host(self, host: &'a str) -> Self {
        Self { host, ..self }
    }

    /// Sets the client address.
    pub fn with_client_ip(self, client_ip: impl Into<IpAddr>) -> Self {
        Self { client_ip: Some(client_ip.into()), ..self }
    }

    /// Sets the cost.
    pub fn with_cost(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    /// Sets further attributes.
    pub fn with_attributes(self, attributes: &'a dyn Attributes) -> Self {
        Self { attributes, ..self }
    }

    /// Client address; IPv4-mapped IPv6 becomes IPv4.
    #[inline]
    pub fn canonical_ip(&self) -> Option<IpAddr> {
        self.client_ip.map(|ip| ip.to_canonical())
    }

    /// Canonical host: in lower case, without port and trailing dot.
    pub fn host_name(&self) -> Cow<'a, str> {
        canonical_host(self.host)
    }

    /// Value of an attribute; `params` are those of the matched path pattern. An empty value counts as absent.
    pub fn value<'v>(&self, attribute: &Attribute, params: &'v Params<'_>) -> Option<Cow<'v, str>>
    where
        'a: 'v,
    {
        let value = match attribute {
            Attribute::ClientIp => return self.canonical_ip().map(|ip| Cow::Owned(ip.to_string())),
            Attribute::Service => Cow::Borrowed(self.service),
            Attribute::Method => Cow::Borrowed(self.method),
            Attribute::Host => self.host_name(),
            Attribute::Path => Cow::Borrowed(self.path),
            Attribute::Param(name) => Cow::Borrowed(params.get(name)?),
            Attribute::Header(_)
            | Attribute::Query(_)
            | Attribute::Cookie(_)
            | Attribute::Descriptor(_)
            | Attribute::Custom(_) => self.attributes.get(attribute)?,
        };
        (!value.is_empty()).then_some(value)
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("direction", &self.direction)
            .field("service", &self.service)
            .field("method", &self.method)
            .field("host", &self.host)
            .field("path", &self.path)
            .field("client_ip", &self.client_ip)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// Host in lower case, without port and trailing dot.
pub(super) fn canonical_host(host: &str) -> Cow<'_, str> {
    let name = match host.rsplit_once(':') {
        // The colons of an IPv6 address are inside brackets; the port follows them.
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.contains(':') | name.ends_with(']') => {
            name
        }
        _ => host,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

/// Empty set of attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoAttributes;

impl Attributes for NoAttributes {
    fn get(&self, _: &Attribute) -> Option<Cow<'_, str>> {
        None
    }
}

/// Attributes in a map, for adapters without a lookup of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeMap {
    values: BTreeMap<Attribute, String>,
}

impl AttributeMap {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an attribute or replaces its value.
    #[must_use]
    pub fn with(mut self, attribute: Attribute, value: impl Into<String>) -> Self {
        self.insert(attribute, value);
        self
    }

    /// Adds an attribute or replaces its value.
    pub fn insert(&mut self, attribute: Attribute, value: impl Into<String>) {
        self.values.insert(attribute, value.into());
    }
}

impl Attributes for AttributeMap {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        self.values.get(attribute).map(|value| Cow::Borrowed(value.as_str()))
    }
}

impl<V: Into<String>> FromIterator<(Attribute, V)> for AttributeMap {
    fn from_iter<I: IntoIterator<Item = (Attribute, V)>>(values: I) -> Self {
        Self { values: values.into_iter().map(|(attribute, value)| (attribute, value.into())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_resolved() {
        let attributes =
            AttributeMap::new().with(Attribute::custom("account"), "alice").with(Attribute::custom("empty"), "");
        let request = Request::new("GET", "/x")
            .with_service("shop")
            .with_host("Shop.example:8080")
            .with_client_ip([203, 0, 113, 9])
            .with_attributes(&attributes);
        let mut params = Params::new();
        params.push("id", "7");
        params.push("rest", "");
        for (name, expected) in [
            ("client.ip", Some("203.0.113.9")),
            ("service", Some("shop")),
            ("method", Some("GET")),
            ("host", Some("shop.example")),
            ("path", Some("/x")),
            ("param['id']", Some("7")),
            ("param['other']", None),
            ("param['rest']", None),
            ("account", Some("alice")),
            ("empty", None),
            ("header['x']", None),
        ] {
            let attribute: Attribute = name.parse().unwrap();
            assert_eq!(request.value(&attribute, &params).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn addresses_are_canonical() {
        for (text, expected) in [("::ffff:1.2.3.4", "1.2.3.4"), ("2001:DB8:0::1", "2001:db8::1")] {
            let request = Request::new("", "").with_client_ip(text.parse::<IpAddr>().unwrap());
            assert_eq!(request.value(&Attribute::ClientIp, &Params::new()).as_deref(), Some(expected));
        }
    }

    #[test]
    fn hosts_are_canonical() {
        for (host, name) in [
            ("shop.example", "shop.example"),
            ("SHOP.example.", "shop.example"),
            ("shop.example:80", "shop.example"),
            ("shop.example.:80", "shop.example"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("::1", "::1"),
            ("", ""),
            (":", ""),
        ] {
            assert_eq!(canonical_host(host), name, "{host}");
        }
    }
}
